"""A whole step of training as one graph of CUDA's for each shape of the ids: what some 1,200 small kernels compute is handed over at once,
so that the processes that make conversations may have the processors.

A shape's first steps run as they are, and the fourth is captured; longer rows, which are few, and whatever does not fit the buffers of a
shape run as they are always. Where capturing fails, a line says so and all do.
"""

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from model import KIND, block

FIRST = 3  # steps of a shape before it is captured: what is allocated once must be there
BETA = 0.95  # of Muon; it has no warm-up here


class Replayed:
    def __init__(self, model, muon, adam, widths):
        self.model, self.muon, self.adam, self.widths = model, muon, adam, widths
        self.device, self.shapes, self.captures = model.embed.device, {}, True
        self.muon_rate = torch.zeros((), device=self.device)
        for group in adam.param_groups:
            group["lr"], group["capturable"] = torch.zeros((), device=self.device), True

    def step(self, ids, trained, talks, count, rates):
        """A step over pieces side by side: ids, trained and talks [B, T]. `rates`: of Muon and of AdamW. The loss, on the device."""
        self.muon_rate.fill_(rates[0])
        for group in self.adam.param_groups:
            group["lr"].fill_(rates[1])
        shape = self.shapes.get(ids.shape)
        rows = F.pad(trained[:, 1:], (0, 1)).flatten().nonzero()[:, 0]  # the places before the words to say
        wanted = ids.flatten()[rows + 1]
        if not self.captures or ids.shape[1] not in self.widths or len(rows) > ids.numel() // 2:
            return self.once(Buffers(self.device, ids, talks, rows, wanted, count))
        if shape is None:
            shape = self.shapes[ids.shape] = Shape(self.device, ids.shape)
        shape.buffers.fill(ids, talks, rows, wanted, count)
        shape.steps += 1
        if shape.steps <= FIRST:
            return self.aside(shape.buffers)
        if shape.graph is None:
            stream = torch.cuda.current_stream()
            try:
                shape.capture(self)
            except Exception as error:  # of whatever kind: a slow run is better than none
                torch.cuda.set_stream(stream)  # a capture that fails may leave its own behind
                print(f"steps are not captured: {error}", flush=True)
                self.captures = False
                return self.once(shape.buffers)
        shape.graph.replay()
        return shape.loss.clone()

    def aside(self, buffers):
        """On a stream of its own, as what comes before a capture must be."""
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            loss = self.once(buffers)
        torch.cuda.current_stream().wait_stream(stream)
        return loss

    def once(self, buffers):
        self.model.zero_grad(set_to_none=True)
        return self.compute(buffers).detach()

    def compute(self, b):
        """Nothing here waits for the device, and no number that changes is Python's."""
        model = self.model
        with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):
            hidden = model.rows(b.ids, b.talks, b.rows, block, block)
            logits = F.linear(hidden.to(KIND), model.embed.to(KIND)).float()
            loss = F.cross_entropy(logits, b.wanted, reduction="sum", ignore_index=-100) * b.share
            loss.backward()
        torch.nn.utils.clip_grad_norm_([model.embed, *model.vector_parameters()], 1.0)
        self.muon.step(self.muon_rate, BETA)
        self.adam.step()
        return loss


class Buffers:
    """What a step reads, on the device; `rows` and `wanted` may be longer than there are words to say."""

    def __init__(self, device, ids, talks, rows, wanted, count):
        self.ids, self.talks, self.rows, self.wanted = (
            x.to(device, non_blocking=True) for x in (ids, talks, rows, wanted)
        )
        self.share = torch.full((), 1 / count, device=device)

    def fill(self, ids, talks, rows, wanted, count):
        most = len(self.rows)
        rows, wanted = F.pad(rows, (0, most - len(rows))), F.pad(wanted, (0, most - len(wanted)), value=-100)
        pinned = self.ids.is_cuda  # a copy that nobody waits for needs memory that stays where it is
        for own, new in ((self.ids, ids), (self.talks, talks), (self.rows, rows), (self.wanted, wanted)):
            own.copy_(new.pin_memory() if pinned else new, non_blocking=True)
        self.share.fill_(1 / count)


class Shape:
    def __init__(self, device, shape):
        most = shape.numel() // 2
        empty = [torch.zeros(n, dtype=torch.long) for n in (shape, shape, most, most)]
        self.buffers, self.steps, self.graph, self.loss = Buffers(device, *empty, 1), 0, None, None

    def capture(self, own):
        graph = torch.cuda.CUDAGraph()
        own.model.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            self.loss = own.compute(self.buffers).detach()
        self.graph = graph
        own.model.zero_grad(set_to_none=True)  # the graph's own gradients are nobody else's
