"""Makes the encoders that are listed below with transformers: random weights, ten texts, their rows and what pooling makes of them.

    python make.py OUTPUT [NAME ...]        torch 2.15.0, transformers 5.24.0, tokenizers 0.23.3

Everything is computed in float64, on the stored weights. Texts and tokenizers are those of the folders beside this file; RoBERTa's
cuts bytes as GPT-2's, with the vocabulary of ../models/granitemoe behind its own first tokens.
"""

import json
import shutil
import sys
from pathlib import Path

import tokenizers
import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModel

HERE = Path(__file__).parent
TEXTS = json.loads((HERE / "bert" / "embeddings.json").read_text())["texts"]

COMMON = dict(
    vocab_size=400,
    hidden_size=24,
    num_hidden_layers=2,
    num_attention_heads=3,
    intermediate_size=40,
    hidden_act="gelu",
    layer_norm_eps=1e-12,
    max_position_embeddings=150,
    type_vocab_size=2,
    pad_token_id=0,
)
ROBERTA = {**COMMON, "layer_norm_eps": 1e-5, "type_vocab_size": 1, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}

# Of each: the class, the configuration, whose tokenizer, pooling, whether rows are brought to unit length.
MODELS = {
    "roberta": ("RobertaModel", {**ROBERTA, "model_type": "roberta", "vocab_size": 324, "max_position_embeddings": 514}, None, "mean", True),
    "camembert": ("CamembertModel", {**ROBERTA, "model_type": "camembert", "vocab_size": 402, "max_position_embeddings": 162}, "xlm-roberta", "mean", False),
    "electra": ("ElectraModel", {**COMMON, "model_type": "electra", "embedding_size": 16}, "bert", "cls", False),
    "mpnet": (
        "MPNetModel",
        {
            **{key: value for key, value in ROBERTA.items() if key != "type_vocab_size"},
            "model_type": "mpnet",
            "max_position_embeddings": 162,
            "relative_attention_num_buckets": 32,
        },
        None,
        "mean",
        True,
    ),
    "distilbert": (
        "DistilBertModel",
        {
            "model_type": "distilbert",
            "vocab_size": 400,
            "dim": 24,
            "n_layers": 2,
            "n_heads": 3,
            "hidden_dim": 40,
            "activation": "gelu",
            "max_position_embeddings": 150,
            "sinusoidal_pos_embds": False,
            "pad_token_id": 0,
        },
        "bert",
        "mean",
        True,
    ),
}


def roberta_tokenizer():
    """<s>, <pad>, </s>, <unk>, then pieces of bytes, and <mask> behind them."""
    first = ["<s>", "<pad>", "</s>", "<unk>"]
    stored = json.loads((HERE.parent / "models/granitemoe/tokenizer.json").read_text())["model"]
    vocab = {token: i for i, token in enumerate(first)} | {token: i + len(first) for token, i in stored["vocab"].items()}
    tokens = {**{token: i for i, token in enumerate(first)}, "<mask>": len(vocab)}
    plain = dict(single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": i, "content": token, **plain} for token, i in tokens.items()],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": {
            "type": "RobertaProcessing",
            "sep": ["</s>", 2],
            "cls": ["<s>", 0],
            "trim_offsets": True,
            "add_prefix_space": False,
        },
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {**stored, "vocab": {**vocab, "<mask>": len(vocab)}},
    }


def mpnet_tokenizer():
    """BERT's, whose first tokens are called and ordered otherwise: no text may hold number 1, which stands for padding."""
    names = {"[CLS]": ("<s>", 0), "[PAD]": ("<pad>", 1), "[SEP]": ("</s>", 2), "[UNK]": ("[UNK]", 3), "[MASK]": ("<mask>", 4)}
    tokenizer = json.loads((HERE / "bert/tokenizer.json").read_text())
    vocab = {token: i for token, i in tokenizer["model"]["vocab"].items() if token not in names}
    tokenizer["model"]["vocab"] = {token: i for token, i in names.values()} | vocab
    for added in tokenizer["added_tokens"]:
        added["content"], added["id"] = names[added["content"]]
    tokenizer["added_tokens"].sort(key=lambda added: added["id"])
    tokenizer["post_processor"] = {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0], "trim_offsets": True, "add_prefix_space": False}
    return tokenizer


