"""The facts it is taught, and saying that it does not know the others."""

import facts
import words
from skills.itself import polite
from talking import fix, say

CAPITAL = [
    "(|||so |and |now |please: |OK, |hey, |well, )(what is|what's|which is|name|tell me|say|give me|I need) the (capital|capital|capital city) of {}",
    "(what|which) city is (the capital of {}|{}'s capital|the capital city of {})",
    "(do you know|can you tell me|can you name|I want to know|please tell me|please name|could you say) the capital( city|) of {}",
    "{}: what is (its|the) capital",
    "(what is|what's|tell me|name|which city is) {}'s capital( city|)",
    "(capital of {}|{}, capital|the capital of {} is|the capital of {} is what|{} has which capital|capital city of {})",
]
CAPITAL_OF = [
    "{} is the capital of (which|what) (country|land|state)",
    "(of which|of what) country is {} the capital",
    "(which|what) country('s capital is| has the capital) {}",
    "(tell me|say|name|do you know) (which|what|the) country {} is the capital of",
]


def capital_question(p, country, patterns=CAPITAL):
    text = p.wording(patterns).format(country)
    return polite(p, text + ("." if text.startswith(("Tell", "Say", "Name", "Give", "I ", "Please")) else "?"))


def capital(p, talk):
    country = p.any(list(facts.CAPITALS))
    city = facts.CAPITALS[country]
    if p.chance(0.8):
        say(talk, capital_question(p, country), f"The capital of {country} is {city}.")
    else:
        say(talk, capital_question(p, city, CAPITAL_OF), f"{city} is the capital of {country}.")


def colour(p, talk):
    thing = p.any(list(facts.COLOUR_OF))
    plural = thing.endswith("s") and thing not in ("grass",)
    say(
        talk,
        p.template(
            [
                "What colour {1} {0}?",
                "Which colour {1} {0}?",
                "Tell me what colour {0} {1}.",
                "What color {1} {0}?",
                "Do you know what colour {0} {1}?",
            ]
        ).format(thing, "are" if plural else "is"),
        f"{thing[0].upper() + thing[1:]} {'are' if plural else 'is'} {facts.COLOUR_OF[thing]}.",
    )


def opposite(p, talk):
    a, b = p.any(list(facts.OPPOSITES.items()))
    if p.chance(0.5):
        a, b = b, a
    say(
        talk,
        p.template(
            [
                "What is the opposite of {}?",
                "Opposite of {}?",
                "Give me the opposite of {}.",
                "Name the opposite of {}.",
                "Tell me the opposite of {}.",
                "Which word is the opposite of {}?",
            ]
        ).format(a),
        f"The opposite of {a} is {b}.",
    )


def plural(p, talk):
    if p.chance(0.4):
        word, many = p.any(list(facts.IRREGULAR.items()))
    else:
        word = p.value(words.THINGS + words.FRUITS + words.VEGETABLES + words.ANIMALS)
        if word in facts.IRREGULAR:
            many = facts.IRREGULAR[word]
        else:
            many = (
                word[:-1] + "ies"
                if word.endswith("y") and word[-2] not in "aeou"
                else word + ("es" if word.endswith(("s", "x", "ch", "sh", "to", "go")) else "s")
            )
    say(
        talk,
        p.template(
            [
                "What is the plural of {}?",
                "Plural of {}?",
                "One {}, many what?",
                "Give me the plural of {}.",
                "Write {} in the plural.",
                "Tell me the plural of {}.",
            ]
        ).format(word),
        f"The plural of {word} is {many}.",
    )


