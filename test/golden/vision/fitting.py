"""Makes small models of other kinds whose towers take images of any proportions, as qwen.py does: Gemma 4, GLM-4.1V and its kin.

    python fitting.py OUTPUT [NAME ...]
"""

import json

import numpy as np
import pictured
import qwen
import torch
from transformers.models.hunyuan_vl import modeling_hunyuan_vl
from transformers.models.muse_glimmer import modeling_muse_glimmer


def in_both_halves(self, angles):
    """
    As Hunyuan's makers, vLLM, mlx-vlm and llama.cpp have it: each half of a head in the same parts. transformers 5.24 lays these over the
    whole head, so that the elements of a pair turn by other coordinates.
    """
    parts = angles.split(self.mrope_section, dim=-1)
    return torch.cat([part[axis] for axis, part in enumerate(parts)] * 2, dim=-1)


modeling_hunyuan_vl.HunYuanVLRotaryEmbedding.recomposition_frequencies = in_both_halves

interpolated = modeling_muse_glimmer.get_vision_interpolation_indices_and_weights


def where_they_lie(turned, **how):
    """
    As vLLM and llama.cpp have it: a patch of Muse Glimmer has the position of where it lies. transformers 5.24 turns height and width around and
    leaves patches in their order, so that in images that are no squares each has that of another.
    """
    return interpolated(turned[:, [0, 2, 1]], **how)


modeling_muse_glimmer.get_vision_interpolation_indices_and_weights = where_they_lie

TEMPLATE = (
    "{% for message in messages %}<|turn>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for content in message['content'] %}"
    "{% if content['type'] == 'image' %}OPENINGSOFTCLOSING"
    "{% elif content['type'] == 'text' %}{{ content['text'] }}{% endif %}{% endfor %}{% endif %}<turn|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|turn>model\n{% endif %}"
)


class Gemma4:
    special = ["<|turn>", "<turn|>", "<|image>", "<image|>", "<|image|>", "<|video|>"]
    soft = "<|image|>"
    names = dict(boi_token="<|image>", eoi_token="<image|>", image_token="<|image|>")
    template = TEMPLATE.replace("OPENING", "").replace("SOFT", soft).replace("CLOSING", "")
    around = "<|image>{}<image|>"
    # In patches 40 x 6, then 12 x 22 and 16 x 16: 60 rows of a prompt, 66 and 64.
    sizes = [[(80, 11)], [(20, 38), (23, 22)]]
    turned = None

    @staticmethod
    def fitted(made):
        places = made["image_position_ids"]
        given = dict(pixel_values=made["pixel_values"], image_position_ids=places)
        grids = [[int(each[:, 1].max()) + 1, int(each[:, 0].max()) + 1] for each in places]
        return given, made["num_soft_tokens_per_image"].tolist(), grids

    @staticmethod
    def image(eye):
        return dict(
            image_processor_type="Gemma4ImageProcessor",
            do_normalize=False,
            image_mean=[0.0] * 3,
            image_std=[1.0] * 3,
            max_soft_tokens=70,
            patch_size=eye["patch_size"],
            pooling_kernel_size=eye["pooling_kernel_size"],
            resample=3,
        )

    @staticmethod
    def draw(name, shape, generator):
        normal = torch.randn(*shape, generator=generator)
        if "input_proj" in name:
            return normal * 1.2 / shape[-1] ** 0.5
        if "position_embedding_table" in name:
            return normal * 0.5
        if "embedding_projection" in name:
            return normal * 2 / shape[-1] ** 0.5
        if "vision_tower" in name and len(shape) > 1:
            return normal * 1.5 / shape[-1] ** 0.5
        return qwen.draw(name, shape, generator)

    @staticmethod
    def buffer(name, shape, generator):
        """What is stored and not trained: a layer's last factor, bounds, the usual value of what comes out, and one over its deviation."""
        uniform = torch.rand(shape, generator=generator)
        kind = name.rsplit(".", 1)[-1]
        if kind in ("input_min", "output_min"):
            return -0.6 - uniform
        if kind in ("input_max", "output_max"):
            return 0.5 + uniform
        if kind == "std_bias":
            return 4 * uniform - 2
        return 0.5 + uniform if kind in ("layer_scalar", "std_scale") else None


