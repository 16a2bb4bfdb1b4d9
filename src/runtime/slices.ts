// What a shard has of a parameter: all of it, or an equal part of its rows or of its columns. Files keep parameters whole, so a
// window of whole rows is cut on its way into each shard.

import { groupCodecs, isGroupCodec, rowLayout } from "./format.ts"
import type { Parameter } from "./manifest.ts"

export type Cut =
  | { kind: "whole" }
  /** Rows, of each segment of them an equal part: those of q, of k and of v, or of gates and of what they are multiplied with. */
  | { kind: "rows"; segments: readonly number[] }
  /** Columns, side by side; a part has whole groups of codes. */
  | { kind: "columns" }

/** One of a shard's own parameters. */
export interface Slice {
  /** Its number among the whole ones. */
  of: number
  cut: Cut
}

/** Some whole rows of a parameter, as `load` of a program takes them. */
export interface RowWindow {
  row: number
  rows: number
  values: Uint8Array
  scales?: Uint8Array | undefined
}

type Sizes = Pick<Parameter, "rows" | "columns" | "codec">

/** Whether a parameter can be cut like that. */
export function cutIsSound({ rows, columns, codec }: Sizes, cut: Cut, shards: number): boolean {
  if (cut.kind === "whole") return true
  const group = isGroupCodec(codec) ? groupCodecs[codec].group : 1
  if (cut.kind === "columns") return columns % (shards * group) === 0
  const sum = cut.segments.reduce((sum, length) => sum + length, 0)
  return sum === rows && cut.segments.every((length) => length % shards === 0)
}

/** How large a slice of a parameter is in each of so many shards. */
export function sliceSizes({ rows, columns, codec }: Sizes, cut: Cut, shards: number): Sizes {
  if (cut.kind === "rows") return { rows: rows / shards, columns, codec }
  return { rows, columns: cut.kind === "columns" ? columns / shards : columns, codec }
}

/** What a shard takes of a window of the whole parameter; nothing where the window has none of its rows. */
export function cutWindow(
  whole: Sizes,
  cut: Cut,
  { shard, shards }: { shard: number; shards: number },
  window: RowWindow,
): RowWindow[] {
  switch (cut.kind) {
    case "whole":
      return [window]
    case "rows":
      return cutRows(whole, cut.segments, { shard, shards }, window)
    case "columns":
      return [cutColumns(whole, { shard, shards }, window)]
  }
}

function cutRows(
  { columns, codec }: Sizes,
  segments: readonly number[],
  { shard, shards }: { shard: number; shards: number },
  { row, rows, values, scales }: RowWindow,
): RowWindow[] {
  const { bytes, scaleBytes } = rowLayout(codec, columns)
  const windows: RowWindow[] = []
  let [begin, own] = [0, 0] // of the segment, among all rows and among the shard's
  for (const length of segments) {
    const part = length / shards
    const first = begin + shard * part
    const from = Math.max(first, row)
    const to = Math.min(first + part, row + rows)
    if (from < to)
      windows.push({
        row: own + from - first,
        rows: to - from,
        values: values.subarray((from - row) * bytes, (to - row) * bytes),
        scales: scales?.subarray((from - row) * scaleBytes, (to - row) * scaleBytes),
      })
    begin += length
    own += part
  }
  return windows
}

function cutColumns(
  { codec }: Sizes,
  { shard, shards }: { shard: number; shards: number },
  { row, rows, values, scales }: RowWindow,
): RowWindow {
  const pick = (bytes: Uint8Array, lists: number) => {
    const list = bytes.length / (rows * lists)
    const part = list / shards
    const picked = new Uint8Array(bytes.length / shards)
    for (let i = 0; i < rows * lists; i++) {
      const from = i * list + shard * part
      picked.set(bytes.subarray(from, from + part), i * part)
    }
    return picked
  }
  if (!isGroupCodec(codec)) return { row, rows, values: pick(values, 1) }
  const lists = groupCodecs[codec].minimums ? 2 : 1 // a row's minimums lie behind its scales
  return { row, rows, values: pick(values, 1), scales: pick(scales!, lists) }
}
