"""Values taken out of everyday texts as JSON: orders, bookings, lost things, invoices, trips, results and so on.

A text is sentences of one kind (`KINDS`), whose holes are roles. A role (`ROLES`) has a type, which says what its values look like, and names that
a key may have; a type (`TYPES`) adds names that do for any role of the type, as "name" does for a buyer. A key is asked for only where it fits one
role of the text and no other, so two people or two places in a text have to be told apart by what they do there.

What counts and stands without a unit is a number (an age, a year, 3 lamps, a price of 20); what identifies or carries a unit is a string, copied
letter by letter ("20 euros", "0142", "B12", "3:30 pm", "14 May").
"""

import json
import re

import words
from skills.records import OWNERS, WITH_SCHEMA
from talking import say

SPORTS = "football tennis chess handball hockey basketball rugby volleyball cricket baseball badminton golf".split()
SUBJECTS = "maths history biology physics chemistry music art geography English French sport Latin".split()
SKIES = "sunny cloudy rainy windy foggy snowy stormy clear grey wet dry misty".split()
GENRES = "comedy drama thriller western musical romance fantasy documentary cartoon mystery adventure satire".split()
STREETS = "Street Road Lane Avenue Square Hill Way Alley Park Court Row Drive".split()
ENDINGS = "Ltd, Inc., & Sons, Group, Bakery, Motors, Media, Foods, GmbH, Systems, Travel, Books".split(", ")
TEAMS = "United Lions Tigers City Rovers Bears Eagles Stars Wolves Rangers Hawks Sharks".split()
FLATS = "flat house room studio cottage apartment bungalow garage loft cabin villa office".split()
CARS = "van truck taxi car lorry jeep minibus scooter tractor motorbike caravan estate".split()
UNITS = "euros dollars pounds francs crowns yen".split()
TROUBLES = """broken|stuck|too slow|not working|very loud|offline|frozen|out of order|leaking|making noise|damaged|missing a part""".split(
    "|"
)
ILLS = "headache, sore throat, cough, fever, back pain, broken arm, stomach ache, rash, cold, sprained ankle, toothache, flu".split(
    ", "
)


def clean(p, items, much=False):
    """A value of the list or a made-up word, that can stand in a sentence and between quotes."""
    while True:
        value = p.slot(items) if not much or p.chance(0.5) else p.word()
        if value == value.strip() and value[:1].isalnum() and value[-1:].isalnum() and not set(value) & set('"\\\n'):
            return value


def person(p):
    return p.name() if p.chance(0.6) else f"{p.name()} {p.value(words.SURNAMES) if p.chance(0.7) else p.stranger()}"


def thing(p):
    what = clean(p, words.THINGS, True)
    return what if p.chance(0.45) else f"{clean(p, words.COLOURS if p.chance(0.5) else words.ADJECTIVES)} {what}"


def several(p):
    what = thing(p)
    if what.endswith("y") and what[-2:-1] not in set("aeiou"):
        return what[:-1] + "ies"
    return what + ("es" if what.endswith(("s", "x", "ch", "sh", "z")) else "s")


def capital(p):
    return p.pseudo(p.int(1, 2)).capitalize()


def brand(p):
    return f"{capital(p)} {p.any([str(p.int(2, 900)), 'Pro', 'Mini', 'Max', 'X' + str(p.int(1, 9)), 'Plus'])}"


def company(p):
    return (
        f"{p.value(words.SURNAMES) if p.chance(0.4) else capital(p)} {p.value(ENDINGS)}" if p.chance(0.7) else brand(p)
    )


def team(p):
    where = p.city() if p.chance(0.6) else capital(p)
    return p.any([f"{where} {p.value(TEAMS)}"] * 2 + [f"FC {where}", where])


def title(p):
    one, two = clean(p, words.ADJECTIVES).title(), clean(p, words.THINGS).title()
    return p.any(
        [f"The {one} {two}", f"The {two} of {p.city()}", f"{one} {two}s", f"{two} and {capital(p)}", capital(p)]
    )


def date(p):
    day, month = p.int(1, 28), p.int(1, 12)
    name, year = words.MONTHS[month - 1], p.int(1990, 2035)
    return p.any(
        [f"{day} {name}"] * 3
        + [f"{name} {day}", f"{name} {day}", f"{day} {name} {year}", f"{day} {name[:3]}", f"{year}-{month:02}-{day:02}"]
        + [f"{day:02}.{month:02}.{year}", f"{day}/{month}/{year}"]
    )


def clock(p):
    hour, minute = p.int(1, 12), p.any([0, 5, 10, 15, 20, 30, 40, 45, 50])
    half = p.any(["am", "pm"])
    long = [f"{hour}:{minute:02} {half}", f"{hour + p.any([0, 11])}:{minute:02}"]
    return p.any(long + [f"{hour} {half}", f"{hour}{half}", f"{hour}:{minute:02}{half}", f"{hour} o'clock"])


def price(p):
    whole = p.number(3) + 1
    part = f"{whole}.{p.any(['50', '99', '95', '20', '49'])}"
    unit = p.value(UNITS)
    return p.any(
        [
            whole,
            whole,
            whole,
            f"{whole} {unit}",
            f"{whole} {unit}",
            f"{part} {unit}",
            f"${whole}",
            f"€{part}",
            f"${part}",
            f"£{whole}",
        ]
    )


def code(p):
    return p.any(
        [
            p.code(),
            p.code(),
            f"{p.any('ABCKLMRTX')}-{p.int(10, 9999)}",
            f"{p.code()}-{p.int(1, 99)}",
            f"#{p.int(100, 99999)}",
        ]
    )


def digits(p, low, high):
    return "".join(str(p.int(0, 9)) for _ in range(p.int(low, high)))


def phone(p):
    return p.any(
        [
            digits(p, 5, 8),
            f"555-{digits(p, 4, 4)}",
            f"0{digits(p, 2, 3)} {digits(p, 5, 6)}",
            f"+{p.int(1, 99)} {digits(p, 6, 8)}",
        ]
    )


def email(p):
    first = p.any([p.value(words.NAMES).lower(), p.pseudo(2), p.any(["info", "office", "sales"])])
    last = p.any(["", "", "." + p.value(words.SURNAMES).lower(), str(p.int(1, 99))])
    return f"{first}{last}@{p.any([p.pseudo(), 'mail', 'post'])}.{p.any(['com', 'org', 'net', 'de'])}"


def street(p):
    name = p.any([capital(p), p.value(words.THINGS).capitalize(), p.value(words.SURNAMES)])
    return p.any([f"{p.int(1, 199)} {name} {p.value(STREETS)}", f"{name} {p.value(STREETS)} {p.int(1, 99)}"])


def span(p):
    return f"{p.int(2, 50)} {p.any(['minutes', 'hours', 'days', 'weeks'])}"


def of(items, much=False):
    return lambda p: clean(p, items, much)


