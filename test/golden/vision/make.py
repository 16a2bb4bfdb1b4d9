"""Makes small models that see with transformers: random weights, pixels, what their towers make of them, prompts, logits, greedy tokens.

    python make.py OUTPUT [NAME ...]

Everything is computed in float64, also what the model's own code does in float32. Prompts are drawn until the best logit leads by
0.05 on the whole greedy path, eight tokens of it differ, and other pixels make other tokens of it.
"""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import torch
import transformers
from PIL import Image
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForImageTextToText, AutoProcessor
from transformers.models.smolvlm import processing_smolvlm

GOLDEN = Path(__file__).parent.parent
sys.path.insert(0, str(GOLDEN / "models"))
from make import COMMON, DISTINCT, GREEDY, MARGIN, Float64, draw  # noqa: E402

TILES = (1, 2)  # of each prompt
REPLY = 16  # tokens of the reply to a question

LLAMA = {**COMMON, "model_type": "llama", "rms_norm_eps": 1e-5, "tie_word_embeddings": False}
EYE = dict(hidden_size=48, intermediate_size=56, num_hidden_layers=3, num_attention_heads=4, num_channels=3)
SIGLIP = {
    **EYE,
    "model_type": "siglip_vision_model",
    "hidden_act": "gelu_pytorch_tanh",
    "layer_norm_eps": 1e-6,
    "vision_use_head": False,
}
CLIP = {
    **EYE,
    "model_type": "clip_vision_model",
    "image_size": 20,
    "patch_size": 5,
    "hidden_act": "quick_gelu",
    "layer_norm_eps": 1e-5,
    "projection_dim": 32,
}
COHERE2 = {
    **{key: value for key, value in COMMON.items() if key != "rms_norm_eps"},
    "model_type": "cohere2",
    "layer_norm_eps": 1e-5,
    "logit_scale": 0.5,
    "sliding_window": 24,
    "layer_types": ["sliding_attention", "full_attention"],
}
IDEFICS3 = {
    "architectures": ["Idefics3ForConditionalGeneration"],
    "model_type": "idefics3",
    "image_token_id": 319,
    "scale_factor": 2,
    "tie_word_embeddings": False,
    "text_config": {**LLAMA, "num_hidden_layers": 1},
    "vision_config": {
        **EYE,
        "num_hidden_layers": 2,
        "model_type": "idefics3_vision",
        "image_size": 28,
        "patch_size": 7,
        "hidden_act": "gelu_pytorch_tanh",
        "layer_norm_eps": 1e-6,
    },
}
LLAVA = {
    "architectures": ["LlavaForConditionalGeneration"],
    "model_type": "llava",
    "image_token_index": 319,
    "projector_hidden_act": "gelu",
    "tie_word_embeddings": False,
    "text_config": LLAMA,
}
INTERNVL = {
    "architectures": ["InternVLForConditionalGeneration"],
    "model_type": "internvl",
    "image_token_id": 319,
    "image_seq_length": 4,
    "downsample_ratio": 0.5,
    "projector_hidden_act": "gelu",
    "vision_feature_layer": -1,
    "vision_feature_select_strategy": "default",
    "tie_word_embeddings": True,
    "text_config": {**COMMON, "model_type": "qwen2", "sliding_window": None},
    "vision_config": {
        **EYE,
        "model_type": "internvl_vision",
        "image_size": [24, 24],
        "patch_size": [6, 6],
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-6,
        "norm_type": "layer_norm",
        "attention_bias": True,
        "use_qk_norm": False,
        "use_mean_pooling": True,
        "layer_scale_init_value": 0.1,
    },
}
MODELS = {
    "smolvlm": {
        **IDEFICS3,
        "architectures": ["SmolVLMForConditionalGeneration"],
        "model_type": "smolvlm",
        "image_token_id": 320,
        "scale_factor": 3,
        "text_config": {**LLAMA, "vocab_size": 336},
        "vision_config": {
            **IDEFICS3["vision_config"],
            "model_type": "smolvlm_vision",
            "image_size": 24,
            "patch_size": 4,
        },
    },
    "idefics3": IDEFICS3,
    "llava-clip": {
        **LLAVA,
        "vision_feature_layer": -2,
        "vision_feature_select_strategy": "default",
        "vision_config": CLIP,
    },
    "llava-siglip": {
        **LLAVA,
        "multimodal_projector_bias": False,
        "vision_feature_layer": -1,
        "vision_feature_select_strategy": "full",
        "text_config": {**COMMON, "model_type": "qwen2", "sliding_window": None, "tie_word_embeddings": False},
        "vision_config": {**SIGLIP, "image_size": 21, "patch_size": 7},
    },
    "vipllava": {
        **LLAVA,
        "architectures": ["VipLlavaForConditionalGeneration"],
        "model_type": "vipllava",
        "vision_feature_layer": [-2, 1],
        "projector_layernorm_eps": 1e-5,
        "vision_config": CLIP,
    },
    "aya-vision": {
        "architectures": ["AyaVisionForConditionalGeneration"],
        "model_type": "aya_vision",
        "image_token_index": 319,
        "downsample_factor": 2,
        "adapter_layer_norm_eps": 1e-6,
        "alignment_intermediate_size": 64,
        "vision_feature_layer": -1,
        "vision_feature_select_strategy": "full",
        "tie_word_embeddings": True,
        "text_config": COHERE2,
        "vision_config": {**SIGLIP, "patch_size": 6, "image_size": 24},
    },
    "cohere2-vision": {
        "architectures": ["Cohere2VisionForConditionalGeneration"],
        "model_type": "cohere2_vision",
        "image_token_id": 319,
        "downsample_factor": 2,
        "alignment_intermediate_size": 64,
        "tie_word_embeddings": True,
        "text_config": COHERE2,
        "vision_config": {**SIGLIP, "patch_size": 6, "image_size": 24},
    },
    "deepseek-vl": {
        "architectures": ["DeepseekVLForConditionalGeneration"],
        "model_type": "deepseek_vl",
        "image_token_id": 319,
        "tie_word_embeddings": False,
        "text_config": LLAMA,
        "vision_config": {**SIGLIP, "patch_size": 6, "image_size": 24},
    },
    "internvl": INTERNVL,
    "internvl-rms": {
        **INTERNVL,
        "vision_config": {
            **INTERNVL["vision_config"],
            "norm_type": "rms_norm",
            "attention_bias": False,
            "use_qk_norm": True,
        },
    },
    "gemma3": {
        "architectures": ["Gemma3ForConditionalGeneration"],
        "model_type": "gemma3",
        "image_token_index": 319,
        "boi_token_index": 315,
        "eoi_token_index": 316,
        "mm_tokens_per_image": 4,
        "tie_word_embeddings": True,
        "text_config": {
            **{key: value for key, value in COMMON.items() if key != "hidden_act"},
            "model_type": "gemma3_text",
            "head_dim": 12,
            "hidden_activation": "gelu_pytorch_tanh",
            "query_pre_attn_scalar": 12,
            "sliding_window": 24,
            "layer_types": ["sliding_attention", "full_attention"],
        },
        "vision_config": {**SIGLIP, "image_size": 24, "patch_size": 4},
    },
}
FLOATS = {"idefics3": torch.float32, "llava-clip": torch.float16}  # the others: bf16
# As models were published: their tower has a class of its own inside. And as transformers 5 has them in memory.
PUBLISHED = {"vision_tower.": "vision_tower.vision_model."}
RENAMED = {
    "llava-clip": PUBLISHED,
    "gemma3": PUBLISHED,
    "internvl-rms": {
        "language_model.model.": "model.language_model.",
        "vision_tower.": "model.vision_tower.",
        "multi_modal_projector.": "model.multi_modal_projector.",
    },
}
SPECIAL = [
    "<image>",
    "<fake_token_around_image>",
    "<global-img>",
    *(f"<row_{row}_col_{column}>" for row in (1, 2) for column in (1, 2)),
    "<|im_start|>",
    "<end_of_utterance>",
]
TEMPLATE = (
    "<|im_start|>{% for message in messages %}{{message['role'] | capitalize}}"
    "{% if message['content'][0]['type'] == 'image' %}{{':'}}{% else %}{{': '}}{% endif %}"
    "{% for line in message['content'] %}{% if line['type'] == 'text' %}{{line['text']}}"
    "{% elif line['type'] == 'image' %}{{ '<image>' }}{% endif %}{% endfor %}<end_of_utterance>\n"
    "{% endfor %}{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"
)


