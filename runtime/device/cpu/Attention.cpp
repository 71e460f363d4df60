#include "runtime/device/cpu/Attention.h"

#include <cmath>

namespace sluice::cpu {

AttentionShape attentionShape(Arguments &arguments, const Tensor &q, const Tensor &k, const Tensor &v) {
  AttentionShape shape{};
  shape.batch = q.dim(0);
  shape.sequence = q.dim(1);
  shape.heads = arguments.integer("heads", 1, 1 << 16);
  shape.keyHeads = arguments.integer("kv_heads", 1, 1 << 16);
  shape.headDim = arguments.integer("head_dim", 1, 1 << 16);
  shape.valueDim = arguments.integerOr("value_dim", shape.headDim);
  shape.causal = arguments.integer("causal", 0, 1) == 1;
  shape.window = arguments.integerOr("window", 0);
  shape.sinks = arguments.flag("sinks");
  const double scale = arguments.number("scale"), softcap = arguments.numberOr("softcap", 0);
  shape.scale = static_cast<float>(scale);
  shape.softcap = static_cast<float>(softcap);
  const std::vector<double> slopes = arguments.numbers("slopes");
  if (!slopes.empty())
    shape.slopes = std::make_shared<std::vector<float>>(slopes.begin(), slopes.end());
  arguments.require(scale > 0 && std::isfinite(scale), "scale must be positive");
  arguments.require(softcap >= 0 && std::isfinite(softcap), "softcap must not be negative");
  arguments.require(shape.heads % shape.keyHeads == 0, "heads must be a multiple of kv_heads");
  arguments.require(shape.valueDim > 0 && shape.valueDim <= 1 << 16, "value_dim must be 1 to 65536");
  arguments.require(shape.window >= 0, "window must not be negative");
  arguments.require(shape.causal || (shape.window == 0 && !shape.slopes),
                    "window and slopes need causal = 1");
  arguments.require(slopes.empty() || static_cast<int64_t>(slopes.size()) == shape.heads,
                    "slopes must hold one number a head");
  arguments.require(q.rank() == 3, "q must be [B, S, heads * head_dim]");
  arguments.shape(q, {shape.batch, shape.sequence, shape.queryWidth()}, "q");
  arguments.shape(k, {shape.batch, shape.sequence, shape.keyWidth()}, "k");
  arguments.shape(v, {shape.batch, shape.sequence, shape.valueWidth()}, "v");
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