TOKENIZERS = {"roberta": roberta_tokenizer, "mpnet": mpnet_tokenizer}


def draw(name, shape, generator):
    """Attention that is sharp, norms that are not 1, biases that show."""
    normal = torch.randn(*shape, generator=generator)
    if "norm" in name.lower() and name.endswith("weight"):
        return 1 + 0.3 * normal
    if len(shape) == 1:
        return 0.2 * normal
    if "relative_attention_bias" in name:
        return 1.5 * normal
    if "embeddings." in name:
        return 0.5 * normal
    sharp = any(part in name for part in ("query", "key", "q_lin", "k_lin", "attn.q", "attn.k"))
    return normal * (2.2 if sharp else 1.3) / shape[-1] ** 0.5


def write_json(path, value):
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def write_modules(folder, mode, is_unit, width):
    names = ["Transformer", "Pooling"] + (["Normalize"] if is_unit else [])
    paths = ["", "1_Pooling", "2_Normalize"]
    modules = [
        {"idx": i, "name": str(i), "path": paths[i], "type": f"sentence_transformers.models.{name}"} for i, name in enumerate(names)
    ]
    write_json(folder / "modules.json", modules)
    (folder / "1_Pooling").mkdir()
    modes = {"cls": "pooling_mode_cls_token", "mean": "pooling_mode_mean_tokens"}
    pooling = {"word_embedding_dimension": width} | {own: name == mode for name, own in modes.items()}
    write_json(folder / "1_Pooling/config.json", pooling)


def make(name, output):
    kind, config, tokenizer_of, mode, is_unit = MODELS[name]
    folder = output / name
    folder.mkdir(parents=True)
    given = {key: value for key, value in config.items() if key != "model_type"}
    model = AutoModel.from_config(AutoConfig.for_model(config["model_type"], **given, attn_implementation="eager"))
    assert type(model).__name__ == kind
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for own, weight in model.named_parameters():
            weight.copy_(draw(own, weight.shape, generator).bfloat16().float())
    stored = {own: weight.detach().bfloat16() for own, weight in model.named_parameters() if not own.startswith("pooler")}
    save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
    write_json(folder / "config.json", {"architectures": [kind], **config, "torch_dtype": "bfloat16"})
    if tokenizer_of is None:
        write_json(folder / "tokenizer.json", TOKENIZERS[name]())
        special = dict(bos_token="<s>", eos_token="</s>", cls_token="<s>", sep_token="</s>", pad_token="<pad>", mask_token="<mask>")
        write_json(folder / "tokenizer_config.json", {**special, "tokenizer_class": kind.replace("Model", "Tokenizer")})
    else:
        for file in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(HERE / tokenizer_of / file, folder / file)
    model = model.eval().double()
    write_modules(folder, mode, is_unit, model.config.hidden_size)
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    tensors = {}
    with torch.no_grad():
        for i, text in enumerate(TEXTS):
            ids = torch.tensor([tokenizer.encode(text).ids])
            hidden = model(ids).last_hidden_state[0]
            assert hidden.dtype == torch.float64
            row = hidden.mean(0) if mode == "mean" else hidden[0]
            tensors |= {f"ids.{i}": ids[0].int(), f"embedding.{i}": (row / row.norm()).float()}
    save_file(tensors, folder / "embeddings.safetensors")
    golden = dict(
        oracle=f"{kind} of transformers, eager attention, float64 throughout",
        versions=dict(
            transformers=transformers.__version__,
            torch=torch.__version__.split("+")[0],
            tokenizers=tokenizers.__version__,
            python=sys.version.split()[0],
        ),
        texts=TEXTS,
        pooling=mode,
        normalize=is_unit,
    )
    write_json(folder / "embeddings.json", golden)
    rows = torch.stack([tensors[f"embedding.{i}"] for i in range(len(TEXTS))])
    alike = rows @ rows.T - 2 * torch.eye(len(rows))
    print(name, "longest", max(len(tensors[f"ids.{i}"]) for i in range(len(TEXTS))), "largest cosine", alike.max().item())


if __name__ == "__main__":
    output, *names = sys.argv[1:]
    for name in names or MODELS:
        make(name, Path(output))