TYPES = {  # type: (how a value is made, names that fit any role of it)
    "person": (person, "name, name, person, full name, who"),
    "city": (lambda p: p.city(0.1), "city, city, town, place, location, where"),
    "country": (
        lambda p: p.value([r for r in words.REGIONS if len(r) > 2]) if p.chance(0.7) else capital(p),
        "country, nation, land",
    ),
    "place": (of(words.PLACES), "place, location, spot, where"),
    "street": (street, "address, street, street address, location"),
    "room": (
        lambda p: p.any([str(p.int(1, 400)), f"{p.any('ABCDEF')}{p.int(1, 40)}", f"{p.int(1, 9)}.{p.int(10, 40)}"]),
        "room, room number, location",
    ),
    "day": (lambda p: p.any(words.DAYS), "day, weekday, day, date, when"),
    "date": (date, "date, date, when, on date"),
    "month": (lambda p: p.any(words.MONTHS), "month, when"),
    "clock": (clock, "time, time, hour, when, at, clock time"),
    "span": (span, "duration, length, time, how long, takes"),
    "price": (price, "price, price, cost, amount, total, sum, how much"),
    "count": (lambda p: p.int(2, p.any([9, 60, 400])), "number, count, quantity, amount, how many"),
    "few": (lambda p: p.int(2, p.any([5, 9, 30])), "number, count, quantity, amount, how many"),
    "age": (lambda p: p.int(2, 99), "age, age, years, how old"),
    "year": (lambda p: p.int(1900, 2030), "year, year, which year"),
    "code": (code, "code, number, id, reference, ref"),
    "phone": (phone, "phone, phone number, telephone, tel, mobile, cell, number, contact"),
    "email": (email, "email, mail, e-mail, email address, contact"),
    "thing": (thing, "item, thing, object, product, article, what"),
    "things": (several, "items, item, things, goods, products, product, what"),
    "brand": (brand, "product, model, item, product name, article, device"),
    "company": (company, "company, firm, business, organisation, organization"),
    "team": (team, "team, club, side"),
    "title": (title, "title, name, work"),
    "job": (of(words.JOBS), "job, job, profession, occupation, work, job title, role"),
    "hobby": (of(words.HOBBIES), "hobby, interest, pastime, activity"),
    "colour": (of(words.COLOURS), "colour, color, color"),
    "animal": (of(words.ANIMALS), "animal, species, kind of animal, type"),
    "food": (of(words.FOODS + words.FRUITS + words.VEGETABLES), "food, dish, meal, what"),
    "drink": (of(words.DRINKS), "drink, beverage"),
    "material": (of(words.MATERIALS), "material, made of"),
    "sport": (of(SPORTS), "sport, game"),
    "subject": (of(SUBJECTS), "subject, course, class, topic"),
    "sky": (of(SKIES), "weather, sky, conditions, forecast"),
    "heat": (
        lambda p: p.any(
            [
                f"{p.any([*range(-9, -1), *range(2, 40)])} degrees",
                f"{p.any([*range(-9, -1), *range(2, 40)])}°C",
                f"{p.int(2, 39)} C",
            ]
        ),
        "temperature, temp",
    ),
    "genre": (of(GENRES), "genre, kind, type, category"),
    "flat": (of(FLATS), "type, kind, property, property type"),
    "car": (of(CARS), "vehicle, type, kind, vehicle type"),
    "trouble": (lambda p: p.value(TROUBLES), "problem, issue, fault, trouble, error"),
    "ill": (lambda p: p.value(ILLS), "problem, complaint, symptom, reason, illness"),
    "weight": (lambda p: f"{p.int(1, 90)} {p.any(['kg', 'g', 'kilos', 'pounds', 'tons'])}", "weight, mass, how heavy"),
    "score": (
        lambda p: p.any(["{}:{}", "{}:{}", "{}-{}"]).format(*sorted(p.random.sample(range(31), 2))[::-1]),
        "score, result, final score",
    ),
    "flight": (
        lambda p: f"{p.any('ABKLSU')}{p.any('AFHRXY')}{p.any(['', ' '])}{p.int(10, 9999)}",
        "number, code, flight, flight number, train, train number",
    ),
}

ROLES = {  # role: (type, names of its own); a hole that is not here is a type
    "name": ("person", "name, person, full name, contact name"),
    "buyer": ("person", "buyer, customer, client, customer name, ordered by, purchaser"),
    "seller": ("person", "seller, vendor, sold by, seller name, shopkeeper"),
    "guest": ("person", "guest, visitor, booked by, guest name, reserved for"),
    "host": ("person", "host, organiser, organizer, invited by, host name"),
    "doctor": ("person", "doctor, physician, doctor name, seen by"),
    "patient": ("person", "patient, patient name, sick person"),
    "teacher": ("person", "teacher, teacher name, tutor, taught by"),
    "pupil": ("person", "student, pupil, student name, learner"),
    "author": ("person", "author, writer, written by, author name"),
    "maker": ("person", "director, directed by, film director, filmmaker"),
    "star": ("person", "actor, star, starring, lead actor, lead"),
    "owner": ("person", "owner, owner name, belongs to, owned by"),
    "finder": ("person", "finder, found by, finder name"),
    "giver": ("person", "giver, from, given by, donor, giver name"),
    "receiver": ("person", "receiver, to, given to, recipient, receiver name"),
    "sender": ("person", "sender, from, sent by, sender name, signed by"),
    "addressee": ("person", "recipient, to, addressee, receiver, sent to"),
    "driver": ("person", "driver, driven by, driver name, courier"),
    "boss": ("person", "boss, manager, supervisor, head, reports to"),
    "agent": ("person", "agent, assigned to, assignee, handled by, support agent"),
    "reporter": ("person", "reporter, reported by, user, opened by"),
    "payer": ("person", "payer, paid by, from, payer name"),
    "payee": ("person", "payee, paid to, to, payee name, recipient"),
    "traveller": ("person", "passenger, traveller, traveler, passenger name"),
    "speaker": ("person", "speaker, presenter, talk by, speaker name"),
    "chair": ("person", "chair, led by, leader, chaired by"),
    "best": ("person", "winner, won by, champion, first place"),
    "beaten": ("person", "loser, runner up, second place, beaten player"),
    "landlord": ("person", "landlord, contact, landlord name, let by"),
    "cook": ("person", "cook, chef, cooked by, recipe by"),
    "borrower": ("person", "borrower, lent to, borrowed by"),
    "lender": ("person", "lender, lent by, borrowed from"),
    "neighbour": ("person", "neighbour, neighbor, left with"),
    "from": ("city", "from, origin, departure city, start, starting point, departure"),
    "to": ("city", "to, destination, arrival city, goal, target"),
    "birthplace": ("city", "birthplace, born in, place of birth"),
    "ready": ("clock", "arrival, arrival time, arrives at, end, end time"),
    "leaves": ("clock", "departure time, departs at, leaves at, start time"),
    "opens": ("clock", "start, start time, opens at, begins, from"),
    "ends": ("clock", "end, end time, closes at, until, to"),
    "due": ("date", "due date, due, deadline, pay by, due by"),
    "sent": ("date", "sent on, shipped on, shipping date, send date"),
    "paid": ("date", "payment date, paid on, date paid"),
    "goods": ("things", "item, items, product, goods, article, ordered items"),
    "gift": ("thing", "gift, present, item, object"),
    "qty": ("count", "qty, quantity, qty, count, how many, pieces, units"),
    "seats": ("few", "guests, people, seats, party size, number of guests, persons"),
    "nights": ("few", "nights, number of nights, stay, length of stay"),
    "rooms": ("few", "rooms, number of rooms, room count"),
    "pages": ("count", "pages, page count, number of pages, length"),
    "points": ("count", "points, score, goals, points scored"),
    "fewer": ("count", "points against, opponent score, points of the loser"),
    "stops": ("few", "stops, number of stops"),
    "stars": ("few", "stars, rating, star rating"),
    "minutes": ("count", "minutes, duration, running time, minutes needed"),
    "degrees": ("few", "degrees, temperature, temp"),
    "grade": ("count", "grade, mark, points, score, result"),
    "boxes": ("few", "boxes, parcels, number of boxes, packages"),
    "euros": ("count", "euros, price in euros, euros due"),
    "eggs": ("few", "eggs, number of eggs, egg count"),
    "grams": ("count", "grams, flour, grams of flour"),
    "people": ("count", "staff, employees, headcount, people"),
    "order": ("code", "order number, order id, order, order no, order code"),
    "invoice": ("code", "invoice number, invoice, invoice id, bill number"),
    "booking": ("code", "booking code, booking number, reservation, booking id, confirmation code"),
    "parcel": ("code", "tracking number, parcel number, tracking code, tracking id, parcel"),
    "ticket": ("code", "ticket, ticket id, ticket number, case number, case"),
    "plate": ("code", "plate, licence plate, license plate, number plate, registration"),
    "isbn": ("code", "isbn, shelf mark, book number, call number"),
    "seat": ("room", "seat, seat number, place"),
    "gate": ("room", "gate, platform, track, gate number"),
    "desk": ("room", "desk, desk number, counter, office"),
    "rent": ("price", "rent, monthly rent, rent per month"),
    "salary": ("price", "salary, pay, wage, income"),
    "fee": ("price", "shipping, delivery fee, shipping cost, fee, extra cost"),
    "home": ("street", "address, home address, street address, delivery address, ship to"),
    "petname": ("person", "pet name, called, name of the pet, animal name"),
    "winner": ("team", "winner, winning team, won by, winners"),
    "loser": ("team", "loser, losing team, beaten team, losers"),
    "shop": ("company", "shop, store, seller, bought from"),
    "doing": ("job", "job, position, role, vacancy, job title"),
    "used": ("span", "delay, late by, waiting time"),
}

