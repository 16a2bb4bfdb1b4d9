// Small kernels that together say everything the kernel language can: what a device makes of them is held to the slow twin,
// on twenty shapes each. On the first one groups are filled twice, and there are tails.

import { halfValues } from "../../../runtime/dtype.ts"
import { mulberry32 } from "./check-random.ts"
import {
  type Builder,
  f32,
  fma,
  i32,
  kernel,
  lookUp,
  select,
  u32,
  type Value,
} from "./ir/builder.ts"
import type { Element, Kernel } from "./ir/ir.ts"
import { floatWord } from "./launch.ts"

/** A kernel on one shape. */
export interface GpuCase {
  kernel: Kernel
  /** In the order of the kernel's: what lies in a buffer before, or a word. */
  operands: readonly (Numbers | number)[]
  groups: readonly [number, number, number]
}

/** A kernel, and what it is tried on. */
export interface CheckedKernel {
  name: string
  kernel: Kernel
  /** In the words of every profile that a device can be given, or of the first, which is the one that models get. */
  profiles: "all" | "first"
  shapes: number
  /** The same kernel, with operands and groups of one of the shapes. */
  at: (shape: number) => ShapedCase
}

export interface ShapedCase extends GpuCase {
  /** In words. */
  shape: string
}

/** Of each kernel. */
export const SHAPES = 20

export type Numbers = Float32Array | Int32Array | Uint32Array | Uint16Array | Int8Array | Uint8Array

const THREADS = 32

/** How many numbers a kernel is given: one, some less or more than threads and groups of them take, and many. */
const counts = [3 * 64 + 5, 1, 2, 3, 5, 7, 15, 16, 17, 31, 32, 33, 47, 63, 64, 65, 95, 97, 128, 257]
/** As many groups, where more or fewer than the numbers ask for are right. */
const groupsAt = (shape: number) => [3, 1, 2, 5][shape % 4]!

/** Floats at all the ends, then floats of every size and sign. */
export function floats(count: number, seed: number): Float32Array {
  const ends = [
    0,
    -0,
    1,
    -1,
    1.5,
    -2.5,
    3,
    2 ** -149,
    -(2 ** -149),
    2 ** -126,
    2 ** -126 - 2 ** -149,
    3.4028234663852886e38,
    -3.4028234663852886e38,
    Infinity,
    -Infinity,
    Number.NaN,
    2 ** 24,
    2 ** 24 - 1,
  ]
  const next = mulberry32(seed)
  const bits = Uint32Array.from({ length: count }, () => next())
  const values = new Float32Array(bits.buffer)
  for (let i = 0; i < count; i++) {
    if (next() % 4 === 0) values[i] = ends[next() % ends.length]!
    else if (next() % 2 === 0) values[i] = (next() / 2 ** 31 - 1) * 2 ** ((next() % 9) - 4)
  }
  return values
}

export function words(count: number, seed: number): Uint32Array {
  const ends = [0, 1, 2, 31, 32, 0x7fffffff, 0x80000000, 0x80000001, 0xffffffff, 0x80808080]
  const next = mulberry32(seed)
  return Uint32Array.from({ length: count }, () =>
    next() % 3 === 0 ? ends[next() % ends.length]! : next() >>> (next() % 32),
  )
}

const integers = (count: number, seed: number) => new Int32Array(words(count, seed).buffer)

/** What each of some expressions of two (or three) numbers is, for triples of numbers. */
function expressions<Type extends "f32" | "i32" | "u32">(
  name: string,
  type: Type,
  to: "f32" | "i32" | "u32",
  write: (a: Value, b: Value, c: Value, k: Builder) => readonly Value[],
  numbers: (count: number, seed: number) => Numbers,
): CheckedKernel {
  let outputs = 0
  const written = kernel(name, THREADS, (k) => {
    const inputs = ["a", "b", "c"].map((each) => k.buffer(each, type, "read"))
    const output = k.buffer("output", to, "write")
    const count = k.word("count")
    k.for(
      k.group(0).mul(THREADS).add(k.lane),
      count,
      k.groups(0).mul(THREADS),
      (i) => {
        const [x, y, z] = inputs.map((input) => input.load(i)) as [Value, Value, Value]
        const results = write(x, y, z, k)
        outputs = results.length
        for (const [j, result] of results.entries())
          output.store(i.mul(results.length).add(j), result)
      },
      "i",
    )
  })
  const at = (shape: number) => {
    const count = counts[shape]!
    const inputs = [1, 2, 3].map((seed) => numbers(count, 100 * shape + seed))
    const output = new arrays[to](count * outputs)
    const operands = [...inputs, output, count]
    return shaped(`${count} numbers`, written, operands, [groupsAt(shape), 1, 1])
  }
  return { name, kernel: written, profiles: "all", shapes: SHAPES, at }
}

