"""A fourth set, of two bars: values out of a text by a schema, and sums of two digits. `evaluate.py --fourth` asks it, `-n 40` each wording once.

`extract` shows the schema in every prompt, as the third set does; `extract, by keys`, beside the bars, only names the keys.

By somebody who had read neither `skills/` nor the corpus; no wording, name, place, key, value or pair of numbers is one of the third set's. The pairs
are those that training never draws. `python fourth.py` names the wordings that training says too, `python fourth.py 3` prints three prompts a bar.
Change the corpus because of what fails here, and the set is used up: write another.
"""

import json

from talking import fix, say, shape
from third import I, S, closed, deal, main

NAMES = [
    ("Eldrin", "He"), ("Saffira", "She"), ("Torvald", "He"), ("Beatrix", "She"), ("Caspian", "He"), ("Rosheen", "She"),
    ("Ludovic", "He"), ("Imke", "She"), ("Garrick", "He"), ("Thessaly", "She"), ("Jorund", "He"),
    ("Nerys", "She"), ("Algernon", "He"), ("Petronel", "She"), ("Oswin", "He"),
]  # fmt: skip
TOWNS = [
    "Stavenholm", "Birchley", "Corrundel", "Wexmoor", "Tilbrook", "San Perro", "Uppenford", "Eastvale", "Glanmere", "Rothesby", "Hexley",
    "Drumlin Bay",
]  # fmt: skip
FIELDS = {  # names of the key, how it is said, values
    "city": (
        ["location", "hometown", "based_in"],
        ["has a flat in {}", "settled in {}", "rents a room in {}", "is based in {}", "calls {} home"],
        TOWNS,
    ),
    "age": (
        ["years", "age_in_years", "how_old"],
        ["turned {} at the weekend", "is aged {}", "is {} now", "was {} at the last birthday", "is {} years old"],
        [21, 26, 31, 36, 39, 44, 49, 53, 56, 61, 69, 72],
    ),
    "job": (
        ["work", "trade", "works_as"],
        ["earns money as a {}", "became a {}", "found work as a {}", "is employed as a {}", "has always been a {}"],
        ["carpenter", "nurse", "painter", "florist", "mechanic", "teacher", "pilot", "butcher", "editor"],
    ),
    "hobby": (
        ["interest", "free_time", "leisure"],
        ["enjoys {}", "took up {}", "does {} after work", "relaxes with {}", "is fond of {}"],
        ["gardening", "sailing", "yoga", "cycling", "quilting", "surfing", "bowling"],
    ),
    "phone": (
        ["mobile", "contact_number", "call_at"],
        ["answers the phone at {}", "gave the number {}", "uses the number {}", "has {} as a phone number"],
        ["555-0427", "555-0186", "0339 5176", "0264 8093", "555-0372"],
    ),
    "month": (
        ["month", "which_month", "in_month"],
        ["arrives in {}", "drops in again in {}", "will be here in {}", "has a meeting in {}"],
        ["April", "June", "August", "October", "December"],
    ),
    "food": (
        ["meal", "to_eat", "menu_item"],
        ["asked for {}", "wants {} for lunch", "eats {} a lot", "picked {} from the menu"],
        ["ramen", "goulash", "porridge", "meatballs", "paella", "falafel", "ravioli"],
    ),
    "colour": (
        ["shade", "colour_name", "tint"],
        ["wears a {} coat", "painted the door {}", "rides a {} bike", "chose {} paint"],
        ["violet", "scarlet", "turquoise", "navy", "ivory", "magenta", "khaki", "bronze"],
    ),
}
PERSON = ["first_name", "guest", "member", "visitor"]
WITH_SCHEMA = [  # {0}: the text; {1}: the schema
    "schema: {1}\ntext: {0}\njson:",
    "Here's a schema: {1} And here's a text: {0} Please give me the matching JSON.",
    "{0} put that in json, heres the schema {1}",
    "Use this JSON schema: {1}\n\nNow do it for: {0}",
    "My form looks like this: {1} Fill it in for me. {0}",
    "can you make json out of this? {0} it has to fit {1}",
    "{1}\n\n{0}\n\nAnswer with JSON that follows the schema above.",
    "{1}\n^ schema. sentence: {0}",
    "Pull the values out of the message and write JSON that is valid for {1}. Message: {0}",
    "fill this schema pls {1} with whats in here: {0}",
    "I got this from a customer: {0} I need it as JSON, the schema being {1}",
    "Convert the note to JSON.\nNote: {0}\nJSON schema: {1}",
    "JSON Schema:\n{1}\n\nInput:\n{0}\n\nOutput:",
    "What object would you return for {1} if the text is this? {0}",
    "{0} What does this look like as JSON with the schema {1}?",
    "Stick to {1} and turn this line into a JSON object: {0}",
    "Reply only with JSON. It must validate against {1}. The text is: {0}",
    "hey can u read this and fill in {1} for me? {0}",
    'Sentence: "{0}"\nSchema: {1}\nJust the JSON please.',
    "Take {1} as the schema. Take this as the text. {0} Write the JSON.",
    "need structured output. schema {1} input {0}",
    "Our API expects {1} as the body. What do I send for this one? {0}",
    "Look at this: {0} Now create an object for the schema {1}",
    "{0}\n---\n{1}\n---\nmake the json for this schema",
    "Only the fields in {1}, nothing more. {0}",
    "Find what the schema asks for and reply in JSON. {1} {0}",
    "Someone left a note on my desk: {0} Could I have it in JSON form? The schema is {1}.",
    "pls convert, schema first then text: {1} {0}",
    "The JSON schema is {1}. The sentence is: {0} What is the JSON?",
    "Get me the data in this shape: {1}\n\n{0}",
    "Dear assistant, kindly complete {1} using this information: {0}",
    "json for {1} from {0}",
    "Read the text and answer in the format of the schema.\n\nText:\n{0}\n\nFormat:\n{1}",
    "i only need json that matches this schema: {1}. the info is in here: {0}",
    "Write a JSON instance of {1} for what follows: {0}",
    "Hi! {0} Can you save this as JSON? It should follow {1}",
    "Which values go into {1} here? {0} Answer in JSON.",
    "data: {0}\nstructure: {1}\nresult as json",
    "I'm testing a parser. The schema is {1} and the line is this. {0} What JSON should come out?",
    "Map this to {1}: {0}",
]
REQUESTS = [  # {0}: the text; the keys are {1}: a, b and c; {2}: a, b, c; {3}: "a", "b", "c"
    "{0} Give me {1} as JSON.",
    "json with {1} from: {0}",
    "Pull {1} out of this note and answer in JSON: {0}",
    "{0}\nkeys: {2}. json only",
    "Read this: {0} Now write a JSON object with {3}.",
    "I need {1} in JSON. {0}",
    "make json: {2}\n{0}",
    "Sentence: {0}\nJSON keys: {2}",
    "what would the json be for {1}? {0}",
    "Could you put {1} into a JSON object? Here is the text: {0}",
    "{0} get me {1}, json pls",
    "Note from the desk: {0} Save {1} as JSON.",
    "Find {1} in the line below and reply with JSON.\n{0}",
    "My database wants JSON with the keys {3}. The entry is: {0}",
    "{0}\n\nOutput: JSON, fields {2}",
    "fields {2}, text: {0} answer as json",
    "Look for {1} in here, then send me JSON: {0}",
    'From "{0}" take {1} and return JSON.',
    "only {1} please, as json. {0}",
    "Convert to a JSON object that has {3}: {0}",
    "i have this text: {0} and i want {1} as json",
    "{0} What is the JSON if I want {1}?",
    "Use the keys {2} and make JSON out of this. {0}",
    "Pick out {1} as JSON: {0}",
    "Please answer with JSON that holds {1}.\n\n{0}",
    '"{0}"\nWrite down {1} in JSON.',
    "JSON ({2}): {0}",
    "Somebody told me this: {0} Can I have {1} as JSON?",
    "grab {1} from this and give json back: {0}",
    "{0}\nReply in JSON with {3} and nothing else.",
    "Collect {1} for me, JSON format. {0}",
    "need a json object, keys {2}, from this sentence: {0}",
    "Here comes a message. {0} Which JSON object with {1} fits it?",
    "For my script: JSON with {3} taken from: {0}",
    "{0} <- json of {1}",
    "Write JSON. Keys: {2}. Text: {0}",
    "Hello, please note {1} as JSON. {0}",
    "Message: {0} Wanted: {2}. Format: JSON.",
    "tell me {1} in json format, it's all in here: {0}",
    "Summarise this as JSON with {1} only: {0}",
]
SUMS = [
    "{}+{} pls",
    "can u do {} + {}",
    "Work out {} + {}.",
    "my calculator died, {} + {}?",
    "Tell me what {} + {} comes to.",
    "evaluate {} + {}",
    "{} + {} gives?",
    "The answer to {} + {}, please.",
    "need {} + {} real quick",
    "Hi there! {} + {}?",
    "Do this sum: {} + {}",
    "answer this: {}+{}",
    "I can't do {} + {} in my head, can you?",
    "so what does {} + {} make",
    "Kindly find {} + {}.",
    "{} + {}, what's the answer?",
    "Homework question one: {} + {}",
    "yo {}+{}",
    "{} plus {}?",
    "Tell me {} plus {}.",
    "can you work out {} plus {} for me",
    "what number is {} plus {}",
    "I'd like to know what {} plus {} is.",
    "My son wonders how much {} plus {} is.",
    "{} plus {} equals what",
    "add {} and {} together",
    "Take {} and add {} to it.",
    "sum up {} and {} please",
    "Find the sum of the numbers {} and {}.",
    "{} and {} added up is?",
    "What's {} and {} altogether?",
    "how much are {} and {} in total",
    "Put {} and {} together, what number is it?",
    "Start with {} and add {}.",
    "whats the sum if the numbers are {} and {}",
    "I want to add {} and {}, what's the answer?",
    "Could you tell me the sum of {} and {}?",
    "add these: {}, {}",
    "There are {} chairs inside and {} outside. Add them up for me.",
    "I paid {} dollars for shoes and {} for a coat. What's the sum?",
]
PAIRS = [
    (25, 71), (91, 16), (64, 36), (94, 12), (73, 86), (49, 44), (88, 71), (81, 17), (52, 26), (11, 23), (48, 60), (34, 76),
    (92, 29), (33, 29), (38, 49), (69, 70), (74, 32), (81, 90), (37, 55), (33, 25), (22, 82), (21, 89), (11, 75), (42, 38),
    (29, 21), (36, 28), (72, 70), (36, 24), (68, 42), (64, 81), (28, 77), (50, 98), (77, 11), (48, 27), (13, 51), (84, 85),
    (43, 31), (81, 77), (82, 24), (66, 66), (55, 71), (32, 97), (68, 83), (41, 37), (34, 37), (51, 55), (31, 60), (82, 90),
    (36, 87), (71, 46), (55, 92), (97, 74), (84, 56), (21, 97), (23, 30), (54, 12), (54, 31), (12, 60), (37, 77), (51, 68),
]  # fmt: skip


