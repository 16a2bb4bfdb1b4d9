"""The tokenizer: byte-level BPE with one twist. `python vocabulary.py OUT` writes OUT/tokenizer.json and tokenizer_config.json.

Merges are learnt on words without the blank before them; the blank is merged last. So a word is cut into the same pieces wherever it
stands (" Zarnik", "\"Zarnik"), only the first piece may carry the blank, and copying a word is copying its pieces. Digits stand alone.
"""

import json
import sys
from collections import Counter
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

import facts
import skills
import words
from talking import END, START, Pick, render

SIZE, BLANKS = 2560, 720
SPECIAL = ["<|endoftext|>", START, END]
TAGS = ["<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]
PATTERN = r" ?\p{L}+| ?[^\s\p{L}\p{N}]+|\p{N}|\s+(?!\S)|\s"
JSON_TEXT = '{"type": "object", "properties": {"name": {"type": "string", "description": "enum"}}, "required": ["integer", "number", "boolean", "array"]}'


def sample(n):
    """Text to learn merges from: conversations, and the word lists so that every word counts."""
    p = Pick("vocabulary")
    lists = [v for v in vars(words).values() if isinstance(v, list)]
    yield from (" ".join(items) for items in lists for _ in range(20))
    yield from (
        " ".join(f"{a} {b}" for a, b in d.items())
        for d in (facts.CAPITALS, facts.OPPOSITES, facts.IRREGULAR, facts.COLOUR_OF)
        for _ in range(20)
    )
    yield from [JSON_TEXT] * 200 + facts.UNKNOWN_THINGS * 5
    yield from (" ".join(ws) for ws in facts.LABELLED.values() for _ in range(10))
    for _ in range(n):
        talk = skills.opening(p)
        skills.turn(p, talk)
        yield render(talk).replace(START, " ").replace(END, " ")


def build():
    texts = list(sample(12000))
    bare = Tokenizer(models.BPE())
    bare.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\p{L}+|[^\s\p{L}\p{N}]+|\p{N}|\s+(?!\S)|\s"), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    room = SIZE - BLANKS - len(SPECIAL) - len(TAGS)
    bare.train_from_iterator(
        texts,
        trainers.BpeTrainer(vocab_size=room, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False),
    )
    state = json.loads(bare.to_str())["model"]
    counts = Counter(bare.encode(w).tokens[0] for text in texts for w in pieces_after_blank(text))
    first = [t for t, _ in counts.most_common() if "Ġ" + t not in state["vocab"]][:BLANKS]
    merges = [list(m) for m in state["merges"]] + [["Ġ", t] for t in first]
    vocab = list(
        dict.fromkeys(SPECIAL + TAGS + sorted(state["vocab"], key=state["vocab"].get) + ["Ġ" + t for t in first])
    )

    tokenizer = Tokenizer(models.BPE({t: i for i, t in enumerate(vocab)}, [tuple(m) for m in merges]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PATTERN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(SPECIAL)
    tokenizer.add_tokens(TAGS)
    assert tokenizer.get_vocab_size() == SIZE, tokenizer.get_vocab_size()
    return tokenizer


SPLIT = pre_tokenizers.Split(Regex(PATTERN), "isolated")


def pieces_after_blank(text):
    return [w[1:] for w, _ in SPLIT.pre_tokenize_str(text) if len(w) > 1 and w[0] == " " and not w[1].isspace()]


def main(out):
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = build()
    tokenizer.save(str(out / "tokenizer.json"))
    text = 'Say "Zarnik" to Zarnik: {"name": "Zarnik", "n": 1234}\n\tnaïve 日本 🙂'
    ids = tokenizer.encode(text).ids
    assert tokenizer.decode(ids, skip_special_tokens=False) == text
    print(len(ids), tokenizer.encode(text).tokens)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
