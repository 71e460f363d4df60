// The weights of a Hugging Face folder against the parameters of the graph made from its config.json.
#pragma once

#include "runtime/support/Status.h"

#include "mlir/IR/BuiltinOps.h"

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

/// What a comparison found. Only headers are read; every field of them is checked.
struct WeightReport {
  size_t tensors = 0, files = 0;
  uint64_t elements = 0;            // of the tensors that parameters need
  std::vector<std::string> missing; // names that parameters need
  std::vector<std::string> extra;   // names that nothing takes, with their shapes
  std::vector<std::string>
      mismatch; // "name: expected [8, 4], found [4, 8]"; also element types that are no weights
};

/// Whether the folder holds model.safetensors or its index.
bool hasWeights(const std::string &folder);

/// Compares names and shapes. Buffers that checkpoints of public libraries carry beside their weights (rotary
/// frequencies, attention masks), and a head beside the table it is tied to, are not extra. Errors (bad
/// input): a damaged file.
StatusOr<WeightReport> checkWeights(mlir::ModuleOp module, const std::string &folder);

/// The findings as one bad-input error naming the folder, at most `most` of each kind; OK if there are none.
Status weightStatus(const WeightReport &report, const std::string &folder, size_t most = 10);

} // namespace sluice
