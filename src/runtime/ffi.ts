// Turns a shared library into typed functions of the C interface in abi.h, opens a driver's library, and makes a call to the
// system; nothing else: no policy, no state but the handle. The FFI package is used here, and in worker/give-back.ts for one
// function of libc.
//
// Native code runs on a stack of koffi's own. Its 128 KiB for asynchronous calls would do for our libraries; drivers run a
// whole compiler in such a call, made for the 8 MiB of a thread, and the price of being wrong is the process.

import { constants } from "node:os"
import koffi, { type LibraryHandle } from "koffi"
import type { ProductOperands, WeightWork } from "./program.ts"

koffi.config({ async_stack_size: 8 << 20 })

/** An address in native memory. */
export type Pointer = bigint

/** What is done to weights, each with a code, as other calls of a library have. */
export interface NativeWeightWork {
  unpackBlocks(...of: Parameters<WeightWork["unpackBlocks"]>): Promise<number>
  /** @param type by its number in abi.h */
  addProduct(type: number, ...of: ProductOperands): Promise<number>
}

export interface NativeLibrary {
  hostOpen(threads: number): Pointer
  hostClose(host: Pointer): Promise<void>
  /**
   * @param blocks of each KV group
   * @param tape the plan, of a generic library
   */
  open(
    host: Pointer,
    limits: Int32Array,
    blocks: Int32Array,
    tape: Float64Array | null,
  ): Promise<{ code: number; model: Pointer }>
  load(
    model: Pointer,
    parameter: number,
    row: number,
    rows: number,
    values: ArrayBufferView,
    scales: ArrayBufferView | null,
  ): Promise<number>
  weightWork: NativeWeightWork
  /** The weights as they lie in native memory, without a copy. The arrays must not be touched once the model is closed. */
  weights(model: Pointer): {
    at: Pointer
    bytes: number
    window(from: number, length: number): Uint8Array
  }
  weightsChecksum(model: Pointer): Promise<bigint>
  step(model: Pointer, words: BigUint64Array): Promise<number>
  copyBlocks(model: Pointer, group: number, from: Int32Array, to: Int32Array): Promise<number>
  message(model: Pointer): string
  close(model: Pointer): Promise<void>
}

export function loadNative(path: string): NativeLibrary {
  const library = koffi.load(path)
  const hostOpen = library.func("void *sinter_host_open(int32_t threads)")
  const hostClose = library.func("void sinter_host_close(void *host)")
  const open = library.func(
    "int32_t sinter_open(void *host, void *limits, void *blocks, void *tape, void *out)",
  )
  const load = library.func(
    "int32_t sinter_load(void *model, int32_t parameter, int64_t row, int64_t rows, void *values, void *scales)",
  )
  const weights = library.func("void *sinter_weights(void *model, void *bytes)")
  const weightsChecksum = library.func("uint64_t sinter_weights_checksum(void *model)")
  const step = library.func("int32_t sinter_step(void *model, void *arrays)")
  const copyBlocks = library.func(
    "int32_t sinter_copy_blocks(void *model, int32_t group, void *from, void *to, int64_t count)",
  )
  const message = library.func("const char *sinter_message(void *model)")
  const close = library.func("void sinter_close(void *model)")
  return {
    hostOpen,
    async hostClose(host) {
      await call(hostClose, host)
    },
    async open(host, limits, blocks, tape) {
      const out = new BigUint64Array(1)
      const code = await call(open, host, limits, blocks, tape, out)
      return { code, model: out[0]! }
    },
    load: (model, parameter, row, rows, values, scales) =>
      call(load, model, parameter, row, rows, values, scales),
    weightWork: weightWorkOf(library),
    weights(model) {
      const out = new BigInt64Array(1)
      const at: Pointer = weights(model, out)
      return {
        at,
        bytes: Number(out[0]),
        window: (from, length) => bytesAt(at + BigInt(from), length),
      }
    },
    weightsChecksum: async (model) => BigInt(await call<number | bigint>(weightsChecksum, model)),
    step: (model, words) => call(step, model, words),
    copyBlocks: (model, group, from, to) => call(copyBlocks, model, group, from, to, from.length),
    message,
    async close(model) {
      await call(close, model)
    },
  }
}

/**
 * Linux's call number `number`; -1 where it fails. The function is libc's, which this process has open, whichever it is.
 * @throws where it has no such function
 */
