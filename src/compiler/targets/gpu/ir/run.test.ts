// Kernels on the twin: what they compute, against plain TypeScript, and what is refused. Each refusal is a fault that was
// planted in a kernel that runs without it.

import { describe, expect, test } from "vitest"
import { uniform } from "../../../../../test/random.ts"
import { rounding } from "../../../../runtime/dtype.ts"
import { fma as fmaOf } from "../../reference/arithmetic.ts"
import {
  type Builder,
  type Elements,
  fma,
  i32,
  kernel,
  select,
  u32,
  type Value,
} from "./builder.ts"
import { checkKernel } from "./check.ts"
import type { Access, Element, Four, Kernel } from "./ir.ts"
import { Memory, type Order, runKernel } from "./run.ts"

const orders: readonly Order[] = ["forward", "backward", "shuffled"]
const one = [1, 1, 1] as const

/** A kernel of 64 threads that stores what `of` makes of element `lane` of each input. */
function lanewise(
  inputs: readonly Element[],
  output: Element,
  of: (values: Value[], k: Builder) => Value,
): Kernel {
  return kernel("lanewise", 64, (k) => {
    const buffers = inputs.map((element, i) => k.buffer(`in${i}`, element, "read"))
    const out = k.buffer("out", output, "write")
    out.store(
      k.lane,
      of(
        buffers.map((buffer) => buffer.load(k.lane)),
        k,
      ),
    )
  })
}

/** Floats of all sizes, and those that are like no others. */
function floats(seed: number): Float32Array {
  const random = uniform(seed)
  const special = [0, -0, 1, -1, Number.NaN, Number.POSITIVE_INFINITY, 3.4e38, 1e-40, 2 ** -149]
  return Float32Array.from(
    { length: 64 },
    (_, i) => special[i - 50] ?? (random() * 2 - 1) * 2 ** Math.floor(random() * 60 - 30),
  )
}

function words(seed: number): Uint32Array {
  const random = uniform(seed)
  const special = [0, 1, 0x7fffffff, 0x80000000, 0xffffffff]
  return Uint32Array.from({ length: 64 }, (_, i) => special[i] ?? random() * 2 ** 32)
}

const bigs = (array: Iterable<number>) => Array.from(array, BigInt)

test("operations on floats are rounded once each, fma as a whole", () => {
  const [a, b, c] = [floats(1), floats(2), floats(3)]
  const { fround } = Math
  const cases: [(v: Value[]) => Value, (x: number, y: number, z: number) => number][] = [
    [([x, y]) => x!.add(y!), (x, y) => fround(x + y)],
    [([x, y]) => x!.sub(y!), (x, y) => fround(x - y)],
    [([x, y, z]) => x!.mul(y!).add(z!), (x, y, z) => fround(fround(x * y) + z)],
    [([x, y, z]) => fma(x!, y!, z!), fmaOf],
    [([x, y]) => x!.div(y!), (x, y) => fround(x / y)],
    [([x]) => x!.abs().sqrt().neg(), (x) => -fround(Math.sqrt(Math.abs(x)))],
    [([x, y]) => select(x!.lt(y!), x!, y!), (x, y) => (x < y ? x : y)],
    [([x, y]) => select(x!.ge(y!), x!, 7), (x, y) => (x >= y ? x : 7)],
    [
      ([x, y]) => select(x!.ne(y!).and(x!.le(y!).not()), x!, 7),
      (x, y) => (x !== y && !(x <= y) ? x : 7),
    ],
  ]
  for (const [written, computed] of cases) {
    const out = new Memory(256)
    const k = lanewise(["f32", "f32", "f32"], "f32", written)
    runKernel(k, [Memory.of(a), Memory.of(b), Memory.of(c), out], one)
    expect(out.f32()).toEqual(a.map((x, i) => computed(x, b[i]!, c[i]!)))
  }
})

