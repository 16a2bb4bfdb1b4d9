// Files in safetensors as tests change them: read whole, tensors by their names, and written again.

import { readFileSync, writeFileSync } from "node:fs"

export interface Tensor {
  dtype?: string // BF16 unless said otherwise
  shape: number[]
  rows: Buffer[]
}
export type Tensors = Map<string, Tensor>

export function read(path: string): Tensors {
  const bytes = readFileSync(path)
  const data = 8 + Number(bytes.readBigUInt64LE(0))
  const { __metadata__: _, ...header } = JSON.parse(bytes.toString("utf8", 8, data)) as Record<
    string,
    { dtype: string; shape: number[]; data_offsets: [number, number] }
  >
  return new Map(
    Object.entries(header).map(
      ([
        name,
        {
          dtype,
          shape,
          data_offsets: [begin, end],
        },
      ]) => {
        const [length = 1] = shape // a number by itself has none
        const size = (end - begin) / length
        const row = (_: unknown, i: number) =>
          bytes.subarray(data + begin + i * size, data + begin + (i + 1) * size)
        return [name, { dtype, shape, rows: Array.from({ length }, row) }]
      },
    ),
  )
}

export function write(path: string, tensors: Tensors): void {
  let end = 0
  const header = [...tensors].map(([name, { dtype = "BF16", shape, rows }]) => {
    const begin = end
    end += Buffer.concat(rows).length
    return [name, { dtype, shape, data_offsets: [begin, end] }] as const
  })
  const json = Buffer.from(JSON.stringify(Object.fromEntries(header)))
  const length = Buffer.alloc(8)
  length.writeUInt32LE(json.length)
  const data = [...tensors.values()].flatMap(({ rows }) => rows)
  writeFileSync(path, Buffer.concat([length, json, ...data]))
}

export const whole = (rows: Buffer[], columns: number): Tensor => ({
  shape: [rows.length, columns],
  rows,
})
