"""Layers that guess ahead, with random weights, for models in ../models: their files, golden.json and golden.safetensors beside this file.

    python make.py        needs transformers, torch, safetensors, and speculators 0.9.0

A layer is transformers' own of that architecture, behind what joins token and row. Of Qwen 3.5 all of it is a class of speculators'; of the
others the join is computed here, by the formula of "DeepSeek-V3" (arXiv 2412.19437), 2.2. Which layer it is, and what its tensors are called,
is said by bailing_moe_nextn.py of SGLang, ernie4_5_mtp.py of FastDeploy, and exaone_moe_mtp.py, exaone4_5_mtp.py, glm_ocr_mtp.py, hy_v3_mtp.py
and nemotron_h_mtp.py of vLLM. All in float64, over rows of transformers.
"""

import json
import re
import tempfile
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from speculators.models.mtp.model_definitions import Qwen35MoeMTPLayer, Qwen35MTPLayer
from torch import nn
from transformers import AutoModelForCausalLM
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3DecoderLayer, DeepseekV3RMSNorm
from transformers.models.deepseek_v32.modeling_deepseek_v32 import DeepseekV32DecoderLayer, DeepseekV32RMSNorm
from transformers.models.ernie4_5_moe.modeling_ernie4_5_moe import Ernie4_5_MoeDecoderLayer, Ernie4_5_MoeRMSNorm
from transformers.models.exaone4.modeling_exaone4 import Exaone4DecoderLayer, Exaone4RMSNorm
from transformers.models.exaone_moe.modeling_exaone_moe import ExaoneMoeDecoderLayer, ExaoneMoeRMSNorm
from transformers.models.glm4.modeling_glm4 import Glm4DecoderLayer, Glm4RMSNorm
from transformers.models.glm4_moe.modeling_glm4_moe import Glm4MoeDecoderLayer, Glm4MoeRMSNorm
from transformers.models.glm_moe_dsa.modeling_glm_moe_dsa import GlmMoeDsaDecoderLayer, GlmMoeDsaRMSNorm
from transformers.models.hy_v3.modeling_hy_v3 import HYV3DecoderLayer, HYV3RMSNorm
from transformers.models.nemotron_h.modeling_nemotron_h import NemotronHBlock, NemotronHRMSNorm

HERE = Path(__file__).parent
TEXTS = [1, 2]  # of the model's golden prompts
REPLIED = 12  # tokens of a reply
LONGEST = 3  # tokens that are drafted


class Joined(nn.Module):
    """Under DeepSeek's names. `last`: what its last norm is called; None: it is its model's."""

    def __init__(self, layers, norm, config, last="shared_head.norm"):
        super().__init__()
        columns, epsilon = config.hidden_size, getattr(config, "rms_norm_eps", None) or config.layer_norm_epsilon
        self.enorm, self.hnorm = norm(columns, epsilon), norm(columns, epsilon)
        self.eh_proj = nn.Linear(2 * columns, columns, bias=False)
        self.layers = nn.ModuleList(layers)
        self.last_norm = norm(columns, epsilon) if last else None

    def forward(self, hidden_states, token_embeddings, **beside):
        x = self.eh_proj(torch.cat([self.enorm(token_embeddings), self.hnorm(hidden_states)], -1))
        for layer in self.layers:
            x = layer(x, **beside)
            x = x[0] if isinstance(x, tuple) else x  # GLM 5's says what it chose as well
        return (self.last_norm or self.shared[0])(x)


BESIDE = {
    "enorm": "mtp.pre_fc_norm_embedding",
    "hnorm": "mtp.pre_fc_norm_hidden",
    "eh_proj": "mtp.fc",
    "last_norm": "mtp.norm",
    "layers.0": "mtp.layers.0",
}
SPECULATORS = {
    "token_layernorm": "mtp.pre_fc_norm_embedding",
    "hidden_layernorm": "mtp.pre_fc_norm_hidden",
    "input_proj": "mtp.fc",
    "final_layernorm": "mtp.norm",
    "": "mtp.layers.0",
}


def behind(layers, last="shared_head.norm"):
    at = f"model.layers.{layers}"
    return {**{name: f"{at}.{name}" for name in ["enorm", "hnorm", "eh_proj"]}, "last_norm": f"{at}.{last}", "layers.0": at}


ERNIE = {
    "enorm": "model.mtp_emb_norm.0",
    "hnorm": "model.mtp_hidden_norm.0",
    "eh_proj": "model.mtp_linear_proj.0",
    "layers.0": "model.mtp_block.0",
}
NEMOTRON = {
    **{name: f"mtp.layers.0.{name}" for name in ["enorm", "hnorm", "eh_proj"]},
    "last_norm": "mtp.layers.1.final_layernorm",
    "layers": "mtp.layers",
}