KINDS = {  # kind: (first sentences, sentences that may follow)
    "person": (
        [
            "{name} (|still |now )(lives|works|stays) in {city} and is (a {job}|{age}|fond of {hobby}).",
            "{name}, {age}, (lives in|is from|comes from) {city}(| and works as a {job}| and likes {hobby}).",
            "{name} is (a {age}-year-old {job}|{age} years old and a {job}|a {job}) (from|in|living in) {city}.",
            "(My (friend|aunt|uncle|cousin)|Our (neighbour|new colleague)) {name} is {age} and (likes {hobby}|works as a {job}|lives in {city}).",
        ],
        [
            "{name} (was born|grew up) in {birthplace}(, not in {city}|) and (has a {animal}|drinks {drink}|wears {colour}).",
            "(the|their) boss (is|is called) {boss}.",
            "{name} (works for|is employed at|has a job at) {company}(| under {boss}).",
        ],
    ),
    "first person": (
        [
            "(hi|hello|hey|good morning|good day), (my name is|I'm|I am|this is) {name}( from {city}|, {age}, from {city}| and I am {age}).",
            "I am {name}(, {age} years old,|, a {job},|) and I (live in|come from|moved to) {city}.",
            "(my name's|the name is|I am called) {name}, I (work as a {job}|am a {job}|am {age}|like {hobby}) (and live|, living) in {city}.",
        ],
        [
            "I (work|have worked) (at|for) {company}(| as a {job}).",
            "(you can|please|) (call|reach|phone) me (at|on) {phone}.",
            "(my email is|write to me at|my address is|mail me at) {email}.",
            "I was born in {birthplace}.",
            "My (boss|manager) is {boss}.",
        ],
    ),
    "order": (
        [
            "{buyer} (ordered|bought|would like|has ordered|wants|needs) {qty} {goods}(| for {price}| from {seller}| on {date}).",
            "(order|new order|we got order) {order}: {qty} {goods} for {buyer}(|, {price}).",
            "(please|kindly|) (send|ship|deliver) {qty} {goods} to {buyer} in {city}.",
            "(hello|hi), I (would like|want|need) to order {qty} {goods}(|, please).",
            "{seller} sold {qty} {goods} to {buyer}(| for {price}| on {day}).",
        ],
        [
            "(the order number|our reference|order number) is {order}.",
            "(it comes to|that makes|the total is|the price is|the sum is) {price}(|, plus {fee} for shipping).",
            "(please|) (ship it to|send it to|deliver to|the address is) {home}(| in {city}).",
            "(delivery|it should arrive|we need it) (on|by) {date}.",
            "{seller} (took|wrote down|handled|packed) the order.",
        ],
    ),
    "table": (
        [
            "(a|one) table for {seats} (on {day}|on {date}|tonight|at {clock}|on {day} at {clock}) (for|under the name|in the name of)"
            " {guest}(|, please).",
            "{guest} (booked|reserved|wants) a table for {seats}( people|) (on {day}|on {date}|at {clock}|on {date} at {clock}).",
            "(can|could) (we|I) (get|book|have) a table for {seats} (on {day}|at {clock}|on {date})(? The name is {guest}.|?)",
        ],
        [
            "(the phone number|my number|the number) is {phone}.",
            "(ask for|your waiter is|the waiter is) {host}.",
            "(they|we) (want|would like) {food}.",
        ],
    ),
    "hotel": (
        [
            "{guest} (booked|has booked|reserved|has) (a room|a double room|room {room}) in {city} for {nights} nights(| from {date}).",
            "(booking|reservation) {booking}: {guest}, {nights} nights in {city}(|, room {room}).",
            "(we confirm|this confirms|thanks for) (your|the) stay in {city} from {date}, {nights} nights(| for {seats} people|).",
        ],
        [
            "(the price is|it costs|each night costs|you pay) {price}.",
            "(the booking code|your code|the confirmation code) is {booking}.",
            "(breakfast|check-in) (starts|begins) at {clock}.",
            "(your host is|the host is|please ask for) {host}.",
        ],
    ),
    "appointment": (
        [
            "(your|the|our) (appointment|meeting|visit|interview) with {host} is on (|{day}, ){date}(| at {clock}).",
            "{guest} (meets|will see|is going to see|has an appointment with) {host} on {day}(| at {clock}| in room {room}).",
            "(see you|let us meet|let's meet) on {day} at {clock} (in room {room}|in {city}|at {street}).",
            "(reminder: |note: |) {guest}, {day}, {clock}, (room {room}|with {host}).",
        ],
        [
            "(it takes|it will take|please plan) {span}.",
            "(we meet in|come to|it is in) room {room}.",
            "(the address is|the office is at) {street}(| in {city}).",
            "(if you are late|for questions|otherwise), (call|phone|ring) {phone}.",
        ],
    ),
    "doctor": (
        [
            "{patient} (has an appointment with|sees|will see|was seen by) {doctor} on {day}(| at {clock}).",
            "{doctor} (will see|saw|examined|treats) {patient} (on {date}|on {day}|on {day} at {clock}) because of a {ill}.",
            "{patient}, {age}, (has|complains of|came in with) a {ill}.",
        ],
        [
            "(the doctor|the doctor on duty) (is|will be) {doctor}.",
            "(the practice|the surgery|the clinic) is (at {street}|in {city}).",
            "(please come to|wait in|the visit is in) room {room}.",
            "(the next visit|the check-up) is on {date}(| at {clock}).",
        ],
    ),
    "lost": (
        [
            "{owner} (lost|has lost|left|forgot) a {thing} (in the {place}|in {city}|in the {place} on {day}).",
            "{finder} found a {thing} in (the {place}|{city})(| on {day}|. It belongs to {owner}).",
            "(lost|missing|found): (a|one) {thing}, (in the {place}|in {city}|near the {place})(|, on {day}|, on {date}).",
            "I (lost|left|am looking for) my {thing} (in|near) the {place}(| on {day}).",
            "(a|the) {thing} (of|belonging to) {owner} was found by {finder}(| in the {place}| in {city}| on {day}).",
        ],
        [
            "(it is|the colour is) {colour}(| and made of {material}).",
            "(if you find it|if it is yours|please) call {phone}.",
            "(it can be picked up|pick it up|it is kept) at desk {desk}.",
            "(there is a reward of|the reward is) {price}.",
        ],
    ),
    "invoice": (
        [
            "(invoice|bill) {invoice} (of|from|dated) {date}: {price} for {qty} {goods}.",
            "{buyer} (owes|must pay|has to pay) {seller} {price} (by|before) {due}.",
            "(invoice|bill) {invoice} for {buyer}(|, {company})(: {price}| over {price}).",
            "{company} (sent|has sent|wrote) {buyer} (an invoice|a bill) (for|over) {price}.",
            "(please|kindly) pay {price} to {company} (by|before) {due}.",
        ],
        [
            "(it is|payment is|the bill is) due (on|by) {due}.",
            "(the invoice number|the bill number) is {invoice}.",
            "(questions|any questions)? (ask|call|write to) {agent}.",
            "(it is|this is) for {qty} {goods}.",
        ],
    ),
    "job ad": (
        [
            "{company} (in {city} |)(is looking for|needs|seeks|is hiring|wants) a {doing}(| in {city}| from {date}).",
            "(wanted|job|vacancy|open position): {doing} (at|for) {company}(| in {city})(, {salary} a month|, {salary} a year|, starting {date}|).",
            "(we are|our team is) looking for a {doing} in {city}(| to start in {month}| from {date}).",
        ],
        [
            "(the pay is|we pay|you earn|the salary is) {salary}.",
            "(send your letter|write|apply|please write) to {agent}(| at {email}|, {email}).",
            "(your boss will be|you will report to|the team is led by) {boss}.",
            "(we are a team of|we have a staff of) {people}.",
        ],
    ),
    "offer": (
        [
            "(the|our|this) {brand} (costs|sells for|now costs) {price}(| and comes in {colour}| at {shop}).",
            "(for sale|on sale|offer|special offer): {thing}(, {colour},|,) (for|only|just) {price}.",
            "{seller} (sells|is selling|offers) a {thing} for {price}(| in {city}).",
            "(new|just in): {brand} (from|by) {company}(, {price}|, {colour}, {price}).",
            "(I'm|I am) selling my {thing} for {price}(|, made of {material}).",
        ],
        [
            "(it weighs|the weight is) {weight}.",
            "(the article number|the product code|its code) is {code}.",
            "(there are|we have|only) {qty} left(| in stock).",
            "(it is made of|made of) {material}.",
            "(shipping costs|delivery is|delivery costs) {fee}.",
            "(call|contact) {seller} (at|on) {phone}.",
        ],
    ),
    "recipe": (
        [
            "(for|to make) the {food} you need {eggs} eggs(,| and) {grams} grams of flour(| and some {drink}).",
            "{cook} (makes|cooks|bakes) {food} (with|from|using) {eggs} eggs and {grams} grams of flour.",
            "{food} (for|serves) {seats}: {eggs} eggs, {grams} g flour, (|a little ){drink}(|, {minutes} minutes).",
        ],
        [
            "(it takes|bake it for|cook it for|leave it for) {minutes} minutes.",
            "(it is enough for|it serves|this feeds) {seats} people.",
            "the recipe (is from|comes from|was written by) {cook}.",
        ],
    ),
    "invitation": (
        [
            "{host} (invites|has invited) {guest} to (a party|dinner|a concert|the wedding) on {day}(| at {clock}| in {city}).",
            "(you are|we are all) invited to (the party|the wedding|the birthday) of {host} on {date}(| at {clock})(| in {city}).",
            "(join us for|come for) (|some ){food} on {day} at {clock}, {street}.",
            "(come to|do not miss) the {sport} (evening|night|day) in {city} on {date}(|, {clock}).",
        ],
        [
            "(tickets cost|the entry is|entry costs|a ticket is) {price}.",
            "(please|) (bring|do not forget) a {gift}.",
            "(tell|answer|let) {agent} (know |)by {due}.",
            "(it starts|doors open) at {opens} and ends at {ends}.",
        ],
    ),
    "match": (
        [
            "{winner} (beat|defeated|won against) {loser} {points} to {fewer}(| in {city}| on {day}).",
            "{winner} (beat|defeated|won against|were better than) {loser} (on {day}|in {city}|with {score}).",
            "{loser} (lost to|were beaten by|lost against) {winner}(| {score})(| on {day}| in {city}| in front of {people} people).",
            "{best} (beat|defeated|won against) {beaten} (at|in) {sport}(| on {day}| in {city}).",
            "{beaten} lost (the {sport} match|the final) to {best}(| on {day}| in {city}).",
        ],
        [
            "{star} scored {points} points.",
            "(at half-time it was|the half-time score was|it was once) {score}.",
            "(the match lasted|it took) {minutes} minutes.",
        ],
    ),
    "trip": (
        [
            "{traveller} (flies|travels|goes|is going|takes the train) from {from} to {to}(| on {date}| on {day}| at {clock}).",
            "(flight|train|bus) {flight} (from {from} to|to) {to} leaves at {leaves}(| from gate {gate}| and arrives at {ready}).",
            "{traveller} (is travelling|flew|went|drove) to {to} from {from}(| on {date}| with {flight}).",
            "(one|a) ticket from {from} to {to}(| for {traveller})(, {price}|, {day}|, seat {seat}|).",
            "I (want|need|would like) to (fly|travel|go) (to {to} from {from}|from {from} to {to}) on {date}.",
        ],
        [
            "(it leaves at|departure is at|the departure is at) {leaves}(| and you arrive at {ready}).",
            "(the ticket costs|you pay|the fare is) {price}.",
            "(the seat is|your seat is|please take seat) {seat}.",
            "(the trip takes|it takes|travel time is) {span}.",
            "(there are|the train makes) {stops} stops(| before {to}).",
            "(it leaves from|go to) (gate|platform) {gate}.",
        ],
    ),
    "book": (
        [
            '(I read|she read|we read) "{title}" by {author}(| from {year}|, {pages} pages).',
            "{author} wrote {title} in {year}(| in {city}).",
            '"{title}" (is a|is the new|, a) {genre} by {author}(| of {pages} pages|, {year}).',
            "{borrower} borrowed {title} by {author}(| on {day}| until {due}| from {lender}).",
        ],
        [
            "(it has|the book has) {pages} pages(| and costs {price}).",
            "(it came out|it was printed|the book appeared) in {year}.",
            "(it must be back|bring it back|return it) (by|before) {due}.",
            "(the shelf mark|the book number) is {isbn}.",
        ],
    ),
    "film": (
        [
            "{title} (is a|is the best|, a) {genre} by {maker}(| from {year}| with {star}).",
            "{maker} (made|directed|shot) {title} in {year}(| with {star}).",
            "(tonight|today|on {day}): {title} with {star}(|, {clock}|, {minutes} minutes).",
            "{star} plays (a {job}|the lead) in {title}(| by {maker}| of {year}).",
        ],
        [
            "(it runs|it lasts|the film takes) {minutes} minutes.",
            "(I give it|it got|critics gave it) {stars} stars.",
            "(it starts|the show is) at {clock}(| in {city}).",
        ],
    ),
    "pet": (
        [
            "{owner} (has|owns|keeps) a {animal} (called|named) {petname}(|, {age} years old).",
            "{petname} is (a {age}-year-old {animal}|a {animal}, {age} years old,|a {colour} {animal}|the {animal}) (and belongs to|of"
            "|that lives with) {owner}.",
            "(my|our) {animal} (is called|is named) {petname} and (is {age} years old|likes {food}|is {colour}).",
        ],
        [
            "{petname} (eats|likes|gets) {food}(| and sleeps in the {place}).",
            "(the vet is|we see) {doctor}.",
            "{petname} weighs {weight}.",
        ],
    ),
    "home ad": (
        [
            "(a|nice|sunny|quiet) {flat} (to let|for rent) in {city}: {rooms} rooms(, {rent} a month|, rent {rent}|, free from {date}|).",
            "(the|this) {flat} (at {street}|in {city}) has {rooms} rooms and costs {rent}(| a month).",
            "{landlord} (rents out|lets|offers) a {flat} with {rooms} rooms (in {city}|at {street})(| for {rent}).",
        ],
        [
            "(it is|it will be) free from {date}.",
            "(call|ask|please contact) {landlord}(| at {phone}|, {phone}).",
            "(the rent is|you pay|it costs) {rent}(| a month).",
            "the {place} is {minutes} minutes away.",
        ],
    ),
    "meeting": (
        [
            "(at the meeting|in the meeting|meeting) on {day}(,| :|:) {speaker} (talked about|spoke about|presented) the {thing}.",
            "{chair} (led|opened|chaired) the meeting (in room {room}|on {date}|in room {room} on {day}), {speaker} spoke about the {thing}.",
            "(next|the next|our next) meeting(:| is on) {date}, {clock}(|, room {room}|, led by {chair}).",
        ],
        [
            "{agent} (will|is to|has to|should) (buy|check|order|look after) the {gift} by {due}.",
            "(the next meeting|we meet again) is on {date}.",
            "(it lasted|the meeting took|we talked for) {minutes} minutes.",
            "(there were|we were) {seats} people.",
        ],
    ),
    "ticket": (
        [
            "(ticket|case) {ticket}: {reporter} (says|reports|writes) that the {thing} is {trouble}.",
            "{reporter} (says|wrote on {day}|reports|told us) that the {thing} (in room {room} |)is {trouble}.",
            "(my|our) {thing} (is|has been) {trouble} since {day}(| and I need help).",
            "(hi|hello) support, the {thing} in room {room} is {trouble}.",
        ],
        [
            "{agent} (will look at it|takes care of it|is working on it|got the case)(| on {day}).",
            "(the ticket is|it has the number|case number) {ticket}.",
            "(you can reach me|call me|my phone is) {phone}.",
            "(please|) (write to|answer to|reply to) {email}.",
        ],
    ),
    "contact": (
        [
            "{name}, {company}(, {street}|, {city}|)(, tel. {phone}|, phone {phone}|, {email}).",
            "(you can|please|) (reach|call|phone|contact) {name} (at|on) {phone}(| or by mail at {email}).",
            "{name} (moved to|now lives at|lives at) {street}(| in {city}|, {city}).",
            "(the (number|phone number)|the phone) of {name} is {phone}(|, the email {email}).",
            "{name} {email} {phone}(| {city}).",
            "(kind|best|many|warm) regards,\n{name}\n(|{job}, ){company}\n({street}, {city}|{street}|{city})\n({phone}|{email}|tel."
            " {phone}, {email}).",
        ],
        [
            "(the office is|you find us) in room {room}.",
            "(we are open|call) from {opens} to {ends}.",
            "{boss} is the boss (there|of the office).",
        ],
    ),
    "weather": (
        [
            "(in {city} it is {sky}|it is {sky} in {city}|it will be {sky}) (today|on {day}|tomorrow) with {degrees} degrees.",
            "(weather|forecast)(| for {day}): {city}, {sky}, {heat}.",
            "(on {day}|today|tomorrow) {city} (will be|stays|is) {sky}(, {heat}|, with {heat}|, {degrees} degrees).",
        ],
        [
            "(the wind|a storm) comes from {country}.",
            "(the sun rises|it gets light) at {clock}.",
            "(rain|snow) starts on {date}.",
        ],
    ),
    "payment": (
        [
            "{payer} (paid|sent|transferred|gave|owes) {payee} {price}(| on {date}| for the {thing}| on {day}).",
            "{payee} (got|received|has got) {price} from {payer}(| on {date}| for the {thing}| for a {thing}).",
            "(payment|transfer) of {price} (from {payer} to {payee}|to {payee}, from {payer})(|, {date}|, reference {code}).",
            "I (paid|sent) {payee} {euros} euros (on {day}|for the {thing}).",
        ],
        [
            "(the reference|the code) is {code}.",
            "(it was|this was|it is) for a {thing}.",
            "(it arrived|it was booked) on {paid}.",
        ],
    ),
    "gift": (
        [
            "{giver} (gave|handed|sent|showed|passed|brought|threw) {receiver} a {gift}(| on {day}| in the {place}| in {city}).",
            "{giver} (gave|handed|sent|brought|passed) a {gift} to {receiver}(| on {day}| in the {place}| in {city}).",
            "{receiver} (got|received|was given) a {gift} (from|by) {giver}(| on {day}| in {city}| for {price}).",
            "(the|a) {gift} for {receiver} (is|came|was) from {giver}.",
            "{lender} lent {borrower} a {thing}(| until {due}| on {day}| for {span}).",
            "{borrower} borrowed a {thing} from {lender}(| on {day}| for {span}).",
        ],
        [
            "(it is|it was) {colour}(| and made of {material}).",
            "(it cost|it was bought for) {price}.",
            "{neighbour} (saw it|was there|watched).",
        ],
    ),
    "school": (
        [
            "{pupil} (got|has|wrote|scored) {grade} points in {subject}(| on {date}| with {teacher}).",
            "{teacher} (teaches|gave a test to|praised) {pupil} in {subject}(| on {day}| in room {room}).",
            "(the {subject} test|homework for {subject}|the {subject} homework) (is|is due) on {day}(|, room {room}|, pages up to {pages}).",
            "{pupil} (learns|is learning|takes) {subject} (with|from) {teacher}.",
        ],
        [
            "(the lesson|the class) is in room {room}(| at {clock}).",
            "(hand it in|it is due) by {due}.",
            "{pupil} is {age}( years old|).",
            "there are {people} (pupils|children) in the class.",
        ],
    ),
    "car": (
        [
            "{owner} (drives|has|bought|sold) a {colour} {car}(| for {price}| from {year}| with the plate {plate}).",
            "(the|a) {colour} {car} (with the plate|, plate) {plate} (belongs to|is driven by|was seen with) {owner}.",
            "(for sale|I sell|selling): {brand}, {year}, {colour}, {price}.",
            "{driver} (drove|took|parked) the {car} of {owner} (in|to) {city}(| on {day}).",
        ],
        [
            "(the plate is|its plate is) {plate}.",
            "(it was built|it was made) in {year}.",
            "(it is parked|you can see it) at {street}.",
            "it has {seats} seats.",
        ],
    ),
    "parcel": (
        [
            "(parcel|package) {parcel} (from {from} |)to {to} (arrives|will arrive|comes) on {day}(| at {clock}).",
            "{sender} (sent|shipped|posted) {addressee} {boxes} (parcels|boxes)(| on {sent}| to {to}).",
            "(your parcel|your package|the parcel) from {sender} (arrives|comes|is delivered) on {day}(|, between {opens} and {ends}).",
            "{driver} (delivers|brings|delivered) a {gift} to {addressee} (at {street}|in {city}|on {day}).",
        ],
        [
            "(the tracking number|the parcel number) is {parcel}.",
            "(it weighs|the weight is) {weight}.",
            "(it was left with|if nobody is home, it goes to) {neighbour}.",
            "(it is late by|the delay is) {used}.",
        ],
    ),
    "team list": (
        [
            "{boss} (leads the team|is the manager|is the boss), {cook} (cooks|is the chef)(| and {driver} drives|, {driver} is the driver).",
            "(team|staff|our team|crew): {boss} - (manager|boss), {driver} - driver, {cook} - (cook|chef).",
            "{teacher} (is our teacher|teaches us), {driver} (is the driver|drives the bus) and {doctor} is the doctor(| on the trip).",
            "{speaker} is the speaker(,| and) {chair} (chairs|leads) the (talk|evening)(, {agent} handles the tickets|).",
        ],
        [
            "(we meet|the work starts) on {day}(| at {clock}).",
            "(we are in|the office is in) {city}.",
            "(the team has|there are) {people} people.",
        ],
    ),
    "event": (
        [
            "(the|our) {hobby} (course|club|group|day) (meets|takes place|is held) on {day} from {opens} to {ends}(| in room {room}).",
            "{speaker} (speaks|will speak|gives a talk) about {hobby} in {city} on {date}(| at {clock}).",
            "(the fair|the concert|the market|the show) in {city} is on {date}(|, it opens at {opens} and closes at {ends}).",
        ],
        [
            "(tickets are|entry is|it costs) {price}.",
            "(bring|please bring) a {thing}.",
            "{host} (organises it|is the host).",
            "there are {seats} seats.",
        ],
    ),
}

