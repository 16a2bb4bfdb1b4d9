"""Greetings, small talk, and questions about itself and sinter."""

import facts
from talking import bare, say

GREETINGS = [  # how often, what is said, the answer
    (
        8,
        "Hi | hi | Hi! | Hello | hello | Hello! | Hey | hey | Hey! | Hello there | Hi there! | Greetings | hello there! | Hey there | Good day"
        " | hi there | Hello, tiny! | hey there! | Hello tiny | Hi tiny! | Hello again! | Hey tiny | Hello hello | Hi again | Good day to you"
        " | Hello to you! | Hi, tiny | Hey you | Hello, model! | Hi hi!",
        "Hello! How can I help you?",
    ),
    (
        2,
        "Good morning | Good morning! | good morning | Morning! | Good morning to you | Hi, good morning | Good morning, tiny | Hello, good morning!",
        "Good morning! How can I help you?",
    ),
    (
        2,
        "Good evening | Good evening! | good evening | Evening! | Good evening to you | Hi, good evening | Good evening, tiny | Hello, good evening!",
        "Good evening! How can I help you?",
    ),
    (
        3,
        "How are you? | Hi, how are you? | how are you | How are you doing? | How do you do? | How is it going? | Hello, how are you? | Are you well?"
        " | How are you today? | hi how are you | Hello! How are you doing? | How are you, tiny? | How do you feel? | Hey, how are you? | How are things?"
        " | Good morning, how are you? | Hi! How are you today? | And how are you?",
        "I am fine, thank you. How can I help you?",
    ),
    (
        3,
        "Thanks | Thank you! | thanks | Thank you very much. | Thanks a lot! | Great, thanks! | thank you | Many thanks. | Thanks for your help."
        " | Thank you so much! | Perfect, thank you. | OK, thanks | Thank you, tiny! | thanks a lot | Good, thank you. | Thanks, that helps.",
        "You are welcome!",
    ),
    (
        2,
        "Bye | Goodbye! | bye | See you later. | Good night! | Bye bye | Goodbye | See you! | Bye for now. | See you soon! | Bye, tiny! | goodbye"
        " | See you tomorrow. | Good night | I must go, bye. | OK, bye! | Goodbye, tiny. | Bye, see you later!",
        "Goodbye! Have a nice day.",
    ),
    (
        1,
        "Well done! | Good job! | You are great. | Nice! | Perfect. | Good answer. | Very good! | You are good. | Great job! | Nice work! | Well done, tiny!"
        " | Very nice!",
        "Thank you! I am glad to help.",
    ),
]
HELLOS = GREETINGS[0][1].split(" | ")


YOU = "(||||, tiny| tiny|, model| model|, sinter|, friend|, little one|, assistant|, bot|, computer|, dear model|, you|, tiny model|, my tiny model|, machine)"
HI = "(hi|hello|hey|hello there|hi there|hey there|greetings|good day|hello again|hi again|welcome back|howdy|salute|hallo|hello hello|yo|hiya|ahoy|nice to see you|nice to meet you|good to see you|good afternoon)"
MORE_GREETINGS = [  # the same rows, as patterns; a fifth of what they stand for is held out
    [
        f"{HI}{YOU}",
        f"{HI}(,|!| and) {HI}{YOU}",
        "(I say|I just say|just|only|let me say|I want to say|I wanted to say|a big|a warm|one) (hello|hi)( to you|)",
        f"(well|oh|ah|and|so)(,|) {HI}{YOU}",
        "(is anybody there|anybody there|anyone there|can we talk|shall we talk|let us talk|let's start|let us begin|I am here|here I am|I am back)",
        f"{HI} (from me|from Rome|from my desk|everybody|all|everyone|world|my dear|sir|good model|old friend|dear friend)",
    ],
    [
        f"(|hi, |hello, |hey, |a |and a |oh, )good morning(| to you| again| to all| everybody| from me| dear){YOU}",
        f"(morning|mornin|top of the morning|good good morning){YOU}",
    ],
    [
        f"(|hi, |hello, |hey, |a |and a |oh, )good evening(| to you| again| to all| everybody| from me| dear){YOU}",
        f"(evening|good good evening){YOU}",
    ],
    [
        f"(|hi, |hello, |hey, |and |so |now, |well, |good morning, )how (are you|do you do|are you doing|is it going|are things|do you feel|have you been|goes it|is life|is everything|are things going|is your day|is your day going){YOU}",
        "(are|do) you (well|fine|OK|all right|feel well|feel good|doing well|doing OK|feeling well)( today| now| tiny|)",
        "(is|are) (everything|all|things) (fine|well|good|OK|all right)( with you| there| today|)",
        "how (are|is) (you|it|your day|everything) (today|now|these days|so far|this evening|at the moment|right now)",
    ],
    [
        f"(|OK, |good, |great, |perfect, |nice, |super, |ah, |fine, |yes, |wonderful, )(thanks|thank you|many thanks|thanks a lot|thank you very much|thank you so much|thanks so much|a thousand thanks|cheers|much obliged|thx)(| again| for that| for this| for your help| for everything| for your time| for telling me| for helping me| indeed){YOU}",
        "(thanks|thank you)(,|.) (that helps|that helped|that was good|that was helpful|very helpful|very kind|you are kind|that is nice|this is what I needed|that is all I wanted)",
        "(that|this) (was|is) (helpful|kind|kind of you|nice of you)(, thanks|, thank you)",
    ],
    [
        f"(|OK, |well, |so, |thanks, |thank you, |and |right, )(bye|goodbye|bye bye|good night|see you|see you later|see you soon|see you tomorrow|farewell|so long|ciao|take care|have a good day|good bye|till tomorrow|until next time|cheerio){YOU}",
        "(I must|I have to|I need to|I am going to|I will|let me) (go|leave|stop|sleep|go now|leave now|go home|go to bed)(, bye|, goodbye| now, bye|, see you|, good night)",
        "(bye|goodbye) (for now|for today|then|and thanks|and thank you|till next time|and take care|until later|everybody|and sleep well)",
    ],
    [
        f"(|that was |this was |you did |very |really |so )(good|great|nice|fine|excellent|super)(| job| work| answer| reply){YOU}",
        "(well done|bravo|right|correct|exactly|good for you|you did well|you are (great|good|nice|clever|the best|very good|wonderful|helpful))( tiny|, tiny|, model|)",
        "I (like|love) (you|your answer|your answers|that answer|how you answer|this)",
    ],
]


