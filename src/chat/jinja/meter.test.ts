// What a template's work costs, counted in the meter's steps: what looks at a text or a list pays for its length, and what
// does not look pays nothing for it. Every filter, test and method has its line; one that is added without fails here.

import { describe, expect, test } from "vitest"
import { openRenderer } from "../rendering.ts"
import { FILTERS, TESTS } from "./filters.ts"
import { interpret } from "./interpreter.ts"
import { CHARACTERS_A_STEP, metered, OutOfSteps, spend, spent, TemplateError } from "./meter.ts"
import { DICT, LIST, STRING } from "./methods.ts"
import { parse } from "./parser.ts"
import { foreign, type Text } from "./text.ts"
import { Dict, type Value } from "./values.ts"

const GRANTED = 1e9

/** `text`: 5 characters for each of `size`; `list`, `map`, `people`: `size` members. */
function given(size: number): Map<string, Value> {
  const numbers = Array.from({ length: size }, (_, index) => index)
  const dict = new Dict()
  for (const index of numbers) dict.set(index, index)
  const people = numbers.map((index) => new Dict().set(foreign("n", 1), index))
  return new Map<string, Value>([
    ["text", foreign("Ab c.".repeat(size), 1)],
    ["other", foreign(`${"Ab c.".repeat(size).slice(0, -1)}!`, 1)],
    ["digits", foreign("1".repeat(5 * size), 1)],
    ["blank", foreign(" ".repeat(5 * size), 1)],
    ["list", numbers],
    ["map", dict],
    ["people", people],
  ])
}

function stepsOf(expression: string, size: number): number {
  const program = parse(`{% set result = ${expression} %}`)
  const variables = given(size)
  return metered(GRANTED, () => {
    interpret(program, variables)
    return spent()
  })
}

const [SMALL, LARGE] = [500, 5500]
const growth = (expression: string) => stepsOf(expression, LARGE) - stepsOf(expression, SMALL)

const BY_CHARACTER = (5 * (LARGE - SMALL)) / CHARACTERS_A_STEP
const BY_ITEM = LARGE - SMALL

/** By what the price has to grow: the characters of `text`, the items of `list`, or nothing at all. */
type Price = "characters" | "items" | "nothing"
type Row = [name: string, expression: string, price: Price]

const FILTERED: Row[] = [
  ["abs", "5 | abs", "nothing"],
  ["attr", "text | attr('upper')", "nothing"],
  ["batch", "list | batch(2) | list", "items"],
  ["capitalize", "text | capitalize", "characters"],
  ["center", "'' | center(text | length * 2)", "characters"],
  ["count", "text | count", "characters"],
  ["d", "text | d('')", "nothing"],
  ["default", "text | default('')", "nothing"],
  ["dictsort", "map | dictsort", "items"],
  ["e", "text | e", "characters"],
  ["escape", "text | escape", "characters"],
  ["first", "text | first ~ (list | first)", "nothing"],
  ["float", "digits | float", "characters"],
  ["forceescape", "text | forceescape", "characters"],
  ["fromjson", "text | fromjson", "characters"],
  ["format", "text | format(1)", "characters"],
  ["groupby", "people | groupby('n')", "items"],
  ["indent", "text | indent", "characters"],
  ["int", "digits | int", "characters"],
  ["items", "map | items", "items"],
  ["join", "list | join", "items"],
  ["last", "text | last ~ (list | last)", "nothing"],
  ["length", "text | length", "characters"],
  ["list", "list | list", "items"],
  ["lower", "text | lower", "characters"],
  ["map", "list | map('abs') | list", "items"],
  ["max", "list | max", "items"],
  ["min", "list | min", "items"],
  ["reject", "list | reject | list", "items"],
  ["rejectattr", "people | rejectattr('n') | list", "items"],
  ["replace", "text | replace('x', 'y')", "characters"],
  ["reverse", "text | reverse", "characters"],
  ["round", "5 | round", "nothing"],
  ["safe", "text | safe", "nothing"],
  ["select", "list | select | list", "items"],
  ["selectattr", "people | selectattr('n') | list", "items"],
  ["slice", "list | slice(list | length) | list", "items"],
  ["sort", "list | sort", "items"],
  ["string", "list | string", "items"],
  ["sum", "list | sum", "items"],
  ["title", "text | title", "characters"],
  ["tojson", "text | tojson", "characters"],
  ["trim", "blank | trim", "characters"],
  ["truncate", "text | truncate(9)", "characters"],
  ["unique", "list | unique | list", "items"],
  ["upper", "text | upper", "characters"],
  ["urlencode", "text | urlencode", "characters"],
  ["wordcount", "text | wordcount", "characters"],
]

