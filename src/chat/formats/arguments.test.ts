// Arguments one by one, grammar and parser together: what the grammar lets through, the parser reads to exactly those arguments,
// wherever the stream is cut, and what the models' published templates show of an earlier call is let through.

import { Ajv2020 } from "ajv/dist/2020.js"
import { describe, expect, test } from "vitest"
import { uniform } from "../../../test/random.ts"
import { type Matcher, Vocabulary } from "../../grammar/grammar.ts"
import { argumentsSchema } from "../compiled-schemas.ts"
import { Grammars } from "../grammars.ts"
import { CallReader, type FormatName, formats } from "./formats.ts"

type Json = null | boolean | number | string | Json[] | { [name: string]: Json }

const END = 256
const bytes = new Vocabulary(
  [...Array.from({ length: END }, (_, byte) => Uint8Array.of(byte)), new Uint8Array()],
  [END],
)

function toolOf(parameters: unknown, strict = true) {
  return { name: "f", parameters, strict }
}

/** Of a reply that has to call the tool. */
function matcherOf(format: FormatName, parameters: unknown, strict = true): Matcher {
  const grammars = new Grammars({ toolFormat: format, stripsLeadingSpace: false })
  const tools = [toolOf(parameters, strict)]
  const calls = { tools, required: true, most: Number.POSITIVE_INFINITY }
  return grammars.of({ calls, format: undefined, reasoning: undefined }).grammar.matcher(bytes)
}

/** Whether the text is a whole reply. */
function lets(matcher: Matcher, text: string): boolean {
  const fits = matcher.acceptBytes(Buffer.from(text))
  const ends = fits && matcher.canEnd()
  if (fits) matcher.rollback(1)
  return ends
}

/** The arguments of the calls that a reply is; undefined: it is something else, too, or broken. */
function read(format: FormatName, parameters: unknown, deltas: readonly string[]) {
  const schema = argumentsSchema(toolOf(parameters))
  const reader = new CallReader(formats[format], new Map([["f", schema]]))
  const calls: string[] = []
  let ended = 0
  for (const piece of [...deltas.flatMap((delta) => reader.push(delta)), ...reader.flush()]) {
    if (piece.kind === "call") calls.push("")
    else if (piece.kind === "arguments") calls[calls.length - 1] += piece.text
    else if (piece.kind === "end") ended++
    else if (piece.kind !== "nothing") return undefined
  }
  return ended === calls.length ? calls.map((call) => JSON.parse(call) as unknown) : undefined
}

/** The reply is let through, and is one call with these arguments wherever it is cut. */
function expectCall(format: FormatName, parameters: unknown, text: string, value: unknown): void {
  expect([text, lets(matcherOf(format, parameters), text)]).toEqual([text, true])
  expect([text, read(format, parameters, [text])]).toEqual([text, [value]])
  expect(read(format, parameters, Array.from(text))).toEqual([value])
  for (let at = 1; at < text.length; at++)
    expect(read(format, parameters, [text.slice(0, at), text.slice(at)])).toEqual([value])
}

// What the published templates show of a call: Qwen3-Coder's and Qwen3.5's, Seed-OSS', GLM-4.5's and 4.6's, GLM-4.7's, Ling 3's.
const pythonWord = (value: Json) =>
  value === null ? "None" : value === true ? "True" : value === false ? "False" : undefined
const asText = (value: Json) => (typeof value === "string" ? value : JSON.stringify(value))
const pythonList = (value: Json): string => {
  if (Array.isArray(value)) return `[${value.map(pythonList).join(", ")}]`
  return typeof value === "string" ? `'${value}'` : (pythonWord(value) ?? JSON.stringify(value))
}

