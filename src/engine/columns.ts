/** Of rows [n, width] the `count` columns from `from` on; the rows themselves where these are all. */
export function columnsOf(
  rows: Float32Array,
  width: number,
  from: number,
  count: number,
): Float32Array {
  if (count === width) return rows
  const cut = new Float32Array((rows.length / width) * count)
  for (let at = from, to = 0; to < cut.length; at += width, to += count)
    cut.set(rows.subarray(at, at + count), to)
  return cut
}