# before and after the text of somebody else, where it is somebody else's; their names are distractors, or asked for
OPENINGS = [
    "(hi|hello|dear|hey|good morning|good evening) {addressee}(,|!|,\n)",
    "(hi|hello|dear) (all|team|everybody)(,|!)",
    "(note|info|message|news)(:| for {addressee}:| from {sender}:)",
]
CLOSINGS = [
    "(thanks|thank you|many thanks|cheers)(,|!|.|, {sender}|,\n{sender})",
    "(best|best regards|kind regards|yours|warm regards|best wishes|all the best)(,\n|, ){sender}",
    "(written|noted|signed|sent) by {sender}(.|)",
    "(greetings|love|best wishes|a note) from {sender}",
]

# {0} the text, {1} "a, b and c", {2} the keys in some other form, {3} a skeleton
MACROS = {
    "get": (
        "(extract|pull|take|get|find|read|pick out|grab|give me|return|write down|list|copy|tell me|show me|note|I need|I want|I'd"
        " like|please get|please extract|just give me|could you pull|can you get|can you find|could you extract|collect)"
    ),
    "make": (
        "(give me|make|return|write|reply with|answer with|output|produce|send me|I need|I want|print|build|create|respond with|can"
        " you make|could you write)"
    ),
    "the": "(|the |the |only the |just the )",
    "from": (
        "(from this|from the text|out of this|from this message|from the note|in this text|in here||from the following|of this|out of"
        " the following|from what follows)"
    ),
    "above": "(from this|from the text|out of this|from this message|from that||from the above|out of that|from it)",
    "as": "(as|as|in|in|in the form of)",
    "object": "(JSON|json|JSON|a JSON object|valid JSON|JSON form|plain JSON)",
    "json": "(JSON|json|JSON|Json)",
    "keys": "(keys|fields|the keys|the fields|keys named|entries|these keys|properties|attributes|just the keys|exactly the keys|only the keys)",
    "only": (
        "(||||||, nothing else|, no extra words|, only the JSON|, no explanation|, please|, thanks| pls|. JSON only|. no other text|."
        " only JSON, nothing more|. no comments|, no chatter|. keep it short)"
    ),
    "sep": "(: |: |:\n|\n|:\n\n|. | - |. text: |. Text:\n|, text is: | -> |; here it is: |. Here is the text: )",
    "end": "(|||.|.|!|, please.|, thanks.| please| pls| thx| :D)",
    "break": "(\n| |\n\n|\n| )",
}
REQUESTS = [
    # what to find, then the text
    "<get> <the>{1} <from> <as> <object><only><sep>{0}",
    "<get> <the>{1} <as> <object> <from> <only><sep>{0}",
    "<get> <the>{1} <from> and (write|put|return|give|answer with|send|format) (it|them|that|the result) <as> <object><only><sep>{0}",
    "<get> <the>{1} (of|in|from) the (text|message|note|sentence|mail|passage) below <as> <object><only><sep>{0}",
    "(extract|get|find|return|give|need|want) {1} as <json><only><sep>{0}",
    "<json> with {1}<only><sep>{0}",
    "<json> (pls|please|plz|now) with <keys> {2}<only><sep>{0}",
    "<json>, <keys> {2}<only><sep>{0}",
    "<json> of (|the ){1} <from> <only><sep>{0}",
    "<make> <object> with <keys> {2} <from> <only><sep>{0}",
    "<make> <object> with (|the ){1} <from> <only><sep>{0}",
    "<make> <object> that (holds|has|contains|says|shows) the {1}<only><sep>{0}",
    "<make> <object> like {3} <from> <only><sep>{0}",
    "<make> {3} <from> <only><sep>{0}",
    "(fill|fill in|complete|fill out|please fill) {3} <from> <only><sep>{0}",
    "(fill|complete|fill in) this (from the text|with what the text says|from the message|with the right values): {3}<break>"
    "(text: |message: ||note: ){0}",
    "(turn|convert|make|change|put|bring) (this|the text|this message|the following|this note) into <object> with <keys> {2}<only><sep>{0}",
    "(turn|convert|make|put) (this|this text|the following) into <object> with {1}<only><sep>{0}",
    "(parse|read|scan|go through|look at|take) (this|the text|the following|this message|this note) and <make> <object> with {1}<only><sep>{0}",
    "(parse|read|scan|look through) (this|the text) and (fill in|give me|return|complete) {3}<sep>{0}",
    "(parse|summarise|summarize|structure|put) (this|the text|the following) as <object>, <keys>: {2}<only><sep>{0}",
    "(what is|what's|what are|which is|tell me|do you see) the {1} (here|in this|in the text below|in this message|)? (answer"
    "|reply|respond|say it|write) <as> <json><sep>{0}",
    "(which|what) {1}? (answer|reply|respond) (as|in|with) <json> {3}<sep>{0}",
    "(I need|we need|I want|I only want|my boss wants|they want|my form wants) the {1} (of|from|out of) (this|this text|the"
    " message|the note) as <object><only><sep>{0}",
    "(I have|we have|I got|I received|we got) (a|this) (text|message|note|mail) and need the {1} as <object><only><sep>{0}",
    "(keys|fields)(: | = | are |:\n){2}<break>(text|sentence|message|note|input)(: |:\n| = ){0}(|\nJSON:|\njson:|\nanswer in JSON)",
    "(use|take|with) (|only |just )(these keys|the keys|these fields|the fields)(: | ){2}<break>(text|message|input|from"
    "|sentence): {0}(|\nJSON:|\nanswer in JSON)",
    "(the|this) (text|message|note) (is|says|reads)(: |:\n){0}<break><make> <object> with <keys> {2}<end>",
    "(answer|reply|respond) (only |)(in|with|as) <json>(: | with ||, <keys> ){2}. {0}",
    "(format|template|shape|form|pattern|answer like this|use this form|expected output)(: |:\n){3}<break>(text|message|input"
    "|from|note|for)(: |:\n){0}",
    "{3}<break>(fill it in|fill this in|complete it|fill that|put in the values|fill the blanks)(:|: | from:|, text:|, from this:)<break>{0}",
    "{2} (as|in) <json>(:|, from:|, text:|, please:| pls:| from this:) {0}",
    "{1} as <json>(:|, from:|, text:|, please:| pls:| from this:| out of:) {0}",
    '(from|in|out of|based on|going by) (the text|the message|the note|this)(: |:\n| )"{0}" <get> <the>{1} <as> <object><end>',
    "(from|given|with) (the (text|message|sentence)|this)(: |:\n){0}<break><make> {3}<end>",
    "(data|record|entry|object) with <keys> {2} (from this|for this|for|from)(: |:\n){0}<break>(as <json>|in <json>|<json> please|<json> only)(|.)",
    "(hey|hi|hello|ok|quick one|tiny|so|please)(,|:) (pull|get|extract|take|find) the {1} (out of|from) (this|this text) (as|in)"
    " <json><only><sep>{0}",
    "(help me|I am lazy|can you help|my turn to ask|one more)(:|,|.) <get> <the>{1} from (this|that|this text) <as> <object><only><sep>{0}",
    # the text, then what to find
    "{0}<break><get> <the>{1} <above> <as> <object><only>",
    "{0}<break><get> <the>{1} <as> <object><end>",
    "{0}<break>(extract|get|return|give|find|pull) {1} (as|in) <json><end>",
    "{0}<break><json> with {1}<end>",
    "{0}<break><json> (with |)<keys>: {2}<end>",
    "{0}<break><make> <object> with <keys> {2}<end>",
    "{0}<break><make> <object> with (|the ){1}<only>",
    "{0}<break><make> <object> (of|for) (this|that|it) with <keys> {2}<only>",
    "{0}<break><make> <object> like (this: |this |){3}<end>",
    "{0}<break><make> {3}<end>",
    "{0}<break><make> {2} only",
    "{0}<break>(fill|fill in|complete|now fill|please fill in|fill out)(:| this:| this form:|) {3}",
    "{0}<break>(which|what) {1}? (answer|reply|respond|say it) (as|in|with) <json>(.| {3}|: {3})",
    "{0}<break>(what is|what's|what are|which is|tell me) the {1}? (answer|reply|respond|write it|please answer) (as|in|with)"
    " <json>(.| like {3}| {3}| with <keys> {2})",
    "{0}<break>(I need|we need|I want|I only need|now I need|what I need is) the {1} (as|in) <object><only>",
    "{0}<break>(put|write|give|turn|bring|note) the {1} (into|as|in) <object><only>",
    "{0}<break>(turn|convert|make) (this|that|it|the text|the above) into <object>(:| with <keys>| using <keys>) {2}<end>",
    "{0}<break>(<keys>|JSON keys|wanted|needed|output|format)(: |:\n){2}(|\nJSON:|. JSON.|, as <json>|\nanswer in JSON)",
    "{0}<break>(as <json>|in <json>|to <json>|<json>|-> <json>|=> <json>)(:| with|, keys|, just|, only|) {2}",
    "{0}<break>(->|=>|to|as|in this form:|like|<json>:) {3}",
    "{0}<break>{1}(,| -| in| as|, as) <json>(| please| pls|.|!|, thanks)",
    "{0}<break>{2}(,| -|, as|, in) <json>(| please| pls|.|!)",
    "{0}<break>{3}",
    "{0}<break>(return|reply with|answer with|respond with|output|write) (only |just |nothing but |)(this|an object of this form"
    "|this object|JSON like this)(:|, filled in:|: |) {3}",
    "{0}<break>(from this|from that|out of this|using the text|based on this|now)(,|) (fill|make|write|return|give) {3}<only>",
    "(text|message|note|input|mail|sentence)(: |:\n| - ){0}<break>(<keys>|wanted|find|need)(: |:\n){2}(|\nJSON:|\njson|\nanswer:|\nanswer as JSON)",
    "(text|message|note|input)(: |:\n){0}<break><get> <the>{1} <as> <object><end>",
    "(text|message|note|input)(: |:\n){0}<break>(answer|form|JSON|output|json form)(: |:\n){3}",
    "(here is|this is|look at|see) (a|the|my|this) (text|message|note|mail)(: |:\n){0}<break><get> <the>{1} <as> <object><end>",
    "(I got|we got|there came|I have) (this|this message|this text|this note)(: |:\n){0}<break>(can you|could you|please|would"
    " you) (give|write|return|send) me the {1} (as|in) <json><end>",
]


