// How much work a template may still do. Templates come with model folders and may loop for ever or double a text sixty
// times; so everything they do costs steps, and any template ends. A step is a node evaluated, an item or a text made, or 64
// characters read or copied: what takes a processor 0.05 to 0.3 µs. Work is paid for before it is done. Steps and not
// seconds: the same conversation is refused on every machine or on none. Rendering is synchronous, so one counter serves it.

const MAX_MESSAGE = 500 // characters

/** An error that the template's author would see in Python; the message is the template's or the interpreter's own. */
export class TemplateError extends Error {
  constructor(message: string) {
    super(message.length > MAX_MESSAGE ? `${message.slice(0, MAX_MESSAGE)}…` : message)
  }
}

/** The steps granted are used up, or time or memory: asking once more would cost as much. */
export class OutOfSteps extends TemplateError {}

/** Characters that native code reads or copies in one step. */
export const CHARACTERS_A_STEP = 64

let left = Number.POSITIVE_INFINITY
let granted = 0

/** Runs `work` with `steps` steps. */
export function metered<Result>(steps: number, work: () => Result): Result {
  left = granted = steps
  try {
    return work()
  } finally {
    left = Number.POSITIVE_INFINITY
  }
}

/** The steps that the metered work has taken so far. */
export function spent(): number {
  return granted - left
}

export function spend(steps: number): void {
  left -= steps
  if (left >= 0) return
  throw new OutOfSteps(`it was stopped after ${granted} steps without an end`)
}

/** For characters that native code reads or copies once. */
export function spendOnCharacters(count: number): void {
  spend(count / CHARACTERS_A_STEP)
}

/** For characters that a loop of ours looks at one by one. */
export function spendOnEach(count: number): void {
  spend(count / 4)
}

/** For a search: at each of `length` places a part of `needle` characters may have to be compared. */
export function spendOnSearch(length: number, needle: number): void {
  if (needle <= length) spendOnCharacters((length - needle + 1) * (1 + needle / 16))
}
