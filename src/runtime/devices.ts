// What we run on: the devices of this machine, and the choice among them. Detection reads what the system shows of itself
// (device files, driver lists) and starts no driver, so that asking is free and cannot hang. A device that was asked for
// and is not here ends the start: nobody wants to find out from the speed.

import { existsSync, readdirSync, readFileSync } from "node:fs"
import { cpus } from "node:os"
import { problem } from "../errors.ts"

/** A device as asked for; `auto` takes the best one that is here and can be used. */
export interface DeviceRequest {
  name: DeviceName | "auto"
  id: number
}

export interface Device {
  name: DeviceName
  id: number
  /** For people: "AMD EPYC 9B14, 2 threads". */
  description: string
}

/** Best first: the order in which `auto` looks. `find` describes the devices of this kind that are here. */
const kinds = {
  cuda: { find: () => numbered("/dev", /^nvidia\d+$/) },
  rocm: { find: () => (existsSync("/dev/kfd") ? ["/dev/kfd"] : []) },
  metal: { find: () => (process.platform === "darwin" ? ["this Mac's GPU"] : []) },
  vulkan: { find: () => numbered("/dev/dri", /^renderD\d+$/) },
  opencl: { find: () => numbered("/etc/OpenCL/vendors", /\.icd$/) },
  cpu: { find: () => [processor()] },
} as const satisfies Record<string, { find: () => string[] }>

export type DeviceName = keyof typeof kinds
export const deviceNames = Object.keys(kinds) as DeviceName[]

/**
 * @param usable the kinds that may be chosen
 * @throws `device_missing` naming what was asked for and what was found
 */
export function chooseDevice(asked: DeviceRequest, usable: readonly DeviceName[]): Device {
  const here = findDevices()
  const device = here.find(
    ({ name, id }) =>
      usable.includes(name) && id === asked.id && (asked.name === "auto" || name === asked.name),
  )
  if (device) return device
  const present = here.some(({ name, id }) => name === asked.name && id === asked.id)
  throw problem("device_missing", {
    device: `${asked.name}:${asked.id}`,
    why: present
      ? `is here, but what was asked for runs on ${usable.join(", ")} only`
      : "is not on this machine",
    found: here.map(({ name, id, description }) => `${name}:${id} (${description})`).join(", "),
  })
}

export function findDevices(): Device[] {
  return deviceNames.flatMap((name) =>
    kinds[name].find().map((description, id) => ({ name, id, description })),
  )
}

function numbered(folder: string, pattern: RegExp): string[] {
  try {
    return readdirSync(folder)
      .filter((name) => pattern.test(name))
      .sort()
      .map((name) => `${folder}/${name}`)
  } catch {
    return []
  }
}

function processor(): string {
  const threads = cpus().length
  return `${model()}, ${threads} ${threads === 1 ? "thread" : "threads"}`
}

function model(): string {
  const named = cpus()[0]?.model.trim()
  if (named && named !== "unknown") return named
  try {
    const [, found] = /^model name\s*:\s*(.+)$/m.exec(readFileSync("/proc/cpuinfo", "utf8")) ?? []
    if (found) return found
  } catch {}
  return process.arch
}