type Show = (members: [string, Json][]) => string
const SHOWN: Record<string, [FormatName, Show]> = {
  qwen: [
    "qwen3_coder",
    (members) =>
      `<tool_call>\n<function=f>\n${members.map(([name, value]) => `<parameter=${name}>\n${pythonWord(value) ?? asText(value)}\n</parameter>\n`).join("")}</function>\n</tool_call>`,
  ],
  seed: [
    "seed_oss",
    (members) =>
      `<seed:tool_call>\n<function=f>\n${members.map(([name, value]) => `<parameter=${name}>${typeof value === "string" ? value : pythonList(value)}</parameter>\n`).join("")}</function>\n</seed:tool_call>`,
  ],
  glm45: [
    "glm45",
    (members) =>
      `\n<tool_call>f\n${members.map(([name, value]) => `<arg_key>${name}</arg_key>\n<arg_value>${asText(value)}</arg_value>\n`).join("")}</tool_call>`,
  ],
  glm47: [
    "glm45",
    (members) =>
      `<tool_call>f${members.map(([name, value]) => `<arg_key>${name}</arg_key><arg_value>${asText(value)}</arg_value>`).join("")}</tool_call>`,
  ],
  minimax: [
    "minimax_m2",
    (members) =>
      `\n<minimax:tool_call>\n<invoke name="f">\n${members.map(([name, value]) => `<parameter name="${name}">${asText(value)}</parameter>\n`).join("")}</invoke>\n</minimax:tool_call>`,
  ],
  dsml: [
    "deepseek_v32",
    (members) =>
      `\n<｜DSML｜function_calls>\n<｜DSML｜invoke name="f">\n${members.map(([name, value]) => `<｜DSML｜parameter name="${name}" string="${typeof value === "string"}">${asText(value)}</｜DSML｜parameter>\n`).join("")}</｜DSML｜invoke>\n</｜DSML｜function_calls>`,
  ],
  hy: [
    "hy3",
    (members) =>
      `<tool_calls:opensource>\n<tool_call:opensource>f<tool_sep:opensource>\n${members.map(([name, value]) => `<arg_key:opensource>${name}</arg_key:opensource>\n<arg_value:opensource>${asText(value)}</arg_value:opensource>\n`).join("")}</tool_call:opensource>\n</tool_calls:opensource>`,
  ],
  ling: [
    "glm45",
    (members) =>
      `<tool_call>f${members.map(([name, value]) => `<arg_key>${name}</arg_key>\n<arg_value>${asText(value)}</arg_value>`).join("")}\n</tool_call>`,
  ],
}

const TEXTS = [
  "",
  "x",
  "line\n",
  "\n",
  "\n\n",
  "\na\n\nb\n",
  " 5 ",
  "5",
  "true",
  "<b>é🙂</b>",
  "</par",
]

describe.each(Object.entries(SHOWN))("as %s's template shows calls", (_, [format, show]) => {
  const parameters = {
    type: "object",
    properties: {
      b: { type: ["boolean", "null"] },
      text: { type: "string" },
      list: { type: "array", items: { type: ["string", "integer"] } },
    },
    required: ["text"],
    additionalProperties: false,
  }

  test("every text, line breaks at its edges included", () => {
    for (const text of TEXTS) expectCall(format, parameters, show([["text", text]]), { text })
  })

  test("values that are no texts, and arguments in any order", () => {
    const members: [string, Json][] = [
      ["text", "a b"],
      ["b", true],
      ["list", ["x", 2]],
    ]
    for (const [i, j, k] of [
      [0, 1, 2],
      [0, 2, 1],
      [1, 0, 2],
      [1, 2, 0],
      [2, 0, 1],
      [2, 1, 0],
    ] as const) {
      const order = [members[i], members[j], members[k]] as [string, Json][]
      expectCall(format, parameters, show(order), { text: "a b", b: true, list: ["x", 2] })
    }
    for (const b of [null, false] as const)
      expectCall(
        format,
        parameters,
        show([
          ["b", b],
          ["text", ""],
        ]),
        { b, text: "" },
      )
  })

  test("each argument once, and what is required", () => {
    const matcher = matcherOf(format, parameters)
    expect(lets(matcher, show([["b", true]]))).toBe(false)
    expect(
      lets(
        matcher,
        show([
          ["text", ""],
          ["text", ""],
        ]),
      ),
    ).toBe(false)
    expect(
      lets(
        matcher,
        show([
          ["text", ""],
          ["other", ""],
        ]),
      ),
    ).toBe(false)
  })

  test("several calls, behind which the reply may end", () => {
    const call = show([["text", "a"]])
    const matcher = matcherOf(format, parameters)
    // Of marks that stand around all of them.
    const around =
      /<\/(minimax:tool_call|｜DSML｜function_calls)>\n*<\1>\n|<\/tool_calls:opensource>\n*<tool_calls:opensource>\n/
    for (const between of ["", "\n"]) {
      const reply = (call + (call.startsWith("\n") ? "" : between) + call).replace(around, "")
      expect(lets(matcher, reply)).toBe(true)
      expect(read(format, parameters, [reply])).toEqual([{ text: "a" }, { text: "a" }])
    }
  })
})

