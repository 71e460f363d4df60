// The data contract: documents of a split, in a seeded order, cut into training windows that every epoch
// visits in a fresh seeded order. A batch is a pure function of (options, window index), so any rank can
// compute any part and a resumed run seeks in constant time.
#pragma once

#include "runtime/data/Dataset.h"
#include "runtime/support/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace sluice {

/// The target that losses leave out.
constexpr int32_t ignoreIndex = -100;

enum class WindowMode {
  /// Documents joined, the delimiter after each, cut into windows of seq + 1 tokens with stride seq; a tail
  /// shorter
  /// than seq + 1 is dropped (droppedTokens()). The stream's first token is no window's target.
  Concatenate,
  /// One document and its delimiter a window, truncated to seq + 1 tokens; beyond the end, inputs are the
  /// delimiter
  /// and targets ignoreIndex. A document's first token is no target.
  Document,
};

struct WindowOptions {
  WindowMode mode = WindowMode::Concatenate;
  int64_t seq = 0;
  /// The stream is cut to its first N tokens, delimiters counted; 0: all. The prefix is taken along the
  /// permutation of documents, so a smaller N is always a part of a larger one.
  uint64_t uniqueTokens = 0;
  /// The same cut, to N windows; not both. With one document a window these are the first N documents.
  uint64_t uniqueWindows = 0;
  uint64_t documentSeed = 0; // the permutation of documents
  uint64_t windowSeed = 0;   // the permutations of windows, one an epoch
  bool reshuffle = true;     // false: every epoch repeats the order of epoch 0
};

/// What a run of targets covers. Ignored targets and delimiters cover no text (see TokenLength for the rule),
/// but a delimiter is a counted target.
struct TargetCount {
  uint64_t targets = 0, bytes = 0, characters = 0;
};

class WindowStream {
public:
  /// Training windows. The split and the tokenizer must outlive the stream. Usage errors name the numbers:
  /// seq < 1, fewer than seq + 1 tokens, uniqueTokens or uniqueWindows beyond what the split has, or both.
  static StatusOr<WindowStream> open(const Split &split, const Tokenizer &tokenizer,
                                     const WindowOptions &options);
  /// Evaluation windows: documents and windows in stored order, every epoch the same.
  static StatusOr<WindowStream> openFixed(const Split &split, const Tokenizer &tokenizer, WindowMode mode,
                                          int64_t seq);

  int64_t seq() const { return options.seq; }
  /// Windows of an epoch.
  uint64_t windows() const { return windowCount; }
  /// Real targets of an epoch (without ignoreIndex).
  uint64_t tokensPerEpoch() const { return targetsPerEpoch; }
  /// Tokens of the stream that the windows are cut from, delimiters counted: uniqueTokens where it was given.
  uint64_t uniqueTokens() const { return streamTokens; }
  /// Tokens of the stream that are in no window: the tail, or what truncation cut off.
  uint64_t droppedTokens() const { return dropped; }
  /// Documents of the stream.
  uint64_t documents() const { return order.size(); }

  /// Epoch of the `index`-th window of a run, as a fraction: index / windows().
  double epoch(uint64_t index) const { return static_cast<double>(index) / static_cast<double>(windowCount); }
  /// The window id (0 .. windows() - 1, its place in the stream) that is the `index`-th of a run.
  uint64_t window(uint64_t index) const;

  /// Writes windows `first` .. `first + count` - 1 of a run (any index: epochs follow one another) as
  /// tokens[count][seq] and targets[count][seq], targets[i] being the token after tokens[i]. Allocates
  /// nothing; may be called from several threads.
  void batch(uint64_t first, uint64_t count, int32_t *tokens, int32_t *targets) const;

  /// What `count` targets cover; bits per byte = nats / ln 2 / bytes.
  TargetCount countTargets(const int32_t *targets, uint64_t count) const;

  /// SHA-256 over mode, seq and all windows in stream order: names an evaluation set. Reads everything.
  std::string contentHash() const;

private:
  static StatusOr<WindowStream> make(const Split &split, const Tokenizer &tokenizer,
                                     const WindowOptions &options, bool fixed);
  void fill(uint64_t window, int32_t *tokens, int32_t *targets) const;
  void readStream(uint64_t position, uint64_t count, int32_t *out) const;
  void fillDocument(uint64_t window, int32_t *tokens, int32_t *targets) const;
  /// Tokens of the stream that are of its `index`-th document, delimiter included unless the cut took it.
  uint64_t span(uint64_t index) const {
    return (index + 1 < starts.size() ? starts[index + 1] : streamTokens) - starts[index];
  }

  const Split *split = nullptr;
  const std::vector<TokenLength> *lengths = nullptr;
  int32_t delimiter = 0;
  WindowOptions options;
  bool fixed = false;
  std::vector<uint64_t> order;  // the stream's documents
  std::vector<uint64_t> starts; // stream position of each
  uint64_t streamTokens = 0, windowCount = 0, targetsPerEpoch = 0, dropped = 0;
};

} // namespace sluice
