// Metal's devices, through the Objective-C runtime: a message is a call of objc_msgSend, of one C type for each kind of message.
// Memory is what the processor sees as well, in large pieces, and a place is a part of one. A step's kernels are encoded each time
// it runs, since a command buffer is used once. One encoder runs them in order, each after what the one before it has written.
//
// What a message without `new` gives lives until the pool around it is drained, and every call of ours has one; what is kept is
// retained. Numbers are those of Metal's headers.

import { problem } from "../../errors.ts"
import { driverLibraries } from "../devices.ts"
import { type DriverDevice, DriverObstacle } from "../drivers/driver.ts"
import { listMetal } from "../drivers/metal.ts"
import {
  type DriverLibrary,
  defineStructure,
  openDriverLibrary,
  type Pointer,
  textAt,
} from "../ffi.ts"
import { type CancelWord, ProgramLost } from "../program.ts"
import { Allocations, type Part, pieceOf } from "./arena.ts"
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
import { answerOf, DeviceSilent } from "./patience.ts"
import { ShownBytes } from "./shown-bytes.ts"

/** Libraries that Metal wants beside its own: without the second the default device is none. */
const BESIDE = {
  runtime: ["/usr/lib/libobjc.A.dylib"],
  graphics: ["/System/Library/Frameworks/CoreGraphics.framework/CoreGraphics"],
} as const

/**
 * The device that `sinter devices` lists under this number.
 * @param names of Metal's framework
 * @throws DriverObstacle where it cannot be opened
 */
export async function openMetal(
  id: number,
  names = driverLibraries("metal"),
  { runtime, graphics }: Record<keyof typeof BESIDE, readonly string[]> = BESIDE,
): Promise<GpuDevice> {
  const described = listMetal(names, runtime)[id]
  if (!described) throw new DriverObstacle("no_device", `there is no device ${id}`)
  openDriverLibrary(graphics)
  const metal = new Messages(openDriverLibrary(runtime))
  const devices = openDriverLibrary(names).take<Pointer>("void *MTLCopyAllDevices(void)")()
  const device = metal.inPool(() => {
    const own = metal.object(metal.numbered(devices, "objectAtIndex:", id), "retain")
    metal.send(devices, "release")
    return own
  })
  return new MetalDevice(metal, device, described)
}

const SIZE = "SinterMetalSize"

/** What is said to objects, by the kinds of what is handed over and given back. */
class Messages {
  readonly #selectors = new Map<string, Pointer>()
  readonly #register: (name: string) => Pointer
  readonly #classOf: (name: string) => Pointer
  readonly #push: () => Pointer
  readonly #pop: (pool: Pointer) => void
  readonly #call

