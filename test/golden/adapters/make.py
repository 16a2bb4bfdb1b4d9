"""Makes the adapters in this folder with PEFT, on golden models: random factors, prompts, logits, greedy tokens.

    python make.py OUTPUT [NAME ...]

Logits are what PEFT's model computes in float64, the adapter beside the weights; of a model in bf16 those of the weights that PEFT has
merged, rounded to bf16. Needs transformers, peft and gguf.
"""

import json
import sys
from pathlib import Path

import gguf
import numpy as np
import peft
import torch
import transformers
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM

GOLDEN = Path(__file__).parent.parent
sys.path.insert(0, str(GOLDEN / "models"))
from make import prompts_for  # noqa: E402

ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj"]
EXPERTS = ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"]
LLAMA = [*ATTENTION, "gate_proj", "up_proj", "down_proj"]
MORE_TOKENS = {"llama-resized": 5}
ADAPTERS = {
    "llama": (
        "models/llama-untied",
        dict(
            r=8,
            lora_alpha=16,
            target_modules=LLAMA,
            use_rslora=True,
            rank_pattern={"o_proj": 3},
            alpha_pattern={r"layers\.1\.self_attn\.q_proj": 4, "down_proj": 24},
            modules_to_save=["lm_head", "norm"],
            bias="lora_only",
        ),
    ),
    "llama-dora": ("models/llama-untied", dict(r=4, lora_alpha=6, target_modules=["q_proj", "v_proj", "down_proj"], use_dora=True)),
    "gpt2": (
        "models/gpt2",
        dict(r=4, lora_alpha=8, target_modules=["wte", "c_attn", "c_proj", "c_fc"], fan_in_fan_out=True),
    ),
    "phi3": ("models/phi3", dict(r=6, lora_alpha=9, target_modules=["qkv_proj", "o_proj", "gate_up_proj", "down_proj"])),
    "deepseek-v2": (
        "models/deepseek-v2-dense",
        dict(r=4, lora_alpha=8, target_modules=["q_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"]),
    ),
    "gpt-oss": ("models/gpt-oss-bf16", dict(r=3, lora_alpha=9, target_modules=ATTENTION, target_parameters=EXPERTS)),
    "qwen3-moe": (
        "models/qwen3-moe",
        dict(
            r=4,
            lora_alpha=10,
            target_modules=["q_proj", "gate"],
            target_parameters=EXPERTS,
            alpha_pattern={r"layers\.1\.mlp\.experts\.gate_up_proj": 3},
        ),
    ),
    "llama4": ("models/llama4", dict(r=3, lora_alpha=6, target_modules=["q_proj"], target_parameters=[f"feed_forward.{each[4:]}" for each in EXPERTS])),
    "llama-resized": ("models/llama-tied", dict(r=4, lora_alpha=8, target_modules=["embed_tokens", "v_proj"])),
    "on-q4_0": ("gguf/llama-q4_0/llama-q4_0.gguf", dict(r=8, lora_alpha=12, target_modules=LLAMA)),
}


NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def of_gguf(path):
    """A llama out of a GGUF file, its codes as the numbers they stand for, rows of queries and keys in Hugging Face's order."""
    reader = gguf.GGUFReader(path)
    config = AutoConfig.from_pretrained(path.parent, gguf_file=path.name, attn_implementation="eager")
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float64)
    state = {}
    for each in reader.tensors:
        weight = torch.from_numpy(gguf.dequantize(each.data, each.tensor_type).copy()).double()
        *layer, part, kind = each.name.split(".")
        if part in ("attn_q", "attn_k"):
            heads = len(weight) // config.head_dim
            weight = weight.unflatten(0, (heads, config.head_dim // 2, 2)).transpose(1, 2).flatten(0, 2)
        state[".".join([*(["model.layers", layer[1]] if layer else []), NAMES[part], kind])] = weight
    model.load_state_dict(state)
    return model


def base_of(place):
    path = GOLDEN / place
    if path.suffix == ".gguf":
        return of_gguf(path).eval()
    eager = dict(attn_implementation="eager", experts_implementation="eager")
    return AutoModelForCausalLM.from_pretrained(path, dtype=torch.float64, **eager).eval()


def draw(model, seed):
    """Factors that change what the model says, but not into noise."""
    generator = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        normal = torch.randn(weight.shape, generator=generator, dtype=torch.float64)
        if "lora_magnitude" in name:
            weight.data = (weight * (1 + 0.2 * normal)).float().double()
        elif "lora_" in name:
            weight.data = (0.6 * normal / weight.shape[-1] ** 0.5).float().double()
        elif "modules_to_save" in name or (name.endswith("bias") and weight.requires_grad):
            weight.data = (weight + 0.1 * weight.std() * normal).float().double()


def rounded(model):
    """Merged, in bf16. A head that is the embedding is what that was before, as it is while the adapter lies beside it."""
    head = model.get_output_embeddings()
    head.weight = torch.nn.Parameter(head.weight.clone())
    model = model.merge_and_unload()
    for weight in model.parameters():
        weight.data = weight.bfloat16().double()
    return model


def make(name, output, seed=7):
    place, options = ADAPTERS[name]
    folder = output / name
    with torch.no_grad():
        base = base_of(place)
        if name in MORE_TOKENS:
            torch.manual_seed(seed)  # of their rows
            base.resize_token_embeddings(base.config.vocab_size + MORE_TOKENS[name])
        model = get_peft_model(base, LoraConfig(**options)).eval().double()
        draw(model, seed)
        model.peft_config["default"].base_model_name_or_path = f"../../{place}"
        state = {key: value.float().contiguous() for key, value in model.state_dict().items()}
        model.save_pretrained(folder, state_dict=state)
        (folder / "README.md").unlink()
        is_rounded = '"bfloat16"' in (GOLDEN / place / "config.json").read_text() if "models/" in place else False
        if is_rounded:
            model = rounded(model)
    random = np.random.default_rng(seed)
    tensors, notes = prompts_for(model, random, 250)
    save_file(tensors, folder / "golden.safetensors")
    golden = dict(
        base=place,
        oracle="PEFT, float64 throughout" + (", merged and rounded to bf16" if is_rounded else ""),
        versions=dict(peft=peft.__version__, transformers=transformers.__version__, torch=torch.__version__.split("+")[0]),
        prompts=notes,
    )
    (folder / "golden.json").write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    output, *names = sys.argv[1:]
    for name in names or ADAPTERS:
        make(name, Path(output))
