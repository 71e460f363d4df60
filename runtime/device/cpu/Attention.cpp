#include "runtime/device/cpu/Attention.h"

#include <cmath>

namespace sluice::cpu {

AttentionShape attentionShape(const AttentionArguments &settings) {
  AttentionShape shape{settings.batch,
                       settings.sequence,
                       settings.heads,
                       settings.keyHeads,
                       settings.headDim,
                       settings.valueDim,
                       settings.window,
                       settings.causal,
                       settings.sinks,
                       static_cast<float>(settings.scale),
                       static_cast<float>(settings.softcap),
                       nullptr};
  if (!settings.slopes.empty())
    shape.slopes = std::make_shared<std::vector<float>>(settings.slopes.begin(), settings.slopes.end());
  return shape;
}

float AttentionShape::finishScores(float *row, int64_t n, int64_t head, int64_t query, int64_t key,
                                   float *derivative) const {
  if (softcap == 0 && !slopes)
    return scale;
  if (softcap == 0) {
    for (int64_t j = 0; j < n; ++j)
      row[j] *= scale;
  } else {
    for (int64_t j = 0; j < n; ++j) {
      const float t = std::tanh(scale * row[j] / softcap);
      row[j] = softcap * t;
      if (derivative)
        derivative[j] = 1 - t * t;
    }
  }
  if (slopes) {
    const float slope = (*slopes)[static_cast<size_t>(head)];
    for (int64_t j = 0; j < n; ++j)
      row[j] += slope * static_cast<float>(key + j - query);
  }
  return 1;
}

} // namespace sluice::cpu
