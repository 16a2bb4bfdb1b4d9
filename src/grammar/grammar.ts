// The front door of the room. A JSON Schema is compiled to a part; parts are put together to a grammar; a grammar and a
// vocabulary make a matcher, which says at every moment which tokens may come next. What it accepts can always be
// completed, and what is complete always validates. A schema that cannot be kept to this is refused, with its place.

import { Literals } from "./expand.ts"
import { advance, Context, End, EndFrame, type Frame } from "./frames.ts"
import { Goals } from "./goals.ts"
import { fromValue, type Json, JsonFault, parseJson } from "./json.ts"
import { GrammarFault, NoText, partOfDfa } from "./languages/rules.ts"
import { type Masks, masksOf } from "./masks.ts"
import { begin, literal, type Part, sequence, TextFrame, until } from "./parts.ts"
import { type PlainForm, plainLanguage } from "./plain.ts"
import { wholeLanguage } from "./regex.ts"
import { readSchema, type SchemaDocument } from "./schema.ts"
import {
  type Dialect,
  type Fault,
  SchemaFault,
  type SchemaNode,
  types,
  UnknownType,
} from "./schema-node.ts"
import { set, type Vocabulary } from "./vocabulary.ts"
import { bounded, MAX_WORK, MAX_WORK_IN_ALL, TooLarge, worked } from "./work.ts"

export { compileLanguage, type Language, LanguageRefusal } from "./languages/languages.ts"
export {
  bytesOf,
  choice,
  HALF,
  inNotation,
  inPython,
  list,
  literal,
  type MembersForm,
  members,
  NO_TEXT,
  type Part,
  remainder,
  sequence,
  type TokenTriggers,
  type Trigger,
  text,
  until,
} from "./parts.ts"
export type { PlainForm } from "./plain.ts"
export { type TypeName, typeMeantBy } from "./readers.ts"
export type { Dialect, Fault } from "./schema-node.ts"
export type { TextForm } from "./strings.ts"
export { Vocabulary } from "./vocabulary.ts"

export interface SchemaOptions {
  /** What `$schema` says, when it does not say it itself. */
  dialect?: Dialect
  /** Whether known formats are asserted; true unless said otherwise. */
  formats?: boolean
  /** Leave out what cannot be enforced and list it, instead of refusing the schema; a type that nobody knows is refused. */
  lenient?: boolean
  /**
   * Values are written as all common readers take them: integers as digits alone, since many do not take 9.0 or 9e0 for one,
   * and formats in the forms that common validators agree on, where there is one.
   */
  portable?: boolean
  /** The names that the outermost object may have: these, or those that an ECMA-262 pattern matches as a whole. */
  names?: readonly string[] | string
  /** What no text in the value holds, names included. */
  without?: string
}

export interface CompiledSchema {
  /** The value, to be used in a grammar. */
  readonly part: Part
  /** What was left out; empty unless lenient. */
  readonly unenforced: readonly Fault[]
}

/** Why a schema is refused. */
export class SchemaRefusal extends Error {
  readonly fault: Fault
  /** Whether it could be enforced, were there a value to satisfy it. */
  readonly isUnsatisfiable: boolean
  constructor(fault: Fault, isUnsatisfiable = false) {
    super(`#${fault.pointer}${fault.keyword && `/${fault.keyword}`}: ${fault.reason}`)
    this.fault = fault
    this.isUnsatisfiable = isUnsatisfiable
  }
}

// Each round leaves out one keyword; a schema with more unenforceable ones than this is not worth the rounds.
const maxRounds = 32

/**
 * Compiles a schema: its JSON text, or its value with integers beyond 2^53 as bigints.
 * @throws SchemaRefusal when it is malformed, cannot be enforced, or no value satisfies it
 */
