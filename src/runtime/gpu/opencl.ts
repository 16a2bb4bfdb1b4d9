// OpenCL's devices. Memory objects are few and large, and a place is a piece of one: a kernel is handed the object and the byte
// at which its operand begins. There is one queue, in order, so a dispatch sees what those before it have written, and whoever
// waits for the last one has waited for all. A recording is a kernel object for each dispatch whose arguments are set once, and
// where the driver has command buffers, one of them.
//
// Nothing here waits on the event loop: reads, builds and waits are calls on a thread of Node's pool. Names and numbers are
// those of cl.h and cl_ext.h.

import { setImmediate } from "node:timers/promises"
import { problem } from "../../errors.ts"
import { driverLibraries } from "../devices.ts"
import { DriverObstacle } from "../drivers/driver.ts"
import { type Handle, type OpenedOpenCl, openOpenClDevice } from "../drivers/opencl.ts"
import { Structure } from "../drivers/structure.ts"
import { addressOf, type DriverLibrary, openDriverLibrary, type Pointer } from "../ffi.ts"
import { type CancelWord, ProgramLost } from "../program.ts"
import { Arena, pieceOf } from "./arena.ts"
import type {
  Dispatch,
  GpuDevice,
  GpuKernel,
  GpuMemory,
  GpuTraits,
  KernelCode,
  Place,
  Recording,
  Started,
  Wanted,
} from "./device.ts"
import { CommandBuffers, type Prepared } from "./opencl-commands.ts"
import { answerOf, DeviceSilent } from "./patience.ts"

/** What is smaller shares a memory object with others. */
const SHARED_OBJECT = 32 << 20 // bytes

/** Writes are copied and queued until so much of them waits; longer ones are waited for. */
const QUEUED_WRITES = 1 << 20 // bytes

/** Dispatches that are queued before the event loop has a turn. */
const SLICE = 128

/**
 * The device that `sinter devices` lists under this number.
 * @param names of OpenCL's library, the likeliest first
 * @throws Error in the driver's words where it cannot be opened
 */
export async function openOpencl(
  id: number,
  names = driverLibraries("opencl"),
): Promise<GpuDevice> {
  const opened = await openOpenClDevice(names, id)
  return new OpenclDevice(openApi(openDriverLibrary(names)), opened)
}

type Api = ReturnType<typeof openApi>

