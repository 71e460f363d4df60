// Inputs and outputs of `exec` as files.
#include "frontends/cli/Exec.h"

#include "runtime/checkpoint/SafetensorsWriter.h"
#include "runtime/checkpoint/TensorConversion.h"
#include "runtime/support/File.h"
#include "runtime/train/Masks.h"
#include "runtime/train/Weights.h"

#include <filesystem>

namespace sluice::cli {

StatusOr<ExecInputs> ExecInputs::read(const std::string &path) {
  SLUICE_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::open(path));
  const TensorView *tokens = file.find("tokens"), *targets = file.find("targets");
  if (!tokens || !targets)
    return badInputError(path, ": expected tensors 'tokens' and 'targets', found no '",
                         tokens ? "targets" : "tokens", "'");
  if (tokens->shape.size() != 2 || tokens->shape != targets->shape)
    return badInputError(path, ": expected tokens and targets of one shape [batch, sequence]");
  ExecInputs inputs;
  inputs.batch = tokens->shape[0], inputs.sequence = tokens->shape[1];
  SLUICE_ASSIGN_OR_RETURN(inputs.tokens, toInt32(*tokens));
  SLUICE_ASSIGN_OR_RETURN(inputs.targets, toInt32(*targets));
  return inputs;
}

StatusOr<ExecWeights> ExecWeights::open(const std::string &weights, const std::string &masks) {
  ExecWeights result;
  SLUICE_ASSIGN_OR_RETURN(result.files, WeightFiles::open(weights));
  std::string path = masks;
  std::error_code ignored;
  if (path.empty() && std::filesystem::exists(std::filesystem::path(weights) / masksFile, ignored))
    path = concat(weights, "/", masksFile);
  if (path.empty())
    return result;
  SLUICE_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::open(path));
  result.masks.emplace(std::move(file));
  result.place = path;
  return result;
}

Status ExecWeights::load(Session &session) const {
  SLUICE_RETURN_IF_ERROR(importMasks(session, [&](std::string_view name) { return mask(name); }, place));
  SLUICE_RETURN_IF_ERROR(
      importModel(session, [&](std::string_view name) { return weight(name); }, "weights"));
  return checkMaskedStates(session, place);
}

void appendGradient(ExecOutputs &outputs, const std::string &checkpointName,
                    const std::vector<int64_t> &shape, const std::vector<double> &values, double factor) {
  StateTensor state;
  state.checkpointName = checkpointName;
  state.place.shape = shape;
  std::vector<std::string> names = weightNames(state);
  std::vector<int64_t> partShape = shape;
  if (names.size() > 1 || checkpointName.find("{expert}") != std::string::npos)
    partShape.erase(partShape.begin());
  size_t part = values.size() / names.size();
  for (size_t index = 0; index < names.size(); ++index) {
    ExecTensor tensor{"grad/" + names[index], partShape, {}};
    for (size_t i = 0; i < part; ++i)
      tensor.values.push_back(values[index * part + i] * factor);
    outputs.push_back(std::move(tensor));
  }
}

Status writeExecOutputs(const std::string &path, const ExecOutputs &outputs, bool float64) {
  std::vector<TensorSource> sources;
  std::vector<std::vector<float>> narrow(outputs.size());
  for (size_t index = 0; index < outputs.size(); ++index) {
    TensorSource source;
    source.name = outputs[index].name;
    source.shape = outputs[index].shape;
    source.type = float64 ? TensorType::F64 : TensorType::F32;
    if (float64) {
      source.data = outputs[index].values.data();
    } else {
      narrow[index].assign(outputs[index].values.begin(), outputs[index].values.end());
      source.data = narrow[index].data();
    }
    sources.push_back(std::move(source));
  }
  SLUICE_ASSIGN_OR_RETURN(SafetensorsWriter writer, SafetensorsWriter::create(std::move(sources)));
  std::string bytes;
  SLUICE_RETURN_IF_ERROR(writer.write([&](const void *data, size_t size) {
    bytes.append(static_cast<const char *>(data), size);
    return absl::OkStatus();
  }));
  return writeFileAtomically(path, bytes);
}

} // namespace sluice::cli
