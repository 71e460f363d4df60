// What a user of the simulator can choose, in the environment (SLUICE_CUDASIM) or by cudasimConfigure().
#pragma once

#include "runtime/device/cudasim/checks/Findings.h"
#include "runtime/support/Status.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::cudasim {

struct Settings {
  CheckSet checks;                      // check=memory,init,race,barrier,launch
  uint64_t seed = 0;                    // seed=N: order of streams, blocks and warps; 0 is the natural order
  int threads = 0;                      // threads=N; 0: one a core
  int architecture = 80;                // arch=80: the compute capability that the device reports
  uint64_t memory = uint64_t(16) << 30; // memory=BYTES of the device
  bool statistics = false;              // statistics=1: count sectors and bank conflicts
  std::string report;                   // report=FILE: statistics of each launch as JSON lines
};

/// Changes `settings` by "key=value;key=value". Errors (usage): an unknown key or a bad value.
Status applySettings(std::string_view text, Settings &settings);

} // namespace sluice::cudasim
