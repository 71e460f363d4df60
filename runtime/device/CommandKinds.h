// The kinds of commands that every device's library has; docs/commands.md says what they compute. A kind here
// that a device does not define does not link.
#pragma once

// X(kind in docs/commands.md, the function that prepares it, one in each device's namespace)
#define SLUICE_COMMAND_KINDS(X)                                                                              \
  X(gemm, prepareGemm)                                                                                       \
  X(embedding, prepareEmbedding)                                                                             \
  X(embedding_gradient, prepareEmbeddingGradient)                                                            \
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
  X(gather, prepareGather)                                                                                   \
  X(gather_gradient, prepareGatherGradient)                                                                  \
  X(contract, prepareContract)                                                                               \
  X(launch, prepareLaunch)
