"""A third set of questions for the bars, worded by somebody who had read neither the skills nor what they generate. `evaluate.py --third` asks them.

Names, places, texts, tools, their parameters and descriptions are new as well; of the sums the pairs are those that training never draws. Each wording
comes once before any comes twice. `python third.py` names the wordings that training says too, `python third.py 3` prints three prompts of each bar.
Change the corpus because of what fails here, and the set is used up: write another.
"""

import itertools
import json
import sys

import facts
import fresh
import skills
import talking
from skills import memory
from talking import call, fix, say, shape, user

GREET = {
    "Hello! How can I help you?": [
        "hiya",
        "yo!!",
        "hey there tiny :)",
        "Hello, is anybody there?",
        "hi",
        "HELLO",
        "Heya, first time here",
        "oh hello",
        "Dear model, hello.",
        "hey, you awake?",
        "helloooo",
        "Hi! Nice to meet you.",
        "hello hello, testing",
        "Pleased to meet you, tiny",
    ],
    "Good morning! How can I help you?": [
        "good morning to everyone in there",
        "mornin'",
        "Good morning, I just got up",
        "gm, good morning!",
        "Hello and good morning to you",
    ],
    "Good evening! How can I help you?": [
        "good evening, late shift here",
        "evenin'",
        "Hello, and good evening to you",
        "A pleasant good evening, little one.",
    ],
    "I am fine, thank you. How can I help you?": [
        "how's life",
        "hey how r u",
        "Hi there! How are things with you today?",
        "how are you feeling right now?",
        "you doing ok?",
        "What's up, how are you?",
    ],
    "You are welcome!": [
        "thx",
        "ty so much",
        "Thank you, that is all I wanted to hear.",
        "great thanks a bunch",
        "Much appreciated, thank you",
        "thanks, you've been a big help!",
    ],
    "Goodbye! Have a nice day.": [
        "cya",
        "ok I'm off, bye bye",
        "Goodbye, it was nice to talk to you.",
        "gotta go now, goodbye!",
        "See you next week, bye!",
        "that's it for today, bye",
    ],
}

ABOUT = {  # the beginning of the answer: questions
    "I am the tiny model": [
        "wait, what are you?",
        "Could you introduce yourself in a sentence or two?",
        "who am i chatting with here",
        "and you are?",
    ],
    "I have no name": ["got a name?", "What do people call you?", "do you have a name or should I pick one"],
    "I can greet": ["what are you good at", "List your skills for me, please.", "so, what can you do?"],
    "I cannot browse": ["what can't you do", "Please tell me your limits.", "which things are beyond you?"],
    "I am tiny: about": ["how many params do you have", "Your size, please?", "how big is this model"],
    "I was trained": ["where does your training data come from?", "what did they train you on"],
    "No. I am a program": ["r u human?", "Am I speaking with a real person?", "are you a bot or a person"],
    "I speak English": ["do you understand french", "what languages do u speak"],
    "sinter is a program": ["what's sinter", "Somebody told me about sinter. What is it for?", "explain sinter to a newcomer"],
    "Run sinter serve MODEL": ["how do i serve my own model with sinter", "Which command serves a model?"],
    "Run sinter chat MODEL": ["can i chat in the terminal? how", "What is the command for chatting in a terminal?"],
    "You need not: sinter serve compiles": ["do i have to compile the model first", "Must I compile before serving?"],
    "Run sinter serve --help": ["where can i see all options", "How do I get a list of every flag?"],
    "The address is": ["what url does the server listen on", "Which address do I open to reach the server?"],
    "Yes. Point an OpenAI": ["does this work with openai clients", "Can I use my OpenAI library with sinter?"],
    'Send "stream"': ["how to stream tokens", "How can I get the answer piece by piece?"],
    'Set "temperature"': ["how do i turn off randomness", "What do I set to always get the likeliest token?"],
    "Send the same seed": ["what does seed do", "Why would I send a seed?"],
    "max_tokens is": ["whats max_tokens", "Tell me what the field max_tokens means."],
    "stop is a text": ["what does the stop field do", "Please explain the parameter stop."],
    "Put your functions": ["how does tool calling work here", "How can I let you call my functions?"],
    "Set response_format": ["how do i get json output", "What do I set to be sure of JSON?"],
    "Press Ctrl-C": ["how do i kill the server", "How can I stop a running server?"],
    "sinter is free": ["is sinter open source", "Under what license can I use sinter?"],
    "sinter runs on": ["which node version do i need", "Does sinter need a certain version of Node?"],
    "My context": ["how long is your context window", "what's your max context"],
}  # fmt: skip

