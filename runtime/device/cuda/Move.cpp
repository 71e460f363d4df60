#include "runtime/device/LookupArguments.h"
#include "runtime/device/cuda/Kernels.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

#include <algorithm>
#include <numeric>

// Commands that move values without computing. The adjoint of lookups is in LookupGradient.cpp.
namespace sluice::cuda {
namespace {

/// The kernel's parameter (codegen/cuda/library/Move.cu).
struct StridedCopy {
  static constexpr int64_t limit = 8;
  int32_t rank = 0;
  uint32_t size[limit] = {};
  int64_t start = 0, startY = 0, strideX[limit] = {}, strideY[limit] = {};
};

std::vector<int64_t> rowMajorStrides(const std::vector<int64_t> &shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;)
    strides[i - 1] = strides[i] * shape[i];
  return strides;
}

/// The numbers of "0,2,1": one a dimension, in 0 .. most[i].
std::vector<int64_t> readNumbers(Arguments &arguments, std::string_view name,
                                 const std::vector<int64_t> &most) {
  std::vector<int64_t> numbers;
  for (absl::string_view part : absl::StrSplit(arguments.text(name), ',', absl::SkipEmpty())) {
    int64_t number = -1;
    arguments.require(absl::SimpleAtoi(part, &number) && number >= 0,
                      concat("attribute '", name, "' must be numbers such as 0,2,1"));
    numbers.push_back(number);
  }
  arguments.require(numbers.size() == most.size(),
                    concat("attribute '", name, "' must name every dimension"));
  for (size_t i = 0; i < numbers.size() && arguments.ok(); ++i)
    arguments.require(numbers[i] <= most[i], concat("attribute '", name, "' points outside the tensor"));
  return numbers;
}

struct Move {
  Tensor x, y;

  explicit Move(Arguments &arguments) {
    arguments.inputs(1);
    arguments.outputs(1);
    x = arguments.anyInput(0);
    y = arguments.anyOutput(0);
    arguments.require(x.type == y.type, "input and output must have one type");
    arguments.require(y.rank() <= StridedCopy::limit, "the CUDA device moves at most 8 dimensions");
  }
};

/// A copy over the dimensions of `size`, with the strides of x and y; y starts at startY.
struct Copy {
  std::vector<int64_t> size, strideX, strideY;
  int64_t start = 0, startY = 0;

  int64_t elements() const {
    return std::accumulate(size.begin(), size.end(), int64_t{1}, std::multiplies<>());
  }
  StridedCopy parameter() const {
    StridedCopy shape;
    shape.rank = static_cast<int32_t>(size.size());
    shape.start = start;
    shape.startY = startY;
    for (size_t i = 0; i < size.size(); ++i) {
      shape.size[i] = static_cast<uint32_t>(size[i]);
      shape.strideX[i] = strideX[i];
      shape.strideY[i] = strideY[i];
    }
    return shape;
  }
};

/// Copies of 2^31 elements and more go in parts: the kernels count elements in 32 bits.
void appendCopy(PreparedKernel &kernel, const Tensor &y, const Tensor &x, const Copy &copy) {
  if (copy.elements() > INT32_MAX) {
    const auto largest =
        static_cast<size_t>(std::max_element(copy.size.begin(), copy.size.end()) - copy.size.begin());
    Copy first = copy, second = copy;
    first.size[largest] /= 2;
    second.size[largest] -= first.size[largest];
    second.start += first.size[largest] * copy.strideX[largest];
    second.startY += first.size[largest] * copy.strideY[largest];
    appendCopy(kernel, y, x, first);
    return appendCopy(kernel, y, x, second);
  }
  kernel.elements(concat("strided_copy_", elementSize(x.type)), copy.elements())
      .pointer(y)
      .pointer(x)
      .value(copy.parameter())
      .integer(copy.elements());
}

/// Rows of a table by id; ids of kind i32.
StatusOr<PreparedKernel> prepareLookup(PrepareContext &context, size_t idsIndex, size_t tableIndex) {
  Arguments arguments(context);
  const LookupArguments given = lookupArguments(arguments, idsIndex, tableIndex);
  arguments.supported(std::max({given.rows, given.width, given.ids.elements}) <= INT32_MAX,
                      "the sizes of ids and table must fit into 31 bits");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  kernel.rows("lookup", given.ids.elements, "ids")
      .pointer(given.y)
      .pointer(given.ids)
      .pointer(given.table)
      .integer(given.ids.elements)
      .integer(given.rows)
      .integer(given.width)
      .damage();
  return kernel;
}

} // namespace

StatusOr<PreparedKernel> prepareEmbedding(PrepareContext &context) {
  return prepareLookup(context, 0, 1);
}
StatusOr<PreparedKernel> prepareGather(PrepareContext &context) {
  return prepareLookup(context, 1, 0);
}

