// What we run on: the devices of this machine, and the choice among them. The table says of each kind who knows its devices:
// a driver, which is asked in a process of its own (drivers/ask.ts) and only when somebody wants to know, or the system. A
// start on the processor asks no driver. A device that was asked for and cannot be had ends the start: nobody wants to find
// out from the speed.

import { accessSync, constants, existsSync, readdirSync, readFileSync, statSync } from "node:fs"
import { availableParallelism, cpus } from "node:os"
import { join } from "node:path"
import { problem } from "../errors.ts"
import { byType, type DriverDevice, type Obstacle, type OwnMemory } from "./drivers/driver.ts"
import { readMemory } from "./memory.ts"

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
  /** What its driver says of it; absent: it is the host's. */
  memory?: OwnMemory
  /** Bytes of one piece of its memory, at most; absent: as many as there are. */
  largestAllocation?: number
}

/** With all that is known of it. */
export interface FoundDevice
  extends Omit<Device, "memory" | "largestAllocation">,
    Omit<DriverDevice, "driver"> {
  /** Absent: it needs none. */
  driver?: string
}

/** What is here of one kind, and why more is not. */
export interface Survey {
  name: DeviceName
  devices: readonly FoundDevice[]
  obstacles: readonly Obstacle[]
}

interface Kind {
  /** Names of the driver's library on this system, the likeliest first; absent: it has none. */
  libraries?: Partial<Record<NodeJS.Platform, readonly string[]>>
  /** Files that the driver must be allowed to open. They are here where the system itself has found such a device. */
  files?: { folder: string; pattern: RegExp }
  /** Variables of the environment by which its driver hides devices, and numbers those left. */
  hiding?: readonly string[]
}

/** Best first: the order in which `auto` looks. */
const kinds = {
  cuda: {
    libraries: { linux: ["libcuda.so.1"], win32: ["nvcuda.dll"] },
    files: { folder: "/dev", pattern: /^nvidia(\d+|ctl)$/ },
    hiding: ["CUDA_VISIBLE_DEVICES"],
  },
  rocm: {
    libraries: {
      linux: [7, 6, 5].map((version) => `libamdhip64.so.${version}`),
      win32: ["amdhip64_7.dll", "amdhip64_6.dll"],
    },
    files: { folder: "/dev", pattern: /^kfd$/ },
    hiding: ["HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"],
  },
  metal: { libraries: { darwin: ["/System/Library/Frameworks/Metal.framework/Metal"] } },
  vulkan: {
    libraries: {
      linux: ["libvulkan.so.1"],
      darwin: ["libvulkan.1.dylib", "libMoltenVK.dylib"],
      win32: ["vulkan-1.dll"],
    },
    files: { folder: "/dev/dri", pattern: /^renderD\d+$/ },
  },
  opencl: {
    libraries: {
      linux: ["libOpenCL.so.1"],
      darwin: ["/System/Library/Frameworks/OpenCL.framework/OpenCL"],
      win32: ["OpenCL.dll"],
    },
  },
  cpu: {},
} as const satisfies Record<string, Kind>

export type DeviceName = keyof typeof kinds
export const deviceNames = Object.keys(kinds) as DeviceName[]

/** Names of a kind's driver on this system, the likeliest first; none where there is no such driver. */
export function driverLibraries(name: DeviceName): readonly string[] {
  const { libraries }: Kind = kinds[name]
  return libraries?.[process.platform] ?? []
}

/** A driver that wakes eight GPUs up takes several seconds. */
export const DRIVER_MILLISECONDS = 10_000

/**
 * @param usable the kinds that may be chosen
 * @param hasGpu whether drivers are worth asking when any device will do
 * @throws `device_missing` naming what was asked for, why it cannot be had, and what was found
 */
export async function chooseDevice(
  asked: DeviceRequest,
  usable: readonly DeviceName[],
  hasGpu: boolean = mayHaveGpu(),
): Promise<Device> {
  const names = deviceNames.filter((name) => asked.name === "auto" || asked.name === name)
  const surveys: Survey[] = []
  for (const name of names.filter((name) => usable.includes(name))) {
    if (name === "cpu" && asked.id === 0) return processor() // nobody has to be asked
    if (asked.name === "auto" && !hasGpu) continue
    const survey = await surveyOf(name)
    const free = survey.devices.filter((each) => mayTake(each, asked))
    const device =
      asked.name === "auto"
        ? byType(free, ({ type }) => type)[asked.id] // HIP may list the one in the processor first
        : free.find(({ id }) => id === asked.id)
    if (device) return described(device)
    surveys.push(survey)
  }
  const others = asked.name === "auto" ? [...usable, ...deviceNames] : [asked.name, ...usable]
  const missing = others.filter((name) => surveys.every((survey) => survey.name !== name))
  surveys.push(...(await Promise.all([...new Set(missing)].map((name) => surveyOf(name)))))
  const present = surveys.flatMap(({ devices }) => devices)
  const list = present.map(({ name, id, description }) => `${name}:${id} (${description})`)
  throw problem("device_missing", {
    asked: `--device ${asked.name === "auto" && asked.id === 0 ? "auto" : `${asked.name}:${asked.id}`}`,
    why: whyMissing(asked, usable, surveys),
    found: list.join(", ") || "nothing",
  })
}

