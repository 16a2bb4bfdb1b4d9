// What a shard has of a parameter: all of it, equal parts of its rows, or an equal part of its columns. Files keep parameters
// whole, so a window of whole rows is cut on its way into each shard.

import { groupCodecs, isGroupCodec, rowLayout } from "./format.ts"
import type { Parameter } from "./manifest.ts"

export type Cut =
  | { kind: "whole" }
  /** Rows, of each segment a part: those of q, of k and of v; and where they come so often, likewise those of each expert. */
  | { kind: "rows"; segments: readonly Segment[]; times?: number }
  /** Columns, side by side; a part has whole groups of codes. */
  | { kind: "columns" }

/**
 * Neighbours that are divided alike, into as many equal parts as there are shards, or into fewer: then a part is on several
 * shards, as the heads of keys are where there are more devices. Into one: every shard has it whole.
 */
export interface Segment {
  length: number
  parts: number
  /** Shard s has part s % parts; absent: floor(s * parts / shards), so that those who share one are neighbours. */
  cyclic?: true
}

/** How much of a segment a shard has. */
export const ownLength = ({ length, parts }: Segment) => length / parts

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
  const { segments, times = 1 } = cut
  const isSound = ({ length, parts }: Segment) => length % parts === 0 && shards % parts === 0
  return times * sumOf(segments.map(({ length }) => length)) === rows && segments.every(isSound)
}

/** How large a slice of a parameter is in each of so many shards. */
export function sliceSizes({ rows, columns, codec }: Sizes, cut: Cut, shards: number): Sizes {
  if (cut.kind === "rows") {
    const { segments, times = 1 } = cut
    return { rows: times * sumOf(segments.map(ownLength)), columns, codec }
  }
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
      return cutRows(whole, cut, { shard, shards }, window)
    case "columns":
      return [cutColumns(whole, { shard, shards }, window)]
  }
}

function cutRows(
  { rows: all, columns, codec }: Sizes,
  { segments, times = 1 }: Extract<Cut, { kind: "rows" }>,
  { shard, shards }: { shard: number; shards: number },
  { row, rows, values, scales }: RowWindow,
): RowWindow[] {
  const { bytes, scaleBytes } = rowLayout(codec, columns)
  const windows: RowWindow[] = []
  const [turn, ownTurn] = [all / times, sumOf(segments.map(ownLength))]
  const [firstTurn, end] = [Math.floor(row / turn), Math.ceil((row + rows) / turn)]
  let [begin, own] = [firstTurn * turn, firstTurn * ownTurn] // of a segment, among all rows and among the shard's
  for (const segment of Array.from({ length: end - firstTurn }, () => segments).flat()) {
    const part = ownLength(segment)
    const first = begin + part * partOf(segment, shard, shards)
    const from = Math.max(first, row)
    const to = Math.min(first + part, row + rows)
    if (from < to)
      windows.push({
        row: own + from - first,
        rows: to - from,
        values: values.subarray((from - row) * bytes, (to - row) * bytes),
        scales: scales?.subarray((from - row) * scaleBytes, (to - row) * scaleBytes),
      })
    begin += segment.length
    own += part
  }
  return windows
}

/** Which part of a segment a shard has. */
function partOf({ parts, cyclic }: Segment, shard: number, shards: number): number {
  return cyclic ? shard % parts : Math.floor((shard * parts) / shards)
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

const sumOf = (numbers: readonly number[]) => numbers.reduce((sum, each) => sum + each, 0)