export function systemCall(number: number, first: number, second: number): number {
  return koffi.load(null).func("long syscall(long number, long first, long second)")(
    number,
    first,
    second,
  )
}

/** Whether this process runs on GNU's C library, which alone has this function. */
export function hasGlibc(): boolean {
  try {
    koffi.load(null).func("const char *gnu_get_libc_version()")
    return true
  } catch {
    return false
  }
}

/** What Linux is asked about pages of memory. Lengths are whole pages; nothing is known of who uses them. */
export interface PageCalls {
  /** undefined: it cannot */
  map(
    at: Pointer,
    length: number,
    protection: number,
    flags: number,
    file: number,
    from: number,
  ): Pointer | undefined
  unmap(at: Pointer, length: number): void
  /** @returns whether it did */
  move(from: Pointer, length: number, newLength: number, flags: number, to: Pointer): boolean
  advise(at: Pointer, length: number, advice: number): void
  /** @param pages a byte for each, of which the lowest bit says whether it is in memory @returns whether that is known */
  inMemory(at: Pointer, length: number, pages: Uint8Array): boolean
  /** Off the event loop. @returns how much was read, 0 at the file's end, less when it failed */
  read(file: number, to: Pointer, length: number, from: number): Promise<number>
}

let pages: PageCalls | undefined

/** undefined on other systems */
export function pageCalls(): PageCalls | undefined {
  if (process.platform !== "linux") return undefined
  pages ??= pageCallsOf(koffi.load(null))
  return pages
}

function pageCallsOf(libc: LibraryHandle): PageCalls {
  const map = libc.func("void *mmap(void *, size_t, int, int, int, int64_t)")
  const move = libc.func("void *mremap(void *, size_t, size_t, int, void *)")
  const inMemory = libc.func("int mincore(void *, size_t, void *)")
  const read = libc.func("int64_t pread(int, void *, size_t, int64_t)")
  const failed = 2n ** 64n - 1n
  return {
    map(...values) {
      const at: Pointer = map(...values)
      return at === failed ? undefined : at
    },
    unmap: libc.func("int munmap(void *, size_t)"),
    move: (...values) => move(...values) !== failed,
    advise: libc.func("int madvise(void *, size_t, int)"),
    inMemory: (...values) => inMemory(...values) === 0,
    read: async (...values) => Number(await call<number | bigint>(read, ...values)),
  }
}

/** @param path of blocks.c and low_rank.c, compiled */
export function openWeightWork(path: string): NativeWeightWork {
  return weightWorkOf(koffi.load(path))
}

function weightWorkOf(library: LibraryHandle): NativeWeightWork {
  const unpack = library.func(
    "int32_t sinter_unpack_blocks(int32_t type, int64_t rows, int64_t columns, void *blocks, void *patterns, void *codes, void *scales)",
  )
  const add = library.func(
    "int32_t sinter_add_product(int32_t type, int64_t rows, int64_t columns, int64_t rank, void *left, void *right, void *values)",
  )
  return {
    unpackBlocks: (...of) => call(unpack, ...of),
    addProduct: (...of) => call(add, ...of),
  }
}

/** @param path of processor.c, compiled @returns its words */
export function askProcessor(path: string): Uint32Array {
  const words = new Uint32Array(5)
  koffi.load(path).func("void sinter_processor(void *words)")(words)
  return words
}

/** What Windows says of a feature of the processor, by its number. */
export function windowsHas(feature: number): boolean {
  const ask = koffi.load("kernel32.dll").func("int IsProcessorFeaturePresent(uint32_t feature)")
  return ask(feature) !== 0
}

const LOCK_EXCLUSIVE = 2
const LOCK_AT_ONCE = 4

/**
 * Takes the lock of an open file, which the system gives back when the file is closed or this process ends, however it ends.
 * "impossible": this system or this file system has no such locks.
 */
export function lockFile(descriptor: number): "taken" | "busy" | "impossible" {
  try {
    const flock = koffi.load(null).func("int flock(int descriptor, int operation)")
    if (flock(descriptor, LOCK_EXCLUSIVE | LOCK_AT_ONCE) === 0) return "taken"
  } catch {
    return "impossible" // libc has no such function
  }
  const { EAGAIN, EWOULDBLOCK } = constants.errno
  return [EAGAIN, EWOULDBLOCK].includes(koffi.errno()) ? "busy" : "impossible"
}

