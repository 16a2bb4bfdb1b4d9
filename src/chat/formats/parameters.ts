// Calls whose arguments stand one by one between marks: Qwen3-Coder's XML, which Seed-OSS marks otherwise, GLM's keys and values,
// MiniMax's XML, which Muse Glimmer writes in tags of its own (atem.ts), and Hy 3's keys and values, where marks stand around all
// calls. A text stands there as it is, without quotes, so that only the tool's schema says whether 5 is a text or a number; all else is JSON.
// DeepSeek V3.2 says of each value whether it is a text. The forms are those of the chat templates that Qwen3-Coder, Seed-OSS, GLM-4.5,
// GLM-4.7, which breaks no lines, MiniMax M2 and Hy 3 are published with, and of DeepSeek's encoder. Qwen's and Seed's show words as Python has them, and Seed's lists, too.

import {
  choice,
  inPython,
  list,
  literal,
  type Part,
  sequence,
  text,
} from "../../grammar/grammar.ts"
import { overlap } from "../stops.ts"
import { type ArgumentKind, kindOfArgument } from "./argument-kinds.ts"
import {
  type ArgumentForm,
  type ArgumentValue,
  type CallableTool,
  type CallGrammar,
  type CallText,
  namesWithout,
} from "./call-grammar.ts"
import { jsonOfLiteral } from "./expressions.ts"
import type { Family } from "./families.ts"
import { type Input, NotACall, type Reading, type Tools } from "./input.ts"

/** How calls are written. Line breaks between the marks are those of the templates; they may be missing. */
export interface Spelling {
  /** What a call opens with, before anything of it is known; or what all calls do. */
  mark: string
  /** Behind the mark, where it opens all of them, and behind the last. */
  all?: readonly [open: string, close: string]
  /** Before a call, the mark included, and between its name and its arguments. */
  open: string
  named: string
  /** Around the name of an argument, and behind its value. */
  member: readonly [before: string, after: string, end: string]
  close: string
  value: ValueSpelling
}

interface ValueSpelling {
  /** The attribute that says whether the value is a text, before the tag's end; absent: its schema says it. */
  told?: string
  /** What ends it, wherever it stands. */
  end: string
  /** Whether it stands in lines of its own: a line break on either side is not part of it. */
  inLines: boolean
  /** What is null where a text may stand. */
  nulls: readonly string[]
  /** Whether what is no text may also be written as Python has it. */
  inPython: boolean
}

const OPEN = "<tool_call>"
const SEED = "<seed:tool_call>"
const PARAMETER_END = "</parameter>"
const VALUE_END = "</arg_value>"

const qwen: Spelling = {
  mark: OPEN,
  open: `${OPEN}\n<function=`,
  named: ">\n",
  member: ["<parameter=", ">", `${PARAMETER_END}\n`],
  close: "</function>\n</tool_call>",
  value: { end: PARAMETER_END, inLines: true, nulls: ["null", "None"], inPython: true },
}

const seed: Spelling = {
  mark: SEED,
  open: `${SEED}\n<function=`,
  named: ">\n",
  member: ["<parameter=", ">", `${PARAMETER_END}\n`],
  close: "</function>\n</seed:tool_call>",
  value: { end: PARAMETER_END, inLines: false, nulls: ["null", "None"], inPython: true },
}

const glm: Spelling = {
  mark: OPEN,
  open: OPEN,
  named: "\n",
  member: ["<arg_key>", "</arg_key>\n<arg_value>", `${VALUE_END}\n`],
  close: "</tool_call>",
  value: { end: VALUE_END, inLines: false, nulls: ["null"], inPython: false },
}

/** XML as MiniMax has it, whose tags begin like this. */
export const invokes = (prefix: string, mark: string, end: string) =>
  ({
    mark,
    all: ["\n", end],
    open: `<${prefix}invoke name="`,
    named: '">\n',
    member: [`<${prefix}parameter name="`, '">', `</${prefix}parameter>\n`],
    close: `</${prefix}invoke>\n`,
    value: {
      end: `</${prefix}parameter>`,
      inLines: false,
      nulls: ["null"],
      inPython: false,
    },
  }) as const satisfies Spelling

const minimax = invokes("", "<minimax:tool_call>", "</minimax:tool_call>")

