"""From a checkpoint to the embedded model: `python export.py` writes a Hugging Face folder in bfloat16, which `sinter compile` packs into
models/tiny (README); `python export.py --golden` then computes golden words, in float32 from exactly the weights that were packed.

What is exported is the running mean of the weights.
"""

import argparse
import json
import struct
from pathlib import Path

import jinja2
import torch
from tokenizers import Tokenizer

import corpus
import talking
from model import Llama, Shape, greedy

HERE = Path(__file__).parent
TINY = HERE.parent / "models/tiny"
END_IDS = {0, 2}  # <|endoftext|>, <|im_end|>


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--name", default="base")
    a.add_argument("--runs", default=str(HERE / "runs"), help="where checkpoints are kept")
    a.add_argument("--out", help="default: runs/NAME/folder")
    a.add_argument("--golden", action="store_true", help="golden words of models/tiny, to test/golden/tiny.json")
    args = a.parse_args()
    template = (HERE / "chat_template.jinja").read_text().rstrip("\n")
    tokenizer = Tokenizer.from_file(str(TINY / "tokenizer.json"))
    if args.golden:
        write_json(HERE.parent / "test/golden/tiny.json", golden(load_packed(TINY), tokenizer, template))
        return
    out = Path(args.out or Path(args.runs) / args.name / "folder")
    out.mkdir(parents=True, exist_ok=True)
    model, _ = load(Path(args.runs) / args.name / "last.pt")
    write_safetensors(out / "model.safetensors", tensors(model))
    write_json(out / "config.json", config(model.shape))
    write_json(
        out / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": None,
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
            "model_max_length": model.shape.context,
            "clean_up_tokenization_spaces": False,
            "chat_template": template,
        },
    )
    write_json(
        out / "generation_config.json",
        {"eos_token_id": sorted(END_IDS), "pad_token_id": 0, "do_sample": True, "temperature": 0.7, "top_p": 0.95},
    )
    (out / "tokenizer.json").write_bytes((TINY / "tokenizer.json").read_bytes())
    check_template(template)
    print(f"{out}: {(out / 'model.safetensors').stat().st_size:,} bytes")


def load(path, rounded=True):
    """The model of a checkpoint with its mean weights, rounded to bfloat16 as they are shipped; and the checkpoint."""
    state = torch.load(path)
    model = Llama(Shape(**state["shape"]))
    with torch.no_grad():
        for p, mean in zip(model.parameters(), state["mean"]):
            p.copy_(mean.bfloat16().float() if rounded else mean)
    return model.eval(), state


def load_packed(folder):
    """The model of a q8f16_1 folder in MLC's layout, unpacked to float32: four bytes a word, lowest first, 32 values to a scale."""
    records = json.loads((folder / "tensor-cache.json").read_text())["records"]
    stored = {}
    for shard in records:
        data = (folder / shard["dataPath"]).read_bytes()
        for r in shard["records"]:
            raw = bytearray(data[r["byteOffset"] : r["byteOffset"] + r["nbytes"]])
            kind = {"uint32": torch.uint8, "float16": torch.float16}[r["dtype"]]
            stored[r["name"]] = torch.frombuffer(raw, dtype=kind).view(
                r["shape"][0], *([-1] if len(r["shape"]) > 1 else [])
            )

    def unpacked(name):
        values = stored[name + ".q_weight"].float() - 127  # [rows, columns]
        return (
            (values * stored[name + ".q_scale"].float().repeat_interleave(32, 1)).half().float()
        )  # as the format says

    c = json.loads((folder / "mlc-chat-config.json").read_text())["model_config"]
    shape = Shape(
        c["vocab_size"], c["hidden_size"], c["num_hidden_layers"], c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"],
        c["intermediate_size"], c["max_position_embeddings"], c["rope_theta"], c["rms_norm_eps"],
    )  # fmt: skip
    model = Llama(shape)
    q, kv = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    with torch.no_grad():
        model.embed.copy_(unpacked("model.embed_tokens"))
        model.final_norm.copy_(stored["model.norm.weight"].float())
        for i in range(shape.layers):
            at = f"model.layers.{i}."
            for parameter, part in zip(
                (model.q, model.k, model.v), unpacked(at + "self_attn.qkv_proj").split([q, kv, kv])
            ):
                parameter[i] = part
            for parameter, part in zip((model.gate, model.up), unpacked(at + "mlp.gate_up_proj").chunk(2)):
                parameter[i] = part
            model.o[i], model.down[i] = unpacked(at + "self_attn.o_proj"), unpacked(at + "mlp.down_proj")
            model.attention_norm[i] = stored[at + "input_layernorm.weight"].float()
            model.mlp_norm[i] = stored[at + "post_attention_layernorm.weight"].float()
    return model.eval()


def tensors(model):
    """Names as transformers writes them; norms are bfloat16 too."""
    yield "model.embed_tokens.weight", model.embed
    for i in range(model.shape.layers):
        at = f"model.layers.{i}."
        for name in "qkvo":
            yield f"{at}self_attn.{name}_proj.weight", getattr(model, name)[i]
        for name in ("gate", "up", "down"):
            yield f"{at}mlp.{name}_proj.weight", getattr(model, name)[i]
        yield at + "input_layernorm.weight", model.attention_norm[i]
        yield at + "post_attention_layernorm.weight", model.mlp_norm[i]
    yield "model.norm.weight", model.final_norm


