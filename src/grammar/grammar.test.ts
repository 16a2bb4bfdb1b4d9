// The engine from its front door: the official suite, schemas that are refused and why, masks against plain acceptance, and
// the parts that tool-call formats are made of.

import { readdirSync, readFileSync } from "node:fs"
import { Ajv2020 } from "ajv/dist/2020.js"
import { describe, expect, test } from "vitest"
import { processorTime } from "../../test/processor-time.ts"
import {
  choice,
  compileJson,
  compileSchema,
  Grammar,
  list,
  literal,
  type Matcher,
  SchemaRefusal,
  sequence,
  text,
  Vocabulary,
} from "./grammar.ts"
import { canonical, parseJson } from "./json.ts"

const pieces = [
  '":"',
  '","',
  '":',
  '{"',
  '"}',
  "foo",
  "bar",
  "12",
  "true",
  "null",
  "},{",
  "é",
  "\\u00",
  ' "',
]
const end = 256 + pieces.length
const vocabulary = new Vocabulary(
  [
    ...Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte)),
    ...pieces.map((piece) => new Uint8Array(Buffer.from(piece))),
    new Uint8Array(),
  ],
  [end],
)

const suite = new URL("../../test/golden/json-schema/", import.meta.url)

describe.each(["draft2020-12", "draft7", "format"])("the official suite, %s", (folder) => {
  const dialect = folder === "draft7" ? "draft-07" : "2020-12"
  test.each(readdirSync(new URL(folder, suite)))("%s", (file) => {
    for (const group of JSON.parse(readFileSync(new URL(`${folder}/${file}`, suite), "utf8"))) {
      let grammar: Grammar | undefined
      try {
        const { part } = compileSchema(group.schema, { dialect, formats: folder === "format" })
        grammar = new Grammar(part)
      } catch (error) {
        if (!(error instanceof SchemaRefusal)) throw error
        expect(error.message, group.description).toMatch(/no value satisfies|from outside/)
        if (error.message.includes("from outside")) continue
      }
      for (const { description, data, valid } of group.tests) {
        const taken = grammar !== undefined && accepts(grammar, JSON.stringify(data))
        // Encoded names, whose decoding is not regular, are the one thing that is left out.
        if (/xn--|\\u/.test(JSON.stringify(data)) && !taken) continue
        expect(taken, `${group.description}: ${description}`).toBe(valid)
      }
    }
  })
})

test("exact numbers: bounds and constants beyond 2^53 are read from the text", () => {
  const grammar = grammarOf('{"const": 9007199254740993}')
  expect(accepts(grammar, "9007199254740993")).toBe(true)
  expect(accepts(grammar, "9007199254740992")).toBe(false)
  expect(canonical(parseJson("1.50e1"))).toBe("15")
})

test.each([
  [{ type: "integer" }, ["0", "-7", "12"], ["9.0", "1e2", "0.0"]],
  [{ type: ["integer", "null"], minimum: 3, maximum: 40 }, ["9", "40"], ["9.0", "4e1"]],
  [{ enum: [1, 2.5] }, ["2.5"], []],
  [{ const: 10 }, ["10"], ["10.0"]],
  [{ type: "number", multipleOf: 5 }, ["15"], ["15.0", "5e0"]],
  [{ type: "number" }, ["9", "9.0", "9e2"], []],
  [{ type: "integer", format: "int32" }, ["2147483647", "-2147483648"], ["2147483647.0"]],
])("integers that have to be plain, by %j", (schema, taken, refused) => {
  const grammar = new Grammar(compileSchema(schema, { portable: true }).part)
  for (const text of taken) expect([text, accepts(grammar, text)]).toEqual([text, true])
  for (const text of refused) {
    expect([text, accepts(grammar, text)]).toEqual([text, false])
    const spelledAnyhow = accepts(grammarOf(JSON.stringify(schema)), text)
    expect([text, spelledAnyhow]).toEqual([text, true])
  }
})

