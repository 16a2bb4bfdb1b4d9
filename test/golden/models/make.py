"""Makes the models that are listed at its end with transformers: random weights, prompts, logits, greedy tokens.

    python make.py OUTPUT [NAME ...]

Everything is computed in float64, also what the model's own code does in float32. Prompts are drawn until the best logit leads by
0.05 on the whole greedy path, eight tokens of it differ, and every expert or position that is chosen leads those that are not by 0.0002.
"""

import copy
import functools
import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch.overrides import TorchFunctionMode
from transformers import (
    Apertus1p5TextForCausalLM,
    AutoConfig,
    AutoModelForCausalLM,
    CohereCompassForCausalLM,
    Mistral4ForCausalLM,
    MllamaForConditionalGeneration,
    MuseGlimmerForConditionalGeneration,
    Step3p7ForConditionalGeneration,
)
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaMLP
from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor

LENGTHS = (1, 17, 40, 150)
GREEDY, MARGIN, DISTINCT, CHOSEN = 40, 0.05, 8, 0.0002

COMMON = dict(
    vocab_size=320,
    hidden_size=40,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    hidden_act="silu",
    rms_norm_eps=1e-6,
    max_position_embeddings=512,
    tie_word_embeddings=True,
    attention_bias=False,
    rope_theta=10000.0,
    bos_token_id=314,
    eos_token_id=[317, 318],
    use_cache=True,
)
WINDOWED = {**COMMON, "sliding_window": 24}
SPARSE = {
    **{key: value for key, value in COMMON.items() if key not in ("rope_theta", "max_position_embeddings")},
    "hidden_size": 32,
    "intermediate_size": 40,
    "num_key_value_heads": 4,
    "max_position_embeddings": 480,
    "tie_word_embeddings": False,
    "q_lora_rank": 24,
    "kv_lora_rank": 16,
    "qk_nope_head_dim": 12,
    "qk_rope_head_dim": 6,
    "v_head_dim": 10,
    "index_topk": 12,
    "index_n_heads": 6,
    "index_head_dim": 10,
    "first_k_dense_replace": 1,
    "moe_intermediate_size": 12,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "num_experts_per_tok": 3,
    "norm_topk_prob": True,
    "routed_scaling_factor": 2.5,
}
MAMBA = {
    "architectures": ["MambaForCausalLM"],
    "model_type": "mamba",
    "vocab_size": 320,
    "hidden_size": 72,
    "num_hidden_layers": 2,
    "state_size": 6,
    "conv_kernel": 4,
    "expand": 2,
    "intermediate_size": 144,
    "time_step_rank": 5,
    "use_bias": False,
    "use_conv_bias": True,
    "hidden_act": "silu",
    "layer_norm_epsilon": 1e-5,
    "residual_in_fp32": False,
    "tie_word_embeddings": True,
    "bos_token_id": 314,
    "eos_token_id": [317, 318],
    "use_cache": True,
}
GRANITE = {
    **COMMON,
    "architectures": ["GraniteMoeHybridForCausalLM"],
    "model_type": "granitemoehybrid",
    "intermediate_size": 16,
    "num_hidden_layers": 4,
    "num_local_experts": 6,
    "num_experts_per_tok": 3,
    "shared_intermediate_size": 24,
    "embedding_multiplier": 6.0,
    "attention_multiplier": 0.45,
    "residual_multiplier": 0.8,
    "logits_scaling": 4.0,
    "layer_types": ["mamba", "mamba", "attention", "mamba"],
    "position_embedding_type": "nope",
    "mamba_n_heads": 5,
    "mamba_d_head": 16,
    "mamba_n_groups": 1,
    "mamba_d_state": 8,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_conv_bias": True,
    "mamba_proj_bias": False,
    "mamba_chunk_size": 16,
}
NEMOTRON = {
    **{key: value for key, value in COMMON.items() if key not in ("hidden_act", "rms_norm_eps", "rope_theta")},
    "architectures": ["NemotronHForCausalLM"],
    "model_type": "nemotron_h",
    "num_hidden_layers": 5,
    "hybrid_override_pattern": "M-M*-",
    "head_dim": 12,
    "layer_norm_epsilon": 1e-5,
    "tie_word_embeddings": False,
    "mlp_hidden_act": "relu2",
    "mlp_bias": False,
    "mamba_hidden_act": "silu",
    "mamba_num_heads": 6,
    "mamba_head_dim": 12,
    "n_groups": 2,
    "ssm_state_size": 8,
    "conv_kernel": 4,
    "chunk_size": 16,
    "use_bias": False,
    "use_conv_bias": True,
    "mamba_proj_bias": False,
    "sliding_window": None,
    "time_step_limit": (0.0, float("inf")),
}
FALCON_H1 = {
    **COMMON,
    "architectures": ["FalconH1ForCausalLM"],
    "model_type": "falcon_h1",
    "head_dim": 12,
    "tie_word_embeddings": False,
    "mamba_d_ssm": 48,
    "mamba_n_heads": 6,
    "mamba_d_head": 8,
    "mamba_n_groups": 2,
    "mamba_d_state": 8,
    "mamba_d_conv": 4,
    "mamba_chunk_size": 16,
    "mamba_conv_bias": True,
    "mamba_proj_bias": False,
    "mamba_rms_norm": False,
    "mamba_norm_before_gate": False,
    "projectors_bias": False,
    "mlp_bias": False,
    "embedding_multiplier": 5.5,
    "lm_head_multiplier": 0.3,
    "mlp_multipliers": [0.9, 0.6],
    "key_multiplier": 0.8,
    "attention_in_multiplier": 1.25,
    "attention_out_multiplier": 0.7,
    "ssm_in_multiplier": 1.25,
    "ssm_out_multiplier": 0.5,
    "ssm_multipliers": [0.9, 0.6, 0.75, 1.25, 0.8],
}


def searched(group, multiplier):
    """What a layer is, as NVIDIA's search writes it: how many heads share keys, or a matrix, or nothing; how wide an MLP is."""
    return {
        "attention": {
            "n_heads_in_group": group if isinstance(group, int) else None,
            "no_op": group is None,
            "num_sink_tokens": None,
            "replace_with_linear": group == "linear",
            "sparsify": None,
            "unshifted_sink": False,
            "use_prefill_window_in_sink_attention": False,
            "window_length": None,
        },
        "ffn": {"ffn_mult": multiplier, "no_op": multiplier is None, "replace_with_linear": False, "sparsify": None},
    }


PHIMOE = {
    **COMMON,
    "architectures": ["PhimoeForCausalLM"],
    "model_type": "phimoe",
    "intermediate_size": 24,
    "num_local_experts": 6,
    "num_experts_per_tok": 2,
    "router_jitter_noise": 0.1,
    "input_jitter_noise": 0.01,
    "attention_bias": True,
    "lm_head_bias": True,
    "tie_word_embeddings": False,
    "sliding_window": 512,
    "original_max_position_embeddings": 512,
    "rope_scaling": {
        "type": "longrope",
        "short_factor": [1.0, 1.1, 1.3, 1.6, 2.0],
        "long_factor": [1.0, 2.0, 3.0, 4.0, 5.0],
        "short_mscale": 1.0,
        "long_mscale": 1.3,
        "original_max_position_embeddings": 512,
    },
}

