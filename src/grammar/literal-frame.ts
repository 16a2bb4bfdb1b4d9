// Inside fixed bytes.

import { type Context, Frame, type Reach, type Rest } from "./frames.ts"

export class LiteralFrame extends Frame {
  private readonly bytes: Uint8Array
  private readonly at: number
  private readonly rest: Rest

  constructor(context: Context, bytes: Uint8Array, at: number, rest: Rest) {
    super(context)
    this.bytes = bytes
    this.at = at
    this.rest = rest
  }

  step(byte: number, out: Frame[]): void {
    if (this.bytes[this.at] !== byte) return
    if (this.at + 1 === this.bytes.length) this.rest.resume(undefined, out)
    else out.push(new LiteralFrame(this.context, this.bytes, this.at + 1, this.rest))
  }

  protected describe(reach: Reach): string {
    return `l${this.bytes.subarray(this.at).join()}|${this.rest.signature(reach)}`
  }
}
