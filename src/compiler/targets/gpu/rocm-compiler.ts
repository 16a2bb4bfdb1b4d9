// Makes code of HIP C for one architecture of AMD's: by HIPRTC, which comes with the driver, else by clang, with the linker of its
// own version. Only where an architecture is named: a library for all devices holds the text, and the driver's own compiler
// makes code of that for the device at hand.

import { execFile } from "node:child_process"
import { readFile, writeFile } from "node:fs/promises"
import { join } from "node:path"
import { promisify } from "node:util"
import { Problem, problem } from "../../../errors.ts"
import { driverLibraries } from "../../../runtime/devices.ts"
import {
  HIPRTC_OPTIONS,
  hiprtcLibraries,
  lackOfHiprtc,
} from "../../../runtime/gpu/run-time-compiler.ts"
import { withScratch } from "../../../runtime/scratch.ts"
import type { Lack } from "../target.ts"
import { askRunTimeCompiler, findRunTimeCompiler } from "./run-time-compiler.ts"

const execute = promisify(execFile)

/** ROCm's own clang, then the system's; an older one may not know the architecture. */
function clangs(): string[] {
  const { ROCM_PATH = "/opt/rocm" } = process.env
  const versions = [22, 21, 20, 19, 18, 17].map((version) => `clang-${version}`)
  return [join(ROCM_PATH, "llvm/bin/clang"), "amdclang", "clang", ...versions]
}

const parameters = (architecture: string) => [
  ..."-x hip --cuda-device-only --no-gpu-bundle-output -nogpuinc -nogpulib".split(" "),
  ...`--offload-arch=${architecture} -O3 -ffp-contract=off -w`.split(" "),
]

/** The device at hand takes text, which its own driver's compiler makes code of, and no other. */
export async function lackOfRocmCompiler(): Promise<Lack | undefined> {
  const driver = driverLibraries("rocm")
  const order = { compiler: "hiprtc", names: hiprtcLibraries(driver) } as const
  return (await findRunTimeCompiler(order)) ? undefined : lackOfHiprtc(driver)
}

/**
 * @param architecture "gfx1100"
 * @param signal ends the compiler
 * @throws `rocm_compiler_missing`; `compiler_failed` in the words of the last that was tried
 */
export async function compileRocm(
  text: Uint8Array,
  architecture: string,
  signal?: AbortSignal,
): Promise<Uint8Array> {
  const file = `the kernels of ROCm for ${architecture}`
  const failures: Problem[] = []
  const attempt = async (make: () => Promise<Uint8Array | undefined>) => {
    try {
      return await make()
    } catch (error) {
      if (signal?.aborted || !(error instanceof Problem)) throw error
      failures.push(error)
      return undefined
    }
  }
  const options = [...HIPRTC_OPTIONS, `--offload-arch=${architecture}`]
  const task = { text, options, form: "Code" } as const
  const names = hiprtcLibraries(driverLibraries("rocm"))
  const made = await attempt(() =>
    askRunTimeCompiler({ compiler: "hiprtc", names, task }, file, signal),
  )
  if (made) return made
  for (const clang of clangs()) {
    const code = await attempt(() => compileByClang(clang, text, architecture, file, signal))
    if (code) return code
  }
  throw failures.at(-1) ?? problem("rocm_compiler_missing", { architecture })
}

/** @returns undefined where it is not here */
async function compileByClang(
  clang: string,
  text: Uint8Array,
  architecture: string,
  file: string,
  signal: AbortSignal | undefined,
): Promise<Uint8Array | undefined> {
  return withScratch("sinter-rocm", async ({ folder }) => {
    const [source, code] = [join(folder, "kernels.hip"), join(folder, "kernels.co")]
    await writeFile(source, text)
    try {
      const given = [...parameters(architecture), "-o", code, source]
      await execute(clang, given, { signal, maxBuffer: 16 << 20 })
    } catch (error) {
      if (signal?.aborted) throw signal.reason
      const { stderr, message, code } = error as Error & { stderr?: string; code?: unknown }
      if (code === "ENOENT") return undefined
      const output = (stderr || message).trim().slice(0, 1 << 16)
      throw problem("compiler_failed", { compiler: clang, file, output })
    }
    return await readFile(code)
  })
}
