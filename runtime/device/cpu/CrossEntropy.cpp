#include "runtime/device/cpu/CrossEntropyRow.h"
#include "runtime/device/cpu/Kernels.h"
#include "runtime/device/cpu/RowMath.h"
#include "runtime/device/cpu/TokenSums.h"

#include <cmath>
#include <limits>

namespace sluice::cpu {

int64_t Targets::target(int64_t token, std::atomic<bool> &damage) const {
  const int64_t id = ids[token];
  if (id == ignored)
    return -1;
  if (id >= 0 && id < vocabulary)
    return id;
  damage = true;
  return -1;
}

Targets readTargets(Arguments &arguments, size_t input, int64_t tokens, int64_t vocabulary) {
  const Tensor targets = arguments.input(input, ElementType::I32);
  arguments.elements(targets, tokens, "targets");
  arguments.require(vocabulary > 0, "the vocabulary must not be empty");
  return {targets.i32(), arguments.integer("ignore_index", INT32_MIN, INT32_MAX), vocabulary};
}

double crossEntropyRow(const float *logits, int64_t vocabulary, int64_t target) {
  if (target < 0)
    return 0.0;
  const float most = rowMax(logits, vocabulary);
  return std::log(static_cast<double>(rowSumExp(logits, vocabulary, 1.0f, most))) + most - logits[target];
}

double crossEntropyGradientRow(const float *logits, int64_t vocabulary, int64_t target, float factor,
                               float *gradient) {
  if (target < 0) {
    std::fill_n(gradient, vocabulary, 0.0f);
    return 0.0;
  }
  const float most = rowMax(logits, vocabulary), chosen = logits[target];
  const float mass = rowExp(logits, vocabulary, 1.0f, most, gradient);
  const double loss = std::log(static_cast<double>(mass)) + most - chosen;
  if (!std::isfinite(static_cast<float>(loss))) {
    std::fill_n(gradient, vocabulary, std::numeric_limits<float>::quiet_NaN());
    return loss;
  }
  rowScale(gradient, vocabulary, factor / mass, gradient);
  gradient[target] -= factor;
  return loss;
}

void sumLosses(const double *losses, int64_t tokens, float *loss) {
  double sum = 0;
  for (int64_t token = 0; token < tokens; ++token)
    sum += losses[token];
  *loss = static_cast<float>(sum);
}

StatusOr<PreparedKernel> prepareCrossEntropy(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(2);
  arguments.outputs(1);
  const Tensor logits = arguments.input(0), loss = arguments.output(0);
  const int64_t tokens = logits.rows(), vocabulary = logits.dim(-1);
  const Targets targets = readTargets(arguments, 1, tokens, vocabulary);
  arguments.elements(loss, 1, "the loss");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  kernel.workspaceBytes = static_cast<uint64_t>(tokens) * sizeof(double);
  kernel.stages.push_back({tokens, [=](const Tile &tile) {
                             reinterpret_cast<double *>(tile.workspace)[tile.index] =
                                 crossEntropyRow(logits.f32() + tile.index * vocabulary, vocabulary,
                                                 targets.target(tile.index, *tile.damage));
                           }});
  kernel.stages.push_back({1, [=](const Tile &tile) {
                             sumLosses(reinterpret_cast<const double *>(tile.workspace), tokens, loss.f32());
                           }});
  return kernel;
}

StatusOr<PreparedKernel> prepareCrossEntropyGradient(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(3);
  arguments.outputs(1);
  const Tensor logits = arguments.input(0), g = arguments.input(2), dlogits = arguments.output(0);
  const int64_t tokens = logits.rows(), vocabulary = logits.dim(-1);
  const Targets targets = readTargets(arguments, 1, tokens, vocabulary);
  arguments.elements(g, 1, "g");
  arguments.elements(dlogits, logits.elements, "dlogits");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  kernel.stages.push_back({tokens, [=](const Tile &tile) {
                             crossEntropyGradientRow(logits.f32() + tile.index * vocabulary, vocabulary,
                                                     targets.target(tile.index, *tile.damage), *g.f32(),
                                                     dlogits.f32() + tile.index * vocabulary);
                           }});
  return kernel;
}

StatusOr<PreparedKernel> prepareCountTargets(PrepareContext &context) {
  Arguments arguments(context);
  arguments.inputs(1);
  arguments.outputs(1);
  const Tensor targets = arguments.input(0, ElementType::I32), count = arguments.output(0);
  const int64_t ignored = arguments.integer("ignore_index", INT32_MIN, INT32_MAX);
  arguments.elements(count, 1, "the count");
  SLUICE_RETURN_IF_ERROR(arguments.status());
  PreparedKernel kernel;
  sumOverTokens(
      kernel, targets.elements, 1,
      [=](int64_t token, double *sums) { sums[0] += targets.i32()[token] != ignored; },
      [=](const double *sums) { *count.f32() = static_cast<float>(sums[0]); });
  return kernel;
}

} // namespace sluice::cpu
