"""Tool calling: kinds of tools people write, with many names for each, and tools nobody has ever written.

A tool is drawn anew every time: another name, other words for its parameters, some of them optional, beside others that do not fit. So
the only way to call it is to read its definition. Results are read back by one plain rule: "The key is value." for each of them.
"""

import json

import words
from skills import errands, itself, numbers, records, repeating
from talking import assistant, bare, call, result, user


# Every kind: names, what it does, parameters (names, type, what it is, how to draw a value), requests (the optional parameters' words apart), result
def weather_result(p, a):
    return {"temperature": p.int(-10, 35), "sky": p.any("sunny cloudy rainy windy snowy clear foggy".split())}


KINDS = {
    "weather": dict(
        names="get_weather get_current_weather weather current_weather fetch_weather weather_now get_forecast check_weather look_up_weather".split(),
        does=[
            "Get the weather in a city",
            "Get the current weather in a given location",
            "Get the current weather",
            "Current weather of a place",
            "Look up the weather",
            "Returns the weather for a location",
        ],
        parameters=[("location city place town where".split(), "string", "The city", lambda p: p.city(0.3))],
        optional=("unit units scale temperature_unit".split(), ["celsius", "fahrenheit"], [" in {}", " (in {})"]),
        asks=[
            "What is the weather in {0}?",
            "What is the current weather in {0}?",
            "What is the weather like in {0}?",
            "What is the weather like today in {0}?",
            "How is the weather in {0}?",
            "Weather in {0}?",
            "Tell me the weather in {0}.",
            "What's the weather like in {0}?",
            "Is it warm in {0}?",
            "Do I need a coat in {0}?",
        ],
        gives=weather_result,
    ),
    "time": dict(
        names="get_time current_time time_in world_clock clock local_time what_time".split(),
        does=["Get the current time in a city", "Local time of a place", "Tells the time", "What time it is somewhere"],
        parameters=[("city location place timezone town".split(), "string", "The city", lambda p: p.city())],
        asks=[
            "What time is it in {0}?",
            "Tell me the time in {0}.",
            "Time in {0}?",
            "How late is it in {0}?",
            "What is the local time in {0}?",
        ],
        gives=lambda p, a: {"time": f"{p.int(0, 23)}:{p.int(10, 59)}"},
    ),
    "email": dict(
        names="send_email send_mail email mail_send write_email send_message compose_email".split(),
        does=["Send an email", "Sends a mail to somebody", "Write a message to a person", "Mail a text"],
        parameters=[
            ("to recipient receiver address person".split(), "string", "Who gets it", lambda p: p.name()),
            ("body text message content".split(), "string", "What it says", lambda p: phrase(p)),
        ],
        asks=[
            "Send {0} an email saying {1}",
            "Email {0}: {1}",
            "Write to {0}: {1}",
            "Send a mail to {0} that says {1}",
            "Tell {0} by email: {1}",
            "Mail {0} the text {1}",
        ],
        gives=lambda p, a: {"status": "sent"},
    ),
    "timer": dict(
        names="set_timer start_timer timer new_timer create_timer countdown".split(),
        does=["Start a timer", "Sets a timer", "Count down some minutes", "Create a timer"],
        parameters=[
            (
                "minutes duration length minutes_from_now mins".split(),
                "integer",
                "How many minutes",
                lambda p: p.int(1, 90),
            )
        ],
        asks=[
            "Set a timer for {0} minutes.",
            "Start a timer of {0} minutes.",
            "Timer for {0} minutes, please.",
            "Wake me in {0} minutes.",
            "Remind me in {0} minutes.",
            "Count down {0} minutes.",
        ],
        gives=lambda p, a: {"status": "started"},
    ),
    "music": dict(
        names="play_song play_music play start_song music_play play_track".split(),
        does=["Play a song", "Plays music", "Start a track", "Play something"],
        parameters=[("song title track name piece".split(), "string", "The song", lambda p: title(p))],
        asks=[
            "Play {0}.",
            "Please play {0}.",
            "I want to hear {0}.",
            "Put on {0}.",
            "Start the song {0}.",
            "Let me hear {0}.",
        ],
        gives=lambda p, a: {"status": "playing"},
    ),
    "currency": dict(
        names="convert_currency exchange currency_convert convert_money exchange_money money_exchange".split(),
        does=[
            "Convert money from one currency to another",
            "Exchange an amount",
            "Currency conversion",
            "Convert an amount of money",
        ],
        parameters=[
            ("amount value sum quantity".split(), "number", "How much", lambda p: p.int(1, 999)),
            ("from source from_currency base".split(), "string", "Currency to convert from", lambda p: currency(p)),
            ("to target to_currency into".split(), "string", "Currency to convert to", lambda p: currency(p)),
        ],
        asks=[
            "Convert {0} {1} to {2}.",
            "How much is {0} {1} in {2}?",
            "Change {0} {1} into {2}.",
            "Exchange {0} {1} to {2}.",
            "What are {0} {1} in {2}?",
        ],
        gives=lambda p, a: {"result": p.int(1, 2000)},
    ),
    "order": dict(
        names="get_order order_status track_order lookup_order check_order find_order".split(),
        does=["Look up an order", "Status of an order", "Where an order is", "Track an order by its number"],
        parameters=[
            ("order_id id number order order_number".split(), "string", "The order number", lambda p: p.code())
        ],
        asks=[
            "Where is order {0}?",
            "What is the status of order {0}?",
            "Track order {0}.",
            "Look up my order {0}.",
            "Has order {0} arrived?",
            "Find order {0}.",
        ],
        gives=lambda p, a: {"status": p.any("shipped pending delivered lost packed".split())},
    ),
    "light": dict(
        names="set_light switch_light light_control lamp toggle_light control_lamp".split(),
        does=["Switch a light", "Turn a light on or off", "Control the lamps", "Lights of the house"],
        parameters=[
            ("room place location where".split(), "string", "Which room", lambda p: p.slot(words.PLACES)),
            ("state action mode value".split(), ["on", "off"], "On or off", None),
        ],
        asks=[
            "Turn {1} the light in the {0}.",
            "Switch {1} the lamp in the {0}.",
            "Light {1} in the {0}, please.",
            "Turn the {0} light {1}.",
            "In the {0}, turn {1} the light.",
        ],
        gives=lambda p, a: {"status": "done"},
    ),
    "translate": dict(
        names="translate translate_text translation get_translation translator".split(),
        does=[
            "Translate a text",
            "Translates into another language",
            "Text in another language",
            "Translation of a word",
        ],
        parameters=[
            ("text word sentence content phrase".split(), "string", "What to translate", lambda p: p.noun()),
            (
                "language target to lang target_language".split(),
                "string",
                "Into which language",
                lambda p: p.any("German French Spanish Italian Turkish Polish Dutch Greek Swedish".split()),
            ),
        ],
        asks=[
            "Translate {0} into {1}.",
            "How do you say {0} in {1}?",
            "What is {0} in {1}?",
            "Say {0} in {1}.",
            "Give me the {1} word for {0}.",
        ],
        gives=lambda p, a: {"translation": p.pseudo(2)},
    ),
    "search": dict(
        names="search web_search search_web find google look_up query".split(),
        does=["Search the web", "Finds pages about something", "Web search", "Look something up"],
        parameters=[
            (
                "query q text term search_term".split(),
                "string",
                "What to search for",
                lambda p: f"{p.mostly(words.ADJECTIVES)} {p.noun()}" if p.chance(0.6) else p.word(),
            )
        ],
        asks=[
            "Search for {0}.",
            "Search the web for {0}.",
            "Look up {0}.",
            "Find pages about {0}.",
            "Find {0} on the web.",
            "Do a search for {0}.",
        ],
        gives=lambda p, a: {"results": p.int(1, 900)},
    ),
    "book_table": dict(
        names="book_table reserve_table book_restaurant reserve table_booking make_reservation".split(),
        does=["Book a table", "Reserve a table in a restaurant", "Restaurant booking", "Make a reservation"],
        parameters=[
            ("guests people persons party_size".split(), "integer", "How many guests", lambda p: p.int(1, 12)),
            ("day date when weekday".split(), "string", "Which day", lambda p: p.any(words.DAYS)),
        ],
        asks=[
            "Book a table for {0} on {1}.",
            "Reserve a table for {0} people on {1}.",
            "I need a table for {0} on {1}.",
            "On {1} we are {0}: book a table.",
            "A table for {0} on {1}, please.",
        ],
        gives=lambda p, a: {"booking": p.code()},
    ),
    "add": dict(
        names="add sum add_numbers plus calculate_sum addition".split(),
        does=["Add two numbers", "Sum of two numbers", "Adds numbers", "Calculate a sum"],
        parameters=[
            ("a x first left".split(), "number", "The first number", lambda p: p.number(4)),
            ("b y second right".split(), "number", "The second number", lambda p: p.number(4)),
        ],
        asks=[
            "Add {0} and {1}.",
            "What is {0} plus {1}?",
            "Sum {0} and {1}.",
            "Use the tool to add {0} and {1}.",
            "How much is {0} + {1}?",
        ],
        gives=lambda p, a: {"result": sum(a)},
    ),
    "stock": dict(
        names="get_price stock_price price_of product_price check_price lookup_price".split(),
        does=["Get the price of a product", "Price of an article", "What something costs", "Look up a price"],
        parameters=[
            ("product item article thing name".split(), "string", "The product", lambda p: p.slot(words.THINGS))
        ],
        asks=[
            "What does a {0} cost?",
            "How much is a {0}?",
            "Price of a {0}?",
            "What is the price of a {0}?",
            "Tell me the price of a {0}.",
        ],
        gives=lambda p, a: {"price": p.int(1, 500)},
    ),
    "task": dict(
        names="add_task create_task new_todo add_todo todo_add create_todo".split(),
        does=["Add a task to the list", "Create a task", "Put something on the todo list", "New todo"],
        parameters=[
            (
                "title task text name todo".split(),
                "string",
                "What to do",
                lambda p: f"{p.any('buy clean fix find sell paint wash bring'.split())} the {p.mostly(words.THINGS)}",
            )
        ],
        optional=("priority urgency level".split(), ["high", "medium", "low"], [" with {} priority", " ({} priority)"]),
        asks=[
            "Add {0} to my list",
            "Add the task {0}",
            "Put {0} on my todo list",
            "New task: {0}",
            "Note as a task: {0}",
        ],
        gives=lambda p, a: {"status": "added"},
    ),
    "user": dict(
        names="get_user find_user user_info lookup_user get_customer find_customer".split(),
        does=["Find a user", "Information about a user", "Look up a customer", "Get a user by name"],
        parameters=[("name username user customer user_name".split(), "string", "The user's name", lambda p: p.name())],
        asks=[
            "Find the user {0}.",
            "Look up the user {0}.",
            "Who is the user {0}?",
            "Give me the data of {0}.",
            "Get the customer {0}.",
        ],
        gives=lambda p, a: {"email": f"{p.pseudo(1)}@{p.pseudo(2)}.com"},
    ),
    "room": dict(
        names="set_temperature thermostat heat set_heating heating_control".split(),
        does=["Set the temperature of a room", "Heats a room", "Control the heating", "Thermostat of a room"],
        parameters=[
            ("room place area where".split(), "string", "Which room", lambda p: p.slot(words.PLACES)),
            ("degrees temperature value target".split(), "integer", "How warm", lambda p: p.int(10, 28)),
        ],
        asks=[
            "Heat the {0} to {1} degrees.",
            "Set the {0} to {1} degrees.",
            "Make it {1} degrees in the {0}.",
            "I want {1} degrees in the {0}.",
            "Warm the {0} to {1} degrees.",
        ],
        gives=lambda p, a: {"status": "done"},
    ),
    "dice": dict(
        names="roll_dice dice roll throw_dice random_number".split(),
        does=["Roll dice", "Throws dice", "A random number", "Roll some dice"],
        parameters=[
            ("sides faces max n".split(), "integer", "How many sides", lambda p: p.any([4, 6, 8, 10, 12, 20, 100]))
        ],
        asks=[
            "Roll a dice with {0} sides.",
            "Throw a dice of {0} sides.",
            "Roll a {0} sided dice.",
            "Give me a dice roll, {0} sides.",
        ],
        gives=lambda p, a: {"roll": p.int(1, a[0])},
    ),
    "define": dict(
        names="define dictionary definition word_meaning get_definition look_up_word".split(),
        does=["Define a word", "Meaning of a word", "Dictionary", "Look up a word in the dictionary"],
        parameters=[("word term entry".split(), "string", "The word", lambda p: p.word())],
        asks=[
            "Define {0}.",
            "What does {0} mean?",
            "Look up the word {0}.",
            "Find the meaning of {0}.",
            "What is the meaning of {0}?",
        ],
        gives=lambda p, a: {"meaning": f"{p.any(['a', 'the'])} {p.mostly(words.ADJECTIVES)} {p.mostly(words.THINGS)}"},
    ),
    # the last four are never trained on
    "flight": dict(
        names="find_flight search_flights flights book_flight".split(),
        does=["Find a flight", "Search flights between cities", "Flights from one city to another"],
        parameters=[
            ("from origin departure start".split(), "string", "City of departure", lambda p: p.city()),
            ("to destination arrival".split(), "string", "City of arrival", lambda p: p.city()),
        ],
        asks=[
            "Find a flight from {0} to {1}.",
            "I want to fly from {0} to {1}.",
            "Flights from {0} to {1}?",
            "Search a flight from {0} to {1}.",
        ],
        gives=lambda p, a: {"flight": p.code()},
    ),
    "volume": dict(
        names="set_volume volume change_volume".split(),
        does=["Set the volume", "How loud the music is", "Change the volume"],
        parameters=[("level volume percent value".split(), "integer", "How loud, 0 to 100", lambda p: p.int(0, 100))],
        asks=["Set the volume to {0}.", "Volume {0}, please.", "Change the volume to {0}.", "Make the volume {0}."],
        gives=lambda p, a: {"status": "done"},
    ),
    "calendar": dict(
        names="add_event create_event new_event calendar_add".split(),
        does=["Add an event to the calendar", "Create an event", "Put something in the calendar"],
        parameters=[
            (
                "title event name".split(),
                "string",
                "What it is",
                lambda p: p.noun() + " " + p.any(["party", "meeting", "lesson"]),
            ),
            ("day date weekday".split(), "string", "Which day", lambda p: p.any(words.DAYS)),
        ],
        asks=[
            "Add the event {0} on {1}.",
            "Put {0} in my calendar on {1}.",
            "Create the event {0} on {1}.",
            "{0} is on {1}: add it to my calendar.",
        ],
        gives=lambda p, a: {"status": "added"},
    ),
    "door": dict(
        names="lock_door door_lock set_lock".split(),
        does=["Lock or unlock a door", "Control a door", "The locks of the doors"],
        parameters=[
            ("door which place".split(), "string", "Which door", lambda p: p.slot(words.PLACES)),
            ("action state".split(), ["lock", "unlock"], "What to do", None),
        ],
        asks=[
            "Please {1} the {0} door.",
            "{1} the door of the {0}.",
            "The {0} door: {1} it.",
            "Can you {1} the door in the {0}?",
        ],
        gives=lambda p, a: {"status": "done"},
    ),
}
# more ways to ask for the kinds that are trained on, as patterns
DO = (
    "(||||please |can you |could you |I want you to |now |would you |will you |I need you to |go and |help me and |be so kind and |you should |try to "
    "|I would like you to |it is time to |just |quickly |kindly |do |let us |I ask you to |your task: |next, |tiny, |I have to |I want to |we need to )"
)
MORE = {
    "weather": [
        "(|so |and |now |tell me, )(what is|how is|what's|what will be) the (weather|forecast|temperature)( like|)( today| now| tomorrow|) in {0}",
        "(is it|will it be) (cold|warm|sunny|rainy|windy|hot|raining|snowing) in {0}( today| now|)",
        DO + "(check|get|find|look up|fetch|tell me) the (weather|forecast) (in|for|of) {0}",
    ],
    "time": [
        "(|so |and |tell me, )(what time is it|what is the time|how late is it|what is the local time|what hour is it) in {0}( now|)",
        DO + "(check|get|find|look up|tell me) the (time|local time|clock) (in|for|of) {0}",
    ],
    "email": [
        DO + "(send|write) (an email|a mail|a message|a letter) to {0} (saying|that says|with the text|with) {1}",
        DO + "(email|mail|write) {0} (the text|the message|the words) {1}",
        DO + "(let {0} know by email|tell {0} by mail|inform {0} by email): {1}",
    ],
    "timer": [
        DO + "(set|start|begin|create|make) a (timer|countdown|clock) (for|of|with) {0} minutes",
        DO + "(wake me|remind me|call me|ring) (in|after) {0} minutes",
        "(timer|countdown|a timer): {0} minutes",
    ],
    "music": [
        DO + "(play|put on|start|let me hear) (|the song |the track |the piece |something called ){0}",
        "(I want to hear|I would like to hear|I feel like hearing|music please:) {0}",
    ],
    "currency": [
        DO + "(convert|change|exchange|turn) {0} {1} (to|into) {2}",
        "(how much|what) (is|are|would be|makes) {0} {1} in {2}",
        "(I have|I want to change|I need to exchange) {0} {1}(, how many {2} is that| into {2}| to {2})",
    ],
    "order": [
        "(|so |and )(where is|what about|what is the status of|what happened to|how is) (|my |the )order {0}( now|)",
        DO + "(track|check|look up|find|follow) (|my |the )order {0}",
        "(has|did) (|my |the )order {0} (arrived|arrive|been sent|been shipped)",
    ],
    "light": [
        DO + "(turn|switch) {1} the (light|lights|lamp|lamps) (in|of) the {0}",
        DO + "(turn|switch) the (light|lights|lamp) (in|of) the {0} {1}",
        "(light|lamp|lights) {1} in the {0}( now| please|)",
    ],
    "translate": [
        DO + "(translate|put|turn|render) {0} (into|to) {1}",
        "(how do you say|what is|how do I say|what do they call) {0} in {1}",
        "(what is the|give me the|I need the|tell me the) {1} (word|translation) (for|of) {0}",
    ],
    "search": [
        DO
        + "(search for|look for|search the web for|google|find pages about|look up|find something about|find articles on) {0}",
        "(I am looking for|I want to read about|search:|what can you find about) {0}",
    ],
    "book_table": [
        DO + "(book|reserve|get|order) a table for {0}( people| persons| guests|) on {1}",
        "(I need|I want|we need|I would like) a table for {0}( people| guests|) on {1}",
        "(on {1} we are|on {1} we come with|we are coming on {1} with) {0}( people|)(, book a table|: reserve a table)",
    ],
    "add": [
        DO + "(add|sum|add up|total) {0} and {1}",
        "(what is|how much is|calculate|what makes) {0} (plus|and|+) {1}",
        "(what is|give me|tell me) the (sum|total) of {0} and {1}",
    ],
    "stock": [
        "(|so |and )(what does|how much does) (a|the|one) {0} cost( today| now|)",
        DO + "(tell me|check|find|get|look up) the price of (a|the|one) {0}",
        "(how much is|what is the price of|what do I pay for) (a|the|one) {0}",
    ],
    "task": [
        DO + "(add|put|write|note) {0} (to|on|in) (my|the) (list|todo list|tasks|task list)",
        "(new task|todo|task|remind me of this task|one more task): {0}",
        "(I must|I have to|I need to) remember to {0}: add it",
    ],
    "user": [
        DO
        + "(find|look up|get|search for|show me|open) (the user|the customer|the account of|the data of|the record of) {0}",
        "(who is|what do we know about|what is known about) (the user|the customer) {0}",
    ],
    "room": [
        DO + "(heat|set|warm|bring|cool) the {0} to {1} degrees",
        "(I want|make it|I would like|we need|set) {1} degrees in the {0}",
        "(the {0} should have|the {0} should be at|in the {0} I want) {1} degrees",
    ],
    "dice": [
        DO + "(roll|throw|cast) a (dice|die) (with|of) {0} sides",
        DO + "(roll|throw) a {0} sided (dice|die)",
        "(give me|I need|I want) a (roll|throw) of a (dice|die) with {0} sides",
    ],
    "define": [
        DO + "(define|look up|explain|find the meaning of) (|the word |the term ){0}",
        "(what does|what is the meaning of|what is meant by) (|the word ){0}( mean|)",
    ],
}
for name, more in MORE.items():
    KINDS[name]["more"] = more

