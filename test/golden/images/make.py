"""What Pillow, torchvision and transformers make of small images: the images, golden.json and resized.bin beside this file.

    python make.py        needs torch, torchvision, transformers, pillow and numpy
    python make.py NAME … these of `seen` and `fitted` alone, or `sizes`, by the versions that made the rest
"""

import hashlib
import io
import json
import struct
import sys
import tempfile
import zlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import PIL
import torch
import torchvision
import transformers
from PIL import Image
from torchvision.transforms.v2 import functional as tv
from transformers import AutoImageProcessor
from transformers.image_processing_utils import get_patch_output_size, select_best_resolution
from transformers.image_utils import ChannelDimension, load_image
from transformers.models.aya_vision import modeling_aya_vision, processing_aya_vision
from transformers.models.cohere2_vision import modeling_cohere2_vision, processing_cohere2_vision
from transformers.models.deepseek_vl import processing_deepseek_vl
from transformers.models.gemma3 import processing_gemma3
from transformers.models.granite_docling.image_processing_granite_docling import GraniteDoclingImageProcessor
from transformers.models.idefics3 import modeling_idefics3, processing_idefics3
from transformers.models.internvl import modeling_internvl, processing_internvl
from transformers.models.lfm2_vl.image_processing_lfm2_vl import Lfm2VlImageProcessor
from transformers.models.minicpm_ocr import MiniCPMOcrImageProcessor
from transformers.models.minicpmv4_6 import MiniCPMV4_6ImageProcessor
from transformers.models.llama4 import modeling_llama4, processing_llama4
from transformers.models.llama4.image_processing_llama4 import Llama4ImageProcessor
from transformers.models.mllama.image_processing_mllama import MllamaImageProcessor, get_all_supported_aspect_ratios
from transformers.models.llava import processing_llava
from transformers.models.hunyuan_vl.image_processing_hunyuan_vl import smart_resize as hunyuan_resize
from transformers.models.muse_glimmer.image_processing_muse_glimmer import smart_resize as muse_resize
from transformers.models.paddleocr_vl.image_processing_paddleocr_vl import smart_resize as paddle_resize
from transformers.models.pixtral.image_processing_pixtral import get_resize_output_image_size
from transformers.models.smolvlm import processing_smolvlm
from transformers.vision_utils import (
    get_vision_interpolation_indices_and_weights,
    get_vision_position_ids,
    get_vision_window_index,
)

HERE = Path(__file__).parent
rng = np.random.default_rng(1)


def waves(height, width, channels, noise=4):
    y, x = np.mgrid[0:height, 0:width].astype(float)
    planes = [127 + 120 * np.sin((k + 1) * x / 9 + y / (7 + k)) for k in range(channels)]
    noisy = np.stack(planes, -1) + rng.normal(0, noise, (height, width, channels))
    return np.clip(noisy, 0, 255).astype(np.uint8)


# ---- images


def write_images():
    colours = Image.fromarray(waves(61, 83, 3))
    clear = Image.fromarray(waves(40, 30, 4))
    grey = Image.fromarray(waves(33, 20, 1)[..., 0])
    few = colours.quantize(32)
    few_bytes = bytes([0, 128, 255, 3])
    images = {
        "rgb.png": (colours, {}),
        "rgb.jpg": (colours, {"quality": 85}),
        "444.jpg": (colours, {"quality": 92, "subsampling": 0}),
        "progressive.jpg": (colours, {"progressive": True}),
        "lossy.webp": (colours, {"quality": 80}),
        "lossless.webp": (colours, {"lossless": True}),
        "rgba.png": (clear, {}),
        "rgba.webp": (clear, {"quality": 80}),
        "grey.png": (grey, {}),
        "grey.jpg": (grey, {}),
        "grey-alpha.png": (Image.fromarray(waves(33, 20, 2), "LA"), {}),
        "bits.png": (grey.convert("1"), {}),
        "palette.png": (colours.quantize(37), {}),
        "palette-clear.png": (few, {"transparency": few_bytes}),
        "key.png": (colours, {"transparency": tuple(np.asarray(colours)[0, 0].tolist())}),
        "cmyk.jpg": (Image.fromarray(waves(40, 50, 4), "CMYK"), {"quality": 90}),
        "gif.gif": (few, {}),
        "clear.gif": (few, {"transparency": 5}),
        "moving.gif": (few, {"save_all": True, "append_images": [colours.rotate(90).quantize(8)]}),
        "one.png": (colours.crop((0, 0, 1, 1)), {}),
        "wide.png": (Image.fromarray(waves(2, 900, 3)), {}),
        "tall.png": (Image.fromarray(waves(700, 5, 3)), {}),
        "large.jpg": (Image.fromarray(waves(430, 610, 3, 0)), {"quality": 8}),
    }
    small = colours.crop((0, 0, 23, 17))
    for turn in range(1, 9):
        images[f"turned-{turn}.jpg"] = (small, {"exif": turned(turn)})
    images["turned-6.png"] = (small, {"exif": turned(6)})
    images["turned-6.webp"] = (small, {"exif": turned(6), "lossless": True})
    for name, (image, options) in images.items():
        image.save(HERE / name, **options)
    deep = rng.integers(0, 65536, (11, 13, 4)).astype(np.uint16)
    write_deep("deep-rgb.png", deep[..., :3], 2)
    write_deep("deep-rgba.png", deep, 6)
    write_deep("deep-grey.png", deep[..., :1], 0)
    write_deep("deep-grey-alpha.png", deep[..., :2], 4)
    return [*images, *(path.name for path in sorted(HERE.glob("deep-*.png")))]


