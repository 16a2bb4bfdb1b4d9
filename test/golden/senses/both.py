"""Makes small models that see and hear with transformers: random weights, what their towers make of pictures and recordings, prompts that
mix both, logits, greedy tokens.

    python both.py OUTPUT [NAME ...]

Everything behind pixels and features is computed in float64. Pictures and recordings are drawn until the best logit leads on the whole greedy
path, eight tokens of it differ and none is special, and other pictures, or silence, make other tokens of it.
"""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch

GOLDEN = Path(__file__).parent.parent
sys.path[:0] = [str(GOLDEN / name) for name in ("vision", "hearing", "models")]
import fitting  # noqa: E402
import pictured  # noqa: E402
from hear import sound  # noqa: E402
from make import DISTINCT, GREEDY, Float64  # noqa: E402
from transformers import AutoTokenizer, Gemma4AudioFeatureExtractor, Gemma4ImageProcessor, Gemma4UnifiedAudioFeatureExtractor  # noqa: E402

RATE, BANDS, SAMPLES = 16000, 16, 320
SPECIAL = [*fitting.Gemma4.special, "<|audio>", "<audio|>", "<|audio|>"]
IMAGE, AUDIO = (pictured.FIRST + SPECIAL.index(token) for token in ("<|image|>", "<|audio|>"))
TEMPLATE = fitting.Gemma4.template.replace(
    "{% elif content['type'] == 'text' %}", "{% elif content['type'] == 'audio' %}<|audio|>{% elif content['type'] == 'text' %}"
)
# Pixels of pictures and samples of recordings, in the order in which a prompt has them. Recordings have 42 rows, and 3 and 20.
PROMPTS = {
    "gemma4": [
        [26667, "What is said?", (80, 11), " And this?"],
        [(23, 22), 1700, "What is this?", (20, 38), " And this?", 12800],
    ],
    # 42 rows; 1 and 20.
    "gemma4-unified": [[13333, "What is said?"], [100, "What is this?", 6400, " And this?"]],
}
BASE = fitting.MODELS["gemma4-layer-inputs"]
PER_LAYER = ("vocab_size_per_layer_input", "hidden_size_per_layer_input", "num_kv_shared_layers", "use_double_wide_mlp")
MODELS = {
    "gemma4": {
        **BASE,
        "audio_token_id": AUDIO,
        "boa_token_id": AUDIO - 2,
        "eoa_token_id": AUDIO - 1,
        "text_config": {**BASE["text_config"], "use_bidirectional_attention": "vision"},
        # Every number is another than what is usual, and small enough to matter.
        "audio_config": {
            "model_type": "gemma4_audio",
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "hidden_act": "silu",
            "subsampling_conv_channels": [BANDS, 4],
            "conv_kernel_size": 4,
            "residual_weight": 0.6,
            "attention_chunk_size": 9,
            "attention_context_left": 10,
            "attention_context_right": 0,
            "attention_logit_cap": 4.0,
            "use_clipped_linears": True,
            "rms_norm_eps": 1e-4,
            "gradient_clipping": 2.5,
            "output_proj_dims": 24,
        },
    },
    "gemma4-unified": {
        **{**BASE, "vision_config": None},
        "architectures": ["Gemma4UnifiedForConditionalGeneration"],
        "model_type": "gemma4_unified",
        "audio_token_id": AUDIO,
        "text_config": {
            **{key: value for key, value in BASE["text_config"].items() if key not in PER_LAYER},
            "model_type": "gemma4_unified_text",
        },
        "audio_config": {"model_type": "gemma4_unified_audio", "audio_embed_dim": SAMPLES, "rms_norm_eps": 1e-4},
    },
}


def draw(name, shape, generator):
    normal = torch.randn(*shape, generator=generator)
    if "audio" not in name:
        return fitting.Gemma4.draw(name, shape, generator)
    if "per_dim_scale" in name:
        return normal
    if "norm" in name:
        return 1 + 0.2 * normal
    if "bias" in name:
        return 0.3 * normal
    if "conv" in name:
        return normal * 1.5 / shape[1:].numel() ** 0.5
    return normal * 1.5 / shape[-1] ** 0.5


def image_of(pictures):
    if not pictures:
        return {}, []
    made = PIXELS(pictures, return_tensors="pt")
    return dict(pixel_values=made["pixel_values"].double(), image_position_ids=made["image_position_ids"]), made["num_soft_tokens_per_image"].tolist()


PIXELS = Gemma4ImageProcessor(**{k: v for k, v in fitting.Gemma4.image(fitting.EYE).items() if k != "image_processor_type"})
EARS = dict(
    gemma4=Gemma4AudioFeatureExtractor(feature_size=BANDS),
    gemma4_unified=Gemma4UnifiedAudioFeatureExtractor(feature_size=SAMPLES, audio_samples_per_token=SAMPLES),
)