def general(p, talk):
    kind = p.int(0, 5)
    if kind == 0:
        days, what = p.any([(words.DAYS, "day"), (words.MONTHS, "month")])
        i, after = p.int(0, len(days) - 1), p.chance(0.6)
        say(
            talk,
            p.template(
                [
                    "Which {2} comes {1} {0}?",
                    "What {2} is {1} {0}?",
                    "Name the {2} {1} {0}.",
                    "Tell me the {2} {1} {0}.",
                ]
            ).format(days[i], "after" if after else "before", what),
            f"{days[(i + (1 if after else -1)) % len(days)]} comes {'after' if after else 'before'} {days[i]}.",
        )
    elif kind == 1:
        animal, sound = p.any(list(facts.SOUNDS.items()))
        say(
            talk,
            p.template(
                [
                    "What sound does a {} make?",
                    "What does a {} say?",
                    "Which sound does a {} make?",
                    "How does a {} sound?",
                ]
            ).format(animal),
            f"A {animal} says {sound}.".replace("A owl", "An owl"),
        )
    elif kind == 2:
        what, n = p.any(list(facts.HOW_MANY.items()))
        say(
            talk,
            p.template(["How many {}?", "how many {}?", "Tell me how many {}.", "Do you know how many {}?"]).format(
                what
            ),
            f"{n}.",
        )
    elif kind == 3:
        group, members = p.any(list(facts.KINDS.items()))
        word = p.any(members)
        if p.chance(0.5):
            group2 = p.any([g for g in facts.KINDS if word not in facts.KINDS[g]])
            say(
                talk,
                fix(
                    p.template(
                        ["Is {} a {}?", "Is {} a kind of {}?", "Tell me, is {} a {}?", "Would you say that {} is a {}?"]
                    ).format(word, group2)
                ),
                fix(f"No, {word} is a {group}."),
            )
        else:
            say(
                talk,
                fix(
                    p.template(
                        ["Is {} a {}?", "Is {} a kind of {}?", "Tell me, is {} a {}?", "Would you say that {} is a {}?"]
                    ).format(word, group)
                ),
                fix(f"Yes, {word} is a {group}."),
            )
    elif kind == 4:
        group, members = p.any(list(facts.KINDS.items()))
        n = p.int(2, 4)
        many = {"country": "countries", "piece of clothing": "pieces of clothing"}.get(group, group + "s")
        say(
            talk,
            p.template(["Name {} {}.", "Give me {} {}.", "List {} {}.", "Tell me {} {}.", "I need {} {}."]).format(
                words.NUMBER_WORDS[n] if p.chance(0.5) else n, many
            ),
            ", ".join(p.random.sample(members, n)),
        )
    else:
        i = p.int(0, 20)
        say(
            talk,
            p.template(
                [
                    "Write {} as a word.",
                    "Write the number {} in letters.",
                    "How is {} written in words?",
                    "Spell out the number {}.",
                ]
            ).format(i),
            words.NUMBER_WORDS[i],
        )


def unknown(p, talk):
    kind = p.int(0, 9)
    if kind < 2:
        place = p.any(facts.NO_CAPITAL) if p.chance(0.3) else p.pseudo(p.int(2, 3)).capitalize()
        say(talk, capital_question(p, place), f"I do not know the capital of {place}.")
    elif kind < 3:
        word = p.pseudo(2)
        say(
            talk,
            p.template(
                [
                    "What is a {}?",
                    "What does {} mean?",
                    "What is the opposite of {}?",
                    "Define {}.",
                    "Explain the word {}.",
                    "What is the meaning of {}?",
                    "Do you know the word {}?",
                    "What does the word {} mean?",
                    "Tell me what {} means.",
                    "Can you define {}?",
                ]
            ).format(word),
            f"I do not know the word {word}.",
        )
    elif kind < 4:
        say(
            talk,
            polite(
                p,
                p.template(
                    [
                        "What is the weather in {}?",
                        "What time is it in {}?",
                        "How is the weather in {} today?",
                        "Will it rain in {} tomorrow?",
                        "What is the temperature in {}?",
                        "Is it sunny in {}?",
                        "Will it snow in {}?",
                        "How warm is it in {}?",
                        "Weather in {}?",
                        "What is the time in {}?",
                        "How cold is it in {}?",
                    ]
                ).format(p.city()),
            ),
            DO_NOT_KNOW,
        )
    elif kind < 5:
        say(
            talk,
            polite(
                p,
                p.template(
                    [
                        "What time is it?",
                        "What day is it today?",
                        "What is the date?",
                        "How is the weather?",
                        "What is in the news?",
                        "Where am I?",
                        "What am I thinking?",
                        "What is today's date?",
                        "Which day is it?",
                        "What time is it now?",
                        "What is the time?",
                        "What is the weather like?",
                        "How late is it?",
                        "What day is today?",
                    ]
                ),
            ),
            DO_NOT_KNOW,
        )
    else:

        def thing():
            if p.chance(0.5):
                return p.value(facts.UNKNOWN_THINGS)
            if p.chance(0.3):
                return f"the {p.mostly(words.ADJECTIVES)} {p.mostly(words.THINGS + words.ANIMALS + words.JOBS + words.PLACES)}"
            person = p.name() + " " + p.any(words.SURNAMES)
            return p.any(
                [person, p.city(), p.pseudo(2).capitalize(), "the " + p.value(words.THINGS), "the " + p.pseudo(2)]
            )

        if p.chance(0.6):
            question = p.wording(facts.UNKNOWN_PATTERNS) + p.any(["?", "?", "?", "", "."])
        else:
            question = p.template(facts.UNKNOWN)
        say(
            talk,
            polite(
                p,
                question.format(
                    *(
                        thing() if i == 0 else str(p.int(1700, 2030)) if question.endswith("in {}?") else thing()
                        for i in range(question.count("{}"))
                    )
                ),
            ),
            DO_NOT_KNOW,
        )


DO_NOT_KNOW = "I do not know that. I am a very small model."
