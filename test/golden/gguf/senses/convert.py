"""Writes pairs of GGUF files, text model and what it sees and hears with, from the folders of ../../senses with llama.cpp's own converters.

    python convert.py LLAMA_CPP [NAME ...]     needs a source tree of llama.cpp, transformers and torch

What such files do not say of what hears is in those folders another number than in published models; so they say these files' numbers
only where the test has them say the usual ones. Qwen 2.5 Omni's folder is converted as it is. How many bands there are, published folders do not say, and the converter takes 128. Of
12B's folder, which has nothing to see with, the converter is told how wide that would be.
"""

import json
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "vision")]
import convert  # noqa: E402

BANDS = ["gemma4"]
OMNI = "qwen2-5-omni"
EYE = dict(patch_size=2, pooling_kernel_size=2)
NONE = dict(num_kv_shared_layers=0, hidden_size_per_layer_input=0, moe_intermediate_size=None, use_double_wide_mlp=False)  # published ones say so
SENSES = HERE.parent.parent / "senses"


def with_bands(name, folder, own=convert.published):
    config, weights = own(name, folder)
    ear, text = config["audio_config"], config["text_config"]
    if name not in BANDS:
        eye = {**EYE, "mm_embed_dim": text["hidden_size"]}
        return {**config, "vision_config": eye, "text_config": {**NONE, **text}}, weights
    table = "model.language_model.embed_tokens_per_layer.weight"
    weights[table] = weights[table][: text["vocab_size"]].contiguous()  # as long as the other one, of which rows are left out
    bands = {**ear, "input_feat_size": ear["subsampling_conv_channels"][0]}
    return {**config, "audio_config": bands}, weights


def as_it_is(llama, name, output):
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / name  # which is written down as the model's name
        folder.mkdir()
        for file in (*(SENSES / name).glob("*.json"), SENSES / name / "model.safetensors"):
            (folder / file.name).write_bytes(file.read_bytes())
        convert.convert(llama, folder, output / "model.gguf", "--outtype", "bf16")
        convert.convert(llama, folder, output / "mmproj-model-bf16.gguf", "--outtype", "bf16", "--mmproj")


if __name__ == "__main__":
    convert.VISION, convert.published = SENSES, with_bands
    for name in sys.argv[2:] or [*BANDS, "gemma4-unified", OMNI]:
        (HERE / name).mkdir(exist_ok=True)
        (as_it_is if name == OMNI else convert.modern)(sys.argv[1], name, HERE / name)
