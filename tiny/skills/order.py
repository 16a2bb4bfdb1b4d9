"""Counting, letters, and lists put in order."""

import words
from skills.repeating import sentence
from talking import say


def count(p, talk):
    kind = p.int(0, 3)
    if kind == 0:
        low = p.int(0, 90)
        high = low + p.int(2, 10)
        say(
            talk,
            p.template(
                [
                    "Count from {} to {}.",
                    "Count from {} to {}",
                    "Please count from {} up to {}.",
                    "List the numbers from {} to {}.",
                    "Say the numbers from {} to {}.",
                ]
            ).format(low, high),
            " ".join(map(str, range(low, high + 1))),
        )
    elif kind == 1:
        high = p.int(2, 10)
        say(
            talk,
            p.template(
                [
                    "Count backwards from {}.",
                    "Count down from {}.",
                    "Please count down from {} to 1.",
                    "Count down from {} to one.",
                ]
            ).format(high),
            " ".join(map(str, range(high, 0, -1))),
        )
    elif kind == 2:
        items = [p.word() for _ in range(p.int(1, 7))]
        say(
            talk,
            p.template(
                [
                    "How many words are here: {}",
                    "Count the words: {}",
                    "How many words: {}",
                    "Count these words: {}",
                    "How many items are in this list: {}",
                ]
            ).format(p.any([" ", ", "]).join(items)),
            str(len(items)),
        )
    else:
        item, others = p.noun(), [p.noun() for _ in range(p.int(1, 4))]
        items = [item] * p.int(1, 4) + [o for o in others if o != item]
        p.random.shuffle(items)
        say(
            talk,
            p.template(
                [
                    "How many times is {} in this list: {}",
                    "How often does {} appear: {}",
                    "Count the word {} in: {}",
                    "How often is {} in: {}",
                ]
            ).format(item, ", ".join(items)),
            str(items.count(item)),
        )


def case(p, talk):
    text = (
        p.value(words.NAMES + words.THINGS + words.ANIMALS + words.COLOURS + words.FRUITS)
        if p.chance(0.6)
        else p.noun()
    )
    if p.chance(0.15):
        text += " " + p.noun()
    kind = p.int(0, 2)
    if kind == 0:
        say(
            talk,
            p.template(
                [
                    "Write {} in upper case.",
                    "Upper-case this: {}",
                    "Put {} in capital letters.",
                    "Write in capitals: {}",
                    "{} in upper case, please.",
                    "Make this upper case: {}",
                ]
            ).format(text.lower()),
            text.upper(),
        )
    elif kind == 1:
        say(
            talk,
            p.template(
                [
                    "Write {} in lower case.",
                    "Lower-case this: {}",
                    "Put {} in small letters.",
                    "{} in lower case, please.",
                    "Make this lower case: {}",
                ]
            ).format(text.upper()),
            text.lower(),
        )
    else:
        say(
            talk,
            p.template(
                [
                    "Capitalise this: {}",
                    "Write {} with a capital letter.",
                    "Start {} with a capital.",
                    "Capitalise the word {}.",
                ]
            ).format(text.lower()),
            text.lower().capitalize(),
        )


def spell(p, talk):
    word = p.value(words.THINGS + words.ANIMALS + words.COLOURS + words.FRUITS + words.NAMES)
    if p.chance(0.7):
        say(
            talk,
            p.template(
                ["Spell {}.", "Spell the word {}.", "How do you spell {}?", "Please spell {}.", "How is {} spelled?"]
            ).format(word),
            "-".join(word),
        )
    else:
        say(
            talk,
            p.template(
                [
                    "What is the first letter of {}?",
                    "Which letter does {} begin with?",
                    "With which letter does {} start?",
                    "Give me the first letter of {}.",
                ]
            ).format(word),
            word[0],
        )


def sort(p, talk):
    kind = p.int(0, 2)
    if kind == 0:
        items = p.random.sample(range(100), p.int(2, 5))
        down = p.chance(0.3)
        order = (
            p.any(["from large to small", "in descending order"])
            if down
            else p.any(["from small to large", "in ascending order"])
        )
        say(
            talk,
            p.template(
                [
                    "Sort {1}: {0}",
                    "Sort these numbers {1}: {0}",
                    "Put these numbers in order, {1}: {0}",
                    "Order {0} {1}.",
                    "Arrange {1}: {0}",
                ]
            ).format(", ".join(map(str, items)), order),
            ", ".join(map(str, sorted(items, reverse=down))),
        )
    elif kind == 1:
        items = p.values(words.ANIMALS + words.THINGS + words.FRUITS, p.int(2, 5))
        say(
            talk,
            p.template(
                [
                    "Sort these words: {}",
                    "Sort alphabetically: {}",
                    "Put these words in alphabetical order: {}",
                    "Order by the alphabet: {}",
                    "Arrange in alphabetical order: {}",
                ]
            ).format(", ".join(items)),
            ", ".join(sorted(items)),
        )
    else:
        items = [p.word() for _ in range(p.int(2, 5))]
        say(
            talk,
            p.template(
                [
                    "Reverse the list: {}",
                    "Reverse this list: {}",
                    "Write this list backwards: {}",
                    "Turn the list around: {}",
                ]
            ).format(", ".join(items)),
            ", ".join(items[::-1]),
        )


def position(p, talk):
    items = [p.word() for _ in range(p.int(2, 6))]
    i = p.int(0, len(items) - 1)
    where = "last" if i == len(items) - 1 else ["first", "second", "third", "fourth", "fifth"][i]
    say(
        talk,
        p.template(
            [
                "What is the {} word: {}",
                "Give me the {} item: {}",
                "Which word comes {} here: {}",
                "Say only the {} word of: {}",
                "The {} item of this list, please: {}",
            ]
        ).format(where, p.any([", ", " "]).join(items)),
        items[i],
    )


def replace(p, talk):
    text = sentence(p)
    parts = text.rstrip(".").split(" ")
    old, new = p.any(parts), p.noun()
    say(
        talk,
        p.template(
            [
                "Replace {} with {}: {}",
                "Replace {} by {} in: {}",
                "Change {} to {}: {}",
                "In this sentence put {1} for {0}: {2}",
            ]
        ).format(old, new, text),
        " ".join(new if w == old else w for w in parts) + ".",
    )
