"""Makes small models that hear with transformers: random weights, what their towers make of recordings, prompts, logits, greedy tokens.

    python hear.py OUTPUT [NAME ...]

Everything behind the features of a recording is computed in float64, also what the model's own code does in float32. Recordings are made
by `sound`, of whole numbers, and are drawn until the best logit leads by 0.05 on the whole greedy path of 16 tokens, six of them differ (three where a
recording has hundreds of rows) and none is special, and silence makes other tokens of it.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
import transformers
from transformers import AutoConfig, AutoTokenizer, WhisperFeatureExtractor
from transformers.audio_utils import mel_filter_bank, spectrogram, window_function

GOLDEN = Path(__file__).parent.parent
sys.path[:0] = [str(GOLDEN / "vision"), str(GOLDEN / "models")]
import pictured  # noqa: E402
from make import Float64, draw  # noqa: E402
from pictured import FIRST, write  # noqa: E402
from pictures import TEXT  # noqa: E402

SOFT = FIRST + 2
GREEDY, DISTINCT = 16, 6
BANDS = 16
RATE, WINDOW = 16000, 480000
BLOCK = 1600  # samples
KEPT = 16  # every so manieth row that comes out of a tower is kept
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for content in message['content'] %}"
    "{% if content['type'] == 'audio' %}SOFT{% elif content['type'] == 'text' %}{{ content['text'] }}{% endif %}"
    "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
class Pairs:
    """GraniteSpeechFeatureExtractor, with spectra by transformers, where it takes torchaudio's."""

    SAID = dict(
        feature_extractor_type="GraniteSpeechFeatureExtractor",
        melspec_kwargs=dict(hop_length=160, n_fft=512, n_mels=BANDS, sample_rate=RATE, win_length=400),
        projector_downsample_rate=5,
        projector_window_size=15,
        sampling_rate=RATE,
    )

    def __init__(self, feature_size=None):
        pass

    from_pretrained = classmethod(lambda cls, folder: cls())

    def save_pretrained(self, folder):
        write(folder, "preprocessor_config.json", self.SAID)

    def __call__(self, heard):
        filters = mel_filter_bank(257, BANDS, 0, RATE / 2, RATE, norm=None, mel_scale="htk")
        lengths = dict(frame_length=400, hop_length=160, fft_length=512)
        logs = spectrogram(heard.astype(np.float64), window_function(400, "hann"), **lengths, power=2.0, mel_filters=filters, mel_floor=1e-10, log_mel="log10").T
        logs = np.maximum(logs, logs.max() - 8) / 4 + 1
        return logs[: len(logs) // 2 * 2].reshape(1, -1, 2 * BANDS)


def draw_asked(name, shape, generator):
    """Of Granite Speech's tower as of any, but that norms stay about 1, and so much of distances and questions that they show."""
    normal = torch.randn(*shape, generator=generator)
    if "norm" in name.lower() and "language_model" not in name:
        return (1 if name.endswith("weight") else 0) + 0.2 * normal
    if "rel_pos_emb" in name or name.endswith("query"):
        return normal
    if "projector" in name and len(shape) > 1:
        return normal * 2 / shape[-1] ** 0.5
    if "conv" in name:
        return normal * 1.5 / shape[1:].numel() ** 0.5 if len(shape) > 1 else normal * 0.1
    return draw(name, shape, generator)


def draw_normed(name, shape, generator):
    """What norms over a batch have seen."""
    normal = torch.randn(shape, generator=generator)
    return {"running_mean": 0.2 * normal, "running_var": 0.5 + 0.3 * normal.abs()}.get(name.split(".")[-1])


LLAMA = {**TEXT, "model_type": "llama", "max_position_embeddings": 2048}
QWEN2 = {**LLAMA, "model_type": "qwen2", "sliding_window": None}
EAR = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_mel_bins=BANDS)
WHISPER = dict(d_model=32, encoder_ffn_dim=48, encoder_layers=2, encoder_attention_heads=4, num_mel_bins=BANDS)
PUBLISHED = {
    "model.audio_tower.": "audio_tower.",
    "model.multi_modal_projector.": "multi_modal_projector.",
    "model.language_model.": "language_model.model.",
    "lm_head.": "language_model.lm_head.",
}
GRANITE = {
    "architectures": ["GraniteSpeechForConditionalGeneration"],
    "model_type": "granite_speech",
    "audio_token_index": SOFT,
    "tie_word_embeddings": False,
    "has_lora_adapter": False,
    "text_config": {**LLAMA, "model_type": "granite", "embedding_multiplier": 3.0, "residual_multiplier": 0.8, "attention_multiplier": 0.3},
    "encoder_config": dict(
        model_type="granite_speech_encoder",
        input_dim=2 * BANDS,
        num_layers=4,
        hidden_dim=32,
        feedforward_mult=2,
        num_heads=2,
        dim_head=16,
        output_dim=10,
        context_size=24,
        max_pos_emb=40,
        conv_kernel_size=6,
        conv_expansion_factor=2,
    ),
    "projector_config": dict(
        model_type="blip_2_qformer",
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        encoder_hidden_size=32,
        cross_attention_frequency=1,
    ),
}
ASKED = {
    "model.encoder.": "encoder.",
    "model.projector.": "projector.",
    "model.language_model.": "language_model.model.",
    "lm_head.": "language_model.lm_head.",
}
# Samples of each prompt's recordings: of a second and two thirds; then some of a second, and of two, whose frames are odd.
SAMPLES = [[26667], [8000, 32123]]
MODELS = {
    "qwen2-audio": dict(
        config={
            "architectures": ["Qwen2AudioForConditionalGeneration"],
            "model_type": "qwen2_audio",
            "audio_token_index": SOFT,
            "tie_word_embeddings": False,
            "text_config": QWEN2,
            "audio_config": {**WHISPER, "model_type": "qwen2_audio_encoder"},
        },
        soft="<|AUDIO|>",
        joined=2,
        samples=SAMPLES,
        renamed=PUBLISHED,
    ),
    "voxtral": dict(
        config={
            "architectures": ["VoxtralForConditionalGeneration"],
            "model_type": "voxtral",
            "audio_token_id": SOFT,
            "projector_hidden_act": "gelu",
            "text_config": {**LLAMA, "head_dim": 10},
            "audio_config": {**EAR, "intermediate_size": 128, "model_type": "voxtral_encoder"},
        },
        soft="[AUDIO]",
        tokens=["[BEGIN_AUDIO]"],
        before="[BEGIN_AUDIO]",
        joined=4,
        samples=[[26667], [500000]],
        distinct=3,
        renamed=PUBLISHED,
    ),
    "audio-flamingo3": dict(
        config={
            "architectures": ["AudioFlamingo3ForConditionalGeneration"],
            "model_type": "audioflamingo3",
            "audio_token_id": SOFT,
            "projector_hidden_act": "gelu",
            "projector_bias": True,
            "text_config": QWEN2,
            "audio_config": {**EAR, "model_type": "audioflamingo3_encoder"},
        },
        soft="<sound>",
        joined=2,
        samples=[[26667], [500000]],
        distinct=3,
        renamed=PUBLISHED,
    ),
    "qwen3-asr": dict(
        config={
            "architectures": ["Qwen3ASRForConditionalGeneration"],
            "model_type": "qwen3_asr",
            "audio_token_id": SOFT,
            "tie_word_embeddings": True,
            "text_config": {**LLAMA, "model_type": "qwen3", "head_dim": 10, "tie_word_embeddings": True},
            "audio_config": {
                **WHISPER,
                "model_type": "qwen3_asr_encoder",
                "downsample_hidden_size": 12,
                "n_window": 50,
                "n_window_infer": 800,
                "output_dim": 40,
            },
        },
        soft="<|audio_pad|>",
        tokens=["<|audio_start|>", "<|audio_end|>", "<asr_text>"],
        visible=["<asr_text>"],
        transcripts=[dict(code=None), dict(code="en", language="English", prompt="Oslo, Bergen")],
        shown="<|audio_start|><|audio_pad|><|audio_end|>",
        samples=[[26667], [6000, 140123]],
        extractor=transformers.Qwen3ASRFeatureExtractor,
        renamed={},
    ),
    "glm-asr": dict(
        config={
            "architectures": ["GlmAsrForConditionalGeneration"],
            "model_type": "glmasr",
            "audio_token_id": SOFT,
            "projector_hidden_act": "gelu",
            "tie_word_embeddings": True,
            "text_config": {**LLAMA, "tie_word_embeddings": True},
            "audio_config": {**EAR, "intermediate_size": 128, "model_type": "glmasr_encoder", "partial_rotary_factor": 0.5},
        },
        soft="<|pad|>",
        joined=4,
        samples=SAMPLES,
        renamed={},
    ),
    "granite-speech": dict(config=GRANITE, soft="<|audio|>", samples=[*SAMPLES, [100000]], extractor=Pairs, draw=draw_asked, renamed=ASKED),
    "granite-speech-plus": dict(
        config={
            **GRANITE,
            "architectures": ["GraniteSpeechPlusForConditionalGeneration"],
            "model_type": "granite_speech_plus",
            "encoder_config": {**GRANITE["encoder_config"], "model_type": "granite_speech_plus_encoder", "cat_hidden_layers": [0, 2], "conv_kernel_size": 5},
            "projector_config": {**GRANITE["projector_config"], "encoder_hidden_size": 96, "cross_attention_frequency": 2},
        },
        soft="<|audio|>",
        samples=SAMPLES,
        extractor=Pairs,
        draw=draw_asked,
        renamed={},
    ),
}


