#include "runtime/train/Generate.h"

#include "runtime/support/Philox.h"
#include "runtime/train/Evaluate.h"

#include <algorithm>
#include <cmath>

namespace sluice {

StatusOr<int32_t> sampleToken(const std::vector<float> &logits, double temperature, double uniform) {
  size_t best = 0;
  for (size_t index = 0; index < logits.size(); ++index) {
    if (std::isnan(logits[index]))
      return divergedError("generate: expected logits that are numbers, found none at token ", index,
                           "; the weights are damaged or have diverged");
    if (logits[index] > logits[best])
      best = index;
  }
  if (temperature == 0)
    return static_cast<int32_t>(best);
  double total = 0;
  for (float logit : logits)
    total += std::exp((static_cast<double>(logit) - logits[best]) / temperature);
  double target = uniform * total, sum = 0;
  for (size_t index = 0; index < logits.size(); ++index) {
    sum += std::exp((static_cast<double>(logits[index]) - logits[best]) / temperature);
    if (sum > target)
      return static_cast<int32_t>(index);
  }
  return static_cast<int32_t>(best); // not reached: the sums are the same
}

StatusOr<std::string> generate(Session &session, const Tokenizer &tokenizer, const GenerateOptions &options,
                               const std::function<void(std::string_view)> &emit) {
  if (!(options.temperature >= 0) || !std::isfinite(options.temperature))
    return usageError("--temperature: expected a number of at least 0, found ", options.temperature);
  if (options.tokens < 0)
    return usageError("--tokens: expected at least 0, found ", options.tokens);
  SLUICE_ASSIGN_OR_RETURN(BatchShape shape, batchShape(session, "logits"));
  SLUICE_RETURN_IF_ERROR(checkVocabulary(session.description(), tokenizer.vocabulary(), "the tokenizer"));
  std::vector<int32_t> context;
  SLUICE_RETURN_IF_ERROR(tokenizer.encode(options.prompt, context));
  if (context.empty())
    context.push_back(tokenizer.delimiter());
  size_t vocabulary = static_cast<size_t>(tokenizer.vocabulary()),
         window = static_cast<size_t>(shape.sequence);
  std::vector<int32_t> input(static_cast<size_t>(shape.batch * shape.sequence));
  std::vector<float> logits(vocabulary);
  PhiloxStream random(options.seed, streamKey("generate"));
  std::string text;
  for (int64_t index = 0; index < options.tokens; ++index) {
    // Attention is causal, so what stands behind the last token does not matter.
    size_t used = std::min(window, context.size());
    std::fill(input.begin(), input.end(), tokenizer.delimiter());
    std::copy(context.end() - used, context.end(), input.begin());
    SLUICE_RETURN_IF_ERROR(session.setInput<int32_t>("logits", "tokens", input));
    SLUICE_RETURN_IF_ERROR(session.run("logits"));
    SLUICE_RETURN_IF_ERROR(session.getOutputPart(
        "logits", "logits", static_cast<int64_t>((used - 1) * vocabulary), absl::MakeSpan(logits)));
    SLUICE_ASSIGN_OR_RETURN(int32_t token, sampleToken(logits, options.temperature, random.uniform(index)));
    context.push_back(token);
    std::string piece = "\n";
    if (token != tokenizer.delimiter()) {
      SLUICE_ASSIGN_OR_RETURN(piece, tokenizer.decode(&token, 1));
    }
    text += piece;
    if (emit)
      emit(piece);
  }
  return text;
}

} // namespace sluice