class Glm4v:
    special = ["<|user|>", "<|assistant|>", "<|begin_of_image|>", "<|end_of_image|>", "<|image|>", "<|video|>"]
    soft = "<|image|>"
    names = dict(image_token=soft)
    template = TEMPLATE.replace("OPENINGSOFTCLOSING", "<|begin_of_image|><|image|><|end_of_image|>").replace("<|turn>", "<|user|>")
    around = "{}"
    # In patches 10 x 6, then 4 x 12 and 6 x 6; and less than four pixels high, which is thought of as 12 x 4 pixels first.
    sizes = [[(41, 27)], [(20, 50), (23, 22)], [(21, 7)]]
    turned = staticmethod(qwen.turned)
    fitted = staticmethod(qwen.fitted)

    @staticmethod
    def image(eye):
        return dict(
            image_processor_type="Glm4vImageProcessor",
            image_mean=[0.48145466, 0.4578275, 0.40821073],
            image_std=[0.26862954, 0.26130258, 0.27577711],
            size=dict(shortest_edge=512, longest_edge=8192),
            patch_size=eye["patch_size"],
            merge_size=2,
            temporal_patch_size=2,
        )

    @staticmethod
    def draw(name, shape, generator):
        normal = torch.randn(*shape, generator=generator)
        if "patch_embed" in name or "downsample" in name:
            return normal * 1.5 / shape[1:].numel() ** 0.5 if len(shape) > 1 else normal * 0.3
        if "position_embedding" in name:
            return normal * 0.5
        if "visual" in name and len(shape) > 1:
            return normal * 1.7 / shape[-1] ** 0.5
        return qwen.draw(name, shape, generator)

    @staticmethod
    def buffer(name, shape, generator):
        return 0.1 * torch.randn(*shape, generator=generator) if "e_score" in name else None


class GlmOcr(Glm4v):
    @staticmethod
    def image(eye):
        return {**Glm4v.image(eye), "image_processor_type": "Glm46VImageProcessor"}


class PaddleOcr:
    special = ["<s>user", "</s>", "<|IMAGE_START|>", "<|IMAGE_END|>", "<|IMAGE_PLACEHOLDER|>", "<|video_pad|>"]
    soft = "<|IMAGE_PLACEHOLDER|>"
    names = dict(image_token=soft)
    template = TEMPLATE.replace("OPENINGSOFTCLOSING", "<|IMAGE_START|><|IMAGE_PLACEHOLDER|><|IMAGE_END|>").replace("<|turn>", "<s>").replace("<turn|>", "</s>")
    around = "{}"
    # In patches 10 x 6, then 4 x 12 and 6 x 6; and less than four pixels high, which is thought of as 24 x 8 pixels first.
    sizes = [[(41, 27)], [(20, 50), (23, 22)], [(21, 7)]]
    turned = staticmethod(qwen.turned)
    fitted = staticmethod(qwen.fitted)

    @staticmethod
    def image(eye):
        return dict(
            **dict(image_processor_type="PaddleOCRVLImageProcessor", image_mean=[0.5] * 3, image_std=[0.5] * 3),
            **dict(min_pixels=256, max_pixels=4096, patch_size=eye["patch_size"], merge_size=2, temporal_patch_size=1),
        )

    @staticmethod
    def draw(name, shape, generator):
        normal = torch.randn(*shape, generator=generator)
        if "patch_embedding" in name:
            return normal * 1.2 / shape[1:].numel() ** 0.5 if len(shape) > 1 else normal * 0.3
        if "position_embedding" in name:
            return normal * 0.5
        if ("visual" in name or "projector" in name) and len(shape) > 1:
            return normal * 1.7 / shape[-1] ** 0.5
        return qwen.draw(name, shape, generator)

    @staticmethod
    def buffer(name, shape, generator):
        return None


