// Members one by one: masks of whole tokens are what bytes say, and whatever is written is an object that validates.

import { Ajv2020 } from "ajv/dist/2020.js"
import { expect, test } from "vitest"
import { allowedBy, END, longTokens } from "../../test/long-tokens.ts"
import { uniform } from "../../test/random.ts"
import { compileSchema, Grammar, literal, members, sequence } from "./grammar.ts"

const LONG = [
  "ab",
  "x-",
  "xy=",
  "a=1",
  "=",
  "=12",
  "1;",
  ";a",
  ";b=",
  "é",
  "é=3",
  "b=1;x",
  "z=",
  "aa",
]
const MORE = ["c=true", "=fal", "se;", "1;a=2;b", "ab=1.", ";;", "=;", "\u{1f642}=0", "q;"]
const { size, vocabulary, tokenOf, textOf, expectBytesToAgree } = longTokens([...LONG, ...MORE])

function grammarOf(schema: object): Grammar {
  const { part } = compileSchema(schema, { names: "[^=;\\s]+", portable: true })
  const form = {
    before: "",
    between: ";",
    nameEnd: "=",
    kindOf: () => "",
    value: (_: string, json: typeof part) => sequence(literal("="), json),
  }
  return new Grammar(sequence(members(part, form), literal("\n")))
}

const VALUES = Buffer.from("1true3")

const value = { type: ["boolean", "integer"], minimum: 0, maximum: 99 }

test.each([
  { additionalProperties: value },
  { additionalProperties: value, minProperties: 2, maxProperties: 3 },
  { properties: { a: value, ab: value }, required: ["ab"], additionalProperties: false },
  { properties: { a: value, xy: value }, required: ["xy"], additionalProperties: { const: true } },
  {
    properties: { a: value },
    patternProperties: { "^x": value, é: { const: 3 } },
    additionalProperties: false,
    minProperties: 1,
  },
  { propertyNames: { enum: ["a", "b", "é"] }, additionalProperties: value, minProperties: 2 },
  {
    anyOf: [
      { properties: { a: value }, required: ["a"], additionalProperties: false },
      { properties: { b: value, a: { const: true } }, additionalProperties: false },
    ],
  },
])("%j", (rest) => {
  const schema = { type: "object", ...rest }
  const grammar = grammarOf(schema)
  const validate = new Ajv2020({ strict: false }).compile(schema)
  const random = uniform(3)
  let finished = 0
  for (let walk = 0; walk < 8; walk++) {
    const matcher = grammar.matcher(vocabulary)
    let written = Buffer.alloc(0)
    for (let count = 0; ; count++) {
      const allowed = allowedBy(matcher, size)
      expect(allowed).not.toEqual([])
      if (count % 4 === walk % 4) expectBytesToAgree(grammar, written, allowed)
      // After a while what ends all, a name, or a value comes first.
      const wanted = count < 12 ? [] : [END, 0x0a, tokenOf("xy="), 0x3d, tokenOf("é"), ...VALUES]
      const near = wanted.filter((one) => allowed.includes(one))
      const token = near[0] ?? allowed[Math.floor(random() * allowed.length)]!
      matcher.accept(token)
      if (token === END || count > 100) break
      written = Buffer.concat([written, textOf(token)])
    }
    if (!matcher.isComplete) continue
    finished++
    const parts = written.toString().slice(0, -1).split(";")
    const pairs = parts.filter((part) => part !== "").map((part) => part.split("="))
    expect(new Set(pairs.map(([name]) => name)).size).toBe(pairs.length)
    const object = Object.fromEntries(pairs.map(([name, json]) => [name, JSON.parse(json!)]))
    expect([written.toString(), validate(object)]).toEqual([written.toString(), true])
  }
  expect(finished).toBeGreaterThan(5)
})
