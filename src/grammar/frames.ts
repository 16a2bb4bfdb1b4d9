// What the running automaton is made of. A state is a list of frames, the tops of stacks that share their tails; each frame
// is one way the bytes so far may be meant, and each can still be completed. A byte moves every frame on; a frame that it
// does not fit is gone. Frames never change, so keeping an old state is all that rolling back takes.

import type { StringPlace } from "./strings.ts"

let named = 0

/** What all frames of a grammar share: how its texts are spaced, and names for equal stacks. */
export class Context {
  /** One blank is allowed after a comma and after a colon. */
  readonly spaced: boolean
  private readonly names = new Map<string, number>()

  constructor(spaced: boolean) {
    this.spaced = spaced
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
  /** Where it is equal, what follows the closing quote of a text that is not special is equal too. */
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

/** One way to read the bytes so far. */
export abstract class Frame {
  readonly context: Context
  private known: number

  constructor(context: Context) {
    this.context = context
    this.known = 0
  }

  /** Adds what a byte leads to; nothing when it does not fit. */
  abstract step(byte: number, out: Frame[]): void
  protected abstract describe(): string

  /** Whether the text may end here. */
  finishes(): boolean {
    return false
  }

  /** Frames of one grammar with equal signatures have the same future. */
  get signature(): number {
    if (this.known === 0) this.known = this.context.signature(this.describe())
    return this.known
  }
}

/** What waits for a value to be finished. */
export interface Rest {
  readonly signature: number
  /** @param value the finished value's canonical text, when somebody asked to keep it */
  resume(value: string | undefined, out: Frame[]): void
}

const reached: Frame[] = []
const nothing: readonly Frame[] = []

/** The state after one byte; empty when nothing fits. */
export function advance(frames: readonly Frame[], byte: number): readonly Frame[] {
  // Nearly all that is asked leads nowhere: only what is left gets a list of its own.
  reached.length = 0
  for (const frame of frames) frame.step(byte, reached)
  if (reached.length === 0) return nothing
  return reached.length === 1 ? [reached[0]!] : withoutTwins(reached)
}

function withoutTwins(frames: Frame[]): Frame[] {
  const seen = new Set<number>()
  return frames.filter((frame) => {
    if (seen.has(frame.signature)) return false
    seen.add(frame.signature)
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

export class End implements Rest {
  readonly signature = 0
  private readonly frame: EndFrame

  constructor(context: Context) {
    this.frame = new EndFrame(context)
  }

  resume(_value: string | undefined, out: Frame[]): void {
    out.push(this.frame)
  }
}
