// Vulkan's devices. Kernels reach memory by 64-bit addresses, which are handed over as push constants: there are no
// descriptors, and all kernels share one layout. A recording is a command buffer, submitted again at every run.
//
// There is one queue. Everything that is handed to it begins with a barrier behind all that was handed in before, and ends with
// one before the host: so whoever waits for a fence reads what kernels wrote, and what the host writes they read. Nothing here
// waits on the event loop; fences are waited for, and kernels made, on threads of Node's pool. Handles are BigInts always.

import { createHash } from "node:crypto"
import { problem } from "../../errors.ts"
import { driverLibraries } from "../devices.ts"
import { type DriverDevice, DriverObstacle } from "../drivers/driver.ts"
import { Structure } from "../drivers/structure.ts"
import {
  type CreatedDevice,
  createDevice,
  createInstance,
  describe,
  memoryOf,
  physicalDevices,
} from "../drivers/vulkan.ts"
import { type InstanceFunctions, takeInstanceFunctions } from "../drivers/vulkan-calls.ts"
import { bytesAt, type DriverLibrary, openDriverLibrary, type Pointer } from "../ffi.ts"
import { type CancelWord, ProgramLost } from "../program.ts"
import { Arena, pieceOf } from "./arena.ts"
import {
  type Dispatch,
  type GpuDevice,
  type GpuKernel,
  type GpuMemory,
  type GpuTraits,
  type KernelCode,
  operandLayout,
  type Place,
  type Recording,
  type Started,
  type Wanted,
} from "./device.ts"
import { DeviceSilent, patienceWith } from "./patience.ts"
import { withoutModes } from "./spirv-modes.ts"
import { subgroupOf } from "./spirv-tiles.ts"
import { probeRounding } from "./vulkan-probe.ts"
import {
  allocationInfo,
  beginInfo,
  bufferAddressInfo,
  bufferCopy,
  bufferInfo,
  COMPUTE_STAGE,
  commandBufferInfo,
  commandPoolInfo,
  computePipelineInfo,
  memoryBarrier,
  pipelineCacheInfo,
  pipelineLayoutInfo,
  shaderModuleInfo,
  structure,
  submitInfo,
} from "./vulkan-structs.ts"
import { probeTiles } from "./vulkan-tile-probe.ts"

/** What is smaller shares an allocation with others: drivers take few, 4096 in all. */
const SHARED_ALLOCATION = 64 << 20 // bytes

/** A piece of the host's memory through which bytes pass where a device's cannot be mapped. There are two. */
const STAGING = 8 << 20 // bytes

/** Kernels that are made at a time: the pool has four threads, and somebody else may want one. */
const MADE_AT_A_TIME = 3

/** After so long a wait is begun again, so that no thread is stuck in one: a look (patience.ts). */
const WAIT = 1_000_000_000n // nanoseconds

/** Every device takes as many groups along an axis. */
const MOST_GROUPS = 65535

export interface VulkanOptions {
  /** Names of the loader, where they are not those of this system. */
  libraries?: readonly string[]
  /** Bytes pass through the host's memory even where a device's own is mapped. */
  staged?: boolean
}

/**
 * The device that `sinter devices` lists under this number.
 * @throws DriverObstacle where it cannot be opened
 */
export async function openVulkan(id: number, options: VulkanOptions = {}): Promise<GpuDevice> {
  const library = openDriverLibrary(options.libraries ?? driverLibraries("vulkan"))
  const instanceFunctions = takeInstanceFunctions(library)
  const instance = createInstance(instanceFunctions)
  let device: Device
  try {
    const physical = physicalDevices(instanceFunctions, instance)[id]
    if (physical === undefined) throw new DriverObstacle("no_device", `Vulkan has no device ${id}`)
    const described = describe(instanceFunctions, physical)
    const { obstacle } = described
    if (obstacle) throw new DriverObstacle(obstacle.reason, obstacle.problem)
    const vulkan = { ...instanceFunctions, ...takeDeviceFunctions(library) }
    const created = createDevice(instanceFunctions, instance, physical, described)
    try {
      device = new Device(vulkan, { instance, physical, described, ...created }, options)
    } catch (error) {
      vulkan.destroyDevice(created.device, null)
      throw error
    }
  } catch (error) {
    instanceFunctions.destroyInstance(instance, null)
    throw error
  }
  try {
    Object.assign(device.traits, await probeRounding(device))
    device.traits.tiles = await probeTiles(device)
    return device
  } catch (error) {
    await device.close()
    throw error
  }
}

type Vulkan = InstanceFunctions & ReturnType<typeof takeDeviceFunctions>

