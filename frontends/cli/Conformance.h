// `doctor --conformance`: every command of an executable on a device, beside the same command on the CPU.
#pragma once

#include "runtime/device/Device.h"
#include "runtime/schema/ExecutableDescription.h"

#include <string>
#include <vector>

namespace sluice::cli {

/// Relative L2 distance that float32 results may have (design section 10); integers must be equal.
constexpr double conformanceLimit = 1e-5;

/// Commands of one kind.
struct ConformanceRow {
  std::string kind;  // generated kernels are of kind "launch"
  int commands = 0;  // compared
  double worst = 0;  // largest relative L2 distance of one result; infinite where integers differ, or a value
                     // is finite on one device only
  std::string where; // entry point, origin and result of the worst
  bool conforms() const { return worst <= conformanceLimit; }
};

/// Runs each command of entry points init, accumulate, accumulate_dense, apply, update_topology, eval and
/// logits, where the executable has them, on `reference` and on `device`, each time from the reference's
/// memory, so that nothing that one command does wrong reaches another. Initial values and texts are drawn
/// from `seed`. The right results are computed and not stored: the CPU's kernels are tested against float64
/// formulas, and so the executable's own shapes and generated kernels can be checked. Rows are sorted by
/// kind. Errors: the devices' own.
StatusOr<std::vector<ConformanceRow>> checkConformance(const Executable &executable, Device &reference,
                                                       Device &device, int64_t seed);

/// The rows as a table in at most 100 columns.
std::string conformanceTable(const std::vector<ConformanceRow> &rows);

} // namespace sluice::cli