def draw_part(name, shape, generator):
    """Weights of a tower that mix enough for every part to show; else as of any model."""
    normal = torch.randn(*shape, generator=generator)
    if "patch_embedding" in name:
        return normal * 1.2 / shape[1:].numel() ** 0.5 if len(shape) == 4 else normal * 0.3
    if "position_embedding" in name or "cls_token" in name or "class_embedding" in name:
        return normal * 0.5
    if "lambda" in name:
        return 0.8 + 0.3 * normal
    if ("multi_modal_projector" in name or "aligner" in name) and "norm" not in name and len(shape) > 1:
        return normal * 2 / 48**0.5
    return draw(name, shape, generator)


def make_weights(config, seed, folder, dtype):
    """A model whose logits have a standard deviation of 3."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    given = {k: v for k, v in config.items() if k not in ("model_type", "architectures")}
    own = AutoConfig.for_model(config["model_type"], **given)
    own._attn_implementation = "eager"
    model = AutoModelForImageTextToText.from_config(own)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.copy_(draw_part(name, weight.shape, generator).to(dtype).float())
        ids = torch.randint(3, 310, (1, 60), generator=generator)
        deviation = model(input_ids=ids, use_cache=False).logits[0].std().item()
        norm = getattr(model.model, "language_model", getattr(model.model, "text_model", None)).norm
        norm.weight.copy_((norm.weight * 3 / deviation).to(dtype).float())
    model.to(dtype).save_pretrained(folder)


def logits_of(model, ids, pixels):
    isolated = model.config.model_type in ("smolvlm", "idefics3")
    soft = ids == model.config.image_token_id
    kinds = {"token_type_ids": soft.long()} if model.config.model_type == "gemma3" else {}
    logits = model(input_ids=ids, pixel_values=pixels[None] if isolated else pixels, use_cache=False, **kinds).logits[0]
    assert logits.dtype == torch.float64
    return logits


def features_of(model, pixels):
    isolated = model.config.model_type in ("smolvlm", "idefics3")
    features = model.model.get_image_features(pixel_values=pixels[None] if isolated else pixels).pooler_output
    features = torch.cat(list(features)) if isinstance(features, (list, tuple)) else features
    return features.reshape(-1, features.shape[-1])


def greedy_of(model, ids, pixels, most=GREEDY):
    tokens, leads = [], []
    while len(tokens) < most:
        (best, second), (token, _) = (each.tolist() for each in logits_of(model, ids, pixels)[-1].topk(2))
        leads.append(best - second)
        if leads[-1] < MARGIN or token == model.config.image_token_id:
            break
        tokens.append(token)
        ids = torch.cat([ids, torch.tensor([[token]])], 1)
    return tokens, leads


def prompt_of(model, tiles, rows, random):
    """Some ids, the soft tokens of each tile between them."""
    ids = list(random.integers(3, 310, 5))
    for _ in range(tiles):
        ids += [model.config.image_token_id] * (rows // tiles) + list(random.integers(3, 310, 4))
    return torch.tensor([ids])


def prompts_for(model, side, random):
    tensors, notes = {}, []
    with torch.no_grad():
        for number, tiles in enumerate(TILES):
            tokens = []
            while len(tokens) < GREEDY or len(set(tokens)) < DISTINCT or not seen:
                pixels = torch.tensor(random.standard_normal((tiles, 3, side, side)).clip(-2, 2).astype(np.float32))
                inexact = features_of(model.float(), pixels)
                with Float64():
                    model.double()
                    features = features_of(model, pixels.double())
                    assert (features - inexact).abs().max() < 1e-3
                    ids = prompt_of(model, tiles, len(features), random)
                    tokens, leads = greedy_of(model, ids, pixels.double())
                    seen = tokens[:8] != greedy_of(model, ids, -pixels.double(), 8)[0]
            with Float64():
                logits = logits_of(model, ids, pixels.double())[-2:].numpy().astype(np.float32)
            tensors[f"pixels.{number}"] = pixels
            tensors[f"features.{number}"] = features.float()
            tensors[f"prompt.{number}"] = ids[0].int()
            tensors[f"logits.{number}"] = torch.from_numpy(logits)
            tensors[f"greedy.{number}"] = torch.tensor(tokens).int()
            length = ids.shape[1]
            notes.append(
                dict(
                    tiles=tiles,
                    length=length,
                    first_row=length - 2,
                    rows=2,
                    least_margin=round(min(leads), 4),
                    distinct_greedy=len(set(tokens)),
                )
            )
    return tensors, notes


def make(name, output, seed=1):
    folder = output / name
    folder.mkdir(parents=True)
    config, dtype = MODELS[name], FLOATS.get(name, torch.bfloat16)
    make_weights(config, seed, folder, dtype)
    model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval().double()
    size = config["vision_config"]["image_size"]
    tensors, notes = prompts_for(model, size if isinstance(size, int) else size[0], np.random.default_rng(seed))
    save_file(tensors, folder / "golden.safetensors")
    golden = dict(
        oracle=f"{type(model).__name__} of transformers, eager attention, float64 throughout",
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
    rename(weights, RENAMED.get(name, {}))
    published = {**config, "torch_dtype": str(dtype).removeprefix("torch.")}
    (folder / "config.json").write_text(json.dumps(published, indent=1))
    bring_texts(name, folder, config)
    if name == "smolvlm":
        answer(model, folder, np.random.default_rng(seed))


def answer(model, folder, random):
    """A question about a picture of 54 colours, and the reply: by the processor, from the folder's files."""
    processing_smolvlm.num2words = str  # which writes numbers of a video's frames
    processor = AutoProcessor.from_pretrained(folder)
    question = "What is this?"
    messages = [dict(role="user", content=[dict(type="image"), dict(type="text", text=question)])]
    prompt = processor.apply_chat_template(messages, add_generation_prompt=True)
    tokens = []
    while len(tokens) < REPLY or max(tokens) >= 314:
        colours = random.integers(0, 256, (6, 9, 3)).astype(np.uint8)
        image = Image.fromarray(colours.repeat(10, 0).repeat(10, 1))
        given = processor(text=prompt, images=[image], return_tensors="pt")
        with Float64(), torch.no_grad():
            tokens, leads = greedy_of(model, given["input_ids"], given["pixel_values"][0].double(), REPLY)
    image.save(folder / "image.png")
    reply = dict(
        question=question,
        image="image.png",
        prompt=given["input_ids"][0].tolist(),
        reply=tokens,
        text=processor.decode(tokens),
        least_margin=round(min(leads), 4),
    )
    (folder / "reply.json").write_text(json.dumps(reply, indent=1))


