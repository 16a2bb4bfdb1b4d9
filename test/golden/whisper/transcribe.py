"""Makes small Whispers with transformers: random weights, what their encoder makes of recordings, logits, what `generate` writes.

    python transcribe.py OUTPUT [NAME ...]

Everything behind the features of a recording is computed in float64, also what the model's own code does in float32. Recordings are those
of ../hearing/hear.py, and are drawn until the token that is chosen leads by 0.01 wherever there is a choice, four tokens differ, whether a
timestamp is due is never close, and silence makes other tokens.
"""

import json
import math
import sys
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoTokenizer, WhisperConfig, WhisperFeatureExtractor, WhisperForConditionalGeneration
from transformers.generation.logits_process import LogitsProcessor, WhisperTimeStampLogitsProcessor

GOLDEN = Path(__file__).parent.parent
sys.path[:0] = [str(GOLDEN / "hearing"), str(GOLDEN / "vision"), str(GOLDEN / "models")]
import pictured  # noqa: E402
from hear import BANDS, KEPT, RATE, draw_part, sound  # noqa: E402
from make import Float64  # noqa: E402
from pictured import FIRST, write  # noqa: E402

MARGIN = 0.01
TIMESTAMPS = 1501
TOKENS = 32  # positions of the decoder
LANGUAGES = ["en", "de", "fr", "zh"]
MODELS = {
    "multilingual": dict(languages=LANGUAGES, layers=2),
    "english": dict(languages=[], layers=1),  # as the .en models, and with fewer layers behind than before, as distil-whisper
}
SHORT, LONG, DISTINCT = 400123, 700000, 4
ASKED = {
    "multilingual": [
        dict(samples=SHORT, language="de"),
        dict(samples=SHORT),
        dict(samples=SHORT, language="fr", task="translate"),
        dict(samples=SHORT, language="en", prompt="Oslo, Bergen"),
        dict(samples=SHORT, language="en", timestamps=True),
        dict(samples=LONG, timestamps=True),
        dict(samples=500123, language="zh", timestamps=True, prompt="Oslo, Bergen"),
    ],
    "english": [dict(samples=SHORT), dict(samples=500123, timestamps=True)],
}


class Leads(LogitsProcessor):
    """How far what is chosen leads at the least."""

    def __init__(self):
        self.least, self.both = float("inf"), set()

    def __call__(self, ids, scores):
        best, second = scores[0].topk(2).values.tolist()
        self.least = min(self.least, best - second)
        return scores


def watched(leads, first):
    """The rule about timestamps, which also tells how close it was and which way it went."""
    plain = WhisperTimeStampLogitsProcessor.__call__

    def call(self, ids, scores):
        out = plain(self, ids, scores)
        scores = scores.clone()
        scores[:, self.no_timestamps_token_id] = -torch.inf
        logs = scores.log_softmax(-1)[0]
        masked = torch.where(out[0].isinf(), -torch.inf, logs)
        forbidden = out[0, :first].isinf().all() and not scores[0, :first].isinf().all()
        seen = ids[0, self.begin_index :]
        may = len(seen) > 0 and not (seen[-1] >= first) and masked[first:].max() > -torch.inf
        if may:
            lead = masked[first:].logsumexp(-1) - logs[:first].max()
            leads.least = min(leads.least, abs(lead.item()))
            leads.both.add(bool(lead > 0))
            assert bool(lead > 0) == bool(forbidden)
        return out

    return plain, call


def tokens_of(languages):
    names = ["<|endoftext|>", "<|startoftranscript|>", *(f"<|{code}|>" for code in languages)]
    return [*names, "<|translate|>", "<|transcribe|>", "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"]