function shaped(
  shape: string,
  kernel: Kernel,
  operands: GpuCase["operands"],
  groups: GpuCase["groups"],
): ShapedCase {
  return { shape, kernel, operands, groups }
}

const bool = (condition: Value) => select(condition, u32(1), 0)

/** Beyond these a float has no i32. */
const floatsInRange = (count: number, seed: number) =>
  floats(count, seed).map((value) => (Math.abs(value) < 2 ** 31 ? value : 2147483520))

/** What a buffer's elements are here. */
export const arrays = {
  f32: Float32Array,
  i32: Int32Array,
  u32: Uint32Array,
  f16: Uint16Array,
  u16: Uint16Array,
  i8: Int8Array,
  u8: Uint8Array,
} as const

const expressionKernels: readonly CheckedKernel[] = [
  expressions(
    "sums_of_floats",
    "f32",
    "f32",
    (a, b, c) => [
      a.add(b),
      a.sub(b),
      a.mul(b),
      a.mul(b).add(c), // two roundings
      a.add(b.mul(c)),
      a.sub(b.mul(c)),
      a.sub(b.sub(c)),
      a.add(b).add(c),
      a.add(b.add(c)),
      a.mul(b).sub(c.mul(a)),
      fma(a, b, c),
      fma(a.neg(), b, c),
      a.mul(0), // NaN where a is not finite
      a.sub(a),
      a.neg().neg(),
      a.mul(-1.5).add(0.1),
      a.mul(1e-40).add(3e38),
      a.mul(Infinity),
      a.add(Number.NaN),
      a.mul(-0),
    ],
    floats,
  ),
  expressions(
    "quotients_of_floats",
    "f32",
    "f32",
    (a, b, c) => [
      a.div(b),
      b.div(c),
      a.div(3),
      a.div(b.mul(c)),
      a.div(b).mul(c),
      a.abs().sqrt(),
      a.sqrt(),
      b.abs().sqrt().div(c),
      a.abs(),
      a.neg(),
    ],
    floats,
  ),
  expressions(
    "comparisons_of_floats",
    "f32",
    "u32",
    (a, b, c) => [
      bool(a.lt(b)),
      bool(a.le(b)),
      bool(a.gt(b)),
      bool(a.ge(b)),
      bool(a.eq(b)),
      bool(a.ne(b)),
      bool(a.ne(a)),
      bool(a.eq(a.add(0))),
      bool(a.lt(b).not()),
      bool(a.lt(b).and(b.lt(c))),
      bool(a.lt(b).or(b.lt(c)).and(c.lt(a))),
      bool(a.lt(b).xor(b.lt(c))),
      bool(a.mul(0).eq(0)),
      select(a.gt(b), a, b).bits("u32").and(0x7fffffff).min(0x7f800001), // any NaN
    ],
    floats,
  ),
  expressions(
    "integers_from_floats",
    "f32",
    "i32",
    (a, b) => [a.whole(), b.neg().whole(), a.bits("i32"), a.bits("u32").bits("i32").add(1)],
    floatsInRange,
  ),
  expressions(
    "integers",
    "i32",
    "i32",
    (a, b, c) => [
      a.add(b),
      a.sub(b),
      a.mul(b),
      a.mul(b).add(c).sub(a.shl(3)),
      a.neg(),
      a.neg().sub(b.neg()),
      a.min(b),
      a.max(b),
      a.and(b).or(c).xor(a),
      a.and(b.or(c.xor(a))),
      a.add(b).and(c.sub(1)),
      a.shr(3),
      a.shl(31).shr(31),
      a.shr(b.and(31)),
      a.bits("u32").shr(4).bits("i32"),
      a.add(i32(-2147483648)),
      a.add(i32(-1)).mul(i32(-7)),
      select(a.lt(b), i32(1), i32(-1)),
      select(a.le(b).and(a.ne(c)), a, b.add(c)),
      a.sub(b.sub(c)),
    ],
    integers,
  ),
  expressions(
    "words",
    "u32",
    "u32",
    (a, b, c) => [
      a.add(b),
      a.sub(b),
      a.mul(b),
      a.mul(b).add(c),
      a.sub(b.sub(c)),
      a.div(b.or(1)),
      a.rem(b.or(1)),
      a.rem(b.or(1)).mul(c).div(7),
      a.mulHigh(b),
      a.mulHigh(0x9e3779b9),
      a.min(b),
      a.max(b),
      a.and(b).or(c),
      a.or(b).and(c),
      a.xor(b).xor(c),
      a.shl(5).or(a.shr(27)),
      a.shl(b.and(31)),
      a.shr(b.and(31)).and(1),
      a.shl(2).add(1).shr(1),
      bool(a.lt(b)),
      bool(a.le(b)),
      bool(a.eq(b.and(c))),
      bool(a.and(b).eq(c)),
      bool(a.shr(1).lt(b.shl(1))),
    ],
    words,
  ),
  expressions(
    "floats_from_words",
    "u32",
    "f32",
    (a, b) => [
      a.float(),
      a.bits("i32").float(),
      b.shr(7).float(),
      a.and(0x7fffff).or(0x3f800000).bits("f32"),
    ],
    words,
  ),
  expressions(
    "dots_of_bytes",
    "u32",
    "i32",
    (a, b, c, k) => [
      k.dot4(a, b, 0),
      k.dot4(a, b, c.bits("i32")),
      k.dot4(b, c, k.dot4(a, u32(0x807f0180), -1)),
    ],
    words,
  ),
  expressions(
    "looked_up_bytes",
    "u32",
    "u32",
    (a, b, c) => [
      lookUp(a, 0, [0x7f03ff81, 0x00000001, 0x80fe1234, 0xffffffff]),
      lookUp(b, 4, [0x33221100, 0x77665544, 0xbbaa9988, 0xffeeddcc]),
      lookUp(a.xor(c), 4, [0x7f03ff81, 0x00000001, 0x80fe1234, 0x01020304]),
    ],
    words,
  ),
]

