"""Writes a model whose layers have a window and biases on queries, keys and values under the architecture `llama`, as which a
file may have both, and what another program computes of it.

    pip install gguf transformers torch safetensors
    python make.py        writes llama-window-biases.gguf and golden.* beside itself

Weights are random, keys and tokenizer of ../architectures/qwen3-moe.gguf; rows of queries and keys, and their biases, stand as
llama's do, neighbours that turn together. Logits are what transformers' Qwen2 computes of them in float64, with the window in
every layer.
"""
import json
from importlib.metadata import version
from pathlib import Path

import gguf
import numpy as np
import torch
from safetensors.numpy import save_file
from transformers import Qwen2Config, Qwen2ForCausalLM

HERE = Path(__file__).resolve().parent
VOCAB, HIDDEN, LAYERS, HEADS, KV, DIM, INNER, WINDOW = 520, 48, 3, 4, 2, 12, 80, 14
PROMPTS, GREEDY, MARGIN = [1, 5, 17, 40, 150], 24, 0.02
SHAPES = {
    "attn_norm": ("input_layernorm.weight", [HIDDEN]),
    "attn_q": ("self_attn.q_proj.weight", [HEADS * DIM, HIDDEN]),
    "attn_k": ("self_attn.k_proj.weight", [KV * DIM, HIDDEN]),
    "attn_v": ("self_attn.v_proj.weight", [KV * DIM, HIDDEN]),
    "attn_q.bias": ("self_attn.q_proj.bias", [HEADS * DIM]),
    "attn_k.bias": ("self_attn.k_proj.bias", [KV * DIM]),
    "attn_v.bias": ("self_attn.v_proj.bias", [KV * DIM]),
    "attn_output": ("self_attn.o_proj.weight", [HIDDEN, HEADS * DIM]),
    "ffn_norm": ("post_attention_layernorm.weight", [HIDDEN]),
    "ffn_gate": ("mlp.gate_proj.weight", [INNER, HIDDEN]),
    "ffn_up": ("mlp.up_proj.weight", [INNER, HIDDEN]),
    "ffn_down": ("mlp.down_proj.weight", [HIDDEN, INNER]),
}


def in_pairs(values, heads):
    """Rows of a head from halves that turn together to neighbours that do."""
    return values.reshape(heads, 2, -1, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)


def draw(rng, name, shape):
    if "norm" in name:
        return rng.uniform(0.5, 1.5, shape).astype(np.float32)
    size = 0.5 if "bias" in name else (6 if name == "output" else 1.5) / shape[-1] ** 0.5
    return (rng.normal(size=shape) * size).astype(np.float16)


def write(seed):
    """transformers' weights, written as a file."""
    rng = np.random.default_rng(seed)
    source = gguf.GGUFReader(HERE.parent / "architectures/qwen3-moe.gguf")
    out = gguf.GGUFWriter(HERE / f"{HERE.name}.gguf", "llama")
    for key, field in source.fields.items():
        if key.startswith("tokenizer."):
            kinds = field.types
            out.add_key_value(key, field.contents(), kinds[0], kinds[1] if len(kinds) > 1 else None)
    out.add_block_count(LAYERS)
    out.add_context_length(512)
    out.add_embedding_length(HIDDEN)
    out.add_feed_forward_length(INNER)
    out.add_head_count(HEADS)
    out.add_head_count_kv(KV)
    out.add_rope_freq_base(10000.0)
    out.add_rope_dimension_count(DIM)
    out.add_layer_norm_rms_eps(1e-6)
    out.add_sliding_window(WINDOW)
    weights = {}

    def add(own, theirs, shape):
        values = draw(rng, own, shape)
        weights[theirs] = torch.from_numpy(values.astype(np.float64))
        if "attn_q" in own or "attn_k" in own:
            values = in_pairs(values, HEADS if "attn_q" in own else KV)
        if values.ndim == 1:
            values = values.astype(np.float32)
        out.add_tensor(own if own.endswith(".bias") else f"{own}.weight", values)

    add("token_embd", "model.embed_tokens.weight", [VOCAB, HIDDEN])
    add("output", "lm_head.weight", [VOCAB, HIDDEN])
    add("output_norm", "model.norm.weight", [HIDDEN])
    for layer in range(LAYERS):
        for own, (theirs, shape) in SHAPES.items():
            add(f"blk.{layer}.{own}", f"model.layers.{layer}.{theirs}", shape)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()
    return weights


def model_of(weights):
    config = Qwen2Config(
        vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=INNER, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=KV, rms_norm_eps=1e-6, rope_theta=10000.0,
        max_position_embeddings=512, tie_word_embeddings=False, use_sliding_window=True,
        sliding_window=WINDOW, max_window_layers=0, attn_implementation="eager",
    )
    assert config.layer_types == ["sliding_attention"] * LAYERS
    model = Qwen2ForCausalLM(config).double()
    model.load_state_dict(weights, strict=True)
    return model.eval()


@torch.no_grad()
def compute(model, seed):
    """Prompts, their last logits and what follows; nothing where a choice is too close to be asked of floats."""
    rng = np.random.default_rng([seed, 1])
    found, least = [], 9.0
    for length in PROMPTS:
        prompt = rng.integers(0, 500, length)
        logits = model(torch.tensor(prompt)[None]).logits[0].numpy()
        rows = min(length, 2)
        tokens, greedy = list(prompt), []
        for _ in range(GREEDY):
            last = model(torch.tensor(tokens)[None]).logits[0, -1]
            best = last.topk(2).values
            least = min(least, (best[0] - best[1]).item())
            if least < MARGIN:
                return None
            greedy.append(int(last.argmax()))
            tokens.append(greedy[-1])
        found.append((prompt, length - rows, logits[-rows:], greedy))
    return found, least


torch.set_num_threads(1)
for seed in range(400):
    if done := compute(model_of(write(seed)), seed):
        break
else:
    raise SystemExit("no seed has choices that are clear enough")
prompts, least = done
tensors = {}
for i, (prompt, _, logits, greedy) in enumerate(prompts):
    tensors |= {f"prompt.{i}": np.int32(prompt), f"logits.{i}": np.float32(logits), f"greedy.{i}": np.int32(greedy)}
save_file(tensors, HERE / "golden.safetensors")
notes = {
    "oracle": "Qwen2ForCausalLM of transformers, eager attention, float64",
    "versions": {name: version(name) for name in ("transformers", "torch", "numpy", "gguf")},
    "seed": seed,
    "least_margin": round(least, 4),
    "prompts": [
        {"length": len(prompt), "first_row": first, "rows": len(logits)} for prompt, first, logits, _ in prompts
    ],
}
(HERE / "golden.json").write_text(json.dumps(notes, indent=1) + "\n")
print(seed, least)
