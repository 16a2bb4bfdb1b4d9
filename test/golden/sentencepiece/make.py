"""Trains small SentencePiece models and writes down what the library itself makes of texts.

    pip install sentencepiece==0.2.3
    python make.py            writes NAME.model and golden.json beside itself
"""
import json
import random
from pathlib import Path

import sentencepiece as spm

HERE = Path(__file__).parent
WORDS = """the river was quiet in the morning and the boats waited for the wind she doesn't know what they'll say
a small model answers short questions where is the key 12 apples 345 nuts and 6789 grains of rice on 2024-11-30
Der Fluss war still und die Kinder hörten das Läuten der Glocken le garçon a mangé une crêpe près de la forêt
Река была спокойна и лодки ждали ветра 早上河水很安静 小船在等风 朝の川は静かで def area(width, height): return width * height""".split()

TEXTS = [
    "", " ", "  ", "the", " the", "the river", "  two  blanks  ", "tabs\tand\nlines\n\n", "Unseen: żółć ☃ 🙂 𝔘 Ω",
    "hörten das Läuten", "早上河水很安静。", "x = (a + b) * 12 - 6789", "<0x0A>", "▁▁ literal ▁", "<s> </s> <unk>", "[USER] said",
    "a<mark>b <mark> c", "ﬁne Ａ１ e\u0301", "the river " * 40, "\u0000\u0001", "doesn't they'll",
]
MORE = {"blanks": ["def area():\n    return 1\n\n\n  a   b" + " " * 20 + "c", " " * 5 + "the", "\n  \n the  ▁▁▁ a", " " * 100]}


def corpus():
    rng = random.Random(7)
    for _ in range(3000):
        yield " ".join(rng.choices(WORDS, k=rng.randint(2, 12)))


def rules():
    path = HERE / "rules.tsv"
    pairs = [("ﬁ", "fi"), ("Ａ", "A"), ("１", "1"), ("e\u0301", "é"), ("\t", " "), ("\n", " ")]
    hexed = lambda s: " ".join(f"{ord(c):X}" for c in s)
    path.write_text("".join(f"{hexed(a)}\t{hexed(b)}\n" for a, b in pairs), encoding="utf-8")
    return path


KINDS = {
    # as Llama's
    "bpe": dict(model_type="bpe", byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False),
    # as Gemma's
    "bare": dict(model_type="bpe", byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
                 add_dummy_prefix=False, user_defined_symbols=["<mark>", "[USER]"]),
    # with runs of blanks and of line breaks, as Gemma's own has them
    "blanks": dict(model_type="bpe", byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
                   add_dummy_prefix=False, user_defined_symbols=["\n", "\n\n", *("▁" * count for count in range(2, 8))]),
    # with characters mapped to others, and blanks made one
    "unigram": dict(model_type="unigram"),
}

golden = {}
for name, options in KINDS.items():
    if name == "unigram":
        options["normalization_rule_tsv"] = str(rules())
    spm.SentencePieceTrainer.train(
        sentence_iterator=corpus(), model_prefix=str(HERE / name), vocab_size=480, character_coverage=0.9995,
        num_threads=1, minloglevel=2, hard_vocab_limit=False, **options)
    (HERE / f"{name}.vocab").unlink()
    model = spm.SentencePieceProcessor(model_file=str(HERE / f"{name}.model"))
    cases = [{"text": text, "ids": model.encode(text)} for text in TEXTS + MORE.get(name, [])]
    golden[name] = cases
(HERE / "rules.tsv").unlink()
lines = []
for name, cases in golden.items():
    rows = ",\n".join("  " + json.dumps(case, ensure_ascii=False) for case in cases)
    lines.append(f' "{name}": [\n{rows}\n ]')
(HERE / "golden.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
