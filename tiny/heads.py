"""What guesses ahead of the model: a draft model, Medusa heads and an EAGLE head, all taught by the model's own greedy answers.

    python heads.py answers [--n 6000]                       greedy answers to training prompts, and 400 to held-out ones: runs/heads
    python heads.py draft|medusa|eagle [--minutes 4]         trains one (and goes on with what is there): runs/heads/KIND.pt
    python heads.py measure                                  how often each guesses right, on answers to held-out prompts
    python heads.py export [--out ../models]                 OUT/tiny-medusa and OUT/tiny-eagle, packed; runs/heads/draft, to be compiled

A guess counts as right when it is the token that the model itself takes there. Layouts: Medusa as FasterDecoding/Medusa writes it with
MLC's prefix, EAGLE as SafeAILab/EAGLE's cnets1.py.
"""

import argparse
import hashlib
import random
import time
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import nn

import corpus
import export
import model as model_module
import talking
from model import Llama
from train import Muon, open_tokenizer

HERE = Path(__file__).parent
RUN = HERE / "runs" / "heads"
HEADS, BATCH = 3, 2048  # Medusa heads; tokens a step
REUSED = 3  # how often what the model says of a batch is learnt from: to ask the model costs more than a step
ALONE, NEAR = (
    0.7,
    0.1,
)  # EAGLE: how much of the time the model's own rows are all it sees; how much a row's likeness counts beside its words


def main():
    a = argparse.ArgumentParser()
    a.add_argument("what", choices=["answers", "draft", "medusa", "eagle", "measure", "export"])
    a.add_argument("--name", default="base")
    a.add_argument("--n", type=int)
    a.add_argument("--minutes", type=float, default=4, help="of processor time")
    a.add_argument("--out", default=str(HERE.parent / "models"))
    args = a.parse_args()
    torch.set_num_threads(1)
    RUN.mkdir(parents=True, exist_ok=True)
    base, _ = export.load(HERE / "runs" / args.name / "last.pt")
    base.requires_grad_(False)
    if args.what == "answers":
        torch.save(answers(base, 400, held=True), RUN / "held.pt")
        torch.save(answers(base, args.n or 6000, held=False), RUN / "answers.pt")
    elif args.what == "measure":
        measure(base)
    elif args.what == "export":
        for kind in KINDS:
            write(kind, load(kind, base), base, RUN / "draft" if kind == "draft" else Path(args.out) / f"tiny-{kind}")
    else:
        teach(args.what, base, args.minutes)


# ---- the model's answers


def answers(base, n, held, limit=64):
    """`n` prompts of conversations and the greedy answers to them, as (ids, where in them the answer is)."""
    tokenizer = Tokenizer.from_file(str(HERE.parent / "models/tiny/tokenizer.json"))
    p, prompts = talking.Pick(f"answers {n}", held), []
    while len(prompts) < n:
        talk = corpus.conversation(p, 200, lambda c: len(talking.encode(tokenizer, c)[0]))
        ats = [i for i, m in enumerate(talk["messages"]) if m["role"] == "assistant"]
        asked = dict(talk, messages=talk["messages"][: p.any(ats)])
        ids, _ = talking.encode(tokenizer, asked, prompt=True)
        if len(ids) <= 256 and len(ids) % 8 == 0:
            prompts.append(ids)
    alike = defaultdict(list)  # prompts of one length are answered together, and so few lengths are kept
    for ids in prompts:
        alike[len(ids)].append(ids)
    out, began = [], time.time()
    for same in alike.values():
        for at in range(0, len(same), 64):
            out += together(base, same[at : at + 64], limit)
    print(f"{len(out)} answers, {sum(len(said) for _, said in out)} tokens, {time.time() - began:.0f} s", flush=True)
    return out


@torch.no_grad()
def together(base, prompts, limit):
    ids, start, cache = torch.tensor(prompts), len(prompts[0]), [None] * base.shape.layers
    new, over = ids, torch.zeros(len(prompts), dtype=torch.bool)
    for _ in range(limit):
        new = base.logits(base(new, cache)[:, -1]).argmax(-1, keepdim=True)
        ids = torch.cat([ids, new], 1)
        over |= (new == 0).view(-1) | (new == 2).view(-1)
        if over.all():
            break
    rows = []
    for row in ids.tolist():
        end = next((i for i in range(start, len(row)) if row[i] in export.END_IDS), len(row) - 1)
        rows.append((row[: end + 1], list(range(start, end + 1))))
    return rows


