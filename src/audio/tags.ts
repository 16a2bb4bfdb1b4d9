// What is written about a recording before its first frame and behind its last.
//
// https://id3.org/id3v2.4.0-structure

import { Broken } from "./broken.ts"

/** Where what is written about a recording ends, and zeros that fill a place for more of it. It may say that it goes on behind the end. */
export function tagsEnd(view: DataView): number {
  let at = 0
  while (at + 10 <= view.byteLength && view.getUint32(at) >>> 8 === ID3) {
    const size = [6, 7, 8, 9].reduce((all, byte) => all * 128 + (view.getUint8(at + byte) & 127), 0)
    const hasFooter = view.getUint8(at + 5) & 16
    at += 10 + size + (hasFooter ? 10 : 0)
  }
  while (at < view.byteLength && view.getUint8(at) === 0) at++
  return at
}

export function behindTags(view: DataView): number {
  const at = tagsEnd(view)
  if (at > view.byteLength) throw new Broken("it is cut off in what is written about it")
  return at
}

const ID3 = 0x494433

/** Whether nothing follows but what is written about a recording, or zeros. */
export function isEnd(rest: Uint8Array): boolean {
  const text = Buffer.from(rest.buffer, rest.byteOffset, Math.min(rest.length, 8)).toString(
    "latin1",
  )
  return /^(?:TAG|APETAGEX|LYRICSBE|ID3)/.test(text) || rest.every((byte) => byte === 0)
}