def turned(orientation):
    exif = Image.Exif()
    exif[0x112] = orientation
    return exif


def write_deep(name, pixels, colour_type):
    """A PNG of 16 bits, which Pillow writes of greys alone."""
    height, width = pixels.shape[:2]

    def chunk(kind, data):
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    lines = b"".join(b"\0" + line.astype(">u2").tobytes() for line in pixels)
    header = struct.pack(">IIBBBBB", width, height, 16, colour_type, 0, 0, 0)
    chunks = [chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(lines)), chunk(b"IEND", b"")]
    (HERE / name).write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(chunks))


def decoded(name):
    image = load_image(str(HERE / name))
    pixels = np.asarray(image)
    if name == "deep-grey.png":  # where Pillow cuts off at 255
        upper = (np.asarray(Image.open(HERE / name)) >> 8).astype(np.uint8)
        pixels = np.stack([upper] * 3, -1)
    return {"width": image.width, "height": image.height, "sha256": sha256(pixels)}


def sha256(array):
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


# ---- resizing

FILTERS = {"bilinear": 2, "bicubic": 3, "lanczos": 1}
SIZES = [
    # from width and height, to width and height
    (83, 61, 32, 32),
    (9, 17, 40, 64),
    (300, 5, 48, 48),
    (1, 1, 16, 16),
    (3, 200, 90, 10),
    (610, 430, 336, 336),
    (64, 64, 20, 64),
    (80, 100, 80, 99),
    (41, 37, 333, 300),
    (2000, 7, 56, 8),
]