/** Loads each element and stores it in each kind that takes what was loaded. */
function copies(
  name: string,
  element: Element,
  numbers: Numbers,
  to: readonly Element[],
): CheckedKernel {
  const written = kernel(name, THREADS, (k) => {
    const input = k.buffer("input", element, "read")
    const outputs = to.map((each) => k.buffer(`as_${each}`, each, "write"))
    k.each(k.word("count"), (i) => {
      const value = input.load(i)
      for (const output of outputs) output.store(i, value)
    })
  })
  // All of them first, then some from here and there.
  const at = (shape: number) => {
    const from = Math.floor((numbers.length * shape) / SHAPES)
    const own = shape === 0 ? numbers : numbers.slice(from, from + counts[shape]!)
    const outputs = to.map((each) => new arrays[each](own.length))
    return shaped(`${own.length} elements`, written, [own, ...outputs, own.length], [1, 1, 1])
  }
  return { name, kernel: written, profiles: "all", shapes: SHAPES, at }
}

/** Around what f16 can hold: halfway between two of its numbers, below and above that, and beyond its ends. */
function nearHalves(): Float32Array {
  const values = [65504, 65519.996, 65520, 1e6, 2 ** -24, 2 ** -25, 2 ** -25 * 1.0001, 2 ** -26]
  for (let half = 0; half < 65536; half += 37) {
    const [low, high] = [halfValues()[half & 0x7fff]!, halfValues()[(half & 0x7fff) + 1]!]
    if (!Number.isFinite(high)) continue
    const middle = (low + high) / 2
    const bits = new Uint32Array(Float32Array.of(middle).buffer)[0]!
    const around = new Float32Array(Uint32Array.of(bits - 1, bits, bits + 1).buffer)
    values.push(...(half & 0x8000 ? around.map((value) => -value) : around))
  }
  return Float32Array.from([...values, ...values.slice(0, 9).map((value) => -value), -0])
}

const allHalves = Uint16Array.from({ length: 65536 }, (_, half) => half)
const bytes = Int8Array.from({ length: 256 + 7 }, (_, i) => i)

