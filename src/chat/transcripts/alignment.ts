// When each token of a window is said. Some heads of cross-attention look at the sound of the token that they read: what they make of a
// window's rows is evened out and averaged, and the way through it that goes forward in tokens and in time, and that looks most at what
// the heads look at, says where each token begins (dynamic time warping).
//
// Source: _extract_token_timestamps in generation_whisper.py of transformers, which does what timing.py of OpenAI's whisper does.

/** They are alike in their sizes. */
export interface AlignmentHeads {
  count: number
  headDim: number
  /** Of the product of query and key. */
  scale: number
  /** [count * headDim, width]  makes keys of rows */
  keys: Float32Array
  /** Rows that a median is taken of, an odd number. */
  smoothed: number
}

export interface WindowSaid {
  rows: Float32Array // [rows, width]  what the tower makes of the window
  heard: number // of these, that are of the recording, and not of the silence behind it
  queries: Float32Array // [tokens, count * headDim]
}

/** @returns of each token the row at which it begins */
export function beginnings(heads: AlignmentHeads, said: WindowSaid): Int32Array {
  const { count, headDim } = heads
  const tokens = said.queries.length / (count * headDim)
  const { heard } = said
  const mean = new Float64Array(tokens * heard)
  for (let head = 0; head < count; head++) {
    const looks = looksOf(heads, said, head)
    evenOut(looks, tokens, heard)
    const smooth = smoothed(looks, heard, heads.smoothed)
    for (const [i, look] of smooth.entries()) mean[i]! += look / count
  }
  return wayThrough(mean, tokens, heard)
}

/** [tokens, heard]  how much of a head's attention goes to each row; the silence behind has its share of it. */
function looksOf(
  { count, headDim, scale, keys: matrices }: AlignmentHeads,
  { rows, heard, queries }: WindowSaid,
  head: number,
): Float64Array {
  const keys = keysOf(rows, matrices, { head, headDim, width: matrices.length / (count * headDim) })
  const length = keys.length / headDim
  const tokens = queries.length / (count * headDim)
  const looks = new Float64Array(tokens * heard)
  const scores = new Float64Array(length)
  for (let token = 0; token < tokens; token++) {
    const at = (token * count + head) * headDim
    const query = queries.subarray(at, at + headDim)
    let most = Number.NEGATIVE_INFINITY
    for (let row = 0; row < length; row++) {
      scores[row] = dot(query, 0, keys, row * headDim, headDim) * scale
      most = Math.max(most, scores[row]!)
    }
    let sum = 0
    for (let row = 0; row < length; row++) sum += scores[row] = Math.exp(scores[row]! - most)
    for (let row = 0; row < heard; row++) looks[token * heard + row] = scores[row]! / sum
  }
  return looks
}

/** [rows, headDim] */
function keysOf(
  rows: Float32Array,
  matrices: Float32Array,
  { head, headDim, width }: { head: number; headDim: number; width: number },
): Float32Array {
  const keys = new Float32Array((rows.length / width) * headDim)
  for (let i = 0; i < keys.length; i++) {
    const [row, column] = [Math.floor(i / headDim), i % headDim]
    keys[i] = dot(rows, row * width, matrices, (head * headDim + column) * width, width)
  }
  return keys
}

/** Four sums at once, which processors add side by side. */
function dot(a: Float32Array, from: number, b: Float32Array, at: number, length: number): number {
  let [first, second, third, fourth] = [0, 0, 0, 0]
  let i = 0
  for (; i + 4 <= length; i += 4) {
    first += a[from + i]! * b[at + i]!
    second += a[from + i + 1]! * b[at + i + 1]!
    third += a[from + i + 2]! * b[at + i + 2]!
    fourth += a[from + i + 3]! * b[at + i + 3]!
  }
  for (; i < length; i++) first += a[from + i]! * b[at + i]!
  return first + second + (third + fourth)
}

/** Of each row what all tokens look at it becomes 0 in the mean, and its deviation 1; a row that all look at alike tells nothing. */
function evenOut(looks: Float64Array, tokens: number, heard: number): void {
  for (let row = 0; row < heard; row++) {
    let sum = 0
    for (let at = row; at < looks.length; at += heard) sum += looks[at]!
    const mean = sum / tokens
    let squares = 0
    for (let at = row; at < looks.length; at += heard) squares += (looks[at]! - mean) ** 2
    const deviation = Math.sqrt(squares / tokens)
    for (let at = row; at < looks.length; at += heard)
      looks[at] = deviation > 0 ? (looks[at]! - mean) / deviation : 0
  }
}

/** Of each row the median of those around it; behind either end they come back. */
function smoothed(looks: Float64Array, heard: number, width: number): Float64Array {
  const half = (width - 1) / 2
  if (heard <= half) return looks
  const smooth = new Float64Array(looks.length)
  const around = new Float64Array(width) // ascending
  for (let at = 0; at < looks.length; at++) {
    const row = at % heard
    for (let i = 0; i < width; i++) {
      const other = Math.abs(row + i - half)
      const look = looks[at - row + (other < heard ? other : 2 * (heard - 1) - other)]!
      let place = i
      for (; place > 0 && around[place - 1]! > look; place--) around[place] = around[place - 1]!
      around[place] = look
    }
    smooth[at] = around[half]!
  }
  return smooth
}

const BOTH = 0 // the next token, and the next row
const TOKEN = 1
const ROW = 2

/** Costs are rounded to floats where they are kept, as in the source: of two ways that cost about the same it is the same one. */
function wayThrough(looks: Float64Array, tokens: number, heard: number): Int32Array {
  const width = heard + 1
  const costs = new Float32Array((tokens + 1) * width).fill(Number.POSITIVE_INFINITY)
  const came = new Uint8Array(costs.length)
  costs[0] = 0
  for (let row = 1; row <= heard; row++)
    for (let token = 1; token <= tokens; token++) {
      const at = token * width + row
      const [both, next, stayed] = [costs[at - width - 1]!, costs[at - width]!, costs[at - 1]!]
      const way = both < next && both < stayed ? BOTH : next < both && next < stayed ? TOKEN : ROW
      came[at] = way
      const before = way === BOTH ? both : way === TOKEN ? next : stayed
      costs[at] = before - looks[(token - 1) * heard + row - 1]!
    }
  const begins = new Int32Array(tokens)
  for (let token = tokens, row = heard; token > 0 && row > 0; ) {
    begins[token - 1] = row - 1
    const way = came[token * width + row]
    if (way !== ROW) token--
    if (way !== TOKEN) row--
  }
  return begins
}
