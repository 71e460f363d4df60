#include "frontends/decoder/Sparsity.h"

#include <algorithm>
#include <numeric>

namespace sluice {
namespace {

using Wide = __int128;

Wide sizeOf(const MaskedLayer &layer) {
  return Wide(layer.out) * layer.in;
}

/// ceil(numerator / denominator), at least 1.
int64_t roundedUp(Wide numerator, Wide denominator) {
  return static_cast<int64_t>(std::max<Wide>(1, (numerator + denominator - 1) / denominator));
}

std::vector<int64_t> erkWeights(Ratio density, const std::vector<MaskedLayer> &layers) {
  std::vector<bool> dense(layers.size(), false);
  while (true) {
    // density * all = dense ones + epsilon * sum of (in + out): epsilon as a fraction.
    Wide all = 0, kept = 0, edges = 0;
    for (size_t i = 0; i < layers.size(); ++i) {
      all += sizeOf(layers[i]) * layers[i].matrices;
      (dense[i] ? kept : edges) +=
          (dense[i] ? sizeOf(layers[i]) : Wide(layers[i].in) + layers[i].out) * layers[i].matrices;
    }
    const Wide numerator = density.numerator * all - kept * density.denominator,
               denominator = edges * density.denominator;
    // The layer of the largest density; all of one shape together.
    size_t worst = layers.size();
    for (size_t i = 0; i < layers.size(); ++i)
      if (!dense[i] &&
          (worst == layers.size() || (Wide(layers[i].in) + layers[i].out) * sizeOf(layers[worst]) >
                                         (Wide(layers[worst].in) + layers[worst].out) * sizeOf(layers[i])))
        worst = i;
    const bool fits = worst == layers.size() || numerator * (layers[worst].in + layers[worst].out) <=
                                                    denominator * sizeOf(layers[worst]);
    std::vector<int64_t> weights;
    weights.reserve(layers.size());
    for (size_t i = 0; i < layers.size(); ++i)
      weights.push_back(dense[i] ? static_cast<int64_t>(sizeOf(layers[i]))
                                 : roundedUp(numerator * (layers[i].in + layers[i].out), denominator));
    if (fits)
      return weights;
    const MaskedLayer shape = layers[worst];
    for (size_t i = 0; i < layers.size(); ++i)
      dense[i] = dense[i] || (Wide(layers[i].in) + layers[i].out) * sizeOf(shape) ==
                                 (Wide(shape.in) + shape.out) * sizeOf(layers[i]);
  }
}

} // namespace

std::optional<Ratio> parseDecimal(std::string_view text) {
  Ratio ratio{0, 1};
  bool digits = false, point = false;
  size_t at = 0;
  for (; at < text.size() && text[at] != 'e' && text[at] != 'E'; ++at) {
    if (text[at] == '.' && !point) {
      point = true;
      continue;
    }
    if (text[at] < '0' || text[at] > '9' || ratio.numerator > 99999999 || ratio.denominator > 99999999)
      return std::nullopt;
    digits = true;
    ratio.numerator = ratio.numerator * 10 + (text[at] - '0');
    ratio.denominator *= point ? 10 : 1;
  }
  if (!digits)
    return std::nullopt;
  if (at < text.size()) { // an exponent
    std::string_view exponent = text.substr(at + 1);
    const bool negative = !exponent.empty() && exponent[0] == '-';
    if (negative || (!exponent.empty() && exponent[0] == '+'))
      exponent.remove_prefix(1);
    if (exponent.size() != 1 || exponent[0] < '0' || exponent[0] > '9')
      return std::nullopt;
    for (int i = 0; i < exponent[0] - '0'; ++i)
      (negative ? ratio.denominator : ratio.numerator) *= 10;
  }
  const int64_t common = std::gcd(ratio.numerator, ratio.denominator);
  return Ratio{ratio.numerator / common, ratio.denominator / common};
}

StatusOr<std::vector<int64_t>> keptWeights(const Sparsity &sparsity, const std::vector<MaskedLayer> &layers) {
  const Ratio density = sparsity.density, ratio = sparsity.attentionToMlp;
  if (sparsity.distribution == Distribution::Erk)
    return erkWeights(density, layers);
  // density of the others = D (A + M) / (r A + M), that of attention r times as much.
  Wide attention = 0, others = 0;
  for (const MaskedLayer &layer : layers)
    (layer.attention ? attention : others) += sizeOf(layer) * layer.matrices;
  std::vector<int64_t> weights;
  for (const MaskedLayer &layer : layers) {
    Wide numerator = density.numerator, denominator = density.denominator;
    if (sparsity.distribution == Distribution::AttentionToMlp) {
      numerator *= (attention + others) * (layer.attention ? ratio.numerator : ratio.denominator);
      denominator *= ratio.numerator * attention + ratio.denominator * others;
    }
    if (numerator > denominator)
      return usageError(sparsity.key,
                        ".distribution.attention_to_mlp: expected a ratio that leaves every density at "
                        "most 1, found ",
                        static_cast<double>(ratio.numerator) / static_cast<double>(ratio.denominator),
                        ", which makes the density of ",
                        layer.attention ? "attention " : "the other targets ",
                        static_cast<double>(numerator) / static_cast<double>(denominator));
    weights.push_back(roundedUp(numerator * sizeOf(layer), denominator));
  }
  return weights;
}

} // namespace sluice
