"""What qwen.py, fitting.py and pictures.py have in common: weights, texts and prompts of small models that are shown pictures.

Everything is computed in float64, also what the model's own code does in float32. Pictures are drawn until the best logit leads by
0.05 on the whole greedy path, eight tokens of it differ and none is special, and other pictures make other tokens of it.
"""

import json
import shutil
import sys
from inspect import signature
from pathlib import Path

import numpy as np
import torch
import transformers
from PIL import Image
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForImageTextToText

GOLDEN = Path(__file__).parent.parent
sys.path.insert(0, str(GOLDEN / "models"))
from make import DISTINCT, GREEDY, MARGIN, Float64  # noqa: E402

FIRST = 320  # of the tokens that a model brings
OWN = 314  # from here on none is a text's
EAGER = dict(attn_implementation="eager", experts_implementation="eager")


def make_each(models, make):
    """Each in a folder of its own: OUTPUT [NAME ...] are the script's arguments."""
    output, *names = sys.argv[1:]
    torch.set_num_threads(1)
    for name in names or models:
        folder = Path(output) / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        make(name, folder)


def make_weights(config, seed, folder, draw, buffer=lambda name, shape, generator: None):
    """A model in bf16, whose logits have a standard deviation of 3. @param buffer what is stored and not trained, if it is drawn"""
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    given = {k: v for k, v in config.items() if k not in ("model_type", "architectures")}
    own = AutoConfig.for_model(config["model_type"], **json.loads(json.dumps(given)))
    own._attn_implementation = "eager"
    model = AutoModelForImageTextToText.from_config(own, experts_implementation="eager")
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.copy_(draw(name, weight.shape, generator).bfloat16().float())
        for name, each in model.named_buffers():
            value = buffer(name, each.shape, generator)
            if value is not None:
                each.copy_(value.bfloat16().float())
        ids = torch.randint(3, 310, (1, 60), generator=generator)
        logits = model(input_ids=ids, use_cache=False).logits[0]
        cap = getattr(model.config.get_text_config(), "final_logit_softcapping", None)
        deviation = (cap * torch.atanh(logits / cap) if cap else logits).std().item()
        norm = last_norm(model)
        plus = 1 if config["model_type"] in ("qwen3_5", "minicpmv4_6", "minicpmv4_7", "minicpm_ocr", "paligemma") else 0
        norm.weight.copy_(((norm.weight + plus) * 3 / deviation - plus).bfloat16().float())
    model.bfloat16().save_pretrained(folder)


def last_norm(model):
    whole = getattr(model, "model", model)
    text = whole.text_model if hasattr(whole, "text_model") else whole.language_model
    text = getattr(text, "model", text)
    return getattr(text, "norm", None) or text.embedding_norm


def opened(folder):
    return AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float64, **EAGER).eval().double()