def formula(width, height):
    """The same numbers in the test: bytes of a linear congruential generator, over slow slopes."""
    count = width * height * 3
    state, noise = 1, np.empty(count, np.int64)
    for i in range(count):
        state = (state * 1103515245 + 12345) % 2**31
        noise[i] = state >> 23
    slope = np.arange(count) * 7 // (width * 3) % 200
    return ((noise // 4 + slope) % 256).astype(np.uint8).reshape(height, width, 3)


def resized():
    cases, kept = [], b""
    for width, height, to_width, to_height in SIZES:
        pixels = formula(width, height)
        for name, number in FILTERS.items():
            planes = torch.from_numpy(pixels).permute(2, 0, 1).contiguous()
            mode = tv.InterpolationMode(name)
            fast = tv.resize(planes, [to_height, to_width], interpolation=mode, antialias=True)
            fast = fast.permute(1, 2, 0).numpy()
            pillow = np.asarray(Image.fromarray(pixels).resize((to_width, to_height), number))
            case = {"from": [width, height], "to": [to_width, to_height], "filter": name}
            case["sha256"] = sha256(fast)
            if (width, height) == SIZES[0][:2]:
                case["pillow"] = [len(kept), pillow.nbytes]
                kept += pillow.tobytes()
            cases.append(case)
    (HERE / "resized.bin").write_bytes(kept)
    return cases


# ---- what processors make


def identity(rows, side, joined):
    return rows


def of_idefics(rows, side, joined):
    return modeling_idefics3.Idefics3Connector.pixel_shuffle(None, rows[None], joined)[0]


def of_internvl(rows, side, joined):
    square = rows.reshape(1, side, side, -1)
    shuffled = modeling_internvl.InternVLModel.pixel_shuffle(None, square, 1 / joined)
    return shuffled.reshape((side // joined) ** 2, -1)


def of_aya(rows, side, joined):
    projector = modeling_aya_vision.AyaVisionMultiModalProjector
    return flat(projector.pixel_shuffle(SimpleNamespace(downsample_factor=joined), rows[None]))


def of_cohere(rows, side, joined):
    projector = modeling_cohere2_vision.Cohere2VisionMultiModalProjector
    return flat(projector.pixel_shuffle(SimpleNamespace(downsample_factor=joined), rows[None]))


def flat(shuffled):
    return shuffled.reshape(-1, shuffled.shape[-1])


def of_llama4(rows, side, joined):
    return modeling_llama4.pixel_shuffle(rows[None], 1 / joined)[0]


def of_gemma(rows, side, joined):
    """The squares that AvgPool2d takes the mean of."""
    planes = rows.T.reshape(1, -1, side, side)
    squares = torch.nn.functional.unfold(planes, joined, stride=joined)[0]
    width = rows.shape[1]
    return squares.reshape(width, joined * joined, -1).permute(2, 1, 0).reshape(squares.shape[1], -1)


def said_by_idefics(tokens, made, tower):
    self = SimpleNamespace(
        fake_image_token="<fake_token_around_image>",
        global_image_tag="<global-img>",
        image_token="<image>",
        image_seq_len=tokens,
    )
    return processing_idefics3.Idefics3Processor.replace_image_token(self, made, 0)


def said_by_smolvlm(tokens, made, tower):
    self = SimpleNamespace(
        fake_image_token="<fake>", global_image_token="<global-img>", image_token="<image>"
    )
    self.image_seq_len = tokens
    return processing_smolvlm.SmolVLMProcessor.replace_image_token(self, made, 0)


def said_by_internvl(tokens, made, tower):
    self = SimpleNamespace(start_image_token="<img>", end_image_token="</img>")
    self.image_token, self.image_seq_length = "<IMG_CONTEXT>", tokens
    return processing_internvl.InternVLProcessor.replace_image_token(self, made, 0)


def said_by_deepseek(tokens, made, tower):
    self = SimpleNamespace(image_token="<image_placeholder>", num_image_tokens=(tower["image_size"] // tower["patch_size"]) ** 2)
    return processing_deepseek_vl.DeepseekVLProcessor.replace_image_token(self, made, 0)


def said_by_llava(tokens, made, tower):
    self = SimpleNamespace(image_token="<image>", patch_size=tower["patch_size"])
    self.vision_feature_select_strategy = tower.get("strategy", "default")
    self.num_additional_image_tokens = 1 if tower["model_type"] == "clip_vision_model" else 0
    return processing_llava.LlavaProcessor.replace_image_token(self, made, 0)


def said_by_gemma(tokens, made, tower):
    tokenizer = SimpleNamespace(
        boi_token="<start_of_image>",
        boi_token_id=1,
        image_token="<image_soft_token>",
        eoi_token="<end_of_image>",
    )
    sequence = f"\n\n{tokenizer.boi_token}{tokenizer.image_token * tokens}{tokenizer.eoi_token}\n\n"
    self = SimpleNamespace(full_image_sequence=sequence)
    return processing_gemma3.Gemma3Processor.replace_image_token(self, made, 0)


def said_by_aya(tokens, made, tower):
    self = SimpleNamespace(
        start_of_img_token="<|START_OF_IMG|>",
        end_of_img_token="<|END_OF_IMG|>",
        img_patch_token="<|IMG_PATCH|>",
        tile_token="TILE",
        tile_global_token="TILE_GLOBAL",
        img_size=tower["image_size"],
        patch_size=tower["patch_size"] * 2,
    )
    return processing_aya_vision.AyaVisionProcessor.replace_image_token(self, made, 0)


def said_by_cohere(tokens, made, tower):
    self = SimpleNamespace(
        patch_size=int(tokens**0.5),
        boi_token="<|START_OF_IMG|>",
        eoi_token="<|END_OF_IMG|>",
        image_token="<|IMG_PATCH|>",
        img_line_break_token="<|IMG_LINE_BREAK|>",
    )
    return processing_cohere2_vision.Cohere2VisionProcessor.replace_image_token(self, made, 0)


def said_by_llama4(tokens, made, tower):
    own = processing_llama4.Llama4Processor
    self = SimpleNamespace(patch_size=tower["patch_size"], downsample_ratio=4)
    self._prompt_split_image = lambda *given: own._prompt_split_image(self, *given)
    return own.replace_image_token(self, made, 0)


def family(model_type, processor, shuffle, said, joined, tower, image, config=None, **files):
    return {
        "config": {"model_type": model_type, "vision_config": tower, **(config or {})},
        "image": image,
        "of": (processor, shuffle, said, joined),
        **files,
    }


CLIP = {"model_type": "clip_vision_model", "image_size": 56, "patch_size": 14}
SIGLIP = {"model_type": "siglip_vision_model", "image_size": 64, "patch_size": 16}
IDEFICS = {"model_type": "idefics3", "image_size": 56, "patch_size": 14}
HALVES = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}


def families():
    llava = processing_llava.LlavaProcessor
    idefics = processing_idefics3.Idefics3Processor
    smolvlm = processing_smolvlm.SmolVLMProcessor
    internvl = processing_internvl.InternVLProcessor
    aya = processing_aya_vision.AyaVisionProcessor
    cohere = processing_cohere2_vision.Cohere2VisionProcessor
    gemma = processing_gemma3.Gemma3Processor
    smol = {"fake_image_token": "<fake>"}
    return {
        "llava": family(
            *("llava", llava, identity, said_by_llava, 1, CLIP),
            {
                "image_processor_type": "CLIPImageProcessor",
                "size": {"shortest_edge": 56},
                "crop_size": {"height": 56, "width": 56},
                "resample": 3,
            },
        ),
        # Shaped as llava-hf/llava-1.5-7b-hf.
        "llava-336": family(
            *("llava", llava, identity, said_by_llava, 1),
            {"model_type": "clip_vision_model", "image_size": 336, "patch_size": 14},
            {
                "image_processor_type": "CLIPImageProcessorFast",
                "size": {"shortest_edge": 336},
                "crop_size": {"height": 336, "width": 336},
                "image_mean": [0.48145466, 0.4578275, 0.40821073],
                "image_std": [0.26862954, 0.26130258, 0.27577711],
                "rescale_factor": 0.00392156862745098,
            },
        ),
        # Shaped as meta-llama/Llama-4-Scout-17B-16E-Instruct.
        "llama4-336": family(
            *("llama4", processing_llama4.Llama4Processor, of_llama4, said_by_llama4, 2),
            {"model_type": "llama4_vision_model", "image_size": 336, "patch_size": 14, "pixel_shuffle_ratio": 0.5},
            {"image_processor_type": "Llama4ImageProcessorFast", "size": {"height": 336, "width": 336}, "max_patches": 16, **HALVES, "resample": 2},
        ),
        # Means and deviations that bf16 rounds.
        "llama4": family(
            *("llama4", processing_llama4.Llama4Processor, of_llama4, said_by_llama4, 2),
            {"model_type": "llama4_vision_model", "image_size": 48, "patch_size": 12},
            {
                "image_processor_type": "Llama4ImageProcessor",
                "size": {"height": 48, "width": 48},
                "max_patches": 5,
                "resize_to_max_canvas": True,
                "image_mean": [0.485, 0.456, 0.406],
                "image_std": [0.229, 0.224, 0.225],
            },
        ),
        # Pictures 83 wide and 61 high, and one so long that its other side is the least.
        "deepseek-vl": family(
            *("deepseek_vl", processing_deepseek_vl.DeepseekVLProcessor, identity, said_by_deepseek, 1, SIGLIP),
            {"image_processor_type": "DeepseekVLImageProcessor", "size": {"height": 64, "width": 64}, "min_size": 14},
        ),
        "llava-siglip": family(
            *("llava", llava, identity, said_by_llava, 1, {**SIGLIP, "strategy": "full"}),
            {"image_processor_type": "SiglipImageProcessor", "size": {"height": 64, "width": 64}},
            {"vision_feature_select_strategy": "full"},
        ),
        "idefics3": family(
            *("idefics3", idefics, of_idefics, said_by_idefics, 2, IDEFICS),
            {
                "image_processor_type": "Idefics3ImageProcessor",
                "size": {"longest_edge": 4 * 56},
                "max_image_size": {"longest_edge": 56},
            },
            {"scale_factor": 2},
        ),
        "idefics3-whole": family(
            *("idefics3", idefics, of_idefics, said_by_idefics, 2, IDEFICS),
            {
                "image_processor_type": "Idefics3ImageProcessor",
                "size": {"longest_edge": 4 * 56},
                "max_image_size": {"longest_edge": 56},
                "do_image_splitting": False,
            },
            {"scale_factor": 2},
        ),
        # Shaped as HuggingFaceTB/SmolVLM-256M-Instruct and SmolVLM-Instruct.
        "smolvlm-512": family(
            *("smolvlm", smolvlm, of_idefics, said_by_smolvlm, 4),
            {"model_type": "smolvlm_vision", "image_size": 512, "patch_size": 16},
            {
                "image_processor_type": "SmolVLMImageProcessor",
                "size": {"longest_edge": 2048},
                "max_image_size": {"longest_edge": 512},
                **HALVES,
                "resample": 1,
                "do_pad": True,
            },
            {"scale_factor": 4},
            tokenizer=smol,
        ),
        "smolvlm-384": family(
            *("smolvlm", smolvlm, of_idefics, said_by_smolvlm, 3),
            {"model_type": "smolvlm_vision", "image_size": 384, "patch_size": 14},
            {
                "image_processor_type": "SmolVLMImageProcessor",
                "size": {"longest_edge": 1536},
                "max_image_size": {"longest_edge": 384},
                **HALVES,
            },
            {"scale_factor": 3},
            tokenizer=smol,
        ),
        "internvl": family(
            *("internvl", internvl, of_internvl, said_by_internvl, 2),
            {"model_type": "internvl_vision", "image_size": [56, 56], "patch_size": [14, 14]},
            {
                "image_processor_type": "GotOcr2ImageProcessorFast",
                "size": {"height": 56, "width": 56},
                "crop_to_patches": False,
                "max_patches": 12,
                "min_patches": 1,
                "image_mean": [0.485, 0.456, 0.406],
                "image_std": [0.229, 0.224, 0.225],
            },
            {"downsample_ratio": 0.5},
        ),
        # Shaped as OpenGVLab/InternVL3-1B-hf.
        "internvl-448": family(
            *("internvl", internvl, of_internvl, said_by_internvl, 2),
            {"model_type": "internvl_vision", "image_size": [448, 448], "patch_size": [14, 14]},
            {
                "image_processor_type": "GotOcr2ImageProcessorFast",
                "size": {"height": 448, "width": 448},
                "image_mean": [0.485, 0.456, 0.406],
                "image_std": [0.229, 0.224, 0.225],
            },
        ),
        # Shaped as google/gemma-3-4b-it.
        "gemma3-896": family(
            *("gemma3", gemma, of_gemma, said_by_gemma, 4),
            {"model_type": "siglip_vision_model", "image_size": 896, "patch_size": 14},
            {
                "image_processor_type": "Gemma3ImageProcessor",
                "size": {"height": 896, "width": 896},
                "do_convert_rgb": None,
                "do_pan_and_scan": None,
                **HALVES,
                "resample": 2,
            },
            {"mm_tokens_per_image": 256},
        ),
        "gemma3": family(
            *("gemma3", gemma, of_gemma, said_by_gemma, 2, SIGLIP),
            {"image_processor_type": "Gemma3ImageProcessor", "size": {"height": 64, "width": 64}},
            {"mm_tokens_per_image": 4},
        ),
        "aya": family(
            *("aya_vision", aya, of_aya, said_by_aya, 2, SIGLIP),
            {
                "image_processor_type": "GotOcr2ImageProcessor",
                "size": {"height": 64, "width": 64},
                **HALVES,
            },
        ),
        "cohere2": family(
            *("cohere2_vision", cohere, of_cohere, said_by_cohere, 2, SIGLIP),
            {
                "image_processor_type": "Cohere2VisionImageProcessor",
                "size": {"height": 64, "width": 64},
                **HALVES,
            },
        ),
    }


SEEN = ["rgb.png", "large.jpg", "tall.png", "wide.png", "turned-6.jpg", "one.png", "grey.png"]
LARGE = 100  # towers that see more pixels a side see but the first three


def seen(case, name):
    processor, shuffle, said, joined = case["of"]
    tower = case["config"]["vision_config"]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "preprocessor_config.json").write_text(json.dumps(case["image"]))
        prepare = AutoImageProcessor.from_pretrained(folder)
    options = dict(getattr(processor, "images_kwargs", None) or {})
    made = prepare(images=[load_image(str(HERE / name))], **{**options, "return_tensors": "pt"})
    pixels = made["pixel_values"]
    tiles = pixels.reshape(-1, *pixels.shape[-3:]).float()
    patch = tower["patch_size"]
    patch = patch[0] if isinstance(patch, list) else patch
    side = tiles.shape[-1] // patch
    patches = torch.nn.functional.unfold(tiles, patch, stride=patch).transpose(1, 2)  # [tiles, patches, 3 p p]
    rows = [shuffle(each.contiguous(), side, joined) for each in patches]
    has_class = tower["model_type"] in ("clip_vision_model", "internvl_vision", "llama4_vision_model")
    numbers = torch.arange(side * side, dtype=torch.float64)[:, None] + int(has_class)
    places = shuffle(numbers, side, joined).to(torch.int32).numpy()
    text = said(rows[0].shape[0], made, tower)
    middle = rows[0].shape[0] // 2
    return {
        "tiles": len(rows),
        "rows": rows[0].shape[0],
        "text": hashlib.sha256(text.encode()).hexdigest(),
        "textBegins": text[:60],
        "places": sha256(places),
        "pixels": [sha256(each.numpy()) for each in rows],
        "middle": [float(value) for value in rows[0][middle, :4]],
    }


# ---- what Qwen's, GLM's and Gemma 4's make, whose tiles are as large as their images

QWEN = {"patch_size": 14, "spatial_merge_size": 2, "temporal_patch_size": 2}
OWN = {"image_processor_type": "Qwen2VLImageProcessor", "merge_size": 2, "temporal_patch_size": 2}


def fitting(model_type, tower, image, images):
    tower = {"model_type": model_type, **QWEN, **tower}
    config = {"model_type": model_type, "vision_config": tower}
    return {"config": config, "image": {**OWN, "patch_size": tower["patch_size"], **image}, "of": images}


def fitted_families():
    few = ["rgb.png", "turned-6.jpg", "one.png", "grey.png"]
    return {
        "qwen2-vl": fitting("qwen2_vl", {"embed_dim": 1280}, {"min_pixels": 3136, "max_pixels": 200704}, [*few, "large.jpg", "tall.png"]),
        # Halves are rounded to even: of 83 x 61 pixels to 2.96 and 2.18 steps, of 20 x 33 to 0.71 and 1.18.
        "qwen2.5-vl": fitting("qwen2_5_vl", {"window_size": 56}, {"size": {"shortest_edge": 1000, "longest_edge": 50000}}, [*few, "large.jpg"]),
        "qwen3-vl": fitting(
            "qwen3_vl",
            {"patch_size": 8, "num_position_embeddings": 49},
            {"size": {"shortest_edge": 1024, "longest_edge": 40000}, **HALVES},
            [*few, "large.jpg", "tall.png"],
        ),
        # Of 1 x 1 pixels, of a side less than 28 and of long ones.
        "glm4v": {
            "config": {
                "model_type": "glm4v",
                "vision_config": {"model_type": "glm4v_vision", **QWEN, "image_size": 98},
            },
            "image": {**OWN, "image_processor_type": "Glm4vImageProcessor", "patch_size": 14, "size": {"shortest_edge": 12544, "longest_edge": 100000}},
            "of": [*few, "large.jpg", "tall.png"],
        },
        "kimi-k25": {
            "config": {"model_type": "kimi_k25", "vision_config": {"model_type": "kimi_k25_vision", "patch_size": 7, "pos_emb_height": 6, "pos_emb_width": 6}},
            "image": {
                "image_processor_type": "Kimi_K25ImageProcessor",
                "patch_size": 7,
                "max_patches": 600,
                "size": {"max_height": 40, "max_width": 40},
                **HALVES,
            },
            "of": [*few, "large.jpg", "tall.png", "wide.png"],
        },
        "muse-glimmer": {
            "config": {
                "model_type": "muse_glimmer",
                "vision_config": {"model_type": "muse_glimmer_vision", "patch_size": 7, "pos_emb_height": 4, "pos_emb_width": 4},
            },
            "image": {"image_processor_type": "MuseGlimmerImageProcessor", "patch_size": 7, "max_image_tokens": 60},
            "of": [*few, "large.jpg"],
        },
        "gemma4": {
            "config": {"model_type": "gemma4", "vision_config": {"model_type": "gemma4_vision", "patch_size": 4, "pooling_kernel_size": 3}},
            "image": {"image_processor_type": "Gemma4ImageProcessor", "patch_size": 4, "pooling_kernel_size": 3, "max_soft_tokens": 70, "do_normalize": False},
            "of": [*few, "large.jpg", "tall.png", "wide.png"],
        },
    }


def filled_up(made, side):
    """Kimi's patches, those that become one row behind one another, and how much each learned place counts."""
    grid = made["image_grid_thw"]
    height, width = grid[0, 1:].tolist()
    order = torch.arange(height * width).reshape(height // 2, 2, width // 2, 2).transpose(1, 2).flatten()
    pixels = made["pixel_values"].flatten(1)[order].contiguous()
    indices, weights = get_vision_interpolation_indices_and_weights(grid, side, mode="bicubic")
    shares = torch.zeros(len(order), side * side).scatter_add_(1, indices, weights)[order]
    return {
        "grid": [height, width],
        "shares": [[round(float(value), 6) for value in shares[row]] for row in (0, len(order) // 3, len(order) - 1)],
        "pixels": sha256(pixels.numpy()),
        "places": sha256(get_vision_position_ids(grid, 1)[order].T.to(torch.int32).contiguous().numpy()),
        "first": [float(value) for value in pixels[0, :4]],
    }


def in_windows(made, patch, side):
    """Muse Glimmer's patches, those of a window behind one another and in it those that become one row, and how much each place counts."""
    grid = made["image_grid_thw"]
    height, width = grid[0, 1:].tolist()
    frames = made["pixel_values"].reshape(-1, 2, 3 * patch * patch)
    assert torch.equal(frames[:, 0], frames[:, 1])
    index, ends = get_vision_window_index(grid, 2, side * patch, patch)
    squares = torch.arange(height * width).reshape(height // 2, 2, width // 2, 2).transpose(1, 2).reshape(-1, 4)
    order = squares[index].flatten()
    # Where a patch lies: the model turns height and width around.
    taps, weights = get_vision_interpolation_indices_and_weights(grid, side, mode="bilinear", padding="zeros")
    shares = torch.zeros(len(order), side * side).scatter_add_(1, taps, weights)[order]
    pixels = frames[order, 0].contiguous()
    return {
        "grid": [height, width],
        "windows": ends.tolist(),
        "wanted": sha256(4 * torch.argsort(index).to(torch.int32).numpy()),
        "shares": [[round(float(value), 6) for value in shares[row]] for row in (0, len(order) // 3, len(order) - 1)],
        "pixels": sha256(pixels.numpy()),
        "places": sha256(get_vision_position_ids(grid, 1)[order].T.to(torch.int32).contiguous().numpy()),
        "first": [float(value) for value in pixels[0, :4]],
    }


def filled(made, patch, joined):
    """Gemma 4's patches as its tower projects them, colour by colour, those that become one row behind one another."""
    places = made["image_position_ids"][0]
    count = int((places[:, 0] >= 0).sum())
    places, patches = places[:count], 2 * (made["pixel_values"][0, :count] - 0.5)
    width, height = (places.max(0).values + 1).tolist()
    rows = patches.reshape(count, patch * patch, 3).transpose(1, 2).reshape(count, -1)
    squares = torch.arange(count).reshape(height // joined, joined, width // joined, joined).transpose(1, 2).flatten()
    pixels = rows[squares].contiguous()
    return {
        "grid": [height, width],
        "pixels": sha256(pixels.numpy()),
        "places": sha256(places[squares].flip(1).T.to(torch.int32).contiguous().numpy()),
        "first": [float(value) for value in pixels[0, :4]],
    }


def fitted(case, name):
    tower = case["config"]["vision_config"]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "preprocessor_config.json").write_text(json.dumps(case["image"]))
        prepare = AutoImageProcessor.from_pretrained(folder)
    made = prepare(images=[load_image(str(HERE / name))], return_tensors="pt")
    patch = tower["patch_size"]
    if tower["model_type"] == "muse_glimmer_vision":
        return in_windows(made, patch, tower["pos_emb_height"])
    if "pos_emb_height" in tower:
        return filled_up(made, tower["pos_emb_height"])
    if "pooling_kernel_size" in tower:
        return filled(made, patch, tower["pooling_kernel_size"])
    grid = made["image_grid_thw"]
    frames = made["pixel_values"].reshape(-1, 3, 2, patch * patch)
    assert torch.equal(frames[:, :, 0], frames[:, :, 1])
    rows = frames[:, :, 0].reshape(len(frames), -1)
    places = get_vision_position_ids(grid, 2)
    told = {"grid": grid[0, 1:].tolist()}
    order = torch.arange(len(rows))
    if "window_size" in tower:
        index, ends = get_vision_window_index(grid, 2, tower["window_size"], patch)
        order = order.reshape(-1, 4)[index].flatten()
        told["windows"] = ends.tolist()
        told["wanted"] = sha256(4 * torch.argsort(index).to(torch.int32).numpy())
    if "num_position_embeddings" in tower:
        side = int(tower["num_position_embeddings"] ** 0.5)
        indices, weights = get_vision_interpolation_indices_and_weights(
            grid, side, align_corners=True, spatial_merge_size=2
        )
        shares = torch.zeros(len(rows), side * side).scatter_add_(1, indices, weights)
    if "image_size" in tower:
        side = tower["image_size"] // patch
        ends = grid[0, 1:].float()
        at = ((places + 0.5) / ends * 2 - 1).flip(1)[None, :, None]
        squares = torch.eye(side * side).reshape(1, side * side, side, side)
        taken = torch.nn.functional.grid_sample(squares, at, mode="bicubic", align_corners=False, padding_mode="border")
        shares = taken[0, :, :, 0].T
    if "image_size" in tower or "num_position_embeddings" in tower:
        told["shares"] = [[round(float(value), 6) for value in shares[row]] for row in (0, len(rows) // 3, len(rows) - 1)]
    pixels = rows[order]
    return {
        **told,
        "pixels": sha256(pixels.numpy()),
        "places": sha256(places[order].T.to(torch.int32).contiguous().numpy()),
        "first": [float(value) for value in pixels[0, :4]],
    }


# ---- how large processors make images of other proportions

SIZES = [(5, 2), (28, 28), (29, 27), (40, 30), (98, 98), (154, 70), (300, 199), (199, 300), (500, 6), (5, 400)]


def within(longest, patch):
    """Pixtral's, which ask for no more than 5,120 patches of that many pixels."""
    blank = [np.zeros((height, width, 3), np.uint8) for width, height in SIZES]
    made = [get_resize_output_image_size(each, (longest, longest), (patch, patch)) for each in blank]
    return [[*size, width, height] for size, (height, width) in zip(SIZES, made)]


def allowed():
    """Of patches of 2 pixels, more of which are allowed than usual: as large as HunyuanOCR's and Pixtral's processors make them."""
    images = [(300, 200), (260, 250), (500, 100), (1000, 600), (150, 140), (90, 100)]
    blank = [np.zeros((height, width, 3), np.uint8) for width, height in images]
    pixtral = [get_resize_output_image_size(each, (256, 256), (4, 4)) for each in blank]
    hunyuan = [hunyuan_resize(height, width, 4, 16, 4 * 16384) for width, height in images]
    both = [("hunyuan_vl", hunyuan), ("mistral3", pixtral)]
    return {name: [[*size, *made[::-1]] for size, made in zip(images, sizes)] for name, sizes in both}


def loosely():
    """LightOnOCR's, in multiples of a patch, of which 2 x 2 become one token; those with less than one it cannot read."""
    return [each for each in within(110, 14) if min(each[2:]) >= 28]


def grown():
    """PaddleOCR-VL's, of 28 pixels a side at the least, many of them smaller before."""
    random, made = np.random.default_rng(1), []
    for width, height in [*SIZES, *random.integers(1, 60, (40, 2)).tolist()]:
        try:
            made.append([width, height, *paddle_resize(height, width, 28, 5000, 50000)[::-1]])
        except ValueError:  # of more than 200 times the width
            pass
    return made


def in_proportion():
    """Muse Glimmer's, of up to 60 rows of 14 x 14 pixels: of squares several are equally near. Those that are so long that they have more are left out."""
    random = np.random.default_rng(1)
    images = [*SIZES, *([side, side] for side in range(15, 28, 3)), *random.integers(1, 400, (40, 2)).tolist(), [839, 2], [3, 100]]
    made = [[width, height, *muse_resize(height, width, 14, 60)[::-1]] for width, height in images]
    return [each for each in made if each[2] * each[3] <= 60 * 14 * 14]


def grids(pinpoints):
    """The best of those sizes, and how large an image becomes in it."""
    made = []
    for width, height in SIZES:
        best = select_best_resolution((height, width), pinpoints)
        blank = np.zeros((3, height, width), np.uint8)
        inside = get_patch_output_size(blank, best, ChannelDimension.FIRST)
        made.append([width, height, *best[::-1], *inside[::-1]])
    return made


ONEVISION = [[height, width] for height in (56, 112, 168) for width in (56, 112, 168)]


def in_tiles():
    """How many tiles an image of LFM2-VL's lies in, and how large it becomes as one: of 4 to 16 tokens of 28 pixels, and tiles of 56."""
    prepare = Lfm2VlImageProcessor(encoder_patch_size=14, min_image_tokens=4, max_image_tokens=16, max_tiles=6, tile_size=56)
    made = []
    for width, height in SIZES:
        if max(width, height) > 200 * min(width, height):
            continue
        image = torch.zeros(1, 3, height, width)
        given = {name: getattr(prepare, name) for name in LFM2}
        _, rows, columns, size = prepare.resize_and_split(image, **given)
        made.append([width, height, columns[0], rows[0], *size[0][::-1]])
    return made


def in_slices(prepare, mode, grows=True):
    """
    How large the whole of an image of MiniCPM-V's becomes, the grid of its slices, 0 where there are none, and how large these are.
    @param grows whether a small image does
    """
    own = dict(scale_resolution=56, patch_size=7, downsample_mode=mode)
    random, made = np.random.default_rng(1), []
    # Of a square with pixels for two slices, these lie beside or below each other.
    for width, height in [(70, 70), *SIZES, *random.integers(1, 400, (40, 2)).tolist()]:
        if max(width, height) > 200 * min(width, height):
            continue
        rows, columns = prepare.get_sliced_grid((height, width), 9, 56) or (0, 0)
        whole = prepare.find_best_resize((height, width), **own, allow_upscale=grows and not rows)
        inner = prepare.get_refine_size((height, width), [rows, columns], **own, allow_upscale=True) if rows else (0, 0)
        made.append([width, height, *whole[::-1], columns, rows, *inner[::-1]])
    return made


PAGES = dict(max_patches=6, dense_max_patches=20, dense_max_scale=0.8, dense_min_aspect=0.5, dense_max_aspect=3.0)


def in_pages():
    """The grid of tiles of 56 pixels that a page of Granite Docling's lies in."""
    prepare = GraniteDoclingImageProcessor(size=dict(height=56, width=56), **PAGES)
    given = dict(size=dict(height=56, width=56), crop_to_patches=True, min_patches=1, **PAGES)
    random, made = np.random.default_rng(1), []
    for width, height in [*SIZES, *random.integers(1, 400, (60, 2)).tolist()]:
        rows, columns = prepare.get_tile_grid(height, width, given)
        made.append([width, height, columns, rows])
    # A side has no more than 16 tiles.
    wide = {**given, "max_patches": 40, "dense_max_patches": 0}
    long = [[width, height, *prepare.get_tile_grid(height, width, wide)[::-1]] for width, height in [(2000, 50), (60, 1900), (900, 40)]]
    return {"fields": PAGES, "images": made, "long": long}


def on_canvas(grows):
    """The grid of tiles of 56 pixels that an image lies in, and how much of it a white one fills."""
    prepare = Llama4ImageProcessor(size=dict(height=56, width=56), max_patches=7, resize_to_max_canvas=grows)
    random, made = np.random.default_rng(1), []
    # The first two are a pixel less where scales are floats of 32 bits.
    for width, height in [(6, 27), (11, 88), *SIZES, *random.integers(1, 400, (40, 2)).tolist()]:
        image = np.full((height, width, 3), 255, np.uint8)
        told = prepare(images=[image], return_tensors="pt")
        rows, columns = told["aspect_ratios"][0].tolist()
        tiles = told["pixel_values"][: rows * columns].reshape(rows, columns, 3, 56, 56)
        white = tiles.permute(2, 0, 3, 1, 4).reshape(3, 56 * rows, 56 * columns)[0] > 0
        made.append([width, height, columns, rows, int(white.any(0).sum()), int(white.any(1).sum())])
    return made


def together():
    """The same of Llama 3.2 Vision's, in up to 4 tiles of 56 pixels."""
    prepare = MllamaImageProcessor(size=dict(height=56, width=56), max_image_tiles=4)
    random, made = np.random.default_rng(1), []
    for width, height in [*SIZES, (56, 56), (57, 56), (112, 300), *random.integers(1, 400, (40, 2)).tolist()]:
        image = np.full((height, width, 3), 255, np.uint8)
        told = prepare(images=[image], return_tensors="pt")
        rows, columns = get_all_supported_aspect_ratios(4)[told["aspect_ratio_ids"].item() - 1]
        tiles = told["pixel_values"][0, 0, : rows * columns].reshape(rows, columns, 3, 56, 56)
        white = tiles.permute(2, 0, 3, 1, 4).reshape(3, 56 * rows, 56 * columns)[0] > 0
        made.append([width, height, columns, rows, int(white.any(0).sum()), int(white.any(1).sum())])
    return made


LFM2 = [
    *("downsample_factor", "min_tiles", "max_tiles", "use_thumbnail", "min_image_tokens", "max_image_tokens"),
    *("encoder_patch_size", "tile_size", "max_pixels_tolerance", "resample"),
]


def sizes():
    """Width and height of an image, and of what it becomes."""
    return {
        "allowed": allowed(),
        "pixtral": {"longest": 96, "patch": 16, "joined": 1, "images": within(96, 16)},
        "granite_docling": in_pages(),
        "lfm2_vl": in_tiles(),
        "lighton_ocr": loosely(),
        "llama4": {"grown": on_canvas(True), "kept": on_canvas(False)},
        "llava_onevision": {"tile": 56, "pinpoints": ONEVISION, "images": grids(ONEVISION)},
        "minicpm_ocr": in_slices(MiniCPMOcrImageProcessor(), "4x", grows=False),
        "minicpmv4_6": in_slices(MiniCPMV4_6ImageProcessor(), "16x"),
        "mllama": together(),
        "mistral3": {"longest": 110, "patch": 14, "joined": 2, "images": within(110, 28)},
        "muse_glimmer": in_proportion(),
        "paddleocr_vl": grown(),
    }


def is_small(case):
    size = case["config"]["vision_config"]["image_size"]
    return (size[0] if isinstance(size, list) else size) < LARGE


def seen_all(case):
    """What is expected of a family."""
    images = {image: seen(case, image) for image in SEEN[: None if is_small(case) else 3]}
    return {**{key: value for key, value in case.items() if key != "of"}, "images": images}


def fitted_all(case):
    images = {image: fitted(case, image) for image in case["of"]}
    return {"config": case["config"], "image": case["image"], "images": images}


def again(names):
    told = json.loads((HERE / "golden.json").read_text())
    told["seen"] |= {name: seen_all(case) for name, case in families().items() if name in names}
    told["fitted"] |= {name: fitted_all(case) for name, case in fitted_families().items() if name in names}
    write({**told, "sizes": sizes()} if "sizes" in names else told)


def main():
    names = write_images()
    told = {
        "made": {
            "pillow": PIL.__version__,
            "torch": torch.__version__.split("+")[0],
            "torchvision": torchvision.__version__.split("+")[0],
            "transformers": transformers.__version__,
        },
        "decoded": {name: decoded(name) for name in names},
        "resized": resized(),
        "seen": {name: seen_all(case) for name, case in families().items()},
        "fitted": {name: fitted_all(case) for name, case in fitted_families().items()},
    }
    write({**told, "sizes": sizes()})


def write(told):
    (HERE / "golden.json").write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        again(sys.argv[1:])
    else:
        main()