const copyKernels: readonly CheckedKernel[] = [
  copies("floats_stored", "f32", nearHalves(), ["f32", "f16"]),
  copies("halves_loaded", "f16", allHalves, ["f32"]),
  copies("integers_stored", "i32", integers(1000, 10), ["i32", "i8"]),
  copies("words_stored", "u32", words(1000, 11), ["u32", "u16", "u8"]),
  copies("shorts_loaded", "u16", allHalves.subarray(0, 70), ["u32", "u16"]),
  copies("signed_bytes_loaded", "i8", bytes, ["i32", "i8"]),
  copies("bytes_loaded", "u8", new Uint8Array(bytes.buffer), ["u32", "u8"]),
]

/** Each row's sum of squares, by a tree in shared memory, and the row divided by its root. */
export function normalized({ barriers = true, rows = 5, columns = 131 } = {}): GpuCase {
  const threads = 64
  const written = kernel("normalized", threads, (k) => {
    const rowsIn = k.buffer("rows", "f32", "readwrite")
    const width = k.word("width")
    const epsilon = k.word("epsilon", "f32")
    const sums = k.shared("sums", "f32", threads)
    const begin = k.let(k.group(0).mul(width), "begin")
    const sum = k.variable(f32(0), "sum")
    k.each(width, (i) => {
      const value = rowsIn.load(begin.add(i))
      sum.set(fma(value, value, sum.now))
    })
    sums.store(k.lane, sum.now)
    k.barrier()
    for (let half = threads / 2; half >= 1; half /= 2) {
      k.if(k.lane.lt(half), () => {
        const other = sums.load(k.lane.add(half))
        sums.store(k.lane, sums.load(k.lane).add(other))
      })
      if (barriers) k.barrier()
    }
    const root = k.let(sums.load(0).add(epsilon).sqrt(), "root")
    k.each(width, (i) => {
      const value = rowsIn.load(begin.add(i))
      rowsIn.store(begin.add(i), value.div(root))
    })
  })
  const values = floats(rows * columns, 12).map((value) => (Math.abs(value) < 1e18 ? value : 7))
  return { kernel: written, operands: [values, columns, floatWord(1e-5)], groups: [rows, 1, 1] }
}

/** How often each byte stands in a text, counted in shared memory by all threads. */
export function counted({ places = 256, length = 999 } = {}): GpuCase {
  const written = kernel("counted", 64, (k) => {
    const text = k.buffer("text", "u8", "read")
    const out = k.buffer("counts", "u32", "write")
    const length = k.word("length")
    const counts = k.shared("counts", "u32", 256)
    const signed = k.shared("signed", "i32", 1)
    k.each(256, (i) => counts.store(i, 0))
    k.if(k.lane.eq(0), () => signed.store(0, 0))
    k.barrier()
    k.each(length, (i) => {
      const byte = text.load(i)
      counts.atomicAdd(byte, 1)
      signed.atomicAdd(0, byte.bits("i32").sub(100))
    })
    k.barrier()
    k.each(places, (i) => out.store(i, counts.load(i)))
    k.if(k.lane.eq(0), () => out.store(256, signed.load(0).bits("u32")))
  })
  const text = new Uint8Array(words(Math.ceil(length / 4), 13).buffer).subarray(0, length)
  return { kernel: written, operands: [text, new Uint32Array(257), text.length], groups: [1, 1, 1] }
}

/** Words of a list and those of pairs that lie elsewhere in it, added; loaded two words at a time. */
function paired(length: number): GpuCase {
  const written = kernel("paired", THREADS, (k) => {
    const input = k.buffer("input", "u32", "read")
    const output = k.buffer("output", "u32", "write")
    const pairs = k.word("pairs")
    const i = k.let(k.group(0).mul(THREADS).add(k.lane))
    k.if(i.lt(pairs), () => {
      const [first, second] = input.loadTwo(i)
      const [last, before] = input.loadTwo(pairs.sub(1).sub(i))
      output.store(i.mul(2), first.add(before))
      output.store(i.mul(2).add(1), second.add(last))
    })
  })
  const operands = [words(length, 15), new Uint32Array(length), length / 2]
  return { kernel: written, operands, groups: [Math.ceil(length / 2 / THREADS), 1, 1] }
}

