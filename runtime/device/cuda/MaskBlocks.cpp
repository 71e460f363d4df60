#include "runtime/device/cuda/MaskBlocks.h"

#include "runtime/abi/MaskBlocks.h"

namespace sluice::cuda {
namespace {

/// The kernels' parameters (codegen/cuda/library/MaskBlocks.cu).
struct BlocksParameter {
  int32_t matrices, out, in, blockRows, blockColumns, capacity, byColumns;

  BlocksParameter(const MaskPattern &blocks, const RoutingParameter &routing, bool byColumns)
      : matrices(routing.buffer ? routing.experts : 1), out(static_cast<int32_t>(blocks.rows)),
        in(static_cast<int32_t>(blocks.columns)), blockRows(static_cast<int32_t>(blocks.blockRows)),
        blockColumns(static_cast<int32_t>(blocks.blockColumns)), capacity(static_cast<int32_t>(blocks.keep)),
        byColumns(byColumns ? 1 : 0) {}
  int64_t lines() const { return byColumns ? in / blockColumns : out / blockRows; }
};
struct ProductParameter {
  const std::byte *y, *x, *w, *bias;
  int32_t in, out, transposed, accumulate;
};

/// Places in the workspace.
struct BlockList {
  uint64_t counts, places;
};

/// Lists the kept blocks of every line of every matrix.
BlockList appendList(PreparedKernel &kernel, const Tensor &mask, const BlocksParameter &shape) {
  const int64_t lines = shape.matrices * shape.lines(),
                blocks =
                    shape.matrices * (int64_t{shape.out} / shape.blockRows) * (shape.in / shape.blockColumns);
  const BlockList list{kernel.reserve(static_cast<uint64_t>(lines) * 4),
                       kernel.reserve(static_cast<uint64_t>(blocks) * 4)};
  kernel
      .launch("list_blocks", Blocks::each(lines, 8, shape.byColumns ? "columns of blocks" : "rows of blocks"))
      .workspace(list.counts)
      .workspace(list.places)
      .pointer(mask)
      .value(shape);
  return list;
}

/// The largest tile side that divides both.
int64_t tileSide(int64_t a, int64_t b) {
  int64_t side = 4 * blockTileSide;
  while (side > blockTileSide && (a % side != 0 || b % side != 0))
    side /= 2;
  return side;
}

} // namespace

std::optional<MaskPattern> blocksOf(Arguments &arguments, int64_t out, int64_t in) {
  const std::string text = arguments.textOr("pattern", "");
  if (text.rfind("block:", 0) != 0)
    return std::nullopt;
  constexpr int64_t most = (int64_t{1} << 31) - 1;
  arguments.require(out > 0 && in > 0 && out <= most / in, "a matrix must have at most 2^31 - 1 weights");
  if (!arguments.ok())
    return std::nullopt;
  const int64_t kept = arguments.integer("kept", 1, out * in);
  const std::optional<MaskPattern> pattern = MaskPattern::read(text, out, in, kept);
  arguments.require(pattern.has_value(), "pattern must be block:RxC and fit the matrix and kept");
  if (!arguments.ok() || !hasBlockProducts(pattern->blockRows, pattern->blockColumns))
    return std::nullopt;
  return pattern;
}

uint64_t droppedBytes(const Command &command) {
  const bool ofGradient =
      command.kind == "masked_weight_gradient" || command.kind == "masked_grouped_weight_gradient";
  if (!ofGradient && command.kind != "masked_gemm" && command.kind != "masked_grouped_gemm")
    return 0;
  if (ofGradient && command.integerOr("accumulate", 0) == 0)
    return 0; // dropped blocks are written as zeros
  const CommandContext context{command, {}};
  Arguments arguments(context);
  const Operand &weights = ofGradient ? command.outputs[0] : command.inputs[1];
  const int64_t out = weights.shape[weights.shape.size() - 2], in = weights.shape.back();
  const std::optional<MaskPattern> blocks = blocksOf(arguments, out, in);
  return blocks
             ? static_cast<uint64_t>(weights.elements() / blocks->size() * (blocks->size() - blocks->kept)) *
                   4
             : 0;
}

PreparedKernel BlockProduct::prepare() const {
  PreparedKernel kernel;
  const BlocksParameter shape(blocks, routing, transposed);
  const BlockList list = appendList(kernel, mask, shape);
  const int64_t results = transposed ? blocks.columns : blocks.rows,
                side = transposed ? blocks.blockColumns : blocks.blockRows;
  const int64_t width = tileSide(side, side), height = 64 * 64 / width,
                rows = int64_t{routing.tokens} * routing.topK;
  Blocks tiles = Blocks::each(rows, height, routing.buffer ? "routed rows" : "rows");
  if (routing.buffer)
    tiles = tiles.plus(routing.experts, "experts");
  kernel
      .launch(concat("block_gemm_", width), Blocks::each(results, width, transposed ? "inputs" : "outputs"),
              tiles)
      .value(ProductParameter{y.data, x.data, w.data, bias.data,
                              static_cast<int32_t>(transposed ? blocks.rows : blocks.columns),
                              static_cast<int32_t>(results), transposed, accumulate})
      .workspace(list.counts)
      .workspace(list.places)
      .value(shape)
      .value(routing);
  return kernel;
}

PreparedKernel BlockWeightGradient::prepare() const {
  PreparedKernel kernel;
  const BlocksParameter shape(blocks, routing, /*byColumns=*/false);
  if (!accumulate)
    kernel.elements("fill_4", dw.elements).pointer(dw).integer(0).longInteger(dw.elements);
  const BlockList list = appendList(kernel, mask, shape);
  const int64_t side = tileSide(blocks.blockRows, blocks.blockColumns),
                tiles = blocks.blockSize() / (side * side);
  Blocks kept = Blocks::each(blocks.keep * tiles, 1, tiles == 1 ? "kept blocks" : "tiles of kept blocks");
  kernel
      .launch(concat("block_weight_gradient_", side), kept,
              routing.buffer ? Blocks::each(routing.experts, 1, "experts") : Blocks())
      .pointer(dw)
      .pointer(dy)
      .pointer(x)
      .workspace(list.counts)
      .workspace(list.places)
      .value(shape)
      .value(routing)
      .integer(accumulate);
  return kernel;
}

} // namespace sluice::cuda
