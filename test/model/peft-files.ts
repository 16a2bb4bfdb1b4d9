// Adapters' folders as PEFT writes them, with whatever numbers a test needs.

import { mkdtempSync, writeFileSync } from "node:fs"
import { join } from "node:path"

export interface Tensor {
  dtype: string
  shape: number[]
  bytes: Uint8Array
}

export type Tensors = Map<string, Tensor>

/** In a folder of its own, in that folder. */
export function writeAdapter(parent: string, fields: object, tensors: Tensors): string {
  const folder = mkdtempSync(join(parent, "adapter-"))
  writeFileSync(join(folder, "adapter_config.json"), JSON.stringify(fields))
  writeFileSync(join(folder, "adapter_model.safetensors"), written(tensors))
  return folder
}

export function written(tensors: Tensors): Buffer {
  let at = 0
  const header: Record<string, object> = {}
  for (const [name, { dtype, shape, bytes }] of tensors) {
    header[name] = { dtype, shape, data_offsets: [at, at + bytes.length] }
    at += bytes.length
  }
  const text = Buffer.from(JSON.stringify(header))
  const length = Buffer.alloc(8)
  length.writeBigUInt64LE(BigInt(text.length))
  return Buffer.concat([length, text, ...[...tensors.values()].map(({ bytes }) => bytes)])
}

type Header = Record<string, { dtype: string; shape: number[]; data_offsets: number[] }>

/** Of a safetensors file. */
export function readTensors(file: Buffer): Tensors {
  const length = Number(file.readBigUInt64LE(0))
  const { __metadata__: _, ...header } = JSON.parse(file.toString("utf8", 8, 8 + length))
  const tensors: Tensors = new Map()
  for (const [name, { dtype, shape, data_offsets: offsets }] of Object.entries(header as Header)) {
    const [from, to] = offsets.map((offset) => 8 + length + offset)
    tensors.set(name, { dtype, shape, bytes: file.subarray(from, to) })
  }
  return tensors
}

/** Floats from -1 to 1, the same at each run. */
export function floats(...shape: number[]) {
  const count = shape.reduce((product, n) => product * n, 1)
  const values = Float32Array.from({ length: count }, (_, i) => Math.sin(7 * i + shape[0]!))
  return { dtype: "F32", shape, bytes: new Uint8Array(values.buffer) }
}

export const PLAIN = { peft_type: "LORA", r: 4, lora_alpha: 1 }

/** Of matrices of both layers, [rows, columns] by their names within a layer. */
export function lora(matrices: Record<string, readonly [number, number]>): Tensors {
  const tensors: Tensors = new Map()
  for (const layer of [0, 1])
    for (const [name, [rows, columns]] of Object.entries(matrices)) {
      const module = `base_model.model.model.layers.${layer}.${name}`
      tensors.set(`${module}.lora_A.weight`, floats(4, columns))
      tensors.set(`${module}.lora_B.weight`, floats(rows, 4))
    }
  return tensors
}
