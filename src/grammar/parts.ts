// What a reply is made of, for those who write tool-call formats: fixed bytes, values held to a schema, sequences, choices,
// lists, texts of a language, and free text in which a trigger opens something held. Parts are plain data, but for rules, which
// may come again within themselves; `begin` turns one into frames.

import { type Context, End, Frame, FrameRest, type Notation, type Reach, Rest } from "./frames.ts"
import type { Goal, NamePlace, ObjectPlaces, ObjectState } from "./goal.ts"
import { LanguageFrame } from "./language-frame.ts"
import { LiteralFrame } from "./literal-frame.ts"
import { ValueFrame } from "./machine.ts"
import { MemberNameFrame, type NameOwner } from "./member-name-frame.ts"
import { types } from "./schema-node.ts"
import type { StringLanguage } from "./strings.ts"

export type Part =
  | { kind: "literal"; bytes: Uint8Array }
  | { kind: "value"; goal: Goal; notation: Notation }
  | { kind: "sequence"; parts: readonly Part[] }
  | { kind: "choice"; parts: readonly Part[] }
  | { kind: "list"; part: Part; further: Part; min: number; max: number }
  | { kind: "text"; text: Text }
  | { kind: "language"; language: StringLanguage }
  | { kind: "members"; members: Members }
  | { kind: "rule"; rule: Rule }
  | { kind: "remainder"; part: Part; begun: Uint8Array }

/** A part that may hold itself, though never as the first thing in it, or it would have no beginning. */
export interface Rule {
  part: Part
}

/** Stands in texts for the first character of a mark that only a token can write: half a character, which no text has. */
export const HALF = "\udc3c"
export const NO_TEXT = 0xff // a byte of no character

/** A text as grammars read it. */
export function bytesOf(text: string): Buffer {
  const parts = text.split(HALF).map((part) => Buffer.from(part))
  return Buffer.concat(parts.flatMap((part, i) => (i === 0 ? [part] : [Buffer.of(NO_TEXT), part])))
}

/** Exactly this text. */
export function literal(text: string): Part {
  return { kind: "literal", bytes: bytesOf(text) }
}

/** One after the other. */
export function sequence(...parts: Part[]): Part {
  return { kind: "sequence", parts }
}

/** One of them. There has to be one. */
export function choice(...parts: Part[]): Part {
  if (parts.length === 0) throw new Error("internal: a choice of nothing")
  return { kind: "choice", parts }
}

/** From `min` to `max` of a part, with something between them. An item may not be empty. */
export function list(part: Part, separator: Part, min: number, max: number): Part {
  return { kind: "list", part, further: sequence(separator, part), min, max }
}

/**
 * The members of an object one by one, in any order, as the schema allows them: where it has to be JSON nothing stands for the
 * braces, the quotes of the names, the colons and the commas. `part`: the object as JSON.
 */
export function members(part: Part, form: MembersForm): Part {
  if (part.kind !== "value") throw new Error("internal: members of what is no value")
  return { kind: "members", members: new Members(part.goal, form) }
}

/** A value in a notation; any other part as it is. */
export function inNotation(notation: Notation, part: Part): Part {
  return part.kind === "value" ? { ...part, notation } : part
}

/** A value as Python's literals have it; any other part as it is. */
export function inPython(part: Part): Part {
  return inNotation("python", part)
}

export interface Trigger {
  open: string
  then: Part
}

/** Triggers that count only behind a token that marks something: as text, its spelling is text like any other. */
export interface TokenTriggers {
  token: string
  triggers: readonly Trigger[]
}

/**
 * Any bytes, until one of the triggers has been written: then its part follows, and after it more text when `again` says
 * so. The text may also stop anywhere, before what comes after it.
 * @param first triggers that count only where the text begins, behind line breaks at most
 */
export function text(
  triggers: readonly Trigger[],
  again: boolean,
  first: readonly Trigger[] = [],
  behind?: TokenTriggers,
): Part {
  return { kind: "text", text: new Text(triggers, again, true, first, behind) }
}

/** Any bytes up to a mark, the mark, and then a part; triggers behind a token count, too. */
export function until(mark: string, part: Part, behind?: TokenTriggers): Part {
  // biome-ignore lint/suspicious/noThenProperty: nobody awaits a trigger
  return { kind: "text", text: new Text([{ open: mark, then: part }], false, false, [], behind) }
}

