"""Training. `python train.py --tokens 20e6` goes on from tiny/runs/NAME/last.pt if there is one; stop it whenever you like.

Muon on the hidden matrices, AdamW on the embedding and the norms, loss on the assistant's words only, short conversations first.
Set the MALLOC_ variables of the README: without them glibc gives large tensors back to the system at every step (five times slower).
"""

import argparse
import os
import random
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

import corpus
import model as model_module
import words
from model import Llama, Shape

HERE = Path(__file__).parent
BATCH, GROUP = 2048, 16  # tokens a step, padding included; steps made together
STAGES = [  # until so many tokens (millions): how often each length is drawn, and how often a turn is plain copying whatever the table says
    (1.2, {64: 1}, 0.5),
    (2.2, {64: 1, 128: 3}, 0.3),
    (6, {64: 1, 128: 2, 256: 4}, 0.15),
    (22, {64: 1, 128: 2.5, 256: 4, 512: 1}, 0.1),
    (23, {64: 1, 128: 2.5, 256: 4, 512: 1.2, 1024: 0.3, 2048: 0.1, 4096: 0.05}, 0.1),
    (1e9, {64: 0.4, 128: 2, 256: 5, 512: 1, 1024: 0.2, 2048: 0.07, 4096: 0.03}, 0.08),
]


def main():
    a = argparse.ArgumentParser()
    a.add_argument(
        "--tokens", type=float, default=1e9, help="how many in all; the learning rate falls over the last half"
    )
    a.add_argument(
        "--minutes", type=float, default=1e9, help="or how long in all, earlier sittings counted, whichever ends first"
    )
    a.add_argument("--until", help="or till when, as 19:07 by this machine's clock: pauses then shorten the run")
    a.add_argument("--name", default="base")
    a.add_argument("--tokenizer", default=str(HERE.parent / "models/tiny/tokenizer.json"))
    a.add_argument(
        "--threads",
        type=int,
        default=2,
        help="at most; on a busy machine one thread can be faster than two that wait for each other",
    )
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--muon", type=float, default=0.02)
    a.add_argument("--adam", type=float, default=5e-3)
    args = a.parse_args()
    torch.manual_seed(args.seed)
    until = args.until and time.mktime(time.strptime(time.strftime("%Y-%m-%d ") + args.until, "%Y-%m-%d %H:%M"))
    run = HERE / "runs" / args.name
    run.mkdir(parents=True, exist_ok=True)

    for name in ("norm", "rotate", "gated"):  # fused loops for what is not a product: a third faster
        setattr(model_module, name, torch.compile(getattr(model_module, name), dynamic=True))
    model = Llama(Shape())
    mean = [p.detach().clone() for p in model.parameters()]  # a running mean of the weights: what is exported
    muon = Muon(model.matrix_parameters(), args.muon)
    adam = torch.optim.AdamW(
        [model.embed, *model.vector_parameters()], lr=args.adam, betas=(0.9, 0.95), weight_decay=0.0, fused=True
    )
    step = tokens = seconds = group = 0
    if (run / "last.pt").exists():
        state = torch.load(run / "last.pt")
        model.load_state_dict(state["model"]), adam.load_state_dict(state["adam"])
        mean, muon.momentum = state["mean"], state["muon"]
        step, tokens, seconds, group = (state[k] for k in ("step", "tokens", "seconds", "group"))

    def save():
        state = dict(
            model=model.state_dict(),
            adam=adam.state_dict(),
            mean=mean,
            muon=muon.momentum,
            step=step,
            tokens=tokens,
            seconds=seconds,
            group=feed.group,
            shape=vars(model.shape),
        )
        torch.save(state, run / "new.pt")
        os.replace(run / "new.pt", run / "last.pt")

    feed = Feed(args.tokenizer, args.seed, group, tokens)
    log, last, saved = open(run / "log.csv", "a", buffering=1), time.time(), time.time()
    smooth, pace = None, Pace(args.threads)
    progress = 0.0
    while progress < 1:
        ids, trained = feed.next()  # [rows, length]
        began = time.time()
        torch.set_num_threads(threads := pace.threads(step))
        rate = min(1, (step + 1) / 50, max(0.02, (1 - progress) * 2))
        with torch.autocast("cpu", torch.bfloat16):
            hidden = model(ids)[:, :-1][trained[:, 1:]]  # [words to say, hidden]
            logits = model.logits(hidden)
        loss = F.cross_entropy(logits.float(), ids[:, 1:][trained[:, 1:]])
        loss.backward()
        torch.nn.utils.clip_grad_norm_([model.embed, *model.vector_parameters()], 1.0)
        muon.step(args.muon * rate, 0.85 + 0.10 * min(1, step / 300))
        for group in adam.param_groups:
            group["lr"] = args.adam * rate
        adam.step()
        model.zero_grad(set_to_none=True)
        step, tokens, seconds = (
            step + 1,
            tokens + ids.numel(),
            seconds + min(5, time.time() - last),
        )  # a pause is no work
        last = time.time()
        progress = max(tokens / args.tokens, seconds / 60 / args.minutes)
        if until:
            progress = max(progress, seconds / (seconds + max(0, until - time.time())))
        with torch.no_grad():
            torch._foreach_lerp_(mean, [p.detach() for p in model.parameters()], 1 - min(0.998, step / (step + 20)))
        pace.note(threads, ids.numel() / (time.time() - began))
        smooth = loss.item() if smooth is None else 0.95 * smooth + 0.05 * loss.item()
        if step % 20 == 0:
            log.write(f"{step},{tokens},{seconds:.0f},{smooth:.4f}\n")
        if step % 100 == 0:
            print(
                f"step {step}  {tokens / 1e6:.2f} M tokens  {seconds:.0f} s  loss {smooth:.4f}  rate {rate:.2f}  length {ids.shape[1]}  tokens/s {pace}",
                flush=True,
            )
        if time.time() - saved > 60:
            save()
            saved = time.time()
    save()


