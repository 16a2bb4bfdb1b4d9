// Kernels that a seed makes up: well typed, free of races, in bounds, and without anything that the language leaves undefined,
// so that a device and the slow twin must agree on every bit of them. They say what nobody would write: for printers, whose
// faults hide between an expression and what stands around it.

import { floats, type GpuCase, words } from "../../src/compiler/targets/gpu/check-cases.ts"
import {
  type Builder,
  f32,
  fma,
  i32,
  kernel,
  select,
  u32,
  type Value,
  type Variable,
} from "../../src/compiler/targets/gpu/ir/builder.ts"
import type { Type } from "../../src/compiler/targets/gpu/ir/ir.ts"
import { floatWord } from "../../src/compiler/targets/gpu/launch.ts"
import { mulberry32 } from "../random.ts"

type NumberType = Exclude<Type, "bool">

const THREADS = 32
const GROUPS = [3, 2, 1] as const
const ALL = THREADS * GROUPS[0] * GROUPS[1]
const SHARED = 64

function randomCase(seed: number): GpuCase {
  const written = kernel(`random_${seed}`, THREADS, (k) => new RandomKernel(k, seed).write())
  const halves = new Uint16Array(words(ALL / 2, seed + 2).buffer).map((half) => half & 0xfbff)
  const operands = [
    floats(ALL, seed),
    new Int32Array(words(ALL, seed + 1).buffer),
    halves, // finite: what a NaN becomes as a half is nobody's promise
    new Int8Array(words(ALL / 4, seed + 3).buffer),
    floatWord(floats(1, seed + 4)[0]!),
    words(1, seed + 5)[0]!,
    new Float32Array(ALL),
    new Int32Array(ALL),
    new Uint32Array(ALL),
    new Uint8Array(ALL),
  ]
  return { kernel: written, operands, groups: GROUPS }
}

class RandomKernel {
  readonly #k: Builder
  readonly #next: () => number
  readonly #variables: Record<NumberType, Variable[]> = { f32: [], i32: [], u32: [] }
  /** What can be named where the next statement is written. */
  #values: Record<Type, Value[]> = { f32: [], i32: [], u32: [], bool: [] }

  constructor(k: Builder, seed: number) {
    this.#k = k
    this.#next = mulberry32(seed)
  }

