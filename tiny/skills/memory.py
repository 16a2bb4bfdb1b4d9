"""Remembering what the user told, and admitting what was never told."""

import words
from talking import fix, say

# what is told: how it is said, what is answered, how it is asked, the answer, the answer when it was never said
MEMORIES = {
    "name": (
        lambda p: p.name(),
        [
            "My name is {}.",
            "I am {}.",
            "I'm {}.",
            "Call me {}.",
            "Hi, I am {}.",
            "Hello, my name is {}.",
            "my name is {}",
            "You can call me {}.",
            "They call me {}.",
            "Hello, I am {}.",
            "The name is {}.",
            "Hey, my name is {}.",
            "I go by {}.",
            "Everybody calls me {}.",
        ],
        "Nice to meet you, {}!",
        [
            "What is my name?",
            "Who am I?",
            "Do you remember my name?",
            "what is my name",
            "What's my name?",
            "Tell me my name.",
            "Do you know my name?",
            "Do you still know my name?",
            "What am I called?",
            "Can you tell me my name?",
            "Say my name.",
            "Which name did I give?",
            "who am I?",
            "What name did I tell you?",
            "Please tell me what I am called.",
        ],
        "Your name is {}.",
        "You have not told me your name.",
    ),
    "city": (
        lambda p: p.city(),
        [
            "I live in {}.",
            "My home is in {}.",
            "I am from {}.",
            "I come from {}.",
            "My city is {}.",
            "I have a flat in {}.",
            "I am living in {}.",
            "My house is in {}.",
            "My family and I live in {}.",
            "I moved to {}.",
        ],
        "{} sounds nice.",
        [
            "Where do I live?",
            "Where am I from?",
            "Which city do I live in?",
            "Where is my home?",
            "In which city do I live?",
            "Which city am I from?",
            "Tell me where I live.",
            "where do I live",
            "Do you know where I live?",
            "What city is my home?",
        ],
        "You live in {}.",
        "You have not told me where you live.",
    ),
    "colour": (
        lambda p: p.value(words.COLOURS),
        [
            "My favourite colour is {}.",
            "I like the colour {}.",
            "I love {}; it is my favourite colour.",
            "The colour I like best is {}.",
            "I like {} most of all colours.",
            "{} is my favourite colour.",
            "My favourite color is {}.",
            "Of all colours I like {} best.",
        ],
        "{} is a nice colour.",
        [
            "What is my favourite colour?",
            "Which colour do I like?",
            "What colour do I love?",
            "Which colour do I like best?",
            "What colour is my favourite?",
            "Tell me my favourite colour.",
            "Do you know my favourite colour?",
            "what is my favourite colour",
            "Which one is my favourite colour?",
        ],
        "Your favourite colour is {}.",
        "You have not told me your favourite colour.",
    ),
    "age": (
        lambda p: str(p.int(5, 99)),
        ["I am {} years old.", "My age is {}.", "I turned {} this year.", "I have just turned {}."],
        "{} is a good age.",
        ["How old am I?", "What is my age?", "Do you know my age?", "Tell me how old I am."],
        "You are {} years old.",
        "You have not told me your age.",
    ),
    "job": (
        lambda p: p.value(words.JOBS),
        ["I am a {}.", "I work as a {}.", "My job is {}.", "I earn my money as a {}."],
        "That is a fine job.",
        ["What is my job?", "What do I do for work?", "What do I work as?", "Tell me my job."],
        "You are a {}.",
        "You have not told me your job.",
    ),
    "pet": (
        lambda p: p.name(),
        [
            "My dog is called {}.",
            "My pet is called {}.",
            "I have a cat named {}.",
            "My cat's name is {}.",
            "We have a dog called {}.",
            "My cat is called {}.",
            "I have a dog named {}.",
            "My pet's name is {}.",
            "We call our cat {}.",
        ],
        "{} is a lovely name.",
        [
            "What is my pet called?",
            "What is the name of my pet?",
            "Do you remember my pet's name?",
            "Tell me the name of my pet.",
            "What name does my pet have?",
            "what is my pet called",
            "Do you know the name of my pet?",
            "How is my pet called?",
        ],
        "Your pet is called {}.",
        "You have not told me about a pet.",
    ),
    "food": (
        lambda p: p.value(words.FOODS + words.FRUITS),
        ["My favourite food is {}.", "I like to eat {}.", "I love {}.", "The food I like best is {}."],
        "That sounds tasty.",
        [
            "What is my favourite food?",
            "What do I like to eat?",
            "Which food do I like?",
            "Tell me what I like to eat.",
            "what is my favourite food",
            "Do you know what I like to eat?",
            "Which food is my favourite?",
            "What food do I like?",
        ],
        "You like {}.",
        "You have not told me what you like to eat.",
    ),
    "hobby": (
        lambda p: p.value(words.HOBBIES),
        ["My hobby is {}.", "I enjoy {}.", "In my free time I do {}.", "I spend my evenings with {}."],
        "{} is fun.",
        ["What is my hobby?", "What do I enjoy?", "What do I do in my free time?", "Tell me my hobby."],
        "Your hobby is {}.",
        "You have not told me your hobby.",
    ),
}


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
        say(
            talk,
            p.template(
                [
                    "Remember: the {} is {}.",
                    "The {} is {}.",
                    "Please remember that the {} is {}.",
                    "Note that the {} is {}.",
                    "Keep in mind: the {} is {}.",
                ]
            ).format(what, value),
            f"I will remember: the {what} is {value}.",
        )
        talk["memory"]["the " + what] = value
        return
    key = p.any(list(MEMORIES)) if p.chance(0.6) else "name"
    draw, tells, reply, *_ = MEMORIES[key]
    value = draw(p)
    told = fix(p.template(tells).format(value))
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
            say(
                talk,
                p.template(
                    ["What is {}?", "What was {}?", "Tell me {}.", "Do you remember {}?", "Do you still know {}?"]
                ).format(key),
                f"{key[0].upper() + key[1:]} is {value}.",
            )
        else:
            say(talk, p.template(MEMORIES[key][3]), fix(MEMORIES[key][4].format(value)))
    elif p.chance(0.6) and missing:
        key = p.any(missing)
        say(talk, p.template(MEMORIES[key][3]), MEMORIES[key][5])
    else:
        remember(p, talk)