MODELS = {
    "phimoe": PHIMOE,
    "dbrx": {
        "architectures": ["DbrxForCausalLM"],
        "model_type": "dbrx",
        "vocab_size": 320,
        "d_model": 40,
        "n_layers": 2,
        "n_heads": 4,
        "max_seq_len": 512,
        "attn_config": {"clip_qkv": 1.5, "kv_n_heads": 2, "rope_theta": 500000.0},
        "ffn_config": {
            "ffn_hidden_size": 24,
            "moe_num_experts": 6,
            "moe_top_k": 2,
            "moe_normalize_expert_weights": 1.0,
            "ffn_act_fn": {"name": "silu"},
        },
        "rope_theta": 500000.0,
        "tie_word_embeddings": False,
        "bos_token_id": 314,
        "eos_token_id": [317, 318],
    },
    "falcon-h1": FALCON_H1,
    "falcon-h1-normed": {
        **FALCON_H1,
        "mamba_rms_norm": True,
        "mamba_norm_before_gate": True,
        "mamba_n_groups": 1,
        "tie_word_embeddings": True,
        "ssm_multipliers": [1.0, 0.75, 0.75, 0.75, 1.0],
    },
    "granite-hybrid": GRANITE,
    "granite-hybrid-dense": {
        **GRANITE,
        "num_local_experts": 0,
        "num_experts_per_tok": 0,
        "layer_types": ["mamba", "attention", "mamba"],
        "num_hidden_layers": 3,
        "mamba_n_groups": 2,
        "mamba_n_heads": 4,
        "mamba_d_head": "auto",
        "position_embedding_type": "rope",
        "mamba_conv_bias": False,
        "tie_word_embeddings": False,
    },
    "nemotron-h": NEMOTRON,
    "nemotron-h-moe": {
        **{key: value for key, value in NEMOTRON.items() if key != "hybrid_override_pattern"},
        "num_hidden_layers": 4,
        "layers_block_type": ["linear_attention", "moe", "full_attention", "moe"],
        "n_routed_experts": 8,
        "num_experts_per_tok": 3,
        "n_shared_experts": 1,
        "moe_intermediate_size": 20,
        "moe_shared_expert_intermediate_size": 24,
        "moe_latent_size": 24,
        "routed_scaling_factor": 2.5,
        "n_group": 4,
        "topk_group": 2,
        "norm_topk_prob": True,
    },
    "llama4": {
        **COMMON,
        "architectures": ["Llama4ForCausalLM"],
        "model_type": "llama4_text",
        "hidden_size": 40,
        "head_dim": 12,
        "intermediate_size": 20,
        "intermediate_size_mlp": 48,
        "num_hidden_layers": 4,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": False,
        "num_local_experts": 6,
        "num_experts_per_tok": 1,
        "interleave_moe_layer_step": 2,
        "no_rope_layer_interval": 4,
        "use_qk_norm": True,
        "attention_chunk_size": 24,
        "attn_temperature_tuning": True,
        "floor_scale": 32,
        "attn_scale": 0.4,
    },
    "arcee": {
        **COMMON,
        "architectures": ["ArceeForCausalLM"],
        "model_type": "arcee",
        "hidden_act": "relu2",
        "mlp_bias": False,
    },
    "glm": {
        **COMMON,
        "architectures": ["GlmForCausalLM"],
        "model_type": "glm",
        "pad_token_id": None,
        "head_dim": 12,
        "attention_bias": True,
        "partial_rotary_factor": 0.5,
        "rms_norm_eps": 1.5625e-7,
        "tie_word_embeddings": False,
    },
    "nemotron-nas": {
        **COMMON,
        "architectures": ["DeciLMForCausalLM"],
        "model_type": "nemotron-nas",
        "hidden_size": 24,
        "num_hidden_layers": 5,
        "num_key_value_heads": None,
        "intermediate_size": None,
        "tie_word_embeddings": False,
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
        "block_configs": [
            searched(2, 10.0),
            searched(None, 20.0),
            searched("linear", 10.0),
            searched(4, None),
            searched(None, None),
        ],
    },
    "exaone-moe": {
        **COMMON,
        "architectures": ["ExaoneMoEForCausalLM"],
        "model_type": "exaone_moe",
        "num_hidden_layers": 3,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": False,
        "sliding_window": 24,
        "sliding_window_pattern": "LG",
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        "first_k_dense_replace": 1,
        "moe_intermediate_size": 20,
        "num_experts": 6,
        "num_experts_per_tok": 2,
        "num_shared_experts": 1,
        "norm_topk_prob": True,
        "routed_scaling_factor": 2.5,
        "n_group": 1,
        "topk_group": 1,
    },
    "granitemoe-shared": {
        **COMMON,
        "architectures": ["GraniteMoeSharedForCausalLM"],
        "model_type": "granitemoeshared",
        "intermediate_size": 16,
        "num_local_experts": 6,
        "num_experts_per_tok": 3,
        "shared_intermediate_size": 24,
        "embedding_multiplier": 6.0,
        "attention_multiplier": 0.45,
        "residual_multiplier": 0.8,
        "logits_scaling": 4.0,
    },
    "hyperclovax": {
        **COMMON,
        "architectures": ["HyperCLOVAXForCausalLM"],
        "model_type": "hyperclovax",
        "use_post_norm": True,
        "embedding_multiplier": 6.0,
        "attention_multiplier": 0.25,
        "residual_multiplier": 0.8,
        "logits_scaling": 0.125,
        "tie_word_embeddings": False,
    },
    "mamba": MAMBA,
    "falcon-mamba": {
        **MAMBA,
        "architectures": ["FalconMambaForCausalLM"],
        "model_type": "falcon_mamba",
        "mixer_rms_eps": 1e-6,
        "tie_word_embeddings": False,
    },
    "mamba2": {
        **{key: value for key, value in MAMBA.items() if key not in ("time_step_rank", "intermediate_size")},
        "architectures": ["Mamba2ForCausalLM"],
        "model_type": "mamba2",
        "num_heads": 8,
        "head_dim": 18,
        "n_groups": 2,
        "chunk_size": 16,
        "rms_norm": True,
        "tie_word_embeddings": False,
    },
    "jamba": {
        **{key: value for key, value in COMMON.items() if key not in ("rope_theta", "attention_bias")},
        "architectures": ["JambaForCausalLM"],
        "model_type": "jamba",
        "hidden_size": 72,
        "intermediate_size": 24,
        "num_hidden_layers": 3,
        "attn_layer_period": 3,
        "attn_layer_offset": 2,
        "expert_layer_period": 2,
        "expert_layer_offset": 1,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "mamba_d_state": 6,
        "mamba_d_conv": 4,
        "mamba_expand": 2,
        "mamba_dt_rank": 5,
        "mamba_conv_bias": True,
        "mamba_proj_bias": False,
        "tie_word_embeddings": False,
    },
    "kimi-linear": {
        **{key: value for key, value in COMMON.items() if key not in ("rope_theta", "attention_bias", "max_position_embeddings")},
        "architectures": ["KimiLinearForCausalLM"],
        "model_type": "kimi_linear",
        "model_max_length": 512,
        "pad_token_id": None,
        "num_hidden_layers": 4,
        "num_key_value_heads": 4,
        "head_dim": 10,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": False,
        "linear_attn_config": {
            "full_attn_layers": [3],
            "kda_layers": [1, 2, 4],
            "num_heads": 4,
            "head_dim": 12,
            "short_conv_kernel_size": 4,
        },
        "mla_use_nope": True,
        "q_lora_rank": None,
        "kv_lora_rank": 16,
        "qk_nope_head_dim": 8,
        "qk_rope_head_dim": 4,
        "v_head_dim": 10,
        "first_k_dense_replace": 1,
        "moe_intermediate_size": 16,
        "moe_layer_freq": 1,
        "moe_renormalize": True,
        "moe_router_activation_func": "sigmoid",
        "num_experts": 6,
        "num_experts_per_token": 2,
        "num_shared_experts": 1,
        "num_expert_group": 1,
        "topk_group": 1,
        "routed_scaling_factor": 2.446,
        "use_grouped_topk": True,
    },
    "deepseek-v32": {
        **SPARSE,
        "architectures": ["DeepseekV32ForCausalLM"],
        "model_type": "deepseek_v32",
        "topk_method": "noaux_tc",
        "scoring_func": "sigmoid",
        "moe_layer_freq": 1,
        "n_group": 4,
        "topk_group": 2,
        "rope_theta": 10000.0,
        "rope_scaling": {
            "type": "yarn",
            "factor": 10.0,
            "beta_fast": 32,
            "beta_slow": 1,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
            "original_max_position_embeddings": 48,
        },
    },
    "glm-moe-dsa": {
        **SPARSE,
        "architectures": ["GlmMoeDsaForCausalLM"],
        "model_type": "glm_moe_dsa",
        "num_hidden_layers": 3,
        "rms_norm_eps": 1e-5,
        "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
        "indexer_types": ["full", "full", "shared"],
        "indexer_rope_interleave": True,
    },
    "youtu": {
        **{key: value for key, value in COMMON.items() if key != "num_key_value_heads"},
        "architectures": ["YoutuForCausalLM"],
        "model_type": "youtu",
        "num_key_value_heads": 4,
        "q_lora_rank": 24,
        "kv_lora_rank": 16,
        "qk_nope_head_dim": 8,
        "qk_rope_head_dim": 4,
        "v_head_dim": 10,
        "rope_interleave": True,
    },
    "olmoe": {
        **COMMON,
        "architectures": ["OlmoeForCausalLM"],
        "model_type": "olmoe",
        "intermediate_size": 16,
        "rms_norm_eps": 1e-5,
        "num_experts": 6,
        "num_experts_per_tok": 3,
        "norm_topk_prob": False,
    },
    "ernie4-5-moe": {
        **COMMON,
        "architectures": ["Ernie4_5_MoeForCausalLM"],
        "model_type": "ernie4_5_moe",
        "num_hidden_layers": 3,
        "use_bias": False,
        "moe_intermediate_size": 16,
        "moe_k": 2,
        "moe_num_experts": 6,
        "moe_num_shared_experts": 2,
        "moe_layer_start_index": 1,
        "moe_layer_end_index": -1,
        "moe_layer_interval": 1,
    },
    "hunyuan-moe": {
        **COMMON,
        "architectures": ["HunYuanMoEV1ForCausalLM"],
        "model_type": "hunyuan_v1_moe",
        "intermediate_size": 16,
        "head_dim": 12,
        "num_experts": 6,
        "moe_topk": [3, 3],
    },
    "minimax-m2": {
        **COMMON,
        "architectures": ["MiniMaxM2ForCausalLM"],
        "model_type": "minimax_m2",
        "intermediate_size": 16,
        "head_dim": 12,
        "rotary_dim": 6,
        "num_local_experts": 6,
        "num_experts_per_tok": 3,
        "tie_word_embeddings": False,
    },
    "dots1": {
        **COMMON,
        "architectures": ["Dots1ForCausalLM"],
        "model_type": "dots1",
        "num_hidden_layers": 3,
        "head_dim": 12,
        "moe_intermediate_size": 16,
        "n_routed_experts": 8,
        "n_shared_experts": 2,
        "num_experts_per_tok": 3,
        "n_group": 2,
        "topk_group": 1,
        "first_k_dense_replace": 1,
        "norm_topk_prob": True,
        "routed_scaling_factor": 2.0,
        "sliding_window": None,
    },
    "cohere": {
        **COMMON,
        "architectures": ["CohereForCausalLM"],
        "model_type": "cohere",
        "layer_norm_eps": 1e-5,
        "logit_scale": 0.25,
    },
    "cohere-normed": {
        **COMMON,
        "architectures": ["CohereForCausalLM"],
        "model_type": "cohere",
        "head_dim": 10,
        "layer_norm_eps": 1e-5,
        "logit_scale": 0.25,
        "use_qk_norm": True,
    },
    "cohere2-moe": {
        **WINDOWED,
        "architectures": ["Cohere2MoeForCausalLM"],
        "model_type": "cohere2_moe",
        "intermediate_size": 16,
        "num_hidden_layers": 4,
        "head_dim": 12,
        "rms_norm_eps": None,
        "layer_norm_eps": 1e-5,
        "logit_scale": 0.25,
        "first_k_dense_replace": 1,
        "prefix_dense_intermediate_size": 48,
        "prefix_dense_sliding_window_pattern": 1,
        "sliding_window_pattern": 3,
        "num_experts": 6,
        "num_experts_per_tok": 2,
        "num_shared_experts": 2,
        "expert_selection_fn": "sigmoid",
        "norm_topk_prob": True,
    },
    "internlm3": {
        **{key: value for key, value in COMMON.items() if key != "attention_bias"},
        "architectures": ["InternLM3ForCausalLM"],
        "model_type": "internlm3",
        "head_dim": 10,
        "qkv_bias": True,
        "bias": True,
    },
    "exaone": {
        **{key: value for key, value in COMMON.items() if key not in ("num_hidden_layers", "hidden_act", "rms_norm_eps")},
        "architectures": ["ExaoneForCausalLM"],
        "model_type": "exaone",
        "num_layers": 2,
        "activation_function": "silu",
        "layer_norm_epsilon": 1e-5,
        "tie_word_embeddings": False,
    },
    "helium": {
        **COMMON,
        "architectures": ["HeliumForCausalLM"],
        "model_type": "helium",
        "head_dim": 10,
        "rms_norm_eps": 1e-8,
        "tie_word_embeddings": False,
    },
    "cwm": {
        **WINDOWED,
        "architectures": ["CwmForCausalLM"],
        "model_type": "cwm",
        "head_dim": 10,
        "num_hidden_layers": 3,
        "rope_theta": 1000000.0,
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 16.0,
            "high_freq_factor": 4.0,
            "low_freq_factor": 1.0,
            "original_max_position_embeddings": 64,
        },
    },
    "jais2": {
        **{key: value for key, value in COMMON.items() if key not in ("rms_norm_eps", "attention_bias")},
        "architectures": ["Jais2ForCausalLM"],
        "model_type": "jais2",
        "hidden_act": "relu2",
        "layer_norm_eps": 1e-5,
    },
    "nanochat": {
        **COMMON,
        "architectures": ["NanoChatForCausalLM"],
        "model_type": "nanochat",
        "hidden_act": "relu2",
        "tie_word_embeddings": False,
        "final_logit_softcapping": 15.0,
    },
    "apertus": {
        **COMMON,
        "architectures": ["ApertusForCausalLM"],
        "model_type": "apertus",
        "hidden_act": "xielu",
        "tie_word_embeddings": False,
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 8.0,
            "high_freq_factor": 4.0,
            "low_freq_factor": 1.0,
            "original_max_position_embeddings": 64,
        },
    },
    "vaultgemma": {
        **{key: value for key, value in WINDOWED.items() if key != "hidden_act"},
        "architectures": ["VaultGemmaForCausalLM"],
        "model_type": "vaultgemma",
        "head_dim": 12,
        "query_pre_attn_scalar": 10,
        "hidden_activation": "gelu_pytorch_tanh",
        "attn_logit_softcapping": 50.0,
        "final_logit_softcapping": 30.0,
    },
    "gemma3n": {
        **{key: value for key, value in COMMON.items() if key not in ("hidden_act", "rope_theta")},
        "architectures": ["Gemma3nForCausalLM"],
        "model_type": "gemma3n_text",
        "vocab_size_per_layer_input": 320,
        "hidden_size": 32,
        "intermediate_size": [36, 36, 36, 44, 44, 44],
        "num_hidden_layers": 6,
        "head_dim": 10,
        "hidden_activation": "gelu_pytorch_tanh",
        "sliding_window": 13,
        "layer_types": [f"{kind}_attention" for kind in ("sliding", "full", "sliding", "sliding", "sliding", "full")],
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 1000000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        },
        "hidden_size_per_layer_input": 6,
        "num_kv_shared_layers": 2,
        "laurel_rank": 5,
        "altup_num_inputs": 4,
        "altup_active_idx": 0,
        "altup_correct_scale": True,
        "activation_sparsity_pattern": [0.8, 0.35, 0.0, 0.0, 0.0, 0.0],
        "final_logit_softcapping": 14.0,
    },
    "olmo": {
        **COMMON,
        "architectures": ["OlmoForCausalLM"],
        "model_type": "olmo",
        "num_key_value_heads": 4,
        "tie_word_embeddings": False,
        "clip_qkv": 1.5,
    },
    "flex-olmo": {
        **COMMON,
        "architectures": ["FlexOlmoForCausalLM"],
        "model_type": "flex_olmo",
        "tie_word_embeddings": False,
        "intermediate_size": 16,
        "num_experts": 5,
        "num_experts_per_tok": 3,
        "norm_topk_prob": False,
        "pad_token_id": 0,
    },
    "bitnet": {
        **COMMON,
        "architectures": ["BitNetForCausalLM"],
        "model_type": "bitnet",
        "hidden_act": "relu2",
        "rms_norm_eps": 1e-5,
    },
    "minicpm3": {
        **{key: value for key, value in COMMON.items() if key != "rope_theta"},
        "architectures": ["MiniCPM3ForCausalLM"],
        "model_type": "minicpm3",
        "tie_word_embeddings": False,
        "num_key_value_heads": 4,
        "q_lora_rank": 20,
        "kv_lora_rank": 14,
        "qk_nope_head_dim": 6,
        "qk_rope_head_dim": 8,
        "scale_emb": 12,
        "scale_depth": 1.4,
        "dim_model_base": 256,
        "rope_parameters": {
            "rope_type": "longrope",
            "rope_theta": 10000.0,
            "short_factor": [1.0, 1.1, 1.3, 1.5],
            "long_factor": [1.0, 1.1, 1.3, 1.5],
            "original_max_position_embeddings": 512,
        },
    },
    "bamba": {
        **{key: value for key, value in COMMON.items() if key != "use_cache"},
        "architectures": ["BambaForCausalLM"],
        "model_type": "bamba",
        "head_dim": 12,
        "num_hidden_layers": 3,
        "attn_layer_indices": [1],
        "mamba_n_heads": 5,
        "mamba_d_head": 16,
        "mamba_n_groups": 1,
        "mamba_d_state": 8,
        "mamba_d_conv": 4,
        "mamba_expand": 2,
        "mamba_chunk_size": 16,
        "mamba_conv_bias": True,
        "mamba_proj_bias": False,
    },
    "gptj": {
        "architectures": ["GPTJForCausalLM"],
        "model_type": "gptj",
        "vocab_size": 320,
        "n_positions": 512,
        "n_embd": 48,
        "n_layer": 2,
        "n_head": 4,
        "n_inner": 96,
        "rotary_dim": 8,
        "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5,
        "tie_word_embeddings": False,
        "bos_token_id": 314,
        "eos_token_id": [317, 318],
    },
    "gpt-neo": {
        "architectures": ["GPTNeoForCausalLM"],
        "model_type": "gpt_neo",
        "vocab_size": 320,
        "hidden_size": 40,
        "num_layers": 2,
        "num_heads": 4,
        "intermediate_size": None,
        "max_position_embeddings": 512,
        "attention_types": [[["global", "local"], 1]],
        "attention_layers": ["global", "local"],
        "window_size": 24,
        "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5,
        "tie_word_embeddings": False,
        "bos_token_id": 314,
        "eos_token_id": [317, 318],
    },
    "opt": {
        "architectures": ["OPTForCausalLM"],
        "model_type": "opt",
        "vocab_size": 320,
        "hidden_size": 40,
        "word_embed_proj_dim": 40,
        "ffn_dim": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": 512,
        "activation_function": "relu",
        "do_layer_norm_before": True,
        "_remove_final_layer_norm": False,
        "enable_bias": True,
        "pad_token_id": 1,
        "bos_token_id": 314,
        "eos_token_id": [317, 318],
    },
    "bloom": {
        "architectures": ["BloomForCausalLM"],
        "model_type": "bloom",
        "vocab_size": 320,
        "hidden_size": 48,
        "n_layer": 2,
        "n_head": 6,
        "seq_length": 512,
        "layer_norm_epsilon": 1e-5,
        "apply_residual_connection_post_layernorm": False,
        "tie_word_embeddings": False,
        "bos_token_id": 314,
        "eos_token_id": [317, 318],
    },
    "mpt": {
        "architectures": ["MPTForCausalLM"],
        "model_type": "mpt",
        "vocab_size": 320,
        "d_model": 48,
        "n_layers": 2,
        "n_heads": 4,
        "expansion_ratio": 4,
        "max_seq_len": 512,
        "no_bias": True,
        "layer_norm_epsilon": 1e-5,
        "learned_pos_emb": True,
        "logit_scale": None,
        "attn_config": {
            "alibi": True,
            "alibi_bias_max": 16,
            "attn_impl": "torch",
            "attn_type": "multihead_attention",
            "attn_uses_sequence_id": False,
            "clip_qkv": 1.5,
            "prefix_lm": False,
            "qk_ln": False,
            "softmax_scale": None,
        },
        "bos_token_id": 314,
        "eos_token_id": [317, 318],
    },
    "gpt-bigcode": {
        "architectures": ["GPTBigCodeForCausalLM"],
        "model_type": "gpt_bigcode",
        "vocab_size": 320,
        "n_positions": 512,
        "n_embd": 40,
        "n_layer": 2,
        "n_head": 4,
        "n_inner": 160,
        "multi_query": True,
        "activation_function": "gelu_pytorch_tanh",
        "bos_token_id": 314,
        "eos_token_id": [317, 318],
    },
    "granite-swa": {
        **WINDOWED,
        "architectures": ["GraniteSWAForCausalLM"],
        "model_type": "granite_swa",
        "num_hidden_layers": 3,
        "embedding_multiplier": 6.0,
        "attention_multiplier": 0.45,
        "residual_multiplier": 0.8,
        "logits_scaling": 4.0,
        "layer_rope_theta": [0, 10000.0, 500.0],
    },
    "granitemoe-swa": {
        **WINDOWED,
        "architectures": ["GraniteMoeSWAForCausalLM"],
        "model_type": "granitemoe_swa",
        "intermediate_size": 16,
        "num_local_experts": 6,
        "num_experts_per_tok": 3,
        "shared_intermediate_size": 24,
        "embedding_multiplier": 6.0,
        "attention_multiplier": 0.45,
        "residual_multiplier": 0.8,
        "logits_scaling": 4.0,
    },
    "mellum": {
        **{key: value for key, value in WINDOWED.items() if key != "rope_theta"},
        "architectures": ["MellumForCausalLM"],
        "model_type": "mellum",
        "head_dim": 12,
        "num_hidden_layers": 3,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        "mlp_layer_types": ["sparse", "sparse", "sparse"],
        "num_experts": 6,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 16,
        "norm_topk_prob": True,
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 500000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        },
    },
    "lfm3": {
        **{key: value for key, value in WINDOWED.items() if key not in ("rope_theta", "rms_norm_eps")},
        "architectures": ["Lfm3ForCausalLM"],
        "model_type": "lfm3",
        "pad_token_id": None,
        "head_dim": 12,
        "norm_eps": 1e-5,
        "conv_L_cache": 7,
        "conv_bias": False,
        "num_hidden_layers": 4,
        "layer_types": ["conv", "sliding_attention", "full_attention", "conv"],
        "rope_parameters": {
            "full_attention": {"rope_type": "proportional", "rope_theta": 1000000.0, "partial_rotary_factor": 0.5},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        },
    },
    "step": {
        **{key: value for key, value in COMMON.items() if key not in ("num_key_value_heads", "rope_theta", "attention_bias")},
        "architectures": ["Step3p5ForCausalLM"],
        "model_type": "step3p5",
        "hidden_size": 32,
        "head_dim": 12,
        "num_hidden_layers": 3,
        "tie_word_embeddings": False,
        "num_attention_groups": 2,
        "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
        "attention_other_setting": {
            "attention_type": "sliding_attention",
            "num_attention_heads": 6,
            "num_attention_groups": 2,
            "head_dim": 12,
            "true_head_dim": 12,
        },
        "use_head_wise_attn_gate": True,
        "sliding_window": 24,
        "rope_theta": [500000.0, 10000.0, 10000.0],
        "partial_rotary_factors": [0.5, 1.0, 1.0],
        "rope_scaling": {
            "rope_type": "llama3",
            "factor": 2.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
        "yarn_only_types": ["full_attention"],
        "use_moe": True,
        "moe_layers_enum": "1,2",
        "moe_num_experts": 6,
        "moe_top_k": 2,
        "moe_intermediate_size": 16,
        "share_expert_dim": 24,
        "norm_expert_weight": True,
        "moe_router_activation": "sigmoid",
        "moe_router_scaling_factor": 2.5,
        "use_moe_router_bias": True,
        "swiglu_limits": [0.0, 0.0, 0.5],
        "swiglu_limits_shared": [0.0, 0.75, 0.0],
        "zero_centered": True,
    },
    "mimo": {
        **{key: value for key, value in COMMON.items() if key not in ("rms_norm_eps", "rope_theta", "hidden_size", "num_key_value_heads")},
        "architectures": ["MiMoV2FlashForCausalLM"],
        "model_type": "mimo_v2_flash",
        "hidden_size": 32,
        "head_dim": 12,
        "v_head_dim": 8,
        "num_hidden_layers": 3,
        "num_key_value_heads": 1,
        "swa_num_key_value_heads": 2,
        "swa_num_attention_heads": 4,
        "swa_head_dim": 12,
        "swa_v_head_dim": 8,
        "tie_word_embeddings": False,
        "layernorm_epsilon": 1e-5,
        "hybrid_layer_pattern": [0, 1, 1],
        "moe_layer_freq": [0, 1, 0],
        "add_full_attention_sink_bias": False,
        "add_swa_attention_sink_bias": True,
        "attention_value_scale": 0.612,
        "sliding_window": 24,
        "sliding_window_size": 24,
        "rope_theta": 5000000,
        "swa_rope_theta": 10000,
        "partial_rotary_factor": 0.334,
        "moe_intermediate_size": 16,
        "n_routed_experts": 6,
        "n_shared_experts": None,
        "num_experts_per_tok": 2,
        "n_group": 1,
        "topk_group": 1,
        "topk_method": "noaux_tc",
        "scoring_func": "sigmoid",
        "norm_topk_prob": True,
        "routed_scaling_factor": None,
    },
    "laguna": {
        **{key: value for key, value in WINDOWED.items() if key != "rope_theta"},
        "architectures": ["LagunaForCausalLM"],
        "model_type": "laguna",
        "head_dim": 12,
        "num_hidden_layers": 3,
        "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
        "num_attention_heads_per_layer": [4, 6, 4],
        "num_experts": 6,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 16,
        "shared_expert_intermediate_size": 24,
        "moe_routed_scaling_factor": 2.5,
        "moe_router_logit_softcapping": 3.0,
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 500000.0, "partial_rotary_factor": 0.5},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0},
        },
    },
    "afmoe": {
        **WINDOWED,
        "architectures": ["AfmoeForCausalLM"],
        "model_type": "afmoe",
        "head_dim": 12,
        "num_hidden_layers": 4,
        "global_attn_every_n_layers": 4,
        "num_dense_layers": 1,
        "num_experts": 6,
        "num_experts_per_tok": 2,
        "num_shared_experts": 1,
        "moe_intermediate_size": 16,
        "route_scale": 2.5,
        "route_norm": True,
        "score_func": "sigmoid",
        "mup_enabled": True,
        "tie_word_embeddings": False,
    },
    "hy-v3": {
        **COMMON,
        "architectures": ["HYV3ForCausalLM"],
        "model_type": "hy_v3",
        "head_dim": 12,
        "num_hidden_layers": 3,
        "num_experts": 6,
        "num_experts_per_tok": 2,
        "num_shared_experts": 1,
        "moe_intermediate_size": 16,
        "router_scaling_factor": 2.5,
    },
    "solar-open": {
        **{key: value for key, value in COMMON.items() if key != "intermediate_size"},
        "architectures": ["SolarOpenForCausalLM"],
        "model_type": "solar_open",
        "head_dim": 12,
        "moe_intermediate_size": 16,
        "n_routed_experts": 6,
        "n_shared_experts": 1,
        "num_experts_per_tok": 2,
        "routed_scaling_factor": 2.5,
    },
    "sarvam-moe": {
        **{key: value for key, value in COMMON.items() if key != "attention_bias"},
        "architectures": ["SarvamMoEForCausalLM"],
        "model_type": "sarvam_moe",
        "head_dim": 12,
        "num_hidden_layers": 3,
        "use_qkv_bias": True,
        "use_qk_norm": True,
        "moe_intermediate_size": 16,
        "num_experts": 6,
        "num_shared_experts": 1,
        "num_experts_per_tok": 2,
        "first_k_dense_replace": 1,
        "n_group": 1,
        "topk_group": 1,
        "routed_scaling_factor": 2.5,
    },
    "olmo-hybrid": {
        **{key: value for key, value in COMMON.items() if key != "rope_theta"},
        "architectures": ["OlmoHybridForCausalLM"],
        "model_type": "olmo_hybrid",
        "pad_token_id": None,
        "num_hidden_layers": 4,
        "tie_word_embeddings": False,
        "rope_parameters": {"rope_theta": None, "rope_type": "default"},
        "linear_num_key_heads": 3,
        "linear_num_value_heads": 3,
        "linear_key_head_dim": 12,
        "linear_value_head_dim": 16,
        "linear_conv_kernel_dim": 4,
        "linear_allow_neg_eigval": True,
    },
    "bailing-moe": {
        **{key: value for key, value in COMMON.items() if key != "attention_bias"},
        "architectures": ["BailingMoeForCausalLM"],
        "model_type": "bailing_moe",
        "tie_word_embeddings": False,
        "use_bias": False,
        "use_qkv_bias": False,
        "norm_head": False,
        "moe_intermediate_size": 16,
        "num_experts": 6,
        "num_shared_experts": 2,
        "num_experts_per_tok": 2,
        "norm_topk_prob": True,
        "first_k_dense_replace": 0,
    },
    "bailing-moe-v2": {
        **{key: value for key, value in COMMON.items() if key != "attention_bias"},
        "architectures": ["BailingMoeV2ForCausalLM"],
        "model_type": "bailing_moe",
        "head_dim": 12,
        "num_hidden_layers": 3,
        "tie_word_embeddings": False,
        "use_bias": False,
        "use_qkv_bias": False,
        "use_qk_norm": True,
        "partial_rotary_factor": 0.5,
        "moe_intermediate_size": 16,
        "moe_shared_expert_intermediate_size": 16,
        "num_experts": 8,
        "num_shared_experts": 1,
        "num_experts_per_tok": 3,
        "n_group": 4,
        "topk_group": 2,
        "norm_topk_prob": True,
        "score_function": "sigmoid",
        "moe_router_enable_expert_bias": True,
        "first_k_dense_replace": 1,
        "routed_scaling_factor": 2.5,
    },
    "iquestcoder": {
        **COMMON,
        "architectures": ["LlamaForCausalLM"],
        "model_type": "iquestcoder",
        "head_dim": 12,
        "tie_word_embeddings": False,
    },
    "sarvam-mla": {
        **{key: value for key, value in COMMON.items() if key != "num_key_value_heads"},
        "architectures": ["SarvamMLAForCausalLM"],
        "model_type": "sarvam_mla",
        "num_key_value_heads": 4,
        "head_dim": 20,
        "tie_word_embeddings": False,
        "q_lora_rank": None,
        "kv_lora_rank": 16,
        "qk_nope_head_dim": 8,
        "qk_rope_head_dim": 4,
        "v_head_dim": 10,
        "rope_scaling": {
            "type": "deepseek_yarn",
            "factor": 8.0,
            "original_max_position_embeddings": 64,
            "beta_fast": 32,
            "beta_slow": 1,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
        },
        "moe_intermediate_size": 16,
        "num_experts": 6,
        "num_shared_experts": 1,
        "num_experts_per_tok": 2,
        "first_k_dense_replace": 1,
        "n_group": 1,
        "topk_group": 1,
        "routed_scaling_factor": 2.5,
    },
    "mllama": {
        "architectures": ["MllamaForConditionalGeneration"],
        "model_type": "mllama",
        "image_token_index": 320,
        "tie_word_embeddings": False,
        "text_config": {
            **COMMON,
            "model_type": "mllama_text_model",
            "hidden_size": 24,
            "num_hidden_layers": 5,
            "cross_attention_layers": [1, 4],
            "tie_word_embeddings": False,
            "rms_norm_eps": 1e-5,
            "pad_token_id": 0,
            "rope_scaling": {
                "rope_type": "llama3",
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64,
            },
        },
        "vision_config": {
            "model_type": "mllama_vision_model",
            "hidden_size": 8,
            "intermediate_size": 16,
            "num_hidden_layers": 2,
            "num_global_layers": 1,
            "attention_heads": 2,
            "image_size": 8,
            "patch_size": 4,
            "max_num_tiles": 4,
            "intermediate_layers_indices": [0],
            "vision_output_dim": 16,
        },
    },
    "kolibri1": {
        **COMMON,
        "architectures": ["Kolibri1ForCausalLM"],
        "model_type": "kolibri1",
        "num_hidden_layers": 3,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        "sliding_window": 24,
        "head_dim": 12,
        "tie_word_embeddings": False,
        "moe_intermediate_size": 20,
        "shared_expert_intermediate_size": 24,
        "num_experts": 6,
        "num_experts_per_tok": 2,
        "norm_topk_prob": True,
    },
    "dory": {
        **{key: value for key, value in COMMON.items() if key not in ("rms_norm_eps", "rope_theta")},
        "architectures": ["DoryForCausalLM"],
        "model_type": "dory",
        "num_hidden_layers": 8,
        "layer_types": ["sliding_attention", "mlp", "full_attention", "mlp"] * 2,
        "n_input_layers": 2,
        "n_output_layers": 2,
        "n_recurrent_loops": 2,
        "recurrent_kv_cache_mode": "per_loop",
        "head_dim": 12,
        "sliding_window": 24,
        "initializer_range": 0.125,
        "ngpt_alpha_init": 0.25,
        "tie_word_embeddings": False,
        "mlp_bias": False,
        "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
            "full_attention": {"rope_type": "default", "rope_theta": 1000000.0},
        },
    },
    "hrm-text": {
        **{key: value for key, value in COMMON.items() if key != "num_key_value_heads"},
        "architectures": ["HrmTextForCausalLM"],
        "model_type": "hrm_text",
        "head_dim": 10,
        "num_hidden_layers": 12,
        "num_layers_per_stack": 2,
        "H_cycles": 2,
        "L_cycles": 2,
        "embedding_scale": 5.0,
        "prefix_lm": True,
        "tie_word_embeddings": False,
        "mlp_bias": False,
    },
    "lara-mini": {
        **COMMON,
        "architectures": ["LaraMiniForCausalLM"],
        "model_type": "lara_mini",
        "num_hidden_layers": 4,
        "layer_types": ["linear_attention", "sliding_attention", "linear_attention", "full_attention"],
        "head_dim": 12,
        "sliding_window": 24,
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 12,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "moe_intermediate_size": 20,
        "shared_expert_intermediate_size": 24,
        "num_experts": 6,
        "num_experts_per_tok": 2,
        "norm_topk_prob": True,
    },
    "apertus1p5": {
        **COMMON,
        "architectures": ["Apertus1p5TextForCausalLM"],
        "model_type": "apertus1p5_text",
        "vocab_size": 344,
        "output_vocab_size": 320,
        "hidden_act": "xielu",
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": False,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    },
    "muse-glimmer": {
        "architectures": ["MuseGlimmerForConditionalGeneration"],
        "model_type": "muse_glimmer",
        "image_token_id": 330,
        "video_token_id": 331,
        "out_hidden_size": 32,
        "projector_hidden_size": 16,
        "tie_word_embeddings": False,
        "text_config": {
            **{key: value for key, value in COMMON.items() if key not in ("hidden_act", "rope_theta")},
            "model_type": "muse_glimmer_text",
            "hidden_activation": "silu",
            "num_hidden_layers": 3,
            "head_dim": 12,
            "rms_norm_eps": 0.0078125,
            "tie_word_embeddings": False,
            "sliding_window": 24,
            "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
            "layer_rope_theta": [10000.0, 10000.0, 0],
            "final_logit_softcapping": 20.0,
            "qk_scale_factor": 3.87,
            "output_multiplier": 0.4,
            "post_norm_eps": 1e-8,
        },
        "vision_config": {
            "model_type": "muse_glimmer_vision",
            "hidden_size": 8,
            "intermediate_size": 16,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "patch_size": 2,
        },
    },
    "cohere-compass": {
        **{key: value for key, value in COMMON.items() if key not in ("rms_norm_eps", "rope_theta")},
        "architectures": ["CohereCompassForCausalLM"],
        "model_type": "cohere_compass_text",
        "num_hidden_layers": 3,
        "layer_norm_eps": 1e-5,
        "logit_scale": 0.25,
        "pad_token_id": 0,
        "sliding_window": 24,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        "rope_parameters": {
            "sliding_attention": {"rope_type": "default", "rope_theta": 5000.0, "mrope_section": [2, 2, 1]},
            "full_attention": None,
        },
    },
    "codegen": {
        "architectures": ["CodeGenForCausalLM"],
        "model_type": "codegen",
        "vocab_size": 320,
        "n_positions": 512,
        "n_ctx": 512,
        "n_embd": 48,
        "n_layer": 2,
        "n_head": 4,
        "rotary_dim": 8,
        "n_inner": None,
        "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5,
        "tie_word_embeddings": False,
        "bos_token_id": 314,
        "eos_token_id": [317, 318],
        "use_cache": True,
    },
    "mistral4": {
        **{key: value for key, value in COMMON.items() if key not in ("num_key_value_heads", "rope_theta")},
        "architectures": ["Mistral4ForCausalLM"],
        "model_type": "mistral4",
        "num_key_value_heads": 4,
        "tie_word_embeddings": False,
        "q_lora_rank": 24,
        "kv_lora_rank": 16,
        "qk_nope_head_dim": 8,
        "qk_rope_head_dim": 8,
        "v_head_dim": 10,
        "rope_interleave": True,
        "moe_intermediate_size": 16,
        "n_routed_experts": 6,
        "n_shared_experts": 1,
        "num_experts_per_tok": 2,
        "rope_parameters": {
            "type": "yarn",
            "rope_type": "yarn",
            "rope_theta": 10000.0,
            "factor": 8.0,
            "original_max_position_embeddings": 32,
            "max_position_embeddings": 512,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "mscale": 1.0,
            "mscale_all_dim": 1.0,
            "llama_4_scaling_beta": 0.3,
            "partial_rotary_factor": 0.5,
        },
    },
}


