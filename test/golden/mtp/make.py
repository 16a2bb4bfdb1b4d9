"""Layers that guess ahead, with random weights, for models in ../models: their files, golden.json and golden.safetensors beside this file.

    python make.py        needs transformers, torch, safetensors, and speculators 0.9.0

A layer is transformers' own of that architecture, behind what joins token and row. Of Qwen 3.5 all of it is a class of speculators'; of the
others the join is computed here, by the formula of "DeepSeek-V3" (arXiv 2412.19437), 2.2. All in float64, over rows of transformers.
"""

import json
import re
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from speculators.models.mtp.model_definitions import Qwen35MoeMTPLayer, Qwen35MTPLayer
from torch import nn
from transformers import AutoModelForCausalLM
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3DecoderLayer, DeepseekV3RMSNorm
from transformers.models.glm4_moe.modeling_glm4_moe import Glm4MoeDecoderLayer, Glm4MoeRMSNorm

HERE = Path(__file__).parent
TEXTS = [1, 2]  # of the model's golden prompts
REPLIED = 12  # tokens of a reply
LONGEST = 3  # tokens that are drafted


class Joined(nn.Module):
    """Under DeepSeek's names."""

    def __init__(self, layer, norm, config):
        super().__init__()
        columns = config.hidden_size
        self.enorm, self.hnorm = norm(columns, config.rms_norm_eps), norm(columns, config.rms_norm_eps)
        self.eh_proj = nn.Linear(2 * columns, columns, bias=False)
        self.layer = layer(config, config.num_hidden_layers)
        self.shared_head = nn.ModuleDict({"norm": norm(columns, config.rms_norm_eps)})

    def forward(self, hidden_states, token_embeddings, **beside):
        x = self.eh_proj(torch.cat([self.enorm(token_embeddings), self.hnorm(hidden_states)], -1))
        return self.shared_head["norm"](self.layer(x, **beside))


def named(name, layers):
    """A tensor of the module under the name that it is published with."""
    name = name.replace("layer.", "", 1) if name.startswith("layer.") else name
    if layers is not None:
        return f"model.layers.{layers}.{name}"
    for own, published in [
        ("token_layernorm", "pre_fc_norm_embedding"),
        ("hidden_layernorm", "pre_fc_norm_hidden"),
        ("input_proj", "fc"),
        ("final_layernorm", "norm"),
    ]:
        if name.startswith(own + "."):
            return f"mtp.{published}.weight"
    return f"mtp.layers.0.{name}"


def single(tensors):
    """Experts one by one, as they are published."""
    apart = {}
    for name, value in tensors.items():
        found = re.fullmatch(r"(.*\.experts)\.(gate_up_proj|down_proj)", name)
        if not found:
            apart[name] = value
            continue
        for i, expert in enumerate(value):
            at = f"{found[1]}.{i}"
            if found[2] == "down_proj":
                apart[f"{at}.down_proj.weight"] = expert
            else:
                apart[f"{at}.gate_proj.weight"], apart[f"{at}.up_proj.weight"] = expert.chunk(2, 0)
    return apart


@torch.no_grad()
def main():
    torch.set_default_dtype(torch.float64)
    tensors, notes = {}, {}
    for seed, (model, make) in enumerate(
        {
            "qwen3-5": lambda config: Qwen35MTPLayer(config),
            "qwen3-5-moe": lambda config: Qwen35MoeMTPLayer(config),
            "deepseek-v3": lambda config: Joined(DeepseekV3DecoderLayer, DeepseekV3RMSNorm, config),
            "glm4-moe": lambda config: Joined(Glm4MoeDecoderLayer, Glm4MoeRMSNorm, config),
        }.items()
    ):
        folder = HERE.parent / "models" / model
        base = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager", experts_implementation="eager").eval()
        ahead = make(base.config).eval()
        fill(ahead, torch.Generator().manual_seed(30 + seed), model.startswith("qwen"))
        layers = None if model.startswith("qwen") else base.config.num_hidden_layers
        stored = single({named(name, layers): value for name, value in ahead.state_dict().items()})
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
    mask = torch.zeros(n, n).masked_fill(torch.ones(n, n).triu(1).bool(), -torch.inf)[None, None]
    turns = base.model.rotary_emb(rows[None], positions)
    return ahead(
        hidden_states=rows[None],
        token_embeddings=base.model.embed_tokens(ids)[None],
        attention_mask=mask,
        position_embeddings=turns,
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
