// The attributes of attention_forward and attention_backward, read and checked once for all devices.
#pragma once

#include "runtime/device/Arguments.h"

namespace sluice {

/// What docs/commands.md says of attention. A window of 0 and a softcap of 0 mean none.
struct AttentionArguments {
  int64_t batch = 0, sequence = 0, heads = 1, keyHeads = 1, headDim = 1, valueDim = 1, window = 0;
  bool causal = false, sinks = false;
  double scale = 1, softcap = 0;
  std::vector<double> slopes; // one a head, or none

  int64_t queryWidth() const { return heads * headDim; }
  int64_t keyWidth() const { return keyHeads * headDim; }
  int64_t valueWidth() const { return keyHeads * valueDim; }
  int64_t outWidth() const { return heads * valueDim; }
};

/// The operands of both directions; what a direction lacks is empty, and so are sinks where there are none.
struct AttentionOperands {
  AttentionArguments settings;
  Tensor q, k, v, out, lse, sinks;
  Tensor dout, dq, dk, dv, dsinks;
};

/// Reads a command of kind attention_forward (attention_backward) and checks every shape; errors stay in
/// `arguments`.
AttentionOperands readAttentionForward(Arguments &arguments);
AttentionOperands readAttentionBackward(Arguments &arguments);

} // namespace sluice
