// What an image is to the rest of the house: how a model wants its images prepared, and what comes of one. Plain data: all of it
// travels to the process that does the work (image-worker.ts).

export type Filter = "bilinear" | "bicubic" | "lanczos"

/** Columns and rows: of pixels, of patches or of tiles. */
export interface Size {
  width: number
  height: number
}

/** How an image becomes tiles, each as large as the tower's image; or one that is as large as the image itself. */
export type Cutting =
  /** One tile: stretched to it. */
  | { kind: "stretch" }
  /** One tile: the shorter edge becomes so many pixels, and what the tile does not hold around the centre is cut off. */
  | { kind: "crop"; shortest: number }
  /** One tile: the longer edge becomes as long as it, no edge less than `least` pixels, and around the image is a colour. */
  | { kind: "pad"; least: number; colour: readonly [number, number, number] }
  /** As Idefics 3: the longer edge becomes so many pixels, then both a multiple of the tile's; all of it as the last tile. */
  | { kind: "split"; longest: number; isSplit: boolean }
  /** In a grid of so many tiles, chosen by `choice`; with more than one, all of it as the last tile. */
  | {
      kind: "grid"
      choice: "ratio" | "scale"
      least: number
      most: number
      /** Beside each other, and below. */
      side?: number
      dense?: Dense
    }
  /**
   * As LLaVA 1.6: all of it as the first tile; then padded with black to the best of these grids. Where they have more rows than so
   * many tiles, these are shrunk.
   */
  | { kind: "anyres"; grids: readonly Size[]; most?: number }
  /**
   * As Llama 4: with its proportions to the top left of the grid of so many tiles in which it grows least, the rest black; no larger
   * than it is, unless it is smaller than a tile or `grows`. With more than one tile, all of it, stretched, as the last one.
   */
  | { kind: "canvas"; most: number; grows: boolean }
  /**
   * As Llama 3.2 Vision: with its proportions to the top left of the grid of so many tiles with that edge in which it grows least, the
   * rest black; no larger than the grid, and each side as long as the image's if a tile's is no longer. All of them are one tile of the tower.
   */
  | { kind: "together"; most: number; edge: number }
  /** One tile of about the image's proportions, whose sides are multiples of `tile`'s: of so many pixels, as Qwen. */
  | {
      kind: "fit"
      least: number
      most: number
      /** An image is first thought of as so large that neither side is less than the tile's: both at once, or first by its height. */
      grows?: "at once" | "height first"
      tiles?: Tiles
    }
  /** The same, no edge longer than that, none shorter than `least` and of no more pixels, but else as large as the image, as Pixtral. */
  | { kind: "within"; longest: number; least: number; most: number }
  /** The same, as large as so many pixels allow, as Gemma 4. */
  | { kind: "fill"; most: number }
  /** The same as Muse Glimmer: sides are rounded up or down, whichever makes the nearest proportions of no more than so many pixels. */
  | { kind: "proportion"; most: number }
  /**
   * As MiniCPM-V: with its proportions and about the pixels of a square with that edge. Before as many tiles that fit, of a grid
   * whose proportions are nearest, where an image has more pixels: as many as it has times those of the square, or one more or less.
   */
  | {
      kind: "slices"
      edge: number
      most: number
      /** An image of no more pixels stays about as large as it is. */
      keeps?: true
    }
  /**
   * The same as Kimi: an image becomes no larger than it is, than `area` pixels of whole patches and than `longest`, and black at its
   * right and its bottom fills up what lacks of whole multiples. What has more than the most then is shrunk to that.
   */
  | { kind: "shrink"; area: number; longest: number; most: number }

/** Whether a tile is as large as its image makes it, and its patches are told by height and width. */
export const fits = (cutting: Cutting): cutting is Extract<Cutting, { kind: Fitting }> =>
  ["fit", "within", "fill", "proportion", "slices", "shrink"].includes(cutting.kind)

type Fitting = "fit" | "within" | "fill" | "proportion" | "slices" | "shrink"

/**
 * As Granite Docling: an image of so many times as much width as height, above one number and up to the other, may have more tiles where its grid
 * makes less than `scale` of its width. Absent: any.
 */
export interface Dense {
  most: number
  scale?: number
  above?: number
  upTo?: number
}

/** As LFM2-VL: an image of more pixels than that lies in a grid of square tiles, and the one that fits it stands behind them. */
export interface Tiles {
  above: number
  /** How many there are. */
  least: number
  most: number
  /** Of each, in pixels. */
  edge: number
}

/** What stands in the prompt for an image, around the soft tokens of its tiles; `{image}` is its number in the prompt, from 0. */
export interface Wording {
  opening: string
  closing: string
  /** Before the only tile. */
  only: string
  /** Before each of several: `{row}`, `{column}` and `{number}` are counted from 1. */
  part: string
  /** Before the tile that holds all of it, where there are others. */
  whole: string
  /** Behind the only one; absent: as behind that one. */
  behindOnly?: string
  /** Behind that one, or the only one; absent: what stands behind each. */
  behindWhole?: string
  /** Between the lines of a tile that fits its image. */
  betweenLines: string
  /** Between the tiles of a row. */
  betweenTiles: string
  /** Behind each tile, and behind each row of several. */
  behindTile: string
  behindRow: string
  /** Between these rows. */
  betweenRows?: string
}

