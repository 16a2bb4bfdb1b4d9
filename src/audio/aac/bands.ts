// Where the bands of a spectrum begin that share a scale, and where the last ends, by the rate.
//
// ISO/IEC 14496-3, 4.5.4: tables 4.129 to 4.147 for frames of 1,024 samples. Those for frames of 960 are the same, as far as they go.

const LONG = {
  96: [
    0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 64, 72, 80, 88, 96, 108, 120, 132, 144,
    156, 172, 188, 212, 240, 276, 320, 384, 448, 512, 576, 640, 704, 768, 832, 896, 960, 1024,
  ],
  64: [
    0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 64, 72, 80, 88, 100, 112, 124, 140,
    156, 172, 192, 216, 240, 268, 304, 344, 384, 424, 464, 504, 544, 584, 624, 664, 704, 744, 784,
    824, 864, 904, 944, 984, 1024,
  ],
  48: [
    0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 48, 56, 64, 72, 80, 88, 96, 108, 120, 132, 144, 160,
    176, 196, 216, 240, 264, 292, 320, 352, 384, 416, 448, 480, 512, 544, 576, 608, 640, 672, 704,
    736, 768, 800, 832, 864, 896, 928, 1024,
  ],
  32: [
    0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 48, 56, 64, 72, 80, 88, 96, 108, 120, 132, 144, 160,
    176, 196, 216, 240, 264, 292, 320, 352, 384, 416, 448, 480, 512, 544, 576, 608, 640, 672, 704,
    736, 768, 800, 832, 864, 896, 928, 960, 992, 1024,
  ],
  24: [
    0, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 52, 60, 68, 76, 84, 92, 100, 108, 116, 124, 136,
    148, 160, 172, 188, 204, 220, 240, 260, 284, 308, 336, 364, 396, 432, 468, 508, 552, 600, 652,
    704, 768, 832, 896, 960, 1024,
  ],
  16: [
    0, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 100, 112, 124, 136, 148, 160, 172, 184, 196, 212,
    228, 244, 260, 280, 300, 320, 344, 368, 396, 424, 456, 492, 532, 572, 616, 664, 716, 772, 832,
    896, 960, 1024,
  ],
  8: [
    0, 12, 24, 36, 48, 60, 72, 84, 96, 108, 120, 132, 144, 156, 172, 188, 204, 220, 236, 252, 268,
    288, 308, 328, 348, 372, 396, 420, 448, 476, 508, 544, 580, 620, 664, 712, 764, 820, 880, 944,
    1024,
  ],
}
const SHORT = {
  96: [0, 4, 8, 12, 16, 20, 24, 32, 40, 48, 64, 92, 128],
  48: [0, 4, 8, 12, 16, 20, 28, 36, 44, 56, 68, 80, 96, 112, 128],
  24: [0, 4, 8, 12, 16, 20, 24, 28, 36, 44, 52, 64, 76, 92, 108, 128],
  16: [0, 4, 8, 12, 16, 20, 24, 28, 32, 40, 48, 60, 72, 88, 108, 128],
  8: [0, 4, 8, 12, 16, 20, 24, 28, 36, 44, 52, 60, 72, 88, 108, 128],
}

export interface Bands {
  /** Of a long window, and of a short one. */
  long: readonly number[]
  short: readonly number[]
  /** How many of each the filters of noise shaping may reach. */
  shaped: { long: number; short: number }
}

/** From a rate on; rates that have no number of their own take what is next to them. */
const RATES: readonly (Bands & { least: number })[] = [
  { least: 75_132, long: LONG[96], short: SHORT[96], shaped: { long: 31, short: 9 } },
  { least: 55_426, long: LONG[64], short: SHORT[96], shaped: { long: 34, short: 10 } },
  { least: 46_009, long: LONG[48], short: SHORT[48], shaped: { long: 40, short: 14 } },
  { least: 37_566, long: LONG[48], short: SHORT[48], shaped: { long: 42, short: 14 } },
  { least: 27_713, long: LONG[32], short: SHORT[48], shaped: { long: 51, short: 14 } },
  { least: 18_783, long: LONG[24], short: SHORT[24], shaped: { long: 46, short: 14 } },
  { least: 9_391, long: LONG[16], short: SHORT[16], shaped: { long: 42, short: 14 } },
  { least: 0, long: LONG[8], short: SHORT[8], shaped: { long: 39, short: 14 } },
]

/** @param size samples of a frame */
export function bandsOf(rate: number, size: number): Bands {
  const { long, short, shaped } = RATES.find(({ least }) => rate >= least)!
  return { long: upTo(size, long), short: upTo(size / 8, short), shaped }
}

function upTo(size: number, starts: readonly number[]): number[] {
  return [...starts.filter((start) => start < size), size]
}
