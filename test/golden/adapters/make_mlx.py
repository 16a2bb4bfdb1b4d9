"""Makes the adapters whose names begin with mlx, with mlx-lm, on golden models: random factors, prompts, logits, greedy tokens.

    python make_mlx.py OUTPUT

Logits are what mlx-lm computes in float32 on a processor.
"""

import json
import sys
from pathlib import Path

import mlx.core as mx
import mlx_lm
import numpy as np
from mlx.utils import tree_flatten
from mlx_lm.tuner.utils import linear_to_lora_layers
from mlx_lm.utils import load_model

GOLDEN = Path(__file__).parent.parent
LENGTHS, GREEDY, MARGIN, DISTINCT = (1, 17, 40, 150), 40, 0.05, 8
BASE = "models/llama-untied"
ADAPTERS = {"mlx": ("lora", dict(rank=6, scale=1.5, dropout=0.0)), "mlx-dora": ("dora", dict(rank=4, scale=2.0, dropout=0.0))}


def greedy_of(model, ids):
    tokens, leads = [], []
    while len(tokens) < GREEDY:
        logits = np.array(model(mx.array([ids]))[0, -1])
        second, best = np.sort(logits)[-2:]
        leads.append(float(best - second))
        if leads[-1] < MARGIN:
            break
        tokens.append(int(logits.argmax()))
        ids = [*ids, tokens[-1]]
    return tokens, leads


def make(name, output, seed=7):
    kind, parameters = ADAPTERS[name]
    folder = output / name
    folder.mkdir(parents=True, exist_ok=True)
    model, _ = load_model(GOLDEN / BASE)
    linear_to_lora_layers(model, 2, parameters, use_dora=kind == "dora")
    random = np.random.default_rng(seed)
    adapter = {}
    for path, value in tree_flatten(model.parameters()):
        part = path.rsplit(".", 1)[-1]
        normal = random.standard_normal(value.shape).astype(np.float32)
        if part in ("lora_a", "lora_b"):
            adapter[path] = mx.array(0.6 * normal / value.shape[0] ** 0.5)
        elif part == "m":
            adapter[path] = value * mx.array(1 + 0.2 * normal)
    model.load_weights(list(adapter.items()), strict=False)
    model.eval()
    mx.save_safetensors(str(folder / "adapters.safetensors"), adapter)
    config = dict(fine_tune_type=kind, model=f"../../{BASE}", num_layers=2, lora_parameters=parameters)
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=4))
    tensors, notes = {}, []
    for number, length in enumerate(LENGTHS):
        tokens = []
        while len(tokens) < GREEDY or len(set(tokens)) < DISTINCT:
            ids = random.integers(3, 250, length).tolist()
            tokens, leads = greedy_of(model, ids)
        first = max(0, length - 2)
        tensors[f"prompt.{number}"] = mx.array(ids, mx.int32)
        tensors[f"logits.{number}"] = model(mx.array([ids]))[0, first:]
        tensors[f"greedy.{number}"] = mx.array(tokens, mx.int32)
        notes.append(dict(length=length, first_row=first, rows=length - first, least_margin=round(min(leads), 4)))
    mx.save_safetensors(str(folder / "golden.safetensors"), tensors)
    golden = dict(base=BASE, oracle="mlx-lm, float32", versions={"mlx-lm": mlx_lm.__version__, "mlx": mx.__version__}, prompts=notes)
    (folder / "golden.json").write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    mx.set_default_device(mx.cpu)
    for name in ADAPTERS:
        make(name, Path(sys.argv[1]))