test("OpenAPI's formats of numbers hold them to integers that fit, whatever the type says", () => {
  for (const type of ["integer", "number"]) {
    const int32 = grammarOf(JSON.stringify({ type, format: "int32" }))
    for (const text of ["0", "-2147483648", "2147483647"]) expect(accepts(int32, text)).toBe(true)
    for (const text of ["2147483648", "-2147483649", "0.5"])
      expect(accepts(int32, text)).toBe(false)
    const int64 = grammarOf(JSON.stringify({ type, format: "int64", minimum: 5 }))
    expect(accepts(int64, "9223372036854775807")).toBe(true)
    for (const text of ["9223372036854775808", "4"]) expect(accepts(int64, text)).toBe(false)
  }
})

const upTo = (count: number) => Array.from({ length: count }, (_, i) => i)

// What each mask asks of every item still to come would take days.
test.each([
  ["integers", { type: "integer" }, "[7,77"],
  ["of any kind", {}, '["a",1'],
  ["just enough", { type: "integer", minimum: 1, maximum: 1e6 }, "[7,77"],
])("a million different items, %s", (_, items, text) => {
  const schema = { type: "array", uniqueItems: true, minItems: 1e6, items }
  const isFew = "maximum" in items
  if (isFew) {
    expect(() => compileSchema(schema)).toThrow(/more than 256 items have to differ/)
    return
  }
  const matcher = grammarOf(JSON.stringify(schema)).matcher(vocabulary)
  const mask = new Uint32Array(vocabulary.words)
  for (const byte of Buffer.from(text)) {
    matcher.mask(mask)
    expect(matcher.acceptBytes(Uint8Array.of(byte))).toBe(true)
  }
  expect(matcher.acceptBytes(Buffer.from("]"))).toBe(false)
})

test("the last of few different items is left for the last place", () => {
  const schema = { type: "array", uniqueItems: true, minItems: 251, items: { enum: upTo(251) } }
  const grammar = grammarOf(JSON.stringify(schema))
  const all = upTo(251)
  expect(accepts(grammar, JSON.stringify(all))).toBe(true)
  expect(accepts(grammar, JSON.stringify(all.toReversed()))).toBe(true)
  expect(accepts(grammar, JSON.stringify([...all.slice(0, 250), 0]))).toBe(false)
  expect(accepts(grammar, JSON.stringify(all.slice(0, 250)))).toBe(false)
})

test.each([
  ['{"not": {}}', "", "", /no value/],
  ['{"type": "strin"}', "", "type", /names no type/],
  ['{"properties": {"a": {"pattern": "(a)\\\\1"}}}', "/properties/a", "pattern", /back reference/],
  ['{"items": {"$ref": "other.json"}}', "/items", "$ref", /outside/],
  ['{"$ref": "#"}', "", "$ref", /refers back/],
  ['{"not": {"uniqueItems": true}}', "/not", "uniqueItems", /two equal items/],
  [
    '{"type": "array", "items": {"enum": [1, 2]}, "uniqueItems": true, "minItems": 3}',
    "",
    "",
    /no value/,
  ],
  ['{"minLength": 2', "", "", /no JSON|not closed/],
  [
    JSON.stringify({ type: "array", items: { enum: upTo(257) }, uniqueItems: true, minItems: 257 }),
    "",
    "uniqueItems",
    /more than 256 items have to differ/,
  ],
  [
    JSON.stringify({
      type: "array",
      prefixItems: upTo(20).map((n) => ({ enum: [...upTo(20), `${n}`] })),
      items: { enum: upTo(40) },
      uniqueItems: true,
      minItems: 40,
    }),
    "",
    "uniqueItems",
    /more than 32 items have to differ/,
  ],
])("refused with its place: %.80s", (schema, pointer, keyword, reason) => {
  try {
    compileSchema(schema)
    expect.unreachable("it was compiled")
  } catch (error) {
    if (!(error instanceof SchemaRefusal)) throw error
    expect(error.fault.reason).toMatch(reason)
    expect([error.fault.pointer, error.fault.keyword]).toEqual([pointer, keyword])
  }
})