class Pace:
    """One thread or all of them, whichever was faster of late; the other is tried every 16 steps."""

    def __init__(self, most):
        self.rates = {1: 0.0, most: 0.0}

    def threads(self, step):
        best = max(self.rates, key=self.rates.get)
        return next(n for n in self.rates if n != best) if step % 16 == 0 and len(self.rates) > 1 else best

    def __str__(self):
        return ", ".join(f"{rate:.0f} with {n}" for n, rate in self.rates.items())

    def note(self, threads, rate):
        self.rates[threads] = rate if not self.rates[threads] else 0.5 * self.rates[threads] + 0.5 * rate


class Muon:
    """Momentum, then the nearest orthogonal matrix by five Newton-Schulz steps (Jordan et al. 2024, quintic coefficients)."""

    def __init__(self, parameters, lr):
        self.parameters, self.momentum = parameters, [torch.zeros_like(p) for p in parameters]

    @torch.no_grad()
    def step(self, lr, beta):
        for p, m in zip(self.parameters, self.momentum):
            m.lerp_(p.grad, 1 - beta)
            g = p.grad.lerp(m, beta)  # Nesterov; [layers, out, in]
            p.mul_(1 - lr * 0.01).sub_(orthogonal(g), alpha=lr * max(1, g.shape[1] / g.shape[2]) ** 0.5)


def orthogonal(g):
    x = g.bfloat16()
    tall = x.shape[1] > x.shape[2]
    if tall:
        x = x.mT
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(5):
        s = x @ x.mT
        x = 3.4445 * x + (-4.7750 * s + 2.0315 * s @ s) @ x
    return (x.mT if tall else x).float()


class Feed:
    """Batches made ahead by another process, in groups; group k of a seed depends on (seed, k) and its length alone."""

    def __init__(self, tokenizer, seed, group, tokens):
        self.pool = ProcessPoolExecutor(1, initializer=open_tokenizer, initargs=(tokenizer,))
        self.seed, self.asked, self.tokens = seed, group, tokens
        self.waiting, self.ready, self.group = [], [], group  # `group`: how many have been taken

    def next(self):
        while len(self.waiting) < 2:
            draw = random.Random(f"{self.seed} {self.asked}")
            _, lengths, copying = next(stage for stage in STAGES if self.tokens < stage[0] * 1e6)
            length = draw.choices(list(lengths), list(lengths.values()))[0]
            self.waiting.append(self.pool.submit(make_group, f"{self.seed} {self.asked}", length, copying))
            self.asked, self.tokens = self.asked + 1, self.tokens + GROUP * BATCH
        if not self.ready:
            self.ready, self.group = self.waiting.pop(0).result(), self.group + 1
        ids, trained = self.ready.pop()
        return torch.tensor(ids), torch.tensor(trained)


def open_tokenizer(path):
    global TOKENIZER
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    TOKENIZER = Tokenizer.from_file(path)
    texts = (TOKENIZER.decode([i]).strip() for i in range(263, TOKENIZER.get_vocab_size()))
    words.PIECES[:] = [t for t in texts if t and "\ufffd" not in t]


def make_group(seed, length, copying):
    """Conversations of up to `length` tokens, those of like length together in a batch: ids and trained, padded with 0."""
    talks = sorted(
        corpus.batch(TOKENIZER, seed, GROUP * BATCH, length, copying), key=lambda talk: len(talk[0]), reverse=True
    )
    batches = []
    while talks:
        widest = -(-len(talks[0][0]) // 8) * 8
        rows, talks = talks[: max(1, BATCH // widest)], talks[max(1, BATCH // widest) :]
        batches.append(
            ([ids + [0] * (widest - len(ids)) for ids, _ in rows], [t + [False] * (widest - len(t)) for _, t in rows])
        )
    random.Random(seed).shuffle(batches)
    return batches


if __name__ == "__main__":
    main()
