"""EAGLE 3 heads with random weights, and what they guess: the folders, golden.json and golden.safetensors beside this file.

    python make.py        needs transformers, torch, safetensors, and speculators 0.9.0

Both heads belong to ../models/smollm3, whose rows transformers computes in float64, from the texts that lie there. `midlayer` is laid out as
SafeAILab's heads are; what it guesses is computed here, by the formulas of its model/cnets.py. `speculators` is written by
speculators' own Eagle3DraftModel, which also computes it, in float64.
"""

import json
import struct
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from speculators.config import SpeculatorsConfig, VerifierConfig
from speculators.models.eagle3 import Eagle3DraftModel, Eagle3SpeculatorConfig
from speculators.proposals.greedy import GreedyTokenProposalConfig
from transformers import AutoModelForCausalLM, LlamaConfig, Qwen3Config

HERE = Path(__file__).parent
BASE = HERE.parent / "models" / "smollm3"
VOCABULARY, COLUMNS = 320, 40
KNOWN = 128
TEXTS = [1, 2]  # of the model's golden prompts
REPLIED = 14  # tokens of a reply
LONGEST = 4  # tokens that are drafted


@torch.no_grad()
def main():
    torch.set_default_dtype(torch.float64)
    base = AutoModelForCausalLM.from_pretrained(BASE, dtype=torch.float64, attn_implementation="eager").eval()
    sizes = {"hidden_size": COLUMNS, "intermediate_size": 24, "vocab_size": VOCABULARY, "max_position_embeddings": 512, "pad_token_id": None}
    qwen = Qwen3Config(
        **sizes, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, head_dim=16, rms_norm_eps=1e-6, rope_theta=1e6
    )
    llama = LlamaConfig(
        **sizes, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=2, head_dim=12, rms_norm_eps=1e-5, attention_bias=True
    )
    heads = {
        "midlayer": Midlayer(),
        "speculators": Speculators("speculators", qwen, [0, 3, 2], 7, norm_before_residual=True, fc_norm=True, norm_output=True),
        "speculators-llama": Speculators("speculators-llama", llama, [1, 3], 8, norm_before_residual=False, norm_before_fc=True),
    }
    tensors, cases = {}, []
    with safe_open(BASE / "golden.safetensors", "pt") as stored:
        texts = [(stored.get_tensor(f"prompt.{i}"), stored.get_tensor(f"greedy.{i}")) for i in TEXTS]
    for i, (prompt, greedy) in enumerate(texts):
        reply = greedy[:REPLIED]
        ids = torch.cat([prompt, reply]).long()
        read = base(ids[None], output_hidden_states=True).hidden_states  # what each layer reads
        case = {"prompt": prompt.tolist(), "reply": reply.tolist()}
        for name, head in heads.items():
            rows = torch.cat([read[layer][0] for layer in head.layers], -1)
            left = head(ids[1:], head.joined(rows[:-1]))
            tensors[f"{name}.{i}"] = head.logits(left)[:, ::4]
            lengths = range(len(prompt) + 1, len(ids))  # of the text when a draft is made
            drafts = [draft(head, ids[:n], rows[: n - 1]) for n in lengths]
            case[name] = {"drafts": [d for d, _ in drafts], "leads": [l for _, l in drafts]}
        cases.append(case)
    save_file({name: tensor.float().contiguous() for name, tensor in tensors.items()}, HERE / "golden.safetensors")
    notes = {
        "drafts": "the first when the text is the prompt and one token of the reply, the next one token later",
        "leads": "of each drafted token, how far its logit is before the next one's",
        "cases": cases,
    }
    (HERE / "golden.json").write_text(json.dumps(notes) + "\n")


def draft(head, ids, rows):
    """ids [n] is the text, rows [n - 1, read] what its model read at all but its last token."""
    tokens, leads = [], []
    inputs = head.joined(rows)
    for _ in range(LONGEST):
        left = head(ids[1:], inputs)
        logits = head.logits(left[-1:])[0]
        top = logits.topk(2)
        tokens.append(head.tokens[top.indices[0]].item())
        leads.append(round((top.values[0] - top.values[1]).item(), 3))
        ids = torch.cat([ids, torch.tensor(tokens[-1:])])
        inputs = torch.cat([inputs, head.handed_on(left[-1:])])
    return tokens, leads


