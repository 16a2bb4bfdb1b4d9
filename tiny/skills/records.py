"""Keys and values: looking one up, writing them as JSON, filling them into a template, extracting them from a sentence."""

import json

import words
from talking import fix, say


def record(p):
    """Keys and values nobody has seen together."""
    keys = p.values(FIELDS, p.int(2, 4)) if p.chance(0.7) else [p.pseudo(2) for _ in range(p.int(2, 4))]
    return {k: field_value(p, k) for k in dict.fromkeys(keys)}


FIELDS = """name city colour age code animal fruit job day month hobby size price room drink number food tool street status level team title
material shape weight planet flower owner model key group symbol author""".split()


def field_value(p, key):
    lists = {
        "city": p.city,
        "name": p.name,
        "owner": p.name,
        "author": p.name,
        "colour": lambda: p.slot(words.COLOURS),
        "animal": lambda: p.slot(words.ANIMALS),
        "fruit": lambda: p.slot(words.FRUITS),
        "job": lambda: p.slot(words.JOBS),
        "day": lambda: p.any(words.DAYS),
        "month": lambda: p.any(words.MONTHS),
        "hobby": lambda: p.slot(words.HOBBIES),
        "drink": lambda: p.slot(words.DRINKS),
        "food": lambda: p.slot(words.FOODS),
        "code": p.code,
        "key": p.code,
        "age": lambda: str(p.int(5, 90)),
        "price": lambda: str(p.number(3)),
        "room": lambda: str(p.number(3)),
        "number": lambda: str(p.number(4)),
        "level": lambda: str(p.int(1, 20)),
        "weight": lambda: f"{p.number(2)} kg",
        "material": lambda: p.slot(words.MATERIALS),
    }
    return lists[key]() if key in lists and p.chance(0.8) else p.word()


def lookup(p, talk):
    """Read a named field out of a record."""
    fields = record(p)
    key = p.any(list(fields))
    lines = p.any(["\n", "; ", ", "]).join(p.any(["{}: {}"]).format(k, v) for k, v in fields.items())
    say(
        talk,
        p.template(
            [
                "{}\nWhat is the {}?",
                "{}\nGive me the {}.",
                "Here is a record: {}\nWhat is the {}?",
                "{}\nTell me the {}.",
                "{}\nWhich {}?",
                "Look: {}\nWhat is the value of {}?",
                "{}\nRead out the {}.",
                "{}\nI need the {}.",
                "{}\nWhat does it say for {}?",
                "In this record, {}: what is the {}?",
                "{}\nFind the {}.",
                "{}\nSay the {}.",
                "From this, {}, take the {}.",
            ]
        ).format(lines, key),
        fields[key],
    )


def form(p, talk):
    """Fill the holes of a template."""
    values = {k: field_value(p, k) for k in p.values(FIELDS, p.int(1, 3))}
    text = p.any(
        [
            "Dear {0}, your {1} is ready.",
            "Hello {0}, welcome to {1}.",
            "The {0} is in {1} on {2}.",
            "Order {0}: {1} for {2}.",
            "{0} likes {1}.",
            "Meet {0} at the {1}.",
            "{0}, {1} and {2} are here.",
            "We have {0} and {1}.",
            "Room {0} is for {1}.",
            "Thank you, {0}.",
            "I am {0}.",
            "{0} goes to {1}.",
            "Send {0} to {1}.",
            "{0} costs {1}.",
        ]
    )
    keys = list(values)
    n = text.count("{")
    while len(keys) < n:
        key = p.value(FIELDS)
        if key not in values:
            values[key] = field_value(p, key)
            keys.append(key)
    keys = keys[:n]
    hole = p.any(["{{{}}}", "[{}]", "<{}>"])
    holes = text.format(*(hole.format(k) for k in keys))
    shown = keys[:]
    p.random.shuffle(shown)
    say(
        talk,
        p.template(
            [
                "Fill in the template: {0}\n{1}",
                "Fill in: {0}\n{1}",
                "Complete this template: {0}\nValues: {1}",
                "Template: {0}\n{1}",
                "Put the values into the text: {0}\n{1}",
            ]
        ).format(holes, ", ".join(f"{k} = {values[k]}" for k in shown)),
        text.format(*(values[k] for k in keys)),
    )