StatusOr<PreparedKernel> prepareFill(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(0);
  arguments.outputs(1);
  const Tensor y = arguments.anyOutput(0);
  const double value = arguments.number("value");
  arguments.require(elementSize(y.type) >= 4 || value == 0.0,
                    "a tensor of 1 or 2 byte elements can only be filled with 0");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  auto append = [&](const char *name, auto pattern, int64_t count) {
    kernel.elements(name, count).pointer(y).value(pattern).longInteger(count);
  };
  switch (y.type) {
  case ElementType::F32:
    append("fill_4", static_cast<float>(value), y.elements);
    break;
  case ElementType::F64:
    append("fill_8", value, y.elements);
    break;
  case ElementType::I32:
    append("fill_4", static_cast<int32_t>(value), y.elements);
    break;
  case ElementType::I64:
    append("fill_8", static_cast<int64_t>(value), y.elements);
    break;
  default: // zeros: places are multiples of 64 bytes, so the rest of the last word is nobody's
    append("fill_4", uint32_t{0}, ceilDivide(y.elements * elementSize(y.type), 4));
  }
  return kernel;
}

StatusOr<PreparedKernel> prepareCopy(PrepareContext &context) {
  Arguments arguments(context);
  const Move move(arguments);
  arguments.elements(move.y, move.x.elements, "the result");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  appendCopy(kernel, move.y, move.x, Copy{{move.y.elements}, {1}, {1}});
  return kernel;
}

StatusOr<PreparedKernel> prepareTranspose(PrepareContext &context) {
  Arguments arguments(context);
  const Move move(arguments);
  const int64_t rank = move.x.rank();
  const std::vector<int64_t> permutation =
      readNumbers(arguments, "permutation", std::vector<int64_t>(static_cast<size_t>(rank), rank - 1));
  arguments.require(move.y.rank() == rank, "the result must have the input's rank");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  const std::vector<int64_t> inputStrides = rowMajorStrides(move.x.shape);
  std::vector<int64_t> strides;
  std::vector<bool> seen(static_cast<size_t>(rank));
  for (size_t i = 0; i < permutation.size(); ++i) {
    const size_t source = static_cast<size_t>(permutation[i]);
    arguments.require(!seen[source] && move.y.shape[i] == move.x.shape[source],
                      "dimension i of the result must be the input's dimension permutation[i], each once");
    seen[source] = true;
    strides.push_back(inputStrides[source]);
  }
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  appendCopy(kernel, move.y, move.x, Copy{move.y.shape, strides, rowMajorStrides(move.y.shape)});
  return kernel;
}

StatusOr<PreparedKernel> prepareSlice(PrepareContext &context) {
  Arguments arguments(context);
  const Move move(arguments);
  const std::vector<int64_t> offsets = readNumbers(arguments, "offsets", move.x.shape);
  arguments.require(move.y.rank() == move.x.rank(), "the result must have the input's rank");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  const std::vector<int64_t> strides = rowMajorStrides(move.x.shape);
  Copy copy{move.y.shape, strides, rowMajorStrides(move.y.shape)};
  for (size_t i = 0; i < offsets.size(); ++i) {
    arguments.require(move.y.shape[i] <= move.x.shape[i] - offsets[i], "the slice must lie inside the input");
    copy.start += offsets[i] * strides[i];
  }
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  appendCopy(kernel, move.y, move.x, copy);
  return kernel;
}

StatusOr<PreparedKernel> prepareConcat(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(1, SIZE_MAX);
  arguments.outputs(1);
  const Tensor y = arguments.anyOutput(0);
  const int64_t axis = arguments.integer("axis", 0, std::max<int64_t>(0, y.rank() - 1));
  arguments.require(y.rank() >= 1 && y.rank() <= StridedCopy::limit,
                    "the result must have 1 to 8 dimensions");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  const std::vector<int64_t> strides = rowMajorStrides(y.shape);
  PreparedKernel kernel;
  int64_t total = 0;
  for (size_t index = 0; index < arguments.inputCount(); ++index) {
    const Tensor x = arguments.anyInput(index);
    bool fits = x.rank() == y.rank() && x.type == y.type;
    for (int64_t i = 0; fits && i < y.rank(); ++i)
      fits = i == axis || x.dim(i) == y.dim(i);
    arguments.require(fits, "inputs must agree with the result in type and in all dimensions but the axis");
    arguments.require(total + x.dim(axis) <= y.dim(axis),
                      "the inputs' sizes along the axis must add up to the result's");
    SLUICE_RETURN_IF_ERROR(arguments.status());
    Copy copy{x.shape, rowMajorStrides(x.shape), strides};
    copy.startY = total * strides[static_cast<size_t>(axis)];
    appendCopy(kernel, y, x, copy);
    total += x.dim(axis);
  }
  arguments.require(total == y.dim(axis), "the inputs' sizes along the axis must add up to the result's");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  return kernel;
}

} // namespace sluice::cuda