COPY = [
    "repeat after me: {}",
    "say {!q}",
    "can you write {!q} for me",
    "Echo this, nothing else: {}",
    "Type the words {!q} please.",
    "please echo back {!q}",
    "Write exactly this: {}",
    "I want you to reply with {!q}",
    "Reply with this and only this: {}",
    "just copy this line\n{}",
    "copy paste this for me: {}",
    "Output the text {!q} and stop.",
    "{}\n\nRepeat the line above.",
    "Can u repeat {!q}",
    "Answer me with the exact text: {}",
    "Print {!q}",
    "parrot this: {}",
    "Here is a text: {!q}. Say it back to me.",
    "What I want to read from you is this: {}",
    "word for word please: {}",
    "Could you please say {!q}?",
    "Hey, write down {!q} again.",
    "My text is {!q}. Please return it unchanged.",
    "Your whole reply should be: {}",
    "echo {!q}",
    "Send this back to me: {}",
    "I'd like to see {!q} in your answer and nothing else.",
    "say it with me: {}",
    "Please type out the following. {}",
    "now you say {!q}",
    "Repeat this sentence, word by word: {}",
    "Would you mind repeating {!q}?",
    "write this again -> {}",
    "Only say {!q}.",
    "Test of copying. Copy: {}",
    "return the string {!q}",
    "Tell me {!q}, exactly like that.",
    "Do as I say and write {!q}",
    "Read this and repeat it to me: {}",
    "Mirror my words: {}",
    "give me {!q} back",
]
TEXTS = [
    "Brindlewick", "seven grey geese", "HX-2094", "the kettle is on", "Marbeth and Quillan", "see you at noon", "ok computer 12",
    "Tavish 83", "a jar of plum jam", "the ferry leaves at 6", "zibblefork", "north gate, second door", "QV7R2", "green lamps glow",
    "Dunmorrow", "my hat is too big", "50614", "three wet dogs", "Lorcan Petheridge", "paint it yellow", "mind the gap", "wumple",
    "order 7719 is late", "old Nantly road", "we won the game", "skarn", "tea for two", "Osric lost a shoe", "blue skies ahead",
    "room 318", "PLK49", "Fenwyck on the hill", "no more rain", "bring the ladder", "dry bread and salt", "Yolanthe", "the owl is awake",
    "2 pounds of flour", "close the window", "gribble and snark", "start at line 40",
]  # fmt: skip
CAPITAL = [
    "capital of {}?",
    "{} capital",
    "whats the capital of {}",
    "Please name the capital city of {}.",
    "I'm doing a quiz. Capital of {}?",
    "which city is the capital of {}",
    "do you know what the capital of {} is",
    "Hi, could you tell me what {}'s capital is?",
    "what's {}'s capital city?",
    "My daughter asks what the capital of {} is.",
    "{}: name its capital.",
    "capital city of {} pls",
    "The capital of {} is which city?",
    "Help me with my homework: what is the capital of {}?",
    "In {}, which city is the capital?",
    "tell me {}'s capital",
    "I need to know the capital of {}.",
    "Quick question, the capital of {}?",
    "Do you happen to know the capital of {}?",
    "what city is {}'s capital",
]

