// Kernels that are refused before they run anywhere, each beside one that is not.

import { expect, test } from "vitest"
import { smallGraph } from "../../../../../test/model/small.ts"
import { formatNames } from "../../../../runtime/format.ts"
import { compile } from "../../../compile.ts"
import { gpuCases } from "../check-cases.ts"
import { printers } from "../printers.ts"
import { tapeOf } from "../tape-of.ts"
import { type Builder, f32, i32, kernel, select, u32, Value } from "./builder.ts"
import { checkKernel } from "./check.ts"
import type { Expression, Kernel } from "./ir.ts"

const check = (write: (k: Builder) => void, changes: Partial<Kernel> = {}) => {
  return () => checkKernel({ ...kernel("planted", 64, write), ...changes })
}

test("kernels that say all that the language can are well formed", () => {
  for (const { kernel } of gpuCases) checkKernel(kernel)
})

test("every kernel that plans become is well formed", () => {
  const kvs = ["f32", "f16", "bf16", "q8"] as const
  const shapes = [{}, { window: 20, sinks: 3 }, { windows: [undefined, 20] }]
  for (const [i, format] of formatNames.entries()) {
    const [kv, shape] = [kvs[i % kvs.length]!, shapes[i % shapes.length]!]
    const activations = format === "q4f32_1" ? "float" : "int8"
    const options = { format, kv, activations, sums: { parts: 8, span: 256 } } as const
    for (const kernel of tapeOf(compile(smallGraph(shape), options), { units: ["tiles"] }).kernels)
      checkKernel(kernel)
  }
})

test("a kernel asks no more than the weakest device has", () => {
  const shared = (length: number) => check((k) => void k.shared("here", "f32", length))
  shared(4096)()
  expect(shared(4097)).toThrow(
    "internal: kernel planted: its shared arrays take 16388 bytes of 16384 at most",
  )
  expect(shared(0)).toThrow("here has 0 elements")
  const operands = (words: number) =>
    check((k) => {
      for (let i = 0; i < 15; i++) k.buffer(`b${i}`, "f32", "read")
      for (let i = 0; i < words; i++) k.word(`w${i}`)
    })
  operands(2)()
  expect(operands(3)).toThrow("its operands take 132 bytes of 128 at most")
  check(() => {}, { threads: 256 })()
  expect(check(() => {}, { threads: 257 })).toThrow("a group has 1 to 256 threads, not 257")
  const needs = check((k) => void k.let(k.dot4(k.lane, k.lane, 0)), { needs: new Set() })
  expect(needs).toThrow("statement 0 (let): the kernel does not say that it needs dot4")
})

const binary = (type: Expression["type"], name: "add" | "lt" | "rem", a: Value, b: Value) =>
  new Value({ kind: "binary", type, name, a: a.expression, b: b.expression })

test("every number has the type that its use wants", () => {
  const of = (write: (k: Builder) => Value) => check((k) => void k.let(write(k), "x"))
  of((k) => k.lane.add(1).lt(3))()
  expect(of((k) => binary("u32", "add", k.lane, f32(1)))).toThrow(
    "internal: kernel planted: statement 0 (let x): a f32 stands where a u32 is wanted",
  )
  expect(of((k) => binary("u32", "lt", k.lane, k.lane))).toThrow("lt of u32 gives no u32")
  expect(of(() => binary("f32", "rem", f32(1), f32(2)))).toThrow("there is no rem of f32")
  expect(of(() => i32(3).div(i32(2)))).toThrow("there is no div of i32")
  expect(of(() => f32(3).min(2))).toThrow("there is no min of f32")
  expect(of((k) => k.lane.neg())).toThrow("there is no neg of u32")
  expect(of((k) => k.lane.lt(1).bits("u32"))).toThrow("there is no u32 of bool")
  expect(of((k) => k.lane.lt(1).lt(k.lane.lt(2)))).toThrow("there is no lt of bool")
  expect(of((k) => select(k.lane, f32(1), f32(2)))).toThrow("a u32 stands where a bool is wanted")
  expect(of(() => new Value({ kind: "constant", type: "f32", value: 0.1 }))).toThrow(
    "0.1 is no f32",
  )
  expect(of(() => new Value({ kind: "constant", type: "u32", value: -1 }))).toThrow("-1 is no u32")
  of(() => f32(Number.NaN).add(-0))()
  const word = (type: "u32" | "f32") =>
    of((k) => {
      k.word("size")
      return new Value({ kind: "operand", type, operand: 0 })
    })
  word("u32")()
  expect(word("f32")).toThrow("operand 0 is no f32")
})

