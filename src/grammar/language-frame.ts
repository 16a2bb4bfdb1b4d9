// Inside a text of a regular language that stands for itself, without quotes. The text is never empty; whoever allows that says
// so around it.

import { type Context, Frame, type Reach, type Rest } from "./frames.ts"
import type { StringPlace } from "./strings.ts"

export class LanguageFrame extends Frame {
  readonly place: StringPlace
  private readonly rest: Rest

  constructor(context: Context, place: StringPlace, rest: Rest) {
    super(context)
    this.place = place
    this.rest = rest
  }

  step(byte: number, out: Frame[]): void {
    const place = this.place.step(byte)
    if (!place) return
    if (canEnd(place)) this.rest.resume(undefined, out)
    if (place === this.place) out.push(this)
    else if (canGoOn(place)) out.push(new LanguageFrame(this.context, place, this.rest))
  }

  /** What follows, wherever the text ends. */
  after(): readonly Frame[] {
    return this.context.apart((out) => this.rest.resume(undefined, out))
  }

  protected describe(reach: Reach): string {
    const { language, index } = this.place
    return `g${language.id}:${index}|${this.rest.signature(reach)}`
  }
}

/** Whether a text may end at a place. */
export function canEnd({ language, state, isBetween }: StringPlace): boolean {
  return isBetween && language.dfa.accepts[state] === 1
}

/** Whether a text may go on from a place. */
export function canGoOn({ language, state, isBetween }: StringPlace): boolean {
  return !isBetween || language.longest[state]! > 0
}