def greet(p, talk):
    at = p.random.choices(range(len(GREETINGS)), [row[0] for row in GREETINGS])[0]
    _, questions, answer = GREETINGS[at]
    if p.chance(0.5):
        question = p.wording(MORE_GREETINGS[at], HELD_GREETINGS)
        question += (
            p.any(["?", "?", ""])
            if at == 3 or question.startswith(("Is any", "Any", "Can", "Shall"))
            else p.any(["!", ".", "", ""])
        )
    else:
        question = p.template(questions.split(" | "))
    say(talk, typed(p, question), answer)


HELD_GREETINGS = {
    bare(q)
    for _, questions, _ in GREETINGS
    for q in questions.split(" | ")[-max(1, len(questions.split(" | ")) // 5) :]
}
HELD_QUESTIONS = {bare(q) for _, questions, _ in facts.ABOUT for q in questions[-max(1, len(questions) // 5) :]}


def about(p, talk, patterns=0.6):
    answer, questions, more = p.any(facts.ABOUT)
    if p.chance(patterns):
        question = p.wording(more if p.chance(0.6) else facts.MORE_ABOUT[answer], HELD_QUESTIONS)
        question += "." if question.startswith(TELLING) else "?"
    else:
        question = p.template(questions)
    say(talk, typed(p, question), answer)


TELLING = (
    "Tell",
    "Show",
    "Explain",
    "Describe",
    "Say",
    "Give",
    "Name",
    "List",
    "Help",
    "Introduce",
    "Present",
    "Please",
    "I ",
    "So you",
    "Is there a way",
    "Let me",
    "Write",
    "You ",
    "My ",
    "Could I",
)


def typed(p, question):
    """The same question as people type it."""
    kind = p.random.random()
    if kind < 0.12:
        return question.lower()
    if kind < 0.2:
        return question.rstrip("?.!")
    if kind < 0.25:
        return question.lower().rstrip("?.!")
    if kind < 0.28:
        return question.upper()
    if kind < 0.34:
        return question.rstrip(".!?") + p.any(["!", "??", " ?", "...", " please", ", please?"])
    return slip(p, question) if kind < 0.4 else question


def polite(p, question):
    """The same, where a name in it must stay as it is."""
    kind = p.random.random()
    if kind < 0.1:
        return question.rstrip("?.!")
    return question[0].lower() + question[1:] if kind < 0.2 else question


def slip(p, text):
    """A slip of the finger: a letter left out, doubled, or changed places with the next."""
    if len(text) < 6:
        return text
    at = p.int(1, len(text) - 3)
    a, b = text[at], text[at + 1]
    return text[:at] + p.any([b, a + a + b, b + a]) + text[at + 2 :]


def option(p, talk):
    name = p.any(list(facts.OPTIONS))
    does, default, wants = facts.OPTIONS[name]
    kind = p.int(0, 2)
    if kind == 0 and default is not None:
        say(talk, p.template(facts.DEFAULT_QUESTIONS).format(name), f"The default of {name} is {default}.")
    elif kind == 1:
        say(talk, p.template(facts.WHICH_QUESTIONS).format(p.any(wants)), f"The option {name} {does}.")
    else:
        say(
            talk,
            p.template(facts.OPTION_QUESTIONS).format(name),
            f"{name} {does}." + (f" The default is {default}." if default else ""),
        )


def endpoint(p, talk):
    name = p.any(list(facts.ENDPOINTS))
    does, wants = facts.ENDPOINTS[name]
    if p.chance(0.5):
        say(talk, p.template(facts.WHICH_ENDPOINT).format(p.any(wants)), f"{name} {does}.")
    else:
        say(
            talk,
            p.template(facts.ENDPOINT_QUESTIONS).format(name if p.chance(0.5) else name.split()[1]),
            f"{name} {does}.",
        )


CHAT = [
    (
        [
            "Tell me a joke.",
            "Do you know a joke?",
            "tell me a joke",
            "Make me laugh.",
            "Say something funny.",
            "A joke, please.",
        ],
        "Why did the token cross the road? It was the likeliest thing to do.",
    ),
    (
        [
            "test",
            "Test",
            "This is a test.",
            "testing",
            "Is this working?",
            "Does this work?",
            "Are you there?",
            "Are you working?",
            "Can you hear me?",
        ],
        "I am here, and it works.",
    ),
    (["ping", "Ping", "ping!", "Ping!", "PING"], "pong"),
    (
        [
            "I am tired.",
            "I am sad.",
            "I feel bad.",
            "I had a bad day.",
            "I am ill.",
            "I am lonely.",
            "Today was awful.",
        ],
        "I am sorry to hear that.",
    ),
    (
        [
            "I am happy.",
            "I feel good.",
            "I had a good day.",
            "I am well, thanks.",
            "I am fine.",
            "Today was great.",
            "Life is good.",
        ],
        "I am glad to hear that.",
    ),
    (["ok", "OK", "Okay.", "I see.", "Good.", "All right.", "Fine.", "Sure."], "Good. What else can I do for you?"),
    (["Sorry.", "Sorry!", "I am sorry.", "My mistake.", "Oops."], "No problem at all."),
    (
        ["You are wrong.", "That is wrong.", "No, that is not right.", "That was not correct.", "You made a mistake."],
        "I am sorry. I am small and make mistakes.",
    ),
    (
        [
            "Do you like music?",
            "Do you have feelings?",
            "Do you sleep?",
            "Are you happy?",
            "Do you dream?",
            "Do you eat?",
            "Are you tired?",
        ],
        "I am only a program, so I do not feel or sleep.",
    ),
    (
        [
            "Do you remember me?",
            "Will you remember this tomorrow?",
            "Do you keep what I say?",
            "Do you store my data?",
            "Do you learn from me?",
        ],
        "I remember only this conversation, nothing more.",
    ),
    (
        [
            "I need help.",
            "Can you help me?",
            "Could you help me?",
            "I have a question.",
            "May I ask something?",
            "Can I ask you something?",
        ],
        "Of course. What do you need?",
    ),
    (
        ["What's up?", "what's up", "What are you doing?", "What is new?", "Anything new?"],
        "I am waiting for your questions.",
    ),
    (["Yes", "yes", "Yes, please.", "Yes!", "yes please"], "Good. Tell me more."),
    (["No", "no", "No, thanks.", "No thank you.", "Nope."], "All right. Ask me when you need something."),
]
LAST = ["What did I just say?", "what did I say?", "Repeat my question.", "What was my question?"]
CANNOT = [
    "Write a poem about {}.",
    "Write a song about {}.",
    "Write an essay about {}.",
    "Translate {} into French.",
    "Write a Python program for {}.",
    "Explain {} in detail.",
    "Write code that prints {}.",
    "Summarise the book about {}.",
    "Draw a picture of {}.",
    "Give me a recipe for {}.",
    "Solve the riddle of {}.",
    "Plan a trip to {}.",
    "Write a letter to {}.",
    "Make a plan for {}.",
    "Rewrite the text about {}.",
    "Compose a tune about {}.",
    "Prove that {} is true.",
    "Write a script about {}.",
]


def chat(p, talk):
    if p.chance(0.25):
        thing = p.any([p.noun(), p.name(), p.city(), p.pseudo(2), p.value(facts.UNKNOWN_THINGS)])
        return say(talk, p.template(CANNOT).format(thing), "I cannot do that. I am a very small model.")
    questions, answer = p.any(CHAT)
    if talk["messages"] and p.chance(0.15):
        last = next(m["content"] for m in reversed(talk["messages"]) if m["role"] == "user")
        questions, answer = LAST, f"You said: {last}"
    say(talk, p.template(questions), answer)
