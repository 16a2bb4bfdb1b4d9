// How a C program over the kernels is built and run for each instruction set: here where this processor has it, with a matrix
// unit in software where that alone is missing, under an emulator for the other architecture, or not at all, with the reason.

import { execFileSync, spawnSync } from "node:child_process"
import { type Level, levels, usableLevels } from "../../src/compiler/targets/cpu/levels.ts"
import { type Compiler, flagsOf, identify } from "../../src/compiler/targets/cpu/toolchain.ts"
import { processorFeatures } from "../../src/runtime/features.ts"
import { isLeftOut } from "../left-out.ts"
import { lacksUnitAlone, softwareUnit } from "./matrix-unit.ts"

export interface Way {
  level: Level
  cc: Compiler
  flags: readonly string[]
  emulator: readonly string[]
}

/** Why a level cannot be built or run: for want of something that can be installed, or of a processor. */
interface Want {
  why: string
  isInstallable: boolean
}

const here = processorFeatures()
export const best = usableLevels(process.arch, here)[0]

const brief = ["-O0", "-DBRIEF"] // a third of the time to build
const sanitizers = [
  ...brief,
  "-g",
  "-fsanitize=address,undefined",
  "-fno-sanitize-recover=undefined",
]

/** Every level, whether tests of it are skipped, and what to say beside their names; `way` throws where there is none. */
export const ways = await Promise.all(
  levels.map(async (level) => {
    const found = await wayOf(level)
    return "why" in found
      ? {
          name: level.name,
          isSkipped: !found.isInstallable || isLeftOut(false),
          note: ` (skipped: ${found.why})`,
          way: (): Way => {
            throw new Error(found.why)
          },
        }
      : { name: level.name, isSkipped: false, note: "", way: () => found }
  }),
)

async function wayOf(level: Level): Promise<Way | Want> {
  const unable = (why: string) => ({ why, isInstallable: false })
  const missing = (tool: string) => ({ why: `no ${tool} on this machine`, isInstallable: true })
  if (level.arch === "any" || level.arch === process.arch) {
    const lacking = level.features.filter((feature) => !here.has(feature))
    const isInSoftware = lacksUnitAlone(lacking)
    if (lacking.length > 0 && !isInSoftware)
      return unable(`this processor lacks ${lacking.join(", ")}`)
    // One set of sanitizers is enough: all but vector.h is shared, and instrumented code compiles slowly.
    const flags = level.name === best.name ? sanitizers : [...brief, "-DKERNELS_ALONE"]
    const cc = await identify("cc")
    if (!cc) return missing("cc")
    return { level, cc, flags: isInSoftware ? [...flags, softwareUnit] : flags, emulator: [] }
  }
  if (level.arch !== "arm64") return unable(`no way to run ${level.arch} here`)
  const cc = await identify("aarch64-linux-gnu-gcc")
  if (!cc) return missing("aarch64-linux-gnu-gcc")
  if (!has("qemu-aarch64")) return missing("qemu-aarch64")
  // Building and running take 34 s, with -O0 47 and with -O1 45: what is hardly optimized runs for long under an emulator.
  return { level, cc, flags: ["-Og", "-static", "-DBRIEF"], emulator: ["qemu-aarch64"] }
}

function has(tool: string): boolean {
  return spawnSync(tool, ["--version"]).status === 0
}

/** Builds `sources` into the program `path`. */
export function build({ level, cc, flags }: Way, sources: readonly string[], path: string): void {
  // Of array elements that unrolling leaves out.
  const quiet = cc.family === "gcc" ? ["-Wno-maybe-uninitialized"] : []
  const all = [...flagsOf(level, cc), ...quiet, ...flags, ...sources]
  execFileSync(cc.command, [...all, "-o", path, "-lm", "-lpthread"])
}

/** What the program at `path` prints. */
export function run({ emulator }: Way, path: string, input?: Uint8Array): Buffer {
  const [command, ...rest] = [...emulator, path]
  return execFileSync(command!, rest, { input, maxBuffer: 1 << 26 })
}