// What does not satisfy each keyword, at the edge of it, judged by ajv.
const EDGES: unknown[] = [
  null,
  true,
  0,
  1,
  2,
  3,
  4,
  5,
  6,
  2.5,
  -1,
  "",
  "a",
  "ab",
  "abc",
  "abcd",
  "b",
  "ba",
  [],
  [1],
  [1, 2],
  [1, 2, 3],
  [1, 2, 3, 4],
  ["a"],
  ["a", 1],
  [1, "a"],
  [1, 1],
  [[1]],
  {},
  { a: 1 },
  { a: "a" },
  { b: 1 },
  { a: 1, b: 2 },
  { a: "a", b: 1 },
  { a: 1, b: 2, c: 3 },
  { c: 3 },
  { ab: 1 },
]
test.each([
  { minimum: 3 },
  { maximum: 3 },
  { exclusiveMinimum: 3 },
  { exclusiveMaximum: 3 },
  { multipleOf: 2 },
  { minLength: 2 },
  { maxLength: 2 },
  { pattern: "^ab" },
  { minItems: 2 },
  { maxItems: 2 },
  { minItems: 1, maxItems: 3 },
  { items: { type: "integer" } },
  { prefixItems: [{ type: "integer" }, { type: "string" }] },
  { prefixItems: [true], items: false },
  { contains: { type: "integer" } },
  { contains: { type: "integer" }, minContains: 2 },
  { contains: { type: "integer" }, minContains: 0, maxContains: 1 },
  { minProperties: 2 },
  { maxProperties: 2 },
  { minProperties: 1, maxProperties: 2 },
  { required: ["a", "b"] },
  { properties: { a: { type: "integer" }, b: { type: "integer" } } },
  { patternProperties: { "^a": { type: "integer" } } },
  { properties: { a: true }, additionalProperties: false },
  { propertyNames: { maxLength: 1 } },
  { dependentRequired: { a: ["b"] } },
  { dependentSchemas: { a: { required: ["b"] } } },
  { enum: [1, "a", [1, 2], { a: 1 }] },
  { const: [1] },
  { type: ["integer", "array"] },
  { allOf: [{ minimum: 2 }, { maxItems: 1 }] },
  { anyOf: [{ type: "integer" }, { maxItems: 1 }] },
  { oneOf: [{ type: "integer" }, { minimum: 2 }] },
  { not: { maxItems: 2 } },
  JSON.parse('{"if":{"type":"integer"},"then":{"minimum":2},"else":{"maxItems":1}}'),
])("the opposite of %j", (schema) => {
  const validate = new Ajv2020({ strict: false }).compile(schema)
  const opposite = grammarOf(JSON.stringify({ not: schema }))
  const twice = grammarOf(JSON.stringify({ not: { not: schema } }))
  for (const value of EDGES) {
    const text = JSON.stringify(value)
    const isValid = validate(value)
    expect([text, accepts(opposite, text)]).toEqual([text, !isValid])
    expect([text, accepts(twice, text)]).toEqual([text, isValid])
  }
})

// Texts are UTF-8 (RFC 8259, 8.1), which has no half of a pair.
test.each([
  { required: ["\ud83d"] },
  { properties: { "\ud83d": true }, additionalProperties: false, minProperties: 1 },
  { const: { "\ud83d": 1 } },
  { required: ["a"], dependentRequired: { a: ["\ud83d"] } },
])("half a surrogate pair is nobody's name: %j", (schema) => {
  const object = { type: "object", ...schema }
  expect(() => compileSchema(object)).toThrow("no value satisfies this schema")
  expect(accepts(grammarOf(JSON.stringify({ anyOf: [object, { const: "a" }] })), '"a"')).toBe(true)
  const optional = grammarOf('{"properties":{"\\ud83d":{"type":"string"},"b":true}}')
  expect(accepts(optional, '{"b":1,"🙂":1}')).toBe(true)
  expect(accepts(optional, '{"\\ud83d":"a"}')).toBe(false)
})

