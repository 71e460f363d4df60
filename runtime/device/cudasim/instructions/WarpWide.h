// The decoder of warp-wide instructions, which bar.warp.sync shares.
#pragma once

#include "runtime/device/cudasim/program/Decoder.h"

namespace sluice::cudasim {

Status decodeWarpWide(Decoder &decoder, const ptx::Instruction &instruction);

} // namespace sluice::cudasim
