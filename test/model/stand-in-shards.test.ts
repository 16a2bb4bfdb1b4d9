// Models in shards on the stand-ins for the drivers of CUDA, ROCm and Metal, each shard on a device of its own: the reference's bits,
// whether devices reach each other's memory or all goes through the host's. Some in every run; SHARDS=all takes every family in two, four
// and eight shards, on every kind.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { compile } from "../../src/compiler/compile.ts"
import type { Plan } from "../../src/compiler/plan.ts"
import { shard } from "../../src/compiler/shard.ts"
import { prepareGpu } from "../../src/compiler/targets/gpu/gpu.ts"
import { traitsOf } from "../../src/compiler/targets/prepare.ts"
import { openReference } from "../../src/compiler/targets/reference/reference.ts"
import { type DriverLibrary, openDriverLibrary } from "../../src/runtime/ffi.ts"
import { openCuda, openHip } from "../../src/runtime/gpu/cuda.ts"
import type { GpuDevice } from "../../src/runtime/gpu/device.ts"
import { openMetal } from "../../src/runtime/gpu/metal.ts"
import { openGpuLibrary } from "../../src/runtime/gpu/program.ts"
import * as cuda from "../device/cuda-stand-in.ts"
import * as metal from "../device/metal/metal-stand-in.ts"
import { isLeftOut } from "../left-out.ts"
import { type FamilyName, familyGraph } from "./families.ts"
import { results, sizes } from "./sharded.ts"
import { loadSmall } from "./small.ts"
import { limitsFor } from "./steps.ts"

const MILLISECONDS = 240_000 // g++ makes a model's kernels
const DEVICES = 8

const folder = mkdtempSync(join(tmpdir(), "sinter-stand-in-shards-"))
afterAll(() => rmSync(folder, { recursive: true }))

const kinds = {
  cuda: { hasStandIn: cuda.hasStandIn, open: (id: number, path: string) => openCuda(id, [path]) },
  rocm: { hasStandIn: cuda.hasStandIn, open: (id: number, path: string) => openHip(id, [path]) },
  metal: {
    hasStandIn: metal.hasStandIn,
    open: (id: number, path: string) =>
      openMetal(id, [path], { runtime: [path], graphics: [path] }),
  },
}
type Kind = keyof typeof kinds
/** How parts of sums come from one device to another. */
type Way = "from device to device" | "through the host"

const every: FamilyName[] = [
  "experts",
  "experts beside others",
  "latents",
  "latents of queries as they are",
  "states",
  "convolutions",
]
const wanted: Record<Kind, readonly (readonly [FamilyName, number, Way])[]> = {
  cuda: [
    ["experts", 2, "from device to device"],
    ["experts", 2, "through the host"],
  ],
  rocm: [["convolutions", 2, "from device to device"]],
  metal: [["convolutions", 2, "through the host"]],
}
if (process.env.SHARDS === "all")
  for (const kind of ["cuda", "rocm", "metal"] as const)
    wanted[kind] = every.flatMap((family) =>
      [2, 4, 8]
        .filter((count) => count === 2 || divides(planOf(kind, family), count))
        .flatMap((count) => {
          const ways = kind === "metal" ? [] : (["from device to device"] as const)
          return [...ways, "through the host" as const].map((way) => [family, count, way] as const)
        }),
    )

describe.each(["cuda", "rocm", "metal"] as const)("on %s", (kind) => {
  const { hasStandIn, open } = kinds[kind]
  const isSkipped = isLeftOut(hasStandIn)
  let library: string
  let handle: DriverLibrary // held: a stand-in that is unloaded between two calls forgets its machine
  beforeAll(async () => {
    if (isSkipped) return
    const own = mkdtempSync(join(folder, kind))
    if (kind === "metal") library = (await metal.buildStandIn(own)).library
    else {
      const standIn = await cuda.buildStandIn(own)
      process.env.NVRTC = standIn.env.NVRTC
      library = standIn.library
    }
    handle = openDriverLibrary([library])
  }, MILLISECONDS)

  /** Counts begin anew. */
  const setUp = (way: Way) => {
    const { take } = handle
    if (kind === "metal") take("void stand_in_machine(int count)")(DEVICES)
    else {
      const arePeers = way === "from device to device" ? 1 : 0
      take("void stand_in_machine(int count, int arePeers)")(DEVICES, arePeers)
    }
  }
  const counts = () => {
    const out = new BigUint64Array(3)
    handle.take("void stand_in_counts(void *out)")(out)
    return { reads: Number(out[0]), peerCopies: Number(out[2]) }
  }

  test.skipIf(isSkipped).each(wanted[kind])(
    `its stand-in, %s in %i shards, %s, are the reference's bits${isSkipped ? " (skipped: no g++, or not Linux on x86-64)" : ""}`,
    async (family, shards, way) => {
      const plan = planOf(kind, family)
      const limits = limitsFor(plan, sizes)
      const one = openReference(plan, limits)
      await loadSmall(one)
      const expected = await results(one)
      setUp(way)
      const path = join(folder, `${kind}-${family}-${shards}.gpu`)
      writeFileSync(path, await (await prepareGpu(plan, kind, shards)).build())
      const devices: GpuDevice[] = []
      for (let id = 0; id < shards; id++) devices.push(await open(id, library))
      const loans = devices.map((device) => async () => ({ device, giveBack: async () => {} }))
      const several = await openGpuLibrary(path, limits, loans)
      await loadSmall(several)
      setUp(way)
      expect(await results(several)).toEqual(expected)
      if (kind !== "metal") {
        const { reads, peerCopies } = counts()
        const ofSteps = 2 * 3 // results, logits and hidden rows
        if (way === "through the host") {
          expect(reads).toBeGreaterThan(ofSteps)
          expect(peerCopies).toBe(0)
        } else {
          expect(reads).toBe(ofSteps)
          expect(peerCopies).toBeGreaterThan(0)
        }
      }
      await several.close()
      for (const device of devices) await device.close()
    },
    MILLISECONDS,
  )
})

function planOf(kind: Kind, family: FamilyName): Plan {
  const { sums } = traitsOf(kind)
  const options = { format: "q4f16_1", activations: "int8", kv: "f16", sums: sums! } as const
  return compile(familyGraph(family), options)
}

/** Small models have too few columns of some kind for many shards. */
function divides(plan: Plan, shards: number): boolean {
  try {
    return shard(plan, shards) !== undefined
  } catch {
    return false
  }
}
