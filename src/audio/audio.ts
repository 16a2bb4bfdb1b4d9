// What a recording is to the rest of the house: how a model wants its recordings prepared, and what comes of one. Plain data: all of
// it travels to the process that does the work (audio-worker.ts).

/** How a recording becomes windows of 30 seconds, one of which a tower hears at once. */
export type Cutting =
  /** One window: whatever is longer is refused, where transformers cuts it off and says nothing (Qwen2-Audio). */
  | "window"
  /** Silence behind the recording fills the last window; the loudest band of all of it bounds every window (Voxtral). */
  | "padded"
  /** Each 30 seconds by themselves, and of the last as much as there is (Audio Flamingo 3, GLM-ASR). */
  | "windows"
  /** Any 30 seconds, wherever they begin: what was heard before says where (Whisper). Silence fills a recording that has fewer. */
  | "sought"
  /** A few seconds each, with nothing around them; the loudest band of all of a recording bounds each (Qwen 2.5 Omni). */
  | "pieces"
  /**
   * Each 30 seconds, and of the last as much as there is; the loudest band of all of a recording bounds each. Where rows lack of those
   * that become one, there is nothing (Ultravox).
   */
  | "filled"

/** What every model's processor says. */
interface Preparing {
  /** Bands of the mel scale. */
  bands: number
  /** Seconds; longer recordings are refused. */
  most: number
  /** What the chat template writes in the place of a recording. */
  mark: string
  /** The text of the token that stands for each row that comes out. */
  soft: string
  /** What stands around those, as text. */
  before: string
  after: string
}

/** How sound becomes what a Whisper-like tower takes, as a model's processor does it. */
export interface WhisperProcessing extends Preparing {
  cutting: Cutting
  /** Seconds of a window; absent: 30. */
  window?: number
  /** Silence stands before a recording, as much as fills its last frame, and none behind it. */
  isLate?: true
  /** So many of the encoder's rows become one. */
  joined: number
  /** The tower turns heads and looks no places up. */
  isTurned?: true
  /** The tower also sees what lies behind the recording in its window. */
  isFull?: true
}

/** The same for a tower whose filters look at one second at a time, in height, too (Qwen3-ASR, Qwen 3 Omni): chunks.ts. */
export interface ChunkProcessing extends Preparing {
  cutting: "chunks"
  /** Seconds of a window, whose rows see each other and no others. */
  window: number
  /** Silence fills half a second at the least, and what lacks of a second's frames counts as there. */
  isFilled?: true
  /** Columns of a row between the layers. */
  width: number
}

/** A row of every four frames of all of a recording, whose loudness is computed otherwise (Gemma 4 E2B and E4B): subsampled.ts. */
export interface SubsampledProcessing extends Preparing {
  cutting: "subsampled"
  spectrum: Spectrum
}

/**
 * Of such rows every few comes out, and behind them as many of another as lack, and one that ends all (Gemma 3n): ended.ts.
 */
export interface EndedProcessing extends Preparing {
  cutting: "ended"
  spectrum: Spectrum
  /** One of so many comes out. */
  every: number
  /** That come out, the one at the end aside. */
  filled: number
}

/** Nothing is computed: what would be bands are the samples of a row (Gemma 4 12B). */
export interface SamplesProcessing extends Preparing {
  cutting: "samples"
}

/** A row of every two frames of all of a recording, a few of which come out of each few: paired.ts. */
export interface PairedProcessing extends Preparing {
  cutting: "paired"
  /** Rows that see each other. */
  block: number
  /** Of so many rows side by side, so many come out. */
  span: number
  asked: number
}

/** A row of every eight frames, of a piece of a recording at a time: eighths.ts. */
export interface EighthsProcessing extends Preparing {
  cutting: "eighths"
  /** Seconds of a piece; a longer recording is cut where it is quietest. */
  window: number
  /** Samples are less so much of the one before. */
  emphasis: number
}

/** A row of samples as they are, which are convolved, of a piece of a recording at a time: strided.ts. */
export interface StridedProcessing extends Preparing {
  cutting: "strided"
  /** Seconds of a piece; a longer recording is cut where it is quietest. */
  window: number
}

export type AudioProcessing =
  | WhisperProcessing
  | ChunkProcessing
  | SubsampledProcessing
  | EndedProcessing
  | SamplesProcessing
  | PairedProcessing
  | EighthsProcessing
  | StridedProcessing

/** Whether a recording is heard piece by piece, none of which another waits for. */
export const isInPieces = ({ cutting }: AudioProcessing) =>
  cutting === "eighths" || cutting === "strided"

/** Of a conformer: what of a sound is transformed, and what becomes of that. */
export interface Spectrum {
  length: number // samples of a frame
  hop: number // samples from one frame to the next
  transform: number // numbers that are transformed, the last of which are 0
  low: number // hertz, where the first band begins
  high: number // hertz, where the last one ends
  /** Samples are less so much of the one before. */
  emphasis?: { by: number; isHtk: boolean }
  /** Samples are multiplied with it. */
  scale: number
  /** Magnitudes are that much more before their logarithm is taken; or where it is the least, none is below it. */
  floor: number
  isLeast?: true
  /** The first frame begins with the sound, to which silence is added up to a multiple of so many samples; absent: half of it lies ahead. */
  filled?: number
  /** Of each band, what is taken off its logarithms, and what they are divided by. */
  means?: readonly number[]
  deviations?: readonly number[]
}

/** A recording as a tower takes it. */
export interface HeardRecording {
  /** One sequence of the tower each, in the order of the soft tokens. */
  tiles: readonly Tile[]
  /** What stands in the prompt in the place of the mark. */
  text: string
  /** How many soft tokens `text` has: as many as rows come out of the tower. */
  rows: number
}

export interface Tile {
  /**
   * What a tower's convolutions see of each row. Two of three taps: where the second has stride 2 five frames, and whether there is a row
   * before, [rows, 5 * bands + 1]; of pieces, whether there is one behind, too, [rows, 5 * bands + 2]; and where rows are filled up, whether
   * it is one itself, [rows, 5 * bands + 3]. Those of chunks are told in chunks.ts, of pairs in paired.ts, of eights in eighths.ts, of four
   * frames in subsampled.ts and ended.ts, of samples that are convolved in strided.ts; others are as they are, [rows, samples].
   */
  given: Float32Array
  places: Int32Array // [rows] 0, 1, 2, …; zeros where nobody looks them up
  wanted: Int32Array // [rows that come out] the first of the rows that are joined to one
  /** [rows] the first and the last that each sees, where that is not all. */
  seenFrom?: Int32Array
  seenTo?: Int32Array
}

/** A recording of which any 30 seconds are a window. */
export interface SoughtRecording {
  samples: number // at 16 kHz
  frames: number // that it has, 100 of a second; no window begins behind them
  windowAt: (frame: number) => Tile
}

/** A recording in pieces, each of which is heard by itself. */
export interface CutRecording {
  samples: number // at 16 kHz
  pieces: readonly { rows: number; tile: () => Tile }[]
}

/** One channel of numbers between -1 and 1. */
export interface Sound {
  rate: number // samples a second
  samples: Float32Array
}
