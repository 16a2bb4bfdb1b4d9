"""Training. `python train.py --tokens 20e6` goes on from tiny/runs/NAME/last.pt if there is one; stop it whenever you like.

Muon on the hidden matrices, AdamW on the embedding and the norms, loss on the assistant's words only, short conversations first.
A GPU of CUDA's is taken where there is one: `--makers` and `--ahead` then say how many processes make conversations for it, and how far ahead.
Set the MALLOC_ variables of the README: without them glibc gives large tensors back to the system at every step (five times slower).
"""

import argparse
import os
import random
import signal
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import torch
import torch._inductor.config as inductor
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch.utils._pytree import tree_map_only

import corpus
import fourth
import fresh
import third
import words
from export import load_packed
from graphs import Replayed
from grow import grown
from model import GPU, KIND, Llama, Shape, block

HERE = Path(__file__).parent
PIECE, GROUP = 2048, 16  # positions computed at once; so many of those are made together
SECONDS = 60  # of a processor, for a group at most; one takes half a second
STAGES = [  # until so many tokens (millions): pieces a step, how often each length is drawn, how often a turn is plain copying whatever the table says
    (1.2, 1, {64: 1}, 0.5),
    (2.2, 1, {64: 1, 128: 3}, 0.3),
    (8, 2, {64: 1, 128: 2, 256: 4}, 0.15),
    (30, 4, {64: 1, 128: 2.5, 256: 4, 512: 1, 1024: 0.1, 2048: 0.05}, 0.1),
    (1e9, 4, {64: 0.4, 128: 2, 256: 5, 512: 1, 1024: 0.2, 2048: 0.07, 4096: 0.03}, 0.08),
]
NEXT = Shape(layers=7, hidden=256, heads=8, intermediate=640)  # 5.25 million parameters


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--tokens", type=float, default=150e6, help="how many in all, padding not counted")
    a.add_argument(
        "--fall", type=float, default=0.3, help="the last part of them, in which the learning rate falls to nothing"
    )
    a.add_argument("--seconds", type=float, help="an earlier end, of the clock: the rate falls by whichever is nearer")
    a.add_argument("--name", default="base")
    a.add_argument("--runs", default=str(HERE / "runs"), help="where checkpoints are kept")
    a.add_argument("--grow", help="a q8f16_1 folder to begin with, instead of with random weights")
    a.add_argument("--seen", type=float, default=0, help="how many tokens that one has seen: they count as this one's")
    a.add_argument("--tokenizer", default=str(HERE.parent / "models/tiny/tokenizer.json"))
    a.add_argument(
        "--threads", type=int, default=1, help="at most: one thread or so many, whichever was faster of late"
    )
    a.add_argument("--makers", type=int, default=1, help="processes that make conversations")
    a.add_argument("--ahead", type=int, default=2, help="how many groups of pieces they may be ahead")
    a.add_argument(
        "--again",
        type=int,
        default=0,
        help="how often on average what was made may be drawn again, where nothing new is ready",
    )
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--muon", type=float, default=0.015)
    a.add_argument("--adam", type=float, default=4e-3)
    args = a.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(args.threads)
    inductor.cpp.dynamic_threads = True
    run = Path(args.runs) / args.name
    run.mkdir(parents=True, exist_ok=True)
    layer, last, said = torch.compile(block, dynamic=False), torch.compile(block), torch.compile(loss_of, dynamic=True)
    torch._dynamo.config.cache_size_limit = 32

    device = "cuda" if GPU else "cpu"
    state = torch.load(run / "last.pt", map_location="cpu") if (run / "last.pt").exists() else None
    model, step, tokens, seconds, group = Llama(Shape(**state["shape"]) if state else NEXT), 0, 0, 0, 0
    if args.grow and not state:
        grown(load_packed(Path(args.grow)), model)
        tokens = int(args.seen)
    if state:
        model.load_state_dict(state["model"])
        step, tokens, seconds, group = (state[k] for k in ("step", "tokens", "seconds", "group"))
    feed = Feed(args.tokenizer, args.seed, group, tokens, args.makers, args.ahead, args.again)
    feed.make()  # its processes begin before a GPU is opened
    model.to(device)
    mean = [p.detach().clone() for p in model.parameters()]  # a running mean of the weights: what is exported
    muon = Muon(model.matrix_parameters(), args.muon)
    adam = torch.optim.AdamW(
        [model.embed, *model.vector_parameters()], lr=args.adam, betas=(0.9, 0.95), weight_decay=0.0, fused=True
    )
    if state:
        adam.load_state_dict(state["adam"])
        mean, muon.momentum = ([p.to(device) for p in state[k]] for k in ("mean", "muon"))
    replayed = Replayed(model, muon, adam, COMPILED) if GPU else None

    def save():
        kept = adam.state_dict()
        for each in kept["param_groups"]:
            each["lr"], each["capturable"] = float(each["lr"]), False
        state = dict(
            model=model.state_dict(),
            adam=kept,
            mean=mean,
            muon=muon.momentum,
            step=step,
            tokens=tokens,
            seconds=seconds,
            group=feed.group,
            shape=vars(model.shape),
        )
        state = tree_map_only(torch.Tensor, torch.Tensor.cpu, state)  # for machines without a GPU too
        torch.save(state, run / "new.pt")
        os.replace(run / "new.pt", run / "last.pt")

    asked_to_stop = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: asked_to_stop.append(True))
    log, then, saved = open(run / "log.csv", "a", buffering=1), time.process_time(), time.time()
    smooth, pace, recent = None, Pace(args.threads), (tokens, time.time(), seconds)
    started, done, losses = time.time(), tokens / args.tokens, []
    while done < 1 and not asked_to_stop:
        most = stage_of(tokens)[1]
        pieces = feed.alike(most) if GPU else [feed.next() for _ in range(most)]
        seen = sum(int((talks >= 0).sum()) for *_, talks in pieces)
        began, threads = time.time(), pace.threads(step)
        torch.set_num_threads(threads)
        rate = min(1, (step + 1) / 100, max(0.02, (1 - done) / args.fall))
        if replayed:
            batch = side_by_side(pieces)
            count = max(1, int(batch[1][:, 1:].sum()))
            losses.append(replayed.step(*batch, count, (args.muon * rate, args.adam * rate)))
        else:
            count, total = sum(int(trained[:, 1:].sum()) for _, trained, _ in pieces), 0.0
            for ids, trained, talks in pieces:
                rows = F.pad(trained[:, 1:], (0, 1)).flatten().nonzero()[:, 0]  # the places before the words to say
                torch._dynamo.mark_dynamic(rows, 0)
                compiled = ids.shape[1] in COMPILED
                hidden = model.rows(ids, talks, rows, layer if compiled else block, last if compiled else block)
                loss = said(hidden, model.embed, ids.flatten()[rows + 1]) / count
                loss.backward()
                total += loss.detach()
            losses.append(total)
            torch.nn.utils.clip_grad_norm_([model.embed, *model.vector_parameters()], 1.0)
            muon.step(args.muon * rate, 0.85 + 0.10 * min(1, step / 300))
            for group in adam.param_groups:
                group["lr"] = args.adam * rate
            adam.step()
            model.zero_grad(set_to_none=True)
        with torch.no_grad():
            torch._foreach_lerp_(mean, [p.detach() for p in model.parameters()], 1 - min(0.998, step / (step + 20)))
        step, tokens, seconds, then = step + 1, tokens + seen, seconds + time.process_time() - then, time.process_time()
        pace.note(threads, seen / (time.time() - began))
        done = max(tokens / args.tokens, (time.time() - started) / args.seconds if args.seconds else 0)
        if step % 20 == 0:  # a GPU is asked for its losses here alone
            for total in torch.stack(losses).tolist():
                smooth = total if smooth is None else 0.95 * smooth + 0.05 * total
            losses.clear()
            log.write(f"{step},{tokens},{seconds:.0f},{smooth:.4f}\n")
        if step % (5000 if GPU else 100) == 0:
            of_late, recent = (
                [now - old for now, old in zip((tokens, time.time(), seconds), recent)],
                (tokens, time.time(), seconds),
            )
            print(
                f"{time.strftime('%H:%M:%S')}  step {step}  {tokens / 1e6:.2f} M tokens  loss {smooth:.4f}  rate {rate:.2f}  "
                f"tokens/s {of_late[0] / of_late[1]:.0f}, of a processor {of_late[0] / of_late[2]:.0f}; by threads {pace}",
                flush=True,
            )
        if time.time() - saved > 120:
            save()
            saved = time.time()
    save()
    feed.pool.shutdown(wait=False, cancel_futures=True)  # at the end of a process it would make all that was asked for
    print(f"stopped at step {step}, {tokens / 1e6:.2f} M tokens, {seconds:.0f} s of a processor", flush=True)


