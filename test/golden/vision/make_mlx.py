"""Makes small models that see as mlx-vlm writes them: its model classes and its quantisation, on random weights of make.py and qwen.py.

    python make_mlx.py OUTPUT [NAME ...]

Codes, scales and biases are mlx-vlm's. What they stand for, which mlx says in float32, goes back into the model that transformers
has, and that is computed in float64 as the others are; mlx-vlm's own logits, in float32, are compared with it.
"""

import json
import shutil
import sys
import tempfile
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import mlx.core as mx
import mlx_vlm
import numpy as np
import qwen
import torch
import transformers
from mlx.utils import tree_flatten, tree_map
from mlx_vlm.models.qwen3_vl.processing_qwen3_vl import Qwen3VLProcessor
from mlx_vlm.quant_utils import quantize_model
from mlx_vlm.utils import load_config, load_model, save_config, save_weights
from PIL import Image
from safetensors.torch import save_file
from transformers import AutoImageProcessor, AutoModelForImageTextToText

HERE = Path(__file__).parent
beside = spec_from_file_location("make_seeing", HERE / "make.py")  # which imports another make.py
making = module_from_spec(beside)
beside.loader.exec_module(making)

WIDE = {"hidden_size": 64, "intermediate_size": 96}  # groups of 32 columns and more
SEEING = making.MODELS["smolvlm"]
QWEN = qwen.MODELS["qwen3-vl"]


class Packed:
    """How a model is made, what of it is packed in how many bits, and where transformers has what mlx-vlm calls otherwise."""

    def __init__(self, config, names, others, base=making, group=32):
        self.config, self.names, self.others, self.base, self.group = config, names, others, base, group

    def bits(self, path, module):
        """Those of a matrix; 0: it stays as it is. Of several words in its path the last counts."""
        found = [bits for word, bits in self.others.items() if word in path]
        return found[-1] if found else 4

    def predicate(self, path, module):
        bits = self.bits(path, module)
        return bits and (True if bits == 4 else dict(group_size=self.group, bits=bits))

    def published(self, path):
        old, new = next(pair for pair in self.names.items() if path.startswith(pair[0]))
        return new + path.removeprefix(old)


IDEFICS3 = {
    "language_model.lm_head": "lm_head",
    "language_model.": "model.text_model.",
    "vision_model.": "model.vision_model.",
    "connector.": "model.connector.",
}
QWEN3 = {
    "language_model.lm_head": "lm_head",
    "language_model.model.": "model.language_model.",
    "vision_tower.": "model.visual.",
}
MODELS = {
    # As its converter does it: nothing of the tower, and the head in more bits.
    "smolvlm-mlx": Packed(
        {
            **SEEING,
            "scale_factor": 2,
            "text_config": {**SEEING["text_config"], **WIDE},
            "vision_config": {**SEEING["vision_config"], "image_size": 16},  # mlx-vlm misplaces patches of a sixth
        },
        IDEFICS3,
        {"vision": 0, "connector": 8, "lm_head": 6},
    ),
    # As earlier ones did it: also of the tower whatever has rows of whole groups, among it the table of positions.
    "qwen3-vl-mlx": Packed(
        {
            **QWEN,
            "text_config": {**QWEN["text_config"], **WIDE},
            "vision_config": {
                **QWEN["vision_config"],
                **WIDE,
                "hidden_size": 32,
                "num_heads": 2,
                "out_hidden_size": 64,
            },
        },
        QWEN3,
        {"embed_tokens": 8, "pos_embed": 8, "blocks.1.mlp.linear_fc1": 0},
        qwen,
    ),
}