HELD = list(KINDS)[-4:]


def phrase(p):
    return p.template(
        [
            "I am late",
            "see you on {d}",
            "the {t} is ready",
            "please bring the {t}",
            "thank you",
            "we meet at the {w}",
            "happy birthday",
            "call me back",
            "I found your {t}",
        ]
    ).format(d=p.any(words.DAYS), t=p.mostly(words.THINGS), w=p.mostly(words.PLACES))


def title(p):
    return " ".join(
        w.capitalize()
        for w in p.any(
            [
                [p.mostly(words.ADJECTIVES), p.mostly(words.PLACES)],
                ["the", p.mostly(words.COLOURS), p.mostly(words.THINGS)],
                [p.word()],
                [p.mostly(words.COLOURS), p.mostly(words.PLACES)],
            ]
        )
    )


def currency(p):
    return p.value("EUR USD GBP JPY CHF SEK NOK DKK PLN CZK euros dollars pounds yen francs crowns".split())


MADE_VERBS = """open close check send find count move clean print copy save lock start stop load mark pack paint read ring scan test wash weigh
archive bake bind boil book build burn buy call carry catch charge choose climb collect cook cover cut deliver describe draw drop dry empty
feed fetch file fill fix fold freeze grind guard hang heat hide hold hunt join label lift list mend merge mix mount order park pick plant
press publish pull push rank record refresh rent repair reset roll rotate sell shake share show shrink sign sort split stack store stretch
sync tag taste throw tie trade train trim turn update upload visit wake warm water wrap zip""".split()