/** What is left of a part when its beginning has been written; nothing, when it cannot begin so. */
export function remainder(part: Part, begun: string): Part {
  return { kind: "remainder", part, begun: Buffer.from(begun) }
}

/** Adds the frames that stand before a part. */
export function begin(context: Context, part: Part, rest: Rest, out: Frame[]): void {
  switch (part.kind) {
    case "literal":
      if (part.bytes.length === 0) rest.resume(undefined, out)
      else out.push(new LiteralFrame(context, part.bytes, 0, rest))
      return
    case "value":
      out.push(new ValueFrame(context.in(part.notation), part.goal, rest))
      return
    case "sequence":
      new SequenceRest(context, part.parts, 0, rest).resume(undefined, out)
      return
    case "choice":
      for (const option of part.parts) begin(context, option, rest, out)
      return
    case "list":
      new ListRest(context, part, 0, rest).start(out)
      return
    case "text":
      out.push(new TextFrame(context, part.text, part.text.start, rest))
      return
    case "language":
      out.push(new LanguageFrame(context, part.language.start(), rest))
      return
    case "members":
      for (const { object } of part.members.cases)
        new MembersRest(context, part.members, object, object.start, rest).resume(undefined, out)
      return
    case "rule":
      beginRule(context, part.rule, rest, out)
      return
    case "remainder":
      for (const frame of remaining(context, part, rest)) out.push(frame)
  }
}

function remaining(context: Context, { part, begun }: Part & { kind: "remainder" }, rest: Rest) {
  let frames = context.apart((out) => begin(context, part, rest, out))
  for (const byte of begun) {
    const before = frames
    frames = context.apart((out) => {
      for (const frame of before) frame.step(byte, out)
    })
  }
  return frames
}

/** A rule begins once at a position, and whoever waits for its end waits together: ambiguous grammars need no more frames. */
function beginRule(context: Context, rule: Rule, rest: Rest, out: Frame[]): void {
  const begun = context.position?.begun
  const known = begun?.get(rule) as RuleRest | undefined
  if (known) {
    known.wait(rest)
    return
  }
  const waiting = new RuleRest(context, rest)
  begun?.set(rule, waiting)
  begin(context, rule.part, waiting, out)
}

/**
 * All that follows a rule which began at one position. Who waits is known when that position is left, and before that a rule
 * cannot end (Scott and Johnstone, GLL Parsing, 2010, keep the same nodes).
 */
class RuleRest extends Rest {
  private readonly waiting: Rest[]
  private rests: readonly Rest[] | undefined

  constructor(context: Context, rest: Rest) {
    super(context)
    this.waiting = [rest]
  }

  wait(rest: Rest): void {
    this.waiting.push(rest)
  }

  resume(_value: string | undefined, out: Frame[]): void {
    const ended = this.context.position?.ended
    const signature = this.signature("all")
    if (ended?.has(signature)) return
    ended?.add(signature)
    for (const rest of this.settled()) rest.resume(undefined, out)
  }

  /** Each future once; a rule that ends in another rule waits with it, so that repeating does not pile up. */
  private settled(): readonly Rest[] {
    if (this.rests) return this.rests
    const all = this.waiting.flatMap((rest) => (rest instanceof RuleRest ? rest.settled() : [rest]))
    this.rests = [...new Map(all.map((rest) => [rest.signature("all"), rest])).values()]
    return this.rests
  }

  protected describe(reach: Reach): string {
    const signatures = this.settled().map((rest) => rest.signature(reach))
    return `R${signatures.sort((a, b) => a - b).join()}`
  }
}

let made = 0
const ids = new WeakMap<object, number>()

function idOf(part: object): number {
  let id = ids.get(part)
  if (id === undefined) {
    id = ++made
    ids.set(part, id)
  }
  return id
}

class SequenceRest extends Rest {
  private readonly parts: readonly Part[]
  private readonly at: number
  private readonly rest: Rest

  constructor(context: Context, parts: readonly Part[], at: number, rest: Rest) {
    super(context)
    this.parts = parts
    this.at = at
    this.rest = rest
  }

  resume(_value: string | undefined, out: Frame[]): void {
    const { context, parts, at, rest } = this
    const isLast = at + 1 >= parts.length // then nothing is left to come back for, however often a rule ends in itself
    if (at === parts.length) rest.resume(undefined, out)
    else begin(context, parts[at]!, isLast ? rest : this.next(), out)
  }

  private next(): SequenceRest {
    return new SequenceRest(this.context, this.parts, this.at + 1, this.rest)
  }