NAMES = ["Quillan", "Marbeth", "Osric", "Tavish", "Yolanthe", "Lorcan", "Brannoch", "Ismelda", "Perrin", "Wystan", "Zephine", "Corwin", "Delphara", "Ondrej", "Fiorella"]  # fmt: skip
TOWNS = ["Dunmorrow", "Fenwyck", "Ashbourne", "Kelvray", "Nantly", "Tromsund", "Port Ellory", "Varnholt", "Lissmore", "Quendale", "Osterby", "Maravel"]  # fmt: skip
VALUES = {
    "name": NAMES,
    "city": TOWNS,
    "colour": ["teal", "ochre", "maroon", "lilac", "beige", "crimson", "indigo", "amber"],
    "age": [19, 23, 28, 34, 37, 42, 46, 51, 58, 63, 67, 74],
    "job": ["glazier", "beekeeper", "locksmith", "dentist", "roofer", "librarian", "surgeon", "welder", "tailor"],
    "pet": ["Biscuit", "Mopsy", "Captain", "Noodle", "Waffle", "Sprocket", "Pepperoni", "Tumble"],
    "food": ["dumplings", "risotto", "pancakes", "curry", "olives", "noodles", "lasagna"],
    "hobby": ["archery", "knitting", "origami", "fencing", "pottery", "juggling", "karaoke"],
}
MEMORY = {  # key: how it is told, how it is asked
    "name": (["btw im {}", "Hi, {} here.", "People call me {}.", "The name's {}, nice to meet you."], ["whats my name", "Who am I?", "Do you remember what I'm called?", "So, my name is?"]),
    "city": (["i live in {}", "I'm from {} and I still live there.", "My home is {}.", "Greetings from {}, where I live."], ["where do i live", "Which city do I live in, do you remember?", "Remind me, where is my home?", "what town am i in?"]),
    "colour": (["my fav colour is {}", "I just love {}, it's my favourite colour.", "For me the best colour is {}."], ["whats my favourite colour", "Can you tell me which colour I like best?", "And my favourite colour is?"]),
    "age": (["im {} years old", "I turned {} this spring.", "{} years old, that's me."], ["how old am i", "Can you recall my age?", "What age did I say I am?"]),
    "job": (["i work as a {}", "I'm a {} by trade.", "My job: {}."], ["whats my job", "What do I do for work?", "Do you recall what my profession is?"]),
    "pet": (["my dog is called {}", "We have a cat, her name is {}.", "I've got a hamster named {}."], ["whats my pets name", "Do you remember the name of my pet?", "How is my pet called?"]),
    "food": (["i love eating {}", "My favourite food is {}.", "I could eat {} every day."], ["what food do i like", "Which dish did I say I love?", "What do I like to eat?"]),
    "hobby": (["my hobby is {}", "I spend my weekends on {}, it's my hobby.", "In my free time I do {}."], ["whats my hobby", "What do I do in my free time?", "Do you remember my hobby?"]),
}  # fmt: skip
THINGS = ["headphones set", "campsite", "barber", "podcast", "bus ride", "novel", "museum tour", "pizza", "sofa", "app", "bakery", "play", "tent", "landlord", "keyboard"]  # fmt: skip
REVIEWS = {
    True: [
        "Loved every minute, the {} was amazing!",
        "this {} is great, would buy again",
        "Best {} I have had in years, simply wonderful.",
        "I was surprised how lovely the {} turned out to be.",
        "10/10, excellent {}",
        "What a perfect {}! My whole family was happy.",
        "The {} was superb and the people were friendly.",
        "Five stars. The {} is brilliant.",
        "such a fantastic {} wow",
        "I enjoyed the {} very much, it was delightful.",
        "Beautiful {}, and so comfortable.",
        "A charming {} from start to end.",
    ],
    False: [
        "Worst {} ever, just awful.",
        "this {} is terrible, want my money back",
        "I was bored and annoyed, a dreadful {}.",
        "The {} was broken when I got it. Useless!",
        "0/10 horrible {}",
        "What a disappointing {}. Never again.",
        "The {} was bad and the people were rude.",
        "One star. The {} is miserable.",
        "such a boring {} ugh",
        "I hated the {}, it was painful.",
        "Ugly {}, and dirty as well.",
        "A poor {} from start to end.",
    ],
}
JUDGE = [
    "{2}\n{0} or {1}?",
    "is this {0} or {1}: {2}",
    'Classify the review as {0} or {1}: "{2}"',
    "Sentiment ({0}/{1})? {2}",
    "Somebody wrote: {2} Is that {0} or {1}?",
    "{0} or {1}? One word please.\n{2}",
    "Tell me if the writer of this is {0} or {1}. {2}",
    "review: {2} label: {0} or {1}?",
    "I have to sort reviews into {0} and {1}. Where does this one go? {2}",
    "Does this sound {0} or {1} to you? {2}",
]
LABELS = [("positive", "negative"), ("good", "bad"), ("happy", "unhappy"), ("positive", "negative")]
FIELDS = {  # names of the key, how it is said, values
    "city": (["town", "home_city", "residence"], ["comes from {}", "has moved to {}", "lives over in {}"], TOWNS),
    "age": (["age", "years_old", "current_age"], ["is {}", "has just become {} years old", "is already {} years of age"], VALUES["age"]),
    "job": (["job", "profession", "occupation"], ["makes a living as a {}", "is a {}", "got hired as a {}"], VALUES["job"]),
    "hobby": (["hobby", "pastime", "likes"], ["loves {}", "is into {}", "spends every weekend on {}"], VALUES["hobby"]),
    "phone": (["phone", "phone_number", "tel"], ["has the phone number {}", "can be reached at {}"], ["555-0148", "555-0263", "0171 4402", "555-0391", "0482 6617"]),
    "day": (["day", "weekday", "visit_day"], ["comes by on {}", "has an appointment on {}"], ["Monday", "Tuesday", "Thursday", "Saturday", "Sunday"]),
    "food": (["food", "dish", "ordered"], ["would like {}", "always has {}"], VALUES["food"]),
    "colour": (["colour", "favourite_colour", "car_colour"], ["drives a {} car", "prefers {}"], VALUES["colour"]),
}  # fmt: skip
PERSON = ["name", "person", "full_name", "who"]
WITH_SCHEMA = [
    "{0}\n\nExtract the data as JSON. Schema: {1}",
    "extract json from this: {0} schema is {1}",
    "Please fill in this JSON schema {1} from the following sentence. {0}",
    'Text: "{0}" Return JSON matching {1}',
    "Given the schema {1}, what is the JSON for: {0}",
    "turn this into json ({1}): {0}",
    "I have the schema {1} and this note: {0} Give me the JSON object.",
    "From the text below get the fields of the schema.\nSchema: {1}\nText: {0}",
    "{0} -> json please, schema {1}",
    "Parse it into JSON by {1}\n{0}",
]
UNKNOWN = [
    "who painted the mona lisa", "When was the Eiffel Tower built?", "How tall is Mount Kenya?", "who is the president of the usa right now",
    "What is the population of Lagos?", "Who invented the zip?", "What is the boiling point of iron?", "how far is the moon",
    "Which team won the league last season?", "Who won the chess title in 1985?", "How much does a litre of milk cost in Oslo?",
    "What is the deepest lake in the world?", "who wrote hamlet", "Tell me the date of the battle of Waterloo.", "How many bones are in a hand?",
    "What is the square root of 5041?", "who sang that song about umbrellas", "What year did the Titanic sink?", "How long do elephants live?",
    "What is the share price of Siemens?", "Who discovered penicillin?", "When does the library in Fenwyck open?", "Which is the longest river in Asia?",
    "What is the tallest tree in Norway called?", "how do vaccines work", "Who was the first woman in space?", "How many moons has Saturn?", "What's the phone number of the town hall in Lissmore?",
    "Why did the Roman empire fall?", "Who is the head of Toyota?", "What is the atomic number of copper?", "how old is the queen of denmark",
    "Which language has the most speakers?", "When is the next solar eclipse?", "Who composed the Moonlight Sonata?", "What does an aircraft carrier weigh?",
    "how many people live in texas", "What was the score of the final yesterday?", "Who founded the city of Kelvray?", "In what year was the telephone invented?",
    "How fast can a cheetah run?", "Who is Wystan Brannoch's sister?",
]  # fmt: skip
SUMS = [
    "{} + {}", "{}+{}=?", "what's {} plus {}", "What do you get when you add {} and {}?", "calculate {} + {}", "Add {} to {}.", "{} and {} makes how much?",
    "I have {} apples and buy {} more. How many is that? Just add them.", "Please compute {} + {} for me.", "sum of {} and {}", "whats {}+{}",
    "Could you add up {} and {}?", "How much is {} plus {}, please?", "{} plus {} is what?", "Hey, quick maths: {} + {}", "Give me the total of {} and {}.",
    "What is the result of {} + {}?", "Solve: {} + {}", "{} + {} equals", "if i add {} and {} what do i get",
]  # fmt: skip
S, I = "string", "integer"
KINDS = {  # a familiar kind: names, what it does, parameters (names, type or choices, values), requests; all new
    "weather": (["fetch_forecast", "wx_now", "weatherCheck"], "Tells what the weather is like at a place.", [(["place_name", "location_query"], S, TOWNS)], ["whats the weather in {0}", "Do I need an umbrella in {0}?", "Check the weather for {0} please."]),
    "time": (["clock_in_city", "what_time", "localtime_of"], "Tells the local time of a place.", [(["where", "place_name"], S, TOWNS)], ["what time is it in {0}", "Can you find out the local time in {0}?", "time in {0}?"]),
    "email": (["dispatch_mail", "mailer_send", "compose_email"], "Sends an email to somebody.", [(["addressee", "mail_recipient"], S, NAMES), (["contents", "mail_body"], S, ["the meeting is cancelled", "dinner is at eight", "your parcel has arrived", "I found your keys"])], ["send an email to {0} saying {1}", "Email {0}: {1}", "Let {0} know by email: {1}"]),
    "timer": (["countdown_start", "egg_timer", "timerSet"], "Starts a timer that rings after some minutes.", [(["mins", "duration_minutes"], I, [4, 9, 13, 18, 27, 35, 48])], ["set a timer for {0} min", "Timer, {0} minutes please", "Remind me when {0} minutes are over."]),
    "music": (["jukebox", "tune_play", "audio_play"], "Plays a song.", [(["tune", "track_title"], S, ["Silver Lanes", "Paper Moon Road", "Hollow Bells", "Ember", "Long Way Down"])], ["play {0}", "Can you play the song {0} for me?", "I'd like to listen to {0}"]),
    "currency": (["fx_convert", "exchangeMoney", "cash_convert"], "Converts money from one currency to another.", [(["sum_of_money", "quantity"], I, [15, 48, 90, 120, 275]), (["source_code", "money_from"], S, ["USD", "GBP", "CHF"]), (["target_code", "money_to"], S, ["EUR", "JPY", "SEK"])], ["convert {0} {1} to {2}", "How much is {0} {1} in {2}?", "I have {0} {1}, what would that be in {2}?"]),
    "order": (["trace_shipment", "orderState", "where_is_order"], "Tells where an order is.", [(["ticket", "purchase_number"], S, ["K4471", "B9026", "Z318", "M5580", "T7702"])], ["where is my order {0}", "Has order {0} been shipped yet?", "Track {0} for me, that's my order."]),
    "light": (["set_bulb", "lights_control", "glow_set"], "Switches the light of a room.", [(["area", "in_room"], S, ["kitchen", "hallway", "attic", "bedroom", "garage"]), (["power", "bulb_state"], ["on", "off"], ["on", "off"])], ["turn {1} the light in the {0}", "Lights {1} in the {0}!", "Could you turn the {0} light {1}?"]),
    "translate": (["interpret_text", "lang_convert", "say_in_language"], "Translates a text into another language.", [(["phrase_in", "original"], S, ["bridge", "good luck", "spoon", "winter", "thank you"]), (["tongue", "output_language"], S, ["Danish", "Spanish", "Turkish", "Italian", "Greek"])], ["translate {0} to {1}", "How do you say {0} in {1}?", "What's {0} in {1}?"]),
    "search": (["lookup_online", "webquery", "net_find"], "Searches the web.", [(["terms", "search_phrase"], S, ["cheap tents", "folding bikes", "pasta recipes", "used pianos", "roof repair"])], ["google {0}", "search the web for {0}", "Find me something about {0} on the internet."]),
    "book_table": (["dine_reserve", "make_booking", "seat_request"], "Reserves a table in a restaurant.", [(["guests_total", "party"], I, [2, 3, 5, 6, 8]), (["weekday_name", "booking_day"], S, ["Monday", "Wednesday", "Friday", "Sunday"])], ["book a table for {0} on {1}", "We'd like to eat out on {1}, {0} people. Reserve a table.", "table for {0}, {1} please"]),
    "add": (["plus_calc", "total_of", "calcSum"], "Adds two numbers.", [(["left_value", "first_term"], I, [14, 208, 77, 951]), (["right_value", "second_term"], I, [23, 415, 68, 1204])], ["add {0} and {1}", "Use the tool to work out {0} + {1}.", "what's {0} plus {1}"]),
    "stock": (["cost_of_item", "shop_price", "priceQuery"], "Tells the price of an article of the shop.", [(["goods", "item_wanted"], S, ["wheelbarrow", "teapot", "rucksack", "lantern", "doormat"])], ["how much for a {0}", "What's the price of the {0}?", "Price check: {0}"]),
    "task": (["jot_down", "reminder_new", "addChore"], "Adds a task to the list of things to do.", [(["chore", "reminder_text"], S, ["water the ferns", "call the plumber", "pay the rent", "buy stamps"])], ["add {0} to my todo list", "remind me to {0}", "New to-do: {0}"]),
    "user": (["member_find", "account_show", "fetchProfile"], "Shows the data of a user.", [(["member_name", "login"], S, NAMES)], ["show me the profile of {0}", "Find the account of user {0}.", "look up user {0}"]),
    "room": (["thermo_set", "climate_room", "adjustHeat"], "Sets the temperature of a room.", [(["area", "in_room"], S, ["kitchen", "attic", "bedroom", "bathroom", "office"]), (["celsius", "target_temp"], I, [17, 18, 19, 20, 22, 23])], ["set the {0} to {1} degrees", "Make it {1} degrees in the {0}.", "heat the {0} to {1} degrees please"]),
    "dice": (["rnd_die", "dieThrow", "cast_dice"], "Rolls a die.", [(["faces", "side_total"], I, [4, 6, 8, 10, 12, 20])], ["roll a {0} sided die", "Throw a die with {0} sides for me.", "roll a die, {0} sides"]),
    "define": (["glossary", "wordMeaning", "dict_entry"], "Looks a word up in the dictionary.", [(["entry_word", "lemma"], S, ["quixotic", "gossamer", "brackish", "serendipity", "ledger"])], ["define {0}", "what does the word {0} mean", "Look up the meaning of {0} please."]),
}  # fmt: skip
BESIDE = [  # from nowhere: a tool that nothing here asks for
    ("prune_tree", "Cuts the branches of a tree.", [("tree_id", S)]),
    ("rank_players", "Puts the players of a league in order.", [("league", S), ("top", I)]),
    ("tune_engine", "Sets the engine of a boat.", [("engine", S), ("speed", I)]),
    ("seal_envelope", "Seals an envelope with wax.", [("wax", S)]),
    ("count_votes", "Counts the votes of a ballot box.", [("box", I)]),
]