function takeDeviceFunctions({ take, takeAsync }: DriverLibrary) {
  return {
    idle: takeAsync("int32_t vkDeviceWaitIdle(void *device)"),
    queue: take<void>(
      "void vkGetDeviceQueue(void *device, uint32_t family, uint32_t number, void *out)",
    ),
    allocate: take("int32_t vkAllocateMemory(void *device, void *info, void *_, void *out)"),
    freeMemory: take<void>("void vkFreeMemory(void *device, uint64_t memory, void *_)"),
    map: take(
      "int32_t vkMapMemory(void *device, uint64_t memory, uint64_t at, uint64_t bytes, uint32_t flags, void *out)",
    ),
    createBuffer: take("int32_t vkCreateBuffer(void *device, void *info, void *_, void *out)"),
    destroyBuffer: take<void>("void vkDestroyBuffer(void *device, uint64_t buffer, void *_)"),
    requirements: take<void>(
      "void vkGetBufferMemoryRequirements(void *device, uint64_t buffer, void *out)",
    ),
    bind: take(
      "int32_t vkBindBufferMemory(void *device, uint64_t buffer, uint64_t memory, uint64_t at)",
    ),
    address: take<number | bigint>("uint64_t vkGetBufferDeviceAddress(void *device, void *info)"),
    createModule: take(
      "int32_t vkCreateShaderModule(void *device, void *info, void *_, void *out)",
    ),
    destroyModule: take<void>("void vkDestroyShaderModule(void *device, uint64_t module, void *_)"),
    createLayout: take(
      "int32_t vkCreatePipelineLayout(void *device, void *info, void *_, void *out)",
    ),
    destroyLayout: take<void>(
      "void vkDestroyPipelineLayout(void *device, uint64_t layout, void *_)",
    ),
    createCache: take(
      "int32_t vkCreatePipelineCache(void *device, void *info, void *_, void *out)",
    ),
    cacheData: takeAsync(
      "int32_t vkGetPipelineCacheData(void *device, uint64_t cache, void *size, void *data)",
    ),
    mergeCaches: take(
      "int32_t vkMergePipelineCaches(void *device, uint64_t into, uint32_t count, void *caches)",
    ),
    destroyCache: take<void>("void vkDestroyPipelineCache(void *device, uint64_t cache, void *_)"),
    createPipelines: takeAsync(
      "int32_t vkCreateComputePipelines(void *device, uint64_t cache, uint32_t count, void *infos, void *_, void *out)",
    ),
    destroyPipeline: take<void>("void vkDestroyPipeline(void *device, uint64_t pipeline, void *_)"),
    createPool: take("int32_t vkCreateCommandPool(void *device, void *info, void *_, void *out)"),
    destroyPool: take<void>("void vkDestroyCommandPool(void *device, uint64_t pool, void *_)"),
    createCommands: take("int32_t vkAllocateCommandBuffers(void *device, void *info, void *out)"),
    freeCommands: take<void>(
      "void vkFreeCommandBuffers(void *device, uint64_t pool, uint32_t count, void *commands)",
    ),
    begin: take("int32_t vkBeginCommandBuffer(void *commands, void *info)"),
    end: take("int32_t vkEndCommandBuffer(void *commands)"),
    barrier: take<void>(
      "void vkCmdPipelineBarrier(void *commands, uint32_t after, uint32_t before, uint32_t flags, uint32_t memory, void *barrier, uint32_t buffers, void *_, uint32_t images, void *__)",
    ),
    bindPipeline: take<void>(
      "void vkCmdBindPipeline(void *commands, uint32_t point, uint64_t pipeline)",
    ),
    push: take<void>(
      "void vkCmdPushConstants(void *commands, uint64_t layout, uint32_t stages, uint32_t at, uint32_t bytes, void *values)",
    ),
    dispatch: take<void>("void vkCmdDispatch(void *commands, uint32_t x, uint32_t y, uint32_t z)"),
    copy: take<void>(
      "void vkCmdCopyBuffer(void *commands, uint64_t from, uint64_t to, uint32_t count, void *regions)",
    ),
    fill: take<void>(
      "void vkCmdFillBuffer(void *commands, uint64_t buffer, uint64_t at, uint64_t bytes, uint32_t word)",
    ),
    submit: take(
      "int32_t vkQueueSubmit(void *queue, uint32_t count, void *submits, uint64_t fence)",
    ),
    createFence: take("int32_t vkCreateFence(void *device, void *info, void *_, void *out)"),
    destroyFence: take<void>("void vkDestroyFence(void *device, uint64_t fence, void *_)"),
    resetFences: take("int32_t vkResetFences(void *device, uint32_t count, void *fences)"),
    wait: takeAsync(
      "int32_t vkWaitForFences(void *device, uint32_t count, void *fences, uint32_t all, uint64_t nanoseconds)",
    ),
  }
}

