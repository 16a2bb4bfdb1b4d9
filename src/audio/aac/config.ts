// What a decoder must know of a stream before its first frame, as MP4 stores it (AudioSpecificConfig). Of what HE-AAC adds to AAC LC only its
// name is read: its streams are those of AAC LC, at half the rate, with what rebuilds the upper half of the spectrum in places that are passed over.
//
// ISO/IEC 14496-3, 1.6.2.1 (AudioSpecificConfig), 4.4.1 (GASpecificConfig) and 4.4.1.1 (program_config_element).

import { Bits } from "../bits.ts"
import { Broken } from "../broken.ts"

export interface Config {
  /** Samples a second of what is decoded. */
  rate: number
  /** Samples of a frame. */
  size: 1024 | 960
}

/** Samples a second, by their numbers. */
export const RATES = [
  96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000,
  7_350,
] as const

const MAIN = 1
const LC = 2
const SBR = 5
const PS = 29

const OTHERS: Record<number, string> = {
  [MAIN]: "AAC Main",
  3: "AAC SSR",
  4: "AAC LTP",
  6: "AAC Scalable",
  7: "TwinVQ",
  8: "CELP",
  9: "HVXC",
  17: "error resilient AAC LC",
  19: "error resilient AAC LTP",
  20: "error resilient AAC Scalable",
  23: "AAC-LD",
  32: "MPEG audio of layer 1",
  33: "MPEG audio of layer 2",
  34: "MP3",
  36: "MPEG-4 ALS",
  37: "MPEG-4 SLS",
  39: "AAC-ELD",
  42: "xHE-AAC",
}

/** @throws Broken where it is another kind than AAC LC */
export function configOf(bytes: Uint8Array): Config {
  const bits = new Bits(bytes, "it does not say what its AAC is")
  let kind = kindIn(bits)
  const rate = rateIn(bits)
  bits.drop(4) // channels: frames say what they have
  if (kind === SBR || kind === PS) {
    rateIn(bits) // of the upper half
    kind = kindIn(bits)
  }
  mustBeLc(kind)
  const size = bits.read(1) ? 960 : 1024
  if (bits.read(1)) throw new Broken("it refines another stream, which is not there")
  return { rate, size }
}

export function mustBeLc(kind: number): void {
  if (kind !== LC)
    throw new Broken(`it is ${OTHERS[kind] ?? `of kind ${kind}`}, and AAC LC and HE-AAC are read`)
}

function kindIn(bits: Bits): number {
  const kind = bits.read(5)
  return kind === 31 ? 32 + bits.read(6) : kind
}

function rateIn(bits: Bits): number {
  const number = bits.read(4)
  if (number === 15) return bits.read(24)
  const rate = RATES[number]
  if (rate === undefined) throw new Broken("it has a rate that is reserved")
  return rate
}

/** What says where each channel of a stream is heard, which nobody asks here: it is passed over. */
export function passProgramConfig(bits: Bits): void {
  bits.read(4 + 2 + 4) // its number, kind and rate
  const [front, side, back] = [bits.read(4), bits.read(4), bits.read(4)]
  const [low, data, coupled] = [bits.read(2), bits.read(3), bits.read(4)]
  for (const mixed of [4, 4, 3]) if (bits.read(1)) bits.read(mixed)
  for (let element = 0; element < front + side + back + coupled; element++) bits.read(5)
  for (let element = 0; element < low + data; element++) bits.read(4)
  bits.align()
  for (let comment = bits.read(8); comment > 0; comment--) bits.read(8)
}
