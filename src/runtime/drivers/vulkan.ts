// The devices that Vulkan's loader knows. Drivers skip structures that they do not know, so that one chain of them serves every
// version, and what was skipped reads as "cannot". Each device is opened once and closed again: a driver that answers questions
// may still hang, or refuse, when it is to work.

import { openDriverLibrary } from "../ffi.ts"
import type { TileShape } from "../gpu/tile-shapes.ts"
import {
  deviceInfo,
  FEATURES,
  features12Of,
  featuresOf,
  structure,
  wantedFeatures,
} from "../gpu/vulkan-structs.ts"
import {
  byType,
  type DeviceType,
  type DriverDevice,
  DriverObstacle,
  versionText,
} from "./driver.ts"
import { Structure } from "./structure.ts"
import { type InstanceFunctions, takeInstanceFunctions } from "./vulkan-calls.ts"
import { findTiles, TILE_EXTENSIONS } from "./vulkan-tiles.ts"

/** Buffers are reached by 64-bit addresses, which are a part of Vulkan from this version on. */
const NEEDED = { word: (1 << 22) | (2 << 12), text: "1.2" }

export function listVulkan(names: readonly string[]): DriverDevice[] {
  const vulkan = takeInstanceFunctions(openDriverLibrary(names))
  const instance = createInstance(vulkan)
  try {
    return physicalDevices(vulkan, instance).map((physical) => tried(vulkan, instance, physical))
  } finally {
    vulkan.destroyInstance(instance, null)
  }
}

function tried(vulkan: InstanceFunctions, instance: bigint, physical: bigint): DriverDevice {
  const described = describe(vulkan, physical)
  if (described.obstacle) return described
  try {
    vulkan.destroyDevice(createDevice(vulkan, instance, physical, described).device, null)
    return described
  } catch (error) {
    if (!(error instanceof DriverObstacle)) throw error
    return { ...described, obstacle: error.obstacle }
  }
}

/** Devices of a later version have it built in, and name it all the same. */
const DOTS = "VK_KHR_shader_integer_dot_product"

/**
 * Opens a device, with one queue and all that kernels may use of it.
 * @throws DriverObstacle where the driver refuses
 */
export function createDevice(
  vulkan: InstanceFunctions,
  instance: bigint,
  physical: bigint,
  { features }: DriverDevice,
): CreatedDevice {
  const queueFamily = computeQueue(vulkan, physical)!
  const extensions = extensionsOf(vulkan, physical)
  const dot4 = features.int8_dot === true && extensions.has(DOTS)
  const tiles =
    features.matrix_units === true ? findTiles(vulkan, instance, physical, extensions) : []
  const hasTiles = tiles.length > 0
  const wanted = wantedFeatures({
    float64: features.f64_arithmetic === true,
    dot4,
    tiles: hasTiles && {
      bytes: features.int8_arithmetic === true,
      halves: features.f16_arithmetic === true,
    },
  })
  const names = [...(dot4 ? [DOTS] : []), ...(hasTiles ? TILE_EXTENSIONS : [])]
  const info = deviceInfo(queueFamily, names, wanted)
  const out = new BigUint64Array(1)
  check("vkCreateDevice", vulkan.createDevice(physical, info.bytes, null, out))
  return { device: out[0]!, queueFamily, dot4, tiles }
}

export interface CreatedDevice {
  device: bigint
  queueFamily: number
  dot4: boolean
  /** Of tiles that it says it multiplies. */
  tiles: readonly TileShape[]
}

const INCOMPATIBLE_DRIVER = -9
const INCOMPLETE = 5

export function createInstance(vulkan: InstanceFunctions): bigint {
  const application = structure("application")
  application.setWord(44, NEEDED.word)
  const info = structure("instance")
  info.pointTo(24, application)
  const out = new BigUint64Array(1)
  const code = vulkan.createInstance(info.bytes, null, out)
  if (code === INCOMPATIBLE_DRIVER)
    throw new DriverObstacle("no_device", "Vulkan's loader is here and finds no driver of a device")
  if (code !== 0) throw new DriverObstacle("driver_failed", `vkCreateInstance answers ${code}`)
  return out[0]!
}

