"""From a checkpoint to a Hugging Face folder and golden words: `python export.py [--name base]` writes models/tiny and test/golden/tiny.json.

The running mean of the weights is exported, in bfloat16. The golden words are computed in float32 from exactly those rounded weights.
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
END_IDS = {0, 2}  # <|endoftext|>, <|im_end|>


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--name", default="base")
    a.add_argument("--out", default=str(HERE.parent / "models/tiny"))
    a.add_argument("--golden", default=str(HERE.parent / "test/golden/tiny.json"))
    args = a.parse_args()
    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    model, _ = load(HERE / "runs" / args.name / "last.pt")
    write_safetensors(out / "model.safetensors", tensors(model))
    template = (HERE / "chat_template.jinja").read_text().rstrip("\n")
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
    tokenizer = Tokenizer.from_file(str(out / "tokenizer.json"))
    check_template(template)
    write_json(Path(args.golden), golden(model, tokenizer, template))
    print(
        f"{out}: {(out / 'model.safetensors').stat().st_size:,} bytes; golden {Path(args.golden).stat().st_size:,} bytes"
    )


def load(path, rounded=True):
    """The model of a checkpoint with its mean weights, rounded to bfloat16 as they are shipped; and the checkpoint."""
    state = torch.load(path)
    model = Llama(Shape(**state["shape"]))
    with torch.no_grad():
        for p, mean in zip(model.parameters(), state["mean"]):
            p.copy_(mean.bfloat16().float() if rounded else mean)
    return model.eval(), state


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
        rows = model.logits(
            model(torch.tensor([ids + out]))[0, len(ids) - 1 : len(ids) - 1 + ROWS]
        )  # [ROWS, vocabulary]
        cases.append(
            {
                "messages": messages,
                "tools": tools,
                "prompt": text,
                "prompt_ids": ids,
                "greedy_ids": out,
                "text": tokenizer.decode([t for t in out if t not in END_IDS], skip_special_tokens=False),
                "ended": out[-1] in END_IDS,
                "logits": [[round(row[c].item(), 6) for c in columns] for row in rows],
            }
        )
        print(repr(cases[-1]["text"]))
    return {
        "made_by": "tiny/export.py, PyTorch "
        + torch.__version__.split("+")[0]
        + " in float32 from the bfloat16 weights",
        "first_logits_row": "after the last prompt token",
        "logits_columns": columns,
        "cases": cases,
    }


if __name__ == "__main__":
    main()
