import { expect, test } from "vitest"
import { Problem } from "../errors.ts"
import { type Json, JsonText, readJson, writeJson } from "./json.ts"

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
    // Both ways of reading: sixteen digits in front take the careful one.
    const careful = readJson(`[1000000000000000,${text}]`) as Json[]
    expect(careful[1], text).toEqual(expected)
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
  expect(() => readJson("9".repeat(401))).toThrow(/too large|400 digits/)
  expect(() => readJson("1e999")).toThrow(/too large/)
})

test("text that is JSON already is written as it stands", () => {
  expect(writeJson({ a: new JsonText('{"x":1.10}'), b: undefined, c: [null] })).toBe(
    '{"a":{"x":1.10},"c":[null]}',
  )
})
