// The decoders that specs and Hugging Face configs describe, as data: one description of a layer's parts, a
// plan of what differs from layer to layer, and the names of tensors in checkpoints.
#pragma once

#include "frontends/decoder/Sparsity.h"
#include "runtime/support/Status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

/// The gated activation of gpt-oss: with g = min(gate, limit) and u = up clamped to [-limit, limit],
/// (u + 1) g sigmoid(alpha g).
struct ClampedGate {
  double alpha = 1.702, limit = 7;
};

/// Experts in place of a layer's MLP.
struct MoeConfig {
  int64_t experts = 0;
  int64_t topK = 0;
  int64_t ffn = 0;               // hidden width of one expert
  std::string score = "softmax"; // softmax or sigmoid
  bool renormalize = true;       // gates are divided by their sum over the chosen experts
  double renormalizeEpsilon = 0; // added to that sum
  double scale = 1;              // multiplies the gates
  bool allowConstantGate = false;
  bool selectionBias = false; // a vector added to the scores to choose, and for nothing else; not trained
  int64_t groups = 1, groupsKept = 1;
  std::string groupScore = "maximum"; // of a group: maximum or sum_of_best_two of its keys
  bool routerBias = false;
  int64_t sharedFfn = 0;   // hidden width of the shared expert; 0: none
  bool sharedGate = false; // the shared expert times a sigmoid of its own
  // Experts with this activation, with biases, and with gate and up fused in one tensor, [experts, in, 2
  // ffn].
  std::optional<ClampedGate> clampedGate;
};

/// Latent attention (DeepSeek-V2, section 2.1): queries, keys and values come from narrow latents, a part of
/// each head carries interleaved rotary positions, and all heads share that part of the key.
struct LatentAttention {
  int64_t queryRank = 0; // width of the queries' latent; 0: queries come straight from the stream
  int64_t rank = 0;      // width of the latent of keys and values
  int64_t plainDim = 0, valueDim = 0; // of one head; its rotary part is the decoder's headDim
  double normEpsilon = 1e-6;          // of the latents' norms
};

/// What a norm computes.
enum class NormKind {
  Rms,           // x / rms(x) * gain
  RmsUnitOffset, // x / rms(x) * (1 + gain)
  Layer,         // (x - mean) / deviation * gain + bias
  LayerPlain,    // (x - mean) / deviation
};

/// Norms of queries and keys before the rotation.
enum class QueryKeyNorm {
  None,
  Head,  // over each head, one gain of head_dim for all heads
  Whole, // over all heads together
};

/// How the weights of the query, key and value products are stored.
enum class QkvStorage {
  Separate,
  Joined,       // one weight: all queries, all keys, all values
  JoinedByHead, // one weight: query, key and value of head 0, of head 1, ...
};

/// Rotary positions beyond `ropeTheta`.
struct RotaryConfig {
  bool present = true;
  int64_t dim = 0;                 // of each head, from its first element; 0: the whole head
  double factor = 1;               // multiplies cosine and sine
  double scoreGrowth = 1;          // what mscale_all_dim gives; latent attention's scale grows by its square
  std::vector<double> frequencies; // one a pair; empty: theta^(-2i/dim)
};

/// Names of tensors in checkpoints, without ".weight"; `{layer}` and `{expert}` are numbers.
struct CheckpointNames {
  std::string embedding = "model.embed_tokens", positions, finalNorm = "model.norm", head = "lm_head";
  std::string layer = "model.layers.{layer}."; // goes before all of the below
  std::string attentionNorm = "input_layernorm", attentionPostNorm;
  std::string q = "self_attn.q_proj", k = "self_attn.k_proj", v = "self_attn.v_proj",
              out = "self_attn.o_proj";
  std::string qkv, qNorm = "self_attn.q_norm", kNorm = "self_attn.k_norm";
  std::string mlpNorm = "post_attention_layernorm", mlpPostNorm;
  std::string gate = "mlp.gate_proj", up = "mlp.up_proj", down = "mlp.down_proj";
  std::string router = "block_sparse_moe.gate";
  std::string expertGate = "block_sparse_moe.experts.{expert}.w1",
              expertUp = "block_sparse_moe.experts.{expert}.w3",
              expertDown = "block_sparse_moe.experts.{expert}.w2";
  std::string stackedExperts = "mlp.experts."; // all experts in one tensor: gate_up_proj, down_proj, ..._bias
  std::string selectionBias = "mlp.gate.e_score_correction_bias"; // the whole name
  std::string sharedGate = "mlp.shared_experts.gate_proj", sharedUp = "mlp.shared_experts.up_proj",
              sharedDown = "mlp.shared_experts.down_proj", sharedScore = "mlp.shared_expert_gate";
  std::string sinks = "self_attn.sinks"; // the whole name
};