test("whole numbers wrap, signed and unsigned", () => {
  const [a, b] = [words(4), words(5).reverse()]
  const [x, y] = [bigs(a), bigs(b)]
  const unsigned = (of: (i: number) => bigint) =>
    Uint32Array.from(a, (_, i) => Number(BigInt.asUintN(32, of(i))))
  const signed = (i: bigint) => BigInt.asIntN(32, i)
  const less = (p: bigint, q: bigint) => (p < q ? p : q)
  const cases: [(v: Value[]) => Value, (i: number) => bigint][] = [
    [([p, q]) => p!.add(q!), (i) => x[i]! + y[i]!],
    [([p, q]) => p!.sub(q!), (i) => x[i]! - y[i]!],
    [([p, q]) => p!.mul(q!), (i) => x[i]! * y[i]!],
    [([p, q]) => p!.mulHigh(q!), (i) => (x[i]! * y[i]!) >> 32n],
    [([p, q]) => p!.div(q!.or(1)), (i) => x[i]! / (y[i]! | 1n)],
    [([p, q]) => p!.rem(q!.or(1)), (i) => x[i]! % (y[i]! | 1n)],
    [([p, q]) => p!.min(q!), (i) => less(x[i]!, y[i]!)],
    [([p, q]) => p!.xor(q!).and(p!), (i) => (x[i]! ^ y[i]!) & x[i]!],
    [([p, q]) => p!.shl(q!.and(31)), (i) => x[i]! << (y[i]! & 31n)],
    [([p, q]) => p!.shr(q!.and(31)), (i) => x[i]! >> (y[i]! & 31n)],
    [
      ([p, q]) => p!.bits("i32").shr(q!.and(31).bits("i32")).bits("u32"),
      (i) => signed(x[i]!) >> (y[i]! & 31n),
    ],
    [
      ([p, q]) => p!.bits("i32").min(q!.bits("i32")).bits("u32"),
      (i) => less(signed(x[i]!), signed(y[i]!)),
    ],
    [
      ([p, q]) => p!.bits("i32").mul(q!.bits("i32")).neg().bits("u32"),
      (i) => -signed(x[i]!) * signed(y[i]!),
    ],
  ]
  for (const [written, computed] of cases) {
    const out = new Memory(256)
    runKernel(lanewise(["u32", "u32"], "u32", written), [Memory.of(a), Memory.of(b), out], one)
    expect(out.u32()).toEqual(unsigned(computed))
  }
})

test("dot4 takes four signed bytes of each word and wraps", () => {
  const [a, b, c] = [words(6), words(7), new Int32Array(words(8).buffer)]
  const k = lanewise(["u32", "u32", "i32"], "i32", ([x, y, z], k) => k.dot4(x!, y!, z!))
  const out = new Memory(256)
  runKernel(k, [Memory.of(a), Memory.of(b), Memory.of(c), out], one)
  const [x, y] = [new Int8Array(a.buffer), new Int8Array(b.buffer)]
  const dot = (i: number) => [0, 1, 2, 3].reduce((sum, j) => sum + x[4 * i + j]! * y[4 * i + j]!, 0)
  expect(out.i32()).toEqual(c.map((z, i) => z + dot(i)))
})

test("numbers change their types by value and by bits", () => {
  const [a, w] = [floats(9), words(10)]
  const run = (input: ArrayBufferView, from: Element, to: Element, of: (x: Value) => Value) => {
    const out = new Memory(256)
    runKernel(
      lanewise([from], to, ([x]) => of(x!)),
      [Memory.of(input), out],
      one,
    )
    return out
  }
  expect(run(w, "u32", "f32", (x) => x.float()).f32()).toEqual(Float32Array.from(w))
  expect(run(w, "i32", "f32", (x) => x.float()).f32()).toEqual(
    Float32Array.from(new Int32Array(w.buffer)),
  )
  const small = a.map((x) => (Math.abs(x) < 2 ** 31 ? x : 0))
  expect(run(small, "f32", "i32", (x) => x.whole()).i32()).toEqual(Int32Array.from(small))
  const bits = run(a, "f32", "u32", (x) => x.bits("u32").add(1).bits("f32").bits("u32")).u32()
  const those = (i: number) => !Number.isNaN(a[i]!)
  const expected = new Uint32Array(a.buffer).map((x) => x + 1)
  expect(bits.filter((_, i) => those(i))).toEqual(expected.filter((_, i) => those(i)))
})

