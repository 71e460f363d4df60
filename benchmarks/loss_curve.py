"""Trains a spec with Sluice and the same model with PyTorch, from the same initial weights on the same windows, and compares
every step's loss.

usage: loss_curve.py SPEC --data DATA [--steps 500] [--set train.lr=5e-4] [--noise 6e-8] [--pytorch PYTHON] [--out FOLDER]
                     [--record FILE.csv]

Three parts: `sluice train` with a line of metrics a step; `sluice export` of the initial weights and `sluice data windows` of
the windows; this file again, under PyTorch's interpreter, with --train. The result is a table of both curves, an SVG of
them and the largest relative difference. With --noise, PyTorch also trains from weights that differ by one rounding: how far
it leaves itself is how exactly the comparison can be expected to hold.
"""
import argparse
import csv
import json
import os
import shutil
import struct
import subprocess
import sys

BIN = "build/release/bin/sluice"


def read_safetensors(path):
    import numpy

    types = {"F32": numpy.float32, "F64": numpy.float64, "I32": numpy.int32}
    with open(path, "rb") as file:
        length = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(length))
        data = file.read()
    header.pop("__metadata__", None)
    return {name: numpy.frombuffer(data[t["data_offsets"][0]:t["data_offsets"][1]], types[t["dtype"]]).reshape(t["shape"])
            for name, t in header.items()}