/** Ends this process now, whatever its threads do: Node's own ways wait for them. Nothing else that is to happen at its end does. */
export function endProcess(code: number): void {
  if (process.platform === "win32") process.kill(process.pid, "SIGKILL") // which is TerminateProcess, and its code 1
  koffi.load(null).func("void _exit(int code)")(code)
}

/** A driver's library: whatever it calls happens in this process, which a bad driver ends. */
export interface DriverLibrary {
  /** The name that it was found under. */
  name: string
  /**
   * One of its functions, by its C prototype.
   * @throws FunctionMissing
   */
  take: <Result = number>(prototype: string) => (...values: unknown[]) => Result
  /** The same, called off the event loop. Arrays that are handed over are not collected before the promise is settled. */
  takeAsync: <Result = number>(prototype: string) => (...values: unknown[]) => Promise<Result>
}

/** No library of these names is here. */
export class LibraryMissing extends Error {}

/** The library is older than the function. */
export class FunctionMissing extends Error {}

/**
 * The first of these libraries that the system finds.
 * @throws LibraryMissing where it finds none, else an Error in the system's words
 */
export function openDriverLibrary(names: readonly string[]): DriverLibrary {
  for (const name of names) {
    try {
      const library = koffi.load(name)
      return {
        name,
        take: (prototype) => takeFunction(library, prototype),
        takeAsync: (prototype) => {
          const native = takeFunction(library, prototype)
          return (...values) => call(native, ...values)
        },
      }
    } catch (error) {
      const why = (error as Error).message.replace(/^Failed to load shared library: /, "")
      if (!isMissing(why)) throw new Error(`${name}: ${why}`)
    }
  }
  throw new LibraryMissing(names.join(", "))
}

/** In the words of glibc, musl, macOS, Windows and Wine. */
const missing = [
  /^cannot open shared object file: No such/, // behind another's name: that one is here, and needs one that is not
  /^Error loading shared library .*: No such file or directory$/, // of such a one it goes on: "(needed by"
  /tried:.*no such file/s,
  /could not be found/,
  /Module not found/,
]

const isMissing = (why: string) => missing.some((words) => words.test(why))

function takeFunction(library: LibraryHandle, prototype: string) {
  try {
    return library.func(prototype)
  } catch (error) {
    throw new FunctionMissing((error as Error).message)
  }
}

const structures = new Set<string>()

/** A structure that prototypes may name, by its fields' types; it is handed over as an object. */
export function defineStructure(name: string, fields: Readonly<Record<string, string>>): void {
  if (structures.has(name)) return
  koffi.struct(name, fields)
  structures.add(name)
}

/** A function that a driver has handed out. */
export interface FoundFunction {
  call: (...values: unknown[]) => number | bigint
  /** As `takeAsync` of a library. */
  callAsync: (...values: unknown[]) => Promise<number>
}

/** @param prototype in C, without a name */
export function functionAt(address: Pointer, prototype: string): FoundFunction {
  const native = koffi.decode(address, koffi.proto(prototype))
  return { call: native, callAsync: (...values) => call(native, ...values) }
}

/** The text that ends in a zero byte at `address`. */
export function textAt(address: Pointer): string {
  return koffi.decode.string(address)
}

/** Where a typed array's bytes lie. They stay there; whoever hands the address on keeps the array alive. */
export function addressOf(array: ArrayBufferView): Pointer {
  return array.byteLength === 0 ? 0n : koffi.address(array)
}

/**
 * Native memory as an array, which must not be touched once the memory is gone.
 * @param length 4 GiB at most: the process ends over what Node has no array for
 */
export function bytesAt(address: Pointer, length: number): Uint8Array {
  return new Uint8Array(koffi.view(address, length))
}

/** Off the event loop, on a thread of Node's pool. */
function call<Result = number>(
  native: { async(...values: unknown[]): unknown },
  ...values: unknown[]
): Promise<Result> {
  return new Promise((resolve, reject) => {
    native.async(...values, (error: Error | null, result: Result) => {
      values.length = 0 // what the call points at is held until here, and may be collected from here on
      if (error) reject(error)
      else resolve(result)
    })
  })
}
