# What other programs make of sounds: transformers' processors of audio, libsndfile, LAME and FLAC. See README.md.
#
# Sounds are made by a formula of whole numbers, so that every language has the same bits.

import base64
import hashlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

os.environ["HF_HUB_OFFLINE"] = "1"

import mistral_common
import numpy as np
import soundfile
import torch
import transformers
from mistral_common.tokens.tokenizers.audio import AudioConfig, AudioEncoder, AudioSpectrogramConfig, SpecialAudioIDs
from transformers import WhisperFeatureExtractor
from transformers.models.audioflamingo3.modeling_audioflamingo3 import AudioFlamingo3Encoder
from transformers.models.audioflamingo3.processing_audioflamingo3 import AudioFlamingo3Processor
from transformers.models.glmasr.processing_glmasr import GlmAsrProcessor
from transformers.models.qwen2_audio.processing_qwen2_audio import Qwen2AudioProcessor
from transformers.models.qwen2_5_omni.processing_qwen2_5_omni import Qwen2_5OmniProcessor
from transformers.models.voxtral.processing_voxtral import VoxtralProcessor

HERE = Path(__file__).parent
WAV = HERE / "made.wav"  # between two steps


def sound(count):
    """Noise and a square wave, now loud, now 4,096 times softer, now nothing."""
    state, samples = 1, np.zeros(count, np.float64)
    for at in range(count):
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
        block = at // 8000
        square = 1 - 2 * ((at * 55 >> 11) & 1)
        loud = 0 if block % 7 == 6 else 2.0 ** -(block * 5 % 13)
        samples[at] = (((state >> 15) - 32768) / 131072 + square / 2) * loud
    return samples.astype(np.float32)


# ---- what a tower hears


def processor(kind, bands, **more):
    """One without a tokenizer, which has no part in what is kept here."""
    made = object.__new__(kind)
    made.feature_extractor = WhisperFeatureExtractor(feature_size=bands)
    made.audio_token = "<audio>"
    for name, value in more.items():
        setattr(made, name, value)
    return made


def options(kind):
    return {**kind.audio_kwargs} if hasattr(kind, "audio_kwargs") else {"sampling_rate": 16000, "return_tensors": "pt"}


def windows_of(kind, samples, made):
    """Features of each window [windows, bands, frames], and how many tokens the processor writes."""
    if kind is VoxtralProcessor:
        given = options(kind)
        features = made._retrieve_input_features([samples], given.pop("max_source_positions"), **given)
        return features.numpy(), None
    inputs, _ = made._process_audio([samples], **options(kind))
    return np.asarray(inputs["input_features"]), int(inputs["num_audio_tokens"][0])


CASES = {
    "qwen2-audio": (Qwen2AudioProcessor, 128, 11234),
    "qwen2-audio-whole": (Qwen2AudioProcessor, 128, 480000),
    "qwen2-audio-80": (Qwen2AudioProcessor, 80, 11234),
    "voxtral": (VoxtralProcessor, 128, 564321),
    "audio-flamingo-3": (AudioFlamingo3Processor, 128, 480330),
    "audio-flamingo-3-rest": (AudioFlamingo3Processor, 128, 480320),
    "glm-asr": (GlmAsrProcessor, 128, 500001),
}
LENGTHS = {AudioFlamingo3Processor: 600, GlmAsrProcessor: 655}


