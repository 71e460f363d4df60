#include "runtime/device/Selection.h"
#include "runtime/device/cuda/Kernels.h"

// Routing, and rows moved between token order and expert order.
namespace sluice::cuda {

RoutingParameter routingParameter(Arguments &arguments, const Tensor &buffer, int64_t tokens) {
  const int64_t topK = arguments.integer("top_k", 1, 1 << 16);
  const int64_t experts = buffer.elements - 3 * tokens * topK - 1;
  arguments.require(experts >= 1 && experts <= 1 << 20,
                    "the routing buffer must have 3 T K + E + 1 elements with E >= 1");
  arguments.require(tokens <= INT32_MAX / topK / 3, "T * K must fit into 29 bits");
  return {buffer.data, static_cast<int32_t>(tokens), static_cast<int32_t>(topK),
          static_cast<int32_t>(std::max<int64_t>(experts, 1))};
}

RoutingParameter routingOfRows(Arguments &arguments, const Tensor &buffer, int64_t rows) {
  const int64_t topK = arguments.integer("top_k", 1, 1 << 16);
  arguments.require(rows % topK == 0, "the number of rows must be a multiple of top_k");
  return routingParameter(arguments, buffer, rows / topK);
}

namespace {

int64_t rowsOf(const RoutingParameter &routing) {
  return int64_t{routing.tokens} * routing.topK;
}

/// The score's attributes, which route and its adjoint share.
struct Score {
  bool sigmoid, renormalize;
  double epsilon, scale;

  explicit Score(Arguments &arguments)
      : sigmoid(arguments.integer("score", 0, 1) == 1), renormalize(arguments.flag("renormalize")),
        epsilon(arguments.number("epsilon")), scale(arguments.number("scale")) {}
  void append(Launch &launch) const {
    launch.integer(sigmoid).integer(renormalize).real(epsilon).real(scale);
  }
};

/// The kernel's parameter (codegen/cuda/library/Route.cu).
struct SelectionParameter {
  int32_t groups, kept, sumOfBestTwo, comparesProbabilities;
  const std::byte *bias; // null: none
};

} // namespace

StatusOr<PreparedKernel> prepareRoute(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(1, 2);
  arguments.outputs(3);
  const Tensor logits = arguments.input(0), buffer = arguments.output(0, ElementType::I32);
  const Tensor gates = arguments.output(1), probs = arguments.output(2);
  const RoutingParameter routing = routingParameter(arguments, buffer, logits.rows());
  const Score score(arguments);
  arguments.require(routing.experts == logits.dim(-1),
                    "the routing buffer must have the logits' number of experts");
  const Selection selection = readSelection(arguments, routing.experts, routing.topK);
  arguments.elements(gates, rowsOf(routing), "gates");
  arguments.elements(probs, logits.elements, "probs");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  Launch &tokens = kernel.launch("route_tokens", Blocks::each(routing.tokens, 128, "tokens"), 128);
  score.append(tokens.pointer(logits).value(routing).pointer(gates).pointer(probs));
  tokens
      .value(SelectionParameter{static_cast<int32_t>(selection.groups), static_cast<int32_t>(selection.kept),
                                selection.sumOfBestTwo, selection.comparesProbabilities(),
                                selection.bias.data})
      .workspace(kernel.reserve(static_cast<uint64_t>(routing.tokens) *
                                static_cast<uint64_t>(selection.groups) * 4));
  kernel.launch("route_count", Blocks::each(routing.experts, 1, "experts")).value(routing);
  kernel.launch("route_offsets", {}, 32).value(routing);
  kernel.launch("route_place", Blocks::each(routing.experts, 1, "experts")).value(routing);
  return kernel;
}

StatusOr<PreparedKernel> prepareRouteGradient(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(5);
  arguments.outputs(1);
  const Tensor probs = arguments.input(0), gates = arguments.input(1),
               buffer = arguments.input(2, ElementType::I32);
  const Tensor dgates = arguments.input(3), dprobs = arguments.input(4), dlogits = arguments.output(0);
  const RoutingParameter routing = routingParameter(arguments, buffer, probs.rows());
  const Score score(arguments);
  arguments.require(routing.experts == probs.dim(-1),
                    "the routing buffer must have the probabilities' number of experts");
  arguments.elements(gates, rowsOf(routing), "gates");
  arguments.elements(dgates, rowsOf(routing), "dgates");
  arguments.elements(dprobs, probs.elements, "dprobs");
  arguments.elements(dlogits, probs.elements, "dlogits");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  Launch &launch = kernel.launch("route_gradient", Blocks::each(routing.tokens, 128, "tokens"), 128);
  score.append(launch.pointer(dlogits).pointer(probs).value(routing).pointer(dgates).pointer(dprobs));
  return kernel;
}

StatusOr<PreparedKernel> prepareDispatch(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(2, 3);
  arguments.outputs(1);
  const Tensor x = arguments.input(0), buffer = arguments.input(1, ElementType::I32), y = arguments.output(0);
  const RoutingParameter routing = routingParameter(arguments, buffer, x.rows());
  const Tensor gates = arguments.inputCount() == 3 ? arguments.input(2) : Tensor{};
  if (arguments.inputCount() == 3)
    arguments.elements(gates, rowsOf(routing), "gates");
  arguments.elements(y, rowsOf(routing) * x.dim(-1), "the result");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  kernel.rows("dispatch", rowsOf(routing), "routed rows")
      .pointer(y)
      .pointer(x)
      .value(routing)
      .pointer(gates)
      .integer(x.dim(-1));
  return kernel;
}

StatusOr<PreparedKernel> prepareCombine(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(2, 3);
  arguments.outputs(1);
  const Tensor rows = arguments.input(0), buffer = arguments.input(1, ElementType::I32),
               out = arguments.output(0);
  const RoutingParameter routing = routingParameter(arguments, buffer, out.rows());
  const Tensor gates = arguments.inputCount() == 3 ? arguments.input(2) : Tensor{};
  if (arguments.inputCount() == 3)
    arguments.elements(gates, rowsOf(routing), "gates");
  arguments.elements(rows, rowsOf(routing) * out.dim(-1), "ye");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  kernel.rows("combine", routing.tokens, "tokens")
      .pointer(out)
      .pointer(rows)
      .value(routing)
      .pointer(gates)
      .integer(out.dim(-1));
  return kernel;
}

StatusOr<PreparedKernel> prepareCombineGateGradient(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(3);
  arguments.outputs(1);
  const Tensor dout = arguments.input(0), rows = arguments.input(1),
               buffer = arguments.input(2, ElementType::I32);
  const Tensor dgates = arguments.output(0);
  const RoutingParameter routing = routingParameter(arguments, buffer, dout.rows());
  arguments.elements(rows, rowsOf(routing) * dout.dim(-1), "ye");
  arguments.elements(dgates, rowsOf(routing), "dgates");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  kernel.launch("combine_gate_gradient", Blocks::each(rowsOf(routing), 8, "routed rows"))
      .pointer(dgates)
      .pointer(dout)
      .pointer(rows)
      .value(routing)
      .integer(dout.dim(-1));
  return kernel;
}

} // namespace sluice::cuda
