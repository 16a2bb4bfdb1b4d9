// CUDA's devices. Memory is taken in large pieces, and a place is a part of one; there is one stream, in order, so a kernel sees
// what those before it have written. A recording is a graph, handed over in one call. All memory is the device's own: what
// the host writes is copied into it.
//
// A context belongs to a thread, and Node's pool has many: whatever waits is done by one thread of this device's (cuda-thread.ts).
// Names and numbers are those of cuda.h.

import { problem } from "../../errors.ts"
import { Worker } from "../../worker/worker.ts"
import { driverLibraries } from "../devices.ts"
import { listCuda } from "../drivers/cuda.ts"
import { type DriverDevice, DriverObstacle } from "../drivers/driver.ts"
import { addressOf, type DriverLibrary, openDriverLibrary, type Pointer } from "../ffi.ts"
import { type CancelWord, ProgramLost } from "../program.ts"
import { Arena, PIECE } from "./arena.ts"
import type { CudaOrder, CudaThread } from "./cuda-thread.ts"
import type {
  Dispatch,
  GpuDevice,
  GpuKernel,
  GpuMemory,
  GpuTraits,
  KernelCode,
  Place,
  Recording,
  Wanted,
} from "./device.ts"

/** What is smaller shares a piece of memory with others. */
const SHARED_PIECE = 32 << 20 // bytes

/** The driver copies so much before it returns; longer writes are waited for. */
const SHORT_WRITE = 64 << 10 // bytes

/**
 * The device that `sinter devices` lists under this number.
 * @param names of CUDA's library, the likeliest first
 * @throws Error in the driver's words where it cannot be opened
 */
export async function openCuda(id: number, names = driverLibraries("cuda")): Promise<GpuDevice> {
  const described = listCuda(names)[id]
  if (!described) throw new DriverObstacle("no_device", `there is no device ${id}`)
  if (described.obstacle)
    throw new DriverObstacle(described.obstacle.reason, described.obstacle.problem)
  const cuda = openApi(openDriverLibrary(names))
  const device = new Int32Array(1)
  check(cuda.deviceGet(device, id), "cuDeviceGet")
  const context = new BigUint64Array(1)
  check(cuda.retain(context, device[0]), "cuDevicePrimaryCtxRetain")
  const stream = new BigUint64Array(1)
  const opened = { described, device: device[0]!, context: context[0]! }
  try {
    check(cuda.setCurrent(context[0]), "cuCtxSetCurrent")
    check(cuda.createStream(stream, NON_BLOCKING), "cuStreamCreate")
    return new CudaDevice(cuda, names, { ...opened, stream: stream[0]! })
  } catch (error) {
    cuda.release(device[0])
    throw error
  }
}

interface Opened {
  described: DriverDevice
  device: number
  context: Pointer
  stream: Pointer
}

type Api = ReturnType<typeof openApi>

function openApi({ take }: DriverLibrary) {
  return {
    deviceGet: take("int32_t cuDeviceGet(void *out, int32_t number)"),
    retain: take("int32_t cuDevicePrimaryCtxRetain(void *context, int32_t device)"),
    release: take("int32_t cuDevicePrimaryCtxRelease_v2(int32_t device)"),
    setCurrent: take("int32_t cuCtxSetCurrent(void *context)"),
    memory: take("int32_t cuMemGetInfo_v2(void *free, void *total)"),
    createStream: take("int32_t cuStreamCreate(void *out, uint32_t flags)"),
    destroyStream: take("int32_t cuStreamDestroy_v2(void *stream)"),
    allocate: take("int32_t cuMemAlloc_v2(void *out, size_t bytes)"),
    free: take("int32_t cuMemFree_v2(uint64_t at)"),
    fill: take("int32_t cuMemsetD8Async(uint64_t at, uint8_t value, size_t bytes, void *stream)"),
    write: take(
      "int32_t cuMemcpyHtoDAsync_v2(uint64_t to, void *from, size_t bytes, void *stream)",
    ),
    functionOf: take("int32_t cuModuleGetFunction(void *out, void *module, const char *name)"),
    functionAttribute: take("int32_t cuFuncGetAttribute(void *out, int32_t what, void *function)"),
    unload: take("int32_t cuModuleUnload(void *module)"),
    createGraph: take("int32_t cuGraphCreate(void *out, uint32_t flags)"),
    addKernel: take(
      "int32_t cuGraphAddKernelNode(void *out, void *graph, void *after, size_t count, void *parameters)",
    ),
    instantiate: take(
      "int32_t cuGraphInstantiateWithFlags(void *out, void *graph, uint64_t flags)",
    ),
    destroyGraph: take("int32_t cuGraphDestroy(void *graph)"),
    launch: take("int32_t cuGraphLaunch(void *graph, void *stream)"),
    destroyLaunchable: take("int32_t cuGraphExecDestroy(void *graph)"),
  }
}

