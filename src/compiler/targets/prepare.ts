// From a plan to a program. Which target is taken follows from what was asked for, what the model folder brings and what this
// machine can build:
//
//   --model-lib  >  lib/ of the model folder  >  the shelf, else a C compiler  >  the generic library  >  the interpreter, for small models
//
// A library is code, and a model folder may come from anywhere: one in lib/ is opened only when this machine built it, as the
// copy that lies on the shelf under the hash of its bytes shows, or when libraries are trusted by option.
//
// Preparing is quick and says what the program will be and take; opening may run a compiler and allocates everything.

import { existsSync } from "node:fs"
import { extname, join, parse } from "node:path"
import { type ErrorCode, Problem, problem } from "../../errors.ts"
import type { Log } from "../../log.ts"
import type { Device, DeviceName } from "../../runtime/devices.ts"
import { checkManifest, isLibrary, libraryHash, readManifest } from "../../runtime/library.ts"
import type { Manifest } from "../../runtime/manifest.ts"
import { openShelf } from "../../runtime/shelf.ts"
import { planHash } from "../compile.ts"
import type { Plan } from "../plan.ts"
import { shard } from "../shard.ts"
import { prepared } from "./prepared.ts"
import type { LibraryKind, PlanTraits, Prepared, Target } from "./target.ts"
import { type TargetName, targetOf, targets, targetsOf } from "./targets.ts"

export interface TargetWish {
  target: TargetName | "auto"
  /** A library that must be used; `target` must be its own, or auto. */
  library: string | undefined
}

export interface ProgramWish extends TargetWish {
  /** What it is to run on. */
  device: Pick<Device, "name" | "id">
  /** The devices that share it, one for each shard; absent: that one. */
  shards?: readonly number[] | undefined
  /** The model's folder, which may bring libraries. */
  folder: string
  /** Whether those are opened though another machine built them; no unless said. */
  trustLibraries?: boolean | undefined
  log: Log
}

/**
 * The target that was asked for, by name or by its library; undefined where any will do.
 * @throws `library_unusable`, `option_invalid` where target, library and device contradict each other
 */
export function requestedTarget(
  { target, library }: TargetWish,
  device: DeviceName | "auto",
): TargetName | undefined {
  const named = target === "auto" ? undefined : target
  const made = library ? targetOfLibrary(library, readManifest(library)) : named
  if (made === undefined) return undefined
  const from = library ? `--model-lib ${library}` : `--target ${made}`
  const refuse = (option: string, asked: string, works: string) =>
    problem("option_invalid", {
      option,
      problem: `${asked} was asked for, but ${from} is for ${works}; leave one of the two out.`,
    })
  if (named !== undefined && named !== made) throw refuse("--target", named, made)
  const { devices } = targets[made]
  if (device !== "auto" && !devices.includes(device))
    throw refuse("--device", device, devices.join(", "))
  return made
}

/** What a plan for this device must be like. */
export function traitsOf(device: DeviceName): PlanTraits {
  return targets[targetsOf(device)[0]!].traits
}

/** The largest model that is served without a C compiler: the interpreter is some hundred times slower. */
const MAX_INTERPRETED = 50e6 // parameters

/**
 * @param plan with the traits of the wish's device
 * @throws `library_unusable`, `option_invalid` for what was asked for, shards included; `compiler_missing` or `compiler_unusable` when there is none and the model is large
 */
export async function prepareProgram(plan: Plan, wish: ProgramWish): Promise<Prepared> {
  const { device, library, log } = wish
  const target = requestedTarget(wish, device.name)
  const names = target ? [target] : targetsOf(device.name)
  const devices = devicesFor(plan, wish, targets[names[0]!])
  if (library) return prepareFile(library, plan, devices)
  if (target)
    return (
      (await shipped(plan, wish, devices, [target])) ?? targets[target].prepare(plan, devices, log)
    )
  const program = await shipped(plan, wish, devices, names)
  if (program) return program
  const best = targets[names[0]!]
  const mayInterpret = names.includes("reference") && parameterCount(plan) <= MAX_INTERPRETED
  try {
    return await best.prepare(plan, devices, log) // which finds out what it lacks
  } catch (error) {
    const isLacking = error instanceof Problem && NO_COMPILER.has(error.code)
    const lack = mayInterpret && isLacking ? await best.lacks() : undefined
    if (!lack) throw error
    log.warn(`${lack.problem}, so the model runs in the interpreter, which is slow; ${lack.cure}.`)
    return targets.reference.prepare(plan)
  }
}