export function compileSchema(schema: unknown, options: SchemaOptions = {}): CompiledSchema {
  const document = readDocument(schema)
  const unenforced: Fault[] = []
  const dropped = new Set<string>()
  const end = worked() + MAX_WORK_IN_ALL
  for (;;) {
    try {
      const work = Math.min(MAX_WORK, end - worked())
      const { part, unread } = bounded(work, () => compiled(document, options, dropped))
      return { part, unenforced: [...unread, ...unenforced] }
    } catch (error) {
      const fault = faultOf(error)
      const place = `${fault.pointer} ${fault.keyword}`
      const known = fault.keyword !== "" && !(error instanceof UnknownType)
      const gives = options.lenient && known && !dropped.has(place)
      if (!gives || dropped.size >= maxRounds || worked() >= end) throw new SchemaRefusal(fault)
      dropped.add(place)
      unenforced.push(fault)
    }
  }
}

/** @throws whatever says nothing of the schema */
function faultOf(error: unknown): Fault {
  if (error instanceof SchemaFault) return error.fault
  if (error instanceof TooLarge) return { pointer: "", keyword: "", reason: error.message }
  throw error
}

/**
 * The texts that a compiled schema allows, as they are and without quotes, and null where it has a form, up to and with an end mark
 * that none of them holds; undefined: there is none. Of any text, and of texts that would take too much to keep apart from the mark,
 * only the mark is held to.
 */
export function plainText(part: Part, form: PlainForm): Part | undefined {
  const free = until(form.end, literal(""))
  if (part.kind !== "value") return free
  const { cases } = part.goal
  try {
    return bounded(MAX_WORK, () => {
      const texts = cases.filter((c) => c.has(types.string)).map((c) => c.wholeLanguage())
      const hasNull = cases.some((c) => c.has(types.null))
      const kept = plainLanguage(texts, hasNull, form)
      return kept ? sequence(partOfDfa(kept, "plain"), literal(form.end)) : free
    })
  } catch (error) {
    if (error instanceof NoText) return undefined
    if (error instanceof TooLarge || error instanceof SchemaFault || error instanceof GrammarFault)
      return free
    throw error
  }
}

/** Any JSON object: what `json_object` asks for. */
export function compileJson(): CompiledSchema {
  return compileSchema({ type: "object" })
}

function readDocument(schema: unknown): Json {
  try {
    return typeof schema === "string" ? parseJson(schema) : fromValue(schema)
  } catch (error) {
    if (!(error instanceof JsonFault)) throw error
    throw new SchemaRefusal({ pointer: "", keyword: "", reason: `is no JSON: ${error.message}` })
  }
}

function compiled(
  document: Json,
  options: SchemaOptions,
  dropped: ReadonlySet<string>,
  hasPortable = true,
): { part: Part; unread: readonly Fault[] } {
  const { dialect, lenient = false, portable = false, without } = options
  const forms = portable && hasPortable ? "portable" : "whole"
  const formats = options.formats === false ? "ignored" : forms
  const read = readSchema(document, { dialect, formats, dropped, lenient })
  const literals = new Literals(read)
  const goals = new Goals(literals, portable, without)
  const nodes = options.names === undefined ? [read.root] : [read.root, named(read, options.names)]
  const goal = goals.goal(nodes.map((node) => literals.literal(node, 0, false)))
  if (!goals.settle(goal)) {
    if (read.usesPortable) return compiled(document, options, dropped, false)
    const reason = "no value satisfies this schema"
    throw new SchemaRefusal({ pointer: "", keyword: "", reason }, true)
  }
  const part: Part = { kind: "value", goal, notation: "json" }
  return { part, unread: read.faults }
}

/** An object, whose names are these. */
function named(read: SchemaDocument, names: readonly string[] | string): SchemaNode {
  const { resource } = read.root
  const node = read.synthetic("", resource)
  node.type = { mask: types.object, integer: false }
  if (typeof names === "string") {
    node.names = read.synthetic("", resource)
    node.names.languages = [wholeLanguage(names)]
  } else {
    node.properties = new Map(names.map((name) => [name, read.synthetic("", resource, true)]))
    node.additional = read.synthetic("", resource, false)
  }
  return node
}

export interface GrammarOptions {
  /** Allow one blank after a comma and after a colon, as many models write; otherwise none. */
  spaced?: boolean
}

/** What may be written. Shared by all requests that ask for the same, as their masks are then. */
export class Grammar {
  private readonly part: Part
  private readonly spaced: boolean
  private readonly starts = new WeakMap<Vocabulary, readonly Frame[]>()

