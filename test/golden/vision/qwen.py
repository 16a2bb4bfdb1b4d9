"""Makes small models of Qwen that see with transformers: random weights, pictures, what their towers make of them, prompts, logits, greedy tokens.

    python qwen.py OUTPUT [NAME ...]
"""

import json

import numpy as np
import pictured
import torch
from make import COMMON, draw
from pictured import FIRST, GOLDEN, write
from transformers import AutoImageProcessor, AutoTokenizer

# Sizes in pixels of each prompt's pictures, in patches 10 x 6, then 4 x 12 and 6 x 6: neither is a number of whole windows.
SIZES = [[(41, 27)], [(20, 50), (23, 22)]]
SPECIAL = ["<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
SOFT = FIRST + SPECIAL.index("<|image_pad|>")
IDS = dict(
    image_token_id=SOFT,
    video_token_id=SOFT + 1,
    vision_start_token_id=FIRST + 2,
    vision_end_token_id=FIRST + 3,
)
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for content in message['content'] %}"
    "{% if content['type'] == 'image' or 'image' in content %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif 'text' in content %}{{ content['text'] }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

TEXT = {
    **COMMON,
    "vocab_size": 336,
    "hidden_size": 48,
    "bos_token_id": None,
    "eos_token_id": [FIRST + 1],
    "tie_word_embeddings": False,
}
QWEN2 = {**TEXT, "rope_scaling": {"type": "mrope", "mrope_section": [1, 2, 3]}}
QWEN3 = {
    **TEXT,
    "hidden_size": 40,
    "head_dim": 16,
    "rope_scaling": {"rope_type": "default", "mrope_interleaved": True, "mrope_section": [3, 3, 2]},
}
EYE = dict(depth=3, num_heads=4, in_channels=3, patch_size=4, spatial_merge_size=2, temporal_patch_size=2)
EYE3 = {
    **EYE,
    "hidden_size": 48,
    "intermediate_size": 56,
    "hidden_act": "gelu_pytorch_tanh",
    "out_hidden_size": 40,
    "num_position_embeddings": 25,
}
QWEN3_VL = {
    "architectures": ["Qwen3VLForConditionalGeneration"],
    "model_type": "qwen3_vl",
    **IDS,
    "tie_word_embeddings": False,
    "text_config": {**QWEN3, "model_type": "qwen3_vl_text", "num_hidden_layers": 3},
    "vision_config": {**EYE3, "model_type": "qwen3_vl", "deepstack_visual_indexes": [1, 0]},
}
MODELS = {
    # As published: the text model's fields stand outside.
    "qwen2-vl": {
        "architectures": ["Qwen2VLForConditionalGeneration"],
        "model_type": "qwen2_vl",
        **IDS,
        **QWEN2,
        "vision_config": {**EYE, "embed_dim": 32, "hidden_size": 48, "mlp_ratio": 2, "hidden_act": "quick_gelu"},
    },
    "qwen2-5-vl": {
        "architectures": ["Qwen2_5_VLForConditionalGeneration"],
        "model_type": "qwen2_5_vl",
        **IDS,
        **QWEN2,
        "vision_config": {
            **EYE,
            "model_type": "qwen2_5_vl",
            "hidden_size": 32,
            "intermediate_size": 56,
            "hidden_act": "silu",
            "out_hidden_size": 48,
            "window_size": 16,
            "fullatt_block_indexes": [1],
            "tokens_per_second": 2,
        },
    },
    "qwen3-vl": QWEN3_VL,
    "qwen3-vl-moe": {
        **QWEN3_VL,
        "architectures": ["Qwen3VLMoeForConditionalGeneration"],
        "model_type": "qwen3_vl_moe",
        "text_config": {
            **QWEN3,
            "model_type": "qwen3_vl_moe_text",
            "num_experts": 6,
            "num_experts_per_tok": 2,
            "moe_intermediate_size": 20,
            "norm_topk_prob": True,
            "decoder_sparse_step": 1,
            "mlp_only_layers": [],
        },
        "vision_config": {**EYE3, "model_type": "qwen3_vl_moe", "deepstack_visual_indexes": [1]},
    },
    "qwen3-5": {
        "architectures": ["Qwen3_5ForConditionalGeneration"],
        "model_type": "qwen3_5",
        **IDS,
        "tie_word_embeddings": True,
        "text_config": {
            **json.loads((GOLDEN / "models/qwen3-5/config.json").read_text()),
            "vocab_size": 336,
            "eos_token_id": FIRST + 1,
            "bos_token_id": None,
        },
        "vision_config": {**EYE3, "model_type": "qwen3_5", "out_hidden_size": 32},
    },
}
MODELS["cohere-compass"] = {
    "architectures": ["CohereCompassForConditionalGeneration"],
    "model_type": "cohere_compass",
    **IDS,
    "tie_word_embeddings": True,
    "text_config": {
        **json.loads((GOLDEN / "models/cohere-compass/config.json").read_text()),
        **dict(vocab_size=336, eos_token_id=FIRST + 1, bos_token_id=None, head_dim=10),
    },
    "vision_config": {**EYE3, "model_type": "cohere_compass_vision", "deepstack_visual_indexes": [1, 2]},
}
# As their processors call tokens that all others write in small letters.
CALLED = {"cohere-compass": {token: token.upper() for token in SPECIAL[2:]}}
# Whose pictures make enough of a difference.
SEEDS = {"cohere-compass": 4}
# As Qwen 2's were published.
RENAMED = {
    "qwen2-vl": {"model.visual.": "visual.", "model.language_model.": "model."},
    "qwen2-5-vl": {"model.visual.": "visual.", "model.language_model.": "model."},
}


