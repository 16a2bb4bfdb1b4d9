// How the families of models write calls, as parsers over input.ts. After a call only blanks and further calls are markers;
// anything else is text again.

import { readArgumentList } from "./expressions.ts"
import { type Input, NotACall, type Reading, type Tools } from "./input.ts"
import { type CallMembers, readCallObject, readValue } from "./json.ts"

export type Family = (input: Input, tools: Tools) => Reading<void>

/** Hermes, Qwen: <tool_call>{"name": …, "arguments": …}</tool_call>, anywhere in the text. */
export function* hermes(input: Input, tools: Tools): Reading<void> {
  while (yield* input.textUntil("<tool_call>")) {
    const read = yield* input.attempt(
      true,
      (function* () {
        yield* input.blanks()
        yield* readCallObject(input, tools)
        yield* input.blanks()
        if ((yield* input.peek()) !== "") yield* input.expect("</tool_call>")
        yield* input.blanks()
        input.settle("nothing")
      })(),
    )
    if (!read) return yield* input.restIsText()
  }
}

/** Mistral: [TOOL_CALLS] [{"name": …, "arguments": …}, …], and the newer [TOOL_CALLS]name[ARGS]{…}. */
export function* mistral(input: Input, tools: Tools): Reading<void> {
  while (yield* input.textUntil("[TOOL_CALLS]")) {
    const read = yield* input.attempt(
      true,
      (function* () {
        yield* input.blanks()
        if ((yield* input.peek()) === "[") yield* readList(input, tools)
        else yield* readNamed(input, tools)
        yield* input.blanks()
        input.settle("nothing")
      })(),
    )
    if (!read) return yield* input.restIsText()
  }
}

function* readNamed(input: Input, tools: Tools): Reading<void> {
  let head = ""
  for (;;) {
    const next = yield* input.peek()
    if (next === "{") break
    if (next === "" || head.length > 200) throw new NotACall()
    head += yield* input.take()
  }
  // name[CALL_ID]id[ARGS]: what stands between the name and the arguments is not ours.
  const name = head.split("[", 1)[0]!.trim()
  if (!tools.has(name)) throw new NotACall()
  input.announce(name)
  yield* readValue(input, (character) => input.argue(character))
  input.settle("end")
}

/**
 * Llama 3: the whole reply is {"name": …, "parameters": …}, several are separated by semicolons. After <|python_tag|>,
 * which may come later, also name.call(key="value", …).
 */
export function* llama3(input: Input, tools: Tools): Reading<void> {
  const calls = function* (): Reading<void> {
    yield* input.blanks()
    for (;;) {
      if ((yield* input.peek()) === "{") yield* readCallObject(input, tools)
      else yield* readDotCall(input, tools)
      yield* input.blanks()
      if ((yield* input.peek()) === ";") yield* input.take()
      yield* input.blanks()
      input.settle("nothing")
      if ((yield* input.peek()) !== "{") return
    }
  }
  yield* input.blanks()
  if ((yield* input.peek()) === "{") yield* input.attempt(false, calls())
  while (yield* input.textUntil("<|python_tag|>")) yield* input.attempt(true, calls())
}

function* readDotCall(input: Input, tools: Tools): Reading<void> {
  let name = ""
  while (/[\w.-]/.test(yield* input.peek())) name += yield* input.take()
  if (!name.endsWith(".call")) throw new NotACall()
  name = name.slice(0, -".call".length)
  yield* input.expect("(")
  if (!tools.has(name)) throw new NotACall()
  input.announce(name)
  yield* readArgumentList(input)
  input.settle("end")
}

/** Plain JSON: the whole reply is one object of a call or a list of them. */
export function* json(input: Input, tools: Tools): Reading<void> {
  yield* input.attempt(
    false,
    (function* () {
      yield* input.blanks()
      if ((yield* input.peek()) === "[") yield* readList(input, tools)
      else yield* readCallObject(input, tools)
      yield* input.blanks()
      input.settle("nothing")
    })(),
  )
}

/** Behind a mark an object of a call or a list of them, anywhere in the text; what closes it may be missing. */
export function behind(
  marks: readonly string[],
  close: string | undefined,
  members?: CallMembers,
): Family {
  return function* (input, tools) {
    while (yield* input.textUntil(marks)) {
      if (!(yield* input.attempt(true, readBehind(input, tools, close, members))))
        return yield* input.restIsText()
    }
  }
}

function* readBehind(
  input: Input,
  tools: Tools,
  close: string | undefined,
  members: CallMembers | undefined,
): Reading<void> {
  yield* input.blanks()
  if ((yield* input.peek()) === "[") yield* readList(input, tools, members)
  else yield* readCallObject(input, tools, members)
  yield* input.blanks()
  if (close !== undefined && (yield* input.peek()) === close[0]) yield* input.expect(close)
  yield* input.blanks()
  input.settle("nothing")
}

export function* readList(input: Input, tools: Tools, members?: CallMembers): Reading<void> {
  yield* input.expect("[")
  do {
    yield* input.blanks()
    yield* readCallObject(input, tools, members)
    yield* input.blanks()
  } while (yield* input.comma())
  yield* input.expect("]")
}