def made_up(p):
    """A tool from nowhere: a verb, a thing, one to three parameters."""
    verb = p.value(MADE_VERBS) if p.chance(0.75) else p.pseudo(1)
    thing = p.noun() if p.chance(0.6) else p.pseudo(2)
    keys = p.values(records.FIELDS, p.random.choices([1, 2, 3], [5, 3, 1])[0]) if p.chance(0.8) else [p.pseudo(2)]
    parameters = []
    for key in keys:
        if not p.held and p.chance(0.3):
            key = p.renamed(key) if p.chance(0.6) else p.any([*words.TOOLISH, p.pseudo(2)])
        if key in [names[0] for names, *_ in parameters]:
            continue
        if p.chance(0.25):
            enum = list(dict.fromkeys(p.word() for _ in range(p.int(2, 3))))
            parameters.append(([key], enum, "One of the list", None))
        elif p.chance(0.25):
            parameters.append(([key], p.any(["integer", "integer", "number"]), f"The {key}", lambda p: p.number(3)))
        elif not p.held and p.chance(0.08):
            parameters.append(([key], "boolean", f"Whether {key}", lambda p: p.chance(0.5)))
        else:
            parameters.append(([key], "string", f"The {key}", lambda p, key=key: records.field_value(p, key)))
    keys = [names[0] for names, *_ in parameters]
    said = [k.replace("_", " ") if p.chance(0.5) else k for k in keys]
    with_ = p.any([" and ", ", "]).join(f"{k}{p.any([' ', ' ', ': ', ' = '])}{{{i}}}" for i, k in enumerate(said))
    name = p.any([f"{verb}_{thing}", f"{verb}_the_{thing}", f"{thing}_{verb}", f"{verb}{thing.capitalize()}"])
    if not p.held and p.chance(0.15):
        name = p.any([p.pseudo(2), p.word(), f"tool_{p.int(1, 99)}"]).replace(
            " ", "_"
        )  # what it does is told by the description alone
    return dict(
        names=[name],
        does=[f"{verb.capitalize()} a {thing}", f"{verb.capitalize()} the {thing}", f"To {verb} a {thing}"],
        parameters=parameters,
        asks=p.any(
            [
                [f"Please {verb} the {thing} with {with_}."],
                [f"{verb.capitalize()} the {thing}, {with_}."],
                [f"I want to {verb} a {thing}: {with_}"],
                [f"Can you {verb} the {thing} with {with_}?"],
                *(made_requests(p, verb, thing, with_, len(keys)) if not p.held else []),
            ]
        ),
        gives=lambda p, a: p.any(
            [
                {"status": p.any(["done", "ok", "failed"])},
                {p.value(records.FIELDS): p.word()},
                {"id": p.number(4)},
                {"status": "ok", "id": p.code()},
            ]
        ),
    )


