import { expect, test } from "vitest"
import { gpuCases } from "../check-cases.ts"
import { type Builder, f32, fma, i32, kernel, select, u32, type Value } from "./builder.ts"
import type { Statement } from "./ir.ts"
import { printKernel } from "./print.ts"

test("a kernel is printed with its names, numbers and blocks", () => {
  const sums = kernel("sums", 64, (k) => {
    const rows = k.buffer("rows", "f16", "read")
    const out = k.buffer("out", "f32", "write")
    const width = k.word("width")
    const parts = k.shared("parts", "f32", 64)
    const sum = k.variable(f32(0), "sum")
    k.each(
      width,
      (i) => {
        const value = rows.load(k.group(0).mul(width).add(i))
        sum.set(fma(value, value, sum.now))
      },
      "i",
    )
    parts.store(k.lane, sum.now)
    k.barrier()
    k.if(
      k.lane.eq(0),
      () => out.store(k.group(0), parts.load(0).add(parts.load(1))),
      () => k.if(k.lane.lt(2), () => k.let(k.lane)),
    )
  })
  expect(printKernel(sums)).toBe(`kernel sums of 64 threads
  read f16 rows[]
  write f32 out[]
  word u32 width
  shared f32 parts[64]
    0  var f32 sum = 0.0
    1  for i from lane below width by 64 {
    2    v3 = rows[group.x * width + i]
    3    sum := fma(v3, v3, sum)
       }
    4  parts[lane] := sum
    5  barrier
    6  if lane == 0 {
    7    v4 = parts[0]
    8    v5 = parts[1]
    9    out[group.x] := v4 + v5
       } else {
   10    if lane < 2 {
   11      v6 = lane
         }
       }
`)
})

test("all kinds of statements are printed", () => {
  const all = kernel("all", 32, (k) => {
    const bytes = k.buffer("a b", "u32", "readwrite")
    const bins = k.shared("bins", "i32", 4)
    bytes.loadFour(k.lane)
    bins.atomicAdd(2, -3)
    k.subgroupSum(k.dot4(k.lane, k.lane, 1))
    k.for(0, 9, 1, () => {})
    const zero = i32(0)
    k.matrixDot([k.lane, k.lane, k.lane, k.lane], [k.lane, k.lane], [zero, zero, zero, i32(1)])
    const tile = k.shared("tile", "u32", 256)
    const side = { elements: tile, from: k.team, stride: 8 }
    k.tileDot(side, { ...side, from: 4 }, 32)
    k.tileElements(tile)
  })
  expect(printKernel(all)).toBe(`kernel all of 32 threads
needs dot4, subgroups, matrix, byteTiles
  readwrite u32 "a b"[]
  shared i32 bins[4]
  shared u32 tile[256]
    0  v1, v2, v3, v4 = four "a b"[lane]
    1  atomic bins[2] += -3
    2  v5 = subgroup sum of dot4(lane, lane, 1)
    3  for v6 from 0 below 9 {
       }
    4  v7, v8, v9, v10 = matrix dot of (lane, lane, lane, lane) and (lane, lane) onto (0, 0, 0, 1)
    5  v12, v13, v14, v15, v16, v17, v18, v19 = tile dot of tile[team] by 8 and tile[4] by 8, 32 deep
    6  v20, v21, v22, v23, v24, v25, v26, v27 = elements of tile tile
`)
})

/** What a value is printed as. */
function printed(write: (k: Builder) => Value): string {
  const text = printKernel(kernel("one", 1, (k) => k.let(write(k), "x")))
  return text.trimEnd().split(" x = ")[1]!
}

test("expressions have the brackets that they need", () => {
  const l = (k: Builder) => k.lane
  expect(printed((k) => l(k).add(1).add(2))).toBe("lane + 1 + 2")
  expect(printed((k) => l(k).sub(l(k).sub(2)))).toBe("lane - (lane - 2)")
  expect(printed((k) => l(k).add(1).mul(l(k).mul(2)))).toBe("(lane + 1) * (lane * 2)")
  expect(printed((k) => l(k).mul(2).add(l(k).div(3)))).toBe("lane * 2 + lane / 3")
  expect(printed((k) => l(k).shr(4).and(15).or(l(k)))).toBe("(lane >> 4 & 15) | lane")
  expect(printed((k) => l(k).lt(3).and(l(k).ne(1)).not())).toBe("!(lane < 3 & lane != 1)")
  expect(printed((k) => l(k).float().neg().neg())).toBe("-(-float(lane))")
  expect(printed((k) => l(k).float().neg().abs())).toBe("abs(-float(lane))")
  expect(printed((k) => f32(1).add(l(k).bits("f32")).neg())).toBe("-(1.0 + bits_f32(lane))")
  expect(printed((k) => l(k).min(3).mulHigh(l(k).max(1)))).toBe(
    "mulHigh(min(lane, 3), max(lane, 1))",
  )
  expect(printed((k) => select(l(k).le(1), k.groups(1), k.group(2)))).toBe(
    "select(lane <= 1, groups.y, group.z)",
  )
})

test("constants can be read back", () => {
  expect(printed(() => f32(1))).toBe("1.0")
  expect(printed(() => f32(-0))).toBe("-0.0")
  expect(printed(() => f32(0.1))).toBe("0.1")
  expect(printed(() => f32(2 ** -149))).toBe("1e-45")
  expect(printed(() => f32(16777217))).toBe("16777216.0")
  expect(printed(() => f32(Number.NaN))).toBe("NaN")
  expect(printed(() => f32(Number.NEGATIVE_INFINITY))).toBe("-Infinity")
  expect(printed(() => i32(-7))).toBe("-7")
  expect(printed(() => u32(0xffffffff))).toBe("4294967295")
})

test("what has the name of another gets its number", () => {
  const twice = kernel("twice", 1, (k) => {
    k.buffer("in", "f32", "read")
    k.let(k.lane, "x")
    k.let(k.lane, "x")
    k.let(k.lane, "in")
  })
  expect(printKernel(twice)).toMatch(/x = lane\n +1 {2}x_1 = lane\n +2 {2}in_2 = lane\n$/)
})

test("every statement of a kernel has its number", () => {
  const count = (statements: readonly Statement[]): number =>
    statements.reduce((sum, statement) => {
      if (statement.kind === "for") return sum + 1 + count(statement.body)
      if (statement.kind === "if") return sum + 1 + count(statement.yes) + count(statement.no)
      return sum + 1
    }, 0)
  for (const { kernel } of gpuCases) {
    const numbers = Array.from(printKernel(kernel).matchAll(/^ {0,4}(\d+) {2}/gm), ([, n]) =>
      Number(n),
    )
    expect(numbers).toEqual(Array.from({ length: count(kernel.body) }, (_, i) => i))
  }
})
