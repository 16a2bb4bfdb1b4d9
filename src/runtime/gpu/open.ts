// Which driver opens which kind of device, and the devices that are open: each once in a process, lent to every program.

import { OpenDevices } from "../open-device.ts"
import type { LoadableProgram, ProgramLimits } from "../program.ts"
import type { GpuDevice } from "./device.ts"
import { openGpuLibrary } from "./program.ts"

/** Kinds of devices that a driver is written for. */
const drivers = {
  cuda: async (id) => (await import("./cuda.ts")).openCuda(id),
  rocm: async (id) => (await import("./cuda.ts")).openHip(id),
  metal: async (id) => (await import("./metal.ts")).openMetal(id),
  vulkan: async (id) => (await import("./vulkan.ts")).openVulkan(id),
  opencl: async (id) => (await import("./opencl.ts")).openOpencl(id),
} as const satisfies Record<string, (id: number) => Promise<GpuDevice>>

export type GpuKind = keyof typeof drivers

const opened = Object.fromEntries(
  Object.keys(drivers).map((kind) => [kind, new OpenDevices<GpuDevice>()]),
) as Record<GpuKind, OpenDevices<GpuDevice>>

/** For whoever wants a device to itself. */
export function openDevice(kind: GpuKind, id: number): Promise<GpuDevice> {
  return drivers[kind](id)
}

/**
 * Opens a library on devices of a kind, one for each shard; one may have several.
 * @throws `library_unusable`, `memory_refused`
 */
export function openGpu(
  kind: GpuKind,
  path: string,
  limits: ProgramLimits,
  devices: readonly number[],
): Promise<LoadableProgram> {
  const borrow = devices.map((id) => () => opened[kind].borrow(id, () => drivers[kind](id)))
  return openGpuLibrary(path, limits, borrow)
}
