"""A llama in one page: RMSNorm, rotary positions (half-split), grouped attention, SwiGLU, tied head.

The weights of all layers lie stacked in one tensor per kind, so that the optimiser handles a kind in one batched product.
`export.py` takes the stacks apart again into the names of a Hugging Face folder.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

# What training multiplies in: where a processor lacks products of bfloat16 they take ten times as long as those of float32.
GPU = torch.cuda.is_available()
KIND = torch.bfloat16 if GPU or torch.cpu._is_avx512_bf16_supported() else torch.float32


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
        for i, weights in enumerate(self.layers()):
            x = block(x, weights, None, cos, sin, s.kv_heads, s.eps, x.dtype, cache, i)
        return norm(x, self.final_norm, s.eps)

    def rows(self, ids, talks, rows, layer, last):
        """The hidden rows [n, hidden] at `rows` [n] of the flattened ids [B, T], for training: products are of KIND, `layer` and `last` are
        `block`, compiled. `talks` [B, T] numbers the conversations that were put into a row of ids side by side: none sees another."""
        s, t = self.shape, ids.shape[1]
        # On a GPU the way back of `embedding` sorts, that of `index_select` adds.
        x = self.embed.index_select(0, ids.flatten()).view(*ids.shape, -1) if GPU else F.embedding(ids, self.embed)
        shown, layers = (hidden if GPU else unseen)(talks, KIND), self.layers()
        for weights in layers[:-1]:
            x = layer(x, weights, shown, self.cos[:t], self.sin[:t], s.kv_heads, s.eps, KIND)
        x = last(x, layers[-1], shown, self.cos[:t], self.sin[:t], s.kv_heads, s.eps, KIND, rows=rows)
        return norm(x, self.final_norm, s.eps)

    def layers(self):
        return list(zip(*(p.unbind(0) for p in (*self.matrix_parameters(), self.attention_norm, self.mlp_norm))))

    def logits(self, hidden):
        return F.linear(hidden, self.embed.to(hidden.dtype))  # [.., vocabulary]


def block(x, weights, shown, cos, sin, kv_heads, eps, kind, cache=None, i=0, rows=None):
    """Layer i: rows [B, T, hidden] → the rows after it. Products are of type `kind`; the keys and values are added to those of `cache`.
    In training `shown` is what `unseen` or `hidden` gives, and of the last layer only `rows` [n] of all B · T are wanted: [n, hidden]."""
    q, k, v, o, gate, up, down, attention_norm, mlp_norm = weights
    (b, t, _), head_dim = x.shape, cos.shape[-1]
    h = norm(x, attention_norm, eps).to(kind)
    qkv = F.linear(h, torch.cat([q, k, v]).to(kind)).unflatten(-1, (-1, head_dim)).transpose(1, 2)
    q, k, v = qkv.split([qkv.shape[1] - 2 * kv_heads, kv_heads, kv_heads], 1)  # [B, heads, T, head_dim]
    if isinstance(shown, torch.Tensor):
        group = q.shape[1] // kv_heads
        k, v = (x[:, :, None].expand(-1, -1, group, -1, -1).flatten(1, 2) for x in (rotate(k, cos, sin), v))
        a = F.scaled_dot_product_attention(rotate(q, cos, sin), k, v, attn_mask=shown.expand(-1, q.shape[1], -1, -1))
    elif shown is not None:
        a, _ = attend(rotate(q, cos * head_dim**-0.5, sin * head_dim**-0.5), rotate(k, cos, sin), v.contiguous(), shown)
    else:
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        if cache is not None:
            if cache[i] is not None:
                k, v = torch.cat([cache[i][0], k], 2), torch.cat([cache[i][1], v], 2)
            cache[i] = (k, v)
        a = attention(q, k, v)
    a = a.transpose(1, 2).reshape(b, t, -1)  # [B, T, heads · head_dim]
    if rows is not None:
        a, x = (y.flatten(0, 1).index_select(0, rows) for y in (a, x))
    x = x + F.linear(a, o.to(kind))
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


def attention(q, k, v):
    """Causal attention of the last T positions: q [B, heads, T, head_dim], k and v [B, kv heads, start + T, head_dim] → as q."""
    b, heads, t, d = q.shape
    kv_heads, all_ = k.shape[1:3]
    if t > 512:
        k, v = (x.repeat_interleave(heads // kv_heads, 1) for x in (k, v))  # query head h reads kv head h // group
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    shown = torch.ones(t, all_, dtype=torch.bool).tril_(all_ - t)
    q = q.reshape(b * kv_heads, -1, d)  # the query heads of one kv head, one after the other
    k, v = k.reshape(b * kv_heads, all_, d), v.reshape(b * kv_heads, all_, d)
    scores = (q @ k.mT).view(b, heads, t, all_).float() * d**-0.5
    shares = torch.where(shown, scores, -1e4).softmax(-1).to(q.dtype)
    return (shares.view(b * kv_heads, -1, all_) @ v).view(b, heads, t, d)


def hidden(talks, kind):
    """What a GPU adds to scores, [B, 1, T, T]: nothing, or so much that a key has no share."""
    t = talks.shape[1]
    causal = torch.ones(t, t, dtype=torch.bool, device=talks.device).tril_()
    shown = causal & (talks[:, :, None] == talks[:, None, :])
    return torch.where(shown, 0.0, -1e4).to(kind)[:, None]


# Attention in training on a processor goes by bands of queries: a band reads no key behind it, so that of 256 positions 10/16 of the square are computed, and the
# scores of a band stay in the cache between its five passes. Compiled as plain products it took more than twice as long.


def bands(t):
    """(from, to) of each band of t positions."""
    width = 64 if t <= 512 else 128
    return [(at, min(t, at + width)) for at in range(0, t, width)]


def unseen(talks, kind):
    """What is added to the scores of each band, [B, 1, queries, keys]: nothing, or so much that a key has no share."""
    causal = torch.ones(talks.shape[1], talks.shape[1], dtype=torch.bool).tril_()
    shown = [
        causal[None, at:to, :to] & (talks[:, at:to, None] == talks[:, None, :to]) for at, to in bands(talks.shape[1])
    ]
    return [torch.where(s, 0.0, -1e4).to(kind)[:, None] for s in shown]


def of_bands(x, kv_heads):
    """[B, heads, T, d] → for each band the rows of the query heads of one kv head, one head after the other: [B · kv heads, heads · queries, d]."""
    x = x.unflatten(1, (kv_heads, -1))
    return [x[:, :, :, at:to].reshape(-1, x.shape[2] * (to - at), x.shape[-1]) for at, to in bands(x.shape[3])]


def to_heads(parts, b, heads):
    return torch.cat([p.view(b, heads, -1, p.shape[-1]) for p in parts], 2)


def shares_of(flat, rows, group, t):
    """The bands' shares, which lie one after the other in one tensor."""
    sizes = [(rows, group * (to - at), to) for at, to in bands(t)]
    return [part.view(s) for part, s in zip(flat.split([a * b * c for a, b, c in sizes]), sizes)]