# how a field is said in a sentence about {who}
NOW = "(|||now |still |today |also |currently )"
SAID = {
    "city": (
        "string",
        lambda p: p.city(),
        [
            f"{NOW}(lives|works|sleeps|has a house|has a flat|was born|stays|is at home) in {{}}",
            "(is|comes) from {}",
            "(moved|went|came|is going) to {}",
        ],
    ),
    "age": (
        "integer",
        lambda p: p.int(5, 99),
        [
            f"{NOW}is {{}}( years old| years of age|)",
            "(has turned|turned|has just turned|became) {}( now| this year|)",
            "(has reached|is at) the age of {}",
        ],
    ),
    "job": (
        "string",
        lambda p: p.slot(words.JOBS),
        [
            f"{NOW}(works as|is|has a job as|earns money as|is paid as) a {{}}",
            "(became|has found work as|wants to stay|was trained as|makes a living as) a {}",
        ],
    ),
    "hobby": (
        "string",
        lambda p: p.slot(words.HOBBIES),
        [
            f"{NOW}(enjoys|likes|loves|is fond of|prefers|practises) {{}}",
            "spends (the weekend|every evening|the summer|free hours|all day) with {}",
        ],
    ),
    "colour": (
        "string",
        lambda p: p.slot(words.COLOURS),
        [
            f"{NOW}(likes|loves|prefers|wears|chose) the colour {{}}",
            "(wears|paints everything|dresses in|paints the house) {}",
        ],
    ),
    "pet": (
        "string",
        lambda p: p.slot(words.ANIMALS),
        [
            f"{NOW}(has|keeps|owns|feeds|walks|looks after|lives with) a {{}}",
            "(bought|found|was given|takes care of) a {}",
        ],
    ),
    "phone": (
        "string",
        lambda p: "".join(str(p.int(0, 9)) for _ in range(p.int(4, 7))),
        [
            f"{NOW}(has|uses|gave|answers) the (phone number|number|telephone number|phone) {{}}",
            "can be (called|reached|phoned) (at|on|under) {}",
        ],
    ),
    "day": (
        "string",
        lambda p: p.any(words.DAYS),
        [
            f"{NOW}(comes|arrives|is free|is here|leaves|returns|starts|calls) on {{}}",
            "is (here|away|free|busy) (every|next|this) {}",
        ],
    ),
    "food": (
        "string",
        lambda p: p.slot(words.FOODS),
        [
            f"{NOW}(eats|orders|cooks|wants|buys|likes to eat|asks for|makes) {{}}",
            "(always|often|never) (eats|orders|wants|cooks) {}",
        ],
    ),
}
SYNONYMS = {
    "name": ["name", "name", "person", "customer"],
    "city": ["city", "city", "town", "location", "place", "home"],
    "age": ["age", "age", "years", "how_old"],
    "job": ["job", "job", "profession", "work", "occupation"],
    "hobby": ["hobby", "hobby", "interest", "pastime"],
    "colour": ["colour", "colour", "color", "favourite_colour"],
    "pet": ["pet", "pet", "animal", "pet_kind"],
    "phone": ["phone", "phone", "phone_number", "number", "telephone"],
    "day": ["day", "day", "weekday", "date", "day_of_week"],
    "food": ["food", "food", "dish", "meal"],
}


OWNERS = "user client my person main current new guest member first other".split() + words.KEPT


def key_for(p, field):
    """A key for the field; held out are all those that begin with the last words of OWNERS."""
    key = p.any(SYNONYMS[field])
    if not p.held and p.chance(0.5):
        return p.renamed(key)
    return f"{p.template(OWNERS)}_{key}" if p.held or p.chance(0.3) else key


