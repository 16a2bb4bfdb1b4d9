"""The pieces of a conversation: drawing at random, the messages, and how they are written down as text and as tokens.

`Pick(held=True)` draws only from the templates and values that training never sees. A conversation is {"system", "tools", "messages"};
`render` is the chat template said in Python (export.py checks it against the Jinja one).
"""

import json
import random
import re
import zlib

import words

START, END = "<|im_start|>", "<|im_end|>"


GROUP = re.compile(r"\(([^()]*)\)")


def bare(text):
    """A wording without case and punctuation, so that both go to the same side of the split."""
    return re.sub(r"[^a-z0-9{} ]", "", text.lower()).strip()


def shape(text):
    """The same without the places where values go."""
    return re.sub(" +", " ", bare(re.sub(r"\{\w*\}", "", text))).strip()


class Pick:
    """Random choices that know which side of the split they are on."""

    def __init__(self, seed, held=False):
        self.random, self.held = random.Random(seed), held

    def chance(self, p):
        return self.random.random() < p

    def int(self, low, high):
        return self.random.randint(low, high)

    def any(self, items):
        return self.random.choice(items)

    def template(self, items):
        """Of four or more ways to say it the last fifth is held out."""
        if len(items) < 4:
            return self.any(items)
        cut = len(items) - max(1, len(items) // 5)
        return self.any(items[cut:] if self.held else items[:cut])

    def wording(self, patterns, never=()):
        """One way to say it, of the many that patterns such as "(what is|tell me) my name" stand for; a fifth of them, by their letters, is
        held out. `never` are wordings (as `bare` gives them) that the training side leaves out as well."""
        while True:
            text = self.unfold(self.any(patterns))
            key = bare(text)
            if (zlib.crc32(key.encode()) % 5 == 0) == self.held and (
                self.held or key not in never and shape(text) not in words.NEVER
            ):
                return text[0].upper() + text[1:]

    def unfold(self, pattern):
        while (found := GROUP.search(pattern)) is not None:
            pattern = pattern[: found.start()] + self.any(found[1].split("|")) + pattern[found.end() :]
        return re.sub(" +", " ", pattern).strip()

    def value(self, items):
        """Every sixth value is held out."""
        kept = [x for i, x in enumerate(items) if (i % 6 == 5) == self.held]
        return self.any(kept)

    def mostly(self, items):
        """A value of the list, or in training one time in seven a word that has no business there, for the same reason as `slot`."""
        if self.held or self.chance(0.86):
            return self.value(items)
        return self.piece() if self.chance(0.5) else self.pseudo()

    def slot(self, items):
        """A value of the list, or in training now and then a word that has no business there: what is said must be read, not guessed."""
        if self.held or self.chance(0.55):
            return self.value(items)
        kind = self.random.random()
        if kind < 0.4 and words.PIECES:
            return self.any(words.PIECES)
        return self.pseudo() if kind < 0.8 else self.value(words.ADJECTIVES + words.THINGS)

    def pair(self, low, high):
        """Two numbers; a sixth of all pairs, whichever comes first, is held out."""
        while True:
            a, b = self.int(low, high), self.int(low, high)
            if (zlib.crc32(f"{min(a, b)} {max(a, b)}".encode()) % 6 == 0) == self.held:
                return a, b

    def values(self, items, n):
        kept = [x for i, x in enumerate(items) if (i % 6 == 5) == self.held]
        return self.random.sample(kept, min(n, len(kept)))

    def pseudo(self, syllables=None):
        """A word that does not exist; 1 in 16 of all such words, by their letters, belongs to the held-out side."""
        while True:
            word = "".join(
                self.any(words.ONSETS) + self.any(words.VOWELS) + self.any(words.CODAS)
                for _ in range(syllables or self.int(1, 3))
            )
            if (sum(map(ord, word)) % 16 == 7) == self.held:
                return word

    def name(self):
        return self.value(words.NAMES) if self.chance(0.7) else self.stranger()

    def city(self, region=0):
        city = self.value(words.CITIES) if self.chance(0.75 if self.held else 0.65) else self.stranger()
        return f"{city}, {self.value(words.REGIONS)}" if self.chance(region) else city

    def stranger(self):
        """A name that nobody has; in training now and then a word that is none, or a name with an accent."""
        if words.PIECES and not self.held and self.chance(0.3):
            return self.piece().capitalize()
        name = self.pseudo(2).capitalize()
        if self.held or self.chance(0.9):
            return name
        at = self.int(1, len(name))
        return name[:at] + self.any(words.ACCENTED) + name[at:]

    def piece(self):
        """A piece of the vocabulary, so that every token is met where something is to be copied; a made-up word where there is none."""
        return self.any(words.LETTERS) if words.LETTERS and not self.held else self.pseudo()

    def noun(self):
        return self.mostly(words.THINGS if self.chance(0.6) else words.ANIMALS + words.FRUITS + words.FOODS)

    def word(self):
        """Any word: one of the lists, one that does not exist, or in training any piece of the vocabulary."""
        kind = self.random.random()
        if kind < 0.25 and words.PIECES and not self.held:
            return self.any(words.PIECES)
        if kind < 0.5:
            return self.pseudo()
        return self.noun() if kind < 0.85 else self.value(words.ADJECTIVES + words.COMMON)

    def code(self):
        """A short string of letters and digits."""
        return "".join(
            self.any("ABCDEFGHKLMNPRSTUVWXYZ23456789" if self.chance(0.5) else "0123456789")
            for _ in range(self.int(3, 6))
        )

    def renamed(self, name):
        """The name as somebody else would have written it: nobody can know it by heart, it must be read."""
        word = self.pseudo(1) if self.chance(0.4) else self.any(words.COMMON + words.ADJECTIVES + words.TOOLISH).lower()
        if word in words.KEPT:
            return name
        made = self.any([f"{word}_{name}", f"{word}_{name}", f"{name}_{word}"])
        if self.chance(0.2):
            head, *rest = made.split("_")
            return head + "".join(part.capitalize() for part in rest)
        return made

    def number(self, digits=3):
        return self.int(0, 10 ** self.int(1, digits) - 1)


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


def call(name, arguments):
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"type": "function", "function": {"name": name, "arguments": arguments}}],
    }


