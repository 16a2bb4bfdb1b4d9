"""Writes the GGUF files, text model and what it sees and hears with, of a folder of ../../senses with llama.cpp's own converters.

    python senses.py LLAMA_CPP     needs a source tree of llama.cpp, transformers and torch

Of Qwen 3 Omni the converter cannot name the tensors of what sees.
"""

import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "vision")]
from convert import convert  # noqa: E402

NAME = "qwen2-5-omni"


def pair(llama, source, output):
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / source.name  # which is written down as the model's name
        folder.mkdir()
        for file in (*source.glob("*.json"), source / "model.safetensors"):
            (folder / file.name).write_bytes(file.read_bytes())
        convert(llama, folder, output / "model.gguf", "--outtype", "bf16")
        convert(llama, folder, output / "mmproj-model-bf16.gguf", "--outtype", "bf16", "--mmproj")


if __name__ == "__main__":
    pair(sys.argv[1], HERE.parent.parent / "senses" / NAME, HERE / NAME)
