// One entry a family of config.json: adding a family is one file in families/ and one line of the table in
// Families.cpp.
#pragma once

#include "frontends/huggingface/ConfigReader.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace sluice {

struct Family {
  llvm::StringLiteral name; // model_type
  /// Fills the configuration, with the family's published defaults for absent keys; refuses by name what it
  /// cannot express.
  Status (*read)(ConfigReader &reader, DecoderConfig &config);
};

/// All families, in alphabetical order.
llvm::ArrayRef<Family> families();

/// Defaults of the keys that most families share.
struct ShapeDefaults {
  int64_t vocabulary = 32000, width = 4096, layers = 32, heads = 32;
  int64_t kvHeads = 0; // where the key is absent; 0: as many as heads
  int64_t headDim = 0; // 0: width / heads
  int64_t ffn = 11008, maxPositions = 2048;
  double normEpsilon = 1e-6;
  bool tied = false;
  llvm::StringRef normEpsilonKey = "rms_norm_eps"; // empty: not a key of the family
  llvm::StringRef activationKey = "hidden_act", activation = "silu";
};

/// Reads vocab_size, hidden_size, num_hidden_layers, heads, head_dim, intermediate_size, the norm's epsilon,
/// initializer_range, tie_word_embeddings, max_position_embeddings and the activation; refuses attention
/// dropout.
Status readShape(ConfigReader &reader, DecoderConfig &config, const ShapeDefaults &defaults);
/// The name of sluice.activation for the library's name of an activation.
StatusOr<std::string> readActivation(ConfigReader &reader, llvm::StringRef key, llvm::StringRef fallback);
/// Windows of the layers from `layer_types`, or, where that is absent, from `slidingByDefault(layer)`. A
/// sliding layer without a window is an error.
Status readWindows(ConfigReader &reader, DecoderConfig &config, int64_t window,
                   llvm::function_ref<bool(int64_t)> slidingByDefault);

/// The windows of the Qwen families: use_sliding_window, sliding_window, max_window_layers, layer_types.
Status readQwenWindows(ConfigReader &reader, DecoderConfig &config);

/// Defaults of experts with softmax scores whose gates norm_topk_prob renormalises (OLMoE, Qwen).
struct ExpertDefaults {
  int64_t experts = 0, topK = 0, ffn = 0;
  llvm::StringRef expertsKey = "num_experts";
  llvm::StringRef ffnKey = "moe_intermediate_size"; // empty: intermediate_size is an expert's
};
/// Reads them into `config.moe` and names their tensors. Needs the shape.
Status readSoftmaxExperts(ConfigReader &reader, DecoderConfig &config, const ExpertDefaults &defaults);
/// mlp.gate, mlp.experts.{expert}.gate_proj, ...
void nameExpertsAsQwen(CheckpointNames &names);
/// Which layers of `config.plan` have experts: those whose number, from 1, is a multiple of
/// decoder_sparse_step, but not those that mlp_only_layers names, from 0.
Status readSparseLayers(ConfigReader &reader, DecoderConfig &config);

Status readDeepseekV2(ConfigReader &reader, DecoderConfig &config);
Status readDeepseekV3(ConfigReader &reader, DecoderConfig &config);
Status readGemma2(ConfigReader &reader, DecoderConfig &config);
Status readGpt2(ConfigReader &reader, DecoderConfig &config);
Status readGptNeox(ConfigReader &reader, DecoderConfig &config);
Status readGptOss(ConfigReader &reader, DecoderConfig &config);
Status readLlama(ConfigReader &reader, DecoderConfig &config);
Status readMistral(ConfigReader &reader, DecoderConfig &config);
Status readMixtral(ConfigReader &reader, DecoderConfig &config);
Status readOlmo(ConfigReader &reader, DecoderConfig &config);
Status readOlmoe(ConfigReader &reader, DecoderConfig &config);
Status readQwen2(ConfigReader &reader, DecoderConfig &config);
Status readQwen2Moe(ConfigReader &reader, DecoderConfig &config);
Status readQwen3(ConfigReader &reader, DecoderConfig &config);
Status readQwen3Moe(ConfigReader &reader, DecoderConfig &config);
Status readOwn(ConfigReader &reader, DecoderConfig &config);

} // namespace sluice
