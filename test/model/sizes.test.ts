// What a manifest says, and the start-up table counts, is what a library takes: its weights to the byte, and the address space that a process
// gains by opening it.

import { execFileSync } from "node:child_process"
import { join } from "node:path"
import { expect, test } from "vitest"
import { compile } from "../../src/compiler/compile.ts"
import { shelvedCpu } from "../../src/compiler/targets/cpu/cpu.ts"
import { findCompiler } from "../../src/compiler/targets/cpu/toolchain.ts"
import type { FormatName } from "../../src/runtime/format.ts"
import { openLibrary } from "../../src/runtime/library.ts"
import { bufferBytes } from "../../src/runtime/manifest.ts"
import { isLeftOut } from "../left-out.ts"
import { smallGraph } from "./small.ts"

const measured = process.platform === "linux"
const compiler = await findCompiler()
const why = measured && compiler ? "" : " (skipped: needs Linux and a C compiler)"

test.skipIf(!measured || isLeftOut(compiler)).each<FormatName>(["q3f16_1", "q0bf16"])(
  `%s: as much is reserved as is counted${why}`,
  async (format) => {
    const graph = smallGraph({ hidden: 72, intermediate: 100 })
    const plan = compile(graph, { format, activations: "int8", kv: "f16" })
    const { path, manifest } = await shelvedCpu(plan)
    const { bytes } = manifest
    const limits = { blocks: [100], tokens: 60_000, sequences: 16, rows: 30_000 }
    const env = { ...process.env, MALLOC_ARENA_MAX: "1" } // else each thread reserves 64 MiB of its own
    const script = join(import.meta.dirname, "reserved.ts")
    const parameters = ["--import", "tsx", script, path, JSON.stringify(limits), "2"]
    const gained = Number(execFileSync(process.execPath, parameters, { encoding: "utf8", env }))
    const expected =
      bytes.weights +
      bufferBytes(bytes, limits, 2) +
      limits.blocks[0]! * manifest.kv.groups[0]!.bytesPerBlock
    expect(gained / expected).toBeGreaterThan(0.98)
    expect(gained / expected).toBeLessThan(1.02)
    const program = await openLibrary(path, { ...limits, tokens: 1, rows: 1 }, 2)
    expect(program.packed.bytes).toBe(bytes.weights)
    await program.close()
  },
  240_000,
)
