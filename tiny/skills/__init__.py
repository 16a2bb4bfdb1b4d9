"""The skills. Each function adds one exchange to a conversation; `TABLE` names them all and says how often they are drawn.

Every sentence is a template with several wordings, the last fifth of which is kept for evaluation (see corpus.Pick).
"""

from skills import itself, knowledge, memory, numbers, order, persona, reading, records, repeating, tools


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
    "Please ",
    "Now ",
    "OK, ",
    "Next: ",
    "And ",
    "Hey, ",
    "So, ",
    "I have a question: ",
    "Quick question: ",
    "Tell me: ",
    "Well, ",
    "Tiny, ",
    "One more: ",
    "Then: ",
    "Hello! ",
    "Hi, ",
    "Thanks. ",
    "Good. ",
    "Listen: ",
    "Right, ",
    "Great. ",
    "Fine. ",
    "Also: ",
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
        talk["messages"][start]["content"] = p.template(LEADS) + talk["messages"][start]["content"]
    talk.setdefault("skills", []).append((name, start))


TABLE = {  # skill: (how often, function)
    "repeat": (10, repeating.repeat),
    "repeat_times": (0.4, repeating.repeat_times),
    "lookup": (6, records.lookup),
    "form": (0.6, records.form),
    "extract": (13, records.extract),
    "make_json": (2, records.make_json),
    "greet": (3, itself.greet),
    "about": (10, itself.about),
    "option": (2, itself.option),
    "endpoint": (1, itself.endpoint),
    "chat": (3, itself.chat),
    "count": (0.7, order.count),
    "sort": (0.4, order.sort),
    "sums": (1.5, numbers.sums),
    "compare": (0.8, numbers.compare),
    "capital": (3, knowledge.capital),
    "colour": (0.8, knowledge.colour),
    "opposite": (0.8, knowledge.opposite),
    "plural": (0.8, knowledge.plural),
    "general": (1, knowledge.general),
    "unknown": (5, knowledge.unknown),
    "remember": (6, memory.remember),
    "recall": (6, memory.recall),
    "who": (3, reading.who),
    "sentiment": (3, reading.sentiment),
    "topic": (1.2, reading.topic),
    "story": (0.6, reading.story),
    "persona": (2.5, persona.persona),
    "tool": (20, tools.tool),
    "no_tool": (2, tools.no_tool),
}
