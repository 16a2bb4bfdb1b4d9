// Values in Python's notation: which bytes are taken, that masks of whole tokens agree with bytes, and that whatever is written is
// what it stands for. JavaScript reads such literals as Python does once it is told what True, False and None are.

import { runInNewContext } from "node:vm"
import { Ajv2020 } from "ajv/dist/2020.js"
import { describe, expect, test } from "vitest"
import { uniform } from "../../test/random.ts"
import { compileSchema, Grammar, inPython, type Matcher, sequence, Vocabulary } from "./grammar.ts"
import { literal } from "./parts.ts"

const END = 256
const bytes = new Vocabulary(
  [...Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte)), new Uint8Array()],
  [END],
)

const grammarOf = (schema: unknown) =>
  new Grammar(inPython(compileSchema(schema as object).part), { spaced: true })

function accepts(grammar: Grammar, text: string): boolean {
  const matcher = grammar.matcher(bytes)
  for (const byte of Buffer.from(text)) if (!takes(matcher, byte)) return false
  return allowedBy(matcher).includes(END)
}

function takes(matcher: Matcher, token: number): boolean {
  if (!allowedBy(matcher).includes(token)) return false
  matcher.accept(token)
  return true
}

function allowedBy(matcher: Matcher, tokens = END + 1): number[] {
  const mask = new Uint32Array(Math.ceil(tokens / 32))
  matcher.mask(mask)
  return Array.from({ length: tokens }, (_, i) => i).filter(
    (i) => (mask[i >>> 5]! >>> (i & 31)) & 1,
  )
}

test.each([
  [{ type: "boolean" }, ["True", "False"], ["true", "false", "None", "Tru", "1"]],
  [{ type: "null" }, ["None"], ["null", "none", "True"]],
  [{ const: "a" }, ['"a"', "'a'"], ["a", "'a\"", "\"a'", '"b"', "'''a'''"]],
  [
    { type: "string", maxLength: 2 },
    [`'"'`, `"'"`, `'\\''`, `"\\""`, `'\\\\'`, `'\\n\\t'`, `'🙂é'`, `"\\u00e9"`, "''"],
    [
      `'''`,
      `"""`,
      `'\\"'`,
      `"\\'"`,
      `'\n'`,
      `'\\x41'`,
      `"\\ud83d\\ude42"`,
      `'\\/'`,
      `'abc'`,
      `'\\'`,
    ],
  ],
  [{ type: "integer", maximum: 12 }, ["7", "-3", "12"], ["13", "1_0", "+1", "07", "0x1"]],
  [
    { type: "array", items: { type: ["boolean", "string"] }, maxItems: 2 },
    ["[]", "[True]", "[True, 'a']", `["a",False]`],
    ["(True,)", "[true]", "[True,]", "[True, 'a', 'b']", "[True,  'a']"],
  ],
  [
    { type: "object", properties: { a: { type: "null" }, "é'": {} }, required: ["a"] },
    [`{"a": None}`, `{"a":None, "é'":[None]}`, `{"é'": 'x', "a": None}`],
    [`{'a': None}`, `{"a": null}`, `{}`, `{"a": None,}`, `{a: None}`],
  ],
  // Of texts that have to differ only one kind of quotes is taken, so that two are never one.
  [
    { type: "array", items: { type: "string", maxLength: 1 }, uniqueItems: true, maxItems: 2 },
    [`["a", "b"]`],
    [`["a", "a"]`, `['a', 'a']`, `["a", 'a']`],
  ],
])("%j", (schema, taken, refused) => {
  const grammar = grammarOf(schema)
  expect(taken.filter((text) => !accepts(grammar, text))).toEqual([])
  expect(refused.filter((text) => accepts(grammar, text))).toEqual([])
})

test("JSON beside it in one grammar stays JSON", () => {
  const { part } = compileSchema({ type: ["boolean", "string"] })
  const grammar = new Grammar(sequence(part, literal("="), inPython(part), literal("="), part))
  expect(accepts(grammar, `true=True=false`)).toBe(true)
  expect(accepts(grammar, `"a"='a'="b"`)).toBe(true)
  for (const wrong of ["True=True=true", "true=true=true", "true=True=True", `'a'="a"="b"`])
    expect(accepts(grammar, wrong)).toBe(false)
})

const schema = {
  type: "object",
  properties: {
    text: { type: "string", maxLength: 6 },
    pattern: { type: "string", pattern: "^[a-c'\"\\\\]{1,4}$" },
    choice: { enum: ["it's", 'so "so"', true, null, 1.5, ["x", false]] },
    list: {
      type: "array",
      items: { type: ["string", "null", "boolean"], maxLength: 2 },
      maxItems: 3,
    },
    tags: { type: "array", items: { enum: ["a", "b", "c"] }, uniqueItems: true, maxItems: 3 },
    number: { type: "number", minimum: -2, maximum: 2 },
  },
  required: ["text", "choice"],
  additionalProperties: false,
}

// Tokens that span quotes, words, escapes and what stands between values, as real vocabularies have them.
const LONG = [
  `", "`,
  `', '`,
  `': `,
  `": `,
  "True",
  "None",
  "Fal",
  "se",
  `\\"`,
  `\\'`,
  `\\\\`,
  `"]`,
  `']`,
  "['",
  `["`,
]
const MORE = [
  "it's",
  "so ",
  `\\u00`,
  "e9",
  "ab",
  "ü",
  "🙂",
  `'`.repeat(2),
  `"`.repeat(2),
  ", ",
  "]}",
  `'}`,
]

describe("random walks over tokens", () => {
  const texts = [...LONG, ...MORE].map((text) => Buffer.from(text))
  const size = END + 1 + texts.length
  const vocabulary = new Vocabulary(
    [...Array.from({ length: END }, (_, byte) => Uint8Array.of(byte)), new Uint8Array(), ...texts],
    [END],
  )
  const grammar = grammarOf(schema)
  const validate = new Ajv2020().compile(schema)

  test("end in literals that stand for values which validate; masks are what bytes say", () => {
    const random = uniform(5)
    for (let walk = 0; walk < 60; walk++) {
      const matcher = grammar.matcher(vocabulary)
      const written: Buffer[] = []
      for (let count = 0; count < 400; count++) {
        const allowed = allowedBy(matcher, size)
        expect(allowed).not.toEqual([])
        if (count % 7 === walk % 7) expectBytesToAgree(Buffer.concat(written), allowed)
        const closing = allowed.filter((token) => [0x22, 0x27, 0x5d, 0x7d, END].includes(token))
        const some = count > 60 && closing.length > 0 ? closing : allowed
        const token = some[Math.floor(random() * some.length)]!
        matcher.accept(token)
        if (token === END) break
        written.push(token < END ? Buffer.of(token) : texts[token - END - 1]!)
      }
      const text = Buffer.concat(written).toString()
      const value: unknown = runInNewContext(`(${text})`, { True: true, False: false, None: null })
      expect([text, validate(JSON.parse(JSON.stringify(value)))]).toEqual([text, true])
    }
  })

  /** Every long token is allowed exactly where its bytes are, one by one. */
  function expectBytesToAgree(before: Buffer, allowed: readonly number[]): void {
    const byBytes = texts.flatMap((text, i) => {
      const matcher = grammar.matcher(bytes)
      for (const byte of before) matcher.accept(byte)
      return [...text].every((byte) => takes(matcher, byte)) ? [END + 1 + i] : []
    })
    expect(allowed.filter((token) => token > END)).toEqual(byBytes)
  }
})
