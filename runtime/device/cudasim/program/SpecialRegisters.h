// Names of the registers that the hardware fills.
#pragma once

#include "runtime/device/cudasim/program/Program.h"

#include <optional>
#include <string_view>

namespace sluice::cudasim {

struct SpecialRegister {
  Special special;
  uint8_t bytes;
};

/// The special register `name` ("%tid.x"), nullopt for another name. Clocks are not here: they are read by
/// an instruction of their own.
std::optional<SpecialRegister> findSpecialRegister(std::string_view name);

} // namespace sluice::cudasim