WITH_SCHEMA = [
    "(extract|give|return|write|produce|make) (JSON|the JSON|a JSON object) (for|that fits|after|by|following) (this|the) schema: {1}\n(text: |sentence: |from: |){0}",
    "{0}\n(answer in JSON for the schema|return JSON for|JSON for this schema:|schema:|use this schema:|fill this schema:|as JSON with the schema) {1}",
    "(JSON schema|schema|the schema): {1}\n(text|sentence|input|from this): {0}(\nJSON:|\nanswer in JSON.|)",
    "(text|sentence|input): {0}\n(JSON schema|schema): {1}(\nJSON:|\nanswer in JSON.|)",
    "(fill|use|follow|obey) (this|the) schema: {1}\n(from|text|sentence|for): {0}",
    "extract the fields of the schema (from the text|from the sentence|).\n(schema: ){1}\n(text: |){0}",
    "{0}\n(I need|I want|we need|give me|send me|return|show me) (that|this|it|the facts|the data|the details) (as|in|like) (JSON like this|this JSON|this"
    " form|this schema|the schema)(:|) {1}",
    "{0}( |\n)(make|build|write|create|produce|give) (a|the|one|some) (JSON object|JSON|object|json) (for|from|of|out of) (it|that|this)(, schema|,"
    " following|, it must match| matching| according to| that matches| that obeys)(:|) {1}",
    "{0}( |\n)(turn|put|convert|parse|bring|map) (it|this|that|the text) (into|to) (this|the|my) (schema|shape|format|structure|form)(, please|"
    " pls||, thanks)(:|) {1}",
    "(turn|put|convert|parse|bring|map|get) (this|the following|the text|my text|what I say) (into|to) (this|the|my) (schema|shape|format|structure|form):"
    " {1}( |\n)(text: |here: |it is: |message: |){0}",
    "(my|our|the|this) (app|form|table|database|script|program|boss|tool) (needs|wants|takes|expects|reads) (JSON|json|data|objects) (like|of|by|for|with)"
    " (this|this schema|the schema)(:|) {1}( |\n)(text: |so for: |from: |here is the text: |please do: |){0}",
    "(what|which) (values|facts|fields|data) (does the text|do you find here to|are there to|can you see to) (give|fill|put in) for (this|the) schema"
    " {1}(\n|? ){0}",
    "(read|look at|see|check|take|study) (this|the text|the sentence|the message)(:| -) {0}\n(then |now |and |)(fill in|fill|answer by|follow|complete|use)"
    " (the schema|this|this schema|that form)(:|) {1}",
    "(schema|form|format|structure|template|shape|spec)(:| =) {1}\n(fill it|fill it in|apply it to|use it|do it|complete it) (with|for|on|from)(:|) {0}",
    "(here is|this is|I have|take) (a schema|the schema|my schema|a JSON schema)(:|) {1}\n(and |)(a|the|my|here is the) (text|sentence|message|note):"
    " {0}(\ngive the JSON|\nanswer|\nwhat is the JSON|)(.|)",
    "(json|JSON) (pls|please|only|now|by schema|for schema)( -|:|,|) {1}( |\n)(text |from |message |)(- |: |){0}",
    "{0} -> {1}",
    "{0}\n{1}(\nanswer|\nJSON|\nobject|)(:|)",
    "{1}\n{0}(\nanswer|\nJSON|\nobject|)(:|)",
    "(could you|can you|would you|please|will you) (read|take|parse|go through) (this|the note|the text below) and (give|return|send back|write) (only"
    " |just |)(the |)(JSON|object) (of|for|in) (the schema|this schema)(:|) {1}\n{0}",
    "(no talk|no comments|only JSON|JSON and nothing else|nothing but JSON|do not explain)(.|,|:) (schema|by this|fill) {1}( |\n)(text: |from: |in: |){0}",
    "(pull|get|dig|pick|read|take) (the values|what is asked|what you need|everything|the answers) (out of|from) (this|the text|the sentence)(: | - ){0}( |\n)(by|as|for|in)"
    " (the schema|JSON, schema|schema) {1}",
]
WITH_KEYS = [
    "(extract|pull out|find|return|give me|write|get|read out) {1} (as|in) JSON(| from this| from the text| from this sentence): {0}",
    "{0}\n(give me|extract|return|find|write|I need|get) {1} (as|in) JSON.",
    "{0} (JSON with|as JSON:|give JSON with) {1}(, please|).",
    "(JSON with|JSON of|as JSON with|in JSON) {1}: {0}",
    "(text|sentence|input): {0}\n(fields|keys): {1}\nJSON:",
    "(extract|find|return) the (fields|keys|values) {1} (from this sentence |from the text |)as JSON: {0}",
]


def extract(p, talk):
    who_is = p.name() if p.chance(0.8) else f"{p.name()} {p.any(words.SURNAMES)}"
    chosen = p.random.sample(list(SAID), p.random.choices([1, 2, 3], [5, 3, 2])[0])
    values = {"name": who_is} | {f: SAID[f][1](p) for f in chosen}
    parts = [fix(p.wording(SAID[f][2]).format(values[f])) for f in chosen]
    parts = [part[0].lower() + part[1:] for part in parts]
    text = who_is + " " + (parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]) + "."
    asked = p.random.sample(list(values), p.int(1, len(values)))
    keys = {f: key_for(p, f) for f in asked}
    schema = {
        "type": "object",
        "properties": {keys[f]: {"type": "integer" if f == "age" else "string"} for f in asked},
        "required": list(keys.values()),
    }
    answer = json.dumps({keys[f]: values[f] for f in asked}, ensure_ascii=False)
    closed = schema | {"additionalProperties": False}
    if p.chance(0.3):
        schema = closed
    if p.chance(0.5):
        question = p.wording(WITH_SCHEMA).format(text, json.dumps(schema))
    else:
        listed = list(keys.values())
        last = p.any([", ", " and "]).join(listed[-2:])
        question = p.wording(WITH_KEYS).format(text, ", ".join([*listed[:-2], last]))
    talk["schema"] = closed
    say(talk, question, answer)


def make_json(p, talk):
    fields = record(p)
    fields = {k: int(v) if v.isdigit() and str(int(v)) == v else v for k, v in fields.items()}
    say(
        talk,
        p.template(
            [
                "Write as JSON: {}",
                "Make JSON of this: {}",
                "As JSON, please: {}",
                "Turn this into JSON: {}",
                "Convert to JSON: {}",
            ]
        ).format(p.any(["; ", ", ", "\n"]).join(f"{k}{p.any([': ', ' = ', ' is '])}{v}" for k, v in fields.items())),
        json.dumps(fields),
    )
