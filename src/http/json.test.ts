import { expect, test } from "vitest"
import { Problem } from "../errors.ts"
import {
  type Json,
  JsonText,
  MAX_FLOATS,
  MAX_MEMBERS,
  MAX_VALUES,
  PIECE,
  reading,
  readJson,
  withFloats,
  writeJson,
  writing,
} from "./json.ts"
import { atOnce, type Work } from "./turns.ts"

test("integers beyond 2^53 keep every digit, both ways", () => {
  const text = '{"seed":18446744073709551615,"low":-9223372036854775808,"near":9007199254740991}'
  expect(readJson(text)).toEqual({
    seed: 18446744073709551615n,
    low: -9223372036854775808n,
    near: 9007199254740991,
  })
  expect(writeJson(readJson(text))).toBe(text)
})

test("numbers with a fraction or exponent are doubles", () => {
  expect(readJson("[1.5, 1e3, -0.25, 123456789.015625]")).toEqual([
    1.5, 1000, -0.25, 123456789.015625,
  ])
})

test("a float that is whole stays one for who tells them apart, inside whatever holds it", () => {
  const text = '{"a":[1,2.0,[1e3]],"b":{"c":-0.0,"d":1e22,"e":5},"n":[{"o":1}],"h":0.5}'
  const value = readJson(text) as Record<string, Json>
  expect(value).toEqual({ a: [1, 2, [1000]], b: { c: -0, d: 1e22, e: 5 }, n: [{ o: 1 }], h: 0.5 })
  const floats = withFloats(value) as Record<string, unknown>
  expect(floats).toEqual({
    a: [1, Object(2), [Object(1000)]],
    b: { c: Object(-0), d: Object(1e22), e: 5 },
    n: [{ o: 1 }],
    h: 0.5,
  })
  expect(floats.n).toBe(value.n)
  expect(structuredClone(floats)).toEqual(floats)
  expect(atOnce(writing(value))).toBe(
    '{"a":[1,2.0,[1000.0]],"b":{"c":0.0,"d":1e+22,"e":5},"n":[{"o":1}],"h":0.5}',
  )
  const many = readJson(`[${"1.0,".repeat(MAX_FLOATS)}1.0]`) as Json[]
  expect((withFloats(many) as unknown[]).slice(-2)).toEqual([Object(1), 1])
})

test.each([
  '{"a":[1,2.5,true,false,null,"x"],"b":{"c":[]},"":{}}',
  '"\\u00e9\\ud83d\\ude00\\n\\t\\/\\\\\\""',
  " [ 1 , 2 ] \n\t\r",
  '{"a":1,"a":2}',
  "-0",
  '"\u2028\ufeff\u007f"',
])("reads %s as JSON.parse does", (text) => {
  expect(readJson(text)).toEqual(JSON.parse(text))
})

test("what JSON.parse refuses is refused, with one sentence, and the other way round", () => {
  const seeds = ['{"a":[1,-2.5e3,"x\\u00e9\\n",true,null],"b":{"c":false}}', '[0,"😀",[[]],{}]']
  let random = 7
  const next = (below: number) => {
    random = (Math.imul(random, 1103515245) + 12345) >>> 0
    return Math.floor((random / 2 ** 32) * below)
  }
  const alphabet = '{}[]",:0123456789.eE+-truefalsnu\\ \n\u0001x'
  for (let round = 0; round < 20_000; round++) {
    const characters = Array.from(seeds[next(seeds.length)]!)
    for (let edits = next(3); edits >= 0; edits--) {
      characters.splice(next(characters.length), next(2), alphabet[next(alphabet.length)]!)
    }
    const text = characters.join("")
    let expected: unknown
    try {
      expected = JSON.parse(text)
    } catch {
      expect(() => readJson(text), text).toThrow(Problem)
      continue
    }
    expect(readJson(text), text).toEqual(expected)
  }
})

test("half a surrogate pair becomes U+FFFD", () => {
  expect(readJson('"a\\ud83d"')).toBe("a\ufffd")
  expect(readJson('"\\ude00\\ud83d\\ude00"')).toBe("\ufffd😀")
})

test("__proto__ is a member like any other", () => {
  const value = readJson('{"__proto__":{"stream":true},"constructor":1}') as Record<string, Json>
  expect(Object.keys(value)).toEqual(["__proto__", "constructor"])
  expect(value.stream).toBeUndefined()
})

