// The routing of docs/commands.md in plain loops.
#pragma once

#include "tests/runtime/device/CommandRunner.h"

#include <algorithm>
#include <numeric>

namespace sluice::test {

struct RoutingReference {
  std::vector<int32_t> buffer; // as docs/commands.md lays it out
  int64_t tokens, topK, experts;

  int64_t rows() const { return tokens * topK; }
  int64_t expertOf(int64_t slot) const { return buffer[slot]; }
  int64_t rowOf(int64_t slot) const { return buffer[rows() + slot]; }
  int64_t slotOf(int64_t row) const { return buffer[2 * rows() + row]; }
  int64_t expertOfRow(int64_t row) const { return expertOf(slotOf(row)); }
  int64_t tokenOfRow(int64_t row) const { return slotOf(row) / topK; }
  Shape shape() const { return {static_cast<int64_t>(buffer.size())}; }
};

/// From the chosen ids alone.
inline RoutingReference routingFromIds(const std::vector<int32_t> &ids, int64_t topK, int64_t experts) {
  RoutingReference r{ids, static_cast<int64_t>(ids.size()) / topK, topK, experts};
  std::vector<int32_t> slots(ids.size()), rows(ids.size()), offsets(static_cast<size_t>(experts + 1));
  std::iota(slots.begin(), slots.end(), 0);
  std::sort(slots.begin(), slots.end(),
            [&](int32_t a, int32_t b) { return std::pair(ids[a], a) < std::pair(ids[b], b); });
  for (size_t row = 0; row < slots.size(); ++row)
    rows[slots[row]] = static_cast<int32_t>(row);
  for (int32_t id : ids)
    for (int64_t e = id; e < experts; ++e)
      ++offsets[e + 1];
  r.buffer.insert(r.buffer.end(), rows.begin(), rows.end());
  r.buffer.insert(r.buffer.end(), slots.begin(), slots.end());
  r.buffer.insert(r.buffer.end(), offsets.begin(), offsets.end());
  return r;
}

/// From logits: best first, ties to the lower index, NaN last.
inline RoutingReference routingFromLogits(const Floats &logits, int64_t topK, int64_t experts) {
  std::vector<int32_t> ids;
  for (size_t at = 0; at < logits.size(); at += static_cast<size_t>(experts)) {
    std::vector<int32_t> order(static_cast<size_t>(experts));
    std::iota(order.begin(), order.end(), 0);
    auto key = [&](int32_t e) { return logits[at + static_cast<size_t>(e)]; };
    std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      if (std::isnan(key(a)) != std::isnan(key(b)))
        return std::isnan(key(b));
      return std::isnan(key(a)) || key(a) == key(b) ? a < b : key(a) > key(b);
    });
    ids.insert(ids.end(), order.begin(), order.begin() + topK);
  }
  return routingFromIds(ids, topK, experts);
}

/// The adversarial assignments that expert kernels must survive, by name.
inline std::vector<int32_t> assignment(const std::string &kind, int64_t tokens, int64_t topK,
                                       int64_t experts) {
  std::vector<int32_t> ids;
  std::mt19937 generator(11);
  for (int64_t t = 0; t < tokens; ++t)
    for (int64_t j = 0; j < topK; ++j) {
      if (kind == "one")
        ids.push_back(static_cast<int32_t>((experts - 1 + j) % experts)); // all tokens choose alike
      else if (kind == "holes")
        ids.push_back(static_cast<int32_t>((t + j) % std::max<int64_t>(1, (experts + 1) / 2) * 2 %
                                           experts)); // odd ones stay empty
      else
        ids.push_back(static_cast<int32_t>(
            (static_cast<int64_t>(generator() % static_cast<uint32_t>(experts)) + j) % experts));
    }
  return ids;
}

} // namespace sluice::test