  protected describe(reach: Reach): string {
    return `S${idOf(this.parts)}:${this.at}|${this.rest.signature(reach)}`
  }
}

class ListRest extends Rest {
  private readonly list: Part & { kind: "list" }
  private readonly count: number
  private readonly rest: Rest

  constructor(context: Context, list: Part & { kind: "list" }, count: number, rest: Rest) {
    super(context)
    this.list = list
    // Past the minimum of an endless list it no longer matters how many there were.
    this.count = list.max === Number.POSITIVE_INFINITY ? Math.min(count, list.min + 1) : count
    this.rest = rest
  }

  start(out: Frame[]): void {
    if (this.list.min === 0) this.rest.resume(undefined, out)
    if (this.list.max > 0) begin(this.context, this.list.part, this.next(), out)
  }

  resume(_value: string | undefined, out: Frame[]): void {
    const { context, list, count, rest } = this
    if (count >= list.min) rest.resume(undefined, out)
    if (count < list.max || list.max === Number.POSITIVE_INFINITY) {
      begin(context, list.further, this.next(), out)
    }
  }

  private next(): ListRest {
    return new ListRest(this.context, this.list, this.count + 1, this.rest)
  }

  protected describe(reach: Reach): string {
    return `L${idOf(this.list)}:${this.count}|${this.rest.signature(reach)}`
  }
}

/** How members are written one by one. */
export interface MembersForm {
  /** Before each name, and between two members. */
  readonly before: string
  readonly between: string
  /** What a name ends before; no name holds it. */
  readonly nameEnd: string // one character of ASCII
  /** How the value of a member is written. */
  kindOf(name: string): string
  /** What stands behind its name. @param json the value as JSON */
  value(kind: string, json: Part): Part
}

class Members {
  readonly form: MembersForm
  readonly cases: Goal["cases"]
  private readonly values = new Map<string, Part>()

  constructor(goal: Goal, form: MembersForm) {
    this.form = form
    this.cases = goal.cases.filter((c) => c.has(types.object))
    // What takes work is made now, and not while somebody waits for a token.
    for (const { object } of this.cases) {
      object.names.forEach((name, k) => {
        for (const way of object.finished(object.start, object.endOf(k))) this.value(name, way.goal)
      })
    }
  }

  /** Members whose values are written alike share a part, and with it masks. */
  value(name: string, goal: Goal): Part {
    const kind = this.form.kindOf(name)
    const key = `${goal.id} ${kind}`
    const known = this.values.get(key)
    const part = known ?? this.form.value(kind, { kind: "value", goal, notation: "json" })
    this.values.set(key, part)
    return part
  }
}

/** Between the members of an object. */
class MembersRest extends Rest implements NameOwner {
  readonly object: ObjectPlaces
  readonly state: ObjectState
  private readonly members: Members
  private readonly rest: Rest

  constructor(
    context: Context,
    members: Members,
    object: ObjectPlaces,
    state: ObjectState,
    rest: Rest,
  ) {
    super(context)
    this.members = members
    this.object = object
    this.state = state
    this.rest = rest
  }

  get nameEnd(): number {
    return this.members.form.nameEnd.charCodeAt(0)
  }

  resume(_value: string | undefined, out: Frame[]): void {
    const { context, object, state } = this
    const { before, between } = this.members.form
    if (object.canClose(state)) this.rest.resume(undefined, out)
    if (!object.canGrow(state)) return
    const name = new FrameRest(MemberNameFrame.first(context, this))
    begin(context, literal(state.count === 0 ? before : between + before), name, out)
  }

  named(place: NamePlace): readonly Frame[] {
    const { context, members, object, state, rest } = this
    return context.apart((out) => {
      for (const { goal, owed } of object.finished(state, place)) {
        const after = object.after(state, place, owed)
        const next = new MembersRest(context, members, object, after, rest)
        begin(context, members.value(place.text, goal), next, out)
      }
    })
  }

  protected describe(reach: Reach): string {
    const { members, object, state, rest } = this
    return `M${idOf(members)}:${object.describe(state)}|${rest.signature(reach)}`
  }
}

const LINE_BREAK = 0x0a

