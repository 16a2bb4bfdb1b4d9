"""Makes small models that see with transformers, whose prompts their own processors make of pictures: random weights, pictures, what
their towers make of them, prompts, logits, greedy tokens.

    python pictures.py OUTPUT [NAME ...]
"""

import json

import numpy as np
import pictured
import torch
from make import draw
from pictured import FIRST, GOLDEN, write
from transformers import AutoProcessor
from transformers.models.llama4 import modeling_llama4

# Llama 4 hands on what its text model does not give (5.24.0).
modeling_llama4.MoeCausalLMOutputWithPast.image_outputs = None

TEXT = {
    "hidden_size": 40,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 336,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 512,
    "rope_theta": 10000.0,
    "bos_token_id": None,
    "eos_token_id": [FIRST + 1],
}
EYE = dict(hidden_size=48, intermediate_size=56, num_hidden_layers=3, num_attention_heads=4, num_channels=3)
CLIP = dict(image_mean=[0.48145466, 0.4578275, 0.40821073], image_std=[0.26862954, 0.26130258, 0.27577711])

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for content in message['content'] %}"
    "{% if content['type'] == 'image' %}IMAGE{% elif content['type'] == 'text' %}{{ content['text'] }}{% endif %}"
    "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def pixtral(patch, joined):
    """Tokens and processor of Pixtral, whose patches are 4 pixels; no edge is longer than 64."""
    return dict(
        tokens=["[IMG]", "[IMG_BREAK]", "[IMG_END]"],
        image=dict(
            image_processor_type="PixtralImageProcessor",
            patch_size=dict(height=patch, width=patch),
            size=dict(longest_edge=64 if joined > 1 else 32),
            **CLIP,
        ),
        processor=dict(
            processor_class="PixtralProcessor",
            patch_size=patch,
            spatial_merge_size=joined,
            image_token="[IMG]",
            image_break_token="[IMG_BREAK]",
            image_end_token="[IMG_END]",
        ),
        # In tokens 6 x 4; then 8 x 5, of a picture that is shrunk, and 3 x 3.
        sizes=[[(41, 27)], [(90, 50), (23, 22)]],
    )


SIGLIP = {
    **EYE,
    "model_type": "siglip_vision_model",
    "hidden_act": "gelu_pytorch_tanh",
    "layer_norm_eps": 1e-6,
    "vision_use_head": False,
    "image_size": 20,
    "patch_size": 5,
}
CLIP_EYE = {**SIGLIP, "model_type": "clip_vision_model", "hidden_act": "quick_gelu", "layer_norm_eps": 1e-5, "projection_dim": 32}


def anyres(kind, grids, *, crops=True, edge=20, **processor):
    """Of tiles of 20 x 20 pixels and 16 patches, or others; heights and widths in tiles."""
    side = dict(height=edge, width=edge)
    pinpoints = [[edge * height, edge * width] for height, width in grids]
    return dict(
        tokens=["<image>"],
        image=dict(
            image_processor_type=f"{kind}ImageProcessor",
            size=dict(shortest_edge=edge) if crops else side,
            image_grid_pinpoints=pinpoints,
            **(dict(crop_size=side, do_center_crop=True, **CLIP) if crops else dict(image_mean=[0.5] * 3, image_std=[0.5] * 3)),
        ),
        processor=dict(processor_class=f"{kind}Processor", image_token="<image>", **processor),
        # In a square, beside and below each other, the last of which is padded to each side.
        sizes=[[(41, 27)], [(20, 50), (23, 22)]],
        pinpoints=pinpoints,
    )


NEXT = anyres("LlavaNext", [(1, 2), (2, 1), (2, 2), (3, 1)], patch_size=5, num_additional_image_tokens=1, vision_feature_select_strategy="default")
GRANITE = anyres("LlavaNext", [(1, 2), (2, 1), (1, 3), (3, 1)], patch_size=5, num_additional_image_tokens=0, vision_feature_select_strategy="full")
GRANITE4 = anyres(
    "LlavaNext",
    [(1, 2), (2, 1), (2, 2), (3, 1)],
    **dict(edge=32, patch_size=4, num_additional_image_tokens=0, vision_feature_select_strategy="full"),
    downsample_rate="2/4",
)
ONEVISION = anyres(
    "LlavaOnevision",
    [(height, width) for height in (1, 2, 3) for width in (1, 2, 3)],
    crops=False,
    num_image_tokens=16,
    vision_feature_select_strategy="full",
    vision_aspect_ratio="anyres_max_2",
)
LLAMA4 = {
    **EYE,
    "model_type": "llama4_vision_model",
    "hidden_act": "gelu",
    "norm_eps": 1e-5,
    "image_size": 24,
    "patch_size": 6,
    "intermediate_size": 192,
    "pixel_shuffle_ratio": 0.5,
    "projector_input_dim": 44,
    "projector_output_dim": 44,
    "vision_output_dim": 44,
    "rope_theta": 100.0,
}
PIXTRAL = {
    **EYE,
    "model_type": "pixtral",
    "image_size": 64,
    "patch_size": 4,
    "rope_theta": 100.0,
    "head_dim": 12,
}
MINICPM_TOKENS = ["<|image_pad|>", "<|video_pad|>", *(f"<{end}{part}>" for part in ("image", "slice", "image_id") for end in ("", "/"))]
MINICPM_NAMES = dict(
    **dict(image_token="<|image_pad|>", video_token="<|video_pad|>"),
    **{f"{part}_{side}_token": f"<{end}{part}>" for part in ("image", "slice", "image_id") for side, end in (("start", ""), ("end", "/"))},
)


