// What a format's grammar is made of, whatever its form: calls as JSON between marks (marked-json.ts), parameters in XML,
// channels. It is given the tools, their arguments compiled, and makes parts of them.

import { choice, literal, type Part, sequence } from "../../grammar/grammar.ts"

/** A call as text. */
export interface CallText {
  name: string
  arguments: string // JSON text of an object
}

export interface CallableTool {
  readonly name: string
  /** Its arguments as JSON, held to their schema. */
  readonly json: Part
  /** Its arguments one by one. What a schema says of several together is held in `json` alone. */
  members(): readonly ToolMember[]
}

export interface ToolMember {
  readonly name: string
  readonly required: boolean
  /** Of its value. */
  readonly schema: unknown
  /** Its value as JSON. */
  readonly json: Part
  /** Its value as it is, up to and with an end mark, where it is a text. */
  plain: (end: string) => Part
}

export interface CallGrammar {
  /** One call to `most` calls and nothing else. */
  calls(tools: readonly CallableTool[], most: number): Part
  /** Free text in which calls may open, `most` of them; each, once it has opened, is held to one of the tools. */
  text(tools: readonly CallableTool[], most: number): Part
}

/** Those that are required and any of the others, in order, with a separator between any two. */
export function membersPart(
  members: readonly ToolMember[],
  memberPart: (member: ToolMember) => Part,
  separator: string,
): Part {
  const end = { first: literal(""), further: literal("") }
  return members.reduceRight(({ first, further }, member) => {
    const own = sequence(memberPart(member), further)
    const next = sequence(literal(separator), own)
    return member.required
      ? { first: own, further: next }
      : { first: choice(first, own), further: choice(further, next) }
  }, end).first
}
