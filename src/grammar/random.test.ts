// Random small schemas against ajv: every small value is accepted exactly when it validates, and every prefix that is
// accepted can be finished. Schemas are drawn from a seed, so a failure comes back.

import { Ajv2020 } from "ajv/dist/2020.js"
import { expect, test } from "vitest"
import { uniform } from "../../test/random.ts"
import { compileSchema, Grammar, type Matcher, SchemaRefusal, Vocabulary } from "./grammar.ts"

const bytes = new Vocabulary(
  [...Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte)), new Uint8Array()],
  [256],
)
const rounds = Number(process.env.SCHEMAS ?? 100)
// Where ajv crashes (104, 127) or sides against the specification (23, 58, 114: `contains` in places where little fits),
// python's jsonschema 4.26 has judged: the values in their order, a bit for each that is valid.
const byPython = new Map([
  [
    23,
    "3fff4f9bf6b5a7cdfb5ad3e6fdad69f37ad6b4f9bd6b5a7cffffff3e7fffff9f37ad6b4f9bd6b5a7cdfb5ad3e6fdad69f37ed6b4f9bf6b5a7cdfb5ad",
  ],
  [
    58,
    "3fff460842148344210a4182108520f1084290788421483c4210a41e2108520f108429078842148344210a41a2108520d1084290e98c635874c631ac",
  ],
  [
    104,
    "3ffff66d6b5adb36b5ad6d9b5ad6b6cdad6b5b66d6b5adb36b5ad6d9b5ad6b6cdad6b5b66d6b5adb36b5ad6d9b5ad6b6cdad6b5b66d6b5adb36b5ad6",
  ],
  [
    114,
    "3fff4f80000007c0000003e0000001f0000000f80000007c0000003e0000001f0000000f80000017d294a523e0000005f4a52948f80000007c000000",
  ],
  [
    127,
    "4608429083042148418210a420c1085210608429083042148418210a420c10852106084290870c6358c38631ac61c318d6306084290830421484",
  ],
])

test("small values are accepted exactly when ajv accepts them, and prefixes can be finished", () => {
  const ajv = new Ajv2020({ strict: false, logger: false })
  let finished = 0
  let given = 0 // prefixes for which the search found no end in its tries
  for (let seed = 1; seed <= rounds; seed++) {
    const schema = new Drawing(seed).schema(3)
    const name = `${seed}: ${JSON.stringify(schema)}`
    const python = byPython.get(seed)
    const validate = python === undefined ? ajv.compile(schema as object) : undefined
    const bits = BigInt(`0x${python ?? 0}`)
      .toString(2)
      .padStart(values.length, "0")
    const isValid = (value: unknown, i: number) =>
      validate ? validate(value) === true : bits[i] === "1"
    const valid = values.filter(isValid)
    let grammar: Grammar
    try {
      grammar = new Grammar(compileSchema(schema).part)
    } catch (error) {
      if (!(error instanceof SchemaRefusal)) throw error
      if (error.fault.reason === "no value satisfies this schema") expect(valid, name).toEqual([])
      else expect(error.fault.reason, name).toMatch(/too many|two equal items|different items/)
      continue
    }
    for (const [i, value] of values.entries()) {
      const text = JSON.stringify(value)
      const matcher = grammar.matcher(bytes)
      const taken = [...Buffer.from(text)].every((byte) => matcher.accept(byte))
      expect(taken && matcher.canEnd(), `${name} ${text}`).toBe(isValid(value, i))
    }
    if (!validate) continue
    for (const text of prefixes(grammar.matcher(bytes), new Drawing(seed))) {
      const matcher = grammar.matcher(bytes)
      for (const byte of Buffer.from(text)) matcher.accept(byte)
      const rest = finish(matcher)
      if (rest === undefined) {
        given++
        continue
      }
      finished++
      const verdict = validate(JSON.parse(text + rest))
      expect(verdict, `${name} finished wrong: ${text}${rest}`).toBe(true)
    }
  }
  expect(given, "prefixes that could not be finished").toBeLessThan(finished * 0.02)
}, 120_000)

const scalars: unknown[] = [null, true, false, 0, 1, 2, 3, 1.5, -1, "", "a", "b", "ab", "aab"]
const values: unknown[] = [...scalars, [], {}]
for (const x of scalars) {
  values.push([x], [[x]], { a: x }, { b: x }, { c: x }, { a: { b: x } }, { a: [x] }, [{ a: x }])
  for (const y of [1, 2, "a", "ab", null]) {
    values.push([x, y], { a: x, b: y }, { b: y, c: x }, [1, x, y], { a: y, ab: x })
  }
}