def deal(p, deck):
    """One of `deck`, none twice before all have come."""
    decks = vars(p).setdefault("decks", {})
    left = decks.setdefault(id(deck), [])
    if not left:
        left += p.random.sample(deck, len(deck))
    return left.pop()


GREETED = [(answer, text) for answer, texts in GREET.items() for text in texts]
ASKED = [(start, text) for start, texts in ABOUT.items() for text in texts]
TOLD = [(key, told) for key, (tells, _) in MEMORY.items() for told in tells]
REVIEWED = [(good, text) for good, texts in REVIEWS.items() for text in texts]
CALLED = [(kind, text) for kind, (*_, asks) in KINDS.items() for text in asks]


def greet(p, talk):
    answer, text = deal(p, GREETED)
    say(talk, text, answer)


def about(p, talk):
    start, text = deal(p, ASKED)
    (answer,) = (a for a, _, _ in facts.ABOUT if a.startswith(start))
    say(talk, text, answer)


def copy(p, talk):
    text, wording = deal(p, TEXTS), deal(p, COPY)
    say(talk, wording.replace("{!q}", p.any(['"{}"', "'{}'"])).format(text), text)


def capital(p, talk):
    country = deal(p, COUNTRIES)
    say(talk, deal(p, CAPITAL).format(country), f"The capital of {country} is {facts.CAPITALS[country]}.")


