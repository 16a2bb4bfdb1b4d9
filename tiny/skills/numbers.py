"""Small sums and comparisons."""

from talking import say


def sums(p, talk):
    kind = p.int(0, 9)
    if kind < 6:
        top = p.any([9, 9, 20, 99])
        a, b = p.int(0, top), p.int(0, top)
        say(
            talk,
            p.template(
                [
                    "What is {0} + {1}?",
                    "{0} + {1} =",
                    "{0}+{1}",
                    "How much is {0} plus {1}?",
                    "Add {0} and {1}.",
                    "{0} plus {1}",
                    "What is {0} plus {1}?",
                    "Calculate {0} + {1}.",
                    "What do {0} and {1} make?",
                    "What is the sum of {0} and {1}?",
                ]
            ).format(a, b),
            f"{a} + {b} = {a + b}",
        )
    elif kind < 9:
        a = p.int(0, p.any([9, 20, 99]))
        b = p.int(0, a)
        say(
            talk,
            p.template(
                [
                    "What is {0} - {1}?",
                    "{0} - {1} =",
                    "How much is {0} minus {1}?",
                    "Subtract {1} from {0}.",
                    "{0} minus {1}",
                    "What is {0} minus {1}?",
                    "Take {1} from {0}.",
                ]
            ).format(a, b),
            f"{a} - {b} = {a - b}",
        )
    else:
        a, b = p.int(0, 10), p.int(0, 10)
        say(
            talk,
            p.template(
                [
                    "What is {0} * {1}?",
                    "What is {0} times {1}?",
                    "{0} times {1}",
                    "How much is {0} times {1}?",
                    "Multiply {0} by {1}.",
                ]
            ).format(a, b),
            f"{a} * {b} = {a * b}",
        )


def compare(p, talk):
    top = p.any([20, 100, 1000])
    a, b = p.random.sample(range(top), 2)
    kind = p.int(0, 3)
    if kind < 2:
        big = kind == 0
        word = p.any(["larger", "bigger", "greater"] if big else ["smaller", "less"])
        winner = max(a, b) if big else min(a, b)
        say(
            talk,
            p.template(
                [
                    "Which is {2}, {0} or {1}?",
                    "Which number is {2}: {0} or {1}?",
                    "{0} or {1}: which is {2}?",
                    "Tell me which is {2}, {0} or {1}.",
                    "Of {0} and {1}, which is {2}?",
                ]
            ).format(a, b, word),
            f"{winner} is {word}.",
        )
    elif kind == 2:
        say(
            talk,
            p.template(
                [
                    "Is {0} greater than {1}?",
                    "Is {0} more than {1}?",
                    "Is {0} larger than {1}?",
                    "Is {0} bigger than {1}?",
                ]
            ).format(a, b),
            f"Yes, {a} is greater than {b}." if a > b else f"No, {a} is less than {b}.",
        )
    else:
        one, two = p.name(), p.name()
        while two == one:
            two = p.name()
        a, b = p.random.sample(range(1, 100), 2)
        what, more = p.any(
            [
                ("is {} years old", "older"),
                ("has {} coins", "richer"),
                ("is {} metres away", "farther away"),
                ("weighs {} kilos", "heavier"),
                ("has {} points", "ahead"),
            ]
        )
        say(
            talk,
            p.template(
                [
                    "{0} {2}. {1} {3}. Who is {4}?",
                    "{0} {2} and {1} {3}. Who is {4}?",
                    "If {0} {2} and {1} {3}, who is {4}?",
                    "{1} {3}, {0} {2}. Who is {4}?",
                ]
            ).format(one, two, what.format(a), what.format(b), more),
            f"{one if a > b else two} is {more}.",
        )
