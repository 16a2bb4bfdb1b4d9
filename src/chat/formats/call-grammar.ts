// What a format's grammar is made of, whatever its form: calls as JSON between marks (marked-json.ts), parameters in XML,
// channels. It is given the tools, their arguments compiled, and makes parts of them.

import {
  choice,
  list,
  literal,
  type MembersForm,
  type Part,
  type PlainForm,
} from "../../grammar/grammar.ts"
import type { ArgumentKind } from "./argument-kinds.ts"

/** A call as text. */
export interface CallText {
  /** Where the form writes one; absent: one of its own making. */
  id?: string
  name: string
  arguments: string // JSON text of an object
}

export interface CallableTool {
  readonly name: string
  /** Its arguments as JSON, held to their schema. */
  readonly json: Part
  /** Its arguments as the format writes them one by one; where it does not, the same. */
  readonly members: Part
}

export interface CallGrammar {
  /** How arguments are written one by one; absent: they are JSON. */
  readonly form?: ArgumentForm
  /** One call to `most` calls and nothing else. */
  calls(tools: readonly CallableTool[], most: number): Part
  /** Free text in which calls may open, `most` of them; each, once it has opened, is held to one of the tools. */
  text(tools: readonly CallableTool[], most: number): Part
}

/** How arguments are written one by one, in any order. */
export interface ArgumentForm extends Pick<MembersForm, "before" | "between" | "nameEnd"> {
  /** The names that can be written so, from their first to their last character. */
  readonly names: RegExp
  /** What ends a value wherever it stands, so that no text in one may hold it. */
  readonly end?: string
  /** A value, and what stands between its name and the next one. */
  value(kind: ArgumentKind, value: ArgumentValue): Part
  /** All arguments as one value, for a tool that has other names. */
  whole?(json: Part): Part
}

export interface ArgumentValue {
  /** It as JSON. */
  readonly json: Part
  /** It as it is, up to and with an end mark, where it is a text or null; undefined: it is never one. */
  readonly plain: (form: PlainForm) => Part | undefined
}

/** The number of a call; it may go on from those of calls before. */
export const callNumber: Part = list(
  choice(...Array.from("0123456789", literal)),
  literal(""),
  1,
  4,
)

/** Names in which some characters do not stand, nor blanks at an edge; the characters as in a class of a pattern. */
export function namesWithout(characters: string): RegExp {
  const edge = `[^\\s${characters}]`
  return new RegExp(`^${edge}(?:[^\\n${characters}]*${edge})?$`, "u")
}