test("stores round halves to even and cut whole numbers; loads widen them", () => {
  const a = floats(11)
  a.set([1 + 2 ** -11, 1 + 3 * 2 ** -11, 65519, 65520, 2 ** -25, 3 * 2 ** -25])
  const there = new Memory(128)
  runKernel(
    lanewise(["f32"], "f16", ([x]) => x!),
    [Memory.of(a), there],
    one,
  )
  const back = new Memory(256)
  runKernel(
    lanewise(["f16"], "f32", ([x]) => x!),
    [there, back],
    one,
  )
  // `rounding` is about numbers: it forgets the sign of a zero.
  const signed = (half: number, x: number) =>
    half === 0 && (x < 0 || Object.is(x, -0)) ? -0 : half
  expect(back.f32()).toEqual(a.map((x) => signed(rounding.f16(x), x)))

  const w = words(12)
  for (const [element, array] of [
    ["u16", Uint16Array],
    ["i8", Int8Array],
    ["u8", Uint8Array],
  ] as const) {
    const type = element === "i8" ? "i32" : "u32"
    const cut = new Memory(64 * array.BYTES_PER_ELEMENT)
    runKernel(
      lanewise([type], element, ([x]) => x!),
      [Memory.of(w), cut],
      one,
    )
    const wide = new Memory(256)
    runKernel(
      lanewise([element], type, ([x]) => x!),
      [cut, wide],
      one,
    )
    const expected = Array.from(array.from(w))
    expect(Array.from(type === "i32" ? wide.i32() : wide.u32())).toEqual(expected)
  }
})

/** Sums each group's row of `columns` by a tree in shared memory. */
function sums(columns: number, barriers: "all" | "one less" = "all"): Kernel {
  return kernel("sums", 64, (k) => {
    const rows = k.buffer("rows", "f32", "read")
    const out = k.buffer("out", "f32", "write")
    const parts = k.shared("parts", "f32", 64)
    const sum = k.variable(u32(0).float(), "sum")
    k.each(columns, (i) => sum.set(sum.now.add(rows.load(k.group(0).mul(columns).add(i)))))
    parts.store(k.lane, sum.now)
    for (let half = 32; half >= 1; half /= 2) {
      if (barriers === "all" || half !== 8) k.barrier()
      k.if(k.lane.lt(half), () => {
        parts.store(k.lane, parts.load(k.lane).add(parts.load(k.lane.add(half))))
      })
    }
    k.if(k.lane.eq(0), () => out.store(k.group(0), parts.load(0)))
  })
}

test("a tree of sums is the same in every order", () => {
  const rows = Float32Array.from({ length: 5 * 100 }, (_, i) => i % 7)
  const expected = [0, 1, 2, 3, 4].map((row) =>
    rows.subarray(row * 100, row * 100 + 100).reduce((a, b) => a + b),
  )
  for (const order of orders) {
    const out = new Memory(20)
    runKernel(sums(100), [Memory.of(rows), out], [5, 1, 1], { order })
    expect(Array.from(out.f32())).toEqual(expected)
  }
})

test("a barrier that is missing is found in every order", () => {
  const rows = Memory.of(new Float32Array(100))
  const kernel = sums(100, "one less")
  for (const order of orders)
    expect(() => runKernel(kernel, [rows, new Memory(4)], one, { order })).toThrow(
      /kernel sums: statement \d+ \(load parts\), lane \d+ of group 0 0 0: a race: it reads element \d+ and it is written by lane \d+ with no barrier between/,
    )
})

test("groups lie on three axes and branches keep their lanes apart", () => {
  const k = kernel("axes", 4, (k) => {
    const factor = k.word("factor", "i32")
    const out = k.buffer("out", "i32", "write")
    const at = k.group(2).mul(k.groups(1)).add(k.group(1)).mul(k.groups(0)).add(k.group(0))
    const value = k.variable(i32(0))
    k.if(
      k.lane.rem(2).eq(0),
      () => value.set(k.lane.bits("i32").mul(factor)),
      () => value.set(at.bits("i32")),
    )
    out.store(at.mul(4).add(k.lane), value.now)
  })
  const out = new Memory(2 * 3 * 2 * 16)
  runKernel(k, [-3, out], [2, 3, 2])
  const expected = Array.from({ length: 12 }, (_, at) => [0, at, -6, at]).flat()
  expect(Array.from(out.i32())).toEqual(expected)
})