/** Free text as an automaton that knows how much of which trigger has just been written (Aho and Corasick, 1975). */
export class Text {
  readonly again: boolean
  /** Whether it may stop without a trigger. */
  readonly stops: boolean
  /** Before anything is written; 0 is where nothing of a trigger has been. */
  readonly start: number
  /** Where a text is behind the token that has triggers of its own. */
  private readonly marked: number | undefined
  private readonly token: Uint8Array | undefined
  private readonly moves: Map<number, number>[] = [new Map()]
  private readonly back: number[] = [0]
  private readonly done: (Part | undefined)[] = [undefined]
  /** Where each byte leads from each state. */
  readonly table: Int32Array // [states, 256]

  constructor(
    triggers: readonly Trigger[],
    again: boolean,
    stops: boolean,
    first: readonly Trigger[] = [],
    behind?: TokenTriggers,
  ) {
    this.again = again
    this.stops = stops
    for (const trigger of triggers) this.add(0, trigger)
    this.link(0)
    this.start = first.length > 0 ? this.state() : 0
    if (this.start > 0) {
      for (const trigger of first) this.add(this.start, trigger)
      this.link(this.start)
      this.moves[this.start]!.set(LINE_BREAK, this.start)
    }
    if (behind) {
      this.token = Buffer.from(behind.token)
      this.marked = this.state()
      this.back[this.marked] = this.token.reduce((at, byte) => this.next(at, byte), 0)
      for (const trigger of behind.triggers) this.add(this.marked, trigger)
      this.link(this.marked)
    }
    this.table = Int32Array.from({ length: this.moves.length * 256 }, (_, i) =>
      this.next(i >> 8, i & 255),
    )
  }

  next(state: number, byte: number): number {
    for (let at = state; ; at = this.back[at]!) {
      const to = this.moves[at]!.get(byte)
      if (to !== undefined) return to
      if (at === 0) return 0
    }
  }

  /** Finds for each state behind one the state that a byte is tried in when it leads nowhere. */
  private link(root: number): void {
    const queue = [root]
    for (const state of queue) {
      for (const [byte, to] of this.moves[state]!) {
        this.back[to] = state === 0 ? 0 : this.next(this.back[state]!, byte)
        this.done[to] ??= this.done[this.back[to]!]
        queue.push(to)
      }
    }
  }

  /** Where a text stands behind a token that marks something, if that is not where its spelling leads. */
  behind(token: Uint8Array): number | undefined {
    return this.token && Buffer.compare(this.token, token) === 0 ? this.marked : undefined
  }

  /** The part that a state opens: a trigger has just been finished. */
  opens(state: number): Part | undefined {
    return this.done[state]
  }

  private add(root: number, { open, then }: Trigger): void {
    if (open === "") throw new Error("internal: a trigger without bytes")
    let state = root
    for (const byte of bytesOf(open)) {
      let to = this.moves[state]!.get(byte)
      if (to === undefined) {
        to = this.state()
        this.moves[state]!.set(byte, to)
      }
      state = to
    }
    this.done[state] ??= then
  }

  private state(): number {
    this.back.push(0)
    this.done.push(undefined)
    return this.moves.push(new Map()) - 1
  }
}

export class TextFrame extends Frame {
  readonly text: Text
  readonly state: number
  private readonly rest: Rest

  constructor(context: Context, text: Text, state: number, rest: Rest) {
    super(context)
    this.text = text
    this.state = state
    this.rest = rest
  }

  /** Whether something may follow the text without a trigger. */
  get hasRest(): boolean {
    return this.text.stops && !(this.rest instanceof End)
  }

  at(state: number): TextFrame {
    return state === this.state ? this : new TextFrame(this.context, this.text, state, this.rest)
  }

  step(byte: number, out: Frame[]): void {
    for (const frame of this.left()) frame.step(byte, out)
    const state = this.text.next(this.state, byte)
    const opened = this.text.opens(state)
    const before = out.length
    if (opened)
      begin(this.context, opened, this.text.again ? new FrameRest(this.at(0)) : this.rest, out)
    const isNothing = opened?.kind === "remainder" && out.length === before
    if (!opened || isNothing) out.push(this.at(state))
  }

  /** After a token that marks something, beyond its bytes. */
  behind(token: Uint8Array): TextFrame {
    return this.at(this.text.behind(token) ?? this.state)
  }

  override finishes(): boolean {
    return this.left().some((frame) => frame.finishes())
  }

  private left(): Frame[] {
    if (!this.text.stops) return []
    return this.context.apart((frames) => this.rest.resume(undefined, frames))
  }

  protected describe(reach: Reach): string {
    return `t${idOf(this.text)}:${this.state}|${this.rest.signature(reach)}`
  }
}