test("leniently, what cannot be enforced is left out and listed", () => {
  const schema = { properties: { a: { type: "string", pattern: "(.)\\1" } }, required: ["a"] }
  const { part, unenforced } = compileSchema(schema, { lenient: true })
  expect(unenforced).toEqual([
    { pointer: "/properties/a", keyword: "pattern", reason: "a back reference" },
  ])
  expect(accepts(new Grammar(part), '{"a":"xy"}')).toBe(true)
  expect(accepts(new Grammar(part), '{"a":1}')).toBe(false)
})

test.each([
  // Each looks around where it costs something: in repetitions, before anchors, behind, inside one another.
  "^((?![:*])[a:*-]){1,3}$",
  "^(?!^-+$)[a-]+$",
  "(?=^.{2,3}$)[a-]+",
  "^[a:-]+(?<!-a)$",
  "(?<=^|:)a(?=-|$)",
  "^(?:(?<!-)-|a|:(?!:))+$",
  "(?!(?=a-)a-:)\\b[a-]+$",
  "^[\\w-.]+$",
])("looks around as JavaScript does: %s", (pattern) => {
  const grammar = grammarOf(JSON.stringify({ type: "string", pattern }))
  const regex = new RegExp(pattern.replace("w-.", "w.-"), "u")
  const texts = [""]
  for (const text of texts) {
    expect([text, accepts(grammar, JSON.stringify(text))]).toEqual([text, regex.test(text)])
    if (text.length < 4) texts.push(...Array.from("a-:", (c) => text + c))
  }
})

test.each([
  ["^[a-z]{,5}$", /\{,5\}, which lacks its least \(write \{0,5\}\)/],
  ["^a{,}$", /lacks its least/],
  ["a{2}{3}", /nothing to repeat before \{/],
  ["{2}", /nothing to repeat before \{/],
  ["^[[:alpha:]]+$", /\[:alpha:\], which ECMA-262 does not know/],
  ["^[^[:space:][:^digit:]]$", /\[:space:\], which ECMA-262 does not know/],
  ["\\[[^]]+\\]", /a \] behind \[\] or \[\^\]/],
  ["[]a]", /a \] behind \[\] or \[\^\]/],
  ["\\u{1g}", /a malformed \\u\{…\}/],
])("what JavaScript refuses and others read otherwise is no text: %s", (pattern, reason) => {
  expect(() => new RegExp(pattern, "u")).toThrow(SyntaxError)
  expect(() => compileSchema({ type: "string", pattern })).toThrow(reason)
})

test.each([
  ["^{{[a-z]+}}$", ["{{a}}"], ["{a}", "{{}}"]],
  ["^a{b}{}{1,x}$", ["a{b}{}{1,x}"], ["ab"]],
  ["^[[:]]$", ["[]", ":]"], ["["]],
  ["^\\[.*]$", ["[a]", "[]"], ["[a"]],
  ["^[^]$", ["]", "\n"], ["", "ab"]],
])(
  "braces and brackets that stand alone are characters, as to Python and JavaScript without u: %s",
  (pattern, taken, refused) => {
    const grammar = grammarOf(JSON.stringify({ type: "string", pattern }))
    for (const text of [...taken, ...refused]) {
      expect([text, new RegExp(pattern).test(text)]).toEqual([text, taken.includes(text)])
      expect([text, accepts(grammar, JSON.stringify(text))]).toEqual([text, taken.includes(text)])
    }
  },
)

test.each([
  ["^[a-c]{2,20}$", {}, ["ab", "c".repeat(20)], ["a", "ad", "c".repeat(21)]],
  ["^(?:[a-c]){3,}$", { minLength: 17 }, ["a".repeat(17)], ["a".repeat(16), "d".repeat(17)]],
  ["^.{1,65535}$", { maxLength: 3 }, ["a", "😀😀😀"], ["", "abcd", "a\nb"]],
  ["[a-c]{2,2048}", {}, ["ab", "xxabxx", "b".repeat(3000)], ["a", "axb"]],
  ["^a|b{1,300}c{2,300}$", {}, ["ax", "xbcc"], ["xb", "bc", "ccb"]],
])("repetitions are counted, not written out: %s", (pattern, more, taken, refused) => {
  const plain = grammarOf(JSON.stringify({ type: "string", pattern, ...more }))
  const not = grammarOf(JSON.stringify({ type: "string", not: { pattern, ...more } }))
  const told = (text: string) => [plain, not].map((each) => accepts(each, JSON.stringify(text)))
  for (const text of taken) expect([text, told(text)]).toEqual([text, [true, false]])
  for (const text of refused) expect([text, told(text)]).toEqual([text, [false, true]])
})

