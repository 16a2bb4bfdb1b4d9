// Vulkan's structures as bytes: what each is called in the driver's header is beside it, and so are the offsets of its fields
// where they are written. Most are chained by their second field; drivers skip those that they do not know.

import { Structure } from "../drivers/structure.ts"

/** VkStructureType, and the bytes of each structure. */
const kinds = {
  application: { type: 0, bytes: 48 },
  instance: { type: 1, bytes: 64 },
  deviceQueue: { type: 2, bytes: 40 },
  device: { type: 3, bytes: 72 },
  submit: { type: 4, bytes: 72 },
  allocation: { type: 5, bytes: 32 },
  fence: { type: 8, bytes: 24 },
  buffer: { type: 12, bytes: 56 },
  shaderModule: { type: 16, bytes: 40 },
  pipelineCache: { type: 17, bytes: 40 },
  computePipeline: { type: 29, bytes: 96 },
  pipelineLayout: { type: 30, bytes: 48 },
  commandPool: { type: 39, bytes: 24 },
  commandBuffers: { type: 40, bytes: 32 },
  beginning: { type: 42, bytes: 32 },
  memoryBarrier: { type: 46, bytes: 24 },
  features12: { type: 51, bytes: 208 },
  features: { type: 1000059000, bytes: 240 },
  properties: { type: 1000059001, bytes: 840 },
  memory: { type: 1000059006, bytes: 536 },
  allocationFlags: { type: 1000060000, bytes: 24 },
  storage16: { type: 1000083000, bytes: 32 },
  ids: { type: 1000071004, bytes: 64 },
  subgroups: { type: 1000094000, bytes: 32 },
  allocations: { type: 1000168000, bytes: 32 },
  driver: { type: 1000196000, bytes: 536 },
  floats: { type: 1000197000, bytes: 88 },
  address: { type: 1000212000, bytes: 32 },
  budget: { type: 1000237000, bytes: 272 },
  bufferAddress: { type: 1000244001, bytes: 24 },
  dotFeatures: { type: 1000280000, bytes: 24 },
  dots: { type: 1000280001, bytes: 136 },
  subgroupSizes: { type: 1000225000, bytes: 32 },
  subgroupSize: { type: 1000225001, bytes: 24 },
  subgroupSizeFeatures: { type: 1000225002, bytes: 24 },
  matrixFeatures: { type: 1000506000, bytes: 24 },
} as const

/** @param next what it is chained to, which lives as long as it does */
export function structure(kind: keyof typeof kinds, next?: Structure): Structure {
  const { type, bytes } = kinds[kind]
  const made = new Structure(bytes)
  made.setWord(0, type)
  if (next) made.pointTo(8, next)
  return made
}

// ------------------------------------------------------------------ opening a device

/** VkPhysicalDeviceFeatures2 and what is chained to it, with what kernels use switched on. */
export function wantedFeatures({ float64, dot4, tiles }: Wishes): Structure {
  const dots = structure("dotFeatures", tiles ? tileFeatures() : undefined)
  dots.setWord(16, dot4 ? 1 : 0)
  const features12 = structure("features12", dots)
  features12.setWord(FEATURES + 4 * features12Of.storage8, 1)
  features12.setWord(FEATURES + 4 * features12Of.addresses, 1)
  if (tiles) {
    features12.setWord(FEATURES + 4 * features12Of.memoryModel, 1)
    features12.setWord(FEATURES + 4 * features12Of.int8, tiles.bytes ? 1 : 0)
    features12.setWord(FEATURES + 4 * features12Of.float16, tiles.halves ? 1 : 0)
  }
  const storage16 = structure("storage16", features12)
  storage16.setWord(16, 1)
  const features = structure("features", storage16)
  features.setWord(FEATURES + 4 * featuresOf.float64, float64 ? 1 : 0)
  features.setWord(FEATURES + 4 * featuresOf.int64, 1)
  return features
}

interface Wishes {
  float64: boolean
  dot4: boolean
  /** Cooperative matrices, and numbers that they may be of. */
  tiles: { bytes: boolean; halves: boolean } | false
}

/** Cooperative matrices, and subgroups that are full and of a size that is asked for. */
function tileFeatures(): Structure {
  const subgroups = structure("subgroupSizeFeatures")
  subgroups.setWord(FEATURES, 1)
  subgroups.setWord(FEATURES + 4, 1)
  const matrices = structure("matrixFeatures", subgroups)
  matrices.setWord(FEATURES, 1)
  return matrices
}

/** Where the first feature lies in such a structure; each is a word. */
export const FEATURES = 16
/** Numbers in VkPhysicalDeviceFeatures. */
export const featuresOf = { float64: 39, int64: 40 } as const
/** Numbers in VkPhysicalDeviceVulkan12Features. */
export const features12Of = {
  storage8: 2,
  float16: 7,
  int8: 8,
  addresses: 38,
  memoryModel: 41,
} as const

