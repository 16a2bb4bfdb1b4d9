// How a frame lies in windows: one long one, or eight short ones, with longer or shorter slopes to its neighbours.
//
// ISO/IEC 14496-3, 4.4.2.1 (ics_info).

import type { Bits } from "../bits.ts"
import { Broken } from "../broken.ts"
import type { Bands } from "./bands.ts"

/** Sequences of windows; 0 is a long one between others of its kind. */
export const START = 1
export const SHORT = 2
export const STOP = 3

export interface Windows {
  sequence: number
  /** How their slopes rise: as a sine, or as Kaiser and Bessel have it. */
  isKaiser: boolean
  /** Of how many windows each group is. */
  groups: readonly number[]
  /** Where the bands of a window begin, and where the last ends. */
  starts: readonly number[]
  /** How many bands are written. */
  written: number
  /** How many bands shaping may reach. */
  shaped: number
}

export function windowsIn(bits: Bits, { long, short, shaped }: Bands): Windows {
  bits.drop(1) // reserved
  const sequence = bits.read(2)
  const isKaiser = bits.read(1) === 1
  const isShort = sequence === SHORT
  const starts = isShort ? short : long
  const written = bits.read(isShort ? 4 : 6)
  if (written >= starts.length) throw new Broken("a frame of it has more bands than its rate has")
  if (!isShort && bits.read(1))
    throw new Broken("a frame of it is predicted from others, as of AAC Main or LTP")
  const groups = [1]
  for (let window = 1; isShort && window < 8; window++)
    if (bits.read(1)) groups[groups.length - 1]!++
    else groups.push(1)
  const reached = isShort ? shaped.short : shaped.long
  return { sequence, isKaiser, groups, starts, written, shaped: reached }
}
