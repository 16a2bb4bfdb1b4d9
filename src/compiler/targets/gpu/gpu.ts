// The targets of GPUs: a plan becomes kernels and a tape. Those of Vulkan and OpenCL need no compiler of this machine's, those of
// CUDA one, and so does code for architectures that are named; what a driver makes of the kernels is the driver's. A library holds its kernels in several ways of saying the same, for devices that have
// an instruction for something and for those that have not.

import { createHash } from "node:crypto"
import { readdirSync, readFileSync } from "node:fs"
import { basename } from "node:path"
import { codeRoot } from "../../../code-root.ts"
import type { KernelCode } from "../../../runtime/gpu/device.ts"
import type { GpuKind } from "../../../runtime/gpu/open.ts"
import { StepBlock } from "../../../runtime/gpu/step-block.ts"
import { type Profile, type Tape, writeTape } from "../../../runtime/gpu/tape.ts"
import { seal } from "../../../runtime/library.ts"
import { type Manifest, type ProgramBytes, takenColumns } from "../../../runtime/manifest.ts"
import type { ProgramLimits } from "../../../runtime/program.ts"
import { shelfKey } from "../../../runtime/shelf.ts"
import { version } from "../../../version.ts"
import { manifestOf } from "../../compile.ts"
import type { Plan } from "../../plan.ts"
import { shard } from "../../shard.ts"
import type { Build } from "../target.ts"
import { printKernel } from "./ir/print.ts"
import { bytesPerBlock } from "./kernels/kv.ts"
import { madeOf, type Printer, printers } from "./printers.ts"
import { tapeOf, type Unprinted } from "./tape-of.ts"
import { tapeText } from "./tape-text.ts"

export function kvOf({ kv, groups }: Plan): Manifest["kv"] {
  return {
    dtype: kv,
    groups: groups.map((group) => ({ ...group, bytesPerBlock: bytesPerBlock(kv, group) })),
  }
}

/**
 * @param architectures whose code the library holds beside what all devices of the kind take
 * @throws `option_invalid` where the plan cannot be divided
 */
export async function prepareGpu(
  plan: Plan,
  target: GpuKind,
  shards = 1,
  architectures: readonly string[] = [],
): Promise<Build> {
  const sharded = shard(plan, shards)
  const own = sharded?.plan ?? plan
  const unprinted = tapeOf(own, printers[target], sharded)
  const { tape, kernels } = unprinted
  const made = [JSON.stringify(tape), JSON.stringify(kernels, replaceSets), printersHash()]
  const printed = { ...printers[target], architectures }
  const manifest = manifestOf(plan, {
    target,
    kv: kvOf(own),
    ...(sharded && { shards }),
    bytes: bytesOf(own, unprinted),
    features: [],
    sources: shelfKey(made),
  })
  return {
    manifest,
    name: `${shelfKey([JSON.stringify(manifest), ...made, ...architectures])}.gpu`,
    builder: "sinter",
    sources: async () => [
      { name: "tape", text: tapeText(unprinted) },
      { name: "kernels", text: kernels.map(printKernel).join("\n") },
    ],
    build: async ({ signal } = {}) =>
      seal(await print(unprinted, printed, signal), {
        ...manifest,
        built: { sinter: version },
      }),
  }
}

/** Kernels in every profile's words, those that are the same in several once, and the tape behind them. */
async function print(
  { tape, kernels }: Unprinted,
  printer: Printer & { architectures: readonly string[] },
  signal: AbortSignal | undefined,
): Promise<Buffer> {
  const modules: Uint8Array[] = []
  const known = new Map<string, { at: number; bytes: number }>() // by what they hold
  let codes: readonly KernelCode[] = []
  let at = 0
  const profiles: Profile[] = []
  const wanted: Pick<Profile, "needs" | "architecture">[] = [
    ...printer.architectures.map((architecture) => ({
      needs: printer.needsOf?.(architecture) ?? [],
      architecture,
    })),
    ...printer.profiles.map((needs) => ({ needs })),
  ]
  for (const profile of wanted) {
    const made = await madeOf(printer, kernels, profile, signal)
    if (!made) continue
    codes = made.kernels
    const places = made.modules.map((module) => {
      const bytes = module.length
      const hash = createHash("sha256").update(module).digest("hex")
      const place = known.get(hash) ?? { at, bytes }
      if (known.has(hash)) return place
      known.set(hash, place)
      modules.push(module)
      at += bytes
      return place
    })
    profiles.push({ ...profile, modules: places })
  }
  return writeTape(modules, { ...tape, profiles, kernels: codes } satisfies Tape)
}

/** A set is an empty object to JSON. */
function replaceSets(_: string, value: unknown): unknown {
  return value instanceof Set || value instanceof Map ? [...value] : value
}

/**
 * Of the files that print: a library that was printed otherwise is another library. Built, a module lies in a part of the program
 * whose name is a hash of it and of all that it imports.
 */
function printersHash(): string {
  if (!import.meta.url.endsWith(".ts")) return basename(import.meta.url)
  const folder = new URL("compiler/targets/gpu/print/", codeRoot)
  const hash = createHash("sha256")
  for (const name of readdirSync(folder).sort())
    if (/^\w+\.ts$/.test(name)) hash.update(readFileSync(new URL(name, folder)))
  return hash.digest("hex")
}

/** What the places of the tape take, and the step block, of which there are two. */
function bytesOf(plan: Plan, { tape }: Unprinted): ProgramBytes {
  const of = (isWeight: boolean, key: "fixed" | "perToken" | "perRow") =>
    tape.places
      .filter(({ name }) => name.startsWith("p") === isWeight)
      .reduce((sum, place) => sum + place[key], 0)
  const { vocabulary } = plan.shapes
  const taken = takenColumns(plan.shapes)
  const stepBytes = (tokens: number, rows: number) => {
    const blocks = plan.groups.map(() => 1)
    const limits: ProgramLimits = { blocks, tokens, sequences: rows, rows }
    const shape = { limits, sinks: plan.sinks, vocabulary, taken }
    return 2 * new StepBlock(shape, tape.regions).bytes.length
  }
  const MANY = 1000
  const perToken = (stepBytes(MANY + 1, 1) - stepBytes(1, 1)) / MANY
  const perRow = (stepBytes(1, MANY + 1) - stepBytes(1, 1)) / MANY
  return {
    weights: of(true, "fixed"),
    perToken: of(false, "perToken") + Math.ceil(perToken),
    perRow: of(false, "perRow") + Math.ceil(perRow),
    perThread: 0,
    fixed: of(false, "fixed") + stepBytes(1, 1),
  }
}
