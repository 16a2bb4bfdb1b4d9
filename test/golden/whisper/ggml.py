"""Has whisper.cpp's converter write the golden Whispers as its files, and quantises one; what transformers makes of that one.

    python ggml.py OUTPUT WHISPER_CPP OPENAI_WHISPER

WHISPER_CPP is a checkout of whisper.cpp, OPENAI_WHISPER one of OpenAI's program: its filters go into the files, and what it keeps a model from
writing is what `generate` is told to. Matrices of `english` are in blocks of five kinds, by gguf-py, those of `multilingual` in halves; transformers is given
what they stand for.
"""

import gzip
import json
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import gguf
import numpy as np
import tiktoken
import torch
import transformers
from gguf.quants import dequantize, quantize
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer, WhisperFeatureExtractor, WhisperForConditionalGeneration
from transformers.audio_utils import mel_filter_bank

GOLDEN = Path(__file__).parent
sys.path[:0] = [str(GOLDEN)]
from transcribe import BANDS, DISTINCT, FIRST, KEPT, LONG, MARGIN, RATE, SHORT, Float64, Leads, generated, sound  # noqa: E402

OUTPUT, WHISPER_CPP, OPENAI_WHISPER = map(Path, sys.argv[1:])
sys.path.append(str(OPENAI_WHISPER))
import whisper.tokenizer as openai  # noqa: E402

KINDS = [gguf.GGMLQuantizationType[name] for name in ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"]]
CODES = {"en": "en", "de": "zh", "fr": "de", "zh": "es"}  # the file counts languages, and names none
ASKED = [
    dict(samples=SHORT),
    dict(samples=SHORT, language="de", prompt="Oslo, Bergen"),
    dict(samples=LONG, language="es", timestamps=True),
]


def renamed(text):
    """With the languages that stand at those places in OpenAI's list."""
    for code in CODES:
        text = text.replace(f"<|{code}|>", f"<|.{code}|>")
    for code, other in CODES.items():
        text = text.replace(f"<|.{code}|>", f"<|{other}|>")
    return text


def as_converted(name, work):
    """A folder as the converter wants it."""
    shutil.copytree(GOLDEN / name, work / name)
    folder = work / name
    for file in ["tokenizer.json", "tokenizer_config.json", "generation_config.json"]:
        (folder / file).write_text(renamed((folder / file).read_text()))
    plain = {name: tensor.float() for name, tensor in load_file(folder / "model.safetensors").items()}
    save_file(plain, folder / "model.safetensors", metadata={"format": "pt"})  # numpy knows no bf16
    (folder / "config.json").write_text((folder / "config.json").read_text().replace("bfloat16", "float32"))
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    added = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    words = tokenizer["model"]["vocab"] | {content: number for content, number in added.items() if number < FIRST}
    (folder / "vocab.json").write_text(json.dumps(words))
    (folder / "added_tokens.json").write_text(json.dumps({content: number for content, number in added.items() if number >= FIRST}))
    assets = work / "openai/whisper/assets"
    assets.mkdir(parents=True, exist_ok=True)
    filters = mel_filter_bank(201, BANDS, 0, RATE / 2, RATE, norm="slaney", mel_scale="slaney").T
    np.savez(assets / "mel_filters.npz", **{f"mel_{BANDS}": filters.astype(np.float32)})
    script = WHISPER_CPP / "models/convert-h5-to-ggml.py"
    subprocess.run([sys.executable, script, folder, work / "openai", work], check=True, stdout=subprocess.DEVNULL)
    return folder, words, added, (work / "ggml-model.bin").read_bytes()


def tensors_at(data, at):
    """The names, shapes, places and kinds of a file's tensors."""
    while at < len(data):
        count, length, kind = struct.unpack_from("3i", data, at)
        dims = struct.unpack_from(f"{count}i", data, at + 12)
        begin = at + 12 + 4 * count + length
        name = data[begin - length : begin].decode()
        size = int(np.prod(dims)) * (2 if kind == 1 else 4)
        yield name, dims, kind, at, begin, size
        at = begin + size


def start_of_tensors(data):
    bands, bins = struct.unpack_from("2i", data, 48)
    at = 56 + 4 * bands * bins
    (count,) = struct.unpack_from("i", data, at)
    at += 4
    for _ in range(count):
        at += 4 + struct.unpack_from("i", data, at)[0]
    return at


def written(data, in_blocks):
    """The file, or the same with matrices in blocks, and what its tensors stand for, in the file's order."""
    start = start_of_tensors(data)
    out = bytearray(data[:start])
    if in_blocks:
        struct.pack_into("i", out, 44, 2008)
    meant, number = [], 0
    for name, dims, kind, at, begin, size in tensors_at(data, start):
        values = np.frombuffer(data, np.float16 if kind == 1 else np.float32, int(np.prod(dims)), begin).astype(np.float32)
        values = values.reshape(dims[::-1])
        if in_blocks and kind == 1 and len(dims) == 2 and dims[0] % 32 == 0:
            block = KINDS[number % len(KINDS)]
            number += 1
            packed = quantize(values, block)
            values = dequantize(packed, block)
            out += struct.pack("3i", 2, len(name), block) + data[at + 12 : begin] + packed.tobytes()
        else:
            out += data[at : begin + size]
        meant.append((name, values))
    return bytes(out), meant


def kept_from(words, added):
    """By OpenAI's program: its tokenizer, what is never written, and what is not written first."""
    byte_of = {character: byte for byte, character in bytes_to_unicode().items()}
    ranks = {bytes(byte_of[character] for character in word): number for word, number in words.items()}
    special = {content: number for content, number in added.items() if number >= FIRST}
    special |= {f"<|{2 * number / 100:.2f}|>": FIRST + len(special) + number for number in range(1501)}
    pattern = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
    encoding = tiktoken.Encoding("tiny", pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)
    tokenizer = openai.Tokenizer(encoding=encoding, num_languages=len(CODES), language="en", task="transcribe")
    # decoding.py, _get_suppress_tokens and SuppressBlank
    named = [tokenizer.transcribe, tokenizer.translate, tokenizer.sot, tokenizer.sot_prev, tokenizer.sot_lm, special["<|nospeech|>"]]
    return encoding, sorted({*tokenizer.non_speech_tokens, *named}), [*tokenizer.encode(" "), tokenizer.eot]


def bytes_to_unicode():
    kept = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in kept]
    return {byte: chr(byte) for byte in kept} | {byte: chr(256 + i) for i, byte in enumerate(others)}