const TESTED: Row[] = [
  ...["boolean", "callable", "defined", "false", "float", "integer", "iterable", "mapping"].map(
    (name): Row => [name, `text is ${name}`, "nothing"],
  ),
  ...["none", "number", "sequence", "string", "true", "undefined"].map(
    (name): Row => [name, `text is ${name}`, "nothing"],
  ),
  ...["divisibleby(2)", "even", "odd"].map(
    (name): Row => [name.replace(/\(.*/, ""), `4 is ${name}`, "nothing"],
  ),
  ...["==", "eq", "equalto", "!=", "ne", "<", "lt", "lessthan"].map(
    (name): Row => [name, `[text] | select('${name}', other) | list`, "characters"],
  ),
  ...["<=", "le", ">", "gt", "greaterthan", ">=", "ge"].map(
    (name): Row => [name, `[text] | select('${name}', other) | list`, "characters"],
  ),
  ["escaped", "text is escaped", "nothing"],
  ["filter", "'upper' is filter", "nothing"],
  ["test", "'even' is test", "nothing"],
  ["in", "9999999 is in list", "items"],
  ["lower", "text is lower", "characters"],
  ["upper", "text is upper", "characters"],
  ["sameas", "text is sameas(other)", "nothing"],
]

const ON_TEXTS: Row[] = [
  ["upper", "text.upper()", "characters"],
  ["lower", "text.lower()", "characters"],
  ["casefold", "text.casefold()", "characters"],
  ["title", "text.title()", "characters"],
  ["capitalize", "text.capitalize()", "characters"],
  ["swapcase", "text.swapcase()", "characters"],
  ["strip", "'x'.strip(text)", "characters"],
  ["lstrip", "blank.lstrip()", "characters"],
  ["rstrip", "blank.rstrip()", "characters"],
  ["removeprefix", "text.removeprefix(other)", "characters"],
  ["removesuffix", "text.removesuffix(other)", "characters"],
  ["startswith", "text.startswith(other)", "characters"],
  ["endswith", "text.endswith(other)", "characters"],
  ["split", "text.split('x')", "characters"],
  ["rsplit", "text.rsplit('x', 1)", "characters"],
  ["splitlines", "text.splitlines()", "characters"],
  ["partition", "text.partition('x')", "characters"],
  ["rpartition", "text.rpartition('x')", "characters"],
  ["replace", "text.replace('x', 'y')", "characters"],
  ["join", "'x'.join(text)", "characters"],
  ["find", "text.find('x')", "characters"],
  ["rfind", "text.rfind('x')", "characters"],
  ["index", "other.index('!')", "characters"],
  ["rindex", "other.rindex('!')", "characters"],
  ["count", "text.count('x')", "characters"],
  ...["center", "ljust", "rjust", "zfill"].map(
    (name): Row => [name, `text.${name}(text | length * 2)`, "characters"],
  ),
  ...[
    "isascii",
    "isdecimal",
    "isdigit",
    "isnumeric",
    "isalpha",
    "isalnum",
    "isspace",
    "isupper",
    "islower",
    "istitle",
    "isidentifier",
    "isprintable",
  ].map((name): Row => [name, `${name === "isspace" ? "blank" : "text"}.${name}()`, "characters"]),
  ["expandtabs", "text.expandtabs()", "characters"],
  ["format", "text.format(1)", "characters"],
  ["format_map", "''.format_map(map)", "items"],
]

const ON_LISTS: Row[] = [
  ["count", "list.count(1)", "items"],
  ["index", "list.index(list | length - 1)", "items"],
  ["copy", "list.copy()", "items"],
]

const ON_DICTS: Row[] = [
  ["get", "map.get(1)", "nothing"],
  ["items", "map.items()", "items"],
  ["keys", "map.keys()", "items"],
  ["values", "map.values()", "items"],
  ["copy", "map.copy()", "nothing"],
]

const OTHERWISE: Row[] = [
  ["a text cut at its last blank", "digits.rsplit(None, 1)", "characters"],
  ["a character", "text[0] ~ text[-1] ~ text[3]", "nothing"],
  ["a character from afar", "text[(list | length) * 5 - 1]", "characters"],
  ["a slice at an end", "text[:3] ~ text[-3:]", "nothing"],
  ["a slice from afar", "text[3:(list | length) * 5 - 1]", "characters"],
  ["a slice in steps", "text[::3]", "characters"],
  ["a slice of a list", "list[1:]", "items"],
  ["an item", "list[3]", "nothing"],
  ["a key of a map", "{text: 1}", "characters"],
  ["joined", "text ~ text", "characters"],
  ["added", "text + text", "characters"],
  ["lists added", "list + list", "items"],
  ["repeated", "'ab' * (text | length)", "characters"],
  ["a list repeated", "[1] * (list | length)", "items"],
  ["a text in a text", "'x' in text", "characters"],
  ["a text in a list", "'x' in list", "items"],
  ["a text in a map", "text in map", "characters"],
  ["equal", "text == other", "characters"],
  ["equal lists", "list == list.copy()", "items"],
  ["sorted before", "text < other", "characters"],
  ["printf", "text % ()", "characters"],
  ["spread", "dict(**{'a': 1}).get(*[1])", "nothing"],
  ["spread items", "'{}'.format(*list)", "items"],
  ["range", "range(list | length)", "items"],
  ["true", "not text", "nothing"],
]

describe.each([
  ["filters", FILTERED, FILTERS],
  ["tests", TESTED, TESTS],
  ["methods of texts", ON_TEXTS, STRING],
  ["methods of lists", ON_LISTS, LIST],
  ["methods of maps", ON_DICTS, DICT],
  ["operators", OTHERWISE, undefined],
] as const)("%s pay for what they look at", (_, rows, table) => {
  if (table) {
    test("each has its line", () => {
      expect(rows.map(([name]) => name).sort()).toEqual([...table.keys()].sort())
    })
  }

  test.each(rows)("%s: %s", (_name, expression, price) => {
    if (price === "nothing") expect(growth(expression)).toBeLessThan(1)
    else
      expect(growth(expression)).toBeGreaterThan((price === "items" ? BY_ITEM : BY_CHARACTER) - 1)
  })
})

test("a loop pays for its items, and a name for the scopes it is looked for in", () => {
  const steps = (source: string) =>
    metered(GRANTED, () => {
      interpret(parse(source), given(LARGE))
      return spent()
    })
  expect(steps("{% for item in list %}{% endfor %}")).toBeGreaterThan(LARGE)
  expect(steps("{% for item in text %}{% endfor %}")).toBeGreaterThan(5 * LARGE)
  const nested = (depth: number) =>
    `${"{% with a = 1 %}".repeat(depth)}${"{{ list[0] }}".repeat(100)}${"{% endwith %}".repeat(depth)}`
  expect(steps(nested(101)) - steps(nested(1))).toBeGreaterThan(1000)
})

test("macros and maps pay for their arguments", () => {
  const names = Array.from({ length: 2000 }, (_, index) => `a${index}`)
  const source = `{% macro f(${names.join(", ")}) %}{% endmacro %}{{ f() }}`
  metered(GRANTED, () => {
    interpret(parse(source), new Map())
    expect(spent()).toBeGreaterThan(2000)
  })
})

test("what a request brings is paid for before a template sees it", () => {
  const render = openRenderer("", { specialTokens: {}, now: new Date(0) })
  const request = (count: number, text: string) => ({
    messages: [
      {
        role: "user",
        content: Array.from({ length: count }, () => ({ type: "text", text: "" })),
        toolCalls: [{ id: "", name: "", arguments: text }],
      },
    ],
    tools: undefined,
    variables: {},
    generationPrompt: true,
  })
  expect(() => render(request(10, "[]"), 1000)).not.toThrow()
  expect(() => render(request(1000, "[]"), 1000)).toThrow(OutOfSteps)
  expect(() => render(request(10, `[${"0,".repeat(1000)}0]`), 1000)).toThrow(OutOfSteps)
})

describe("hostile templates end within what the event loop grants", () => {
  const megabyte = foreign("Ab c. é€🙂".repeat(100_000), 1)
  const variables = new Map<string, Value>([
    ["text", megabyte],
    ["same", foreign("a".repeat(1 << 20), 1)],
    ["huge", 10n ** 5000n],
  ])
  const render = (template: string): Text =>
    metered(30_000, () => interpret(parse(template), variables))
  const often = (tag: string) => `{% for i in range(9000) %}${tag}{% endfor %}`

  test.each([
    often("{% set n = text | length %}"),
    often("{% set c = text[500000] %}"),
    often("{% set c = text[-500000] %}"),
    often("{% set u = text.upper() %}"),
    often("{% set u = text | title %}"),
    often("{% set e = same == same ~ '' %}"),
    often("{% set d = {text: i} %}"),
    "{% set l = text | list %}",
    "{% set l = text | map('upper') | list %}",
    "{% for c in text %}{% break %}{% endfor %}",
    "{% set e = same.replace('a', '&') | e %}",
    "{% set e = text | tojson(ensure_ascii=true) %}",
    "{% set n = text.strip(text) %}",
    "{% set n = text.split(' ') | length %}",
    "{% set n = ('b' ~ 'a' * 100000) in same %}",
    "{% set n = same.rfind('a' * 100000 ~ 'b') %}",
    "{% set l = [0] * 4000000000 %}",
    "{% set l = [0] * 900000 %}",
    "{{ '' | center(30000000) }}",
    "{{ [] | slice(4000000000) | list }}",
    "{{ '\\t'.expandtabs(4000000000) }}",
    "{{ '%60000000d' % 1 }}",
    "{{ '%9999999999999d' % 1 }}",
    "{{ [[]] | tojson(indent=10000000) }}",
    "{{ huge }}",
    "{{ [huge] | tojson }}",
    "{{ range(1000000000) }}",
    "{% macro f(a) %}{{ f(a) }}{% endmacro %}{{ f(1) }}",
  ])("refused: %s", (template) => {
    expect(() => render(template)).toThrow(
      /steps without an end|more than|limit|too (big|deeply)|call stack/i,
    )
  })

  test.each([
    ["{{ [] * 4000000000 }}", "[]"],
    ["{{ '' * 4000000000 }}", ""],
    [`{{ ('%' ~ '0' * 60000) }}`, `%${"0".repeat(60_000)}`],
    [`{{ ('%' ~ '0' * 60000) % 1 }}`, `%${"0".repeat(60_000)}`],
    [`{{ ('%' ~ '0' * 60000 ~ '5d') % 1 }}`, "00001"],
    ["{{ text[0] }}{{ text[3] }}{{ text[-1] }}", "Ac🙂"],
    ["{{ same | length }}", "1048576"],
  ])("cheap: %s", (template, text) => {
    expect(render(template).value).toBe(text)
  })

  test("strftime_now pays for its directives", () => {
    const date = openRenderer("{{ strftime_now('%Y' * 1000000) }}", {
      specialTokens: {},
      now: new Date(0),
    })
    const conversation = { messages: [], tools: undefined, variables: {}, generationPrompt: true }
    expect(() => date(conversation, 30_000)).toThrow(OutOfSteps)
  })

  test("a price that is no number is not taken for free", () => {
    expect(() => metered(10, () => spend(Number.NaN))).toThrow(OutOfSteps)
  })

  test("a text that its words repeat is cut", () => {
    const words = () => render("{{ [].index('x' * 100000) }}")
    expect(words).toThrow(TemplateError)
    expect(words).toThrow(/^.{500}…$/)
  })
})
