// The prepare functions of all command kinds on CUDA; docs/commands.md says what they compute. The kernels
// that they launch are in codegen/cuda/library.
#pragma once

#include "runtime/device/CommandKinds.h"
#include "runtime/device/cuda/Kernel.h"

#include <functional>

namespace sluice::cuda {

#define SLUICE_CUDA_DECLARE(kind, function) StatusOr<PreparedKernel> function(PrepareContext &context);
SLUICE_COMMAND_KINDS(SLUICE_CUDA_DECLARE)
#undef SLUICE_CUDA_DECLARE

/// Appends the product's launch without its four leading pointers' values: the caller gives them, c, a, b,
/// bias.
Launch &launchProduct(PreparedKernel &kernel, const DenseProduct &product,
                      const std::function<void(Launch &)> &pointers);

/// Writes `values` to device memory that `kernel` keeps; returns their place. Errors: no memory.
StatusOr<const std::byte *> keepConstant(PrepareContext &context, PreparedKernel &kernel,
                                         const std::vector<float> &values);

/// A routing buffer of `tokens` tokens; experts from the buffer's size.
RoutingParameter routingParameter(Arguments &arguments, const Tensor &buffer, int64_t tokens);
/// The same where no operand has the tokens: the routed rows are known.
RoutingParameter routingOfRows(Arguments &arguments, const Tensor &buffer, int64_t rows);

} // namespace sluice::cuda
