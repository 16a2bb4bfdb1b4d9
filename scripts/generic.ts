// Builds build/generic/: kernels for whoever has no C compiler. With zig (on the path, or named by ZIG; `pip install ziglang`
// brings it) for every system, else for this machine's by its own compiler. GENERIC_SYSTEMS and GENERIC_LEVELS name systems
// ("win32-x64", "linux-arm64-musl") and instruction sets where not all are wanted: all of them take forty minutes on two cores.
import { mkdirSync, writeFileSync } from "node:fs"
import {
  buildGeneric,
  buildProcessor,
  buildWeightWork,
  genericName,
} from "../src/compiler/targets/cpu/generic.ts"
import { levels } from "../src/compiler/targets/cpu/levels.ts"
import {
  type Compiler,
  findCompiler,
  findZig,
  supports,
} from "../src/compiler/targets/cpu/toolchain.ts"
import { processorName } from "../src/runtime/features.ts"
import { type System, systemName, systems, thisSystem } from "../src/runtime/system.ts"
import { weightWorkName } from "../src/runtime/weight-work.ts"

const FOLDER = "build/generic"
const wanted = (names: string | undefined, name: string) => names?.split(",").includes(name) ?? true
const { ZIG, GENERIC_SYSTEMS, GENERIC_LEVELS } = process.env

async function compilers(): Promise<(readonly [System, Compiler])[]> {
  const found: [System, Compiler][] = []
  for (const system of systems) {
    if (!wanted(GENERIC_SYSTEMS, systemName(system))) continue
    const compiler = await findZig(system, ZIG)
    if (compiler) found.push([system, compiler])
  }
  const own = found.length === 0 ? await findCompiler() : undefined
  return own ? [[thisSystem(), own]] : found
}

function keep(name: string, library: Buffer): void {
  writeFileSync(`${FOLDER}/${name}`, library)
  console.error(`${FOLDER}/${name}`)
}

const found = await compilers()
if (found.length === 0) console.error(`${FOLDER} is not made: no C compiler is here.`)
else mkdirSync(FOLDER, { recursive: true })
for (const [system, compiler] of found) {
  keep(weightWorkName(system), await buildWeightWork(compiler))
  if (system.platform !== "linux" && system.arch === "x64")
    keep(processorName(system.platform), await buildProcessor(compiler))
  for (const level of levels) {
    if (![system.arch, "any"].includes(level.arch) || !wanted(GENERIC_LEVELS, level.name)) continue
    if (!(await supports(compiler, level))) continue // nobody but Linux lends the matrix unit in its way
    keep(genericName(level, system), await buildGeneric(compiler, level))
  }
}