def expand(pattern):
    """A pattern with its macros written out."""
    return re.sub(r"<(\w+)>", lambda found: MACROS[found[1]], pattern)


REQUESTS = [expand(pattern) for pattern in REQUESTS]
HOLE = re.compile(r"\{(\w+)\}")
PREFIXES = "my main current new the this our".split()  # none that says a role of its own


START = "(|||||||||FYI: |note: |new message: |for you: |news: )"
LINK = "(|||||||||by the way, |also, |one more thing: |P.S. |oh, and |remember: |PS: |besides, )"


def own_and_all(hole):
    """The names that are the role's own, and all that do for it."""
    own = ROLES[hole][1].split(", ") if hole in ROLES else []
    return own, own + TYPES[kind(hole)][1].split(", ")


def kind(hole):
    return ROLES[hole][0] if hole in ROLES else hole


ROLE_WORDS = {word for hole in [*ROLES, *TYPES] for name in own_and_all(hole)[1] for word in re.split("[ -]", name)}


def fitting(holes):
    """For every role of a text the names that fit no other role of it. Beside a weekday "date" is still the date."""
    every = {hole: own_and_all(hole) for hole in holes}

    def taken(name, hole):
        others = [other for other in holes if other != hole and name in every[other][1]]
        return any(name != hole or kind(other) == hole for other in others)

    return {hole: [name for name in every[hole][1] if not taken(name, hole)] for hole in holes}


