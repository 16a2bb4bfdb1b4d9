"""Makes small models of Qwen Omni's thinkers with transformers, as both.py makes others.

    python omni.py OUTPUT [NAME ...]

Recordings are heard one by one: transformers fills those of a prompt to the longest, and what silence is heard behind a short one would depend
on its company.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file

GOLDEN = Path(__file__).parent.parent
sys.path[:0] = [str(GOLDEN / name) for name in ("vision", "hearing", "models")]
import hear  # noqa: E402
import pictured  # noqa: E402
import qwen  # noqa: E402
from both import content_of  # noqa: E402
from hear import sound  # noqa: E402
from make import DISTINCT, GREEDY, Float64  # noqa: E402
from transformers import AutoImageProcessor, AutoTokenizer, WhisperFeatureExtractor  # noqa: E402

RATE, BANDS = 16000, 16
SPECIAL = dict(
    qwen2_5=["<|im_start|>", "<|im_end|>", "<|vision_bos|>", "<|vision_eos|>", "<|IMAGE|>", "<|VIDEO|>", "<|AUDIO|>", "<|audio_bos|>", "<|audio_eos|>"],
    qwen3=["<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>", "<|audio_pad|>", "<|audio_start|>", "<|audio_end|>"],
)
FIRST = pictured.FIRST
IMAGE, AUDIO = FIRST + 4, FIRST + 6
IDS = dict(vision_start_token_id=FIRST + 2, vision_end_token_id=FIRST + 3, audio_start_token_id=FIRST + 7, audio_end_token_id=FIRST + 8)
LONG, FEW = 100000, 4  # samples, and how many of the greedy tokens differ behind so many
# Pixels of pictures and samples of recordings, in the order in which a prompt has them.
PROMPTS = {
    # 167 frames; then two pieces, the second of 19 frames, and five frames: 42 rows, and 55 and one.
    "qwen2-5-omni": [[26667, "What is said?", (41, 27), " And this?"], [(20, 50), 35000, "What is this?", (23, 22), " And this?", 700]],
    # 875 frames in two windows, 114 rows; then 166, 22 rows, and 45, six rows, of less than a second.
    "qwen3-omni": [[140123, "What is said?", (41, 27), " And this?"], [(20, 50), 26667, "What is this?", (23, 22), " And this?", 7300]],
}
MODELS = {
    "qwen2-5-omni": dict(
        whole=dict(architectures=["Qwen2_5OmniModel"], model_type="qwen2_5_omni", talker_config=dict(model_type="qwen2_5_omni_talker")),
        kind=transformers.Qwen2_5OmniThinkerForConditionalGeneration,
        special=SPECIAL["qwen2_5"],
        extractor=WhisperFeatureExtractor(feature_size=BANDS, chunk_length=20),
        config={
            "model_type": "qwen2_5_omni_thinker",
            **IDS,
            **dict(image_token_index=IMAGE, video_token_index=IMAGE + 1, audio_token_index=AUDIO),
            "text_config": {
                **qwen.QWEN2,
                "model_type": "qwen2_5_omni_text",
                "rope_scaling": {**qwen.QWEN2["rope_scaling"], "rope_type": "default", "type": "default"},
            },
            "vision_config": {**qwen.MODELS["qwen2-5-vl"]["vision_config"], "model_type": "qwen2_5_omni_vision_encoder"},
            "audio_config": {**hear.WHISPER, "model_type": "qwen2_5_omni_audio_encoder", "n_window": 100, "output_dim": 48},
        },
    ),
    "qwen3-omni": dict(
        whole=dict(architectures=["Qwen3OmniMoeForConditionalGeneration"], model_type="qwen3_omni_moe", talker_config=dict(model_type="qwen3_omni_moe_talker")),
        kind=transformers.Qwen3OmniMoeThinkerForConditionalGeneration,
        special=SPECIAL["qwen3"],
        extractor=WhisperFeatureExtractor(feature_size=BANDS),
        config={
            "model_type": "qwen3_omni_moe_thinker",
            **IDS,
            **dict(image_token_id=IMAGE, video_token_id=IMAGE + 1, audio_token_id=AUDIO),
            "text_config": {
                **qwen.MODELS["qwen3-vl-moe"]["text_config"],
                "model_type": "qwen3_omni_moe_text",
                "num_experts": 4,
                "rope_scaling": {**qwen.QWEN3["rope_scaling"], "interleaved": True},
            },
            "vision_config": {**qwen.EYE3, "model_type": "qwen3_omni_moe_vision_encoder", "deepstack_visual_indexes": [1]},
            "audio_config": {
                **hear.WHISPER,
                "model_type": "qwen3_omni_moe_audio_encoder",
                **dict(downsample_hidden_size=12, n_window=50, n_window_infer=800, output_dim=40),
            },
        },
    ),
}


def template_of(special):
    shown = {"<|vision_start|><|image_pad|><|vision_end|>": "".join(special[i] for i in (2, 4, 3))}
    whole = qwen.TEMPLATE
    for usual, own in shown.items():
        whole = whole.replace(usual, own)
    audio = "".join(special[i] for i in (7, 6, 8))
    return whole.replace("{% elif 'text' in content %}", "{% elif content['type'] == 'audio' %}" + audio + "{% elif 'text' in content %}")


def draw(name, shape, generator):
    normal = torch.randn(*shape, generator=generator)
    if "audio_tower.proj" in name and len(shape) > 1:
        return normal * 3 / shape[-1] ** 0.5
    if "audio_tower" in name:
        return hear.draw_part(name, shape, generator)
    if "merger" in name and "ln_q" in name:
        return 1 + 0.2 * normal if name.endswith("weight") else 0.2 * normal
    return qwen.draw_part(name, shape, generator)


def heard(made, recordings):
    """Each as the processor makes it ready by itself, and how many rows each has."""
    if not recordings:
        return {}, []
    of_whole = made["config"]["model_type"].startswith("qwen2")
    how = dict(padding="max_length") if of_whole else dict(padding=True, truncation=False)
    frames, masks, counts = [], [], []
    for each in recordings:
        given = made["extractor"](each.astype(np.float32) / 32768, sampling_rate=RATE, return_attention_mask=True, return_tensors="pt", **how)
        count = int(given["attention_mask"].sum())
        frames.append(given["input_features"][0, :, :count])
        masks.append(torch.ones(count))
        rest = (count % 100 - 1) // 2 + 1
        counts.append(((count - 1) // 2 + 1) // 2 if of_whole else ((rest - 1) // 2 + 1 - 1) // 2 + 1 + count // 100 * 13)
    pad = torch.nn.utils.rnn.pad_sequence
    return dict(
        input_features=pad([each.T for each in frames], batch_first=True).transpose(1, 2).double(), feature_attention_mask=pad(masks, batch_first=True).long()
    ), counts


def ears(model, given):
    """What the tower makes of each recording by itself: beside others a short one would be filled to a second."""
    rows = []
    for frames, mask in zip(given["input_features"], given["feature_attention_mask"]):
        count = int(mask.sum())
        lengths = torch.tensor([count])
        rows.append(model.model.audio_tower(frames[:, :count], feature_lens=lengths).last_hidden_state)
    return rows


def logits_of(model, ids, given):
    """By the model's own forward, but for recordings, whose rows are those of each by itself."""
    rows, sizes = given["heard"], torch.sum(given["feature_attention_mask"], dim=1)
    model.model.get_audio_features = lambda *_, **__: transformers.modeling_outputs.BaseModelOutputWithPooling(last_hidden_state=torch.cat(rows))
    frames = {name: given[name] for name in ("input_features", "feature_attention_mask")}
    seen = {name: given[name] for name in ("pixel_values", "image_grid_thw")}
    assert len(sizes) == len(rows)
    logits = model(input_ids=ids, attention_mask=torch.ones_like(ids), use_cache=False, **frames, **seen).logits[0]
    del model.model.get_audio_features
    assert logits.dtype == torch.float64
    return logits