def made_requests(p, verb, thing, with_, n):
    """More ways to ask for it, in training alone."""
    texts = [
        f"The {thing}: {verb} it with {with_}.",
        f"{with_}: {verb} the {thing}.",
        f"{verb} {thing} {with_}",
        f"With {with_}, {verb} the {thing}, please.",
        f"I need to {verb} the {thing}. {with_}.",
        f"It is time to {verb} the {thing}: {with_}",
        f"Use {with_} and {verb} my {thing}.",
        f"Now {verb} a {thing} that has {with_}.",
    ]
    if n == 1:
        texts += [
            f"Please {verb} the {thing}: {{0}}",
            f"{verb.capitalize()} the {thing} {{0}}.",
            f"{{0}}: {verb} that {thing}!",
        ]
    return [[text] for text in texts]


def draw(p, kind=None):
    """A tool as it is defined in a request, with what is needed to ask for it."""
    if not kind:
        kind = made_up(p) if p.chance(0.4) else KINDS[p.any(HELD if p.held else list(KINDS)[:-4])]
        if not p.held and p.chance(0.3):
            kind = p.any(errands.ERRANDS)
    names, properties, required = [], {}, []
    for choices, type_, about, _ in kind["parameters"]:
        name = p.template(choices)
        if not p.held and p.chance(0.35):
            name = p.renamed(name) if p.chance(0.7) else p.any(["{}", "{}_{}", "{}{}"]).format(p.piece(), p.piece())
        while name in properties:  # two parameters may share all their names
            name = p.any(choices) if any(c not in properties for c in choices) else p.renamed(name)
        names.append(name)
        required.append(name)
        properties[name] = {"type": "string", "enum": type_} if isinstance(type_, list) else {"type": type_}
        if p.chance(0.6):
            properties[name]["description"] = about
    extra = None
    if "optional" in kind and p.chance(0.7):
        choices, values, how = kind["optional"]
        extra = (p.template(choices), values, how)
        properties[extra[0]] = {"type": "string", "enum": values}
    elif not p.held and p.chance(0.15) and (idle := p.renamed(p.any(words.TOOLISH))) not in properties:
        properties[idle] = p.any(
            [{"type": "string"}, {"type": "integer"}, {"type": "boolean"}]
        )  # may be given, and never is
    name, does = p.template(kind["names"]), p.template(kind["does"])
    if "more" in kind and not p.held and p.chance(0.45):
        name, does = in_other_words(p, kind, name)
    if not p.held and "more" in kind and p.chance(0.25):
        parts = list(dict.fromkeys(part for n in kind["names"] for part in n.split("_")))
        name = "_".join(p.random.sample(parts, min(len(parts), p.int(2, 3))))
    if not p.held and p.chance(0.25):
        name = p.any(["{}", "{}_{}", "{}_{}", "{}{}"]).format(p.piece(), p.piece())
    function = {
        "name": p.renamed(name) if not p.held and p.chance(0.4) else name,
        "description": does + p.any(["", "", "."]),
        "parameters": {"type": "object", "properties": properties, "required": required}
        | ({"additionalProperties": False} if p.chance(0.5) else {}),
    }
    return {"type": "function", "function": function}, kind, names, extra


