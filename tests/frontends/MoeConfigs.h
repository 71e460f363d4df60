// Published mixtures of experts as config.json files, with the settings that their publishers wrote.
#pragma once

namespace sluice::cli {

/// A model of the oracle table and its config.json: the family and what differs from its defaults.
struct PublishedConfig {
  const char *name, *config;
};

inline constexpr PublishedConfig moeConfigs[] = {
    {"Mixtral-8x7B", R"({"model_type": "mixtral", "vocab_size": 32000})"},
    {"Mixtral-8x22B-v0.1", R"({"model_type": "mixtral", "vocab_size": 32000, "hidden_size": 6144,
      "num_hidden_layers": 56, "num_attention_heads": 48, "intermediate_size": 16384, "rope_theta": 1000000.0})"},
    {"Mixtral-8x22B-v0.3-vocab32768", R"({"model_type": "mixtral", "vocab_size": 32768, "hidden_size": 6144,
      "num_hidden_layers": 56, "num_attention_heads": 48, "intermediate_size": 16384, "rope_theta": 1000000.0})"},
    {"OLMoE-1B-7B-0924", R"({"model_type": "olmoe", "intermediate_size": 1024, "clip_qkv": null,
      "norm_topk_prob": false, "num_experts": 64, "num_experts_per_tok": 8})"},
    {"Qwen1.5-MoE-A2.7B", R"({"model_type": "qwen2_moe", "sliding_window": 32768, "use_sliding_window": false,
      "max_window_layers": 21, "decoder_sparse_step": 1})"},
    {"Qwen2-57B-A14B", R"({"model_type": "qwen2_moe", "hidden_size": 3584, "num_hidden_layers": 28,
      "num_attention_heads": 28, "num_key_value_heads": 4, "intermediate_size": 18944, "num_experts": 64,
      "num_experts_per_tok": 8, "moe_intermediate_size": 2560, "shared_expert_intermediate_size": 20480})"},
    {"Qwen3-30B-A3B",
     R"({"model_type": "qwen3_moe", "num_hidden_layers": 48, "head_dim": 128, "num_experts": 128,
      "norm_topk_prob": true, "decoder_sparse_step": 1, "mlp_only_layers": [], "sliding_window": null,
      "max_window_layers": 48, "rope_theta": 1000000.0})"},
    {"Qwen3-235B-A22B", R"({"model_type": "qwen3_moe", "hidden_size": 4096, "num_hidden_layers": 94,
      "num_attention_heads": 64, "head_dim": 128, "intermediate_size": 12288, "moe_intermediate_size": 1536,
      "norm_topk_prob": true})"},
    {"Qwen3-Coder-480B-A35B", R"({"model_type": "qwen3_moe", "hidden_size": 6144, "num_hidden_layers": 62,
      "num_attention_heads": 96, "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 8192,
      "num_experts": 160, "moe_intermediate_size": 2560, "norm_topk_prob": true})"},
    {"DeepSeek-V2-Lite", R"({"model_type": "deepseek_v2", "hidden_size": 2048, "num_hidden_layers": 27,
      "num_attention_heads": 16, "num_key_value_heads": 16, "intermediate_size": 10944, "moe_intermediate_size": 1408,
      "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6, "first_k_dense_replace": 1,
      "q_lora_rank": null, "n_group": 1, "topk_group": 1, "topk_method": "greedy", "scoring_func": "softmax",
      "aux_loss_alpha": 0.001, "seq_aux": true, "ep_size": 1, "moe_layer_freq": 1, "max_position_embeddings": 163840,
      "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 0.707, "mscale_all_dim": 0.707,
      "original_max_position_embeddings": 4096, "type": "yarn"}})"},
    {"DeepSeek-V2", R"({"model_type": "deepseek_v2", "hidden_size": 5120, "num_hidden_layers": 60,
      "num_attention_heads": 128, "num_key_value_heads": 128, "intermediate_size": 12288,
      "moe_intermediate_size": 1536, "n_routed_experts": 160, "n_shared_experts": 2, "num_experts_per_tok": 6,
      "first_k_dense_replace": 1, "q_lora_rank": 1536, "n_group": 8, "topk_group": 3,
      "topk_method": "group_limited_greedy", "routed_scaling_factor": 16.0, "max_position_embeddings": 163840,
      "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 0.707, "mscale_all_dim": 0.707,
      "original_max_position_embeddings": 4096, "type": "yarn"}})"},
    {"DeepSeek-V3",
     R"({"model_type": "deepseek_v3", "max_position_embeddings": 163840, "scoring_func": "sigmoid",
      "topk_method": "noaux_tc", "num_nextn_predict_layers": 1, "quantization_config": {"quant_method": "fp8"},
      "rope_scaling": {"beta_fast": 32, "beta_slow": 1, "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0,
      "original_max_position_embeddings": 4096, "type": "yarn"}})"},
    {"Kimi-K2", R"({"model_type": "deepseek_v3", "vocab_size": 163840, "num_attention_heads": 64,
      "num_key_value_heads": 64, "n_routed_experts": 384, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1,
      "routed_scaling_factor": 2.827, "rope_theta": 50000.0, "max_position_embeddings": 131072})"},
    {"gpt-oss-20b", R"({"model_type": "gpt_oss", "num_hidden_layers": 24, "num_local_experts": 32,
      "experts_per_token": 4, "num_experts_per_tok": 4, "initial_context_length": 4096, "sliding_window": 128,
      "rope_theta": 150000, "rope_scaling": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 32.0,
      "original_max_position_embeddings": 4096, "rope_type": "yarn", "truncate": false},
      "quantization_config": {"quant_method": "mxfp4"}})"},
    {"gpt-oss-120b", R"({"model_type": "gpt_oss", "num_hidden_layers": 36, "num_local_experts": 128})"},
};

} // namespace sluice::cli
