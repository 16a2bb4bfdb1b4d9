"""Makes small Parakeets with transformers: random weights, what their encoder makes of recordings, what `generate` writes, and when.

    python transcribe.py OUTPUT [NAME ...]

Everything behind the features of a recording is computed in float64. Recordings are those of ../hearing/hear.py, and are drawn until what is chosen
leads by 0.01 wherever there is a choice (a token, and how far it goes on), four tokens differ, and silence makes other tokens.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import ParakeetCTCConfig, ParakeetFeatureExtractor, ParakeetForCTC, ParakeetForRNNT, ParakeetForTDT, ParakeetProcessor
from transformers import ParakeetRNNTConfig, ParakeetTDTConfig, ParakeetTokenizer

GOLDEN = Path(__file__).parent.parent
sys.path[:0] = [str(GOLDEN / part) for part in ("hearing", "vision", "models")]
from hear import RATE, sound  # noqa: E402
from make import Float64  # noqa: E402

BANDS, MARGIN, DISTINCT, MOST = 16, 0.01, 4, 500
ENCODER = dict(
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=48,
    subsampling_conv_channels=8,
    num_mel_bins=BANDS,
)
PLAIN = dict(attention_bias=False, convolution_bias=False, scale_input=False, conv_kernel_size=5)
PIECES = ["<unk>", "▁a", "▁no", "▁see", "▁ten", "▁in", "ed", "er", "ing", "s", "t", "▁", "b", "k", "o", "e", "é", ".", "?", ",", "'"]
WORDS = len(PIECES)  # and behind them the token of what says nothing
TRANSDUCER = dict(vocab_size=WORDS + 1, blank_token_id=WORDS, pad_token_id=0, decoder_hidden_size=24, num_decoder_layers=2)
MODELS = {
    "ctc": (ParakeetForCTC, ParakeetCTCConfig, dict(vocab_size=WORDS + 1, pad_token_id=WORDS, encoder_config=ENCODER)),
    "tdt": (ParakeetForTDT, ParakeetTDTConfig, dict(**TRANSDUCER, durations=[0, 1, 2, 3, 4], encoder_config={**ENCODER, **PLAIN})),
    "rnnt": (ParakeetForRNNT, ParakeetRNNTConfig, dict(**{**TRANSDUCER, "num_decoder_layers": 1}, encoder_config={**ENCODER, "num_hidden_layers": 1})),
}
SAMPLES = {"tdt": [26667]}  # else
USUAL = [26667, 81920]
SEEDS = {"tdt": 8}  # the first whose recordings show enough; else 1


def bring_tokenizer(folder, name):
    tokenizer = Tokenizer(models.Unigram([(piece, -float(at)) for at, piece in enumerate(PIECES)], unk_id=0))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    blank = "<pad>" if name == "ctc" else "<blank>"
    own = ParakeetTokenizer(tokenizer_object=tokenizer, unk_token="<unk>", pad_token="<pad>" if name == "ctc" else "<unk>")
    own.add_special_tokens({"additional_special_tokens": [blank]} if blank != "<pad>" else {})
    assert own.convert_tokens_to_ids(blank) == WORDS
    return own


def draw(name, shape, generator):
    normal = torch.randn(*shape, generator=generator) if len(shape) else None
    if "num_batches" in name:
        return None
    if "running_var" in name:
        return 0.5 + 0.3 * normal.abs()
    if "running_mean" in name:
        return 0.2 * normal
    if "norm" in name:
        return (1 if name.endswith("weight") else 0) + 0.2 * normal
    if name.endswith(("bias_u", "bias_v")):
        return 0.5 * normal
    if "embedding" in name:
        return 2 * normal
    if "head" in name:
        at = torch.arange(shape[0])
        blank = (at == WORDS) * (0.5 if len(shape) and shape[0] > WORDS + 1 else 1) + 0.4 * ((at > WORDS + 1) & (at < WORDS + 4))  # and few rows to go on
        return normal * torch.where(at > WORDS, 3, 4).reshape(-1, *(1 for _ in shape[1:])) / shape[1] ** 0.5 if len(shape) > 1 else 0.5 * normal + 5 * blank
    if "self_attn" in name and len(shape) > 1:
        return normal * 0.8 / shape[-1] ** 0.5
    if "conv" in name or "subsampling" in name:
        return normal * 2.2 / shape[1:].numel() ** 0.5 if len(shape) > 1 else normal * 0.2
    return normal * 1.5 / shape[-1] ** 0.5 if len(shape) > 1 else normal * 0.1


def make_weights(name, folder, seed):
    kind, configure, given = MODELS[name]
    config = configure(**json.loads(json.dumps(given)))
    config._attn_implementation = "eager"
    generator = torch.Generator().manual_seed(seed)
    model = kind(config)
    with torch.no_grad():
        for own, tensor in [*model.named_parameters(), *model.named_buffers()]:
            value = draw(own, tensor.shape, generator) if "inv_freq" not in own else None
            if value is not None:
                tensor.copy_(value.bfloat16().float())
    if name != "ctc":
        model.generation_config.decoder_start_token_id = WORDS
    if name == "tdt":
        model.generation_config.suppress_tokens = [WORDS + 1 + at for at in range(len(config.durations))]
    model.bfloat16().save_pretrained(folder)
    return kind.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval().double()


def leads(logits):
    best = logits.topk(2).values
    return (best[..., 0] - best[..., 1]).min().item()


def heard(processor, samples):
    given = processor(samples.astype(np.float32) / 32768, sampling_rate=RATE)
    return {**given, "input_features": given["input_features"].double()}


def written(name, model, given):
    """Rows of the encoder, tokens with what says nothing among them, how many rows each goes on, and the least lead."""
    if name == "ctc":
        encoded = model.encoder(**given)
        count = int(encoded.attention_mask.sum())
        rows = encoded.last_hidden_state[0, :count]
        logits = model(**given).logits[0, :count]
        assert logits.dtype == torch.float64
        ids = model.generate(**given)[0, :count]
        assert ids.tolist() == logits.argmax(-1).tolist()
        return rows, ids, None, leads(logits)
    encoded = model.get_audio_features(**given)
    rows = encoded.pooler_output[0, : int(encoded.attention_mask.sum())]
    least, words = [], model.config.vocab_size
    plain = model.joint.forward

    def joint(**own):
        logits = plain(**own)
        assert logits.dtype == torch.float64
        least.append(leads(logits[..., :words]))
        if name == "tdt":
            least.append(leads(logits[..., words:]))
        return logits

    model.joint.forward = joint
    try:
        out = model.generate(**given)
    finally:
        model.joint.forward = plain
    return rows, out.sequences[0], out.durations[0], min(least)


def make(name, folder, seed=1):
    """@returns whether recordings were found that show enough of it"""
    model = make_weights(name, folder, seed)
    processor = ParakeetProcessor(ParakeetFeatureExtractor(feature_size=BANDS), bring_tokenizer(folder, name), decoder_type=name)
    processor.save_pretrained(folder)
    said = json.loads((folder / "tokenizer.json").read_text())
    (folder / "tokenizer.json").write_text(json.dumps(said, ensure_ascii=False))
    blank, notes, tensors, number = WORDS, [], {}, 0
    for size in SAMPLES.get(name, USUAL):
        while True:
            number += 1
            if number > MOST:
                return False
            given, nothing = heard(processor, sound(size, number)), heard(processor, np.arange(size) % 2)
            with Float64(), torch.no_grad():
                rows, ids, durations, least = written(name, model, given)
                silent = written(name, model, nothing)[1]
            kept = [token for token in ids.tolist() if token != blank]
            repeats = sum(one == other for one, other in zip(ids.tolist(), ids.tolist()[1:], strict=False) if one != blank)
            shows = len(ids) - len(kept) > 2 and (name != "ctc" or repeats > 1)
            if name == "tdt":
                spans = {span for token, span in zip(ids.tolist(), durations.tolist(), strict=True) if token != blank}
                shows = shows and 0 in spans and len(spans) > 2 and len(ids) < 3 * len(rows)
            if least > MARGIN and len(set(kept)) >= DISTINCT and silent.tolist() != ids.tolist() and shows:
                break
        note = dict(sound=dict(samples=size, seed=number), ids=ids.tolist(), least_margin=round(least, 4))
        if durations is None:
            note["text"] = processor.batch_decode(ids[None], skip_special_tokens=True)[0]
        else:
            text, times = processor.decode(ids[None], durations=durations[None], skip_special_tokens=True)
            note |= dict(durations=durations.tolist(), text=text[0], times=times[0])
        print(name, seed, number, least, len(ids), len(kept), note["text"], flush=True)
        tensors[f"rows.{len(notes)}"] = rows.float().contiguous()
        notes.append(note)
    save_file(tensors, folder / "golden.safetensors")
    about = dict(transformers=transformers.__version__, margin_at_least=MARGIN, recordings=notes)
    (folder / "golden.json").write_text(json.dumps(about, ensure_ascii=False))
    return True


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    output, names = Path(sys.argv[1]), sys.argv[2:] or MODELS
    for name in names:
        (output / name).mkdir(parents=True, exist_ok=True)
        seed = SEEDS.get(name, 1)
        while not make(name, output / name, seed):
            seed += 1
