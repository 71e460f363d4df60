#include "runtime/device/AttentionArguments.h"
#include "runtime/device/Rotation.h"
#include "runtime/device/cuda/Kernels.h"

// Attention and rotary positions.
namespace sluice::cuda {
namespace {

constexpr int64_t headDimLimit = 256; // what a warp holds of one row (codegen/cuda/library/Attention.cu)

/// The kernels' parameter.
struct AttentionShape {
  int32_t batch, sequence, heads, keyHeads, headDim, valueDim, causal, window;
  float scale, softcap;
  const std::byte *slopes, *sinks; // null: none
};

void checkSizes(Arguments &arguments, const AttentionArguments &settings) {
  arguments.supported(settings.headDim <= headDimLimit && settings.valueDim <= headDimLimit,
                      "head_dim and value_dim must be at most 256 on the CUDA device");
  arguments.supported(settings.sequence <= INT32_MAX / 2 &&
                          settings.batch <= INT32_MAX / std::max<int64_t>(1, settings.sequence),
                      "batch x sequence must fit into 31 bits, sequence into 30");
  arguments.supported(settings.heads <= INT32_MAX / headDimLimit, "heads x head_dim must fit into 31 bits");
}

/// Slopes go to the device's memory, which `kernel` keeps.
StatusOr<AttentionShape> attentionShape(PrepareContext &context, PreparedKernel &kernel,
                                        const AttentionOperands &operands) {
  const AttentionArguments &settings = operands.settings;
  AttentionShape shape{static_cast<int32_t>(settings.batch),
                       static_cast<int32_t>(settings.sequence),
                       static_cast<int32_t>(settings.heads),
                       static_cast<int32_t>(settings.keyHeads),
                       static_cast<int32_t>(settings.headDim),
                       static_cast<int32_t>(settings.valueDim),
                       settings.causal,
                       static_cast<int32_t>(std::min(settings.window, settings.sequence)),
                       static_cast<float>(settings.scale),
                       static_cast<float>(settings.softcap),
                       nullptr,
                       operands.sinks.data};
  if (!settings.slopes.empty()) {
    const std::vector<float> slopes(settings.slopes.begin(), settings.slopes.end());
    SLUICE_ASSIGN_OR_RETURN(shape.slopes, keepConstant(context, kernel, slopes));
  }
  return shape;
}

/// Blocks of 8 rows of a head, one a warp; of the kernels of that name the narrowest that takes a head's
/// rows.
Launch &launchRows(PreparedKernel &kernel, const char *name, const AttentionShape &shape, int64_t heads) {
  int32_t width = 32;
  while (width < std::max(shape.headDim, shape.valueDim))
    width *= 2;
  return kernel.launch(concat(name, "_", width), Blocks::each(shape.sequence, 8, "sequence"),
                       Blocks::each(heads, 1, "heads"), Blocks::each(shape.batch, 1, "batch"));
}

} // namespace

StatusOr<PreparedKernel> prepareAttentionForward(PrepareContext &context) {
  Arguments arguments(context);
  const AttentionOperands operands = readAttentionForward(arguments);
  checkSizes(arguments, operands.settings);
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  SLUICE_ASSIGN_OR_RETURN(const AttentionShape shape, attentionShape(context, kernel, operands));
  launchRows(kernel, "attention_forward", shape, shape.heads)
      .pointer(operands.out)
      .pointer(operands.lse)
      .pointer(operands.q)
      .pointer(operands.k)
      .pointer(operands.v)
      .value(shape);
  return kernel;
}

StatusOr<PreparedKernel> prepareAttentionBackward(PrepareContext &context) {
  Arguments arguments(context);
  const AttentionOperands operands = readAttentionBackward(arguments);
  checkSizes(arguments, operands.settings);
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  SLUICE_ASSIGN_OR_RETURN(const AttentionShape shape, attentionShape(context, kernel, operands));
  const uint64_t inner = kernel.reserve(static_cast<uint64_t>(operands.lse.elements) * 4);
  launchRows(kernel, "attention_backward_queries", shape, shape.heads)
      .pointer(operands.dq)
      .workspace(inner)
      .pointer(operands.q)
      .pointer(operands.k)
      .pointer(operands.v)
      .pointer(operands.out)
      .pointer(operands.lse)
      .pointer(operands.dout)
      .value(shape);
  launchRows(kernel, "attention_backward_keys", shape, shape.keyHeads)
      .pointer(operands.dk)
      .pointer(operands.dv)
      .pointer(operands.q)
      .pointer(operands.k)
      .pointer(operands.v)
      .pointer(operands.lse)
      .pointer(operands.dout)
      .workspace(inner)
      .value(shape);
  if (operands.settings.sinks)
    kernel.launch("attention_backward_sinks", Blocks::each(shape.heads, 1, "heads"))
        .pointer(operands.dsinks)
        .pointer(operands.lse)
        .workspace(inner)
        .value(shape);
  return kernel;
}

StatusOr<PreparedKernel> prepareRope(PrepareContext &context) {
  Arguments arguments(context);
  Rotation rotation = readRotation(arguments);
  SLUICE_RETURN_IF_ERROR(arguments.status());
  rotation.makeTables();
  PreparedKernel kernel;
  SLUICE_ASSIGN_OR_RETURN(const std::byte *cosine, keepConstant(context, kernel, rotation.cosine));
  SLUICE_ASSIGN_OR_RETURN(const std::byte *sine, keepConstant(context, kernel, rotation.sine));
  // A thread turns a pair or passes one element on.
  const int64_t count = rotation.x.elements / rotation.headDim * (rotation.headDim - rotation.half);
  kernel.elements("rope", count)
      .pointer(rotation.y)
      .pointer(rotation.x)
      .value(cosine)
      .value(sine)
      .longInteger(count)
      .integer(rotation.sequence)
      .integer(rotation.heads)
      .integer(rotation.headDim)
      .integer(rotation.offset)
      .integer(rotation.half)
      .integer(rotation.interleaved)
      .real(rotation.direction);
  return kernel;
}

} // namespace sluice::cuda