test("atomic additions and subgroups' sums are of all their lanes", () => {
  const k = kernel("histogram", 64, (k) => {
    const out = k.buffer("out", "u32", "write")
    const bins = k.shared("bins", "u32", 8)
    k.each(8, (i) => bins.store(i, 0))
    k.barrier()
    bins.atomicAdd(k.lane.rem(8), k.lane)
    const sum = k.subgroupSum(k.lane)
    k.barrier()
    k.if(k.lane.lt(8), () => out.store(k.lane, bins.load(k.lane)))
    k.if(k.lane.rem(16).eq(0), () => out.store(k.lane.div(16).add(8), sum))
  })
  for (const order of orders) {
    const out = new Memory(48)
    runKernel(k, [out], one, { order, subgroup: 16 })
    const bins = [0, 1, 2, 3, 4, 5, 6, 7].map((bin) => 8 * bin + 8 * 28)
    expect(Array.from(out.u32())).toEqual([...bins, 120, 376, 632, 888])
  }
})

/** Tiles of ones, but for a 3 in the second byte of lane 6's first word of `a`. */
const multiplies = (k: Builder) => {
  const ones = u32(0x01010101)
  const other = select(k.lane.rem(32).eq(6), u32(0x01010301), ones)
  const sums = [0, 0, 0, 0].map((_, i) => k.lane.mul(10).add(i).bits("i32"))
  return k.matrixDot([other, ones, ones, ones], [ones, ones], sums as unknown as Four<Value>)
}

test("tiles are multiplied by 32 lanes, the pieces of each where they belong", () => {
  const k = kernel("tiles", 64, (k) => {
    const out = k.buffer("out", "i32", "write")
    for (const [i, sum] of multiplies(k).entries()) out.store(k.lane.mul(4).add(i), sum)
  })
  for (const order of orders) {
    const out = new Memory(64 * 16)
    runKernel(k, [out], one, { order })
    // Lane 6 has row 1 of `a`: two more in all columns of that row, which lanes 4 to 7 have first.
    const more = (lane: number, i: number) => ((lane % 32) >> 2 === 1 && i < 2 ? 2 : 0)
    const expected = Array.from({ length: 256 }, (_, at) => {
      const [lane, i] = [at >> 2, at & 3]
      return 10 * lane + i + 32 + more(lane, i)
    })
    expect(Array.from(out.i32())).toEqual(expected)
  }
})

/** Two teams multiply tiles of bytes or halves that begin 16 bytes on in their arrays, and store what they get where it belongs. */
function tileKernel(
  isBytes: boolean,
  { barrier = true, from = (k: Builder) => k.team, stride = isBytes ? 12 : 40, large = 1 } = {},
): Kernel {
  return kernel("teams", 64, (k) => {
    const out = k.buffer("out", "i32", "write")
    const [rows, columns] = ["rows", "columns"].map((name) =>
      k.shared(name, isBytes ? "u32" : "f16", isBytes ? 400 : 1300),
    ) as [Elements, Elements]
    const places = k.shared("places", isBytes ? "u32" : "f32", 256)
    k.each(256, (i) => places.store(i, isBytes ? i : i.float()))
    // Row r is r + 1 times 0 to 3, column c has c in its place c and 1 everywhere else.
    k.each(2 * 16 * 32, (i) => {
      const [row, at] = [k.let(i.div(32)), k.let(i.rem(32))]
      const [r, c] = [row.add(1).mul(at.add(1).rem(4)), select(at.eq(row), row, u32(1))]
      if (!isBytes) {
        const place = row.mul(stride).add(at).add(8)
        rows.store(place, r.float().mul(large))
        columns.store(place, c.float().mul(large))
        return
      }
      k.if(at.rem(4).eq(0), () => {
        const word = (number: (at: Value) => Value) =>
          [0, 1, 2, 3]
            .map((j) =>
              number(at.add(j))
                .and(255)
                .shl(8 * j),
            )
            .reduce((a, b) => a.or(b))
        const place = row.mul(stride).add(at.div(4)).add(4)
        rows.store(
          place,
          word((at) => row.add(1).mul(at.add(1).rem(4))),
        )
        columns.store(
          place,
          word((at) => select(at.eq(row), row, u32(1))),
        )
      })
    })
    if (barrier) k.barrier()
    const begin = from(k)
      .mul(16 * stride)
      .add(isBytes ? 4 : 8)
    const side = (elements: Elements) => ({ elements, from: begin, stride })
    const sums = k.tileDot(side(rows), side(columns), 32)
    for (const [i, place] of k.tileElements(places).entries())
      out.store(k.team.mul(256).add(isBytes ? place : place.whole().bits("u32")), sums[i]!)
  })
}

