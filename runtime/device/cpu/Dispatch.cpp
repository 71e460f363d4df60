#include "runtime/device/cpu/Kernels.h"
#include "runtime/device/cpu/RoutingBuffer.h"
#include "runtime/device/cpu/RowMath.h"

// Moving rows between token order and expert order, and the weighted sum back, in slot order.
namespace sluice::cpu {

StatusOr<PreparedKernel> prepareDispatch(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(2, 3);
  arguments.outputs(1);
  const Tensor x = arguments.input(0), buffer = arguments.input(1, ElementType::I32), y = arguments.output(0);
  const int64_t tokens = x.rows(), width = x.dim(-1);
  const RoutingBuffer routing = routingBuffer(arguments, buffer, tokens);
  const Tensor gates = arguments.inputCount() == 3 ? arguments.input(2) : Tensor{};
  if (arguments.inputCount() == 3)
    arguments.elements(gates, routing.rows(), "gates");
  arguments.elements(y, routing.rows() * width, "the result");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  kernel.stages.push_back(rangeStage(routing.rows(), 64, [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t slot = routing.rowSlot()[row];
      const float *source = x.f32() + slot / routing.topK * width;
      if (gates.data)
        rowScale(source, width, gates.f32()[slot], y.f32() + row * width);
      else
        std::copy_n(source, width, y.f32() + row * width);
    }
  }));
  return kernel;
}

void combineRange(const RoutingBuffer &routing, const float *rows, const float *gates, int64_t width,
                  float *out, int64_t begin, int64_t end) {
  for (int64_t token = begin; token < end; ++token)
    for (int64_t j = 0; j < routing.topK; ++j) {
      const int64_t slot = token * routing.topK + j;
      const float *source = rows + routing.slotRow()[slot] * width;
      const float gate = gates ? gates[slot] : 1.0f;
      if (j == 0)
        rowScale(source, width, gate, out + token * width);
      else
        rowAddScaled(source, width, gate, out + token * width);
    }
}

Stage combineStage(const RoutingBuffer &routing, const float *rows, const float *gates, int64_t width,
                   float *out) {
  return rangeStage(routing.tokens, 32, [=](int64_t begin, int64_t end) {
    combineRange(routing, rows, gates, width, out, begin, end);
  });
}

Stage gateGradientStage(const RoutingBuffer &routing, const float *dout, const float *rows, int64_t width,
                        float *dgates) {
  return rangeStage(routing.rows(), 64, [=](int64_t begin, int64_t end) {
    for (int64_t slot = begin; slot < end; ++slot)
      dgates[slot] =
          rowDot(dout + slot / routing.topK * width, rows + routing.slotRow()[slot] * width, width);
  });
}

StatusOr<PreparedKernel> prepareCombine(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(2, 3);
  arguments.outputs(1);
  const Tensor rows = arguments.input(0), buffer = arguments.input(1, ElementType::I32),
               out = arguments.output(0);
  const int64_t tokens = out.rows(), width = out.dim(-1);
  const RoutingBuffer routing = routingBuffer(arguments, buffer, tokens);
  const Tensor gates = arguments.inputCount() == 3 ? arguments.input(2) : Tensor{};
  if (arguments.inputCount() == 3)
    arguments.elements(gates, routing.rows(), "gates");
  arguments.elements(rows, routing.rows() * width, "ye");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  kernel.stages.push_back(
      combineStage(routing, rows.f32(), gates.data ? gates.f32() : nullptr, width, out.f32()));
  return kernel;
}

StatusOr<PreparedKernel> prepareCombineGateGradient(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(3);
  arguments.outputs(1);
  const Tensor dout = arguments.input(0), rows = arguments.input(1),
               buffer = arguments.input(2, ElementType::I32);
  const Tensor dgates = arguments.output(0);
  const int64_t tokens = dout.rows(), width = dout.dim(-1);
  const RoutingBuffer routing = routingBuffer(arguments, buffer, tokens);
  arguments.elements(rows, routing.rows() * width, "ye");
  arguments.elements(dgates, routing.rows(), "dgates");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  kernel.stages.push_back(gateGradientStage(routing, dout.f32(), rows.f32(), width, dgates.f32()));
  return kernel;
}

} // namespace sluice::cpu