def heard():
    told = {}
    for name, (kind, bands, count) in CASES.items():
        more = {"max_audio_len": LENGTHS[kind]} if kind in LENGTHS else {}
        made = processor(kind, bands, **more)
        samples = sound(count)
        in_floats, tokens = windows_of(kind, samples, made)
        made.feature_extractor._torch_extract_fbank_features = made.feature_extractor._np_extract_fbank_features
        windows, _ = windows_of(kind, samples, made)
        frames = [0, 1, min(count // 160, 2999), 2999]
        told[name] = {
            "samples": count,
            "bands": bands,
            "tokens": tokens,
            "torch": float(np.abs(in_floats - windows).max()),
            "windows": [
                {
                    "mean": float(each.astype(np.float64).mean()),
                    "square": float((each.astype(np.float64) ** 2).mean()),
                    "frames": frames,
                    "features": base64.b64encode(each[:, frames].T.astype("<f4").tobytes()).decode(),
                }
                for each in windows
            ],
        }
    return told


def filled():
    """Features of a recording in silence of 20 seconds, before it or behind it, and how many tokens Qwen2.5-Omni's processor writes."""
    told = []
    for side in ("right", "left"):
        for count in (33333, 319999):
            made = processor(Qwen2_5OmniProcessor, 128)
            made.feature_extractor = WhisperFeatureExtractor(feature_size=128, chunk_length=20, padding_side=side)
            made.feature_extractor._torch_extract_fbank_features = made.feature_extractor._np_extract_fbank_features
            inputs, _ = made._process_audio([sound(count)], **options(Qwen2_5OmniProcessor))
            each = np.asarray(inputs["input_features"])[0][:, np.asarray(inputs["feature_attention_mask"])[0].astype(bool)]
            length = each.shape[1]
            frames = [0, 1, length // 2, length - 2, length - 1]
            told.append(
                {
                    "samples": count,
                    "side": side,
                    "tokens": int(inputs["num_audio_tokens"][0]),
                    "length": length,
                    "square": float((each.astype(np.float64) ** 2).mean()),
                    "frames": frames,
                    "features": base64.b64encode(each[:, frames].T.astype("<f4").tobytes()).decode(),
                }
            )
    return told


def joined():
    """How many rows come of so many frames, in the encoder and behind it."""
    lengths = [1, 2, 3, 4, 5, 6, 7, 8, 9, 100, 101, 2998, 2999, 3000]
    encoder, out = AudioFlamingo3Encoder._get_feat_extract_output_lengths(None, torch.tensor(lengths))
    four = GlmAsrProcessor._get_audio_token_length(SimpleNamespace(), torch.tensor(lengths))
    return [list(each) for each in zip(lengths, encoder.tolist(), out.tolist(), four.tolist())]


def padded():
    """How many tokens Voxtral has for so many samples, as mistral_common writes them."""
    config = AudioConfig(16000, 12.5, AudioSpectrogramConfig(128, 160, 400), chunk_length_s=30.0)
    encoder = AudioEncoder(config, SpecialAudioIDs(24, 25, None, None, None))
    counts = [1, 11234, 480000, 480001, 564321]
    lengths = [encoder.pad(np.zeros(count), 16000).shape[0] for count in counts]
    return [[count, len(encoder._encode_audio_tokens(length)) - 1] for count, length in zip(counts, lengths)]


# ---- what files hold


def channels_of(count, channels):
    """Different in each, [count, channels]."""
    return np.stack([np.roll(sound(count), 7 * channel) / 2**channel for channel in range(channels)], axis=1)


WAVS = {
    "u8.wav": ("PCM_U8", 1, 8000, "WAV"),
    "s16.wav": ("PCM_16", 2, 44100, "WAV"),
    "s24.wav": ("PCM_24", 1, 48000, "WAV"),
    "s24-six.wav": ("PCM_24", 6, 48000, "WAVEX"),
    "s32.wav": ("PCM_32", 2, 96000, "WAV"),
    "f32.wav": ("FLOAT", 3, 22050, "WAV"),
    "f64.wav": ("DOUBLE", 1, 16000, "WAV"),
    "f32-extensible.wav": ("FLOAT", 1, 16000, "WAVEX"),
    "rf64.wav": ("PCM_16", 1, 16000, "RF64"),
}


def write_wavs():
    for name, (subtype, channels, rate, container) in WAVS.items():
        soundfile.write(HERE / name, channels_of(71, channels), rate, subtype=subtype, format=container)
    for name, subtype in (("a-law.wav", "ALAW"), ("mu-law.wav", "ULAW")):
        every = io.BytesIO(bytes(range(256)))
        samples, _ = soundfile.read(every, channels=1, samplerate=8000, format="RAW", subtype=subtype)
        soundfile.write(HERE / name, samples, 8000, subtype=subtype)
    return [*WAVS, "a-law.wav", "mu-law.wav"]


# Every kind of channel and of block: constant, verbatim (noise of all bits), predicted by fixed and by own coefficients, bits that are
# always 0, left and right by their difference and their mean, parts with parameters of five bits.
FLACS = {
    "s16.flac": ("PCM_16", 2, 44100, ["-8", "-b", "192"], 1000),
    "s16-fixed.flac": ("PCM_16", 1, 16000, ["-0", "-b", "576"], 1500),
    "s24.flac": ("PCM_24", 2, 96000, ["-8", "-e"], 700),
    "s8-eight.flac": ("PCM_U8", 8, 11025, ["-5", "--channel-map=none"], 300),
    "s32.flac": ("PCM_32", 1, 48000, ["-8"], 300),
    "left.flac": ("PCM_16", 2, 32000, ["-5", "-m", "-b", "256"], 600),
    "right.flac": ("PCM_16", 2, 32000, ["-5", "-m", "-b", "256"], 600),
    "mid.flac": ("PCM_16", 2, 32000, ["-5", "-m", "-b", "256"], 600),
}


def of_flac(name, count, channels):
    smooth = np.sin(np.arange(count)[:, None] ** 1.5 / 300 + np.arange(channels)) * 0.6
    noise = channels_of(count, channels)
    if name in ("left.flac", "right.flac"):
        rough = smooth[:, 0] + noise[:, 0] / 64
        both = np.stack([rough, rough * 0.99], axis=1)
        return np.round((both if name == "right.flac" else both[:, ::-1]) * 2048) / 2048
    samples = smooth[:, :1] + noise / 64 if name == "mid.flac" else smooth + noise / 4
    samples[count // 3 : 2 * count // 3] = 0.25
    return samples if name != "s24.flac" else smooth


def write_flacs():
    for name, (subtype, channels, rate, how, count) in FLACS.items():
        container = "WAV" if channels < 3 else "WAVEX"
        soundfile.write(WAV, of_flac(name, count, channels), rate, subtype=subtype, format=container)
        subprocess.run(["flac", "-f", "-s", "--no-padding", "--no-seektable", *how, "-o", HERE / name, WAV], check=True)
        WAV.unlink()
    noise = np.random.default_rng(1).integers(-(2**15), 2**15, 300).astype(np.int16)
    soundfile.write(HERE / "noise.flac", noise, 16000)
    return [*FLACS, "noise.flac"]


MP3S = {"stereo.mp3": (2, 44100), "mono.mp3": (1, 16000), "low.mp3": (1, 8000)}


def write_mp3s():
    for name, (channels, rate) in MP3S.items():
        count = rate // 4
        tone = np.sin(2 * np.pi * 440 * np.arange(count)[:, None] / rate) * 0.5 / (1 + np.arange(channels))
        soundfile.write(HERE / name, tone, rate, format="MP3", subtype="MPEG_LAYER_III")
    return list(MP3S)


OGGS = {
    "stereo-opus.ogg": ("OPUS", 2, 48000, 0.5),
    "mono-opus.ogg": ("OPUS", 1, 16000, 0.3),
    "six-opus.ogg": ("OPUS", 6, 48000, 0.1),
    "short-opus.ogg": ("OPUS", 1, 48000, 0.005),
    "stereo-vorbis.ogg": ("VORBIS", 2, 44100, 0.4),
    "mono-vorbis.ogg": ("VORBIS", 1, 8000, 0.3),
}


def write_oggs():
    for name, (subtype, channels, rate, seconds) in OGGS.items():
        count = round(rate * seconds)
        turns = np.arange(count)[:, None] * (330 + 110 * np.arange(channels)) / rate
        tone = np.sin(2 * np.pi * turns) * 0.5 / (1 + np.arange(channels))
        soundfile.write(HERE / name, tone, rate, format="OGG", subtype=subtype)
    return list(OGGS)


def of_file(name):
    if name == "s32.flac": # libsndfile reads none
        subprocess.run(["flac", "-f", "-s", "-d", "-o", WAV, HERE / name], check=True)
    path = WAV if WAV.exists() else HERE / name
    samples, rate = soundfile.read(path, dtype="float64", always_2d=True)
    WAV.unlink(missing_ok=True)
    mean = samples.mean(axis=1).astype("<f4")
    told = {"rate": rate, "samples": len(mean), "sha256": hashlib.sha256(mean.tobytes()).hexdigest()}
    if name.endswith((".mp3", ".ogg")): # in 16 bits: decoders differ in the last of them
        told["s16"] = base64.b64encode(np.round(mean * 32767).astype("<i2").tobytes()).decode()
    return told


def files():
    return {name: of_file(name) for name in [*write_wavs(), *write_flacs(), *write_mp3s(), *write_oggs()]}


def versions():
    return {
        "flac": subprocess.run(["flac", "--version"], check=True, capture_output=True, text=True).stdout.split()[1],
        "libsndfile": soundfile.__libsndfile_version__,
        "mistral_common": mistral_common.__version__,
        "numpy": np.__version__,
        "torch": torch.__version__.split("+")[0],
        "transformers": transformers.__version__,
    }


MAKERS = {"made": versions, "files": files, "heard": heard, "filled": filled, "joined": joined, "padded": padded}


def main():
    """All of it, or what is named."""
    path = HERE / "golden.json"
    told = json.loads(path.read_text()) if path.exists() else {}
    for name, maker in MAKERS.items():
        if not sys.argv[1:] or name in sys.argv[1:]:
            told[name] = maker()
    path.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