def sound(samples, seed):
    """Three triangles, each of another pitch every tenth of a second, as 16-bit numbers: whole numbers throughout."""
    state, phases, out = seed, np.zeros(3, np.int64), []
    for _ in range(0, samples, BLOCK):
        total = 0
        for k in range(3):
            state = (state * 1103515245 + 12345) % 2147483648
            turns = (phases[k] + (300 + (state >> 8) % 9000) * np.arange(1, BLOCK + 1)) % 65536
            phases[k] = turns[-1]
            total = total + ((abs(turns - 32768) - 16384) >> (k + 1))
        out.append(total)
    return np.concatenate(out)[:samples].astype(np.int16)


def draw_part(name, shape, generator):
    """Weights of a tower that mix enough for every part to show; else as of any model."""
    normal = torch.randn(*shape, generator=generator)
    if "conv" in name:
        return normal * 1.5 / shape[1:].numel() ** 0.5 if len(shape) > 1 else normal * 0.3
    if "embed_positions" in name:
        return normal * 0.4
    if "multi_modal_projector" in name and len(shape) > 1:
        return normal * 3 / shape[-1] ** 0.5
    return draw(name, shape, generator)


def class_of(config):
    return getattr(transformers, config["architectures"][0])


def make_weights(config, seed, folder, draw_part=draw_part, buffer=lambda name, shape, generator: None):
    """A model in bf16, whose logits have a standard deviation of 3."""
    generator = torch.Generator().manual_seed(seed)
    given = {k: v for k, v in config.items() if k not in ("model_type", "architectures")}
    own = AutoConfig.for_model(config["model_type"], **json.loads(json.dumps(given)))
    own._attn_implementation = "eager"
    model = class_of(config)(own)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.copy_(draw_part(name, weight.shape, generator).bfloat16().float())
        for name, each in model.named_buffers():
            value = buffer(name, each.shape, generator)
            if value is not None:
                each.copy_(value.bfloat16().float())
        ids = torch.randint(3, 310, (1, 60), generator=generator)
        norm = model.model.language_model.norm
        norm.weight.copy_((norm.weight * 3 / model(input_ids=ids, use_cache=False).logits[0].std()).bfloat16().float())
    model.bfloat16().save_pretrained(folder)


