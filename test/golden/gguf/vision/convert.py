"""Writes pairs of GGUF files, text model and projector, from the folders of ../../vision with llama.cpp's own converters.

    python convert.py LLAMA_CPP [NAME ...]     needs a source tree of llama.cpp, transformers and torch

What the folders leave out and published ones have is added before: which class is inside, and mean and deviation of pixels. LLaVA's text
model and projector are taken apart first, as tools/mtmd/legacy-models/llava_surgery_v2.py does; nothing newer reads CLIP. What published
models all have, so that converters do not write it, these are too small for: areas of Qwen's images, the width of its windows, how large
Pixtral's images are at the most and how fast its heads and Llama 4's turn are added.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

HERE = Path(__file__).resolve().parent
VISION = HERE.parent.parent / "vision"
HALVES = dict(image_mean=[0.5, 0.5, 0.5], image_std=[0.5, 0.5, 0.5])
TEXT = {
    "exaone4-5": "Exaone4_5_ForConditionalGeneration",
    "gemma3": None,
    "gemma4": None,
    "granite-vision": "GraniteForCausalLM",
    "granite4-vision": "GraniteForCausalLM",
    "internvl": "Qwen2ForCausalLM",
    "lighton-ocr": "Qwen3ForCausalLM",
    "llava-clip": "LlamaForCausalLM",
    "llava-next": "MistralForCausalLM",
    "minicpm-ocr": "MiniCPMV4_6ForConditionalGeneration",
    "minicpm-v-4-6": "MiniCPMV4_6ForConditionalGeneration",
    "smolvlm": "VLlama3ForCausalLM",
}
# Which encoder is inside, and what the converter is told of it.
LEGACY = {
    "granite-vision": ("SiglipVisionModel", ["--clip-model-is-siglip"]),
    "llava-clip": ("CLIPVisionModel", []),
    "llava-next": ("CLIPVisionModel", []),
}
# Taken apart as tools/mtmd/legacy-models/minicpmv-surgery.py does.
MINICPM = {"minicpm-v": "Qwen2ForCausalLM"}
# Kimi VL is what Kimi K2.5 sees pictures with, under other names.
KIMI = ["kimi-vl"]
KIMI_NAMES = {"mm_projector.proj.0.": "multi_modal_projector.linear_1.", "mm_projector.proj.2.": "multi_modal_projector.linear_2."}
PICTURED = ["hunyuan-ocr", "janus", "kimi-k25", "lfm2-vl", "llama4", "llava-pixtral", "mistral3", "muse-glimmer", "paddleocr-vl", "qwen2-vl", "qwen2-5-vl", "qwen3-vl", "qwen3-vl-moe", "qwen3-5"]
ALONE = dict.fromkeys(["minicpm-ocr", "minicpm-v-4-6", "qwen3-5"], ["--no-mtp"])  # without a layer that guesses ahead
# What stands for rows of images, 319, and around them has no names in those folders.
TOKENS = {
    "gemma3": {
        "<|python_tag|>": "<image_soft_token>",
        "<|start_header_id|>": "<start_of_image>",
        "<|end_header_id|>": "<end_of_image>",
    },
    "internvl": {"<|python_tag|>": "<IMG_CONTEXT>", "<|start_header_id|>": "<img>", "<|end_header_id|>": "</img>"},
    "llava-clip": {"<|python_tag|>": "<image>"},
}
# The tokenizers here are nobody's: the converter is told by which rule they cut. And it takes numbers of a projector's matrices,
# which go up to 4, for those of layers. Of Gemma 3 it does not write which layers have a window: in published ones all but each sixth;
# and of Gemma 4 not how many patches become one row: in published ones 3 x 3.
RUN = """
import sys
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/gguf-py"]
import convert_hf_to_gguf
import gguf
from conversion import base, ernie, gemma, lfm2
base.TextModel.get_vocab_base_pre = lambda self, tokenizer: "llama-bpe"
names = gguf.get_tensor_name_map
gguf.get_tensor_name_map = lambda arch, layers: names(arch, max(layers, 5))
keys = gemma.Gemma3Model.set_gguf_parameters
def with_windows(self):
    keys(self)
    self.gguf_writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in self.hparams["layer_types"]])
