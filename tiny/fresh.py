"""A second set of questions for the bars: wordings written after the corpus was, on which nothing was ever tuned. `evaluate.py --fresh` asks them.

Values are those that training never draws (`Pick` with held=True). `python fresh.py` names the wordings that the corpus' patterns happen to say too.
Change the corpus because of what fails here, and the set is used up: write another.
"""

import itertools
import json
import re

import facts
import skills
import talking
import words
from skills import memory, records, repeating, tools
from talking import call, fix, say, shape, user

GREET = {
    "Hello! How can I help you?": [
        "Hello, my friend",
        "Hi, small one!",
        "Hey hey hey",
        "Well hello",
        "A good day to you!",
        "hello model",
        "Hi, hello!",
        "Greetings, tiny.",
    ],
    "Good morning! How can I help you?": ["A very good morning", "Good morning, model!", "Morning, tiny."],
    "Good evening! How can I help you?": ["A very good evening", "Good evening, model!", "Evening, tiny."],
    "I am fine, thank you. How can I help you?": [
        "How are you now?",
        "Tiny, how are you?",
        "Hello tiny, how are you doing?",
        "And how do you do?",
        "How are you this morning?",
    ],
    "You are welcome!": ["Thanks, tiny.", "Thank you for the answer.", "Good, thanks.", "I thank you, tiny."],
    "Goodbye! Have a nice day.": [
        "Goodbye and good night",
        "Bye, model.",
        "OK, goodbye, model!",
        "Until tomorrow, bye.",
    ],
}

ABOUT = {  # the beginning of the answer: questions
    "I am the tiny model": [
        "So what exactly am I speaking with?",
        "Would you say what you are?",
        "What sort of thing are you?",
    ],
    "I have no name": ["By which name do you go?", "What shall I say when I call you?", "Is there a name for you?"],
    "I can greet": ["Which jobs can I give you?", "Name some things you do well.", "What have you learnt to do?"],
    "I cannot browse": ["What is too hard for you?", "What should I not ask of you?"],
    "I am tiny: about": [
        "What is the count of your weights?",
        "How large a model are you?",
        "What is your number of parameters?",
    ],
    "I was trained": ["What text were you trained on?", "Who wrote the text you learnt from?"],
    "No. I am a program": ["Does a human write these answers?", "Is there a human at the other end?"],
    "I speak English": ["In which languages may I write to you?", "Could you talk to me in German?"],
    "sinter is a program": ["Which sort of program is this sinter?", "Please explain to me what sinter does."],
    "Run sinter serve MODEL": [
        "How would I start a server with my own model?",
        "What do I type to serve a bigger model?",
    ],
    "Run sinter chat MODEL": ["How would I talk to a model in my console?"],
    "Run sinter serve --help": ["Where are all the options listed?", "Show me how to list every option."],
    "The address is": ["On which address is the server to be found?", "At what URL can I reach the server?"],
    "Yes. Point an OpenAI": ["Can the OpenAI client talk to this?", "Will the openai library work here?"],
    'Send "stream"': ["How would I have the answer streamed?", "I would like to stream the answer, how?"],
    'Set "temperature"': ["How do I make every answer the same?", "How can sampling be switched off?"],
    "Send the same seed": ["What good is a seed?", "What would a seed do for me?"],
    "max_tokens is": ["What do I use max_tokens for?", "How can I limit how long the answer is?"],
    "stop is a text": ["What do I use stop for?", "How would I end the answer at a word?"],
    "Put your functions": ["How would I give you functions to call?", "Where do tools go in a request?"],
    "Set response_format": ["How would I make you write JSON only?", "How can the answer be forced into a schema?"],
    "Press Ctrl-C": ["How is the server stopped?", "What ends the server?"],
    "sinter is free": ["What would sinter cost my company?", "What is sinter's licence?"],
    "sinter runs on": ["Which Node.js does sinter want?", "On what does sinter run?"],
    "My context": ["How many tokens long may a prompt be?", "What is the longest text you can read?"],
}