def named(name, names):
    """A tensor of the module under the name that it is published with."""
    for own, published in names.items():
        if not own:
            return f"{published}.{name}"
        if name.startswith(own + "."):
            return published + name.removeprefix(own)
    raise ValueError(name)


def single(tensors):
    """Experts one by one, as they are published."""
    apart = {}
    for name, value in tensors.items():
        found = re.fullmatch(r"(.*\.experts)\.(gate_up_proj|up_proj|down_proj)", name)
        if not found:
            apart[name] = value
            continue
        for i, expert in enumerate(value):
            at = f"{found[1]}.{i}"
            if found[2] != "gate_up_proj":
                apart[f"{at}.{found[2]}.weight"] = expert
            else:
                apart[f"{at}.gate_proj.weight"], apart[f"{at}.up_proj.weight"] = expert.chunk(2, 0)
    return apart


def bailing(folder):
    """Ling, whose own code lies beside its weights, computes as GLM 4.5 does: that is given its tensors under its own names."""
    config = json.loads((folder / "config.json").read_text())
    heads, kv = [config[f"num_{name}_heads"] * config["head_dim"] for name in ("attention", "key_value")]
    config |= {"model_type": "glm4_moe", "architectures": ["Glm4MoeForCausalLM"]}
    config |= {"n_routed_experts": config["num_experts"], "n_shared_experts": config["num_shared_experts"]}
    tensors = {}
    for name, value in load_file(folder / "model.safetensors").items():
        for glm, ling in LING.items():
            name = name.replace(ling, glm)
        if "query_key_value" not in name:
            tensors[name] = value
            continue
        for part, rows in zip("qkv", value.split([heads, kv, kv])):
            tensors[name.replace("attention.query_key_value", f"self_attn.{part}_proj")] = rows.contiguous()
    with tempfile.TemporaryDirectory() as beside:
        (Path(beside) / "config.json").write_text(json.dumps(config))
        save_file(tensors, Path(beside) / "model.safetensors", {"format": "pt"})
        return opened(beside)


LING = {
    "embed_tokens": "word_embeddings",
    "self_attn.o_proj": "attention.dense",
    "self_attn.q_norm": "attention.query_layernorm",
    "self_attn.k_norm": "attention.key_layernorm",
    "gate.e_score_correction_bias": "gate.expert_bias",
}


def as_ling(tensors):
    renamed = {}
    for name, value in tensors.items():
        if "self_attn.q_proj" in name:
            at = name.removesuffix("self_attn.q_proj.weight")
            parts = [tensors[f"{at}self_attn.{part}_proj.weight"] for part in "qkv"]
            renamed[f"{at}attention.query_key_value.weight"] = torch.cat(parts)
        if not re.search("self_attn.[qkv]_proj", name):
            for glm, ling in LING.items():
                name = name.replace(glm, ling)
            renamed[name] = value
    return renamed


def as_hunyuan(tensors):
    """The names that it is published with."""
    for own, published in {
        "mlp.gate.weight": "mlp.router.gate.weight",
        "mlp.e_score_correction_bias": "mlp.expert_bias",
        "mlp.shared_experts.": "mlp.shared_mlp.",
    }.items():
        tensors = {name.replace(own, published): value for name, value in tensors.items()}
    return tensors


