"""Scores on held-out prompts: templates, names, keys and values that training never drew. Greedy, with the correct history before each reply.

`python evaluate.py` asks the checkpoint; `--url http://127.0.0.1:8000 --model tiny` asks a server that serves the exported folder.
Prints a score for every skill, the bars, and which part of the prompts' 8-word runs also occur in training text.
"""

import argparse
import json
import re
import urllib.request
from collections import defaultdict
from pathlib import Path

import facts
import fourth
import fresh
import skills
import talking
import third
from skills import itself, numbers, tools
from skills import memory as memories

HERE = Path(__file__).parent
LIMIT = 160


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--name", default="base")
    a.add_argument("--runs", default=str(HERE / "runs"), help="where checkpoints are kept")
    a.add_argument("--packed", help="a q8f16_1 folder, asked in float32")
    a.add_argument("--url")
    a.add_argument("--model", default="tiny")
    a.add_argument("-n", type=int, default=60, help="conversations a skill")
    a.add_argument("--skill", action="append")
    a.add_argument("--show", type=int, default=0, help="print so many failures a skill")
    a.add_argument("--overlap", type=int, default=0, help="how many training conversations to compare 8-word runs with")
    a.add_argument(
        "--seen",
        action="store_true",
        help="draw from the training side instead: what was learnt, not how it carries over",
    )
    a.add_argument("--fresh", action="store_true", help="ask the second set, which nobody tuned anything on (fresh.py)")
    a.add_argument("--third", action="store_true", help="ask the third set (third.py): once, when training is over")
    a.add_argument("--fourth", action="store_true", help="ask the fourth set (fourth.py), two bars: as the third")
    a.add_argument("--json")
    args = a.parse_args()
    ask = Server(args.url, args.model) if args.url else Checkpoint(Path(args.runs) / args.name, args.packed)
    right, total, ended, prompts = defaultdict(int), defaultdict(int), [], []
    table = next((each.CASES for each in SETS if getattr(args, each.__name__)), CASES)
    for name in args.skill or table:
        shown = 0
        for talk, at in cases(name, args.n, not args.seen, table):
            asked = dict(talk, messages=talk["messages"][:at])
            reply, stopped = ask(asked)
            good = correct(name, talk["messages"][at], reply, talk)
            total[name] += 1
            right[name] += good
            ended.append(stopped)
            prompts.append(talk["messages"][at - 1]["content"])
            if not good and (shown < args.show or args.show and not stopped):
                shown += 1
                print(
                    f"  {name}: {talk['messages'][at - 1]['content']!r}\n    wanted {said(talk['messages'][at])!r}\n    got    {said(reply)!r}"
                    + ("" if stopped else "  (endless)")
                )
        print(f"{name:16s} {100 * right[name] / total[name]:5.1f} %  of {total[name]}", flush=True)
    scores = {name: round(100 * right[name] / total[name], 1) for name in total}
    print(f"{'ends by itself':16s} {100 * sum(ended) / len(ended):5.1f} %  of {len(ended)}")
    scores["ends by itself"] = round(100 * sum(ended) / len(ended), 2)
    if args.overlap:
        scores["8-word runs seen in training"] = share = round(100 * overlap(prompts, args.overlap), 2)
        print(f"8-word runs of the prompts that occur in {args.overlap} training conversations: {share} %")
    if args.json:
        Path(args.json).write_text(json.dumps(scores, indent=1) + "\n")


def memory(p, talk):
    """Told something, one to three other turns, asked for it."""
    key = p.any(list(memories.MEMORIES))
    draw, tells, reply, asks, answer, _ = memories.MEMORIES[key]
    value = draw(p)
    talking.say(talk, memories.tell(p, tells, value), (lambda r: r[0].upper() + r[1:])(reply.format(value)))
    for _ in range(p.int(1, 3)):
        skills.turn(p, talk, p.any(["repeat", "capital", "sums", "greet", "opposite", "colour"]))
    talking.say(talk, memories.asked(p, asks), talking.fix(answer.format(value)))
    talk["last"] = True


def tool_of(kinds, closed=False):
    """One or two tools, one of them asked for; `closed`: their definitions say that there are no other parameters."""

    def case(p, talk):
        talk["drawn"] = [tools.draw(p, tools.KINDS[p.any(kinds)] if kinds else tools.made_up(p))]
        talk["drawn"] += [tools.draw(p, tools.made_up(p)) for _ in range(p.int(0, 1))]
        p.random.shuffle(talk["drawn"])
        talk["tools"] = [t[0] for t in talk["drawn"]]
        for t in talk["tools"]:
            t["function"]["parameters"].pop("additionalProperties", None)
            t["function"]["parameters"] |= {"additionalProperties": False} if closed else {}
        chosen = p.any([t for t in talk["drawn"] if not kinds or t[1] in tools.KINDS.values()])
        text, arguments, _ = tools.ask(p, chosen)
        talk["messages"] += [talking.user(text), talking.call(chosen[0]["function"]["name"], arguments)]
        talk["last"] = True

    return case


def tool_answer(p, talk):
    while len(talk["messages"]) < 3 or talk["messages"][-2]["role"] != "tool":
        talk.update(messages=[], tools=[], system=None)
        tools.tool(p, talk)
    talk["last"] = True