def pack(own, source, folder):
    """@returns mlx-vlm's model, and by transformers' names what its packed matrices stand for"""
    model = load_model(source, lazy=False)
    model, config = quantize_model(model, load_config(source), own.group, 4, quant_predicate=own.predicate)
    stands = {}
    for path, module in model.named_modules():
        if hasattr(module, "scales"):
            floats = [each.astype(mx.float32) for each in (module.scales, module.biases)]
            whole = mx.dequantize(module.weight, *floats, module.group_size, module.bits)
            stands[own.published(path) + ".weight"] = torch.from_numpy(np.array(whole))
    save_weights(folder, model)
    save_config(config, config_path=folder / "config.json")
    (folder / "model.safetensors.index.json").unlink()  # there is one file
    return model, stands


def compare(model, tensors, notes, folder):
    """mlx-vlm's own logits, from matrices as they are packed and everything else in float32."""
    wide = lambda x: x.astype(mx.float32) if mx.issubdtype(x.dtype, mx.floating) else x  # noqa: E731
    model.update(tree_map(wide, model.parameters()))
    for number, note in enumerate(notes):
        ids = mx.array(tensors[f"prompt.{number}"].numpy())[None]
        if "pictures" in note:
            pictures = [Image.open(folder / name) for name in note["pictures"]]
            given = AutoImageProcessor.from_pretrained(folder)(images=pictures, return_tensors="pt")
        else:
            pixels = tensors[f"pixels.{number}"]
            given = dict(pixel_values=pixels[None] if model.config.model_type == "smolvlm" else pixels)
        given = {key: mx.array(value.numpy()) for key, value in given.items()}
        made = model(ids, **given).logits
        gap = np.abs(np.array(made[0, -2:]) - tensors[f"logits.{number}"].numpy()).max()
        print(f"{folder.name}, prompt {number}: mlx-vlm's logits are {gap:.1e} away")
        assert gap < 1e-3


def bring_processor(folder):
    """What mlx-vlm's converter writes of its own class beside the file that it copies."""
    processor = Qwen3VLProcessor.from_pretrained(folder)
    image = {key: value for key, value in processor.image_processor.to_dict().items() if not key.startswith("_")}
    written = dict(image_processor=image, processor_class=type(processor).__name__)
    (folder / "processor_config.json").write_text(json.dumps(written, indent=2))


def make(name, output, seed=1):
    own = MODELS[name]
    config, base = own.config, own.base
    folder = output / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as temporary:
        source = Path(temporary) / "source"
        source.mkdir()
        given = (torch.bfloat16,) if base is making else ()
        base.make_weights(config, seed, source, *given)
        (source / "config.json").write_text(json.dumps({**config, "torch_dtype": "bfloat16"}, indent=1))
        packed, stands = pack(own, source, folder)
        eager = dict(attn_implementation="eager")
        model = AutoModelForImageTextToText.from_pretrained(source, dtype=torch.float64, **eager).eval().double()
    with torch.no_grad():
        for path, whole in stands.items():
            model.get_parameter(path).copy_(whole)
    if base is making:
        base.bring_texts(config["model_type"], folder, config)
        place = config["vision_config"]["image_size"]
    else:
        base.bring_texts(folder)
        place = folder
    tensors, notes = base.prompts_for(model, place, np.random.default_rng(seed))
    compare(packed, tensors, notes, folder)
    if base is qwen:
        bring_processor(folder)
    save_file(tensors, folder / "golden.safetensors")
    versions = {"mlx": mx.__version__, "mlx-vlm": mlx_vlm.__version__, "transformers": transformers.__version__}
    golden = dict(
        oracle=f"{type(model).__name__} of transformers, eager attention, float64 throughout, with what mlx's codes stand for",
        versions=versions,
        packed={f"{path}.weight": int(module.bits) for path, module in packed.named_modules() if hasattr(module, "bits")},
        greedy_tokens=making.GREEDY,
        margin_at_least=making.MARGIN,
        prompts=notes,
    )
    (folder / "golden.json").write_text(json.dumps(golden, indent=1))


if __name__ == "__main__":
    output, *names = sys.argv[1:]
    torch.set_num_threads(1)
    for name in names or MODELS:
        make(name, Path(output))
