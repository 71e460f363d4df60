#include "runtime/train/Evaluate.h"

#include "runtime/train/Weights.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

namespace sluice {

double Evaluation::bitsPerByte() const {
  return bytes ? nats / std::numbers::ln2 / static_cast<double>(bytes) : 0;
}
double Evaluation::bitsPerCharacter() const {
  return characters ? nats / std::numbers::ln2 / static_cast<double>(characters) : 0;
}

StatusOr<BatchShape> batchShape(const Session &session, std::string_view entry) {
  SLUICE_ASSIGN_OR_RETURN(const Operand *tokens, session.input(entry, "tokens"));
  if (tokens->shape.size() != 2 || tokens->type != ElementType::I32)
    return badInputError("entry point '", entry, "': expected input 'tokens' as i32 [batch, seq], found ",
                         elementTypeName(tokens->type), " of ", tokens->shape.size(), " dimensions");
  return BatchShape{tokens->shape[0], tokens->shape[1]};
}

StatusOr<Evaluation> evaluate(Session &session, const WindowStream &set, uint64_t windows,
                              const std::function<bool()> &stop) {
  SLUICE_ASSIGN_OR_RETURN(BatchShape shape, batchShape(session, "eval"));
  if (set.seq() != shape.sequence)
    return usageError("evaluation: expected windows of ", shape.sequence, " tokens, found ", set.seq());
  uint64_t count = windows == 0 ? set.windows() : std::min(windows, set.windows());
  size_t size = static_cast<size_t>(shape.batch * shape.sequence);
  std::vector<int32_t> tokens(size), targets(size);
  Evaluation sum;
  sum.windows = count;
  for (uint64_t first = 0; first < count; first += static_cast<uint64_t>(shape.batch)) {
    if (stop && stop())
      return interruptedError("evaluation stopped on request");
    uint64_t here = std::min(static_cast<uint64_t>(shape.batch), count - first);
    set.batch(first, here, tokens.data(), targets.data());
    size_t used = here * static_cast<size_t>(shape.sequence);
    std::fill(tokens.begin() + used, tokens.end(), 0);
    std::fill(targets.begin() + used, targets.end(), ignoreIndex);
    SLUICE_RETURN_IF_ERROR(session.setInput<int32_t>("eval", "tokens", tokens));
    SLUICE_RETURN_IF_ERROR(session.setInput<int32_t>("eval", "targets", targets));
    SLUICE_RETURN_IF_ERROR(session.run("eval"));
    SLUICE_ASSIGN_OR_RETURN(float loss, session.scalarOutput("eval", "loss_sum"));
    SLUICE_ASSIGN_OR_RETURN(float counted, session.scalarOutput("eval", "tokens"));
    TargetCount covered = set.countTargets(targets.data(), used);
    sum.nats += loss;
    sum.targets += counted;
    sum.bytes += covered.bytes;
    sum.characters += covered.characters;
  }
  if (!std::isfinite(sum.nats)) {
    SLUICE_ASSIGN_OR_RETURN(std::string name, firstNotFinite(session));
    return divergedError("evaluation: expected a finite loss, found ", sum.nats,
                         name.empty() ? std::string("; every parameter is finite, so activations overflowed")
                                      : concat("; the first values that are not finite are in '", name, "'"));
  }
  return sum;
}

StatusOr<int64_t> modelVocabulary(const ExecutableDescription &model) {
  if (const EntryPoint *entry = model.entry("logits"))
    for (const NamedOperand &output : entry->outputs)
      if (output.name == "logits" && !output.operand.shape.empty())
        return output.operand.shape.back();
  auto config = nlohmann::json::parse(model.modelConfig, nullptr, /*allow_exceptions=*/false);
  if (config.is_object() && config.contains("vocab_size") && config["vocab_size"].is_number_integer())
    return config["vocab_size"].get<int64_t>();
  return badInputError("model '", model.model,
                       "': expected an entry point 'logits' or a vocab_size in model_config, ",
                       "found neither; compile the model again");
}

Status checkVocabulary(const ExecutableDescription &model, int64_t dataVocabulary, const std::string &data) {
  SLUICE_ASSIGN_OR_RETURN(int64_t vocabulary, modelVocabulary(model));
  if (vocabulary == dataVocabulary)
    return absl::OkStatus();
  return usageError("model '", model.model, "': expected the vocabulary of '", data, "', ", dataVocabulary,
                    " tokens, found ", vocabulary, "; pack the text with --vocab ", vocabulary,
                    " or set the model's vocabulary to ", dataVocabulary);
}

} // namespace sluice