/** A matrix by its transpose, through a tile that all threads fill; loaded four words at a time. Sizes are of 8. */
export function transposed({ beyond = 0, rows = 40, columns = 40 } = {}): GpuCase {
  const written = kernel("transposed", 64, (k) => {
    const input = k.buffer("input", "u32", "read")
    const output = k.buffer("output", "u32", "write")
    const [height, width] = [k.word("rows"), k.word("columns")]
    const tile = k.shared("tile", "u32", 64)
    const [x, y] = [k.group(0), k.group(1)]
    const [column, row] = [k.lane.rem(8), k.lane.div(8)]
    k.if(k.lane.lt(16), () => {
      const four = input.loadFour(
        y.mul(8).add(k.lane.div(2)).mul(width.shr(2)).add(x.mul(2)).add(k.lane.and(1)).add(beyond),
      )
      for (const [i, word] of four.entries()) tile.store(k.lane.mul(4).add(i), word)
    })
    k.barrier()
    const word = tile.load(column.mul(8).add(row))
    output.store(x.mul(8).add(row).mul(height).add(y.mul(8)).add(column), word)
  })
  const input = words(rows * columns, 14)
  const operands = [input, new Uint32Array(rows * columns), rows, columns]
  return { kernel: written, operands, groups: [columns / 8, rows / 8, 1] }
}

/** Loops within branches within loops, and how long they take to reach 1. */
function wandering([x, y, z]: GpuCase["groups"]): GpuCase {
  const written = kernel("wandering", THREADS, (k) => {
    const output = k.buffer("output", "u32", "write")
    const each = k.let(k.group(0).add(k.groups(0).mul(k.group(1))), "each")
    const start = k.let(each.mul(THREADS).add(k.lane).add(1), "start")
    const [now, steps] = [k.variable(start, "now"), k.variable(u32(0), "steps")]
    k.for(0, 200, 1, () => {
      k.if(
        now.now.ne(1),
        () => {
          steps.set(steps.now.add(1))
          k.if(
            now.now.and(1).eq(0),
            () => now.set(now.now.shr(1)),
            () => now.set(now.now.mul(3).add(1)),
          )
        },
        () => k.if(k.group(2).eq(1), () => steps.set(steps.now.or(0x80000000))),
      )
    })
    // Neither what a loop ends at nor its step changes while it runs.
    const end = k.variable(k.lane, "end")
    k.for(end.now.shr(1), end.now.add(3), end.now.and(1).add(1), (i) => {
      end.set(end.now.add(i))
      k.for(i, 4, 1, (j) => end.set(end.now.xor(j)))
    })
    const at = k.group(2).mul(k.groups(0)).mul(k.groups(1)).mul(THREADS).add(start).sub(1)
    output.store(at.mul(2), steps.now)
    output.store(at.mul(2).add(1), end.now)
  })
  return {
    kernel: written,
    operands: [new Uint32Array(2 * x * y * z * THREADS)],
    groups: [x, y, z],
  }
}

/** What threads of a group wrote to a buffer, the others read behind a barrier, again and again. */
function rotated({ groups, turns }: { groups: number; turns: number }): GpuCase {
  const written = kernel("rotated", 64, (k) => {
    const ring = k.buffer("ring", "i32", "readwrite")
    const begin = k.let(k.group(0).mul(64), "begin")
    k.for(0, k.word("turns"), 1, (turn) => {
      const next = k.let(ring.load(begin.add(k.lane.add(turn).rem(64))), "next")
      k.barrier()
      ring.store(begin.add(k.lane), next.mul(3).sub(turn.bits("i32")))
      k.barrier()
    })
  })
  return { kernel: written, operands: [integers(groups * 64, 15), turns], groups: [groups, 1, 1] }
}

/** What a half keeps of a float: a NaN is one still, whatever its bits. */
function halved(count: number): GpuCase {
  const written = kernel("halved", THREADS, (k) => {
    const [input, output] = [k.buffer("input", "f32", "read"), k.buffer("output", "f32", "write")]
    const halves = k.buffer("halves", "f16", "readwrite")
    const all = k.word("count")
    k.each(all, (i) => halves.store(i, input.load(i)))
    k.barrier()
    k.each(all, (i) => output.store(i, halves.load(i)))
    k.barrier()
    k.each(all, (i) => halves.store(i, 0))
  })
  return {
    kernel: written,
    operands: [floats(count, 17), new Float32Array(count), new Uint16Array(count), count],
    groups: [1, 1, 1],
  }
}