def make_weights(config, seed, folder, first):
    generator = torch.Generator().manual_seed(seed)
    model = WhisperForConditionalGeneration(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            heard = 1.5 if "encoder_attn." in name and "k_proj" not in name else 1
            weight.copy_(heard * draw_part(name, weight.shape, generator))
        table = model.model.decoder.embed_tokens.weight
        table[first:] *= 0.25  # there are many
        table[FIRST] *= 1.05
        model.model.decoder.layer_norm.weight.mul_(2.2)
        model.model.decoder.layer_norm.bias.mul_(0.1)
        model.model.decoder.embed_positions.weight.mul_(3)  # else what was said last says what comes
        for weight in model.parameters():
            weight.copy_(weight.bfloat16().float())
    model.bfloat16().save_pretrained(folder)


def generated(model, extractor, tokenizer, samples, asked, leads):
    heard = samples.astype(np.float32) / 32768
    is_short = len(samples) <= 480000
    whole = {} if is_short else dict(padding="longest", truncation=False)
    features = extractor(heard, sampling_rate=RATE, return_tensors="pt", **whole)["input_features"].double()
    given = {key: asked[key] for key in ["language", "task"] if key in asked}
    if "prompt" in asked:
        given["prompt_ids"] = tokenizer.get_prompt_ids(asked["prompt"], return_tensors="pt")
    with_times = asked.get("timestamps", False)
    first = model.generation_config.no_timestamps_token_id + 1
    plain, WhisperTimeStampLogitsProcessor.__call__ = watched(leads, first)
    # Silence that fills a window is not gone through, as OpenAI's program does not either.
    kept = model._retrieve_max_frames_and_seek
    if is_short and with_times:
        model._retrieve_max_frames_and_seek = lambda *_, **__: (torch.tensor([len(samples) // 160]), torch.zeros(1, dtype=torch.long))
        cut = type(model)._get_input_segment
        model._get_input_segment = lambda input_features, seek, seek_num_frames, num_segment_frames, cur_bsz, batch_idx_map: (
            input_features if seek[0] == 0 else cut(input_features, seek, seek_num_frames, num_segment_frames, cur_bsz, batch_idx_map)
        )
    try:
        out = model.generate(
            features,
            attention_mask=torch.ones(features.shape[::2], dtype=torch.long),
            return_timestamps=with_times,
            return_segments=True,
            logits_processor=[leads],
            **given,
        )
        found = model.detect_language(features)[0].item() if model.generation_config.is_multilingual and "language" not in asked else None
    finally:
        WhisperTimeStampLogitsProcessor.__call__ = plain
        model._retrieve_max_frames_and_seek = kept
        model.__dict__.pop("_get_input_segment", None)
    segments = [
        dict(start=round(float(s["start"]), 2), end=round(float(s["end"]), 2), tokens=s["tokens"].tolist()) for s in out["segments"][0]
    ]
    return segments, found


def make(name, folder, seed=1):
    made = MODELS[name]
    names = tokens_of(made["languages"])
    ids = {content: FIRST + i for i, content in enumerate(names)}
    first = FIRST + len(names)
    pictured.bring_texts(folder, names)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    write(folder, "tokenizer_config.json", {**settings, "eos_token": names[0]})
    config = WhisperConfig(
        vocab_size=first + TIMESTAMPS,
        num_mel_bins=BANDS,
        d_model=32,
        encoder_layers=2,
        encoder_attention_heads=4,
        encoder_ffn_dim=48,
        decoder_layers=made["layers"],
        decoder_attention_heads=4,
        decoder_ffn_dim=48,
        max_target_positions=TOKENS,
        bos_token_id=FIRST,
        eos_token_id=FIRST,
        pad_token_id=FIRST,
        decoder_start_token_id=ids["<|startoftranscript|>"],
    )
    config._attn_implementation = "eager"
    make_weights(config, seed, folder, first)
    generation = dict(
        bos_token_id=FIRST,
        eos_token_id=FIRST,
        pad_token_id=FIRST,
        decoder_start_token_id=ids["<|startoftranscript|>"],
        max_length=TOKENS,
        max_initial_timestamp_index=50,
        no_timestamps_token_id=ids["<|notimestamps|>"],
        prev_sot_token_id=ids["<|startofprev|>"],
        is_multilingual=bool(made["languages"]),
        begin_suppress_tokens=[32, FIRST],
        suppress_tokens=[1, 2, 7, *range(314, 320), *(ids[name] for name in names[-6:-1]), ids["<|startoftranscript|>"]],
        return_timestamps=False,
        alignment_heads=[[0, 1]],
    )
    if made["languages"]:
        generation |= dict(
            lang_to_id={f"<|{code}|>": ids[f"<|{code}|>"] for code in made["languages"]},
            forced_decoder_ids=[[1, None], [2, ids["<|transcribe|>"]]],
            task_to_id=dict(transcribe=ids["<|transcribe|>"], translate=ids["<|translate|>"]),
        )
    write(folder, "generation_config.json", generation)
    WhisperFeatureExtractor(feature_size=BANDS).save_pretrained(folder)
    model = WhisperForConditionalGeneration.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval().double()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.get_prompt_ids = lambda text, return_tensors: torch.tensor(
        [ids["<|startofprev|>"], *tokenizer(" " + text.strip(), add_special_tokens=False)["input_ids"]]
    )
    extractor = WhisperFeatureExtractor.from_pretrained(folder)
    notes, tensors, number = [], {}, 0
    for asked in ASKED[name]:
        good = False
        while not good:
            number += 1
            leads = Leads()
            samples = sound(asked["samples"], number)
            with Float64(), torch.no_grad():
                segments, found = generated(model, extractor, tokenizer, samples, asked, leads)
                said = [token for segment in segments for token in segment["tokens"]]
                good = leads.least > MARGIN and len(set(said)) >= DISTINCT
                if good:
                    silent, _ = generated(model, extractor, tokenizer, 0 * samples, asked, Leads())
                    good = [s["tokens"] for s in silent] != [s["tokens"] for s in segments]
            if number % 50 == 0:
                print(number, leads.least, len(set(said)), len(segments), leads.both, flush=True)
        language = {value: key for key, value in generation.get("lang_to_id", {}).items()}.get(found)
        heard = dict(samples=asked["samples"], seed=number)
        note = dict(**{**asked, "samples": None}, sound=heard, found=language and language[2:-2], least_margin=round(leads.least, 4), both_ways=len(leads.both) == 2)
        note.pop("samples")
        texts = [dict(**s, text=tokenizer.decode([token for token in s["tokens"] if token < FIRST])) for s in segments]
        notes.append({**note, "segments": texts})
        print(number, asked, len(segments), len(said), leads.both, round(leads.least, 3), [(s["start"], s["end"]) for s in segments], flush=True)
    samples = sound(SHORT, 1)
    features = extractor(samples.astype(np.float32) / 32768, sampling_rate=RATE, return_tensors="pt")["input_features"].double()
    asked = torch.tensor([[ids["<|startoftranscript|>"], *range(40, 55)]])
    with Float64(), torch.no_grad():
        rows = model.model.encoder(features).last_hidden_state
        logits = model(encoder_outputs=(rows,), decoder_input_ids=asked, use_cache=False).logits[0]
    assert logits.dtype == torch.float64
    tensors["rows"] = rows[0].float().contiguous()[::KEPT].contiguous()
    tensors["tokens"] = asked[0].int()
    tensors["logits"] = logits[[0, -1]].float().contiguous()
    save_file(tensors, folder / "golden.safetensors")
    about = {**pictured.golden_of(model, notes), "margin_at_least": MARGIN}
    about.pop("greedy_tokens")
    (folder / "golden.json").write_text(json.dumps({**about, "rows": dict(samples=SHORT, seed=1)}, ensure_ascii=False))
    (folder / "tokenizer.json").write_text(json.dumps(json.loads((folder / "tokenizer.json").read_text()), ensure_ascii=False))


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    pictured.make_each(MODELS, make)