def opened(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager", experts_implementation="eager").eval()


def glm_like(layer, norm, last="shared_head.norm", at=-1):
    """A layer behind the last one, of the kind that the model's is that has this number."""

    def make(base):
        config = base.config
        layers = config.num_hidden_layers
        return Joined([layer(config, at % layers)], norm, config, last), behind(layers, last)

    return make


def qwen(layer):
    return lambda base: (layer(base.config), SPECULATORS)


def exaone(layer, norm):
    return lambda base: (Joined([layer(base.config, 0)], norm, base.config), BESIDE)


def ernie(base):
    ahead = Joined([Ernie4_5_MoeDecoderLayer(base.config, 0)], Ernie4_5_MoeRMSNorm, base.config, None)
    ahead.shared = [base.model.norm]
    return ahead, ERNIE


def nemotron(base):
    kinds = base.config.layers_block_type
    layers = [NemotronHBlock(base.config, kinds.index(kind)) for kind in ("full_attention", "moe")]
    return Joined(layers, NemotronHRMSNorm, base.config), NEMOTRON


MAKERS = {
    "qwen3-5": qwen(Qwen35MTPLayer),
    "qwen3-5-moe": qwen(Qwen35MoeMTPLayer),
    "deepseek-v3": glm_like(DeepseekV3DecoderLayer, DeepseekV3RMSNorm),
    "glm4-moe": glm_like(Glm4MoeDecoderLayer, Glm4MoeRMSNorm),
    "glm4": glm_like(Glm4DecoderLayer, Glm4RMSNorm),
    "bailing-moe-v2": glm_like(Glm4MoeDecoderLayer, Glm4MoeRMSNorm, "final_layernorm"),
    "hy-v3": glm_like(HYV3DecoderLayer, HYV3RMSNorm, "final_layernorm"),
    "exaone-moe": exaone(ExaoneMoeDecoderLayer, ExaoneMoeRMSNorm),
    "exaone4": exaone(Exaone4DecoderLayer, Exaone4RMSNorm),
    "ernie4-5-moe": ernie,
    "nemotron-h-moe": nemotron,
    "deepseek-v32": glm_like(DeepseekV32DecoderLayer, DeepseekV32RMSNorm),
    "glm-moe-dsa": glm_like(GlmMoeDsaDecoderLayer, GlmMoeDsaRMSNorm, at=1),  # which has an indexer
}
PUBLISHED = {"bailing-moe-v2": as_ling, "hy-v3": as_hunyuan}


@torch.no_grad()
def main():
    torch.set_default_dtype(torch.float64)
    tensors, notes = {}, {}
    for seed, (model, make) in enumerate(MAKERS.items()):
        folder = HERE.parent / "models" / model
        base = (bailing if model.startswith("bailing") else opened)(folder)
        ahead, names = make(base)
        ahead.eval()
        fill(ahead, torch.Generator().manual_seed(30 + seed), model.startswith("qwen"))
        stored = single({named(name, names): value for name, value in ahead.state_dict().items()})
        stored = PUBLISHED.get(model, dict)(stored)
        save_file({name: value.bfloat16().contiguous().clone() for name, value in stored.items()}, HERE / f"{model}.safetensors")
        with safe_open(folder / "golden.safetensors", "pt") as golden:
            texts = [(golden.get_tensor(f"prompt.{i}"), golden.get_tensor(f"greedy.{i}")) for i in TEXTS]
        notes[model] = []
        for i, (prompt, greedy) in enumerate(texts):
            reply = greedy[:REPLIED]
            ids = torch.cat([prompt, reply]).long()
            rows = base.model(ids[None]).last_hidden_state[0]  # normed
            left = guess(ahead, base, ids[1:], rows[:-1])
            tensors[f"{model}.{i}"] = base.lm_head(left)[:, ::16]
            drafts = [draft(ahead, base, ids[:n], rows[: n - 1]) for n in range(len(prompt), len(ids))]
            notes[model].append({
                "prompt": prompt.tolist(),
                "reply": reply.tolist(),
                "drafts": [d for d, _ in drafts],
                "leads": [l for _, l in drafts],
            })
    save_file({name: value.float().contiguous() for name, value in tensors.items()}, HERE / "golden.safetensors")
    (HERE / "golden.json").write_text(json.dumps(notes) + "\n")


def fill(module, generator, adds_one):
    for name, value in [*module.named_parameters(), *module.named_buffers()]:
        made = torch.randn(value.shape, generator=generator)
        if value.dim() == 1:
            offset = 1 if "norm" in name and not adds_one else 0
            made = offset + 0.2 * made
        else:
            made = made * 1.5 / value.shape[-1] ** 0.5
        value.copy_(made.bfloat16())


def guess(ahead, base, ids, rows):
    n = len(ids)
    positions = torch.arange(1, n + 1)[None]
    unseen = torch.ones(n, n).triu(1).bool()
    if base.config.model_type.startswith("exaone"):  # its first layer has a window
        unseen |= torch.ones(n, n).tril(-base.config.sliding_window).bool()
    mask = torch.zeros(n, n).masked_fill(unseen, -torch.inf)[None, None]
    turned = hasattr(base.model, "rotary_emb")
    return ahead(
        hidden_states=rows[None],
        token_embeddings=base.get_input_embeddings()(ids)[None],
        attention_mask=mask,
        **({"position_embeddings": base.model.rotary_emb(rows[None], positions)} if turned else {}),
    )[0]


def draft(ahead, base, ids, rows):
    """ids [n] is the text, rows [n - 1, columns] what its model makes of all but its last token."""
    tokens, leads = [], []
    for _ in range(LONGEST):
        left = guess(ahead, base, ids[1:], rows)[-1:]
        top = base.lm_head(left)[0].topk(2)
        tokens.append(top.indices[0].item())
        leads.append(round((top.values[0] - top.values[1]).item(), 3))
        ids, rows = torch.cat([ids, top.indices[:1]]), torch.cat([rows, left])
    return tokens, leads


if __name__ == "__main__":
    main()