def pytorch_losses(folder, noise=0.0):
    """The model of `folder`/weights trained on `folder`/windows.safetensors: plain PyTorch, written from the formulas.

    Each weight is first multiplied by 1 + `noise` times a normal number. Writes `folder`/pytorch.json, or pytorch-noise.json."""
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(os.cpu_count())
    settings = json.load(open(os.path.join(folder, "settings.json")))
    config = json.load(open(os.path.join(folder, "weights/config.json")))
    windows = read_safetensors(os.path.join(folder, "windows.safetensors"))
    parameters = {name: torch.nn.Parameter(torch.from_numpy(value.copy()))
                  for name, value in read_safetensors(os.path.join(folder, "weights/model.safetensors")).items()}
    generator = torch.Generator().manual_seed(1)
    for value in parameters.values() if noise else ():
        value.data *= 1 + noise * torch.randn(value.shape, generator=generator)
    heads, groups, head = config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]
    epsilon, experts, top_k = config["rms_norm_eps"], config.get("num_local_experts", 0), config.get("num_experts_per_tok")
    sequence = windows["tokens"].shape[1]
    angle = torch.arange(sequence).float()[:, None] / config["rope_theta"] ** (torch.arange(0, head, 2).float() / head)
    cos, sin = torch.cat([angle.cos()] * 2, -1), torch.cat([angle.sin()] * 2, -1)

    def norm(x, name):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon) * parameters[name]

    def rotate(x):
        return x * cos + torch.cat([-x[..., head // 2:], x[..., :head // 2]], -1) * sin

    def attention(x, prefix):
        b, t, _ = x.shape
        split = lambda name, count: F.linear(x, parameters[prefix + name]).view(b, t, count, head).transpose(1, 2)
        q, k, v = split("q_proj.weight", heads), split("k_proj.weight", groups), split("v_proj.weight", groups)
        out = F.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True, enable_gqa=True)
        return F.linear(out.transpose(1, 2).reshape(b, t, heads * head), parameters[prefix + "o_proj.weight"])

    def gated(x, gate, up, down):
        return F.linear(F.silu(F.linear(x, parameters[gate])) * F.linear(x, parameters[up]), parameters[down])

    def moe(x, prefix):
        flat = x.reshape(-1, x.shape[-1])
        logits = F.linear(flat, parameters[prefix + "gate.weight"])
        probs = logits.softmax(-1)
        gates, ids = probs.topk(top_k, -1)
        gates = gates / gates.sum(-1, keepdim=True)
        counts = F.one_hot(ids, experts).sum((0, 1)).float() / ids.numel()
        auxiliary = settings["balance"] * experts * (counts * probs.mean(0)).sum()
        auxiliary = auxiliary + settings["router_z"] * (logits.logsumexp(-1) ** 2).mean()
        out = torch.zeros_like(flat)
        for expert in range(experts):
            token, slot = torch.where(ids == expert)
            name = f"{prefix}experts.{expert}."
            rows = gated(flat[token], name + "w1.weight", name + "w3.weight", name + "w2.weight")
            out = out.index_add(0, token, rows * gates[token, slot, None])
        return out.view(x.shape), auxiliary

    def forward(tokens, targets):
        x, auxiliary = parameters["model.embed_tokens.weight"][tokens], 0.0
        for layer in range(config["num_hidden_layers"]):
            prefix = f"model.layers.{layer}."
            x = x + attention(norm(x, prefix + "input_layernorm.weight"), prefix + "self_attn.")
            n = norm(x, prefix + "post_attention_layernorm.weight")
            if experts:
                y, loss = moe(n, prefix + "block_sparse_moe.")
                auxiliary = auxiliary + loss
            else:
                y = gated(n, *(f"{prefix}mlp.{part}_proj.weight" for part in ("gate", "up", "down")))
            x = x + y
        head_weight = parameters.get("lm_head.weight", parameters["model.embed_tokens.weight"])
        logits = F.linear(norm(x, "model.norm.weight"), head_weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1)), auxiliary

    o = settings["optimizer"]
    groups_ = [dict(params=[p for p in parameters.values() if p.dim() > 1], weight_decay=o["weight_decay"]),
               dict(params=[p for p in parameters.values() if p.dim() == 1], weight_decay=0.0)]
    optimizer = torch.optim.AdamW(groups_, lr=1.0, betas=(o["beta1"], o["beta2"]), eps=o["epsilon"])
    losses, batch = [], settings["batch"]
    for step, rate in enumerate(settings["learning_rates"]):
        rows = slice(step * batch, (step + 1) * batch)
        tokens, targets = (torch.from_numpy(windows[name][rows].copy()).long() for name in ("tokens", "targets"))
        for group in optimizer.param_groups:
            group["lr"] = rate
        loss, auxiliary = forward(tokens, targets)
        (loss + auxiliary).backward()
        torch.nn.utils.clip_grad_norm_(parameters.values(), o["clip"])
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        if step % 50 == 0:
            print(f"pytorch step {step} loss {loss.item():.4f}", file=sys.stderr, flush=True)
    json.dump(losses, open(os.path.join(folder, "pytorch-noise.json" if noise else "pytorch.json"), "w"))


def sluice_losses(arguments, folder):
    """Runs Sluice; leaves weights, windows and settings for PyTorch in `folder`; returns the losses by step."""
    run = os.path.join(folder, "run")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    tokens = arguments.steps * arguments.batch * arguments.seq
    command = [BIN, "train", arguments.spec, "--data", arguments.data, "--out", run, "--tokens", str(tokens), "--sample", "0",
               "--set", "log.every_steps=1", "--set", f"evaluation.every_tokens={tokens}", "--set", f"train.batch={arguments.batch}",
               "--set", f"train.seq={arguments.seq}"]
    for assignment in arguments.set:
        command += ["--set", assignment]
    subprocess.run(command + ["--stop-after", "0"], check=True)
    subprocess.run([BIN, "export", run, "-o", os.path.join(folder, "weights")], check=True)
    subprocess.run(command, check=True)
    subprocess.run([BIN, "data", "windows", arguments.data, "--count", str(arguments.steps * arguments.batch), "--seq",
                    str(arguments.seq), "-o", os.path.join(folder, "windows.safetensors")], check=True)
    steps = {}
    with open(os.path.join(run, "metrics.jsonl")) as file:
        for line in file:
            record = json.loads(line)
            if record.get("kind") == "train":
                steps[record["step"]] = record
    resolved = json.load(open(os.path.join(run, "config.resolved.json")))
    training = resolved["training"]
    ordered = [steps[step] for step in range(1, arguments.steps + 1)]
    losses_of = training.get("losses", {})
    json.dump(dict(batch=arguments.batch, learning_rates=[record["learning_rate"] for record in ordered],
                   optimizer=training["optimizer"], balance=losses_of.get("balance", 0), router_z=losses_of.get("router_z", 0)),
              open(os.path.join(folder, "settings.json"), "w"))
    return [record["loss"] for record in ordered]


def draw(path, ours, theirs, title):
    """Both curves as an SVG, the relative difference below them."""
    width, height, lower = 720, 300, 90
    top = max(ours + theirs)
    bottom = min(ours + theirs)
    x = lambda step: 50 + step * (width - 70) / max(1, len(ours) - 1)
    y = lambda loss: 30 + (top - loss) * (height - 50) / (top - bottom)
    line = lambda values, scale: " ".join(f"{x(i):.1f},{scale(v):.1f}" for i, v in enumerate(values))
    difference = [abs(a - b) / b * 100 for a, b in zip(ours, theirs)]
    limit = max(0.5, max(difference))
    z = lambda percent: height + 20 + lower - percent * lower / limit
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height + lower + 50}" font-family="sans-serif" font-size="11">',
             f'<rect width="100%" height="100%" fill="white"/><text x="50" y="18" font-size="13">{title}</text>',
             f'<polyline fill="none" stroke="#d08" stroke-width="3" opacity="0.45" points="{line(theirs, y)}"/>',
             f'<polyline fill="none" stroke="#036" points="{line(ours, y)}"/>',
             f'<text x="{width - 200}" y="50" fill="#d08">PyTorch</text><text x="{width - 200}" y="66" fill="#036">Sluice</text>',
             f'<polyline fill="none" stroke="#444" points="{line(difference, z)}"/>',
             f'<line x1="50" x2="{width - 20}" y1="{z(0.5):.1f}" y2="{z(0.5):.1f}" stroke="#a00" stroke-dasharray="4"/>',
             f'<text x="52" y="{z(0.5) - 4:.1f}" fill="#a00">0.5 %</text>',
             f'<text x="4" y="{y(top):.1f}">{top:.2f}</text><text x="4" y="{y(bottom):.1f}">{bottom:.2f}</text>',
             f'<text x="50" y="{height + lower + 42}">difference in percent of the loss, by step (largest {max(difference):.4f} %)</text></svg>']
    with open(path, "w") as file:
        file.write("\n".join(parts) + "\n")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("spec", nargs="?")
    parser.add_argument("--data")
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--seq", type=int, default=256)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="changes a key of the spec")
    parser.add_argument("--pytorch", default=os.environ.get("SLUICE_PYTORCH", "python3"))
    parser.add_argument("--out", default="build/benchmarks/loss-curve")
    parser.add_argument("--record", help="write step, sluice, pytorch as CSV (and .svg beside it)")
    parser.add_argument("--noise", type=float, default=0.0, help="also compare PyTorch with itself from weights this much apart")
    parser.add_argument("--train", metavar="FOLDER", help="internal: the PyTorch half")
    arguments = parser.parse_args()
    if arguments.train:
        return pytorch_losses(arguments.train, arguments.noise)
    if not arguments.spec or not arguments.data:
        parser.error("expected SPEC and --data")
    ours = sluice_losses(arguments, arguments.out)
    subprocess.run([arguments.pytorch, __file__, "--train", arguments.out], check=True)
    theirs = json.load(open(os.path.join(arguments.out, "pytorch.json")))

    def largest_difference(mine):
        step = max(range(len(mine)), key=lambda at: abs(mine[at] - theirs[at]) / theirs[at])
        return step, abs(mine[step] - theirs[step]) / theirs[step]

    worst, worst_difference = largest_difference(ours)
    print(f"{arguments.spec}: {len(ours)} steps, largest relative difference {worst_difference:.3e} at step {worst + 1}; "
          f"last losses {ours[-1]:.6f} and {theirs[-1]:.6f}")
    if arguments.noise:
        subprocess.run([arguments.pytorch, __file__, "--train", arguments.out, "--noise", str(arguments.noise)], check=True)
        step, difference = largest_difference(json.load(open(os.path.join(arguments.out, "pytorch-noise.json"))))
        print(f"PyTorch against itself, weights {arguments.noise:g} apart: {difference:.3e} at step {step + 1}")
    if arguments.record:
        with open(arguments.record, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["step", "sluice", "pytorch"])
            writer.writerows((step + 1, f"{a:.7g}", f"{b:.7g}") for step, (a, b) in enumerate(zip(ours, theirs)))
        draw(os.path.splitext(arguments.record)[0] + ".svg", ours, theirs, os.path.basename(arguments.spec))
    return 0 if worst_difference <= 0.005 else 1


if __name__ == "__main__":
    sys.exit(main())
