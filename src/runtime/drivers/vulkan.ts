// The devices that Vulkan's loader knows. Nothing is opened: a physical device answers questions by itself. Structures are
// those of vulkan_core.h, chained by their second field; drivers skip those that they do not know, so that one chain serves
// every version, and what was skipped reads as "cannot".

import { openDriverLibrary } from "../ffi.ts"
import { type DeviceType, type DriverDevice, DriverObstacle, versionText } from "./driver.ts"
import { Structure } from "./structure.ts"

/** Buffers are reached by 64-bit addresses, which are a part of Vulkan from this version on. */
const NEEDED = { word: (1 << 22) | (2 << 12), text: "1.2" }

export function listVulkan(names: readonly string[]): DriverDevice[] {
  const vulkan = openVulkan(names)
  const instance = createInstance(vulkan)
  try {
    return physicalDevices(vulkan, instance).map((device) => describe(vulkan, device))
  } finally {
    vulkan.destroyInstance(instance, null)
  }
}

type Vulkan = ReturnType<typeof openVulkan>

function openVulkan(names: readonly string[]) {
  const { take } = openDriverLibrary(names)
  return {
    createInstance: take("int32_t vkCreateInstance(void *info, void *allocator, void *instance)"),
    destroyInstance: take<void>("void vkDestroyInstance(void *instance, void *allocator)"),
    enumerate: take(
      "int32_t vkEnumeratePhysicalDevices(void *instance, void *count, void *devices)",
    ),
    extensions: take(
      "int32_t vkEnumerateDeviceExtensionProperties(void *device, void *layer, void *count, void *properties)",
    ),
    queues: take<void>(
      "void vkGetPhysicalDeviceQueueFamilyProperties(void *device, void *count, void *properties)",
    ),
    // From 1.1 on.
    properties: take<void>("void vkGetPhysicalDeviceProperties2(void *device, void *properties)"),
    features: take<void>("void vkGetPhysicalDeviceFeatures2(void *device, void *features)"),
    memory: take<void>("void vkGetPhysicalDeviceMemoryProperties2(void *device, void *memory)"),
  }
}

const INCOMPATIBLE_DRIVER = -9
const INCOMPLETE = 5

/** VkStructureType, and the bytes of each structure. */
const kinds = {
  application: { type: 0, bytes: 48 },
  instance: { type: 1, bytes: 64 },
  properties: { type: 1000059001, bytes: 840 },
  driver: { type: 1000196000, bytes: 536 },
  subgroups: { type: 1000094000, bytes: 32 },
  allocations: { type: 1000168000, bytes: 32 },
  floats: { type: 1000197000, bytes: 88 },
  dots: { type: 1000280001, bytes: 136 },
  features: { type: 1000059000, bytes: 240 },
  storage16: { type: 1000083000, bytes: 32 },
  features12: { type: 51, bytes: 208 },
  dotFeatures: { type: 1000280000, bytes: 24 },
  memory: { type: 1000059006, bytes: 536 },
  budget: { type: 1000237000, bytes: 272 },
} as const

function structure(kind: keyof typeof kinds, next?: Structure): Structure {
  const { type, bytes } = kinds[kind]
  const made = new Structure(bytes)
  made.setWord(0, type)
  if (next) made.setPointer(8, next.address)
  return made
}

function createInstance(vulkan: Vulkan): bigint {
  const application = structure("application")
  application.setWord(44, NEEDED.word)
  const info = structure("instance")
  info.setPointer(24, application.address)
  const out = new BigUint64Array(1)
  const code = vulkan.createInstance(info.bytes, null, out)
  if (code === INCOMPATIBLE_DRIVER)
    throw new DriverObstacle("no_device", "Vulkan's loader is here and finds no driver of a device")
  if (code !== 0) throw new DriverObstacle("driver_failed", `vkCreateInstance answers ${code}`)
  return out[0]!
}