def paligemma(text, window=None):
    """PaliGemma with that text model, which has no template; a prompt is seen both ways."""
    return dict(
        config={
            "architectures": ["PaliGemmaForConditionalGeneration"],
            "model_type": "paligemma",
            "image_token_index": FIRST + 2,
            "projection_dim": 40,
            "hidden_size": 40,
            "vocab_size": 336,
            "tie_word_embeddings": True,
            "text_config": {
                **{key: value for key, value in TEXT.items() if key != "hidden_act"},
                **dict(model_type=text, head_dim=12, hidden_activation="gelu_pytorch_tanh", rms_norm_eps=1e-6),
                **(dict(sliding_window=window, query_pre_attn_scalar=12) if window else {}),
                "tie_word_embeddings": True,
            },
            "vision_config": {**SIGLIP, "projection_dim": 40},
        },
        tokens=["<image>", "<bos>"],
        names=dict(bos_token="<bos>"),
        image=dict(
            **dict(image_processor_type="SiglipImageProcessor", size=dict(height=20, width=20), image_seq_length=16),
            **dict(image_mean=[0.5] * 3, image_std=[0.5] * 3),
        ),
        processor=dict(processor_class="PaliGemmaProcessor"),
        has_template=False,
        sizes=[[(41, 27)], [(20, 50), (23, 22)]],
        renamed={
            "model.vision_tower.": "vision_tower.vision_model.",
            "model.multi_modal_projector.": "multi_modal_projector.",
            "model.language_model.": "language_model.model.",
        },
    )