COPY = [
    "Would you repeat this for me: {}",
    "Say the following: {}",
    "I say it, you repeat it: {}",
    "Give me back this text: {}",
    'Please repeat exactly "{}"',
    "Copy the following text: {}",
    "Now say: {}",
    "Once more, please: {}",
    "Repeat what follows: {}",
    'The answer should be "{}", write it.',
]
CAPITAL = [
    "Now which city is the capital of {}?",
    "I forgot the capital of {}, what is it?",
    "Say which city is {}'s capital.",
    "For {}, what is the capital?",
    "What do they call the capital of {}?",
    "And the capital of {}?",
    "I would like the capital of {}.",
    "Would you tell me the capital of {}?",
]
MEMORY = {  # key: how it is told, how it is asked
    "name": (["Hello, {} is my name.", "I was given the name {}.", "You are talking to me, {}."], ["Now, what is my name again?", "Do you still have my name?", "By what name do I go?"]),
    "city": (["My house stands in {}.", "For years I have lived in {}.", "I am at home in {} now."], ["In what city is my home?", "Do you remember where I live?", "Which city is my home in?"]),
    "colour": (["Of colours I like {} most.", "No colour is as nice as {}, my favourite.", "My own favourite colour is {}."], ["What did I call my favourite colour?", "Which colour is it that I like?", "Which colour was my favourite again?"]),
    "age": (["This year I am {} years old.", "I have the age of {}.", "I am now {} years old."], ["Have you kept my age?", "And how old am I now?", "What was my age again?"]),
    "job": (["I earn my living as a {}.", "Every day I work as a {}.", "For a living I am a {}."], ["As what do I work?", "What was my job again?", "Have you kept my job?"]),
    "pet": (["There is a dog here called {}.", "My little cat has the name {}.", "Our dog goes by the name {}."], ["What is my pet's name again?", "Which name has my pet?", "How did I say my pet is called?"]),
}  # fmt: skip
OPINION = [
    "To me the {0} was {1}.",
    "All in all a {1} {0}.",
    "My friend says the {0} was {1} and {2}.",
    "Nobody told me that the {0} is this {1}!",
    "They sold me a {1} {0}.",
    "The {0} we had yesterday was {1}.",
]
JUDGE = [
    "Which one is it, {0} or {1}? {2}",
    "Read this and say {0} or {1}: {2}",
    "{2} Your verdict, {0} or {1}?",
    "Would you call this {0} or {1}? {2}",
    "Answer with {0} or {1} only. {2}",
]
SAID = {  # how a field is said of somebody
    "city": ["has lived in {} for years", "can be found in {}", "rents a flat in {}"],
    "age": ["is now {} years old", "turned {} last week"],
    "job": ["earns a living as a {}", "has become a {}", "works every day as a {}"],
    "hobby": ["is very fond of {}", "likes {} most of all"],
    "pet": ["walks a {} every day", "lives with a {} at home"],
    "phone": ["answers the phone {}", "can be called at the number {}"],
    "day": ["will be here on {}", "is free again on {}"],
    "food": ["wants to eat {}", "orders {} every day"],
}
WITH_SCHEMA = [
    "Here is a text: {0}\nWrite its data as JSON after this schema: {1}",
    "Use the schema {1} for this text: {0}",
    "{0}\nMake JSON of it that fits {1}.",
    "I need JSON for the schema {1}\nThe text is: {0}",
]
UNKNOWN = [
    "Who was the first person to climb {}?",
    "How many people live on {}?",
    "When was {} invented?",
    "Who wrote the book called {}?",
    "How far away is the end of {}?",
    "Which king ruled over {}?",
    "Who is the mayor of {}?",
    "What did {} cost last year?",
    "How many brothers does {} have?",
    "In which year did {} begin?",
]
KINDS = {  # a familiar kind: names, parameter names, requests; all new
    "weather": (["weather_report", "current_conditions", "city_forecast"], [["city_name", "for_city"]], ["What weather do they have in {0}?", "Look up the current weather in {0}.", "I am going to {0}, how is the weather there?"]),
    "time": (["get_local_time", "city_clock", "time_lookup"], [["city_name", "for_city"]], ["What time do they have in {0}?", "Look up the time in {0}.", "I need to know what time it is in {0}."]),
    "email": (["new_email", "mail_person", "send_letter"], [["mail_to", "to_person"], ["mail_text", "words"]], ["I want to send {0} an email: {1}", "Send {0} a mail with the message {1}", "Write {0} an email with the words {1}"]),
    "timer": (["minute_timer", "begin_timer", "kitchen_timer"], [["number_of_minutes", "for_minutes"]], ["I need a timer for {0} minutes.", "Give me a timer of {0} minutes.", "Please count {0} minutes and ring."]),
    "music": (["music_player", "start_music", "song_player"], [["song_title", "song_name"]], ["Let us hear {0}.", "Could you put on the song {0}?", "I want the music {0} now."]),
    "currency": (["currency_exchange", "money_converter", "change_money"], [["how_much", "money"], ["currency_from", "old_currency"], ["currency_to", "new_currency"]], ["What do I get for {0} {1} in {2}?", "Please make {2} of {0} {1}.", "Turn my {0} {1} into {2}."]),
    "order": (["order_info", "order_lookup", "parcel_status"], [["order_code", "which_order"]], ["I am waiting for order {0}, where is it?", "Tell me the status of order {0}.", "What has become of order {0}?"]),
    "light": (["lamp_switch", "room_light", "light_switch"], [["which_room", "room_name"], ["switch_to", "light_state"]], ["I want the light in the {0} {1}.", "Put the {0} light {1}.", "Please switch the light {1} in the {0}."]),
    "translate": (["translate_word", "language_translate", "word_translation"], [["source_text", "words"], ["language_name", "into_language"]], ["What would {0} be in {1}?", "I need {0} in {1}.", "Tell me how to say {0} in {1}."]),
    "search": (["internet_search", "search_pages", "find_online"], [["search_text", "what_for"]], ["Look for {0} on the web.", "What does the web say about {0}?", "Do a web search for {0}."]),
    "book_table": (["table_reservation", "restaurant_table", "new_reservation"], [["number_of_people", "how_many"], ["on_day", "which_day"]], ["We are {0} people and want a table on {1}.", "Could we have a table for {0} on {1}?", "Reserve for {0} on {1}."]),
    "add": (["sum_of_two", "add_up", "number_sum"], [["number_one", "one"], ["number_two", "two"]], ["I want to add {0} and {1}.", "Tell me what {0} plus {1} is.", "{0} plus {1}, please."]),
    "stock": (["article_price", "price_lookup", "find_price"], [["product_name", "which_product"]], ["Do you know what a {0} costs?", "I want to buy a {0}, how much is it?", "Look up what a {0} costs."]),
    "task": (["todo_list_add", "note_task", "save_task"], [["task_text", "what_to_do"]], ["Put this on my list: {0}", "I have a new task: {0}", "Keep this task for me: {0}"]),
    "user": (["user_lookup", "customer_data", "search_user"], [["user_id_name", "person_name"]], ["I need the data of the user {0}.", "Show the customer {0}.", "Which user is called {0}? Look it up."]),
    "room": (["room_heating", "heat_room", "warm_room"], [["which_room", "room_name"], ["how_warm", "to_degrees"]], ["The {0} must be {1} degrees warm.", "Bring the {0} up to {1} degrees.", "Please make the {0} {1} degrees warm."]),
    "dice": (["dice_roller", "roll_a_die", "throw_die"], [["number_of_sides", "how_many_sides"]], ["I throw a dice with {0} sides.", "Let a dice with {0} sides roll.", "Please roll {0} sides."]),
    "define": (["explain_word", "word_definition", "meaning_of"], [["the_word", "which_word"]], ["I do not know the word {0}, look it up.", "What is {0}? Use the dictionary.", "Give me the definition of {0}."]),
}  # fmt: skip