def text_of(p):
    """A text of some sentences, the values of its roles, and the names by which they can be asked for."""
    first, more = KINDS[p.any(list(KINDS))]
    lines = [p.wording([START + line for line in first])]
    for _ in range(p.random.choices([0, 1, 2], [45, 40, 15])[0]):
        line = p.wording([LINK + line for line in more])
        if set(HOLE.findall(line)) - set(HOLE.findall(" ".join(lines))):
            lines.append(line)
    text = " ".join(lines)
    if p.chance(0.18) and "\n" not in text and not re.search(r"\b(I|[Mm]y|me|I'm|we|[Oo]ur)\b", text):
        text = f"{p.wording(OPENINGS)} {text}" if p.chance(0.5) else f"{text} {p.wording(CLOSINGS)}"
    names = {hole: fits for hole, fits in fitting(list(dict.fromkeys(HOLE.findall(text)))).items() if fits}
    values = {}
    for hole in dict.fromkeys(HOLE.findall(text)):
        while hole not in values or list(values.values()).count(values[hole]) > 1:
            values[hole] = TYPES[kind(hole)][0](p)
    if "fewer" in values:
        values["fewer"], values["points"] = sorted([values["fewer"], values["points"]])
    if p.chance(0.12) and len(names) > 1:  # the same facts as a list
        between, colon = p.any(["\n", "\n", "; ", ", ", " | "]), p.any([": ", ": ", " = ", " - "])
        case = p.any([str.capitalize, str.lower, str.title])
        text = between.join(
            f"{case(p.any(names[hole]))}{colon}{values[hole]}" for hole in p.random.sample(list(names), len(names))
        )
        return text, values, names
    text = re.sub(r" +([,.:])", r"\1", text).format(**values)
    return re.sub(r"\b([Aa]) (?=[aeiouAEIOU]|8|1[18]\b)", r"\1n ", text), values, names