function physicalDevices(vulkan: Vulkan, instance: bigint): bigint[] {
  const count = new Uint32Array(1)
  check("vkEnumeratePhysicalDevices", vulkan.enumerate(instance, count, null))
  const devices = new BigUint64Array(count[0]!)
  if (devices.length > 0)
    check("vkEnumeratePhysicalDevices", vulkan.enumerate(instance, count, devices))
  return [...devices.subarray(0, count[0])]
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

function describe(vulkan: Vulkan, device: bigint): DriverDevice {
  const extensions = extensionsOf(vulkan, device)
  const dots = structure("dots")
  const floats = structure("floats", dots)
  const allocations = structure("allocations", floats)
  const subgroups = structure("subgroups", allocations)
  const driver = structure("driver", subgroups)
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
  const can12 = (number: number) => features12.word(16 + 4 * number) === 1
  const addresses = can12(38)
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
      f16_arithmetic: can12(7),
      int8_storage: can12(2),
      int8_arithmetic: can12(8),
      int8_dot: dotFeatures.word(16) === 1,
      int8_dot_accelerated: dots.word(32) === 1, // four signed bytes in a word
      int64: features.word(16 + 4 * 40) === 1,
      matrix_units: extensions.has("VK_KHR_cooperative_matrix"),
      buffer_addresses: addresses,
      keeps_nan: floats.word(28) === 1, // and infinities, in single precision
      rounds_to_nearest: floats.word(64) === 1,
      threads_per_group: limit(232),
      shared_bytes: limit(216),
      operand_bytes: limit(32), // push constants
      largest_allocation_bytes: allocations.long(24),
    },
  }
  const obstacle = obstacleOf(api, addresses, computes(vulkan, device))
  return obstacle ? { ...described, obstacle } : described
}

const apiText = (word: number) => versionText(word % 2 ** 29, [22, 12, 0]) // above them: the variant

function obstacleOf(api: number, addresses: boolean, computes: boolean): DriverDevice["obstacle"] {
  if (api < NEEDED.word)
    return {
      reason: "driver_too_old",
      problem: `its driver speaks Vulkan ${apiText(api)} and ${NEEDED.text} is needed; update the driver`,
    }
  if (!computes) return { reason: "unsuitable", problem: "it has no queue for compute" }
  if (!addresses) return { reason: "unsuitable", problem: "its driver has no addresses of buffers" }
  return undefined
}

const QUEUE_BYTES = 24
const COMPUTE = 2

function computes(vulkan: Vulkan, device: bigint): boolean {
  const count = new Uint32Array(1)
  vulkan.queues(device, count, null)
  const queues = new Structure(QUEUE_BYTES * count[0]!)
  vulkan.queues(device, count, queues.bytes)
  return Array.from({ length: count[0]! }, (_, i) => queues.word(QUEUE_BYTES * i)).some(
    (flags) => (flags & COMPUTE) !== 0,
  )
}

const EXTENSION_BYTES = 260

function extensionsOf(vulkan: Vulkan, device: bigint): ReadonlySet<string> {
  const count = new Uint32Array(1)
  vulkan.extensions(device, null, count, null)
  const extensions = new Structure(EXTENSION_BYTES * count[0]!)
  vulkan.extensions(device, null, count, extensions.bytes)
  return new Set(
    Array.from({ length: count[0]! }, (_, i) => extensions.text(EXTENSION_BYTES * i, 256)),
  )
}

const DEVICE_LOCAL = 1

/** Of the heaps that are the device's own; `says`: the driver knows how much of them is free. */
function memoryOf(
  vulkan: Vulkan,
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
    if ((memory.word(at + 8) & DEVICE_LOCAL) === 0) continue
    total += memory.long(at)
    available += Math.max(0, budget.long(16 + 8 * heap) - budget.long(144 + 8 * heap))
  }
  return { total, shared, ...(says && { available }) }
}