MODELS = {
    "paligemma": paligemma("gemma"),
    "paligemma2": paligemma("gemma2", window=64),
    "mistral3": dict(
        config={
            "architectures": ["Mistral3ForConditionalGeneration"],
            "model_type": "mistral3",
            "image_token_index": FIRST + 2,
            "multimodal_projector_bias": False,
            "projector_hidden_act": "gelu",
            "spatial_merge_size": 2,
            "vision_feature_layer": -1,
            "tie_word_embeddings": False,
            "text_config": {**TEXT, "model_type": "mistral", "head_dim": 12, "sliding_window": None},
            "vision_config": {**PIXTRAL, "hidden_act": "silu"},
        },
        **pixtral(4, 2),
        renamed={
            "model.vision_tower.": "vision_tower.",
            "model.multi_modal_projector.": "multi_modal_projector.",
            "model.language_model.": "language_model.model.",
            "lm_head.": "language_model.lm_head.",
        },
    ),
    "qianfan-ocr": dict(
        config={
            "architectures": ["QianfanOCRForConditionalGeneration"],
            "model_type": "qianfan_ocr",
            "image_token_id": FIRST + 3,
            "image_seq_length": 4,
            "downsample_ratio": 0.5,
            "projector_hidden_act": "gelu",
            "vision_feature_layer": -1,
            "vision_feature_select_strategy": "default",
            "tie_word_embeddings": False,
            "text_config": {**TEXT, "model_type": "qwen3", "head_dim": 12, "sliding_window": None, "rms_norm_eps": 1e-6},
            "vision_config": {
                **EYE,
                **dict(model_type="qianfan_ocr_vision", image_size=[24, 24], patch_size=[6, 6], hidden_act="gelu", layer_norm_eps=1e-6),
                **dict(norm_type="layer_norm", use_qk_norm=False, use_mean_pooling=True, layer_scale_init_value=0.1),
            },
        },
        tokens=["<image>", "<IMG_CONTEXT>", "<img>", "</img>"],
        names=dict(start_image_token="<img>", end_image_token="</img>", context_image_token="<IMG_CONTEXT>"),
        image=dict(
            **dict(image_processor_type="GotOcr2ImageProcessor", size=dict(height=24, width=24), min_patches=1, max_patches=4),
            **dict(image_mean=[0.485, 0.456, 0.406], image_std=[0.229, 0.224, 0.225]),
        ),
        processor=dict(processor_class="QianfanOCRProcessor", image_seq_length=4),
        # Two tiles beside each other and the whole; two below each other and theirs, and a single one.
        sizes=[[(41, 21)], [(20, 41), (23, 22)]],
        # What transformers 5.24 makes of the published names when it writes them.
        renamed={"language_model.model.encoder.layers.": "language_model.model.layers."},
    ),
    # Images are made of whole patches here, so that some are over at the edges.
    "lighton-ocr": dict(
        config={
            "architectures": ["LightOnOcrForConditionalGeneration"],
            "model_type": "lighton_ocr",
            "image_token_id": FIRST + 2,
            "spatial_merge_size": 2,
            "tie_word_embeddings": True,
            "text_config": {**TEXT, "model_type": "qwen3", "head_dim": 12, "sliding_window": None, "rms_norm_eps": 1e-6},
            "vision_config": {**PIXTRAL, "hidden_act": "silu"},
        },
        tokens=["<|image_pad|>", "<|vision_pad|>", "<|vision_end|>"],
        names=dict(image_token="<|image_pad|>", image_break_token="<|vision_pad|>", image_end_token="<|vision_end|>"),
        image=dict(image_processor_type="PixtralImageProcessor", patch_size=4, size=dict(longest_edge=64), **CLIP),
        processor=dict(processor_class="LightOnOcrProcessor", patch_size=4, spatial_merge_size=2),
        # In patches 11 x 7; then 16 x 9, of a picture that is shrunk, and 6 x 6.
        sizes=[[(41, 27)], [(90, 50), (23, 22)]],
    ),
    "llava-pixtral": dict(
        config={
            "architectures": ["LlavaForConditionalGeneration"],
            "model_type": "llava",
            "image_token_index": FIRST + 2,
            "multimodal_projector_bias": True,
            "projector_hidden_act": "gelu",
            "vision_feature_layer": -1,
            "vision_feature_select_strategy": "full",
            "tie_word_embeddings": False,
            "text_config": {**TEXT, "model_type": "mistral", "head_dim": 12, "sliding_window": None},
            "vision_config": {**PIXTRAL, "hidden_act": "gelu"},
        },
        **pixtral(4, 1),
    ),
    # LLaVA 1.6.
    "llava-next": dict(
        config={
            "architectures": ["LlavaNextForConditionalGeneration"],
            "model_type": "llava_next",
            "image_token_index": FIRST + 2,
            "image_grid_pinpoints": NEXT["pinpoints"],
            "projector_hidden_act": "gelu",
            "vision_feature_layer": -2,
            "vision_feature_select_strategy": "default",
            "tie_word_embeddings": False,
            "text_config": {**TEXT, "model_type": "mistral", "sliding_window": None},
            "vision_config": CLIP_EYE,
        },
        **NEXT,
        renamed={
            "model.vision_tower.": "vision_tower.vision_model.",
            "model.multi_modal_projector.": "multi_modal_projector.",
            "model.image_newline": "image_newline",
            "model.language_model.": "language_model.model.",
            "lm_head.": "language_model.lm_head.",
        },
    ),
    # Granite Vision 3.
    "granite-vision": dict(
        config={
            "architectures": ["LlavaNextForConditionalGeneration"],
            "model_type": "llava_next",
            "image_token_index": FIRST + 2,
            "image_grid_pinpoints": GRANITE["pinpoints"],
            "multimodal_projector_bias": True,
            "projector_hidden_act": "gelu",
            "vision_feature_layer": [-3, -1],
            "vision_feature_select_strategy": "full",
            "tie_word_embeddings": False,
            "text_config": {
                **TEXT,
                "model_type": "granite",
                "embedding_multiplier": 1.5,
                "attention_multiplier": 0.4,
                "residual_multiplier": 1.3,
                "logits_scaling": 4.0,
                "tie_word_embeddings": False,
            },
            "vision_config": SIGLIP,
        },
        **GRANITE,
        seed=3,
    ),
    # Four windows of a tile, and projectors of two heads, which have 64 columns, that lead to five of six layers.
    "granite4-vision": dict(
        config={
            "architectures": ["Granite4VisionForConditionalGeneration"],
            "model_type": "granite4_vision",
            "image_token_index": FIRST + 2,
            "image_grid_pinpoints": GRANITE4["pinpoints"],
            "vision_feature_select_strategy": "full",
            "downsample_rate": "2/4",
            "deepstack_layer_map": [[-2, 0]],
            "spatial_vision_layer": -1,
            "spatial_target_layers": [3, 2, 5, 4],
            "qformer_config": dict(
                **dict(model_type="blip_2_qformer", num_hidden_layers=1, intermediate_size=24, cross_attention_frequency=1),
                **dict(hidden_act="gelu", layer_norm_eps=1e-12, use_qformer_text_input=False),
            ),
            "tie_word_embeddings": False,
            "text_config": {
                **TEXT,
                "model_type": "granite4_vision_text",
                "num_hidden_layers": 6,
                "hidden_size": 32,
                "intermediate_size": 24,
                "embedding_multiplier": 1.5,
                "attention_multiplier": 0.4,
                "residual_multiplier": 0.7,
                "logits_scaling": 4.0,
                "tie_word_embeddings": False,
            },
            "vision_config": {**SIGLIP, "hidden_size": 128, "intermediate_size": 24, "num_hidden_layers": 2, "image_size": 32, "patch_size": 4},
        },
        **{**GRANITE4, "processor": {**GRANITE4["processor"], "processor_class": "Granite4VisionProcessor"}},
        quiet=True,
    ),
    "llama4": dict(
        config={
            "architectures": ["Llama4ForConditionalGeneration"],
            "model_type": "llama4",
            "image_token_index": FIRST + 3,
            "boi_token_index": FIRST + 4,
            "eoi_token_index": FIRST + 5,
            "tie_word_embeddings": False,
            "text_config": {
                **json.loads((GOLDEN / "models/llama4/config.json").read_text()),
                **dict(attention_chunk_size=8192, floor_scale=8192, attn_scale=0.1),  # as published, since GGUF does not say it
                "vocab_size": 336,
                "bos_token_id": None,
                "eos_token_id": [FIRST + 1],
            },
            "vision_config": LLAMA4,
        },
        tokens=["<|image|>", "<|patch|>", "<|image_start|>", "<|image_end|>", "<|tile_x_separator|>", "<|tile_y_separator|>"],
        image=dict(
            image_processor_type="Llama4ImageProcessor",
            size=dict(height=24, width=24),
            max_patches=6,
            image_mean=[0.5] * 3,
            image_std=[0.5] * 3,
        ),
        processor=dict(processor_class="Llama4Processor", patch_size=6, pixel_shuffle_ratio=0.5),
        # Three by two tiles and the whole; then two below each other, and a single one.
        sizes=[[(61, 41)], [(20, 40), (23, 22)]],
    ),
    "janus": dict(
        config={
            "architectures": ["JanusForConditionalGeneration"],
            "model_type": "janus",
            "image_token_id": FIRST + 2,
            "tie_word_embeddings": False,
            "text_config": {**TEXT, "model_type": "llama"},
            "vision_config": {
                **{key: value for key, value in EYE.items() if key != "intermediate_size"},
                **dict(model_type="janus_vision_model", image_size=20, patch_size=5, hidden_act="gelu", mlp_ratio=1.2),
                **dict(projection_dim=40, depth=2, use_qk_norm=False, attention_bias=True, num_image_tokens=16),
            },
            "vq_config": dict(base_channels=32, channel_multiplier=[1], latent_channels=32, num_embeddings=4, embed_dim=2, num_res_blocks=1),
        },
        tokens=["<image_placeholder>", "<begin_of_image>", "<end_of_image>"],
        names=dict(image_token="<image_placeholder>", boi_token="<begin_of_image>", eoi_token="<end_of_image>"),
        image=dict(image_processor_type="JanusImageProcessor", size=dict(height=20, width=20), **CLIP),
        processor=dict(processor_class="JanusProcessor", num_image_tokens=16, use_default_system_prompt=False),
        # With the mean colour above and below, then at the sides; no side is less than 14 pixels.
        sizes=[[(41, 27)], [(20, 50), (90, 8)]],
        left=["model.vqmodel.", "model.generation_"],
    ),
    "kimi-k25": dict(
        config={
            "architectures": ["Kimi_K25ForConditionalGeneration"],
            "model_type": "kimi_k25",
            "image_token_id": FIRST + 2,
            "video_token_id": FIRST + 3,
            "vision_start_token_id": FIRST + 4,
            "vision_end_token_id": FIRST + 5,
            "projection_hidden_size": 32,
            "projection_layer_norm_eps": 1e-5,
            "tie_word_embeddings": False,
            "text_config": {
                **json.loads((GOLDEN / "models/deepseek-v3/config.json").read_text()),
                "vocab_size": 336,
                "bos_token_id": None,
                "eos_token_id": [FIRST + 1],
                "tie_word_embeddings": False,
            },
            "vision_config": dict(
                model_type="kimi_k25_vision",
                hidden_size=32,
                intermediate_size=40,
                num_hidden_layers=2,
                num_attention_heads=2,
                patch_size=4,
                pos_emb_height=5,
                pos_emb_width=5,
                pos_emb_time=4,
                merge_kernel_size=[2, 2],
                hidden_act="gelu_pytorch_tanh",
                rope_parameters=dict(rope_type="axial", rope_theta=10000.0),
            ),
        },
        tokens=["<|media_pad|>", "<|media_video|>", "<|media_begin|>", "<|media_end|>"],
        image=dict(
            image_processor_type="Kimi_K25ImageProcessor",
            patch_size=4,
            merge_size=2,
            max_patches=60,
            size=dict(max_height=16, max_width=16),
            image_mean=[0.5] * 3,
            image_std=[0.5] * 3,
        ),
        processor=dict(processor_class="Kimi_K25Processor"),
        beside={"video_preprocessor_config.json": dict(video_processor_type="Kimi_K25VideoProcessor")},
        # Of 41 x 27 pixels, filled up with black; then a picture that is shrunk, and one of 23 x 22.
        sizes=[[(41, 27)], [(90, 30), (23, 22)]],
        # What transformers 5.24 makes of the published names when it writes them.
        renamed={
            "language_model.model.blocks.": "language_model.model.layers.",
            "vision_tower.encoder.patch_embed.": "vision_tower.patch_embed.",
            "model.mm_projector.": "mm_projector.",
        },
    ),
    "lfm2-vl": dict(
        config={
            "architectures": ["Lfm2VlForConditionalGeneration"],
            "model_type": "lfm2_vl",
            "image_token_id": FIRST + 2,
            "downsample_factor": 2,
            "projector_hidden_size": 52,
            "projector_hidden_act": "gelu",
            "projector_bias": True,
            "projector_use_layernorm": True,
            "tie_word_embeddings": True,
            "text_config": {
                **json.loads((GOLDEN / "models/lfm2/config.json").read_text()),
                "vocab_size": 336,
                "bos_token_id": None,
                "eos_token_id": FIRST + 1,
            },
            "vision_config": {
                **{key: value for key, value in SIGLIP.items() if key != "image_size"},
                "model_type": "siglip2_vision_model",
                "patch_size": 4,
                "num_patches": 25,
            },
        },
        tokens=["<image>", "<|image_start|>", "<|image_end|>", "<|img_thumbnail|>"]
        + [f"<|img_row_{row}_col_{column}|>" for row in (1, 2) for column in (1, 2)],
        image=dict(
            image_processor_type="Lfm2VlImageProcessor",
            encoder_patch_size=4,
            downsample_factor=2,
            min_image_tokens=4,
            max_image_tokens=16,
            min_tiles=2,
            max_tiles=4,
            tile_size=32,
            max_pixels_tolerance=2.0,
        ),
        processor=dict(processor_class="Lfm2VlProcessor"),
        # In tokens 5 x 3; then two by two tiles and all of it, and 3 x 3.
        sizes=[[(41, 27)], [(70, 50), (23, 22)]],
        renamed={"model.vision_tower.": "model.vision_tower.vision_model."},
    ),
    "granite-docling": dict(
        config={
            "architectures": ["GraniteDoclingForConditionalGeneration"],
            "model_type": "granite_docling",
            "image_token_id": FIRST + 2,
            "pad_token_id": 318,
            "tie_word_embeddings": True,
            "text_config": {
                **{key: value for key, value in TEXT.items() if key != "rope_theta"},
                "model_type": "granite_docling_text",
                "pad_token_id": 318,
                "num_hidden_layers": 3,
                "rope_parameters": dict(rope_type="default", rope_theta=10000.0),
                **dict(embedding_multiplier=1.5, attention_multiplier=0.4, residual_multiplier=1.3, logits_scaling=4.0),
                "tie_word_embeddings": True,
            },
            "vision_config": {
                **{**SIGLIP, "model_type": "granite_docling_vision", "image_size": 24, "patch_size": 4},
                **dict(out_hidden_size=40, scale_factor=2, deepstack_visual_indexes=[0, 1], use_fine_route=True),
            },
        },
        tokens=["<image>", "<fake_token_around_image>", "<global-img>"] + [f"<row_{row}_col_{column}>" for row in (1, 2) for column in (1, 2)],
        names=dict(image_token="<image>"),
        image=dict(
            **dict(image_processor_type="GraniteDoclingImageProcessor", size=dict(height=24, width=24), image_mean=[0.5] * 3, image_std=[0.5] * 3),
            **dict(max_patches=2, dense_max_patches=4, dense_max_scale=0.7, dense_min_aspect=0.9),
        ),
        processor=dict(processor_class="GraniteDoclingProcessor", image_seq_len=9),
        # Two tiles beside each other and the whole; then two by two of what is too large for one, and a small one.
        sizes=[[(41, 27)], [(50, 52), (23, 22)]],
        # The way that makes more rows of a tile, which nobody goes.
        left=["model.vision_model.connector.fine."],
    ),
    "exaone4-5": dict(
        config={
            "architectures": ["Exaone4_5_ForConditionalGeneration"],
            "model_type": "exaone4_5",
            "image_token_id": FIRST + 2,
            "video_token_id": FIRST + 3,
            "tie_word_embeddings": False,
            "text_config": {
                **json.loads((GOLDEN / "models/exaone4/config.json").read_text()),
                "vocab_size": 336,
                "bos_token_id": None,
                "eos_token_id": FIRST + 1,
                "tie_word_embeddings": False,
            },
            "vision_config": dict(
                **dict(model_type="exaone4_5_vision", depth=3, hidden_size=32, intermediate_size=56, hidden_act="silu", in_channels=3),
                **dict(num_heads=4, num_key_value_heads=2, patch_size=4, spatial_merge_size=2, temporal_patch_size=2),
                **dict(out_hidden_size=40, window_size=16, fullatt_block_indexes=[1]),
            ),
        },
        tokens=["<|image_pad|>", "<|video_pad|>", "<vision>", "</vision>"],
        image=dict(
            **dict(image_processor_type="Qwen2VLImageProcessor", patch_size=4, merge_size=2, temporal_patch_size=2),
            **dict(min_pixels=256, max_pixels=2048, **CLIP),
        ),
        processor=dict(processor_class="Exaone4_5_Processor"),
        beside={"video_preprocessor_config.json": dict(video_processor_type="Qwen2VLVideoProcessor", patch_size=4)},
        sizes=[[(41, 27)], [(90, 30), (23, 22)]],
    ),
    # Convolutions over lines and columns, and between them a layer in which all patches see each other.
    "lfm3-vl": dict(
        config={
            "architectures": ["Lfm3VlForConditionalGeneration"],
            "model_type": "lfm3_vl",
            "image_token_id": FIRST + 2,
            "video_token_id": FIRST + 3,
            "projector_hidden_size": 48,
            "text_config": {
                **json.loads((GOLDEN / "models/lfm3/config.json").read_text()),
                "vocab_size": 336,
                "bos_token_id": None,
                "eos_token_id": FIRST + 1,
            },
            "vision_config": dict(
                **dict(model_type="lfm3_vl_vision", hidden_size=64, intermediate_size=40, num_hidden_layers=3, num_attention_heads=4),
                **dict(num_key_value_heads=2, patch_size=4, spatial_merge_size=2, temporal_patch_size=2, norm_eps=1e-5),
                **dict(conv_kernel_size=3, layer_types=["conv", "full_attention", "conv"]),
                rope_parameters=dict(rope_type="axial", rope_theta=100.0),
            ),
        },
        tokens=["<|image_pad|>", "<|video_pad|>", "<|vision_start|>", "<|vision_end|>"],
        image=dict(
            **dict(image_processor_type="Qwen2VLImageProcessor", patch_size=4, merge_size=2, temporal_patch_size=2),
            **dict(min_pixels=256, max_pixels=2048, **CLIP),
        ),
        processor=dict(processor_class="Lfm3VlProcessor"),
        beside={"video_preprocessor_config.json": dict(video_processor_type="Qwen2VLVideoProcessor", patch_size=4)},
        quiet=True,
        sizes=[[(41, 27)], [(90, 30), (23, 22)]],
    ),
    "minicpm-v-4-6": dict(
        config={
            "architectures": ["MiniCPMV4_6ForConditionalGeneration"],
            "model_type": "minicpmv4_6",
            "image_token_id": FIRST + 2,
            "video_token_id": FIRST + 3,
            "insert_layer_id": 1,
            "image_size": 32,
            "downsample_mode": "16x",
            "tie_word_embeddings": False,
            "text_config": {
                **json.loads((GOLDEN / "models/qwen3-5/config.json").read_text()),
                "vocab_size": 336,
                "bos_token_id": None,
                "eos_token_id": FIRST + 1,
            },
            "vision_config": {
                **dict(model_type="minicpmv4_6_vision", hidden_size=32, intermediate_size=40, num_hidden_layers=3),
                **dict(num_attention_heads=2, image_size=28, patch_size=4, hidden_act="gelu_pytorch_tanh"),
            },
        },
        tokens=MINICPM_TOKENS,
        names=MINICPM_NAMES,
        image=dict(image_processor_type="MiniCPMV4_6ImageProcessor", patch_size=4, scale_resolution=32, max_slice_nums=4),
        processor=dict(processor_class="MiniCPMV4_6Processor"),
        beside={"video_preprocessor_config.json": dict(video_processor_type="MiniCPMV4_6VideoProcessor", patch_size=4)},
        # Beside its whole two slices side by side; then four of a square, and a small one that is not cut.
        sizes=[[(41, 27)], [(61, 58), (13, 22)]],
        seed=2,
    ),
    "minicpm-v-4-7": dict(
        config={
            "architectures": ["MiniCPMV4_7ForConditionalGeneration"],
            "model_type": "minicpmv4_7",
            "image_token_id": FIRST + 2,
            "video_token_id": FIRST + 3,
            **{f"{name}_id": FIRST + 4 + i for i, name in enumerate(["image_start", "image_end", "slice_start", "slice_end"])},
            "newline_id": 198,
            "insert_layer_id": 0,
            "image_size": 32,
            "downsample_mode": "4x",
            "tie_word_embeddings": False,
            "text_config": {
                **json.loads((GOLDEN / "vision/qwen3-5/config.json").read_text())["text_config"],
                "vocab_size": 336,
                "bos_token_id": None,
                "eos_token_id": FIRST + 1,
            },
            "vision_config": {
                **dict(model_type="minicpmv4_7_vision", hidden_size=32, intermediate_size=40, num_hidden_layers=1),
                **dict(num_attention_heads=2, image_size=28, patch_size=4, hidden_act="gelu_pytorch_tanh"),
            },
        },
        tokens=MINICPM_TOKENS,
        names=MINICPM_NAMES,
        image=dict(
            **dict(image_processor_type="MiniCPMV4_6ImageProcessor", patch_size=4, scale_resolution=32, max_slice_nums=4),
            **dict(downsample_mode="4x", use_image_id=False),
        ),
        processor=dict(processor_class="MiniCPMV4_7Processor"),
        beside={"video_preprocessor_config.json": dict(video_processor_type="MiniCPMV4_6VideoProcessor", patch_size=4)},
        # Beside its whole two slices side by side; then four of a square, and a small one that is not cut.
        sizes=[[(41, 27)], [(61, 58), (13, 22)]],
        quiet=True,
        left=["model.vision_tower.vit_merger."],
    ),
    "minicpm-ocr": dict(
        config={
            "architectures": ["MiniCPMOcrForConditionalGeneration"],
            "model_type": "minicpm_ocr",
            "image_token_id": FIRST + 2,
            "video_token_id": FIRST + 3,
            "insert_layer_id": 1,
            "downsample_mode": "4x",
            "tie_word_embeddings": True,
            "text_config": {
                **json.loads((GOLDEN / "models/qwen3-5/config.json").read_text()),
                "vocab_size": 336,
                "bos_token_id": None,
                "eos_token_id": FIRST + 1,
                "tie_word_embeddings": True,
            },
            "vision_config": {
                **dict(model_type="minicpm_ocr_vision", hidden_size=32, intermediate_size=40, num_hidden_layers=3),
                **dict(num_attention_heads=2, image_size=28, patch_size=4, hidden_act="gelu_pytorch_tanh"),
            },
        },
        tokens=MINICPM_TOKENS,
        names=MINICPM_NAMES,
        image=dict(
            **dict(image_processor_type="MiniCPMOcrImageProcessor", patch_size=4, scale_resolution=32, max_slice_nums=4),
            downsample_mode="4x",
        ),
        processor=dict(processor_class="MiniCPMOcrProcessor"),
        beside={"video_preprocessor_config.json": dict(video_processor_type="MiniCPMOcrVideoProcessor", patch_size=4)},
        # Two slices of 8 x 6 patches; then four, and a small one that is not cut.
        sizes=[[(41, 27)], [(61, 58), (13, 22)]],
        # Nobody reads the merger between layers.
        left=["model.vision_tower.vit_merger."],
    ),
    "llava-onevision": dict(
        config={
            "architectures": ["LlavaOnesenseForConditionalGeneration"],
            "model_type": "llava_onevision",
            "image_token_index": FIRST + 2,
            "video_token_index": FIRST + 3,
            "image_grid_pinpoints": ONEVISION["pinpoints"],
            "projector_hidden_act": "gelu",
            "vision_aspect_ratio": "anyres_max_2",
            "vision_feature_layer": -1,
            "vision_feature_select_strategy": "full",
            "tie_word_embeddings": False,
            "text_config": {**TEXT, "model_type": "qwen2", "sliding_window": None},
            "vision_config": SIGLIP,
        },
        **{**ONEVISION, "tokens": ["<image>", "<video>"]},
        beside={"video_preprocessor_config.json": dict(video_processor_type="LlavaOnevisionVideoProcessor")},
    ),
}