def stage_of(tokens):
    return next(stage for stage in STAGES if tokens < stage[0] * 1e6)


def loss_of(hidden, embed, wanted):
    """The sum over all words to say: hidden [words, hidden], wanted [words]."""
    return F.cross_entropy(F.linear(hidden.to(KIND), embed.to(KIND)).float(), wanted, reduction="sum")


def side_by_side(pieces):
    """Pieces as one, as wide as the widest, for a GPU, which has room for all. Where a row is filled up there is no conversation."""
    widest = max(ids.shape[1] for ids, *_ in pieces)
    return [
        torch.cat([F.pad(part, (0, widest - part.shape[1]), value=nothing) for part in parts])
        for parts, nothing in zip(zip(*pieces), (0, False, -1))
    ]


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
            more = max(1, g.shape[1] / g.shape[2]) ** 0.5
            if isinstance(lr, torch.Tensor):
                p.mul_(1 - lr * 0.01).sub_(orthogonal(g) * (lr * more))
            else:
                p.mul_(1 - lr * 0.01).sub_(orthogonal(g), alpha=lr * more)


def orthogonal(g):
    x = g.to(KIND)
    tall = x.shape[1] > x.shape[2]
    if tall:
        x = x.mT
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(5):
        s = x @ x.mT
        x = 3.4445 * x + (-4.7750 * s + 2.0315 * s @ s) @ x
    return (x.mT if tall else x).float()


