// Content hashes: SHA-256 (integrity, lower-case hex) through OpenSSL, 64-bit xxHash (cheap keys).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

/// Incremental SHA-256.
class Sha256 {
public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256 &) = delete;
  Sha256 &operator=(const Sha256 &) = delete;
  void update(const void *bytes, size_t size);
  void update(std::string_view text) { update(text.data(), text.size()); }
  /// The digest; the object may not be updated afterwards.
  std::array<uint8_t, 32> finish();

private:
  void *context;
};

std::string toHex(const std::array<uint8_t, 32> &digest);
/// SHA-256 of `bytes` as 64 lower-case hex digits.
std::string sha256Hex(std::string_view bytes);
/// xxHash3, 64 bit.
uint64_t xxhash64(std::string_view bytes, uint64_t seed = 0);

} // namespace sluice
