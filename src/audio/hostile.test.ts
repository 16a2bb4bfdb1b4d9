// What is cut off, lies or is damaged is refused in one sentence, at once and by its own fault; never a crash, never silence.

import { readFileSync } from "node:fs"
import { describe, expect, test } from "vitest"
import { decode } from "./decode.ts"

const read = (name: string) =>
  new Uint8Array(readFileSync(new URL(`../../test/golden/audio/${name}`, import.meta.url)))

const MOST = 3600

async function said(bytes: Uint8Array, most = MOST): Promise<string> {
  const sound = await decode(bytes, most)
  return "refusal" in sound ? sound.refusal : `${sound.samples.length} samples`
}

/** With bytes of these numbers from a place on. */
function patched(bytes: Uint8Array, at: number, ...values: number[]): Uint8Array {
  const copy = bytes.slice()
  copy.set(values, at)
  return copy
}

const chunk = (id: string, content: Uint8Array, size = content.length) => {
  const head = Buffer.from(`${id}    `, "latin1")
  head.writeUInt32LE(size, 4)
  return Buffer.concat([head, content, Buffer.alloc(content.length % 2)])
}
const riff = (...chunks: Uint8Array[]) => new Uint8Array(Buffer.concat([wave(chunks), ...chunks]))
const wave = (chunks: Uint8Array[]) => {
  const head = Buffer.from("RIFF    WAVE", "latin1")
  head.writeUInt32LE(4 + chunks.reduce((sum, { length }) => sum + length, 0), 4)
  return head
}
const format = (
  tag: number,
  channels: number,
  rate: number,
  bits: number,
  frame = (channels * bits) / 8,
) => {
  const content = Buffer.alloc(16)
  content.writeUInt16LE(tag, 0)
  content.writeUInt16LE(channels, 2)
  content.writeUInt32LE(rate, 4)
  content.writeUInt16LE(frame, 12)
  content.writeUInt16LE(bits, 14)
  return chunk("fmt ", content)
}
const mono = format(1, 1, 16_000, 16)
const four = chunk("data", new Uint8Array(8))

describe("WAV", () => {
  test("chunks come in any order, and odd ones are padded", async () => {
    expect(await said(riff(four, chunk("LIST", Buffer.from("odd")), mono))).toBe("4 samples")
    expect(
      await said(
        riff(mono, chunk("JUNK", Buffer.from("12345")), four, chunk("id3 ", new Uint8Array(3))),
      ),
    ).toBe("4 samples")
    expect(
      await said(riff(mono, chunk("data", new Uint8Array(0)), chunk("LIST", new Uint8Array(8)))),
    ).toBe("0 samples")
  })

  test.each([0, 0xffffffff, 0x7ffff000])(
    "a stream that says %i bytes has all that follow",
    async (size) => {
      const all = riff(mono, chunk("data", new Uint8Array(20), size))
      for (const whole of [0, 0xffffffff, 36 + size]) {
        const bytes = all.slice()
        new DataView(bytes.buffer).setUint32(4, whole, true)
        expect(await said(bytes)).toBe("10 samples")
      }
    },
  )

  test.each<[string, Uint8Array, string]>([
    ["cut off", riff(mono, four).subarray(0, 48), "it is cut off, 4 bytes into a part of 8"],
    [
      "promising more",
      riff(mono, chunk("data", new Uint8Array(8), 1e9)),
      "it is cut off, 8 bytes into a part of 1000000000",
    ],
    ["no samples", riff(mono), "it has no samples"],
    ["no format", riff(four), "it does not say how its samples are stored"],
    [
      "a short format",
      riff(chunk("fmt ", new Uint8Array(14)), four),
      "its format has 14 bytes instead of 16",
    ],
    ["no channels", riff(format(1, 0, 16_000, 16), four), "it has no channels"],
    [
      "channels that its frames do not hold",
      riff(format(1, 65_535, 16_000, 16, 2), four),
      "65535 channels of 16 bits take 131070 bytes, and it says 2",
    ],
    [
      "half a sample",
      riff(mono, chunk("data", new Uint8Array(7))),
      "it ends in the middle of a sample",
    ],
    [
      "MP3 inside",
      riff(format(85, 1, 16_000, 0), four),
      "its format is number 85 with 0 bits a sample; whole numbers (1) of 8, 16, 24 and 32 bits, floats (3) of 32 and 64, A-law (6) and mu-law (7) are read",
    ],
    [
      "no known extension",
      patched(read("s24-six.wav"), 50, 1),
      "its extended format is none that has a number",
    ],
    [
      "no numbers",
      riff(
        format(3, 1, 16_000, 32),
        chunk("data", new Uint8Array(Float32Array.of(0, Number.NaN).buffer)),
      ),
      "it has samples that are no numbers, or 2^31 and more",
    ],
    [
      "no end",
      riff(
        format(3, 1, 16_000, 64),
        chunk("data", new Uint8Array(Float64Array.of(0, 1e300).buffer)),
      ),
      "it has samples that are no numbers, or 2^31 and more",
    ],
  ])("of %s is refused", async (_, bytes, why) => {
    expect(await said(bytes)).toBe(
      `is a WAV that cannot be decoded (${why}); send it whole and valid`,
    )
  })

  test("rates that nobody has are refused, and what lasts too long", async () => {
    const of = (rate: number) => said(riff(format(1, 1, rate, 16), four))
    for (const rate of [0, 1, 999, 384_001, 10_000_000])
      expect(await of(rate)).toBe(
        `has ${rate} samples a second; 1000 to 384000 are read; send it with 16000`,
      )
    expect(await of(1000)).toBe("4 samples")
    expect(await of(384_000)).toBe("4 samples")
    const bytes = riff(mono, chunk("data", new Uint8Array(64_002)))
    expect(await said(bytes, 2)).toBe(
      "lasts 2.01 seconds; this model hears at most 2; send a part of it",
    )
  })
})

