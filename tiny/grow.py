"""A wider and deeper model that begins with what a smaller one has learnt: on its first day it says the same words.

What is new reads everything and is read by nobody: columns that would read new values of a row are zero, as are those behind new query heads,
new units of a feed-forward and the layers that are put in. Training sees a gradient in all of them.
"""

import torch


@torch.no_grad()
def grown(small, large):
    """Fills `large` with the weights of `small` in place; what is new keeps its random values where nothing reads it. Key and value heads stay as
    many as they were; new layers follow the last. Where both have one shape this is a copy."""
    s, n = small.shape, large.shape
    assert (s.vocabulary, s.head_dim, s.kv_heads) == (n.vocabulary, n.head_dim, n.kv_heads)
    heads = torch.arange(s.heads)
    group = s.heads // s.kv_heads
    heads = heads // group * (n.heads // n.kv_heads) + heads % group  # a query head stays with its key head
    columns = (heads[:, None] * n.head_dim + torch.arange(n.head_dim)).flatten()  # of all query heads
    old = slice(0, s.layers)

    large.embed[:, : s.hidden] = small.embed
    large.embed[:, s.hidden :] *= small.embed.std() / large.embed.std() * 0.1
    for name in ("k", "v", "gate", "up"):
        wide, narrow = getattr(large, name), getattr(small, name)
        wide[old, : narrow.shape[1], s.hidden :] = 0
        wide[old, : narrow.shape[1], : s.hidden] = narrow
    large.q[old, columns, s.hidden :] = 0
    large.q[old, columns, : s.hidden] = small.q
    for wide, narrow, read in ((large.o, small.o, columns), (large.down, small.down, torch.arange(s.intermediate))):
        wide[:, : s.hidden] = 0
        wide[:, s.hidden :] *= 0.1
        wide[old, : s.hidden, read] = narrow
    # A norm divides by the root of the mean square: over more values, of which the new ones are near nothing, that is smaller.
    scale = (s.hidden / n.hidden) ** 0.5
    large.attention_norm[old, : s.hidden] = small.attention_norm * scale
    large.mlp_norm[old, : s.hidden] = small.mlp_norm * scale
    large.final_norm[: s.hidden] = small.final_norm * scale
    large.final_norm[s.hidden :] = scale