/** How pixels become what a tower takes, as a model's processor does it. */
export interface ImageProcessing {
  cutting: Cutting
  filter: Filter
  /** What a byte is multiplied with, and then less `mean` and divided by `std`, one for each of red, green and blue. */
  rescale: number
  /** Each of these steps is rounded to floats of that kind. Absent: mean and deviation are brought to bytes first. */
  steps?: "f32" | "bf16"
  mean: readonly [number, number, number]
  std: readonly [number, number, number]
  /** Of each tile, in pixels. */
  tile: Size
  /** A patch's edge in pixels: so many to each side as a tile holds whole ones. */
  patch: number
  /** Of so many patches a side one row comes out; they lie one behind the other, and behind them those that are over at the edges. */
  joined: number
  /** A row of the tower's own stands before the patches. */
  hasClassRow: boolean
  /** The tower turns rows of tiles by height and width, counted from 1; a class's by nothing. */
  isTurned?: true
  /** So many of the first rows do not come out. */
  skipped: number
  /** Patches a side of a window, which lie behind one another; absent: there are no windows. */
  window?: number
  /** A patch sees the lines of squares around its own, and its own. */
  isNear?: true
  /** Of a square, so many a side, that positions are learned for; absent: a patch has a place of its own, or none. */
  places?: number
  /** Patches a side that become one row between layers, and there see each other: they lie one behind the other. */
  inner?: number
  /** Of such a square, of which a patch has the nearest place. */
  nearest?: number
  /** Behind the patches so many rows ask, and they come out. */
  queries?: number
  /**
   * How places share a patch: those that it covers, as areas do; or, edge on edge, the four or the sixteen around it, as bilinear and bicubic
   * resizing have it; or the four, of which those beyond the edge are nothing. Absent: the four around it, corners on corners.
   */
  spread?: "area" | "linear" | "cubic" | "within"
  /** The text model reads an image's rows before all tokens, and its mark as a token where it stands. */
  isInFront?: true
  /**
   * Of the square's places the four around a patch are named, by its token and its coordinates, and behind its pixels stands how much each
   * counts. Absent: there stands how much every place counts.
   */
  isNamed?: true
  /** The tower is told in which line and column of a tile each row lies that comes out of it. */
  isLined?: true
  /** A row of the tower's own stands before those of an image, another ends each of their lines, and one stands behind them. */
  isFramed?: true
  /** The text model turns rows by where they lie in their image. */
  isPlaced?: true
  /** The same of slices and what they are of; and these tokens belong to an image where they follow it. */
  canvas?: { marks: readonly number[] }
  /** What the chat template writes in the place of an image. */
  mark: string
  /** The text of the token that stands for each row that comes out. */
  soft: string
  wording: Wording
}

/** An image as a tower takes it. */
export interface SeenImage {
  /** One sequence of the tower each, in the order of the soft tokens. */
  tiles: readonly Tile[]
  /** What stands in the prompt in the place of the mark: its soft tokens among whatever else, as text. */
  text: string
  /** Its rows stand before all tokens: the text has none. */
  isInFront?: true
  /** How many soft tokens `text` has, or stand before it: as many as rows come out of the tower, or stand in the arrangement. */
  rows: number
  /** How rows that come out become those of the prompt; absent: as they are. */
  arrangement?: Arrangement
  /** How these lie in the image, line by line, where the text model turns them by that. */
  grid?: Size & { isFramed?: true }
  /** How they lie in the whole and in slices that lie over it. */
  canvas?: {
    whole: Size
    slices?: { columns: number; lines: number; each: Size }
    marks: readonly number[]
  }
}

/** Each row of the prompt is a sum of so many rows of tiles, in which each has its share. */
export interface Arrangement {
  taps: 1 | 4
  /** So many rows come out of all tiles. */
  of: number
  /** Among these; behind them all are those that are no patch's, the first of which ends a line. */
  from: Int32Array // [rows, taps]
  shares: Float32Array // [rows, taps]
}

export interface Tile {
  given: Float32Array // [rows, taken]  a patch's pixels, and what places count for it
  places: Int32Array // [rows] into the tower's table of positions
  wanted: Int32Array // [rows that come out] the first of the rows that are joined to one
  coordinates?: Int32Array // [3, rows] time, height and width that turn a row
  seenFrom?: Int32Array // [rows] the first row of its window
  seenTo?: Int32Array // [rows] the last one
}

/** Pixels of red, green and blue. */
export interface Picture extends Size {
  data: Uint8Array // [height, width, 3]
}
