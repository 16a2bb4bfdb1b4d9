// How much work a template may still do. Templates come with model folders and may loop for ever or double a text sixty
// times; every node evaluated and every 64 characters joined cost a step, so that any template ends. Steps and not seconds:
// the same conversation is refused on every machine or on none. Rendering is synchronous, so one counter serves it.

/** An error that the template's author would see in Python; the message is the template's or the interpreter's own. */
export class TemplateError extends Error {}

/** The steps granted are used up. */
export class OutOfSteps extends TemplateError {}

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

export function spend(steps: number): void {
  left -= steps
  if (left < 0) throw new OutOfSteps(`it was stopped after ${granted} steps without an end`)
}
