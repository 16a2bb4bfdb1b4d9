"""Makes adapters that change what a golden model sees with, by PEFT: random factors, and the rows that then come out of its pixels.

    python make.py OUTPUT [NAME ...]

Rows are what PEFT's model computes in float64 with its weights merged and rounded to bf16, as the model's are stored. Needs transformers
and peft.
"""

import json
import sys
from pathlib import Path

import peft
import torch
import transformers
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import AutoModelForImageTextToText

GOLDEN = Path(__file__).parent.parent

TOWERS = {
    "llava-siglip": dict(
        r=2,
        lora_alpha=5,
        target_modules=r".*vision_tower.*\.(q_proj|v_proj|out_proj|fc1|fc2)|.*projector\.linear_[12]|.*language_model.*q_proj",
        rank_pattern={"linear_1": 3},
    ),
}


def draw(model, seed):
    """Factors that change what is seen, but not into noise."""
    generator = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        if "lora_" in name:
            normal = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
            weight.data = (0.6 * normal / weight.shape[-1] ** 0.5).float().double()


def make(name, output, seed=7):
    place = f"vision/{name}"
    folder = output / name
    pixels = load_file(GOLDEN / place / "golden.safetensors")
    with torch.no_grad():
        base = AutoModelForImageTextToText.from_pretrained(GOLDEN / place, dtype=torch.float64, attn_implementation="eager")
        model = get_peft_model(base.eval(), LoraConfig(**TOWERS[name])).eval().double()
        draw(model, seed)
        model.peft_config["default"].base_model_name_or_path = f"../../{place}"
        model.save_pretrained(folder, state_dict={key: value.float().contiguous() for key, value in model.state_dict().items()})
        (folder / "README.md").unlink()
        seeing = model.merge_and_unload()
        for weight in seeing.parameters():
            weight.data = weight.bfloat16().double()
        prompts = len([key for key in pixels if key.startswith("pixels.")])
        features = {}
        for i in range(prompts):
            seen = seeing.get_image_features(pixel_values=pixels[f"pixels.{i}"].double())
            rows = seen.pooler_output
            features[f"features.{i}"] = torch.cat(list(rows)).reshape(-1, rows[0].shape[-1]).float().contiguous()
    save_file(features, folder / "golden.safetensors")
    versions = dict(peft=peft.__version__, transformers=transformers.__version__, torch=torch.__version__.split("+")[0])
    golden = dict(base=place, oracle="PEFT, float64 throughout, merged and rounded to bf16", versions=versions)
    (folder / "golden.json").write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    output, *names = sys.argv[1:]
    for name in names or TOWERS:
        make(name, Path(output))
