// The target cpu: a plan becomes a shared library built by this machine's C compiler for exactly this processor, or, as
// cpu:baseline, for any processor of its architecture. Where there is no compiler it is the generic library with the plan as
// a tape behind it, as long as the package brings one. The library carries its manifest and can be shipped alone. What writes C or a
// tape is loaded when that is written: a start whose library lies on the shelf needs neither.

import { createHash } from "node:crypto"
import { readFileSync } from "node:fs"
import { readdir } from "node:fs/promises"
import { join } from "node:path"
import { processorFeatures } from "../../../runtime/features.ts"
import { isLibrary, libraryHash, seal } from "../../../runtime/library.ts"
import type { Manifest } from "../../../runtime/manifest.ts"
import { openShelf, type Shelf, shelfKey } from "../../../runtime/shelf.ts"
import { systemName, thisSystem } from "../../../runtime/system.ts"
import { version } from "../../../version.ts"
import { manifestOf, planHash } from "../../compile.ts"
import type { Plan } from "../../plan.ts"
import type { Build, Lack, Source } from "../target.ts"
import { codeHash, known } from "./known.ts"
import { kvOf, layoutOf, programBytes } from "./layout.ts"
import { type Level, usableLevels } from "./levels.ts"
import { keptObjects } from "./objects.ts"
import {
  build,
  type Compiler,
  findCompiler,
  flagsOf,
  kernels,
  linkingOf,
  requireCompiler,
  runtime,
  shippedSources,
  supports,
} from "./toolchain.ts"
import { isFit, isKnownUnfit } from "./unfit.ts"

/** Part of a library's name, too: a folder may be shared by several, whose compilers call themselves the same. */
const system = systemName(thisSystem())

export type CpuTarget = "cpu" | "cpu:baseline"

export interface CpuBuild extends Build {
  level: Level
}

/** Best first. */
type Usable = readonly [Level, ...Level[]]

/**
 * For the best instruction set that the processor runs and the compiler knows; plain C for `cpu:baseline`. A compiler that is
 * here and builds nothing (it has no headers, say) is none, if there is a generic library.
 * @param shelf of a program that is to run: where the generic library serves meanwhile, no start waits for what the compiler knows,
 * and one that builds nothing says so once, behind the first replies
 * @throws `compiler_missing` or `compiler_unusable` where there is no generic library either
 */
export async function prepareCpu(
  plan: Plan,
  target: CpuTarget = "cpu",
  shelf?: Shelf,
  usable: Usable = levelsFor(target),
): Promise<CpuBuild> {
  const compiler = await findCompiler()
  if (compiler) {
    for (const level of usable) {
      const library = await prepareLevel(plan, target, compiler, level, shelf)
      // What lies on the shelf was built by this very compiler, which need not be asked then.
      if (shelf?.find(library.name, isLibrary)) return library
      if (await isKnownUnfit(compiler, level, shelf)) continue
      const meanwhile = shelf && (await genericMeanwhile(plan, library, target))
      if (meanwhile) return { ...library, build: keeping(library, compiler, shelf), meanwhile }
      if (await isFit(compiler, level, shelf)) return library
    }
  }
  const generic = await genericFor(target)
  if (generic) return prepareGeneric(plan, generic, target)
  // Such a compiler says in its own words what it lacks.
  return prepareLevel(plan, target, compiler ?? (await requireCompiler()), usable.at(-1)!, shelf)
}

/** Builds it; where that fails for want of what the compiler lacks, the next start does not try again. */
function keeping(library: CpuBuild, compiler: Compiler, shelf: Shelf): Build["build"] {
  return (building) =>
    library.build(building).catch(async (error: unknown) => {
      if (!building?.signal?.aborted) await isFit(compiler, library.level, shelf)
      throw error
    })
}

function levelsFor(target: CpuTarget): Usable {
  const features = target === "cpu:baseline" ? new Set<string>() : processorFeatures()
  return usableLevels(process.arch, features)
}

export async function lackOfCompiler(target: CpuTarget): Promise<Lack | undefined> {
  if ((await genericFor(target)) || (await findCompiler())) return undefined
  const { CC } = process.env
  if (CC)
    return {
      problem: `CC names ${JSON.stringify(CC)}, which does not run`,
      cure: "unset it, or name a C compiler that does",
    }
  return { problem: "No C compiler is here", cure: "install gcc or clang" }
}

/** What `prepareCpu` builds on this machine. @throws as that */
export async function describeCpu(target: CpuTarget): Promise<string> {
  const compiler = await findCompiler()
  for (const level of compiler ? levelsFor(target) : [])
    if (await supports(compiler!, level)) return `${level.name}, built by ${compiler!.command}`
  const generic = await genericFor(target)
  if (generic) return generic.name
  return `nothing: ${(compiler ?? (await requireCompiler())).command} builds no C program here`
}