const NON_BLOCKING = 1
const MAX_THREADS_OF_FUNCTION = 0
const OUT_OF_MEMORY = 2

/** What the codes are called that a sound program can meet. */
const codes: Readonly<Record<number, string>> = {
  2: "CUDA_ERROR_OUT_OF_MEMORY",
  46: "CUDA_ERROR_DEVICE_UNAVAILABLE",
  209: "CUDA_ERROR_NO_BINARY_FOR_GPU",
  214: "CUDA_ERROR_ECC_UNCORRECTABLE",
  218: "CUDA_ERROR_INVALID_PTX",
  222: "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
  500: "CUDA_ERROR_NOT_FOUND",
  700: "CUDA_ERROR_ILLEGAL_ADDRESS",
  701: "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
  702: "CUDA_ERROR_LAUNCH_TIMEOUT",
  714: "CUDA_ERROR_HARDWARE_STACK_ERROR",
  715: "CUDA_ERROR_ILLEGAL_INSTRUCTION",
  716: "CUDA_ERROR_MISALIGNED_ADDRESS",
  717: "CUDA_ERROR_INVALID_ADDRESS_SPACE",
  718: "CUDA_ERROR_INVALID_PC",
  719: "CUDA_ERROR_LAUNCH_FAILED",
}

/** The context will do nothing more. */
const LOSSES = new Set([46, 214, 700, 702, 714, 715, 716, 717, 718, 719])

function failure(code: number, call: string): string {
  return `${call} answers ${codes[code] ?? code}`
}

function check(code: number, call: string): void {
  if (code !== 0) throw new DriverObstacle("driver_failed", failure(code, call))
}

/** A piece of memory, and which of its bytes are taken. */
interface Piece {
  address: Pointer
  arena: Arena
}

class CudaPlace implements Place {
  readonly bytes: number
  readonly piece: Piece
  /** Where it begins there. */
  readonly at: number

  constructor(bytes: number, piece: Piece, at: number) {
    this.bytes = bytes
    this.piece = piece
    this.at = at
  }
}

interface CudaKernel extends GpuKernel {
  readonly function: Pointer
  readonly code: KernelCode
}

interface CudaRecording extends Recording {
  /** None where nothing is to be done. */
  readonly launchable: Pointer | undefined
}

class CudaDevice implements GpuDevice {
  readonly description: string
  readonly traits: GpuTraits
  readonly maker: string
  readonly #cuda: Api
  readonly #opened: Opened
  readonly #thread: Worker<CudaOrder, number>
  readonly #pieces = new Set<Piece>()
  readonly #modules: Pointer[] = []
  readonly #launchables = new Set<Pointer>()
  #lost: ProgramLost | undefined

