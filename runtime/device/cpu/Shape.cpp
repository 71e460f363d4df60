#include "runtime/device/Arguments.h"
#include "runtime/device/cpu/Kernels.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

#include <cstring>

// Commands that move values without computing: fill, copy, transpose, slice, concat.
namespace sluice::cpu {
namespace {

using Sizes = std::vector<int64_t>;

Sizes rowMajorStrides(const Sizes &shape) {
  Sizes strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;)
    strides[i - 1] = strides[i] * shape[i];
  return strides;
}

/// The numbers of "0,2,1"; an error unless there are `count`, each in 0 .. most[i].
Sizes readNumbers(Arguments &arguments, std::string_view name, const Sizes &most) {
  Sizes numbers;
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

/// Copies count elements of `size` bytes with a stride (in elements) in the source.
void copyStrided(const std::byte *source, int64_t stride, std::byte *target, int64_t count, int64_t size) {
  if (stride == 1) {
    std::memcpy(target, source, static_cast<size_t>(count * size));
    return;
  }
  if (size == 4) {
    for (int64_t i = 0; i < count; ++i)
      std::memcpy(target + i * 4, source + i * stride * 4, 4);
    return;
  }
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(target + i * size, source + i * stride * size, static_cast<size_t>(size));
}

/// y[i...] = x[start + sum of i_k strides_k]: one tile a few rows (all dimensions but the last) of y.
Stage stridedCopy(const Tensor &x, int64_t start, const Sizes &strides, const Tensor &y) {
  const int64_t rank = y.rank(), last = rank ? y.dim(-1) : 1, rows = last ? y.elements / last : 0;
  const int64_t size = elementSize(y.type), step = rank ? strides.back() : 1;
  const int64_t grain = std::max<int64_t>(1, 4096 / std::max<int64_t>(last, 1));
  auto shape = std::make_shared<const std::pair<Sizes, Sizes>>(y.shape, strides);
  return rangeStage(rows, grain, [=](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      int64_t at = start, rest = row;
      for (size_t i = static_cast<size_t>(std::max<int64_t>(rank - 1, 0)); i-- > 0;) {
        at += rest % shape->first[i] * shape->second[i];
        rest /= shape->first[i];
      }
      copyStrided(x.data + at * size, step, y.data + row * last * size, last, size);
    }
  });
}

struct Move {
  Tensor x, y;
};

Move readMove(Arguments &arguments) {
  arguments.inputs(1);
  arguments.outputs(1);
  Move move{arguments.anyInput(0), arguments.anyOutput(0)};
  arguments.require(move.x.type == move.y.type, "input and output must have one type");
  return move;
}

} // namespace

StatusOr<PreparedKernel> prepareFill(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(0);
  arguments.outputs(1);
  const Tensor y = arguments.anyOutput(0);
  const double value = arguments.number("value");
  arguments.require(y.type != ElementType::BF16 || value == 0.0,
                    "a bf16 tensor can only be filled with 0 here");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  kernel.stages.push_back(rangeStage(y.elements, 1 << 16, [=](int64_t begin, int64_t end) {
    switch (y.type) {
    case ElementType::F32:
      std::fill(y.f32() + begin, y.f32() + end, static_cast<float>(value));
      break;
    case ElementType::F64:
      std::fill(y.as<double>() + begin, y.as<double>() + end, value);
      break;
    case ElementType::I32:
      std::fill(y.i32() + begin, y.i32() + end, static_cast<int32_t>(value));
      break;
    case ElementType::I64:
      std::fill(y.as<int64_t>() + begin, y.as<int64_t>() + end, static_cast<int64_t>(value));
      break;
    case ElementType::U8:
      std::fill(y.as<uint8_t>() + begin, y.as<uint8_t>() + end, static_cast<uint8_t>(value));
      break;
    case ElementType::BF16:
      std::fill(y.as<uint16_t>() + begin, y.as<uint16_t>() + end, uint16_t{0});
      break;
    }
  }));
  return kernel;
}

