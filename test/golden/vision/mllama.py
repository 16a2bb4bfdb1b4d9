"""Makes a small Llama 3.2 Vision with transformers, as pictures.py makes others: complete with tokenizer, template and processor.

    python mllama.py OUTPUT

In two things transformers 5.24 differs from Meta's own code (models/llama3/multimodal/model.py of llama-models), and so from how the model
was trained; both are known there, and are put right here:

- Rows of the first tower that stand beside those of the second are what the listed layers read, and not what they give (its pull request
  39785; its own versions before 4.54 had it so).
- Of a token that sees no image, layers that attend to images leave out what attention gives, too (its issue 39379). Where the image comes
  first, as in the first two prompts, there is no such token.
"""

import json

import numpy as np
import pictured
import torch
from pictured import FIRST, bring_texts, greedy_of, make_each, picture, write
from transformers import AutoProcessor
from transformers.models.mllama.processing_mllama import convert_sparse_cross_attention_mask_to_dense as dense
from transformers.models.mllama.processing_mllama import get_cross_attention_token_mask as sparse

from make import DISTINCT, GREEDY, Float64, draw  # isort: skip

TILES, EDGE = 4, 12
CONFIG = {
    "architectures": ["MllamaForConditionalGeneration"],
    "model_type": "mllama",
    "image_token_index": FIRST + 2,  # behind the vocabulary
    "tie_word_embeddings": False,
    "text_config": {
        "model_type": "mllama_text_model",
        "hidden_size": 40,
        "intermediate_size": 48,
        "num_hidden_layers": 5,
        "cross_attention_layers": [1, 3],
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": FIRST + 2,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "max_position_embeddings": 512,
        "bos_token_id": FIRST,
        "eos_token_id": [FIRST + 1],
        "pad_token_id": 318,
        "rope_theta": 10000.0,
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
        "hidden_size": 32,
        "intermediate_size": 40,
        "num_hidden_layers": 3,
        "num_global_layers": 2,
        "attention_heads": 4,
        "num_channels": 3,
        "image_size": EDGE,
        "patch_size": 4,
        "hidden_act": "gelu",
        "norm_eps": 1e-5,
        "max_num_tiles": TILES,
        "intermediate_layers_indices": [0, 2],
        "vision_output_dim": 96,
        "supported_aspect_ratios": [[1, 1], [1, 2], [1, 3], [1, 4], [2, 1], [2, 2], [3, 1], [4, 1]],
    },
}
IMAGE = dict(
    image_processor_type="MllamaImageProcessor",
    do_convert_rgb=True,
    do_normalize=True,
    do_pad=True,
    do_rescale=True,
    do_resize=True,
    image_mean=[0.48145466, 0.4578275, 0.40821073],
    image_std=[0.26862954, 0.26130258, 0.27577711],
    max_image_tiles=TILES,
    resample=2,
    rescale_factor=1 / 255,
    size=dict(height=EDGE, width=EDGE),
)
TEMPLATE = (
    "{% for message in messages %}{% if message['role'] == 'assistant' %}<|im_start|>assistant\n{% endif %}"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for content in message['content'] %}"
    "{% if content['type'] == 'image' %}<|image|>{% elif content['type'] == 'text' %}{{ content['text'] }}{% endif %}"
    "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# Three tiles below each other, one of them not full; then two by two and a single one, each seen by its question alone; then two side by
# side and a single one, which are seen together, behind words that see neither.
PROMPTS = [
    ([(9, 31)], ["image", "What is this?"]),
    ([(22, 20), (7, 11)], ["image", "What is this?", "image", " And this?"]),
    ([(25, 8), (12, 12)], ["Look: ", "image", "image", " which?"]),
]


def draw_part(name, shape, generator):
    """Weights of a tower that mix enough for every part to show; gates that are neither 0 nor 1."""
    normal = torch.randn(*shape, generator=generator)
    if "gate" in name and "gate_proj" not in name:
        return 0.7 + 0.3 * normal
    if "patch_embedding" in name:
        return normal * 1.2 / shape[1:].numel() ** 0.5
    if "positional_embedding" in name or "class_embedding" in name:
        return normal * 0.5
    if "multi_modal_projector" in name and len(shape) > 1:
        return normal * 2 / shape[-1] ** 0.5
    return draw(name, shape, generator)


def read_before(model):
    """What layers of the first tower read, in the place of what they give."""
    tower, read = model.model.vision_model.transformer, []

    def begin(*_):
        read.clear()

    def keep(_, args, given):
        read.append(given["hidden_states"])

    def put(_, args, output):
        output.hidden_states = tuple(read)
        return output

    tower.register_forward_pre_hook(begin)
    for layer in tower.layers:
        layer.register_forward_pre_hook(keep, with_kwargs=True)
    tower.register_forward_hook(put)


