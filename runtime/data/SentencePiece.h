// The seam to the SentencePiece library. Its headers define absl::string_view in their own way, which clashes
// with Abseil's, so nothing here may include Abseil and errors travel as plain text.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::sentencepiece {

/// What a piece of the vocabulary stands for.
enum class PieceKind { Text, Byte, Control, Unknown };

/// A loaded model. All functions are const and may be called from several threads.
class Model {
public:
  Model();
  ~Model();
  Model(Model &&) noexcept;
  Model &operator=(Model &&) noexcept;

  /// Loads a serialised model; returns what is wrong with it, or an empty text.
  std::string load(const std::string &bytes);
  int size() const;
  int endOfSentence() const; // -1 when the model has none
  PieceKind kind(int id) const;
  /// The piece as stored: spaces are written U+2581, bytes "<0x0A>".
  const std::string &piece(int id) const;
  /// Appends the ids of `text`; returns an error or an empty text.
  std::string encode(std::string_view text, std::vector<int32_t> &ids) const;

private:
  struct State;
  std::unique_ptr<State> state;
};

/// Trains a byte-fallback BPE with identity normalisation over sentences from `next` (false ends them; none
/// is empty). `vocabulary` is exact. Writes the serialised model; returns an error or an empty text. Ids: 0
/// unknown, 1 end of sentence, 2-257 bytes, then merges, then characters.
std::string train(const std::function<bool(std::string &)> &next, int vocabulary, std::string &model);

} // namespace sluice::sentencepiece