  constructor(cuda: Api, names: readonly string[], opened: Opened) {
    const { description, driver, features } = opened.described
    this.#cuda = cuda
    this.#opened = opened
    this.description = description
    this.maker = `${description}, ${driver}`
    this.traits = {
      threads: Number(features.threads_per_group),
      sharedBytes: 48 << 10, // more has to be asked for, kernel by kernel
      operandBytes: 4096,
      subgroup: Number(features.subgroup_size),
      dot4: true,
      matrix: Number(features.compute_capability) >= 8,
      fma: true,
      division: true,
      float64: true,
      isProcessor: false,
    }
    const { context, stream } = opened
    this.#thread = new Worker({
      name: "CUDA",
      file: new URL("cuda-thread", import.meta.url),
      host: "thread",
      afterLoss: "end",
      opening: { names, context, stream } satisfies CudaThread,
    })
    this.#thread.start()
  }

  memory(): GpuMemory {
    this.#enter()
    const [free, total] = [new BigUint64Array(1), new BigUint64Array(1)]
    this.#check(this.#cuda.memory(free, total), "cuMemGetInfo")
    const available = Number(free[0])
    return {
      total: Number(total[0]),
      available,
      shared: this.#opened.described.memory.shared,
      largest: Number(total[0]),
    }
  }

  async allocate(bytes: number): Promise<Place> {
    this.#enter()
    const length = pieceOf(bytes)
    const piece = this.#pieceFor(length)
    const place = new CudaPlace(bytes, piece, piece.arena.take(length)!)
    const code = this.#cuda.fill(addressIn(place, 0), 0, length, this.#opened.stream)
    this.#check(code, "cuMemsetD8Async")
    return place
  }

  free(place: Place): void {
    const { piece, at, bytes } = place as CudaPlace
    piece.arena.giveBack(at, pieceOf(bytes))
    if (!piece.arena.isEmpty || this.#lost) return
    this.#enter()
    this.#pieces.delete(piece)
    this.#cuda.free(piece.address)
  }

  async write(place: Place, at: number, bytes: Uint8Array): Promise<void> {
    this.#enter()
    if (bytes.length === 0) return
    const to = within(place, at, bytes)
    if (bytes.length > SHORT_WRITE)
      await this.#ask({ call: "write", copies: [copyOf(to, bytes)] }, "cuMemcpyHtoDAsync")
    else
      this.#check(
        this.#cuda.write(to, bytes, bytes.length, this.#opened.stream),
        "cuMemcpyHtoDAsync",
      )
  }

  async read(place: Place, at: number, into: Uint8Array): Promise<void> {
    await this.#finish([{ place, at, into }])
  }

  async load(
    modules: readonly Uint8Array[],
    kernels: readonly KernelCode[],
  ): Promise<readonly GpuKernel[]> {
    const loaded: Pointer[] = []
    for (const module of modules) loaded.push(await this.#loadModule(module))
    this.#enter()
    return kernels.map((code) => this.#kernelOf(loaded[code.module]!, code))
  }

  /** The driver keeps what it makes of kernels itself. */
  async madeOf(): Promise<undefined> {}

  record(dispatches: readonly Dispatch[]): Recording {
    this.#enter()
    const present = dispatches.filter(({ groups }) => groups.every((count) => count > 0))
    const launchable = present.length > 0 ? this.#launchableOf(present) : undefined
    if (launchable !== undefined) this.#launchables.add(launchable)
    const free = () => {
      if (launchable === undefined || !this.#launchables.delete(launchable) || this.#lost) return
      this.#enter()
      this.#cuda.destroyLaunchable(launchable)
    }
    const recording: CudaRecording = { launchable, free }
    return recording
  }

  async run(
    recordings: readonly Recording[],
    cancel: CancelWord,
    wanted: readonly Wanted[] = [],
  ): Promise<"done" | "cancelled"> {
    for (const [i, recording] of recordings.entries()) {
      if (Atomics.load(cancel, 0) !== 0) return "cancelled"
      const { launchable } = recording as CudaRecording
      if (launchable === undefined) continue
      this.#enter()
      this.#check(this.#cuda.launch(launchable, this.#opened.stream), "cuGraphLaunch")
      if (i < recordings.length - 1) await this.#finish([])
    }
    await this.#finish(wanted)
    return "done"
  }

  async close(): Promise<void> {
    const { device, stream } = this.#opened
    if (!this.#lost) await this.#finish([])
    await this.#thread.close()
    const cuda = this.#cuda
    cuda.setCurrent(this.#opened.context)
    for (const launchable of this.#launchables) cuda.destroyLaunchable(launchable)
    for (const module of this.#modules) cuda.unload(module)
    for (const { address } of this.#pieces) cuda.free(address)
    cuda.destroyStream(stream)
    cuda.release(device)
  }

  /** Calls from here on are about this device: another may have been used by this thread. */
  #enter(): void {
    if (this.#lost) throw this.#lost
    this.#check(this.#cuda.setCurrent(this.#opened.context), "cuCtxSetCurrent")
  }

  /** Waits for all that the stream has, and reads what is wanted of it. */
  async #finish(wanted: readonly Wanted[]): Promise<void> {
    if (this.#lost) throw this.#lost
    const copies = wanted
      .filter(({ into }) => into.length > 0)
      .map(({ place, at, into }) => copyOf(within(place, at, into), into))
    await this.#ask({ call: "read", copies }, "cuStreamSynchronize")
  }

  async #ask(order: CudaOrder, name: string): Promise<void> {
    this.#check(await this.#thread.ask(order), name)
  }

  /** One with room for so much. */
  #pieceFor(length: number): Piece {
    for (const piece of this.#pieces) if (piece.arena.hasRoom(length)) return piece
    const size = length > SHARED_PIECE / 2 ? length : SHARED_PIECE
    const address = new BigUint64Array(1)
    const code = this.#cuda.allocate(address, size)
    if (code === OUT_OF_MEMORY) {
      const what = `${Math.ceil(length / 2 ** 20)} MiB on ${this.description}`
      throw problem("memory_refused", { what })
    }
    this.#check(code, "cuMemAlloc")
    const piece = { address: address[0]!, arena: new Arena(size) }
    this.#pieces.add(piece)
    return piece
  }

  async #loadModule(image: Uint8Array): Promise<Pointer> {
    const module = new BigUint64Array(1)
    const log = new Uint8Array(16 << 10)
    const text = new Uint8Array(image.length + 1) // it ends in a zero byte
    text.set(image)
    const at = { module: addressOf(module), image: addressOf(text), log: addressOf(log) }
    const code = await this.#thread.ask({ call: "load", ...at, logBytes: log.length })
    if (code !== 0) {
      const words = Buffer.from(log.subarray(0, Math.max(0, log.indexOf(0)))).toString()
      const why = words.trim() || failure(code, "cuModuleLoadDataEx")
      throw new DriverObstacle(
        "driver_failed",
        `${this.description} refuses ${text.length} bytes of kernels: ${why}`,
      )
    }
    this.#modules.push(module[0]!)
    return module[0]!
  }

  #kernelOf(module: Pointer, code: KernelCode): CudaKernel {
    const found = new BigUint64Array(1)
    const refuse = (why: string) => {
      const words = `${this.description} refuses ${code.name}: ${why}`
      return new DriverObstacle("driver_failed", words)
    }
    const answer = this.#cuda.functionOf(found, module, code.entry)
    if (answer !== 0) throw refuse(failure(answer, "cuModuleGetFunction"))
    const most = new Int32Array(1)
    this.#check(
      this.#cuda.functionAttribute(most, MAX_THREADS_OF_FUNCTION, found[0]),
      "cuFuncGetAttribute",
    )
    if (most[0]! < code.threads)
      throw refuse(`it runs with ${most[0]} threads and not with ${code.threads}`)
    return { function: found[0]!, code }
  }

  /** A graph in which each kernel waits for the one before it. */
  #launchableOf(dispatches: readonly Dispatch[]): Pointer {
    const graph = new BigUint64Array(1)
    this.#check(this.#cuda.createGraph(graph, 0), "cuGraphCreate")
    try {
      let before: BigUint64Array | null = null
      for (const dispatch of dispatches) {
        const node = new BigUint64Array(1)
        const { parameters, held } = nodeParameters(dispatch)
        const count = before ? 1 : 0
        const code = this.#cuda.addKernel(node, graph[0], before, count, parameters)
        held.length = 0 // what the call points at is held until here
        this.#check(code, "cuGraphAddKernelNode")
        before = node
      }
      const launchable = new BigUint64Array(1)
      this.#check(this.#cuda.instantiate(launchable, graph[0], 0), "cuGraphInstantiateWithFlags")
      return launchable[0]!
    } finally {
      this.#cuda.destroyGraph(graph[0])
    }
  }

  #check(code: number, call: string): void {
    if (code === 0) return
    const words = `${this.description}: ${failure(code, call)}`
    if (!LOSSES.has(code)) throw new Error(`internal: ${words}`)
    this.#lost = new ProgramLost(words)
    throw this.#lost
  }
}

/** CUDA_KERNEL_NODE_PARAMS in its first form, and the arrays it points at. */
function nodeParameters({ kernel, operands, groups }: Dispatch) {
  const { function: called, code } = kernel as CudaKernel
  const values = BigUint64Array.from(operands, (operand) =>
    typeof operand === "number"
      ? BigInt(operand >>> 0)
      : addressIn(operand.place as CudaPlace, operand.at),
  )
  const first = addressOf(values)
  const pointers = BigUint64Array.from(operands, (_, i) => first + BigInt(8 * i))
  const parameters = new Uint8Array(56)
  const view = new DataView(parameters.buffer)
  view.setBigUint64(0, called, true)
  for (const [i, count] of [...groups, code.threads, 1, 1].entries())
    view.setUint32(8 + 4 * i, count, true)
  view.setBigUint64(40, addressOf(pointers), true)
  return { parameters, held: [values, pointers] }
}

/** What a place of so many bytes takes. */
function pieceOf(bytes: number): number {
  return Math.max(1, Math.ceil(bytes / PIECE)) * PIECE
}

function addressIn({ piece, at }: CudaPlace, offset: number): Pointer {
  return piece.address + BigInt(at + offset)
}

/** Where some bytes of a place lie. */
function within(place: Place, at: number, { length }: Uint8Array): Pointer {
  if (at < 0 || at + length > place.bytes)
    throw new Error(`internal: ${length} bytes at ${at} of a place of ${place.bytes}`)
  return addressIn(place as CudaPlace, at)
}

/** Whoever asks for it keeps the bytes until it is answered. */
function copyOf(device: Pointer, bytes: Uint8Array) {
  return { device, host: addressOf(bytes), bytes: bytes.length }
}
