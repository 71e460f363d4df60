#include "runtime/device/Arguments.h"
#include "runtime/device/cpu/Kernels.h"

#include <array>

// The general contraction of two operands, "bij,bjk->bik": plain loops over strides, summed in double.
// Products that matter are planned as gemm; this one has to be right for anything.
namespace sluice::cpu {
namespace {

/// One named index: its size and its stride in a, b and c (0 where it does not occur).
struct Index {
  char name;
  int64_t size;
  std::array<int64_t, 3> strides;
};

/// Splits "ab,bc->ac" and gives every index its strides.
std::vector<Index> readEquation(Arguments &arguments, const std::array<const Tensor *, 3> &operands) {
  const std::string equation = arguments.text("equation");
  const size_t comma = equation.find(','), arrow = equation.find("->");
  if (comma == std::string::npos || arrow == std::string::npos || comma > arrow) {
    arguments.require(false, "attribute 'equation' must look like ij,jk->ik");
    return {};
  }
  const std::array<std::string, 3> names = {
      equation.substr(0, comma), equation.substr(comma + 1, arrow - comma - 1), equation.substr(arrow + 2)};
  std::vector<Index> indices;
  for (size_t operand = 0; operand < 3; ++operand) {
    const Tensor &tensor = *operands[operand];
    if (static_cast<int64_t>(names[operand].size()) != tensor.rank()) {
      arguments.require(false, "the equation must name every dimension of every operand");
      return {};
    }
    int64_t stride = 1;
    for (size_t i = names[operand].size(); i-- > 0; stride *= tensor.shape[i]) {
      const char name = names[operand][i];
      auto found = std::find_if(indices.begin(), indices.end(),
                                [=](const Index &index) { return index.name == name; });
      if (found == indices.end()) {
        arguments.require(name >= 'a' && name <= 'z', "the equation's indices must be letters a to z");
        arguments.require(operand < 2, "the result's indices must occur in an operand");
        found = indices.insert(indices.end(), {name, tensor.shape[i], {0, 0, 0}});
      }
      arguments.require(found->size == tensor.shape[i],
                        concat("index '", std::string(1, name), "' must have one size"));
      arguments.require(operand < 2 || found->strides[2] == 0, "an index may occur once in the result");
      found->strides[operand] += stride;
    }
  }
  return indices;
}

/// Splits `flat` over the indices, last fastest, and adds their strides.
void locate(const std::vector<Index> &indices, int64_t flat, std::array<int64_t, 3> &at) {
  for (size_t i = indices.size(); i-- > 0; flat /= indices[i].size)
    for (size_t k = 0; k < 3; ++k)
      at[k] += flat % indices[i].size * indices[i].strides[k];
}

} // namespace

StatusOr<PreparedKernel> prepareContract(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(2);
  arguments.outputs(1);
  const Tensor a = arguments.input(0), b = arguments.input(1), c = arguments.output(0);
  const bool accumulate = arguments.flag("accumulate");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  const std::vector<Index> indices = readEquation(arguments, {&a, &b, &c});
  SLUICE_RETURN_IF_ERROR(arguments.status());
  struct Loops {
    std::vector<Index> kept, summed;
    int64_t keptCount = 1, summedCount = 1;
  };
  auto loops = std::make_shared<Loops>();
  for (const Index &index : indices) {
    const bool kept = index.strides[2] != 0;
    (kept ? loops->kept : loops->summed).push_back(index);
    int64_t &count = kept ? loops->keptCount : loops->summedCount;
    arguments.require(index.size == 0 || count <= (int64_t{1} << 42) / index.size,
                      "the contraction is too large");
    count *= index.size;
  }
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  const int64_t grain = std::clamp<int64_t>((1 << 14) / std::max<int64_t>(loops->summedCount, 1), 1, 4096);
  kernel.stages.push_back(rangeStage(loops->keptCount, grain, [=](int64_t begin, int64_t end) {
    for (int64_t flat = begin; flat < end; ++flat) {
      std::array<int64_t, 3> place{};
      locate(loops->kept, flat, place);
      double sum = accumulate ? c.f32()[place[2]] : 0.0;
      for (int64_t inner = 0; inner < loops->summedCount; ++inner) {
        std::array<int64_t, 3> at = place;
        locate(loops->summed, inner, at);
        sum += static_cast<double>(a.f32()[at[0]]) * b.f32()[at[1]];
      }
      c.f32()[place[2]] = static_cast<float>(sum);
    }
  }));
  return kernel;
}

} // namespace sluice::cpu