def joined(tensors, names):
    return torch.cat([tensors.pop(name) for name in names])


def as_bailing(tensors):
    """The tensors of a glm4_moe or a granitemoeshared under the names that Ling's own code gives them."""
    names = {
        "embed_tokens": "word_embeddings",
        "self_attn.o_proj": "attention.dense",
        "self_attn.q_norm": "attention.query_layernorm",
        "self_attn.k_norm": "attention.key_layernorm",
        "gate.e_score_correction_bias": "gate.expert_bias",
        "block_sparse_moe.router.layer": "mlp.gate",
    }
    tensors, renamed = dict(tensors), {}
    for name in [name for name in tensors if name.endswith("q_proj.weight")]:
        layer = name.removesuffix("self_attn.q_proj.weight")
        parts = [f"{layer}self_attn.{part}_proj.weight" for part in "qkv"]
        renamed[f"{layer}attention.query_key_value.weight"] = joined(tensors, parts)
        if f"{layer}shared_mlp.input_linear.weight" not in tensors:
            continue
        inner = [(f"experts.{e}.", e) for e in range(len(tensors[f"{layer}block_sparse_moe.input_linear.weight"]))]
        for where, index, own in [("block_sparse_moe", e, into) for into, e in inner] + [
            ("shared_mlp", ..., "shared_experts.")
        ]:
            gate, up = tensors[f"{layer}{where}.input_linear.weight"][index].chunk(2)
            down = tensors[f"{layer}{where}.output_linear.weight"][index]
            for part, tensor in dict(gate=gate, up=up, down=down).items():
                renamed[f"{layer}mlp.{own}{part}_proj.weight"] = tensor.contiguous().clone()
    for name, tensor in tensors.items():
        if "_linear" in name:
            continue
        for theirs, own in names.items():
            name = name.replace(theirs, own)
        renamed[name] = tensor
    return renamed


