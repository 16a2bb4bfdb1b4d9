// What a grammar lets be written, byte by byte and without a tokenizer.

import { expect, test } from "vitest"
import { Vocabulary } from "../grammar/grammar.ts"
import type { FormatName } from "./formats/formats.ts"
import { type ConstraintSpec, Grammars } from "./grammars.ts"

const TOOLS = ["now", "get_weather"].map((name) => ({ name, parameters: undefined, strict: true }))
const VOCABULARY = new Vocabulary([], [])

/** How much of a text may be written, and whether a reply may end behind it. */
function written(toolFormat: FormatName, text: string, more: Partial<ConstraintSpec> = {}) {
  const calls = { tools: TOOLS, required: true, most: Number.POSITIVE_INFINITY }
  const spec = { calls, format: undefined, reasoning: undefined, ...more }
  const { grammar } = new Grammars({ toolFormat, stripsLeadingSpace: false }).of(spec)
  const matcher = grammar.matcher(VOCABULARY)
  const bytes = Buffer.from(text)
  const wrong = bytes.findIndex((byte) => !matcher.acceptBytes(Uint8Array.of(byte)))
  return {
    text: bytes.subarray(0, wrong < 0 ? undefined : wrong).toString(),
    ends: matcher.canEnd(),
  }
}

// As the templates of Mistral Nemo, which has no blank behind its mark, and Bielik 3, whose system text has calls in one line, and
// as JavaScript writes JSON.
test.each([
  ["mistral", '[TOOL_CALLS][{"name": "now", "arguments": {}}]'],
  ["mistral", '[TOOL_CALLS] [{"name":"now","arguments":{}},{"name":"now","arguments":{}}]'],
  ["nemotron", '<TOOLCALL>[{"name":"now","arguments":{}}]</TOOLCALL>'],
  ["phi4", '<|tool_call|>[{"name":"now","arguments":{}}]<|/tool_call|>'],
  ["granite", '<|tool_call|>[{"name":"now","arguments":{}}]'],
  ["hermes", '<tool_call>{"name": "now", "arguments": {}}</tool_call>'],
  ["hermes", '<tool_call>\n{"name":"now","arguments":{}}\n</tool_call>'],
  ["hermes", '<tool_call>{"name":"now","arguments":{}}</tool_call>'],
  ["llama3", '{"name":"now","parameters":{}}'],
  ["json", '[{"name":"now","arguments":{}},{"name":"now","arguments":{}}]'],
] as const)("%s: a call may be blanked as in %s", (format, call) => {
  for (const required of [true, false]) {
    const calls = { tools: TOOLS, required, most: Number.POSITIVE_INFINITY }
    expect(written(format, call, { calls })).toEqual({ text: call, ends: true })
  }
  const other = call.replace("now", "none")
  expect(written(format, other).text).toBe(other.slice(0, other.indexOf('ne"')))
})
