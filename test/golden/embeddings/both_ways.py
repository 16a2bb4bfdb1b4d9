"""What `qwen3-embedding` makes of its texts where its configuration says `is_causal: false`, in plain numpy and float64.

The same layers with the mask first give the golden embeddings; then the mask is left out, which is what transformers does
(masking_utils.py: create_causal_mask gives a bidirectional mask) and vLLM (models/qwen3.py: AttentionType.ENCODER_ONLY).
"""

import json
import pathlib

import numpy as np

folder = pathlib.Path(__file__).parent / "qwen3-embedding"
config = json.loads((folder / "config.json").read_text())


def tensors(path):
    data = path.read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    header.pop("__metadata__", None)

    def read(entry):
        first, last = (begin + at for at in entry["data_offsets"])
        raw = data[first:last]
        if entry["dtype"] == "BF16":
            values = (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32)
        else:
            values = np.frombuffer(raw, {"F32": "<f4", "I32": "<i4"}[entry["dtype"]])
        return values.reshape(entry["shape"]).astype(np.float64 if entry["dtype"] != "I32" else np.int64)

    return {name: read(entry) for name, entry in header.items()}


weights = tensors(folder / "model.safetensors")
heads, kv_heads, width = (config[name] for name in ("num_attention_heads", "num_key_value_heads", "head_dim"))


def norm(x, name):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + config["rms_norm_eps"]) * weights[name]


def turned(x):  # [tokens, heads, width], halves of a head with each other
    angles = np.arange(len(x))[:, None] * config["rope_theta"] ** (-np.arange(0, width, 2) / width)
    cos, sin = np.cos(angles)[:, None], np.sin(angles)[:, None]
    a, b = x[..., : width // 2], x[..., width // 2 :]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def embedding(ids, is_causal):
    x = weights["embed_tokens.weight"][ids]
    count = len(ids)
    for layer in range(config["num_hidden_layers"]):
        at = f"layers.{layer}."

        def project(x, name):
            return x @ weights[f"{at}{name}_proj.weight"].T

        y = norm(x, f"{at}input_layernorm.weight")
        q = turned(norm(project(y, "self_attn.q").reshape(count, heads, width), f"{at}self_attn.q_norm.weight"))
        k = turned(norm(project(y, "self_attn.k").reshape(count, kv_heads, width), f"{at}self_attn.k_norm.weight"))
        v = project(y, "self_attn.v").reshape(count, kv_heads, width)
        k, v = (np.repeat(part, heads // kv_heads, 1) for part in (k, v))
        scores = np.einsum("thd,shd->hts", q, k) / np.sqrt(width)
        if is_causal:
            scores = np.where(np.tri(count, dtype=bool), scores, -np.inf)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        shares /= shares.sum(-1, keepdims=True)
        x = x + project(np.einsum("hts,shd->thd", shares, v).reshape(count, -1), "self_attn.o")
        y = norm(x, f"{at}post_attention_layernorm.weight")
        gate = project(y, "mlp.gate")
        x = x + project(gate / (1 + np.exp(-gate)) * project(y, "mlp.up"), "mlp.down")
    row = norm(x, "norm.weight")[-1]
    return row / np.linalg.norm(row)


golden = tensors(folder / "embeddings.safetensors")
texts = json.loads((folder / "embeddings.json").read_text())["texts"]
ids = [golden[f"ids.{i}"].astype(int) for i in range(len(texts))]
for i, own in enumerate(ids):
    assert np.abs(embedding(own, True) - golden[f"embedding.{i}"]).max() < 1e-6, i
both = [[float(f"{value:.9g}") for value in embedding(own, False)] for own in ids]
print(min(np.abs(np.array(b) - golden[f"embedding.{i}"]).max() for i, b in enumerate(both) if len(ids[i]) > 2))
(folder / "both-ways.json").write_text(json.dumps(both) + "\n")
