"""What PyTorch makes of models/tiny-eagle and models/tiny-medusa: golden.json and golden.safetensors beside this file.

    python make.py        needs tiny/requirements.txt

The networks are the ones that the heads were trained with (tiny/heads.py, float32); the weights are read from the packed folders here.
Texts are those of test/golden/tiny.json: a prompt and the reply that the model gives greedily.
"""

import json
import re
import struct
import sys
from pathlib import Path

import torch

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(ROOT / "tiny"))

import export  # noqa: E402
import heads  # noqa: E402

CASES = [1, 5, 8]  # of tiny.json
REPLIED = 20  # tokens of a reply
EACH = 40  # every fortieth column of the logits is kept
LONGEST = 4  # tokens that EAGLE drafts


@torch.no_grad()
def main():
    models = ROOT / "models"
    base = export.load_packed(models / "tiny")
    eagle, medusa = eagle_of(models / "tiny-eagle", base), medusa_of(models / "tiny-medusa", base)
    told = json.loads((HERE.parent / "tiny.json").read_text())["cases"]
    cases, tensors = [], {}
    for i, case in enumerate(told[at] for at in CASES):
        prompt, reply = case["prompt_ids"], case["greedy_ids"][:REPLIED]
        ids = torch.tensor(prompt + reply)
        rows = base(ids[None])[0]  # [tokens, hidden]
        guesses = eagle(ids[None, 1:], rows[None, :-1])[0]  # [tokens - 1, hidden], of positions 1 …
        tensors[f"hidden.{i}"] = rows
        tensors[f"eagle.{i}"] = base.logits(guesses)[:, ::EACH]
        for h in range(heads.HEADS):
            tensors[f"medusa.{h}.{i}"] = medusa(rows, h)[:, ::EACH]
        lengths = range(len(prompt) + 1, len(ids))  # of the text when a draft is made
        eagles = [eagle_draft(eagle, base, ids[:n], rows[: n - 1]) for n in lengths]
        medusas = [best([medusa(rows[n - 2], h) for h in range(heads.HEADS)]) for n in lengths]
        cases.append({"prompt": prompt, "reply": reply, "eagle": named(eagles), "medusa": named(medusas)})
    write_safetensors(HERE / "golden.safetensors", tensors)
    notes = {
        "made_by": "make.py, PyTorch " + torch.__version__.split("+")[0] + " in float32",
        "columns": f"of the logits, every {EACH}th",
        "drafts": "the first when the text is the prompt and one token of the reply, the next one token later",
        "leads": "of each drafted token, how far its logit is before the next one's",
        "cases": cases,
    }
    (HERE / "golden.json").write_text(collapsed(json.dumps(notes, indent=1)) + "\n")


def eagle_draft(eagle, base, ids, rows):
    """ids [n] is the text, rows [n - 1, hidden] what the model made of all but its last token."""
    logits = []
    for _ in range(LONGEST):
        guess = eagle(ids[None, 1:], rows[None])[0, -1:]  # [1, hidden]
        logits.append(base.logits(guess)[0])
        ids, rows = torch.cat([ids, logits[-1].argmax()[None]]), torch.cat([rows, guess])
    return best(logits)


def best(logits):
    tops = [row.topk(2) for row in logits]
    return [t.indices[0].item() for t in tops], [round((t.values[0] - t.values[1]).item(), 3) for t in tops]


def named(drafts):
    return {"drafts": [tokens for tokens, _ in drafts], "leads": [leads for _, leads in drafts]}


# ---- folders


def stored(folder, bits):
    """name → tensor of a folder packed in q8f16_1 or q4f16_1: codes from the lowest bits of a word up, 32 to a scale, values in halves."""
    raw = {}
    for shard in json.loads((folder / "tensor-cache.json").read_text())["records"]:
        data = (folder / shard["dataPath"]).read_bytes()
        for r in shard["records"]:
            part = bytearray(data[r["byteOffset"] : r["byteOffset"] + r["nbytes"]])
            kind = {"uint32": torch.int32, "float16": torch.float16}[r["dtype"]]
            raw[r["name"]] = torch.frombuffer(part, dtype=kind).view(r["shape"])

    def unpacked(words, scales):
        codes = (words[..., None] >> torch.arange(0, 32, bits)) & (2**bits - 1)
        values = codes.flatten(-2).float() - (2 ** (bits - 1) - 1)
        return (values * scales.float().repeat_interleave(32, -1)).half().float()

    made = {name: tensor.float() for name, tensor in raw.items() if tensor.dim() == 1}
    for name, words in raw.items():
        if name.endswith(".q_weight"):
            stem = name.removesuffix(".q_weight")
            made[stem + ".weight"] = unpacked(words, raw[stem + ".q_scale"])
    return made


def eagle_of(folder, base):
    s, w, head = base.shape, stored(folder, 8), heads.Eagle(base)
    q, kv = s.heads * s.head_dim, s.kv_heads * s.head_dim
    layer = "layers.0."
    head.embed = w["embed_tokens.weight"]
    head.fc.copy_(w["fc.weight"][None])
    head.fc_bias.copy_(w["fc.bias"])
    for parameter, part in zip(
        (head.q, head.k, head.v), w[layer + "self_attn.qkv_proj.weight"].split([q, kv, kv]), strict=True
    ):
        parameter.copy_(part[None])
    for parameter, part in zip((head.gate, head.up), w[layer + "mlp.gate_up_proj.weight"].chunk(2), strict=True):
        parameter.copy_(part[None])
    head.o.copy_(w[layer + "self_attn.o_proj.weight"][None])
    head.down.copy_(w[layer + "mlp.down_proj.weight"][None])
    head.norm.copy_(w[layer + "post_attention_layernorm.weight"])
    return head.eval()


def medusa_of(folder, base):
    w, head = stored(folder, 4), heads.Medusa(base)
    for h in range(heads.HEADS):
        head.linear[h] = w[f"medusa_head.{h}.0.linear.weight"]
        head.bias[h] = w[f"medusa_head.{h}.0.linear.bias"]
        head.head[h] = w[f"medusa_head.{h}.1.weight"]
    return head.eval()


def write_safetensors(path, named):
    header, blobs, at = {}, [], 0
    for name, tensor in named.items():
        blob = tensor.float().contiguous().numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [at, at + len(blob)]}
        blobs.append(blob)
        at += len(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def collapsed(text):
    """Lists of numbers on a line each."""
    return re.sub(
        r"\[[-\d\s.,]+\]", lambda found: " ".join(found[0].split()).replace("[ ", "[").replace(" ]", "]"), text
    )


if __name__ == "__main__":
    main()