def features_of(model, extractor, made, samples):
    """Rows that stand in the place of soft tokens, of the recording as the model's processor in transformers prepares it."""
    kind = model.config.model_type
    heard = samples.astype(np.float32) / 32768
    if kind == "voxtral":
        whole = dict(padding=True, truncation=False, pad_to_multiple_of=WINDOW)
        given = extractor(heard, sampling_rate=RATE, return_tensors="pt", **whole)["input_features"]
        given = given.reshape(BANDS, -1, 3000).transpose(0, 1)
        return model.get_audio_features(given.to(model.dtype)).pooler_output
    if kind == "qwen3_asr":
        given = extractor(heard, sampling_rate=RATE, padding=True, truncation=False, return_attention_mask=True)
        mask = given["attention_mask"]
        return model.get_audio_features(given["input_features"].to(model.dtype), input_features_mask=mask).pooler_output
    if kind.startswith("granite_speech"):
        given = torch.from_numpy(extractor(heard)).to(model.dtype)
        return model.get_audio_features(given).pooler_output[0]
    windows = [heard[at : at + WINDOW] for at in range(0, len(heard), WINDOW)]
    given = extractor(windows, sampling_rate=RATE, return_tensors="pt", return_attention_mask=True)
    mask = given["attention_mask"]
    frames = given["input_features"].to(model.dtype)
    if kind != "qwen2_audio":
        return model.get_audio_features(frames, input_features_mask=mask).pooler_output
    lengths, counts = model.model.audio_tower._get_feat_extract_output_lengths(mask.sum(-1))
    seen = (torch.arange(1500) < lengths[:, None])[:, None, None]
    bias = torch.where(seen, 0.0, -torch.inf).to(model.dtype)
    out = model.model.audio_tower(frames, attention_mask=bias.expand(-1, 1, 1500, -1)).last_hidden_state
    return model.model.multi_modal_projector(out)[0, : counts[0]]


def logits_of(model, ids, features):
    rows = model.get_input_embeddings()(ids)
    rows[ids == SOFT] = features
    logits = model.lm_head(model.model.language_model(inputs_embeds=rows, use_cache=False).last_hidden_state)[0]
    assert logits.dtype == torch.float64
    return logits


def greedy_of(model, ids, features, most=GREEDY):
    return pictured.greedy_of(model, ids, features, most, logits_of)


def message_of(count):
    texts = ["What is said?", " And here?"]
    return [part for i in range(count) for part in ("audio", texts[i])]


