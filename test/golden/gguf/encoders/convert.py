#!/usr/bin/env python3
"""Writes GGUF files from the encoders of ../../embeddings, by the rules of llama.cpp's converters (conversion/bert.py).

    python convert.py        needs gguf 0.19.0 and numpy

Names of tensors and keys are those that the package has for the folders' own. Embeddings are therefore those of the folder. XLM-RoBERTa's
tokenizer normalises by NFKC, which a file says by SentencePiece's table alone: it has none, so texts that NFKC changes are others.
"""
import json
import re
from pathlib import Path

import gguf
import numpy as np

HERE = Path(__file__).resolve().parent
FOLDERS = HERE.parents[1] / "embeddings"
A = gguf.MODEL_ARCH
POOLING = {"mean_tokens": gguf.PoolingType.MEAN, "cls_token": gguf.PoolingType.CLS}


def read_weights(folder):
    data = (folder / "model.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    weights = {}
    for name, t in header.items():
        part = data[8 + size + t["data_offsets"][0] : 8 + size + t["data_offsets"][1]]
        if t["dtype"] == "BF16":
            array = (np.frombuffer(part, "<u2").astype(np.uint32) << 16).view(np.float32)
        elif t["dtype"] == "F32":
            array = np.frombuffer(part, "<f4")
        else:
            continue
        weights[name] = array.reshape(t["shape"])
    return weights


def first(c, *names):
    return next(c[name] for name in names if c.get(name) is not None)


def write_tokenizer(w, folder, rows):
    t = json.loads((folder / "tokenizer.json").read_text())
    special = {a["id"] for a in t["added_tokens"]}
    vocab = t["model"]["vocab"]
    if t["model"]["type"] == "BPE":
        return write_pairs(w, t, rows)
    pieces = t["model"]["type"] == "Unigram"
    ids = {text: i for i, (text, _) in enumerate(vocab)} if pieces else vocab
    ids = ids | {a["content"]: a["id"] for a in t["added_tokens"]}
    tokens = {i: text for text, i in ids.items()}
    kinds = []
    for i in range(rows):
        text = tokens.setdefault(i, f"[PAD{i}]")
        kinds.append(2 if text == "<unk>" else 3 if i in special else 1 if i in ids.values() else 5)
        if not pieces and kinds[i] != 3:
            tokens[i] = text[2:] if text.startswith("##") else "\u2581" + text
    w.add_tokenizer_model("t5" if pieces else "bert")
    w.add_tokenizer_pre("default")
    w.add_token_list([tokens[i] for i in range(rows)])
    w.add_token_types(kinds)
    if pieces:
        w.add_token_scores([vocab[i][1] if i < len(vocab) else -10000.0 for i in range(rows)])
        w.add_add_space_prefix(True)
        w.add_remove_extra_whitespaces(True)
    around = [each["SpecialToken"]["id"] for each in t["post_processor"]["single"] if "SpecialToken" in each]
    w.add_bos_token_id(ids[around[0]])
    w.add_sep_token_id(ids[around[1]])
    w.add_unk_token_id(ids["<unk>" if pieces else "[UNK]"])
    w.add_add_bos_token(True)
    w.add_add_eos_token(True)


def write_pairs(w, t, rows):
    """SentencePiece's BPE, whose scores rank as the merges do."""
    special = {a["id"] for a in t["added_tokens"]}
    tokens = {i: text for text, i in t["model"]["vocab"].items()} | {a["id"]: a["content"] for a in t["added_tokens"]}
    ranks = {"".join(m): -float(i) for i, m in reversed(list(enumerate(t["model"]["merges"])))}
    byte = re.compile("<0x[0-9A-F]{2}>")
    texts = [tokens.get(i, f"[PAD{i}]") for i in range(rows)]
    w.add_tokenizer_model("llama")
    w.add_token_list(texts)
    w.add_token_types(
        [5 if i not in tokens else 2 if x == "<unk>" else 3 if i in special else 6 if byte.fullmatch(x) else 1 for i, x in enumerate(texts)]
    )
    w.add_token_scores([ranks.get(x, -1e6) for x in texts])
    w.add_bos_token_id(texts.index("<s>"))
    w.add_eos_token_id(texts.index("</s>"))
    w.add_add_bos_token(True)
    w.add_add_eos_token(True)


def convert(name, arch):
    folder = FOLDERS / name
    c = json.loads((folder / "config.json").read_text())
    weights = read_weights(folder)
    w = gguf.GGUFWriter(HERE / f"{name}.gguf", gguf.MODEL_ARCH_NAMES[arch])
    layers = first(c, "num_hidden_layers", "n_layer")
    skipped = c["pad_token_id"] + 1 if name == "xlm-roberta" else 0
    w.add_type("model")
    w.add_block_count(layers)
    w.add_context_length(first(c, "max_position_embeddings", "n_positions") - skipped)
    w.add_embedding_length(first(c, "hidden_size", "n_embd"))
    w.add_feed_forward_length(first(c, "intermediate_size", "n_inner"))
    w.add_head_count(first(c, "num_attention_heads", "n_head"))
    if arch == A.GEMMA_EMBEDDING:
        w.add_layer_norm_rms_eps(c["rms_norm_eps"])
        w.add_head_count_kv(c["num_key_value_heads"])
        w.add_key_length(c["head_dim"])
        w.add_value_length(c["head_dim"])
        w.add_rope_freq_base(c["rope_theta"])
        w.add_sliding_window(c["sliding_window"])
        w.add_sliding_window_pattern([t == "sliding_attention" for t in c["layer_types"]])
        for name in list(weights):
            if name.endswith("norm.weight"):
                weights[name] = weights[name] + np.float32(1)
            if "q_norm" in name:  # the file has scores scaled by the width of a head
                weights[name] *= np.float32((c["head_dim"] / c["query_pre_attn_scalar"]) ** 0.5)
        for n in (2, 3):
            dense = read_weights(folder / f"{n}_Dense")["linear.weight"]
            weights[f"dense_{n}.weight"] = dense
            w.add_dense_features_dims(f"dense_{n}", *dense.shape[::-1])
    else:
        w.add_layer_norm_eps(first(c, "layer_norm_eps", "layer_norm_epsilon", "norm_eps"))
    w.add_causal_attention(False)
    pooling = json.loads((folder / "1_Pooling/config.json").read_text()) if (folder / "1_Pooling").exists() else {}
    chosen = [n for n in POOLING if pooling.get(f"pooling_mode_{n}")]
    w.add_pooling_type(POOLING[chosen[0]] if chosen else gguf.PoolingType.CLS)
    if arch == A.NOMIC_BERT:
        w.add_rope_freq_base(c["rotary_emb_base"])
    if arch == A.MODERN_BERT:
        w.add_rope_freq_base(c["global_rope_theta"])
        w.add_rope_freq_base_swa(c["local_rope_theta"])
        w.add_sliding_window(c["local_attention"])
        w.add_sliding_window_pattern(c["global_attn_every_n_layers"])
        w.add_rope_scaling_type(gguf.RopeScalingType.NONE)
        w.add_string("modern-bert.hidden_activation", c["hidden_activation"])
    elif arch != A.GEMMA_EMBEDDING:
        w.add_token_type_count(c["type_vocab_size"])
    names = gguf.get_tensor_name_map(arch, layers)
    rows = next(len(v) for n, v in weights.items() if re.search("word_embeddings|tok_embeddings|embed_tokens", n))
    write_tokenizer(w, folder, rows)
    for long, array in weights.items():
        if "pooler" in long:
            continue
        plain = re.sub("^(bert|roberta)\\.", "", long)
        own = plain if plain.startswith("dense_") else names.get_name(plain, (".weight", ".bias"))
        assert own, long
        if own == "position_embd.weight":
            array = array[skipped:]
        w.add_tensor(own, np.ascontiguousarray(array, np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


convert("bert", A.BERT)
convert("xlm-roberta", A.BERT)
convert("nomic-bert", A.NOMIC_BERT)
convert("modernbert", A.MODERN_BERT)
convert("embeddinggemma", A.GEMMA_EMBEDDING)
