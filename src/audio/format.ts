// Which format bytes are of, by how they begin and by nothing else: no name, no media type.

import { tagsEnd } from "./tags.ts"

export type AudioFormat = "WAV" | "MP3" | "FLAC" | "Ogg" | "WebM" | "MP4" | "AAC"

/** As sentences have them. */
export const FORMATS = "WAV, MP3, FLAC, Ogg, WebM, MP4 (M4A) or AAC"

const READ: Record<AudioFormat, RegExp> = {
  WAV: /^(?:RIFF|RF64).{4}WAVE/s,
  FLAC: /^fLaC/,
  Ogg: /^OggS/,
  WebM: /^\x1aE\xdf\xa3/,
  MP3: /^(?:ID3|\xff[\xe2\xe3\xf2\xf3\xfa\xfb])/, // a tag, or a frame of layer 3
  MP4: /^.{4}(?:ftyp|moov|mdat|wide)/s,
  AAC: /^\xff[\xf0\xf1\xf8\xf9]/,
}

/** What else people send, so that they are told what it is. */
const REFUSED: Record<string, RegExp> = {
  AIFF: /^FORM.{4}AIF[FC]/s,
  "AAC without frames (ADIF)": /^ADIF/,
  "MPEG audio of layer 1 or 2": /^\xff[\xe4-\xe7\xf4-\xf7\xfc-\xff]/,
  AMR: /^#!AMR/,
  AU: /^\.snd/,
  CAF: /^caff/,
  MIDI: /^MThd/,
  WMA: /^0&\xb2u/,
  "a WAV of the other byte order (RIFX)": /^RIFX/,
  "a WAV of 64 bits (Wave64)": /^riff/,
  "a web page": /^\s*<(?:!doctype html|html)/i,
}

const BEGINNING = 64 // bytes

/** @returns the format, or why it is not read, as the rest of a sentence that begins with what it is about */
export function formatOf(bytes: Uint8Array): AudioFormat | { refusal: string } {
  const beginning = Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.length, BEGINNING))
  const text = beginning.toString("latin1")
  if (isTaggedAac(bytes)) return "AAC"
  for (const [format, pattern] of Object.entries(READ))
    if (pattern.test(text)) return format as AudioFormat
  const other = Object.keys(REFUSED).find((name) => REFUSED[name]!.test(text))
  const what =
    bytes.length === 0 ? "is empty" : other ? `is ${other}` : "is no recording that is known"
  return { refusal: `${what}; send ${FORMATS}` }
}

/** Tags stand before MP3, as a rule. */
function isTaggedAac(bytes: Uint8Array): boolean {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  const at = tagsEnd(view)
  return (
    at > 0 &&
    at + 2 <= bytes.length &&
    READ.AAC.test(String.fromCharCode(bytes[at]!, bytes[at + 1]!))
  )
}
