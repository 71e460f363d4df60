#include "runtime/train/TrainingData.h"

#include "runtime/train/Evaluate.h"

namespace sluice {

StatusOr<int64_t> sequenceOf(const ExecutableDescription &model, std::string_view entry) {
  if (const EntryPoint *found = model.entry(entry))
    for (const NamedOperand &input : found->inputs)
      if (input.name == "tokens" && input.operand.shape.size() == 2)
        return input.operand.shape[1];
  return badInputError("model '", model.model, "': expected an entry point '", entry,
                       "' with an input 'tokens' [batch, seq], found none; compile the model again");
}

StatusOr<std::unique_ptr<TrainingData>> TrainingData::open(const ExecutableDescription &model,
                                                           const TrainingConfig &config,
                                                           const std::string &folder) {
  if (folder.empty())
    return usageError(
        "--data: expected a folder of packed data, found none; make one with 'sluice data pack'");
  std::unique_ptr<TrainingData> data(new TrainingData);
  StatusOr<Dataset> dataset = Dataset::open(folder);
  if (!dataset.ok())
    return absl::IsNotFound(dataset.status())
               ? usageError("--data: ", std::string(dataset.status().message()))
               : dataset.status();
  data->dataset = std::move(*dataset);
  SLUICE_RETURN_IF_ERROR(checkVocabulary(model, data->dataset.tokenizer().vocabulary(), folder));
  WindowOptions windows;
  windows.mode = config.mode;
  SLUICE_ASSIGN_OR_RETURN(windows.seq, sequenceOf(model, "accumulate"));
  windows.uniqueTokens = config.uniqueTokens;
  windows.uniqueWindows = config.uniqueWindows;
  windows.documentSeed = config.dataSeed;
  windows.windowSeed = config.dataSeed;
  windows.reshuffle = config.reshuffle;
  SLUICE_ASSIGN_OR_RETURN(data->training,
                          WindowStream::open(data->dataset.train(), data->dataset.tokenizer(), windows));
  SLUICE_ASSIGN_OR_RETURN(int64_t sequence, sequenceOf(model, "eval"));
  SLUICE_ASSIGN_OR_RETURN(
      WindowStream validation,
      WindowStream::openFixed(data->dataset.validation(), data->dataset.tokenizer(), config.mode, sequence));
  data->validation.emplace(std::move(validation));
  return data;
}

} // namespace sluice
