// Where the tokens of an image lie that is shown as a whole and in slices, for text models that turn tokens by where they lie (MiniCPM-V 4.7). Slices lie
// side by side on a canvas, the whole is stretched over it, and the tokens that frame them stand at corners of theirs: before the
// whole one step outside of the canvas, behind it at its far corner, between lines of slices at the right edge. Whatever else of these
// marks follows the image stands at the canvas' origin. As `get_rope_index` of transformers has it.

interface Size {
  width: number
  height: number
}

/** In tokens. */
export interface Canvas {
  whole: Size
  slices?: { columns: number; lines: number; each: Size }
  /** Tokens that belong to an image where they follow it. */
  marks: readonly number[]
}

type Set = (position: number, time: number, height: number, width: number) => void

/**
 * @param softs where its soft tokens are
 * @param origin the position that it begins at
 * @returns the token and the position behind it
 */
export function layCanvas(
  { whole, slices, marks }: Canvas,
  {
    tokens,
    softs,
    origin,
    set,
  }: { tokens: Int32Array; softs: Int32Array; origin: number; set: Set },
): { end: number; next: number } {
  const place = (token: number, height: number, width: number) =>
    set(token, origin, origin + height, origin + width)
  const count = whole.width * whole.height
  const { each, columns, lines } = slices ?? { each: whole, columns: 1, lines: 1 }
  const canvas = { width: columns * each.width, height: lines * each.height }
  let end = softs.at(-1)! + 1
  while (end < tokens.length && marks.includes(tokens[end]!)) end++
  for (let token = softs[0]! - 1; token < end; token++) place(token, 0, 0)
  const outside = Math.max(origin - 1, 0)
  set(softs[0]! - 1, origin, outside, outside)
  const behind = softs[count - 1]! + 1
  if (behind < end) place(behind, canvas.height, canvas.width)
  const [down, across] = [spread(canvas.height, whole.height), spread(canvas.width, whole.width)]
  for (let i = 0; i < count; i++)
    place(softs[i]!, down[Math.floor(i / whole.width)]!, across[i % whole.width]!)
  const ofSlice = each.width * each.height
  for (let slice = 0; slices && slice < columns * lines; slice++) {
    const own = softs.subarray(count + slice * ofSlice, count + (slice + 1) * ofSlice)
    const [line, column] = [Math.floor(slice / columns), slice % columns]
    const [top, left] = [line * each.height, column * each.width]
    place(own[0]! - 1, top, left)
    for (const [i, token] of own.entries())
      place(token, top + Math.floor(i / each.width), left + (i % each.width))
    const last = own.at(-1)! + 1
    const bottom = top + each.height - 1
    if (last < end) place(last, bottom, left + each.width - 1)
    // The mark behind a line's last slice, what ends the line, the mark before the next slice.
    if (column === columns - 1 && line < lines - 1) place(last + 1, bottom, canvas.width)
  }
  return { end, next: origin + Math.max(canvas.width, canvas.height) + 1 }
}

/** So many whole numbers from 0 to the one before `length`, as evenly as `linspace` of torch in floats and halves to even make them. */
function spread(length: number, count: number): number[] {
  const round = Math.fround
  const last = length - 1
  const step = count > 1 ? round(last / (count - 1)) : 0
  return Array.from({ length: count }, (_, i) => {
    const isNear = i < count / 2
    const at = isNear ? round(step * i) : round(last - round(step * (count - 1 - i)))
    return count > 1 ? toEven(at) : 0
  })
}

function toEven(value: number): number {
  const whole = Math.floor(value)
  const rest = value - whole
  return rest === 0.5 ? whole + (whole % 2) : Math.round(value)
}
