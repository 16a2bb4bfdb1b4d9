// CUDA's devices, and AMD's, whose HIP has the same calls (cuda-api.ts). Memory is taken in large pieces, and a place is a part of
// one; there is one stream, in order, so a kernel sees what those before it have written. A recording is a graph, handed over in
// one call. All memory is the device's own: what the host writes is copied into it, by way of memory of the host that stays in its
// place, since drivers wait for the stream before they copy from other. Devices that reach each other copy from one another, in an
// order that events keep.
//
// Which device is meant is a thread's, and Node's pool has many: whatever waits is done by one thread of this device's
// (cuda-thread.ts). Names and numbers are those of cuda.h.

import { codeRoot } from "../../code-root.ts"
import { problem } from "../../errors.ts"
import { Worker, WorkerLost } from "../../worker/worker.ts"
import { driverLibraries } from "../devices.ts"
import { listCuda, listHip } from "../drivers/cuda.ts"
import { type DriverDevice, DriverObstacle } from "../drivers/driver.ts"
import { addressOf, bytesAt, openDriverLibrary, type Pointer } from "../ffi.ts"
import { type CancelWord, ProgramLost } from "../program.ts"
import { Allocations, type Part, pieceOf } from "./arena.ts"
import {
  type CallName,
  type CudaCalls,
  type CudaKind,
  type CudaRows,
  callsOf,
  entering,
  failureOf,
  hasRocmTiles,
  nameOf,
  nodeParameters,
  overlapping,
  ROCM_TILES,
  reaching,
  rowsCopying,
} from "./cuda-api.ts"
import type { CudaAnswer, CudaOrder, CudaThread } from "./cuda-thread.ts"
import type {
  Dispatch,
  GpuDevice,
  GpuKernel,
  GpuMemory,
  GpuTraits,
  KernelCode,
  PeerDevice,
  Place,
  Recording,
  Rows,
  Started,
  Wanted,
} from "./device.ts"
import { answerOf, DeviceSilent } from "./patience.ts"

/** Longer writes are waited for. */
const SHORT_WRITE = 64 << 10 // bytes

/**
 * The device that `sinter devices` lists under this number.
 * @param names of CUDA's library, the likeliest first
 * @throws Error in the driver's words where it cannot be opened
 */
export async function openCuda(id: number, names = driverLibraries("cuda")): Promise<GpuDevice> {
  const described = found(listCuda(names), id)
  const { take } = openDriverLibrary(names)
  const device = new Int32Array(1)
  check("cuda", take("int32_t cuDeviceGet(void *out, int32_t number)")(device, id), "cuDeviceGet")
  const context = new BigUint64Array(1)
  const retain = take("int32_t cuDevicePrimaryCtxRetain(void *context, int32_t device)")
  check("cuda", retain(context, device[0]), "cuDevicePrimaryCtxRetain")
  const release = take("int32_t cuDevicePrimaryCtxRelease_v2(int32_t device)")
  const leave = () => void release(device[0])
  return opened("cuda", names, { described, number: device[0]!, handle: context[0]!, leave })
}

/** The same of AMD's devices. */
export async function openHip(id: number, names = driverLibraries("rocm")): Promise<GpuDevice> {
  const described = found(listHip(names), id)
  return opened("rocm", names, { described, number: id, handle: BigInt(id), leave: () => {} })
}

function found(devices: readonly DriverDevice[], id: number): DriverDevice {
  const described = devices[id]
  if (!described) throw new DriverObstacle("no_device", `there is no device ${id}`)
  if (described.obstacle)
    throw new DriverObstacle(described.obstacle.reason, described.obstacle.problem)
  return described
}

interface Entered {
  described: DriverDevice
  /** The driver's. */
  number: number
  /** What a thread enters it by. */
  handle: Pointer
  leave: () => void
}

interface Opened extends Entered {
  kind: CudaKind
  names: readonly string[]
  enter: () => number
  reach: ReturnType<typeof reaching>
  copyRows: ReturnType<typeof rowsCopying>
  overlap: ReturnType<typeof overlapping>
  stream: Pointer
  /** Where the stream was at the last mark. */
  event: Pointer
}