def as_olmo_hybrid(tensors):
    """Filters as wide as what they are for, which transformers writes in thirds, and layers of attention with OLMo 2's names."""
    renamed = {}
    for name, tensor in tensors.items():
        layer = name.split("feedforward_layer_norm")[0]
        attends = f"{layer}self_attn.q_proj.weight" in tensors
        renamed[name.replace("feedforward_layer_norm", "post_attention_layernorm") if attends else name] = tensor
    for name in [name for name in tensors if name.endswith("q_conv1d.weight")]:
        filters = [name.replace("q_conv1d", f"{part}_conv1d") for part in "qkv"]
        rows = [len(tensors[each.replace("conv1d", "proj")]) for each in filters]
        for each, own in zip(filters, joined(renamed, filters).split(rows)):
            renamed[each] = own.contiguous().clone()
    return renamed


def as_kimi_linear(tensors):
    """A dense layer's MLP under its own name: transformers writes it as one of experts."""
    dense = re.compile(r"block_sparse_moe\.(?=(gate|up|down)_proj\.weight)")
    return {dense.sub("mlp.", name): tensor for name, tensor in tensors.items()}


STEP_VISION = dict(
    width=8, layers=1, heads=2, image_size=16, patch_size=4, mlp_ratio=2.0, max_position_embeddings=16, hidden_act="quick_gelu"
)


