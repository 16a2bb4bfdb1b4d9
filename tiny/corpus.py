"""Conversations without end, from a seed: every skill adds turns, a conversation is turns strung together.

`python corpus.py [n] [skill] [seed] [--held]` prints some.
"""

import sys

import skills
from talking import Pick, encode, render

DRILLS = 0.2  # of conversations up to 512 tokens: sums and nothing else, which the model needs to see by the hundred thousand


def conversation(p, length, count, copying=0):
    """A conversation of about `length` tokens as `count(conversation)` counts them; the first turn always goes in. Many of those that have
    room for definitions begin with tools: a first request with its definitions is long, and would else come seldom."""
    talk = skills.opening(p)
    drill = length <= 512 and p.chance(DRILLS)
    tools = not drill and length >= 128 and p.chance(0.25 if length < 256 else 0.5)
    for _ in range(40):
        before = len(talk["messages"])
        if not before and tools:
            skill = "tool"
        elif drill:
            skill = p.any(["several", "several", "sums"])
        else:
            skill = p.any(["repeat", "lookup", "lookup", "who"]) if p.chance(copying) else None
        skills.turn(p, talk, skill)
        if count(talk) > length:
            if before:
                del talk["messages"][before:]
            break
        if p.chance(0.03):
            break
    return talk


def batch(tokenizer, seed, tokens, length, copying=0, held=False):
    """About `tokens` tokens of conversations, none longer than `length`, as (ids, trained) each. The same seed gives the same ones."""
    p, out = Pick(seed, held), []
    while tokens > 0:
        ids, trained = encode(tokenizer, conversation(p, length, lambda c: len(encode(tokenizer, c)[0]), copying))
        if len(ids) <= length:
            out.append((ids, trained))
            tokens -= len(ids)
    return out


if __name__ == "__main__":
    n, skill = int(sys.argv[1]) if len(sys.argv) > 1 else 10, sys.argv[2] if len(sys.argv) > 2 else None
    p = Pick(sys.argv[3] if len(sys.argv) > 3 else "look", held="--held" in sys.argv)
    for _ in range(n):
        talk = skills.opening(p)
        skills.turn(p, talk, skill)
        print(render(talk))
