"""More kinds of tools, met in training alone: the more kinds there are, the less it helps to know them by heart. Never asked for in evaluation.

A row: names, what it does, parameters (names, type or the allowed words, what it is, how to draw a value), how one asks, what comes back.
"""

import words

PLEASE = (
    "(||||please |can you |could you |I want you to |now |would you |will you |I need you to |go and |help me and |be so kind and |you should |try to "
    "|I would like you to |it is time to |just |quickly |kindly |do |let us |I ask you to |your task: |next, |tiny, |I have to |I want to |we need to )"
)


def kind(names, does, parameters, asks, gives):
    return dict(
        names=names.split(),
        does=does.split(" | "),
        parameters=[(n.split(), type_, about, draw) for n, type_, about, draw in parameters],
        more=asks,
        gives=gives,
    )


def done(*ways):
    return lambda p, a: {"status": p.any([*ways, "done", "ok"])}


def place(p):
    return p.slot(words.PLACES)


def thing(p):
    return p.slot(words.THINGS)


def file(p):
    return f"{p.word().replace(' ', '_')}.{p.any('txt md json csv py log'.split())}"


ERRANDS = [
    kind(
        "find_hotel hotel book_hotel search_hotels room_booking",
        "Find a hotel | Search hotels in a city | Book a room for some nights",
        [
            ("city place where", "string", "The city", lambda p: p.city()),
            ("nights days stay", "integer", "How many nights", lambda p: p.int(1, 14)),
        ],
        [
            PLEASE + "(find|book|get|search) a (hotel|room) in {0} for {1} nights",
            "(I need|we need|I want) {1} nights in {0}",
            "(a hotel|a room) for {1} nights in {0}",
        ],
        lambda p, a: {"hotel": p.pseudo(2).capitalize(), "price": p.number(3)},
    ),
    kind(
        "call_taxi taxi order_taxi get_cab ride",
        "Order a taxi | Get a cab to a place | A ride from one place to another",
        [
            ("from pickup start", "string", "Where it starts", place),
            ("to target drop_off", "string", "Where it goes", place),
        ],
        [
            PLEASE + "(order|call|get|send) a (taxi|cab) from the {0} to the {1}",
            "(I need|we need) a (ride|taxi|cab) from the {0} to the {1}",
            PLEASE + "(bring|drive|take) me from the {0} to the {1}",
        ],
        lambda p, a: {"minutes": p.int(2, 40)},
    ),
    kind(
        "send_sms sms text_message send_text chat_message",
        "Send a text message | Sends an SMS to a number",
        [
            ("number phone to", "string", "The phone number", lambda p: str(p.int(1000, 9999999))),
            ("text message body", "string", "The text", lambda p: f"the {p.noun()} is {p.mostly(words.ADJECTIVES)}"),
        ],
        [
            PLEASE + "(send|text|write) {0} (the text|the message|the words|an SMS:) {1}",
            "(SMS|text|text message) to {0}: {1}",
        ],
        done("sent"),
    ),
    kind(
        "call_person phone_call dial make_call ring_up",
        "Call somebody | Make a phone call | Dials a person",
        [("person name who contact", "string", "Whom to call", lambda p: p.name())],
        [PLEASE + "(call|phone|ring|dial) {0}( now| please|)", "(I want|I need) to (talk|speak) to {0}"],
        done("calling"),
    ),
    kind(
        "set_alarm alarm wake_up new_alarm",
        "Set an alarm | Wake somebody at a time",
        [("time at hour clock", "string", "When", lambda p: f"{p.int(0, 23)}:{p.int(10, 59)}")],
        [PLEASE + "(wake me|get me up|ring) at {0}", PLEASE + "(set|make|create) an alarm (for|at) {0}"],
        done("set"),
    ),
    kind(
        "take_note note save_note write_note new_note",
        "Write a note | Keep a note for later",
        [("text note content", "string", "The note", lambda p: f"{p.noun()} {p.any(['in', 'for', 'with'])} {p.name()}")],
        [PLEASE + "(note|write down|take a note|make a note|keep): {0}", "(a note|note|for my notes): {0}"],
        done("saved"),
    ),
    kind(
        "get_news news headlines latest_news",
        "Get the news | The latest headlines about a topic",
        [("topic about subject theme", "string", "The topic", lambda p: p.noun())],
        [
            PLEASE + "(show|get|find|read) (me |)(the |)(news|headlines) (about|on) {0}",
            "(what is new|what happened|anything new|what do the papers say) about {0}",
        ],
        lambda p, a: {"headline": f"{p.mostly(words.ADJECTIVES)} {p.noun()} {p.mostly(words.VERBS_PAST)}"},
    ),
    kind(
        "find_recipe recipe recipes how_to_cook",
        "Find a recipe | Recipes for a dish | How to cook something",
        [("dish food meal", "string", "The dish", lambda p: p.slot(words.FOODS + words.VEGETABLES))],
        [
            PLEASE + "(find|get|show me|look up) (a recipe|recipes) (for|with) {0}",
            "(how do I|how can I|how to) (cook|make|prepare) {0}",
            "I (want|would like|need) to (cook|make) {0}",
        ],
        lambda p, a: {"minutes": p.int(5, 90), "recipe": p.code()},
    ),
    kind(
        "distance get_distance route how_far travel_distance",
        "The distance between two cities | How far it is | A route between places",
        [
            ("origin a from_city start", "string", "The first city", lambda p: p.city()),
            ("destination b to_city end", "string", "The second city", lambda p: p.city()),
        ],
        [
            "(how far|how many kilometres|how long) is it from {0} to {1}",
            "(what is the|tell me the|give me the|find the) (distance|way|route) (from {0} to|between {0} and) {1}",
        ],
        lambda p, a: {"kilometres": p.number(4)},
    ),
    kind(
        "convert_units unit_converter convert measure_convert",
        "Convert a measure | Units of length and weight",
        [
            ("value amount number x", "number", "The number", lambda p: p.number(3)),
            ("unit from_unit source", "string", "Its unit", lambda p: p.any("metres miles feet inches yards".split())),
            ("target to_unit into", "string", "The unit wanted", lambda p: p.any("km cm mm leagues steps".split())),
        ],
        [
            PLEASE + "(convert|turn|change) {0} {1} (to|into) {2}",
            "(how many|how much) {2} (are|is|make) {0} {1}",
            "{0} {1} in {2}",
        ],
        lambda p, a: {"result": p.number(4)},
    ),
    kind(
        "read_file open_file file_content cat_file load_file",
        "Read a file | The content of a file | Shows what is in a file",
        [("path file filename name", "string", "The file", file)],
        [
            PLEASE + "(read|open|show me|print|display) (the file |){0}",
            "(what is in|what does it say in|show) (the file |){0}",
        ],
        lambda p, a: {"content": " ".join(p.word() for _ in range(p.int(1, 4)))},
    ),
    kind(
        "delete_file remove_file rm erase_file trash",
        "Delete a file | Remove a file for good",
        [("path file filename target", "string", "The file", file)],
        [PLEASE + "(delete|remove|erase|throw away) (the file |){0}", "(I no longer need|get rid of) (the file |){0}"],
        done("deleted"),
    ),
    kind(
        "create_ticket open_ticket report_bug new_issue file_issue",
        "Open a ticket | Report a problem | Create an issue",
        [
            ("title problem summary", "string", "What is wrong", lambda p: f"the {p.mostly(words.THINGS)} is {p.mostly(words.ADJECTIVES)}"),
            ("severity priority level", ["low", "medium", "high", "urgent"], "How bad it is", None),
        ],
        [
            PLEASE + "(open|create|make|file) a {1} ticket: {0}",
            PLEASE + "(report|file|note) with {1} priority that {0}",
            "({1} priority|{1} problem|{1} issue): {0}",
        ],
        lambda p, a: {"ticket": p.code()},
    ),
    kind(
        "pay_invoice pay transfer send_money bank_transfer",
        "Pay somebody | Transfer money | Send money to a person",
        [
            ("to person receiver name", "string", "Who gets it", lambda p: p.name()),
            ("amount sum euros", "number", "How much", lambda p: p.number(3)),
        ],
        [
            PLEASE + "(pay|send|give|transfer to) {0} {1} euros",
            PLEASE + "(transfer|send) {1} (euros |)to {0}",
            "(I owe|I have to pay) {0} {1} euros",
        ],
        done("paid"),
    ),
    kind(
        "get_balance balance account_balance check_account",
        "The balance of an account | How much money is in an account",
        [("account id number account_id", "string", "The account", lambda p: p.code())],
        [
            "(how much|how much money|what) is (in|on) (account|my account|the account) {0}",
            PLEASE + "(check|show me|tell me|get) the balance of (account |){0}",
        ],
        lambda p, a: {"balance": p.number(4)},
    ),
    kind(
        "stock_level inventory count_stock check_stock",
        "How many pieces are in stock | Inventory of a shop",
        [("item product article", "string", "The article", thing)],
        [
            "(how many|are there any|do we have any) {0}( left| in stock|)",
            PLEASE + "(check|look up|count) the (stock|inventory) (of|for) {0}",
        ],
        lambda p, a: {"in_stock": p.number(3)},
    ),
    kind(
        "take_picture camera photo snapshot capture",
        "Take a picture | A photo from a camera",
        [("camera where location room", "string", "Which camera", place)],
        [
            PLEASE + "(take|make|get|shoot) a (picture|photo) (of|in|from) the {0}",
            PLEASE + "(show me|let me see) the {0}( camera|)",
        ],
        lambda p, a: {"file": file(p)},
    ),
    kind(
        "start_vacuum vacuum clean_room robot_clean sweep",
        "Start the vacuum robot | Clean a room",
        [
            ("room area zone", "string", "Which room", place),
            ("power mode strength", ["quiet", "normal", "strong"], "How strong", None),
        ],
        [
            PLEASE + "(clean|vacuum|sweep) the {0} (with {1} power|in {1} mode)",
            "(the {0} is dirty|the {0} needs cleaning)(, use|:) {1} mode",
        ],
        done("started"),
    ),
    kind(
        "move_blinds blinds set_blinds curtain shutters",
        "Open or close the blinds | Move the curtains",
        [
            ("window room where", "string", "Which window", place),
            ("action position state", ["open", "close", "half"], "What to do", None),
        ],
        [PLEASE + "(set|move|put) the (blinds|curtains|shutters) (in|of) the {0} to {1}", PLEASE + "{1} the {0} (blinds|curtains|shutters)"],
        done("moved"),
    ),
    kind(
        "find_movie movie film_info movie_search",
        "Find a film | Information about a movie",
        [("title movie film", "string", "The film", lambda p: f"The {p.mostly(words.ADJECTIVES).capitalize()} {p.noun().capitalize()}")],
        [
            PLEASE + "(find|look up|show me|search) (the film|the movie) {0}",
            "(what is|what do you know about|when was) (the film|the movie) {0}( made| about|)",
        ],
        lambda p, a: {"year": p.int(1930, 2024), "stars": p.int(1, 5)},
    ),
    kind(
        "population get_population people_in city_size inhabitants",
        "How many people live in a city | Population of a place",
        [("city town place", "string", "The city", lambda p: p.city())],
        ["(how many people|how many) live in {0}", "(what is|tell me|find|give me) the population of {0}", "how (big|large) is {0}"],
        lambda p, a: {"population": p.number(4)},
    ),
    kind(
        "new_password make_password password generate_password",
        "Make a password | Generates a random password",
        [("length n characters size", "integer", "How long", lambda p: p.int(6, 64))],
        [PLEASE + "(make|generate|create|give me) a password (of|with) {0} (characters|letters|signs)", "(I need|I want) a password of length {0}"],
        lambda p, a: {"password": p.code() + p.code()},
    ),
    kind(
        "read_sensor sensor measure get_reading",
        "Read a sensor | A measured value of a room",
        [
            ("sensor quantity what kind", ["temperature", "humidity", "noise", "pressure"], "What to measure", None),
            ("room where place", "string", "Which room", place),
        ],
        ["(what is|how high is|tell me|measure|read) the {0} in the {1}", PLEASE + "(check|read|get) the {0} (of|in) the {1}"],
        lambda p, a: {"value": p.number(3)},
    ),
    kind(
        "find_shop nearby find_place near_me places_nearby",
        "Find something near a place | Shops and places nearby",
        [
            ("what kind category", "string", "What to look for", lambda p: p.any("bakery pharmacy hotel bank cinema florist gym bookshop".split())),
            ("near city around where", "string", "The city", lambda p: p.city()),
        ],
        ["(where is|is there|find|show me|I need) a {0} (in|near|around) {1}", "which {0} is (in|near|closest to) {1}"],
        lambda p, a: {"name": p.pseudo(2).capitalize(), "street": f"{p.noun()} street {p.int(1, 90)}"},
    ),
    kind(
        "rename_file rename mv move_file",
        "Rename a file | Give a file another name",
        [("old from source", "string", "The old name", file), ("new to target", "string", "The new name", file)],
        [PLEASE + "(rename|move|change) (the file |){0} (to|into) {1}", "(the file |){0} (should be|must be) (called|named) {1}"],
        done("renamed"),
    ),
    kind(
        "hire add_employee new_user create_user register add_member",
        "Create a user | Add a person to the company | Register somebody",
        [
            ("name full_name user", "string", "The name", lambda p: f"{p.name()} {p.any(words.SURNAMES)}"),
            ("role job position", "string", "The work", lambda p: p.slot(words.JOBS)),
            ("age years", "integer", "The age", lambda p: p.int(16, 70)),
        ],
        [
            PLEASE + "(add|create|register|enter) {0}, {1}, {2}( years old|)",
            "{0} is (new|our new {1}|starting as {1}), (age|aged) {2}, (a {1}|working as {1}|{1})",
        ],
        lambda p, a: {"id": p.number(4)},
    ),
    kind(
        "borrow_book library_loan loan lend_book reserve_book",
        "Borrow a book | A loan from the library | Reserve a book",
        [("title book name", "string", "The book", lambda p: f"The {p.mostly(words.ADJECTIVES).capitalize()} {p.noun().capitalize()}"), ("weeks duration for_weeks", "integer", "How many weeks", lambda p: p.int(1, 8))],
        [PLEASE + "(borrow|lend me|reserve|take out) (the book |){0} for {1} weeks", "(I want|I need) (the book |){0} for {1} weeks", "{1} weeks of {0}( please|)"],
        lambda p, a: {"due": p.any(words.DAYS)},
    ),
    kind(
        "water_plants watering irrigate garden_water sprinkler",
        "Water the plants | Watering of a part of the garden",
        [("area place where bed", "string", "Where", place), ("minutes duration time", "integer", "How long", lambda p: p.int(1, 60))],
        [PLEASE + "(water|sprinkle) the (plants in the |){0} for {1} minutes", "(the {0} is dry|the plants in the {0} are dry)(, | - |: ){1} minutes of water", "{1} minutes of water for the {0}"],
        done("watering"),
    ),
    kind(
        "charge_car charger car_charging charge start_charging",
        "Charge the car | Charging up to a level",
        [("percent level target up_to", "integer", "Up to how many percent", lambda p: p.int(20, 100))],
        [PLEASE + "(charge|load|fill) the (car|battery) (to|up to) {0} percent", "(the car|the battery) (should have|needs|must have) {0} percent"],
        done("charging"),
    ),
    kind(
        "send_package ship parcel post_parcel ship_package",
        "Send a parcel | Ship a thing to somebody",
        [("item content thing what", "string", "What is sent", thing), ("to receiver person name", "string", "To whom", lambda p: p.name()), ("city place where", "string", "The city", lambda p: p.city())],
        [PLEASE + "(send|ship|post|mail) (the|a) {0} to {1} in {2}", "{1} in {2} (gets|wants|is waiting for|should get|ordered) (the|a) {0}"],
        lambda p, a: {"parcel": p.code()},
    ),
    kind(
        "exchange_gift wrap gift gift_wrap present",
        "Order a present | A gift for somebody",
        [("for person to who", "string", "For whom", lambda p: p.name()), ("gift item present", "string", "The present", thing)],
        [PLEASE + "(order|buy|get|wrap) a {1} (for|as a present for|as a gift for) {0}", "{0} (gets|wants|should get|would like) a {1}( for the birthday| as a present|)"],
        lambda p, a: {"order": p.code()},
    ),
    kind(
        "log_hours work_hours track_time add_hours time_sheet",
        "Write down working hours | Hours worked on a project",
        [("project on task job", "string", "The project", lambda p: p.word()), ("hours count n", "number", "How many hours", lambda p: p.int(1, 12))],
        [PLEASE + "(log|note|enter|track|book) {1} hours (on|for) {0}", "I (worked|have worked|spent) {1} hours on {0}", "{1} hours for {0}"],
        done("logged"),
    ),
    kind(
        "get_score match_result score result_of game_score",
        "The result of a match | How a game ended",
        [("home team_a first team", "string", "One team", lambda p: p.city()), ("away team_b second against", "string", "The other team", lambda p: p.city())],
        ["(how did|what did) {0} (play|do) against {1}", "(what is|tell me|give me|I need) the (score|result) of {0} (against|and|versus) {1}", "{0} (against|versus) {1}(, how did it end|, who won|, the result please)"],
        lambda p, a: {"score": f"{p.int(0, 5)}:{p.int(0, 5)}"},
    ),
    kind(
        "count_words word_count text_length length_of wc",
        "Count the words of a text | How long a text is",
        [("text content sentence", "string", "The text", lambda p: " ".join(p.word() for _ in range(p.int(2, 5))))],
        [PLEASE + "count the words (of|in): {0}", "(how many words|how many words are) in this( text|): {0}", "(word count|length|number of words)( of|): {0}"],
        lambda p, a: {"words": p.number(2)},
    ),
    kind(
        "set_color light_color lamp_colour color_of colour_lamp",
        "Set the colour of a lamp | Coloured light in a room",
        [("room where lamp", "string", "Which room", place), ("colour color value", "string", "The colour", lambda p: p.slot(words.COLOURS))],
        [PLEASE + "(make|set|turn|paint) the (light|lamp) (in|of) the {0} {1}", "(I want|we want|I need) {1} light in the {0}", "{1} in the {0}( please|)"],
        done("set"),
    ),
    kind(
        "start_machine washing_machine wash start_wash laundry",
        "Start the washing machine | A program of the washing machine",
        [("program cycle mode", ["cotton", "wool", "quick", "eco"], "Which program", None), ("degrees temperature temp", "integer", "How warm", lambda p: p.any([20, 30, 40, 60, 90]))],
        [PLEASE + "(wash|start the washing machine|run the laundry) (with|on) {0} at {1} degrees", "(the {0} program|{0}|a {0} wash)(, | at ){1} degrees", PLEASE + "(start|run) the {0} program at {1} degrees"],
        done("running"),
    ),
    kind(
        "subscribe newsletter sign_up join_list add_subscriber",
        "Subscribe to a newsletter | Add an address to a list",
        [("email address mail", "string", "The address", lambda p: f"{p.pseudo(1)}@{p.pseudo(2)}.com"), ("list topic newsletter", "string", "Which list", lambda p: p.noun())],
        [PLEASE + "(subscribe|add|sign up) {0} (to|for) the {1} (list|newsletter)", "{0} (wants|would like|should get) the {1} newsletter"],
        done("subscribed"),
    ),
    kind(
        "get_definition_of country_info country about_country facts_about",
        "Facts about a country | Information on a country",
        [("country name land", "string", "The country", lambda p: p.value(words.REGIONS[12:]))],
        [PLEASE + "(tell me|find|get|show|look up) (something|facts|information|the facts) (about|on) {0}", "(what|anything) (is known|do you find|is there) about {0}"],
        lambda p, a: {"capital": p.city(), "people": p.number(4)},
    ),
    kind(
        "park_car parking find_parking reserve_parking garage",
        "Find a place to park | Reserve parking",
        [("city where near place", "string", "Where", lambda p: p.city()), ("hours duration for_hours", "integer", "How many hours", lambda p: p.int(1, 24))],
        [PLEASE + "(find|reserve|book|get) (parking|a parking place|a place to park) in {0} for {1} hours", "I (park|want to park|need to park|must park) in {0} for {1} hours", "{1} hours of parking in {0}"],
        lambda p, a: {"place": p.code()},
    ),
    kind(
        "train_times next_train trains timetable departures",
        "The next train | Trains from a station",
        [("station from city", "string", "Where it leaves", lambda p: p.city()), ("to destination towards", "string", "Where it goes", lambda p: p.city())],
        ["(when|at what time) (is|does|goes|leaves) (the next|a|the) train from {0} to {1}( leave| go|)", PLEASE + "(find|look up|tell me) (a train|the trains|the next train) from {0} to {1}", "(trains|a train|the train) (from {0} to {1}|to {1} from {0})"],
        lambda p, a: {"time": f"{p.int(0, 23)}:{p.int(10, 59)}"},
    ),
    kind(
        "set_status status presence my_status show_as",
        "Set my status | What others see of me",
        [("status state value", ["away", "busy", "free", "offline"], "The status", None), ("minutes duration for_minutes", "integer", "How long", lambda p: p.int(5, 120))],
        [PLEASE + "(set me|show me|mark me) (to|as) {0} for {1} minutes", "I am {0} for {1} minutes", "(for the next|the next) {1} minutes I am {0}"],
        done("set"),
    ),
    kind(
        "mix_drink bar cocktail order_drink drinks",
        "Order a drink | Drinks brought to a table",
        [("drink what beverage", "string", "The drink", lambda p: p.slot(words.DRINKS)), ("table number seat", "integer", "The table", lambda p: p.int(1, 60))],
        [PLEASE + "(bring|order|serve|take) (a |some |){0} to table {1}", "table {1} (wants|would like|ordered|needs|gets) (a |some |){0}", "{0} for table {1}"],
        lambda p, a: {"order": p.code()},
    ),
    kind(
        "run_query sql database_query query_table select",
        "Ask the database | Rows of a table",
        [("table from_table name", "string", "The table", lambda p: p.word()), ("limit rows n", "integer", "How many rows", lambda p: p.int(1, 500))],
        [PLEASE + "(show|get|fetch|read|give me) {1} rows (of|from) (the table |){0}", "(the first|the last|any) {1} rows (of|from|in) {0}"],
        lambda p, a: {"rows": p.number(3)},
    ),
    kind(
        "deploy release ship_version rollout publish_version",
        "Deploy a version | Release a service",
        [("service app name", "string", "The service", lambda p: p.word()), ("version tag build", "string", "The version", lambda p: f"{p.int(0, 9)}.{p.int(0, 20)}.{p.int(0, 9)}"), ("stage environment where", ["test", "staging", "production"], "Where", None)],
        [PLEASE + "(deploy|release|roll out|ship) {0} {1} (to|on|in) {2}", "(version |){1} of {0} (goes|should go|has to go|belongs) to {2}"],
        lambda p, a: {"status": "deployed", "build": p.number(4)},
    ),
    kind(
        "assign_ticket assign give_task set_owner assign_issue",
        "Assign a ticket | Who works on a ticket",
        [("ticket id number issue", "string", "The ticket", lambda p: p.code()), ("to person owner who", "string", "Who gets it", lambda p: p.name())],
        [PLEASE + "(assign|give|hand) (ticket |the ticket |){0} to {1}", "{1} (takes|should take|works on|will do) (ticket |){0}", "(ticket |){0} (is for|goes to|belongs to) {1}"],
        done("assigned"),
    ),
    kind(
        "percentage percent_of calculate_percent discount share_of",
        "A percentage of a number | Calculates percent",
        [("percent rate p", "number", "How many percent", lambda p: p.int(1, 99)), ("of number value total", "number", "Of what", lambda p: p.number(4))],
        ["(what is|how much is|calculate|tell me|work out) {0} percent of {1}", "{0} percent of {1}( please|)", "(of|from) {1}, (take|what is|how much is) {0} percent"],
        lambda p, a: {"result": p.number(3)},
    ),
]  # fmt: skip
