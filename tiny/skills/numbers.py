"""Small sums and comparisons."""

from talking import say

DO = "(|||please |now |can you |could you |quickly |will you |I want you to |so |and |then )"
ASK = "(|||and |so |now |tell me: |please: |OK, |then |quick: |do you know |a sum: )"
SAYS = "(what is|what's|how much is|what makes|what gives|how many are|what do you get for|what comes out of)"
SUMS = [
    ASK + SAYS + " {0} (+|plus|and) {1}",
    "{0} (+|plus|and) {1}( =| is| makes| equals|?|)",
    "{0}+{1}(=|)",
    DO + "(add|sum|sum up|add up|total|count together) {0} (and|+|with) {1}",
    DO + "add to {0} (|another |the number ){1}",
    DO + "(calculate|compute|work out|solve|reckon|find|do) (|the sum |this sum: ){0} (+|plus) {1}",
    ASK
    + "(what|how much) (do|does|will|would) {0} (and|plus|+) {1} (make|give|come to|add up to|be)( together| in all|)",
    ASK + "what is the (sum|total) of {0} and {1}",
    DO + "(give me|tell me|find|I need) the (sum|total|result) of {0} (and|plus|+) {1}",
    "(I have|there are|take) {0} and {1} more( come|)(, how many is that|, what is that in all|: how many)",
]
SEVERAL = [
    DO
    + "(add|sum up|add up|work out|calculate|compute|solve|do) (these|each of these|all of these|the following)(| sums)(:|)",
    "(some|more|a few|several) sums (for you|to do|please|)(:|)",
    ASK + SAYS + " (this|each of these|all of this|the following)(:|)",
    "(and|now|next|) (these|the sums|sums|all these)(:|)",
]
LESS = [
    ASK + SAYS + " {0} (-|minus|less) {1}",
    "{0} (-|minus|less) {1}( =| is| makes|)",
    "{0}-{1}(=|)",
    DO + "(subtract|take|take away) {1} from {0}",
    DO + "(calculate|compute|work out|solve) {0} (-|minus) {1}",
    ASK + "what (is left|remains|stays) of {0} without {1}",
]
TIMES = [
    ASK + SAYS + " {0} (*|times|x) {1}",
    "{0} (*|times) {1}( =|)",
    DO + "multiply {0} (by|with|and) {1}",
    DO + "(calculate|compute|work out) {0} (*|times) {1}",
]


def sums(p, talk):
    kind = p.int(0, 19)
    if kind < 16:
        two_digits(p, talk) if kind < 13 else sum_of(p, talk, p.int(0, p.any([9, 9, 20, 99])), p.int(0, 9))
    elif kind < 19:
        a = p.int(0, p.any([9, 20, 99]))
        b = p.int(0, a)
        say(talk, asked(p.wording(LESS).format(a, b)), f"{a} - {b} = {a - b}")
    else:
        a, b = p.int(0, 10), p.int(0, 10)
        say(talk, asked(p.wording(TIMES).format(a, b)), f"{a} * {b} = {a * b}")


def two_digits(p, talk):
    sum_of(p, talk, *p.pair(10, 99))


def sum_of(p, talk, a, b):
    say(talk, asked(p.wording(SUMS).format(a, b)), f"{a} + {b} = {a + b}")


def several(p, talk):
    """Sums in a list: of what is taught the most in the fewest words."""
    pairs = [p.pair(10, 99) for _ in range(p.int(2, p.any([4, 12])))]
    between, plus = p.any([", ", "; ", "\n", ", "]), p.any([" + ", "+", " + ", " and ", " plus "])
    listed = between.join(f"{a}{plus}{b}" for a, b in pairs)
    if p.chance(0.7):
        listed = p.wording(SEVERAL) + (between if between == "\n" else " ") + listed
    say(talk, listed, ("\n" if between == "\n" else ", ").join(f"{a} + {b} = {a + b}" for a, b in pairs))


def asked(text):
    """With a question mark where it is a question in words."""
    return text + "?" if text.startswith(("What", "How", "Do ", "Can", "Could", "Will")) else text


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
