// What the running automaton is made of. A state is a list of frames, the tops of stacks that share their tails; each frame
// is one way the bytes so far may be meant, and each can still be completed. A byte moves every frame on; a frame that it
// does not fit is gone. Frames never change, so keeping an old state is all that rolling back takes.

import type { StringPlace } from "./strings.ts"

let named = 0

/** What one token of a vocabulary can tell of strings. */
export interface Quotes {
  /** Texts that some token holds together with the quotes around them. */
  readonly around: ReadonlySet<string>
  /** Texts that some token begins with, a quote behind them. */
  readonly behind: ReadonlySet<string>
}

/** What has begun and ended between two bytes, so that each does so once, however many ways lead there. */
export interface Position {
  /** What waits for the end of what began here, by what began. */
  readonly begun: Map<object, Rest>
  /** Signatures of what was told that something it waits for ends here. */
  readonly ended: Set<number>
}

/** How values are written: as JSON; as Python's literals; or as JSON whose texts and names may be as marked-text.ts has them. */
export type Notation = "json" | "python" | "marked"

/** What is being read between two bytes; undefined: nothing has asked yet. */
interface Reader {
  position: Position | undefined
  isReading: boolean
}

/** What all frames of a grammar share: how its values are written, names for equal stacks, and where it is being read. */
export class Context {
  /** One blank is allowed after a comma and after a colon. */
  readonly spaced: boolean
  readonly quotes: Quotes
  readonly notation: Notation
  private readonly names = new Map<string, number>()
  private readonly reader: Reader
  private readonly others = new Map<Notation, Context>()

  constructor(spaced: boolean, quotes: Quotes, notation: Notation = "json", reader?: Reader) {
    this.spaced = spaced
    this.quotes = quotes
    this.notation = notation
    this.reader = reader ?? { position: undefined, isReading: false }
  }

  /** The same grammar's, for values in a notation. */
  in(notation: Notation): Context {
    if (notation === this.notation) return this
    const known = this.others.get(notation)
    const other = known ?? new Context(this.spaced, this.quotes, notation, this.reader)
    this.others.set(notation, other)
    return other
  }

  /** Undefined where frames are made one by one. */
  get position(): Position | undefined {
    const { reader } = this
    if (reader.isReading) reader.position ??= { begun: new Map(), ended: new Set() }
    return reader.position
  }

  /** The frames that stand at a position of their own. */
  apart(add: (out: Frame[]) => void): Frame[] {
    const { position, isReading } = this.reader
    const out: Frame[] = []
    this.enter()
    add(out)
    this.reader.position = position
    this.reader.isReading = isReading
    return out
  }

  /** What is asked for from now on stands at a new position. */
  enter(): void {
    this.reader.position = undefined
    this.reader.isReading = true
  }

  leave(): void {
    this.reader.position = undefined
    this.reader.isReading = false
  }

  /** Equal descriptions have equal numbers; numbers are never used twice, not even by another context. */
  signature(description: string): number {
    let id = this.names.get(description)
    if (id === undefined) {
      // Forgetting only costs: what was equal may get another number and be computed again.
      if (this.names.size > 200_000) this.names.clear()
      id = ++named
      this.names.set(description, id)
    }
    return id
  }
}

/** What stands inside quotes, for whoever asks about many tokens at once. */
export interface Inside {
  /** A place in the language of what is not special; undefined when there is nothing else. */
  readonly place: StringPlace | undefined
  readonly length: number
  /** The frames after the closing quote at some place of that language. */
  readonly closed: (place: StringPlace) => readonly Frame[]
  /** Texts that are told apart from all others, as far as they begin like what is here. */
  readonly special: readonly Special[]
  /** Whether it matters, later, what was written here. */
  readonly isKept: boolean
  /** Where it is equal, what follows the closing quote in one token is equal too, unless the text is special. */
  readonly key: number
}

export interface Special {
  /** What is left of it. */
  readonly rest: string
  /** Its beginnings are allowed on its own account. */
  readonly leads: boolean
  readonly closed: () => readonly Frame[]
}

/** Stands for every string and name that is not special; none may be it, as no text is this unlikely. */
export const unmentioned = "\u0000\u0000other"

/** How much of the future is told apart: all that may come, or what one token can reach of it, which is all that masks show. */
export type Reach = "all" | "token"

/** A part of a stack. Two of one grammar with equal signatures have the same future, as far as was asked. */
abstract class Told {
  readonly context: Context
  private all: number
  private token: number

  constructor(context: Context) {
    this.context = context
    this.all = 0
    this.token = 0
  }

  signature(reach: Reach): number {
    const known = reach === "all" ? this.all : this.token
    if (known !== 0) return known
    const signature = this.context.signature(this.describe(reach))
    if (reach === "all") this.all = signature
    else this.token = signature
    return signature
  }

  protected abstract describe(reach: Reach): string
}

/** One way to read the bytes so far. */
export abstract class Frame extends Told {
  /** Adds what a byte leads to; nothing when it does not fit. */
  abstract step(byte: number, out: Frame[]): void

  /** Whether the text may end here. */
  finishes(): boolean {
    return false
  }
}

/** What waits for a value to be finished. */
export abstract class Rest extends Told {
  /** @param value the finished value's canonical text, when somebody asked to keep it */
  abstract resume(value: string | undefined, out: Frame[]): void
}

/** Goes on where a frame stands. */
export class FrameRest extends Rest {
  private readonly frame: Frame

  constructor(frame: Frame) {
    super(frame.context)
    this.frame = frame
  }

  resume(_value: string | undefined, out: Frame[]): void {
    out.push(this.frame)
  }

  protected describe(reach: Reach): string {
    return `F${this.frame.signature(reach)}`
  }
}

const reached: Frame[] = []
const nothing: readonly Frame[] = []

/** The state after one byte; empty when nothing fits. */
export function advance(frames: readonly Frame[], byte: number): readonly Frame[] {
  // Nearly all that is asked leads nowhere: only what is left gets a list of its own.
  reached.length = 0
  const context = frames[0]?.context
  context?.enter()
  for (const frame of frames) frame.step(byte, reached)
  context?.leave()
  if (reached.length === 0) return nothing
  return reached.length === 1 ? [reached[0]!] : withoutTwins(reached)
}

function withoutTwins(frames: Frame[]): Frame[] {
  const seen = new Set<number>()
  return frames.filter((frame) => {
    const signature = frame.signature("all")
    if (seen.has(signature)) return false
    seen.add(signature)
    return true
  })
}

/** The end of the whole text. */
export class EndFrame extends Frame {
  step(): void {}

  override finishes(): boolean {
    return true
  }

  protected describe(): string {
    return "end"
  }
}

export class End extends Rest {
  private readonly frame: EndFrame

  constructor(context: Context) {
    super(context)
    this.frame = new EndFrame(context)
  }

  resume(_value: string | undefined, out: Frame[]): void {
    out.push(this.frame)
  }

  protected describe(): string {
    return "after the end"
  }
}