const NO_COMPILER = new Set<ErrorCode>(["compiler_missing", "compiler_unusable"])

/** One for each shard; the first alone where nothing in the plan is divided, as in heads that draft. */
function devicesFor(
  plan: Plan,
  { device, shards = [device.id] }: ProgramWish,
  { divides }: Target,
): readonly number[] {
  if (shards.length > 1 && !divides)
    throw problem("option_invalid", {
      option: "--overrides tensor_parallel_shards",
      problem: `several GPUs can share a model, and ${device.name} runs it alone; only 1 works.`,
    })
  return shard(plan, shards.length) ? shards : shards.slice(0, 1)
}

export function parameterCount({ parameters }: Plan): number {
  return parameters.reduce((sum, { rows, columns }) => sum + rows * columns, 0)
}

/** Where a compiled folder keeps libraries of this kind, for so many shards: `vulkan.gpu`, `vulkan-x2.gpu`. */
export function libraryPath(folder: string, { file }: LibraryKind, shards = 1): string {
  const { name, ext } = parse(file)
  return join(folder, "lib", shards === 1 ? file : `${name}-x${shards}${ext}`)
}

/** Puts a copy of a library on the shelf, so that it is known as built here wherever it lies. @returns whether it could. */
export async function rememberBuild(library: Buffer, kind: LibraryKind): Promise<boolean> {
  const name = buildName(library, kind)
  const { kept } = await openShelf().get(name, async () => library, undefined, isLibrary)
  return kept
}

/** On the shelf, by the bytes of a library or of the file that holds them. */
function buildName(library: Buffer | string, { file }: LibraryKind): string {
  return `${libraryHash(library)}${extname(file)}`
}

/** A library that lies in the model folder and can be used here. */
async function shipped(
  plan: Plan,
  { folder, trustLibraries, log }: ProgramWish,
  devices: readonly number[],
  names: readonly TargetName[],
): Promise<Prepared | undefined> {
  for (const name of names) {
    const { library } = targets[name]
    const path = library && libraryPath(folder, library, devices.length)
    if (!path || !existsSync(path)) continue
    try {
      const ours = openShelf().find(buildName(path, library), isLibrary)
      if (ours || trustLibraries) return await prepareFile(path, plan, devices, ours)
      log.warn(
        `${path} was not built on this machine and is not opened; the program is built from the model instead. --model-lib or --trust-libraries opens it.`,
      )
    } catch (error) {
      if (!(error instanceof Problem)) throw error
      log.warn(`${error.message} Another is built instead.`)
    }
  }
  return undefined
}

/** What a library is for, by its own manifest. @throws `library_unusable` */
function targetOfLibrary(path: string, { target }: Manifest): TargetName {
  if (targetOf(target)?.library) return target as TargetName
  throw problem("library_unusable", {
    file: path,
    problem: `it is for the target ${JSON.stringify(target)}, which this version does not know`,
  })
}

/**
 * Its own manifest says who opens it.
 * @param copy the same bytes in a place that nobody else can write to
 * @throws `library_unusable`
 */
async function prepareFile(
  path: string,
  plan: Plan,
  devices: readonly number[],
  copy = path,
): Promise<Prepared> {
  const manifest = readManifest(path)
  const { library } = targets[targetOfLibrary(path, manifest)]
  await library!.check(path, manifest)
  checkManifest(path, manifest, { ...plan, kv: { dtype: plan.kv }, plan: planHash(plan) })
  const { shards = 1 } = manifest
  if (shards !== devices.length)
    throw problem("library_unusable", {
      file: path,
      problem: `it was compiled with tensor_parallel_shards=${shards}, and ${devices.length} ${devices.length === 1 ? "device runs" : "devices share"} the model`,
    })
  return prepared(manifest, devices, path, (limits) => library!.open(copy, limits, devices))
}