// Pieces of which marks, and what a reader could take for them, come about.
const PIECES: Partial<Record<FormatName, readonly string[]>> = {
  qwen3_coder: [
    "</parameter>",
    "</parameter",
    "</",
    ">",
    "\n",
    "<parameter=a>",
    "</function>",
    "a",
  ],
  seed_oss: ["</parameter>", "</parameter", "<", "\n", "</function>\n</seed:tool_call>", "a"],
  glm45: ["</arg_value>", "</arg_value", "<arg_key>", "\n", "</tool_call>", "a", "<"],
  hy3: [
    ...["</arg_value:opensource>", "</arg_value", "<arg_key:opensource>", "\n"],
    ...["</tool_call:opensource>\n</tool_calls:opensource>", "a", "<"],
  ],
  minimax_m2: ["</parameter>", "</parameter", "<", "\n", "</invoke>\n</minimax:tool_call>", "a"],
}
const AROUND: Partial<Record<FormatName, readonly [string, string]>> = {
  qwen3_coder: ["<tool_call><function=f><parameter=t>", "</parameter></function></tool_call>"],
  seed_oss: [
    "<seed:tool_call><function=f><parameter=t>",
    "</parameter></function></seed:tool_call>",
  ],
  glm45: ["<tool_call>f<arg_key>t</arg_key><arg_value>", "</arg_value></tool_call>"],
  hy3: [
    "<tool_calls:opensource><tool_call:opensource>f<tool_sep:opensource><arg_key:opensource>t</arg_key:opensource><arg_value:opensource>",
    "</arg_value:opensource></tool_call:opensource></tool_calls:opensource>",
  ],
  minimax_m2: [
    '<minimax:tool_call><invoke name="f"><parameter name="t">',
    "</parameter></invoke></minimax:tool_call>",
  ],
}

const markOf = (format: FormatName) =>
  ({ glm45: "</arg_value>", hy3: "</arg_value:opensource>" })[format as string] ?? "</parameter>"

const string = { type: "string" }
const KINDS: [string, unknown, string][] = [
  ["a text", string, ""],
  ["a text of a pattern", { type: "string", pattern: "^[^b]*$" }, ""],
  ["a short text", { type: "string", maxLength: 14 }, ""],
  ["a text or null", { anyOf: [string, { type: "null" }] }, ""],
  ["a list", { type: "array", items: string }, '["'],
  ["a list or a text", { type: ["array", "string"], items: string }, '["'],
  ["a map", { type: "object", additionalProperties: string }, '{"'],
]

