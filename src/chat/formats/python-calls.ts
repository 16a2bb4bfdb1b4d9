// Lists of calls as Python writes them, [name(key="value", …), …]: as a whole reply, which Llama 4 and others write, or between
// marks anywhere in the text, as LFM2 has them (docs.liquid.ai/lfm/key-concepts/tool-use). OLMo 3's template has a line for each
// call, whose values are JSON.
//
//     <|tool_call_start|>[get_weather(place="Köln", days=[1, 2])]<|tool_call_end|>
//     <function_calls>get_weather(place="Köln", rain=true)
//     now()</function_calls>

import {
  choice,
  inPython,
  list,
  literal,
  type Part,
  sequence,
  text,
} from "../../grammar/grammar.ts"
import type { ArgumentForm, CallableTool, CallGrammar, CallText } from "./call-grammar.ts"
import { isKey, KEY, readExpression, writeCall } from "./expressions.ts"
import type { Input, Reading, Tools } from "./input.ts"
import { readCallObject } from "./json.ts"

const OPEN = "<|tool_call_start|>"
const CLOSE = "<|tool_call_end|>"
const OLMO_OPEN = "<function_calls>"
const OLMO_CLOSE = "</function_calls>"
const BETWEEN = ", "

const pythonForm = formOf(inPython)
const jsonForm = formOf((json) => json)

export const expressions = {
  family: readReply,
  grammar: {
    form: pythonForm,
    calls: (tools, most) => sequence(literal("["), listPart(tools, most), literal("]")),
    text: (tools, most) => {
      const further = list(sequence(literal(BETWEEN), anyOf(tools)), literal(""), 0, most - 1)
      const opened = tools.map((tool) => ({
        open: `[${tool.name}(`,
        // biome-ignore lint/suspicious/noThenProperty: nobody awaits a trigger
        then: sequence(argumentsPart(tool), further, literal("]")),
      }))
      return text(opened, false)
    },
  } satisfies CallGrammar,
  written,
}

export const lfm2 = {
  marks: [OPEN, CLOSE],
  family: readMarked,
  grammar: {
    form: pythonForm,
    calls: (tools, most) => sequence(literal(OPEN), markedPart(tools, most)),
    // biome-ignore lint/suspicious/noThenProperty: nobody awaits a trigger
    text: (tools, most) => text([{ open: OPEN, then: markedPart(tools, most) }], most > 1),
  } satisfies CallGrammar,
  written: (calls: readonly CallText[]) => OPEN + written(calls) + CLOSE,
}

export const olmo3 = {
  marks: [OLMO_OPEN, OLMO_CLOSE],
  family: readLines,
  grammar: {
    form: jsonForm,
    calls: (tools, most) => sequence(literal(OLMO_OPEN), linesPart(tools, most)),
    // biome-ignore lint/suspicious/noThenProperty: nobody awaits a trigger
    text: (tools, most) => text([{ open: OLMO_OPEN, then: linesPart(tools, most) }], most > 1),
  } satisfies CallGrammar,
  written: (calls: readonly CallText[]) =>
    OLMO_OPEN + calls.map((call) => writeCall(call, isKey, "json")).join("\n") + OLMO_CLOSE,
}

function written(calls: readonly CallText[]): string {
  return `[${calls.map((call) => writeCall(call, isKey)).join(BETWEEN)}]`
}

// ---- what a model may write ----

function markedPart(tools: readonly CallableTool[], most: number): Part {
  return sequence(literal("["), listPart(tools, most), literal(`]${CLOSE}`))
}

function linesPart(tools: readonly CallableTool[], most: number): Part {
  return sequence(list(anyOf(tools), literal("\n"), 1, most), literal(OLMO_CLOSE))
}

function listPart(tools: readonly CallableTool[], most: number): Part {
  return list(anyOf(tools), literal(BETWEEN), 1, most)
}

function anyOf(tools: readonly CallableTool[]): Part {
  return choice(...tools.map((tool) => sequence(literal(`${tool.name}(`), argumentsPart(tool))))
}

/** Arguments and what closes them. */
function argumentsPart({ members }: CallableTool): Part {
  return sequence(members, literal(")"))
}

/** Arguments by their names, or all as one map where one has a name that does not stand before an equals sign. */
function formOf(written: (json: Part) => Part): ArgumentForm {
  return {
    before: "",
    between: BETWEEN,
    nameEnd: "=",
    names: KEY,
    value: (_, { json }) => sequence(literal("="), written(json)),
    whole: (json) => sequence(literal("**"), written(json)),
  }
}

// ---- what is read ----

function* readReply(input: Input, tools: Tools): Reading<void> {
  yield* input.attempt(
    false,
    (function* () {
      yield* input.blanks()
      yield* readList(input, () => readExpression(input, tools))
      yield* input.blanks()
      input.settle("nothing")
    })(),
  )
}

function* readMarked(input: Input, tools: Tools): Reading<void> {
  while (yield* input.textUntil(OPEN)) {
    if (!(yield* input.attempt(true, readMarkedList(input, tools))))
      return yield* input.restIsText()
  }
}

/** Some templates show past calls as JSON objects, and models follow them. */
function* readMarkedList(input: Input, tools: Tools): Reading<void> {
  yield* input.blanks()
  yield* readList(input, function* () {
    const isObject = (yield* input.peek()) === "{"
    yield* isObject ? readCallObject(input, tools) : readExpression(input, tools)
  })
  yield* input.blanks()
  if ((yield* input.peek()) !== "") yield* input.expect(CLOSE)
  yield* input.blanks()
  input.settle("nothing")
}

/** A line for each call, or one list of them. */
function* readLines(input: Input, tools: Tools): Reading<void> {
  while (yield* input.textUntil(OLMO_OPEN)) {
    if (!(yield* input.attempt(true, readMarkedLines(input, tools))))
      return yield* input.restIsText()
  }
}

function* readMarkedLines(input: Input, tools: Tools): Reading<void> {
  yield* input.blanks()
  if ((yield* input.peek()) === "[") yield* readList(input, () => readExpression(input, tools))
  else
    do {
      yield* readExpression(input, tools)
      yield* input.blanks()
    } while (!["<", ""].includes(yield* input.peek()))
  yield* input.blanks()
  if ((yield* input.peek()) !== "") yield* input.expect(OLMO_CLOSE)
  yield* input.blanks()
  input.settle("nothing")
}

function* readList(input: Input, readOne: () => Reading<void>): Reading<void> {
  yield* input.expect("[")
  do {
    yield* input.blanks()
    yield* readOne()
    yield* input.blanks()
  } while (yield* input.comma())
  yield* input.expect("]")
}
