#include "runtime/data/Windows.h"

#include "runtime/data/Permutation.h"
#include "runtime/support/Hash.h"

#include <algorithm>

namespace sluice {

StatusOr<WindowStream> WindowStream::open(const Split &split, const Tokenizer &tokenizer,
                                          const WindowOptions &options) {
  return make(split, tokenizer, options, /*fixed=*/false);
}

StatusOr<WindowStream> WindowStream::openFixed(const Split &split, const Tokenizer &tokenizer,
                                               WindowMode mode, int64_t seq) {
  WindowOptions options;
  options.mode = mode;
  options.seq = seq;
  return make(split, tokenizer, options, /*fixed=*/true);
}

StatusOr<WindowStream> WindowStream::make(const Split &split, const Tokenizer &tokenizer,
                                          const WindowOptions &options, bool fixed) {
  if (options.seq < 1)
    return usageError("data: expected seq >= 1, found ", options.seq);
  const uint64_t seq = static_cast<uint64_t>(options.seq);
  const uint64_t available = split.totals().tokens + split.documents(); // a delimiter after each document
  if (options.uniqueTokens > available)
    return usageError("data.unique_tokens: expected at most ", available, " (all of the ", split.name(),
                      " split, delimiters included), found ", options.uniqueTokens);
  if (options.uniqueTokens && options.uniqueWindows)
    return usageError("data.unique_windows: expected either unique_tokens or unique_windows, found ",
                      options.uniqueTokens, " and ", options.uniqueWindows);
  const bool byDocument = options.mode == WindowMode::Document;
  const uint64_t mostWindows = byDocument ? split.documents() : available > 0 ? (available - 1) / seq : 0;
  if (options.uniqueWindows > mostWindows)
    return usageError("data.unique_windows: expected at most ", mostWindows, " (all of the ", split.name(),
                      " split at seq ", seq, "), found ", options.uniqueWindows);
  WindowStream stream;
  stream.split = &split;
  stream.lengths = &tokenizer.lengths();
  stream.delimiter = tokenizer.delimiter();
  stream.options = options;
  stream.fixed = fixed;
  const uint64_t wanted = options.uniqueTokens                   ? options.uniqueTokens
                          : options.uniqueWindows && !byDocument ? options.uniqueWindows * seq + 1
                                                                 : available;
  const uint64_t documents = options.uniqueWindows && byDocument ? options.uniqueWindows : split.documents();
  Permutation permutation(split.documents(), options.documentSeed, "data/documents");
  for (uint64_t at = 0; at < documents && stream.streamTokens < wanted; ++at) {
    stream.order.push_back(fixed ? at : permutation[at]);
    stream.starts.push_back(stream.streamTokens);
    stream.streamTokens += split.document(stream.order.back()).tokens + 1;
  }
  stream.streamTokens = std::min(stream.streamTokens, wanted);

  if (options.mode == WindowMode::Concatenate) {
    if (stream.streamTokens < seq + 1)
      return usageError("data: expected at least seq + 1 = ", seq + 1, " tokens for one window, found ",
                        stream.streamTokens, " in the ", split.name(), " split (", stream.order.size(),
                        " documents, delimiters included); use a shorter seq or more text");
    stream.windowCount = (stream.streamTokens - 1) / seq;
    stream.targetsPerEpoch = stream.windowCount * seq;
    stream.dropped = stream.streamTokens - 1 - stream.targetsPerEpoch;
    return stream;
  }
  stream.windowCount = stream.order.size();
  if (stream.span(stream.windowCount - 1) < 2) { // cut to one token: nothing to predict
    --stream.windowCount;
    ++stream.dropped;
  }
  if (stream.windowCount == 0)
    return usageError("data: expected a document of at least 2 tokens, found ", stream.streamTokens,
                      " in the ", split.name(), " split; use a larger unique_tokens");
  for (uint64_t window = 0; window < stream.windowCount; ++window) {
    uint64_t kept = std::min(stream.span(window), seq + 1);
    stream.targetsPerEpoch += kept - 1;
    stream.dropped += stream.span(window) - kept;
  }
  return stream;
}

uint64_t WindowStream::window(uint64_t index) const {
  uint64_t position = index % windowCount;
  if (fixed)
    return position;
  uint64_t epoch = options.reshuffle ? index / windowCount : 0;
  return Permutation(windowCount, options.windowSeed, "data/windows", epoch)[position];
}

void WindowStream::batch(uint64_t first, uint64_t count, int32_t *tokens, int32_t *targets) const {
  for (uint64_t i = 0; i < count; ++i, tokens += options.seq, targets += options.seq)
    fill(window(first + i), tokens, targets);
}

void WindowStream::fill(uint64_t window, int32_t *tokens, int32_t *targets) const {
  if (options.mode == WindowMode::Document)
    return fillDocument(window, tokens, targets);
  const uint64_t seq = static_cast<uint64_t>(options.seq);
  readStream(window * seq, seq, tokens);
  std::copy(tokens + 1, tokens + seq, targets);
  readStream((window + 1) * seq, 1, targets + seq - 1);
}

void WindowStream::readStream(uint64_t position, uint64_t count, int32_t *out) const {
  uint64_t index =
      static_cast<uint64_t>(std::upper_bound(starts.begin(), starts.end(), position) - starts.begin()) - 1;
  for (; count > 0; ++index) {
    DocumentView document = split->document(order[index]);
    uint64_t offset = position - starts[index];
    uint64_t part = offset < document.tokens ? std::min(count, document.tokens - offset) : 0;
    document.copy(offset, part, out);
    out += part;
    position += part;
    count -= part;
    if (count > 0) {
      *out++ = delimiter;
      ++position;
      --count;
    }
  }
}

void WindowStream::fillDocument(uint64_t window, int32_t *tokens, int32_t *targets) const {
  const uint64_t seq = static_cast<uint64_t>(options.seq);
  DocumentView document = split->document(order[window]);
  uint64_t kept = std::min(span(window), seq + 1);
  uint64_t inputs = std::min(std::min(kept, seq), document.tokens);
  document.copy(0, inputs, tokens);
  std::fill(tokens + inputs, tokens + seq, delimiter);
  std::fill(targets, targets + seq, ignoreIndex);
  uint64_t known = std::min(kept, document.tokens); // tokens of the window that are the document's own
  if (known > 1)
    document.copy(1, known - 1, targets);
  if (kept > document.tokens)
    targets[document.tokens - 1] = delimiter;
}

TargetCount WindowStream::countTargets(const int32_t *targets, uint64_t count) const {
  TargetCount result;
  for (uint64_t i = 0; i < count; ++i) {
    if (targets[i] == ignoreIndex)
      continue;
    const TokenLength &length = (*lengths)[static_cast<size_t>(targets[i])];
    ++result.targets;
    result.bytes += length.bytes;
    result.characters += length.characters;
  }
  return result;
}

std::string WindowStream::contentHash() const {
  Sha256 hash;
  hash.update(
      concat(options.mode == WindowMode::Document ? "document" : "concatenate", " ", options.seq, "\n"));
  const size_t seq = static_cast<size_t>(options.seq);
  std::vector<int32_t> buffer(2 * seq);
  for (uint64_t window = 0; window < windowCount; ++window) {
    fill(window, buffer.data(), buffer.data() + seq);
    hash.update(buffer.data(), buffer.size() * sizeof buffer[0]);
  }
  return toHex(hash.finish());
}

} // namespace sluice