def draw_part(name, shape, generator):
    """Weights of a tower that mix enough for every part to show; else as of any model."""
    normal = torch.randn(*shape, generator=generator)
    if "patch_embed" in name:
        return normal * 1.2 / shape[1:].numel() ** 0.5 if len(shape) > 1 else normal * 0.3
    if "pos_embed" in name:
        return normal * 0.7
    if "merger" in name and "norm" not in name and "ln_q" not in name and len(shape) > 1:
        return normal * 2 / shape[-1] ** 0.5
    if "visual" in name and len(shape) > 1:
        return normal * 1.5 / shape[-1] ** 0.5
    return draw(name, shape, generator)


def features_of(model, given):
    """Rows that stand in the place of soft tokens, and beside each what is added behind the first layers."""
    seen = model.get_image_features(**given)
    all_of = lambda rows: rows if torch.is_tensor(rows) else torch.cat(list(rows))  # noqa: E731
    stacked = getattr(seen, "deepstack_features", None) or []
    return torch.cat([all_of(rows) for rows in (seen.pooler_output, *stacked)], -1)


def fitted(made):
    """What a tower is given, how many rows come out of each picture, and its patches as height and width."""
    grids = made["image_grid_thw"]
    given = dict(pixel_values=made["pixel_values"], image_grid_thw=grids)
    return given, [int(grid.prod()) // 4 for grid in grids], grids[:, 1:].tolist()


def turned(model, ids, given):
    """Time, height and width of each token, and how far they end behind their number."""
    places, behind = model.model.get_rope_index(ids, (ids == model.config.image_token_id).int(), given["image_grid_thw"])
    return places[:, 0].int(), -int(behind)


def prompts_for(model, folder, random, sizes=SIZES, fitted=fitted, around="{}", turned=turned, features_of=features_of):
    """@param around what stands in a prompt for a picture, its soft tokens in the middle"""
    prepare = AutoImageProcessor.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    soft = tokenizer.convert_ids_to_tokens(model.config.image_token_id)

    def read(messages, pictures):
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        given, counts, grids = fitted(prepare(images=pictures, return_tensors="pt"))
        pieces = text.split(soft)
        whole = pieces[0] + "".join(around.format(soft * count) + piece for count, piece in zip(counts, pieces[1:]))
        ids = torch.tensor([tokenizer(whole, add_special_tokens=False)["input_ids"]])
        return ids, given, dict(grids=grids)

    def more(ids, given):
        if not turned:
            return {}, dict(behind=0)
        coordinates, behind = turned(model, ids, given)
        return dict(coordinates=coordinates), dict(behind=behind)

    return pictured.prompts_for(model, folder, sizes, random, read, features_of, tokenizer.decode, more)


def bring_texts(folder, special=SPECIAL, template=TEMPLATE, **names):
    pictured.bring_texts(folder, special, chat_template=template, **names)


def make_weights(config, seed, folder):
    pictured.make_weights(config, seed, folder, draw_part)


def make(name, folder):
    config, seed = MODELS[name], SEEDS.get(name, 1)
    make_weights(config, seed, folder)
    template, called = TEMPLATE, CALLED.get(name, {})
    for token, other in called.items():
        template = template.replace(token, other)
    bring_texts(folder, [called.get(token, token) for token in SPECIAL], template)
    write(folder, "preprocessor_config.json", image_of(config))
    model = pictured.opened(folder)
    tensors, notes = prompts_for(model, folder, np.random.default_rng(seed))
    pictured.close(folder, model, tensors, notes, config, RENAMED.get(name, {}))


def image_of(config):
    """How images are prepared, as the files of published models say it."""
    eye = config["vision_config"]
    own = dict(patch_size=eye["patch_size"], merge_size=2, temporal_patch_size=2)
    if config["model_type"].startswith("qwen2"):
        clip = dict(image_mean=[0.48145466, 0.4578275, 0.40821073], image_std=[0.26862954, 0.26130258, 0.27577711])
        return dict(image_processor_type="Qwen2VLImageProcessor", min_pixels=256, max_pixels=4096, **clip, **own)
    halves = dict(image_mean=[0.5] * 3, image_std=[0.5] * 3)
    size = dict(shortest_edge=256, longest_edge=4096)
    if config["model_type"] == "cohere_compass":
        return dict(image_processor_type="CohereCompassImageProcessor", size=size, **halves, **own)
    return dict(image_processor_type="Qwen2VLImageProcessorFast", size=size, **halves, **own)


if __name__ == "__main__":
    pictured.make_each(MODELS, make)