describe.each([true, false])("teams multiply tiles of bytes: %s;", (isBytes) => {
  test("each thread has others of its elements in each order", () => {
    const k = tileKernel(isBytes)
    checkKernel(k)
    const number = (row: number, at: number) => (row + 1) * ((at + 1) % 4)
    const expected = Array.from({ length: 512 }, (_, i) => {
      const [team, row, column] = [i >> 8, (i >> 4) & 15, i & 15]
      const [r, c] = [16 * team + row, 16 * team + column]
      let sum = 0
      for (let at = 0; at < 32; at++) sum += number(r, at) * (at === c ? c : 1)
      return sum
    })
    for (const order of orders) {
      const out = new Memory(2048)
      runKernel(k, [out], one, { order })
      expect(Array.from(out.i32())).toEqual(expected)
    }
  })

  test("what a device would do silently is refused", () => {
    const run = (k: Kernel) => () => runKernel(k, [new Memory(2048)], one)
    expect(run(tileKernel(isBytes, { barrier: false }))).toThrow(/a race: it reads element \d+ and/)
    expect(run(tileKernel(isBytes, { from: (k) => k.lane.rem(2) }))).toThrow(
      "lane 1 of group 0 0 0: its tile begins elsewhere than its team's",
    )
    expect(run(tileKernel(isBytes, { from: () => u32(9) }))).toThrow("out of bounds")
    expect(() => checkKernel(tileKernel(isBytes, { stride: isBytes ? 9 : 36 }))).toThrow(
      "elements are no multiple of 16 bytes",
    )
  })
})

test("halves that are not whole, no halves, or too large for an exact sum are refused", () => {
  const run = (large: number) => () =>
    runKernel(tileKernel(false, { large }), [new Memory(2048)], one)
  expect(run(0.125)).toThrow("is not exact in floats")
  expect(run(1.0009)).toThrow("is no half, and not every device rounds it")
  expect(run(256)).toThrow(/a sum of \d+ is not exact in floats/)
})

test("loops begin, step and end where each lane says", () => {
  const k = kernel("loops", 8, (k) => {
    const out = k.buffer("out", "u32", "write")
    const sum = k.variable(u32(0))
    k.for(k.lane, k.lane.mul(3), k.lane.add(1), (i) => {
      k.for(0, i, 1, (j) => sum.set(sum.now.add(j)))
    })
    out.store(k.lane, sum.now)
  })
  const out = new Memory(32)
  runKernel(k, [out], one)
  const expected = Array.from({ length: 8 }, (_, lane) => {
    let sum = 0
    for (let i = lane; i < 3 * lane; i += lane + 1) sum += (i * (i - 1)) / 2
    return sum
  })
  expect(Array.from(out.u32())).toEqual(expected)
})

