#!/usr/bin/env python3
"""Writes GGUF files from the folders of ../../models, one of each architecture, by the rules of llama.cpp's converters.

    python convert.py [NAME...]        needs gguf 0.19.0 and numpy

`MODEL.ARCHITECTURE` is a model written as one of an architecture that computes the same. Names of tensors and keys are those that the package has for the folders' own; what converters change beside names is below, an
architecture a function. Matrices stay in bf16 where they can, floats of 4 bits as they are, all else becomes float32. Logits and greedy tokens are
therefore those of the folder, but for smollm3: a file cannot say that its second layer is the one that is not turned. There it is every fourth; and for
gpt-oss, whose limit of gates no file says: it is 7; and for deepseek-v2: a file has one of its two stretches, 0.7 here.
"""
import json
import math
import re
import sys
from pathlib import Path

import gguf
import numpy as np

HERE = Path(__file__).resolve().parent
TYPE = gguf.GGMLQuantizationType


def read_folder(folder):
    """config, {name: float32 array}"""
    data = (folder / "model.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    header.pop("__metadata__", None)
    weights = {}
    for name, t in header.items():
        first, last = t["data_offsets"]
        if t["dtype"] == "U8":
            weights[name] = np.frombuffer(data[8 + size + first : 8 + size + last], np.uint8).reshape(t["shape"])
            continue
        if t["dtype"] == "F32":
            weights[name] = np.frombuffer(data[8 + size + first : 8 + size + last], "<f4").reshape(t["shape"])
            continue
        assert t["dtype"] == "BF16", name
        words = np.frombuffer(data[8 + size + first : 8 + size + last], "<u2")
        weights[name] = (words.astype(np.uint32) << 16).view(np.float32).reshape(t["shape"])
    return json.loads((folder / "config.json").read_text()), weights


# ---------------------------------------------------------------- what converters change


def pairs(w, heads):
    """Rows of a head from halves that turn together to neighbours that do: llama's `permute`."""
    return w.reshape(heads, 2, -1, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def in_pairs(c, weights):
    for name, w in weights.items():
        if match := re.search(r"self_attn\.([qk])_proj", name):
            weights[name] = pairs(w, c["num_attention_heads" if match[1] == "q" else "num_key_value_heads"])


def plus_one(c, weights):
    for name, w in weights.items():
        if name.endswith("norm.weight"):
            weights[name] = w + np.float32(1)


def regroup(weights, name, parts):
    """Rows of one joined tensor, group by group, become all queries, all keys, all values. parts: rows of each in a group."""
    for stem in [n for n in weights if name in n]:
        w = weights[stem]
        groups = w.reshape(-1, sum(parts), *w.shape[1:])
        weights[stem] = np.concatenate([g.reshape(-1, *w.shape[1:]) for g in np.split(groups, np.cumsum(parts)[:-1], axis=1)])


def llama3_divisors(c, s):
    dim = c["head_dim"]
    plain = c["rope_theta"] ** -(np.arange(0, dim, 2) / dim)
    turns = s["original_max_position_embeddings"] * plain / (2 * math.pi)
    low, high, factor = s["low_freq_factor"], s["high_freq_factor"], s["factor"]
    smooth = np.clip((turns - low) / (high - low), 0, 1)
    return 1 / ((1 - smooth) / factor + smooth)


def yarn(w, s):
    w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
    w.add_rope_scaling_factor(s["factor"])
    w.add_rope_scaling_orig_ctx_len(s["original_max_position_embeddings"])
    w.add_rope_scaling_yarn_beta_fast(s["beta_fast"])
    w.add_rope_scaling_yarn_beta_slow(s["beta_slow"])


def part(share):
    return lambda w, c, weights: w.add_rope_dimension_count(int(share(c) * head_dim(c)))


def gemma2(w, c, weights):
    plus_one(c, weights)
    # The file has scores scaled by the width of a head: what the folder says otherwise goes into the queries.
    for name in [n for n in weights if "q_proj" in n]:
        weights[name] = weights[name] * np.float32(math.sqrt(c["head_dim"] / c["query_pre_attn_scalar"]))
    w.add_attn_logit_softcapping(c["attn_logit_softcapping"])
    w.add_final_logit_softcapping(c["final_logit_softcapping"])
    w.add_sliding_window(c["sliding_window"])


def gemma3(w, c, weights):
    plus_one(c, weights)
    for name in [n for n in weights if "q_norm" in n]:
        weights[name] = weights[name] * np.float32(math.sqrt(c["head_dim"] / c["query_pre_attn_scalar"]))
    w.add_sliding_window(c["sliding_window"])
    w.add_sliding_window_pattern([t == "sliding_attention" for t in c["layer_types"]])
    full = c["rope_parameters"]["full_attention"]
    w.add_rope_scaling_type(gguf.RopeScalingType.LINEAR)
    w.add_rope_scaling_factor(full["factor"])


def gemma4(w, c, weights):
    """Heads of layers that see everything are what the file means, and those with a window an exception. What is not turned has a divisor."""
    w.add_shared_kv_layers(c["num_kv_shared_layers"])
    w.add_embedding_length_per_layer_input(c["hidden_size_per_layer_input"])
    w.add_sliding_window(c["sliding_window"])
    w.add_sliding_window_pattern([t == "sliding_attention" for t in c["layer_types"]])
    w.add_key_length_swa(c["swa_head_dim"])
    w.add_value_length_swa(c["swa_head_dim"])
    w.add_rope_dimension_count(c["head_dim"])
    w.add_rope_dimension_count_swa(c["swa_head_dim"])
    w.add_rope_freq_base_swa(c["rope_parameters"]["sliding_attention"]["rope_theta"])
    w.add_final_logit_softcapping(c["final_logit_softcapping"])
    turned = int(c["head_dim"] * c["rope_parameters"]["full_attention"]["partial_rotary_factor"] / 2)
    weights["rope_freqs.weight"] = np.array([1.0] * turned + [1e30] * (c["head_dim"] // 2 - turned), np.float32)
    if c.get("num_experts"):
        w.add_expert_count(c["num_experts"])
        w.add_expert_used_count(c["top_k_experts"])
        w.add_expert_feed_forward_length(c["moe_intermediate_size"])
    for name in list(weights):
        if match := re.fullmatch(r"model.layers.(\d+).router.(per_expert_)?scale", name):
            weights[f"blk.{match[1]}.{'ffn_down_exps' if match[2] else 'ffn_gate_inp'}.scale"] = weights.pop(name)
        elif not name.endswith((".weight", ".scale")):
            weights[name + ".weight"] = weights.pop(name)


def gemma4_config(c):
    types = c["layer_types"]
    own = len(types) - c["num_kv_shared_layers"]
    wide = c.get("use_double_wide_mlp")
    changed = {"swa_head_dim": c["head_dim"], "head_dim": c["global_head_dim"]}
    if "num_global_key_value_heads" in c:
        heads = (c["num_global_key_value_heads"], c["num_key_value_heads"])
        changed["num_key_value_heads"] = [heads[t == "sliding_attention"] for t in types]
    if wide:
        changed["intermediate_size"] = [c["intermediate_size"] * (1 if i < own else 2) for i in range(len(types))]
    return c | changed


def ministral3(w, c, weights):
    in_pairs(c, weights)
    s = c["rope_parameters"]
    yarn(w, s)
    w.add_rope_scaling_yarn_log_mul(s["mscale_all_dim"])
    w.add_attn_temperature_scale(s["llama_4_scaling_beta"])
    w.add_rope_dimension_count(c["head_dim"])


def olmo3(w, c, weights):
    yarn(w, c["rope_scaling"])
    w.add_rope_scaling_yarn_attn_factor(c["rope_scaling"]["attention_factor"])
    w.add_sliding_window(c["sliding_window"])
    w.add_sliding_window_pattern([t == "sliding_attention" for t in c["layer_types"]])


def granite(w, c, weights):
    in_pairs(c, weights)
    w.add_attention_scale(c["attention_multiplier"])
    w.add_embedding_scale(c["embedding_multiplier"])
    w.add_residual_scale(c["residual_multiplier"])
    w.add_logit_scale(c["logits_scaling"])


def phi(w, c, weights):
    """Joined as converters do on request."""
    part(lambda c: c["partial_rotary_factor"])(w, c, weights)
    for i in range(c["num_hidden_layers"]):
        for kind in ("weight", "bias"):
            three = [weights.pop(f"model.layers.{i}.self_attn.{x}_proj.{kind}") for x in "qkv"]
            weights[f"h.{i}.self_attention.query_key_value.{kind}"] = np.concatenate(three)


def phi3(w, c, weights):
    turned = int(c.get("partial_rotary_factor", 1) * head_dim(c))
    w.add_rope_dimension_count(turned)
    w.add_sliding_window(c["sliding_window"] or 0)
    original = c["original_max_position_embeddings"]
    w.add_rope_scaling_orig_ctx_len(original)
    if s := c["rope_scaling"]:
        scale = c["max_position_embeddings"] / original
        w.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(scale) / math.log(original)))
        weights["rope_factors_long.weight"] = np.array(s["long_factor"], np.float32)
        weights["rope_factors_short.weight"] = np.array(s["short_factor"], np.float32)


def exaone4(w, c, weights):
    w.add_sliding_window(c["sliding_window"])
    w.add_sliding_window_pattern([t == "sliding_attention" for t in c["layer_types"]])
    weights["rope_freqs.weight"] = llama3_divisors(c, c["rope_scaling"]).astype(np.float32)


def hunyuan(w, c, weights):
    dim = c["head_dim"]
    w.add_rope_freq_base(c["rope_theta"] * c["rope_scaling"]["alpha"] ** (dim / (dim - 2)))
    w.add_rope_scaling_type(gguf.RopeScalingType.NONE)


def cohere2(w, c, weights):
    w.add_logit_scale(c["logit_scale"])
    w.add_sliding_window(c["sliding_window"])
    w.add_rope_dimension_count(head_dim(c))
    w.add_rope_scaling_type(gguf.RopeScalingType.NONE)


def internlm2(w, c, weights):
    in_pairs(c, weights)
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"]


def minicpm(w, c, weights):
    in_pairs(c, weights)
    # The file has scores scaled by the width of a head.
    for name in [n for n in weights if "q_proj" in n]:
        weights[name] = weights[name] * np.float32(c["attention_multiplier"] * math.sqrt(head_dim(c)))
    w.add_embedding_scale(c["embedding_multiplier"])
    w.add_residual_scale(c["residual_multiplier"])
    w.add_logit_scale(c["logits_scaling"])


def seeing(layers=0, change=None):
    """The text model of one that sees: how rotations are shared out among time, height and width, which are one position for a token."""
    def convert(w, c, weights):
        half = head_dim(c) // 2
        w.add_rope_dimension_sections([half // 2, half // 4, half - half // 2 - half // 4, 0])
        if layers:
            w.add_num_deepstack_layers(layers)
        if change:
            change(w, c, weights)
    return convert


def stablelm(w, c, weights):
    part(lambda c: c["partial_rotary_factor"])(w, c, weights)
    w.add_parallel_residual(c["use_parallel_residual"])
    for i in range(c["num_hidden_layers"]):
        for x, heads in (("q", c["num_attention_heads"]), ("k", c["num_key_value_heads"])):
            prefix = f"model.layers.{i}.self_attn.{x}_layernorm"
            weights[f"{prefix}.weight"] = np.stack([weights.pop(f"{prefix}.norms.{h}.weight") for h in range(heads)])


def gpt_neox(w, c, weights):
    part(lambda c: c["rotary_pct"])(w, c, weights)
    w.add_parallel_residual(c["use_parallel_residual"])
    regroup(weights, "query_key_value", [head_dim(c)] * 3)


def falcon(w, c, weights):
    w.add_tensor_data_layout("jploski")
    dim, kv = head_dim(c), c["num_kv_heads"]
    regroup(weights, "query_key_value", [c["num_attention_heads"] // kv * dim, dim, dim])
    weights["lm_head.weight"] = weights["transformer.word_embeddings.weight"]


def gpt2(w, c, weights):
    for name in weights:
        if re.search(r"(c_attn|c_fc|c_proj)\.weight", name):
            weights[name] = weights[name].T


def nemotron(w, c, weights):
    part(lambda c: c["partial_rotary_factor"])(w, c, weights)
    plus_one(c, weights)


OLLAMA_MLLAMA = {
    "language_model.": "",
    "cross_attn.": "cross_attn_",
    "vision_model": "v",
    "class_embedding": "class_embd",
    "patch_embedding": "patch_embd",
    "gated_positional_embedding.tile_embedding": "tile_position_embd",
    "gated_positional_embedding.embedding": "position_embd.weight",
    "gated_positional_embedding": "position_embd",
    "embedding.weight": "weight",
    "pre_tile_positional_embedding": "pre_tile_position_embd",
    "post_tile_positional_embedding": "post_tile_position_embd",
    "layernorm_pre": "pre_ln",
    "layernorm_post": "post_ln",
    "global_transformer.layers": "global.blk",
    "transformer.layers": "blk",
    "mlp.fc1": "ffn_up",
    "mlp.fc2": "ffn_down",
    "multi_modal_projector": "mm.0",
}
# Of all of its models.
OLLAMA = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
}


def renamed(name, parts):
    for old, new in parts.items():
        name = name.replace(old, new)
    return name


def mllama(w, c, weights):
    """As Ollama names it, which alone has it (convert/convert_mllama.go there), keys and gates included."""
    text = {name: array for name, array in weights.items() if "vision_model" not in name}
    in_pairs(c, text)
    weights |= text
    eye = c["vision_config"]
    w.add_array("mllama.attention.cross_attention_layers", c["cross_attention_layers"])
    w.add_vocab_size(c["vocab_size"])
    w.add_rope_dimension_count(head_dim(c))
    for key, name in {
        "block_count": "num_hidden_layers",
        "global.block_count": "num_global_layers",
        "embedding_length": "hidden_size",
        "feed_forward_length": "intermediate_size",
        "attention.head_count": "attention_heads",
        "image_size": "image_size",
        "patch_size": "patch_size",
        "max_num_tiles": "max_num_tiles",
    }.items():
        w.add_uint32(f"mllama.vision.{key}", eye[name])
    w.add_uint32("mllama.vision.num_channels", 3)
    w.add_float32("mllama.vision.attention.layer_norm_epsilon", eye.get("norm_eps", 1e-5))
    w.add_array("mllama.vision.intermediate_layers_indices", eye["intermediate_layers_indices"])
    weights["rope_freqs.weight"] = llama3_divisors(c | {"head_dim": head_dim(c)}, c["rope_scaling"]).astype(np.float32)
    for name in list(weights):
        own = renamed(name.removeprefix("model."), {"gate_attn": "attn_gate", "gate_ffn": "ffn_gate"})
        if own.startswith(("vision_model", "multi_modal_projector")):
            own, array = renamed(own, OLLAMA_MLLAMA | OLLAMA), weights.pop(name)
            if re.search(r"attn_[qk]\.weight$", own):
                heads = eye["attention_heads"]
                array = array.reshape(heads, 2, -1, array.shape[1]).swapaxes(1, 2).reshape(array.shape)
            if own.endswith("gate"):
                array = np.tanh(array)
            if own == "v.position_embd.gate":
                weights["v.tile_position_embd.gate"] = array
                array = 1 - array
            weights[own] = array
            continue
        own = own.removeprefix("language_model.")
        if match := re.match(r"(?:model\.)?layers.(\d+)\.", own):
            if int(match[1]) in c["cross_attention_layers"]:
                own = own.replace(match[0], f"blk.{match[1]}.").replace("cross_attn.", "cross_attn_")
                own = own.replace("input_layernorm", "attn_norm").replace("post_attention_layernorm", "ffn_norm")
                own = re.sub(r"mlp\.(\w+)_proj", r"ffn_\1", own)
        weights[own] = weights.pop(name)


def stack(weights, prefix, parts):
    """The matrices of experts, each kind as one tensor."""
    for own, long in parts.items():
        for layer in sorted({n.split(".")[2] for n in weights if f".{prefix}.0.{long}." in n}):
            at = f"model.layers.{layer}.{prefix}"
            count = sum(n.startswith(f"{at}.") and n.endswith(f".{long}.weight") for n in weights)
            weights[f"blk.{layer}.{own}.weight"] = np.stack([weights.pop(f"{at}.{e}.{long}.weight") for e in range(count)])


def experts(w, c, weights):
    w.add_expert_count(first(c, "num_experts", "num_local_experts"))
    w.add_expert_used_count(c["num_experts_per_tok"])
    if "moe_intermediate_size" in c:
        w.add_expert_feed_forward_length(c["moe_intermediate_size"])
    if "shared_expert_intermediate_size" in c:
        w.add_expert_shared_feed_forward_length(c["shared_expert_intermediate_size"])
    stack(weights, "mlp.experts", {"ffn_gate_exps": "gate_proj", "ffn_up_exps": "up_proj", "ffn_down_exps": "down_proj"})
    for name, a in list(weights.items()):
        if "shared_expert_gate" in name:
            weights[name] = a[0]
        if match := re.fullmatch(r"model.layers.(\d+).mlp.(gate|up|down)_proj.weight", name):  # a dense layer
            weights[f"blk.{match[1]}.ffn_{match[2]}.weight"] = weights.pop(name)


def shared_experts(w, c, weights):
    w.add_expert_count(c["n_routed_experts"])
    w.add_expert_used_count(c["num_experts_per_tok"])
    w.add_expert_feed_forward_length(c["moe_intermediate_size"])
    w.add_expert_shared_count(c["n_shared_experts"])
    w.add_leading_dense_block_count(c["first_k_dense_replace"])
    w.add_expert_gating_func(gguf.ExpertGatingFuncType[c.get("scoring_func", "sigmoid").upper()])
    w.add_expert_weights_scale(c["routed_scaling_factor"])
    w.add_expert_weights_norm(c["norm_topk_prob"])
    if c["n_group"] > 1:
        w.add_expert_group_count(c["n_group"])
        w.add_expert_group_used_count(c["topk_group"])
    for name in [n for n in weights if n.endswith("e_score_correction_bias")]:
        weights[name.replace("_bias", ".bias")] = weights.pop(name)
    stack(weights, "mlp.experts", {"ffn_gate_exps": "gate_proj", "ffn_up_exps": "up_proj", "ffn_down_exps": "down_proj"})


def deepseek(w, c, weights):
    """What makes keys and values of a position's row apart from each other, the former turned around."""
    shared_experts(w, c, weights)
    rank, turned = c["kv_lora_rank"], c["qk_rope_head_dim"]
    straight, value = c["qk_nope_head_dim"], c["v_head_dim"]
    w.add_q_lora_rank(c["q_lora_rank"])
    w.add_kv_lora_rank(rank)
    w.add_key_length(rank + turned)
    w.add_value_length(rank)
    w.add_key_length_mla(straight + turned)
    w.add_value_length_mla(value)
    w.add_rope_dimension_count(turned)
    if s := c["rope_scaling"]:
        yarn(w, s)
        w.add_rope_scaling_yarn_log_mul(0.1 * s["mscale_all_dim"])
    for i in range(c["num_hidden_layers"]):
        both = weights.pop(f"model.layers.{i}.self_attn.kv_b_proj.weight")
        both = both.reshape(c["num_attention_heads"], straight + value, rank)
        weights[f"blk.{i}.attn_k_b.weight"] = both[:, :straight].swapaxes(1, 2)
        weights[f"blk.{i}.attn_v_b.weight"] = both[:, straight:]


def glm4_moe(w, c, weights):
    """With a layer that guesses ahead behind the others, as published files have it."""
    part(lambda c: c["partial_rotary_factor"])(w, c, weights)
    shared_experts(w, c, weights)
    w.add_nextn_predict_layers(1)
    last = c["num_hidden_layers"] - 1
    for name, a in list(weights.items()):
        for at in (f"model.layers.{last}.", f"blk.{last}."):
            if name.startswith(at):
                weights[name.replace(str(last), str(last + 1), 1)] = np.flip(a, 0)
    hidden = c["hidden_size"]
    one = np.ones(hidden, np.float32)
    at = f"blk.{last + 1}.nextn."
    weights |= {at + "eh_proj.weight": np.ones((hidden, 2 * hidden), np.float32)}
    weights |= {at + f"{name}.weight": one for name in ("enorm", "hnorm", "shared_head_norm")}


def lfm2(w, c, weights):
    w.add_shortconv_l_cache(c["conv_L_cache"])
    for name in [n for n in weights if n.endswith("conv.conv.weight")]:
        weights[name] = weights[name][:, 0]


def lfm2_config(c):
    """Its width is worked out, and heads of keys are counted layer by layer."""
    width = int(c["block_ffn_dim_multiplier"] * int(2 * c["block_ff_dim"] / 3))
    kv = c["num_key_value_heads"]
    return c | {
        "intermediate_size": -(-width // c["block_multiple_of"]) * c["block_multiple_of"],
        "num_key_value_heads": [kv if t == "full_attention" else 0 for t in c["layer_types"]],
        "rms_norm_eps": c["norm_eps"],
    }


def lfm2_moe(w, c, weights):
    lfm2(w, c, weights)
    w.add_expert_count(c["num_experts"])
    w.add_expert_used_count(c["num_experts_per_tok"])
    w.add_expert_feed_forward_length(c["moe_intermediate_size"])
    w.add_leading_dense_block_count(c["num_dense_layers"])
    w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    for name in [n for n in weights if n.endswith("expert_bias")]:
        weights[name + ".bias"] = weights.pop(name)
    stack(weights, "feed_forward.experts", {"ffn_gate_exps": "w1", "ffn_up_exps": "w3", "ffn_down_exps": "w2"})


def lfm2_moe_config(c):
    kv = c["num_key_value_heads"]
    heads = [kv if t == "full_attention" else 0 for t in c["layer_types"]]
    return c | {"num_key_value_heads": heads, "rms_norm_eps": c["norm_eps"]}


def mixtral(w, c, weights):
    in_pairs(c, weights)
    experts(w, c, weights)
    stack(weights, "block_sparse_moe.experts", {"ffn_gate_exps": "w1", "ffn_up_exps": "w3", "ffn_down_exps": "w2"})


def granite_moe(w, c, weights):
    granite(w, c, weights)
    experts(w, c, weights)
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}.block_sparse_moe."
        gate, up = np.split(weights.pop(at + "input_linear.weight"), 2, axis=1)
        weights |= {f"blk.{i}.ffn_gate_exps.weight": gate, f"blk.{i}.ffn_up_exps.weight": up}
        weights[f"blk.{i}.ffn_down_exps.weight"] = weights.pop(at + "output_linear.weight")


def mxfp4(w, name, blocks, scales):
    """Bytes of two neighbours become bytes of columns j and j + 16; a group's scale stands before them."""
    codes = np.stack([blocks & 15, blocks >> 4], axis=-1).reshape(*blocks.shape[:-1], 32)
    groups = np.concatenate([scales[..., None], codes[..., :16] | codes[..., 16:] << 4], axis=-1)
    w.add_tensor(name, np.ascontiguousarray(groups.reshape(*groups.shape[:2], -1)), raw_dtype=TYPE.MXFP4)


def gpt_oss(w, c, weights):
    experts(w, c, weights)
    w.add_expert_feed_forward_length(c["intermediate_size"])
    w.add_sliding_window(c["sliding_window"])
    yarn(w, c["rope_scaling"])
    for i in range(c["num_hidden_layers"]):
        at = f"model.layers.{i}."
        weights[f"blk.{i}.attn_sinks.weight"] = weights.pop(at + "self_attn.sinks")
        take = lambda name: weights.pop(f"{at}mlp.experts.{name}")
        blocks, scales, bias = (take(f"gate_up_proj_{kind}") for kind in ("blocks", "scales", "bias"))
        for first, part in enumerate(("gate", "up")):
            mxfp4(w, f"blk.{i}.ffn_{part}_exps.weight", blocks[:, first::2], scales[:, first::2])
            weights[f"blk.{i}.ffn_{part}_exps.bias"] = bias[:, first::2]
        mxfp4(w, f"blk.{i}.ffn_down_exps.weight", take("down_proj_blocks"), take("down_proj_scales"))
        weights[f"blk.{i}.ffn_down_exps.bias"] = take("down_proj_bias")


def delta(w, c, weights, tiled):
    """The gated delta rule, with value heads that take turns with those of other key heads or lie beside their own."""
    part(lambda c: c["rope_parameters"]["partial_rotary_factor"])(w, c, weights)
    keys, values = c["linear_num_key_heads"], c["linear_num_value_heads"]
    key_dim, value_dim = c["linear_key_head_dim"], c["linear_value_head_dim"]
    w.add_ssm_conv_kernel(c["linear_conv_kernel_dim"])
    w.add_ssm_state_size(key_dim)
    w.add_ssm_group_count(keys)
    w.add_ssm_time_step_rank(values)
    w.add_ssm_inner_size(values * value_dim)
    w.add_full_attention_interval(c["full_attention_interval"])

    def heads(a, width):
        return a.reshape(keys, values // keys, width, *a.shape[1:]).swapaxes(0, 1).reshape(a.shape) if tiled else a

    before = 2 * keys * key_dim
    for name, a in list(weights.items()):
        if name.endswith("norm.weight") and "linear_attn" not in name:
            a = a + np.float32(1)
        elif re.search("in_proj_[ab]", name):
            a = heads(a, 1)
        elif "in_proj_z" in name:
            a = heads(a, value_dim)
        elif re.search("in_proj_qkv|conv1d", name):
            a = a[:, 0] if "conv1d" in name else a
            a = np.concatenate([a[:before], heads(a[before:], value_dim)])
        elif "linear_attn.out_proj" in name:
            a = heads(a.T, value_dim).T
        elif name.endswith("A_log"):
            a = heads(-np.exp(a), 1)
        elif name.endswith("dt_bias"):
            del weights[name]
            name, a = name.replace("dt_bias", "dt_proj.bias"), heads(a, 1)
        weights[name] = a


def qwen3_5(w, c, weights):
    """With a layer that guesses ahead behind the others, as published files have it."""
    delta(w, c, weights, True)
    w.add_rope_dimension_sections([2, 1, 1, 0])
    w.add_nextn_predict_layers(1)
    layers, hidden = c["num_hidden_layers"], c["hidden_size"]
    at = f"blk.{layers}."
    weights |= {at + "nextn.eh_proj.weight": np.ones((hidden, 2 * hidden), np.float32)}
    weights |= {at + f"{name}.weight": np.ones(hidden, np.float32) for name in ("attn_norm", "nextn.enorm", "nextn.hnorm")}


def all_experts(w, c, weights):
    """Three experts that are all the MLP, and a shared one that gives nothing."""
    width = c.get("moe_intermediate_size") or c["intermediate_size"]
    experts(w, c | {"num_experts": 3, "num_experts_per_tok": 2, "moe_intermediate_size": width, "shared_expert_intermediate_size": width}, {})
    for i in range(c["num_hidden_layers"]):
        gate, up, down = (weights.pop(f"model.layers.{i}.mlp.{name}_proj.weight") for name in ("gate", "up", "down"))
        for name, a in {"gate": gate, "up": up, "down": down}.items():
            weights[f"blk.{i}.ffn_{name}_exps.weight"] = np.stack([a] * 3)
            weights[f"blk.{i}.ffn_{name}_shexp.weight"] = a if name != "down" else np.zeros_like(a)
        weights[f"blk.{i}.ffn_gate_inp.weight"] = gate[:3]
        weights[f"blk.{i}.ffn_gate_inp_shexp.weight"] = gate[0]


def qwen3_5_moe(w, c, weights):
    delta(w, c, weights, True)
    all_experts(w, c, weights)


def qwen3_next(w, c, weights, joined=False):
    """Shares and decays key head by key head, and in older files (`joined`) all that the delta rule is given."""
    delta(w, c, weights, False)
    all_experts(w, c, weights)
    keys = c["linear_num_key_heads"]
    take = lambda name: np.split(weights.pop(name), keys)
    together = lambda *parts: np.concatenate([a for head in zip(*parts) for a in head])
    for at in [n[: -len("in_proj_a.weight")] for n in weights if n.endswith("in_proj_a.weight")]:
        weights[at + "in_proj_ba.weight"] = together(take(at + "in_proj_b.weight"), take(at + "in_proj_a.weight"))
        if joined:
            of_keys = keys * c["linear_key_head_dim"]
            q, k, v = np.split(weights.pop(at + "in_proj_qkv.weight"), [of_keys, 2 * of_keys])
            parts = [np.split(a, keys) for a in (q, k, v)] + [take(at + "in_proj_z.weight")]
            weights[at + "in_proj_qkvz.weight"] = together(*parts)


PAIRS = lambda w, c, weights: in_pairs(c, weights)
PLUS = lambda w, c, weights: plus_one(c, weights)
SAME = lambda w, c, weights: None
A = gguf.MODEL_ARCH
CONVERTERS = {
    "cohere2": (A.COHERE2, cohere2),
    "deepseek-v2": (A.DEEPSEEK2, deepseek),
    "deepseek-v3": (A.DEEPSEEK2, deepseek),
    "ernie4-5": (A.ERNIE4_5, SAME),
    "exaone4": (A.EXAONE4, exaone4),
    "falcon": (A.FALCON, falcon),
    "gemma": (A.GEMMA, PLUS),
    "gemma2": (A.GEMMA2, gemma2),
    "gemma3": (A.GEMMA3, gemma3),
    "gemma4-experts": (A.GEMMA4, gemma4),
    "gemma4-layer-inputs": (A.GEMMA4, gemma4),
    "glm": (A.CHATGLM, part(lambda c: c["partial_rotary_factor"])),
    "glm4": (A.GLM4, part(lambda c: c["partial_rotary_factor"])),
    "glm4-moe": (A.GLM4_MOE, glm4_moe),
    "glm4-moe-lite": (A.DEEPSEEK2, deepseek),
    "gpt-neox": (A.GPTNEOX, gpt_neox),
    "gpt-oss": (A.GPT_OSS, gpt_oss),
    "gpt2": (A.GPT2, gpt2),
    "granite": (A.GRANITE, granite),
    "granite.minicpm": (A.MINICPM, minicpm),
    "granitemoe": (A.GRANITE_MOE, granite_moe),
    "hunyuan-dense": (A.HUNYUAN_DENSE, hunyuan),
    "lfm2": (A.LFM2, lfm2),
    "lfm2-moe": (A.LFM2MOE, lfm2_moe),
    "llama-tied.exaone": (A.EXAONE, SAME),
    "llama-tied.internlm2": (A.INTERNLM2, internlm2),
    "ministral3": (A.MISTRAL3, ministral3),
    "mixtral": (A.LLAMA, mixtral),
    "mllama": ("mllama", mllama),
    "mllama.sees": ("mllama", mllama),
    "nemotron": (A.NEMOTRON, nemotron),
    "olmo2": (A.OLMO2, SAME),
    "olmo3": (A.OLMO2, olmo3),
    "phi": (A.PHI2, phi),
    "phi3": (A.PHI3, phi3),
    "phi3-longrope": (A.PHI3, phi3),
    "qwen2.seed-oss": (A.SEED_OSS, SAME),
    "qwen2.qwen2vl": (A.QWEN2VL, seeing()),
    "qwen2-moe": (A.QWEN2MOE, experts),
    "qwen3-moe": (A.QWEN3MOE, experts),
    "qwen3.qwen3vl": (A.QWEN3VL, seeing(1)),
    "qwen3-moe.qwen3vlmoe": (A.QWEN3VLMOE, seeing(1, experts)),
    "qwen3-5": (A.QWEN35, qwen3_5),
    "qwen3-5.moe": (A.QWEN35MOE, qwen3_5_moe),
    "qwen3-5.next": (A.QWEN3NEXT, qwen3_next),
    "qwen3-5.next-joined": (A.QWEN3NEXT, lambda w, c, weights: qwen3_next(w, c, weights, True)),
    "smollm3": (A.SMOLLM3, PAIRS),
    "stablelm": (A.STABLELM, stablelm),
    "starcoder2": (A.STARCODER2, lambda w, c, weights: w.add_sliding_window(c["sliding_window"])),
}

# One that sees.
FOLDERS = {"mllama.sees": "vision/mllama"}
FILES = {"mllama.sees": HERE.parent / "ollama/mllama.gguf"}

# What has to be known before the keys are written.
CONFIGS = {
    "deepseek-v2": lambda c: c | {"num_key_value_heads": 1},
    "deepseek-v3": lambda c: c | {"num_key_value_heads": 1},
    "glm4-moe-lite": lambda c: c | {"num_key_value_heads": 1},
    "gemma4-experts": gemma4_config,
    "gemma4-layer-inputs": gemma4_config,
    "glm4-moe": lambda c: c | {"block_count": c["num_hidden_layers"] + 1},
    "lfm2": lfm2_config,
    "lfm2-moe": lfm2_moe_config,
    "mllama": lambda c: c | c["text_config"],
    "mllama.sees": lambda c: c | c["text_config"],
    "qwen3-5": lambda c: c | {"block_count": c["num_hidden_layers"] + 1},
    "qwen3-5.moe": lambda c: c | {"moe_intermediate_size": c["intermediate_size"], "intermediate_size": 0},
}

# ---------------------------------------------------------------- what all of them say


def first(c, *names, otherwise=None):
    return next((c[name] for name in names if c.get(name) is not None), otherwise)


def head_dim(c):
    return c.get("head_dim") or first(c, "hidden_size", "n_embd") // first(c, "num_attention_heads", "n_head")


def write_keys(w, c):
    hidden, heads = first(c, "hidden_size", "n_embd"), first(c, "num_attention_heads", "n_head")
    w.add_block_count(first(c, "block_count", "num_hidden_layers", "n_layer"))
    w.add_context_length(first(c, "max_position_embeddings", "n_positions"))
    w.add_embedding_length(hidden)
    if width := first(c, "intermediate_size", "ffn_hidden_size", "n_inner", otherwise=4 * hidden):
        w.add_feed_forward_length(width)
    w.add_head_count(heads)
    w.add_head_count_kv(first(c, "num_key_value_heads", "num_kv_heads", otherwise=heads))
    if c.get("head_dim"):
        w.add_key_length(c["head_dim"])
        w.add_value_length(c["head_dim"])
    rope = c.get("rope_parameters") or {}
    theta = first(rope.get("full_attention", rope), "rope_theta") or first(c, "rope_theta", "rotary_emb_base")
    if theta and c["model_type"] != "hunyuan_v1_dense":
        w.add_rope_freq_base(theta)
    if "rms_norm_eps" in c:
        w.add_layer_norm_rms_eps(c["rms_norm_eps"])
    else:
        w.add_layer_norm_eps(first(c, "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps"))


def write_tokenizer(w, folder, config, rows):
    t = json.loads((folder / "tokenizer.json").read_text())
    vocab = t["model"]["vocab"] | {a["content"]: a["id"] for a in t["added_tokens"]}
    special = {a["id"] for a in t["added_tokens"]}
    tokens = {i: text for text, i in vocab.items()}
    kinds = []
    pieces = t["pre_tokenizer"] is None
    for i in range(rows):
        text = tokens.setdefault(i, f"[PAD{i}]")
        byte = pieces and re.fullmatch("<0x[0-9A-F]{2}>", text)
        kinds.append(5 if i not in vocab.values() else 2 if text == "<unk>" else 3 if i in special else 6 if byte else 1)
    w.add_tokenizer_model("llama" if pieces else "gpt2")
    w.add_token_list([tokens[i] for i in range(rows)])
    w.add_token_types(kinds)
    if pieces:
        w.add_token_scores([-float(i) for i in range(rows)])
    else:
        w.add_tokenizer_pre("llama-bpe")
        w.add_token_merges([" ".join(m) for m in t["model"]["merges"]])
    if config["bos_token_id"] is not None:
        w.add_bos_token_id(config["bos_token_id"])
    w.add_eos_token_id(first({"eos": np.atleast_1d(config["eos_token_id"])}, "eos")[0].item())


def convert(name):
    folder = HERE.parents[1] / FOLDERS.get(name, f"models/{name.split('.')[0]}")
    arch, change = CONVERTERS[name]
    config, weights = read_folder(folder)
    config = CONFIGS.get(name, lambda c: c)(config)
    w = gguf.GGUFWriter(FILES.get(name, HERE / f"{name}.gguf"), gguf.MODEL_ARCH_NAMES.get(arch, arch))
    w.add_type("model")
    write_keys(w, config)
    change(w, config, weights)
    names = gguf.get_tensor_name_map(A.LLAMA if arch == "mllama" else arch, first(config, "block_count", "num_hidden_layers", "n_layer"))
    embedding = next(v for n, v in weights.items() if re.search("embed_tokens|embed_in|wte|word_embeddings", n))
    # Of the tokens behind the vocabulary the first alone has a name.
    write_tokenizer(w, folder, config, config["vocab_size"] + 1 if arch == "mllama" else len(embedding))
    for long, array in weights.items():
        own = long if long.startswith(("rope_", "blk.", "v.", "mm.")) else names.get_name(long, (".weight", ".bias"))
        assert own, long
        array = np.ascontiguousarray(array, np.float32)
        exact = not (array.view(np.uint32) & 0xFFFF).any()
        if array.ndim == 1 or not exact or re.search("_norm.weight|position_embd|shortconv.conv|ssm_conv1d|bias", own):
            w.add_tensor(own, array)
        else:
            w.add_tensor(own, gguf.quants.quantize(array, TYPE.BF16), raw_dtype=TYPE.BF16)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


for name in sys.argv[1:] or CONVERTERS:
    convert(name)
    print(name)
