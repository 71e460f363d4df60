#include "frontends/huggingface/Family.h"

namespace sluice {

llvm::ArrayRef<Family> families() {
  static const Family table[] = {
      {"deepseek_v2", readDeepseekV2},
      {"deepseek_v3", readDeepseekV3},
      {"gemma2", readGemma2},
      {"gpt2", readGpt2},
      {"gpt_neox", readGptNeox},
      {"gpt_oss", readGptOss},
      {"llama", readLlama},
      {"mistral", readMistral},
      {"mixtral", readMixtral},
      {"olmo", readOlmo},
      {"olmoe", readOlmoe},
      {"qwen2", readQwen2},
      {"qwen2_moe", readQwen2Moe},
      {"qwen3", readQwen3},
      {"qwen3_moe", readQwen3Moe},
      {"sluice", readOwn},
  };
  return table;
}

StatusOr<std::string> readActivation(ConfigReader &reader, llvm::StringRef key, llvm::StringRef fallback) {
  struct Name {
    llvm::StringLiteral theirs, ours;
  };
  static const Name names[] = {
      {"silu", "silu"},           {"swish", "silu"},
      {"gelu", "gelu"},           {"gelu_new", "gelu_tanh"},
      {"gelu_fast", "gelu_tanh"}, {"relu", "relu"},
      {"relu2", "relu_squared"},  {"gelu_pytorch_tanh", "gelu_tanh"},
      {"tanh", "tanh"},           {"sigmoid", "sigmoid"},
  };
  SLUICE_ASSIGN_OR_RETURN(std::string name, reader.text(key, fallback));
  for (const auto &[theirs, ours] : names)
    if (name == theirs)
      return ours.str();
  return reader.wrong(
      key, "silu, swish, gelu, gelu_new, gelu_fast, gelu_pytorch_tanh, relu, relu2, tanh or sigmoid");
}

Status readShape(ConfigReader &reader, DecoderConfig &config, const ShapeDefaults &defaults) {
  SLUICE_ASSIGN_OR_RETURN(config.vocabulary, reader.integer("vocab_size", defaults.vocabulary));
  SLUICE_ASSIGN_OR_RETURN(config.width, reader.integer("hidden_size", defaults.width));
  SLUICE_ASSIGN_OR_RETURN(config.layers, reader.integer("num_hidden_layers", defaults.layers));
  if (config.layers > maximumLayers)
    return reader.wrong("num_hidden_layers", concat("at most ", maximumLayers));
  SLUICE_ASSIGN_OR_RETURN(config.heads, reader.integer("num_attention_heads", defaults.heads));
  // Null means as many as heads in every family, whatever an absent key means.
  SLUICE_ASSIGN_OR_RETURN(config.kvHeads, reader.nullableInteger("num_key_value_heads", defaults.kvHeads));
  if (config.kvHeads == 0)
    config.kvHeads = config.heads;
  const bool stated = reader.has("head_dim") || defaults.headDim != 0;
  if (config.heads == 0 || (!stated && config.width % config.heads != 0))
    return reader.error(concat("key 'num_attention_heads': expected a divisor of hidden_size = ",
                               config.width, ", found ", config.heads));
  SLUICE_ASSIGN_OR_RETURN(
      config.headDim,
      reader.integer("head_dim", defaults.headDim ? defaults.headDim : config.width / config.heads));
  SLUICE_ASSIGN_OR_RETURN(config.ffn, reader.integer("intermediate_size", defaults.ffn));
  config.normEpsilon = defaults.normEpsilon;
  if (!defaults.normEpsilonKey.empty()) {
    SLUICE_ASSIGN_OR_RETURN(config.normEpsilon, reader.number(defaults.normEpsilonKey, defaults.normEpsilon));
  }
  SLUICE_ASSIGN_OR_RETURN(config.initStandardDeviation, reader.number("initializer_range", 0.02));
  SLUICE_ASSIGN_OR_RETURN(config.tied, reader.boolean("tie_word_embeddings", defaults.tied));
  SLUICE_ASSIGN_OR_RETURN(config.maxPositions,
                          reader.integer("max_position_embeddings", defaults.maxPositions));
  SLUICE_ASSIGN_OR_RETURN(config.activation,
                          readActivation(reader, defaults.activationKey, defaults.activation));
  return reader.requireOff("attention_dropout");
}

Status readWindows(ConfigReader &reader, DecoderConfig &config, int64_t window,
                   llvm::function_ref<bool(int64_t)> slidingByDefault) {
  SLUICE_ASSIGN_OR_RETURN(std::vector<std::string> types, reader.texts("layer_types", config.layers));
  config.plan.assign(static_cast<size_t>(config.layers), {0, config.moe.has_value()});
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    bool sliding = types.empty() && slidingByDefault(layer);
    if (!types.empty()) {
      const std::string &type = types[static_cast<size_t>(layer)];
      sliding = type == "sliding_attention";
      if (!sliding && type != "full_attention")
        return reader.wrong("layer_types", "sliding_attention or full_attention for each layer");
      if (sliding && window == 0)
        return reader.error("key 'layer_types' names sliding_attention, but no sliding_window is in use");
    }
    if (sliding)
      config.plan[static_cast<size_t>(layer)].window = window;
  }
  return absl::OkStatus();
}

Status readQwenWindows(ConfigReader &reader, DecoderConfig &config) {
  SLUICE_ASSIGN_OR_RETURN(bool used, reader.boolean("use_sliding_window", false));
  SLUICE_ASSIGN_OR_RETURN(int64_t window, reader.nullableInteger("sliding_window", 4096));
  SLUICE_ASSIGN_OR_RETURN(int64_t full, reader.integer("max_window_layers", 28));
  return readWindows(reader, config, used ? window : 0, [=](int64_t layer) { return layer >= full; });
}

} // namespace sluice