describe.each(Object.keys(PIECES) as (keyof typeof PIECES)[])("%s", (format) => {
  const [before, behind] = AROUND[format]!

  test.each(KINDS)("%s is let through only where it is read whole: %#", (_, schema, open) => {
    const parameters = { type: "object", properties: { t: schema }, required: ["t"] }
    const validate = new Ajv2020({ strict: false }).compile(parameters)
    const random = uniform(7)
    const pieces = [...PIECES[format]!, ...(open ? ['"', '"]', '"}', '":"', "\\n"] : ["null"])]
    const matcher = matcherOf(format, parameters)
    let taken = 0
    for (let count = 0; count < 500; count++) {
      let text = open
      for (let k = Math.floor(random() * 6); k > 0; k--)
        text += pieces[Math.floor(random() * pieces.length)]
      const close = open === "" ? "" : open === '{"' ? '":"x"}' : '"]'
      const reply = before + text + close + behind
      if (!lets(matcher, reply)) continue
      taken++
      for (const deltas of [[reply], Array.from(reply)]) {
        const calls = read(format, parameters, deltas)
        expect([reply, calls?.every((call) => validate(call))]).toEqual([reply, true])
        expect(JSON.stringify(calls)).not.toContain(markOf(format))
      }
    }
    expect(taken).toBeGreaterThan(10)
  })

  test("a text that its own mark would cut is refused where it must be written", () => {
    const mark = markOf(format)
    for (const t of [{ const: mark }, { type: "array", items: { const: mark }, minItems: 1 }]) {
      const parameters = { type: "object", properties: { t }, required: ["t"] }
      expect(() => matcherOf(format, parameters)).toThrow("can be written as")
    }
  })

  test("what is a text and null by its schema is written and read as it is", () => {
    const $defs = { colour: { enum: ["red", "null and void"] } }
    for (const schema of [
      { anyOf: [string, { type: "null" }] },
      { type: ["string", "null"] },
      { $ref: "#/$defs/colour" },
      { enum: ["red", "null and void"] },
      { const: "red" },
      { allOf: [string, { type: "string", minLength: 1 }] },
      { anyOf: [{ $ref: "#/$defs/colour" }, { type: "null" }], default: null },
      { oneOf: [{ const: "red" }, { const: "null and void" }, { type: "null" }] },
    ]) {
      const parameters = { type: "object", properties: { t: schema }, $defs }
      const validate = new Ajv2020().compile({ ...schema, $defs })
      const isPython = !["glm45", "hy3", "minimax_m2"].includes(format)
      const nulls = isPython ? ["null", "None"] : ["null"]
      for (const written of ["red", "null and void", "nul", "nullx", "null", "None"]) {
        const t = nulls.includes(written) && validate(null) ? null : written
        const text = `${before}${written}${behind}`
        if (validate(t)) expectCall(format, parameters, text, { t })
        else expect([text, lets(matcherOf(format, parameters), text)]).toEqual([text, false])
      }
      expect(lets(matcherOf(format, parameters), `${before}"red"${behind}`)).toBe(validate('"red"'))
    }
  })

  test("a text beside a number is in quotes", () => {
    const parameters = { properties: { t: { type: ["string", "integer"] } } }
    expectCall(format, parameters, `${before}"a"${behind}`, { t: "a" })
    expectCall(format, parameters, `${before}5${behind}`, { t: 5 })
    expect(lets(matcherOf(format, parameters), `${before}a${behind}`)).toBe(false)
  })

  test("a type as other languages call it", () => {
    const parameters = { properties: { t: { type: "str" } } }
    const text = `${before}5${behind}`
    expect(lets(matcherOf(format, parameters, false), text)).toBe(true)
    expect(read(format, parameters, [text])).toEqual([{ t: "5" }])
  })
})

