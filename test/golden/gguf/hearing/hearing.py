"""Writes pairs of GGUF files, text model and what it hears with, from the folders of ../../hearing with llama.cpp's own converters.

    python hearing.py LLAMA_CPP [NAME ...]     needs a source tree of llama.cpp, transformers and torch

Which class is inside is added before, as published folders have it. Qwen3-ASR is converted as Qwen published it, all inside of a thinker. Of
GLM-ASR the converter reads the folder as it was published with code of its own, whose encoder is another.
"""

import json
import sys
import tempfile
from pathlib import Path

from safetensors.torch import load_file

HERE = Path(__file__).resolve().parent
HEARING = HERE.parent.parent / "hearing"
sys.path[:0] = [str(HERE.parent / "vision")]
from convert import convert, write  # noqa: E402

TEXT = {"audio-flamingo3": "Qwen2ForCausalLM", "granite-speech": "GraniteForCausalLM", "qwen2-audio": "Qwen2ForCausalLM", "voxtral": "LlamaForCausalLM"}
THINKER = {
    "model.language_model.": "thinker.model.",
    "model.audio_tower.": "thinker.audio_tower.",
    "model.multi_modal_projector.linear_": "thinker.audio_tower.proj",
}


def thinking(config, weights):
    """A folder of Qwen3-ASR as Qwen published it."""
    kept = ("model_type", "architectures")
    thinker = {key: value for key, value in config.items() if key not in kept}
    named = {}
    for name, weight in weights.items():
        old = next(old for old in THINKER if name.startswith(old))
        named[name.replace(old, THINKER[old])] = weight
    return {**{key: config[key] for key in kept}, "thinker_config": thinker}, named


def pair(llama, name, output):
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / name  # which is written down as the model's name
        folder.mkdir()
        for file in (HEARING / name).glob("*.json"):
            (folder / file.name).write_text(file.read_text())
        config = json.loads((folder / "config.json").read_text())
        weights = load_file(HEARING / name / "model.safetensors")
        if name in TEXT:
            config["text_config"]["architectures"] = [TEXT[name]]
        else:
            config, weights = thinking(config, weights)
        write(folder, config, weights)
        convert(llama, folder, output / "model.gguf", "--outtype", "bf16")
        convert(llama, folder, output / "mmproj-model-bf16.gguf", "--outtype", "bf16", "--mmproj")


if __name__ == "__main__":
    llama, *names = sys.argv[1:]
    for name in names or [*TEXT, "qwen3-asr"]:
        (HERE / name).mkdir(exist_ok=True)
        pair(llama, name, HERE / name)