test("four elements are loaded where they lie on 16 bytes", () => {
  const k = kernel("fours", 4, (k) => {
    const numbers = k.buffer("numbers", "i32", "read")
    const out = k.buffer("out", "i32", "write")
    const [a, b, c, d] = numbers.loadFour(k.lane)
    out.store(k.lane, a.sub(b).sub(c).add(d.mul(a)))
  })
  const numbers = Memory.of(Int32Array.from({ length: 24 }, (_, i) => i * i))
  const out = new Memory(16)
  runKernel(k, [numbers.at(16), out], one)
  const square = (i: number) => i * i
  const expected = [4, 8, 12, 16].map(
    (i) => square(i) - square(i + 1) - square(i + 2) + square(i + 3) * square(i),
  )
  expect(Array.from(out.i32())).toEqual(expected)
  expect(() => runKernel(k, [numbers.at(4), out], one)).toThrow(
    "kernel fours: statement 0 (loadNear numbers), lane 0 of group 0 0 0: elements 0 … 3 do not lie on a multiple of 16 bytes",
  )
  expect(() => runKernel(k, [numbers.at(48), out], one)).toThrow("lane 3 of")
})

/** Runs a kernel of 8 threads in each order; what is refused in one is refused in all. */
function attempt(write: (k: Builder) => void, operands: (Memory | number)[] = [], groups = 1) {
  const runIn = (order: Order) => {
    try {
      runKernel(kernel("planted", 8, write), operands, [groups, 1, 1], { order })
      return undefined
    } catch (error) {
      return error
    }
  }
  return () => {
    const refusals = orders.map(runIn)
    expect(new Set(refusals.map((refusal) => refusal === undefined)).size).toBe(1)
    if (refusals[0]) throw refusals[0]
  }
}

test("an index too far is refused, reading and writing", () => {
  const eight = () => Memory.of(new Float32Array(9)).at(0, 32)
  const read = (by: number) =>
    attempt(
      (k) => {
        k.buffer("in", "f32", "read").load(k.lane.add(by))
      },
      [eight()],
    )
  read(0)()
  expect(read(1)).toThrow("(load in), lane 7 of group 0 0 0: element 8 of 8 is out of bounds")
  const write = (by: number) =>
    attempt((k) => k.buffer("out", "f32", "write").store(k.lane.sub(by), k.lane.float()), [eight()])
  write(0)()
  expect(write(1)).toThrow("lane 0 of group 0 0 0: element 4294967295 of 8 is out of bounds")
  const shared = (by: number) =>
    attempt((k) => k.shared("here", "u32", 8).store(k.lane.add(by), k.lane))
  shared(0)()
  expect(shared(1)).toThrow("(store here), lane 7 of group 0 0 0: element 8 of 8 is out of bounds")
})

test("what nobody has written is not read, byte by byte", () => {
  const memory = new Memory(32)
  memory.put(0, new Uint8Array(29)) // the last half is half written
  const read = (element: Element, count: number) =>
    attempt(
      (k) => {
        const buffer = k.buffer("in", element, "read")
        k.if(k.lane.lt(count), () => {
          buffer.load(k.lane.add(8))
        })
      },
      [memory],
    )
  read("u8", 8)()
  read("u16", 6)()
  expect(read("u16", 7)).toThrow(
    "(load in), lane 6 of group 0 0 0: element 14 was written by nobody",
  )
  const words = attempt((k) => void k.buffer("in", "f32", "read").load(k.lane), [memory])
  expect(words).toThrow("lane 7 of group 0 0 0: element 7 was written by nobody")

  const shared = (barrier: boolean) =>
    attempt(
      (k) => {
        const here = k.shared("here", "u32", 8)
        k.if(
          k
            .group(0)
            .eq(0)
            .or(u32(barrier ? 0 : 1).eq(0)),
          () => here.store(k.lane, k.lane),
        )
        k.barrier()
        here.load(k.lane)
      },
      [],
      2,
    )
  expect(shared(false)).toThrow(
    "(load here), lane 0 of group 1 0 0: element 0 was written by nobody",
  )
  const added = attempt((k) => k.shared("here", "u32", 8).atomicAdd(k.lane, 1))
  expect(added).toThrow("was written by nobody")
})

test("what a kernel wrote may be read by the next one", () => {
  const memory = new Memory(32)
  attempt((k) => k.buffer("out", "f32", "write").store(k.lane, k.lane.float()), [memory])()
  attempt((k) => void k.buffer("in", "f32", "read").load(u32(7).sub(k.lane)), [memory])()
  expect(memory.isWritten()).toBe(true)
})