def in_other_words(p, kind, name):
    """A name and a description made of the words of some request, so that words are compared and kinds not known by heart. Training alone."""
    does = p.wording(kind["more"]).format(*(f"the {names[0].replace('_', ' ')}" for names, *_ in kind["parameters"]))
    heavy = [w for w in bare(does).split() if len(w) > 3 and w not in words.KEPT]
    if heavy and p.chance(0.5):
        at = p.int(0, len(heavy) - 1)
        name = "_".join(heavy[at : at + p.int(1, 2)])
    return name, does


def ask(p, tool):
    """A request for this tool, and the arguments it should be called with."""
    _, kind, names, extra = tool
    values = [p.any(type_) if isinstance(type_, list) else value(p) for _, type_, _, value in kind["parameters"]]
    if not p.held:  # now and then something else: what is said must be read, not guessed
        odd = [
            isinstance(v, str) and not isinstance(t, list) and p.chance(0.15)
            for v, (_, t, *_) in zip(values, kind["parameters"])
        ]
        values = [" ".join(p.piece() for _ in range(p.int(1, 2))) if o else v for v, o in zip(values, odd)]
    if "more" in kind and ("asks" not in kind or p.chance(0.6)):
        text = p.wording(kind["more"])
        text += (
            "?"
            if text.startswith(("What", "How", "Is", "Will", "Where", "Who", "Can", "Could", "Would", "Has", "Did"))
            else "."
        )
    else:
        text = p.template(kind["asks"])
    text = text.format(*(str(v).lower() if isinstance(v, bool) else v for v in values))
    if not p.held and p.chance(0.08):
        text = aside(p, text)
    arguments = dict(zip(names, values))
    if extra and p.chance(0.5):
        arguments[extra[0]] = p.any(extra[1])
        end = text[-1] if text[-1] in ".?" else ""
        text = text.rstrip(".?") + p.any(extra[2]).format(arguments[extra[0]]) + end
    return text, arguments, values