def picture(size, random):
    width, height = size
    colours = random.integers(0, 256, (height // 5 + 1, width // 5 + 1, 3)).astype(np.uint8)
    return Image.fromarray(colours.repeat(5, 0).repeat(5, 1)[:height, :width])


def message_of(count):
    """Pictures with texts about them."""
    texts = ["What is this?", " And this?"]
    return [part for i in range(count) for part in ("image", texts[i])]


def logits_of(model, ids, given):
    kinds = dict(mm_token_type_ids=(ids == model.config.image_token_id).int())
    told = {name: each for name, each in kinds.items() if name in signature(model.forward).parameters}
    if "token_type_ids" in given:  # a prompt that is seen both ways, and what is drawn behind it
        own = given["token_type_ids"]
        told["token_type_ids"] = torch.nn.functional.pad(own, (0, ids.shape[1] - own.shape[1]), value=1)
        given = {name: each for name, each in given.items() if name != "token_type_ids"}
    logits = model(input_ids=ids, use_cache=False, **told, **given).logits[0]
    assert logits.dtype == torch.float64
    return logits


def greedy_of(model, ids, given, most=GREEDY, logits_of=logits_of):
    tokens, leads = [], []
    while len(tokens) < most:
        (best, second), (token, _) = (each.tolist() for each in logits_of(model, ids, given)[-1].topk(2))
        leads.append(best - second)
        if leads[-1] < MARGIN or token >= OWN:
            break
        tokens.append(token)
        ids = torch.cat([ids, torch.tensor([[token]])], 1)
    return tokens, leads


def prompts_for(model, folder, sizes, random, read, features_of, decode, more=lambda ids, given: ({}, {})):
    """
    @param sizes of each prompt's pictures, in pixels
    @param read makes ids, what the model is given beside them and notes of a message with pictures
    @param more tensors and notes of what was drawn
    """
    tensors, notes = {}, []
    for number, each in enumerate(sizes):
        parts = message_of(len(each))
        content = [dict(type="image") if part == "image" else dict(type="text", text=part) for part in parts]
        tokens = []
        while len(tokens) < GREEDY or len(set(tokens)) < DISTINCT or not seen:
            pictures = [picture(size, random) for size in each]
            ids, given, noted = read([dict(role="user", content=content)], pictures)
            with torch.no_grad():
                given["pixel_values"] = given["pixel_values"].float()
                inexact = features_of(model.float(), given)
                with Float64():
                    model.double()
                    given["pixel_values"] = given["pixel_values"].double()
                    features = features_of(model, given)
                    assert (features - inexact).abs().max() < 1e-3
                    assert len(features) == (ids == model.config.image_token_id).sum()
                    tokens, leads = greedy_of(model, ids, given)
                    turned = {**given, "pixel_values": -given["pixel_values"]}
                    seen = tokens[:8] != greedy_of(model, ids, turned, 8)[0]
        with Float64(), torch.no_grad():
            logits = logits_of(model, ids, given)[-2:].numpy().astype(np.float32)
        names = [f"{number}-{i}.png" for i in range(len(pictures))]
        for name, drawn in zip(names, pictures):
            drawn.save(folder / name)
        tensors[f"features.{number}"] = features.float()
        tensors[f"prompt.{number}"] = ids[0].int()
        tensors[f"logits.{number}"] = torch.from_numpy(logits)
        tensors[f"greedy.{number}"] = torch.tensor(tokens).int()
        added, told = more(ids, given)
        tensors |= {f"{name}.{number}": tensor for name, tensor in added.items()}
        notes.append(
            dict(
                pictures=names,
                parts=parts,
                length=ids.shape[1],
                text=decode(tokens),
                least_margin=round(min(leads), 4),
                distinct_greedy=len(set(tokens)),
                **noted,
                **told,
            )
        )
    return tensors, notes


def close(folder, model, tensors, notes, config, renamed, left=()):
    """
    @param renamed how names of tensors begin, here and where such models are published
    @param left how those begin that draw pictures, which nobody reads
    """
    save_file(tensors, folder / "golden.safetensors")
    write(folder, "golden.json", golden_of(model, notes))
    weights = load_file(folder / "model.safetensors")
    weights = {key: tensor for key, tensor in weights.items() if not key.startswith(left)}
    for old, new in renamed.items():
        weights = {key.replace(old, new) if key.startswith(old) else key: tensor for key, tensor in weights.items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    write(folder, "config.json", {**config, "torch_dtype": "bfloat16"})


def golden_of(model, notes):
    return dict(
        oracle=f"{type(model).__name__} of transformers, eager attention, float64 throughout",
        versions=dict(
            transformers=transformers.__version__,
            torch=torch.__version__.split("+")[0],
            numpy=np.__version__,
            python=sys.version.split()[0],
        ),
        greedy_tokens=GREEDY,
        margin_at_least=MARGIN,
        prompts=notes,
    )


def write(folder, file, what):
    (folder / file).write_text(json.dumps(what, indent=1, ensure_ascii=False))


def bring_texts(folder, special, shown=(), **names):
    """The tokenizer of other golden models with tokens of its own, the second of which ends a turn; `shown` are those of them that texts show."""
    tokenizer = json.loads((GOLDEN / "models/granitemoe/tokenizer.json").read_text())
    settings = json.loads((GOLDEN / "models/granitemoe/tokenizer_config.json").read_text())
    for i, content in enumerate(special):
        token = dict(content=content, single_word=False, lstrip=False, rstrip=False, normalized=False, special=content not in shown)
        tokenizer["added_tokens"].append(dict(id=FIRST + i, **token))
        settings["added_tokens_decoder"][str(FIRST + i)] = token
    tokenizer["post_processor"] = tokenizer["post_processor"]["processors"][0]  # no token at the beginning
    settings.pop("chat_template", None)
    settings |= dict(bos_token=None, eos_token=special[1]) | names
    write(folder, "tokenizer.json", tokenizer)
    write(folder, "tokenizer_config.json", settings)
    write(folder, "generation_config.json", dict(eos_token_id=FIRST + 1, pad_token_id=318))