// The reader ends a value at the first mark, whatever the tool's grammar says of it.
test.each([
  [
    "qwen3_coder",
    "<tool_call><function=f><parameter=input>\n",
    "\n",
    "</parameter>",
    "</function></tool_call>",
  ],
  [
    "seed_oss",
    "<seed:tool_call><function=f><parameter=input>",
    "",
    "</parameter>",
    "</function></seed:tool_call>",
  ],
  ["glm45", "<tool_call>f<arg_key>input</arg_key><arg_value>", "", "</arg_value>", "</tool_call>"],
  [
    "deepseek_v32",
    '<｜DSML｜function_calls><｜DSML｜invoke name="f"><｜DSML｜parameter name="input" string="true">',
    "",
    "</｜DSML｜parameter>",
    "</｜DSML｜invoke></｜DSML｜function_calls>",
  ],
  [
    "minimax_m2",
    '<minimax:tool_call><invoke name="f"><parameter name="input">',
    "",
    "</parameter>",
    "</invoke></minimax:tool_call>",
  ],
] as const)(
  "%s: a free-form text does not hold the mark that ends it",
  (format, before, end, mark, behind) => {
    const parameters = { properties: { input: string }, required: ["input"] }
    const grammarOf = (grammar: string) => {
      const tools = [{ ...toolOf(parameters), input: { kind: "lark" as const, grammar } }]
      const calls = { tools, required: true, most: 1 }
      const grammars = new Grammars({ toolFormat: format, stripsLeadingSpace: false })
      return grammars.of({ calls, format: undefined, reasoning: undefined })
    }
    // Lines of a patch in Codex' grammar; a rule within itself, which is not regular.
    for (const grammar of [
      'start: line+\nline: "+" /(.*)/ LF\n%import common.LF',
      'start: "(" start ")" | line\nline: "+" /(.*)/ LF\n%import common.LF',
    ]) {
      const { grammar: own, unenforced } = grammarOf(grammar)
      expect(unenforced).toEqual([])
      for (const text of ["+a\n", "+<b>\n", `+${mark.slice(0, -1)}\n`, `+< ${mark.slice(1)}\n`]) {
        const call = before + text + end + mark + behind
        expect([text, lets(own.matcher(bytes), call)]).toEqual([text, true])
        expect(read(format, parameters, [call])).toEqual([{ input: text }])
      }
      for (const text of [`+${mark}\n`, `+a${mark}b\n`])
        expect([text, lets(own.matcher(bytes), before + text + end + mark + behind)]).toEqual([
          text,
          false,
        ])
    }
    const { grammar: any, unenforced } = grammarOf(`start: "a${mark}"`)
    expect(unenforced).toEqual(["f#/format/definition"])
    expect(lets(any.matcher(bytes), `${before}x${end}${mark}${behind}`)).toBe(true)
  },
)

// One member with a text in each format that writes members one by one.
const ONE: [FormatName, (name: string, text: string) => string, string, string, string][] = [
  [
    "qwen3_coder",
    (n, t) => `<parameter=${n}>${t}</parameter>`,
    "<tool_call><function=f>",
    "",
    "</function></tool_call>",
  ],
  [
    "seed_oss",
    (n, t) => `<parameter=${n}>${t}</parameter>`,
    "<seed:tool_call><function=f>",
    "",
    "</function></seed:tool_call>",
  ],
  [
    "glm45",
    (n, t) => `<arg_key>${n}</arg_key><arg_value>${t}</arg_value>`,
    "<tool_call>f",
    "",
    "</tool_call>",
  ],
  [
    "hy3",
    (n, t) =>
      `<arg_key:opensource>${n}</arg_key:opensource><arg_value:opensource>${t}</arg_value:opensource>`,
    "<tool_calls:opensource><tool_call:opensource>f<tool_sep:opensource>",
    "",
    "</tool_call:opensource></tool_calls:opensource>",
  ],
  [
    "deepseek_v32",
    (n, t) => `<｜DSML｜parameter name="${n}" string="true">${t}</｜DSML｜parameter>`,
    '<｜DSML｜function_calls><｜DSML｜invoke name="f">',
    "",
    "</｜DSML｜invoke></｜DSML｜function_calls>",
  ],
  [
    "minimax_m2",
    (n, t) => `<parameter name="${n}">${t}</parameter>`,
    '<minimax:tool_call><invoke name="f">',
    "",
    "</invoke></minimax:tool_call>",
  ],
  ["gemma4", (n, t) => `${n}:<|"|>${t}<|"|>`, "<|tool_call>call:f{", ",", "}<tool_call|>"],
  ["lfm2", (n, t) => `${n}="${t}"`, "<|tool_call_start|>[f(", ", ", ")]<|tool_call_end|>"],
  ["expressions", (n, t) => `${n}="${t}"`, "[f(", ", ", ")]"],
  ["olmo3", (n, t) => `${n}="${t}"`, "<function_calls>f(", ", ", ")</function_calls>"],
]

