"""Cross-encoders with random heads over the encoders of ../embeddings, and what numpy makes of some pairs in float64.

python make.py; numpy 2.4.6, safetensors 0.8.0, tokenizers 0.23.3. It shares no code with the product: pairs are tokenized by the
Python package, type ids included, and the mathematics is that of modeling_bert.py and modeling_xlm_roberta.py of transformers.
"""

import json
import math
import shutil
from pathlib import Path

import numpy
from safetensors.numpy import save_file
from tokenizers import Tokenizer

HERE = Path(__file__).parent
QUERY = "Where does the river flow?"
DOCUMENTS = [
    "The river was quiet in the morning.",
    "It flows down from the hills to the sea.",
    "",
    "Nobody asked.",
    "a" * 40,
    "Where does the river flow?",
]


def erf(x):
    return numpy.vectorize(math.erf)(x)


def layer_norm(x, w, name, epsilon):
    centred = x - x.mean(-1, keepdims=True)
    scale = numpy.sqrt((centred**2).mean(-1, keepdims=True) + epsilon)
    return centred / scale * w[name + ".weight"] + w[name + ".bias"]


def linear(x, w, name):
    return x @ w[name + ".weight"].T + w[name + ".bias"]


def hidden(ids, types, w, config, root, skipped):
    epsilon, heads = config["layer_norm_eps"], config["num_attention_heads"]
    at = root + "embeddings."
    x = w[at + "word_embeddings.weight"][ids] + w[at + "token_type_embeddings.weight"][types]
    x = x + w[at + "position_embeddings.weight"][skipped : skipped + len(ids)]
    x = layer_norm(x, w, at + "LayerNorm", epsilon)
    size = x.shape[1] // heads
    for layer in range(config["num_hidden_layers"]):
        at = f"{root}encoder.layer.{layer}."
        q, k, v = (linear(x, w, f"{at}attention.self.{name}") for name in ("query", "key", "value"))
        mixed = numpy.zeros_like(x)
        for head in range(heads):
            own = slice(head * size, (head + 1) * size)
            scores = q[:, own] @ k[:, own].T / math.sqrt(size)
            weights = numpy.exp(scores - scores.max(-1, keepdims=True))
            mixed[:, own] = weights / weights.sum(-1, keepdims=True) @ v[:, own]
        x = layer_norm(x + linear(mixed, w, at + "attention.output.dense"), w, at + "attention.output.LayerNorm", epsilon)
        up = linear(x, w, at + "intermediate.dense")
        up = up * 0.5 * (1 + erf(up / math.sqrt(2)))
        x = layer_norm(x + linear(up, w, at + "output.dense"), w, at + "output.LayerNorm", epsilon)
    return x


def widened(path):
    """bfloat16 is not numpy's: its bits are the upper half of float32's."""
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    tensors = {}
    for name, entry in json.loads(data[8 : 8 + size]).items():
        if name == "__metadata__" or entry["dtype"] not in ("F32", "BF16"):
            continue
        begin, end = (8 + size + at for at in entry["data_offsets"])
        if entry["dtype"] == "F32":
            values = numpy.frombuffer(data[begin:end], "<f4")
        else:
            values = (numpy.frombuffer(data[begin:end], "<u2").astype("<u4") << 16).view("<f4")
        tensors[name] = values.reshape(entry["shape"]).copy()
    return tensors


def make(name, kind, root, skipped, head):
    source, folder = HERE.parent / "embeddings" / name, HERE / name
    folder.mkdir(exist_ok=True)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(source / file, folder / file)
    config = json.loads((source / "config.json").read_text())
    config |= {"architectures": [kind], "id2label": {"0": "LABEL_0"}, "torch_dtype": "float32"}
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    draw = numpy.random.default_rng(7)
    stored = {root + key: value for key, value in widened(source / "model.safetensors").items() if not key.startswith("pooler")}
    size = config["hidden_size"]
    dense, out = head
    for matrix, rows, spread in ((dense, size, 1 / math.sqrt(size)), (out, 1, 6 / math.sqrt(size))):
        stored[matrix + ".weight"] = draw.normal(0, spread, (rows, size)).astype("float32")
        stored[matrix + ".bias"] = draw.normal(0, 0.1, rows).astype("float32")
    types = root + "embeddings.token_type_embeddings.weight"
    if stored[types].shape[0] > 1:
        stored[types] = draw.normal(0, 1, stored[types].shape).astype("float32")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    pairs = [tokenizer.encode(QUERY, document) for document in DOCUMENTS]
    tokens = sum(len(pair.ids) for pair in pairs)

    def logits():
        w = {key: value.astype("float64") for key, value in stored.items()}
        rows = numpy.stack([hidden(pair.ids, pair.type_ids, w, config, root, skipped)[0] for pair in pairs])
        return linear(numpy.tanh(linear(rows, w, dense)), w, out)[:, 0]

    stored[out + ".bias"] -= logits().mean().astype("float32")  # scores on both sides of a half
    save_file(stored, folder / "model.safetensors")
    scores = [1 / (1 + math.exp(-logit)) for logit in logits()]
    golden = {"query": QUERY, "documents": DOCUMENTS, "scores": scores, "tokens": tokens}
    (folder / "scores.json").write_text(json.dumps(golden, indent=1) + "\n")
    print(name, scores)


if __name__ == "__main__":
    make("bert", "BertForSequenceClassification", "bert.", 0, ("bert.pooler.dense", "classifier"))
    make("xlm-roberta", "XLMRobertaForSequenceClassification", "roberta.", 2, ("classifier.dense", "classifier.out_proj"))