function opened(kind: CudaKind, names: readonly string[], entered: Entered): GpuDevice {
  try {
    const library = openDriverLibrary(names)
    const calls = callsOf(kind, library)
    const { call, enter } = entering(kind, library, entered.handle)
    check(kind, enter(), call)
    const stream = new BigUint64Array(1)
    check(kind, calls.createStream(stream, NON_BLOCKING), nameOf(kind, "createStream"))
    const event = new BigUint64Array(1)
    check(kind, calls.createEvent(event, WITHOUT_TIME), nameOf(kind, "createEvent"))
    const [reach, copyRows] = [reaching(kind, library), rowsCopying(kind, library)]
    const overlap = overlapping(kind, library)
    const own = {
      kind,
      names,
      enter,
      reach,
      copyRows,
      overlap,
      stream: stream[0]!,
      event: event[0]!,
    }
    return new CudaDevice(calls, { ...entered, ...own })
  } catch (error) {
    entered.leave()
    throw error
  }
}

const NON_BLOCKING = 1
const WITHOUT_TIME = 2
const MAX_THREADS_OF_FUNCTION = 0
const CAPABILITY_OF_FUNCTION = 5 // CU_FUNC_ATTRIBUTE_PTX_VERSION: the one it was compiled for
const OVERLAPPING = 90 // the first that can wait for earlier kernels
const OUT_OF_MEMORY = 2

const UNSUPPORTED_PTX = 222
const REACHED_ALREADY = 704

/** Not text that is to be compiled: an ELF file. */
const isCode = (module: Uint8Array) => module[0] === 0x7f && module[1] === 0x45

/** The device will do nothing more, or nothing for this process. */
const LOSSES = new Set([
  ...[4, 46, 201, 214, 220, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 999],
])

function check(kind: CudaKind, code: number, call: string): void {
  if (code !== 0) throw new DriverObstacle("driver_failed", failureOf(kind, code, call))
}

/** Code runs on the device that it names; a letter behind says that it uses what only that device has. */
function architecturesOf({ kind, described: { features } }: Opened): string[] {
  if (kind === "rocm") return features.architecture ? [String(features.architecture)] : []
  const name = `sm_${String(features.compute_capability).replace(".", "")}`
  return ["", "a", "f"].map((letter) => name + letter)
}

function traitsOf(opened: Opened): GpuTraits {
  const {
    kind,
    described: { features },
  } = opened
  const shared = {
    dot4: true,
    fma: true,
    division: true,
    float64: true,
    isProcessor: false,
    architectures: architecturesOf(opened),
  }
  if (kind === "cuda")
    return {
      ...shared,
      threads: Number(features.threads_per_group),
      sharedBytes: 48 << 10, // more has to be asked for, kernel by kernel
      operandBytes: 4096,
      subgroup: Number(features.subgroup_size),
      matrix: Number(features.compute_capability) >= 8,
      overlap: Number(features.compute_capability) >= 9,
      tiles: [],
    }
  const architecture = String(features.architecture)
  const isWide = /^gfx9/.test(architecture)
  const tiles = hasRocmTiles(architecture) ? [ROCM_TILES] : []
  const least = { threads: 1024, sharedBytes: 64 << 10, operandBytes: 1024 } // of all that it runs on
  return { ...shared, ...least, subgroup: isWide ? 64 : 32, matrix: false, overlap: false, tiles }
}

/** In an allocation, which is its address. */
type CudaPlace = Part<{ readonly address: Pointer }>

/** What the driver has loaded. */
interface CudaModule {
  readonly handle: Pointer
  /** What HIP's compiler has made of its text, where it had to. */
  readonly made?: Uint8Array | undefined
}

interface CudaKernel extends GpuKernel {
  readonly module: CudaModule
  readonly function: Pointer
  readonly code: KernelCode
  /** It may begin before the kernel before it has ended. */
  readonly overlaps: boolean
}

/** Memory of the host that stays in its place: nobody waits for copies to and from it but whoever wants to. */
interface Staging {
  readonly address: Pointer
  readonly bytes: Uint8Array
}

interface CudaRecording extends Recording {
  /** None where nothing is to be done. */
  readonly launchable: Pointer | undefined
}