function openApi({ take, takeAsync }: DriverLibrary) {
  const enqueueRead =
    "int32_t clEnqueueReadBuffer(void *queue, void *memory, uint32_t blocking, size_t at, size_t bytes, void *into, uint32_t events, void *after, void *event)"
  const enqueueWrite =
    "int32_t clEnqueueWriteBuffer(void *queue, void *memory, uint32_t blocking, size_t at, size_t bytes, void *from, uint32_t events, void *after, void *event)"
  return {
    deviceInfo: take(
      "int32_t clGetDeviceInfo(void *device, uint32_t what, size_t size, void *value, void *needed)",
    ),
    releaseContext: take("int32_t clReleaseContext(void *context)"),
    releaseQueue: take("int32_t clReleaseCommandQueue(void *queue)"),
    createMemory: take<Handle>(
      "void *clCreateBuffer(void *context, uint64_t flags, size_t bytes, void *host, void *code)",
    ),
    releaseMemory: take("int32_t clReleaseMemObject(void *memory)"),
    fill: take(
      "int32_t clEnqueueFillBuffer(void *queue, void *memory, void *pattern, size_t length, size_t at, size_t bytes, uint32_t events, void *after, void *event)",
    ),
    write: take(enqueueWrite),
    writeNow: takeAsync(enqueueWrite),
    read: take(enqueueRead),
    readNow: takeAsync(enqueueRead),
    createProgram: take<Handle>(
      "void *clCreateProgramWithSource(void *context, uint32_t count, void *texts, void *lengths, void *code)",
    ),
    buildProgram: takeAsync(
      "int32_t clBuildProgram(void *program, uint32_t count, void *devices, const char *options, void *notify, void *data)",
    ),
    buildInfo: take(
      "int32_t clGetProgramBuildInfo(void *program, void *device, uint32_t what, size_t size, void *value, void *needed)",
    ),
    programFromBinary: take<Handle>(
      "void *clCreateProgramWithBinary(void *context, uint32_t count, void *devices, void *lengths, void *binaries, void *status, void *code)",
    ),
    programInfo: takeAsync(
      "int32_t clGetProgramInfo(void *program, uint32_t what, size_t size, void *value, void *needed)",
    ),
    releaseProgram: take("int32_t clReleaseProgram(void *program)"),
    createKernel: take<Handle>("void *clCreateKernel(void *program, const char *name, void *code)"),
    groupInfo: take(
      "int32_t clGetKernelWorkGroupInfo(void *kernel, void *device, uint32_t what, size_t size, void *value, void *needed)",
    ),
    setArgument: take(
      "int32_t clSetKernelArg(void *kernel, uint32_t index, size_t size, void *value)",
    ),
    releaseKernel: take("int32_t clReleaseKernel(void *kernel)"),
    dispatch: take(
      "int32_t clEnqueueNDRangeKernel(void *queue, void *kernel, uint32_t axes, void *from, void *threads, void *group, uint32_t events, void *after, void *event)",
    ),
    flush: take("int32_t clFlush(void *queue)"),
    finish: takeAsync("int32_t clFinish(void *queue)"),
    wait: takeAsync("int32_t clWaitForEvents(uint32_t count, void *events)"),
    eventInfo: take(
      "int32_t clGetEventInfo(void *event, uint32_t what, size_t size, void *value, void *needed)",
    ),
    releaseEvent: take("int32_t clReleaseEvent(void *event)"),
    extension: take<Handle>(
      "void *clGetExtensionFunctionAddressForPlatform(void *platform, const char *name)",
    ),
  }
}

/** Where something failed, there is none, and a code beside it. */
function pointer(handle: Handle): Pointer {
  return BigInt(handle ?? 0)
}

const SINGLE_CONFIG = 0x101b
const DOUBLE_CONFIG = 0x1032
const ALL_C_VERSIONS = 0x1066
const ROUNDED_DIVIDE_SQRT = 1n << 7n
const MOST_ARGUMENT_BYTES = 0x1017
const BINARY_SIZES = 0x1165
const BINARIES = 0x1166
const BUILD_LOG = 0x1183
const KERNEL_THREADS = 0x11b0
const EVENT_STATUS = 0x11d3
const COMPLETE = 0
const READ_WRITE = 1n
const ALLOCATE_HOST = 1n << 4n

/** What the codes are called that a sound program can meet. */
const codes: Readonly<Record<number, string>> = {
  [-2]: "CL_DEVICE_NOT_AVAILABLE",
  [-3]: "CL_COMPILER_NOT_AVAILABLE",
  [-4]: "CL_MEM_OBJECT_ALLOCATION_FAILURE",
  [-5]: "CL_OUT_OF_RESOURCES",
  [-6]: "CL_OUT_OF_HOST_MEMORY",
  [-11]: "CL_BUILD_PROGRAM_FAILURE",
  [-14]: "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST",
  [-36]: "CL_INVALID_COMMAND_QUEUE",
  [-45]: "CL_INVALID_PROGRAM_EXECUTABLE",
  [-46]: "CL_INVALID_KERNEL_NAME",
  [-52]: "CL_INVALID_KERNEL_ARGS",
  [-54]: "CL_INVALID_WORK_GROUP_SIZE",
  [-61]: "CL_INVALID_BUFFER_SIZE",
}

/** There is no memory for what was asked. */
const REFUSALS = new Set([-4, -5, -6, -61])

/** The device will do nothing more. NVIDIA's driver has a code of its own for kernels that reach beyond their memory. */
const LOSSES = new Set([-2, -4, -5, -6, -14, -36, -9999])