describe("FLAC", () => {
  const whole = read("s16-fixed.flac")

  test.each<[string, Uint8Array, string]>([
    ["cut off in its head", whole.subarray(0, 30), "it is cut off"],
    ["cut off", whole.subarray(0, whole.length - 1), "it is cut off"],
    ["promising more", patched(whole, 24, 0xff), "it is cut off"],
    ["a damaged frame", patched(whole, whole.length - 40, whole.at(-40)! ^ 1), "damaged"],
    ["no stream", patched(whole, 4, 1), "it does not begin with what its stream is"],
    ["another rate", patched(whole, 18, 2), "its rate, channels or bits change under way"],
    [
      "garbage",
      new Uint8Array(Buffer.concat([constantFlac(1), new Uint8Array(99)])),
      "no frame begins at byte 55",
    ],
  ])("of %s is refused", async (_, bytes, why) => {
    const sentence = await said(bytes)
    expect(sentence).toMatch(/^is a FLAC that cannot be decoded \(.*\); send it whole and valid$/)
    expect(sentence).toContain(why)
  })

  test("rates that nobody has are refused", async () => {
    const of = (rate: number) =>
      said(patched(whole, 18, rate >> 12, rate >> 4, ((rate & 15) << 4) | 0))
    expect(await of(0)).toContain("has 0 samples a second")
    expect(await of(1)).toContain("has 1 samples a second")
    expect(await of(655_350)).toContain("has 655350 samples a second")
  })

  test("what stands behind a stream of known length does not matter, and else does", async () => {
    const tagged = new Uint8Array(Buffer.concat([whole, Buffer.from("TAG")]))
    expect(await said(tagged)).toBe("1500 samples")
    const open = patched(tagged, 21, tagged[21]! & 0xf0, 0, 0, 0, 0)
    expect(await said(open)).toContain(`no frame begins at byte ${whole.length}`)
    expect(await said(open.subarray(0, whole.length))).toBe("1500 samples")
  })

  test("a few bytes that stand for hours end as soon as they are too long", async () => {
    const bomb = constantFlac(20_000) // 360 kB for 20 hours
    const began = process.cpuUsage()
    expect(await said(bomb)).toBe(
      "lasts more than 3600 seconds, the most that this model hears; send a part of it",
    )
    expect(process.cpuUsage(began).user).toBeLessThan(20e6)
    expect(await said(constantFlac(2))).toBe("131070 samples")
  })
})

/** Frames of 65,535 samples that are all 1, and a stream that does not say how many there are. */
function constantFlac(frames: number): Uint8Array {
  const info = Buffer.alloc(42)
  info.write("fLaC\x80\0\0\x22", "latin1")
  info.set([0x03, 0xe8, 0x00, 0xf0], 18) // 16,000 samples a second, 1 channel, 16 bits
  const frame = Buffer.from([0xff, 0xf8, 0x70, 0x08, 0, 0xff, 0xfe, 0, 0, 0, 1, 0, 0])
  frame[7] = crc(frame.subarray(0, 7), 8, 0x07)
  frame.writeUInt16BE(crc(frame.subarray(0, 11), 16, 0x8005), 11)
  return new Uint8Array(Buffer.concat([info, ...Array<Buffer>(frames).fill(frame)]))
}