const DSML = "｜DSML｜"
const invoked = invokes(DSML, `<${DSML}function_calls>`, `</${DSML}function_calls>`)

const dsml = {
  ...invoked,
  member: [invoked.member[0], '"', invoked.member[2]],
  value: { ...invoked.value, told: "string" },
} as const satisfies Spelling

/** What all of Hy 3's marks end with. */
const HY = ":opensource"

const hy: Spelling = {
  mark: `<tool_calls${HY}>`,
  all: ["\n", `</tool_calls${HY}>`],
  open: `<tool_call${HY}>`,
  named: `<tool_sep${HY}>\n`,
  member: [`<arg_key${HY}>`, `</arg_key${HY}>\n<arg_value${HY}>`, `</arg_value${HY}>\n`],
  close: `</tool_call${HY}>\n`,
  value: { end: `</arg_value${HY}>`, inLines: false, nulls: ["null"], inPython: false },
}

export const qwen3Coder = parameters(qwen, readTags("/tool_call", qwen.value))
export const seedOss = parameters(seed, readTags("/seed:tool_call", seed.value))
export const glm45 = parameters(glm, readGlm)
export const minimaxM2 = parameters(minimax, readInvokes("", minimax))
export const deepseek32 = { marks: [DSML], ...parameters(dsml, readInvokes(DSML, dsml)) }
export const hy3 = parameters(hy, readHy)

function parameters(spelling: Spelling, read: (input: Input, tools: Tools) => Reading<void>) {
  const { mark, all } = spelling
  return {
    family: familyOf(mark, read),
    grammar: all ? grammarOfAll(spelling, all) : grammarOf(spelling),
    written: (calls: readonly CallText[]) => {
      const each = calls.map((call) => written(call, spelling))
      return all ? mark + all[0] + each.join("") + all[1] : each.join("\n")
    },
  }
}

// ---- what a model may write ----

function grammarOf(spelling: Spelling): CallGrammar {
  const { open, mark } = spelling
  const rests = (tools: readonly CallableTool[]) =>
    choice(...tools.map((tool) => rest(tool, spelling)))
  const behind = open.slice(mark.length)
  return {
    form: formOf(spelling),
    calls: (tools, most) => {
      const call = sequence(marks(open), rests(tools))
      return sequence(BREAK, list(call, BREAK, 1, most))
    },
    text: (tools, most) => {
      // biome-ignore lint/suspicious/noThenProperty: nobody awaits a trigger
      return text([{ open: mark, then: sequence(marks(behind), rests(tools)) }], most > 1)
    },
  }
}

/** Of calls that have marks around all of them. */
function grammarOfAll(spelling: Spelling, [open, close]: readonly [string, string]): CallGrammar {
  const behind = (tools: readonly CallableTool[], most: number) => {
    const call = sequence(
      literal(spelling.open),
      choice(...tools.map((tool) => rest(tool, spelling))),
    )
    return sequence(marks(open), list(call, literal(""), 1, most), literal(close))
  }
  return {
    form: formOf(spelling),
    calls: (tools, most) => sequence(BREAK, literal(spelling.mark), behind(tools, most)),
    // biome-ignore lint/suspicious/noThenProperty: nobody awaits a trigger
    text: (tools, most) => text([{ open: spelling.mark, then: behind(tools, most) }], false),
  }
}

/** A line break or none. */
const BREAK = choice(literal(""), literal("\n"))

/** Marks without their line breaks, or with any of them. */
export function marks(written: string): Part {
  const [first = "", ...others] = written.split("\n")
  return sequence(literal(first), ...others.flatMap((mark) => [BREAK, literal(mark)]))
}

/** A call from its name on. */
export function rest({ name, members }: CallableTool, { named, close }: Spelling): Part {
  return sequence(literal(name), marks(named), members, marks(close))
}

export function formOf({ member, value }: Spelling): ArgumentForm {
  const [before, after, end] = member
  return {
    before,
    between: "",
    nameEnd: after[0]!,
    names: namesWithout('<>"'),
    end: value.end,
    value: (kind, each) =>
      sequence(marks(after), valuePart(kind, each, value), marks(end.slice(value.end.length))),
  }
}

