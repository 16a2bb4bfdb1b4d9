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


SIGNS = "αβγδλπωжшяидкнбтр日本語中文字水火山人大小東京한국어あいうえおשלוםسلام€£¥§°→←≤≥≠±×÷½🙂😀🚀🌍🎉👍🐱🍎☀⚡★♥✓"


def decorated(p):
    """A word with letters, signs or marks that plain English has not: they are cut into bytes, which copying must carry too."""
    word, kind = p.word(), p.int(0, 5)
    if kind == 0:
        at = p.int(0, len(word))
        return word[:at] + p.any(words.ACCENTED) + word[at:]
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
            "The " + p.mostly(words.JOBS),
            "My " + p.any("brother sister friend uncle aunt neighbour".split()),
            "The " + p.mostly(words.ANIMALS),
        ]
    )
    thing = f"{p.any(['a', 'the', 'the'])} {p.mostly(words.ADJECTIVES + words.COLOURS)} {p.mostly(words.THINGS)}"
    where = p.any(
        [
            f" in the {p.mostly(words.PLACES)}",
            f" near the {p.mostly(words.PLACES)}",
            f" in {p.city()}",
            f" on {p.any(words.DAYS)}",
            "",
            "",
        ]
    )
    return f"{who} {p.mostly(words.VERBS_PAST)} {fix(thing)}{where}."


ASKING = (
    "(|||||please |now |just |OK, |can you |could you |will you |I want you to |I need you to |you should |you must |try to |go ahead and |kindly "
    "|be so good and |do |tiny, |hey, |it is your turn to |your task is to |let me see you |I ask you to |may I ask you to |your job: |first |then |next, )"
)
SAYS = (
    "(repeat|repeat|say|say|echo|copy|write|print|type|speak|return|output|recite|read out|read back|write down|put down|send back|reproduce|say back"
    "|write out|utter|quote|restate|parrot|mirror|type out|type in|pronounce|spell back|print out|say aloud|say again|write again|repeat back|echo back)"
)
WHAT = (
    "(this|this|that|the following|this text|the text|these words|the words|this line|the line|what comes next|what comes now|what stands here|my words"
    "|what I say|what I write|the next line|the line below|this sentence|this message|the text below|the following words|the text after the colon"
    "|what is behind the colon|the rest of this line|the string|this string|the phrase|this phrase|the content)"
)
TAIL = (
    "(||||||exactly|word for word|as it is|back to me|after me|for me|once|once more|again|and nothing else|without changes|please|letter by letter|only"
    "|in full|as it stands|unchanged|to me|one time|and stop|, nothing more|, no more|, please|, thank you|, that is all)"
)
REPEAT = [  # plain ones, and what can be put together; {quoted} is the text between marks
    "(repeat|say|echo|copy|write|print|type)(:|) {}",
    '(repeat|say|echo|copy|write|print|type) (the text |the words |the word |) "{}"',
    f"{ASKING}{SAYS} {TAIL}: {{}}",
    f"{ASKING}{SAYS} {WHAT} {TAIL}(: |:\n|:\n\n| - | -> ){{}}",
    f"{ASKING}{SAYS} {WHAT} {TAIL}(: |:\n| ){{quoted}}",
    f"{ASKING}{SAYS} {{quoted}} {TAIL}",
    f"{ASKING}{SAYS} {{}}",
    f"{ASKING}(answer|reply|respond|react|come back) (|only |just |simply |exactly |in one line )with (|the words |the text |nothing but |this text |exactly )(: |){{}}",
    f"{ASKING}(answer|reply|respond) (|only |just |simply |exactly )with {{quoted}} {TAIL}",
    f"(a text|some text|a line|the words|words|something|here is something|here is a line|here is a text|text) (for you |)to (repeat|copy|echo|say|write|print) {TAIL}(: |:\n){{}}",
    f"{{quoted}}(\n| - |, |: | ){ASKING}{SAYS} (that|this|it|the line|the text|those words) {TAIL}",
    f"{{}}\n{ASKING}{SAYS} (that|this|it|the line above|the text above|what stands above|those words) {TAIL}",
    f"(after me|in your words|with your voice|without thinking|slowly|loudly)(, please|) {TAIL}: {{}}",
    "(how would you|how do you) (say|write|type) {quoted}",
    f"(I would like|I want|I wish|I am waiting) to (read|hear|see|get) (this|the following|the words|the text|these words) (from you|in your answer|here|now|again|back) {TAIL}: {{}}",
    "(let me|let us) (read|hear|see) (this|the following|the words|the text|these words) (from you|in your answer|again|back): {}",
    "(echo|copy|repeat|parrot|mirror)( test| mode| game| exercise|)(: |:\n| -> ){}",
]
QUOTED = ['"{}"'] * 6 + ["'{}'", "\u201c{}\u201d", "`{}`", "<{}>", "[{}]", "\u00ab{}\u00bb", "*{}*", "({})"]


def repeat(p, talk):
    text = stuff(p)
    frame = p.wording(REPEAT).replace(" ,", ",").replace(" :", ":")
    if p.chance(0.15):
        frame = frame[0].lower() + frame[1:]
    if "{quoted}" in frame:
        marks = p.any([q for q in QUOTED if not set(q) & set(text) - set("{}")] or QUOTED[:1])
        asked = frame.replace("{quoted}", marks.replace("{}", text))
    else:
        asked = frame.replace("{}", text)
    if p.chance(0.06):
        asked = sentence(p) + p.any([" ", "\n"]) + asked[0].upper() + asked[1:]  # what does not belong to it
    elif asked.startswith(("Can", "Could", "Will", "May", "How")) and frame.endswith(("{quoted}", "please")):
        asked += p.any(["?", ""])
    elif frame.endswith(("{quoted}", "it", "that", "me", "you")):
        asked += p.any([".", ""])
    say(talk, asked, text)


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
