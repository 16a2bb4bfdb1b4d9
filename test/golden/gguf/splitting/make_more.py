"""Cuts texts as pre-tokenizers do that split-golden.json does not have, with the package `regex`, which is no Oniguruma.

    pip install regex
    python make_more.py        writes more-golden.json beside itself, of the same texts

Patterns are those of the models' own tokenizers: openbmb/MiniCPM5-1B, CohereLabs/tiny-aya-base and tencent/Youtu-LLM-2B (tokenizer.json),
moonshotai/Kimi-K2-Base (tokenization_kimi.py), inceptionai/Jais-2-8B-Chat as llama.cpp quotes it; and those of `afmoe` and `laguna` are what
llama.cpp does under these names (llama-vocab.cpp, unicode.cpp). `also` has names that mean a row of split-golden.json, `same` those that
mean one here.
"""
import json
from importlib.metadata import version
from pathlib import Path

import regex

HERE = Path(__file__).parent
ENDINGS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
WORDS = ENDINGS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|"
UPPER, LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"


def by_case(but="", digits=r"\p{N}{1,3}", marks=r"[\r\n/]*"):
    """Words of capitals, then small letters; `but` takes some letters out."""
    upper, lower, first = f"[{UPPER}{but}]", f"[{LOWER}{but}]", r"[^\r\n\p{L}\p{N}]?"
    return "|".join([
        f"{first}{upper}*{lower}+{ENDINGS}?", f"{first}{upper}+{lower}*{ENDINGS}?", digits,
        rf" ?[^\s\p{{L}}\p{{N}}]+{marks}", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+",
    ])


ROWS = {
    "minicpm5": [
        r"\p{N}{1,3}",
        ENDINGS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ],
    "tiny_aya": [r"\d{1,3}(?=(?:\d{3})*\b)", by_case()],
    "kimi-k2": [r"[\p{Han}]+|" + by_case(but=r"&&[^\p{Han}]", marks=r"[\r\n]*")],
    "youtu": [
        "[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+",
        by_case(digits=r"\p{N}"),
    ],
    "afmoe": [
        r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))",
        "[一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+",
        r'''[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+'''
        r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ],
    "jais-2": [
        WORDS + r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
        + "|".join(rf"\s{{{n}}}(?!\S)" for n in ("512", "256", "128", "64", "32", "16", "8", "4", "1,2")) + r"|\s{1}",
    ],
    "laguna": [
        r"[^\n]+|[\n]+",
        WORDS + r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ],
}
SAME = {"tiny_aya": ["cohere2moe"]}
ALSO = {"gpt-2": ["jina-v1-en", "jina-v2-code", "roberta-bpe"], "qwen2": ["f2llmv2"], "gpt-4o": ["granite-embed-multi-97m"]}


def cut(text, patterns):
    """Each pattern cuts the pieces of the one before: what it matches, and what lies between."""
    pieces = [text]
    for pattern in patterns:
        compiled, pieces, before = regex.compile(pattern, regex.V1), [], pieces
        for piece in before:
            at = 0
            for match in compiled.finditer(piece):
                pieces += [piece[at : match.start()], match.group()]
                at = match.end()
            pieces.append(piece[at:])
        pieces = [piece for piece in pieces if piece]
    return pieces


texts = json.loads((HERE / "split-golden.json").read_text())["texts"]
splits = [{"pre": pre, "same": SAME.get(pre, []), "cuts": cuts, "pieces": [cut(text, cuts) for text in texts]} for pre, cuts in ROWS.items()]
golden = {"versions": {"regex": version("regex")}, "also": ALSO, "splits": splits}
(HERE / "more-golden.json").write_text(json.dumps(golden, ensure_ascii=False))
