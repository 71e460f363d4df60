// The routing buffer of docs/commands.md: which expert rows belong to which tokens.
#pragma once

#include "runtime/device/cpu/Kernel.h"

namespace sluice::cpu {

/// Pointers into the int32 buffer [ids T*K][slot_row R][row_slot R][offsets E+1]; R = T * K. Its contents are
/// trusted: only route writes them.
struct RoutingBuffer {
  int64_t tokens = 0, topK = 0, experts = 0;
  int32_t *ids = nullptr;

  int64_t rows() const { return tokens * topK; }
  int32_t *slotRow() const { return ids + rows(); }
  int32_t *rowSlot() const { return ids + 2 * rows(); }
  int32_t *offsets() const { return ids + 3 * rows(); }
  int64_t tokenOfRow(int64_t row) const { return rowSlot()[row] / topK; }
};

/// Checks the buffer's size against tokens, the attribute top_k and the experts.
inline RoutingBuffer routingBuffer(Arguments &arguments, const Tensor &tensor, int64_t tokens,
                                   int64_t experts) {
  RoutingBuffer routing{tokens, arguments.integer("top_k", 1, 1 << 16), experts, tensor.i32()};
  arguments.elements(tensor, 3 * routing.rows() + experts + 1, "the routing buffer (3 T K + E + 1)");
  return routing;
}

/// The same where the expert count follows from the buffer's size.
inline RoutingBuffer routingBuffer(Arguments &arguments, const Tensor &tensor, int64_t tokens) {
  const int64_t topK = arguments.integer("top_k", 1, 1 << 16);
  const int64_t experts = tensor.elements - 3 * tokens * topK - 1;
  arguments.require(experts >= 1, "the routing buffer must have 3 T K + E + 1 elements with E >= 1");
  return {tokens, topK, std::max<int64_t>(experts, 1), tensor.i32()};
}

/// For the tokens [begin, end): out[t] = sum over slots j, in that order, of gates[t, j] rows[slot_row[t,
/// j]]; gates may be null (all ones).
void combineRange(const RoutingBuffer &routing, const float *rows, const float *gates, int64_t width,
                  float *out, int64_t begin, int64_t end);
/// combineRange over all tokens.
Stage combineStage(const RoutingBuffer &routing, const float *rows, const float *gates, int64_t width,
                   float *out);
/// dgates[t, j] = dout[t] . rows[slot_row[t, j]].
Stage gateGradientStage(const RoutingBuffer &routing, const float *dout, const float *rows, int64_t width,
                        float *dgates);

} // namespace sluice::cpu
