#!/usr/bin/env python3
"""Makes the small MoE models of this folder with a public library (transformers), in float64.

Usage: make_moe_families.py [FAMILY ...]   (needs torch, safetensors and transformers; tests need none of them)

Each folder gets config.json and model.safetensors as the library saves them (float32 values) and io.safetensors:
tokens, targets (-100 is ignored), logits, loss (mean over the kept targets, no auxiliary loss) and, for every tensor of
model.safetensors, grad/<name>. A buffer that is read but not trained has a gradient of zeros.
"""
import copy
import json
import os
import shutil
import sys
import tempfile

import torch

# The library computes some parts (norms, rotary tables, router scores) in float32 whatever the model's type; the
# reference is the same formulas in float64.
torch.float32 = torch.float = torch.float64
torch.Tensor.float = torch.Tensor.double

from safetensors.torch import load_file  # noqa: E402
from transformers import AutoConfig, AutoModelForCausalLM  # noqa: E402

VOCABULARY, BATCH, SEQUENCE = 31, 2, 11

COMMON = dict(
    vocab_size=VOCABULARY, hidden_size=16, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
    hidden_act="silu", tie_word_embeddings=False, bos_token_id=None, eos_token_id=None, pad_token_id=None)

YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=8, beta_fast=32.0,
            beta_slow=1.0)

FAMILIES = {
    # Every second layer would be sparse, but one of those is named dense: only the last layer has experts.
    "qwen3moe-sparse-step": dict(
        COMMON, model_type="qwen3_moe", num_hidden_layers=4, head_dim=6, intermediate_size=20, moe_intermediate_size=8,
        num_experts=8, num_experts_per_tok=3, norm_topk_prob=True, decoder_sparse_step=2, mlp_only_layers=[1]),
    # No query rank, groups by their best expert, interleaved rotary positions, yarn with equal scales.
    "deepseekv2-groups": dict(
        COMMON, model_type="deepseek_v2", num_hidden_layers=2, num_key_value_heads=4, intermediate_size=20,
        moe_intermediate_size=6, n_routed_experts=8, num_experts_per_tok=3, n_shared_experts=2, first_k_dense_replace=1,
        topk_method="group_limited_greedy", n_group=4, topk_group=2, routed_scaling_factor=4.0, q_lora_rank=None,
        kv_lora_rank=8, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=5,
        rope_parameters=dict(YARN, mscale=0.707, mscale_all_dim=0.707)),
    # Query rank, sigmoid scores with a selection bias, groups by their two best, yarn with different scales.
    "deepseekv3-bias-groups": dict(
        COMMON, model_type="deepseek_v3", num_hidden_layers=3, num_key_value_heads=4, intermediate_size=20,
        moe_intermediate_size=6, n_routed_experts=8, num_experts_per_tok=3, n_shared_experts=1, first_k_dense_replace=1,
        n_group=4, topk_group=2, routed_scaling_factor=2.5, norm_topk_prob=True, q_lora_rank=12, kv_lora_rank=8,
        qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=5, rope_parameters=dict(YARN, mscale=1.0, mscale_all_dim=0.8)),
    # Sinks, a window in every second layer, biases everywhere, a clamp that is reached.
    "gptoss-sinks": dict(
        COMMON, model_type="gpt_oss", num_hidden_layers=2, head_dim=6, intermediate_size=10, num_local_experts=4,
        num_experts_per_tok=2, sliding_window=5, swiglu_limit=0.75,
        rope_parameters=dict(YARN, rope_theta=150000.0, truncate=False)),
}


def draw(name, tensor, generator):
    """Random values that single precision holds exactly."""
    noise = torch.randn(tensor.shape, generator=generator, dtype=torch.float64)
    if "norm" in name:
        value = 1 + 0.1 * noise
    elif "sinks" in name or tensor.dim() == 1:
        value = 0.3 * noise
    elif "bias" in name:
        value = 0.2 * noise
    else:
        value = noise * tensor.shape[-1] ** -0.5
    return torch.from_numpy(value.numpy().astype("float32").astype("float64"))


def saved(model):
    """The tensors of the model under the names and shapes that the library saves."""
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        config = json.load(open(folder + "/config.json"))
        return {name: tensor.clone() for name, tensor in load_file(folder + "/model.safetensors").items()}, config


def make(name, settings):
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    generator = torch.Generator().manual_seed(len(name) * 1000 + ord(name[0]))
    config = AutoConfig.for_model(**settings)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").double()
    model.set_experts_implementation("eager")
    with torch.no_grad():
        for key, tensor in list(model.named_parameters()) + list(model.named_buffers()):
            if "inv_freq" not in key:
                tensor.copy_(draw(key, tensor, generator))
    tokens = torch.randint(0, VOCABULARY, (BATCH, SEQUENCE), generator=generator)
    targets = torch.randint(0, VOCABULARY, (BATCH, SEQUENCE), generator=generator)
    targets[0, 3] = targets[1, 0] = -100
    model.eval()
    logits = model(input_ids=tokens, use_cache=False).logits
    loss = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), targets.reshape(-1), ignore_index=-100)
    loss.backward()

    weights, saved_config = saved(model)
    gradients = copy.deepcopy(model)
    with torch.no_grad():
        for (_, target), (_, source) in zip(gradients.named_parameters(), model.named_parameters()):
            target.copy_(source.grad if source.grad is not None else torch.zeros_like(source))
        for key, buffer in gradients.named_buffers():
            if "inv_freq" not in key:
                buffer.zero_()
    slopes, _ = saved(gradients)
    assert slopes.keys() == weights.keys()

    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    saved_config["dtype"] = "float32"
    with open(folder + "/config.json", "w") as file:
        json.dump(saved_config, file, indent=2, sort_keys=True)
        file.write("\n")
    save_numpy({key: value.numpy().astype("float32") for key, value in weights.items()}, folder + "/model.safetensors")
    outputs = {"tokens": tokens.int().numpy(), "targets": targets.int().numpy(), "logits": logits.detach().numpy(),
               "loss": loss.detach().reshape(1).numpy()}
    outputs.update({"grad/" + key: value.numpy() for key, value in slopes.items()})
    save_numpy(outputs, folder + "/io.safetensors")
    size = sum(os.path.getsize(os.path.join(folder, file)) for file in os.listdir(folder))
    print(f"{name}: {len(weights)} tensors, loss {loss.item():.6f}, {size // 1024} kB")


def save_numpy(tensors, path):
    from safetensors.numpy import save_file as save
    save(tensors, path)


if __name__ == "__main__":
    for family in sys.argv[1:] or FAMILIES:
        make(family, FAMILIES[family])
