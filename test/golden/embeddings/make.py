"""Makes the encoders that are listed below with transformers: random weights, ten texts, their rows and what pooling makes of them.

    python make.py OUTPUT [NAME ...]        torch 2.15.0, transformers 5.24.0, tokenizers 0.23.3

Everything is computed in float64, on the stored weights. Texts and tokenizers are those of the folders beside this file; RoBERTa's
cuts bytes as GPT-2's, with the vocabulary of ../models/granitemoe behind its own first tokens.
"""

import json
import re
import shutil
import sys
from pathlib import Path

import tokenizers
import torch
import transformers
from safetensors.torch import save_file
from torch import nn
from transformers import AutoConfig, AutoModel
from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor

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

JINA = {**ROBERTA, "vocab_size": 402, "max_position_embeddings": 160}
NOMIC = {**JINA, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}
NTK = 4.0

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
    "deberta": (
        "DebertaV2Model",
        {
            **{key: COMMON[key] for key in COMMON if key != "layer_norm_eps"},
            "model_type": "deberta-v2",
            "type_vocab_size": 0,
            "relative_attention": True,
            "position_buckets": 8,
            "norm_rel_ebd": "layer_norm",
            "share_att_key": True,
            "pos_att_type": "p2c|c2p",
            "max_relative_positions": -1,
            "position_biased_input": False,
        },
        "bert",
        "mean",
        True,
    ),
    "jina-v2": ("BertModel", {**COMMON, "model_type": "bert", "num_attention_heads": 6}, "bert", "mean", True),
    "jina-v3": (
        "JinaEmbeddingsV3Model",
        {**JINA, "model_type": "jina_embeddings_v3", "rope_parameters": {"rope_type": "default", "rope_theta": 20000.0}},
        "xlm-roberta",
        "mean",
        True,
    ),
    "nomic-moe": ("JinaEmbeddingsV3Model", {**NOMIC, "model_type": "jina_embeddings_v3"}, "xlm-roberta", "mean", True),
    "gte": (
        "GteModel",
        {
            **JINA,
            "model_type": "gte",
            "layer_norm_eps": 1e-12,
            "rope_parameters": {"rope_type": "linear", "factor": NTK ** (2 / 8), "rope_theta": 5000.0 * NTK},
        },
        "xlm-roberta",
        "cls",
        True,
    ),
    "eurobert": (
        "EuroBertModel",
        {
            "model_type": "eurobert",
            "vocab_size": 320,
            "hidden_size": 24,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "intermediate_size": 40,
            "hidden_act": "silu",
            "rms_norm_eps": 1e-5,
            "max_position_embeddings": 512,
            "rope_parameters": {"rope_type": "default", "rope_theta": 250000.0},
            "bos_token_id": 314,
            "eos_token_id": 317,
            "pad_token_id": 317,
        },
        "../models/granitemoe",
        "mean",
        True,
    ),
    "embedding-gemma2": (
        "EmbeddingGemma2TextModel",
        {
            "model_type": "embedding_gemma2_text",
            "vocab_size": 480,
            "hidden_size": 24,
            "intermediate_size": 32,
            "num_hidden_layers": 3,
            "num_attention_heads": 2,
            "num_key_value_heads": 2,
            "head_dim": 12,
            "global_head_dim": 20,
            "num_global_key_value_heads": 1,
            "hidden_activation": "gelu_pytorch_tanh",
            "max_position_embeddings": 512,
            "rms_norm_eps": 1e-6,
            "sliding_window": 7,
            "sliding_window_pattern": 2,
            "hidden_size_per_layer_input": 16,
            "embedding_dim": 32,
            "bos_token_id": 2,
            "eos_token_id": 1,
            "pad_token_id": 0,
        },
        "embeddinggemma",
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


class GatedMlp(nn.Module):
    """gelu(gate) * up, both of one matrix, projected back with a bias, in the place of what BERT has between two norms."""

    def __init__(self, hidden, intermediate):
        super().__init__()
        self.gated_layers = nn.Linear(hidden, 2 * intermediate, bias=False)

    def forward(self, x):
        gate, up = self.gated_layers(x).chunk(2, -1)
        return nn.functional.gelu(gate) * up


class Mixture(nn.Module):
    """Every expert of every row, and of those the shares of the best two, which need not add up to 1."""

    def __init__(self, hidden, intermediate, experts=4, active=2):
        super().__init__()
        self.active = active
        self.router = nn.Linear(hidden, experts, bias=False)
        self.w1 = nn.Parameter(torch.empty(experts, intermediate, hidden))
        self.w2 = nn.Parameter(torch.empty(experts, intermediate, hidden))
        self.bias = nn.Parameter(torch.empty(hidden))
        self.least = 1.0

    def forward(self, x):
        shares = self.router(x).softmax(-1)
        ranked = shares.sort(-1, descending=True).values
        self.least = min(self.least, (ranked[..., self.active - 1] - ranked[..., self.active]).min().item())
        chosen = torch.where(shares >= ranked[..., self.active - 1 : self.active], shares, 0)
        inner = nn.functional.gelu(torch.einsum("bth,efh->btef", x, self.w1))
        made = torch.einsum("btef,efh->bteh", inner, self.w2)
        return (made * chosen[..., None]).sum(2) + self.bias


def changed(name, model):
    """What transformers has no class of is put together."""
    hidden, intermediate = model.config.hidden_size, model.config.intermediate_size
    if name == "jina-v2":
        for layer in model.encoder.layer:
            layer.intermediate = GatedMlp(hidden, intermediate)
    if name == "nomic-moe":
        model.layers[1].mlp = Mixture(hidden, intermediate)
    return model


def rows_of(name, model, ids):
    if name != "jina-v2":
        return model(ids).last_hidden_state[0]
    heads, length = model.config.num_attention_heads, ids.shape[1]
    slopes = -build_mpt_alibi_tensor(heads, 2)[:, 0, 0].double()  # of one position back
    places = torch.arange(length)
    biases = -slopes[None, :, None, None] * (places[:, None] - places).abs()
    model.embeddings.position_embeddings.weight.zero_()
    return model(ids, attention_mask=biases).last_hidden_state[0]


QKV = [f"self_attn.{x}_proj" for x in "qkv"]


def joined(weights, name, parts):
    """Tensors that are published as one."""
    for first in [own for own in weights if parts[0] in own]:
        own = [first.replace(parts[0], part) for part in parts]
        weights[first.replace(parts[0], name)] = torch.cat([weights.pop(each) for each in own])


def renamed(weights, names):
    for before, behind in names:
        for own in [own for own in weights if before in own]:
            weights[own.replace(before, behind)] = weights.pop(own)


def published_of_jina2(c, weights):
    renamed(weights, [("intermediate.gated_layers", "mlp.gated_layers")])
    for own in [own for own in weights if re.search(r"layer\.\d+\.output", own)]:
        weights[own.replace("output.dense", "mlp.wo").replace("output.LayerNorm", "mlp.layernorm")] = weights.pop(own)
    del weights["embeddings.position_embeddings.weight"]
    own = dict(position_embedding_type="alibi", feed_forward_type="geglu", emb_pooler="mean")
    return {**c, **own, "architectures": ["JinaBertForMaskedLM"]}


FLASH = [
    ("embeddings.LayerNorm", "emb_ln"),
    ("post_attention_layernorm", "norm1"),
    ("post_mlp_layernorm", "norm2"),
    ("layers.", "encoder.layers."),
]


def published_of_jina3(c, weights):
    """With adapters for two tasks beside each matrix, which nobody asks for."""
    joined(weights, "mixer.Wqkv", QKV)
    renamed(weights, [("self_attn.o_proj", "mixer.out_proj"), *FLASH])
    generator = torch.Generator().manual_seed(4)
    for own in [own for own in weights if own.endswith("weight") and weights[own].dim() == 2]:
        matrix = weights.pop(own)
        rows, columns = matrix.shape if "embeddings" not in own else matrix.shape[::-1]
        base = own.removesuffix("weight") + "parametrizations.weight."
        weights[base + "original"] = matrix
        weights[base + "0.lora_A"] = torch.randn(2, 1, columns, generator=generator).bfloat16()
        weights[base + "0.lora_B"] = torch.randn(2, rows, 1, generator=generator).bfloat16()
    for own in list(weights):
        weights["roberta." + own] = weights.pop(own)
    tasks = ["retrieval.query", "retrieval.passage"]
    own = dict(position_embedding_type="rotary", rotary_emb_base=20000.0, lora_adaptations=tasks, lora_rank=1, lora_alpha=1)
    return {**without(c, "rope_parameters"), **own, "model_type": "xlm-roberta", "architectures": ["XLMRobertaModel"]}


def published_of_nomic(c, weights):
    joined(weights, "attn.Wqkv", QKV)
    renamed(weights, [("self_attn.o_proj", "attn.out_proj"), *FLASH, ("mlp.router", "mlp.router.layer")])
    renamed(weights, [("mlp.w1", "mlp.experts.mlp.w1"), ("mlp.w2", "mlp.experts.mlp.w2")])
    for own in [own for own in weights if own.endswith(("mlp.w1", "mlp.w2"))]:
        weights[own] = weights[own].flatten(0, 1)
    weights["encoder.layers.1.mlp.experts.bias"] = weights.pop("encoder.layers.1.mlp.bias")
    return dict(
        architectures=["NomicBertModel"],
        model_type="nomic_bert",
        activation_function="gelu",
        causal=False,
        expert_choice_router=False,
        layer_norm_epsilon=c["layer_norm_eps"],
        max_trained_positions=2048,
        mlp_fc1_bias=True,
        mlp_fc2_bias=True,
        moe_every_n_layers=2,
        moe_normalize_expert_weights=False,
        moe_top_k=2,
        n_embd=c["hidden_size"],
        n_head=c["num_attention_heads"],
        n_inner=c["intermediate_size"],
        n_layer=c["num_hidden_layers"],
        n_positions=2048,
        num_experts=4,
        num_shared_experts=0,
        pad_token_id=1,
        parallel_block=False,
        prenorm=False,
        qkv_proj_bias=True,
        rotary_emb_base=10000.0,
        rotary_emb_fraction=1.0,
        rotary_emb_interleaved=False,
        rotary_emb_scale_base=None,
        rotary_scaling_factor=None,
        type_vocab_size=1,
        use_rms_norm=False,
        vocab_size=c["vocab_size"],
    )


def published_of_gte(c, weights):
    joined(weights, "attention.qkv_proj", QKV)
    joined(weights, "mlp.up_gate_proj", ["mlp.up_proj", "mlp.gate_proj"])
    names = [("self_attn.o_proj", "attention.o_proj"), ("post_attention_layernorm", "attn_ln"), ("post_mlp_layernorm", "mlp_ln")]
    renamed(weights, [*names, ("layers.", "encoder.layer.")])
    for own in list(weights):
        weights["new." + own] = weights.pop(own)
    own = dict(rope_theta=5000.0, rope_scaling={"type": "ntk", "factor": NTK}, position_embedding_type="rope")
    more = dict(layer_norm_type="layer_norm", logn_attention_scale=False, pack_qkv=True)
    return {**without(c, "rope_parameters"), **own, **more, "model_type": "new", "architectures": ["NewModel"]}


def published_of_gemma2(c, weights):
    """Inside of what also sees and hears; kinds of layers as transformers makes them of the pattern."""
    for own in list(weights):
        weights["language_model." + own] = weights.pop(own)
    kinds = ["sliding_attention", "full_attention", "full_attention"]
    text = {**without(without(c, "sliding_window_pattern"), "architectures"), "layer_types": kinds}
    return {"architectures": ["EmbeddingGemma2Model"], "model_type": "embedding_gemma2", "text_config": text}


def without(config, name):
    return {key: value for key, value in config.items() if key != name}


PUBLISHED = {
    "jina-v2": published_of_jina2,
    "jina-v3": published_of_jina3,
    "nomic-moe": published_of_nomic,
    "gte": published_of_gte,
    "embedding-gemma2": published_of_gemma2,
}


def draw(name, shape, generator):
    """Attention that is sharp, norms that are not 1, biases that show."""
    normal = torch.randn(*shape, generator=generator)
    if "norm" in name.lower() and name.endswith("weight"):
        return 1 + 0.3 * normal
    if name.endswith("layer_scalar"):
        return 0.8 + 0.1 * normal
    if len(shape) == 1:
        return 0.2 * normal
    if "relative_attention_bias" in name or "rel_embeddings" in name:
        return 1.5 * normal
    if "embeddings." in name:
        return 0.5 * normal
    sharp = any(part in name for part in ("query", "key", "q_lin", "k_lin", "attn.q", "attn.k", "q_proj", "k_proj"))
    return normal * (2.2 if sharp else 1.3) / shape[-1] ** 0.5


def scalars_of(model):
    """What Gemma's layers are multiplied with, which nobody trains."""
    return [(own, weight) for own, weight in model.named_buffers() if own.endswith("layer_scalar")]


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
    model = changed(name, model)
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for own, weight in [*model.named_parameters(), *scalars_of(model)]:
            weight.copy_(draw(own, weight.shape, generator).bfloat16().float())
    weights = [*model.named_parameters(), *scalars_of(model)]
    stored = {own: weight.detach().bfloat16() for own, weight in weights if not own.startswith("pooler")}
    published = PUBLISHED.get(name, lambda given, _: given)({"architectures": [kind], **config}, stored)
    save_file({own: weight.contiguous() for own, weight in stored.items()}, folder / "model.safetensors", metadata={"format": "pt"})
    write_json(folder / "config.json", {**published, "torch_dtype": "bfloat16"})
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
            hidden = rows_of(name, model, ids)
            assert hidden.dtype == torch.float64
            row = hidden.mean(0) if mode == "mean" else hidden[0]
            tensors |= {f"ids.{i}": ids[0].int(), f"embedding.{i}": (row / row.norm()).float()}
        for mixture in [module for module in model.modules() if isinstance(module, Mixture)]:
            mixture.bias.zero_()  # a GGUF file has none
            for i, _ in enumerate(TEXTS):
                row = rows_of(name, model, tensors[f"ids.{i}"][None].long()).mean(0)
                tensors[f"file.{i}"] = (row / row.norm()).float()
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
    least = [module.least for module in model.modules() if isinstance(module, Mixture)]
    print(name, "longest", max(len(tensors[f"ids.{i}"]) for i in range(len(TEXTS))), "largest cosine", alike.max().item(), *least)


if __name__ == "__main__":
    output, *names = sys.argv[1:]
    for name in names or MODELS:
        make(name, Path(output))
