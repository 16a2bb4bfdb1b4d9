"""More cross-encoders with random heads over the encoders of ../embeddings, and what transformers makes of some pairs in float64.

    python classify.py OUTPUT [NAME ...]        torch 2.15.0, transformers 5.24.0, tokenizers 0.23.3

Pairs are tokenized by the Python package, type ids included.
"""

import importlib.util
import json
import shutil
import sys
from pathlib import Path

import torch
import transformers
from make import DOCUMENTS, QUERY
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from transformers import AutoConfig, AutoModelForSequenceClassification

HERE = Path(__file__).parent
SPEC = importlib.util.spec_from_file_location("encoders", HERE.parent / "embeddings/make.py")
encoders = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(encoders)

MODELS = {
    "jina": {},
    "roberta": {},
    "mpnet": {},
    "electra": {},
    "distilbert": {},
    "deberta": {
        "share_att_key": False,
        "norm_rel_ebd": "none",
        "position_buckets": -1,
        "max_relative_positions": 8,
        "position_biased_input": True,
        "type_vocab_size": 2,
        "pos_att_type": ["c2p", "p2c"],
    },
    "modernbert": {"classifier_pooling": "mean", "classifier_bias": True, "norm_bias": False, "sep_token_id": 3},
}


def draw(name, shape, generator):
    normal = torch.randn(*shape, generator=generator)
    if "norm" in name:
        return 1 + 0.3 * normal
    return 0.2 * normal if len(shape) == 1 else normal * (6 if shape[0] == 1 else 1.5) / shape[-1] ** 0.5


JINA = {**encoders.MODELS["jina-v3"][1], "num_hidden_layers": 1}


def published_of_jina(config, weights):
    """Jina Reranker 2, an XLM-RoBERTa by name."""
    encoders.joined(weights, "mixer.Wqkv", encoders.QKV)
    encoders.renamed(weights, [("self_attn.o_proj", "mixer.out_proj"), *encoders.FLASH])
    own = dict(position_embedding_type="rotary", rotary_emb_base=20000.0, model_type="xlm-roberta")
    return {**encoders.without(config, "rope_parameters"), **own, "architectures": ["XLMRobertaForSequenceClassification"]}


def make(name, output):
    source, folder = HERE.parent / "embeddings" / ("xlm-roberta" if name == "jina" else name), output / name
    folder.mkdir(parents=True)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(source / file, folder / file)
    read = JINA if name == "jina" else json.loads((source / "config.json").read_text())
    config = {**read, **MODELS[name], "id2label": {"0": "LABEL_0"}}
    given = {key: value for key, value in config.items() if key not in ("model_type", "architectures", "torch_dtype")}
    own = AutoConfig.for_model(config["model_type"], **{**given, "id2label": {0: "LABEL_0"}}, attn_implementation="eager")
    model = AutoModelForSequenceClassification.from_config(own).eval()
    generator = torch.Generator().manual_seed(11)
    encoder = {} if name == "jina" else load_file(source / "model.safetensors")
    inner = model.base_model_prefix + "."
    with torch.no_grad():
        for key, weight in model.named_parameters():
            stored = encoder.get(key.removeprefix(inner))
            if stored is not None and "token_type" not in key:
                weight.copy_(stored)
            else:  # the head, and types so that they matter
                weight.copy_(draw(key, weight.shape, generator).bfloat16())
    model = model.double()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    pairs = [tokenizer.encode(QUERY, document) for document in DOCUMENTS]
    typed = getattr(own, "type_vocab_size", 1) > 1

    def logits():
        with torch.no_grad():
            return torch.stack(
                [
                    model(
                        input_ids=torch.tensor([pair.ids]),
                        attention_mask=torch.ones(1, len(pair.ids), dtype=torch.long),
                        **({"token_type_ids": torch.tensor([pair.type_ids])} if typed else {}),
                    ).logits[0, 0]
                    for pair in pairs
                ]
            )

    last = [weight for key, weight in model.named_parameters() if key.endswith(("classifier.bias", "out_proj.bias"))][-1]
    with torch.no_grad():
        last -= logits().mean()  # scores on both sides of a half
        last.copy_(last.bfloat16().double())
    scores = torch.sigmoid(logits()).tolist()
    tensors = {key: weight.detach().bfloat16() for key, weight in model.named_parameters()}
    config = {**config, "architectures": [type(model).__name__], "torch_dtype": "bfloat16"}
    if name == "jina":
        config = published_of_jina(config, tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    tokens = sum(len(pair.ids) for pair in pairs)
    golden = {"query": QUERY, "documents": DOCUMENTS, "scores": scores, "tokens": tokens, "transformers": transformers.__version__}
    (folder / "scores.json").write_text(json.dumps(golden, indent=1) + "\n")
    print(name, scores)


if __name__ == "__main__":
    output, *names = sys.argv[1:]
    for name in names or MODELS:
        make(name, Path(output))
