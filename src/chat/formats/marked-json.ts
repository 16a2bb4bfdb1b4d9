// Calls as JSON objects, or names and JSON, between fixed marks: what nearly all families write. Of the spellings that are read
// (families.ts) the grammar holds a model to one.

import { choice, list, literal, type Part, sequence, text } from "../../grammar/grammar.ts"
import type { CallableTool, CallGrammar, CallText } from "./call-grammar.ts"

/** How calls are written. */
interface Spelling {
  /** Around all calls of a reply, and between two of them. */
  open: string
  between: string
  close: string
  /** Around the name of a call, and after its arguments. */
  call: readonly [before: string, after: string, end: string]
  /**
   * What opens a call in free text. Written so far, the call is held to the rest of the spelling: `rest` stands between what
   * was written and the arguments. Without `after` a mark opens it, and the name is still to come.
   */
  triggers: readonly { before: string; after?: string; rest: string }[]
  /** Whether there may be text after a call. */
  textAfter: boolean
}

export function markedJson(spelling: Spelling): {
  grammar: CallGrammar
  written: (calls: readonly CallText[]) => string
} {
  return {
    grammar: {
      calls: (tools, most) => callsPart(tools, spelling, most),
      text: (tools, most) => textWithCalls(tools, spelling, most),
    },
    written: (calls) => written(calls, spelling),
  }
}

/** A list of objects with name and arguments behind a mark, which is all that the rest of the reply is. */
export function listBehind(mark: string, end = "", blank = ""): ReturnType<typeof markedJson> {
  return markedJson({
    open: `${mark}${blank}[`,
    between: ", ",
    close: `]${end}`,
    call: ['{"name": "', '", "arguments": ', "}"],
    triggers: [{ before: mark, rest: `${blank}[{"name": "` }],
    textAfter: false,
  })
}

function written(calls: readonly CallText[], { open, between, close, call }: Spelling): string {
  const [before, after, end] = call
  const each = calls.map(({ name, arguments: json }) => before + name + after + json + end)
  return open + each.join(between) + close
}

function callsPart(tools: readonly CallableTool[], spelling: Spelling, most: number): Part {
  const { open, between, close } = spelling
  const calls = list(
    choice(...tools.map((tool) => callPart(tool, spelling))),
    literal(between),
    1,
    most,
  )
  return sequence(literal(open), calls, literal(close))
}

function callPart({ name, json }: CallableTool, { call: [before, after, end] }: Spelling): Part {
  return sequence(literal(before + name + after), json, literal(end))
}

/** Free text in which a call, once it has opened, is held to one of the tools. */
function textWithCalls(tools: readonly CallableTool[], spelling: Spelling, most: number): Part {
  const { between, close, call, triggers, textAfter } = spelling
  const [, after, end] = call
  const others = choice(...tools.map((tool) => callPart(tool, spelling)))
  const further = textAfter
    ? literal("")
    : sequence(list(sequence(literal(between), others), literal(""), 0, most - 1), literal(close))
  const ending = sequence(literal(end), further)
  const opened = triggers.flatMap((trigger) => {
    if (trigger.after === undefined) {
      const named = tools.map(({ name, json }) =>
        sequence(literal(trigger.rest + name + after), json),
      )
      return [opens(trigger.before, sequence(choice(...named), ending))]
    }
    return tools.map(({ name, json }) =>
      opens(trigger.before + name + trigger.after, sequence(literal(trigger.rest), json, ending)),
    )
  })
  return text(opened, textAfter && most > 1)
}

function opens(open: string, part: Part): { open: string; then: Part } {
  // biome-ignore lint/suspicious/noThenProperty: nobody awaits a trigger
  return { open, then: part }
}

/** The beginnings of a call as an object, as models blank it; some say before the name that it is a function. */
export function heads(members: readonly string[], open: string): Spelling["triggers"] {
  const spaced = [`${open}{"name": "`, `${open}{"type": "function", "name": "`]
  const compact = [`${open}{"name":"`, `${open}{"type":"function","name":"`]
  return members.flatMap((member) => [
    ...spaced.map((before) => ({ before, after: `", "${member}": `, rest: "" })),
    ...compact.map((before) => ({ before, after: `","${member}":`, rest: "" })),
    { before: spaced[0]!, after: `","${member}": `, rest: "" },
  ])
}