def draw_part(name, shape, generator):
    """Weights of a tower that mix enough for every part to show; else as of any model."""
    normal = torch.randn(*shape, generator=generator)
    if "_projectors" in name:  # many, of few different numbers, of which little is kept
        normal = torch.round(normal)
    if any(part in name for part in ("patch_conv", "patch_embedding", "patch_embed.proj", "patch_embed.weight")):
        return normal * 1.2 / shape[1:].numel() ** 0.5 if len(shape) > 1 else normal * 0.3
    if any(part in name for part in ("position_embedding", "positional_embedding", "class_embedding", "cls_token", "image_newline", "pos_emb")):
        return normal * 0.5
    if any(part in name for part in ("multi_modal_projector", "vision_projection", "vision_adapter", "mm_projector", "aligner", "merger", "_projectors")) and "norm" not in name and len(shape) > 1:
        return normal * 2 / shape[-1] ** 0.5
    if "lambda_" in name:
        return 0.8 + 0.3 * normal
    return draw(name, shape, generator)


def draw_quiet(name, shape, generator):
    """The same, of a model whose tokens of its own are never the likeliest, so that replies are soon found that have none."""
    drawn = draw_part(name, shape, generator)
    if name.endswith(("embed_tokens.weight", "lm_head.weight")):
        drawn[pictured.OWN :] *= 0.25
    return drawn