def as_step(tensors):
    """Without the tower that transformers' class has beside it."""
    return {name: tensor for name, tensor in tensors.items() if not name.startswith(("vision_model.", "vit_large_projector."))}


def as_dory(tensors):
    """Attention and the MLP behind it as layers of their own, as they are published."""
    renamed = {}
    for name, tensor in tensors.items():
        if match := re.match(r"backbone\.layers\.(\d+)\.(self_attn|mlp|lambda_[12])(.*)", name):
            first = match[2] in ("self_attn", "lambda_1")
            own = {"lambda_1": "attn_alpha", "lambda_2": "mlp_alpha"}.get(match[2], "mixer")
            name = f"backbone.layers.{2 * int(match[1]) + (not first)}.{own}{match[3]}"
        renamed[name] = tensor
    return renamed


class Matrix(torch.nn.Module):
    """What stands in the place of attention."""

    def __init__(self, columns):
        super().__init__()
        self.linear_attn = torch.nn.Linear(columns, columns, bias=False)

    def forward(self, hidden_states, **_):
        return self.linear_attn(hidden_states), None


class Nothing(torch.nn.Module):
    """Nothing is added in the place of attention, or of an MLP."""

    def forward(self, x=None, hidden_states=None, **_):
        return torch.zeros_like(x) if hidden_states is None else (torch.zeros_like(hidden_states), None)


