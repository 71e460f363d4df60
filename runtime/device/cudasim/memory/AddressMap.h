// The device's address space. No address in it is canonical on the host, so a host program that reads through
// a device pointer stops at once.
#pragma once

#include <cstdint>

namespace sluice::cudasim {

constexpr uint64_t kGlobalBase = uint64_t(1) << 48;
/// Windows through which generic addresses reach the other spaces.
constexpr uint64_t kSharedWindow = uint64_t(1) << 49;
constexpr uint64_t kLocalWindow = kSharedWindow + (uint64_t(1) << 32);
constexpr uint64_t kParamWindow = kSharedWindow + (uint64_t(2) << 32);
constexpr uint64_t kWindowBytes = uint64_t(1) << 32;

} // namespace sluice::cudasim