def prompts_for(model, folder, made):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    extractor = made.get("extractor", WhisperFeatureExtractor).from_pretrained(folder)
    soft, before = made["soft"], made.get("before", "")
    tensors, notes, seed = {}, [], 0
    for number, lengths in enumerate(made["samples"]):
        parts = message_of(len(lengths))
        content = [dict(type="audio") if part == "audio" else dict(type="text", text=part) for part in parts]
        text = tokenizer.apply_chat_template([dict(role="user", content=content)], tokenize=False, add_generation_prompt=True)
        tokens, heard = [], False
        while len(tokens) < GREEDY or len(set(tokens)) < made.get("distinct", DISTINCT) or not heard:
            seeds = [seed := seed + 1 for _ in lengths]
            with Float64(), torch.no_grad():
                model.double()
                of = lambda make: [features_of(model, extractor, made, make(*each)) for each in zip(lengths, seeds)]  # noqa: E731
                each = of(sound)
                pieces = text.split(soft)
                whole = pieces[0] + "".join(before + soft * len(rows) + piece for rows, piece in zip(each, pieces[1:]))
                ids = torch.tensor([tokenizer(whole, add_special_tokens=False)["input_ids"]])
                features = torch.cat(each)
                tokens, leads = greedy_of(model, ids, features)
                if len(tokens) == GREEDY:
                    silent = torch.cat(of(lambda samples, _: np.zeros(samples, np.int16)))
                    heard = tokens[:8] != greedy_of(model, ids, silent, 8)[0]
        with Float64(), torch.no_grad():
            logits = logits_of(model, ids, features)[-2:]
        tensors[f"features.{number}"] = features[::KEPT].float().contiguous()
        tensors[f"prompt.{number}"] = ids[0].int()
        tensors[f"logits.{number}"] = logits.float()
        tensors[f"greedy.{number}"] = torch.tensor(tokens).int()
        notes.append(
            dict(
                sounds=[dict(samples=samples, seed=own) for samples, own in zip(lengths, seeds)],
                parts=parts,
                rows=[len(rows) for rows in each],
                length=ids.shape[1],
                text=tokenizer.decode(tokens),
                least_margin=round(min(leads), 4),
                distinct_greedy=len(set(tokens)),
            )
        )
        print(number, seeds, ids.shape, notes[-1]["text"][:40], flush=True)
    return tensors, notes


def transcripts_for(model, folder, made):
    """Requests for transcripts as the model's processor writes them."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    for kind, token in dict(audio=made["soft"], audio_bos="<|audio_start|>", audio_eos="<|audio_end|>").items():
        setattr(tokenizer, f"{kind}_token", token)
    extractor = made["extractor"].from_pretrained(folder)
    processor = transformers.Qwen3ASRProcessor(extractor, tokenizer, chat_template=tokenizer.chat_template)
    tensors, notes, seed = {}, [], 0
    for number, asked in enumerate(made["transcripts"]):
        tokens = []
        while len(tokens) < GREEDY or len(set(tokens)) < DISTINCT:
            samples = sound(26667, seed := seed + 1)
            given = {key: asked.get(key) for key in ["language", "prompt"]}
            ids = processor.apply_transcription_request(samples.astype(np.float32) / 32768, **given)["input_ids"]
            with Float64(), torch.no_grad():
                model.double()
                tokens, leads = greedy_of(model, ids, features_of(model, extractor, made, samples))
        tensors[f"transcript.{number}"] = ids[0].int()
        heard = dict(samples=26667, seed=seed)
        notes.append(dict(sound=heard, language=asked["code"], prompt=asked.get("prompt"), length=ids.shape[1], text=tokenizer.decode(tokens)))
        print(seed, tokenizer.decode(ids[0]), flush=True)
    return tensors, notes


def make(name, folder, seed=1):
    made = MODELS[name]
    config = made["config"]
    make_weights(config, seed, folder, *([made["draw"], draw_normed] if "draw" in made else []))
    special = ["<|im_start|>", "<|im_end|>", made["soft"], *made.get("tokens", [])]
    pictured.bring_texts(folder, special, made.get("visible", []), chat_template=TEMPLATE.replace("SOFT", made.get("shown", made["soft"])))
    made.get("extractor", WhisperFeatureExtractor)(feature_size=BANDS).save_pretrained(folder)
    model = class_of(config).from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval().double()
    tensors, notes = prompts_for(model, folder, made)
    more, transcripts = transcripts_for(model, folder, made) if "transcripts" in made else ({}, [])
    tensors |= more
    pictured.close(folder, model, tensors, notes, config, made["renamed"])
    write(folder, "golden.json", {**pictured.golden_of(model, notes), "greedy_tokens": GREEDY, **({"transcripts": transcripts} if transcripts else {})})


if __name__ == "__main__":
    pictured.make_each(MODELS, make)