def known_tokens(seed):
    chosen = torch.randperm(VOCABULARY, generator=torch.Generator().manual_seed(seed))[:KNOWN].sort().values
    return chosen, chosen - torch.arange(KNOWN), torch.isin(torch.arange(VOCABULARY), chosen)


def seeded(seed):
    generator = torch.Generator().manual_seed(seed)
    return lambda *shape, scale=1.0: (torch.randn(*shape, generator=generator) * scale).bfloat16().double()


class Midlayer:
    """One llama layer without an embedding of its own, narrower in its heads than in its row; by the formulas of cnets.py."""

    layers = [1, 2, 3]
    heads, kv, dim, inner = 4, 2, 16, 48
    epsilon, theta = 1e-5, 10000.0

    def __init__(self):
        of = seeded(3)
        matrix = lambda rows, columns: of(rows, columns, scale=1.6 / columns**0.5)  # noqa: E731
        norm = lambda n: 1 + of(n, scale=0.2)  # noqa: E731
        self.tokens, d2t, t2d = known_tokens(5)
        h, q, kv = COLUMNS, self.heads * self.dim, self.kv * self.dim
        layer = {
            "hidden_norm": norm(h),
            "input_layernorm": norm(h),
            "post_attention_layernorm": norm(h),
            "self_attn.q_proj": matrix(q, 2 * h),
            "self_attn.k_proj": matrix(kv, 2 * h),
            "self_attn.v_proj": matrix(kv, 2 * h),
            "self_attn.o_proj": matrix(h, q),
            "mlp.gate_proj": matrix(self.inner, h),
            "mlp.up_proj": matrix(self.inner, h),
            "mlp.down_proj": matrix(h, self.inner),
        }
        top = {"fc": matrix(h, 3 * h), "norm": norm(h), "lm_head": matrix(KNOWN, h) * 3}
        named = {f"midlayer.{name}.weight": value for name, value in layer.items()}
        named |= {f"{name}.weight": value for name, value in top.items()}
        stored = {name: value.bfloat16().contiguous() for name, value in named.items()}
        self.w = {name.removeprefix("midlayer.").removesuffix(".weight"): v.double() for name, v in stored.items()}
        with safe_open(BASE / "model.safetensors", "pt") as base:
            self.embedding = base.get_tensor("model.embed_tokens.weight").double()
        folder = HERE / "midlayer"
        folder.mkdir(exist_ok=True)
        save_file(stored | {"d2t": d2t, "t2d": t2d}, folder / "model.safetensors")
        config = {
            "architectures": ["LlamaForCausalLMEagle3"],
            "model_type": "llama",
            "hidden_size": COLUMNS,
            "intermediate_size": self.inner,
            "num_hidden_layers": 1,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv,
            "head_dim": self.dim,
            "hidden_act": "silu",
            "max_position_embeddings": 512,
            "rms_norm_eps": self.epsilon,
            "rope_theta": self.theta,
            "vocab_size": VOCABULARY,
            "draft_vocab_size": KNOWN,
            # Counted by what they leave.
            "eagle_config": {"eagle_aux_hidden_state_layer_ids": [n - 1 for n in self.layers], "use_aux_hidden_state": True},
        }
        (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")

    def normed(self, x, name):
        return self.w[name] * x / (x.pow(2).mean(-1, keepdim=True) + self.epsilon).sqrt()

    def turned(self, x):
        half = self.dim // 2
        angles = torch.arange(x.shape[1])[:, None] * self.theta ** (-torch.arange(half) / half)
        one, two = x[..., :half], x[..., half:]
        return torch.cat([one * angles.cos() - two * angles.sin(), two * angles.cos() + one * angles.sin()], -1)

    def joined(self, rows):
        return rows @ self.w["fc"].T

    def __call__(self, ids, inputs):
        """ids [n], inputs [n, columns] of the tokens before them → what is left at each."""
        n, w = len(ids), self.w
        read = torch.cat([self.normed(self.embedding[ids], "input_layernorm"), self.normed(inputs, "hidden_norm")], -1)
        split = lambda name, heads: (read @ w[f"self_attn.{name}_proj"].T).view(n, heads, self.dim).transpose(0, 1)  # noqa: E731
        q, k, v = self.turned(split("q", self.heads)), self.turned(split("k", self.kv)), split("v", self.kv)
        k, v = (each.repeat_interleave(self.heads // self.kv, 0) for each in (k, v))
        scores = (q @ k.transpose(1, 2) / self.dim**0.5).masked_fill(torch.ones(n, n).triu(1).bool(), -torch.inf)
        mixed = (scores.softmax(-1) @ v).transpose(0, 1).reshape(n, -1)
        x = inputs + mixed @ w["self_attn.o_proj"].T
        y = self.normed(x, "post_attention_layernorm")
        gated = torch.nn.functional.silu(y @ w["mlp.gate_proj"].T) * (y @ w["mlp.up_proj"].T)
        return x + gated @ w["mlp.down_proj"].T

    def handed_on(self, left):
        return left

    def logits(self, left):
        return self.normed(left, "norm") @ self.w["lm_head"].T


class Speculators:
    """An embedding of its own, and layers and norms as they are asked for."""

    def __init__(self, name, layer, layers, seed, **norms):
        self.layers = layers
        layer._attn_implementation = "eager"
        config = Eagle3SpeculatorConfig(
            transformer_layer_config=layer,
            draft_vocab_size=KNOWN,
            eagle_aux_hidden_state_layer_ids=layers,
            speculators_config=SpeculatorsConfig(
                algorithm="eagle3",
                proposal_methods=[GreedyTokenProposalConfig(speculative_tokens=3)],
                default_proposal_method="greedy",
                verifier=VerifierConfig(name_or_path="smollm3", architectures=["SmolLM3ForCausalLM"]),
            ),
            **norms,
        )
        self.model = Eagle3DraftModel(config)
        self.tokens, d2t, t2d = known_tokens(seed)
        self.model.load_vocab_mappings(t2d, d2t)
        of = seeded(seed + 4)
        for parameter, value in self.model.named_parameters():
            if value.dim() == 1:
                made = (0 if parameter.endswith("bias") else 1) + of(*value.shape, scale=0.2)
            else:
                sharp = 3 if parameter.startswith("lm_head") else 1
                made = of(*value.shape, scale=1.6 * sharp / (1 if "embed" in parameter else value.shape[1] ** 0.5))
            value.copy_(made)
        folder = HERE / name
        self.model.bfloat16().save_pretrained(folder)
        (folder / "config.py").unlink()  # speculators' own
        self.model.double().eval()
        half = layer.head_dim // 2
        self.model.rotary_emb.inv_freq = layer.rope_parameters["rope_theta"] ** (-torch.arange(half) / half)  # it was rounded, too

    def joined(self, rows):
        m = self.model
        if m.input_norm is not None:
            return m.fc(m.input_norm(rows))
        parts = [norm(part) for norm, part in zip(m.fc_norm, rows.chunk(len(self.layers), -1), strict=True)]
        return m.fc(torch.cat(parts, -1))

    def __call__(self, ids, inputs):
        m, n = self.model, len(ids)
        x = torch.cat([m.embed_tokens(ids), inputs], -1)[None]
        positions = m.rotary_emb(x, torch.arange(1, n + 1)[None])
        mask = torch.zeros(n, n).masked_fill(torch.ones(n, n).triu(1).bool(), -torch.inf)[None, None]
        for layer in m.layers:
            x = layer(x, attention_mask=mask, position_embeddings=positions)
        return x[0]

    def handed_on(self, left):
        return self.model.norm(left) if self.model.config.norm_output else left

    def logits(self, left):
        return self.model.lm_head(self.model.norm(left))


if __name__ == "__main__":
    main()