  constructor({ take, takeAsync }: DriverLibrary) {
    defineStructure(SIZE, { width: "uint64_t", height: "uint64_t", depth: "uint64_t" })
    const message = (result: string, more = "") =>
      `${result} objc_msgSend(void *self, void *selector${more})`
    this.#register = take<Pointer>("void *sel_registerName(const char *name)")
    this.#classOf = take<Pointer>("void *objc_getClass(const char *name)")
    this.#push = take<Pointer>("void *objc_autoreleasePoolPush(void)")
    this.#pop = take<void>("void objc_autoreleasePoolPop(void *pool)") as (pool: Pointer) => void
    this.#call = {
      send: take<void>(message("void")),
      object: take<Pointer | null>(message("void *")),
      number: take<number | bigint>(message("uint64_t")),
      numbered: take<Pointer | null>(message("void *", ", uint64_t number")),
      buffer: take<Pointer | null>(message("void *", ", uint64_t bytes, uint64_t options")),
      text: take<Pointer | null>(message("void *", ", const char *text")),
      about: take<Pointer | null>(message("void *", ", void *other")),
      flag: take<void>(message("void", ", bool flag")),
      built: takeAsync<Pointer | null>(
        message("void *", ", void *text, void *options, void *error"),
      ),
      made: takeAsync<Pointer | null>(message("void *", ", void *function, void *error")),
      use: take<void>(message("void", ", void *other")),
      bind: take<void>(message("void", ", void *buffer, uint64_t at, uint64_t index")),
      word: take<void>(message("void", ", void *bytes, uint64_t length, uint64_t index")),
      dispatch: take<void>(message("void", `, ${SIZE} groups, ${SIZE} threads`)),
      wait: takeAsync<void>(message("void")),
    }
  }

  selector(name: string): Pointer {
    let selector = this.#selectors.get(name)
    if (selector === undefined) {
      selector = this.#register(name)
      this.#selectors.set(name, selector)
    }
    return selector
  }

  classNamed(name: string): Pointer {
    return this.#classOf(name)
  }

  /** What is not retained in there is gone behind it. */
  inPool<Result>(work: () => Result): Result {
    const pool = this.#push()
    try {
      return work()
    } finally {
      this.#pop(pool)
    }
  }

  send(self: Pointer, name: string): void {
    this.#call.send(self, this.selector(name))
  }

  /** 0n where there is none. */
  object(self: Pointer, name: string): Pointer {
    return BigInt(this.#call.object(self, this.selector(name)) ?? 0)
  }

  number(self: Pointer, name: string): number {
    return Number(this.#call.number(self, this.selector(name)))
  }

  numbered(self: Pointer, name: string, number: number): Pointer {
    return BigInt(this.#call.numbered(self, this.selector(name), number) ?? 0)
  }

  about(self: Pointer, name: string, other: Pointer): Pointer {
    return BigInt(this.#call.about(self, this.selector(name), other) ?? 0)
  }

  text(of: string): Pointer {
    const selector = this.selector("stringWithUTF8String:")
    return BigInt(this.#call.text(this.classNamed("NSString"), selector, of) ?? 0)
  }

  newBuffer(device: Pointer, bytes: number): Pointer {
    const selector = this.selector("newBufferWithLength:options:")
    return BigInt(this.#call.buffer(device, selector, bytes, SHARED) ?? 0)
  }

  say(self: Pointer, name: string, flag: boolean): void {
    this.#call.flag(self, this.selector(name), flag)
  }

  use(self: Pointer, name: string, other: Pointer): void {
    this.#call.use(self, this.selector(name), other)
  }

  bind(encoder: Pointer, buffer: Pointer, at: number, index: number): void {
    this.#call.bind(encoder, this.selector("setBuffer:offset:atIndex:"), buffer, at, index)
  }

  word(encoder: Pointer, word: Uint32Array, index: number): void {
    this.#call.word(encoder, this.selector("setBytes:length:atIndex:"), word, 4, index)
  }

  dispatch(encoder: Pointer, groups: readonly [number, number, number], threads: number): void {
    const size = ([width, height, depth]: readonly [number, number, number]) => ({
      width,
      height,
      depth,
    })
    const selector = this.selector("dispatchThreadgroups:threadsPerThreadgroup:")
    this.#call.dispatch(encoder, selector, size(groups), size([threads, 1, 1]))
  }

  /** Off the event loop, as are the next two. */
  async built(device: Pointer, text: Pointer, options: Pointer, error: BigUint64Array) {
    const selector = this.selector("newLibraryWithSource:options:error:")
    return BigInt((await this.#call.built(device, selector, text, options, error)) ?? 0)
  }

  async pipeline(device: Pointer, made: Pointer, error: BigUint64Array) {
    const selector = this.selector("newComputePipelineStateWithFunction:error:")
    return BigInt((await this.#call.made(device, selector, made, error)) ?? 0)
  }

  async wait(commands: Pointer): Promise<void> {
    await this.#call.wait(commands, this.selector("waitUntilCompleted"))
  }

  /** An NSError's own words. */
  wordsOf(error: Pointer): string {
    if (error === 0n) return "it does not say why"
    const text = this.object(error, "localizedDescription")
    return textAt(this.object(text, "UTF8String"))
  }
}

/** MTLResourceStorageModeShared, and hazards tracked. */
const SHARED = 0
/** MTLCommandBufferStatusError */
const FAILED = 5

/** In a buffer, and its bytes as the processor sees them. */
type MetalPlace = Part<{ readonly buffer: Pointer; readonly contents: ShownBytes }>

interface MetalKernel extends GpuKernel {
  readonly library: Pointer
  readonly pipeline: Pointer
  readonly threads: number
}

interface MetalRecording extends Recording {
  readonly dispatches: readonly Dispatch[]
}

class MetalDevice implements GpuDevice {
  readonly description: string
  readonly traits: GpuTraits
  readonly maker: string
  readonly #metal: Messages
  readonly #device: Pointer
  readonly #described: DriverDevice
  readonly #queue: Pointer
  readonly #allocations = new Allocations(
    (bytes) => this.#allocate(bytes),
    ({ buffer }) => this.#metal.send(buffer, "release"),
  )
  /** Libraries, and pipelines of their functions. */
  readonly #kept = new Set<Pointer>()
  /** What runs now: the processor writes to no memory that a kernel may read. */
  #running: Promise<unknown> = Promise.resolve()
  /** Settled once what was started last has ended. Of its memory the processor writes elsewhere. */
  #started: Promise<unknown> = Promise.resolve()
  #lost: ProgramLost | undefined

  constructor(metal: Messages, device: Pointer, described: DriverDevice) {
    const { description, driver, features } = described
    this.#metal = metal
    this.#device = device
    this.#described = described
    this.description = description
    this.maker = `${description}, ${driver}`
    this.traits = {
      threads: 1024,
      sharedBytes: Number(features.shared_bytes),
      operandBytes: 1024,
      subgroup: 32,
      dot4: true,
      matrix: false,
      overlap: false,
      tiles: features.matrix_units === true ? ["halves8x8x8"] : [],
      fma: true,
      division: true,
      float64: false,
      isProcessor: false,
    }
    this.#queue = metal.object(device, "newCommandQueue")
    if (this.#queue === 0n)
      throw new DriverObstacle("driver_failed", `${description} gives no queue`)
  }

  memory(): GpuMemory {
    const { memory, features } = this.#described
    const taken = this.#metal.number(this.#device, "currentAllocatedSize")
    const total = memory.total
    return {
      total,
      available: Math.max(0, total - taken),
      shared: memory.shared,
      largest: Number(features.largest_allocation_bytes),
    }
  }

  async allocate(bytes: number): Promise<Place> {
    if (this.#lost) throw this.#lost
    const place = this.#allocations.take(bytes)
    place.of.contents.clear(place.at, pieceOf(bytes))
    return place
  }

  free(place: Place): void {
    if (this.#lost instanceof DeviceSilent) return
    this.#allocations.giveBack(place as MetalPlace)
  }

  async write(place: Place, at: number, bytes: Uint8Array): Promise<void> {
    await this.#running
    if (this.#lost) throw this.#lost
    within(place, at, bytes).set(bytes)
  }

  async read(place: Place, at: number, into: Uint8Array): Promise<void> {
    await Promise.all([this.#running, this.#started])
    this.#take({ place, at, into })
  }

  #take({ place, at, into }: Wanted): void {
    if (this.#lost) throw this.#lost
    into.set(within(place, at, into))
  }

  async load(
    modules: readonly Uint8Array[],
    kernels: readonly KernelCode[],
  ): Promise<readonly GpuKernel[]> {
    const libraries: Pointer[] = []
    for (const module of modules) libraries.push(await this.#build(module))
    const made: MetalKernel[] = []
    for (const code of kernels) made.push(await this.#kernelOf(libraries[code.module]!, code))
    return made
  }

  unload(kernels: readonly GpuKernel[]): void {
    if (this.#lost instanceof DeviceSilent) return
    for (const { pipeline, library } of kernels as readonly MetalKernel[])
      for (const object of [pipeline, library])
        if (this.#kept.delete(object)) this.#metal.send(object, "release")
  }

  /** The system keeps what it makes of kernels itself. */
  async madeOf(): Promise<undefined> {}

  record(dispatches: readonly Dispatch[]): Recording {
    const present = dispatches.filter(({ groups }) => groups.every((count) => count > 0))
    const recording: MetalRecording = { dispatches: present, free: () => {} }
    return recording
  }

  async start(recording: Recording, wanted: readonly Wanted[]): Promise<Started> {
    if (this.#lost) throw this.#lost
    const commands = this.#commit((recording as MetalRecording).dispatches)
    const ended = this.#started.then(async () => {
      await this.#finish(commands)
      for (const each of wanted) this.#take(each)
    })
    this.#started = ended.catch(() => {})
    return { ended }
  }

  async run(
    recordings: readonly Recording[],
    cancel: CancelWord,
    wanted: readonly Wanted[] = [],
  ): Promise<"done" | "cancelled"> {
    for (const recording of recordings) {
      if (Atomics.load(cancel, 0) !== 0) return "cancelled"
      const { dispatches } = recording as MetalRecording
      if (dispatches.length === 0) continue
      if (this.#lost) throw this.#lost
      const done = this.#finish(this.#commit(dispatches))
      this.#running = done.catch(() => {})
      await done
    }
    for (const { place, at, into } of wanted) await this.read(place, at, into)
    return "done"
  }

  async close(): Promise<void> {
    await Promise.all([this.#running, this.#started])
    if (this.#lost instanceof DeviceSilent) return
    this.#allocations.freeAll()
    for (const object of [...this.#kept, this.#queue, this.#device])
      this.#metal.send(object, "release")
  }

  #commit(dispatches: readonly Dispatch[]): Pointer {
    const metal = this.#metal
    return metal.inPool(() => {
      const commands = metal.object(metal.object(this.#queue, "commandBuffer"), "retain")
      const encoder = metal.object(commands, "computeCommandEncoder")
      for (const dispatch of dispatches) encode(metal, encoder, dispatch)
      metal.send(encoder, "endEncoding")
      metal.send(commands, "commit")
      return commands
    })
  }

  async #finish(commands: Pointer): Promise<void> {
    const metal = this.#metal
    if (this.#lost instanceof DeviceSilent) throw this.#lost
    await answerOf(this, metal.wait(commands), (silent) => {
      this.#lost = silent
    })
    const failed = metal.inPool(() =>
      metal.number(commands, "status") === FAILED
        ? metal.wordsOf(metal.object(commands, "error"))
        : undefined,
    )
    metal.send(commands, "release")
    if (failed === undefined) return
    this.#lost = new ProgramLost(`${this.description}: ${failed}`)
    throw this.#lost
  }

  #allocate(bytes: number): MetalPlace["of"] {
    const buffer = this.#metal.newBuffer(this.#device, bytes)
    if (buffer === 0n) {
      const what = `${Math.ceil(bytes / 2 ** 20)} MiB on ${this.description}`
      throw problem("memory_refused", { what })
    }
    return { buffer, contents: new ShownBytes(this.#metal.object(buffer, "contents"), bytes) }
  }

  async #build(text: Uint8Array): Promise<Pointer> {
    const metal = this.#metal
    const [source, options] = metal.inPool(() => [
      metal.object(metal.text(Buffer.from(text).toString()), "retain"),
      metal.object(metal.classNamed("MTLCompileOptions"), "new"),
    ])
    metal.say(options!, "setFastMathEnabled:", false)
    const error = new BigUint64Array(1)
    const library = await metal.built(this.#device, source!, options!, error)
    const why = library === 0n ? metal.inPool(() => metal.wordsOf(error[0]!)) : undefined
    for (const object of [source!, options!]) metal.send(object, "release")
    if (why === undefined) return this.#keep(library)
    throw new DriverObstacle(
      "driver_failed",
      `${this.description} refuses ${text.length} bytes of kernels: ${why}`,
    )
  }

  async #kernelOf(library: Pointer, code: KernelCode): Promise<MetalKernel> {
    const metal = this.#metal
    const refuse = (why: string) =>
      new DriverObstacle("driver_failed", `${this.description} refuses ${code.name}: ${why}`)
    const found = metal.inPool(() =>
      metal.about(library, "newFunctionWithName:", metal.text(code.entry)),
    )
    if (found === 0n) throw refuse(`there is no function ${code.entry}`)
    const error = new BigUint64Array(1)
    const pipeline = await metal.pipeline(this.#device, found, error)
    metal.send(found, "release")
    if (pipeline === 0n) throw refuse(metal.inPool(() => metal.wordsOf(error[0]!)))
    this.#keep(pipeline)
    const most = metal.number(pipeline, "maxTotalThreadsPerThreadgroup")
    if (most < code.threads)
      throw refuse(`it runs with ${most} threads and not with ${code.threads}`)
    return { library, pipeline, threads: code.threads }
  }

  #keep(object: Pointer): Pointer {
    this.#kept.add(object)
    return object
  }
}

function encode(metal: Messages, encoder: Pointer, dispatch: Dispatch): void {
  const { pipeline, threads } = dispatch.kernel as MetalKernel
  metal.use(encoder, "setComputePipelineState:", pipeline)
  for (const [index, operand] of dispatch.operands.entries()) {
    if (typeof operand === "number") metal.word(encoder, Uint32Array.of(operand), index)
    else {
      const { of, at } = operand.place as MetalPlace
      metal.bind(encoder, of.buffer, at + operand.at, index)
    }
  }
  metal.dispatch(encoder, dispatch.groups, threads)
}

/** Some bytes of a place, as the processor sees them. */
function within(place: Place, at: number, { length }: Uint8Array): Uint8Array {
  if (at < 0 || at + length > place.bytes)
    throw new Error(`internal: ${length} bytes at ${at} of a place of ${place.bytes}`)
  const { of, at: from } = place as MetalPlace
  return of.contents.part(from + at, length)
}
