// The models among which a twin is searched: a reference's configuration with some of its sizes free.
#pragma once

#include "frontends/decoder/DecoderConfig.h"
#include "frontends/twin/TwinSearch.h"

#include <map>
#include <set>
#include <string>

namespace sluice {

/// `ffn`, `width`, `layers`, `experts`; `expert-ffn` comes with `experts`.
extern const std::vector<std::string> twinSizes;

/// A stretch of values that replaces the usual one.
struct TwinRange {
  int64_t least = 1, most = 1, step = 0; // 0: the size's own step
};

struct TwinRequest {
  std::set<std::string> vary = {"ffn"};
  int64_t multipleOf = 8; // of ffn, expert-ffn and width
  int64_t topK = 0;       // of a twin with experts; 0: the reference's, else 2
  std::map<std::string, TwinRange> ranges;
};

/// A reference and what may differ from it; all else is identical. The twin of a Mixture-of-Experts is dense:
/// its MLP starts as wide as the chosen experts of a token together. With `experts` among the varied the twin
/// has experts, whatever the reference.
class TwinFamily {
public:
  /// Errors (usage): an unknown size, sizes that cannot vary together, an empty range.
  static StatusOr<TwinFamily> make(const DecoderConfig &reference, const TwinRequest &request);

  const std::vector<TwinVariable> &variables() const { return free; }
  /// The configuration at a point; always one that checkDecoder accepts.
  DecoderConfig at(const TwinPoint &point) const;
  /// "heads 8, kv_heads 4, ...": what all members share, for people.
  std::string shared() const;

private:
  DecoderConfig base;
  std::vector<TwinVariable> free;
  bool headDimFollows = false; // head_dim = width / heads in the reference: the number of heads stays
};

} // namespace sluice