def batches(rows, seed):
    """Answers of like length together: ids [rows, T], and for each position whether its token was the model's."""
    order, r = sorted(rows, key=lambda row: len(row[0])), random.Random(seed)
    made = []
    while order:
        widest = len(order[min(len(order), max(1, BATCH // len(order[0][0]))) - 1][0])
        take, order = order[: max(1, BATCH // widest)], order[max(1, BATCH // widest) :]
        widest = max(len(ids) for ids, _ in take)
        made.append(
            (
                torch.tensor([ids + [0] * (widest - len(ids)) for ids, _ in take]),
                marks(take, widest),
            )
        )
    r.shuffle(made)
    return made


def marks(rows, width):
    made = torch.zeros(len(rows), width, dtype=torch.bool)
    for mark, (_, said) in zip(made, rows):
        mark[said] = True
    return made


# ---- what is taught


def draft(base):
    shape = replace(
        base.shape, layers=2, intermediate=192
    )  # the vocabulary's vectors are the model's own to begin with
    made = Llama(shape)
    with torch.no_grad():
        made.embed.copy_(base.embed)
        made.final_norm.copy_(base.final_norm)
    return made


class Medusa(nn.Module):
    """Head h: x + SiLU(W x + b), then a matrix to the vocabulary; h = 0 guesses the token after the next."""

    def __init__(self, base):
        super().__init__()
        hidden = base.shape.hidden
        self.linear = nn.Parameter(torch.zeros(HEADS, hidden, hidden))
        self.bias = nn.Parameter(torch.zeros(HEADS, hidden))
        self.head = nn.Parameter(0.5 * base.embed.detach().repeat(HEADS, 1, 1))  # [heads, vocabulary, hidden]

    def matrix_parameters(self):
        return [self.linear]

    def forward(self, hidden, h):
        """hidden [.., H] → logits of head h [.., vocabulary]."""
        return F.linear(hidden + F.silu(F.linear(hidden, self.linear[h], self.bias[h])), self.head[h])


class Eagle(nn.Module):
    """fc of (the next token's vector, the model's last hidden row), then one llama layer without an input norm."""

    def __init__(self, base):
        super().__init__()
        self.shape = s = base.shape
        q, kv = s.heads * s.head_dim, s.kv_heads * s.head_dim

        def matrix(rows, columns, gain=1.0):
            return nn.Parameter(torch.randn(1, rows, columns) * gain * columns**-0.5)

        self.embed = base.embed.detach()
        self.fc = nn.Parameter(torch.cat([torch.zeros(s.hidden, s.hidden), torch.eye(s.hidden)], 1)[None])
        self.fc_bias = nn.Parameter(torch.zeros(s.hidden))
        self.q, self.k, self.v, self.o = (
            matrix(q, s.hidden),
            matrix(kv, s.hidden),
            matrix(kv, s.hidden),
            matrix(s.hidden, q, 0.1),
        )
        self.gate, self.up = matrix(s.intermediate, s.hidden), matrix(s.intermediate, s.hidden)
        self.down = matrix(s.hidden, s.intermediate, 0.1)
        self.norm = nn.Parameter(torch.ones(s.hidden))
        self.register_buffer("cos", base.cos, persistent=False)
        self.register_buffer("sin", base.sin, persistent=False)

    def matrix_parameters(self):
        return [self.fc, self.q, self.k, self.v, self.o, self.gate, self.up, self.down]

    def vector_parameters(self):
        return [self.fc_bias, self.norm]

    def forward(self, ids, hidden, earlier=None):
        """ids [B, T] the tokens after those that gave the rows hidden [B, T, H] → a guess at the next rows [B, T, H].

        `earlier`, a list, holds the keys and values of each round: in the first the rows are the model's, in every further one they are
        guesses of the round before, and a position sees the model's rows up to where its own guessing began, guesses from there on."""
        s, t = self.shape, ids.shape[1]
        x = F.linear(torch.cat([F.embedding(ids, self.embed), hidden], -1), self.fc[0], self.fc_bias)
        q = F.linear(x, self.q[0]).unflatten(-1, (s.heads, -1)).transpose(1, 2)
        k = F.linear(x, self.k[0]).unflatten(-1, (s.kv_heads, -1)).transpose(1, 2)
        v = F.linear(x, self.v[0]).unflatten(-1, (s.kv_heads, -1)).transpose(1, 2)
        q, k = (model_module.rotate(y, self.cos[:t], self.sin[:t]) for y in (q, k))
        k, v = (y.repeat_interleave(s.heads // s.kv_heads, 1) for y in (k, v))
        if earlier is None:
            a = model_module.attention(q, k, v)
        else:
            earlier.append((k, v))
            a = guessing_attention(q, earlier)
        x = x + F.linear(a.transpose(1, 2).flatten(2), self.o[0])
        h = model_module.norm(x, self.norm, s.eps)
        return x + F.linear(model_module.gated(F.linear(h, self.gate[0]), F.linear(h, self.up[0])), self.down[0])


def guessing_attention(q, rounds):
    """q [B, heads, T, head_dim] of the last round; rounds: (k, v) of each. Position i sees the first round up to i - n, then one position of
    each of the n further rounds, the last of them itself."""
    n, t = len(rounds) - 1, q.shape[2]
    if n == 0:
        return model_module.attention(q, *rounds[0])
    hide = torch.full((t, t), -1e4, dtype=q.dtype).triu_(1 - n)
    scores = [q @ rounds[0][0].mT * q.shape[-1] ** -0.5 + hide]
    nearer = [tuple(F.pad(y, (0, 0, n - m, 0))[:, :, :t] for y in rounds[m]) for m in range(1, n + 1)]
    scores += [(q * k).sum(-1, keepdim=True) * q.shape[-1] ** -0.5 for k, _ in nearer]
    weights = torch.cat(scores, -1).softmax(-1)
    out = weights[..., :t] @ rounds[0][1]
    return out + sum(weights[..., t + m, None] * v for m, (_, v) in enumerate(nearer))


KINDS = {"draft": draft, "medusa": Medusa, "eagle": Eagle}
# A loss is taken where the model chose the token: `mine` [B, T] says of each token whether it did.


def draft_loss(head, base, ids, mine, hidden, progress):
    """The words alone: it is many times faster than to ask the model, and the model says nearly what it was taught to say."""
    at = mine[:, 1:]
    return F.cross_entropy(head.logits(head(ids)[:, :-1][at]).float(), ids[:, 1:][at])


def medusa_loss(head, base, ids, mine, hidden, progress):
    loss = 0
    for h in range(HEADS):
        at = mine[:, 2 + h :] & mine[:, 1 : -1 - h]  # from a row that chose a token itself
        if at.any():
            guess = head(hidden[:, : -2 - h][at], h)
            loss = loss + 0.8**h * F.cross_entropy(guess.float(), ids[:, 2 + h :][at])
    return loss


def eagle_loss(head, base, ids, mine, hidden, progress):
    """The rows are to be like the model's, and so are the words that come of them. Towards the end its own rows are fed back, as they are when
    it guesses a second time."""
    at = mine[:, 2:]
    with torch.no_grad():
        wanted = base.logits(hidden[:, 1:-1][at]).float().log_softmax(-1)
    loss, rows, earlier = 0, hidden[:, :-2], []
    for again in range(1 if progress < ALONE else 2):
        if again:
            rows = F.pad(rows, (0, 0, 1, 0))[:, :-1]  # position i now starts from the guess at row i
        rows = head(ids[:, 1:-1], rows, earlier)
        guess = base.logits(rows[at]).float().log_softmax(-1)
        like = F.smooth_l1_loss(rows[at].float(), hidden[:, 1:-1][at].float())
        loss = loss + 0.7**again * (F.kl_div(guess, wanted, log_target=True, reduction="batchmean") + NEAR * like)
    return loss


LOSSES = {"draft": draft_loss, "medusa": medusa_loss, "eagle": eagle_loss}


def halved():
    """Products of bfloat16, where the processor has some."""
    return torch.autocast("cpu", torch.bfloat16, enabled=model_module.KIND == torch.bfloat16)


def load(kind, base):
    head = KINDS[kind](base)
    if (RUN / f"{kind}.pt").exists():
        head.load_state_dict(torch.load(RUN / f"{kind}.pt"))
    return head


def teach(kind, base, minutes):
    for name in ("norm", "rotate", "gated"):
        setattr(model_module, name, torch.compile(getattr(model_module, name), dynamic=True))
    own, head = torch.load(RUN / "answers.pt") if (RUN / "answers.pt").exists() else [], load(kind, base)
    open_tokenizer(path := str(HERE.parent / "models/tiny/tokenizer.json"))
    tokenizer, kept = Tokenizer.from_file(path), []
    muon = Muon(head.matrix_parameters(), 0)
    matrices = {id(p) for p in muon.parameters}
    vectors = [p for p in head.parameters() if id(p) not in matrices]
    adam = torch.optim.AdamW(vectors, lr=1e-3, betas=(0.9, 0.95), weight_decay=0.0, fused=True)
    mean = [p.detach().clone() for p in head.parameters()]

    def save(mean):
        names = [name for name, _ in head.named_parameters()]
        torch.save(dict(zip(names, mean)), RUN / f"{kind}.pt")

    began, step, smooth, at = time.process_time(), 0, None, []
    while (progress := (time.process_time() - began) / 60 / minutes) < 1:
        if not at:  # its own answers, and twice as much of what it was taught to say
            taught = corpus.batch(tokenizer, f"heads {kind} {began} {step}", 40000, (64, 128, 256)[step % 3])
            at = batches(random.Random(step).sample(own, min(len(own), 400)), step) + batches(
                [(ids, [i for i, t in enumerate(trained) if t]) for ids, trained in taught], step
            )
            random.Random(step).shuffle(at)
        if kind == "draft":
            (ids, mine), hidden = at.pop(), None
        elif step % REUSED and len(kept) > REUSED:
            ids, mine, hidden = random.Random(step).choice(kept)
        else:
            ids, mine = at.pop()
            with torch.no_grad(), halved():
                hidden = base(ids)
            kept = [*kept[-500:], (ids, mine, hidden)]
        with halved():
            loss = LOSSES[kind](head, base, ids, mine, hidden, progress)
        if not torch.is_tensor(loss):
            continue
        loss.backward()
        rate = min(1, (step + 1) / 30, max(0.02, (1 - progress) * 1.5))
        torch.nn.utils.clip_grad_norm_(vectors, 1.0)
        muon.step(0.015 * rate, 0.9)
        for group in adam.param_groups:
            group["lr"] = 2e-3 * rate
        adam.step()
        head.zero_grad(set_to_none=True)
        with torch.no_grad():
            torch._foreach_lerp_(mean, [p.detach() for p in head.parameters()], 1 - min(0.99, step / (step + 10)))
        step, smooth = step + 1, loss.item() if smooth is None else 0.98 * smooth + 0.02 * loss.item()
        if step % 100 == 0:
            print(f"{kind}: step {step}  {time.process_time() - began:.0f} s  loss {smooth:.4f}", flush=True)
            save(mean)
    save(mean)


# ---- how good they are


@torch.no_grad()
def measure(base):
    """Of the tokens that the model chose on held-out chats, how many each guesses: the draft and EAGLE the next one, Medusa's head h the one
    h + 2 further."""
    rows = torch.load(RUN / "held.pt")
    heads, right, total = {kind: rounded(kind, load(kind, base)) for kind in KINDS}, defaultdict(int), defaultdict(int)

    def note(name, guess, ids):
        right[name] += (guess == ids).sum().item()
        total[name] += ids.numel()

    for ids, mine in batches(rows, 0):
        hidden = base(ids)
        at = mine[:, 1:]
        note("draft", heads["draft"].logits(heads["draft"](ids)[:, :-1][at]).argmax(-1), ids[:, 1:][at])
        at = mine[:, 2:] & mine[:, 1:-1]
        rows = heads["eagle"](ids[:, 1:-1], hidden[:, :-2], earlier := [])
        first = base.logits(rows).argmax(-1)
        note("eagle", first[at], ids[:, 2:][at])
        rows = heads["eagle"](ids[:, 1:-1], F.pad(rows, (0, 0, 1, 0))[:, :-1], earlier)
        at = at & F.pad(at & (first == ids[:, 2:]), (1, 0))[:, :-1]  # where its guess before was right
        note("eagle, second", base.logits(rows)[at].argmax(-1), ids[:, 2:][at])
        for h in range(HEADS):
            at = mine[:, 2 + h :] & mine[:, 1 : -1 - h]
            note(f"medusa {h + 1}", heads["medusa"](hidden[:, : -2 - h][at], h).argmax(-1), ids[:, 2 + h :][at])
    for name in total:
        print(f"{name:14s} {100 * right[name] / total[name]:5.1f} %  of {total[name]} tokens")


def rounded(kind, head):
    """The head with the weights that its folder holds."""
    with torch.no_grad():
        for p in head.parameters():
            if p.dim() == 1 or p.shape[-2] <= HEADS:  # norms and biases
                p.copy_(p.half().float())
            else:
                p.copy_(packed(p.flatten(0, -2), BITS[kind])[2].view_as(p))
    return head.eval()


# ---- folders

BITS = {"draft": 8, "medusa": 4, "eagle": 8}  # an EAGLE head is packed as the model whose own head it shares


def packed(matrix, bits):
    """[rows, columns] → words [rows, columns * bits / 32], scales [rows, columns / 32], and the values that these stand for. q8f16_1 and
    q4f16_1: 32 values to a scale, codes from the lowest bits of a word up, all arithmetic in halves."""
    zero = 2 ** (bits - 1) - 1
    groups = matrix.half().view(matrix.shape[0], -1, 32)
    scale = (groups.abs().amax(-1, keepdim=True).float() / zero).half()
    ratio = torch.where(scale == 0, 0, (groups.float() / scale.float()).nan_to_num()).half()
    codes = (ratio.float() + zero).half().float().round().clamp(0, 2 * zero)
    values = ((codes - zero) * scale.float()).view_as(matrix)
    shifts = torch.arange(0, 32, bits)
    words = (codes.long().view(matrix.shape[0], -1, 32 // bits) << shifts).sum(-1).to(torch.uint32)
    return words, scale.squeeze(-1), values


def write(kind, head, base, out):
    """The draft as a Hugging Face folder, to be compiled as any model; heads packed, in MLC's layout."""
    out.mkdir(parents=True, exist_ok=True)
    named, config = WRITERS[kind](head, base)
    if kind == "draft":
        export.write_safetensors(out / "model.safetensors", named)
        export.write_json(out / "config.json", config)
        for file in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
            (out / file).write_bytes((HERE / "runs" / "base" / "folder" / file).read_bytes())
        return
    records, blobs, count = [], [], 0

    def record(name, tensor, dtype):
        raw = tensor.contiguous().view(torch.uint8).numpy().tobytes()
        at = sum(map(len, blobs))
        records.append(
            {
                "name": name,
                "shape": list(tensor.shape),
                "dtype": dtype,
                "format": "f32-to-bf16",
                "nbytes": len(raw),
                "byteOffset": at,
            }
        )
        blobs.append(raw)

    for name, tensor in named:
        tensor = tensor.detach()
        count += tensor.numel()
        if tensor.dim() == 1:
            record(name, tensor.half(), "float16")
        else:
            words, scales, _ = packed(tensor, BITS[kind])
            record(name.replace(".weight", ".q_weight"), words, "uint32")
            record(name.replace(".weight", ".q_scale"), scales, "float16")
    data = b"".join(blobs)
    (out / "params_shard_0.bin").write_bytes(data)
    shard = {"dataPath": "params_shard_0.bin", "format": "raw-shard", "nbytes": len(data)}
    shard |= {"records": records, "md5sum": hashlib.md5(data).hexdigest()}
    metadata = {"ParamSize": len(records), "ParamBytes": len(data), "BitsPerParam": 8 * len(data) / count}
    export.write_json(out / "tensor-cache.json", {"metadata": metadata, "records": [shard]})
    export.write_json(
        out / "mlc-chat-config.json",
        {
            "version": "0.1.0",
            "model_type": kind,
            "quantization": f"q{BITS[kind]}f16_1",
            "model_config": config,
            "vocab_size": base.shape.vocabulary,
        },
    )
    print(f"{out}: {count:,} parameters, {len(data):,} bytes")


def draft_folder(head, base):
    return list(export.tensors(head)), export.config(head.shape)


def medusa_folder(head, base):
    named = []
    for h in range(HEADS):
        named += [
            (f"medusa_head.{h}.0.linear.weight", head.linear[h]),
            (f"medusa_head.{h}.0.linear.bias", head.bias[h]),
            (f"medusa_head.{h}.1.weight", head.head[h]),
        ]
    return named, {
        "architectures": ["MedusaModel"],
        "model_type": "medusa",
        "medusa_num_heads": HEADS,
        "medusa_num_layers": 1,
        "hidden_size": base.shape.hidden,
        "vocab_size": base.shape.vocabulary,
    }


def eagle_folder(head, base):
    named = [
        ("embed_tokens.weight", head.embed),
        ("fc.weight", head.fc[0]),
        ("fc.bias", head.fc_bias),
        ("layers.0.self_attn.qkv_proj.weight", torch.cat([head.q[0], head.k[0], head.v[0]])),
        ("layers.0.self_attn.o_proj.weight", head.o[0]),
        ("layers.0.post_attention_layernorm.weight", head.norm),
        ("layers.0.mlp.gate_up_proj.weight", torch.cat([head.gate[0], head.up[0]])),
        ("layers.0.mlp.down_proj.weight", head.down[0]),
    ]
    return named, export.config(base.shape) | {
        "architectures": ["EagleLlamaForCausalLM"],
        "model_type": "eagle",
        "num_hidden_layers": 1,
        "bias": True,
    }


WRITERS = {"draft": draft_folder, "medusa": medusa_folder, "eagle": eagle_folder}

if __name__ == "__main__":
    main()