/** VkDeviceCreateInfo for one queue. */
export function deviceInfo(
  queueFamily: number,
  extensions: readonly string[],
  features: Structure,
): Structure {
  const queue = structure("deviceQueue")
  queue.setWord(20, queueFamily)
  queue.setWord(24, 1)
  queue.pointTo(32, Float32Array.of(1)) // its priority
  const info = structure("device", features)
  info.setWord(20, 1)
  info.pointTo(24, queue)
  if (extensions.length > 0) {
    const names = new Structure(8 * extensions.length)
    for (const [i, name] of extensions.entries()) names.pointTo(8 * i, zeroTerminated(name))
    info.setWord(48, extensions.length)
    info.pointTo(56, names)
  }
  return info
}

const zeroTerminated = (text: string) => new TextEncoder().encode(`${text}\0`)

/** VkCommandPoolCreateInfo */
export function commandPoolInfo(queueFamily: number): Structure {
  const info = structure("commandPool")
  info.setWord(20, queueFamily)
  return info
}

/** VkPipelineLayoutCreateInfo: no descriptors, and push constants of so many bytes. */
export function pipelineLayoutInfo(operandBytes: number): Structure {
  const info = structure("pipelineLayout")
  info.setWord(32, 1)
  info.pointTo(40, Uint32Array.of(COMPUTE_STAGE, 0, operandBytes))
  return info
}

export const COMPUTE_STAGE = 0x20

// ------------------------------------------------------------------ memory

const BUFFER_USAGE = 0x1 | 0x2 | 0x20 | 0x20000 // copied from and to, storage, with an address

/** VkBufferCreateInfo */
export function bufferInfo(bytes: number): Structure {
  const info = structure("buffer")
  info.setPointer(24, BigInt(bytes))
  info.setWord(32, BUFFER_USAGE)
  return info
}

/** VkMemoryAllocateInfo, of memory whose buffers have addresses. */
export function allocationInfo(bytes: number, type: number): Structure {
  const flags = structure("allocationFlags")
  flags.setWord(16, 2)
  const info = structure("allocation", flags)
  info.setPointer(16, BigInt(bytes))
  info.setWord(24, type)
  return info
}

/** VkBufferDeviceAddressInfo */
export function bufferAddressInfo(buffer: bigint): Structure {
  const info = structure("bufferAddress")
  info.setPointer(16, buffer)
  return info
}

// ------------------------------------------------------------------ kernels

/** VkPipelineCacheCreateInfo */
export function pipelineCacheInfo(bytes: Uint8Array): Structure {
  const info = structure("pipelineCache")
  if (bytes.length > 0) {
    info.setPointer(24, BigInt(bytes.length))
    info.pointTo(32, bytes)
  }
  return info
}

/** VkShaderModuleCreateInfo */
export function shaderModuleInfo(words: Uint32Array): Structure {
  const info = structure("shaderModule")
  info.setPointer(24, BigInt(words.byteLength))
  info.pointTo(32, words)
  return info
}

const FULL_SUBGROUPS = 2

/**
 * VkComputePipelineCreateInfo, with its VkPipelineShaderStageCreateInfo within.
 * @param subgroup as many threads as each of its subgroups must have; absent: any number
 */
export function computePipelineInfo(
  module: bigint,
  entry: string,
  layout: bigint,
  subgroup?: number,
): Structure {
  const info = structure("computePipeline")
  if (subgroup !== undefined) {
    const size = structure("subgroupSize")
    size.setWord(16, subgroup)
    info.pointTo(24 + 8, size)
    info.setWord(24 + 16, FULL_SUBGROUPS)
  }
  info.setWord(24, 18) // the type of the stage
  info.setWord(24 + 20, COMPUTE_STAGE)
  info.setPointer(24 + 24, module)
  info.pointTo(24 + 32, zeroTerminated(entry))
  info.setPointer(72, layout)
  info.setWord(88, 0xffffffff) // derived from no other
  return info
}

// ------------------------------------------------------------------ commands

/** VkCommandBufferAllocateInfo, of one. */
export function commandBufferInfo(pool: bigint): Structure {
  const info = structure("commandBuffers")
  info.setPointer(16, pool)
  info.setWord(28, 1)
  return info
}

/** VkCommandBufferBeginInfo: it may be handed in again before it has run. */
export function beginInfo(): Structure {
  const info = structure("beginning")
  info.setWord(16, 4)
  return info
}

/** VkSubmitInfo, of one command buffer. */
export function submitInfo(commands: bigint): Structure {
  const info = structure("submit")
  info.setWord(40, 1)
  info.pointTo(48, BigUint64Array.of(commands))
  return info
}

/** VkMemoryBarrier */
export function memoryBarrier(written: number, readAndWritten: number): Structure {
  const info = structure("memoryBarrier")
  info.setWord(16, written)
  info.setWord(20, readAndWritten)
  return info
}

/** VkBufferCopy */
export function bufferCopy(from: number, to: number, bytes: number): Structure {
  const info = new Structure(24)
  info.setPointer(0, BigInt(from))
  info.setPointer(8, BigInt(to))
  info.setPointer(16, BigInt(bytes))
  return info
}