def rename(weights, prefixes):
    tensors = load_file(weights)
    for old, new in prefixes.items():
        tensors = {name.replace(old, new) if name.startswith(old) else name: tensor for name, tensor in tensors.items()}
    save_file(tensors, weights, metadata={"format": "pt"})


def bring_texts(name, folder, config):
    """The tokenizer of other golden models; of SmolVLM with the tokens of its processor, whose files it gets, too."""
    for file in ("generation_config.json", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(GOLDEN / "models/granitemoe" / file, folder)
    if name != "smolvlm":
        return
    eye = config["vision_config"]
    longest = eye["image_size"]
    added = [
        dict(id=320 + i, content=token, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
        for i, token in enumerate(SPECIAL)
    ]
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    tokenizer["added_tokens"] += added
    tokenizer["post_processor"] = tokenizer["post_processor"]["processors"][0]  # no token at the beginning
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer, indent=1, ensure_ascii=False))
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    for token in added:
        settings["added_tokens_decoder"][str(token["id"])] = {key: value for key, value in token.items() if key != "id"}
    del settings["chat_template"]
    settings |= dict(
        bos_token="<|im_start|>",
        eos_token="<end_of_utterance>",
        image_token="<image>",
        fake_image_token="<fake_token_around_image>",
        global_image_token="<global-img>",
        end_of_utterance_token="<end_of_utterance>",
        processor_class="SmolVLMProcessor",
    )
    write = lambda file, what: (folder / file).write_text(json.dumps(what, indent=1, ensure_ascii=False))  # noqa: E731
    write("tokenizer_config.json", settings)
    write("chat_template.json", dict(chat_template=TEMPLATE))
    write("generation_config.json", dict(bos_token_id=327, eos_token_id=328, pad_token_id=318))
    soft = (longest // eye["patch_size"] // config["scale_factor"]) ** 2
    write("processor_config.json", dict(image_seq_len=soft, processor_class="SmolVLMProcessor"))
    write(
        "preprocessor_config.json",
        dict(
            do_convert_rgb=True,
            do_image_splitting=True,
            do_normalize=True,
            do_pad=True,
            do_rescale=True,
            do_resize=True,
            image_mean=[0.5, 0.5, 0.5],
            image_processor_type="SmolVLMImageProcessor",
            image_std=[0.5, 0.5, 0.5],
            max_image_size=dict(longest_edge=longest),
            processor_class="SmolVLMProcessor",
            resample=1,
            rescale_factor=0.00392156862745098,
            size=dict(longest_edge=2 * longest),
        ),
    )


if __name__ == "__main__":
    output, *names = sys.argv[1:]
    torch.set_num_threads(1)
    for name in names or MODELS:
        make(name, Path(output))