def leave_out(model):
    """Attention gives nothing to a token that sees no image. @returns what undoes it"""
    handles = []
    for layer in model.model.language_model.layers:
        if not hasattr(layer, "cross_attn"):
            continue
        told = {}

        def keep(_, args, given, told=told):
            told["mask"] = given["full_text_row_masked_out_mask"]

        def multiply(_, args, output, told=told):
            return output[0] * told["mask"][:, 0], output[1]

        handles += [layer.register_forward_pre_hook(keep, with_kwargs=True), layer.cross_attn.register_forward_hook(multiply)]
    return lambda: [handle.remove() for handle in handles]


def logits_of(model, ids, given):
    seen = dense([sparse(ids[0].tolist(), model.config.image_token_index)], [given["tiles"]], TILES, ids.shape[1])
    images = {name: each for name, each in given.items() if name != "tiles"}
    logits = model(input_ids=ids, cross_attention_mask=torch.tensor(seen), use_cache=False, **images).logits[0]
    return logits


def features_of(model, given):
    images = {name: each for name, each in given.items() if name != "tiles"}
    rows = model.model.multi_modal_projector(model.model.vision_model(**images).last_hidden_state)[0]
    return torch.cat([rows[i, :tiles].reshape(-1, rows.shape[-1]) for i, tiles in enumerate(given["tiles"])])


def drawn(model, processor, sizes, parts, random):
    content = [dict(type="image") if part == "image" else dict(type="text", text=part) for part in parts]
    text = processor.apply_chat_template([dict(role="user", content=content)], add_generation_prompt=True)
    while True:
        pictures = [picture(size, random) for size in sizes]
        given = dict(processor(text=text, images=pictures, return_tensors="pt"))
        ids = given.pop("input_ids")
        masks = [given.pop(name) for name in ("attention_mask", "cross_attention_mask")]
        given["tiles"] = given["aspect_ratio_mask"][0].sum(-1).tolist()
        assert (masks[1].numpy() == dense([sparse(ids[0].tolist(), model.config.image_token_index)], [given["tiles"]], TILES, ids.shape[1])).all()
        inexact = features_of(model.float(), given)
        with Float64():
            model.double()
            given["pixel_values"] = given["pixel_values"].double()
            features = features_of(model, given)
            assert (features - inexact).abs().max() < 1e-3
            tokens, leads = greedy_of(model, ids, given, logits_of=logits_of)
            if len(tokens) < GREEDY or len(set(tokens)) < DISTINCT:
                continue
            # Each picture makes a difference.
            for image in range(len(sizes)):
                turned = given["pixel_values"].clone()
                turned[0, image] *= -1
                if tokens == greedy_of(model, ids, {**given, "pixel_values": turned}, logits_of=logits_of)[0]:
                    break
            else:
                return pictures, ids, given, features, tokens, leads


def prompts_for(model, folder, random):
    processor = AutoProcessor.from_pretrained(folder)
    tensors, notes = {}, []
    with torch.no_grad():
        for number, (sizes, parts) in enumerate(PROMPTS):
            undo = leave_out(model)
            pictures, ids, given, features, tokens, leads = drawn(model, processor, sizes, parts, random)
            with Float64():
                logits = logits_of(model, ids, given)[-2:]
                undo()
                theirs = (logits_of(model, ids, given)[-2:] - logits).abs().max().item()
            assert (theirs == 0) == (parts[0] == "image")
            names = [f"{number}-{i}.png" for i in range(len(pictures))]
            for name, each in zip(names, pictures):
                each.save(folder / name)
            tensors[f"features.{number}"] = features.float()
            tensors[f"prompt.{number}"] = ids[0].int()
            tensors[f"logits.{number}"] = torch.from_numpy(logits.numpy().astype(np.float32))
            tensors[f"greedy.{number}"] = torch.tensor(tokens).int()
            notes.append(
                dict(
                    pictures=names,
                    parts=parts,
                    tiles=given["tiles"],
                    length=ids.shape[1],
                    rows=len(features),
                    text=processor.decode(tokens),
                    least_margin=round(min(leads), 4),
                    distinct_greedy=len(set(tokens)),
                    others_by=round(theirs, 4),
                )
            )
    return tensors, notes


def make(name, folder):
    pictured.make_weights(CONFIG, 1, folder, draw_part)
    bring_texts(folder, ["<|im_start|>", "<|im_end|>", "<|image|>"])
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    write(folder, "tokenizer_config.json", {**settings, "bos_token": "<|im_start|>"})
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    write(folder, "preprocessor_config.json", IMAGE)
    write(folder, "processor_config.json", dict(processor_class="MllamaProcessor"))
    model = pictured.opened(folder)
    read_before(model)
    tensors, notes = prompts_for(model, folder, np.random.default_rng(1))
    # As published, before transformers 5.
    renamed = {
        "model.language_model.": "language_model.model.",
        "lm_head.": "language_model.lm_head.",
        "model.vision_model.": "vision_model.",
        "model.multi_modal_projector.": "multi_modal_projector.",
    }
    pictured.close(folder, model, tensors, notes, CONFIG, renamed)


if __name__ == "__main__":
    make_each(["mllama"], make)
