import { readFileSync } from "node:fs"
import { describe, expect, test } from "vitest"
import { interpret } from "./interpreter.ts"
import { metered, TemplateError } from "./meter.ts"
import { parse } from "./parser.ts"
import { Callable, type Dict, print, readJson, type Value } from "./values.ts"

interface Case {
  template: string
  text?: string
  error?: string
}

const folder = `${import.meta.dirname}/../../../test/golden/jinja`
const golden = JSON.parse(readFileSync(`${folder}/jinja-golden.json`, "utf8"))
const given = readJson(golden.variables, 0) as Dict
const raise = new Callable("raise_exception", ({ positional }) => {
  throw new TemplateError(print(positional[0]!).value)
})
const variables = new Map<string, Value>([["raise_exception", raise]])
for (const [key, value] of given.entries()) variables.set(print(key).value, value)

const render = (template: string) =>
  metered(1_000_000, () => interpret(parse(template), variables)).value

describe("as Python renders it", () => {
  const cases: Case[] = golden.cases
  test.each(cases.filter(({ text }) => text !== undefined))("$template", ({ template, text }) => {
    expect(render(template)).toBe(text)
  })

  test.each(cases.filter(({ error }) => error !== undefined))(
    "refused: $template",
    ({ template }) => {
      expect(() => render(template)).toThrow()
    },
  )
})

test("a text that is JSON is read as it, numbers as they are written, and any other is undefined", () => {
  const read = "{{ (' {\"a\": [1.0, 12345678901234567890, null]}' | fromjson) | tojson }}"
  expect(render(read)).toBe('{"a": [1.0, 12345678901234567890, null]}')
  expect(render("{{ '{a' | fromjson | default('no') }}")).toBe("no")
})