def aside(p, text):
    """The request with a sentence beside it that has nothing to do with it. Training alone: what belongs to the request must be told apart."""
    before = p.wording(
        [
            "(I am|we are|my friend is|my boss is|she is) (late|busy|tired|here|at home|on the way|in a hurry|waiting|new|at work)",
            "(it is|today is|tomorrow is) (late|cold|early|a holiday|my birthday|Sunday|important|urgent)",
            "(I have|we have|there is) (a guest|a question|no time|a problem|a job for you|work to do|something to do)",
            f"(I met|I saw|I like) {p.name()}",
            f"(my|our|the) {p.noun()} is {p.mostly(words.ADJECTIVES)}",
        ]
    )
    if p.chance(0.6) and not text.startswith(("On", "In")):
        return f"{before}. {text}"
    after = p.wording(
        [
            "(thank you|thanks|please|many thanks|it is urgent|that is all|be quick|as soon as you can|I am waiting|you know how)"
        ]
    )
    return f"{text} {after}." if text[-1] in ".?!" else text


def tool(p, talk):
    if talk["messages"] and not talk["tools"]:
        return repeating.repeat(p, talk)
    if not talk["tools"]:
        drawn = {}
        for _ in range(p.random.choices([1, 2, 3, 4], [2, 5, 2, 0.5])[0]):
            t = draw(p)
            drawn.setdefault(id(t[1]) if "asks" not in t[1] else t[1]["asks"][0], t)
        drawn = list({t[0]["function"]["name"]: t for t in drawn.values()}.values())
        talk["drawn"], talk["tools"] = drawn, [t[0] for t in drawn]
    kind = p.int(0, 24)
    if kind == 0:
        return no_tool(p, talk)
    if kind < 3:
        return p.any(
            [
                itself.greet,
                itself.about,
                itself.chat,
                numbers.sums if not any(t[1] is KINDS["add"] for t in talk["drawn"]) else itself.greet,
                repeating.repeat,
            ]
        )(p, talk)
    chosen = p.random.choices(talk["drawn"], [2 if "more" in t[1] else 1 for t in talk["drawn"]])[
        0
    ]  # rather a tool that people have
    text, arguments, values = ask(p, chosen)
    name = chosen[0]["function"]["name"]
    talk["messages"] += [user(text), call(name, arguments)]
    if p.chance(0.75):
        got = chosen[1]["gives"](p, values)
        if p.chance(0.2):
            got = {p.any([*arguments]): p.any([*arguments.values()])} | got  # many a server says again what was asked
        if not p.held and p.chance(0.3):
            got = {p.renamed(k) if p.chance(0.5) else p.word(): v for k, v in got.items()}
        if p.chance(0.2):
            got = in_words(p, got)
        elif p.chance(0.08):
            got = {
                "error": p.any(
                    ["not found", "no connection", "access denied", "unknown " + list(arguments)[0], "time out"]
                )
            }
        tight = isinstance(got, dict) and not p.held and p.chance(0.4)  # as JavaScript writes JSON
        talk["messages"] += [
            result(json.dumps(got, ensure_ascii=False, separators=(",", ":")) if tight else got),
            assistant(read_back(got)),
        ]


