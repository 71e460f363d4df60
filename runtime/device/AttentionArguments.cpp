#include "runtime/device/AttentionArguments.h"

#include <cmath>

namespace sluice {
namespace {

AttentionArguments readSettings(Arguments &arguments, const AttentionOperands &operands) {
  const Tensor &q = operands.q;
  AttentionArguments settings;
  settings.batch = q.dim(0);
  settings.sequence = q.dim(1);
  settings.heads = arguments.integer("heads", 1, 1 << 16);
  settings.keyHeads = arguments.integer("kv_heads", 1, 1 << 16);
  settings.headDim = arguments.integer("head_dim", 1, 1 << 16);
  settings.valueDim = arguments.integerOr("value_dim", settings.headDim);
  settings.causal = arguments.integer("causal", 0, 1) == 1;
  settings.window = arguments.integerOr("window", 0);
  settings.sinks = arguments.flag("sinks");
  settings.scale = arguments.number("scale");
  settings.softcap = arguments.numberOr("softcap", 0);
  settings.slopes = arguments.numbers("slopes");
  arguments.require(settings.scale > 0 && std::isfinite(settings.scale), "scale must be positive");
  arguments.require(settings.softcap >= 0 && std::isfinite(settings.softcap), "softcap must not be negative");
  arguments.require(settings.heads % settings.keyHeads == 0, "heads must be a multiple of kv_heads");
  arguments.require(settings.valueDim > 0 && settings.valueDim <= 1 << 16, "value_dim must be 1 to 65536");
  arguments.require(settings.window >= 0, "window must not be negative");
  arguments.require(settings.causal || (settings.window == 0 && settings.slopes.empty()),
                    "window and slopes need causal = 1");
  arguments.require(settings.slopes.empty() || static_cast<int64_t>(settings.slopes.size()) == settings.heads,
                    "slopes must hold one number a head");
  arguments.require(q.rank() == 3, "q must be [B, S, heads * head_dim]");
  arguments.shape(q, {settings.batch, settings.sequence, settings.queryWidth()}, "q");
  arguments.shape(operands.k, {settings.batch, settings.sequence, settings.keyWidth()}, "k");
  arguments.shape(operands.v, {settings.batch, settings.sequence, settings.valueWidth()}, "v");
  return settings;
}

void checkResults(Arguments &arguments, const AttentionOperands &operands) {
  const AttentionArguments &settings = operands.settings;
  arguments.shape(operands.out, {settings.batch, settings.sequence, settings.outWidth()}, "out");
  arguments.elements(operands.lse, settings.batch * settings.heads * settings.sequence, "lse");
  if (settings.sinks)
    arguments.shape(operands.sinks, {settings.heads}, "sinks");
}

} // namespace

AttentionOperands readAttentionForward(Arguments &arguments) {
  arguments.inputs(3, 4);
  arguments.outputs(2);
  AttentionOperands operands;
  operands.q = arguments.input(0);
  operands.k = arguments.input(1);
  operands.v = arguments.input(2);
  operands.out = arguments.output(0);
  operands.lse = arguments.output(1);
  operands.settings = readSettings(arguments, operands);
  arguments.require(operands.settings.sinks == (arguments.inputCount() == 4),
                    "sinks = 1 belongs to a fourth input");
  if (operands.settings.sinks)
    operands.sinks = arguments.input(3);
  checkResults(arguments, operands);
  return operands;
}

AttentionOperands readAttentionBackward(Arguments &arguments) {
  arguments.inputs(6, 7);
  arguments.outputs(3, 4);
  AttentionOperands operands;
  operands.q = arguments.input(0);
  operands.k = arguments.input(1);
  operands.v = arguments.input(2);
  operands.out = arguments.input(3);
  operands.lse = arguments.input(4);
  operands.dout = arguments.input(5);
  operands.dq = arguments.output(0);
  operands.dk = arguments.output(1);
  operands.dv = arguments.output(2);
  operands.settings = readSettings(arguments, operands);
  const bool sinks = operands.settings.sinks;
  arguments.require(operands.dq.shape == operands.q.shape && operands.dk.shape == operands.k.shape &&
                        operands.dv.shape == operands.v.shape,
                    "dq, dk and dv must have the shapes of q, k and v");
  arguments.require(operands.dout.shape == operands.out.shape, "dout must have out's shape");
  arguments.require(sinks == (arguments.inputCount() == 7) && sinks == (arguments.outputCount() == 4),
                    "sinks = 1 belongs to a seventh input and a fourth output");
  if (sinks) {
    operands.sinks = arguments.input(6);
    operands.dsinks = arguments.output(3);
    arguments.shape(operands.dsinks, {operands.settings.heads}, "dsinks");
  }
  checkResults(arguments, operands);
  return operands;
}

} // namespace sluice