def heard(kind, recordings):
    """All recordings of a prompt at once, as the processor makes them ready, and how many rows each has."""
    made = EARS[kind]([each.astype(np.float32) / 32768 for each in recordings], sampling_rate=RATE, return_tensors="pt")
    frames, mask = made["input_features"].double(), made["input_features_mask"]
    return dict(input_features=frames, input_features_mask=mask), [int((each[::2][::2] if kind == "gemma4" else each).sum()) for each in mask]


class Towers:
    """What they make of pictures and recordings, once for all tokens of a reply."""

    def __init__(self, model, given):
        self.whole = model.model
        if "pixel_values" in given:
            self.seen = self.whole.get_image_features(given["pixel_values"], given["image_position_ids"], return_dict=True)
        else:
            self.seen = SimpleNamespace(pooler_output=[torch.zeros(0, 1)])
        self.ears = self.whole.get_audio_features(given["input_features"], given["input_features_mask"], return_dict=True)

    def rows(self, counts):
        """Of all pictures, then of all recordings."""
        heard = [each[kept] for each, kept in zip(self.ears.pooler_output, self.ears.attention_mask)]
        assert [len(each) for each in heard] == counts
        return torch.cat(list(self.seen.pooler_output)), torch.cat(heard)

    def __enter__(self):
        self.whole.get_image_features = lambda *_, **__: self.seen
        self.whole.get_audio_features = lambda *_, **__: self.ears

    def __exit__(self, *_):
        del self.whole.get_image_features, self.whole.get_audio_features


def logits_of(model, ids, given):
    kinds = (ids == IMAGE).int() + 3 * (ids == AUDIO).int()
    logits = model(input_ids=ids, use_cache=False, mm_token_type_ids=kinds, **given).logits[0]
    assert logits.dtype == torch.float64
    return logits


def greedy_of(model, ids, given, most=GREEDY):
    with Towers(model, given):
        return pictured.greedy_of(model, ids, given, most, logits_of)


def content_of(parts):
    names = {str: lambda text: dict(type="text", text=text), tuple: lambda _: dict(type="image"), int: lambda _: dict(type="audio")}
    return [names[type(part)](part) for part in parts]


def prompts_for(model, folder, asked, random):
    kind = model.config.model_type
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tensors, notes, seed = {}, [], 0
    for number, parts in enumerate(asked):
        message = [dict(role="user", content=content_of(parts))]
        text = tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
        sizes = [part for part in parts if isinstance(part, tuple)]
        lengths = [part for part in parts if isinstance(part, int)]
        tokens, mixes = [], False
        while len(tokens) < GREEDY or len(set(tokens)) < DISTINCT or not mixes:
            pictures = [pictured.picture(size, random) for size in sizes]
            seeds = [seed := seed + 1 for _ in lengths]
            pixels, of_images = image_of(pictures)
            frames, of_recordings = heard(kind, [sound(*each) for each in zip(lengths, seeds)])
            given = {**pixels, **frames}
            whole = text
            for soft, around, counts in (("<|image|>", fitting.Gemma4.around, of_images), ("<|audio|>", "<|audio>{}<audio|>", of_recordings)):
                pieces = whole.split(soft)
                whole = pieces[0] + "".join(around.format(soft * count) + piece for count, piece in zip(counts, pieces[1:]))
            ids = torch.tensor([tokenizer(whole, add_special_tokens=False)["input_ids"]])
            with Float64(), torch.no_grad():
                tokens, leads = greedy_of(model, ids, given)
                if len(tokens) < GREEDY:
                    continue
                others = [{**given, **heard(kind, [np.zeros(samples, np.int16) for samples in lengths])[0]}]
                if pictures:
                    others.append({**given, "pixel_values": 1 - given["pixel_values"]})
                mixes = all(tokens[:8] != greedy_of(model, ids, other, 8)[0] for other in others)
        with Float64(), torch.no_grad():
            logits = logits_of(model, ids, given)[-2:]
            seen, ears = Towers(model, given).rows(of_recordings)
        names = [f"{number}-{i}.png" for i in range(len(pictures))]
        for name, drawn in zip(names, pictures):
            drawn.save(folder / name)
        tensors |= {
            f"images.{number}": seen.float(),
            f"recordings.{number}": ears.float(),
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


def make(name, folder, seed=1):
    config = MODELS[name]
    pictured.make_weights(config, seed, folder, draw, fitting.Gemma4.buffer)
    names = dict(boa_token="<|audio>", eoa_token="<audio|>", audio_token="<|audio|>", **fitting.Gemma4.names)
    fitting.qwen.bring_texts(folder, SPECIAL, TEMPLATE, **names)
    processor = dict(image_processor=fitting.Gemma4.image(fitting.EYE), feature_extractor=json.loads(EARS[config["model_type"]].to_json_string()))
    pictured.write(folder, "processor_config.json", processor)
    model = pictured.opened(folder)
    tensors, notes = prompts_for(model, folder, PROMPTS[name], np.random.default_rng(seed))
    pictured.close(folder, model, tensors, notes, config, {})


if __name__ == "__main__":
    pictured.make_each(MODELS, make)