test("depth, length and size have bounds", () => {
  const nested = (levels: number) => "[".repeat(levels) + "]".repeat(levels)
  expect(() => readJson(nested(256))).not.toThrow()
  expect(() => readJson(nested(257))).toThrow(/nested more than 256/)
  expect(() => readJson(nested(1_000_000))).toThrow(Problem)
  expect(() => readJson("9".repeat(401))).toThrow(/more than 400 digits/)
  expect(() => readJson("9".repeat(400))).toThrow(/too large/)
  expect(() => readJson("1e999")).toThrow(/too large/)
  const lists = (count: number) => `[${"[],".repeat(count - 1)}0]`
  expect(() => readJson(lists(MAX_VALUES))).not.toThrow()
  expect(() => readJson(lists(MAX_VALUES + 1))).toThrow(/more than 100000 objects, lists and texts/)
  const members = (count: number) =>
    `{${Array.from({ length: count }, (_, i) => `"k${i}":1`).join()}}`
  expect(() => readJson(members(MAX_MEMBERS))).not.toThrow()
  expect(() => readJson(members(MAX_MEMBERS + 1))).toThrow(/more than 16384 members/)
})

/** Reads to the end; tells what each piece came to. */
function pieces(work: Work<unknown>): number[] {
  const spent: number[] = []
  for (let piece = work.next(); !piece.done; piece = work.next()) spent.push(piece.value)
  return spent
}

test.each([
  ["one text", `"${"x".repeat(1_000_000)}"`],
  ["escapes", `"${"\\u00e9\\n".repeat(100_000)}"`],
  ["backslashes", `"${"\\\\".repeat(300_000)}"`],
  ["quotes", `"${'\\"'.repeat(300_000)}"`],
  ["blanks", `${" ".repeat(1_000_000)}1`],
  ["numbers", `[${"0,".repeat(300_000)}0]`],
  ["long numbers", `[${"12345678901234567,".repeat(30_000)}0]`],
  ["lists", `[${"[],".repeat(90_000)}0]`],
  [
    "members",
    `[${Array(9)
      .fill(`{${Array(9999).fill('"a":1').join()}}`)
      .join()}]`,
  ],
])("%s are read in pieces that nobody has to wait for", (_, text) => {
  const spent = pieces(reading(text))
  expect(spent.length).toBeGreaterThan(text.length / PIECE / 2 - 2)
  expect(Math.max(...spent)).toBeLessThanOrEqual(2 * PIECE)
  expect(spent.reduce((sum, each) => sum + each, 0)).toBeGreaterThan(text.length - 2 * PIECE)
})

test.each([
  ["a megabyte of brackets", "[".repeat(1_000_000), 0],
  ["a number of a million digits", `[${"9".repeat(1_000_000)}]`, 0],
  ["a million objects", `[${"{},".repeat(330_000)}0]`, 200],
  ["a hundred thousand members", `{${Array(100_000).fill('"a":1').join()}}`, 50],
])("%s are refused before they are read", (_, text, most) => {
  const work = reading(text)
  let count = 0
  expect(() => {
    while (!work.next().done) count++
  }).toThrow(Problem)
  expect(count).toBeLessThanOrEqual(most)
})

test("a text that is longer than a piece is cut inside no escape and no character", () => {
  const tail = '\\u00e9\\ud83d\\ude00😀\\\\\\"\\n\\\\u00e9"'
  for (let shift = 0; shift <= tail.length + 8; shift++) {
    for (const head of ["x", "\\\\"]) {
      const before = head.repeat(Math.ceil(PIECE / head.length)).slice(0, PIECE - shift)
      if (head !== "x" && shift % 2 === 1) continue // half an escape
      const text = `["${before}${tail},{"${before}${tail}:"${before}${tail}}]`
      expect(readJson(text), `${head} ${shift}`).toEqual(JSON.parse(text))
    }
  }
  expect(() => readJson(`"${"x".repeat(3 * PIECE)}\\q"`)).toThrow(
    /unknown escape .*character 49154/,
  )
  expect(() => readJson(`"${"x".repeat(3 * PIECE)}`)).toThrow(/a string has no end/)
  expect(() => readJson(`"${"x".repeat(3 * PIECE)}\n"`)).toThrow(/control character/)
})

test("what is written in pieces is what is written at once", () => {
  const value: Json = {
    list: Array.from({ length: 5000 }, (_, i) => [i, { a: "é", b: undefined, c: [] }]),
    raw: new JsonText("1.50"),
    seed: 2n ** 64n,
  }
  const work = writing(value)
  let last = work.next()
  let count = 0
  for (; !last.done; last = work.next()) count++
  expect(last.value).toBe(writeJson(value))
  expect(count).toBeGreaterThan(5)
})

test("text that is JSON already is written as it stands", () => {
  expect(writeJson({ a: new JsonText('{"x":1.10}'), b: undefined, c: [null] })).toBe(
    '{"a":{"x":1.10},"c":[null]}',
  )
})
