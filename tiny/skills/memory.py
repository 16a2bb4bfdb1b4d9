"""Remembering what the user told, and admitting what was never told."""

import words
from skills.itself import polite
from talking import fix, say

# what is told: how it is said, what is answered, how it is asked, the answer, the answer when it was never said
ASKS = "(|||please |now |OK, |so, |hey, |and |tell me: |quick question: )"
TELLS = "(|||hi, |hello, |hey, |hello! |by the way, |just so you know, |so you know: |please note: |well, |remember: )"
KNOW = "(do you (know|remember|recall)|do you still (know|remember|recall)|can you (tell me|say|remember|recall))"
MEMORIES = {
    "name": (
        lambda p: p.name(),
        [
            TELLS
            + "(my name is|I am|I'm|I am called|they call me|people call me|everybody calls me|you can call me|call me|my first name is) {}",
            "(the name is|I go by|my friends call me|my name: |you may call me) {}",
            "{} (is my name|is what they call me|here|is the name|is what I am called)",
        ],
        "Nice to meet you, {}!",
        [
            ASKS + "(what is|what's|whats|tell me|say) my name",
            ASKS + "(who am I|what am I called|how am I called)",
            KNOW + " (my name|who I am|what I am called|what my name is)",
            "(which|what) name did I (give|tell you|say|give you|mention)( before| earlier|)",
            "(what|who) did I say (my name was|I am|I was)",
            "(remind me of|tell me again|repeat|say again) my name",
            "(please|) tell me (who I am|what I am called|what my name is)",
        ],
        "Your name is {}.",
        "You have not told me your name.",
    ),
    "city": (
        lambda p: p.city(),
        [
            TELLS
            + "(I live in|I am from|I'm from|I come from|my home is in|my city is|I am living in|I am at home in|my flat is in|my house is in) {}",
            "(my family and I live|I have a flat|I have lived|I own a house|we live|I was born|I grew up|I rent a room) in {}",
            "I (moved|went|have moved|came) to {}( last year| to live there|)",
        ],
        "{} sounds nice.",
        [
            ASKS + "where (do I live|am I from|is my home|is my house|do I come from|is my flat)",
            ASKS
            + "(which|what|in which|in what) city (do I live|am I from|is my home|am I in|is mine|do I come from)( in|)",
            KNOW + " (where I live|my city|where I am from|where my home is)",
            "(tell me|say|remind me|please tell me) (where I live|my city|where I am from|where my home is)",
            "(where|what city) did I say (I live|I am from|my home is)",
        ],
        "You live in {}.",
        "You have not told me where you live.",
    ),
    "colour": (
        lambda p: p.slot(words.COLOURS),
        [
            TELLS
            + "(my favourite colour is|my favorite color is|my favourite color is|I like the colour|I love the colour|the colour I like best is|my colour is) {}",
            "{} is (my favourite colour|my favorite color|the colour I like best|my best colour|my colour)",
            "(of all colours|most of all colours) I (like|love|prefer) {}( best| most|)",
        ],
        "{} is a nice colour.",
        [
            ASKS
            + "(what|which) (is my favourite colour|colour do I like|colour do I love|colour is my favourite|is my favorite color|color do I like|colour do I like best)",
            KNOW + " (my favourite colour|my favorite color|which colour I like|what colour I like)",
            "(tell me|say|remind me of|please tell me) (my favourite colour|my favorite color|the colour I like)",
            "(what|which) colour did I (say I like|mention|tell you|say)",
        ],
        "Your favourite colour is {}.",
        "You have not told me your favourite colour.",
    ),
    "age": (
        lambda p: str(p.int(5, 99)),
        [
            TELLS
            + "(I am {} years old|my age is {}|I'm {} years old|I turned {} this year|I have just turned {}|I am {} now|I am {} years of age)",
            "(my age: {}|I became {} yesterday|I was {} on my birthday|I will stay {} for a while|age {}|today I turned {}|I am a person of {} years)",
        ],
        "{} is a good age.",
        [
            ASKS + "(how old am I|what is my age|what age am I|what's my age|how many years old am I)",
            KNOW + " (how old I am|my age|what age I am)",
            "(tell me|say|remind me|please tell me) (how old I am|my age|what age I am)",
            "(what|which) age did I (say|tell you|mention|give)",
        ],
        "You are {} years old.",
        "You have not told me your age.",
    ),
    "job": (
        lambda p: p.slot(words.JOBS),
        [
            TELLS
            + "(I am a {}|I'm a {}|I work as a {}|my job is {}|I earn my money as a {}|by trade I am a {}|I have a job as a {}|my profession is {})",
            "(I have worked as a {} for years|at work I am a {}|my work is that of a {}|they pay me as a {}|I was trained as a {}|I became a {})",
        ],
        "That is a fine job.",
        [
            ASKS
            + "(what is my job|what do I do for work|what do I work as|what's my job|what is my profession|which job do I have|what am I by trade)",
            KNOW + " (my job|what I do for work|my profession|what I work as)",
            "(tell me|say|remind me of|please tell me) (my job|my profession|what I do for work|what I work as)",
            "(what|which) job did I (say I have|mention|tell you|say)",
        ],
        "You are a {}.",
        "You have not told me your job.",
    ),
    "pet": (
        lambda p: p.name(),
        [
            TELLS + "(my|our) (dog|cat|pet|rabbit|bird|horse|hamster) is (called|named) {}",
            TELLS + "(I|we) have a (dog|cat|rabbit|bird|horse|hamster|pet) (called|named) {}",
            "(my|our) (dog|cat|pet|rabbit|bird)'s name is {}",
            "we call our (dog|cat|pet|rabbit) {}",
        ],
        "{} is a lovely name.",
        [
            ASKS
            + "(what is my pet called|what is the name of my pet|how is my pet called|what name does my pet have|what's my pet's name|what is my pet's name)",
            KNOW + " (my pet's name|the name of my pet|what my pet is called)",
            "(tell me|say|remind me of|please tell me) (my pet's name|the name of my pet|what my pet is called)",
            "(what|which) name did I (give|tell you|say) for my pet",
        ],
        "Your pet is called {}.",
        "You have not told me about a pet.",
    ),
    "food": (
        lambda p: p.slot(words.FOODS + words.FRUITS),
        [
            TELLS
            + "(my favourite food is|my favorite food is|I like to eat|I love to eat|the food I like best is|I love|I enjoy eating|I like) {}",
            "(for dinner I always eat|every day I eat|I could always eat|there is nothing better than|best of all food I like|I eat a lot of) {}",
        ],
        "That sounds tasty.",
        [
            ASKS
            + "(what is my favourite food|what do I like to eat|which food do I like|which food is my favourite|what food do I like|what's my favorite food|what do I love to eat)",
            KNOW + " (my favourite food|what I like to eat|which food I like|what food I love)",
            "(tell me|say|remind me of|please tell me) (my favourite food|what I like to eat|the food I like)",
            "(what|which) food did I (say I like|mention|tell you|say)",
        ],
        "You like {}.",
        "You have not told me what you like to eat.",
    ),
    "hobby": (
        lambda p: p.slot(words.HOBBIES),
        [
            TELLS
            + "(my hobby is|my favourite hobby is|I enjoy|in my free time I do|I spend my evenings with|I spend my weekends with|I am fond of|as a hobby I do) {}",
            "(my free time belongs to|after work I do|what I like to do is|for fun I do|on Sundays I do) {}",
        ],
        "{} is fun.",
        [
            ASKS
            + "(what is my hobby|what do I enjoy|what do I do in my free time|what's my hobby|which hobby do I have|what do I do for fun|what hobby do I have)",
            KNOW + " (my hobby|what I enjoy|what I do in my free time|what I do for fun)",
            "(tell me|say|remind me of|please tell me) (my hobby|what I enjoy|what I do in my free time)",
            "(what|which) hobby did I (say I have|mention|tell you|say)",
        ],
        "Your hobby is {}.",
        "You have not told me your hobby.",
    ),
}
NOTES = [
    TELLS
    + "(the {} is {}|remember: the {} is {}|remember that the {} is {}|please remember that the {} is {}|note that the {} is {}|keep in mind: the {} is {})",
    "(please remember: |write down: |do not forget: |note: |learn this: |store this: )(the {} is {}|the {} is called {})",
    "(from now on|today|this time|as of today|for your notes,|you should know that) the {} is {}",
]
NOTED = [
    ASKS + "(what is|what was|tell me|say|which is|give me|what's) {}",
    KNOW + " {}",
    "(what did I say is|what have I told you is|what did I tell you about|remind me of|repeat|please say) {}",
]


