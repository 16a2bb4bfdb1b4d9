// How many KV blocks a device can address: each layer's lie in one piece of its memory, and kernels count that piece's numbers
// in 32 bits. Those of Vulkan have one less: SPIR-V takes the index of an access chain as signed. Read by the table of targets, so
// it loads nothing.

import type { Device, DeviceName } from "../../../runtime/devices.ts"
import { floatBytes } from "../../../runtime/format.ts"
import type { KvType, Manifest } from "../../../runtime/manifest.ts"
import type { StepTraits } from "../../../runtime/program.ts"

const indicesOf = (name: DeviceName) => 2 ** (name === "vulkan" ? 31 : 32)

const numberBytes = { ...floatBytes, q8: 1 } as const satisfies Record<KvType, number>

/** @param kvs of the programs whose blocks have the same numbers: the tightest of their layers decides */
export function mostBlocks(
  {
    name,
    largestAllocation = Number.POSITIVE_INFINITY,
  }: Pick<Device, "name" | "largestAllocation">,
  kvs: readonly Manifest["kv"][],
): NonNullable<StepTraits["mostBlocks"]> {
  const bounds = kvs.flatMap(({ dtype, groups }) => {
    const indexed = indicesOf(name) * numberBytes[dtype]
    const bytes = Math.min(largestAllocation, indexed)
    const why =
      bytes === indexed
        ? "what kernels can count of a layer's keys and values"
        : "what the device's largest allocation holds of a layer's keys and values"
    return groups.map(({ bytesPerBlock, layers }) => ({
      value: Math.floor(bytes / (bytesPerBlock / layers.length)),
      why,
    }))
  })
  return bounds.reduce((least, each) => (each.value < least.value ? each : least))
}
