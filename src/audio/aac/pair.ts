// Two channels that are written as one: as their mean and half their difference, band by band, or as one of them and how much louder or
// softer the other is.
//
// ISO/IEC 14496-3, 4.4.2.3 (channel_pair_element) and 4.6.8.

import type { Bits } from "../bits.ts"
import { Broken } from "../broken.ts"
import {
  bandsIn,
  type Channel,
  channelIn,
  INTENSITY,
  NOISE,
  OPPOSITE,
  type Stream,
} from "./channel.ts"
import { windowsIn } from "./windows.ts"

const SOME = 1
const ALL = 2

export function pairIn(bits: Bits, stream: Stream): [Channel, Channel] {
  const common = bits.read(1) ? windowsIn(bits, stream.bands) : undefined
  const mixing = common ? bits.read(2) : 0
  if (mixing > ALL) throw new Broken("a frame of it mixes channels in a way that is reserved")
  const mixed = Uint8Array.from(
    { length: common ? common.groups.length * common.written : 0 },
    () => (mixing === SOME ? bits.read(1) : Number(mixing === ALL)),
  )
  const left = channelIn(bits, stream, common)
  const right = channelIn(bits, stream, common)
  apart(left, right, mixed)
  spread(left, right, mixing === SOME ? mixed : undefined)
  return [left, right]
}

/** @param mixed [groups, written] */
function apart(left: Channel, right: Channel, mixed: Uint8Array): void {
  for (const { place, codebook, from, end } of bandsIn(left)) {
    if (!mixed[place] || codebook >= NOISE || right.codebooks[place]! >= NOISE) continue
    for (let at = from; at < end; at++) {
      const [middle, side] = [left.spectrum[at]!, right.spectrum[at]!]
      left.spectrum[at] = middle + side
      right.spectrum[at] = middle - side
    }
  }
}

/** @param turned [groups, written] where the sign is the other one */
function spread(left: Channel, right: Channel, turned: Uint8Array | undefined): void {
  for (const { place, codebook, from, end } of bandsIn(right)) {
    if (codebook !== INTENSITY && codebook !== OPPOSITE) continue
    const isOpposite = (codebook === OPPOSITE) !== Boolean(turned?.[place])
    const scale = isOpposite ? -right.scales[place]! : right.scales[place]!
    for (let at = from; at < end; at++) right.spectrum[at] = left.spectrum[at]! * scale
  }
}