def greedy_of(model, ids, given, most=GREEDY):
    return pictured.greedy_of(model, ids, given, most, logits_of)


def prompts_for(model, folder, made, asked, random):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    pixels = AutoImageProcessor.from_pretrained(folder)
    tensors, notes, seed = {}, [], 0
    for number, parts in enumerate(asked):
        text = tokenizer.apply_chat_template([dict(role="user", content=content_of(parts))], tokenize=False, add_generation_prompt=True)
        sizes = [part for part in parts if isinstance(part, tuple)]
        lengths = [part for part in parts if isinstance(part, int)]
        least = FEW if max(lengths) > LONG else DISTINCT
        tokens, mixes = [], False
        while len(tokens) < GREEDY or len(set(tokens)) < least or not mixes:
            pictures = [pictured.picture(size, random) for size in sizes]
            seeds = [seed := seed + 1 for _ in lengths]
            seen, of_images, _ = qwen.fitted(pixels(images=pictures, return_tensors="pt"))
            frames, of_recordings = heard(made, [sound(*each) for each in zip(lengths, seeds)])
            given = {**seen, **frames, "pixel_values": seen["pixel_values"].double()}
            whole = text
            for soft, counts in ((made["special"][4], of_images), (made["special"][6], of_recordings)):
                pieces = whole.split(soft)
                whole = pieces[0] + "".join(soft * count + piece for count, piece in zip(counts, pieces[1:]))
            ids = torch.tensor([tokenizer(whole, add_special_tokens=False)["input_ids"]])
            with Float64(), torch.no_grad():
                given["heard"] = ears(model, given)
                assert [len(each) for each in given["heard"]] == of_recordings
                tokens, leads = greedy_of(model, ids, given)
                if len(tokens) < GREEDY:
                    continue
                silent = {**given, **heard(made, [np.zeros(samples, np.int16) for samples in lengths])[0]}
                others = [{**silent, "heard": ears(model, silent)}, {**given, "pixel_values": -given["pixel_values"]}]
                mixes = all(tokens[:8] != greedy_of(model, ids, other, 8)[0] for other in others)
        with Float64(), torch.no_grad():
            logits = logits_of(model, ids, given)[-2:]
            images = qwen.features_of(model, {name: given[name] for name in ("pixel_values", "image_grid_thw")})
        names = [f"{number}-{i}.png" for i in range(len(pictures))]
        for name, drawn in zip(names, pictures):
            drawn.save(folder / name)
        tensors |= {
            f"images.{number}": images.float(),
            f"recordings.{number}": torch.cat(given["heard"]).float(),
            f"prompt.{number}": ids[0].int(),
            f"logits.{number}": logits.float(),
            f"greedy.{number}": torch.tensor(tokens).int(),
        }
        kinds = {str: lambda part: part, tuple: lambda _: "image", int: lambda _: "audio"}
        notes.append(
            dict(
                parts=[kinds[type(part)](part) for part in parts],
                pictures=names,
                sounds=[dict(samples=samples, seed=own) for samples, own in zip(lengths, seeds)],
                rows=of_recordings,
                length=ids.shape[1],
                text=tokenizer.decode(tokens),
                least_margin=round(min(leads), 4),
                distinct_greedy=len(set(tokens)),
            )
        )
        print(number, seeds, ids.shape, notes[-1]["text"][:40], flush=True)
    return tensors, notes