def spelled(p, name):
    """A name as a key: order_number, orderNumber, "order number" or, half the time, one that nobody can know by heart."""
    parts = re.split("[ -]", name)
    key = "_".join(parts)
    if p.held:
        return f"{p.template(OWNERS)}_{key}"
    if p.chance(0.5):
        while True:
            made = p.renamed(key)
            added = {word.lower() for word in re.split("_|(?=[A-Z])", made)} - set(parts)
            if not added & ROLE_WORDS:
                return made
    if p.chance(0.25):
        return f"{p.any(PREFIXES)}_{key}"
    camel = parts[0] + "".join(part.capitalize() for part in parts[1:])
    return p.any([key, key, key, key, camel, name, name, name.title(), key.upper(), key.replace("_", "-")])


def listed(p, keys):
    """The keys in some form: with commas, line by line, between quotes, as a list."""
    quote = p.any(["{}", "{}", '"{}"', "`{}`", "'{}'"])
    shown = [quote.format(key) for key in keys]
    form = p.any(["{}", "{}", "{}", "{}", "[{}]", "{{{}}}", "\n{}", "\n- {}"])
    between = {"\n{}": "\n", "\n- {}": "\n- "}.get(form) or p.any(
        [", ", ", ", ",", " / ", "; "] if form == "{}" else [", "]
    )
    return form.format(between.join(shown))