test("two lanes in one cell are refused where one of them writes", () => {
  const write = (at: (lane: Value) => Value, barrier = false) =>
    attempt(
      (k) => {
        const buffer = k.buffer("both", "u32", "readwrite")
        buffer.store(k.lane, 5)
        if (barrier) k.barrier()
        buffer.store(at(k.lane), 5)
      },
      [new Memory(32)],
    )
  write((lane) => lane)()
  write((lane) => lane.xor(1), true)()
  // Equal values are no excuse.
  expect(write((lane) => lane.xor(1))).toThrow(
    /\(store both\), lane \d of group 0 0 0: a race: it writes element \d and it is written by lane \d with no barrier between/,
  )
  expect(write((lane) => lane.div(2), true)).toThrow("a race")

  const readThenWrite = (readers: number, barrier: boolean) =>
    attempt(
      (k) => {
        const buffer = k.buffer("both", "u32", "readwrite")
        k.if(k.lane.lt(readers), () => {
          buffer.load(0)
        })
        if (barrier) k.barrier()
        k.if(k.lane.eq(0), () => buffer.store(0, 1))
      },
      [Memory.of(new Uint32Array(8))],
    )
  readThenWrite(1, false)()
  readThenWrite(8, true)()
  expect(readThenWrite(2, false)).toThrow("it is read by several lanes with no barrier between")
})

test("bytes of one word are cells of their own, and so is memory under two names", () => {
  const bytes = attempt(
    (k) => k.buffer("out", "u8", "write").store(k.lane, k.lane),
    [new Memory(8)],
  )
  bytes()
  const memory = Memory.of(new Uint32Array(8))
  const twoNames = (access: Access, by: number, back: boolean) =>
    attempt(
      (k) => {
        const words = k.buffer("words", "u32", access)
        const halves = k.buffer("halves", "u16", "write")
        if (!back) words.load(k.lane)
        k.if(k.lane.lt(7), () => halves.store(k.lane.mul(2).add(by), 0))
        if (back) words.load(k.lane)
      },
      [memory, memory],
    )
  twoNames("readwrite", 1, false)()
  twoNames("readwrite", 0, true)()
  expect(twoNames("readwrite", 2, false)).toThrow("it is read by lane")
  expect(twoNames("readwrite", 2, true)).toThrow("it is written by lane")
  // What may only be read is written by nobody, not even by the lane that reads it.
  expect(twoNames("read", 1, false)).toThrow("this launch reads it as another operand")
  expect(twoNames("read", 1, true)).toThrow("it was written by this launch, as another operand")
})

test("two groups in one cell are refused, whoever comes first", () => {
  const groups = (write: (k: Builder, group: Value) => void) =>
    attempt(
      (k) => k.if(k.lane.eq(0), () => write(k, k.group(0))),
      [Memory.of(new Uint32Array(8))],
      3,
    )
  const apart = groups((k, group) => {
    const buffer = k.buffer("both", "u32", "readwrite")
    buffer.store(group, buffer.load(group))
  })
  apart()
  expect(groups((k, group) => k.buffer("both", "u32", "write").store(group.div(2), 1))).toThrow(
    "it is written by another group of this launch",
  )
  expect(
    groups((k, group) => {
      const buffer = k.buffer("both", "u32", "readwrite")
      buffer.load(0)
      k.if(group.eq(2), () => buffer.store(0, 1))
    }),
  ).toThrow(/it is (read|written) by another group of this launch/)
  expect(
    groups((k, group) => {
      const buffer = k.buffer("both", "u32", "readwrite")
      k.if(
        group.eq(1),
        () => buffer.store(0, 1),
        () => void buffer.load(0),
      )
    }),
  ).toThrow(/it is (read|written) by another group of this launch/)
})