// zod 4.6's z.hostname(): what JavaScript's own RegExp says of each text.
const hostname =
  "^(?=.{1,253}\\.?$)[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\\.[a-zA-Z0-9](?:[-0-9a-zA-Z]{0,61}[0-9a-zA-Z])?)*\\.?$"

test.each([
  [hostname, {}],
  [hostname, { maxLength: 40 }],
  [hostname, { allOf: [{ pattern: "b" }] }],
  ["^(?=[^]{3,20}$)(?!.*[._]{2})[a-z._-]", {}],
  ["^(?=.{2,16}-?$)[^]*b", {}],
  ["^(?=.{0,16}\n?$)[^]*$", {}],
])("a look ahead at the length is counted: %s and %j", (pattern, more) => {
  const schema = { type: "string", pattern, ...more }
  const plain = grammarOf(JSON.stringify(schema))
  const not = grammarOf(JSON.stringify({ type: "string", not: schema }))
  const validate = new Ajv2020().compile(schema)
  const label = "ab-".repeat(20) // 60 characters
  const long = [0, 1, 2, 3].map((i) => `${`${label}a.`.repeat(4)}bcdefgh`.slice(0, 252 + i))
  const short = [1, 2, 3, 4, 16, 17, 18, 20, 21, 40, 41, 63, 64].map((n) => "b".repeat(n))
  const texts = ["", "a", "a.b", "a..b", "a\nb", "b\n", "-", "é", label, ...short, ...long]
  for (const text of texts.flatMap((each) => [each, `${each}.`, `${each}-`, `${each}\n`])) {
    const told = [plain, not].map((each) => accepts(each, JSON.stringify(text)))
    expect([text, told]).toEqual([text, [validate(text), !validate(text)]])
  }
})

describe("branches that overlap", () => {
  test("in lists without repetitions need no repetition to be told apart", () => {
    const paths = { type: "array", items: { type: "string" }, uniqueItems: true }
    const oneOf = ["one", "many"].map((name) => ({
      properties: { [name]: paths },
      required: [name],
      type: "object",
    }))
    const grammar = grammarOf(JSON.stringify({ oneOf }))
    expect(accepts(grammar, '{"one":["a","b"]}')).toBe(true)
    expect(accepts(grammar, '{"one":[],"many":[]}')).toBe(false)
  })

  test("behind conditions on one member are told apart by it, however many, and where it is missing", () => {
    const kinds = Array.from({ length: 20 }, (_, i) => `k${i}`)
    const allOf = kinds.map((kind, i) => ({
      if: { properties: { kind: { const: kind } }, required: ["kind"] },
      // biome-ignore lint/suspicious/noThenProperty: JSON Schema's keyword
      then: { required: [`p${i}`] },
    }))
    const members = {
      properties: { kind: { enum: kinds } },
      additionalProperties: { type: "null" },
    }
    for (const required of [[], ["kind"]]) {
      const schema = { type: "object", ...members, required, allOf }
      const grammar = grammarOf(JSON.stringify(schema))
      const validate = new Ajv2020().compile(schema)
      const own = kinds.map((kind, i) => ({ kind, [`p${i}`]: null }))
      const others = kinds.map((kind, i) => ({ [`p${(i * 7) % 20}`]: null, kind }))
      for (const instance of [...own, ...others, {}, { p3: null }, { kind: "k3" }]) {
        expect(accepts(grammar, JSON.stringify(instance))).toBe(validate(instance))
      }
    }
  })

  test("in more ways than can be kept apart are held to some of them", () => {
    const names = ["a", "b", "c", "d", "e", "f", "g", "h"]
    const types = ["string", "integer", "boolean"]
    const oneOf = names.map((name, i) => {
      const typed = names.map((own, j) => [own, { type: types[(i * j + i) % 3] }])
      return { type: "object", properties: Object.fromEntries(typed), required: [name] }
    })
    const schema = { oneOf }
    const grammar = grammarOf(JSON.stringify(schema))
    const validate = new Ajv2020().compile(schema)
    for (const name of names) {
      for (const value of ["x", 1, true]) {
        const instance = { [name]: value }
        expect(accepts(grammar, JSON.stringify(instance))).toBe(validate(instance))
      }
    }
    expect(accepts(grammar, '{"a":"x","d":"x"}')).toBe(false)
  })
})