def pack(name, data):
    (OUTPUT / name).write_bytes(gzip.compress(data, 9, mtime=0))


def opened(folder, meant):
    """With what the file's tensors stand for."""
    model = WhisperForConditionalGeneration.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval().double()
    names = [name for name in model.state_dict() if name != "proj_out.weight"]
    with torch.no_grad():
        for name, (_, values) in zip(names, meant, strict=True):
            own = model.state_dict()[name]
            own.copy_(torch.from_numpy(values.copy()).double().reshape(own.shape))
    assert model.proj_out.weight.data_ptr() == model.model.decoder.embed_tokens.weight.data_ptr()
    return model, WhisperFeatureExtractor.from_pretrained(folder)


def make_english(work):
    folder, words, added, data = as_converted("english", work)
    data, meant = written(data, True)
    pack("english.bin.gz", data)
    model, extractor = opened(folder, meant)
    samples = sound(SHORT, 1)
    features = extractor(samples.astype(np.float32) / 32768, sampling_rate=RATE, return_tensors="pt")["input_features"].double()
    asked = torch.tensor([[added["<|startoftranscript|>"], *range(40, 55)]])
    with Float64(), torch.no_grad():
        rows = model.model.encoder(features).last_hidden_state
        logits = model(encoder_outputs=(rows,), decoder_input_ids=asked, use_cache=False).logits[0]
    golden = dict(rows=rows[0].float()[::KEPT].contiguous(), tokens=asked[0].int(), logits=logits[[0, -1]].float().contiguous())
    save_file(golden, OUTPUT / "golden.safetensors")


def make_multilingual(work):
    folder, words, added, data = as_converted("multilingual", work)
    data, meant = written(data, False)
    pack("multilingual.bin.gz", data)
    model, extractor = opened(folder, meant)
    encoding, suppressed, first = kept_from(words, added)
    model.generation_config.suppress_tokens, model.generation_config.begin_suppress_tokens = suppressed, first
    tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.get_prompt_ids = lambda text, return_tensors: torch.tensor([added["<|startofprev|>"], *encoding.encode(" " + text.strip())])
    notes, number = [], 0
    for asked in ASKED:
        good = False
        while not good:
            number += 1
            leads = Leads()
            samples = sound(asked["samples"], number)
            with Float64(), torch.no_grad():
                segments, found = generated(model, extractor, tokenizer, samples, asked, leads)
            said = [token for segment in segments for token in segment["tokens"]]
            good = leads.least > MARGIN and len(set(said)) >= DISTINCT
        language = {number: content[2:-2] for content, number in added.items()}.get(found)
        texts = [dict(**s, text=tokenizer.decode([token for token in s["tokens"] if token < FIRST])) for s in segments]
        heard = dict(samples=asked.pop("samples"), seed=number)
        notes.append(dict(**asked, sound=heard, found=language, least_margin=round(leads.least, 4), segments=texts))
        print(number, notes[-1], flush=True)
    told = dict(rows=dict(samples=SHORT, seed=1), suppressed=suppressed, suppressed_first=first, prompts=notes)
    (OUTPUT / "golden.json").write_text(json.dumps(told, ensure_ascii=False))


if __name__ == "__main__":
    transformers.logging.set_verbosity_error()
    OUTPUT.mkdir(exist_ok=True)
    for make in [make_english, make_multilingual]:
        with tempfile.TemporaryDirectory() as place:
            make(Path(place))