def result(value):
    return {"role": "tool", "content": value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}


def say(talk, question, answer):
    talk["messages"] += [user(question), assistant(answer)]


SHORT = {
    "you": "u",
    "are": "r",
    "your": "ur",
    "please": "pls plz please",
    "thanks": "thx ty",
    "okay": "ok",
    "because": "cuz",
    "what's": "whats",
    "it's": "its",
    "i'm": "im",
    "don't": "dont",
    "tell": "tel",
    "with": "w/ with",
    "and": "n & and",
    "the": "teh the",
}


def hurried(p, text, said, known=False):
    """A request as somebody types it who takes no care: no capitals, no marks at its end, short forms, letters in the wrong order. No word that
    is `said` in reply is touched, unless the reply is `known` by heart. Where it comes near a wording that training must not say it stays."""
    kept = set() if known else {part for word in said.split() for part in (word, word.strip(MARKS))}
    made, style = [], p.int(0, 3)
    for i, word in enumerate(text.split(" ")):
        own = word.strip(MARKS)
        low = own.lower()
        if not own or word in kept or own in kept or not own.isascii() or any(c.isdigit() for c in own):
            made.append(word)
            continue
        new = low if i == 0 or known or style and (low in SHORT or low == "i") else own
        if low in SHORT and p.chance(0.4):
            new = p.any(SHORT[low].split())
        elif len(low) > 4 and low.isalpha() and low == own and p.chance(0.04):
            at = p.int(1, len(low) - 3)
            new = low[:at] + low[at + 1] + low[at] + low[at + 2 :]
        made.append(word.replace(own, new, 1))
    last = made[-1]
    if made[-1].endswith((".", "?", "!")) and text.split(" ")[-1] not in kept:
        made[-1] = last[:-1] + p.any(["", "", "", "", last[-1] * 2, "!", " " + last[-1]])
    new = " ".join(made)
    frame = " ".join(word for word in bare(new).split() if word not in {bare(part) for part in kept})
    return text if bare(new) in words.NEVER or re.sub(" +", " ", frame) in words.NEVER else new


MARKS = ".,!?:;\"'()"


def fix(text):
    """a apple → an apple."""
    parts = text.split(" ")
    return " ".join(
        "an" if w == "a" and i + 1 < len(parts) and parts[i + 1][:1] in "aeiou" else w for i, w in enumerate(parts)
    )


def segments(conversation, prompt=False):
    """The rendered conversation as (text, trained on?) pieces; with `prompt` it ends where the assistant is to speak."""
    system, tools = conversation.get("system"), conversation.get("tools")
    head = system or ""
    if tools:
        lines = "\n".join(shown(t["function"]) for t in tools)
        head += ("\n\n" if system else "") + "Tools:\n" + lines
    if head:
        yield f"{START}system\n{head}{END}\n", False
    for m in conversation["messages"]:
        if m["role"] == "assistant":
            text = m["content"] or ""
            for c in m.get("tool_calls", []):
                text += (
                    ("\n" if text else "")
                    + "<tool_call>\n"
                    + json.dumps(c["function"], ensure_ascii=False)
                    + "\n</tool_call>"
                )
            yield f"{START}assistant\n", False
            yield f"{text}{END}", m.get("train", True)
            yield "\n", False
        elif m["role"] == "tool":
            yield f"{START}tool\n<tool_response>\n{m['content']}\n</tool_response>{END}\n", False
        else:
            yield f"{START}{m['role']}\n{m['content']}{END}\n", False
    if prompt:
        yield f"{START}assistant\n", False


def shown(function):
    """A tool as the model reads it: what it does, then what a call looks like, with types where the values go."""
    schema, parts = function["parameters"], []
    for key, p in schema["properties"].items():
        about = f", {p['description']}" if "description" in p else ""
        about += "" if key in schema["required"] else ", optional"
        kind = ("|".join(p["enum"]) if "enum" in p else p["type"]) + about
        parts.append(f"{json.dumps(key)}: " + (f'"{kind}"' if p["type"] == "string" else kind))
    return f'{function["description"]}\n{{"name": {json.dumps(function["name"])}, "arguments": {{{", ".join(parts)}}}}}'


def render(conversation, prompt=False):
    return "".join(text for text, _ in segments(conversation, prompt))


def encode(tokenizer, conversation, prompt=False):
    """Token ids and, for each, whether the model is to learn to say it."""
    ids, trained = [], []
    for (_, train), e in zip(
        s := list(segments(conversation, prompt)),
        tokenizer.encode_batch([text for text, _ in s], add_special_tokens=False),
    ):
        ids += e.ids
        trained += [train] * len(e.ids)
    return ids, trained