class CudaDevice implements PeerDevice {
  readonly description: string
  readonly traits: GpuTraits
  readonly maker: string
  readonly #cuda: CudaCalls
  readonly #opened: Opened
  readonly #thread: Worker<CudaOrder, CudaAnswer>
  readonly #allocations = new Allocations(
    (bytes) => this.#allocate(bytes),
    ({ address }) => void this.#cuda.free(address),
  )
  readonly #modules = new Set<CudaModule>()
  readonly #launchables = new Set<Pointer>()
  readonly #reached = new Map<PeerDevice, boolean>()
  readonly #staging = new Set<Staging>()
  readonly #freeStaging: Staging[] = []
  /** What writes are copied from, until somebody has waited for what came later. */
  #written: Staging[] = []
  /** Of what was started: when it has run. */
  readonly #events = new Set<Pointer>()
  readonly #freeEvents: Pointer[] = []
  /** Settled once what was started last has ended. */
  #started: Promise<unknown> = Promise.resolve()
  /** Settled once the thread is done with kernels, which other orders wait for: nobody knows how long those take. */
  #loading: Promise<unknown> = Promise.resolve()
  #lost: ProgramLost | undefined

  constructor(cuda: CudaCalls, opened: Opened) {
    const { description, driver, features } = opened.described
    this.#cuda = cuda
    this.#opened = opened
    this.description = description
    this.maker = [description, driver, features.architecture ?? []].flat().join(", ")
    this.traits = traitsOf(opened)
    const { kind, names, handle, stream } = opened
    this.#thread = new Worker({
      name: kind === "cuda" ? "CUDA" : "HIP",
      file: new URL("runtime/gpu/cuda-thread", codeRoot),
      host: "thread",
      afterLoss: "end",
      opening: { kind, names, handle, stream } satisfies CudaThread,
    })
    this.#thread.start()
  }

  memory(): GpuMemory {
    this.#enter()
    const [free, total] = [new BigUint64Array(1), new BigUint64Array(1)]
    this.#check(this.#cuda.memory(free, total), "memory")
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
    const place = this.#allocations.take(bytes)
    const length = pieceOf(bytes)
    this.#check(this.#cuda.fill(addressIn(place, 0), 0, length, this.#opened.stream), "fill")
    return place
  }

  free(place: Place): void {
    if (this.#lost) return
    this.#enter()
    this.#allocations.giveBack(place as CudaPlace)
  }

  async write(place: Place, at: number, bytes: Uint8Array): Promise<void> {
    this.#enter()
    if (bytes.length === 0) return
    const to = within(place, at, bytes)
    if (bytes.length > SHORT_WRITE) {
      await this.#ask({ call: "write", copies: [copyOf(to, bytes)] }, "write")
      return
    }
    const staging = this.#stage(SHORT_WRITE)
    staging.bytes.set(bytes)
    this.#written.push(staging)
    this.#check(this.#cuda.write(to, staging.address, bytes.length, this.#opened.stream), "write")
  }

  async read(place: Place, at: number, into: Uint8Array): Promise<void> {
    await this.#finish([{ place, at, into }])
  }

  async load(
    modules: readonly Uint8Array[],
    kernels: readonly KernelCode[],
    made?: Uint8Array,
  ): Promise<readonly GpuKernel[]> {
    const loaded: CudaModule[] = []
    for (const module of modules) loaded.push(await this.#loadModule(module, made))
    this.#enter()
    return kernels.map((code) => this.#kernelOf(loaded[code.module]!, code))
  }

  unload(kernels: readonly GpuKernel[]): void {
    if (this.#lost) return
    this.#enter()
    for (const { module } of kernels as readonly CudaKernel[])
      if (this.#modules.delete(module)) this.#cuda.unload(module.handle)
  }

  /** CUDA's driver keeps what it makes of PTX itself. */
  async madeOf(kernels: readonly GpuKernel[]): Promise<Uint8Array | undefined> {
    return (kernels as readonly CudaKernel[]).find(({ module }) => module.made)?.module.made
  }

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

  async start(recording: Recording, wanted: readonly Wanted[]): Promise<Started> {
    this.#launch(recording as CudaRecording)
    const { stream } = this.#opened
    const staging = this.#stage(wanted.reduce((bytes, { into }) => bytes + into.length, 1))
    let end = 0
    const reads = wanted.map(({ place, at, into }) => {
      const begin = end
      end += into.length
      const to = staging.address + BigInt(begin)
      if (into.length > 0)
        this.#check(this.#cuda.read(to, within(place, at, into), into.length, stream), "read")
      return () => into.set(staging.bytes.subarray(begin, begin + into.length))
    })
    const event = this.#freeEvents.pop() ?? this.#createEvent()
    this.#check(this.#cuda.recordEvent(event, stream), "recordEvent")
    const copied = this.#written
    this.#written = []
    const ended = this.#started.then(async () => {
      await this.#ask({ call: "waitFor", event }, "waitForEvent")
      for (const read of reads) read()
      this.#freeEvents.push(event)
      this.#freeStaging.push(staging, ...copied)
    })
    this.#started = ended.catch(() => {})
    return { ended }
  }

  async run(
    recordings: readonly Recording[],
    cancel: CancelWord,
    wanted: readonly Wanted[] = [],
  ): Promise<"done" | "cancelled"> {
    for (const [i, recording] of recordings.entries()) {
      if (this.hand([recording], cancel) === "cancelled") return "cancelled"
      if (i < recordings.length - 1) await this.#finish([])
    }
    await this.#finish(wanted)
    return "done"
  }

  hand(recordings: readonly Recording[], cancel: CancelWord): "done" | "cancelled" {
    for (const recording of recordings) {
      if (Atomics.load(cancel, 0) !== 0) return "cancelled"
      this.#launch(recording as CudaRecording)
    }
    return "done"
  }

  #launch({ launchable }: CudaRecording): void {
    this.#enter()
    if (launchable === undefined) return
    this.#check(this.#cuda.launch(launchable, this.#opened.stream), "launch")
  }

  reaches(other: PeerDevice): boolean {
    if (other === this) return true
    const known = this.#reached.get(other)
    if (known !== undefined) return known
    const does = other instanceof CudaDevice && this.#reach(other.#opened)
    this.#reached.set(other, does)
    return does
  }

  copyRows(to: Rows, from: Rows, bytes: number, rows: number): void {
    if (rows === 0) return
    this.#enter()
    const { copyRows, stream } = this.#opened
    const [into, own] = [rowsIn(to, bytes, rows), rowsIn(from, bytes, rows)]
    if (rows === 1) this.#check(this.#cuda.copy(into.at, own.at, bytes, stream), "copy")
    else this.#check(copyRows(into, own, bytes, rows, stream), "copy")
  }

  mark(): void {
    this.#enter()
    const { event, stream } = this.#opened
    this.#check(this.#cuda.recordEvent(event, stream), "recordEvent")
  }

  waitFor(other: PeerDevice): void {
    this.#enter()
    const { event } = (other as CudaDevice).#opened
    this.#check(this.#cuda.waitEvent(this.#opened.stream, event, 0), "waitEvent")
  }

  async close(): Promise<void> {
    const { enter, leave, stream, event } = this.#opened
    if (!this.#lost) await this.#finish([])
    const ended = this.#thread.close()
    if (this.#lost instanceof DeviceSilent) return // its thread waits on
    await ended
    const cuda = this.#cuda
    enter()
    for (const launchable of this.#launchables) cuda.destroyLaunchable(launchable)
    for (const { handle } of this.#modules) cuda.unload(handle)
    this.#allocations.freeAll()
    for (const { address } of this.#staging) cuda.freeHost(address)
    for (const each of [...this.#events, event]) cuda.destroyEvent(each)
    cuda.destroyStream(stream)
    leave()
  }

  /** What a driver has reached stays reached for all who have entered the device in this process. */
  #reach(other: Opened): boolean {
    const { kind, number, reach } = this.#opened
    if (other.kind !== kind) return false
    this.#enter()
    const can = new Int32Array(1)
    this.#check(this.#cuda.canReach(can, number, other.number), "canReach")
    if (can[0] === 0) return false
    return [0, REACHED_ALREADY].includes(reach(other.handle))
  }

  /** Calls from here on are about this device: another may have been used by this thread. */
  #enter(): void {
    if (this.#lost) throw this.#lost
    const code = this.#opened.enter()
    if (code !== 0) this.#fail(code, "entering it")
  }

  /** Waits for all that the stream has, and reads what is wanted of it. */
  async #finish(wanted: readonly Wanted[]): Promise<void> {
    if (this.#lost) throw this.#lost
    const copies = wanted
      .filter(({ into }) => into.length > 0)
      .map(({ place, at, into }) => copyOf(within(place, at, into), into))
    const copied = this.#written
    this.#written = []
    await this.#ask({ call: "read", copies }, "wait")
    this.#freeStaging.push(...copied)
  }

  /** Without its thread nobody waits for the device any more: it is lost as well. */
  async #ask(order: CudaOrder, name: CallName): Promise<void> {
    if (this.#lost) throw this.#lost
    const answer = this.#thread.ask(order).catch((error: unknown) => {
      throw error instanceof WorkerLost ? this.#lose(`${this.description}: ${error.why}`) : error
    })
    answer.catch(() => {}) // whoever waits below is told
    await this.#loading
    const { code } = await answerOf(this, answer, (silent) => {
      this.#lost = silent
    })
    this.#check(code, name)
  }

  /** Kernels. */
  #askFor(order: CudaOrder & { call: "build" | "load" }): Promise<CudaAnswer> {
    const answer = this.#thread.ask(order)
    this.#loading = Promise.allSettled([this.#loading, answer])
    return answer
  }

  /** One of at least so many bytes, that nobody else has. */
  #stage(bytes: number): Staging {
    const known = this.#freeStaging.findIndex((each) => each.bytes.length >= bytes)
    if (known >= 0) return this.#freeStaging.splice(known, 1)[0]!
    const address = new BigUint64Array(1)
    const length = Math.max(SHORT_WRITE, bytes)
    this.#check(this.#cuda.allocateHost(address, length, 0), "allocateHost")
    const staging = { address: address[0]!, bytes: bytesAt(address[0]!, length) }
    this.#staging.add(staging)
    return staging
  }

  #createEvent(): Pointer {
    const event = new BigUint64Array(1)
    this.#check(this.#cuda.createEvent(event, WITHOUT_TIME), "createEvent")
    this.#events.add(event[0]!)
    return event[0]!
  }

  #allocate(bytes: number): { address: Pointer } {
    const address = new BigUint64Array(1)
    const code = this.#cuda.allocate(address, bytes)
    if (code === OUT_OF_MEMORY) {
      const what = `${Math.ceil(bytes / 2 ** 20)} MiB on ${this.description}`
      throw problem("memory_refused", { what })
    }
    this.#check(code, "allocate")
    return { address: address[0]! }
  }

  /** @param made HIP's code of the text, from an earlier start, which the device may not take */
  async #loadModule(module: Uint8Array, made: Uint8Array | undefined): Promise<CudaModule> {
    const { kind } = this.#opened
    const refuse = (code: number, said: string | undefined, call: string) => {
      const why =
        kind === "cuda" && code === UNSUPPORTED_PTX
          ? this.#tooNew(module)
          : said?.trim() || failureOf(kind, code, call)
      const words = `${this.description} refuses ${module.length} bytes of kernels: ${why}`
      return new DriverObstacle("driver_failed", words)
    }
    const kept = made && (await this.#askFor({ call: "load", image: made }))
    if (kept?.code === 0) return this.#keep(kept.module!)
    let compiled: Uint8Array | undefined
    if (kind === "rocm" && !isCode(module)) {
      const built = await this.#askFor({ call: "build", text: module })
      if (built.code !== 0) throw refuse(built.code, built.said, "hiprtcCompileProgram")
      compiled = built.made!
    }
    const loaded = await this.#askFor({ call: "load", image: compiled ?? module })
    if (loaded.code !== 0) throw refuse(loaded.code, loaded.said, nameOf(kind, "load"))
    return this.#keep(loaded.module!, compiled)
  }

  #tooNew(ptx: Uint8Array): string {
    const { driver } = this.#opened.described
    const version = /^\s*\.version\s+([\d.]+)/m.exec(Buffer.from(ptx).toString())?.[1]
    const [architecture] = this.traits.architectures!
    return `they are PTX${version ? ` ${version}` : ""}, which is newer than its driver (${driver}); update the driver, or compile the model for it by name (--target cuda:${architecture}), or with an older CUDA`
  }

  #keep(handle: Pointer, made?: Uint8Array): CudaModule {
    const module: CudaModule = { handle, made }
    this.#modules.add(module)
    return module
  }

  #kernelOf(module: CudaModule, code: KernelCode): CudaKernel {
    const found = new BigUint64Array(1)
    const refuse = (why: string) => {
      const words = `${this.description} refuses ${code.name}: ${why}`
      return new DriverObstacle("driver_failed", words)
    }
    const answer = this.#cuda.functionOf(found, module.handle, code.entry)
    const { kind } = this.#opened
    if (answer !== 0) throw refuse(failureOf(kind, answer, nameOf(kind, "functionOf")))
    const attribute = (what: number) => {
      const value = new Int32Array(1)
      this.#check(this.#cuda.functionAttribute(value, what, found[0]), "functionAttribute")
      return value[0]!
    }
    const most = attribute(MAX_THREADS_OF_FUNCTION)
    if (most < code.threads)
      throw refuse(`it runs with ${most} threads and not with ${code.threads}`)
    const overlaps =
      code.waits !== undefined &&
      this.#opened.overlap !== undefined &&
      attribute(CAPABILITY_OF_FUNCTION) >= OVERLAPPING
    return { module, function: found[0]!, code, overlaps }
  }

  /** A graph in which each kernel waits for the one before it, or says itself where it does. */
  #launchableOf(dispatches: readonly Dispatch[]): Pointer {
    const graph = new BigUint64Array(1)
    this.#check(this.#cuda.createGraph(graph, 0), "createGraph")
    try {
      let before: BigUint64Array | null = null
      for (const dispatch of dispatches) {
        const node = new BigUint64Array(1)
        const { parameters, held } = nodeOf(this.#opened.kind, dispatch)
        const overlaps = before !== null && (dispatch.kernel as CudaKernel).overlaps
        const [after, count] = before && !overlaps ? [before, 1] : [null, 0]
        const code = this.#cuda.addKernel(node, graph[0], after, count, parameters)
        held.length = 0 // what the call points at is held until here
        this.#check(code, "addKernel")
        if (overlaps) {
          const added = this.#opened.overlap!(graph[0], before!, node)
          if (added !== 0) this.#fail(added, "cuGraphAddDependencies")
        }
        before = node
      }
      const launchable = new BigUint64Array(1)
      this.#check(this.#cuda.instantiate(launchable, graph[0], 0), "instantiate")
      return launchable[0]!
    } finally {
      this.#cuda.destroyGraph(graph[0])
    }
  }

  #check(code: number, call: CallName): void {
    if (code !== 0) this.#fail(code, nameOf(this.#opened.kind, call))
  }

  #fail(code: number, call: string): never {
    if (code === OUT_OF_MEMORY)
      throw problem("memory_refused", { what: `${call} on ${this.description}` })
    const words = `${this.description}: ${failureOf(this.#opened.kind, code, call)}`
    throw LOSSES.has(code) ? this.#lose(words) : new Error(`internal: ${words}`)
  }

  #lose(words: string): ProgramLost {
    this.#lost = new ProgramLost(words)
    return this.#lost
  }
}

