// What a schema may cost, counted in units of work: whatever is asked for, it compiles or is refused within the bound, with
// the place of what was too much, and the same schema costs the same again.

import { createHash } from "node:crypto"
import { expect, test } from "vitest"
import { compileSchema, SchemaRefusal } from "./grammar.ts"
import { MAX_WORK, MAX_WORK_IN_ALL, worked } from "./work.ts"

const S = { type: "string" }
const times = <Item>(count: number, item: (index: number) => Item): Item[] =>
  Array.from({ length: count }, (_, index) => item(index))
const named = (count: number, member: (index: number) => [string, unknown]) =>
  Object.fromEntries(times(count, member))

/** What became of a schema, and what it cost. */
function compiled(schema: unknown, lenient = false) {
  const before = worked()
  let refusal: string | undefined
  try {
    compileSchema(schema, { portable: true, lenient })
  } catch (error) {
    if (!(error instanceof SchemaRefusal)) throw error
    refusal = error.message
  }
  return { units: worked() - before, refusal }
}

const wrapped = (inner: unknown) => ({ type: "object", properties: { deep: { items: inner } } })
const letters = "abcdefghijklmnop"
const hostile: [string, unknown, string][] = [
  [
    "sixty objects of a oneOf that overlap",
    {
      oneOf: times(60, (i) => ({
        properties: { [`p${i}`]: S, q: { maxLength: i } },
        required: ["q"],
      })),
    },
    "the schema has too many combinations",
  ],
  [
    "two hundred that ask for nothing",
    { oneOf: times(200, (i) => ({ type: "object", properties: { [`p${i}`]: S } })) },
    "the schema has too many combinations",
  ],
  [
    "a hundred patterns of a oneOf",
    { oneOf: times(100, (i) => ({ type: "string", pattern: `a{${i}}` })) },
    "the schema has too many combinations",
  ],
  [
    "a thousand patterns at once",
    { type: "string", allOf: times(1000, (i) => ({ pattern: `a${i}` })) },
    "the schema has too many combinations",
  ],
  [
    "a oneOf in a oneOf in a oneOf",
    times(7, (i) => i).reduce<unknown>(
      (inner, i) => ({
        oneOf: [
          { type: "object", properties: { a: inner, [`p${i}`]: S } },
          { type: "object", properties: { a: inner, [`q${i}`]: S } },
          { type: "array", items: inner },
        ],
      }),
      S,
    ),
    "more than 3000 cases to keep apart",
  ],
  [
    "sixteen looks around",
    { pattern: `^${Array.from(letters, (letter) => `(?=.*${letter})`).join("")}.*$` },
    "/pattern: ",
  ],
  [
    "twenty thousand allOf",
    { allOf: times(20_000, (i) => ({ type: "object", properties: { [`p${i}`]: S } })) },
    "/allOf: the schema has too many combinations",
  ],
  [
    "six counted kinds of items",
    {
      type: "array",
      allOf: times(6, (i) => ({ contains: { const: i }, minContains: 10, maxContains: 20 })),
    },
    "too many combinations",
  ],
  [
    "forty thousand places of an array",
    { type: "array", prefixItems: times(40_000, () => S) },
    "the schema has too many combinations",
  ],
  ["a constant of 20,000 objects", { const: times(20_000, (i) => ({ a: i })) }, "combinations"],
  [
    "two hundred conditions",
    { allOf: times(200, (i) => ({ if: { required: [`a${i}`] }, else: { required: [`b${i}`] } })) },
    "/allOf: more than 3000 cases",
  ],
  [
    "a hundred thousand items that may not repeat, of few more values",
    {
      type: "array",
      items: { type: "integer", minimum: 1, maximum: 100_000 },
      minItems: 100_000,
      uniqueItems: true,
    },
    "/uniqueItems: more than 256 items have to differ that have few values",
  ],
  [
    "places with few values each, all different",
    {
      type: "array",
      prefixItems: times(300, (i) => ({ enum: times(300, (k) => k + i) })),
      minItems: 300,
      uniqueItems: true,
    },
    "/uniqueItems: more than 32 items have to differ that have few values",
  ],
  [
    "a thousand texts and a thousand numbers, of which no two are one value",
    {
      allOf: [
        { anyOf: times(1050, (i) => ({ type: "string", minLength: i })) },
        { anyOf: times(1050, (i) => ({ type: "integer", minimum: i })) },
      ],
    },
    "/allOf: the schema has too many combinations",
  ],
  [
    "references through a thousand schemas",
    {
      $ref: "#/$defs/d0",
      $defs: named(1000, (i) => [`d${i}`, i < 999 ? { $ref: `#/$defs/d${i + 1}` } : S]),
    },
    "/$defs/d200: more than 200 schemas of one value lie in each other",
  ],
]

// One in a property, so that the place is not the root's.
test.each(hostile)("%s: refused within the bound, with its place", (_name, schema, reason) => {
  const isOwn = JSON.stringify(schema).includes("$defs") // its references begin at the root
  const { units, refusal } = compiled(isOwn ? schema : wrapped(schema))
  expect(refusal).toContain(reason)
  expect(refusal).toMatch(isOwn ? /^#\/\$defs/ : /^#\/properties\/deep\/items/)
  expect(units).toBeLessThan(1.1 * MAX_WORK)
})

test.each(hostile.slice(0, 3))("%s: left out of a tool within twice the bound", (_name, schema) => {
  expect(compiled(wrapped(schema), true).units).toBeLessThan(1.1 * MAX_WORK_IN_ALL)
})

test("what people write is far below the bound", () => {
  const tools = {
    oneOf: times(40, (i) => ({
      type: "object",
      properties: { kind: { const: `k${i}` }, [`p${i}`]: S },
      required: ["kind"],
    })),
  }
  for (const schema of [
    tools,
    {
      type: "object",
      properties: named(500, (i) => [`p${i}`, S]),
      required: times(500, (i) => `p${i}`),
      additionalProperties: false,
    },
    { enum: times(5000, (i) => `value ${i}`) },
    // A thousand identifiers, as many values as OpenAI's API takes in a schema's lists.
    { enum: times(1000, (i) => createHash("md5").update(`${i}`).digest("hex")) },
    { type: "array", prefixItems: times(500, () => S) },
    {
      $ref: "#/$defs/d0",
      $defs: named(1000, (i) => [
        `d${i}`,
        { properties: { next: { $ref: `#/$defs/d${(i + 1) % 1000}` } } },
      ]),
    },
  ]) {
    const { units, refusal } = compiled(schema)
    expect(refusal).toBeUndefined()
    expect(units).toBeLessThan(MAX_WORK / 10)
  }
})

test("the same schema costs the same again, whatever is kept of it", () => {
  const schema = {
    type: "object",
    properties: { a: { pattern: "^(x|y){1,9}\\d+z$" }, b: { format: "email" } },
    patternProperties: { "^[a-f]{2}": { type: "string", pattern: "q{3}" } },
  }
  const first = compiled(schema).units
  expect(compiled(schema).units).toBeCloseTo(first, 3)
  expect(first).toBeGreaterThan(100)
})