test.each([
  ["{}", '{"a":[1,{"b":"\\u0041é\\n"}],"c":-1.5e3}'],
  ['{"type":"string","minLength":3,"maxLength":6}', '"foo\\u0041é"'],
  ['{"type":"string","pattern":"^[a-f]+r$"}', '"bar"'],
  ['{"properties":{"foo":{"type":"integer"},"bar":true},"minProperties":2}', '{"foo":12,"x":null}'],
  ['{"patternProperties":{"^f":{"type":"null"}},"additionalProperties":false}', '{"foo":null}'],
  ['{"enum":["foo","bar",12,null,{"foo":[true]}]}', '{"foo":[true]}'],
  ['{"items":{"type":"number","exclusiveMinimum":-1,"multipleOf":0.5}}', "[12.5,0,-0.5]"],
])("the mask is exactly what is accepted, at every byte: %s on %s", (schema, value) => {
  const matcher = grammarOf(schema).matcher(vocabulary)
  const mask = new Uint32Array(vocabulary.words)
  for (const byte of Buffer.from(value)) {
    matcher.mask(mask)
    expect(listed(mask)).toEqual(takenOf(matcher))
    expect(matcher.accept(byte)).toBe(true)
  }
  matcher.mask(mask)
  expect(listed(mask)).toEqual(takenOf(matcher))
  expect(matcher.accept(end)).toBe(true)
  expect(matcher.isComplete).toBe(true)
  matcher.rollback(Buffer.byteLength(value) + 1)
  expect(accepts(grammarOf(schema), value)).toBe(true)
})

test.each([
  ['{"not":{"type":"integer"}}', "1234567890123456789.5", false],
  ['{"not":{"type":"integer"}}', "123456789012.5", true],
  ['{"not":{"const":1e25}}', "10000000000000000000000001", false],
  ['{"not":{"multipleOf":2}}', "9007199254740991", true],
  ['{"not":{"multipleOf":2}}', "18014398509481985", false],
  ['{"multipleOf":2}', "123456789012345678902", true],
  ['{"multipleOf":2}', "12345678901234567890122", false],
  ['{"minimum":-1,"exclusiveMaximum":1}', "0e45", true],
  ['{"minimum":-1,"exclusiveMaximum":1}', "5E+1", false],
  ['{"minimum":-9,"exclusiveMaximum":1}', "-5E-1", true],
])("a number is what readers make of it, who keep doubles: %s, %s: %s", (schema, text, fits) => {
  expect(accepts(grammarOf(schema), text)).toBe(fits)
})

test.each([
  ["[\\ufeff\\u2028]", '"\\ud', false], // one lies before the surrogates, one behind
  ["[\\ufeff\\u2028]", '"\\uf', true],
  ["\\ud7ff", '"\\ud', true],
  ["\\ud7ff", '"\\ud8', false],
  ["\\u{1f642}", '"\\ud8', true],
])(
  "an escape lives while a character of the pattern can come of it: %s, %s: %s",
  (set, text, fits) => {
    const schema = JSON.stringify({ type: "string", pattern: `^${set}$` })
    expect(grammarOf(schema).matcher(vocabulary).acceptBytes(Buffer.from(text))).toBe(fits)
  },
)