const TIMEOUT = 2
const LOST = -4

/** What the codes are called that a sound program can meet. */
const codes: Readonly<Record<number, string>> = {
  [-1]: "VK_ERROR_OUT_OF_HOST_MEMORY",
  [-2]: "VK_ERROR_OUT_OF_DEVICE_MEMORY",
  [-3]: "VK_ERROR_INITIALIZATION_FAILED",
  [LOST]: "VK_ERROR_DEVICE_LOST",
  [-5]: "VK_ERROR_MEMORY_MAP_FAILED",
  [-10]: "VK_ERROR_TOO_MANY_OBJECTS",
  [-13]: "VK_ERROR_UNKNOWN",
  [-1000012000]: "VK_ERROR_INVALID_SHADER_NV",
}

/** There is no memory for what was asked; a driver has limits of its own on the number of allocations. */
const REFUSALS = new Set([-1, -2, -5, -10])

const failure = (code: number, call: string) => `${call} answers ${codes[code] ?? code}`

function check(code: number, call: string): void {
  if (code !== 0) throw new DriverObstacle("driver_failed", failure(code, call))
}

const stages = { compute: 0x800, transfer: 0x1000, host: 0x4000 } as const
const ALL_STAGES = stages.compute | stages.transfer | stages.host
const accesses = {
  kernels: 0x20 | 0x40,
  kernelsWrite: 0x40,
  copies: 0x800 | 0x1000,
  copiesWrite: 0x1000,
  hostReads: 0x2000,
  hostWrites: 0x4000,
} as const

const behindAll = memoryBarrier(
  accesses.kernelsWrite | accesses.copiesWrite | accesses.hostWrites,
  accesses.kernels | accesses.copies,
).bytes
const betweenKernels = memoryBarrier(accesses.kernelsWrite, accesses.kernels).bytes
const beforeHost = memoryBarrier(
  accesses.kernelsWrite | accesses.copiesWrite,
  accesses.hostReads,
).bytes

const COMPUTE_POINT = 1
const DEVICE_LOCAL = 1
const MAPPED = 2 | 4 // visible to the host, and coherent with it
const CACHED = 8
/** Beyond these there are memories that are protected, or never quite there. */
const ORDINARY = DEVICE_LOCAL | MAPPED | CACHED

interface Opened extends CreatedDevice {
  instance: Pointer
  physical: Pointer
  described: DriverDevice
}

/** Memory that the driver gave in one piece, and the buffer that is all of it. */
interface Allocation {
  where: "device" | "host"
  memory: bigint
  buffer: bigint
  address: bigint
  /** Where the host sees it. */
  mapped: Pointer | undefined
  arena: Arena
}

/** A command buffer, and what hands it to the queue. */
interface Commands {
  handle: Pointer
  submit: Uint8Array
}

class VulkanPlace implements Place {
  readonly bytes: number
  readonly allocation: Allocation
  /** Where it begins there. */
  readonly at: number
  /** The host's own memory, as an array: it is written in every step, and making the array takes longer than that. */
  readonly host: Uint8Array | undefined

  constructor(bytes: number, allocation: Allocation, at: number) {
    this.bytes = bytes
    this.allocation = allocation
    this.at = at
    if (allocation.where === "host") this.host = bytesAt(allocation.mapped! + BigInt(at), bytes)
  }
}

interface VulkanKernel extends GpuKernel {
  readonly pipeline: bigint
  readonly code: KernelCode
  readonly offsets: readonly number[]
  /** What its dispatches push, written anew for each. */
  readonly block: DataView
}

interface VulkanRecording extends Recording {
  readonly commands: Commands
}

class Device implements GpuDevice {
  readonly description: string
  readonly traits: GpuTraits
  readonly maker: string
  readonly #vulkan: Vulkan
  readonly #opened: Opened
  readonly #device: Pointer
  readonly #queue: Pointer
  readonly #pool: bigint
  readonly #layout: bigint
  /** Of all kernels, those that were made at earlier starts among them. */
  readonly #cache: bigint
  /** What the driver's caches begin with, and how many of its bytes came from an earlier start. */
  readonly #cacheHeader: Uint8Array
  #cameFromCache = 0
  readonly #memoryTypes: readonly { flags: number; heapBytes: number }[]
  readonly #staged: boolean
  readonly #allocations = new Set<Allocation>()
  /** By what they were made of. */
  readonly #pipelines = new Map<string, Promise<bigint>>()
  /** One load comes after the other: a cache that another is merged into must not be in use. */
  #loading: Promise<unknown> = Promise.resolve()
  readonly #fences = new Set<bigint>()
  /** Those that nobody waits for. */
  readonly #freeFences: bigint[] = []
  /** Settled once what was started last has ended: waits come one after the other, since each takes a thread of the pool. */
  #started: Promise<unknown> = Promise.resolve()
  #staging: Promise<readonly VulkanPlace[]> | undefined
  /** Whoever passes bytes through staging memory comes after these. */
  #passing: Promise<unknown> = Promise.resolve()
  #lost: ProgramLost | undefined