StatusOr<PreparedKernel> prepareCopy(PrepareContext &context) {
  Arguments arguments(context);
  const Move move = readMove(arguments);
  arguments.elements(move.y, move.x.elements, "the result");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  const int64_t size = elementSize(move.x.type);
  PreparedKernel kernel;
  kernel.stages.push_back(rangeStage(move.x.elements, 1 << 16, [=](int64_t begin, int64_t end) {
    std::memmove(move.y.data + begin * size, move.x.data + begin * size,
                 static_cast<size_t>((end - begin) * size));
  }));
  return kernel;
}

StatusOr<PreparedKernel> prepareTranspose(PrepareContext &context) {
  Arguments arguments(context);
  const Move move = readMove(arguments);
  const int64_t rank = move.x.rank();
  const Sizes permutation = readNumbers(arguments, "permutation", Sizes(static_cast<size_t>(rank), rank - 1));
  arguments.require(move.y.rank() == rank, "the result must have the input's rank");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  const Sizes inputStrides = rowMajorStrides(move.x.shape);
  Sizes strides;
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
  kernel.stages.push_back(stridedCopy(move.x, 0, strides, move.y));
  return kernel;
}

StatusOr<PreparedKernel> prepareSlice(PrepareContext &context) {
  Arguments arguments(context);
  const Move move = readMove(arguments);
  const Sizes offsets = readNumbers(arguments, "offsets", move.x.shape);
  arguments.require(move.y.rank() == move.x.rank(), "the result must have the input's rank");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  const Sizes strides = rowMajorStrides(move.x.shape);
  int64_t start = 0;
  for (size_t i = 0; i < offsets.size(); ++i) {
    arguments.require(move.y.shape[i] <= move.x.shape[i] - offsets[i], "the slice must lie inside the input");
    start += offsets[i] * strides[i];
  }
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  kernel.stages.push_back(stridedCopy(move.x, start, strides, move.y));
  return kernel;
}

StatusOr<PreparedKernel> prepareConcat(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(1, SIZE_MAX);
  arguments.outputs(1);
  const Tensor y = arguments.anyOutput(0);
  const int64_t axis = arguments.integer("axis", 0, std::max<int64_t>(0, y.rank() - 1));
  SLUICE_RETURN_IF_ERROR(arguments.status());
  arguments.require(y.rank() >= 1, "the result must have a dimension");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  int64_t outer = 1, inner = elementSize(y.type), total = 0;
  for (int64_t i = 0; i < y.rank(); ++i)
    (i < axis ? outer : inner) *= i == axis ? 1 : y.dim(i);
  PreparedKernel kernel;
  for (size_t index = 0; index < arguments.inputCount(); ++index) {
    const Tensor x = arguments.anyInput(index);
    bool fits = x.rank() == y.rank() && x.type == y.type;
    for (int64_t i = 0; fits && i < y.rank(); ++i)
      fits = i == axis || x.dim(i) == y.dim(i);
    arguments.require(fits, "inputs must agree with the result in type and in all dimensions but the axis");
    SLUICE_RETURN_IF_ERROR(arguments.status());
    const int64_t bytes = x.dim(axis) * inner, stride = y.dim(axis) * inner, begin = total * inner;
    total += x.dim(axis);
    if (bytes > 0 && total <= y.dim(axis))
      kernel.stages.push_back(
          rangeStage(outer, std::max<int64_t>(1, 65536 / bytes), [=](int64_t from, int64_t to) {
            for (int64_t i = from; i < to; ++i)
              std::memcpy(y.data + i * stride + begin, x.data + i * bytes, static_cast<size_t>(bytes));
          }));
  }
  arguments.require(total == y.dim(axis), "the inputs' sizes along the axis must add up to the result's");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  return kernel;
}

} // namespace sluice::cpu