CASES = {name: f for name, (_, f) in skills.TABLE.items() if name not in ("tool", "no_tool", "recall")} | {
    "memory": memory,
    "tool familiar": tool_of(list(tools.KINDS)[:-4], closed=True),
    "tool familiar, open": tool_of(list(tools.KINDS)[:-4]),
    "tool new kind": tool_of(tools.HELD),
    "tool made up": tool_of(None),
    "tool answer": tool_answer,
    "no tool": skills.TABLE["no_tool"][1],
    "sums, two digits": numbers.two_digits,
    "about, recombined": lambda p, talk: itself.about(p, talk, 1),
    "about, other": lambda p, talk: itself.about(p, talk, 0),
}


SETS = (fresh, third, fourth)  # each named like its option


def cases(name, n, held, table):
    which = next((each.__name__ for each in SETS if table is each.CASES), "evaluation")
    p = talking.Pick(f"{which} {name}", held)
    for _ in range(n):
        talk = skills.opening(p)
        table[name](p, talk)
        ats = [i for i, m in enumerate(talk["messages"]) if m["role"] == "assistant"]
        yield from ((talk, at) for at in (ats[-1:] if talk.get("last") else ats[:1]))


def correct(name, wanted, got, talk):
    if wanted.get("tool_calls"):
        return [c["function"] for c in wanted["tool_calls"]] == [c["function"] for c in got.get("tool_calls") or []]
    text, want = got["content"] or "", wanted["content"]
    if got.get("tool_calls"):
        return False
    if name in ("extract", "extract, by keys", "make_json"):
        try:
            return json.loads(text) == json.loads(want)
        except ValueError:
            return False
    if name == "unknown":
        return text.startswith("I do not know")
    if name == "story":
        return (
            want.split(" called ")[0].split(" named ")[0].split()[-1] in text
            and text.endswith(".")
            and 80 < len(text) < 400
        )
    if (
        name == "general"
        and re.search("^(Name|Give|List|Tell|I need) ", talk["messages"][0]["content"])
        and ", " in want
    ):
        members = next(m for m in facts.KINDS.values() if want.split(", ")[0] in m)
        items = text.split(", ")
        return len(set(items)) == len(want.split(", ")) and all(i in members for i in items)
    return text == want


def said(message):
    return (
        message["content"]
        if not message.get("tool_calls")
        else json.dumps([c["function"] for c in message["tool_calls"]])
    )


class Checkpoint:
    def __init__(self, run, packed=None):
        import torch
        from tokenizers import Tokenizer

        import export

        torch.set_num_threads(1)
        self.export, self.tokenizer = export, Tokenizer.from_file(str(HERE.parent / "models/tiny/tokenizer.json"))
        if packed:
            self.model = export.load_packed(Path(packed))
            return
        self.model, state = export.load(run / "last.pt")
        print(f"{run.name}: {state['tokens'] / 1e6:.2f} M tokens, {state['seconds']:.0f} s")

    def __call__(self, talk):
        ids, _ = talking.encode(self.tokenizer, talk, prompt=True)
        out = self.export.greedy(self.model, ids, self.export.END_IDS, LIMIT)
        stopped = out[-1] in self.export.END_IDS
        return read(self.tokenizer.decode(out[:-1] if stopped else out, skip_special_tokens=False)), stopped


def read(text):
    """Text with Hermes calls → a message."""
    calls = []
    for body in re.findall(r"<tool_call>\n(.*?)\n</tool_call>", text, re.S):
        try:
            calls.append({"function": json.loads(body)})
        except ValueError:
            return {"content": text}
    return {"content": text.split("<tool_call>")[0] if calls else text, "tool_calls": calls}


class Server:
    def __init__(self, url, model):
        self.url, self.model = url.rstrip("/") + "/v1/chat/completions", model

    def __call__(self, talk):
        messages = ([{"role": "system", "content": talk["system"]}] if talk["system"] else []) + talk["messages"]
        body = {"model": self.model, "messages": messages, "temperature": 0, "max_tokens": LIMIT} | (
            {"tools": talk["tools"]} if talk["tools"] else {}
        )
        if "schema" in talk:  # extraction is asked for with a schema, as one would
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "fields", "schema": talk["schema"]},
            }
        request = urllib.request.Request(self.url, json.dumps(body).encode(), {"content-type": "application/json"})
        choice = json.load(urllib.request.urlopen(request))["choices"][0]
        calls = choice["message"].get("tool_calls") or []
        for c in calls:
            arguments = c["function"]["arguments"]
            c["function"] = {
                "name": c["function"]["name"],
                "arguments": json.loads(arguments) if isinstance(arguments, str) else arguments,
            }
        return {"content": choice["message"]["content"], "tool_calls": calls}, choice["finish_reason"] in (
            "stop",
            "tool_calls",
        )


def runs(text):
    """Runs of eight words; JSON in the text (schemas) is boilerplate and left out."""
    found = re.findall(r"\w+", re.sub(r"\{.*\}", " ", text).lower())
    return {tuple(found[i : i + 8]) for i in range(len(found) - 7)}


def overlap(prompts, n):
    wanted = set().union(*(runs(text) for text in prompts))
    p, seen = talking.Pick("overlap"), set()
    for _ in range(n):
        talk = skills.opening(p)
        skills.turn(p, talk)
        for m in talk["messages"]:
            seen |= runs(m["content"]) & wanted
    return len(seen) / max(1, len(wanted))


if __name__ == "__main__":
    main()
