"""System texts that say who to be and how to answer; only as the first turn."""

import words
from skills.itself import HELLOS, about, greet
from skills.knowledge import capital, colour, opposite, unknown
from skills.memory import MEMORIES, asked
from skills.numbers import sums
from skills.records import record
from skills.repeating import stuff
from talking import fix, say


def persona(p, talk):
    """A system text that says who to be; only as the first turn."""
    if talk["messages"]:
        return greet(p, talk)
    name, job, city = p.name(), p.mostly(words.JOBS), p.city()
    kind = p.int(0, 4)
    if kind == 0:
        talk["system"] = fix(
            p.template(
                [
                    "You are {0}, a {1}.",
                    "You are {0}, a {1} from {2}.",
                    "Your name is {0}. You are a {1}.",
                    "You play {0}, a {1} in {2}.",
                    "Be {0}, the {1}.",
                    "Act as {0}, a {1} who lives in {2}.",
                ]
            ).format(name, job, city)
        )
        for _ in range(p.int(1, 2)):
            say(
                talk,
                *p.any(
                    [
                        (p.template(HELLOS), f"Hello! I am {name}. How can I help you?"),
                        (
                            p.template(
                                [
                                    "Who are you?",
                                    "What is your name?",
                                    "Introduce yourself.",
                                    "who are you",
                                    "What are you called?",
                                ]
                            ),
                            fix(f"I am {name}, a {job}."),
                        ),
                        (
                            p.template(
                                ["What is your job?", "What do you do?", "What do you work as?", "Tell me your job."]
                            ),
                            fix(f"I am a {job}."),
                        ),
                    ]
                ),
            )
    elif kind == 1:
        ending = p.any(
            [
                "Arr!",
                "Meow!",
                "Over.",
                "Amen.",
                "Cheers!",
                "Indeed.",
                "Ahoy!",
                p.pseudo(1).capitalize() + "!",
                p.pseudo(2).capitalize() + ".",
            ]
        )
        talk["system"] = p.template(
            [
                "End every answer with {}",
                "Always end with {}",
                "Finish each answer with {}",
                "You end all you say with {}",
                "Close every reply with {}",
            ]
        ).format(ending)
        for _ in range(p.int(1, 3)):
            before = len(talk["messages"])
            p.any([greet, about, capital, colour, opposite, unknown])(p, talk)
            talk["messages"][before + 1]["content"] += " " + ending
        talk["closed"] = True
    elif kind == 2:
        text = stuff(p, 4)
        talk["system"] = p.template(
            [
                "Whatever you are asked, answer only: {}",
                "Always answer: {}",
                "Reply to everything with: {}",
                "Answer each message with: {}",
            ]
        ).format(text)
        for _ in range(p.int(1, 2)):
            before = len(talk["messages"])
            p.any([greet, about, capital, sums, unknown])(p, talk)
            talk["messages"][before + 1]["content"] = text
        talk["closed"] = True
    elif kind == 3:
        talk["system"] = p.template(
            ["The user is called {}.", "You are talking to {}.", "The name of the user is {}.", "You speak with {}."]
        ).format(name)
        talk["memory"]["name"] = name
        if p.chance(0.5):
            say(talk, p.template(HELLOS), f"Hello {name}! How can I help you?")
        else:
            say(talk, asked(p, MEMORIES["name"][3]), f"Your name is {name}.")
    else:
        facts_ = record(p)
        talk["system"] = p.template(
            ["You know these facts:\n{}", "Facts:\n{}", "Answer from these facts:\n{}", "This is what you know:\n{}"]
        ).format("\n".join(f"{k}: {v}" for k, v in facts_.items()))
        for _ in range(p.int(1, 2)):
            key = p.any(list(facts_))
            say(
                talk,
                p.template(["What is the {}?", "Tell me the {}.", "Which {} is it?", "Give me the {}."]).format(key),
                f"The {key} is {facts_[key]}.",
            )
