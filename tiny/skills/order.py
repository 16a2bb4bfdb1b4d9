"""Counting, and short lists put in order."""

import words
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
