# AAC and Apple Lossless of other programs' encoders, and what FFmpeg makes of it. See README.md.
#
# No encoder writes all that a decoder must read, so some files are made up here: frames of random numbers that keep to the syntax. Codes are
# those of src/audio/aac/codebooks.ts: were one of them wrong, FFmpeg would read another number, or none.

import base64
import json
import math
import random
import re
import struct
import subprocess
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
SOURCE = HERE.parents[2] / "src" / "audio" / "aac"
STRIDE = 29  # of the samples that are kept
RATES = [96000, 88200, 64000, 48000, 44100, 32000, 24000, 22050, 16000, 12000, 11025, 8000, 7350]


# ---- frames that are made up


def codes():
    """Of each codebook, 0 for what scales differ by: symbols to codes and their lengths."""
    books = []
    for text in re.findall(r"\{((?:\s+\d+: \[[^\]]*\],)+)\s+\}", (SOURCE / "codebooks.ts").read_text()):
        code, before, book = 0, 0, {}
        for length, symbols in re.findall(r"(\d+): \[([^\]]*)\]", text):
            for symbol in re.findall(r"\d+", symbols):
                code <<= int(length) - before
                before = int(length)
                book[int(symbol)] = (code, before)
                code += 1
        books.append(book)
    assert [len(book) for book in books] == [121, 81, 81, 81, 81, 81, 81, 64, 64, 169, 169, 289]
    return books


def bands():
    """Where bands begin, by the rate that tables are named by."""
    tables = {}
    for kind, text in re.findall(r"const (LONG|SHORT) = \{(.*?)\n\}", (SOURCE / "bands.ts").read_text(), re.S):
        for rate, starts in re.findall(r"(\d+): \[([^\]]*)\]", text):
            tables[kind, int(rate)] = [int(each) for each in re.findall(r"\d+", starts)]
    return tables


CODES, BANDS = codes(), bands()
#         dimensions, least, steps
SHAPES = [(4, -1, 3)] * 2 + [(4, 0, 3)] * 2 + [(2, -4, 9)] * 2 + [(2, 0, 8)] * 2 + [(2, 0, 13)] * 2 + [(2, 0, 17)]
LOUD = 60_000 # of a spectrum's numbers
TYPICAL = [1, 1, 2, 2, 3, 3, 5, 5, 9, 9, 60]
SHORT = 2
NOISE, OPPOSITE, INTENSITY = 13, 14, 15


class Bits:
    def __init__(self):
        self.text = []

    def put(self, value, count):
        assert 0 <= value < 1 << count, (value, count)
        self.text.append(f"{value:0{count}b}" if count else "")

    def code(self, book, symbol):
        self.put(*CODES[book][symbol])

    def align(self):
        text = "".join(self.text)
        self.text = [text + "0" * (-len(text) % 8)]

    def bytes(self):
        self.align()
        text = self.text[0]
        return bytes(int(text[at : at + 8], 2) for at in range(0, len(text), 8))