/** Bit by bit. */
function crc(bytes: Uint8Array, bits: number, polynomial: number): number {
  let sum = 0
  for (const byte of bytes)
    for (let bit = 7; bit >= 0; bit--) {
      const out = ((sum >> (bits - 1)) ^ (byte >> bit)) & 1
      sum = ((sum << 1) ^ (out ? polynomial : 0)) & (2 ** bits - 1)
    }
  return sum
}

describe("MP3", () => {
  const whole = read("stereo.mp3")
  const join = (...parts: (Uint8Array | string)[]) =>
    new Uint8Array(Buffer.concat(parts.map((part) => Buffer.from(part as string, "latin1"))))
  const tag = (size: number) => `ID3\x04\0\0\0\0${String.fromCharCode(size >> 7, size & 127)}`

  test("what is written about a recording is passed over", async () => {
    const plain = await said(whole)
    expect(plain).toBe("11025 samples")
    expect(await said(join(tag(300), new Uint8Array(300).fill(255), whole))).toBe(plain)
    expect(await said(join(tag(0), "\0\0\0", whole, "TAG", new Uint8Array(125)))).toBe(plain)
    expect(await said(join(whole, new Uint8Array(50)))).toBe(plain)
  })

  test.each<[string, Uint8Array, string]>([
    ["cut off in a frame", whole.subarray(0, 1500), "it is cut off in the frame at byte"],
    [
      "cut off behind a frame",
      whole.subarray(0, frameEnd(whole, 3)),
      "it is cut off: it has 2 of the 1",
    ],
    ["a tag alone", join(tag(300), new Uint8Array(300)), "no frame begins at byte 310"],
    ["half a tag", join(tag(300), "x"), "it is cut off in what is written about it"],
    [
      "garbage behind a header",
      join(whole.subarray(0, 4), new Uint8Array(5000).fill(0x5a)),
      "no frame begins at byte",
    ],
    ["garbage within", patched(whole, frameEnd(whole, 3), 1, 2, 3), "no frame begins at byte"],
    ["two rates", join(whole, read("low.mp3")), "its rate changes at byte"],
  ])("of %s is refused", async (_, bytes, why) => {
    const sentence = await said(bytes)
    expect(sentence).toMatch(/^is an MP3 that cannot be decoded \(.*\); send it whole and valid$/)
    expect(sentence).toContain(why)
  })

  test("what lasts too long is not decoded", async () => {
    const { error } = console
    const silence = join(...Array<Uint8Array>(2000).fill(whole.subarray(0, frameEnd(whole, 1))))
    expect(await said(silence, 10)).toBe(
      "lasts more than 10 seconds, the most that this model hears; send a part of it",
    )
    expect(await said(whole, 0.1)).toBe(
      "lasts 0.25 seconds; this model hears at most 0.1; send a part of it",
    )
    expect(console.error).toBe(error)
  })
})

/** Where the frame of that number ends, counted from 1: found by its first two bytes, which are those of all. */
function frameEnd(bytes: Uint8Array, number: number): number {
  const buffer = Buffer.from(bytes)
  let at = 0
  for (let frame = 0; frame < number; frame++) at = buffer.indexOf(buffer.subarray(0, 2), at + 1)
  return at
}

/** Bits by bits, as RFC 3533 has it: by x^32 + x^26 + x^23 + x^22 + x^16 + x^12 + x^11 + x^10 + x^8 + x^7 + x^5 + x^4 + x^2 + x + 1. */
function checksum(page: Uint8Array): number {
  let sum = 0
  for (const byte of page) {
    sum ^= byte << 24
    for (let bit = 0; bit < 8; bit++) sum = (sum << 1) ^ (sum < 0 ? 0x04c11db7 : 0)
  }
  return sum >>> 0
}

/** Where pages of an Ogg begin. */
function pagesOf(bytes: Uint8Array): number[] {
  const buffer = Buffer.from(bytes)
  const starts: number[] = []
  for (let at = buffer.indexOf("OggS"); at >= 0; at = buffer.indexOf("OggS", at + 1))
    starts.push(at)
  return starts
}

/** With the checksums that its pages should have. */
function summed(bytes: Uint8Array): Uint8Array {
  const copy = bytes.slice()
  const starts = pagesOf(copy)
  for (const [i, at] of starts.entries()) {
    const page = copy.subarray(at, starts[i + 1])
    if (page.length < 27) continue
    page.fill(0, 22, 26)
    new DataView(page.buffer, page.byteOffset).setUint32(22, checksum(page), true)
  }
  return copy
}