function failure(code: number, call: string): string {
  return `${call} answers ${codes[code] ?? code}`
}

function check(code: number, call: string): void {
  if (code !== 0) throw new DriverObstacle("driver_failed", failure(code, call))
}

/** A memory object, and which of its bytes are taken. */
interface MemoryObject {
  handle: Pointer
  where: "device" | "host"
  arena: Arena
}

class OpenclPlace implements Place {
  readonly bytes: number
  readonly object: MemoryObject
  /** Where it begins there. */
  readonly at: number

  constructor(bytes: number, object: MemoryObject, at: number) {
    this.bytes = bytes
    this.object = object
    this.at = at
  }
}

interface OpenclKernel extends GpuKernel {
  readonly program: Pointer
  readonly code: KernelCode
}

interface OpenclRecording extends Recording {
  readonly prepared: readonly Prepared[]
  /** All of them, where the driver has such things. */
  readonly commands: Pointer | undefined
}

class OpenclDevice implements GpuDevice {
  readonly description: string
  readonly traits: GpuTraits
  readonly maker: string
  readonly #cl: Api
  readonly #opened: OpenedOpenCl
  readonly #buildOptions: string
  readonly #commandBuffers: CommandBuffers | undefined
  readonly #objects = new Set<MemoryObject>()
  readonly #programs = new Set<Pointer>()
  /** Those that were made at an earlier start. */
  readonly #restored = new Set<Pointer>()
  readonly #kernels = new Set<Pointer>()
  readonly #commands = new Set<Pointer>()
  /** What queued writes read from, until somebody has waited for what came later. */
  readonly #written: Uint8Array[] = []
  /** Settled once what was started last has ended: waits come one after the other, since each takes a thread of the pool. */
  #started: Promise<unknown> = Promise.resolve()
  #lost: ProgramLost | undefined

