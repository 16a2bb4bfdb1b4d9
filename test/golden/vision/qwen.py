"""Makes small models of Qwen that see with transformers: random weights, pictures, what their towers make of them, prompts, logits, greedy tokens.

    python qwen.py OUTPUT [NAME ...]

Everything is computed in float64, also what the model's own code does in float32. Pictures are drawn until the best logit leads by
0.05 on the whole greedy path, eight tokens of it differ and none is special, and other pictures make other tokens of it.
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
from transformers import AutoConfig, AutoImageProcessor, AutoModelForImageTextToText, AutoTokenizer

GOLDEN = Path(__file__).parent.parent
sys.path.insert(0, str(GOLDEN / "models"))
from make import COMMON, DISTINCT, GREEDY, MARGIN, Float64, draw  # noqa: E402

# Sizes in pixels of each prompt's pictures, in patches 10 x 6, then 4 x 12 and 6 x 6: neither is a number of whole windows.
SIZES = [[(41, 27)], [(20, 50), (23, 22)]]
SPECIAL = ["<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
FIRST = 320
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


def make_weights(config, seed, folder, draw_part):
    """A model in bf16, whose logits have a standard deviation of 3."""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    given = {k: v for k, v in config.items() if k not in ("model_type", "architectures")}
    own = AutoConfig.for_model(config["model_type"], **json.loads(json.dumps(given)))
    own._attn_implementation = "eager"
    model = AutoModelForImageTextToText.from_config(own, experts_implementation="eager")
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.copy_(draw_part(name, weight.shape, generator).bfloat16().float())
        ids = torch.randint(3, 310, (1, 60), generator=generator)
        deviation = model(input_ids=ids, use_cache=False).logits[0].std().item()
        text = model.model.language_model
        norm = getattr(text, "norm", None) or text.embedding_norm
        plus = 1 if config["model_type"] == "qwen3_5" else 0
        norm.weight.copy_(((norm.weight + plus) * 3 / deviation - plus).bfloat16().float())
    model.bfloat16().save_pretrained(folder)


def logits_of(model, ids, given):
    kinds = (ids == model.config.image_token_id).int()
    logits = model(input_ids=ids, mm_token_type_ids=kinds, use_cache=False, **given).logits[0]
    assert logits.dtype == torch.float64
    return logits


def features_of(model, given):
    """Rows that stand in the place of soft tokens, and beside each what is added behind the first layers."""
    seen = model.get_image_features(**given)
    all_of = lambda rows: rows if torch.is_tensor(rows) else torch.cat(list(rows))  # noqa: E731
    stacked = getattr(seen, "deepstack_features", None) or []
    return torch.cat([all_of(rows) for rows in (seen.pooler_output, *stacked)], -1)


def greedy_of(model, ids, given, most=GREEDY):
    tokens, leads = [], []
    while len(tokens) < most:
        (best, second), (token, _) = (each.tolist() for each in logits_of(model, ids, given)[-1].topk(2))
        leads.append(best - second)
        if leads[-1] < MARGIN or token >= 314:
            break
        tokens.append(token)
        ids = torch.cat([ids, torch.tensor([[token]])], 1)
    return tokens, leads


def picture(size, random):
    width, height = size
    colours = random.integers(0, 256, (height // 5 + 1, width // 5 + 1, 3)).astype(np.uint8)
    return Image.fromarray(colours.repeat(5, 0).repeat(5, 1)[:height, :width])


def message_of(count):
    """Pictures with texts about them."""
    texts = ["What is this?", " And this?"]
    return [part for i in range(count) for part in ("image", texts[i])]


def fitted(made):
    """What a tower is given, how many rows come out of each picture, and its patches as height and width."""
    grids = made["image_grid_thw"]
    given = dict(pixel_values=made["pixel_values"], image_grid_thw=grids)
    return given, [int(grid.prod()) // 4 for grid in grids], grids[:, 1:].tolist()


def turned(model, ids, given):
    """Time, height and width of each token, and how far they end behind their number."""
    places, behind = model.model.get_rope_index(ids, (ids == model.config.image_token_id).int(), given["image_grid_thw"])
    return places[:, 0].int(), -int(behind)


def prompts_for(model, folder, random, sizes_of=SIZES, fitted=fitted, around="{}", turned=turned):
    """@param around what stands in a prompt for a picture, its soft tokens in the middle"""
    prepare = AutoImageProcessor.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    soft = tokenizer.convert_ids_to_tokens(model.config.image_token_id)
    tensors, notes = {}, []
    for number, sizes in enumerate(sizes_of):
        parts = message_of(len(sizes))
        content = [dict(type="image") if part == "image" else dict(type="text", text=part) for part in parts]
        text = tokenizer.apply_chat_template([dict(role="user", content=content)], tokenize=False, add_generation_prompt=True)
        tokens = []
        while len(tokens) < GREEDY or len(set(tokens)) < DISTINCT or not seen:
            pictures = [picture(size, random) for size in sizes]
            made = prepare(images=pictures, return_tensors="pt")
            given, counts, grids = fitted(made)
            pieces = text.split(soft)
            whole = pieces[0] + "".join(around.format(soft * count) + piece for count, piece in zip(counts, pieces[1:]))
            ids = torch.tensor([tokenizer(whole, add_special_tokens=False)["input_ids"]])
            with torch.no_grad():
                inexact = features_of(model.float(), given)
                with Float64():
                    model.double()
                    given["pixel_values"] = given["pixel_values"].double()
                    features = features_of(model, given)
                    assert (features - inexact).abs().max() < 1e-3
                    tokens, leads = greedy_of(model, ids, given)
                    negative = {**given, "pixel_values": -given["pixel_values"]}
                    seen = tokens[:8] != greedy_of(model, ids, negative, 8)[0]
        with Float64(), torch.no_grad():
            logits = logits_of(model, ids, given)[-2:].numpy().astype(np.float32)
        names = [f"{number}-{i}.png" for i in range(len(pictures))]
        for name, each in zip(names, pictures):
            each.save(folder / name)
        tensors[f"features.{number}"] = features.float()
        tensors[f"prompt.{number}"] = ids[0].int()
        tensors[f"logits.{number}"] = torch.from_numpy(logits)
        tensors[f"greedy.{number}"] = torch.tensor(tokens).int()
        behind = 0
        if turned:
            tensors[f"coordinates.{number}"], behind = turned(model, ids, given)
        notes.append(
            dict(
                pictures=names,
                grids=grids,
                parts=parts,
                length=ids.shape[1],
                behind=behind,
                text=tokenizer.decode(tokens),
                least_margin=round(min(leads), 4),
                distinct_greedy=len(set(tokens)),
            )
        )
    return tensors, notes


def make(name, output, seed=1):
    folder = output / name
    folder.mkdir(parents=True)
    config = MODELS[name]
    make_weights(config, seed, folder, draw_part)
    bring_texts(folder)
    write(folder, "preprocessor_config.json", image_of(config))
    eager = dict(attn_implementation="eager", experts_implementation="eager")
    model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float64, **eager).eval().double()
    tensors, notes = prompts_for(model, folder, np.random.default_rng(seed))
    save_file(tensors, folder / "golden.safetensors")
    close(folder, model, notes, config, RENAMED.get(name, {}))


def close(folder, model, notes, config, renamed):
    """@param renamed how names of tensors begin, here and where such models are published"""
    write(folder, "golden.json", golden_of(model, notes))
    tensors = load_file(folder / "model.safetensors")
    for old, new in renamed.items():
        tensors = {key.replace(old, new) if key.startswith(old) else key: tensor for key, tensor in tensors.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    write(folder, "config.json", {**config, "torch_dtype": "bfloat16"})


def golden_of(model, notes):
    return dict(
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


def write(folder, file, what):
    (folder / file).write_text(json.dumps(what, indent=1, ensure_ascii=False))


def bring_texts(folder, special=SPECIAL, template=TEMPLATE, names={}):
    """The tokenizer of other golden models with tokens of its own, the second of which ends a turn."""
    tokenizer = json.loads((GOLDEN / "models/granitemoe/tokenizer.json").read_text())
    settings = json.loads((GOLDEN / "models/granitemoe/tokenizer_config.json").read_text())
    for i, content in enumerate(special):
        token = dict(content=content, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
        tokenizer["added_tokens"].append(dict(id=FIRST + i, **token))
        settings["added_tokens_decoder"][str(FIRST + i)] = token
    tokenizer["post_processor"] = tokenizer["post_processor"]["processors"][0]  # no token at the beginning
    settings |= dict(bos_token=None, eos_token=special[1], chat_template=template, **names)
    write(folder, "tokenizer.json", tokenizer)
    write(folder, "tokenizer_config.json", settings)
    write(folder, "generation_config.json", dict(eos_token_id=FIRST + 1, pad_token_id=318))


def image_of(config):
    """How images are prepared, as the files of published models say it."""
    eye = config["vision_config"]
    own = dict(patch_size=eye["patch_size"], merge_size=2, temporal_patch_size=2)
    if config["model_type"].startswith("qwen2"):
        clip = dict(image_mean=[0.48145466, 0.4578275, 0.40821073], image_std=[0.26862954, 0.26130258, 0.27577711])
        return dict(image_processor_type="Qwen2VLImageProcessor", min_pixels=256, max_pixels=4096, **clip, **own)
    halves = dict(image_mean=[0.5] * 3, image_std=[0.5] * 3)
    size = dict(shortest_edge=256, longest_edge=4096)
    return dict(image_processor_type="Qwen2VLImageProcessorFast", size=size, **halves, **own)


if __name__ == "__main__":
    output, *names = sys.argv[1:]
    torch.set_num_threads(1)
    for name in names or MODELS:
        shutil.rmtree(Path(output) / name, ignore_errors=True)
        make(name, Path(output))