/** A few prefixes that a walk over single bytes comes through. */
function prefixes(matcher: Matcher, drawing: Drawing): string[] {
  const alphabet = [...Buffer.from('[]{},:"ab012.-ntfuleraeyc')]
  const found: string[] = []
  for (let walk = 0; walk < 12; walk++) {
    let text = ""
    let moves = 0
    while (text.length < 24) {
      const open = alphabet.filter((byte) => {
        const fits = matcher.accept(byte)
        if (fits) matcher.rollback(1)
        return fits
      })
      if (open.length === 0) {
        const any = Array.from({ length: 256 }, (_, byte) => byte).some((byte) =>
          matcher.accept(byte),
        )
        if (any) matcher.rollback(1)
        expect(any || matcher.canEnd(), `a dead end after ${text}`).toBe(true)
        break
      }
      const byte = drawing.pick(open)
      matcher.accept(byte)
      moves++
      text += String.fromCharCode(byte)
    }
    matcher.rollback(moves)
    found.push(text)
  }
  return found
}

const inStrings = ['"', "a", "b", "u0061"]
const outside = [
  "}",
  "]",
  "1",
  '"a"',
  ',"a":',
  ',"b":',
  ',"c":',
  ',"ab":',
  '"a":',
  '"b":',
  '"c":',
  '"',
  ",",
]
outside.push(
  "0",
  "2",
  "null",
  "{",
  "[",
  "3",
  "true",
  "false",
  ":",
  '"b"',
  '"ab"',
  '"aab"',
  "-1",
  ".5",
  "1.5",
  ':"',
)

/** A short way to an end, tried in few pieces first; the matcher stays where it was. */
function finish(matcher: Matcher): string | undefined {
  let tries = 0
  const fits = (piece: string) => matcher.acceptBytes(Buffer.from(piece, "latin1"))
  const from = (depth: number): string | undefined => {
    if (matcher.canEnd()) return ""
    if (depth <= 0) return undefined
    const forced = Buffer.from(matcher.forced()).toString("latin1")
    const isString = forced === "" && fits("~")
    if (isString) matcher.rollback(1)
    for (const piece of forced ? [forced] : isString ? inStrings : outside) {
      if (++tries > 20_000) return undefined
      if (!fits(piece)) continue
      const rest = from(depth - (isString && piece !== '"' ? 3 : 1))
      matcher.rollback(1)
      if (rest !== undefined) return piece + rest
    }
    return undefined
  }
  for (let depth = 0; depth < 16; depth++) {
    const rest = from(depth)
    if (rest !== undefined) return rest
  }
  return undefined
}

/** Schemas drawn from a seed (mulberry32). */
class Drawing {
  private readonly next: () => number

  constructor(seed: number) {
    this.next = uniform(seed * 7919)
  }

  pick<T>(list: readonly T[]): T {
    return list[Math.floor(this.next() * list.length)]!
  }

  schema(depth: number): unknown {
    if (this.next() < 0.08) return this.next() < 0.7
    const schema: Record<string, unknown> = {}
    const count = 1 + Math.floor(this.next() * 3)
    for (let i = 0; i < count; i++) {
      const table = depth > 0 && this.next() < 0.75 ? this.nested(depth - 1) : this.flat()
      Object.assign(schema, this.pick(table)())
    }
    return schema
  }

  private flat(): (() => object)[] {
    const types = ["null", "boolean", "integer", "number", "string", "array", "object"]
    const n = () => Math.floor(this.next() * 3)
    return [
      () => ({ type: this.pick(types) }),
      () => ({ type: [this.pick(types.slice(2)), this.pick(types.slice(0, 2))] }),
      () => ({ enum: [this.pick(values), this.pick(scalars), this.pick(scalars)] }),
      () => ({ const: this.pick(values) }),
      () => ({ minimum: n() }),
      () => ({ exclusiveMaximum: n() + 1 }),
      () => ({ multipleOf: this.pick([1, 2, 0.5]) }),
      () => ({ minLength: n() }),
      () => ({ maxLength: n() }),
      () => ({ pattern: this.pick(["^a", "b$", "^a+b$", "a", "^[ab]{1,2}$"]) }),
      () => ({ minItems: n() }),
      () => ({ maxItems: n() }),
      () => ({ uniqueItems: true }),
      () => ({ required: [this.pick(["a", "b", "c"])] }),
      () => ({ minProperties: n() }),
      () => ({ maxProperties: n() }),
      () => ({ dependentRequired: { a: ["b"] } }),
    ]
  }

  private nested(depth: number): (() => object)[] {
    const s = () => this.schema(depth)
    return [
      () => ({ items: s() }),
      () => ({ prefixItems: [s(), s()] }),
      () => ({ contains: s() }),
      () => ({ contains: s(), minContains: 0, maxContains: 1 }),
      () => ({ contains: s(), minContains: 2 }),
      () => ({ properties: { a: s(), b: s() } }),
      () => ({ properties: { a: s() }, required: ["a"] }),
      () => ({ patternProperties: { "^a": s() } }),
      () => ({ additionalProperties: s() }),
      () => ({ propertyNames: s() }),
      () => ({ dependentSchemas: { a: s() } }),
      () => ({ allOf: [s(), s()] }),
      () => ({ anyOf: [s(), s()] }),
      () => ({ oneOf: [s(), s()] }),
      () => ({ not: s() }),
      () => Object.fromEntries(["if", "then", "else"].map((keyword) => [keyword, s()])),
      () => ({ if: s(), else: s() }),
    ]
  }
}
