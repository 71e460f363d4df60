#include "runtime/device/cuda/Kernels.h"

// Products of experts. Grids are as large as the worst split of the rows needs; the kernels read the real
// one.
namespace sluice::cuda {
namespace {

int64_t rowsOf(const RoutingParameter &routing) {
  return int64_t{routing.tokens} * routing.topK;
}
/// Tiles of 64 rows that any split needs at most.
Blocks rowTiles(const RoutingParameter &routing) {
  return Blocks::each(rowsOf(routing), 64, "routed rows").plus(routing.experts, "experts");
}
Blocks tilesOf(int64_t extent, const char *things) {
  return Blocks::each(extent, 64, things);
}

void appendCombine(PreparedKernel &kernel, const RoutingParameter &routing, int64_t width, const Tensor &out,
                   const std::function<void(Launch &)> &rows, const Tensor &gates) {
  Launch &launch = kernel.rows("combine", routing.tokens, "tokens").pointer(out);
  rows(launch);
  launch.value(routing).pointer(gates).integer(width);
}

/// dw[e] (+)= sum over e's rows of left^T right.
struct WeightGradient {
  Tensor dw, left, right, gates;
  int64_t out, in;
  bool gatherLeft, gatherRight, accumulate;

  void append(PreparedKernel &kernel, const RoutingParameter &routing) const {
    kernel
        .launch("grouped_weight_gradient", tilesOf(in, "inputs"), tilesOf(out, "outputs"),
                Blocks::each(routing.experts, 1, "experts"))
        .pointer(dw)
        .pointer(left)
        .pointer(right)
        .pointer(gates)
        .value(routing)
        .integer(out)
        .integer(in)
        .integer(gatherLeft)
        .integer(gatherRight)
        .integer(accumulate);
  }
};

void appendGroupedGemm(PreparedKernel &kernel, const RoutingParameter &routing, const Tensor &y,
                       const Tensor &x, const Tensor &w, const Tensor &bias, int64_t in, int64_t out,
                       bool transposed) {
  kernel.launch("grouped_gemm", tilesOf(out, "outputs"), rowTiles(routing))
      .pointer(y)
      .pointer(x)
      .pointer(w)
      .pointer(bias)
      .value(routing)
      .integer(in)
      .integer(out)
      .integer(transposed);
}

} // namespace

StatusOr<PreparedKernel> prepareGroupedGemm(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(3, 4);
  arguments.outputs(1);
  const Tensor x = arguments.input(0), w = arguments.input(1), buffer = arguments.input(2, ElementType::I32);
  const Tensor y = arguments.output(0);
  const RoutingParameter routing = routingOfRows(arguments, buffer, x.rows());
  const bool transposed = arguments.flag("transpose_w");
  const int64_t in = x.dim(-1), out = y.dim(-1);
  if (transposed)
    arguments.shape(w, {routing.experts, in, out}, "w");
  else
    arguments.shape(w, {routing.experts, out, in}, "w");
  arguments.elements(y, x.rows() * out, "the result");
  const Tensor bias = arguments.inputCount() == 4 ? arguments.input(3) : Tensor{};
  if (arguments.inputCount() == 4)
    arguments.elements(bias, routing.experts * out, "bias");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  appendGroupedGemm(kernel, routing, y, x, w, bias, in, out, transposed);
  return kernel;
}

StatusOr<PreparedKernel> prepareGroupedWeightGradient(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(3);
  arguments.outputs(1);
  const Tensor dy = arguments.input(0), x = arguments.input(1), buffer = arguments.input(2, ElementType::I32);
  const Tensor dw = arguments.output(0);
  const RoutingParameter routing = routingOfRows(arguments, buffer, x.rows());
  const bool accumulate = arguments.flag("accumulate");
  arguments.require(dy.rows() == x.rows(), "dy and x must have the same rows");
  arguments.shape(dw, {routing.experts, dy.dim(-1), x.dim(-1)}, "dw");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  WeightGradient{dw, dy, x, {}, dy.dim(-1), x.dim(-1), false, false, accumulate}.append(kernel, routing);
  return kernel;
}

StatusOr<PreparedKernel> prepareGroupedSum(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(2);
  arguments.outputs(1);
  const Tensor dy = arguments.input(0), buffer = arguments.input(1, ElementType::I32),
               sums = arguments.output(0);
  const RoutingParameter routing = routingOfRows(arguments, buffer, dy.rows());
  const bool accumulate = arguments.flag("accumulate");
  arguments.shape(sums, {routing.experts, dy.dim(-1)}, "the result");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  kernel.launch("grouped_sum", Blocks::each(sums.elements, 256, "experts x outputs"))
      .pointer(sums)
      .pointer(dy)
      .value(routing)
      .integer(dy.dim(-1))
      .integer(accumulate);
  return kernel;
}

StatusOr<PreparedKernel> prepareExpertsUp(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(4);
  arguments.outputs(3);
  const Tensor x = arguments.input(0), buffer = arguments.input(1, ElementType::I32);
  const Tensor wGate = arguments.input(2), wUp = arguments.input(3);
  const RoutingParameter routing = routingParameter(arguments, buffer, x.rows());
  const int64_t width = x.dim(-1), hidden = wGate.dim(1);
  arguments.shape(wGate, {routing.experts, hidden, width}, "w_gate");
  arguments.shape(wUp, {routing.experts, hidden, width}, "w_up");
  const Tensor gate = arguments.output(0), up = arguments.output(1), act = arguments.output(2);
  for (const Tensor *result : {&gate, &up, &act})
    arguments.elements(*result, rowsOf(routing) * hidden, "gate, up and act");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  // A tile holds 32 columns of w_gate and the same of w_up.
  kernel.launch("experts_up", Blocks::each(hidden, 32, "hidden width"), rowTiles(routing))
      .pointer(gate)
      .pointer(up)
      .pointer(act)
      .pointer(x)
      .pointer(wGate)
      .pointer(wUp)
      .value(routing)
      .integer(width)
      .integer(hidden);
  return kernel;
}

StatusOr<PreparedKernel> prepareExpertsDown(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(4);
  arguments.outputs(2);
  const Tensor act = arguments.input(0), buffer = arguments.input(1, ElementType::I32);
  const Tensor gates = arguments.input(2), wDown = arguments.input(3);
  const Tensor ye = arguments.output(0), out = arguments.output(1);
  const RoutingParameter routing = routingParameter(arguments, buffer, out.rows());
  const int64_t width = out.dim(-1), hidden = act.dim(-1);
  arguments.shape(wDown, {routing.experts, width, hidden}, "w_down");
  arguments.elements(act, rowsOf(routing) * hidden, "act");
  arguments.elements(gates, rowsOf(routing), "gates");
  arguments.elements(ye, rowsOf(routing) * width, "ye");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  appendGroupedGemm(kernel, routing, ye, act, wDown, {}, hidden, width, false);
  appendCombine(kernel, routing, width, out, [&](Launch &launch) { launch.pointer(ye); }, gates);
  return kernel;
}

StatusOr<PreparedKernel> prepareExpertsDownGradient(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(7);
  arguments.outputs(3);
  const Tensor dout = arguments.input(0), buffer = arguments.input(1, ElementType::I32),
               gates = arguments.input(2);
  const Tensor wDown = arguments.input(3), gate = arguments.input(4), up = arguments.input(5),
               ye = arguments.input(6);
  const Tensor dgates = arguments.output(0), dgate = arguments.output(1), dup = arguments.output(2);
  const RoutingParameter routing = routingParameter(arguments, buffer, dout.rows());
  const int64_t width = dout.dim(-1), hidden = gate.dim(-1);
  arguments.shape(wDown, {routing.experts, width, hidden}, "w_down");
  arguments.elements(gates, rowsOf(routing), "gates");
  arguments.elements(dgates, rowsOf(routing), "dgates");
  arguments.elements(ye, rowsOf(routing) * width, "ye");
  for (const Tensor *tensor : {&gate, &up, &dgate, &dup})
    arguments.elements(*tensor, rowsOf(routing) * hidden, "gate, up, dgate and dup");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  kernel.launch("combine_gate_gradient", Blocks::each(rowsOf(routing), 8, "routed rows"))
      .pointer(dgates)
      .pointer(dout)
      .pointer(ye)
      .value(routing)
      .integer(width);
  kernel.launch("experts_down_gradient", tilesOf(hidden, "hidden width"), rowTiles(routing))
      .pointer(dgate)
      .pointer(dup)
      .pointer(dout)
      .pointer(gates)
      .pointer(wDown)
      .pointer(gate)
      .pointer(up)
      .value(routing)
      .integer(width)
      .integer(hidden);
  return kernel;
}

StatusOr<PreparedKernel> prepareExpertsDownWeightGradient(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(4);
  arguments.outputs(1);
  const Tensor dout = arguments.input(0), buffer = arguments.input(1, ElementType::I32),
               gates = arguments.input(2);
  const Tensor act = arguments.input(3), dw = arguments.output(0);
  const RoutingParameter routing = routingParameter(arguments, buffer, dout.rows());
  const bool accumulate = arguments.flag("accumulate");
  const int64_t width = dout.dim(-1), hidden = act.dim(-1);
  arguments.elements(gates, rowsOf(routing), "gates");
  arguments.elements(act, rowsOf(routing) * hidden, "act");
  arguments.shape(dw, {routing.experts, width, hidden}, "dw_down");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  WeightGradient{dw, dout, act, gates, width, hidden, true, false, accumulate}.append(kernel, routing);
  return kernel;
}

StatusOr<PreparedKernel> prepareExpertsUpGradient(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(5);
  arguments.outputs(1);
  const Tensor dgate = arguments.input(0), dup = arguments.input(1),
               buffer = arguments.input(2, ElementType::I32);
  const Tensor wGate = arguments.input(3), wUp = arguments.input(4), dx = arguments.output(0);
  const RoutingParameter routing = routingParameter(arguments, buffer, dx.rows());
  const int64_t width = dx.dim(-1), hidden = dgate.dim(-1);
  arguments.shape(wGate, {routing.experts, hidden, width}, "w_gate");
  arguments.shape(wUp, {routing.experts, hidden, width}, "w_up");
  arguments.elements(dgate, rowsOf(routing) * hidden, "dgate");
  arguments.elements(dup, rowsOf(routing) * hidden, "dup");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  const uint64_t rows = kernel.reserve(static_cast<uint64_t>(rowsOf(routing) * width) * 4);
  kernel.launch("experts_up_gradient_rows", tilesOf(width, "width"), rowTiles(routing))
      .workspace(rows)
      .pointer(dgate)
      .pointer(dup)
      .pointer(wGate)
      .pointer(wUp)
      .value(routing)
      .integer(width)
      .integer(hidden);
  appendCombine(kernel, routing, width, dx, [&](Launch &launch) { launch.workspace(rows); }, {});
  return kernel;
}

StatusOr<PreparedKernel> prepareExpertsUpWeightGradient(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(4);
  arguments.outputs(2);
  const Tensor x = arguments.input(0), buffer = arguments.input(1, ElementType::I32);
  const Tensor dgate = arguments.input(2), dup = arguments.input(3);
  const Tensor dwGate = arguments.output(0), dwUp = arguments.output(1);
  const RoutingParameter routing = routingParameter(arguments, buffer, x.rows());
  const bool accumulate = arguments.flag("accumulate");
  const int64_t width = x.dim(-1), hidden = dgate.dim(-1);
  arguments.elements(dgate, rowsOf(routing) * hidden, "dgate");
  arguments.elements(dup, rowsOf(routing) * hidden, "dup");
  arguments.shape(dwGate, {routing.experts, hidden, width}, "dw_gate");
  arguments.shape(dwUp, {routing.experts, hidden, width}, "dw_up");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  WeightGradient{dwGate, dgate, x, {}, hidden, width, false, true, accumulate}.append(kernel, routing);
  WeightGradient{dwUp, dup, x, {}, hidden, width, false, true, accumulate}.append(kernel, routing);
  return kernel;
}

} // namespace sluice::cuda