def in_words(p, got):
    """A result that is no JSON object."""
    values = [str(v) for v in got.values()]
    return p.any(
        [
            ", ".join(values),
            ", ".join(f"{v} {k}" for k, v in got.items()),
            values[0],
            f"{p.mostly(words.ADJECTIVES)}, {p.number(3)} {p.any(['degrees', 'pieces', 'euros', 'metres', p.noun()])}",
            f"It is {p.mostly(words.ADJECTIVES)} and {p.mostly(words.ADJECTIVES)}.",
            f"The {p.noun()} is {p.any([p.mostly(words.ADJECTIVES), p.number(3)])}",
            " ".join(p.word() for _ in range(p.int(1, 5))),
        ]
    )


def read_back(got):
    if isinstance(got, str):
        return f"The result is: {got}" + ("" if got.endswith((".", "!", "?")) else ".")
    if "error" in got:
        return f"That did not work: {got['error']}."
    if list(got) == ["status"] and got["status"] in ("done", "ok"):
        return "Done."
    return " ".join(f"The {k.replace('_', ' ')} is {v}." for k, v in got.items())


def no_tool(p, talk):
    """A request for something no tool here can do."""
    have = [t[1] for t in talk.get("drawn", [])]
    other = p.any(
        [
            k
            for name, k in KINDS.items()
            if k not in have
            and name not in ("add", "define", "search", "translate", "time", "weather")
            and (name in HELD) <= p.held
        ]
    )
    text, _, _ = ask(p, draw(p, other))
    talk["messages"] += [
        user(text),
        assistant("I have no tool for that." if talk["tools"] else "I cannot do that. I have no tool for it."),
    ]
