"""Makes a small Gemma 3n that hears with transformers: random weights, what its tower makes of recordings, prompts, logits, greedy tokens.

    python gemma3n.py OUTPUT [NAME ...]

Everything behind features is computed in float64. Recordings are drawn until the best logit leads on the whole greedy path of 16 tokens, six of them
differ and none is special, and silence makes other tokens of it. The model's class brings an eye (by timm), which is left out here: any that is
small will do. Tokens of recordings stand behind the text's, and here the one for padding is written in their place.
"""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch

GOLDEN = Path(__file__).parent.parent
sys.path[:0] = [str(GOLDEN / name) for name in ("vision", "hearing", "models")]
import pictured  # noqa: E402
from hear import TEMPLATE, sound  # noqa: E402
from make import Float64  # noqa: E402
from make import draw as draw_text  # noqa: E402
from make import MODELS as TEXTS  # noqa: E402
from transformers import AutoTokenizer, Gemma3nAudioFeatureExtractor, Gemma3nForConditionalGeneration  # noqa: E402

FIRST, RATE, BANDS, ROWS = pictured.FIRST, 16000, 16, 14
GREEDY, DISTINCT = 16, 6
TOKENS = ["<|im_start|>", "<|im_end|>", "<pad>", "<start_of_image>", "<start_of_audio>", "<unused0>", "<unused1>", "<unused2>"]
VISION, AUDIO = FIRST + len(TOKENS), FIRST + len(TOKENS) + 4
BEHIND = ["<end_of_image>", "<image_soft_token>", "<unused3>", "<unused4>", "<end_of_audio>", "<audio_soft_token>"]
PAD, END, SOFT = FIRST + 2, AUDIO, AUDIO + 1
# Samples of recordings: of a second and two thirds, whose rows of the first convolution are odd; of as few as there may be; of as many as there may be.
PROMPTS = [[26667, "What is said?"], [513, "What is said?", 35840, " And this?"]]
TEXT = {
    **{key: value for key, value in TEXTS["gemma3n"].items() if key != "architectures"},
    "vocab_size": AUDIO + 6,
    "vocab_size_per_layer_input": VISION,
    "pad_token_id": PAD,
    "num_hidden_layers": 2,
    "intermediate_size": [36, 36],
    "layer_types": ["sliding_attention", "full_attention"],
    "num_kv_shared_layers": 0,
    "altup_num_inputs": 2,
    "activation_sparsity_pattern": [0.35, 0.0],
}
MODELS = {
    "gemma3n": {
        "architectures": ["Gemma3nForConditionalGeneration"],
        "model_type": "gemma3n",
        "boi_token_id": FIRST + 3,
        "eoi_token_id": VISION,
        "image_token_id": VISION + 1,
        "boa_token_id": FIRST + 4,
        "eoa_token_id": END,
        "audio_token_id": SOFT,
        "audio_soft_tokens_per_image": ROWS,
        "tie_word_embeddings": True,
        "text_config": TEXT,
        # Every number is another than what is usual, and small enough to matter.
        "audio_config": {
            "model_type": "gemma3n_audio",
            "vocab_size": 6,
            "vocab_offset": AUDIO,
            "input_feat_size": BANDS,
            "hidden_size": 32,
            "rms_norm_eps": 1e-4,
            "gradient_clipping": 2.5,
            "conf_attention_chunk_size": 4,
            "conf_attention_context_left": 7,
            "conf_attention_context_right": 0,
            "conf_attention_logit_cap": 4.0,
            "conf_num_attention_heads": 2,
            "conf_num_hidden_layers": 2,
            "conf_conv_kernel_size": 4,
            "conf_reduction_factor": 4,
            "conf_residual_weight": 0.6,
            "sscp_conv_channel_size": [4, 8],
            "sscp_conv_group_norm_eps": 0.02,
        },
    }
}
EYE = dict(model_type="gemma3n_vision", architecture="test_resnet", hidden_size=32, vocab_size=4, vocab_offset=VISION)
EAR = Gemma3nAudioFeatureExtractor(feature_size=BANDS)


def draw(name, shape, generator):
    normal = torch.randn(*shape, generator=generator)
    if "audio" not in name:
        return draw_text(name, shape, generator)
    if "per_dim_scale" in name or name.endswith(".embedding.weight"):
        return normal
    if "norm" in name:
        return 1 + 0.2 * normal
    if "conv" in name and len(shape) > 2:
        return normal * 1.5 / shape[1:].numel() ** 0.5
    return normal * 1.5 / shape[-1] ** 0.5


def heard(recordings):
    """Rows of each, those that fill up included, as the model makes them one by one."""
    made = [EAR([each.astype(np.float32) / 32768], sampling_rate=RATE, return_tensors="pt") for each in recordings]
    return [dict(input_features=each["input_features"].double(), input_features_mask=each["input_features_mask"]) for each in made]


