// Texts between marks: masks of whole tokens are what bytes say, and whatever is written stands for a value that validates.

import { Ajv2020 } from "ajv/dist/2020.js"
import { expect, test } from "vitest"
import { uniform } from "../../test/random.ts"
import { compileSchema, Grammar, inNotation, type Matcher, Vocabulary } from "./grammar.ts"

const END = 256
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
const texts = [...LONG, ...MORE].map((text) => Buffer.from(text))
const size = END + 1 + texts.length
const single = Array.from({ length: END }, (_, byte) => Uint8Array.of(byte))
const bytes = new Vocabulary([...single, new Uint8Array()], [END])
const vocabulary = new Vocabulary([...single, new Uint8Array(), ...texts], [END])

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

function allowedBy(matcher: Matcher, tokens: number): number[] {
  const mask = new Uint32Array(Math.ceil(tokens / 32))
  matcher.mask(mask)
  return Array.from({ length: tokens }, (_, i) => i).filter(
    (i) => (mask[i >>> 5]! >>> (i & 31)) & 1,
  )
}

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
      if (count % 4 === walk % 4) expectBytesToAgree(written, allowed)
      const closing = allowed.filter((token) => '<|">]}'.includes(String.fromCharCode(token)))
      const some = count > 30 && closing.length > 0 ? closing : allowed
      const token = some[Math.floor(random() * some.length)]!
      matcher.accept(token)
      if (token === END) break
      written = Buffer.concat([written, token < END ? Buffer.of(token) : texts[token - END - 1]!])
    }
    if (!matcher.isComplete) continue
    finished++
    const text = written.toString()
    expect([text, validate(JSON.parse(jsonOf(text)))]).toEqual([text, true])
  }
  expect(finished).toBeGreaterThan(20)
})

/** Every long token is allowed exactly where its bytes are, one by one. */
function expectBytesToAgree(before: Buffer, allowed: readonly number[]): void {
  const matcher = grammar.matcher(bytes)
  matcher.acceptBytes(before)
  const taken = texts.flatMap((text, i) => {
    let count = 0
    while (count < text.length && allowedBy(matcher, END + 1).includes(text[count]!))
      matcher.accept(text[count++]!)
    matcher.rollback(count)
    return count === text.length ? [END + 1 + i] : []
  })
  expect(allowed.filter((token) => token > END)).toEqual(taken)
}
