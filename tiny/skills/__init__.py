"""The skills. Each function adds one exchange to a conversation; `TABLE` names them all and says how often they are drawn.

Every sentence is a template with several wordings, the last fifth of which is kept for evaluation (see corpus.Pick).
"""

import json

from skills import itself, knowledge, memory, notes, numbers, order, persona, reading, records, repeating, tools
from talking import hurried


def opening(p):
    """An empty conversation: now and then with a plain system text, and with nothing remembered."""
    system = p.template(SYSTEMS) if p.chance(0.15) else None
    return {"system": system, "tools": [], "messages": [], "memory": {}}


SYSTEMS = [
    "You are a helpful assistant.",
    "You are a small and friendly assistant.",
    "Answer briefly.",
    "You help people. Be kind and brief.",
    "You are a helpful AI assistant.",
    "Be concise.",
    "You are sinter's tiny model.",
    "Answer the user's questions.",
    "You are a careful assistant. Answer in English.",
]


# said before the question, now and then
LEADS = [
    "(please|now|OK,|next:|and|hey,|so,|well,|tiny,|then:|listen:|right,|great.|fine.|also:|thanks.|good.|hello!|hi,|now then,|all right,|first,|oh,|hm,)",
    "(I have|here is|here comes|now|and|may I ask|let me ask|there is) (a|one|another|one more|a small|a quick|an easy|my first|my next|the next|my) (question|thing|task|request|one)(:|.)",
    "(tell me|quick question|one more|a question|next question|next task|new topic|something else|by the way|now for you|for you|your turn|question|user|me|my turn)(:)",
    "(I am|we are|I was|she is|my boss is) (curious|in a hurry|new here|at work|testing you|waiting|just asking|not sure|learning|trying this)(.|:)",
    "(thank you|thanks|good|nice|I see|all right|great|perfect|very well|yes|interesting|aha)(,|.|!) (now|next|and now|then|so|but|now this)(:)",
    "(it is|today is|this is) (late|early|Monday|a nice day|my first day|important|urgent|for a friend|for my work|a test|only a test)(.)",
]


def turn(p, talk, skill=None):
    names, weights = zip(*((name, weight) for name, (weight, _) in TABLE.items()))
    name = skill or p.random.choices(names, weights)[0]
    if talk["tools"] and not skill and p.chance(0.75):
        name = "tool"  # definitions are long; once read they are used
    elif talk["memory"] and not skill and p.chance(0.3):
        name = "recall"
    start = len(talk["messages"])
    TABLE[name][1](p, talk)
    if name not in ("greet", "chat", "persona") and p.chance(0.15):
        talk["messages"][start]["content"] = p.wording(LEADS) + " " + talk["messages"][start]["content"]
    if not p.held and p.chance(0.3):
        asked, *replies = talk["messages"][start:]
        said = " ".join(m["content"] + json.dumps(m.get("tool_calls", ""), ensure_ascii=False) for m in replies)
        spoken = said.replace('"', " ").replace("{", " ").replace("}", " ").replace("\\n", " ")
        asked["content"] = hurried(p, asked["content"], said + " " + spoken, name in BY_HEART)
    talk.setdefault("skills", []).append((name, start))


BY_HEART = {
    "greet",
    "about",
    "option",
    "endpoint",
    "chat",
    "capital",
    "sentiment",
    "unknown",
}  # replies say no word of the request

TABLE = {  # skill: (how often, function)
    "repeat": (15, repeating.repeat),
    "repeat_times": (0.4, repeating.repeat_times),
    "lookup": (6, records.lookup),
    "form": (0.6, records.form),
    "extract": (16, records.extract),
    "note": (26, notes.note),
    "make_json": (2, records.make_json),
    "greet": (4, itself.greet),
    "about": (12, itself.about),
    "option": (2, itself.option),
    "endpoint": (1, itself.endpoint),
    "chat": (3, itself.chat),
    "count": (0.7, order.count),
    "sort": (0.4, order.sort),
    "sums": (17, numbers.sums),
    "several": (2, numbers.several),
    "compare": (0.8, numbers.compare),
    "capital": (3, knowledge.capital),
    "colour": (0.8, knowledge.colour),
    "opposite": (0.8, knowledge.opposite),
    "plural": (0.8, knowledge.plural),
    "general": (1, knowledge.general),
    "unknown": (7, knowledge.unknown),
    "remember": (7, memory.remember),
    "recall": (8, memory.recall),
    "who": (4, reading.who),
    "sentiment": (3, reading.sentiment),
    "topic": (1.2, reading.topic),
    "story": (0.6, reading.story),
    "persona": (4, persona.persona),
    "tool": (30, tools.tool),
    "no_tool": (2, tools.no_tool),
}