export function physicalDevices(vulkan: InstanceFunctions, instance: bigint): bigint[] {
  const count = new Uint32Array(1)
  check("vkEnumeratePhysicalDevices", vulkan.enumerate(instance, count, null))
  const devices = new BigUint64Array(count[0]!)
  if (devices.length > 0)
    check("vkEnumeratePhysicalDevices", vulkan.enumerate(instance, count, devices))
  const all = [...devices.subarray(0, count[0])]
  return byType(all, (device) => describe(vulkan, device).type)
}

function check(call: string, code: number): void {
  if (code !== 0 && code !== INCOMPLETE)
    throw new DriverObstacle("driver_failed", `${call} answers ${code}`)
}

/** VkPhysicalDeviceType. */
const types: readonly DeviceType[] = [
  "accelerator",
  "integrated_gpu",
  "gpu",
  "virtual_gpu",
  "processor",
]

/**
 * VkDriverId of AMD's own drivers, the closed and the open one. Those of GPUs in processors end the process that asks them which tiles
 * these multiply (https://github.com/GPUOpen-Drivers/AMDVLK/issues/422).
 */
const CRASHING = new Set([1, 2])

export function describe(vulkan: InstanceFunctions, device: bigint): DriverDevice {
  const extensions = extensionsOf(vulkan, device)
  const dots = structure("dots")
  const floats = structure("floats", dots)
  const allocations = structure("allocations", floats)
  const subgroups = structure("subgroups", allocations)
  const ids = structure("ids", subgroups)
  const address = structure("address", ids)
  const driver = structure("driver", address)
  const properties = structure("properties", driver)
  vulkan.properties(device, properties.bytes)
  const dotFeatures = structure("dotFeatures")
  const features12 = structure("features12", dotFeatures)
  const storage16 = structure("storage16", features12)
  const features = structure("features", storage16)
  vulkan.features(device, features.bytes)

  const api = properties.word(16)
  const type = types[properties.word(32)] ?? "accelerator"
  const limit = (at: number) => properties.word(312 + at)
  const can = (name: keyof typeof featuresOf) =>
    features.word(FEATURES + 4 * featuresOf[name]) === 1
  const can12 = (name: keyof typeof features12Of) =>
    features12.word(FEATURES + 4 * features12Of[name]) === 1
  const described: DriverDevice = {
    description: properties.text(36, 256),
    type,
    driver: [driver.text(20, 256), driver.text(276, 256), `Vulkan ${apiText(api)}`]
      .filter((part) => part !== "")
      .join(", "),
    memory: memoryOf(vulkan, device, {
      shared: type === "integrated_gpu" || type === "processor",
      says: extensions.has("VK_EXT_memory_budget"),
    }),
    features: {
      subgroup_size: subgroups.word(16),
      subgroup_arithmetic: (subgroups.word(24) & 4) !== 0,
      f16_storage: storage16.word(16) === 1,
      f16_arithmetic: can12("float16"),
      int8_storage: can12("storage8"),
      int8_arithmetic: can12("int8"),
      int8_dot: dotFeatures.word(16) === 1,
      int8_dot_accelerated: dots.word(32) === 1, // four signed bytes in a word
      f64_arithmetic: can("float64"),
      int64: can("int64"),
      matrix_units:
        extensions.has("VK_KHR_cooperative_matrix") &&
        !(type === "integrated_gpu" && CRASHING.has(driver.word(16))),
      buffer_addresses: can12("addresses"),
      keeps_nan: floats.word(28) === 1, // and infinities, in single precision
      rounds_to_nearest: floats.word(64) === 1,
      keeps_subnormals: floats.word(40) === 1,
      f16_keeps_nan: floats.word(24) === 1,
      f16_keeps_subnormals: floats.word(36) === 1,
      threads_per_group: limit(232),
      shared_bytes: limit(216),
      operand_bytes: limit(32), // push constants
      largest_allocation_bytes: allocations.long(24),
    },
    identities: identitiesOf(ids, extensions.has("VK_EXT_pci_bus_info") ? address : undefined),
  }
  const needed = {
    "addresses of buffers": can12("addresses"),
    "whole numbers of 64 bits": can("int64"),
    "elements of 16 bits in buffers": storage16.word(16) === 1,
    "elements of 8 bits in buffers": can12("storage8"),
  }
  const missing = Object.entries(needed).flatMap(([what, isThere]) => (isThere ? [] : [what]))
  const obstacle = obstacleOf(api, missing, computeQueue(vulkan, device) !== undefined)
  return obstacle ? { ...described, obstacle } : described
}

