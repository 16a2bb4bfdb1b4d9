"""Makes small models with transformers whose decoder attends to rows of an encoder: random weights, what the encoder makes of recordings, logits, and
what `generate` writes.

    python transcribe.py OUTPUT [NAME ...]

Everything behind what a recording is made to is computed in float64. Recordings are those of ../hearing/hear.py, and are drawn until what is chosen leads by
0.01 for each token, five tokens differ, the reply ends by itself, and silence makes another.
"""

import json
import sys
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors.torch import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import MoonshineConfig, MoonshineForConditionalGeneration, PreTrainedTokenizerFast, Wav2Vec2FeatureExtractor

GOLDEN = Path(__file__).parent.parent
sys.path[:0] = [str(GOLDEN / part) for part in ("hearing", "vision", "models")]
from hear import RATE, sound  # noqa: E402
from make import Float64  # noqa: E402

MARGIN, DISTINCT, MOST = 0.01, 5, 3000
SPECIAL = ["<unk>", "<s>", "</s>"]
PIECES = ["▁a", "▁no", "▁see", "▁ten", "▁in", "ed", "er", "ing", "s", "t", "▁", "b", "k", "o", "e", "é", ".", "?", ",", "'"]
WORDS = [*SPECIAL, *PIECES]
SAMPLES = {"moonshine": [26667, 9000]}
MOONSHINE = dict(
    vocab_size=len(WORDS),
    hidden_size=24,
    intermediate_size=40,
    encoder_num_hidden_layers=1,
    decoder_num_hidden_layers=2,
    encoder_num_attention_heads=2,
    decoder_num_attention_heads=2,
    max_position_embeddings=24,
    pad_token_id=2,
    rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.9),
)


def tokenizer():
    own = Tokenizer(models.Unigram([(piece, -float(at)) for at, piece in enumerate(WORDS)], unk_id=0))
    own.pre_tokenizer = pre_tokenizers.Metaspace()
    own.decoder = decoders.Metaspace()
    return PreTrainedTokenizerFast(tokenizer_object=own, unk_token="<unk>", bos_token="<s>", eos_token="</s>", pad_token="</s>")


def draw(name, shape, generator):
    if not len(shape):
        return None
    normal = torch.randn(*shape, generator=generator)
    if "norm" in name:
        return (1 if name.endswith("weight") else 0) + 0.2 * normal
    if "embed_tokens" in name:
        ends = torch.arange(shape[0]) == 2
        return normal * torch.where(ends, 0.9, 0.4)[:, None]
    if "encoder_attn" in name and len(shape) > 1:
        return normal * 2.5 / shape[-1] ** 0.5
    if len(shape) == 1:
        return 0.2 * normal
    return normal * 1.8 / shape[1:].numel() ** 0.5


def make_weights(folder, seed):
    kind, config = MoonshineForConditionalGeneration, MoonshineConfig(**MOONSHINE)
    config._attn_implementation = "eager"
    generator = torch.Generator().manual_seed(seed)
    model = kind(config)
    with torch.no_grad():
        for own, tensor in [*model.named_parameters(), *model.named_buffers()]:
            value = draw(own, tensor.shape, generator) if "inv_freq" not in own else None
            if value is not None:
                tensor.copy_(value.bfloat16().float())
    model.bfloat16().save_pretrained(folder)
    return kind.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval().double()


def heard(extractor, samples):
    given = extractor(samples.astype(np.float32) / 32768, sampling_rate=RATE, return_tensors="pt")
    return given["input_values"].double()


def written(model, given):
    """Rows of the encoder, tokens with the one that asks, the logits that each of the others was chosen from."""
    most = model.config.max_position_embeddings - 1
    out = model.generate(given, max_new_tokens=most, do_sample=False, return_dict_in_generate=True, output_logits=True)
    ids = out.sequences[0]
    rows = model.model.encoder(given).last_hidden_state[0]
    logits = model(given, decoder_input_ids=ids[None]).logits[0, :-1]
    assert logits.dtype == torch.float64 and (logits - torch.stack(out.logits)[:, 0]).abs().max() < 1e-9
    return rows, ids, logits


def make(name, folder, seed):
    model = make_weights(folder, seed)
    extractor, words = Wav2Vec2FeatureExtractor(do_normalize=False), tokenizer()
    for part in (extractor, words):
        part.save_pretrained(folder)
    said = json.loads((folder / "tokenizer.json").read_text())
    (folder / "tokenizer.json").write_text(json.dumps(said, ensure_ascii=False))
    notes, tensors, number = [], {}, 0
    for size in SAMPLES[name]:
        while True:
            number += 1
            if number > MOST:
                return False
            given, nothing = [heard(extractor, one) for one in (sound(size, number), np.arange(size) % 2)]
            with Float64(), torch.no_grad():
                rows, ids, logits = written(model, given)
                best = logits.topk(2).values
                least = (best[:, 0] - best[:, 1]).min().item()
                own = ids[1:].tolist()
                if not (least > MARGIN and len(set(own)) >= DISTINCT and own[-1] == 2 and len(own) > 6):
                    continue
                silent = written(model, nothing)[1]
            if silent.tolist() != ids.tolist():
                break
        text = words.decode(own, skip_special_tokens=True)
        print(name, seed, number, least, own, text, len(rows), flush=True)
        tensors[f"rows.{len(notes)}"] = rows.float().contiguous()
        tensors[f"logits.{len(notes)}"] = logits.float().contiguous()
        notes.append(dict(sound=dict(samples=size, seed=number), ids=ids.tolist(), text=text.strip(), least_margin=round(least, 4)))
    save_file(tensors, folder / "golden.safetensors")
    about = dict(transformers=transformers.__version__, margin_at_least=MARGIN, recordings=notes)
    (folder / "golden.json").write_text(json.dumps(about, ensure_ascii=False))
    return True


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    output, names = Path(sys.argv[1]), sys.argv[2:] or list(SAMPLES)
    for name in names:
        (output / name).mkdir(parents=True, exist_ok=True)
        seed = 1
        while not make(name, output / name, seed):
            seed += 1
