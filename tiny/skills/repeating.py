"""Saying again what was said: the skill that all others grow from."""

import words
from talking import fix, say


def stuff(p, longest=10):
    """Something to repeat: words, sentences, codes, odd strings."""
    kind = p.int(0, 12)
    if kind == 0:
        return sentence(p)
    if kind == 1:
        return " ".join(p.word() for _ in range(p.int(1, longest)))
    if kind == 2:
        return p.pseudo()
    if kind == 3:
        return " ".join(str(p.number(4)) for _ in range(p.int(1, 5)))
    if kind == 4:
        return p.code() if p.chance(0.5) else f"{p.code()}-{p.code()}"
    if kind == 5:
        return ", ".join(p.word() for _ in range(p.int(2, 6)))
    if kind in (6, 11, 12):
        if (
            words.PIECES and not p.held
        ):  # many at once: each piece of the vocabulary must be said often enough to be said at all
            return " ".join(p.any(words.PIECES) for _ in range(p.int(2, 2 * longest)))
        return " ".join(p.any(words.COMMON) for _ in range(p.int(1, longest)))
    return (
        f"{p.name()} {p.any(words.SURNAMES)}" if p.chance(0.5) else p.word().capitalize() + p.any([".", "!", "?", ""])
    )


LETTERS = "äöüßéèêñçøåæłżśğışčřžáíóúàâîôëï"
SIGNS = "αβγδλπωжшяидкнбтр日本語中文字水火山人大小東京한국어あいうえおשלוםسلام€£¥§°→←≤≥≠±×÷½🙂😀🚀🌍🎉👍🐱🍎☀⚡★♥✓"


def decorated(p):
    """A word with letters, signs or marks that plain English has not: they are cut into bytes, which copying must carry too."""
    word, kind = p.word(), p.int(0, 5)
    if kind == 0:
        at = p.int(0, len(word))
        return word[:at] + p.any(LETTERS) + word[at:]
    if kind == 1:
        return "".join(p.any(SIGNS) for _ in range(p.int(1, 4)))
    if kind == 2:
        return p.any(
            ["{}@{}.com", "{}/{}", "{}_{}", "{}-{}", "{}.{}", "https://{}.org/{}", "{}={}", "#{}:{}", "{}'{}", "${}&{}"]
        ).format(word, p.pseudo(1))
    if kind == 3:
        return p.any(
            ["({})", "[{}]", "<{}>", "*{}*", "'{}'", "{}...", "{}?!", "{};", "`{}`", "{{{}}}", "~{}", "{}%"]
        ).format(word)
    return p.any([word.upper(), word.capitalize(), word, str(p.number(3))])


def sentence(p):
    who = p.any(
        [
            p.name(),
            "The " + p.value(words.JOBS),
            "My " + p.any("brother sister friend uncle aunt neighbour".split()),
            "The " + p.value(words.ANIMALS),
        ]
    )
    thing = f"{p.any(['a', 'the', 'the'])} {p.value(words.ADJECTIVES + words.COLOURS)} {p.value(words.THINGS)}"
    where = p.any(
        [
            f" in the {p.value(words.PLACES)}",
            f" near the {p.value(words.PLACES)}",
            f" in {p.city()}",
            f" on {p.any(words.DAYS)}",
            "",
            "",
        ]
    )
    return f"{who} {p.value(words.VERBS_PAST)} {fix(thing)}{where}."


REPEAT = [
    "Repeat: {}",
    "Say: {}",
    "Repeat after me: {}",
    "Echo: {}",
    "Please repeat: {}",
    "Copy this: {}",
    "Say {}",
    "Repeat this text: {}",
    'Repeat "{}"',
    'Say "{}"',
    "Repeat {}",
    'Please say "{}".',
    "Write: {}",
    "Copy exactly: {}",
    'Echo "{}"',
    "repeat {}",
    "Repeat the following: {}",
    "Repeat this:\n{}",
    "Echo back: {}",
    "Please write {}",
    "Say this: {}",
    "Please copy: {}",
    'Say exactly "{}"',
    "Echo this back: {}",
    "Can you repeat this: {}",
    "Now repeat: {}",
    "Write this: {}",
    "Just say {}",
    "Type this: {}",
    "Say the words: {}",
    "Your turn to say: {}",
    "Please echo: {}",
    "Reply with: {}",
    "Answer with: {}",
    'Reply with "{}"',
    "Answer only: {}",
    "Reply only with {}",
    "Print: {}",
    "Give back: {}",
    "Say it after me: {}",
    "Write down: {}",
    "Please reply with: {}",
    "Say back to me: {}",
    "Write exactly: {}",
    "Answer with exactly: {}",
    "Please say: {}",
    "Speak after me: {}",
    "Print this text: {}",
]


def repeat(p, talk):
    text = stuff(p)
    say(talk, p.template(REPEAT).format(text), text)


def repeat_times(p, talk):
    text, n = p.word(), p.int(2, 4)
    many = {2: "twice", 3: "three times", 4: "four times"}[n]
    say(
        talk,
        p.template(
            [
                "Say {} {}.",
                "Write the word {} {}.",
                "Repeat {} {}.",
                "Say the word {} {}.",
                "Print {} {}.",
                "Please repeat {} {}.",
            ]
        ).format(text, many),
        " ".join([text] * n),
    )