def extract(p, talk):
    text, values = described(p)
    keys = keyed(p, values, len(values))
    talk["schema"] = closed({keys[f]: {"type": I if f == "age" else S} for f in keys})
    say(talk, deal(p, WITH_SCHEMA).format(text, json.dumps(talk["schema"])), answer(keys, values))


def by_keys(p, talk):
    """The same without a schema: the request only names the keys."""
    text, values = described(p)
    keys = keyed(p, values, min(3, len(values)))
    plain = list(keys.values())
    request = deal(p, REQUESTS).format(text, listed(plain), ", ".join(plain), ", ".join(f'"{k}"' for k in plain))
    say(talk, request, answer(keys, values))


def described(p):
    """A text about somebody, and the values in it."""
    (who, pronoun), chosen = deal(p, NAMES), p.random.sample(list(FIELDS), p.random.choices([1, 2, 3], [4, 4, 2])[0])
    values = {"name": who} | {f: deal(p, FIELDS[f][2]) for f in chosen}
    parts = [fix(deal(p, FIELDS[f][1]).format(values[f])) for f in chosen]
    first, rest = (parts[:-1], parts[-1:]) if len(parts) > 1 and p.chance(0.3) else (parts, [])
    return " ".join([f"{who} {listed(first)}."] + [f"{pronoun} {part}." for part in rest]), values


def keyed(p, values, most):
    """Up to `most` of the values to ask for, each with the name of its key."""
    return {f: p.any(PERSON if f == "name" else FIELDS[f][0]) for f in p.random.sample(list(values), p.int(1, most))}


def answer(keys, values):
    return json.dumps({key: values[f] for f, key in keys.items()}, ensure_ascii=False)


def listed(parts):
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]


def sums(p, talk):
    a, b = deal(p, PAIRS)
    say(talk, deal(p, SUMS).format(a, b), f"{a} + {b} = {a + b}")


CASES = {"extract": extract, "extract, by keys": by_keys, "sums, two digits": sums}


def shapes():
    """The wordings of this set, without the places where values go; one word, such as "hi", is nobody's own."""
    texts = WITH_SCHEMA + REQUESTS + SUMS + [t for _, said, _ in FIELDS.values() for t in said]
    return {found for t in texts if " " in (found := shape(t))}


if __name__ == "__main__":
    main(CASES, shapes())
