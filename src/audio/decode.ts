// Bytes to sound of one channel, at the rate that they have. Runs in a process of its own (audio-worker.ts), whose time and memory are
// limited. Channels become their mean, as librosa has it for transformers' load_audio.

import { decodeAdts } from "./adts.ts"
import type { Decoded } from "./broken.ts"
import { decodeFlac } from "./flac.ts"
import { formatOf } from "./format.ts"
import { decodeMp3 } from "./mp3.ts"
import { decodeMp4 } from "./mp4.ts"
import { decodeOgg } from "./ogg-sound.ts"
import { decodeWav } from "./wav.ts"
import { decodeWebm } from "./webm.ts"

/**
 * @param most seconds
 * @returns the sound, or why there is none, as the rest of a sentence that begins with what it is about
 */
export async function decode(bytes: Uint8Array, most: number): Promise<Decoded> {
  const format = formatOf(bytes)
  if (typeof format === "object") return format
  return decoders[format](bytes, most)
}

const decoders = {
  WAV: decodeWav,
  FLAC: decodeFlac,
  MP3: decodeMp3,
  Ogg: decodeOgg,
  WebM: decodeWebm,
  MP4: decodeMp4,
  AAC: decodeAdts,
}