def greet(p, talk):
    answer = p.any(list(GREET))
    say(talk, p.any(GREET[answer]), answer)


def about(p, talk):
    start = p.any(list(ABOUT))
    (answer,) = (a for a, _, _ in facts.ABOUT if a.startswith(start))
    say(talk, p.any(ABOUT[start]), answer)


def copy(p, talk):
    text = repeating.stuff(p)
    say(talk, p.any(COPY).format(text), text)


def capital(p, talk):
    country = p.any(list(facts.CAPITALS))
    say(talk, p.any(CAPITAL).format(country), f"The capital of {country} is {facts.CAPITALS[country]}.")


def remembered(p, talk):
    key = p.any(list(MEMORY))
    tells, asks = MEMORY[key]
    draw, _, reply, _, answer, _ = memory.MEMORIES[key]
    value = draw(p)
    reply = reply.format(value)
    say(talk, fix(p.any(tells).format(value)), reply[0].upper() + reply[1:])
    for _ in range(p.int(1, 3)):
        p.any([greet, copy, capital, about])(p, talk)
    say(talk, p.any(asks), fix(answer.format(value)))
    talk["last"] = True


def sentiment(p, talk):
    good = p.chance(0.5)
    mine = facts.GOOD if good else facts.BAD
    text = fix(p.any(OPINION).format(p.value(facts.REVIEWED), p.any(mine), p.any(mine)))
    labels = p.any([("positive", "negative")] * 4 + [("good", "bad"), ("happy", "unhappy")])
    shown = p.random.sample(labels, 2)
    say(talk, p.any(JUDGE).format(*shown, text), labels[0 if good else 1])