describe("Ogg", () => {
  const whole = read("stereo-opus.ogg")
  const [, tags = 0, third = 0] = pagesOf(whole)
  const vorbis = read("mono-vorbis.ogg")
  const join = (...parts: Uint8Array[]) => new Uint8Array(Buffer.concat(parts))

  test.each<[string, Uint8Array, string]>([
    ["cut off in a page", whole.subarray(0, -1), "it is cut off in a page"],
    ["cut off in a page's beginning", whole.subarray(0, third + 20), "it is cut off in a page"],
    ["cut off before its sound", whole.subarray(0, tags), "it is cut off before its sound"],
    ["damaged", patched(whole, third + 60, whole[third + 60]! ^ 1), "is damaged"],
    [
      "without a page",
      join(whole.subarray(0, tags), whole.subarray(third)),
      "its page 1 is not there",
    ],
    [
      "with other bytes behind a page",
      join(whole, Buffer.from("more and more than a page's header")),
      "no page begins at byte",
    ],
    ["several recordings", join(whole, whole), "it is several recordings, one behind the other"],
    [
      "Speex",
      summed(patched(whole, 28, ...Buffer.from("Speex   "))),
      "it has Speex, and Opus and Vorbis are read",
    ],
    ["no channels", summed(patched(whole, 28 + 9, 0)), "it has 0 channels, and 1 to 8 are read"],
    ["nine channels", summed(patched(whole, 28 + 9, 9)), "it has 9 channels, and 1 to 8 are read"],
    [
      "three channels that have no names",
      summed(patched(whole, 28 + 9, 3)),
      "its header does not say what its channels are",
    ],
    [
      "a packet of too many frames",
      summed(patched(whole, third + 27 + whole[third + 26]!, 3, 63)),
      "a packet of it lasts longer than one may",
    ],
  ])("of %s is refused", async (_, bytes, why) => {
    const sentence = await said(bytes)
    expect(sentence).toMatch(/^is an Ogg that cannot be decoded \(.*\); send it whole and valid$/)
    expect(sentence).toContain(why)
  })

  test("another stream beside it is passed over", async () => {
    const beside = summed(patched(vorbis, 14, 1, 2, 3, 4)).subarray(0, pagesOf(vorbis)[1])
    expect(await said(join(whole.subarray(0, tags), beside, whole.subarray(tags)))).toBe(
      "24000 samples",
    )
  })

  test("one that begins in the middle of a broadcast is as long as it is", async () => {
    const later = whole.slice()
    const view = new DataView(later.buffer)
    for (const at of pagesOf(later).slice(2))
      view.setBigInt64(at + 6, view.getBigInt64(at + 6, true) + 480_000n, true)
    expect(await said(summed(later))).toBe("24000 samples")
  })

  test("what is made louder by its header is", async () => {
    const [plain, louder] = await Promise.all([
      decode(whole, 10),
      decode(summed(patched(whole, 28 + 16, 0, 6)), 10),
    ])
    if ("refusal" in plain || "refusal" in louder) throw new Error("refused")
    const by = 10 ** (6 / 20)
    for (const at of [1000, 12_345])
      expect(louder.samples[at]).toBeCloseTo(by * plain.samples[at]!, 5)
  })

  test("what lasts too long is not decoded", async () => {
    for (const [bytes, seconds] of [
      [whole, 0.5],
      [vorbis, 0.3],
    ] as const)
      expect(await said(bytes, 0.1)).toBe(
        `lasts ${seconds} seconds; this model hears at most 0.1; send a part of it`,
      )
  })

  test("with bytes changed under right checksums it is sound or one sentence", async () => {
    for (const file of [whole, vorbis, read("six-opus.ogg")]) await judgeChanged(file, summed)
  })
})

describe("WebM", () => {
  const whole = read("recorded.webm")
  const buffer = Buffer.from(whole)
  const first = buffer.indexOf(Buffer.of(0xa3), buffer.indexOf(Buffer.of(0x1f, 0x43, 0xb6, 0x75))) // of a cluster's blocks

  test.each<[string, Uint8Array, string]>([
    ["cut off", whole.subarray(0, -1), "it is cut off in what begins at byte"],
    [
      "another codec",
      patched(whole, buffer.indexOf("A_OPUS"), ...Buffer.from("A_FLAC")),
      "it has A_FLAC, and A_OPUS is read",
    ],
    [
      "no header of Opus",
      patched(whole, buffer.indexOf("OpusHead"), 0),
      "its header is none of Opus",
    ],
    ["no element", patched(whole, first, 0), "no element begins at byte"],
  ])("of %s is refused", async (_, bytes, why) => {
    const sentence = await said(bytes)
    expect(sentence).toMatch(/^is a WebM that cannot be decoded \(.*\); send it whole and valid$/)
    expect(sentence).toContain(why)
  })

  test("what is discarded at the end of a group's block is no sound", async () => {
    // The last block once more in a group, with 5 ms that are discarded.
    const last = buffer.lastIndexOf(Buffer.of(0xa3))
    const block = Buffer.concat([Buffer.of(0xa1), buffer.subarray(last + 1)])
    const discarded = Buffer.of(
      0x75,
      0xa2,
      0x83,
      ...[5_000_000 >> 16, (5_000_000 >> 8) & 255, 5_000_000 & 255],
    )
    const group = Buffer.concat([
      Buffer.of(0xa0, 0x40 | ((block.length + 6) >> 8), (block.length + 6) & 255),
      block,
      discarded,
    ])
    const { samples } = (await decode(whole, 10)) as { samples: Float32Array }
    expect(await said(new Uint8Array(Buffer.concat([buffer.subarray(0, last), group])))).toBe(
      `${samples.length - 240} samples`,
    )
  })
})