gemma.Gemma3Model.set_gguf_parameters = with_windows
vision_keys = base.MmprojModel.set_gguf_parameters
def with_sizes(self):
    vision_keys(self)
    image, writer, eye = self.preprocessor_config, self.gguf_writer, self.hparams_vision or {}
    if image.get("image_processor_type", "").startswith("Qwen"):
        size = image.get("size", {})
        writer.add_vision_min_pixels(image.get("min_pixels") or size["shortest_edge"])
        writer.add_vision_max_pixels(image.get("max_pixels") or size["longest_edge"])
    if "window_size" in eye:
        writer.add_vision_window_size(eye["window_size"])
    if eye.get("model_type") == "pixtral":
        writer.add_vision_preproc_image_size(image["size"]["longest_edge"])
    if eye.get("model_type") in ("pixtral", "llama4_vision_model"):
        turned = eye.get("rope_parameters") or eye
        writer.add_rope_freq_base(turned["rope_theta"])
base.MmprojModel.set_gguf_parameters = with_sizes
gemma.Gemma4Model.set_vocab = ernie.Ernie4_5Model.set_vocab = base.TextModel._set_vocab_gpt2
eyes = gemma.Gemma4VisionAudioModel.set_gguf_parameters
def with_pooling(self):
    eyes(self)
    self.gguf_writer.add_vision_projector_scale_factor(self.hparams_vision["pooling_kernel_size"])
gemma.Gemma4VisionAudioModel.set_gguf_parameters = with_pooling
# LFM2-VL's pixels lie side by side, and patches are taken to be of 16 x 16.
pixels = lfm2.LFM2VLModel.modify_tensors
def by_colour(self, data, name, bid):
    if "patch_embedding.weight" not in name:
        return pixels(self, data, name, bid)
    side = self.hparams_vision["patch_size"]
    data = data.view(-1, side, side, 3).permute(0, 3, 1, 2)
    return base.MmprojModel.modify_tensors(self, data, name, bid)
lfm2.LFM2VLModel.modify_tensors = by_colour
sys.argv[:2] = ["convert"]
convert_hf_to_gguf.main()
"""
# The older converter reads transformers' encoders as they were before version 5: the tower is a part of them.
RUN_LEGACY = """
import runpy, sys
import torch
import transformers
class Whole(torch.nn.Module):
    def __init__(self, tower):
        super().__init__()
        self.vision_model = tower