  constructor(vulkan: Vulkan, opened: Opened, { staged }: VulkanOptions) {
    this.#vulkan = vulkan
    this.#opened = opened
    this.#device = opened.device
    const { described, queueFamily, dot4, tiles } = opened
    const { features } = described
    this.description = described.description
    this.traits = {
      threads: Number(features.threads_per_group),
      sharedBytes: Number(features.shared_bytes),
      operandBytes: Number(features.operand_bytes),
      subgroup: features.subgroup_arithmetic === true ? Number(features.subgroup_size) : 0,
      dot4,
      matrix: false,
      overlap: false,
      tiles, // until it is known which of them are right
      fma: false, // until it is known
      division: false,
      float64: features.f64_arithmetic === true,
      isProcessor: described.type === "processor",
    }
    this.#memoryTypes = this.#listMemoryTypes()
    this.#staged = staged === true || !described.memory.shared
    const out = new BigUint64Array(1)
    vulkan.queue(this.#device, queueFamily, 0, out)
    this.#queue = out[0]!
    this.#pool = this.#make("createPool", commandPoolInfo(queueFamily))
    this.#layout = this.#make("createLayout", pipelineLayoutInfo(this.traits.operandBytes))
    this.#cache = this.#make("createCache", pipelineCacheInfo(new Uint8Array()))
    this.#cacheHeader = this.#readCacheHeader()
    this.maker = [
      described.description,
      described.driver,
      Buffer.from(this.#cacheHeader).toString("hex"),
    ].join("\n")
  }

  // ------------------------------------------------------------------ memory

  memory(): GpuMemory {
    const { physical, described } = this.#opened
    const { shared, available: says } = described.memory
    const { total, available } = memoryOf(this.#vulkan, physical, {
      shared,
      says: says !== undefined,
    })
    const taken = [...this.#allocations].reduce((bytes, { arena }) => bytes + arena.bytes, 0)
    return {
      total,
      available: available ?? Math.max(0, total - taken),
      shared,
      largest: Number(described.features.largest_allocation_bytes),
    }
  }

  async allocate(bytes: number, where: "device" | "host"): Promise<Place> {
    if (this.#lost) throw this.#lost
    const length = pieceOf(bytes)
    const allocation = this.#allocationFor(length, where)
    const place = new VulkanPlace(bytes, allocation, allocation.arena.take(length)!)
    try {
      await this.#once(({ fill }, commands) =>
        fill(commands, allocation.buffer, place.at, length, 0),
      )
    } catch (error) {
      this.free(place)
      throw error
    }
    return place
  }

  free(place: Place): void {
    if (this.#isSilent) return
    const { allocation, at, bytes } = place as VulkanPlace
    allocation.arena.giveBack(at, pieceOf(bytes))
    if (!allocation.arena.isEmpty) return
    this.#allocations.delete(allocation)
    this.#release(allocation)
  }

  /** One with room for so much. */
  #allocationFor(length: number, where: "device" | "host"): Allocation {
    for (const allocation of this.#allocations)
      if (allocation.where === where && allocation.arena.hasRoom(length)) return allocation
    const { largest } = this.memory()
    if (length > largest) throw this.#refusal(length)
    const shared = Math.min(SHARED_ALLOCATION, largest)
    const allocation = this.#allocate(length > shared / 2 ? length : shared, where)
    this.#allocations.add(allocation)
    return allocation
  }

  #allocate(bytes: number, where: "device" | "host"): Allocation {
    const vulkan = this.#vulkan
    const device = this.#device
    const buffer = this.#make("createBuffer", bufferInfo(bytes))
    const allocation: Allocation = {
      where,
      memory: 0n,
      buffer,
      address: 0n,
      mapped: undefined,
      arena: new Arena(bytes),
    }
    try {
      const requirements = new Structure(24)
      vulkan.requirements(device, buffer, requirements.bytes)
      const memory = this.#allocateMemory(requirements, where)
      allocation.memory = memory
      const out = new BigUint64Array(1)
      this.#checkMemory(vulkan.bind(device, buffer, memory, 0), "vkBindBufferMemory", bytes)
      if (where === "host" || !this.#staged) {
        this.#checkMemory(vulkan.map(device, memory, 0, bytes, 0, out), "vkMapMemory", bytes)
        allocation.mapped = out[0]!
      }
      allocation.address = BigInt(vulkan.address(device, bufferAddressInfo(buffer).bytes))
    } catch (error) {
      this.#release(allocation)
      throw error
    }
    return allocation
  }

  /** Of the best type that has so much: what a GPU in a processor has to itself may be little. */
  #allocateMemory(requirements: Structure, where: "device" | "host"): bigint {
    const bytes = requirements.long(0)
    const out = new BigUint64Array(1)
    for (const type of this.#memoryTypesFor(requirements.word(16), where)) {
      if (this.#memoryTypes[type]!.heapBytes < bytes) continue
      const info = allocationInfo(bytes, type)
      const code = this.#vulkan.allocate(this.#device, info.bytes, null, out)
      if (code === 0) return out[0]!
      if (!REFUSALS.has(code)) throw this.#failure(code, "vkAllocateMemory")
    }
    throw this.#refusal(bytes)
  }

  #checkMemory(code: number, call: string, bytes: number): void {
    if (REFUSALS.has(code)) throw this.#refusal(bytes)
    if (code !== 0) throw this.#failure(code, call)
  }

  #refusal(bytes: number): Error {
    const what = `${Math.ceil(bytes / 2 ** 20)} MiB on ${this.description}`
    return problem("memory_refused", { what })
  }

