"""One PyTorch training step of the same model: forward, backward, global-norm clipping, fused AdamW. Prints a JSON object.

usage: pytorch_step.py dense|moe|masked eager|compile [--ffn F] [--experts E] [--top-k K] [--steps N] ...
"""
import argparse
import json
import resource
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("model", choices=["dense", "moe", "masked"])
parser.add_argument("mode", choices=["eager", "compile"])
for name, default in dict(batch=8, seq=256, steps=6, width=256, layers=4, vocabulary=30008, heads=8, kv_heads=4,
                          ffn=2048, experts=4, top_k=2, threads=2).items():
    parser.add_argument("--" + name.replace("_", "-"), type=int, default=default)
a = parser.parse_args()
torch.set_num_threads(a.threads)
torch.manual_seed(0)
head = a.width // a.heads


def linear(inputs, outputs):
    layer = nn.Linear(inputs, outputs, bias=False)
    nn.init.normal_(layer.weight, 0, 0.02)
    if a.model == "masked":  # as sparse training is simulated: dense products, masked weights and gradients
        mask = (torch.rand_like(layer.weight) < 0.1).float()
        layer.weight.data.mul_(mask)
        layer.weight.register_hook(lambda gradient: gradient * mask)
    return layer


def rotate(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.o = linear(a.width, a.width), linear(a.width, a.width)
        self.k, self.v = linear(a.width, a.kv_heads * head), linear(a.width, a.kv_heads * head)

    def forward(self, x, cos, sin):
        b, t, _ = x.shape
        q = self.q(x).view(b, t, a.heads, head).transpose(1, 2)
        k = self.k(x).view(b, t, a.kv_heads, head).transpose(1, 2)
        v = self.v(x).view(b, t, a.kv_heads, head).transpose(1, 2)
        out = F.scaled_dot_product_attention(rotate(q, cos, sin), rotate(k, cos, sin), v, is_causal=True, enable_gqa=True)
        return self.o(out.transpose(1, 2).reshape(b, t, a.width))


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up, self.down = linear(a.width, a.ffn), linear(a.width, a.ffn), linear(a.ffn, a.width)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x)), 0.0


class Moe(nn.Module):
    """Top-k softmax routing, renormalised, through PyTorch's grouped product."""

    def __init__(self):
        super().__init__()
        self.router = linear(a.width, a.experts)
        self.gate_up = nn.Parameter(torch.randn(a.experts, a.width, 2 * a.ffn) * 0.02)
        self.down = nn.Parameter(torch.randn(a.experts, a.ffn, a.width) * 0.02)

    def forward(self, x):
        b, t, _ = x.shape
        x = x.reshape(-1, a.width)
        logits = self.router(x).float()
        probs = logits.softmax(-1)
        gates, ids = probs.topk(a.top_k, -1)
        gates = gates / gates.sum(-1, keepdim=True)
        counts = F.one_hot(ids, a.experts).sum((0, 1)).float() / (x.shape[0] * a.top_k)
        loss = 0.01 * a.experts * (counts * probs.mean(0)).sum() + 0.001 * (logits.logsumexp(-1) ** 2).mean()
        flat = ids.reshape(-1)
        order = flat.argsort(stable=True)
        offsets = torch.bincount(flat, minlength=a.experts).cumsum(0).to(torch.int32)
        gate, up = torch._grouped_mm(x[order // a.top_k], self.gate_up, offs=offsets).chunk(2, -1)
        rows = torch._grouped_mm(F.silu(gate) * up, self.down, offs=offsets) * gates.reshape(-1)[order, None]
        return torch.zeros_like(x).index_add(0, order // a.top_k, rows).view(b, t, a.width), loss


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.attention = nn.RMSNorm(a.width, eps=1e-5), Attention()
        self.norm2, self.ffn = nn.RMSNorm(a.width, eps=1e-5), Moe() if a.model == "moe" else Mlp()

    def forward(self, x, cos, sin):
        x = x + self.attention(self.norm1(x), cos, sin)
        y, loss = self.ffn(self.norm2(x))
        return x + y, loss


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(a.vocabulary, a.width)
        nn.init.normal_(self.embed.weight, 0, 0.02)
        self.blocks = nn.ModuleList(Block() for _ in range(a.layers))
        self.norm = nn.RMSNorm(a.width, eps=1e-5)
        angle = torch.arange(a.seq).float()[:, None] / 10000 ** (torch.arange(0, head, 2).float() / head)
        self.register_buffer("cos", torch.cat([angle.cos()] * 2, -1))
        self.register_buffer("sin", torch.cat([angle.sin()] * 2, -1))

    def forward(self, tokens, targets):
        x, auxiliary = self.embed(tokens), 0.0
        for block in self.blocks:
            x, loss = block(x, self.cos, self.sin)
            auxiliary = auxiliary + loss
        logits = F.linear(self.norm(x), self.embed.weight)
        return F.cross_entropy(logits.float().view(-1, a.vocabulary), targets.view(-1)) + auxiliary


model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
forward = torch.compile(model) if a.mode == "compile" else model
generator = torch.Generator().manual_seed(1)
times, first = [], None
for step in range(a.steps + 2):
    ids = (a.vocabulary ** torch.rand(a.batch, a.seq + 1, generator=generator) - 1).long().clamp(0, a.vocabulary - 1)
    start = time.time()
    loss = forward(ids[:, :-1].contiguous(), ids[:, 1:].contiguous())
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    elapsed = time.time() - start
    first = elapsed if first is None else first
    if step >= 2:
        times.append(elapsed)
times.sort()
print(json.dumps(dict(tokens_per_s=a.batch * a.seq / times[len(times) // 2], first_step_s=first, loss=loss.item(),
                      peak_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)), flush=True)