test("nothing but the value: no blanks, no repeated names, no half characters", () => {
  const grammar = new Grammar(compileJson().part)
  for (const text of [
    '{"a":1,"a":2}',
    '{"a": 1}',
    ' {"a":1}',
    '{"a":"\\ud800"}',
    '{"a":01}',
    "[1]",
  ]) {
    expect(accepts(grammar, text), text).toBe(false)
  }
  const spaced = new Grammar(compileJson().part, { spaced: true })
  expect(accepts(spaced, '{"a": 1, "b": [1, 2]}')).toBe(true)
  expect(accepts(spaced, '{"a":  1}')).toBe(false)
})

test("text that can only go one way is known at once", () => {
  const schema =
    '{"properties":{"location":{"type":"string"}},"required":["location"],"additionalProperties":false,"type":"object"}'
  const matcher = grammarOf(schema).matcher(vocabulary)
  expect(Buffer.from(matcher.forced()).toString()).toBe('{"location":"')
})

test("long bounds, many words and many members compile in no time", () => {
  const properties = Object.fromEntries(
    Array.from({ length: 200 }, (_, i) => [`p${i}`, { type: "integer" }]),
  )
  const schemas = [
    { enum: Array.from({ length: 1000 }, (_, i) => `word number ${i}`) },
    { type: "string", minLength: 50_000, maxLength: 100_000 },
    { type: "object", properties, required: Object.keys(properties), additionalProperties: false },
  ]
  const start = processorTime()
  for (const schema of schemas) compileSchema(schema)
  expect(processorTime() - start).toBeLessThan(5000)
})

test("a reply with tool calls: free text until a trigger, then one of the tools, then text again", () => {
  const city = compileSchema({ properties: { city: { type: "string" } }, required: ["city"] }).part
  const call = (name: string) =>
    sequence(literal(`{"name":"${name}","arguments":`), city, literal("}"))
  const calls = choice(call("weather"), call("time"))
  const then = sequence(calls, literal("</tool_call>"))
  const grammar = new Grammar(text([{ open: "<tool_call>", then }], true))
  const good =
    'Let me <look>.<tool_call>{"name":"time","arguments":{"city":"Rome"}}</tool_call> Done.'
  expect(accepts(grammar, good)).toBe(true)
  expect(accepts(grammar, good.replace("time", "date"))).toBe(false)
  expect(accepts(grammar, good.replace("city", "town"))).toBe(false)
  expect(accepts(grammar, good.slice(0, 40))).toBe(false) // it may not stop inside a call
  const several = new Grammar(
    sequence(literal("["), list(calls, literal(", "), 1, 2), literal("]")),
  )
  const one = '{"name":"time","arguments":{"city":"Rome"}}'
  expect(accepts(several, `[${one}, ${one}]`)).toBe(true)
  expect(accepts(several, `[${one}, ${one}, ${one}]`)).toBe(false)
})

test("lists that may not repeat, of items that may not repeat either, have no dead end", () => {
  const pair = '{"type":"array","uniqueItems":true,"items":{"type":"boolean"},"minItems":2}'
  const matcher = grammarOf(`{"items":${pair},"uniqueItems":true,"minItems":2}`).matcher(vocabulary)
  expect(matcher.acceptBytes(Buffer.from("[[false,true],["))).toBe(true)
  expect(matcher.acceptBytes(Buffer.from("f"))).toBe(false) // it could only become the same again
  expect(matcher.acceptBytes(Buffer.from("true,false]]"))).toBe(true)
})

