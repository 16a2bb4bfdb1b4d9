// Calls whose arguments stand one by one between marks: Qwen3-Coder's XML, which Seed-OSS marks otherwise, GLM's keys and values. A
// text stands there as it is, without quotes, so that only the tool's schema says whether 5 is a text or a number; all else is JSON.
// The forms are those of the chat templates that Qwen3-Coder, Seed-OSS and GLM-4.5 are published with.

import { choice, list, literal, type Part, sequence, text } from "../../grammar/grammar.ts"
import { overlap } from "../stops.ts"
import type { CallableTool, CallGrammar, CallText, ToolMember } from "./call-grammar.ts"
import type { Family } from "./families.ts"
import { type Input, NotACall, type Reading, type Tools } from "./input.ts"

/** How calls are written; what stands between the marks is blanks. */
interface Spelling {
  /** What a call opens with, before anything of it is known. */
  mark: string
  /** Before a call, the mark included, and between its name and its arguments. */
  open: string
  named: string
  /** Around the name of an argument, and behind its value. */
  member: readonly [before: string, after: string, end: string]
  close: string
}

const OPEN = "<tool_call>"
const SEED = "<seed:tool_call>"

const qwen: Spelling = {
  mark: OPEN,
  open: `${OPEN}\n<function=`,
  named: ">\n",
  member: ["<parameter=", ">\n", "\n</parameter>\n"],
  close: "</function>\n</tool_call>",
}

const seed: Spelling = {
  mark: SEED,
  open: `${SEED}\n<function=`,
  named: ">\n",
  member: ["<parameter=", ">", "</parameter>\n"],
  close: "</function>\n</seed:tool_call>",
}

const glm: Spelling = {
  mark: OPEN,
  open: OPEN,
  named: "\n",
  member: ["<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>\n"],
  close: "</tool_call>",
}

export const qwen3Coder = parameters(qwen, readTags("/tool_call"))
export const seedOss = parameters(seed, readTags("/seed:tool_call"))
export const glm45 = parameters(glm, readGlm)

function parameters(spelling: Spelling, read: (input: Input, tools: Tools) => Reading<void>) {
  return {
    family: familyOf(spelling.mark, read),
    grammar: grammarOf(spelling),
    written: (calls: readonly CallText[]) =>
      calls.map((call) => written(call, spelling)).join("\n"),
  }
}

/** Whether a value stands there as it is. */
export function isText(schema: unknown): boolean {
  return (schema as { type?: unknown } | undefined)?.type === "string"
}

// ---- what a model may write ----

function grammarOf(spelling: Spelling): CallGrammar {
  const { open, mark } = spelling
  const rests = (tools: readonly CallableTool[]) =>
    choice(...tools.map((tool) => rest(tool, spelling)))
  const behind = open.slice(mark.length)
  return {
    calls: (tools, most) => list(sequence(literal(open), rests(tools)), literal("\n"), 1, most),
    text: (tools, most) => {
      // biome-ignore lint/suspicious/noThenProperty: nobody awaits a trigger
      return text([{ open: mark, then: sequence(literal(behind), rests(tools)) }], most > 1)
    },
  }
}

/** A call from its name on. */
function rest(tool: CallableTool, spelling: Spelling): Part {
  const members = tool.members().map((member) => {
    const part = memberPart(member, spelling)
    return member.required ? part : choice(literal(""), part)
  })
  return sequence(literal(tool.name + spelling.named), ...members, literal(spelling.close))
}

function memberPart({ name, schema, json, plain }: ToolMember, { member }: Spelling): Part {
  const [before, after, end] = member
  const value = isText(schema) ? plain(end) : sequence(json, literal(end))
  return sequence(literal(before + name + after), value)
}

function written(
  { name, arguments: json }: CallText,
  { open, named, member, close }: Spelling,
): string {
  const [before, after, end] = member
  const members = Object.entries(JSON.parse(json) as object).map(
    ([key, value]: [string, unknown]) => {
      const text = typeof value === "string" ? value : JSON.stringify(value)
      return before + key + after + text + end
    },
  )
  return open + name + named + members.join("") + close
}

// ---- what is read ----

function familyOf(mark: string, read: (input: Input, tools: Tools) => Reading<void>): Family {
  return function* (input, tools) {
    while (yield* input.textUntil(mark)) {
      if (!(yield* input.attempt(true, read(input, tools)))) return yield* input.restIsText()
    }
  }
}

