// The textual list of calls in which the specification's clients see them: [get_weather(location="Pittsburgh, PA"), …].
// Writing and reading it are inverse: the maps come back exactly, numbers as they were spelled.

import type { CallText } from "./call-grammar.ts"
import { writeCall } from "./expressions.ts"
import { CallReader, formats } from "./formats.ts"
import type { CallPiece } from "./input.ts"

/** `quoted` writes the older form, a list of strings. */
export function writeCallList(calls: readonly CallText[], style: "plain" | "quoted"): string {
  const written = calls.map((call) => writeCall(call, isArgument))
  return `[${(style === "quoted" ? written.map(quoted) : written).join(", ")}]`
}

// A name of Python that cannot be a keyword argument makes the whole map one argument.
const KEYWORDS = new Set(
  "False None True and as assert async await break class continue def del elif else except finally for from global if import in is lambda nonlocal not or pass raise return try while with yield".split(
    " ",
  ),
)
const IDENTIFIER = /^[\p{ID_Start}_][\p{ID_Continue}]*$/u

function isArgument(name: string): boolean {
  return IDENTIFIER.test(name) && !KEYWORDS.has(name)
}

function quoted(text: string): string {
  return `'${text.replace(/[\\']/g, "\\$&")}'`
}

/** The calls of such a list in either form, with quotes of either kind; undefined when the text is none. */
export function readCallList(text: string): CallText[] | undefined {
  return readPlain(unquoted(text) ?? text)
}

function readPlain(text: string): CallText[] | undefined {
  const reader = new CallReader(formats.expressions, { has: () => true, get: () => undefined })
  const calls: CallText[] = []
  let ended = 0
  for (const piece of [...reader.push(text), ...reader.flush()] as CallPiece[]) {
    if (piece.kind === "call") calls.push({ name: piece.name, arguments: "" })
    else if (piece.kind === "arguments") calls.at(-1)!.arguments += piece.text
    else if (piece.kind === "end") ended++
    else if (piece.kind !== "nothing") return undefined
  }
  return ended === calls.length && ended > 0 ? calls : undefined
}

/** ['f(a=1)', "g()"] as [f(a=1), g()]. */
function unquoted(text: string): string | undefined {
  if (!/^\s*\[\s*['"]/.test(text)) return undefined
  const list = readPlain(`[list(calls=${text})]`)
  if (!list) return undefined
  const { calls } = JSON.parse(list[0]!.arguments) as { calls: unknown[] }
  return calls.every((call) => typeof call === "string") ? `[${calls.join(", ")}]` : undefined
}