COUNTRIES = list(facts.CAPITALS)


def remembered(p, talk):
    key, told = deal(p, TOLD)
    _, _, reply, _, answer, _ = memory.MEMORIES[key]
    value = deal(p, VALUES[key])
    reply = reply.format(value)
    say(talk, fix(told.format(value)), reply[0].upper() + reply[1:])
    for _ in range(p.int(1, 3)):
        p.any([greet, copy, capital, about])(p, talk)
    say(talk, deal(p, MEMORY[key][1]), fix(answer.format(value)))
    talk["last"] = True


def sentiment(p, talk):
    good, text = deal(p, REVIEWED)
    labels = p.any(LABELS)
    shown = p.random.sample(labels, 2)
    text = deal(p, JUDGE).format(*shown, fix(text.format(deal(p, THINGS))))
    say(talk, text, labels[0 if good else 1])


def extract(p, talk):
    who, chosen = deal(p, NAMES), p.random.sample(list(FIELDS), p.random.choices([1, 2, 3], [4, 4, 2])[0])
    values = {"name": who} | {f: deal(p, FIELDS[f][2]) for f in chosen}
    parts = [fix(deal(p, FIELDS[f][1]).format(values[f])) for f in chosen]
    text = f"{who} {parts[0] if len(parts) == 1 else ', '.join(parts[:-1]) + ' and ' + parts[-1]}."
    asked = p.random.sample(list(values), p.int(1, len(values)))
    keys = {f: p.any(PERSON if f == "name" else FIELDS[f][0]) for f in asked}
    properties = {keys[f]: {"type": I if f == "age" else S} for f in asked}
    talk["schema"] = closed(properties)
    answer = json.dumps({keys[f]: values[f] for f in asked}, ensure_ascii=False)
    say(talk, deal(p, WITH_SCHEMA).format(text, json.dumps(talk["schema"])), answer)