function readTags(close: string) {
  return function* (input: Input, tools: Tools): Reading<void> {
    const opened = yield* tag(input)
    if (!opened.startsWith("function=")) throw new NotACall()
    const values = announced(input, tools, opened.slice("function=".length))
    for (let next = yield* tag(input); next !== "/function"; next = yield* tag(input)) {
      if (!next.startsWith("parameter=")) throw new NotACall()
      if ((yield* input.peek()) === "\n") yield* input.take()
      yield* values.read(next.slice("parameter=".length), "</parameter>")
    }
    values.end()
    if ((yield* tag(input)) !== close) throw new NotACall()
    yield* afterwards(input)
  }
}

function* readGlm(input: Input, tools: Tools): Reading<void> {
  yield* input.blanks()
  const values = announced(input, tools, yield* upTo(input, /[\n<]/))
  for (let next = yield* tag(input); next !== "/tool_call"; next = yield* tag(input)) {
    if (next !== "arg_key") throw new NotACall()
    const key = yield* upTo(input, /</)
    if ((yield* tag(input)) !== "/arg_key" || (yield* tag(input)) !== "arg_value")
      throw new NotACall()
    yield* values.read(key, "</arg_value>")
  }
  values.end()
  yield* afterwards(input)
}

function* afterwards(input: Input): Reading<void> {
  yield* input.blanks()
  input.settle("nothing")
}

/** What stands between the next < and its >, after blanks. */
export function* tag(input: Input): Reading<string> {
  yield* input.blanks()
  yield* input.expect("<")
  const name = yield* upTo(input, />/)
  yield* input.take()
  return name
}

const MAX_NAME = 200

/** Reads up to one of some characters, which is still to come. */
export function* upTo(input: Input, end: RegExp): Reading<string> {
  for (let found = ""; ; found += yield* input.take()) {
    const next = yield* input.peek()
    if (next === "" || found.length > MAX_NAME) throw new NotACall()
    if (end.test(next)) return found.trim()
  }
}

function announced(input: Input, tools: Tools, name: string): Values {
  if (!tools.has(name)) throw new NotACall()
  const { properties } = (tools.get(name) ?? {}) as { properties?: Record<string, unknown> }
  input.announce(name)
  return new Values(input, properties ?? {})
}

/** A call's arguments, which become the JSON of an object. */
class Values {
  readonly #input: Input
  readonly #properties: Readonly<Record<string, unknown>>
  readonly #seen = new Set<string>()

  constructor(input: Input, properties: Readonly<Record<string, unknown>>) {
    this.#input = input
    this.#properties = properties
  }

  /** A value up to its end mark; one line break before that is not its own. */
  *read(key: string, end: string): Reading<void> {
    if (this.#seen.has(key)) throw new NotACall()
    this.#input.argue(`${this.#seen.size === 0 ? "{" : ", "}${JSON.stringify(key)}: `)
    this.#seen.add(key)
    const schema = Object.hasOwn(this.#properties, key) ? this.#properties[key] : undefined
    if (isText(schema)) {
      this.#input.argue('"')
      const say = (piece: string) => this.#input.argue(JSON.stringify(piece).slice(1, -1))
      yield* readUntil(this.#input, end, say, "\n")
      this.#input.argue('"')
      return
    }
    let text = ""
    const keep = (piece: string) => {
      text += piece
    }
    yield* readUntil(this.#input, end, keep, "\n")
    this.#input.argue(isJson(text) ? text.trim() : JSON.stringify(text))
  }

  end(): void {
    this.#input.argue(this.#seen.size === 0 ? "{}" : "}")
    this.#input.settle("end")
  }
}

/** Hands on what stands before a mark as soon as it cannot belong to the mark, or be what may stand before that. */
export function* readUntil(
  input: Input,
  end: string,
  sink: (piece: string) => void,
  before = "",
): Reading<void> {
  for (let held = ""; ; ) {
    const next = yield* input.take()
    if (next === "") throw new NotACall()
    held += next
    if (held.endsWith(end)) {
      const text = held.slice(0, -end.length)
      sink(before !== "" && text.endsWith(before) ? text.slice(0, -before.length) : text)
      return
    }
    const begun = Math.max(overlap(held, end), overlap(held, before + end))
    const isHalf = begun === 0 && /[\ud800-\udbff]$/.test(next) // of a character
    const ready = held.length - (isHalf ? 1 : begun)
    if (ready > 0) sink(held.slice(0, ready))
    held = held.slice(ready)
  }
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