def features_of(model, given):
    """Rows that stand in the place of soft tokens."""
    if model.config.model_type == "llama4":
        rows = model.vision_model(given["pixel_values"]).last_hidden_state
        return model.multi_modal_projector(rows.reshape(-1, rows.shape[-1]))
    if model.config.model_type == "granite4_vision":  # what stands behind the first is not multiplied, as tokens are
        seen = sorted((layer, torch.cat(list(rows))) for layer, rows in model.get_image_features(**given).deepstack_features)
        multiplier = model.config.text_config.embedding_multiplier
        return torch.cat([rows if layer == 0 else rows * multiplier for layer, rows in seen], -1)
    seeing = model.model if model.config.model_type == "janus" else model
    given = {name: each for name, each in given.items() if name != "token_type_ids"}
    seen = seeing.get_image_features(**given)
    rows = seen.pooler_output
    if getattr(seen, "deepstack_features", None):  # beside each what is added behind the first layers
        return torch.cat([torch.cat(list(each)) for each in (rows, *seen.deepstack_features)], -1)
    rows = rows if torch.is_tensor(rows) else torch.cat([each.reshape(-1, each.shape[-1]) for each in rows])
    return rows.reshape(-1, rows.shape[-1])


def prompts_for(model, folder, sizes, random):
    processor = AutoProcessor.from_pretrained(folder)

    def read(messages, pictures):
        if model.config.model_type == "paligemma":
            words = "".join(part.get("text", "") for part in messages[0]["content"])
            given = dict(processor(text=[words], images=[pictures], return_tensors="pt"))
            return given.pop("input_ids"), {name: given[name] for name in ("pixel_values", "token_type_ids")}, {}
        text = processor.apply_chat_template(messages, add_generation_prompt=True)
        given = dict(processor(text=text, images=pictures, return_tensors="pt"))
        ids = given.pop("input_ids")
        for name in ("attention_mask", "mm_token_type_ids", "token_type_ids"):
            given.pop(name, None)
        return ids, given, {}

    return pictured.prompts_for(model, folder, sizes, random, read, features_of, processor.decode)