  #release({ buffer, memory }: Allocation): void {
    this.#vulkan.destroyBuffer(this.#device, buffer, null)
    if (memory !== 0n) this.#vulkan.freeMemory(this.#device, memory, null)
  }

  #listMemoryTypes(): { flags: number; heapBytes: number }[] {
    const memory = structure("memory")
    this.#vulkan.memory(this.#opened.physical, memory.bytes)
    return Array.from({ length: memory.word(16) }, (_, i) => {
      const [flags, heap] = [memory.word(16 + 4 + 8 * i), memory.word(16 + 8 + 8 * i)]
      return { flags, heapBytes: memory.long(16 + 264 + 16 * heap) }
    })
  }

  /** The types for what lies there, the best first: drivers list the faster ones first. */
  #memoryTypesFor(allowed: number, where: "device" | "host"): Set<number> {
    const wishes =
      where === "host"
        ? [MAPPED | CACHED, MAPPED]
        : this.#staged
          ? [DEVICE_LOCAL]
          : [DEVICE_LOCAL | MAPPED | CACHED, DEVICE_LOCAL | MAPPED, MAPPED]
    const types = [...this.#memoryTypes.keys()].filter(
      (i) => (allowed & (1 << i)) !== 0 && (this.#memoryTypes[i]!.flags & ~ORDINARY) === 0,
    )
    const found = wishes.flatMap((wish) =>
      types.filter((i) => (this.#memoryTypes[i]!.flags & wish) === wish),
    )
    if (found.length > 0) return new Set(found)
    throw new DriverObstacle("unsuitable", `its driver has no memory for the ${where}`)
  }

  async write(place: Place, at: number, bytes: Uint8Array): Promise<void> {
    if (this.#lost) throw this.#lost
    if (bytes.length === 0) return
    const { allocation, from } = within(place, at, bytes)
    const mapped = mappedOf(place, at, bytes.length)
    if (mapped) {
      mapped.set(bytes)
      return
    }
    await this.#pass(bytes.length, async (staging, begin, length) => {
      const window = bytes.subarray(begin, begin + length)
      staging.host!.set(window)
      await this.#copy(staging.allocation, staging.at, allocation, from + begin, length)
    })
  }

  async read(place: Place, at: number, into: Uint8Array): Promise<void> {
    if (this.#lost) throw this.#lost
    if (into.length === 0) return
    const { allocation, from } = within(place, at, into)
    const mapped = mappedOf(place, at, into.length)
    if (mapped) {
      into.set(mapped)
      return
    }
    await this.#pass(into.length, async (staging, begin, length) => {
      await this.#copy(allocation, from + begin, staging.allocation, staging.at, length)
      into.set(staging.host!.subarray(0, length), begin)
    })
  }

  /** Hands bytes through staging memory: while one piece of it is being copied, the other is filled or emptied. */
  #pass(
    bytes: number,
    through: (staging: VulkanPlace, begin: number, length: number) => Promise<void>,
  ): Promise<void> {
    const all = this.#passing.then(async () => {
      const pieces = await this.#stagingMemory()
      const turns = pieces.map(async (staging, first) => {
        for (let begin = first * STAGING; begin < bytes; begin += STAGING * pieces.length)
          await through(staging, begin, Math.min(STAGING, bytes - begin))
      })
      await Promise.all(turns)
    })
    this.#passing = all.catch(() => {})
    return all
  }

  #stagingMemory(): Promise<readonly VulkanPlace[]> {
    const take = async () => (await this.allocate(STAGING, "host")) as VulkanPlace
    this.#staging ??= Promise.all([take(), take()]).catch((error: unknown) => {
      this.#staging = undefined // there may be memory later
      throw error
    })
    return this.#staging
  }

  #copy(from: Allocation, at: number, to: Allocation, into: number, bytes: number): Promise<void> {
    return this.#once(({ copy }, commands) =>
      copy(commands, from.buffer, to.buffer, 1, bufferCopy(at, into, bytes).bytes),
    )
  }

  // ------------------------------------------------------------------ kernels

  load(
    modules: readonly Uint8Array[],
    kernels: readonly KernelCode[],
    made?: Uint8Array,
  ): Promise<readonly GpuKernel[]> {
    const all = this.#loading.then(() => this.#load(modules, kernels, made))
    this.#loading = all.catch(() => {})
    return all
  }

  async #load(
    modules: readonly Uint8Array[],
    kernels: readonly KernelCode[],
    made: Uint8Array | undefined,
  ): Promise<readonly GpuKernel[]> {
    if (this.#lost) throw this.#lost
    if (made) this.#takeCache(made)
    for (const code of kernels) this.#checkKernel(code)
    const words = modules.map((module) => withoutModes(module, this.#opened.described.features))
    const names = words.map((module) => createHash("sha256").update(module).digest("hex"))
    const loaded: GpuKernel[] = []
    const waiting = [...kernels.entries()]
    const makeNext = async () => {
      for (let next = waiting.shift(); next; next = waiting.shift()) {
        const [number, code] = next
        const key = `${names[code.module]} ${code.entry}`
        const known = this.#pipelines.get(key) ?? this.#makePipeline(words[code.module]!, code)
        this.#pipelines.set(key, known)
        try {
          const { offsets, bytes } = operandLayout(code.operands)
          const block = new DataView(new ArrayBuffer(bytes))
          const kernel: VulkanKernel = { pipeline: await known, code, offsets, block }
          loaded[number] = kernel
        } catch (error) {
          this.#pipelines.delete(key)
          waiting.length = 0
          throw error
        }
      }
    }
    const makers = await Promise.allSettled(Array.from({ length: MADE_AT_A_TIME }, makeNext))
    for (const maker of makers) if (maker.status === "rejected") throw maker.reason
    return loaded
  }

  #checkKernel({ name, threads, sharedBytes, operands }: KernelCode): void {
    const { traits } = this
    const has = { threads, sharedBytes, operandBytes: operandLayout(operands).bytes }
    for (const [what, count] of Object.entries(has))
      if (count > traits[what as keyof typeof has])
        throw new Error(`internal: ${name} wants ${count} ${what} of ${this.description}`)
  }

  async #makePipeline(words: Uint32Array, { name, entry }: KernelCode): Promise<bigint> {
    const vulkan = this.#vulkan
    const module = this.#make("createModule", shaderModuleInfo(words))
    const out = new BigUint64Array(1)
    const { bytes } = computePipelineInfo(module, entry, this.#layout, subgroupOf(words))
    const code = await vulkan.createPipelines(this.#device, this.#cache, 1, bytes, null, out)
    vulkan.destroyModule(this.#device, module, null)
    if (code === LOST) throw this.#failure(code, "vkCreateComputePipelines")
    if (code !== 0)
      throw new DriverObstacle(
        "driver_failed",
        `${this.description} refuses the kernel ${name}: ${failure(code, "vkCreateComputePipelines")}`,
      )
    return out[0]!
  }

  /** Programs share kernels of the same words, and a model that comes again finds its own. */
  unload(): void {}

  /** Of all kernels of this device: programs that share it share kernels. */
  async madeOf(): Promise<Uint8Array | undefined> {
    const { cacheData } = this.#vulkan
    const size = new BigUint64Array(1)
    check(await cacheData(this.#device, this.#cache, size, null), "vkGetPipelineCacheData")
    const bytes = new Uint8Array(Number(size[0]))
    if (bytes.length <= Math.max(this.#cacheHeader.length, this.#cameFromCache)) return undefined
    check(await cacheData(this.#device, this.#cache, size, bytes), "vkGetPipelineCacheData")
    return bytes.subarray(0, Number(size[0]))
  }

  /** A driver may trust what it is handed, so nothing reaches it that does not begin as its own does. */
  #takeCache(made: Uint8Array): void {
    const header = this.#cacheHeader
    if (Buffer.compare(made.subarray(0, header.length), header) !== 0) return
    const cache = this.#make("createCache", pipelineCacheInfo(made))
    const code = this.#vulkan.mergeCaches(this.#device, this.#cache, 1, BigUint64Array.of(cache))
    this.#vulkan.destroyCache(this.#device, cache, null)
    if (code !== 0) throw this.#failure(code, "vkMergePipelineCaches")
    this.#cameFromCache += made.length
  }

  /** VkPipelineCacheHeaderVersionOne, of this device and driver. */
  #readCacheHeader(): Uint8Array {
    const properties = structure("properties")
    this.#vulkan.properties(this.#opened.physical, properties.bytes)
    const header = new Structure(32)
    header.setWord(0, 32)
    header.setWord(4, 1)
    header.setWord(8, properties.word(16 + 8)) // vendor
    header.setWord(12, properties.word(16 + 12)) // device
    header.bytes.set(properties.bytes.subarray(16 + 276, 16 + 292), 16) // pipelineCacheUUID
    return header.bytes
  }

  // ------------------------------------------------------------------ runs

  record(dispatches: readonly Dispatch[]): Recording {
    const vulkan = this.#vulkan
    const commands = this.#record((commands) => {
      let isFirst = true
      let bound: bigint | undefined
      for (const { kernel, operands, groups } of dispatches) {
        const [x, y, z] = groups
        if (x === 0 || y === 0 || z === 0) continue
        const { pipeline, code, offsets, block } = kernel as VulkanKernel
        if (Math.max(x, y, z) > MOST_GROUPS || operands.length !== offsets.length)
          throw new Error(
            `internal: ${code.name} cannot be run on ${groups.join(" x ")} groups with ${operands.length} operands`,
          )
        if (!isFirst) this.#barrier(commands, stages.compute, stages.compute, betweenKernels)
        isFirst = false
        if (pipeline !== bound) vulkan.bindPipeline(commands, COMPUTE_POINT, pipeline)
        bound = pipeline
        for (const [i, operand] of operands.entries()) {
          const at = offsets[i]!
          if (typeof operand === "number") block.setUint32(at, operand, true)
          else block.setBigUint64(at, addressIn(operand.place, operand.at), true)
        }
        if (block.byteLength > 0)
          vulkan.push(commands, this.#layout, COMPUTE_STAGE, 0, block.byteLength, block)
        vulkan.dispatch(commands, x, y, z)
      }
    })
    const recording: VulkanRecording = { commands, free: () => this.#freeCommands(commands) }
    return recording
  }

  async start(recording: Recording, wanted: readonly Wanted[]): Promise<Started> {
    if (this.#lost) throw this.#lost
    const fence = this.#submit((recording as VulkanRecording).commands)
    const ended = this.#started.then(async () => {
      await this.#finish(fence)
      for (const { place, at, into } of wanted) await this.read(place, at, into)
    })
    this.#started = ended.catch(() => {})
    return { ended }
  }

  async run(
    recordings: readonly Recording[],
    cancel: CancelWord,
    wanted: readonly Wanted[] = [],
  ): Promise<"done" | "cancelled"> {
    if (this.#lost) throw this.#lost
    const fences: bigint[] = [] // of one that runs, and of one that is queued behind it
    let end: "done" | "cancelled" = "done"
    try {
      for (const recording of recordings) {
        if (Atomics.load(cancel, 0) !== 0) {
          end = "cancelled"
          break
        }
        fences.push(this.#submit((recording as VulkanRecording).commands))
        if (fences.length > 1) await this.#finish(fences.shift()!)
      }
    } finally {
      for (const fence of fences) await this.#finish(fence)
    }
    if (end === "done") for (const { place, at, into } of wanted) await this.read(place, at, into)
    return end
  }

  async close(): Promise<void> {
    const vulkan = this.#vulkan
    const device = this.#device
    await this.#passing
    if (this.#isSilent) return
    await vulkan.idle(device)
    for (const pipeline of await Promise.all(this.#pipelines.values()))
      vulkan.destroyPipeline(device, pipeline, null)
    for (const allocation of this.#allocations) this.#release(allocation)
    for (const fence of this.#fences) vulkan.destroyFence(device, fence, null)
    vulkan.destroyPool(device, this.#pool, null)
    vulkan.destroyCache(device, this.#cache, null)
    vulkan.destroyLayout(device, this.#layout, null)
    vulkan.destroyDevice(device, null)
    vulkan.destroyInstance(this.#opened.instance, null)
  }

  /** Runs a few commands that are not kept. */
  async #once(write: (vulkan: Vulkan, commands: Pointer) => void): Promise<void> {
    const commands = this.#record((commands) => write(this.#vulkan, commands))
    try {
      await this.#finish(this.#submit(commands))
    } finally {
      this.#freeCommands(commands)
    }
  }

  #record(write: (commands: Pointer) => void): Commands {
    const vulkan = this.#vulkan
    const out = new BigUint64Array(1)
    const code = vulkan.createCommands(this.#device, commandBufferInfo(this.#pool).bytes, out)
    if (code !== 0) throw this.#failure(code, "vkAllocateCommandBuffers")
    const handle = out[0]!
    const commands = { handle, submit: submitInfo(handle).bytes }
    try {
      const begun = vulkan.begin(handle, beginInfo().bytes)
      if (begun !== 0) throw this.#failure(begun, "vkBeginCommandBuffer")
      this.#barrier(handle, ALL_STAGES, stages.compute | stages.transfer, behindAll)
      write(handle)
      this.#barrier(handle, stages.compute | stages.transfer, stages.host, beforeHost)
      const ended = vulkan.end(handle)
      if (ended !== 0) throw this.#failure(ended, "vkEndCommandBuffer")
    } catch (error) {
      this.#freeCommands(commands)
      throw error
    }
    return commands
  }

  #barrier(commands: Pointer, after: number, before: number, memory: Uint8Array): void {
    this.#vulkan.barrier(commands, after, before, 0, 1, memory, 0, null, 0, null)
  }

  #freeCommands({ handle }: Commands): void {
    if (this.#isSilent) return
    const list = BigUint64Array.of(handle)
    this.#vulkan.freeCommands(this.#device, this.#pool, 1, list)
  }

  /** @returns the fence that says when it has run, for `#finish` */
  #submit({ submit }: Commands): bigint {
    const fence = this.#freeFences.pop() ?? this.#make("createFence", structure("fence"))
    this.#fences.add(fence)
    const code = this.#vulkan.submit(this.#queue, 1, submit, fence)
    if (code === 0) return fence
    this.#freeFences.push(fence)
    throw this.#failure(code, "vkQueueSubmit")
  }

  async #finish(fence: bigint): Promise<void> {
    const { wait, resetFences } = this.#vulkan
    const list = BigUint64Array.of(fence)
    const patience = patienceWith(this)
    let code = TIMEOUT
    for (let looks = 0; code === TIMEOUT; looks++) {
      if (looks === patience) this.#lost ??= new DeviceSilent(this.description)
      if (this.#isSilent) throw this.#lost
      code = await wait(this.#device, 1, list, 1, WAIT)
    }
    const end = code === 0 ? resetFences(this.#device, 1, list) : code
    if (end !== 0) throw this.#failure(end, "vkWaitForFences")
    this.#freeFences.push(fence)
  }

  /** What a function makes of a structure. */
  #make(
    name:
      | "createBuffer"
      | "createModule"
      | "createLayout"
      | "createCache"
      | "createPool"
      | "createFence",
    info: Structure,
  ): bigint {
    const out = new BigUint64Array(1)
    const code = this.#vulkan[name](this.#device, info.bytes, null, out)
    if (code !== 0) throw this.#failure(code, name)
    return out[0]!
  }

  get #isSilent(): boolean {
    return this.#lost instanceof DeviceSilent
  }

  /** After one of these nothing more is asked of the device where it is lost. */
  #failure(code: number, call: string): Error {
    if (REFUSALS.has(code))
      return problem("memory_refused", { what: `${call} on ${this.description}` })
    const text = `${this.description}: ${failure(code, call)}`
    if (code !== LOST) return new Error(text)
    this.#lost ??= new ProgramLost(text)
    return this.#lost
  }
}

function addressIn(place: Place, at: number): bigint {
  const { allocation, at: from, bytes } = place as VulkanPlace
  if (at % 4 !== 0 || at < 0 || at >= bytes)
    throw new Error(`internal: an operand at ${at} of a place of ${bytes} bytes`)
  return allocation.address + BigInt(from + at)
}

/** Bytes of a place where the host sees them; none where it does not. */
function mappedOf(place: Place, at: number, length: number): Uint8Array | undefined {
  const { allocation, host, at: from } = place as VulkanPlace
  if (host) return host.subarray(at, at + length)
  const { mapped } = allocation
  return mapped === undefined ? undefined : bytesAt(mapped + BigInt(from + at), length)
}

/** Where bytes of a place lie in its allocation. */
function within(place: Place, at: number, bytes: Uint8Array) {
  if (at < 0 || at + bytes.length > place.bytes)
    throw new Error(`internal: ${bytes.length} bytes at ${at} of a place of ${place.bytes}`)
  const { allocation, at: from } = place as VulkanPlace
  return { allocation, from: from + at }
}