describe("AAC", () => {
  const whole = read("made-mono.aac")
  const join = (...parts: (Uint8Array | string)[]) =>
    new Uint8Array(Buffer.concat(parts.map((part) => Buffer.from(part as string, "latin1"))))
  const [, second = 0] = framesOf(whole)

  test("what is written about a recording is passed over", async () => {
    const tag = "ID3\x04\0\0\0\0\0\x0a0123456789"
    expect(await said(whole)).toBe("30720 samples")
    expect(await said(join(tag, "\0\0", whole, "TAG", new Uint8Array(125)))).toBe("30720 samples")
  })

  test.each<[string, Uint8Array, string]>([
    ["cut off in a frame", whole.subarray(0, -1), "it is cut off in the frame at byte"],
    [
      "cut off in a header",
      whole.subarray(0, second + 6),
      `it is cut off in the frame at byte ${second}`,
    ],
    ["garbage within", patched(whole, second, 1, 2), `no frame begins at byte ${second}`],
    ["garbage behind", join(whole, "garbage"), `no frame begins at byte ${whole.length}`],
    ["two rates", join(whole, read("made-8.aac")), `its rate changes at byte ${whole.length}`],
    ["a rate that is reserved", patched(whole, 2, 0x74), "it has a rate that is reserved"],
    [
      "AAC Main",
      patched(whole, 2, whole[2]! & 0x3f),
      "it is AAC Main, and AAC LC and HE-AAC are read",
    ],
    ["AAC LTP", patched(whole, 2, whole[2]! | 0xc0), "it is AAC LTP, and"],
    ["frames in frames", patched(whole, 6, whole[6]! | 1), "it packs several frames in one"],
    [
      "a frame of nothing",
      patched(whole, 4, 0, 0x1f),
      "the frame at byte 0 is shorter than its header",
    ],
    [
      "another number of channels",
      join(read("made-six.aac"), read("fdk-crc.aac")),
      "its channels change under way",
    ],
    [
      "a coupled channel",
      patched(whole, 7, (whole[7]! & 0x1f) | 0x40),
      "it has a channel that is added to others (CCE)",
    ],
    ["channels without end", crowd(whole, 500), "a frame of it has more than 64 channels"],
    ["no channels", patched(whole, 7, 0xe0), "a frame of it has no channels"],
  ])("of %s is refused", async (_, bytes, why) => {
    const sentence = await said(bytes)
    expect(sentence).toMatch(/^is an AAC that cannot be decoded \(.*\); send it whole and valid$/)
    expect(sentence).toContain(why)
  })

  test("what lasts too long is not decoded", async () => {
    const silence = join(...Array<Uint8Array>(3000).fill(whole.subarray(0, second)))
    expect(await said(silence, 10)).toBe(
      "lasts more than 10 seconds, the most that this model hears; send a part of it",
    )
  })
})

/** A frame of channels that are silent, and nothing else: 32 bits each. */
function crowd(whole: Uint8Array, count: number): Uint8Array {
  const length = 7 + 4 * count
  const head = patched(whole.subarray(0, 7), 4, length >> 3, ((length & 7) << 5) | 31)
  return new Uint8Array(Buffer.concat([head, new Uint8Array(4 * count)]))
}

/** Where frames of AAC begin. */
function framesOf(bytes: Uint8Array): number[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset)
  const starts: number[] = []
  for (let at = 0; at < bytes.length; at += (view.getUint32(at + 3) >>> 13) & 0x1fff)
    starts.push(at)
  return starts
}