def skeleton(p, keys, values):
    """The object with nothing in it yet."""
    blank = p.any(['""', "...", '"..."', "typed", "?", '"?"', "_", "null"])
    holes = [("0" if isinstance(v, int) else '""') if blank == "typed" else blank for v in values]
    quote, between = p.any(['"{}"', '"{}"', '"{}"', "{}"]), p.any([", ", ", ", ", ", ",\n  "])
    inner = between.join(f"{quote.format(key)}: {hole}" for key, hole in zip(keys, holes))
    return f"{{\n  {inner}\n}}" if "\n" in between else f"{{{inner}}}"


def note(p, talk):
    text, values, names = text_of(p)
    while not names or any(str(values[hole]) not in text for hole in names):
        text, values, names = text_of(p)
    asked = p.random.sample(list(names), min(len(names), p.random.choices([1, 2, 3, 4], [25, 40, 25, 10])[0]))
    keys = [spelled(p, p.any(names[hole])) for hole in asked]
    said = [values[hole] for hole in asked]
    schema = {
        "type": "object",
        "properties": {key: {"type": "integer" if isinstance(v, int) else "string"} for key, v in zip(keys, said)},
        "required": keys,
    }
    talk["schema"] = schema | {"additionalProperties": False}
    if p.chance(0.5):
        question = p.wording(WITH_SCHEMA).format(text, json.dumps(p.any([schema, talk["schema"]])))
    else:
        the, last = p.any(["", "", "", "the "]), p.any([", ", " and ", " and ", " & "])
        words_of = [f'"{key}"' if key in ("from", "to", "at") else key for key in keys]
        plain = last.join([", ".join(words_of[:-1]), the + words_of[-1]] if len(keys) > 1 else words_of)
        shown = f'"{text}"' if p.chance(0.1) and '"' not in text else text
        form = re.sub(r" +([,.;:](\s|$))", r"\1", p.wording(REQUESTS))
        if text[-1] not in ".!?":
            form = re.sub(r"\{0\} (?=[A-Za-z{])", "{0}\n", form)
        question = form.format(shown, plain, listed(p, keys), skeleton(p, keys, said))
    say(talk, question, json.dumps(dict(zip(keys, said)), ensure_ascii=False))
