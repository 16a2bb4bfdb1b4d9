"""Answering from a text: who has what, sentiment, topic; and very short stories."""

import facts
import words
from talking import fix, say


def who(p, talk):
    """Two or three people with things; ask about one of them."""
    people = list(dict.fromkeys(p.name() for _ in range(p.int(2, 3))))
    kind = p.int(0, 3)
    if kind == 0:
        own = [(n, f"{p.mostly(words.COLOURS)} {p.mostly(words.THINGS)}") for n in people]
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
        own = [(n, p.slot(words.FOODS + words.HOBBIES + words.ANIMALS)) for n in people]
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
        n, t, where = people[0], p.mostly(words.THINGS), p.mostly(words.PLACES)
        text = f"{n} {p.mostly(words.VERBS_PAST)} the {t} in the {where}."
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
    text = fix(p.wording(OPINIONS + (PRAISE if good else BLAME)).format(it, p.any(mine), p.any(mine))) + p.any(
        [".", ".", "!"]
    )
    labels = p.any([("positive", "negative")] * 4 + [("good", "bad"), ("happy", "unhappy")])
    shown = list(labels)
    p.random.shuffle(shown)
    say(talk, p.wording(JUDGE).format(*shown, text), labels[0 if good else 1])


OPINIONS = [
    "(the|this|my|our|that|your) {0} (was|is|seemed|looks|felt) (|so |very |really |quite |simply ){1}",
    "(the|this|my|our|that) {0} (was|is) {1} and {2}",
    "(what|such) a {1} {0}",
    "(I|we) (found|thought|called) the {0} {1}( and {2}|)",
    "(it was|this is|we had|I had|they gave us) a (|very |really ){1} {0}",
    "a {1} and {2} {0}",
    "the {0} is {1}, (really|very|truly|so) {2}",
]
PRAISE = [
    "I (love|like|enjoyed) (this|the) {0}, it (is|was) {1}",
    "I would (buy|take|choose) this {0} again; it is {1}",
]
BLAME = [
    "I (hate|dislike|did not like) (this|the) {0}, it (is|was) {1}",
    "I want my money back; the {0} is {1}",
    "never again: the {0} was {1}",
]
JUDGE = [
    "(is|was) (this|that|it|the following|this review|this text) {0} or {1}: {2}",
    "(is|was) (this|that|it|the following|this review|this text) {0} or {1}? {2}",
    "(classify|label|rate|mark|judge) (this |this text |this review |the review |)as {0} or {1}: {2}",
    "(sentiment|labels|choose|label) ({0}, {1}|{0} or {1}|{0}/{1}): {2}",
    "(text|review|comment): {2}\n(is it|label:|choose|answer) {0} or {1}(?|)",
    "(does|would) (this|it) (sound|seem|be|look) {0} or {1}? {2}",
    "{2} (is that|is this|would you say|answer:|so:) {0} or {1}?",
    "{2}\n(answer|choose|say|pick|label it) {0} or {1}.",
    "(tell me|say|decide) (if|whether) (this|it) is {0} or {1}: {2}",
    "{0} or {1}? {2}",
]


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
    hero = p.mostly(words.ANIMALS) if p.chance(0.6) else p.mostly(words.JOBS)
    name, friend = p.name(), p.mostly(words.ANIMALS)
    thing, place = p.mostly(words.THINGS), p.mostly(words.PLACES)
    adjective = p.mostly(words.ADJECTIVES)
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