describe("MP4", () => {
  const mono = read("ffmpeg-mono.m4a")
  const fragments = read("fragments.mp4")

  /** With numbers of 32 bits behind the name of a box, so many bytes on. */
  function changed(bytes: Uint8Array, box: string, on: number, ...values: number[]): Uint8Array {
    const copy = Buffer.from(bytes)
    const at = copy.indexOf(box) + 4 + on
    for (const [index, value] of values.entries()) copy.writeUInt32BE(value, at + 4 * index)
    return new Uint8Array(copy)
  }
  const named = (bytes: Uint8Array, box: string, name: string) =>
    patched(bytes, Buffer.from(bytes).indexOf(box), ...Buffer.from(name))
  /** Behind the tag and length of what says what AAC it is. */
  const specific = Buffer.from(mono).indexOf(Buffer.of(5, 0x80, 0x80, 0x80)) + 5
  const asc = (...values: number[]) => patched(mono, specific, ...values)

  test.each<[string, Uint8Array, string]>([
    ["cut off", mono.subarray(0, -1), "it is cut off in the box at byte"],
    [
      "cut off before it says what it holds",
      mono.subarray(0, Buffer.from(mono).indexOf("moov") - 4),
      "it is cut off: it does not say what it holds",
    ],
    ["pictures alone", named(mono, "soun", "vide"), "it has no sound"],
    [
      "Apple Lossless that is AAC",
      named(mono, "mp4a", "alac"),
      "a box of it holds less than it says",
    ],
    ["AC-3", named(mono, "mp4a", "ac-3"), "it has AC-3, and"],
    ["nobody's codec", named(mono, "mp4a", "\n;\0\0"), "it has a codec that is not known, and"],
    ["what is encrypted", named(mono, "mp4a", "enca"), "its sound is encrypted"],
    [
      "MP3",
      patched(mono, specific - 18, 0x6b),
      "it has MP3, and AAC, Apple Lossless and Opus are read",
    ],
    ["AAC Main", asc(0x0c), "it is AAC Main, and AAC LC and HE-AAC are read"],
    ["AAC-LD", asc(0xbc), "it is AAC-LD, and"],
    ["AAC-ELD", asc(0xf8, 0xe8), "it is AAC-ELD, and"],
    ["xHE-AAC", asc(0xf9, 0x48), "it is xHE-AAC, and"],
    ["a kind without a name", asc(0x54), "it is of kind 10, and"],
    ["a rate that is reserved", asc(0x16, 0x88), "it has a rate that is reserved"],
    ["no description", named(mono, "esds", "free"), "it does not say what its AAC is"],
    ["no tables", named(mono, "stbl", "free"), "it does not say where its sound is"],
    ["no sizes", named(mono, "stsz", "free"), "a box of it holds less than it says"],
    [
      "sizes that are not there",
      changed(mono, "stsz", 8, 0xffffffff),
      "it has more frames than places for them",
    ],
    [
      "one size for more than there is",
      changed(changed(mono, "stsz", 4, 300, 0xffffffff), "stsc", 12, 0xffffffff),
      "it is cut off: a part of what it lists is not there",
    ],
    ["frames of nothing", changed(mono, "stsz", 12, 0), "a frame of it is empty"],
    [
      "chunks beyond the end",
      changed(mono, "stco", 8, mono.length - 5),
      "it is cut off: a part of what it lists is not there",
    ],
    ["no chunks", changed(mono, "stco", 4, 0), "it has more frames than places for them"],
    ["chunks without frames", changed(mono, "stsc", 12, 0), "a part of its sound has no frames"],
    ["two kinds of sound", changed(mono, "stsc", 16, 2), "its kind of sound changes under way"],
    ["seconds without parts", changed(mono, "mdhd", 12, 0), "its seconds have no parts"],
    [
      "sound at half speed",
      changed(mono, "elst", 16, 0x8000),
      "it is played at another speed than recorded",
    ],
    ["a box within its own header", changed(mono, "trak", -8, 4), "is shorter than its header"],
    [
      "a fragment that is not there",
      changed(fragments, "trun", 8, 0x7fffffff),
      "it is cut off: a part of what it lists is not there",
    ],
    [
      "a fragment without end",
      changed(fragments, "trun", 4, 0xffffffff),
      "a box of it holds less than it says",
    ],
    [
      "a fragment of equal frames without end",
      changed(changed(fragments, "trun", 0, 1, 0xffffffff), "tfhd", 12, 1),
      "it is cut off: a part of what it lists is not there",
    ],
  ])("of %s is refused", async (_, bytes, why) => {
    const sentence = await said(bytes)
    expect(sentence).toMatch(
      /^is an MP4 that cannot be decoded \([^\n;]*\); send it whole and valid$/,
    )
    expect(sentence).toContain(why)
  })

  const lossless = read("alac.m4a")
  /** A byte of what Apple Lossless says of all frames; of its first frame. */
  const cookie = (on: number, ...values: number[]) =>
    patched(lossless, Buffer.from(lossless).lastIndexOf("alac") + 8 + on, ...values)
  const start = Buffer.from(lossless).indexOf("mdat") + 4
  const first = (on: number, ...values: number[]) => patched(lossless, start + on, ...values)

  test.each<[string, Uint8Array, string]>([
    ["of another version", cookie(4, 1), "its Apple Lossless has a form that is not known"],
    ["frames of nothing", cookie(0, 0, 0, 0, 0), "has a form that is not known"],
    ["frames of hours", cookie(0, 1), "has a form that is not known"],
    ["samples of 33 bits", cookie(5, 33), "has a form that is not known"],
    ["codes of no length", cookie(8, 0), "has a form that is not known"],
    ["a part that is none", first(0, 0x40), "a frame of it has a part that is not known"],
    ["a frame without channels", first(0, 0xe0), "a frame of it has no channels"],
    [
      "a frame that is too long",
      first(2, lossless[start + 2]! | 0x10, 0xff),
      "a frame of it is longer than all may be",
    ],
    [
      "a frame that ends too early",
      changed(lossless, "stsz", 12, 100),
      "a frame of it ends too early",
    ],
  ])("of Apple Lossless with %s is refused", async (_, bytes, why) => {
    const sentence = await said(bytes)
    expect(sentence).toMatch(
      /^is an MP4 that cannot be decoded \([^\n;]*\); send it whole and valid$/,
    )
    expect(sentence).toContain(why)
  })

  test("frames that share bytes are refused before they are many", async () => {
    const chunks = 5000
    const table = Buffer.alloc(16 + 4 * chunks)
    table.write("stco", 4)
    table.writeUInt32BE(table.length, 0)
    table.writeUInt32BE(chunks, 12)
    for (let chunk = 0; chunk < chunks; chunk++) table.writeUInt32BE(48, 16 + 4 * chunk)
    const whole = changed(changed(mono, "stsz", 4, 300, 0xffffffff), "stsc", 12, 1)
    expect(await said(withTable(whole, table))).toContain("its frames take more bytes than it has")
  })

  test("frames of a byte are refused before they take gigabytes", async () => {
    const count = 2 ** 20 + 1
    const padded = new Uint8Array(Buffer.concat([mono, Buffer.alloc(8 + count)]))
    const box = new DataView(padded.buffer)
    box.setUint32(mono.length, 8 + count)
    padded.set(Buffer.from("free"), mono.length + 4)
    const sized = changed(changed(padded, "stsz", 4, 1, count), "stsc", 4, 1, 1, count, 1)
    const whole = changed(sized, "stco", 4, 1, mono.length + 8)
    expect(await said(whole)).toContain("it has more than 1048576 frames")
  })

  test("parts that are meant, and nothing else, are sound", async () => {
    expect(await said(mono)).toBe("16011 samples")
    expect(await said(changed(mono, "elst", 8, 500))).toBe("8000 samples")
    expect(await said(changed(mono, "elst", 12, 0xffffffff))).toBe("17035 samples") // a pause: nothing is left out
    expect(await said(changed(mono, "elst", 12, 1_000_000))).toBe("0 samples")
    expect(await said(changed(mono, "elst", 4, 0))).toBe("17035 samples")
    expect(await said(changed(mono, "stts", 4, 0))).toBe("16016 samples") // as the list has it: a thousandth is its least part
    const many = Buffer.alloc(16 + 101 * 12)
    many.writeUInt32BE(many.length, 0)
    many.write("elst", 4)
    many.writeUInt32BE(101, 12)
    for (let edit = 0; edit < 101; edit++) many.set([0, 0, 0, 1, 0, 0, 4, 0, 0, 1], 16 + 12 * edit)
    expect(await said(withTable(mono, many))).toContain("it is cut together of more than 100 parts")
    many.writeUInt32BE(100, 12)
    expect(await said(withTable(mono, many))).toBe("1600 samples")
  })

  test("what lasts too long is not decoded", async () => {
    expect(await said(mono, 1)).toBe(
      "lasts 1.01 seconds; this model hears at most 1; send a part of it",
    )
  })

  test("HE-AAC that is told by its first kind is heard as if it were told behind AAC LC", async () => {
    const behind = read("fdk-he.m4a")
    const at = Buffer.from(behind).indexOf(Buffer.of(5, 0x80, 0x80, 0x80)) + 5
    const channels = (behind[at + 1]! >> 3) & 15
    const first = (5n << 35n) | (7n << 31n) | (BigInt(channels) << 27n) | (4n << 23n) | (2n << 18n)
    const told = patched(
      behind,
      at,
      ...[32n, 24n, 16n, 8n, 0n].map((bits) => Number((first >> bits) & 255n)),
    )
    expect(told).not.toEqual(behind)
    expect(await decode(told, 10)).toEqual(await decode(behind, 10))
  })

  test.each([4, 8, 16])("sizes of %i bits are read", async (width) => {
    const name = "stsz"
    const at = Buffer.from(mono).indexOf(name)
    const count = Buffer.from(mono).readUInt32BE(at + 12)
    const sizes = Array.from({ length: count }, (_, frame) =>
      Buffer.from(mono).readUInt32BE(at + 16 + 4 * frame),
    )
    const digits = sizes
      .map((size) => (size % 2 ** width).toString(2).padStart(width, "0"))
      .join("")
    const bytes = digits.padEnd(Math.ceil(digits.length / 8) * 8, "0").match(/.{8}/g)!
    const table = Buffer.alloc(20 + bytes.length)
    table.writeUInt32BE(table.length, 0)
    table.write("stz2", 4)
    table.writeUInt32BE(width, 12)
    table.writeUInt32BE(count, 16)
    table.set(
      bytes.map((byte) => Number.parseInt(byte, 2)),
      20,
    )
    const whole = withTable(named(mono, name, "stz2"), table)
    if (width === 16) expect(await decode(whole, 10)).toEqual(await decode(mono, 10))
    else expect(await said(whole)).toContain("is an MP4 that cannot be decoded (a frame of it ")
    expect(await said(changed(whole, "stz2", 4, 7))).toContain(
      "its frames have sizes of no known form",
    )
  })

  test("an old QuickTime file, without a name in front, is one", async () => {
    const movie = read("ffmpeg.mov")
    expect(await said(named(movie, "ftyp", "wide"))).toBe("11025 samples")
  })
})

