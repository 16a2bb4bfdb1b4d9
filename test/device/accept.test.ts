// The kernels of CUDA and HIP before the compilers of their makers: all that `devices --check` runs, which is all that the
// tiny model runs and more. Each is accepted, and finds registers for all of its numbers: nothing is spilled into memory.

import { execFile, spawnSync } from "node:child_process"
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { checkedKernels } from "../../src/compiler/targets/gpu/check.ts"
import { compileCuda } from "../../src/compiler/targets/gpu/cuda-compiler.ts"
import type { Kernel } from "../../src/compiler/targets/gpu/ir/ir.ts"
import { printers } from "../../src/compiler/targets/gpu/printers.ts"
import { compileRocm } from "../../src/compiler/targets/gpu/rocm-compiler.ts"
import { findRunTimeCompiler } from "../../src/compiler/targets/gpu/run-time-compiler.ts"
import { traitsOf } from "../../src/compiler/targets/prepare.ts"
import { isLeftOut, takesAll } from "../left-out.ts"

const MILLISECONDS = 600_000
// The oldest and the newest of each maker; those between them take minutes more.
const between = (architectures: readonly string[]) => (takesAll ? architectures : [])
const execute = promisify(execFile)
const scratch = mkdtempSync(join(tmpdir(), "sinter-accept-"))
afterAll(() => rmSync(scratch, { recursive: true }))

/** A file of a Python package, as pip installs NVIDIA's; undefined: it is not here. */
function ofPython(module: string, file: string): string | undefined {
  const { PYTHON = "python3" } = process.env
  const script = `import ${module}; print(list(${module}.__path__)[0])`
  const { stdout } = spawnSync(PYTHON, ["-c", script], { encoding: "utf8" })
  const path = stdout && join(stdout.trim(), file)
  return path && existsSync(path) ? path : undefined
}

const isThere = (command: string) => spawnSync(command, ["--version"]).status === 0

const everyKernel = { cuda: kernelsOf("cuda"), rocm: kernelsOf("rocm") }

/** Making them takes seconds, so all architectures of a maker share them. */
function kernelsOf(kind: "cuda" | "rocm"): () => readonly Kernel[] {
  let kernels: readonly Kernel[] | undefined
  return () => {
    kernels ??= Array.from(
      checkedKernels(traitsOf(kind).sums!, printers[kind]),
      ({ kernel }) => kernel,
    )
    return kernels
  }
}

/** @param architecture that is named, for kernels that are not the same for all */
function textOf(kind: "cuda" | "rocm", architecture = ""): Kernels {
  const printer = printers[kind]
  const kernels = everyKernel[kind]()
  const { modules } = printer.print(kernels, printer.needsOf?.(architecture) ?? [])
  return { text: modules[0]!, count: kernels.length, names: kernels.map(({ name }) => name) }
}

interface Kernels {
  text: Uint8Array
  count: number
  names: readonly string[]
}

const nvrtc = process.env.NVRTC ?? ofPython("nvidia.cuda_nvrtc", "lib/libnvrtc.so.12")
const ptxas = ofPython("nvidia.cuda_nvcc", "bin/ptxas") ?? (isThere("ptxas") ? "ptxas" : undefined)
const noCuda = isLeftOut(nvrtc && ptxas)
const cudaNote = noCuda ? " (skipped: no NVRTC or no ptxas)" : ""

describe.skipIf(noCuda)("NVRTC and ptxas", () => {
  beforeAll(() => {
    process.env.NVRTC = nvrtc
  })
  let made: Promise<{ path: string; count: number }> | undefined
  const compiled = async () => {
    const { text, count, names } = textOf("cuda")
    // Matrix units multiply codes in products and in attention.
    expect(names).toContainEqual(expect.stringMatching(/^matrix64_/))
    expect(names).toContainEqual(expect.stringMatching(/^attend_.*_tiles_/))
    const path = join(scratch, "kernels.ptx")
    writeFileSync(path, (await compileCuda(text, { needs: ["matrix"] }))!)
    return { path, count }
  }

  test.concurrent.each(["sm_80", ...between(["sm_90", "sm_100"]), "sm_120"])(
    `make code of every kernel for %s, none of which spills${cudaNote}`,
    async (architecture) => {
      made ??= compiled()
      const { path, count } = await made
      const options = ["-v", `-arch=${architecture}`, "-o", join(scratch, architecture), path]
      const { stderr } = await execute(ptxas!, options, { maxBuffer: 16 << 20 })
      const kernels = stderr.split("Compiling entry function ").slice(1)
      expect(kernels.length).toBe(count)
      expect(kernels.filter((lines) => !lines.includes(" 0 bytes spill stores"))).toEqual([])
    },
    MILLISECONDS,
  )
})

/** Of a code object's kernels, how many numbers they keep in memory: their private bytes and registers that are spilled. */
function spillsOf(code: Uint8Array): number[] {
  const bytes = Buffer.from(code)
  return [".private_segment_fixed_size", ".vgpr_spill_count"].flatMap((key) => {
    const found: number[] = []
    for (let at = bytes.indexOf(key); at >= 0; at = bytes.indexOf(key, at + 1)) {
      // MessagePack: a small number is its own byte; others have their length before them.
      const [kind, value] = [bytes[at + key.length]!, at + key.length + 1]
      if (kind < 0x80) found.push(kind)
      else found.push(bytes.readUIntBE(value, 2 ** (kind - 0xcc)))
    }
    return found
  })
}

const hasHiprtc = await findRunTimeCompiler({
  compiler: "hiprtc",
  names: ["libhiprtc.so.7", "libhiprtc.so.6", "libamdhip64.so.5"],
})
const noRocm = isLeftOut(hasHiprtc && isThere("clang-19"))
const rocmNote = noRocm ? " (skipped: no HIPRTC or no clang-19)" : ""

describe.skipIf(noRocm)("HIPRTC, and clang for what that does not know,", () => {
  // Together they are all that is served from the first matrix units on, and one that has none.
  test.concurrent.each(["gfx90a", ...between(["gfx942", "gfx1030", "gfx1100"]), "gfx1201"])(
    `make code of every kernel for %s, none of which spills${rocmNote}`,
    async (architecture) => {
      const { text, count } = textOf("rocm", architecture)
      const spills = spillsOf(await compileRocm(text, architecture))
      expect(spills.length).toBe(2 * count)
      expect(spills.filter((count) => count > 0)).toEqual([])
    },
    MILLISECONDS,
  )
})