class Towers:
    """What they make of recordings, once for all tokens of a reply; of several each by itself, where transformers fills all to the longest."""

    def __init__(self, model, each):
        self.whole, self.given = model.model, each
        rows = [self.whole.get_audio_features(one["input_features"], ~one["input_features_mask"], return_dict=True) for one in each]
        last = self.whole.embed_audio(input_ids=torch.tensor([[TEXT["vocab_size"] - 1]]))
        self.rows = [torch.cat([one.pooler_output[0], last[0].expand(ROWS - one.pooler_output.shape[1], -1)]) for one in rows]
        self.end = self.whole.embed_audio(input_ids=torch.tensor([[END]]))[0]

    def __enter__(self):
        rows = torch.stack(self.rows)
        made = SimpleNamespace(pooler_output=rows, audio_mel_mask=torch.zeros(rows.shape[:2], dtype=torch.bool))
        self.whole.get_audio_features = lambda *_, **__: made

    def __exit__(self, *_):
        del self.whole.get_audio_features


def logits_of(model, ids, given):
    logits = model(input_ids=ids, use_cache=False, **given[0]).logits[0]
    assert logits.dtype == torch.float64
    return logits


def greedy_of(model, ids, each, most=GREEDY):
    with Towers(model, each):
        return pictured.greedy_of(model, ids, each, most, logits_of)


def prompts_for(model, folder, asked):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tensors, notes, seed = {}, [], 0
    for number, parts in enumerate(asked):
        content = [dict(type="text", text=part) if isinstance(part, str) else dict(type="audio") for part in parts]
        text = tokenizer.apply_chat_template([dict(role="user", content=content)], tokenize=False, add_generation_prompt=True)
        whole = text.replace("<audio_soft_token>", f"\n\n<start_of_audio>{'<audio_soft_token>' * ROWS}<end_of_audio>\n\n")
        ids = torch.tensor([tokenizer(whole, add_special_tokens=False)["input_ids"]])
        lengths = [part for part in parts if isinstance(part, int)]
        tokens, mixes = [], False
        while len(tokens) < GREEDY or len(set(tokens)) < DISTINCT or not mixes:
            seeds = [seed := seed + 1 for _ in lengths]
            each = heard([sound(*one) for one in zip(lengths, seeds)])
            with Float64(), torch.no_grad():
                tokens, leads = greedy_of(model, ids, each)
                if len(tokens) == GREEDY:
                    mixes = tokens[:8] != greedy_of(model, ids, heard([np.zeros(samples, np.int16) for samples in lengths]), 8)[0]
        with Float64(), torch.no_grad():
            towers = Towers(model, each)
            with towers:
                logits = logits_of(model, ids, each)[-2:]
            rows = torch.cat([torch.cat([one, towers.end]) for one in towers.rows])
        shown = ids[0].masked_fill((ids[0] == SOFT) | (ids[0] == END), PAD)
        tensors |= {
            f"images.{number}": torch.zeros(0),
            f"recordings.{number}": rows.float(),
            f"prompt.{number}": shown.int(),
            f"logits.{number}": logits.float(),
            f"greedy.{number}": torch.tensor(tokens).int(),
        }
        notes.append(
            dict(
                parts=[part if isinstance(part, str) else "audio" for part in parts],
                pictures=[],
                sounds=[dict(samples=samples, seed=own) for samples, own in zip(lengths, seeds)],
                rows=[ROWS + 1 for _ in lengths],
                length=ids.shape[1],
                text=tokenizer.decode(tokens),
                least_margin=round(min(leads), 4),
                distinct_greedy=len(set(tokens)),
            )
        )
        print(number, seeds, ids.shape, notes[-1]["text"][:40], flush=True)
    return tensors, notes


def make(name, folder, seed=3):
    config = MODELS[name]
    pictured.make_weights({**config, "vision_config": EYE}, seed, folder, draw)
    names = dict(boa_token="<start_of_audio>", eoa_token="<end_of_audio>", audio_token="<audio_soft_token>", pad_token="<pad>")
    pictured.bring_texts(folder, [*TOKENS, *BEHIND], chat_template=TEMPLATE.replace("SOFT", "<audio_soft_token>"), **names)
    EAR.save_pretrained(folder)
    pictured.write(folder, "processor_config.json", dict(processor_class="Gemma3nProcessor", audio_seq_length=ROWS))
    model = Gemma3nForConditionalGeneration.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval().double()
    tensors, notes = prompts_for(model, folder, PROMPTS)
    pictured.close(folder, model, tensors, notes, config, {}, ("model.vision_tower.", "model.embed_vision."))
    pictured.write(folder, "golden.json", {**pictured.golden_of(model, notes), "greedy_tokens": GREEDY})


if __name__ == "__main__":
    pictured.make_each(MODELS, make)