// Truth by trying: what can be finished is what begins one of all lists there are.
test.each([
  "[[1, 2], [1, 2, 3], [1]]",
  "[[1, 2], [2, 3], [1, 2]]",
  "[[1, 2, 3], [1, 2], [1, 2]]",
  '[["a", "b", "c"], ["a", "b", "c"], ["b", "c"], ["c", "d"]]',
  "[[[1], [2]], [[1], [2], 3], [[1]]]",
])("an item leaves those that follow what they need: %s", (listed) => {
  const places = JSON.parse(listed) as unknown[][]
  const prefixItems = places.map((values) => ({ enum: values }))
  const count = places.length
  const schema = { type: "array", prefixItems, minItems: count, maxItems: count, uniqueItems: true }
  const grammar = grammarOf(JSON.stringify(schema))
  const texts = places.map((values) => values.map((value) => JSON.stringify(value)))
  const lists = texts.reduce<string[][]>(
    (all, values) => all.flatMap((list) => values.map((value) => [...list, value])),
    [[]],
  )
  const valid = lists.filter((list) => new Set(list).size === count)
  expect(valid.length).toBeLessThan(lists.length)
  const begins = (list: readonly string[]) =>
    valid.some((whole) => list.every((text, at) => whole[at] === text))
  for (const list of lists) {
    for (let length = 1; length <= count; length++) {
      const begun = list.slice(0, length)
      const text = `[${begun.join()}${length === count ? "]" : ""}`
      expect([text, grammar.matcher(vocabulary).acceptBytes(Buffer.from(text))]).toEqual([
        text,
        begins(begun),
      ])
    }
  }
})

test("a name is the same however it is spelled: none comes twice, and none slips past its schema", () => {
  const grammar = grammarOf('{"properties":{"a":{"const":1},"a\\n":{"const":2},"é/":{"const":3}}}')
  expect(accepts(grammar, String.raw`{"a":1,"a\n":2,"é/":3,"b":0}`)).toBe(true)
  for (const text of [
    String.raw`{"\u0061":0}`,
    String.raw`{"a":1,"\u0061":1}`,
    String.raw`{"a\n":2,"a\u000a":2}`,
    String.raw`{"a\u000A":0}`,
    String.raw`{"\u00e9\/":0}`,
    String.raw`{"é/":3,"é\u002f":3}`,
    String.raw`{"b":0,"\u0062":0}`,
    String.raw`{"é\n":0,"\u00E9\n":0}`,
  ]) {
    expect(accepts(grammar, text), text).toBe(false)
  }
  expect(accepts(grammar, String.raw`{"\u00e9\/":3}`)).toBe(true)
})

test("half a character of a name lives only while a new name comes of it", () => {
  const names = ["a", "é", "ê!", "\u{1f642}"]
  const matcher = grammarOf(
    JSON.stringify({ propertyNames: { enum: names }, minProperties: 4, type: "object" }),
  ).matcher(vocabulary)
  const goesOn = (text: string, ...bytes: number[]) =>
    [...Buffer.from(text), ...bytes].every((byte) => matcher.accept(byte))
  expect(goesOn('{"é":1,"', 0xc3, 0xaa)).toBe(true)
  matcher.rollback(2)
  expect(goesOn('ê!":1,"')).toBe(true)
  expect(matcher.accept(0xc3)).toBe(false)
  expect(goesOn("", 0xf0, 0x9f)).toBe(true)
})

test("items that may not repeat may be written with escapes after escapes", () => {
  const grammar = grammarOf('{"items":{"type":"string"},"uniqueItems":true}')
  const slashes = String.raw`["a","\\\\","\\\n","\\\u0061","\u0061\u0062","\ud83d\ude00\\"]`
  expect(accepts(grammar, slashes)).toBe(true)
  expect(accepts(grammar, slashes.replace("\\u0062", ""))).toBe(false) // "a" again
})

function grammarOf(schema: string): Grammar {
  return new Grammar(compileSchema(schema).part)
}

function accepts(grammar: Grammar, value: string): boolean {
  const matcher = grammar.matcher(vocabulary)
  return [...Buffer.from(value)].every((byte) => matcher.accept(byte)) && matcher.canEnd()
}

function listed(mask: Uint32Array): number[] {
  const tokens = Array.from({ length: vocabulary.size }, (_, token) => token)
  return tokens.filter((token) => ((mask[token >>> 5]! >>> (token & 31)) & 1) === 1)
}

function takenOf(matcher: Matcher): number[] {
  const tokens = Array.from({ length: vocabulary.size }, (_, token) => token)
  return tokens.filter((token) => {
    const taken = matcher.accept(token)
    if (taken) matcher.rollback(1)
    return taken
  })
}