/**
 * Drivers of several makers, or one that is found twice, list the same device. Not all of them make its UUID alike; where they do not,
 * its address on the bus tells, or on Windows its LUID.
 * @param address VkPhysicalDevicePCIBusInfoPropertiesEXT
 */
function identitiesOf(ids: Structure, address: Structure | undefined): string[] {
  const hex = (at: number, bytes: number) =>
    Buffer.from(ids.bytes.subarray(at, at + bytes)).toString("hex")
  const places = address && [16, 20, 24, 28].map((at) => address.word(at).toString(16))
  return [
    `uuid ${hex(16, 16)}`,
    ...(ids.word(60) === 1 ? [`luid ${hex(48, 8)}`] : []),
    ...(places ? [`pci ${places.join(":")}`] : []),
  ]
}

const apiText = (word: number) => versionText(word % 2 ** 29, [22, 12, 0]) // above them: the variant

function obstacleOf(
  api: number,
  missing: readonly string[],
  computes: boolean,
): DriverDevice["obstacle"] {
  if (api < NEEDED.word)
    return {
      reason: "driver_too_old",
      problem: `its driver speaks Vulkan ${apiText(api)} and ${NEEDED.text} is needed; update the driver`,
    }
  if (!computes) return { reason: "unsuitable", problem: "it has no queue for compute" }
  if (missing.length > 0)
    return { reason: "unsuitable", problem: `its driver has no ${missing.join(" and no ")}` }
  return undefined
}

const QUEUE_BYTES = 24

/** The number of the family of queues that kernels are handed to. */
function computeQueue(vulkan: InstanceFunctions, device: bigint): number | undefined {
  const count = new Uint32Array(1)
  vulkan.queues(device, count, null)
  const queues = new Structure(QUEUE_BYTES * count[0]!)
  vulkan.queues(device, count, queues.bytes)
  return computeFamily(Array.from({ length: count[0]! }, (_, i) => queues.word(QUEUE_BYTES * i)))
}

/** VkQueueFlagBits */
const [GRAPHICS, COMPUTE] = [1, 2]

/**
 * The first that computes and does not draw, since a desktop's windows wait behind long kernels, and systems reset who draws
 * for too long; else the first that computes.
 * @param families VkQueueFlags of each
 */
export function computeFamily(families: readonly number[]): number | undefined {
  const those = [...families.keys()].filter((i) => (families[i]! & COMPUTE) !== 0)
  return those.find((i) => (families[i]! & GRAPHICS) === 0) ?? those[0]
}

const EXTENSION_BYTES = 260

function extensionsOf(vulkan: InstanceFunctions, device: bigint): ReadonlySet<string> {
  const count = new Uint32Array(1)
  vulkan.extensions(device, null, count, null)
  const extensions = new Structure(EXTENSION_BYTES * count[0]!)
  vulkan.extensions(device, null, count, extensions.bytes)
  return new Set(
    Array.from({ length: count[0]! }, (_, i) => extensions.text(EXTENSION_BYTES * i, 256)),
  )
}

const DEVICE_LOCAL = 1

/**
 * Of the heaps that are the device's own, or of all where it shares the host's memory: an AMD GPU in a processor lists what the
 * firmware has set apart for it, which may be little, and beside it what it may have of the host's.
 * @param says the driver knows how much of them is free
 */
export function memoryOf(
  vulkan: InstanceFunctions,
  device: bigint,
  { shared, says }: { shared: boolean; says: boolean },
): DriverDevice["memory"] {
  const budget = structure("budget")
  const memory = structure("memory", budget)
  vulkan.memory(device, memory.bytes)
  let total = 0
  let available = 0
  for (let heap = 0; heap < memory.word(16 + 260); heap++) {
    const at = 16 + 264 + 16 * heap
    if (!shared && (memory.word(at + 8) & DEVICE_LOCAL) === 0) continue
    total += memory.long(at)
    available += Math.max(0, budget.long(16 + 8 * heap) - budget.long(144 + 8 * heap))
  }
  return { total, shared, ...(says && { available }) }
}