/** With a box instead of another of its name, behind all that frames lie in; the boxes around it grow. */
function withTable(whole: Uint8Array, table: Buffer): Uint8Array {
  const bytes = Buffer.from(whole)
  const name = table.toString("latin1", 4, 8)
  const at = bytes.indexOf(name) - 4
  const grown = table.length - bytes.readUInt32BE(at)
  for (const around of ["moov", "trak", "edts", "mdia", "minf", "stbl"]) {
    const start = bytes.indexOf(around) - 4
    const size = bytes.readUInt32BE(start)
    if (start < at && at < start + size) bytes.writeUInt32BE(size + grown, start)
  }
  const rest = bytes.subarray(at + bytes.readUInt32BE(at))
  return new Uint8Array(Buffer.concat([bytes.subarray(0, at), table, rest]))
}

test("what is something else is told what it is", async () => {
  const beginnings: [string, string][] = [
    ["FORM1234AIFF", "is AIFF"],
    ["ADIF", "is AAC without frames (ADIF)"],
    ["\xff\xfd\x50", "is MPEG audio of layer 1 or 2"],
    ["RIFX1234WAVE", "is a WAV of the other byte order (RIFX)"],
    ["RIFF1234AVI ", "is no recording that is known"],
    ["<!doctype html>", "is a web page"],
    ["", "is empty"],
  ]
  for (const [beginning, what] of beginnings)
    expect(await said(Buffer.from(beginning, "latin1"))).toBe(
      `${what}; send WAV, MP3, FLAC, Ogg, WebM, MP4 (M4A) or AAC`,
    )
})

