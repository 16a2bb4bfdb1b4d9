"""Noise by its definition (docs/determinism.md), computed apart from the product: golden.json beside this file.

    python make.py        numpy finds tokens far out, the values are computed in whole numbers and decimals of forty digits

Tokens are an ordinary one, and among the first 2^26 those whose word is the smallest and the largest: there a half more or less in
u = (r + 0.5) / 2^32 shows.
"""

import json
from decimal import Decimal, getcontext
from pathlib import Path

import numpy as np

ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
SEED, CHOICE, POSITION = 0x9E3779B97F4A7C15, 3, 1000
getcontext().prec = 40


def threefry(key, counter):
    """Threefry-2x32, 20 rounds; the counter's words may be arrays."""
    mask = np.uint64(0xFFFFFFFF)
    words = [np.uint64(key[0]), np.uint64(key[1]), np.uint64(key[0] ^ key[1] ^ 0x1BD11BDA)]
    x, y = (np.asarray(word, np.uint64) for word in counter)
    x, y = (x + words[0]) & mask, (y + words[1]) & mask
    for r in range(20):
        turns = ROTATIONS[r % 8]
        x = (x + y) & mask
        y = ((y << np.uint64(turns)) | (y >> np.uint64(32 - turns))) & mask
        y ^= x
        if r % 4 == 3:
            n = r // 4 + 1
            x, y = (x + words[n % 3]) & mask, (y + words[(n + 1) % 3] + np.uint64(n)) & mask
    return x, y


def noise(r):
    u = (Decimal(r) + Decimal("0.5")) / 2**32
    return float(-(-u.ln()).ln())


key = tuple(int(word) for word in threefry((SEED & 0xFFFFFFFF, SEED >> 32), (CHOICE, POSITION)))
tokens = np.arange(2**26, dtype=np.uint64)
words = np.concatenate([threefry(key, (part, np.zeros_like(part)))[0] for part in np.split(tokens, 64)])
cases = [
    {"token": token, "word": int(words[token]), "noise": noise(int(words[token]))}
    for token in (77, int(words.argmin()), int(words.argmax()))
]
made = {"made_by": "make.py", "seed": str(SEED), "choice": CHOICE, "position": POSITION, "cases": cases}
(Path(__file__).parent / "golden.json").write_text(json.dumps(made, indent=1) + "\n")