test("additions collide with reads and writes, not with each other", () => {
  const added = (after: (k: Builder, here: ReturnType<Builder["shared"]>) => void) =>
    attempt((k) => {
      const here = k.shared("here", "u32", 8)
      here.store(k.lane, 0)
      k.barrier()
      here.atomicAdd(0, 1)
      after(k, here)
    })
  added(() => {})()
  expect(added((_, here) => void here.load(0))).toThrow("it is added to by several lanes")
  expect(added((k, here) => k.if(k.lane.eq(3), () => here.store(0, 0)))).toThrow("it is added to")
})

test("a barrier that not all lanes reach is refused", () => {
  const branch = (lanes: number) => attempt((k) => k.if(k.lane.lt(lanes), () => k.barrier()))
  branch(8)()
  branch(0)()
  expect(branch(7)).toThrow(
    "kernel planted: statement 1 (barrier), lane 7 of group 0 0 0: it does not come to this barrier",
  )
  expect(
    attempt((k) =>
      k.if(
        k.lane.lt(4),
        () => k.barrier(),
        () => k.barrier(),
      ),
    ),
  ).toThrow("lane")
  expect(attempt((k) => k.for(0, k.lane, 1, () => k.barrier()))).toThrow("lane 0")
  expect(attempt((k) => k.if(k.lane.lt(4), () => void k.subgroupSum(k.lane)))).toThrow(
    "lane 4 of group 0 0 0: its subgroup sums without it",
  )
  const parted = kernel("parted", 32, (k) => k.if(k.lane.ne(9), () => void multiplies(k)))
  expect(() => runKernel(parted, [], one)).toThrow("lane 9 of group 0 0 0: its subgroup multiplies")
  const small = kernel("small", 32, (k) => void multiplies(k))
  expect(() => runKernel(small, [], one, { subgroup: 16 })).toThrow("it has a subgroup of 16")
})

test("buffers are used as they were named", () => {
  const memory = Memory.of(new Float32Array(8))
  expect(attempt((k) => k.buffer("in", "f32", "read").store(k.lane, 0), [memory])).toThrow(
    "in may only be read",
  )
  expect(attempt((k) => void k.buffer("out", "f32", "write").load(k.lane), [memory])).toThrow(
    "out may only be written",
  )
  expect(attempt((k) => void k.buffer("in", "f32", "read"), [4])).toThrow("in is a buffer")
  expect(attempt((k) => void k.word("size"), [memory])).toThrow("size is a word")
  expect(attempt((k) => void k.word("size"), [])).toThrow("it takes 1 operands, not 0")
  expect(attempt((k) => void k.buffer("in", "f32", "read"), [memory.at(2)])).toThrow(
    "multiple of 4",
  )
})

test("arithmetic that has no answer is refused", () => {
  const of = (compute: (k: Builder) => Value) =>
    attempt((k) => k.buffer("out", "u32", "write").store(k.lane, compute(k)), [new Memory(32)])
  of((k) => u32(9).div(k.lane.add(1)))()
  expect(of((k) => u32(9).div(k.lane))).toThrow("lane 0 of group 0 0 0: div by zero")
  expect(of((k) => u32(9).rem(k.lane.sub(3)))).toThrow("lane 3 of group 0 0 0: rem by zero")
  of((k) => u32(9).shl(k.lane.add(24)))()
  expect(of((k) => u32(9).shl(k.lane.add(25)))).toThrow("lane 7 of group 0 0 0: shl by 32")
  expect(of((k) => i32(9).shr(i32(-1)).bits("u32").add(k.lane))).toThrow("shr by -1")
  const whole = (by: number) => of((k) => k.lane.float().mul(by).whole().bits("u32"))
  whole(2 ** 28)()
  expect(whole(2 ** 29)).toThrow("lane 4 of group 0 0 0: 2147483648 does not fit an i32")
  expect(whole(Number.NaN)).toThrow("NaN does not fit an i32")
  expect(attempt((k) => k.for(0, 5, k.lane, () => {}))).toThrow(
    "lane 0 of group 0 0 0: the step is 0",
  )
  expect(attempt((k) => k.for(0, 0xffffffff, 0x80000000, () => {}))).toThrow("beyond 32 bits")
})

test("what a lane does not do is not refused", () => {
  attempt((k) => {
    k.if(k.lane.ne(0), () => void k.let(u32(9).div(k.lane)))
  })()
})