def cut(model):
    """A Llama whose layers are those that its configuration lists, if it does."""
    own = model.config
    for number, block in enumerate(getattr(own, "block_configs", [])):
        layer, attention, multiplier = model.model.layers[number], block["attention"], block["ffn"]["ffn_mult"]
        if group := attention["n_heads_in_group"]:
            heads = copy.copy(own)
            heads.num_key_value_heads = own.num_attention_heads // group
            layer.self_attn = LlamaAttention(heads, number)
        else:
            layer.self_attn = Nothing() if attention["no_op"] else Matrix(own.hidden_size)
        if multiplier is None:
            layer.mlp = Nothing()
        else:
            wide = copy.copy(own)
            wide.intermediate_size = -(int(2 * multiplier * own.hidden_size / 3) // -256) * 256
            layer.mlp = LlamaMLP(wide)
        for norm, part in (("input_layernorm", layer.self_attn), ("post_attention_layernorm", layer.mlp)):
            if isinstance(part, Nothing):
                setattr(layer, norm, torch.nn.Identity())
    return model


# Those that transformers does not have, and what it has that computes the same; or that it writes otherwise than they are published.
COMPUTED_AS = {
    "mimo": (  # under transformers' names, which it does not make of the published ones
        {
            **MODELS["mimo"],
            "layer_types": ["full_attention", "sliding_attention", "sliding_attention"],
            "mlp_layer_types": ["dense", "sparse", "dense"],
            "rms_norm_eps": 1e-5,
            "rope_parameters": {
                "full_attention": {"rope_type": "default", "rope_theta": 5e6, "partial_rotary_factor": 0.334},
                "sliding_attention": {"rope_type": "default", "rope_theta": 1e4, "partial_rotary_factor": 0.334},
            },
        },
        dict,
    ),
    "step": ({"model_type": "step3p7", "text_config": dict(MODELS["step"]), "vision_config": STEP_VISION, "image_token_id": 319}, as_step),
    "dory": (MODELS["dory"], as_dory),
    "kimi-linear": (MODELS["kimi-linear"], as_kimi_linear),
    "nemotron-nas": (
        {**MODELS["nemotron-nas"], "model_type": "llama", "num_key_value_heads": 4, "intermediate_size": 48},
        dict,
    ),
    "olmo-hybrid": (MODELS["olmo-hybrid"], as_olmo_hybrid),
    "bailing-moe": (
        {
            **{key: value for key, value in COMMON.items() if key != "intermediate_size"},
            "model_type": "granitemoeshared",
            "intermediate_size": 16,
            "shared_intermediate_size": 32,
            "num_local_experts": 6,
            "num_experts_per_tok": 2,
            "attention_multiplier": 10**-0.5,
            "tie_word_embeddings": False,
        },
        as_bailing,
    ),
    "bailing-moe-v2": (
        {
            **COMMON,
            "model_type": "glm4_moe",
            "head_dim": 12,
            "num_hidden_layers": 3,
            "tie_word_embeddings": False,
            "use_qk_norm": True,
            "partial_rotary_factor": 0.5,
            "moe_intermediate_size": 16,
            "n_routed_experts": 8,
            "n_shared_experts": 1,
            "num_experts_per_tok": 3,
            "n_group": 4,
            "topk_group": 2,
            "first_k_dense_replace": 1,
            "routed_scaling_factor": 2.5,
        },
        as_bailing,
    ),
}


def draw(name, shape, generator):
    """Weights that decay and mix enough for every part to show."""
    name = name.replace("norm_attn_norm.", "")  # of DBRX, which is no norm
    normal = torch.randn(*shape, generator=generator) if not name.endswith("A_log") else None
    if name.endswith(("sqk", "s_gate", "logit_scale", "lambda_1", "lambda_2")):
        return 0.125 + 0.1 * normal
    if ".suv_" in name:
        return 0.5 + 0.2 * normal
    if name.endswith("A_log"):
        return torch.log(0.05 + 2 * torch.rand(shape, generator=generator))
    if name.endswith(("dt_bias", "dt_proj.bias")):
        return normal * 1.5 - 1
    if name.endswith("sinks"):
        return normal
    if name.endswith(".D"):
        return normal * 0.7
    if "conv1d.bias" in name:
        return normal * 0.4
    if "conv1d.weight" in name:
        return normal * 0.5
    if (any(part in name for part in ("norm", "ln_")) and not name.endswith("bias")) or "correct_output_scale" in name:
        return 1 + 0.35 * normal
    if "e_score_correction_bias" in name or "expert_bias" in name:
        return normal * 0.1
    if ".act_fn." in name:
        return normal * 0.5
    if "modality_router" in name:
        return normal * 2
    if "router" in name or "mlp.gate.w" in name or "mixer.gate.w" in name or "block_sparse_moe.gate.w" in name:
        return normal * 0.23
    root = shape[-1] ** 0.5
    if "q_proj" in name or "k_proj" in name:
        return normal * 1.5 / root
    if "embed" in name:
        return normal * 0.2
    if any(part in name for part in ("output_linear", "out_proj", "o_proj", "down")):
        return normal * 2.5 / root
    return normal * 1.2 / root if len(shape) > 1 else normal * 0.1


def class_of(config):
    """Of what transformers finds inside of another alone, and of what has another beside it, the class itself."""
    classes = {
        "apertus1p5_text": Apertus1p5TextForCausalLM,
        "cohere_compass_text": CohereCompassForCausalLM,
        "mistral4": Mistral4ForCausalLM,
        "mllama": MllamaForConditionalGeneration,
        "muse_glimmer": MuseGlimmerForConditionalGeneration,
        "step3p7": Step3p7ForConditionalGeneration,
    }
    return classes.get(config["model_type"], AutoModelForCausalLM)


def made(config):
    cls = class_of({"model_type": config.model_type})
    return cls.from_config(config) if cls is AutoModelForCausalLM else cls(config)


def make_weights(config, seed, folder):
    """A model in bf16, whose logits have a standard deviation of 3."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    given = {k: v for k, v in config.items() if k not in ("model_type", "architectures")}
    own = AutoConfig.for_model(config["model_type"], **given)
    own._attn_implementation = "eager"
    model = cut(made(own))
    with torch.no_grad():
        buffers = ((n, b) for n, b in model.named_buffers() if "e_score" in n)
        for name, weight in [*model.named_parameters(), *buffers]:
            weight.copy_(draw(name, weight.shape, generator).bfloat16().float())
        ids = torch.randint(3, 310, (1, 60), generator=generator)
        deviation = model(ids, use_cache=False).logits[0].std().item()
        names = ("norm", "norm_f", "final_layernorm", "final_layer_norm", "embedding_norm", "ln_f")
        inner = getattr(model.base_model, "language_model", getattr(model.base_model, "decoder", model.base_model))
        norm = next((getattr(inner, own) for own in names if hasattr(inner, own)), None)
        last = getattr(norm, "weight", model.lm_head.weight)  # of a norm without weights the head
        last.copy_((last * 3 / deviation).bfloat16().float())
    model.to(torch.bfloat16).save_pretrained(folder)


class Float64:
    """Casts to float32 in the model's code are to float64."""

    def __enter__(self):
        self.kept = torch.Tensor.float, torch.float32, torch.float
        torch.set_default_dtype(torch.float64)
        torch.Tensor.float, torch.float32 = lambda tensor: tensor.double(), torch.float64
        torch.float = torch.float64

    def __exit__(self, *_):
        torch.Tensor.float, torch.float32, torch.float = self.kept
        torch.set_default_dtype(torch.float32)


def logits_of(model, ids):
    logits = model(ids, use_cache=False).logits[0]
    assert logits.dtype == torch.float64
    return logits


class Choices(TorchFunctionMode):
    """How far the last expert chosen leads, and the last position, at the least, whoever is asked."""

    def __init__(self, model):
        super().__init__()
        self.least = float("inf")
        for name, module in model.named_modules():
            if type(module).__name__.endswith(("TopKRouter", "TopkRouter", "V1Gate", "Llama4Router", "ChoiceRouter", "DbrxFFN")):
                module.register_forward_hook(self.note)

    def __torch_function__(self, function, types, args=(), kwargs=None):
        """Whatever chooses among positions has a score of each of them for each row."""
        if function is torch.Tensor.topk and args[0].ndim == 3 and args[0].shape[-1] > args[1]:
            ranked = args[0].sort(descending=True).values[..., args[1] - 1 : args[1] + 1]
            lead = (ranked[..., 0] - ranked[..., 1])[ranked[..., 1].isfinite() & (ranked[..., 1] > -1e30)]
            self.least = min([self.least, *lead.flatten().tolist()])
        return function(*args, **(kwargs or {}))

    def note(self, router, inputs, outputs):
        if type(router).__name__ == "DbrxFFN":  # whose router tells its logits alone
            logits = router.router(*inputs)
            outputs = (logits, router.route_tokens_to_experts(logits)[1])
        logits, *_, chosen = outputs
        if type(router).__name__ == "Llama4Router":
            logits, chosen = chosen, chosen.topk(router.top_k).indices
        kept = getattr(router, "moe_statics", router)
        bias = getattr(kept, "e_score_correction_bias", inputs[1] if len(inputs) > 1 else None)
        if bias is not None:
            is_softmax = hasattr(router, "moe_statics")
            if not type(router).__name__.startswith("Kolibri1"):  # whose bias is the logits'
                logits = logits.softmax(-1) if is_softmax else logits.sigmoid()
            logits = logits + bias.flatten()
        if getattr(router, "num_group", 1) > 1:
            of_groups = logits.unflatten(-1, (router.num_group, -1)).topk(2).values.sum(-1)
            ranked = of_groups.sort(descending=True).values
            self.least = min(self.least, (ranked[:, :-1] - ranked[:, 1:]).min().item())
            best = of_groups.topk(router.topk_group).indices
            is_open = torch.zeros_like(of_groups, dtype=torch.bool).scatter(1, best, True)
            each = logits.shape[-1] // router.num_group
            logits = logits.masked_fill(~is_open.repeat_interleave(each, -1), float("-inf"))
        taken = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, chosen, True)
        lead = logits.masked_fill(~taken, float("inf")).amin(-1) - logits.masked_fill(taken, float("-inf")).amax(-1)
        self.least = min(self.least, lead.min().item())


