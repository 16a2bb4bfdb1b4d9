// Blocks of GGUF taken apart in C are held to those that JavaScript takes apart, bit for bit, for every type and instruction set.

import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { runtime } from "../../src/compiler/targets/cpu/toolchain.ts"
import { unpackBlocks } from "../../src/model/gguf/blocks.ts"
import { patternsOf } from "../../src/model/gguf/patterns.ts"
import { blockTypeNames, blockTypes, codecOfType } from "../../src/model/gguf/types.ts"
import { widen } from "../../src/runtime/dtype.ts"
import { groupCodecs, isGroupCodec } from "../../src/runtime/format.ts"
import { mulberry32 } from "../random.ts"
import { build, run, type Way, ways } from "./ways.ts"

const types = blockTypeNames.flatMap((type) => {
  const codec = codecOfType(type)
  return codec && isGroupCodec(codec) ? [{ type, codec }] : []
})
const ROWS = 3
const BLOCKS = 96 // of a row

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "sinter-blocks-"))
})
afterAll(() => rmSync(folder, { recursive: true }))

describe.each(ways)("$name", ({ name, isSkipped, note, way }) => {
  test.skipIf(isSkipped)(`blocks of every type come apart as in JavaScript${note}`, async () => {
    const program = join(folder, name)
    const built: Way = way()
    const sources = [join(import.meta.dirname, "blocks.c"), join(runtime, "blocks.c")]
    build(built, sources, program)
    for (const { type, codec } of types) {
      const { id, values, bytes } = blockTypes[type]
      const columns = BLOCKS * values
      const random = mulberry32(id)
      const blocks = Uint8Array.from({ length: ROWS * BLOCKS * bytes }, random)
      for (let i = 0; i < ROWS * BLOCKS; i++) blocks[i * bytes] = i // MXFP4's exponent: every value
      const wanted = await unpackBlocks(type, codec, blocks, ROWS, columns)
      const codes = wanted.values.length
      const patterns = new Uint8Array((patternsOf(type) ?? Uint32Array.of()).buffer)
      const lengths = [blocks, wanted.values, wanted.scales!, patterns].map(({ length }) => length)
      const head = BigInt64Array.from([id, ROWS, columns, ...lengths], BigInt)
      const input = Buffer.concat([new Uint8Array(head.buffer), blocks, patterns])
      const output = run(built, program, input)
      const { dtype } = groupCodecs[codec]
      expect(output.subarray(0, codes).equals(wanted.values), type).toBe(true)
      // What is no number need not be the same one.
      expect(widen(Uint8Array.from(output.subarray(codes)), dtype), type).toEqual(
        widen(wanted.scales!, dtype),
      )
    }
  })
})
