#!/usr/bin/env python3
"""Makes the tiny models of the Hugging Face families in this folder with the public library.

  python3 tests/data/make_families.py [NAME ...]      all, or the named folders

Needs torch and transformers (written with 2.15.0 and 5.24.0); neither is needed to build or test. Each folder gets
config.json and model.safetensors (float32, the library's names) and io.safetensors: tokens, targets [2, 13] (already
shifted, -100 is ignored), logits, loss and grad/<name> from the same weights in float64. The library runs some norms,
rotary positions and the softmax of attention in float32; here they run in float64, so that the tests can ask for 1e-6
of every gradient.
"""
import json
import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file

SHAPE = dict(vocab_size=61, hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=40,
             max_position_embeddings=32)

FAMILIES = {
    "llama-linear": ("llama", dict(num_key_value_heads=2, attention_bias=True, mlp_bias=True,
                                   rope_parameters=dict(rope_type="linear", rope_theta=500.0, factor=4.0))),
    "llama-llama3": ("llama", dict(num_key_value_heads=4, tie_word_embeddings=True, head_dim=16,
                                   rope_parameters=dict(rope_type="llama3", rope_theta=100.0, factor=8.0,
                                                        low_freq_factor=1.0, high_freq_factor=4.0,
                                                        original_max_position_embeddings=16))),
    "llama-yarn": ("llama", dict(num_key_value_heads=1, head_dim=16,
                                 rope_parameters=dict(rope_type="yarn", rope_theta=50.0, factor=4.0, beta_fast=4.0,
                                                      beta_slow=1.0, original_max_position_embeddings=24))),
    "mistral-window": ("mistral", dict(num_key_value_heads=2, sliding_window=4)),
    "qwen2-windows": ("qwen2", dict(num_key_value_heads=2, num_hidden_layers=3, use_sliding_window=True,
                                    sliding_window=5, max_window_layers=1, tie_word_embeddings=True)),
    "qwen3": ("qwen3", dict(num_key_value_heads=2, head_dim=8)),
    "olmo": ("olmo", dict(num_key_value_heads=2, clip_qkv=1.5)),
    "gpt2": ("gpt2", dict(vocab_size=61, n_embd=24, n_layer=2, n_head=4, n_positions=16)),
    "gpt-neox": ("gpt_neox", dict(rope_parameters=dict(rope_theta=100.0, rope_type="default",
                                                       partial_rotary_factor=0.34))),
    "gpt-neox-sequential": ("gpt_neox", dict(use_parallel_residual=False, attention_bias=False, num_attention_heads=2,
                                             rope_parameters=dict(rope_theta=100.0, rope_type="default",
                                                                  partial_rotary_factor=0.5))),
    "gemma2": ("gemma2", dict(num_hidden_layers=3, num_key_value_heads=2, head_dim=8, sliding_window=4,
                              query_pre_attn_scalar=10, attn_logit_softcapping=2.0, final_logit_softcapping=3.0)),
}


def randomize(model):
    """Weights large enough that every part matters; gains around their neutral value, biases not zero."""
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float32)
            if parameter.dim() > 1:
                parameter.copy_(noise * 0.25)
            else:
                parameter.copy_(parameter + 0.2 * noise)
            parameter.copy_(parameter.type(torch.float32))  # what model.safetensors can hold


def compute_in_float64():
    """The library asks for float32 inside some ops; here these requests mean float64."""
    to, softmax = torch.Tensor.to, torch.nn.functional.softmax

    def wide(dtype):
        return torch.float64 if dtype in (torch.float32, torch.float) else dtype

    def tensor_to(self, *args, **kwargs):
        if self.is_floating_point() or self.dtype in (torch.int32, torch.int64):
            args = tuple(wide(a) if isinstance(a, torch.dtype) else a for a in args)
            if isinstance(kwargs.get("dtype"), torch.dtype):
                kwargs["dtype"] = wide(kwargs["dtype"])
        return to(self, *args, **kwargs)

    def soft(input, dim=None, _stacklevel=3, dtype=None):
        return softmax(input, dim=dim, dtype=wide(dtype))

    torch.Tensor.to = tensor_to
    torch.Tensor.float = lambda self, *args, **kwargs: self.double()
    torch.nn.functional.softmax = soft
    torch.set_default_dtype(torch.float64)
    arange = torch.arange
    torch.arange = lambda *args, **kwargs: arange(*args, **{k: wide(v) if k == "dtype" else v for k, v in kwargs.items()})


def make(folder, name):
    family, settings = FAMILIES[name]
    shape = {} if family == "gpt2" else SHAPE
    config = transformers.AutoConfig.for_model(family, **{**shape, **settings}, bos_token_id=None, eos_token_id=None,
                                               pad_token_id=None)
    config._attn_implementation = "eager"
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    randomize(model)
    model.to(dtype=torch.float64)

    generator = torch.Generator().manual_seed(11)
    tokens = torch.randint(0, config.vocab_size, (2, 13), generator=generator)
    targets = torch.randint(0, config.vocab_size, (2, 13), generator=generator)
    targets[0, 3] = targets[1, 12] = -100
    logits = model(input_ids=tokens, use_cache=False).logits
    loss = torch.nn.functional.cross_entropy(logits.reshape(-1, config.vocab_size), targets.reshape(-1), ignore_index=-100)
    loss.backward()

    out = folder / name
    out.mkdir(exist_ok=True)
    weights, io = {}, {}
    tied = config.tie_word_embeddings
    for key, parameter in model.named_parameters():
        if tied and key == "lm_head.weight":
            continue
        weights[key] = parameter.detach().type(torch.float32).contiguous()
        io["grad/" + key] = parameter.grad.contiguous()
    io["tokens"], io["targets"] = tokens.type(torch.int32), targets.type(torch.int32)
    io["logits"], io["loss"] = logits.detach().contiguous(), loss.detach().reshape(1)
    save_file(weights, out / "model.safetensors")
    save_file(io, out / "io.safetensors")
    settings = json.loads(config.to_json_string(use_diff=False))
    settings["architectures"] = [type(model).__name__]
    for key in [k for k in settings if k.startswith("_")]:
        del settings[key]
    (out / "config.json").write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n")
    size = sum(f.stat().st_size for f in out.iterdir())
    print(f"{name}: loss {loss.item():.6f}, {sum(p.numel() for p in model.parameters())} parameters, {size} bytes")
    assert size < 300_000


def main():
    folder = pathlib.Path(__file__).parent
    compute_in_float64()
    for name in sys.argv[1:] or FAMILIES:
        make(folder, name)


if __name__ == "__main__":
    main()