class Hunyuan:
    special = ["<｜hy_User｜>", "<｜hy_place▁holder▁no▁2｜>", *(f"<｜hy_place▁holder▁no▁{number}｜>" for number in (100, 101, 102, 103))]
    soft = special[4]
    names = dict(image_token=soft, image_start_token=special[2], image_end_token=special[3])
    template = TEMPLATE.replace("OPENINGSOFTCLOSING", special[2] + soft + special[3]).replace("<|turn>", special[0]).replace("<turn|>", special[1])
    around = "{}"
    # In patches 10 x 6, then 4 x 12 and 6 x 6: more and fewer than there are places.
    sizes = [[(41, 27)], [(20, 50), (23, 22)]]

    @staticmethod
    def turned(model, ids, given):
        """Of the number of its image, its line and its column; the first of four is a token's position."""
        places, behind = model.model.get_rope_index(ids, (ids == model.config.image_token_id).int(), given["image_grid_thw"])
        assert (places[0, 0] == torch.arange(ids.shape[1])).all()
        return places[[3, 2, 1], 0].int(), -int(behind)

    @staticmethod
    def fitted(made):
        given, _, grids = qwen.fitted(made)
        return given, [height // 2 * (width // 2 + 1) + 2 for height, width in grids], grids

    @staticmethod
    def image(eye):
        return dict(
            **dict(image_processor_type="HunYuanVLImageProcessor", min_pixels=256, max_pixels=4096, resample=1),
            **dict(patch_size=eye["patch_size"], merge_size=2, temporal_patch_size=1),
            **dict(image_mean=[0.48145466, 0.4578275, 0.40821073], image_std=[0.26862954, 0.26130258, 0.27577711]),
        )

    @staticmethod
    def draw(name, shape, generator):
        normal = torch.randn(*shape, generator=generator)
        if "patch_embedding" in name:
            return normal * 1.2 / shape[1:].numel() ** 0.5 if len(shape) > 1 else normal * 0.3
        if "position_embedding" in name or ".image_" in name:
            return normal * 0.5
        if ("vision_tower" in name) and len(shape) > 1:
            return normal * 1.7 / shape[1:].numel() ** 0.5
        return qwen.draw(name, shape, generator)

    @staticmethod
    def buffer(name, shape, generator):
        return None


class MuseGlimmer:
    special = ["<|turn>", "<turn|>", "<|image_start|>", "<|image_end|>", "<|patch|>", "<|video|>"]
    soft = "<|patch|>"
    names = {}
    template = TEMPLATE.replace("OPENINGSOFTCLOSING", soft)
    around = "<|image_start|>{}<|image_end|>"
    # In patches 8 x 12, then 14 x 6 and 6 x 6: neither is a number of whole windows.
    sizes = [[(41, 27)], [(20, 50), (23, 22)]]
    turned = None
    fitted = staticmethod(qwen.fitted)

    @staticmethod
    def features_of(model, given):
        """Before the norm, which is the text model's of its own rows, too."""
        whole = model.model
        norm, whole.perception_emb_norm = whole.perception_emb_norm, torch.nn.Identity()
        try:
            return qwen.features_of(model, given)
        finally:
            whole.perception_emb_norm = norm

    @staticmethod
    def image(eye):
        return dict(
            **dict(image_processor_type="MuseGlimmerImageProcessor", image_mean=[0.5] * 3, image_std=[0.5] * 3),
            **dict(patch_size=eye["patch_size"], merge_size=2, temporal_patch_size=2, max_image_tokens=64, resample=1),
        )

    @staticmethod
    def draw(name, shape, generator):
        normal = torch.randn(*shape, generator=generator)
        if "position_embedding" in name:
            return normal * 0.7
        if "vision" in name and len(shape) > 1:
            return normal * 1.7 / shape[-1] ** 0.5
        return qwen.draw(name, shape, generator)

    @staticmethod
    def buffer(name, shape, generator):
        return None


TEXT = {
    **{key: value for key, value in qwen.TEXT.items() if key not in ("hidden_act", "rope_theta")},
    "model_type": "gemma4_text",
    "hidden_size": 32,
    "intermediate_size": 36,
    "hidden_activation": "gelu_pytorch_tanh",
    "pad_token_id": 7,
    "vocab_size_per_layer_input": 336,
    "sliding_window": 40,
    "final_logit_softcapping": 14.0,
    "tie_word_embeddings": True,
    "rope_parameters": {
        "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1000000.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
    },
}
EYE = dict(
    model_type="gemma4_vision",
    hidden_size=32,
    intermediate_size=40,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=4,
    head_dim=8,
    hidden_activation="gelu_pytorch_tanh",
    rms_norm_eps=1e-6,
    patch_size=2,
    pooling_kernel_size=2,
    position_embedding_size=150,
    rope_parameters=dict(rope_type="axial", rope_theta=100.0),
)
GEMMA4 = {
    "architectures": ["Gemma4ForConditionalGeneration"],
    "model_type": "gemma4",
    "image_token_id": pictured.FIRST + 4,
    "video_token_id": pictured.FIRST + 5,
    "boi_token_id": pictured.FIRST + 2,
    "eoi_token_id": pictured.FIRST + 3,
    "audio_config": None,
    "tie_word_embeddings": True,
}
# The large ones see images both ways; the small ones give layers columns of the token's own, and cut off what matrices read and give.
MODELS = {
    "gemma4": {
        **GEMMA4,
        "text_config": {
            **TEXT,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 12,
            "global_head_dim": 24,
            "num_global_key_value_heads": 1,
            "attention_k_eq_v": True,
            # A layer behind the first that sees everything, so that it shows what rows of an image see there.
            "layer_types": ["sliding_attention", "full_attention", "full_attention"],
            "hidden_size_per_layer_input": 0,
            "use_bidirectional_attention": "vision",
        },
        # As many places as a processor with nothing said needs.
        "vision_config": {**EYE, "standardize": True, "use_clipped_linears": False, "position_embedding_size": 560},
    },
    "gemma4-layer-inputs": {
        **GEMMA4,
        "text_config": {
            **TEXT,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "num_key_value_heads": 1,
            "head_dim": 10,
            "global_head_dim": 16,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"],
            "hidden_size_per_layer_input": 6,
            "num_kv_shared_layers": 2,
            "use_double_wide_mlp": True,
        },
        "vision_config": {**EYE, "standardize": False, "use_clipped_linears": True},
    },
}
GLM_EYE = dict(
    model_type="glm4v",
    depth=2,
    hidden_size=32,
    num_heads=4,
    image_size=20,
    patch_size=4,
    out_hidden_size=40,
    intermediate_size=48,
    hidden_act="silu",
    attention_bias=False,
    rms_norm_eps=1e-5,
    in_channels=3,
    spatial_merge_size=2,
    temporal_patch_size=2,
)
GLM = {
    "architectures": ["Glm4vForConditionalGeneration"],
    "model_type": "glm4v",
    "image_token_id": pictured.FIRST + 4,
    "video_token_id": pictured.FIRST + 5,
    "image_start_token_id": pictured.FIRST + 2,
    "image_end_token_id": pictured.FIRST + 3,
    "tie_word_embeddings": False,
}
GLM_TEXT = {
    "vocab_size": 336,
    "bos_token_id": None,
    "eos_token_id": [pictured.FIRST + 1],
    "tie_word_embeddings": False,
    "rope_theta": 10000.0,
    "rope_scaling": {"rope_type": "default", "mrope_section": [1, 1, 1]},
    "partial_rotary_factor": 0.5,
}
MODELS |= {
    "glm4v": {
        **GLM,
        "text_config": {
            **json.loads((pictured.GOLDEN / "models/glm4/config.json").read_text()),
            **GLM_TEXT,
            "model_type": "glm4v_text",
            "hidden_size": 48,
        },
        "vision_config": {**GLM_EYE, "out_hidden_size": 48},
    },
    "glm4v-moe": {
        **GLM,
        "architectures": ["Glm4vMoeForConditionalGeneration"],
        "model_type": "glm4v_moe",
        "text_config": {
            **{key: value for key, value in json.loads((pictured.GOLDEN / "models/glm4-moe/config.json").read_text()).items() if key != "use_qk_norm"},
            **GLM_TEXT,
            "model_type": "glm4v_moe_text",
        },
        "vision_config": {**GLM_EYE, "model_type": "glm4v_moe_vision", "out_hidden_size": 32},
    },
}
MODELS |= {
    "glm-ocr": {
        **GLM,
        "architectures": ["GlmOcrForConditionalGeneration"],
        "model_type": "glm_ocr",
        "text_config": {
            **json.loads((pictured.GOLDEN / "models/glm4/config.json").read_text()),
            **GLM_TEXT,
            "model_type": "glm_ocr_text",
            "hidden_size": 40,
            "head_dim": 12,
            "rope_scaling": {"rope_type": "default", "mrope_section": [1, 2, 3]},
            "partial_rotary_factor": 1.0,
            "attention_bias": False,
        },
        "vision_config": {**GLM_EYE, "model_type": "glm_ocr_vision", "attention_bias": True},
    },
    # As published: the text model's fields stand outside.
    "paddleocr-vl": {
        **{key: value for key, value in qwen.TEXT.items() if key != "rope_theta"},
        "architectures": ["PaddleOCRVLForConditionalGeneration"],
        "model_type": "paddleocr_vl",
        "image_token_id": pictured.FIRST + 4,
        "video_token_id": pictured.FIRST + 5,
        "vision_start_token_id": pictured.FIRST + 2,
        "vision_end_token_id": pictured.FIRST + 3,
        "hidden_size": 40,
        "head_dim": 12,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0,
        "rope_scaling": {"rope_type": "default", "type": "default", "mrope_section": [1, 2, 3]},
        "use_bias": False,
        "tie_word_embeddings": True,
        "vision_config": dict(
            **dict(model_type="paddleocr_vl", hidden_size=32, intermediate_size=44, num_hidden_layers=2, num_attention_heads=4),
            **dict(image_size=20, patch_size=4, hidden_act="gelu_pytorch_tanh", layer_norm_eps=1e-6, spatial_merge_size=2),
        ),
    },
}
MODELS |= {
    # As published: the text model's fields stand outside.
    "hunyuan-ocr": {
        **{key: value for key, value in qwen.TEXT.items() if key != "rope_theta"},
        "architectures": ["HunYuanVLForConditionalGeneration"],
        "model_type": "hunyuan_vl",
        "image_token_id": pictured.FIRST + 4,
        "im_start_id": pictured.FIRST + 2,
        "im_end_id": pictured.FIRST + 3,
        "im_newline_id": pictured.FIRST + 5,
        "eod_token_id": pictured.FIRST + 1,
        "hidden_size": 40,
        "head_dim": 16,
        "attention_head_dim": 16,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "rope_scaling": dict(
            **dict(type="xdrope", xdrope_section=[2, 3, 2, 1], alpha=3.0, beta_fast=32, beta_slow=1),
            **dict(factor=1.0, mscale=1.0, mscale_all_dim=1.0),
        ),
        "use_qk_norm": True,
        "tie_word_embeddings": True,
        "vision_config": dict(
            **dict(hidden_size=32, intermediate_size=44, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=None),
            **dict(patch_size=4, max_image_size=32, spatial_merge_size=2, hidden_act="gelu", rms_norm_eps=1e-5),
            **dict(interpolate_mode="bilinear", text_hidden_size=40, out_hidden_size=40),
        ),
    },
}
MODELS["muse-glimmer"] = {
    "architectures": ["MuseGlimmerForConditionalGeneration"],
    "model_type": "muse_glimmer",
    "image_token_id": pictured.FIRST + 4,
    "video_token_id": pictured.FIRST + 5,
    "out_hidden_size": 128,
    "projector_hidden_size": 40,
    "tie_word_embeddings": False,
    "text_config": {
        **json.loads((pictured.GOLDEN / "models/muse-glimmer/config.json").read_text())["text_config"],
        **dict(vocab_size=336, bos_token_id=None, eos_token_id=pictured.FIRST + 1, num_hidden_layers=2),
        **dict(layer_types=["sliding_attention", "full_attention"], layer_rope_theta=[10000.0, 0]),
    },
    "vision_config": dict(
        **dict(model_type="muse_glimmer_vision", hidden_size=32, intermediate_size=44, num_hidden_layers=2, num_attention_heads=4),
        **dict(patch_size=4, patch_temporal=2, merge_size=2, pos_emb_height=4, pos_emb_width=4),
    ),
}
KINDS = {"muse_glimmer": MuseGlimmer, "hunyuan_vl": Hunyuan, "gemma4": Gemma4, "glm4v": Glm4v, "glm4v_moe": Glm4v, "glm_ocr": GlmOcr, "paddleocr_vl": PaddleOcr}
RENAMED = {"paddleocr_vl": {"model.visual.": "visual.", "model.projector.": "mlp_AR.", "model.language_model.": "model."}}


def make(name, folder, seed=1):
    config = MODELS[name]
    kind = KINDS[config["model_type"]]
    pictured.make_weights(config, seed, folder, kind.draw, kind.buffer)
    qwen.bring_texts(folder, kind.special, kind.template, **kind.names)
    pictured.write(folder, "preprocessor_config.json", kind.image(config["vision_config"]))
    model = pictured.opened(folder)
    how = dict(sizes=kind.sizes, fitted=kind.fitted, around=kind.around, turned=kind.turned)
    how |= dict(features_of=kind.features_of) if hasattr(kind, "features_of") else {}
    tensors, notes = qwen.prompts_for(model, folder, np.random.default_rng(seed), **how)
    pictured.close(folder, model, tensors, notes, config, RENAMED.get(config["model_type"], {}))


if __name__ == "__main__":
    pictured.make_each(MODELS, make)