def as_published(folder, made):
    """A thinker within, and something of what speaks, which nobody reads."""
    file = folder / "model.safetensors"
    weights = load_file(file)
    assert {name.split(".")[0] for name in weights} == {"model", "visual", "audio_tower", "lm_head"}, sorted(weights)[:5]
    weights = {f"thinker.{name}": tensor for name, tensor in weights.items()}
    save_file({**weights, "talker.codec_head.weight": torch.zeros(2, 2)}, file, metadata={"format": "pt"})
    pictured.write(folder, "config.json", {**made["whole"], "thinker_config": {**made["config"], "torch_dtype": "bfloat16"}})


def make(name, folder, seed=1):
    made = MODELS[name]
    config = {**made["config"], "architectures": [made["kind"].__name__]}
    hear.make_weights(config, seed, folder, draw)
    bos, eos, image, audio = (made["special"][i] for i in (2, 3, 4, 6))
    around = dict(vision_bos_token=bos, vision_eos_token=eos, audio_bos_token=made["special"][7], audio_eos_token=made["special"][8])
    pictured.bring_texts(folder, made["special"], chat_template=template_of(made["special"]), image_token=image, audio_token=audio, **around)
    eye = dict(vision_config=config["vision_config"], model_type=config["model_type"])
    image_processor = {**qwen.image_of(eye), "image_processor_type": "Qwen2VLImageProcessor"}
    pictured.write(folder, "preprocessor_config.json", {**json.loads(made["extractor"].to_json_string()), **image_processor})
    model = made["kind"].from_pretrained(folder, dtype=torch.float64, **pictured.EAGER).eval().double()
    tensors, notes = prompts_for(model, folder, made, PROMPTS[name], np.random.default_rng(seed))
    pictured.close(folder, model, tensors, notes, config, {})
    as_published(folder, made)


if __name__ == "__main__":
    pictured.make_each(MODELS, make)
