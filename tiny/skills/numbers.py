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
    # as people type
    "(sum|add|plus|total|addition|sum of|the sum of|adding)(:|) {0} (|and |, ){1}",
    "{0} (plus|+|and) {1}( please| pls| plz| thanks| thx| quick| now|, quickly|, quick answer| real quick|, go)",
    "{0} (plus|+) {1} (is what|equals what|is how much|makes what|gives what|is|= what|= ??|is equal to what)",
    "(whats|wats|wat is|hows|how much is|what is|how much|total of|the sum of) {0} (+|plus|and|&) {1}",
    "{0}( and| plus|,| +) {1}(,|:| -|;) (what's the total|what is the sum|how much is that|how much together|what do I get|sum it|add them|total)",
    "{0}, {1}(: |, | - |. )(add them|sum them up|sum|total please|add these two|what is the sum|together)",
    "(numbers|my numbers|two numbers|the numbers|a and b)(: | are | = ){0}( and|,) {1}(. what is the sum|. add them|, sum them|."
    " total|, what do they make)",
    "(can|could|would|will) you (do|add|tell me|work out|calculate|help me with) {0} (+|plus|and) {1} (for me|real quick|please"
    "|quickly|for my homework|for us)( please|)",
    "(can|could) you (please |quickly |)(tell me|say|work out|figure out) (what|how much) {0} (plus|and|+) {1} (is|makes|gives|comes to|equals)",
    "(I need|I want|I'd like|we need|give me|show me|get me) (|the result of |the answer to |the answer for |to know ){0} (+"
    "|plus) {1}(|, please| please| now)",
    "(please|kindly) (tell me|work out|give me|say) (|what is ){0} (plus|+) {1}(|, thank you|, thanks|.)",
    "(if you|if I|when you|when I|suppose I|let's say we) (add|put together|sum|count together) {0} and {1}, (what do you get"
    "|what is it|what comes out|how much is that|what's the result)",
    "(if you|if I|when I|when you) add {0} to {1}, (what do you get|what is it|what comes out|how much is that|what's the total)",
    "(start|begin) (with|at|from) {0} (and|, then|then) add {1}(|. What do you get|: what is it|, what's the result)",
    "(take|start with|think of) {0}(, then| and|,) (add|put on|count on|go up by) {1}(|. What now|. Result| - what is it|. How much)",
    "add {0} (and|to) {1}(|. What is it|, what do I get| for me| please|, quickly)",
    "{0} (increased|made bigger|going up) by {1}(| is what| makes|. how much is it|?)",
    "(what is|what's|tell me) {0} (increased|made larger|gone up) by {1}",
    "(what is|what's|which number is) {0} more than {1}",
    "(what|how much) (do|would|will|should) (I|we|you) (get|have) (if I add|when I add|adding|from|out of|with) {0} (and|plus) {1}",
    "(my homework|homework|exercise|maths|math|task|question one|next)( says|:| is|) {0} (+|plus) {1}(| =|. what is it|. help)",
    "(the|an easy|a quick|one|another) (sum|one|question|task)(: |, ){0} (+|plus|and) {1}(|?|, please)",
    "(how do I add|do you know|are you able to add|can you add) {0} (and|plus|+) {1}",
    "(hey|hi|hello|ok|so|um|hmm)(,| tiny,|) (what is|what's|how much is|add|do|sum) {0} (+|plus|and) {1}",
    # in stories
    "I (had|have|saved|earned|got|found) {0} (euros|dollars|coins|points|stamps|cards|pounds) and (got|found|earned|was given|won"
    "|made) {1} more(, how much is it now|. How many now|, how many do I have|. What is my total| - how many in all)",
    "I (had|have|saved) {0} (euros|dollars|coins), (my aunt gave me|then came|today I got|now I get) {1} (more|on top|extra)(,"
    " total|. How much now|, how many)",
    "{0} (apples|eggs|books|pears|boxes|chairs|birds) (and|plus|+) {1} (more|others|of the same)( make how many| is how many|,"
    " how many in all| are|, total)",
    "{0} apples (and|plus) {1} apples( make how many| is how many apples|, how many apples| are how many|, total)",
    "{0} (euros|dollars|pounds) (and|plus|+) {1} (more|extra|on top|for shipping)( makes| is how much|, total|, what do I pay)",
    "(one|the first|a) (bag|box|class|shelf) has {0}(, | and )(the other|another|the second|the next) (one |)(has |){1}(. How"
    " many together|, how many in all|. What is the total|: total)",
    "(we are|there are) {0} (people|guests|children|friends) and {1} more (come|arrive|join us|are on the way)(, how many now|."
    " How many are there|, how many in all|. What's the total)",
    "(it|the ticket|lunch|the book) costs {0} and (the bag|the other one|the drink|the pen) {1}(, how much together|. What do I"
    " pay|, total|. How much in all|, what is the sum)",
    "(yesterday|on Monday|in the morning|first) (I|we) (ran|read|sold|walked|counted|made) {0}(, | and )(today|on Tuesday|in the"
    " evening|then) {1}(. How many together|, how many in all|. Total|, what is the sum)",
    "(my|our) (sister|brother|friend|boss|son) (is|has|was) {0}( now|), (what is that|how much is that|what will it be) plus {1}",
    "(my sister|my brother|my cat|my uncle|she|he) is {0}(, how old|. How old) (in|after) {1} (years|more years)",
    "(a bus|the train|a tram) (with|has|carries) {0} (people|passengers)(,| and) {1} (get on|more get on|more come in)(, how many"
    " now|. How many are there|, how many in all|, total)",
    "(we|they|I) (need|bought|ordered|sold) {0} (red|small|old) (cups|bags|chairs) and {1} (blue|big|new) ones(, how many in all"
    "|. Total|. How many is that together)",
    "(our|my|the) team (has|got|scored) {0} (points|goals) and then {1}( more|)(. How many now|, how many in all|, what is the total|. Sum)",
    "(together|in total|in all|all in all), (what|how much|how many) (is|are|do we have with) {0} (and|plus) {1}",
    "(combine|put together|merge|count up|tally|total up|tot up) {0} (and|with|plus|+) {1}(|. what is it| please|, thanks)",
    "(result|answer|solution|value|outcome) (of|for|to) {0} (+|plus) {1}(|?| please|, only the result)",
    "(I wonder|I am wondering|I forgot|I can't work out|no idea|tell me) (what|how much) {0} (and|plus|+) {1} (is|makes|are|gives)(|.|, help)",
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