/** Numbers of every kind that stand in the kernel itself. */
function written(groups: number): GpuCase {
  const singles = floats(100, 18)
  const [wholes, plain] = [integers(50, 19), words(50, 20)]
  const numbers = kernel("written", THREADS, (k) => {
    const outputs = (["f32", "i32", "u32"] as const).map((each) => k.buffer(each, each, "write"))
    k.if(k.lane.eq(31), () => {
      for (const [i, each] of [singles, wholes, plain].entries())
        for (const [j, value] of each.entries())
          outputs[i]!.store(k.group(0).mul(each.length).add(j), value)
    })
  })
  const operands = [
    new Float32Array(100 * groups),
    new Int32Array(50 * groups),
    new Uint32Array(50 * groups),
  ]
  return { kernel: numbers, operands, groups: [groups, 1, 1] }
}

/** Names that mean something in C, twice the same, and none at all. */
function oddlyNamed(groups: number): GpuCase {
  const written = kernel("select", THREADS, (k) => {
    const half = k.buffer("half", "f32", "read")
    const global = k.buffer("double", "f32", "write")
    const word = k.word("min", "f32")
    const lane = k.let(k.group(0).mul(THREADS).add(k.lane), "lane")
    const one = k.let(half.load(lane), "sqrt")
    const two = k.let(half.load(lane).mul(word), "sqrt")
    const three = k.let(one.mul(two).abs().sqrt(), "a b")
    const four = k.let(three.sub(one), "return")
    const five = k.let(fma(one, two, four), "half_at")
    global.store(lane, five)
  })
  const out = new Float32Array(groups * THREADS)
  return {
    kernel: written,
    operands: [floats(groups * THREADS, 16), out, floatWord(-0.1)],
    groups: [groups, 1, 1],
  }
}

/** A kernel by what makes it for a size. */
function sized<Size>(
  sizeAt: (shape: number) => Size,
  make: (size: NoInfer<Size>) => GpuCase,
  text: (size: NoInfer<Size>) => string,
): CheckedKernel {
  const at = (shape: number) => ({ ...make(sizeAt(shape)), shape: text(sizeAt(shape)) })
  const { kernel } = at(0)
  return { name: kernel.name, kernel, profiles: "all", shapes: SHAPES, at }
}

const matrix = (size: { rows: number; columns: number }) => `${size.rows} x ${size.columns}`
const inGroups = (groups: number) => `${groups} groups`

export const languageKernels: readonly CheckedKernel[] = [
  ...expressionKernels,
  ...copyKernels,
  sized(
    (shape: number) => ({ rows: [5, 1, 2, 9][shape % 4]!, columns: shape ? counts[shape]! : 131 }),
    normalized,
    matrix,
  ),
  sized(
    (shape: number) => ({ length: shape ? 3 * counts[shape]! : 999 }),
    counted,
    ({ length }) => `${length} bytes`,
  ),
  sized(
    (shape: number) => ({
      rows: shape ? 8 * (1 + (shape % 7)) : 40,
      columns: 40 - 8 * (shape % 5),
    }),
    transposed,
    matrix,
  ),
  sized(
    (shape: number) => 2 * counts[shape]!,
    paired,
    (length) => `${length} words`,
  ),
  sized(
    (shape: number): GpuCase["groups"] =>
      shape ? [1 + (shape % 5), 1 + Math.floor(shape / 5), 2 - (shape % 2)] : [3, 2, 2],
    wandering,
    (groups) => `${groups.join(" x ")} groups`,
  ),
  sized(
    (shape: number) => ({ groups: 3 + (shape % 5), turns: shape ? shape % 11 : 9 }),
    rotated,
    ({ groups, turns }) => `${groups} groups, ${turns} turns`,
  ),
  sized(
    (shape: number) => counts[shape]!,
    halved,
    (count) => `${count} floats`,
  ),
  sized((shape: number) => 1 + shape, written, inGroups),
  sized((shape: number) => 1 + shape, oddlyNamed, inGroups),
]

/** Each of them on its first shape. */
export const gpuCases: readonly GpuCase[] = languageKernels.map(({ at }) => at(0))