kind = getattr(transformers, sys.argv[1])
own = kind.from_pretrained
kind.from_pretrained = lambda folder: Whole(own(folder).float())
sys.argv[:2] = []
runpy.run_path(sys.argv[0], run_name="__main__")
"""
# The table of sines, which nobody reads, is as large as the published one: of 2 x 2 places here.
RUN_MINICPM = """
import sys
script = open(sys.argv[1]).read()
assert script.count("(70, 70)") == 2
sys.argv[:1] = []
exec(compile(script.replace("(70, 70)", "(2, 2)"), sys.argv[0], "exec"))
"""


def write(folder, config, weights):
    (folder / "config.json").write_text(json.dumps(config))
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def convert(llama, folder, output, *options):
    subprocess.run([sys.executable, "-c", RUN, llama, folder, "--outfile", output, *options], check=True)


def published(name, folder):
    """The golden folder as one that was published."""
    source = VISION / ("kimi-k25" if name in KIMI else name)
    for file in source.glob("*.json"):
        text = file.read_text()
        for old, new in TOKENS.get(name, {}).items():
            text = text.replace(old, new)
        (folder / file.name).write_text(text)
    for template in source.glob("*.jinja"):
        shutil.copy(template, folder)
    config = json.loads((folder / "config.json").read_text())
    if TEXT.get(name):
        config["text_config"]["architectures"] = [TEXT[name]]
    if name == "internvl":
        config["vision_config"]["architectures"] = ["InternVisionModel"]
    image = folder / "preprocessor_config.json"
    soft = dict(image_seq_length=config.get("mm_tokens_per_image", 256))
    said = json.loads(image.read_text()) if image.exists() else soft
    image.write_text(json.dumps({**HALVES, **said}))
    weights = load_file(source / "model.safetensors")
    if name == "kimi-k25":  # its converter reads the published names
        config["architectures"] = ["KimiK25ForConditionalGeneration"]
        own = json.loads(image.read_text())
        image.write_text(json.dumps({**own, "in_patch_limit": own["max_patches"]}))
    if name == "minicpm-ocr":  # which is MiniCPM-V 4.6 for it
        config["architectures"] = ["MiniCPMV4_6ForConditionalGeneration"]
    if name == "paddleocr-vl":
        config["vision_config"]["architectures"] = ["PaddleOCRVisionModel"]
    if name == "lighton-ocr":  # as it was called before transformers had it
        config["architectures"] = ["LightOnOCRForConditionalGeneration"]
    if name in KIMI:
        config |= dict(architectures=["KimiVLForConditionalGeneration"], model_type="kimi_vl")
        for old, new in {**KIMI_NAMES, "mm_projector.": "multi_modal_projector."}.items():
            weights = {key.replace(old, new) if key.startswith(old) else key: w for key, w in weights.items()}
    if name == "internvl":  # its converter reads names of transformers 5
        weights = {f"model.{key}" if not key.startswith("language_model") else key: w for key, w in weights.items()}
    if name == "qwen3-vl-moe":  # experts' matrices were published turned around, and transformers 5 turns them
        weights = {key: w.transpose(1, 2).contiguous() if ".experts." in key else w for key, w in weights.items()}
    if name.startswith("gemma4"):  # its converter leaves rows out that no token has
        added = json.loads((VISION / name / "tokenizer_config.json").read_text())["added_tokens_decoder"]
        config["text_config"]["vocab_size"] = 1 + max(map(int, added))
    return config, weights


def modern(llama, name, output):
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / name  # which is written down as the model's name
        folder.mkdir()
        write(folder, *published(name, folder))
        convert(llama, folder, output / "model.gguf", "--outtype", "bf16", *ALONE.get(name, []))
        convert(llama, folder, output / "mmproj-model-bf16.gguf", "--outtype", "bf16", "--mmproj")


def legacy(llama, name, output):
    with tempfile.TemporaryDirectory() as place:
        folder, eye = Path(place) / name, Path(place) / "eye"
        folder.mkdir()
        eye.mkdir()
        config, weights = published(name, folder)
        inside = {key.removeprefix("language_model."): w for key, w in weights.items() if key.startswith("language_model.")}
        write(folder, config["text_config"], inside)
        convert(llama, folder, output / "model.gguf", "--outtype", "f16")
        tower = {key.removeprefix("vision_tower."): w for key, w in weights.items() if key.startswith("vision_tower.")}
        grids = config.get("image_grid_pinpoints", [])  # which LLaVA's own configuration has with widths first
        own = dict(image_grid_pinpoints=[size[::-1] for size in grids], mm_patch_merge_type="spatial_unpad", image_aspect_ratio="anyres")
        encoder, flags = LEGACY[name]
        layers = config["vision_feature_layer"]
        own |= dict(projection_dim=0, vision_feature_layer=layers) if isinstance(layers, list) else {}
        write(eye, {**config["vision_config"], **(own if grids else {}), "architectures": [encoder]}, tower)
        projector = {key: w.float() for key, w in weights.items() if key.startswith(("multi_modal_projector.", "image_newline"))}
        torch.save(projector, eye / "llava.projector")
        script = Path(llama) / "tools/mtmd/legacy-models/convert_image_encoder_to_gguf.py"
        options = ["-m", eye, "--llava-projector", eye / "llava.projector", "--output-dir", output]
        subprocess.run([sys.executable, "-c", RUN_LEGACY, encoder, script, *options, *flags, "--clip-model-is-vision"], check=True)


def minicpm(llama, name, output):
    with tempfile.TemporaryDirectory() as place:
        inside, folder = Path(place) / name, Path(place) / "eye"
        inside.mkdir()
        folder.mkdir()
        config, weights = published(name, inside)
        part = lambda start: {key.removeprefix(start): w for key, w in weights.items() if key.startswith(start)}
        text = {key: value for key, value in config.items() if key not in ("vision_config", "slice_config", "version")}
        write(inside, {**text, "model_type": "qwen2", "architectures": [MINICPM[name]]}, part("llm."))
        convert(llama, inside, output / "model.gguf", "--outtype", "bf16")
        (folder / "config.json").write_text(json.dumps(config))
        torch.save({key: w.float() for key, w in part("vpm.").items()}, folder / "minicpmv.clip")
        torch.save({f"resampler.{key}": w.float() for key, w in part("resampler.").items()}, folder / "minicpmv.projector")
        script = Path(llama) / "tools/mtmd/legacy-models/minicpmv-convert-image-encoder-to-gguf.py"
        options = ["-m", folder, "--minicpmv-projector", folder / "minicpmv.projector", "--output-dir", output, "--minicpmv_version", "3"]
        subprocess.run([sys.executable, "-c", RUN_MINICPM, script, *options], check=True)


if __name__ == "__main__":
    llama, *names = sys.argv[1:]
    for name in names or [*TEXT, *PICTURED, *KIMI, *MINICPM]:
        (HERE / name).mkdir(exist_ok=True)
        way = legacy if name in LEGACY else minicpm if name in MINICPM else modern
        way(llama, name, HERE / name)
