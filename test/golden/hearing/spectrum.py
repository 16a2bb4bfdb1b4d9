# How loud bands are by Gemma4AudioFeatureExtractor of transformers, as it is made and with every number another, and by Gemma 3n's; and how
# many frames and rows of so many samples there are. See README.md.

import base64
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import transformers
from hear import sound
from transformers import Gemma3nAudioFeatureExtractor, Gemma4AudioFeatureExtractor
from transformers.models.gemma4.processing_gemma4 import Gemma4Processor

BANDS = 16
SAMPLES, SEED = 9000, 5
SHOWN = [0, 1, 27, -1]
SETTINGS = {
    "as it is made": {},
    "of other frames": dict(frame_length_ms=32, fft_overdrive=True, min_frequency=125, max_frequency=7600, mel_floor=0.01),
    "emphasised": dict(preemphasis=0.9, input_scale_factor=2.5),
    "emphasised otherwise": dict(preemphasis=0.9, preemphasis_htk_flavor=False, frame_length_ms=25),
    "normalised": dict(per_bin_mean=[0.1 * band - 1 for band in range(BANDS)], per_bin_stddev=[1 + 0.05 * band for band in range(BANDS)]),
}


def heard(extractor, samples):
    made = extractor([sound(samples, SEED).astype(np.float32) / 32768], sampling_rate=16000)
    return made["input_features"][0], made["input_features_mask"][0]


def shown(extractor):
    features, mask = heard(extractor, SAMPLES)
    kept = features[mask]
    frames = np.stack([kept[at] for at in SHOWN]).astype("<f4")
    return dict(frames=len(kept), shown=SHOWN, features=base64.b64encode(frames.tobytes()).decode())


def counted(samples):
    _, mask = heard(Gemma4AudioFeatureExtractor(feature_size=BANDS), samples)
    words = SimpleNamespace(boa_token="", audio_token="x", eoa_token="")
    rows = len(Gemma4Processor.replace_audio_token(words, dict(input_features_mask=[mask]), 0))
    return dict(samples=samples, frames=int(mask.sum()), rows=rows)


def ended(samples):
    _, mask = heard(Gemma3nAudioFeatureExtractor(feature_size=BANDS), samples)
    return dict(samples=samples, frames=int(mask.sum()))


def main():
    made = dict(
        transformers=transformers.__version__,
        numpy=np.__version__,
        bands=BANDS,
        samples=SAMPLES,
        seed=SEED,
        spectra=[
            dict(what=what, settings=settings, **shown(Gemma4AudioFeatureExtractor(feature_size=BANDS, **settings)))
            for what, settings in SETTINGS.items()
        ],
        ended=dict(
            **shown(Gemma3nAudioFeatureExtractor(feature_size=BANDS)), counts=[ended(samples) for samples in (513, 640, 641, 800, 801, 26667, 480000)]
        ),
        counts=[counted(samples) for samples in (161, 320, 321, 800, 801, 1600, 26667, 480000)],
    )
    (Path(__file__).parent / "spectrum.json").write_text(json.dumps(made, indent=1) + "\n")


main()
