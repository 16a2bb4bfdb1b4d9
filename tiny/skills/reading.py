"""Answering from a text: who has what, sentiment, topic; and very short stories."""

import facts
import words
from talking import fix, say


def who(p, talk):
    """Two or three people with things; ask about one of them."""
    people = list(dict.fromkeys(p.name() for _ in range(p.int(2, 3))))
    kind = p.int(0, 3)
    if kind == 0:
        own = [(n, f"{p.value(words.COLOURS)} {p.value(words.THINGS)}") for n in people]
        text = " ".join(fix(f"{n} has a {t}.") for n, t in own)
        n, t = p.any(own)
        if p.chance(0.5) and len({t for _, t in own}) == len(own):
            say(
                talk,
                p.template(
                    ["{} Who has the {}?", "{} Who owns the {}?", "{} Tell me who has the {}.", "{} Whose is the {}?"]
                ).format(text, t),
                f"{n} has the {t}.",
            )
        else:
            say(
                talk,
                p.template(
                    ["{} What does {} have?", "{} What has {} got?", "{} Tell me what {} has.", "{} What does {} own?"]
                ).format(text, n),
                fix(f"{n} has a {t}."),
            )
    elif kind == 1:
        own = [(n, p.city()) for n in people]
        text = " ".join(f"{n} lives in {t}." for n, t in own)
        n, t = p.any(own)
        say(
            talk,
            p.template(
                [
                    "{} Where does {} live?",
                    "{} In which city does {} live?",
                    "{} Tell me where {} lives.",
                    "{} Where is the home of {}?",
                ]
            ).format(text, n),
            f"{n} lives in {t}.",
        )
    elif kind == 2:
        own = [(n, p.value(words.FOODS + words.HOBBIES + words.ANIMALS)) for n in people]
        text = " ".join(f"{n} likes {t}." for n, t in own)
        n, t = p.any(own)
        say(
            talk,
            p.template(
                [
                    "{} What does {} like?",
                    "{} Tell me what {} likes.",
                    "{} What is liked by {}?",
                    "{} So what does {} like?",
                ]
            ).format(text, n),
            f"{n} likes {t}.",
        )
    else:
        n, t, where = people[0], p.value(words.THINGS), p.value(words.PLACES)
        text = f"{n} {p.value(words.VERBS_PAST)} the {t} in the {where}."
        say(
            talk,
            *p.any(
                [
                    (f"{text} Where was the {t}?", f"In the {where}."),
                    (f"{text} Where did it happen?", f"In the {where}."),
                    (f"{text} Who was in the {where}?", f"{n}."),
                ]
            ),
        )


def sentiment(p, talk):
    good = p.chance(0.5)
    mine = facts.GOOD if good else facts.BAD
    it = p.value(facts.REVIEWED)
    text = p.template(
        [
            "The {0} was {1}.",
            "What a {1} {0}!",
            "I found the {0} {1} and {2}.",
            "The {0} is {1}, really {2}.",
            "My {0} was {1}.",
            "This {0} is {1}.",
            "The {0} was {1} and {2}.",
            "It was a {1} {0}.",
            "Such a {1} {0}.",
            "We had a {1} {0}.",
            "I thought the {0} was {1}.",
            "A {1} and {2} {0}.",
        ]
        + (
            ["I love this {0}, it is {1}.", "I would buy this {0} again. It is {1}.", "I enjoyed the {0}. It was {1}."]
            if good
            else [
                "I hate this {0}, it is {1}.",
                "I want my money back. The {0} is {1}.",
                "I did not like the {0}. It was {1}.",
            ]
        )
    ).format(it, p.any(mine), p.any(mine))
    text = fix(text)
    labels, style = p.any(
        [
            (("positive", "negative"), "sentiment"),
            (("positive", "negative"), "sentiment"),
            (("good", "bad"), "review"),
            (("happy", "unhappy"), "customer"),
            (("A", "B"), "letter"),
            (("thumbs up", "thumbs down"), "rating"),
        ]
    )
    answer = labels[0 if good else 1]
    if style == "letter":
        say(talk, f"A is positive, B is negative. Answer A or B. {text}", answer)
        return
    shown = list(labels)
    p.random.shuffle(shown)
    say(
        talk,
        p.template(
            [
                "Is this {0} or {1}? {2}",
                "Classify as {0} or {1}: {2}",
                "{0} or {1}? {2}",
                "Sentiment ({0}, {1}): {2}",
                "Label this text as {0} or {1}: {2}",
                "Text: {2}\nLabels: {0}, {1}\nLabel:",
                "Choose {0} or {1} for this review: {2}",
                "Does this sound {0} or {1}? {2}",
                "Tell me if this is {0} or {1}: {2}",
                "{2} Is that {0} or {1}?",
                "Review: {2}\nIs it {0} or {1}?",
                "Is the following {0} or {1}? {2}",
                "Would you call this {0} or {1}? {2}",
                "{2}\nAnswer {0} or {1}.",
            ]
        ).format(*shown, text),
        answer,
    )


