#include "runtime/device/cuda/Kernels.h"

#include <cmath>

// Attention and rotary positions.
namespace sluice::cuda {
namespace {

constexpr int64_t headDimLimit = 256; // what a warp holds of one row (codegen/cuda/library/Attention.cu)

/// The kernels' parameter.
struct AttentionShape {
  int32_t batch, sequence, heads, keyHeads, headDim, causal;
  float scale;
};

AttentionShape attentionShape(Arguments &arguments, const Tensor &q, const Tensor &k, const Tensor &v) {
  arguments.unsupported({"value_dim", "window", "softcap", "sinks", "slopes"});
  const int64_t heads = arguments.integer("heads", 1, 1 << 16),
                keyHeads = arguments.integer("kv_heads", 1, 1 << 16);
  const int64_t headDim = arguments.integer("head_dim", 1, headDimLimit),
                causal = arguments.integer("causal", 0, 1);
  const double scale = arguments.number("scale");
  arguments.require(scale > 0 && std::isfinite(scale), "scale must be positive");
  arguments.require(heads % keyHeads == 0, "heads must be a multiple of kv_heads");
  arguments.require(q.rank() == 3, "q must be [B, S, heads * head_dim]");
  arguments.shape(q, {q.dim(0), q.dim(1), heads * headDim}, "q");
  arguments.shape(k, {q.dim(0), q.dim(1), keyHeads * headDim}, "k");
  arguments.shape(v, {q.dim(0), q.dim(1), keyHeads * headDim}, "v");
  arguments.require(q.dim(0) <= INT32_MAX && q.dim(1) <= INT32_MAX,
                    "batch and sequence must fit into 31 bits");
  return {static_cast<int32_t>(q.dim(0)), static_cast<int32_t>(q.dim(1)), static_cast<int32_t>(heads),
          static_cast<int32_t>(keyHeads), static_cast<int32_t>(headDim),  static_cast<int32_t>(causal),
          static_cast<float>(scale)};
}

/// Blocks of 4 warps, one row a warp.
Launch &launchRows(PreparedKernel &kernel, std::string name, const AttentionShape &shape, int64_t heads) {
  return kernel.launch(std::move(name), ceilDivide(int64_t{shape.batch} * shape.sequence * heads, 4), 1, 1,
                       128);
}

} // namespace

StatusOr<PreparedKernel> prepareAttentionForward(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(3);
  arguments.outputs(2);
  const Tensor q = arguments.input(0), k = arguments.input(1), v = arguments.input(2);
  const Tensor out = arguments.output(0), lse = arguments.output(1);
  const AttentionShape shape = attentionShape(arguments, q, k, v);
  arguments.require(out.shape == q.shape, "out must have q's shape");
  arguments.elements(lse, int64_t{shape.batch} * shape.heads * shape.sequence, "lse");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  launchRows(kernel, "attention_forward", shape, shape.heads)
      .pointer(out)
      .pointer(lse)
      .pointer(q)
      .pointer(k)
      .pointer(v)
      .value(shape);
  return kernel;
}

StatusOr<PreparedKernel> prepareAttentionBackward(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(6);
  arguments.outputs(3);
  const Tensor q = arguments.input(0), k = arguments.input(1), v = arguments.input(2),
               out = arguments.input(3);
  const Tensor lse = arguments.input(4), dout = arguments.input(5);
  const Tensor dq = arguments.output(0), dk = arguments.output(1), dv = arguments.output(2);
  const AttentionShape shape = attentionShape(arguments, q, k, v);
  const int64_t rows = int64_t{shape.batch} * shape.heads * shape.sequence;
  arguments.require(out.shape == q.shape && dout.shape == q.shape && dq.shape == q.shape,
                    "out, dout and dq must have q's shape");
  arguments.require(dk.shape == k.shape && dv.shape == k.shape, "dk and dv must have k's shape");
  arguments.elements(lse, rows, "lse");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  const uint64_t inner = kernel.reserve(static_cast<uint64_t>(rows) * 4);
  launchRows(kernel, "attention_backward_queries", shape, shape.heads)
      .pointer(dq)
      .workspace(inner)
      .pointer(q)
      .pointer(k)
      .pointer(v)
      .pointer(out)
      .pointer(lse)
      .pointer(dout)
      .value(shape);
  launchRows(kernel, "attention_backward_keys", shape, shape.keyHeads)
      .pointer(dk)
      .pointer(dv)
      .pointer(q)
      .pointer(k)
      .pointer(v)
      .pointer(lse)
      .pointer(dout)
      .workspace(inner)
      .value(shape);
  return kernel;
}

StatusOr<PreparedKernel> prepareRope(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(1);
  arguments.outputs(1);
  const Tensor x = arguments.input(0), y = arguments.output(0);
  arguments.unsupported({"offset", "rotary_dim", "interleaved", "frequencies"});
  arguments.require(context.command.numberOr("factor", 1) == 1,
                    "the CUDA device knows no factor on cosine and sine");
  const int64_t heads = arguments.integer("heads", 1, 1 << 20),
                headDim = arguments.integer("head_dim", 2, 1 << 20);
  const double theta = arguments.number("theta"), direction = arguments.flag("inverse") ? -1.0 : 1.0;
  arguments.require(headDim % 2 == 0, "head_dim must be even");
  arguments.require(theta > 0, "theta must be positive");
  arguments.require(x.rank() == 3 && x.dim(2) == heads * headDim, "x must be [B, S, heads * head_dim]");
  arguments.require(x.shape == y.shape, "input and output must have one shape");
  SLUICE_RETURN_IF_ERROR(arguments.status());

  // Cosines, then sines, of s * theta^(-2i/h), made on the host as the CPU device makes them.
  const int64_t sequence = x.dim(1), half = headDim / 2;
  std::vector<float> table(static_cast<size_t>(2 * sequence * half));
  for (int64_t s = 0; s < sequence; ++s)
    for (int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(s) *
                           std::pow(theta, -2.0 * static_cast<double>(i) / static_cast<double>(headDim));
      table[static_cast<size_t>(s * half + i)] = static_cast<float>(std::cos(angle));
      table[static_cast<size_t>((sequence + s) * half + i)] = static_cast<float>(std::sin(angle));
    }
  PreparedKernel kernel;
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<CudaMemory> memory,
                          CudaMemory::allocate(context.device, table.size() * 4));
  SLUICE_RETURN_IF_ERROR(memory->write(0, table.data(), table.size() * 4));
  const std::byte *cosine = memory->address();
  kernel.elements("rope", x.elements / 2)
      .pointer(y)
      .pointer(x)
      .value(cosine)
      .value(cosine + sequence * half * 4)
      .longInteger(x.elements / 2)
      .integer(sequence)
      .integer(heads)
      .integer(headDim)
      .real(direction);
  kernel.constants.push_back(std::move(memory));
  return kernel;
}

} // namespace sluice::cuda
