// A form of calls that is no JSON between marks, as Qwen3-Coder has it: parameters in XML, one by one, and texts among them
// without quotes, so that only the tool's schema says whether 5 is a text or a number. Its grammar and its parser are all that
// it takes; what the one lets a model write, the other reads.

import { Ajv } from "ajv"
import { expect, test } from "vitest"
import { uniform } from "../../../test/random.ts"
import { choice, list, literal, type Part, sequence, text, until } from "../../grammar/grammar.ts"
import { argumentsSchema } from "../compiled-schemas.ts"
import { Constraints } from "../constraint.ts"
import { Grammars } from "../grammars.ts"
import { TokenBytes } from "../vocabulary.ts"
import type { CallableTool, CallGrammar, ToolMember } from "./call-grammar.ts"
import { CallReader, formats } from "./formats.ts"
import { type Input, NotACall, type Reading, type Tools } from "./input.ts"
import { readValue } from "./json.ts"

const [OPEN, CLOSE] = ["<tool_call><function=", "</function></tool_call>"]

const END_OF_MEMBER = "</parameter>"

const isText = (schema: unknown) => (schema as { type?: unknown } | undefined)?.type === "string"

const memberPart = ({ name, required, schema, json }: ToolMember): Part => {
  const value = isText(schema)
    ? until(END_OF_MEMBER, literal(""))
    : sequence(json, literal(END_OF_MEMBER))
  const written = sequence(literal(`<parameter=${name}>`), value)
  return required ? written : choice(literal(""), written)
}
const rest = (tool: CallableTool) =>
  sequence(literal(`${tool.name}>`), ...tool.members().map(memberPart), literal(CLOSE))

const grammar: CallGrammar = {
  calls: (tools, most) =>
    list(sequence(literal(OPEN), choice(...tools.map(rest))), literal(""), 1, most),
  // biome-ignore lint/suspicious/noThenProperty: nobody awaits a trigger
  text: (tools, most) => text([{ open: OPEN, then: choice(...tools.map(rest)) }], most > 1),
}

function* family(input: Input, tools: Tools): Reading<void> {
  while (yield* input.textUntil(OPEN)) yield* input.attempt(true, call(input, tools))
}

function* call(input: Input, tools: Tools): Reading<void> {
  const name = yield* upTo(input, ">")
  if (!tools.has(name)) throw new NotACall()
  const { properties = {} } = tools.get(name) as { properties?: Record<string, unknown> }
  input.announce(name)
  let written = "{"
  while ((yield* upTo(input, /[=/]/)) === "<parameter") {
    const member = yield* upTo(input, ">")
    input.argue(`${written}${JSON.stringify(member)}: `)
    if (isText(properties[member])) {
      input.argue(JSON.stringify(yield* upTo(input, "<")))
      yield* input.expect(END_OF_MEMBER.slice(1))
    } else {
      yield* readValue(input, (character) => input.argue(character))
      yield* input.expect(END_OF_MEMBER)
    }
    written = ", "
  }
  input.argue(written === "{" ? "{}" : "}")
  yield* input.expect("function></tool_call>")
  input.settle("end")
}

function* upTo(input: Input, end: string | RegExp): Reading<string> {
  for (let found = ""; ; ) {
    const next = yield* input.take()
    if (next === "") throw new NotACall()
    if (typeof end === "string" ? next === end : end.test(next)) return found
    found += next
  }
}

const TOOLS = [
  {
    name: "get_weather",
    strict: true,
    parameters: {
      type: "object",
      properties: {
        place: { $ref: "#/$defs/place" },
        days: { type: "array", items: { type: "integer", minimum: 0, maximum: 6 }, maxItems: 3 },
        note: { type: "string" },
      },
      required: ["place", "note"],
      additionalProperties: false,
      $defs: { place: { type: "string", maxLength: 4 } },
    },
  },
  { name: "now", strict: true, parameters: undefined },
]

const END = 256
const bytes = new TokenBytes(
  Uint8Array.from({ length: 256 }, (_, byte) => byte),
  Uint32Array.from({ length: 258 }, (_, id) => Math.min(id, 256)),
)
const tokens = { size: 257, bytes, special: new Set([END]), stripsLeadingSpace: false }
const options = { tokens, visible: new Set<number>(), ends: [END], toolFormat: "hermes" as const }

test.each([true, false])("parameters in XML, a call required: %s", (required) => {
  const constraints = new Constraints(
    options,
    new Grammars({ toolFormat: "hermes", stripsLeadingSpace: false }, undefined, grammar),
  )
  const held = {
    calls: { tools: TOOLS, required, most: 3 },
    format: undefined,
    reasoning: undefined,
  }
  const random = uniform(3)
  const seen = new Set<string>()
  for (let walk = 0; walk < 60; walk++) {
    const constraint = constraints.hold(held).constraint()
    const reader = new CallReader(
      { ...formats.hermes, family },
      new Map(TOOLS.map((tool) => [tool.name, argumentsSchema(tool)])),
    )
    const written: number[] = []
    const forced = required ? [] : [...Buffer.from(`Let me see. ${OPEN}`)]
    for (;;) {
      const mask = new Uint32Array(Math.ceil(tokens.size / 32))
      constraint.mask(mask)
      const allowed = Array.from({ length: 257 }, (_, id) => id).filter(
        (id) => ((mask[id >>> 5]! >>> (id & 31)) & 1) === 1,
      )
      expect(allowed, Buffer.from(written).toString()).not.toEqual([])
      const plain = allowed.filter((id) => id < 0x80)
      const token =
        forced.shift() ??
        (allowed.includes(END) ? END : plain[Math.floor(random() * plain.length)]!)
      constraint.accept(token)
      if (token === END) break
      written.push(token)
      if (Buffer.from(written).toString().endsWith("<parameter=note>"))
        forced.push(...Buffer.from(`5${END_OF_MEMBER}`))
    }
    const reply = Buffer.from(written).toString()
    const pieces = [
      ...Array.from(reply).flatMap((character) => reader.push(character)),
      ...reader.flush(),
    ]
    const calls = pieces.flatMap((piece) => (piece.kind === "call" ? [piece.name] : []))
    const json = pieces.map((piece) => (piece.kind === "arguments" ? piece.text : "")).join("")
    expect(
      pieces.filter(({ kind }) => kind === "broken"),
      reply,
    ).toEqual([])
    expect(calls, reply).toHaveLength(1)
    const tool = TOOLS.find(({ name }) => name === calls[0])!
    const ajv = new Ajv({ strict: false })
    expect(ajv.validate(tool.parameters ?? { maxProperties: 0 }, JSON.parse(json)), reply).toBe(
      true,
    )
    seen.add(calls[0]!)
  }
  expect(seen).toEqual(new Set(["get_weather", "now"]))
})
