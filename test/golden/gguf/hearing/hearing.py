"""Writes pairs of GGUF files, text model and what it hears with, from the folders of ../../hearing with llama.cpp's own converters.

    python hearing.py LLAMA_CPP [NAME ...]     needs a source tree of llama.cpp, transformers and torch

Which class is inside is added before, as published folders have it. Of GLM-ASR the converter reads the folder as it was published with
code of its own, whose encoder is another.
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

TEXT = {"audio-flamingo3": "Qwen2ForCausalLM", "qwen2-audio": "Qwen2ForCausalLM", "voxtral": "LlamaForCausalLM"}


def pair(llama, name, output):
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / name  # which is written down as the model's name
        folder.mkdir()
        for file in (HEARING / name).glob("*.json"):
            (folder / file.name).write_text(file.read_text())
        config = json.loads((folder / "config.json").read_text())
        config["text_config"]["architectures"] = [TEXT[name]]
        write(folder, config, load_file(HEARING / name / "model.safetensors"))
        convert(llama, folder, output / "model.gguf", "--outtype", "bf16")
        convert(llama, folder, output / "mmproj-model-bf16.gguf", "--outtype", "bf16", "--mmproj")


if __name__ == "__main__":
    llama, *names = sys.argv[1:]
    for name in names or TEXT:
        (HERE / name).mkdir(exist_ok=True)
        pair(llama, name, HERE / name)