/// What may differ from layer to layer.
struct LayerConfig {
  int64_t window = 0; // of attention; 0: none
  bool experts = false;

  bool operator==(const LayerConfig &) const = default;
};

/// A decoder: x + attention(norm(x)), then x + mlp(norm(x)), `layers` times.
struct DecoderConfig {
  std::string name = "model";
  int64_t vocabulary = 0, width = 0, layers = 0;
  std::vector<LayerConfig> plan; // one entry a layer; empty: all alike, with experts if `moe` is set

  // Attention.
  int64_t heads = 0, kvHeads = 0, headDim = 0;
  bool attentionBias = false;      // of queries, keys, values and output
  bool attentionOutputBias = true; // false: the output product has none even so (qwen2)
  QkvStorage qkvStorage = QkvStorage::Separate;
  QueryKeyNorm queryKeyNorm = QueryKeyNorm::None;
  std::optional<LatentAttention> latent; // then kvHeads = heads
  bool alibi = false;                    // linear biases by distance (ALiBi) are added to the scores
  bool sinks = false;                    // one logit a head in the denominator of attention's softmax
  double clipQkv = 0;                    // queries, keys and values are clamped to [-clip, clip]; 0: not
  double attentionScale = 0;             // 0: 1 / sqrt(dimension of a query head)
  double attentionSoftcap = 0;           // 0: none
  double ropeTheta = 10000;
  RotaryConfig rotary;
  int64_t learnedPositions = 0; // rows of a table that is added to the embedding; 0: none
  int64_t maxPositions = 0;     // for exports; 0: the bound sequence length

  // MLP.
  int64_t ffn = 0; // hidden width of the dense MLP
  bool gated = true, mlpBias = false;
  std::string activation = "silu";             // as in sluice.activation
  std::optional<MoeConfig> moe;                // of the layers whose plan says so
  double balanceWeight = 0, routerZWeight = 0; // weights of the auxiliary losses; 0: absent

  // The frame.
  NormKind norm = NormKind::Rms;
  double normEpsilon = 1e-5;
  bool postNorms = false;        // also after attention and MLP, before the residual sum
  bool parallelResidual = false; // x + attention(norm(x)) + mlp(norm'(x))
  bool tied = true;              // the head is the embedding table
  double embeddingScale = 1;     // multiplies the embedding
  double logitSoftcap = 0;       // 0: none
  double initStandardDeviation = 0.02;
  std::vector<Sparsity> sparsity; // rules that mask weights; none: a dense model

  bool transposedWeights = false; // weights are stored [in, out] (gpt2)
  CheckpointNames names;
  std::string huggingFace;           // the config.json that this came from, as text; empty: from a spec
  std::vector<std::string> warnings; // what the reader wants to say to a person
};

/// A plan has one entry a layer, so a file must not ask for any number of them.
inline constexpr int64_t maximumLayers = 1 << 16;

/// What each layer is: `plan`, or the same entry for all.
std::vector<LayerConfig> layerPlan(const DecoderConfig &config);

/// Rules that no single key can check: heads divide, k <= experts, widths are positive and even where rotary
/// positions need it. The message names the keys of a spec.
Status checkDecoder(const DecoderConfig &config);

} // namespace sluice
