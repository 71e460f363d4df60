#include "runtime/device/cuda/Kernels.h"

#include <algorithm>
#include <array>

namespace sluice::cuda {

Launch &launchProduct(PreparedKernel &kernel, const DenseProduct &product,
                      const std::function<void(Launch &)> &pointers) {
  Launch &launch =
      kernel.launch("gemm", Blocks::each(product.n, 64, "columns"), Blocks::each(product.m, 64, "rows"));
  launch.product = product;
  pointers(launch);
  return launch.integer(product.m)
      .integer(product.n)
      .integer(product.k)
      .integer(product.rowA)
      .integer(product.depthA)
      .integer(product.columnB)
      .integer(product.depthB)
      .integer(product.accumulate);
}

StatusOr<PreparedKernel> prepareGemm(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(2, 3);
  arguments.outputs(1);
  const Tensor a = arguments.input(0), b = arguments.input(1), c = arguments.output(0);
  const bool transposeA = arguments.flag("transpose_a"), transposeB = arguments.flag("transpose_b");
  const bool accumulate = arguments.flag("accumulate");
  arguments.flag("parameter_b"); // nothing is packed here
  arguments.require(a.rank() >= 2 && b.rank() >= 2 && c.rank() >= 2,
                    "A, B and C must have at least two dimensions");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  DenseProduct product{};
  product.m = transposeA ? a.dim(-1) : a.rows();
  product.k = transposeA ? a.rows() : a.dim(-1);
  product.n = transposeB ? b.rows() : b.dim(-1);
  product.rowA = transposeA ? 1 : a.dim(-1);
  product.depthA = transposeA ? a.dim(-1) : 1;
  product.columnB = transposeB ? b.dim(-1) : 1;
  product.depthB = transposeB ? 1 : b.dim(-1);
  product.accumulate = accumulate;
  arguments.require((transposeB ? b.dim(-1) : b.rows()) == product.k,
                    "A and B must agree in the reduced dimension");
  arguments.supported(std::max({product.m, product.n, product.k}) <= INT32_MAX,
                      "the sizes of a product must fit into 31 bits");
  arguments.require(c.rows() == product.m && c.dim(-1) == product.n, "C must be [M, N] of op(A) op(B)");
  Tensor bias;
  if (arguments.inputCount() == 3) {
    bias = arguments.input(2);
    arguments.elements(bias, product.n, "bias");
  }
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  launchProduct(kernel, product,
                [&](Launch &launch) { launch.pointer(c).pointer(a).pointer(b).pointer(bias); });
  return kernel;
}

namespace {

/// The kernel's parameter (codegen/cuda/library/Products.cu): the result's dimensions, then the contracted
/// ones.
struct Contraction {
  static constexpr size_t limit = 12;
  int32_t resultRank = 0, contractedRank = 0;
  uint32_t size[limit] = {};
  int64_t strideA[limit] = {}, strideB[limit] = {};

  void add(int64_t extent, int64_t a, int64_t b) {
    const int i = resultRank + contractedRank;
    size[i] = static_cast<uint32_t>(extent);
    strideA[i] = a;
    strideB[i] = b;
  }
};

/// The stride of index `name` in an operand of that subscript (0: absent), and its size.
struct Subscript {
  std::string names;
  const Tensor *tensor;

  int64_t stride(char name) const {
    int64_t sum = 0, stride = 1;
    for (size_t i = names.size(); i-- > 0; stride *= tensor->shape[i])
      sum += names[i] == name ? stride : 0;
    return sum;
  }
  int64_t size(char name) const {
    const size_t at = names.find(name);
    return at == std::string::npos ? 0 : tensor->shape[at];
  }
};

} // namespace

StatusOr<PreparedKernel> prepareContract(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(2);
  arguments.outputs(1);
  const Tensor a = arguments.input(0), b = arguments.input(1), c = arguments.output(0);
  const bool accumulate = arguments.flag("accumulate");
  const std::string equation = arguments.text("equation");
  const size_t comma = equation.find(','), arrow = equation.find("->");
  const bool wellFormed = comma != std::string::npos && arrow != std::string::npos && comma < arrow;
  arguments.require(wellFormed, "attribute 'equation' must look like ij,jk->ik");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  const std::array<Subscript, 3> operands = {Subscript{equation.substr(0, comma), &a},
                                             {equation.substr(comma + 1, arrow - comma - 1), &b},
                                             {equation.substr(arrow + 2), &c}};
  for (const Subscript &operand : operands)
    arguments.require(static_cast<int64_t>(operand.names.size()) == operand.tensor->rank(),
                      "the equation must name every dimension of every operand");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  for (const Subscript &operand : operands)
    for (char name : operand.names)
      arguments.require(name >= 'a' && name <= 'z', "the equation's indices must be letters a to z");
  for (char name : operands[2].names)
    arguments.require(operands[2].names.find(name) == operands[2].names.rfind(name),
                      "an index may occur once in the result");
  std::string contracted;
  for (size_t k = 0; k < 2; ++k)
    for (char name : operands[k].names)
      if (operands[2].names.find(name) == std::string::npos && contracted.find(name) == std::string::npos)
        contracted += name;
  arguments.require(operands[2].names.size() + contracted.size() <= Contraction::limit,
                    "the CUDA device contracts at most 12 indices");
  for (char name : operands[2].names + contracted) {
    int64_t size = -1;
    for (const Subscript &operand : operands)
      if (operand.names.find(name) != std::string::npos) {
        arguments.require(size < 0 || size == operand.size(name),
                          concat("index '", std::string(1, name), "' must have one size"));
        size = operand.size(name);
      }
    arguments.require(operands[0].size(name) + operands[1].size(name) > 0 || size == 0,
                      "the result's indices must occur in an operand");
  }
  SLUICE_RETURN_IF_ERROR(arguments.status());
  Contraction shape;
  int64_t count = 1;
  auto sizeOf = [&](char name) {
    return operands[0].stride(name) ? operands[0].size(name) : operands[1].size(name);
  };
  for (char name : operands[2].names) {
    shape.add(sizeOf(name), operands[0].stride(name), operands[1].stride(name));
    ++shape.resultRank;
  }
  for (char name : contracted) {
    shape.add(sizeOf(name), operands[0].stride(name), operands[1].stride(name));
    ++shape.contractedRank;
    count *= sizeOf(name);
  }
  arguments.supported(c.elements <= INT32_MAX && count <= INT32_MAX,
                      "a general contraction takes at most 2^31 - 1 results and products a result");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  kernel.elements("contract", c.elements)
      .pointer(c)
      .pointer(a)
      .pointer(b)
      .value(shape)
      .integer(c.elements)
      .integer(count)
      .integer(accumulate);
  return kernel;
}

} // namespace sluice::cuda