/**
 * The devices that share a model, one for each shard: so many of a kind, from one on. A processor that a driver makes a GPU of
 * may be taken several times.
 * @throws `option_invalid` naming how many are here
 */
export async function devicesFrom(first: Device, shards: number): Promise<Device[]> {
  if (shards === 1) return [first]
  const { devices } = await surveyOf(first.name)
  const isProcessor = ({ type }: FoundDevice) => type === "processor"
  const own = devices.find(({ id }) => id === first.id)
  const usable = devices.filter(
    (each) =>
      each.id >= first.id && !each.obstacle && isProcessor(each) === (own && isProcessor(own)),
  )
  const alike = own && isProcessor(own) ? usable : distinct(usable)
  if (alike.length < shards && !(own && isProcessor(own)))
    throw problem("option_invalid", {
      option: "--overrides tensor_parallel_shards",
      problem: `${shards} devices are to share the model, and ${alike.length} of them ${alike.length === 1 ? "is" : "are"} here from ${first.name}:${first.id} on${alike.length < usable.length ? ", since drivers list some of them twice" : ""}.`,
    })
  return Array.from({ length: shards }, (_, shard) => described(alike[shard % alike.length]!))
}

/** Each once: several drivers may list one, and its memory would be counted for each. */
function distinct(devices: readonly FoundDevice[]): FoundDevice[] {
  const known = new Set<string>()
  return devices.filter(({ identities = [] }) => {
    const isNew = identities.every((name) => !known.has(name))
    for (const name of identities) known.add(name)
    return isNew
  })
}

function described({ name, id, description, memory, features }: FoundDevice): Device {
  const largest = Number(features.largest_allocation_bytes)
  return { name, id, description, memory, ...(largest > 0 && { largestAllocation: largest }) }
}

function whyMissing(
  asked: DeviceRequest,
  usable: readonly DeviceName[],
  surveys: readonly Survey[],
): string {
  const present = surveys.flatMap(({ devices }) => devices)
  const mayRun = ({ name }: { name: DeviceName }) => name !== "cpu" && usable.includes(name)
  const processor = present.find((each) => mayRun(each) && !each.obstacle)
  if (asked.name === "auto" && asked.id === 0 && processor)
    return `takes no processor that a GPU's driver lists, and nothing else here is of ${usable.join(", ")}; --device ${processor.name}:${processor.id} takes it`
  const device = present.find(({ name, id }) => name === asked.name && id === asked.id)
  if (device)
    return `is here, but ${device.obstacle?.problem ?? `what was asked for runs on ${usable.join(", ")} only`}`
  const isOfKind = ({ name }: Survey) =>
    asked.name === "auto" ? usable.includes(name) : name === asked.name
  const reasons = surveys.filter(isOfKind).flatMap(({ name, devices, obstacles }) => {
    const hidden = devices.length > 0 ? hiddenBy(name) : []
    const problems = [...obstacles.map((each) => each.problem), ...hidden].join(": ")
    if (problems === "") return []
    return [asked.name === "auto" && usable.length > 1 ? `${name}: ${problems}` : problems]
  })
  return `is not on this machine${reasons.length > 0 ? `: ${reasons.join("; ")}` : ""}`
}

/** In words, why a driver does not list what is here: none where nothing is set. */
function hiddenBy(name: DeviceName): string[] {
  const { hiding = [] }: Kind = kinds[name]
  const set = hiding.filter((variable) => process.env[variable] !== undefined)
  const settings = set.map((variable) => `${variable}=${JSON.stringify(process.env[variable])}`)
  if (settings.length === 0) return []
  return [`${settings.join(" and ")} hides devices, and those left are numbered from 0`]
}

/**
 * Drivers take their time to say that nothing is here, and Linux knows: a GPU that this process could open has a file. WSL's
 * is dxg; kgsl and mali are those of telephones.
 */