def extract(p, talk):
    who = p.name()
    chosen = p.random.sample(list(SAID), p.random.choices([1, 2, 3], [5, 3, 2])[0])
    values = {"name": who} | {f: records.SAID[f][1](p) for f in chosen}
    parts = [fix(p.any(SAID[f]).format(values[f])) for f in chosen]
    text = who + " " + (parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]) + "."
    asked = p.random.sample(list(values), p.int(1, len(values)))
    keys = {f: records.key_for(p, f) for f in asked}
    properties = {keys[f]: {"type": "integer" if f == "age" else "string"} for f in asked}
    talk["schema"] = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    say(
        talk,
        p.any(WITH_SCHEMA).format(text, json.dumps(talk["schema"])),
        json.dumps({keys[f]: values[f] for f in asked}, ensure_ascii=False),
    )


def unknown(p, talk):
    thing = p.value(facts.UNKNOWN_THINGS) if p.chance(0.6) else p.pseudo(2).capitalize()
    say(talk, p.any(UNKNOWN).format(thing), "I do not know that. I am a very small model.")


def tool(p, talk):
    """A familiar kind under a new name with new parameter names, alone or beside a tool from nowhere."""
    kind = p.any(list(KINDS))
    names, parameters, asks = KINDS[kind]
    old = tools.KINDS[kind]
    new = dict(
        names=names,
        does=old["does"],
        parameters=[(names, *rest) for names, (_, *rest) in zip(parameters, old["parameters"])],
        asks=asks,
    )
    talk["drawn"] = [tools.draw(p, new)] + [tools.draw(p, tools.made_up(p)) for _ in range(p.int(0, 1))]
    chosen = talk["drawn"][0]
    keys, values = chosen[2], [p.any(t) if isinstance(t, list) else draw(p) for _, t, _, draw in new["parameters"]]
    p.random.shuffle(talk["drawn"])
    talk["tools"] = [t[0] for t in talk["drawn"]]
    for t in talk["tools"]:
        t["function"]["parameters"]["additionalProperties"] = False
    name = chosen[0]["function"]["name"]
    talk["messages"] += [user(p.any(asks).format(*values)), call(name, dict(zip(keys, values)))]
    talk["last"] = True


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
}


def shapes():
    """All wordings of this set, without the places where values go."""
    texts = [t for texts in itertools.chain(GREET.values(), ABOUT.values()) for t in texts] + COPY + CAPITAL + UNKNOWN
    texts += [t for pair in MEMORY.values() for texts in pair for t in texts] + [
        t for _, _, asks in KINDS.values() for t in asks
    ]
    texts += OPINION + JUDGE + WITH_SCHEMA + [t for texts in SAID.values() for t in texts]
    return {shape(t) for t in texts}


def check(mine, n=40000):
    """Which of the shapes `mine` `n` conversations of the training side say as well."""
    words.NEVER.update(mine)  # as training does
    p, found, lists = talking.Pick("fresh"), set(), [*words.CITIES, *words.NAMES, *facts.CAPITALS]
    values = re.compile(r"\b(" + "|".join(map(re.escape, lists)) + r")\b|\d+")
    for _ in range(n):
        talk = skills.opening(p)
        skills.turn(p, talk)
        found |= {shape(values.sub("", m["content"])) for m in talk["messages"] if m["role"] == "user"} & mine
    return found


if __name__ == "__main__":
    print("also in the corpus:", check(shapes()) or "none")
