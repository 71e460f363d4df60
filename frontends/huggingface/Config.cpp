#include "frontends/huggingface/Config.h"

#include "runtime/support/File.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"

#include <set>

namespace sluice {
namespace {

/// Reads keys of one config and remembers which were read, so that the rest can be judged.
class ConfigReader {
public:
  ConfigReader(const llvm::json::Object &object, std::string place)
      : object(object), place(std::move(place)) {}

  /// The integer at `key`; `fallback` if absent or null; negative fallback: required.
  StatusOr<int64_t> integer(llvm::StringRef key, int64_t fallback) {
    const llvm::json::Value *value = find(key);
    if (!value) {
      if (fallback < 0)
        return usageError(place, ": key '", key.str(), "' is missing: expected an integer");
      return fallback;
    }
    std::optional<int64_t> integer = value->getAsInteger();
    if (!integer || *integer < 0)
      return wrong(key, "a non-negative integer");
    return *integer;
  }
  StatusOr<double> number(llvm::StringRef key, double fallback) {
    const llvm::json::Value *value = find(key);
    if (!value)
      return fallback;
    std::optional<double> number = value->getAsNumber();
    if (!number)
      return wrong(key, "a number");
    return *number;
  }
  StatusOr<bool> boolean(llvm::StringRef key, bool fallback) {
    const llvm::json::Value *value = find(key);
    if (!value)
      return fallback;
    std::optional<bool> boolean = value->getAsBoolean();
    if (!boolean)
      return wrong(key, "true or false");
    return *boolean;
  }
  /// The value, or null if the key is absent or null.
  const llvm::json::Value *find(llvm::StringRef key) {
    read.insert(key.str());
    const llvm::json::Value *value = object.get(key);
    return value && value->kind() != llvm::json::Value::Null ? value : nullptr;
  }
  Status wrong(llvm::StringRef key, const std::string &expectation) const {
    std::string found;
    llvm::raw_string_ostream(found) << *object.get(key);
    return usageError(place, ": key '", key.str(), "': expected ", expectation, ", found ", found);
  }
  /// Keys that nothing read and that are not known to be without effect on the computation.
  Status checkRest() const {
    static const std::set<std::string> harmless = {"architectures",
                                                   "model_type",
                                                   "_name_or_path",
                                                   "name_or_path",
                                                   "torch_dtype",
                                                   "dtype",
                                                   "transformers_version",
                                                   "use_cache",
                                                   "bos_token_id",
                                                   "eos_token_id",
                                                   "pad_token_id",
                                                   "output_attentions",
                                                   "output_hidden_states",
                                                   "pretraining_tp",
                                                   "return_dict",
                                                   "router_aux_loss_coef",
                                                   "output_router_logits",
                                                   "initializer_range",
                                                   "attn_implementation",
                                                   "_attn_implementation",
                                                   "id2label",
                                                   "label2id",
                                                   "tokenizer_class",
                                                   "is_decoder",
                                                   "problem_type",
                                                   "chunk_size_feed_forward",
                                                   "is_encoder_decoder",
                                                   "finetuning_task",
                                                   "task_specific_params"};
    for (const auto &entry : object)
      if (!read.count(entry.first.str()) && !harmless.count(entry.first.str()))
        return usageError(place, ": key '", entry.first.str(),
                          "' is not known for this family and could change the "
                          "computation; remove it if it does not");
    return absl::OkStatus();
  }

private:
  const llvm::json::Object &object;
  std::string place;
  std::set<std::string> read;
};

/// Base of the rotary positions: rope_parameters (new) or rope_theta and rope_scaling (old); only the default
/// kind.
Status readRope(ConfigReader &reader, DecoderConfig &config, double familyTheta, const std::string &place) {
  SLUICE_ASSIGN_OR_RETURN(config.ropeTheta, reader.number("rope_theta", familyTheta));
  for (const char *key : {"rope_parameters", "rope_scaling"}) {
    const llvm::json::Value *value = reader.find(key);
    if (!value)
      continue;
    const llvm::json::Object *rope = value->getAsObject();
    if (!rope)
      return reader.wrong(key, "an object");
    llvm::StringRef type = rope->getString("rope_type").value_or(rope->getString("type").value_or("default"));
    if (type != "default")
      return usageError(place, ": key '", key, ".rope_type': expected default, found '", type.str(),
                        "'; scaled rotary positions are not supported for this family");
    if (std::optional<double> theta = rope->getNumber("rope_theta"))
      config.ropeTheta = *theta;
  }
  return absl::OkStatus();
}

} // namespace

StatusOr<DecoderConfig> readHuggingFaceConfig(const std::string &path) {
  std::string place = path;
  if (llvm::sys::fs::is_directory(place))
    place += "/config.json";
  StatusOr<std::string> text = readFile(place);
  if (!text.ok())
    return usageError(std::string(text.status().message()));
  llvm::Expected<llvm::json::Value> parsed = llvm::json::parse(*text);
  if (!parsed)
    return usageError(place, ": not JSON: ", llvm::toString(parsed.takeError()));
  const llvm::json::Object *object = parsed->getAsObject();
  if (!object)
    return usageError(place, ": expected a JSON object");
  llvm::StringRef family = object->getString("model_type").value_or("");
  if (family != "llama" && family != "mixtral")
    return usageError(place, ": key 'model_type': expected llama or mixtral, found '", family.str(), "'");
  bool mixtral = family == "mixtral";

  ConfigReader reader(*object, place);
  DecoderConfig config;
  config.name = family.str();
  SLUICE_ASSIGN_OR_RETURN(config.vocabulary, reader.integer("vocab_size", 32000));
  SLUICE_ASSIGN_OR_RETURN(config.width, reader.integer("hidden_size", 4096));
  SLUICE_ASSIGN_OR_RETURN(config.layers, reader.integer("num_hidden_layers", 32));
  SLUICE_ASSIGN_OR_RETURN(config.heads, reader.integer("num_attention_heads", 32));
  SLUICE_ASSIGN_OR_RETURN(config.kvHeads, reader.integer("num_key_value_heads", mixtral ? 8 : config.heads));
  if (config.heads == 0 || (!reader.find("head_dim") && config.width % config.heads != 0))
    return usageError(place,
                      ": key 'num_attention_heads': expected a divisor of hidden_size = ", config.width,
                      ", found ", config.heads);
  SLUICE_ASSIGN_OR_RETURN(config.headDim, reader.integer("head_dim", config.width / config.heads));
  SLUICE_ASSIGN_OR_RETURN(config.ffn, reader.integer("intermediate_size", mixtral ? 14336 : 11008));
  SLUICE_ASSIGN_OR_RETURN(config.normEpsilon, reader.number("rms_norm_eps", mixtral ? 1e-5 : 1e-6));
  SLUICE_ASSIGN_OR_RETURN(config.initStandardDeviation, reader.number("initializer_range", 0.02));
  SLUICE_ASSIGN_OR_RETURN(config.tied, reader.boolean("tie_word_embeddings", false));
  SLUICE_ASSIGN_OR_RETURN(config.maxPositions,
                          reader.integer("max_position_embeddings", mixtral ? 131072 : 2048));
  SLUICE_RETURN_IF_ERROR(readRope(reader, config, mixtral ? 1e6 : 1e4, place));
  if (const llvm::json::Value *activation = reader.find("hidden_act");
      activation && activation->getAsString() != "silu")
    return reader.wrong("hidden_act", "silu");
  SLUICE_ASSIGN_OR_RETURN(double dropout, reader.number("attention_dropout", 0));
  if (dropout != 0)
    return reader.wrong("attention_dropout", "0");
  if (mixtral) {
    MoeConfig moe;
    SLUICE_ASSIGN_OR_RETURN(moe.experts, reader.integer("num_local_experts", 8));
    SLUICE_ASSIGN_OR_RETURN(moe.topK, reader.integer("num_experts_per_tok", 2));
    moe.ffn = config.ffn;
    SLUICE_ASSIGN_OR_RETURN(double jitter, reader.number("router_jitter_noise", 0));
    if (jitter != 0)
      return reader.wrong("router_jitter_noise", "0");
    if (reader.find("sliding_window"))
      return reader.wrong("sliding_window", "null");
    config.moe = moe;
  } else {
    SLUICE_ASSIGN_OR_RETURN(config.attentionBias, reader.boolean("attention_bias", false));
    SLUICE_ASSIGN_OR_RETURN(config.mlpBias, reader.boolean("mlp_bias", false));
  }
  SLUICE_RETURN_IF_ERROR(reader.checkRest());
  if (Status status = checkDecoder(config); !status.ok())
    return usageError(place, ": ", std::string(status.message()));
  return config;
}

} // namespace sluice