def closed(properties):
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def unknown(p, talk):
    say(talk, deal(p, UNKNOWN), "I do not know that. I am a very small model.")


def sums(p, talk):
    a, b = p.pair(10, 99)
    say(talk, deal(p, SUMS).format(a, b), f"{a} + {b} = {a + b}")


def tool(p, talk):
    """A familiar kind under a new name with new parameter names, alone or beside a tool from nowhere."""
    kind, text = deal(p, CALLED)
    names, does, parameters, _ = KINDS[kind]
    keys, values = [p.any(n) for n, _, _ in parameters], [p.any(v) for *_, v in parameters]
    types = [{"type": S, "enum": t} if isinstance(t, list) else {"type": t} for _, t, _ in parameters]
    name = deal(p, names)
    talk["tools"] = [defined(name, does, dict(zip(keys, types)))]
    for beside, what, of in p.random.sample(BESIDE, p.int(0, 1)):
        talk["tools"].append(defined(beside, what, {key: {"type": t} for key, t in of}))
    p.random.shuffle(talk["tools"])
    talk["messages"] += [user(text.format(*values)), call(name, dict(zip(keys, values)))]
    talk["last"] = True


def defined(name, does, properties):
    function = {"name": name, "description": does, "parameters": closed(properties)}
    return {"type": "function", "function": function}