/** What describes a kernel to a graph, and the arrays it points at. */
function nodeOf(kind: CudaKind, { kernel, operands, groups }: Dispatch) {
  const { function: called, code } = kernel as CudaKernel
  const values = BigUint64Array.from(operands, (operand) =>
    typeof operand === "number"
      ? BigInt(operand >>> 0)
      : addressIn(operand.place as CudaPlace, operand.at),
  )
  const first = addressOf(values)
  const pointers = BigUint64Array.from(operands, (_, i) => first + BigInt(8 * i))
  const parameters = nodeParameters(kind, called, groups, code.threads, addressOf(pointers))
  return { parameters, held: [values, pointers] }
}

function addressIn({ of, at }: CudaPlace, offset: number): Pointer {
  return of.address + BigInt(at + offset)
}

function rowsIn({ place, at, stride }: Rows, bytes: number, rows: number): CudaRows {
  within(place, at, { length: (rows - 1) * stride + bytes })
  return { at: addressIn(place as CudaPlace, at), stride }
}

/** Where some bytes of a place lie. */
function within(place: Place, at: number, { length }: { length: number }): Pointer {
  if (at < 0 || at + length > place.bytes)
    throw new Error(`internal: ${length} bytes at ${at} of a place of ${place.bytes}`)
  return addressIn(place as CudaPlace, at)
}

/** Whoever asks for it keeps the bytes until it is answered. */
function copyOf(device: Pointer, bytes: Uint8Array) {
  return { device, host: addressOf(bytes), bytes: bytes.length }
}
