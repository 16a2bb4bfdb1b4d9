"""Writes a pair of GGUF files, text model and what it sees and hears with, from ../../senses/gemma4 with llama.cpp's own converters.

    python convert.py LLAMA_CPP     needs a source tree of llama.cpp, transformers and torch

What such files do not say of what hears is in that folder another number than in published models; so the folder says these files' numbers
only where the test has it say the usual ones. How many bands there are, published folders do not say, and the converter takes 128.
"""

import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "vision")]
import convert  # noqa: E402

SENSES = HERE.parent.parent / "senses"


def with_bands(name, folder, own=convert.published):
    config, weights = own(name, folder)
    ear, text = config["audio_config"], config["text_config"]
    table = "model.language_model.embed_tokens_per_layer.weight"
    weights[table] = weights[table][: text["vocab_size"]].contiguous()  # as long as the other one, of which rows are left out
    bands = {**ear, "input_feat_size": ear["subsampling_conv_channels"][0]}
    return {**config, "audio_config": bands}, weights


if __name__ == "__main__":
    convert.VISION, convert.published = SENSES, with_bands
    (HERE / "gemma4").mkdir(exist_ok=True)
    convert.modern(sys.argv[1], "gemma4", HERE / "gemma4")