def tell(p, patterns, *values):
    """A statement about oneself, as people type it."""
    return fix(p.wording(patterns).format(*values)) + p.any([".", ".", ".", "!", ""])


def asked(p, patterns, *values):
    text = p.wording(patterns).format(*values)
    text += "." if text.startswith(("Tell", "Say", "Remind", "Please", "Repeat", "Give")) else "?"
    return polite(p, text)


def remember(p, talk):
    """Tell something now; `recall` asks for it later, after whatever came between."""
    if p.chance(0.3):
        what, value = (
            p.any(
                [
                    "code",
                    "password",
                    "secret word",
                    "number",
                    "key",
                    "room",
                    "magic word",
                    "door code",
                    "meeting place",
                    "winner",
                ]
            )
            if p.chance(0.7)
            else p.pseudo(2),
            p.code() if p.chance(0.5) else p.word(),
        )
        say(talk, tell(p, NOTES, what, value), f"I will remember: the {what} is {value}.")
        talk["memory"]["the " + what] = value
        return
    key = p.any(list(MEMORIES)) if p.chance(0.6) else "name"
    draw, tells, reply, *_ = MEMORIES[key]
    value = draw(p)
    told = tell(p, tells, value)
    talk["memory"][key] = value
    reply = reply.format(value)
    say(talk, told, reply[0].upper() + reply[1:])
    if p.chance(0.4):
        recall(p, talk)


def recall(p, talk):
    missing = [k for k in MEMORIES if k not in talk["memory"]]
    if talk["memory"] and not p.chance(0.2):
        key = p.any(list(talk["memory"]))
        value = talk["memory"][key]
        if key not in MEMORIES:
            say(talk, asked(p, NOTED, key), f"{key[0].upper() + key[1:]} is {value}.")
        else:
            say(talk, asked(p, MEMORIES[key][3]), fix(MEMORIES[key][4].format(value)))
    elif p.chance(0.6) and missing:
        key = p.any(missing)
        say(talk, asked(p, MEMORIES[key][3]), MEMORIES[key][5])
    else:
        remember(p, talk)
