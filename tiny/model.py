"""A llama in one page: RMSNorm, rotary positions (half-split), grouped attention, SwiGLU, tied head.

The weights of all layers lie stacked in one tensor per kind, so that the optimiser handles a kind in one batched product.
`export.py` takes the stacks apart again into the names of a Hugging Face folder.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class Shape:
    vocabulary: int = 2560
    hidden: int = 192
    layers: int = 6
    heads: int = 6
    kv_heads: int = 2
    head_dim: int = 32
    intermediate: int = 512
    context: int = 4096
    theta: float = 10000.0
    eps: float = 1e-5


class Llama(nn.Module):
    def __init__(self, shape: Shape):
        super().__init__()
        self.shape = s = shape
        q, kv = s.heads * s.head_dim, s.kv_heads * s.head_dim

        def matrices(rows, columns, gain=1.0):
            return nn.Parameter(torch.randn(s.layers, rows, columns) * gain * columns**-0.5)  # [layers, out, in]

        self.embed = nn.Parameter(torch.randn(s.vocabulary, s.hidden) * 0.02)  # [vocabulary, hidden], the head too
        self.q, self.k, self.v = matrices(q, s.hidden), matrices(kv, s.hidden), matrices(kv, s.hidden)
        self.o = matrices(s.hidden, q, 0.1)
        self.gate, self.up = matrices(s.intermediate, s.hidden), matrices(s.intermediate, s.hidden)
        self.down = matrices(s.hidden, s.intermediate, 0.1)
        self.attention_norm = nn.Parameter(torch.ones(s.layers, s.hidden))
        self.mlp_norm = nn.Parameter(torch.ones(s.layers, s.hidden))
        self.final_norm = nn.Parameter(torch.ones(s.hidden))
        angles = torch.arange(s.context)[:, None] * s.theta ** (
            -torch.arange(0, s.head_dim, 2) / s.head_dim
        )  # [context, head_dim / 2]
        self.register_buffer("cos", torch.cat([angles.cos()] * 2, -1), persistent=False)  # [context, head_dim]
        self.register_buffer("sin", torch.cat([angles.sin()] * 2, -1), persistent=False)

    def matrix_parameters(self):
        return [self.q, self.k, self.v, self.o, self.gate, self.up, self.down]

    def vector_parameters(self):
        return [self.attention_norm, self.mlp_norm, self.final_norm]

    def forward(self, ids, cache=None):
        """ids [B, T] → hidden rows [B, T, hidden]. With a cache (a list of (k, v) per layer) T new positions follow those in it."""
        s = self.shape
        start = cache[0][0].shape[2] if cache and cache[0] is not None else 0
        cos, sin = self.cos[start : start + ids.shape[1]], self.sin[start : start + ids.shape[1]]
        x = F.embedding(ids, self.embed)  # [B, T, hidden]
        for layer in range(s.layers):
            h = norm(x, self.attention_norm[layer], s.eps)
            q = F.linear(h, self.q[layer]).unflatten(-1, (s.heads, -1)).transpose(1, 2)  # [B, heads, T, head_dim]
            k = F.linear(h, self.k[layer]).unflatten(-1, (s.kv_heads, -1)).transpose(1, 2)  # [B, kv_heads, T, head_dim]
            v = F.linear(h, self.v[layer]).unflatten(-1, (s.kv_heads, -1)).transpose(1, 2)
            q, k = rotate(q, cos, sin), rotate(k, cos, sin)
            if cache is not None:
                if start:
                    k, v = torch.cat([cache[layer][0], k], 2), torch.cat([cache[layer][1], v], 2)
                cache[layer] = (k, v)
            k, v = (
                t.repeat_interleave(s.heads // s.kv_heads, 1) for t in (k, v)
            )  # query head h reads kv head h // group
            a = attention(q, k, v)  # [B, heads, T, head_dim]
            x = x + F.linear(a.transpose(1, 2).flatten(2), self.o[layer])
            h = norm(x, self.mlp_norm[layer], s.eps)
            x = x + F.linear(gated(F.linear(h, self.gate[layer]), F.linear(h, self.up[layer])), self.down[layer])
        return norm(x, self.final_norm, s.eps)

    def logits(self, hidden):
        return F.linear(hidden, self.embed)  # [.., vocabulary]


def norm(x, weight, eps):
    x = x.float()
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def rotate(x, cos, sin):
    left, right = x.chunk(2, -1)
    return x * cos.to(x.dtype) + torch.cat([-right, left], -1) * sin.to(x.dtype)


def gated(gate, up):
    return F.silu(gate) * up


def attention(q, k, v):
    """Causal attention of the last T positions. Plain products while they are small: on a CPU, fused attention's backward is far slower."""
    t, all_ = q.shape[2], k.shape[2]
    if t > 512 or t == 1:
        return F.scaled_dot_product_attention(q, k, v, is_causal=t > 1)
    hide = torch.full((t, all_), -1e4, dtype=q.dtype).triu_(1 + all_ - t)
    scores = torch.baddbmm(
        hide.expand(q.shape[0] * q.shape[1], t, all_), q.flatten(0, 1), k.flatten(0, 1).mT, alpha=q.shape[-1] ** -0.5
    )
    return (scores.softmax(-1) @ v.flatten(0, 1)).view_as(q)


@torch.no_grad()
def greedy(model, prompt: list[int], end: set[int], limit: int) -> list[int]:
    """The likeliest continuation, without the ending token; `limit` tokens at most (then the last one is not in `end`)."""
    cache, ids, out = [None] * model.shape.layers, torch.tensor([prompt]), []
    while len(out) < limit:
        token = model.logits(model(ids, cache)[:, -1]).argmax(-1).item()
        out.append(token)
        if token in end:
            break
        ids = torch.tensor([[token]])
    return out
