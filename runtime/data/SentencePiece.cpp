#include "runtime/data/SentencePiece.h"

#include <exception>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

namespace sluice::sentencepiece {
namespace {

namespace library = ::sentencepiece;

/// The library pulls sentences through this interface.
class Sentences : public library::SentenceIterator {
public:
  explicit Sentences(const std::function<bool(std::string &)> &next) : next(next) { Next(); }
  bool done() const override { return finished; }
  void Next() override { finished = !next(sentence); }
  const std::string &value() const override { return sentence; }
  library::util::Status status() const override { return {}; }

private:
  const std::function<bool(std::string &)> &next;
  std::string sentence;
  bool finished = false;
};

} // namespace

struct Model::State {
  library::SentencePieceProcessor processor;
};

Model::Model() = default;
Model::~Model() = default;
Model::Model(Model &&) noexcept = default;
Model &Model::operator=(Model &&) noexcept = default;

std::string Model::load(const std::string &bytes) {
  state = std::make_unique<State>();
  try {
    auto status = state->processor.LoadFromSerializedProto(bytes);
    return status.ok() ? std::string() : std::string(status.message());
  } catch (const std::exception &error) {
    return error.what();
  }
}

int Model::size() const {
  return state->processor.GetPieceSize();
}
int Model::endOfSentence() const {
  return state->processor.eos_id();
}
const std::string &Model::piece(int id) const {
  return state->processor.IdToPiece(id);
}

PieceKind Model::kind(int id) const {
  const auto &processor = state->processor;
  if (processor.IsByte(id))
    return PieceKind::Byte;
  if (processor.IsControl(id))
    return PieceKind::Control;
  return processor.IsUnknown(id) ? PieceKind::Unknown : PieceKind::Text;
}

std::string Model::encode(std::string_view text, std::vector<int32_t> &ids) const {
  try {
    std::vector<int> found;
    auto status = state->processor.Encode(text, &found);
    if (!status.ok())
      return status.message();
    ids.insert(ids.end(), found.begin(), found.end());
    return {};
  } catch (const std::exception &error) {
    return error.what();
  }
}

std::string train(const std::function<bool(std::string &)> &next, int vocabulary, std::string &model) {
  try {
    Sentences sentences(next);
    auto status = library::SentencePieceTrainer::Train(
        {{"model_type", "bpe"},
         {"vocab_size", std::to_string(vocabulary)},
         {"hard_vocab_limit", "true"},
         {"byte_fallback", "true"},
         {"character_coverage", "1.0"},
         {"normalization_rule_name", "identity"},
         {"add_dummy_prefix", "false"},
         {"remove_extra_whitespaces", "false"},
         {"allow_whitespace_only_pieces", "true"},
         {"shuffle_input_sentence", "false"},
         {"max_sentence_length", "1073741824"},
         {"unk_id", "0"},
         {"eos_id", "1"},
         {"bos_id", "-1"},
         {"pad_id", "-1"},
         {"num_threads", "1"},
         {"minloglevel", "4"}}, // the library reports every merge otherwise; 4 is above all its levels
        &sentences, &model);
    return status.ok() ? std::string() : std::string(status.message());
  } catch (const std::exception &error) {
    return error.what();
  }
}

} // namespace sluice::sentencepiece