async function prepareLevel(
  plan: Plan,
  target: CpuTarget,
  compiler: Compiler,
  level: Level,
  shelf: Shelf = openShelf(),
): Promise<CpuBuild> {
  const flags = portableFlags(level, compiler)
  const shared = [system, level.name, compiler.version, ...flags, await kernelsHash(level)]
  const sources = async (): Promise<Source[]> => {
    const { emit } = await import("./emit.ts")
    return [...emit(plan, layoutOf(plan)), ...shippedSources]
  }
  const decided = [target, planHash(plan), ...shared]
  const { name, manifest } = await known(shelf, codeHash(), decided, async () => {
    const texts = (await sources()).flatMap((source) => ("text" in source ? source.text : []))
    const made = [...shared, ...texts]
    const manifest = manifestOf(plan, {
      target,
      kv: kvOf(plan),
      bytes: programBytes(layoutOf(plan)),
      features: level.features,
      sources: await sourcesOf(plan, level, compiler),
    })
    return { name: `${shelfKey([JSON.stringify(manifest), ...made])}.so`, manifest }
  })
  return {
    manifest,
    name,
    builder: compiler.command,
    sources,
    level,
    build: async (building) => {
      const objects = keptObjects(shelf, shared)
      const code = await build(compiler, level, await sources(), { objects, ...building })
      return seal(code, { ...manifest, built: builtBy(level, compiler) })
    },
  }
}

/** The generic library for this processor's best level, and what people call it. */
async function genericFor(target: CpuTarget): Promise<Generic | undefined> {
  const { genericCode } = await import("./generic.ts")
  for (const level of levelsFor(target)) {
    const code = genericCode(level)
    if (code)
      return { level, code, name: `generic ${level.name} kernels, for want of a C compiler` }
  }
  return undefined
}

/** The generic library, where it computes what one that is to be built will compute: its bits, of weights that lie as there. */
async function genericMeanwhile(
  plan: Plan,
  own: CpuBuild,
  target: CpuTarget,
): Promise<CpuBuild | undefined> {
  const generic = await genericFor(target)
  if (!generic) return undefined
  const name = `generic ${generic.level.name} kernels, until its own are built for the next start`
  const library = await prepareGeneric(plan, { ...generic, name }, target)
  return library.manifest.fingerprint === own.manifest.fingerprint ? library : undefined
}

interface Generic {
  level: Level
  code: Buffer
  name: string
}

/** What the generic library's code and the plan's tape make together. */
export async function prepareGeneric(
  plan: Plan,
  { level, code, name }: Generic,
  target: CpuTarget = "cpu",
): Promise<CpuBuild> {
  const { tapeOf } = await import("./tape.ts")
  const layout = layoutOf(plan)
  const tape = tapeOf(plan, layout)
  const manifest = manifestOf(plan, {
    target,
    kv: kvOf(plan),
    bytes: programBytes(layout),
    features: level.features,
    sources: await sourcesOf(plan, level),
  })
  const made = [level.name, libraryHash(code), JSON.stringify(tape)]
  return {
    manifest,
    name: `${shelfKey([JSON.stringify(manifest), ...made])}.so`,
    builder: name,
    origin: name,
    sources: async () => [],
    level,
    build: async () => seal(code, { ...manifest, tape, built: { sinter: version, system } }),
  }
}

function builtBy(level: Level, compiler: Compiler): NonNullable<Manifest["built"]> {
  const flags = portableFlags(level, compiler)
  return { sinter: version, system, compiler: compiler.version, flags }
}

/** Those that say nothing of this machine's folders. */
function portableFlags(level: Level, compiler: Compiler): string[] {
  return [...compiler.leading, ...flagsOf(level, compiler), ...linkingOf(compiler)].filter(
    (flag) => !flag.startsWith("-I"),
  )
}

/** The library of a plan from the shelf, built if it is not there yet. `level`: for that one, of those that this processor runs. */
export async function shelvedCpu(
  plan: Plan,
  target: CpuTarget = "cpu",
  shelf: Shelf = openShelf(),
  level?: Level,
): Promise<{ path: string; manifest: Manifest; kept: boolean }> {
  const library = await prepareCpu(plan, target, shelf, level && [level])
  const build = () => library.build()
  const { path, kept } = await shelf.get(library.name, build, undefined, isLibrary)
  return { path, manifest: library.manifest, kept }
}

/**
 * Of what decides a library's bits and how its weights lie, beside its plan. Compilers are held to the same bits (toolchain.ts), but
 * for flags that a user gave them; the generic library is compiled of the same kernels.
 */
async function sourcesOf(plan: Plan, level: Level, compiler?: Compiler): Promise<string> {
  const layout = JSON.stringify(layoutOf(plan))
  const given = compiler?.leading.filter((word) => word.startsWith("-")) ?? []
  return shelfKey([level.name, await kernelsHash(level), layout, ...given])
}

/** Of the kernels and headers that are compiled in. */
async function kernelsHash(level: Level): Promise<string> {
  const shared = (await readdir(kernels, { withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map(({ name }) => join(kernels, name))
  const files = [
    ...shared.sort(),
    join(kernels, level.folder, "vector.h"),
    join(runtime, "abi.h"),
    join(runtime, "blocks.c"),
    join(runtime, "low_rank.c"),
    join(runtime, "pool.c"),
    join(runtime, "system.h"),
  ]
  const hash = createHash("sha256")
  for (const file of files) hash.update(readFileSync(file))
  return hash.digest("hex")
}