describe.each(ONE)("%s", (format, member, before, between, behind) => {
  const call = (...members: [string, string][]) =>
    before + members.map(([name, text]) => member(name, text)).join(between) + behind

  test("arguments come in any order, optional ones, too", () => {
    const properties = { b: string, a: string, c: string }
    const parameters = { type: "object", properties, required: ["a"], additionalProperties: false }
    const matcher = matcherOf(format, parameters)
    for (const order of ["a", "ab", "ba", "ca", "acb", "cab", "bca", "cba"]) {
      const text = call(...Array.from(order, (name): [string, string] => [name, name]))
      const value = Object.fromEntries(Array.from(order, (name) => [name, name]))
      expectCall(format, parameters, text, value)
    }
    for (const order of ["", "b", "bc", "aa", "aba", "ad"])
      expect(lets(matcher, call(...Array.from(order, (n): [string, string] => [n, n])))).toBe(false)
  })

  test("names that are not listed, where the schema says that there are others", () => {
    const open = { type: "object", additionalProperties: string }
    expectCall(format, open, call(["x-1", "a"], ["y", "b"]), { "x-1": "a", y: "b" })
    expectCall(format, open, call(), {})
    const matcher = matcherOf(format, open)
    expect(lets(matcher, call(["x", "a"], ["x", "b"]))).toBe(false)
    const patterned = {
      properties: { a: string },
      patternProperties: { "^x": string },
      additionalProperties: false,
    }
    expectCall(format, patterned, call(["xy", "1"], ["a", "2"]), { xy: "1", a: "2" })
    expect(lets(matcherOf(format, patterned), call(["y", "1"]))).toBe(false)
    const few = { properties: { a: string }, minProperties: 2, additionalProperties: string }
    expect(lets(matcherOf(format, few), call(["a", "1"]))).toBe(false)
    expectCall(format, few, call(["b", "2"], ["a", "1"]), { b: "2", a: "1" })
  })

  test("names that are listed, where the schema does not speak of others", () => {
    const matcher = matcherOf(format, { properties: { a: string } })
    expect(lets(matcher, call(["a", "x"]))).toBe(true)
    expect(lets(matcher, call(["b", "x"]))).toBe(false)
  })

  test("members behind a reference, and in branches", () => {
    const point = { type: "object", properties: { x: string, y: string }, required: ["x"] }
    const definitions = { point }
    for (const parameters of [
      {
        $schema: "http://json-schema.org/draft-07/schema#",
        $ref: "#/definitions/point",
        definitions,
      },
      { $ref: "#/definitions/point", definitions },
      { allOf: [point] },
      { anyOf: [point, { properties: { z: string }, required: ["z"] }] },
    ]) {
      expectCall(format, parameters, call(["y", "1"], ["x", "2"]), { y: "1", x: "2" })
      expect(lets(matcherOf(format, parameters), call(["y", "1"]))).toBe(false)
      expect(lets(matcherOf(format, parameters), call())).toBe(false)
    }
  })

  test("what a schema says of several arguments together", () => {
    const parameters = {
      properties: { a: string, b: string, c: string },
      dependentRequired: { a: ["b"] },
      oneOf: [{ required: ["a"] }, { required: ["c"] }],
    }
    const matcher = matcherOf(format, parameters)
    const isLet = (names: string) =>
      lets(matcher, call(...Array.from(names, (name): [string, string] => [name, "x"])))
    expect(["ab", "ba", "c", "bc", "cb"].filter((names) => !isLet(names))).toEqual([])
    expect(["", "a", "b", "ac", "abc", "cab"].filter(isLet)).toEqual([])
  })
})