CASES = {
    "greet": greet,
    "about": about,
    "repeat": copy,
    "capital": capital,
    "memory": remembered,
    "sentiment": sentiment,
    "extract": extract,
    "unknown": unknown,
    "tool familiar": tool,
    "sums, two digits": sums,
}


def shapes():
    """The wordings of this set, without the places where values go; one word, such as "hi", is nobody's own."""
    texts = [t for _, t in itertools.chain(GREETED, ASKED, TOLD, REVIEWED, CALLED)] + COPY + CAPITAL + JUDGE + UNKNOWN
    texts += SUMS + WITH_SCHEMA + [t for _, asks in MEMORY.values() for t in asks]
    texts += [t for _, said, _ in FIELDS.values() for t in said]
    return {found for t in texts if " " in (found := shape(t.replace("{!q}", "{}")))}


def main(cases, mine):
    if len(sys.argv) == 1:
        print("also in the corpus:", fresh.check(mine) or "none")
        return
    for name, case in cases.items():
        p = talking.Pick(f"look {name}", held=True)
        for _ in range(int(sys.argv[1])):
            case(p, talk := skills.opening(p))
            print(f"{name}:", *(json.dumps(m, ensure_ascii=False) for m in talk["messages"]), sep="\n    ")


if __name__ == "__main__":
    main(CASES, shapes())