def topic(p, talk):
    labels = p.random.sample(list(facts.LABELLED), p.int(2, 4))
    right = p.any(labels)
    a, b = p.random.sample(facts.LABELLED[right], 2)
    text = p.template(
        [
            "We talked about the {0} and the {1}.",
            "The {0} and the {1} were new.",
            "I read about a {0} and a {1}.",
            "She asked about the {0}, then the {1}.",
            "The {1} came after the {0}.",
            "There was a problem with the {0} and the {1}.",
            "He thought of the {0} and the {1} all day.",
        ]
    ).format(a, b)
    say(
        talk,
        p.template(
            [
                "Which topic is this: {0}? {1}",
                "Classify the topic as one of {0}: {1}",
                "Topics: {0}\nText: {1}\nTopic:",
                "Is this about {0}? {1}",
                "Choose the topic from {0}: {1}",
                "Pick one topic of {0} for this text: {1}",
                "What is this about ({0})? {1}",
                "{1} Is this about {0}?",
                "Sort into {0}: {1}",
                "Text: {1}\nChoose from: {0}",
                "Which of {0} fits this text? {1}",
            ]
        ).format(p.any([", ", " or "]).join(labels), text),
        right,
    )


def story(p, talk):
    hero = p.value(words.ANIMALS) if p.chance(0.6) else p.value(words.JOBS)
    name, friend = p.name(), p.value(words.ANIMALS)
    thing, place = p.value(words.THINGS), p.value(words.PLACES)
    adjective = p.value(words.ADJECTIVES)
    text = " ".join(
        [
            p.any(
                [
                    f"Once there was a {adjective} {hero} called {name}.",
                    f"There lived a {adjective} {hero} named {name} near the {place}.",
                ]
            ),
            p.any(
                [
                    f"One day {name} lost a {thing} in the {place}.",
                    f"One morning {name} found a {thing} in the {place}.",
                    f"{name} wanted a {thing} more than anything.",
                ]
            ),
            p.any(
                [
                    f"A {friend} came by and helped.",
                    f"A kind {friend} said: let us look together.",
                    f"Then {name} met a {friend}, and they became friends.",
                ]
            ),
            p.any(
                [
                    "They laughed and went home.",
                    "From that day on they were friends.",
                    f"And {name} was happy.",
                    "That night they slept well.",
                ]
            ),
        ]
    )
    say(
        talk,
        fix(
            p.template(
                [
                    "Tell me a story about a {}.",
                    "Tell me a short story about a {}.",
                    "Write a story about a {}.",
                    "A story about a {}, please.",
                    "Tell a very short story about a {}.",
                    "I want a story about a {}.",
                ]
            ).format(hero)
        ),
        fix(text),
    )
