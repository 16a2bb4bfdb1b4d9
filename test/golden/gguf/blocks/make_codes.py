"""Hashes of what others unpack from blocks that hold every code: codes.json.

    python make_codes.py LIBGGML_BASE     (numpy, gguf 0.19, and llama.cpp's libggml-base.so)

Bytes are those of a generator that anybody can write: x -> 1103515245 x + 12345 modulo 2^31, of which bits 16 to 23 are taken.
The block's own number is 1. Values are those of the package gguf, and where it does not know a type those of the library; types
that both know have to agree.
"""

import ctypes
import hashlib
import json
import sys
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, quants

BLOCKS = 2048
# Values and bytes of a block, and where its own number lies.
SIZES = {
    "IQ1_S": (256, 50, 0), "IQ1_M": (256, 56, None), "IQ2_XXS": (256, 66, 0), "IQ2_XS": (256, 74, 0), "IQ2_S": (256, 82, 0),
    "IQ3_XXS": (256, 98, 0), "IQ3_S": (256, 110, 0), "TQ1_0": (256, 54, 52), "TQ2_0": (256, 66, 64), "Q1_0": (128, 18, 0),
    "Q2_0": (64, 18, 0),
}


def blocks(kind: str) -> np.ndarray:
    _, size, number = SIZES[kind]
    x, rows = 1, np.zeros((BLOCKS, size), np.uint8)
    for block in rows:
        for i in range(size):
            x = (1103515245 * x + 12345) % 2**31
            block[i] = x >> 16 & 255
        if number is None:  # 0x3c00, a digit in each word of scales
            for i, digit in enumerate((0, 0, 12, 3)):
                block[49 + 2 * i] = block[49 + 2 * i] & 15 | digit << 4
        else:
            block[number : number + 2] = 0, 0x3C
    return rows


def by_library(library: ctypes.CDLL, kind: str, rows: np.ndarray) -> np.ndarray:
    values = np.zeros(BLOCKS * SIZES[kind][0], np.float32)
    unpack = getattr(library, f"dequantize_row_{kind.lower()}")
    unpack(rows.ctypes.data_as(ctypes.c_void_p), values.ctypes.data_as(ctypes.c_void_p), ctypes.c_int64(values.size))
    return values


library, found = ctypes.CDLL(sys.argv[1]), {}
for kind in SIZES:
    rows = blocks(kind)
    values = by_library(library, kind, rows)
    if kind not in ("Q1_0", "Q2_0"):
        assert np.array_equal(values, quants.dequantize(rows, GGMLQuantizationType[kind]).ravel()), kind
    found[kind] = hashlib.sha256(values.astype("<f4").tobytes()).hexdigest()
Path(__file__).with_name("codes.json").write_text(json.dumps(found, indent=2) + "\n")