  constructor(cl: Api, opened: OpenedOpenCl) {
    this.#cl = cl
    this.#opened = opened
    const { features, description, type } = opened.described
    const isRounded = (this.#ask(SINGLE_CONFIG) & ROUNDED_DIVIDE_SQRT) !== 0n
    const versions = this.#value((size, value, needed) =>
      cl.deviceInfo(opened.handle.device, ALL_C_VERSIONS, size, value, needed),
    )
    this.#buildOptions = [
      ...(isRounded ? ["-cl-fp32-correctly-rounded-divide-sqrt"] : []),
      // Left alone, compilers take the text for OpenCL C 1.2, and some have no dots there.
      ...(features.int8_dot === true && hasVersion3(versions) ? ["-cl-std=CL3.0"] : []),
    ].join(" ")
    this.description = description
    this.maker = [description, opened.described.driver, this.#buildOptions].join("\n")
    this.traits = {
      threads: Number(features.threads_per_group),
      sharedBytes: Number(features.shared_bytes),
      operandBytes: Number(this.#ask(MOST_ARGUMENT_BYTES)) >> 1, // a buffer takes 16 here, and is counted as 8
      subgroup: 0, // known of a kernel, once that is built, and not of a device
      dot4: features.int8_dot === true,
      matrix: false,
      overlap: false,
      tiles: [],
      fma: true, // the language's own rounds once, whatever the device has
      division: isRounded,
      float64: this.#ask(DOUBLE_CONFIG) !== 0n,
      isProcessor: type === "processor",
    }
    if (features.command_buffers === true)
      this.#commandBuffers = CommandBuffers.of(opened.queue, {
        ask: (what) => this.#ask(what),
        find: (name) => cl.extension(opened.handle.platform, name),
      })
  }

  memory(): GpuMemory {
    const { memory, features } = this.#opened.described
    const taken = [...this.#objects].reduce((bytes, { arena }) => bytes + arena.bytes, 0)
    return {
      total: memory.total,
      available: Math.max(0, memory.total - taken),
      shared: memory.shared,
      largest: Number(features.largest_allocation_bytes),
    }
  }

  async allocate(bytes: number, where: "device" | "host"): Promise<Place> {
    if (this.#lost) throw this.#lost
    const object = this.#objectFor(bytes, where)
    const length = pieceOf(bytes)
    const place = new OpenclPlace(bytes, object, object.arena.take(length)!)
    const [event, zero] = [new BigUint64Array(1), new Uint32Array(1)]
    const { queue } = this.#opened
    const code = this.#cl.fill(queue, object.handle, zero, 4, place.at, length, 0, null, event)
    // Some drivers look for memory when it is used for the first time.
    const refusal = code === 0 ? await this.#answer(this.#waitFor(event[0]!)) : code
    if (refusal === 0) return place
    this.free(place)
    if (REFUSALS.has(refusal)) throw this.#refusal(bytes)
    throw this.#failure(refusal, "clEnqueueFillBuffer")
  }

  free(place: Place): void {
    if (this.#isSilent) return
    const { object, at, bytes } = place as OpenclPlace
    object.arena.giveBack(at, pieceOf(bytes))
    if (!object.arena.isEmpty) return
    this.#objects.delete(object)
    this.#cl.releaseMemory(object.handle)
  }

  async write(place: Place, at: number, bytes: Uint8Array): Promise<void> {
    if (this.#lost) throw this.#lost
    if (bytes.length === 0) return
    const { queue } = this.#opened
    const [handle, from] = within(place, at, bytes)
    const waiting = this.#written.reduce((sum, { length }) => sum + length, bytes.length)
    if (waiting <= QUEUED_WRITES) {
      const copy = new Uint8Array(bytes)
      this.#written.push(copy)
      const code = this.#cl.write(queue, handle, 0, from, copy.length, copy, 0, null, null)
      if (code !== 0) throw this.#failure(code, "clEnqueueWriteBuffer")
      this.#cl.flush(queue)
    } else {
      const { writeNow } = this.#cl
      await this.#behindAll("clEnqueueWriteBuffer", () =>
        writeNow(queue, handle, 1, from, bytes.length, bytes, 0, null, null),
      )
    }
  }

  async read(place: Place, at: number, into: Uint8Array): Promise<void> {
    if (this.#lost) throw this.#lost
    if (into.length === 0) return
    const { queue } = this.#opened
    const [handle, from] = within(place, at, into)
    const { readNow } = this.#cl
    await this.#behindAll("clEnqueueReadBuffer", () =>
      readNow(queue, handle, 1, from, into.length, into, 0, null, null),
    )
  }

  async load(
    modules: readonly Uint8Array[],
    kernels: readonly KernelCode[],
    made?: Uint8Array,
  ): Promise<readonly GpuKernel[]> {
    if (this.#lost) throw this.#lost
    const binaries = made ? piecesOf(made) : []
    const programs: Pointer[] = []
    for (const [i, module] of modules.entries()) {
      const own = kernels.filter((code) => code.module === i)
      const restored = binaries[i] && (await this.#restore(binaries[i], own))
      programs.push(restored ?? (await this.#build(module)))
    }
    const loaded = kernels.map((code): OpenclKernel => ({ program: programs[code.module]!, code }))
    for (const each of loaded) this.#tryOut(each)
    return loaded
  }

  unload(kernels: readonly GpuKernel[]): void {
    if (this.#isSilent) return
    for (const { program } of kernels as readonly OpenclKernel[]) {
      this.#restored.delete(program)
      if (this.#programs.delete(program)) this.#cl.releaseProgram(program)
    }
  }

  async madeOf(kernels: readonly GpuKernel[]): Promise<Uint8Array | undefined> {
    const programs = [...new Set((kernels as readonly OpenclKernel[]).map((each) => each.program))]
    if (programs.every((program) => this.#restored.has(program))) return undefined
    const binaries: Uint8Array[] = []
    for (const program of programs) {
      const binary = await this.#binaryOf(program)
      if (!binary) return undefined
      binaries.push(binary)
    }
    return joined(binaries)
  }

  /** None where the driver gives none. */
  async #binaryOf(program: Pointer): Promise<Uint8Array | undefined> {
    const { programInfo } = this.#cl
    const size = new BigUint64Array(1)
    if ((await programInfo(program, BINARY_SIZES, 8, size, null)) !== 0 || size[0] === 0n)
      return undefined
    const binary = new Uint8Array(Number(size[0]))
    const into = BigUint64Array.of(addressOf(binary))
    return (await programInfo(program, BINARIES, 8, into, null)) === 0 ? binary : undefined
  }

  /** A program that was made at an earlier start; none where the driver will not have it, for whatever reason. */
  async #restore(binary: Uint8Array, kernels: readonly KernelCode[]): Promise<Pointer | undefined> {
    const { context, handle } = this.#opened
    const [code, status] = [new Int32Array(1), new Int32Array(1)]
    const devices = BigUint64Array.of(handle.device)
    const lengths = BigUint64Array.of(BigInt(binary.length))
    const bytes = BigUint64Array.of(addressOf(binary))
    const cl = this.#cl
    const created = cl.programFromBinary(context, 1, devices, lengths, bytes, status, code)
    if (code[0] !== 0 || status[0] !== 0) return undefined
    const program = pointer(created)
    try {
      const built = await cl.buildProgram(program, 1, devices, this.#buildOptions, null, null)
      check(built, "clBuildProgram")
      for (const code of kernels) this.#tryOut({ program, code })
    } catch {
      cl.releaseProgram(program)
      return undefined
    }
    this.#programs.add(program)
    this.#restored.add(program)
    return program
  }

  record(dispatches: readonly Dispatch[]): Recording {
    const prepared: Prepared[] = []
    let commands: Pointer | undefined
    const free = () => {
      if (commands !== undefined) this.#releaseCommands(commands)
      for (const { kernel } of prepared.splice(0)) this.#releaseKernel(kernel)
    }
    try {
      for (const dispatch of dispatches)
        if (dispatch.groups.every((count) => count > 0)) prepared.push(this.#prepare(dispatch))
    } catch (error) {
      free()
      throw error
    }
    if (prepared.length > 1) commands = this.#commandBuffers?.record(prepared)
    if (commands !== undefined) this.#commands.add(commands)
    const recording: OpenclRecording = { prepared, commands, free }
    return recording
  }

  async start(recording: Recording, wanted: readonly Wanted[]): Promise<Started> {
    if (this.#lost) throw this.#lost
    const written = this.#written.at(-1)
    const event = await this.#queue(recording as OpenclRecording)
    // With what they read into, which is to live as long.
    const reads = wanted.map((each) => ({ ...each, event: this.#queueRead(each) }))
    this.#cl.flush(this.#opened.queue)
    const ended = this.#started.then(() => {
      // Who waits for the last one has waited for all.
      const events = [...reads.map(({ event }) => event).reverse(), event]
      return this.#finishAll(
        events.filter((each) => each !== undefined),
        written,
      )
    })
    this.#started = ended.catch(() => {})
    return { ended }
  }

  /** @returns its event; none where nothing is read */
  #queueRead({ place, at, into }: Wanted): Pointer | undefined {
    if (into.length === 0) return undefined
    const { queue } = this.#opened
    const [handle, from] = within(place, at, into)
    const event = new BigUint64Array(1)
    const code = this.#cl.read(queue, handle, 0, from, into.length, into, 0, null, event)
    if (code !== 0) throw this.#failure(code, "clEnqueueReadBuffer")
    return event[0]!
  }

  async run(
    recordings: readonly Recording[],
    cancel: CancelWord,
    wanted: readonly Wanted[] = [],
  ): Promise<"done" | "cancelled"> {
    if (this.#lost) throw this.#lost
    const events: Pointer[] = [] // of recordings that are queued: one waits while another runs
    let end: "done" | "cancelled" = "done"
    try {
      for (const recording of recordings) {
        if (Atomics.load(cancel, 0) !== 0) {
          end = "cancelled"
          break
        }
        const event = await this.#queue(recording as OpenclRecording)
        if (event !== undefined) events.push(event)
        if (events.length > 1) await this.#finish(events.shift()!)
      }
      // A read ends after what is queued before it, so whoever waits for it has waited for all.
      if (end === "done") for (const { place, at, into } of wanted) await this.read(place, at, into)
      while (events.length > 0) await this.#finish(events.shift()!)
      return end
    } finally {
      this.#releaseEvents(events)
    }
  }

  async close(): Promise<void> {
    const { context, queue } = this.#opened
    if (this.#isSilent) return
    await this.#cl.finish(queue)
    for (const commands of this.#commands) this.#commandBuffers!.release(commands)
    for (const kernel of this.#kernels) this.#cl.releaseKernel(kernel)
    for (const program of this.#programs) this.#cl.releaseProgram(program)
    for (const { handle } of this.#objects) this.#cl.releaseMemory(handle)
    this.#cl.releaseQueue(queue)
    this.#cl.releaseContext(context)
  }

  /** One with room for so much. */
  #objectFor(bytes: number, where: "device" | "host"): MemoryObject {
    const length = pieceOf(bytes)
    for (const object of this.#objects)
      if (object.where === where && object.arena.hasRoom(length)) return object
    const { largest } = this.memory()
    const size = length > SHARED_OBJECT / 2 ? length : Math.min(SHARED_OBJECT, largest)
    if (size < length || length > largest) throw this.#refusal(bytes)
    const code = new Int32Array(1)
    const flags = READ_WRITE | (where === "host" ? ALLOCATE_HOST : 0n)
    const { context } = this.#opened
    const handle = pointer(this.#cl.createMemory(context, flags, BigInt(size), null, code))
    if (REFUSALS.has(code[0]!)) throw this.#refusal(bytes)
    if (code[0] !== 0) throw this.#failure(code[0]!, "clCreateBuffer")
    const object = { handle, where, arena: new Arena(size) }
    this.#objects.add(object)
    return object
  }

  #refusal(bytes: number): Error {
    const what = `${Math.ceil(bytes / 2 ** 20)} MiB on ${this.description}`
    return problem("memory_refused", { what })
  }

  async #build(module: Uint8Array): Promise<Pointer> {
    const { context, handle } = this.#opened
    const code = new Int32Array(1)
    const texts = BigUint64Array.of(addressOf(module))
    const lengths = BigUint64Array.of(BigInt(module.length))
    const program = pointer(this.#cl.createProgram(context, 1, texts, lengths, code))
    if (code[0] !== 0) throw this.#failure(code[0]!, "clCreateProgramWithSource")
    this.#programs.add(program)
    const devices = BigUint64Array.of(handle.device)
    const options = this.#buildOptions
    const built = await this.#cl.buildProgram(program, 1, devices, options, null, null)
    if (built === 0) return program
    const log = this.#text((size, value, needed) =>
      this.#cl.buildInfo(program, handle.device, BUILD_LOG, size, value, needed),
    )
    throw new DriverObstacle(
      "driver_failed",
      `${this.description} refuses the kernels: ${log || failure(built, "clBuildProgram")}`,
    )
  }

  /** A kernel that needs too much of the device for the threads it has can be built all the same. */
  #tryOut({ program, code }: OpenclKernel): void {
    const kernel = this.#createKernel(program, code)
    const most = new BigUint64Array(1)
    const { device } = this.#opened.handle
    const answer = this.#cl.groupInfo(kernel, device, KERNEL_THREADS, 8, most, null)
    this.#releaseKernel(kernel)
    if (answer !== 0) throw this.#failure(answer, "clGetKernelWorkGroupInfo")
    if (most[0]! < code.threads)
      throw new DriverObstacle(
        "driver_failed",
        `${this.description} runs ${code.name} with ${most[0]} threads and not with ${code.threads}`,
      )
  }

  #createKernel(program: Pointer, { name, entry }: KernelCode): Pointer {
    const code = new Int32Array(1)
    const kernel = pointer(this.#cl.createKernel(program, entry, code))
    if (code[0] !== 0)
      throw new DriverObstacle(
        "driver_failed",
        `${this.description} refuses ${name}: ${failure(code[0]!, "clCreateKernel")}`,
      )
    this.#kernels.add(kernel)
    return kernel
  }

  #releaseKernel(kernel: Pointer): void {
    if (this.#kernels.delete(kernel) && !this.#isSilent) this.#cl.releaseKernel(kernel)
  }

  #releaseCommands(commands: Pointer): void {
    if (this.#commands.delete(commands) && !this.#isSilent) this.#commandBuffers!.release(commands)
  }

  #prepare({ kernel: loaded, operands, groups }: Dispatch): Prepared {
    const { program, code } = loaded as OpenclKernel
    const kernel = this.#createKernel(program, code)
    let index = 0
    const pass = (value: Uint32Array | BigUint64Array) => {
      const answer = this.#cl.setArgument(kernel, index++, value.byteLength, value)
      if (answer !== 0) throw this.#failure(answer, `clSetKernelArg of ${code.name}`)
    }
    for (const operand of operands) {
      if (typeof operand === "number") pass(Uint32Array.of(operand))
      else {
        const { object, at } = operand.place as OpenclPlace
        pass(BigUint64Array.of(object.handle))
        pass(BigUint64Array.of(BigInt(at + operand.at)))
      }
    }
    const [x, y, z] = groups.map(BigInt) as [bigint, bigint, bigint]
    return {
      kernel,
      threads: BigUint64Array.of(x * BigInt(code.threads), y, z),
      group: BigUint64Array.of(BigInt(code.threads), 1n, 1n),
    }
  }

  /** @returns the event of the last one */
  async #queue({ prepared, commands }: OpenclRecording): Promise<Pointer | undefined> {
    const { queue } = this.#opened
    const event = new BigUint64Array(1)
    if (commands !== undefined) {
      const code = await this.#answer(this.#commandBuffers!.enqueue(commands, event))
      if (code !== 0) throw this.#failure(code, "clEnqueueCommandBufferKHR")
      this.#cl.flush(queue)
      return event[0]!
    }
    for (const [i, { kernel, threads, group }] of prepared.entries()) {
      const out = i === prepared.length - 1 ? event : null
      const code = this.#cl.dispatch(queue, kernel, 3, null, threads, group, 0, null, out)
      if (code !== 0) throw this.#failure(code, "clEnqueueNDRangeKernel")
      if (i % SLICE !== SLICE - 1) continue
      this.#cl.flush(queue)
      await setImmediate()
    }
    this.#cl.flush(queue)
    return event[0] || undefined
  }

  /** @param written the last that was queued before it */
  async #finish(event: Pointer, written = this.#written.at(-1)): Promise<void> {
    if (this.#isSilent) throw this.#lost
    if (this.#isComplete(event)) {
      this.#cl.releaseEvent(event)
      this.#forget(written)
    } else await this.#behindAll("clWaitForEvents", () => this.#waitFor(event), written)
  }

  async #finishAll(events: Pointer[], written: Uint8Array | undefined): Promise<void> {
    try {
      while (events.length > 0) await this.#finish(events.shift()!, written)
    } finally {
      this.#releaseEvents(events)
    }
  }

  #isComplete(event: Pointer): boolean {
    const status = new Int32Array(1).fill(-1)
    return this.#cl.eventInfo(event, EVENT_STATUS, 4, status, null) === 0 && status[0] === COMPLETE
  }

  /**
   * What a call answers that ends after everything which is queued now.
   * @param written the last that it comes behind
   */
  async #behindAll(
    name: string,
    call: () => Promise<number>,
    written = this.#written.at(-1),
  ): Promise<void> {
    const code = await this.#answer(call())
    this.#forget(written)
    if (code !== 0) throw this.#failure(code, name)
  }

  #answer(code: Promise<number>): Promise<number> {
    return answerOf(this, code, (silent) => {
      this.#lost = silent
    })
  }

  #releaseEvents(events: readonly Pointer[]): void {
    if (!this.#isSilent) for (const event of events) this.#cl.releaseEvent(event)
  }

  get #isSilent(): boolean {
    return this.#lost instanceof DeviceSilent
  }

  /** What was queued up to this has been written. */
  #forget(written: Uint8Array | undefined): void {
    if (written) this.#written.splice(0, this.#written.indexOf(written) + 1)
  }

  /** @returns the code of what went wrong, and 0 if nothing did */
  async #waitFor(event: Pointer): Promise<number> {
    const code = await this.#cl.wait(1, BigUint64Array.of(event))
    const status = new Int32Array(1)
    if (code !== 0) this.#cl.eventInfo(event, EVENT_STATUS, 4, status, null)
    this.#cl.releaseEvent(event)
    return status[0]! < 0 ? status[0]! : code
  }

  #failure(code: number, call: string): Error {
    const words = `${this.description}: ${failure(code, call)}`
    if (!LOSSES.has(code)) return new Error(`internal: ${words}`)
    this.#lost = new ProgramLost(words)
    return this.#lost
  }

  /** A number of 64 bits or, with zeros above, of fewer. */
  #ask(what: number): bigint {
    const value = new BigUint64Array(1)
    this.#cl.deviceInfo(this.#opened.handle.device, what, 8, value, null)
    return value[0]!
  }

  #text(
    ask: (size: number, value: Uint8Array | null, needed: BigUint64Array | null) => number,
  ): string {
    return this.#value(ask).text()
  }

  /** Empty where it is not known. */
  #value(
    ask: (size: number, value: Uint8Array | null, needed: BigUint64Array | null) => number,
  ): Structure {
    const needed = new BigUint64Array(1)
    if (ask(0, null, needed) !== 0) return new Structure(0)
    const value = new Structure(Number(needed[0]))
    ask(value.bytes.length, value.bytes, null)
    return value
  }
}

/** cl_name_version: a version, as 10 bits, 10 bits and 12 bits, and a name of 64 bytes. */
const NAME_VERSION_BYTES = 68

/** @param versions of the language, as CL_DEVICE_OPENCL_C_ALL_VERSIONS lists them */
export function hasVersion3(versions: Structure): boolean {
  const count = Math.floor(versions.bytes.length / NAME_VERSION_BYTES)
  return Array.from({ length: count }, (_, i) => versions.word(NAME_VERSION_BYTES * i)).some(
    (version) => version >>> 12 === 3 << 10,
  )
}

/** Where some bytes of a place lie in a memory object. */
function within(place: Place, at: number, { length }: Uint8Array): [Pointer, bigint] {
  if (at < 0 || at + length > place.bytes)
    throw new Error(`internal: ${length} bytes at ${at} of a place of ${place.bytes}`)
  const { object, at: from } = place as OpenclPlace
  return [object.handle, BigInt(from + at)]
}

/** Each behind its length. */
function joined(pieces: readonly Uint8Array[]): Uint8Array {
  const lengths = pieces.map(({ length }) => new Uint8Array(Uint32Array.of(length).buffer))
  return Buffer.concat(pieces.flatMap((piece, i) => [lengths[i]!, piece]))
}

function piecesOf(bytes: Uint8Array): Uint8Array[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  const pieces: Uint8Array[] = []
  for (let at = 0; at + 4 <= bytes.length; ) {
    const length = view.getUint32(at, true)
    pieces.push(bytes.subarray(at + 4, at + 4 + length))
    at += 4 + length
  }
  return pieces
}
