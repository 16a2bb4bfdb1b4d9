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

    def forward(self, ids, cache=None, talks=None, layer=None):
        """ids [B, T] → hidden rows [B, T, hidden]. With a cache (a list of (k, v) per layer) T new positions follow those in it.
        In training `talks` [B, T] numbers the conversations that were put into a row side by side: none sees another. `layer` is then
        the compiled one, products are bfloat16, and there is no cache."""
        s = self.shape
        start = cache[0][0].shape[2] if cache and cache[0] is not None else 0
        cos, sin = self.cos[start : start + ids.shape[1]], self.sin[start : start + ids.shape[1]]
        x = F.embedding(ids, self.embed)  # [B, T, hidden]
        shown = visible(ids.shape[1], start, talks)
        stacks = (*self.matrix_parameters(), self.attention_norm, self.mlp_norm)
        for i, weights in enumerate(zip(*(p.unbind(0) for p in stacks))):
            if layer:
                x = layer(x, weights, shown, cos, sin, s.kv_heads, s.eps, torch.bfloat16)
            else:
                x = block(x, weights, shown, cos, sin, s.kv_heads, s.eps, x.dtype, cache, i)
        return norm(x, self.final_norm, s.eps)

    def logits(self, hidden):
        return F.linear(hidden, self.embed.to(hidden.dtype))  # [.., vocabulary]


def block(x, weights, shown, cos, sin, kv_heads, eps, kind, cache=None, i=0):
    """Layer i: rows [B, T, hidden] → the rows after it. Products are of type `kind`; the keys and values are added to those of `cache`."""
    q, k, v, o, gate, up, down, attention_norm, mlp_norm = weights
    (b, t, _), head_dim = x.shape, cos.shape[-1]
    h = norm(x, attention_norm, eps).to(kind)
    qkv = F.linear(h, torch.cat([q, k, v]).to(kind)).unflatten(-1, (-1, head_dim)).transpose(1, 2)
    q, k, v = qkv.split([qkv.shape[1] - 2 * kv_heads, kv_heads, kv_heads], 1)  # [B, heads, T, head_dim]
    q, k = rotate(q, cos, sin), rotate(k, cos, sin)
    if cache is not None:
        if cache[i] is not None:
            k, v = torch.cat([cache[i][0], k], 2), torch.cat([cache[i][1], v], 2)
        cache[i] = (k, v)
    a = attention(q, k, v, shown)  # [B, heads, T, head_dim]
    x = x + F.linear(a.transpose(1, 2).reshape(b, t, -1), o.to(kind))
    h = norm(x, mlp_norm, eps).to(kind)
    gate, up = F.linear(h, torch.cat([gate, up]).to(kind)).chunk(2, -1)
    return x + F.linear(gated(gate, up), down.to(kind))


def norm(x, weight, eps):
    x = x.float()
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def rotate(x, cos, sin):
    left, right = x.float().chunk(2, -1)
    return (torch.cat([left, right], -1) * cos + torch.cat([-right, left], -1) * sin).to(x.dtype)


def gated(gate, up):
    return (F.silu(gate.float()) * up.float()).to(up.dtype)


def visible(t, start, talks):
    """Which positions each sees, [B or 1, 1, T, start + T]; none where fused attention is to be used, which is causal by itself."""
    if t > 512:
        return None
    causal = torch.ones(t, start + t, dtype=torch.bool).tril_(start)[None, None]
    return causal if talks is None else causal & (talks[:, None, :, None] == talks[:, None, None, :])


def attention(q, k, v, shown=None):
    """Causal attention of the last T positions. Plain products while they are small: on a CPU, fused attention's backward is far slower."""
    b, heads, t, d = q.shape
    kv_heads, all_ = k.shape[1:3]
    shown = visible(t, all_ - t, None) if shown is None else shown
    if shown is None:
        k, v = (x.repeat_interleave(heads // kv_heads, 1) for x in (k, v))  # query head h reads kv head h // group
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    q = q.reshape(b * kv_heads, -1, d)  # the query heads of one kv head, one after the other
    k, v = k.reshape(b * kv_heads, all_, d), v.reshape(b * kv_heads, all_, d)
    scores = (q @ k.mT).view(b, heads, t, all_).float() * d**-0.5
    shares = torch.where(shown, scores, -1e4).softmax(-1).to(q.dtype)
    return (shares.view(b * kv_heads, -1, all_) @ v).view(b, heads, t, d)


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