function mayHaveGpu(): boolean {
  if (process.platform !== "linux") return true
  const gpus = /^(nvidia\d+|kfd|dxg|kgsl|mali)/
  const render =
    existsSync("/dev/dri") && readdirSync("/dev/dri").some((file) => /^render/.test(file))
  return render || readdirSync("/dev").some((file) => gpus.test(file))
}

/** A processor behind a GPU's driver is slower there than by its own target, and is taken only by its name. */
function mayTake({ type, obstacle }: FoundDevice, asked: DeviceRequest): boolean {
  return !obstacle && (asked.name !== "auto" || type !== "processor")
}

/**
 * Everything that is here; drivers are asked side by side.
 * @param milliseconds that a driver may take to answer
 */
export function findDevices(milliseconds: number = DRIVER_MILLISECONDS): Promise<Survey[]> {
  return Promise.all(deviceNames.map((name) => surveyOf(name, milliseconds)))
}

const noDriverHere: Obstacle = {
  reason: "no_driver",
  problem: `there is no driver for ${process.platform}`,
}

async function surveyOf(name: DeviceName, milliseconds = DRIVER_MILLISECONDS): Promise<Survey> {
  if (name === "cpu") return { name, devices: [await describeProcessor()], obstacles: [] }
  const { files }: Kind = kinds[name]
  const names = driverLibraries(name)
  if (names.length === 0) return { name, devices: [], obstacles: [noDriverHere] }
  const { askDriver } = await import("./drivers/ask.ts") // nobody wants it for the processor
  const answer = await askDriver({ driver: name, libraries: names }, milliseconds)
  const described = "devices" in answer ? answer.devices : []
  const devices = described.map((device, id) => ({ name, id, ...device }))
  const locked = files ? lockedFiles(files.folder, files.pattern) : []
  const obstacles = [
    ...("obstacle" in answer ? [withHiding(name, answer.obstacle)] : []),
    ...locked,
  ]
  return { name, devices, obstacles }
}

function withHiding(name: DeviceName, obstacle: Obstacle): Obstacle {
  if (obstacle.reason !== "no_device") return obstacle
  return { ...obstacle, problem: [obstacle.problem, ...hiddenBy(name)].join("; ") }
}

/** Device files that are here and that this user may not open. */
export function lockedFiles(folder: string, pattern: RegExp): Obstacle[] {
  return filesOf(folder, pattern).flatMap((file) => {
    try {
      accessSync(file, constants.R_OK | constants.W_OK)
      return []
    } catch {
      const problem = `this user may not open ${file}${groupHint(file)}`
      return [{ reason: "no_permission" as const, problem }]
    }
  })
}

function filesOf(folder: string, pattern: RegExp): string[] {
  try {
    return readdirSync(folder)
      .filter((name) => pattern.test(name))
      .sort()
      .map((name) => join(folder, name))
  } catch {
    return []
  }
}

function groupHint(file: string): string {
  try {
    const { gid } = statSync(file)
    const groups = readFileSync("/etc/group", "utf8")
    const [, group] = new RegExp(`^([^:]+):[^:]*:${gid}:`, "m").exec(groups) ?? []
    return group ? `, which belongs to the group ${group}` : ""
  } catch {
    return ""
  }
}

function processor(): Device {
  const threads = cpus().length
  const description = `${model()}, ${threads} ${threads === 1 ? "thread" : "threads"}`
  return { name: "cpu", id: 0, description }
}

async function describeProcessor(): Promise<FoundDevice> {
  const { processorFeatures } = await import("./features.ts") // which loads a native package
  const cores = coreCount()
  const { total, available } = readMemory()
  return {
    ...processor(),
    type: "processor",
    memory: { total, available, shared: true },
    features: {
      architecture: process.arch,
      ...(cores > 0 && { cores }),
      threads: cpus().length,
      usable_threads: availableParallelism(),
      instructions: [...processorFeatures()].sort(),
    },
  }
}

function model(): string {
  const named = cpus()[0]?.model.trim()
  if (named && named !== "unknown") return named
  const [, found] = /^model name\s*:\s*(.+)$/m.exec(processorText()) ?? []
  return found ?? process.arch
}

/** Cores that have threads; 0 where the system does not say. */
function coreCount(): number {
  const named = processorText()
    .split("\n\n")
    .map((thread) =>
      [...thread.matchAll(/^(?:physical|core) id\s*:\s*(\d+)$/gm)].map(([, id]) => id),
    )
    .filter((ids) => ids.length === 2)
  return new Set(named.map(String)).size
}

function processorText(): string {
  try {
    return readFileSync("/proc/cpuinfo", "utf8")
  } catch {
    return ""
  }
}