test("nothing is named outside of where it is defined", () => {
  const leaked = (leaks: boolean) =>
    check((k) => {
      let inner = k.lane
      k.if(k.lane.lt(4), () => {
        inner = k.let(k.lane.add(1), "inner")
        k.let(inner)
      })
      if (leaks) k.let(inner)
    })
  leaked(false)()
  expect(leaked(true)).toThrow("statement 3 (let): inner cannot be named here")
  const index = check((k) => {
    let inside = k.lane
    k.for(
      0,
      4,
      1,
      (i) => {
        inside = i
      },
      "i",
    )
    k.let(inside)
  })
  expect(index).toThrow("i cannot be named here")
  const early = kernel("early", 64, (k) => {
    const x = k.let(k.lane, "x")
    k.let(x.add(1), "y")
  })
  expect(() => checkKernel({ ...early, body: early.body.toReversed() })).toThrow(
    "statement 0 (let y): x cannot be named here",
  )
  expect(() => checkKernel({ ...early, body: [...early.body, early.body[0]!] })).toThrow(
    "statement 2 (let x): x is defined twice",
  )
  expect(() => checkKernel({ ...early, ids: 1 })).toThrow("its ids are below 1, which 1 is not")
  const assigned = check((k) => void k.let(k.lane, "x"), {
    body: [
      { kind: "let", id: 0, value: u32(1).expression },
      { kind: "assign", id: 0, value: u32(2).expression },
    ],
  })
  expect(assigned).toThrow("statement 1 (assign x): x is no variable that can be named here")
  const variable = check((k) => void k.variable(f32(1), "x"), {
    body: [
      { kind: "variable", id: 0, value: f32(1).expression },
      { kind: "assign", id: 0, value: u32(2).expression },
    ],
  })
  expect(variable).toThrow("a u32 stands where a f32 is wanted")
})

test("earlier kernels are waited for under no condition, and before anything is written", () => {
  const writing = (k: Builder) => k.buffer("out", "u32", "write").store(k.lane, 1)
  check((k) => {
    k.buffer("in", "u32", "read").load(k.lane)
    k.shared("here", "u32", 64).store(k.lane, 1)
    k.afterEarlier()
    writing(k)
    k.letLaterBegin()
  })()
  expect(
    check((k) => {
      writing(k)
      k.afterEarlier()
    }),
  ).toThrow("nothing is written before earlier kernels are waited for")
  const conditional = "where other kernels are waited for or let begin stands under no condition"
  for (const place of [(k: Builder) => k.afterEarlier(), (k: Builder) => k.letLaterBegin()])
    expect(check((k) => k.if(k.group(0).eq(0), () => place(k)))).toThrow(conditional)
})

test("memory is used as it was named", () => {
  expect(check((k) => k.buffer("in", "f32", "read").store(0, 1))).toThrow(
    "statement 0 (store in): in may only be read",
  )
  expect(check((k) => void k.buffer("out", "f32", "write").load(0))).toThrow("may only be written")
  check((k) => void k.buffer("in", "u32", "read").loadFour(0))()
  expect(check((k) => void k.buffer("in", "f16", "read").loadFour(0))).toThrow("32-bit elements")
  check((k) => {
    k.forCuda()
    k.buffer("in", "f16", "read").loadEight(0)
  })()
  expect(check((k) => void k.buffer("in", "f16", "read").loadEight(0))).toThrow("cuda")
  expect(check((k) => void k.shared("here", "u32", 4).loadFour(0))).toThrow("cuda")
  check((k) => k.shared("here", "i32", 4).atomicAdd(0, 1))()
  expect(check((k) => k.shared("here", "f32", 4).atomicAdd(0, 1))).toThrow("atomics are for shared")
  expect(check((k) => k.buffer("out", "u32", "readwrite").atomicAdd(0, 1))).toThrow("atomics are")
  expect(check((k) => k.for(0, 4, 0, () => {}))).toThrow("the step is 0")
})