  constructor(part: Part, options: GrammarOptions = {}) {
    this.part = part
    this.spaced = options.spaced ?? false
  }

  matcher(vocabulary: Vocabulary): Matcher {
    const start = this.starts.get(vocabulary) ?? this.startFor(vocabulary)
    this.starts.set(vocabulary, start)
    return new Matcher(start, vocabulary, masksOf(vocabulary))
  }

  private startFor({ quotes }: Vocabulary): readonly Frame[] {
    const context = new Context(this.spaced, quotes)
    return context.apart((start) => begin(context, this.part, new End(context), start))
  }
}

const maxForced = 256

/** One reply on its way through a grammar. */
export class Matcher {
  private readonly vocabulary: Vocabulary
  private readonly masks: Masks
  /** The state after each accepted token; the first before any. */
  private readonly states: (readonly Frame[])[]
  private ended = 0 // end tokens accepted

  constructor(start: readonly Frame[], vocabulary: Vocabulary, masks: Masks) {
    this.vocabulary = vocabulary
    this.masks = masks
    this.states = [start]
  }

  /**
   * Fills `into` [ceil(vocabulary / 32)] with the tokens that may come next, end tokens when the text may end here.
   * @param back as it was so many moves ago
   */
  mask(into: Uint32Array, back = 0): void {
    const frames = this.states[this.states.length - 1 - Math.max(0, back - this.ended)]!
    if (this.ended > back || frames.every((frame) => frame instanceof EndFrame)) {
      into.fill(0)
      for (const end of this.vocabulary.ends) set(into, end)
      return
    }
    // Nearly always there is one.
    frames.forEach((frame, at) => {
      const mask = this.masks.of(frame)
      if (at === 0) into.set(mask)
      else for (let i = 0; i < mask.length; i++) into[i]! |= mask[i]!
    })
  }

  /** Moves on by a token; false, and no move, when it does not fit. */
  accept(token: number): boolean {
    if (this.vocabulary.ends.includes(token)) {
      if (!this.canEnd()) return false
      this.ended++
      return true
    }
    const bytes = this.vocabulary.tokens[token]
    if (!bytes || bytes.length === 0 || this.ended > 0 || !this.acceptBytes(bytes)) return false
    if (this.vocabulary.marks.has(token)) {
      const marked = (frame: Frame) => (frame instanceof TextFrame ? frame.behind(bytes) : frame)
      this.states.push(this.states.pop()!.map(marked))
    }
    return true
  }

  /** Moves on by bytes, as by one token; false, and no move, when they do not fit. */
  acceptBytes(bytes: Uint8Array): boolean {
    let frames = this.frames
    for (const byte of bytes) {
      frames = advance(frames, byte)
      if (frames.length === 0) return false
    }
    this.states.push(frames)
    return true
  }

  /** Takes back the last `count` moves. */
  rollback(count: number): void {
    for (let i = 0; i < count; i++) {
      if (this.ended > 0) this.ended--
      else if (this.states.length > 1) this.states.pop()
      else throw new Error("internal: rolled back past the start")
    }
  }

  /** Whether the text may end here. */
  canEnd(): boolean {
    return this.frames.some((frame) => frame.finishes())
  }

  /** Whether the text has to end here: it may, and nothing else may follow. */
  get isComplete(): boolean {
    return this.ended > 0 || this.frames.every((frame) => frame instanceof EndFrame)
  }

  /** The bytes that have to come next, as far as there is no choice. */
  forced(): Uint8Array {
    const out: number[] = []
    let frames = this.frames
    while (out.length < maxForced && !frames.some((frame) => frame.finishes())) {
      const only = onlyByte(frames)
      if (!only) break
      out.push(only.byte)
      frames = only.frames
    }
    return Uint8Array.from(out)
  }

  private get frames(): readonly Frame[] {
    return this.states.at(-1)!
  }
}

function onlyByte(frames: readonly Frame[]) {
  let only: { byte: number; frames: readonly Frame[] } | undefined
  for (let byte = 0; byte < 256; byte++) {
    const next = advance(frames, byte)
    if (next.length === 0) continue
    if (only) return undefined
    only = { byte, frames: next }
  }
  return only
}
