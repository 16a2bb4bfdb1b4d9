// Calls of Command R7B and Command A: a list of objects between marks, numbered. The form is that of the chat template that the
// models are published with; what stands around their thinking and their answers is in reasoning.ts.
//
//     <|START_ACTION|>[
//         {"tool_call_id": "0", "tool_name": "NAME", "parameters": {…}}
//     ]<|END_ACTION|>

import { choice, list, literal, type Part, sequence, text } from "../../grammar/grammar.ts"
import { type CallableTool, type CallGrammar, type CallText, callNumber } from "./call-grammar.ts"
import { behind } from "./families.ts"

const OPEN = "<|START_ACTION|>"
const CLOSE = "<|END_ACTION|>"
const FIRST = "[\n    "
const BETWEEN = ",\n    "
const LAST = `\n]${CLOSE}`

export const cohere = {
  marks: [OPEN, CLOSE],
  family: behind([OPEN], CLOSE, { name: "tool_name", others: ["tool_call_id"] }),
  grammar: {
    calls: (tools, most) => sequence(literal(OPEN), listPart(tools, most)),
    // biome-ignore lint/suspicious/noThenProperty: nobody awaits a trigger
    text: (tools, most) => text([{ open: OPEN, then: listPart(tools, most) }], false),
  } satisfies CallGrammar,
  written: (calls: readonly CallText[]) => OPEN + FIRST + calls.map(written).join(BETWEEN) + LAST,
}

const NUMBER = '{"tool_call_id": "'
const NAME = '", "tool_name": "'
const ARGUMENTS = '", "parameters": '

function written({ name, arguments: json }: CallText, number: number): string {
  return `${NUMBER}${number}${NAME}${name}${ARGUMENTS}${json}}`
}

function listPart(tools: readonly CallableTool[], most: number): Part {
  const named = choice(
    ...tools.map(({ name, json }) => sequence(literal(name + ARGUMENTS), json, literal("}"))),
  )
  const call = sequence(literal(NUMBER), callNumber, literal(NAME), named)
  return sequence(literal(FIRST), list(call, literal(BETWEEN), 1, most), literal(LAST))
}
