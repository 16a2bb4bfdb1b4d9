// The machine under the benchmark: which processor, and what it can do at most right now. Machines are shared and swing by
// half within a minute, so limits are measured again beside every sample that is compared with them.

import { execFileSync } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { cpus, loadavg, tmpdir } from "node:os"
import { join } from "node:path"
import { usableLevels } from "../src/compiler/targets/cpu/levels.ts"
import { flagsOf, requireCompiler, runtime } from "../src/compiler/targets/cpu/toolchain.ts"
import { processorFeatures } from "../src/runtime/features.ts"

export interface Limits {
  read_gbs: number
  int8_gops: number // of vector instructions
  matrix_gops: number // of the matrix unit, in 8 bits; 0 where there is none, or none is lent
  f32_gflops?: number // multiply-adds, of a GPU (device-limits.ts)
  launch_us?: number // from one empty kernel to the next that waits for it
  submission_us?: number // of one, from the host's call to its return
}

/** Measures anew each time, in some tenths of a second. */
export interface LimitsProbe {
  measure(): Promise<Limits>
  close(): Promise<void>
}

/** Builds the processor's. */
export async function limitsProbe(threads: number): Promise<LimitsProbe> {
  const compiler = await requireCompiler()
  const [level] = usableLevels(process.arch, processorFeatures())
  const folder = mkdtempSync(join(tmpdir(), "sinter-limits-"))
  process.once("exit", () => rmSync(folder, { recursive: true, force: true }))
  const probe = join(folder, "limits")
  const sources = [join(import.meta.dirname, "limits.c"), join(runtime, "pool.c")]
  execFileSync(compiler.command, [
    ...compiler.leading,
    ...flagsOf(level, compiler),
    ...sources,
    "-o",
    probe,
    "-lpthread",
  ])
  return {
    measure: async () => JSON.parse(execFileSync(probe, [String(threads)], { encoding: "utf8" })),
    close: async () => rmSync(folder, { recursive: true, force: true }),
  }
}

const NAMED = ["avx2", "avx_vnni", "avx512_vnni", "avx512_bf16", "amx_int8", "asimddp", "i8mm"]

export function machine(threads: number): string {
  const features = processorFeatures()
  const named = NAMED.filter((name) => features.has(name)).join(" ")
  const [model] = cpus()
  return `${model!.model} (${named}), ${threads} of ${cpus().length} processors`
}

/** How many programs wanted to run a minute past: far above the number of processors, figures say little. */
export const load = () => loadavg()[0]!