class Frames:
    """One stream: windows follow each other as they must, all else is drawn."""

    def __init__(self, rate, size, draw):
        near = next(each for each, least in ((96, 75132), (64, 55426), (48, 37566), (32, 27713), (24, 18783), (16, 9391), (8, 0)) if rate >= least)
        self.long = [each for each in BANDS["LONG", near] if each < size] + [size]
        short = BANDS["SHORT", {64: 96, 32: 48}.get(near, near)]
        self.short = [each for each in short if each < size // 8] + [size // 8]
        self.draw = draw
        self.before = {}

    def following(self, *names):
        """What sequences may come next in all of these channels."""
        follow = {0: (0, 0, 1), 1: (2,), 2: (2, 3), 3: (0, 1)}
        first, *others = [follow[self.before.get(name, 0)] for name in names]
        return [each for each in first if all(each in other for other in others)]

    def windows(self, bits, *names):
        draw = self.draw
        sequence = draw.choice(self.following(*names))
        self.before.update(dict.fromkeys(names, sequence))
        starts = self.short if sequence == SHORT else self.long
        written = draw.choice([len(starts) - 1, draw.randrange(len(starts))])
        bits.put(0, 1)
        bits.put(sequence, 2)
        bits.put(draw.randrange(2), 1)
        groups = [1]
        if sequence == SHORT:
            bits.put(written, 4)
            for _ in range(7):
                joined = draw.randrange(2)
                bits.put(joined, 1)
                if joined:
                    groups[-1] += 1
                else:
                    groups.append(1)
        else:
            bits.put(written, 6)
            bits.put(0, 1)
        return sequence, starts, written, groups

    def channel(self, bits, name, common=None, special=()):
        draw = self.draw
        loudness = draw.randrange(120, 160)
        bits.put(loudness, 8)
        sequence, starts, written, groups = windows = common or self.windows(bits, name)
        is_short = sequence == SHORT
        books = [self.sections(bits, written, 3 if is_short else 5, special) for _ in groups]
        self.scales(bits, loudness, books, starts)
        has_pulses = not is_short and starts[written] > 200 and draw.random() < 0.4
        bits.put(int(has_pulses), 1)
        if has_pulses:
            self.pulses(bits, starts, starts[written])
        is_shaped = draw.random() < 0.5
        bits.put(int(is_shaped), 1)
        if is_shaped:
            self.shaping(bits, is_short)
        bits.put(0, 1)
        for group, own in zip(groups, books):
            for band, book in enumerate(own):
                if 0 < book < 12:
                    for _ in range(group * (starts[band + 1] - starts[band]) // SHAPES[book - 1][0]):
                        self.numbers(bits, book)
        return windows

    def sections(self, bits, written, width, special):
        draw, books = self.draw, []
        while len(books) < written:
            book = draw.choice([0, *range(1, 12), NOISE, *special])
            length = min(written - len(books), draw.choice([1, 2, 3, 5, 8, 40]))
            bits.put(book, 4)
            left = length
            while left >= (1 << width) - 1:
                bits.put((1 << width) - 1, width)
                left -= (1 << width) - 1
            bits.put(left, width)
            books += [book] * length
        return books

    def scales(self, bits, loudness, books, starts):
        draw = self.draw
        last = {"scale": loudness, "noise": loudness - 90, "direction": 0}
        is_first = True
        for own in books:
            for band, book in enumerate(own):
                if book == 0:
                    continue
                kind = "noise" if book == NOISE else "direction" if book > NOISE else "scale"
                if kind == "scale":
                    wanted = 100 + round(4 * math.log2(LOUD / TYPICAL[book - 1] ** (4 / 3))) + draw.randrange(-9, 6)
                elif kind == "noise":
                    wanted = round(4 * math.log2(LOUD * math.sqrt(starts[band + 1] - starts[band]))) + draw.randrange(-9, 6)
                else:
                    wanted = draw.randrange(-8, 13)
                if kind == "noise" and is_first:
                    bits.put(wanted - last[kind] + 256, 9)
                    is_first = False
                else:
                    wanted = last[kind] + max(-60, min(60, wanted - last[kind]))
                    bits.code(0, wanted - last[kind] + 60)
                last[kind] = wanted

    def pulses(self, bits, starts, end):
        draw = self.draw
        count = draw.randrange(1, 5)
        first = draw.choice([band for band, start in enumerate(starts) if start + 31 * count < end])
        bits.put(count - 1, 2)
        bits.put(first, 6)
        for _ in range(count):
            bits.put(draw.randrange(32), 5)
            bits.put(draw.randrange(16), 4)

    def shaping(self, bits, is_short):
        draw = self.draw
        for _ in range(8 if is_short else 1):
            count = draw.randrange(2 if is_short else 4)
            bits.put(count, 1 if is_short else 2)
            resolution = 3 + draw.randrange(2)
            if count:
                bits.put(resolution - 3, 1)
            for _ in range(count):
                order = draw.randrange(8 if is_short else 13)
                bits.put(draw.randrange(16 if is_short else 64), 4 if is_short else 6)
                bits.put(order, 3 if is_short else 5)
                if order:
                    bits.put(draw.randrange(2), 1)
                    less = draw.randrange(2)
                    bits.put(less, 1)
                    for at in range(order):
                        width = resolution - less
                        # FFmpeg's filters have 32 bits, which few resonances bear.
                        most = 1 << resolution - 2 if at < 2 else 1
                        value = draw.randrange(-most, min(most + 1, 1 << width - 1))
                        bits.put(value % (1 << width), width)

    def numbers(self, bits, book):
        draw = self.draw
        count, least, steps = SHAPES[book - 1]
        values = [draw.choice([0, draw.randrange(steps)]) for _ in range(count)]
        if book == 11 and draw.random() < 0.95:
            values = [min(value, 15) for value in values]
        elif least < 0:
            values = [draw.randrange(steps) for _ in range(count)]
        symbol = 0
        for value in values:
            symbol = symbol * steps + value
        bits.code(book, symbol)
        if least == 0:
            for value in values:
                if value:
                    bits.put(draw.randrange(2), 1)
        if book == 11:
            for value in values:
                if value == 16:
                    length = draw.choice([4, 4, 4, 5, 6, 7, 8, 12])
                    bits.put((1 << length - 3) - 2, length - 3)
                    bits.put(draw.randrange(1 << min(length, 8)), length)

    def pair(self, bits, number):
        draw = self.draw
        bits.put(1, 3)
        bits.put(number, 4)
        names = ("left", number), ("right", number)
        is_common = draw.random() < 0.8 and len(self.following(*names)) > 0
        bits.put(int(is_common), 1)
        if not is_common:
            for name in names:
                self.channel(bits, name)
            return
        both = self.windows(bits, *names)
        mixing = draw.randrange(3)
        bits.put(mixing, 2)
        if mixing == 1:
            for _ in range(len(both[3]) * both[2]):
                bits.put(draw.randrange(2), 1)
        self.channel(bits, None, both)
        # FFmpeg turns the sign where all is mixed, which the standard does not.
        self.channel(bits, None, both, () if mixing == 2 else (INTENSITY, OPPOSITE))

    def single(self, bits, number, kind=0):
        bits.put(kind, 3)
        bits.put(number, 4)
        self.channel(bits, (kind, number))

    def beside(self, bits):
        """Data, and bits that fill a frame."""
        draw = self.draw
        if draw.random() < 0.3:
            size = draw.choice([3, 300])
            bits.put(4, 3)
            bits.put(0, 4)
            bits.put(1, 1)
            bits.put(min(size, 255), 8)
            if size >= 255:
                bits.put(size - 255, 8)
            bits.align()
            for _ in range(size):
                bits.put(draw.randrange(256), 8)
        if draw.random() < 0.5:
            size = draw.choice([1, 40])
            bits.put(6, 3)
            bits.put(min(size, 15), 4)
            if size >= 15:
                bits.put(size - 14, 8)
            for at in range(size):
                bits.put(0 if at == 0 else 0xA5, 8)


def made(rate, size, count, elements, seed):
    draw = random.Random(seed)
    stream, frames = Frames(rate, size, draw), []
    for _ in range(count):
        bits = Bits()
        for element in elements:
            element(stream, bits)
        stream.beside(bits)
        bits.put(7, 3)
        frames.append(bits.bytes())
    return frames


ONE = [lambda stream, bits: stream.single(bits, 0)]
TWO = [lambda stream, bits: stream.pair(bits, 0)]
SIX = [
    lambda stream, bits: stream.single(bits, 0),
    lambda stream, bits: stream.pair(bits, 0),
    lambda stream, bits: stream.pair(bits, 1),
    lambda stream, bits: stream.single(bits, 0, 3),
]


def program(rate):
    """Three channels by a description of their own: a pair in front, and one behind."""
    bits = Bits()
    for value, count in ((0, 4), (1, 2), (RATES.index(rate), 4), (1, 4), (0, 4), (1, 4), (0, 2), (0, 3), (0, 4), (0, 1), (0, 1), (0, 1)):
        bits.put(value, count)
    for value, count in ((1, 1), (0, 4), (0, 1), (0, 4)):
        bits.put(value, count)
    return "".join(bits.text)


def config(rate, size, channels):
    """AudioSpecificConfig."""
    bits = Bits()
    bits.put(2, 5)
    bits.put(RATES.index(rate), 4)
    bits.put(channels, 4)
    bits.put(int(size == 960), 1)
    bits.put(0, 2)
    if channels == 0:
        bits.text.append(program(rate))
        bits.align()
        bits.put(4, 8)
        for letter in b"PCE!":
            bits.put(letter, 8)
    return bits.bytes()


def adts(rate, channels, frames):
    out = b""
    for frame in frames:
        length = len(frame) + 7
        head = 0xFFF1 << 40 | 1 << 38 | RATES.index(rate) << 34 | channels << 30 | length << 13 | 0x7FF << 2
        out += head.to_bytes(7, "big") + frame
    return out


def box(kind, *parts):
    body = b"".join(parts)
    return struct.pack(">I4s", 8 + len(body), kind) + body


def full(kind, *numbers, version=0, flags=0):
    return box(kind, struct.pack(f">I{len(numbers)}I", version << 24 | flags, *numbers))


def descriptor(tag, *parts):
    body = b"".join(parts)
    return bytes([tag, 0x80, 0x80, 0x80, len(body)]) + body


def mp4(rate, size, asc, frames):
    """The plainest that there is, with large offsets and every frame in a chunk of its own."""
    head = box(b"ftyp", b"M4A \0\0\0\0M4A isom")
    starts = np.cumsum([len(head) + 16] + [len(frame) for frame in frames])[:-1].tolist()
    specific = descriptor(4, bytes([0x40, 0x15]) + bytes(11), descriptor(5, asc))
    esds = box(b"esds", bytes(4), descriptor(3, bytes(3), specific, descriptor(6, b"\2")))
    entry = box(b"mp4a", struct.pack(">6xH8xHHI", 1, 2, 16, 0) + struct.pack(">HH", rate & 0xFFFF, 0), esds)
    total = len(frames) * size
    table = box(
        b"stbl",
        box(b"stsd", struct.pack(">II", 0, 1), entry),
        full(b"stts", 1, len(frames), size),
        full(b"stsc", 1, 1, 1, 1),
        full(b"stsz", 0, len(frames), *[len(frame) for frame in frames]),
        box(b"co64", struct.pack(f">II{len(starts)}Q", 0, len(starts), *starts)),
    )
    information = box(b"minf", full(b"smhd", 0), box(b"dinf", full(b"dref", 1, 12, struct.unpack(">I", b"url ")[0], 1)), table)
    media = box(b"mdia", full(b"mdhd", 0, 0, rate, total, 0), box(b"hdlr", bytes(8), b"soun", bytes(13)), information)
    matrix = struct.pack(">9I", 0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000)
    track = box(b"trak", box(b"tkhd", struct.pack(">5I", 7, 0, 0, 1, 0), struct.pack(">I", total), bytes(16), matrix, bytes(8)), media)
    movie = box(b"moov", box(b"mvhd", struct.pack(">5I", 0, 0, 0, rate, total), bytes(16), matrix, bytes(24), struct.pack(">I", 2)), track)
    sound = b"".join(frames)
    return head + struct.pack(">I4sQ", 1, b"mdat", 16 + len(sound)) + sound + movie


def write_made():
    for name, rate, count, elements, channels, seed in (
        ("made-mono.aac", 24000, 30, ONE, 1, 1),
        ("made-stereo.aac", 44100, 20, TWO, 2, 2),
        ("made-64.aac", 64000, 12, TWO, 2, 3),
        ("made-96.aac", 96000, 12, ONE, 1, 4),
        ("made-32.aac", 32000, 8, ONE, 1, 5),
        ("made-8.aac", 8000, 8, TWO, 2, 6),
        ("made-six.aac", 48000, 6, SIX, 6, 7),
    ):
        (HERE / name).write_bytes(adts(rate, channels, made(rate, 1024, count, elements, seed)))
    for name, rate, size, elements, channels, seed in (
        ("made-960.m4a", 48000, 960, TWO, 2, 8),
        ("made-960-16.m4a", 16000, 960, ONE, 1, 9),
        ("made-three.m4a", 48000, 1024, TWO + ONE, 0, 10),
    ):
        (HERE / name).write_bytes(mp4(rate, size, config(rate, size, channels), made(rate, size, 12, elements, seed)))


# ---- files of encoders


def sound(rate, channels, seconds):
    """A voice's pulses that glide, noise in its pauses, clicks; every channel has them somewhat later, and as loud as its place has it."""
    count = round(rate * seconds)
    time = np.arange(count) / rate
    pitch = 110 + 40 * np.sin(2 * np.pi * 2.3 * time)
    phase = 2 * np.pi * np.cumsum(pitch) / rate
    voice = sum(np.sin(k * phase) / k * np.exp(-(((k * pitch - 700) / 900) ** 2)) for k in range(1, 30))
    speaks = np.sin(2 * np.pi * 3.1 * time) > -0.3
    draw = np.random.default_rng(5)
    noise = draw.standard_normal(count)
    clicks = np.zeros(count)
    for click in range(4):
        at = round((click + 0.4) * count / 4)
        length = min(round(rate * 0.03), count - at)
        clicks[at : at + length] = np.exp(-np.arange(length) / (rate * 0.004)) * draw.standard_normal(length)
    made = [
        0.3 * np.roll(voice, 5 * channel) * speaks * (1 - 0.3 * channel / channels)
        + 0.08 * noise * ~speaks * (0.5 + 0.5 * np.cos(2 * np.pi * 0.9 * time + channel * np.pi / 2))
        + 0.5 * clicks
        for channel in range(channels)
    ]
    return np.clip(np.stack(made, 1), -0.95, 0.95)


def wav(rate, channels, seconds):
    samples = (sound(rate, channels, seconds) * 32767).astype("<i2").tobytes()
    head = struct.pack("<4sI8sIHHIIHH4sI", b"RIFF", 36 + len(samples), b"WAVEfmt ", 16, 1, channels, rate, 2 * channels * rate, 2 * channels, 16, b"data", len(samples))
    return head + samples


FFMPEG = ["ffmpeg", "-v", "error", "-y", "-bitexact", "-i", "-"]
FDK = ["fdkaac", "-S", "-I"]
PICTURES = ["-f", "lavfi", "-i", "testsrc=size=32x32:rate=5"]
QUIET = "volume=0:enable='between(t,0.04,0.1)'"
FRAGMENTS = ["-frag_duration", "200000", "-movflags"]
#                 rate, channels, seconds, how, what it is given
ENCODED = {
    "ffmpeg-mono.m4a": (16000, 1, 1.0007, [*FFMPEG, "-c:a", "aac", "-b:a", "32k"]),
    "ffmpeg-stereo.m4a": (44100, 2, 0.8, [*FFMPEG, "-c:a", "aac", "-b:a", "64k", "-movflags", "+faststart"]),
    "ffmpeg-six.m4a": (48000, 6, 0.25, [*FFMPEG, "-c:a", "aac", "-b:a", "128k"]),
    "ffmpeg.mov": (22050, 2, 0.5, [*FFMPEG, "-c:a", "aac", "-b:a", "32k"]),
    "ffmpeg-96.mov": (96000, 1, 0.2, [*FFMPEG, "-c:a", "aac", "-b:a", "48k"]), # described in the second of QuickTime's versions
    "fragments.mp4": (16000, 1, 1, [*FFMPEG, "-c:a", "aac", "-b:a", "32k", *FRAGMENTS, "empty_moov+default_base_moof"]),
    "pictures.mp4": (24000, 1, 1, [*FFMPEG[:-2], *PICTURES, *FFMPEG[-2:], "-shortest", "-c:v", "mpeg4", "-c:a", "aac", "-b:a", "32k", *FRAGMENTS, "frag_custom+omit_tfhd_offset"]),
    "alac.m4a": (22050, 2, 0.2, [*FFMPEG, "-af", QUIET, "-c:a", "alac"]),
    "alac-24.m4a": (48000, 1, 0.1, [*FFMPEG, "-af", "volume=0.77:precision=double", "-sample_fmt", "s32p", "-c:a", "alac"]),
    "alac-noise.m4a": (8000, 1, 0.2, [*FFMPEG, "-af", "aeval=2*random(0)-1", "-c:a", "alac"]),
    "alac-six.mov": (8000, 6, 0.05, [*FFMPEG, "-c:a", "alac"]),
    "fdk-crc.aac": (48000, 2, 0.8, [*FDK, "-f", "2", "-C", "-b", "32000", "-", "-o"]),
    "fdk-mono.m4a": (8000, 1, 1, [*FDK, "-G", "0", "-b", "16000", "-", "-o"]),
    "fdk-edit.m4a": (32000, 2, 0.5, [*FDK, "-G", "1", "-b", "48000", "-", "-o"]),
    "fdk-he.m4a": (44100, 2, 1, [*FDK, "-p", "5", "-G", "1", "-b", "32000", "-", "-o"]),
    "fdk-he2.m4a": (44100, 2, 1, [*FDK, "-p", "29", "-G", "1", "-b", "24000", "-", "-o"]),
}
#                  what it holds
COPIED = {
    "cut.m4a": ("ffmpeg-stereo.m4a", ["-ss", "0.3", "-t", "0.25"]),
    "opus.mp4": ("stereo-opus.ogg", []), # has the samples that golden.json has of that
}


def write_encoded():
    for name, (rate, channels, seconds, how) in ENCODED.items():
        subprocess.run([*how, HERE / name], input=wav(rate, channels, seconds), check=True)
    for name, (of, how) in COPIED.items():
        subprocess.run(["ffmpeg", "-v", "error", "-y", "-bitexact", *how, "-i", HERE / of, "-c", "copy", HERE / name], check=True)


def write_twofold():
    """A first frame whose samples are predicted twice, which no encoder does: what it says then is noise, and everybody's the same."""
    whole = bytearray((HERE / "alac-24.m4a").read_bytes())
    at = whole.index(b"mdat") + 4
    assert whole[at + 2] >> 4 & 1 == 0 # it does not say its size
    mode = 3 + 4 + 12 + 1 + 2 + 1 + 8 + 8
    bits = int.from_bytes(whole[at : at + 8], "big") | 15 << 64 - mode - 4
    whole[at : at + 8] = bits.to_bytes(8, "big")
    (HERE / "made-twofold.m4a").write_bytes(whole)


# ---- what FFmpeg makes of them


def core(whole):
    """A file of HE-AAC that says it is none, so that FFmpeg leaves the upper half of the spectrum out."""
    at = whole.index(b"esds")
    bits = int.from_bytes(whole[at : at + 60], "big")
    text = f"{bits:0480b}"
    place = text.index(f"{0x2B7:011b}{5:05b}1") + 16
    return whole[:at] + int(text[:place] + "0" + text[place + 1 :], 2).to_bytes(60, "big") + whole[at + 60 :]


def decoded(name):
    whole = (HERE / name).read_bytes()
    path = HERE / f"core-{name}"
    path.write_bytes(core(whole) if "-he" in name else whole)
    probe = ["ffprobe", "-v", "error", "-select_streams", "a:0", "-show_entries", "stream=sample_rate,channels,duration_ts", "-of", "json", path]
    told = json.loads(subprocess.run(probe, check=True, capture_output=True).stdout)["streams"][0]
    rate, channels = int(told["sample_rate"]), told["channels"]
    raw = subprocess.run(["ffmpeg", "-v", "error", "-i", path, "-map", "0:a:0", "-c:a", "pcm_f32le", "-f", "f32le", "-"], check=True, capture_output=True).stdout
    path.unlink()
    return rate, np.frombuffer(raw, "<f4").reshape(-1, channels).astype(np.float64).mean(1), told.get("duration_ts")


def of_file(name):
    rate, samples, lasts = decoded(name)
    # FFmpeg gives out the last frame whole, whatever is said of its end.
    if name in ENCODED and name.endswith(("m4a", "mov")):
        lasts = round(rate * ENCODED[name][2])
        assert len(samples) >= lasts
        samples = samples[:lasts]
    elif name in COPIED:
        samples = samples[:lasts]
    return {
        "rate": rate,
        "samples": len(samples),
        "square": float((samples**2).mean()),
        "every": STRIDE,
        "f32": base64.b64encode(samples[::STRIDE].astype("<f4").tobytes()).decode(),
    }


def main():
    write_made()
    write_encoded()
    write_twofold()
    version = subprocess.run(["ffmpeg", "-version"], check=True, capture_output=True, text=True).stdout.split()[2]
    names = sorted({*ENCODED, "cut.m4a", *(path.name for path in HERE.glob("made-*"))})
    told = {"made": {"ffmpeg": version}, "files": {name: of_file(name) for name in names}}
    (HERE / "aac.json").write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