# Sizes of a whole, in tokens, and how many slices of which size lie over it, and words: an image behind another, one before all words and one
# behind them, wholes that lie between the tokens of their slices.
CANVASES = [
    [[5, 6], ((3, 2), (3, 2), (2, 1)), [3], [11]],
    [[8], ((3, 3), (3, 2), (2, 3)), "newline", ((2, 5), None), [9, 10]],
    [((3, 5), None), "newline", "newline", ((4, 2), (4, 1), (1, 2)), [7], ((1, 3), (5, 4), (1, 3))],
]


def canvases_of(model):
    """Where tokens of prompts lie that nobody wrote: as the model has it. A prompt is words, images and what lies between them."""
    config, made = model.config, []
    for parts in CANVASES:
        ids, sizes, canvases = [], [], []
        for part in parts:
            if part == "newline" or isinstance(part, list):
                ids += [config.newline_id] if part == "newline" else part
                continue
            whole, *slices = part
            rows = lambda size, start, end: [start] + [config.image_token_id] * (size[0] * size[1]) + [end]
            ids += rows(whole, config.image_start_id, config.image_end_id)
            sizes.append(whole)
            canvases.append(dict(whole=whole))
            if len(slices) == 2:
                each, (columns, lines) = slices
                line = rows(each, config.slice_start_id, config.slice_end_id) * columns
                ids += [token for i in range(lines) for token in ([config.newline_id] if i else []) + line]
                sizes += [each] * columns * lines
                canvases[-1] |= dict(each=each, columns=columns, lines=lines)
        given = torch.tensor([ids])
        grids = torch.tensor([[2 * height, 2 * width] for width, height in sizes])
        places, behind = model.model.get_rope_index(given, (given == config.image_token_id).int(), grids, downsample_mode="4x")
        made.append(dict(ids=ids, canvases=canvases, coordinates=places.flatten().tolist(), behind=-behind.item()))
    return made


def make(name, folder):
    made = MODELS[name]
    seed = made.get("seed", 1)
    config = made["config"]
    pictured.make_weights(config, seed, folder, draw_quiet if made.get("quiet") else draw_part)
    bring_texts(folder, made)
    model = pictured.opened(folder)
    if config["model_type"] == "minicpmv4_7":
        write(folder, "canvases.json", canvases_of(model))
    tensors, notes = prompts_for(model, folder, made["sizes"], np.random.default_rng(seed))
    pictured.close(folder, model, tensors, notes, config, made.get("renamed", {}), tuple(made.get("left", ())))


def bring_texts(folder, made):
    """Tokens of its own, a template, and the files of its processor."""
    pictured.bring_texts(folder, ["<|im_start|>", "<|im_end|>", *made["tokens"]], **made.get("names", {}))
    if made.get("has_template", True):
        (folder / "chat_template.jinja").write_text(TEMPLATE.replace("IMAGE", made["tokens"][0]))
    write(folder, "preprocessor_config.json", made["image"])
    write(folder, "processor_config.json", made["processor"])
    for file, what in made.get("beside", {}).items():
        write(folder, file, what)


if __name__ == "__main__":
    pictured.make_each(MODELS, make)