/** A value up to and with its end mark. */
function valuePart(kind: ArgumentKind, each: ArgumentValue, spelling: ValueSpelling): Part {
  const { end, inLines, nulls, inPython: asPython, told } = spelling
  if (told) return toldPart(kind, each, end, told)
  const { json, plain } = each
  const own = kind === "text" ? plain({ end, inLines }) : undefined
  const text = kind === "text or null" ? plain({ end, inLines, nulls }) : own
  if (text) return text
  const value = asPython && kind === "no text" ? choice(json, inPython(json)) : json
  return sequence(BREAK, value, BREAK, literal(end))
}

/** The same where the value's tag says whether it is a text. */
function toldPart(
  kind: ArgumentKind,
  { json, plain }: ArgumentValue,
  end: string,
  told: string,
): Part {
  const texts = kind === "no text" ? undefined : plain({ end })
  const textPart = texts && sequence(literal(telling(told, true)), texts)
  if (textPart && kind === "text") return textPart
  const jsonPart = sequence(literal(telling(told, false)), json, literal(end))
  return textPart ? choice(textPart, jsonPart) : jsonPart
}

function telling(told: string, isText: boolean): string {
  return ` ${told}="${isText}">`
}

export function written(
  { name, arguments: json }: CallText,
  { open, named, member, close, value: { inLines, told } }: Spelling,
): string {
  const [before, after, end] = member
  const lineBreak = inLines ? "\n" : ""
  const members = Object.entries(JSON.parse(json) as object).map(
    ([key, value]: [string, unknown]) => {
      const isText = typeof value === "string"
      const text = isText ? value : JSON.stringify(value)
      const says = told ? telling(told, isText) : ""
      return before + key + after + says + lineBreak + text + lineBreak + end
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

function readTags(close: string, spelling: ValueSpelling) {
  return function* (input: Input, tools: Tools): Reading<void> {
    const opened = yield* tag(input)
    if (!opened.startsWith("function=")) throw new NotACall()
    const values = announced(input, tools, opened.slice("function=".length), spelling)
    for (let next = yield* tag(input, ANY); next !== "/function"; next = yield* tag(input, ANY)) {
      if (!next.startsWith("parameter=")) throw new NotACall()
      yield* values.read(next.slice("parameter=".length))
    }
    values.end()
    if ((yield* tag(input)) !== close) throw new NotACall()
    yield* afterwards(input)
  }
}

function* readGlm(input: Input, tools: Tools): Reading<void> {
  yield* input.blanks()
  yield* readKeys(input, announced(input, tools, yield* upTo(input, /[\n<]/), glm.value))
  yield* afterwards(input)
}

function* readHy(input: Input, tools: Tools): Reading<void> {
  let next = yield* tag(input)
  do {
    if (next !== `tool_call${HY}`) throw new NotACall()
    const values = announced(input, tools, yield* upTo(input, /</), hy.value)
    if ((yield* tag(input)) !== `tool_sep${HY}`) throw new NotACall()
    yield* readKeys(input, values, HY)
    next = yield* tag(input)
  } while (next !== `/tool_calls${HY}`)
  yield* afterwards(input)
}

/** Keys and values up to the end of the call. */
function* readKeys(input: Input, values: Values, suffix = ""): Reading<void> {
  const [open, close] = [`arg_key${suffix}`, `/tool_call${suffix}`]
  for (let next = yield* tag(input); next !== close; next = yield* tag(input)) {
    if (next !== open) throw new NotACall()
    const key = yield* upTo(input, /</, ANY)
    if ((yield* tag(input)) !== `/${open}` || (yield* tag(input)) !== `arg_value${suffix}`)
      throw new NotACall()
    yield* values.read(key)
  }
  values.end()
}

/** Behind the mark. */
export function readInvokes(
  prefix: string,
  { all, value }: Pick<ReturnType<typeof invokes>, "all"> & Pick<Spelling, "value">,
) {
  const [invoke, parameter] = [`${prefix}invoke`, `${prefix}parameter`]
  return function* (input: Input, tools: Tools): Reading<void> {
    let next = yield* tag(input)
    do {
      const values = announced(input, tools, quoted(next, invoke), value)
      for (next = yield* tag(input, ANY); next !== `/${invoke}`; next = yield* tag(input, ANY)) {
        const [own, kind] = value.told ? told(next, value.told) : [next]
        yield* values.read(quoted(own, parameter), kind)
      }
      values.end()
      next = yield* tag(input)
    } while (`<${next}>` !== all[1])
    yield* afterwards(input)
  }
}

/** A tag without its last attribute, `string="true"`, which says whether the value is a text. */
function told(tag: string, attribute: string): [tag: string, kind: ArgumentKind] {
  for (const isText of [true, false]) {
    const end = telling(attribute, isText).slice(0, -1)
    if (tag.endsWith(end)) return [tag.slice(0, -end.length), isText ? "text" : "no text"]
  }
  throw new NotACall()
}

/** The name in a tag, `invoke name="NAME"`. */
function quoted(tag: string, kind: string): string {
  const [before, after] = [`${kind} name="`, '"']
  if (!tag.startsWith(before) || !tag.endsWith(after)) throw new NotACall()
  return tag.slice(before.length, -after.length)
}

function* afterwards(input: Input): Reading<void> {
  yield* input.blanks()
  input.settle("nothing")
}

/** What stands between the next < and its >, after blanks. */
export function* tag(input: Input, most?: number): Reading<string> {
  yield* input.blanks()
  yield* input.expect("<")
  const name = yield* upTo(input, />/, most)
  yield* input.take()
  return name
}

const MAX_NAME = 200
/** The name of an argument may be as long as the schema has it. */
export const ANY = Number.POSITIVE_INFINITY

/** Reads up to one of some characters, which is still to come. */
export function* upTo(input: Input, end: RegExp, most = MAX_NAME): Reading<string> {
  for (let found = ""; ; found += yield* input.take()) {
    const next = yield* input.peek()
    if (next === "" || found.length > most) throw new NotACall()
    if (end.test(next)) return found.trim()
  }
}

function announced(input: Input, tools: Tools, name: string, spelling: ValueSpelling): Values {
  if (!tools.has(name)) throw new NotACall()
  input.announce(name)
  return new Values(input, tools.get(name), spelling)
}

/** A call's arguments, which become the JSON of an object. */
class Values {
  readonly #input: Input
  readonly #schema: unknown
  readonly #spelling: ValueSpelling
  readonly #seen = new Set<string>()

  constructor(input: Input, schema: unknown, spelling: ValueSpelling) {
    this.#input = input
    this.#schema = schema
    this.#spelling = spelling
  }

  /** A value up to its end mark. */
  *read(key: string, kind = kindOfArgument(this.#schema, key)): Reading<void> {
    if (this.#seen.has(key)) throw new NotACall()
    this.#input.argue(`${this.#seen.size === 0 ? "{" : ", "}${JSON.stringify(key)}: `)
    this.#seen.add(key)
    if (kind === "text" || kind === "text or null") return yield* this.#readText(kind)
    let text = ""
    yield* this.#readUntilEnd((piece) => {
      text += piece
    })
    const inPython = this.#spelling.inPython && kind === "no text"
    const json = isJson(text) ? text.trim() : inPython && jsonOfLiteral(text)
    this.#input.argue(json || JSON.stringify(text))
  }

  /** What may become null waits until it cannot. */
  *#readText(kind: ArgumentKind): Reading<void> {
    const nulls = kind === "text" ? [] : this.#spelling.nulls
    let begun = ""
    let isText = false
    yield* this.#readUntilEnd((piece) => {
      begun += piece
      if (!isText && nulls.some((word) => word.startsWith(begun))) return
      this.#input.argue((isText ? "" : '"') + inQuotes(begun))
      isText = true
      begun = ""
    })
    const isNull = !isText && nulls.includes(begun)
    this.#input.argue(isNull ? "null" : `${isText ? "" : `"${inQuotes(begun)}`}"`)
  }

  *#readUntilEnd(sink: (piece: string) => void): Reading<void> {
    const { end, inLines } = this.#spelling
    if (inLines && (yield* this.#input.peek()) === "\n") yield* this.#input.take()
    yield* readUntil(this.#input, end, sink, inLines ? "\n" : "")
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

function inQuotes(text: string): string {
  return JSON.stringify(text).slice(1, -1)
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}
