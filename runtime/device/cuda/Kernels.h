// The prepare functions of all command kinds on CUDA; docs/commands.md says what they compute. The kernels
// that they launch are in codegen/cuda/library.
#pragma once

#include "runtime/device/cuda/Kernel.h"

#include <functional>

namespace sluice::cuda {

// X(kind in docs/commands.md, prepare function)
#define SLUICE_CUDA_KERNELS(X)                                                                               \
  X(gemm, prepareGemm)                                                                                       \
  X(contract, prepareContract)                                                                               \
  X(embedding, prepareEmbedding)                                                                             \
  X(embedding_gradient, prepareEmbeddingGradient)                                                            \
  X(gather, prepareGather)                                                                                   \
  X(gather_gradient, prepareGatherGradient)                                                                  \
  X(rope, prepareRope)                                                                                       \
  X(attention_forward, prepareAttentionForward)                                                              \
  X(attention_backward, prepareAttentionBackward)                                                            \
  X(route, prepareRoute)                                                                                     \
  X(route_gradient, prepareRouteGradient)                                                                    \
  X(switch_balance, prepareSwitchBalance)                                                                    \
  X(switch_balance_gradient, prepareSwitchBalanceGradient)                                                   \
  X(router_z, prepareRouterZ)                                                                                \
  X(router_z_gradient, prepareRouterZGradient)                                                               \
  X(routing_statistics, prepareRoutingStatistics)                                                            \
  X(dispatch, prepareDispatch)                                                                               \
  X(combine, prepareCombine)                                                                                 \
  X(combine_gate_gradient, prepareCombineGateGradient)                                                       \
  X(grouped_gemm, prepareGroupedGemm)                                                                        \
  X(grouped_weight_gradient, prepareGroupedWeightGradient)                                                   \
  X(grouped_sum, prepareGroupedSum)                                                                          \
  X(experts_up, prepareExpertsUp)                                                                            \
  X(experts_down, prepareExpertsDown)                                                                        \
  X(experts_down_gradient, prepareExpertsDownGradient)                                                       \
  X(experts_down_weight_gradient, prepareExpertsDownWeightGradient)                                          \
  X(experts_up_gradient, prepareExpertsUpGradient)                                                           \
  X(experts_up_weight_gradient, prepareExpertsUpWeightGradient)                                              \
  X(linear_cross_entropy, prepareLinearCrossEntropy)                                                         \
  X(linear_cross_entropy_gradient, prepareLinearCrossEntropyGradient)                                        \
  X(cross_entropy, prepareCrossEntropy)                                                                      \
  X(cross_entropy_gradient, prepareCrossEntropyGradient)                                                     \
  X(count_targets, prepareCountTargets)                                                                      \
  X(global_norm, prepareGlobalNorm)                                                                          \
  X(adamw, prepareAdamW)                                                                                     \
  X(masked_adamw, prepareMaskedAdamW)                                                                        \
  X(masked_gemm, prepareMaskedGemm)                                                                          \
  X(masked_weight_gradient, prepareMaskedWeightGradient)                                                     \
  X(masked_grouped_gemm, prepareMaskedGroupedGemm)                                                           \
  X(masked_grouped_weight_gradient, prepareMaskedGroupedWeightGradient)                                      \
  X(apply_mask, prepareApplyMask)                                                                            \
  X(random_mask, prepareRandomMask)                                                                          \
  X(update_mask, prepareUpdateMask)                                                                          \
  X(refresh_derived_state, prepareRefreshDerivedState)                                                       \
  X(random_normal, prepareRandomNormal)                                                                      \
  X(fill, prepareFill)                                                                                       \
  X(copy, prepareCopy)                                                                                       \
  X(transpose, prepareTranspose)                                                                             \
  X(slice, prepareSlice)                                                                                     \
  X(concat, prepareConcat)                                                                                   \
  X(launch, prepareLaunch)

#define SLUICE_CUDA_DECLARE(kind, function) StatusOr<PreparedKernel> function(PrepareContext &context);
SLUICE_CUDA_KERNELS(SLUICE_CUDA_DECLARE)
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