def write_safetensors(path, named):
    """Eight bytes of header length, a JSON header, the bytes: the format's whole definition."""
    header, blobs, at = {"__metadata__": {"format": "pt"}}, [], 0
    for name, tensor in named:
        blob = tensor.detach().bfloat16().contiguous().view(torch.int16).numpy().tobytes()
        header[name] = {"dtype": "BF16", "shape": list(tensor.shape), "data_offsets": [at, at + len(blob)]}
        blobs.append(blob)
        at += len(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def config(s):
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "torch_dtype": "bfloat16",
        "vocab_size": s.vocabulary,
        "hidden_size": s.hidden,
        "intermediate_size": s.intermediate,
        "num_hidden_layers": s.layers,
        "num_attention_heads": s.heads,
        "num_key_value_heads": s.kv_heads,
        "head_dim": s.head_dim,
        "hidden_act": "silu",
        "max_position_embeddings": s.context,
        "rope_theta": s.theta,
        "rope_scaling": None,
        "rms_norm_eps": s.eps,
        "tie_word_embeddings": True,
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": None,
        "eos_token_id": 2,
        "pad_token_id": 0,
        "initializer_range": 0.02,
        "use_cache": True,
    }


def write_json(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def jinja(template):
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    return environment.from_string(template)


def check_template(text):
    """The Jinja template and corpus.render say the same of 2,000 conversations."""
    template, p = jinja(text), talking.Pick("template")
    for i in range(2000):
        talk = corpus.conversation(p, 3, lambda talk: len(talk["messages"]))
        messages = ([{"role": "system", "content": talk["system"]}] if talk["system"] else []) + talk["messages"]
        prompt = i % 2 == 0
        assert template.render(messages=messages, tools=talk["tools"], add_generation_prompt=prompt) == talking.render(
            talk, prompt
        ), talking.render(talk)


WEATHER = {
    "type": "function",
    "function": {
        "name": "weather_in",
        "description": "Weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}},
            "required": ["city"],
        },
    },
}
GOLDEN = [
    ([talking.user("Hello!")], []),
    ([talking.user("Who are you?")], []),
    ([talking.user("How do I serve a real model?")], []),
    ([talking.user("What does --port do?")], []),
    ([talking.user("Repeat: the quick brown zorp, 4711 and Ünal 🙂")], []),
    ([talking.user("What is 17 + 25?")], []),
    ([talking.user("What is the capital of France?")], []),
    (
        [
            talking.user("My name is Lena."),
            talking.assistant("Nice to meet you, Lena!"),
            talking.user("What is my name?"),
        ],
        [],
    ),
    ([talking.user("Extract name and city as JSON: Tom lives in Oslo.")], []),
    ([talking.user("Tell me a story about a fox.")], []),
    ([talking.user("What is the weather in Rome?")], [WEATHER]),
    (
        [
            talking.user("What is the weather in Rome?"),
            talking.call("weather_in", {"city": "Rome"}),
            talking.result({"temperature": 21, "sky": "sunny"}),
        ],
        [WEATHER],
    ),
    ([{"role": "system", "content": "You are Bo, a baker."}, talking.user("Who are you?")], []),
    ([talking.user("Who won the world cup in 1974?")], []),
]
ROWS = 3


@torch.no_grad()
def golden(model, tokenizer, template):
    """Prompts, their ids, the greedy reply, and the logits after the last prompt token and the first replied ones, 24 columns of each row."""
    cases, columns = [], list(range(0, model.shape.vocabulary, model.shape.vocabulary // 24))[:24]
    for messages, tools in GOLDEN:
        text = jinja(template).render(messages=messages, tools=tools, add_generation_prompt=True)
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        out = greedy(model, ids, END_IDS, 96)
        rows = model.logits(model(torch.tensor([ids + out]))[0, len(ids) - 1 : -1])  # [replied tokens, vocabulary]
        best = rows.topk(2).values
        cases.append(
            {
                "messages": messages,
                "tools": tools,
                "prompt": text,
                "prompt_ids": ids,
                "greedy_ids": out,
                "text": tokenizer.decode([t for t in out if t not in END_IDS], skip_special_tokens=False),
                "ended": out[-1] in END_IDS,
                "lead": round((best[:, 0] - best[:, 1]).min().item(), 4),
                "logits": [[round(row[c].item(), 6) for c in columns] for row in rows[:ROWS]],
            }
        )
        print(repr(cases[-1]["text"]))
    return {
        "made_by": "tiny/export.py, PyTorch " + torch.__version__.split("+")[0] + " in float32 from the packed weights",
        "lead": "the least difference, over the reply, between the best logit and the next",
        "first_logits_row": "after the last prompt token",
        "logits_columns": columns,
        "cases": cases,
    }


if __name__ == "__main__":
    main()
