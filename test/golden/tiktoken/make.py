"""Makes a small tiktoken.model and what the package tiktoken reads texts as, cut in Moonshot's way: python make.py

Tokens are trained by its bpe_train on the sentences below; 380 of them, and three more behind them that no text makes.
"""

import base64
import json

import tiktoken
from tiktoken._educational import bpe_train

SENTENCES = """
The server reads what it is given, and says what it has read. It reads numbers: 1, 12, 123, 1234 and 12345.
They're here, we've seen them, I'll say so; DON'T SHOUT. Something, somewhere, sometimes, somehow.
def read(text):\n    return [word for word in text.split() if word]\n\n\n# 读书的人很多，读完的人很少。
模型读取文字，然后写出文字。文字越长，时间越久。 naïve café über Straße, ÀÉÎ
""" * 3

CUTS = "|".join(
    [
        r"[\p{Han}]+",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    ]
)
PLAIN = r" ?\p{L}+| ?\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s+"  # the trainer's engine has no intersections of classes
TEXTS = [
    "The server reads.",
    "  They're reading 1234567 words,\n\n\tthen DON'T.",
    "模型reads文字 then 读书",
    "naïve Straße café ÀÉÎ e\u0301",
    "def f(x):\n        return x  \n",
    "😀 unknown ☂ signs",
    "",
    " ",
    "SomethingSomewhere's",
    "<|im_end|>[BOS] as they stand",
]

ranks = bpe_train(SENTENCES, 380, PLAIN, visualise=None)
named = {"[BOS]": 380, "<|im_end|>": 382, "<|im_user|>": 383}
encoding = tiktoken.Encoding("small", pat_str=CUTS, mergeable_ranks=ranks, special_tokens=named)
with open("tiktoken.model", "w") as file:
    for token, rank in sorted(ranks.items(), key=lambda row: row[1]):
        file.write(f"{base64.b64encode(token).decode()} {rank}\n")
texts = [dict(text=text, ids=encoding.encode(text, disallowed_special=())) for text in TEXTS]
special = "<|im_user|>user<|im_end|> reads"
texts.append(dict(text=special, ids=encoding.encode(special, allowed_special="all"), special=True))
golden = dict(versions=dict(tiktoken=tiktoken.__version__), texts=texts)
with open("golden.json", "w") as file:
    json.dump(golden, file, indent=1)
