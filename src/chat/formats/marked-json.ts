// Calls as JSON objects, or names and JSON, between fixed marks: what nearly all families write. Of the spellings that are read
// (families.ts) the grammar holds a model to one, and leaves it the blanks that one template has and another has not.

import {
  choice,
  list,
  literal,
  type Part,
  sequence,
  type Trigger,
  text,
} from "../../grammar/grammar.ts"
import type { CallableTool, CallGrammar, CallText } from "./call-grammar.ts"

/** A text, or the ways in which models blank it, the one for prompts first. */
type Spelled = string | readonly string[]

/** How calls are written. */
interface Spelling {
  /** Around all calls of a reply, and between two of them. */
  open: Spelled
  between: Spelled
  close: string
  /** Around the name of a call, and after its arguments. */
  call: readonly [before: Spelled, after: Spelled, end: Spelled]
  /**
   * What opens a call in free text. Written so far, the call is held to the rest of the spelling: `rest` stands between what
   * was written and the arguments. Without `after` a mark opens it, and the name is still to come.
   */
  triggers: readonly { before: string; after?: string; rest: Spelled }[]
  /** Whether there may be text after a call. */
  textAfter: boolean
}

/** Around the name in an object, with blanks as Python's JSON has them and without. */
export const NAME: Spelled = ['{"name": "', '{"name":"']
/** Between two objects of a list. */
export const COMMA: Spelled = [", ", ","]

/** Between the name in an object and its arguments. */
export function named(member: string): Spelled {
  return [`", "${member}": `, `","${member}":`]
}

/** All ways to write one after the other. */
export function spelled(...parts: readonly Spelled[]): readonly string[] {
  return parts.reduce<string[]>(
    (begun, part) => begun.flatMap((text) => [part].flat().map((each) => text + each)),
    [""],
  )
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
export function listBehind(
  mark: string,
  end = "",
  blanks: Spelled = "",
): ReturnType<typeof markedJson> {
  return markedJson({
    open: spelled(mark, blanks, "["),
    between: COMMA,
    close: `]${end}`,
    call: [NAME, named("arguments"), "}"],
    triggers: [{ before: mark, rest: spelled(blanks, "[", NAME) }],
    textAfter: false,
  })
}

function written(calls: readonly CallText[], { open, between, close, call }: Spelling): string {
  const [before, after, end] = call.map(usual)
  const each = calls.map(({ name, arguments: json }) => before + name + after + json + end)
  return usual(open) + each.join(usual(between)) + close
}

function usual(text: Spelled): string {
  return [text].flat()[0]!
}

function oneOf(texts: Spelled): Part {
  return choice(...[texts].flat().map(literal))
}

function callsPart(tools: readonly CallableTool[], spelling: Spelling, most: number): Part {
  const { open, between, close } = spelling
  const calls = list(callPart(tools, spelling), oneOf(between), 1, most)
  return sequence(oneOf(open), calls, literal(close))
}

function callPart(tools: readonly CallableTool[], { call: [before, after, end] }: Spelling): Part {
  return sequence(oneOf(before), argued(tools, after), oneOf(end))
}

/** A name and its arguments. */
function argued(tools: readonly CallableTool[], after: Spelled): Part {
  const between = oneOf(after)
  return choice(...tools.map(({ name, json }) => sequence(literal(name), between, json)))
}

/** Free text in which a call, once it has opened, is held to one of the tools. */
function textWithCalls(tools: readonly CallableTool[], spelling: Spelling, most: number): Part {
  const { between, close, call, triggers, textAfter } = spelling
  const [, after, end] = call
  const others = sequence(oneOf(between), callPart(tools, spelling))
  const further = textAfter
    ? literal("")
    : sequence(list(others, literal(""), 0, most - 1), literal(close))
  const ending = sequence(oneOf(end), further)
  const opened = triggers.flatMap((trigger) => {
    const rest = oneOf(trigger.rest)
    if (trigger.after === undefined) {
      return [opens(trigger.before, sequence(rest, argued(tools, after), ending))]
    }
    return tools.map(({ name, json }) =>
      opens(trigger.before + name + trigger.after, sequence(rest, json, ending)),
    )
  })
  return text(opened, textAfter && most > 1)
}

function opens(open: string, part: Part): Trigger {
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