test("barriers stand where all threads come, and under no condition", () => {
  const loop = (to: (k: Builder) => Value) => check((k) => k.for(0, to(k), 1, () => k.barrier()))
  const refused = "not all threads of a group may come to this barrier"
  loop((k) => k.group(2))()
  loop((k) => select(k.group(0).lt(k.word("count")), u32(1), 0))()
  loop((k) => k.buffer("in", "u32", "read").load(k.group(1)))()
  loop((k) => k.shared("here", "u32", 4).load(1))()
  expect(loop((k) => k.lane)).toThrow(`statement 1 (barrier): ${refused}`)
  expect(loop((k) => k.buffer("in", "u32", "read").load(k.lane))).toThrow(refused)
  expect(loop((k) => select(k.group(0).eq(0), k.lane, 1))).toThrow(refused)
  expect(check((k) => k.for(0, k.lane, 1, () => k.for(0, 2, 1, () => k.barrier())))).toThrow(
    refused,
  )
  expect(check((k) => k.each(64, () => k.barrier()))).toThrow(refused)
  check((k) => k.each(64, () => k.barrier()), { threads: 1 })()

  // Under a condition none may stand, though all threads find the same.
  const within = (condition: (k: Builder) => Value, body = (k: Builder) => k.barrier()) =>
    check((k) => k.if(condition(k), () => body(k)))
  expect(within((k) => k.lane.lt(64))).toThrow(refused)
  const conditional = "statement 1 (barrier): a barrier stands under no condition"
  expect(within((k) => k.group(0).eq(0))).toThrow(conditional)
  const branches = check((k) =>
    k.if(
      k.group(0).eq(0),
      () => {},
      () => k.barrier(),
    ),
  )
  expect(branches).toThrow(conditional)
  const looped = within(
    (k) => k.group(0).eq(0),
    (k) => k.for(0, 4, 1, () => k.barrier()),
  )
  expect(looped).toThrow("statement 2 (barrier): a barrier stands under no condition")
  within(
    (k) => k.group(0).eq(0),
    (k) => void k.subgroupSum(k.lane),
  )()
  expect(check((k) => k.if(k.lane.lt(32), () => void k.subgroupSum(k.lane)))).toThrow(
    "not all threads of a subgroup may come to this sum",
  )
  const tiles = (k: Builder) => {
    const [word, sum] = [u32(1), i32(0)]
    k.matrixDot([word, word, word, word], [word, word], [sum, sum, sum, sum])
  }
  check(tiles)()
  expect(check((k) => k.if(k.lane.lt(32), () => tiles(k)))).toThrow(
    "not all threads of a subgroup may come to this product",
  )
  expect(() => checkKernel(kernel("small", 48, tiles))).toThrow("32 threads multiply tiles")
  const team = (k: Builder) => {
    const elements = k.shared("bytes", "u32", 256)
    const side = { elements, from: 0, stride: 8 }
    return k.tileDot(side, side, 32)
  }
  check((k) => void team(k))()
  expect(check((k) => k.if(k.lane.lt(32), () => void team(k)))).toThrow(
    "not all threads of a team may come to these tiles",
  )
  expect(() => checkKernel(kernel("small", 48, team))).toThrow("32 threads multiply tiles")
  const other = kernel("other", 64, (k) => k.barrier())
  expect(() => checkKernel({ ...kernel("one", 32, () => {}), otherwise: other })).toThrow(
    "kernel one: what does the same has other threads or operands",
  )
  const summed = check((k) => {
    const sum = k.subgroupSum(u32(1))
    k.for(0, sum, 1, () => k.barrier())
  })
  expect(summed).toThrow(refused)
})

test("what is not well formed is printed for no device", () => {
  const planted = kernel("planted", 64, (k) => k.if(k.group(0).eq(0), () => k.barrier()))
  for (const printer of Object.values(printers))
    for (let time = 0; time < 2; time++)
      expect(() => printer.print([planted], [])).toThrow("kernel planted: statement 1 (barrier)")
})

test("a variable differs between threads wherever it may have been given something that does", () => {
  // The barrier stands before the statement that makes its loop's end differ, in a loop.
  const varying = (turns: number, value: (k: Builder) => Value) =>
    check((k) => {
      const [a, b] = [k.variable(u32(0)), k.variable(u32(0))]
      k.for(0, turns, 1, () => {
        k.for(0, b.now, 1, () => k.barrier())
        b.set(a.now)
        a.set(value(k))
      })
    })
  varying(3, (k) => k.group(0))()
  expect(varying(3, (k) => k.lane)).toThrow("not all threads")
  const branched = (condition: (k: Builder) => Value) =>
    check((k) => {
      const a = k.variable(u32(0))
      k.if(condition(k), () => a.set(1))
      k.for(0, a.now, 1, () => k.barrier())
    })
  branched((k) => k.group(0).eq(1))()
  expect(branched((k) => k.lane.eq(1))).toThrow("not all threads")
})