class Feed:
    """Pieces made ahead by other processes, in groups; group k of a seed depends on (seed, k), its length and the share of copying alone.
    Where such a process is ended others take their place; a group that takes longer than any can is left out. With `again` nobody waits for
    them: a group of before is drawn once more, in another order, up to so many times as there are groups."""

    def __init__(self, tokenizer, seed, group, tokens, makers, ahead, again):
        self.makers, self.ahead, self.again, self.kept, self.repeats = makers, ahead, again, [], 0
        self.tokenizer, self.seed, self.asked, self.tokens = tokenizer, seed, group, tokens
        self.waiting, self.ready, self.group, self.ended = [], [], group, 0  # `group`: how many have been taken
        self.open()

    def open(self):
        self.pool = ProcessPoolExecutor(self.makers, initializer=open_tokenizer, initargs=(self.tokenizer,))

    def next(self):
        while not self.ready:
            try:
                self.make()
                if self.repeats < self.again * len(self.kept) and not self.waiting[0][1].done():
                    group = random.choice(self.kept)
                    self.ready, self.repeats = random.sample(group, len(group)), self.repeats + 1
                    continue
                made = self.waiting[0][1].result()
                self.ready = list(made)
                if self.again:
                    self.kept.append(made)
            except BrokenProcessPool:
                self.ended += 1
                if self.ended == 4:
                    raise
                print(f"the maker of group {self.group} was ended; another goes on", flush=True)
                self.waiting = [(job, None) for job, _ in self.waiting]
                self.open()
                continue
            except TimeoutError as error:
                print(f"group {self.group} is left out: {error}", flush=True)
            self.waiting.pop(0)
            self.group, self.ended = self.group + 1, 0
        return [torch.from_numpy(part) for part in self.ready.pop()]

    def alike(self, most):
        """Up to so many pieces, of one group: those of 512 positions or fewer are of one width. No step of a group is much smaller than another."""
        pieces = [self.next()]
        left = 1 + len(self.ready)
        steps = -(-left // most)
        return pieces + [self.next() for _ in range(-(-left // steps) - 1)]

    def make(self):
        while len(self.waiting) < self.ahead:
            self.waiting.append((self.draw(), None))
        self.waiting = [(job, made or self.pool.submit(make_group, *job)) for job, made in self.waiting]

    def draw(self):
        draw = random.Random(f"{self.seed} {self.asked}")
        _, _, lengths, copying = stage_of(self.tokens)
        length = draw.choices(list(lengths), list(lengths.values()))[0]
        self.asked, self.tokens = self.asked + 1, self.tokens + GROUP * PIECE
        return f"{self.seed} {self.asked - 1}", length, copying


def open_tokenizer(path):
    global TOKENIZER
    signal.signal(signal.SIGINT, signal.SIG_IGN), signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGPROF, out_of_time)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    torch.set_num_threads(1)
    TOKENIZER = Tokenizer.from_file(path)
    texts = (TOKENIZER.decode([i]).strip() for i in range(263, TOKENIZER.get_vocab_size()))
    words.PIECES[:] = [t for t in texts if t and "\ufffd" not in t]
    words.LETTERS[:] = [t for t in words.PIECES if t.isalpha() and t.isascii() and len(t) > 1]
    words.NEVER.update(fresh.shapes() | third.shapes() | fourth.shapes())


def out_of_time(*_):
    raise TimeoutError(f"not made within {SECONDS} s of a processor")


COMPILED = (128, 256, 512)  # lengths of rows; longer ones are few and cut to their longest conversation


def make_group(seed, length, copying):
    """Pieces of rows with conversations of up to `length` tokens side by side: (ids, trained, talks), each [rows, width]. `talks` numbers the
    conversations of a row and is -1 where nothing is. Beyond 512 tokens a row has one conversation."""
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    talks = corpus.batch(TOKENIZER, seed, GROUP * PIECE * (1.04 if length <= 512 else 0.8), length, copying)
    talks.sort(key=lambda talk: len(talk[0]), reverse=True)
    width, rows = max(128, length), []
    if length <= 512:
        missing = GROUP * PIECE - sum(
            len(ids) for row in packed(talks, width, GROUP * PIECE // width) for ids, _ in row
        )
        short = corpus.batch(
            TOKENIZER, seed + " short", missing, min(length, 48), copying
        )  # for what is left of the rows
        rows = packed(talks + short, width, GROUP * PIECE // width)
        random.Random(seed).shuffle(rows)
        pieces = [rows[i : i + PIECE // width] for i in range(0, len(rows), PIECE // width)]
    else:
        pieces = []
        while talks:
            n = max(1, PIECE // (-(-len(talks[0][0]) // 64) * 64))
            pieces.append([[talk] for talk in talks[:n]])
            talks = talks[n:]
        random.Random(seed).shuffle(pieces)
    made = [tensors(piece, width if length <= 512 else -(-len(piece[0][0][0]) // 64) * 64) for piece in pieces]
    signal.setitimer(signal.ITIMER_PROF, 0)
    return made


def packed(talks, width, n):
    """`n` rows of `width` tokens, each talk in the first row that has room for it; what has room nowhere is left out."""
    rows, room = [[] for _ in range(n)], [width] * n
    for talk in talks:
        at = next((i for i in range(n) if room[i] >= len(talk[0])), None)
        if at is not None:
            rows[at].append(talk)
            room[at] -= len(talk[0])
    return rows


def tensors(rows, width):
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    trained, numbers = torch.zeros(len(rows), width, dtype=torch.bool), torch.full((len(rows), width), -1)
    for i, row in enumerate(rows):
        at = 0
        for number, (talk, say) in enumerate(row):
            end = at + len(talk)
            ids[i, at:end], trained[i, at:end], numbers[i, at:end] = torch.tensor(talk), torch.tensor(say), number
            at = end
    return ids.numpy(), trained.numpy(), numbers.numpy()


if __name__ == "__main__":
    main()