def greedy_of(model, ids, choices):
    """Greedy tokens and how far each leads; fewer where one hardly does."""
    tokens, leads = [], []
    while len(tokens) < GREEDY:
        (best, second), (token, _) = (each.tolist() for each in logits_of(model, ids)[-1].topk(2))
        leads.append(best - second)
        if leads[-1] < MARGIN or choices.least < CHOSEN:
            break
        tokens.append(token)
        ids = torch.cat([ids, torch.tensor([[tokens[-1]]])], 1)
    return tokens, leads


def prompts_for(model, random, most):
    """Prompts of ids below `most`, what the model says to them, and notes of each."""
    tensors, notes = {}, []
    choices = Choices(model)
    with Float64(), torch.no_grad(), choices:
        for number, length in enumerate(LENGTHS):
            tokens = []
            while len(tokens) < GREEDY or len(set(tokens)) < DISTINCT:
                choices.least = float("inf")
                ids = torch.tensor(random.integers(3, most, (1, length)))
                tokens, leads = greedy_of(model, ids, choices)
            first = max(0, length - 2)
            tensors[f"prompt.{number}"] = ids[0].int()
            logits = logits_of(model, ids)[first:].numpy().astype(np.float32)
            tensors[f"logits.{number}"] = torch.from_numpy(logits)
            tensors[f"greedy.{number}"] = torch.tensor(tokens).int()
            notes.append(
                dict(
                    length=length,
                    first_row=first,
                    rows=length - first,
                    least_margin=round(min(leads), 4),
                    distinct_greedy=len(set(tokens)),
                    **({} if choices.least == float("inf") else {"least_routing_margin": round(choices.least, 4)}),
                )
            )
    return tensors, notes