  write(): void {
    const k = this.#k
    const inputs = (["f32", "i32", "f16", "i8"] as const).map((element) =>
      k.buffer(`in_${element}`, element, "read"),
    )
    this.#values.f32.push(k.word("some_float", "f32"))
    this.#values.u32.push(k.word("some_word"), k.lane, k.group(0), k.groups(1))
    const outputs = (["f32", "i32", "u32", "u8"] as const).map((element) =>
      k.buffer(`out_${element}`, element, "write"),
    )
    const shared = k.shared("shared", "u32", SHARED)
    const group = k.group(1).mul(k.groups(0)).add(k.group(0))
    const own = k.let(group.mul(THREADS).add(k.lane), "own")
    for (const input of inputs) {
      const value = input.load(this.#chance(2) ? own : own.mul(7).rem(ALL))
      this.#values[value.type].push(value)
    }
    for (const type of ["f32", "i32", "u32"] as const)
      for (let i = 0; i < 2; i++) this.#variables[type].push(k.variable(this.#of(type, 2)))

    for (let round = 0; round < 3; round++) {
      this.#statements(4, 2)
      // Each thread leaves words for others, who take them behind a barrier.
      shared.store(k.lane, this.#of("u32", 2))
      shared.store(k.lane.add(THREADS), this.#of("u32", 2))
      k.barrier()
      this.#values.u32.push(k.let(shared.load(this.#of("u32", 2).and(SHARED - 1))))
      k.barrier()
    }
    k.each(SHARED, (i) => shared.store(i, i))
    k.barrier()
    shared.atomicAdd(this.#of("u32", 1).and(SHARED - 1), this.#of("u32", 2))
    k.barrier()
    this.#values.u32.push(shared.load(k.lane.xor(5)))

    const [floatsOut, integersOut, wordsOut, bytesOut] = outputs
    floatsOut!.store(own, this.#sum("f32"))
    integersOut!.store(own, this.#sum("i32"))
    wordsOut!.store(own, this.#sum("u32"))
    bytesOut!.store(own, this.#of("u32", 3))
  }

  /** All that a type's variables hold, and something more. */
  #sum(type: NumberType): Value {
    return this.#variables[type].reduce((sum, { now }) => sum.add(now), this.#of(type, 3))
  }

  #statements(count: number, depth: number): void {
    for (let i = 0; i < count; i++) this.#statement(depth)
  }

  #statement(depth: number): void {
    const k = this.#k
    const type = this.#pick(["f32", "i32", "u32"] as const)
    const what = this.#below(depth > 0 ? 6 : 3)
    if (what === 0) {
      const value = k.let(this.#of(type, 3))
      this.#values[type].push(value)
    } else if (what === 1 && depth > 0) {
      this.#values.bool.push(k.let(this.#of("bool", 2)))
    } else if (what <= 3) {
      this.#pick(this.#variables[type]).set(this.#of(type, 3))
    } else if (what === 4) {
      k.if(
        this.#of("bool", 2),
        () => this.#within(() => this.#statements(2, depth - 1)),
        () => this.#within(() => this.#statements(this.#below(3), depth - 1)),
      )
    } else {
      const from = this.#of("u32", 1).and(3)
      const to = this.#of("u32", 2).and(7)
      k.for(from, to, this.#of("u32", 1).and(1).add(1), (i) =>
        this.#within(() => {
          this.#values.u32.push(i)
          this.#statements(2, depth - 1)
        }),
      )
    }
  }

  /** What is defined in a block is gone behind it. */
  #within(write: () => void): void {
    const outer = this.#values
    this.#values = {
      f32: [...outer.f32],
      i32: [...outer.i32],
      u32: [...outer.u32],
      bool: [...outer.bool],
    }
    write()
    this.#values = outer
  }

  // ---- expressions

  #of(type: Type, depth: number): Value {
    if (depth === 0) return this.#leaf(type)
    const of = (other: Type) => this.#of(other, depth - 1 - this.#below(2) * Number(depth > 1))
    if (this.#chance(8)) return select(of("bool"), of(type), of(type))
    if (type === "bool") return this.#bool(of)
    return type === "f32" ? this.#float(of) : this.#whole(type, of)
  }

  #leaf(type: Type): Value {
    if (type === "bool") {
      const known = this.#values.bool
      return known.length > 0 ? this.#pick(known) : this.#leaf("u32").lt(this.#leaf("u32"))
    }
    const what = this.#below(4)
    if (what === 0) return this.#constant(type)
    const variables = this.#variables[type]
    if (what === 1 && variables.length > 0) return this.#pick(variables).now
    const values = this.#values[type]
    return values.length > 0 ? this.#pick(values) : this.#constant(type)
  }

  #constant(type: NumberType): Value {
    if (type === "f32")
      // No -0: Mesa 22.3 makes select(c, 1, -0) a conversion of c, whose zero has no sign.
      return f32(this.#pick([0, 2, 1, -1.5, 3, 1e-40, 1e30, 0.1, Infinity, this.#below(1000) / 7]))
    const value = this.#pick([0, 1, 2, 31, 255, 0x7fffffff, 0x80000000, 0xffffffff, this.#next()])
    return type === "i32" ? i32(value) : u32(value)
  }

  #float(of: (type: Type) => Value): Value {
    const [a, b] = [of("f32"), of("f32")]
    const choices = [
      () => a.add(b),
      () => a.sub(b),
      () => a.mul(b),
      () => a.div(b),
      () => fma(a, b, of("f32")),
      () => a.neg(),
      () => a.abs().sqrt(),
      () => select(a.gt(b), a, b),
      () => of("i32").float(),
      () => of("u32").float(),
      // Neither infinite nor NaN, whose bits a device may change on their way.
      () => of("u32").and(0xbfffffff).bits("f32"),
    ]
    return this.#pick(choices)()
  }

  #whole(type: "i32" | "u32", of: (type: Type) => Value): Value {
    const [a, b] = [of(type), of(type)]
    const choices = [
      () => a.add(b),
      () => a.sub(b),
      () => a.mul(b),
      () => a.min(b),
      () => a.max(b),
      () => a.and(b),
      () => a.or(b),
      () => a.xor(b),
      () => a.shl(b.and(31)),
      () => a.shr(b.and(31)),
      () => of(type === "i32" ? "u32" : "i32").bits(type),
      ...(type === "i32"
        ? [() => a.neg(), () => this.#fitting(of("f32")).whole(), () => this.#finiteBits(of("f32"))]
        : [() => a.div(b.or(1)), () => a.rem(b.or(1)), () => a.mulHigh(b)]),
    ]
    return this.#pick(choices)()
  }

  /** A float that has an i32. */
  #fitting(value: Value): Value {
    return select(value.abs().lt(2 ** 31), value, 7)
  }

  #finiteBits(value: Value): Value {
    return select(value.abs().lt(Infinity), value, 1).bits("i32")
  }

  #bool(of: (type: Type) => Value): Value {
    const type = this.#pick(["f32", "i32", "u32"] as const)
    const choices = [
      () => of(type).eq(of(type)),
      () => of(type).ne(of(type)),
      () => of(type).lt(of(type)),
      () => of(type).le(of(type)),
      () => of("bool").and(of("bool")),
      () => of("bool").or(of("bool")),
      () => of("bool").xor(of("bool")),
      () => of("bool").not(),
    ]
    return this.#pick(choices)()
  }

  // ---- chance

  #below(count: number): number {
    return this.#next() % count
  }

  /** Once in so many times. */
  #chance(count: number): boolean {
    return this.#below(count) === 0
  }

  #pick<Item>(items: readonly Item[]): Item {
    return items[this.#below(items.length)]!
  }
}

export const randomCases = (count: number): GpuCase[] =>
  Array.from({ length: count }, (_, seed) => randomCase(seed))