describe("where a call says itself whether a value is a text", () => {
  const told = (isText: boolean, value: string) =>
    `<｜DSML｜function_calls><｜DSML｜invoke name="f"><｜DSML｜parameter name="t" string="${isText}">${value}</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜function_calls>`
  const isLet = (t: unknown, text: string) =>
    lets(matcherOf("deepseek_v32", { properties: { t } }), text)

  test.each<[string, unknown, [boolean, string, Json][], [boolean, string][]]>([
    ["a text", string, [[true, "5", "5"]], [[false, "5"]]],
    ["none", { type: "integer" }, [[false, "5", 5]], [[true, "5"]]],
    [
      "a text or null",
      { type: ["string", "null"] },
      [
        [true, "null", "null"],
        [false, "null", null],
      ],
      [[false, "5"]],
    ],
    [
      "a text or a number",
      { type: ["string", "integer"], maxLength: 2 },
      [
        [true, "5", "5"],
        [false, "5", 5],
      ],
      [[true, "555"]],
    ],
    [
      "what may be a text, but cannot",
      { enum: ["</｜DSML｜parameter>", 5] },
      [[false, "5", 5]],
      [[true, "5"]],
    ],
    [
      "anything",
      {},
      [
        [true, "[5", "[5"],
        [false, "[5]", [5]],
      ],
      [],
    ],
  ])("%s", (_, t, taken, refused) => {
    for (const [isText, written, value] of taken)
      expectCall("deepseek_v32", { properties: { t } }, told(isText, written), { t: value })
    for (const [isText, written] of refused) expect(isLet(t, told(isText, written))).toBe(false)
  })

  test("what is no JSON is a text all the same", () => {
    expect(read("deepseek_v32", {}, [told(false, "[5")])).toEqual([{ t: "[5" }])
  })
})

test("a required name that a format cannot write refuses the tool, or writes a map", () => {
  const parameters = { properties: { "a>b": string }, required: ["a>b"] }
  for (const format of ["qwen3_coder", "glm45", "gemma4"] as const)
    expect(() => matcherOf(format, parameters)).toThrow("can be written as")
  const spaced = { properties: { "a b": string }, required: ["a b"] }
  expectCall(
    "qwen3_coder",
    spaced,
    "<tool_call><function=f><parameter=a b>x</parameter></function></tool_call>",
    { "a b": "x" },
  )
  expectCall("expressions", spaced, '[f(**{"a b": "x"})]', { "a b": "x" })
})

describe("as Gemma 4's template shows calls", () => {
  // format_argument: members by name, names bare, null as Python has it.
  const shown = (value: Json): string => {
    if (value === null) return "None"
    if (typeof value === "string") return `<|"|>${value}<|"|>`
    if (Array.isArray(value)) return `[${value.map(shown).join(",")}]`
    return typeof value === "object" ? `{${membersOf(value)}}` : JSON.stringify(value)
  }
  const membersOf = (value: { [name: string]: Json }) =>
    Object.entries(value)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, each]) => `${name}:${shown(each)}`)
      .join(",")
  const callOf = (value: { [name: string]: Json }) =>
    `<|tool_call>call:f{${membersOf(value)}}<tool_call|>`

  const parameters = {
    type: "object",
    properties: {
      z: { type: ["string", "null"] },
      list: { type: "array", items: { anyOf: [string, { type: "number" }, { type: "null" }] } },
      deep: {
        type: "object",
        properties: { y: string, a: { enum: ["on", "off", ""] }, b: { type: "boolean" } },
        additionalProperties: string,
      },
    },
    required: ["z"],
  }

  test.each<{ [name: string]: Json }>([
    { z: "x" },
    { z: null, list: [] },
    { z: 'a "b"\n<|', list: ["", "é🙂", 1.5, null] },
    { z: "", deep: { a: "on", b: true, y: "{}" } },
    { z: "", deep: { a: "", y: "a:b,c" } },
  ])("%j", (value) => expectCall("gemma4", parameters, callOf(value), value))

  test("in quotes as well, and names that are not listed in quotes", () => {
    const text = `<|tool_call>call:f{deep:{"a:\\"b":"x",y:<|"|>"<|"|>, "a":"off"},z:"null"}<tool_call|>`
    const value = { deep: { 'a:"b': "x", y: '"', a: "off" }, z: "null" }
    expectCall("gemma4", parameters, text, value)
  })

  test("texts of other values than the schema's, and names that come twice, are refused", () => {
    const matcher = matcherOf("gemma4", parameters)
    for (const inside of ['a:<|"|>x<|"|>', 'y:<|"|>a<|"|>,y:<|"|>b<|"|>', 'y:<|"|>a<|"|>,"y":"b"'])
      expect(lets(matcher, `<|tool_call>call:f{z:null,deep:{${inside}}}<tool_call|>`)).toBe(false)
  })
})