def opened(config, folder):
    if "block_configs" in config:  # layers that no class of transformers has
        own = AutoConfig.from_pretrained(folder, attn_implementation="eager")
        model = cut(AutoModelForCausalLM.from_config(own)).double()
        model.load_state_dict(load_file(folder / "model.safetensors"))
        return model
    return class_of(config).from_pretrained(
        folder, dtype=torch.float64, attn_implementation="eager", experts_implementation="eager"
    )


def make(name, published, output, seed=1):
    folder = output / name
    folder.mkdir(parents=True)
    config, renamed = COMPUTED_AS.get(name, (published, dict))
    make_weights(config, seed, folder)
    random = np.random.default_rng(seed)
    model = opened(config, folder).eval().double()
    for module in model.modules():
        if hasattr(module, "time_step_limit"):  # what the published code reads, of which transformers reads another number
            module.time_step_limit = config.get("time_step_limit", (0.0, float("inf")))
        if hasattr(module, "build_mpt_alibi_tensor"):  # likewise, which it leaves at 8
            most = config["attn_config"]["alibi_bias_max"]
            module.build_mpt_alibi_tensor = functools.partial(build_mpt_alibi_tensor, alibi_bias_max=most)
    tensors, notes = prompts_for(model, random, 310)
    save_file(tensors, folder / "golden.safetensors")
    oracle = "float64 throughout (norms, softmax, states and rotary angles too)"
    golden = dict(
        oracle=f"{type(model).__name__} of transformers, eager attention, {oracle}",
        versions=dict(
            transformers=transformers.__version__,
            torch=torch.__version__.split("+")[0],
            numpy=np.__version__,
            python=sys.version.split()[0],
        ),
        greedy_tokens=GREEDY,
        margin_at_least=MARGIN,
        prompts=notes,
    )
    (folder / "golden.json").write_text(json.dumps(golden, indent=1))
    weights = folder / "model.safetensors"
    if name in COMPUTED_AS:
        save_file(renamed(load_file(weights)), weights, metadata={"format": "pt"})
    text = json.dumps({**published, "torch_dtype": "bfloat16"}, indent=1)
    (folder / "config.json").write_text(text.replace("Infinity", '{"__float__": "Infinity"}'))  # as transformers 5 writes it
    for file in ("generation_config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(Path(__file__).parent / "granitemoe" / file, folder)


if __name__ == "__main__":
    output, *names = sys.argv[1:]
    for name in names or MODELS:
        make(name, MODELS[name], Path(output))