@torch.library.custom_op("tiny::attend", mutates_args=())
def attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, unseen: list[torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    """q [B, heads, T, d], scaled already, k and v [B, kv heads, T, d] → (as q, the shares for the way back)."""
    (b, heads, t, _), kv_heads = q.shape, k.shape[1]
    k, v, out = k.flatten(0, 1), v.flatten(0, 1), []
    flat = q.new_empty(len(k) * heads // kv_heads * sum((to - at) * to for at, to in bands(t)))
    for rows, hide, shares in zip(of_bands(q, kv_heads), unseen, shares_of(flat, len(k), heads // kv_heads, t)):
        n = shares.shape[-1]
        scores = rows @ k[:, :n].mT
        scores.view(b, heads, -1, n).add_(hide)
        torch.softmax(scores, -1, out=shares)
        out.append(shares @ v[:, :n])
    return to_heads(out, b, heads), flat


@torch.library.custom_op("tiny::attend_back", mutates_args=())
def attend_back(
    d: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, flat: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The gradients of q, k and v from that of the result."""
    (b, heads, t, _), shape, kv_heads = q.shape, k.shape, k.shape[1]
    k, v, dq = k.flatten(0, 1), v.flatten(0, 1), []
    dk, dv = (torch.zeros(k.shape) for _ in range(2))  # float32: sums over the bands
    every = zip(of_bands(d, kv_heads), of_bands(q, kv_heads), shares_of(flat, len(k), heads // kv_heads, t))
    for d, rows, shares in every:
        n = shares.shape[-1]
        scores = torch._softmax_backward_data(d @ v[:, :n].mT, shares, -1, shares.dtype)
        dq.append(scores @ k[:, :n])
        dk[:, :n] += scores.mT @ rows
        dv[:, :n] += shares.mT @ d
    return to_heads(dq, b, heads), dk.to(k.dtype).view(shape), dv.to(v.dtype).view(shape)


@attend.register_fake
def _(q, k, v, unseen):
    size = q.shape[0] * q.shape[1] * sum((to - at) * to for at, to in bands(q.shape[2]))
    return torch.empty_like(q, memory_format=torch.contiguous_format), q.new_empty(size)


@attend_back.register_fake
def _(d, q, k, v, flat):
    return tuple(torch.empty_like(x, memory_format=torch.contiguous_format) for x in (q, k, v))


def keep(ctx, inputs, output):
    ctx.save_for_backward(*inputs[:3], output[1])


def back(ctx, d, _):
    return *attend_back(d, *ctx.saved_tensors), [None] * len(bands(d.shape[2]))


attend.register_autograd(back, setup_context=keep)


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
