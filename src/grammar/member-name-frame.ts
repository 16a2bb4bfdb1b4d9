// Inside the name of a member where names have no quotes, and end before a character that they hold nowhere.

import { type Context, Frame, type Reach } from "./frames.ts"
import type { NamePlace, ObjectPlaces, ObjectState } from "./goal.ts"
import { between, type Decoding, decode, plain, type StringPlace } from "./strings.ts"

/** The object that a name is read for. */
export interface NameOwner {
  readonly object: ObjectPlaces
  readonly state: ObjectState
  /** The byte that ends a name, which is not part of it. */
  readonly nameEnd: number
  /** What follows when the name ends at a place. */
  named(place: NamePlace): readonly Frame[]
  signature(reach: Reach): number
}

export class MemberNameFrame extends Frame {
  readonly owner: NameOwner
  readonly place: NamePlace
  readonly decoding: Decoding

  private constructor(context: Context, owner: NameOwner, place: NamePlace, decoding: Decoding) {
    super(context)
    this.owner = owner
    this.place = place
    this.decoding = decoding
  }

  /** Before the first character of a name. */
  static first(context: Context, owner: NameOwner): MemberNameFrame {
    return new MemberNameFrame(context, owner, owner.object.firstPlace, plain)
  }

  step(byte: number, out: Frame[]): void {
    const { object, state, nameEnd } = this.owner
    if (byte === nameEnd) {
      if (this.decoding !== plain) return
      for (const frame of this.owner.named(this.place)) frame.step(byte, out)
      return
    }
    const read = decode(this.decoding, byte)
    if (read === -1) return
    const finished = typeof read === "number"
    const place = finished ? object.advance(this.place, read) : this.place
    if (!object.placeLives(state, place, finished ? between : read)) return
    out.push(new MemberNameFrame(this.context, this.owner, place, finished ? plain : read))
  }

  /** The place in the language of names that are not mentioned, where they have no end; undefined: ask byte by byte. */
  get others(): StringPlace | undefined {
    const { object, state } = this.owner
    if (this.decoding !== plain || !object.hasEndlessNames(state, this.place)) return undefined
    const place = object.otherNames(state, this.place)
    return place?.language.as("plain").place(place.state, plain)
  }

  protected describe(reach: Reach): string {
    return `m${this.owner.signature(reach)}:${this.decoding.id}:${this.place.text}`
  }
}