const FILES = [
  "s16.wav",
  "f32.wav",
  "s24-six.wav",
  "mu-law.wav",
  "s16.flac",
  "s24.flac",
  "mid.flac",
  "stereo.mp3",
  "low.mp3",
  "stereo-opus.ogg",
  "recorded.webm",
  "fdk-crc.aac",
  "made-stereo.aac",
  "ffmpeg-mono.m4a",
  "fdk-mono.m4a",
  "fragments.mp4",
  "opus.mp4",
  "alac.m4a",
  "alac-24.m4a",
]

test.each(FILES)("%s with bytes changed or missing is sound or one sentence", (name) =>
  judgeChanged(read(name)),
)

async function judgeChanged(
  whole: Uint8Array,
  mended = (bytes: Uint8Array) => bytes,
): Promise<void> {
  let state = 7
  const random = (below: number) => {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff
    return Math.floor((state / 2 ** 31) * below)
  }
  for (let round = 0; round < 60; round++) {
    const bytes = whole.slice(0, round % 3 === 0 ? random(whole.length) : whole.length)
    for (let change = random(4); change >= 0 && bytes.length > 0; change--)
      bytes[random(round % 2 ? Math.min(bytes.length, 64) : bytes.length)] = random(256)
    const sound = await decode(mended(bytes), 10)
    if ("refusal" in sound) expect(sound.refusal).toMatch(/^(?:is|has|lasts) [^\n]+; send [^;\n]+$/)
    else expect(sound.samples.every(Number.isFinite)).toBe(true)
  }
}
