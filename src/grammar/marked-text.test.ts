// Texts between marks: masks of whole tokens are what bytes say, and whatever is written stands for a value that validates.

import { Ajv2020 } from "ajv/dist/2020.js"
import { expect, test } from "vitest"
import { allowedBy, END, longTokens } from "../../test/long-tokens.ts"
import { uniform } from "../../test/random.ts"
import { compileSchema, Grammar, inNotation } from "./grammar.ts"

const LONG = [
  '<|"|>',
  '<|"|>,',
  ':<|"|>',
  '[<|"|>',
  '<|"|>]',
  '<|"|>}',
  '<|"',
  '|"|>',
  '<|"|><|"|>',
]
const MORE = [
  "na",
  "name",
  "name:",
  "None",
  "No",
  "null",
  '"a"',
  '"',
  '",',
  "on",
  "é",
  "{on:",
  ",b:",
]
const { size, vocabulary, textOf, expectBytesToAgree } = longTokens([...LONG, ...MORE])

const schema = {
  type: "object",
  properties: {
    name: { type: "string", maxLength: 5 },
    on: { enum: ["on", "off", "", null, true] },
    b: { type: "array", items: { type: ["string", "null"], pattern: "^[^c]*$" }, maxItems: 3 },
    tags: { type: "array", items: { enum: ["a", "b"] }, uniqueItems: true, maxItems: 2 },
  },
  required: ["name"],
  additionalProperties: false,
}
const grammar = new Grammar(inNotation("marked", compileSchema(schema).part), { spaced: true })
const validate = new Ajv2020({ strict: false }).compile(schema)

/** The same as JSON. */
function jsonOf(written: string): string {
  const inQuotes = written.split(/(<\|"\|>[\s\S]*?<\|"\|>|"(?:[^"\\]|\\.)*")/).map((piece) => {
    if (piece.startsWith("<")) return JSON.stringify(piece.slice(5, -5))
    if (piece.startsWith('"')) return piece
    return piece.replaceAll("None", "null").replace(/(name|on|b|tags):/g, '"$1":')
  })
  return inQuotes.join("")
}

test("random walks over tokens", () => {
  const random = uniform(5)
  let finished = 0
  for (let walk = 0; walk < 40; walk++) {
    const matcher = grammar.matcher(vocabulary)
    let written = Buffer.alloc(0)
    for (let count = 0; count < 300; count++) {
      const allowed = allowedBy(matcher, size)
      expect(allowed).not.toEqual([])
      if (count % 4 === walk % 4) expectBytesToAgree(grammar, written, allowed)
      const closing = allowed.filter((token) => '<|">]}'.includes(String.fromCharCode(token)))
      const some = count > 30 && closing.length > 0 ? closing : allowed
      const token = some[Math.floor(random() * some.length)]!
      matcher.accept(token)
      if (token === END) break
      written = Buffer.concat([written, textOf(token)])
    }
    if (!matcher.isComplete) continue
    finished++
    const text = written.toString()
    expect([text, validate(JSON.parse(jsonOf(text)))]).toEqual([text, true])
  }
  expect(finished).toBeGreaterThan(20)
})
