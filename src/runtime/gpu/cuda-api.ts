// The calls of CUDA's driver and of AMD's HIP: the same with other names, but for how a thread says which device it means, what
// describes a kernel of a graph, and who compiles. CUDA is handed PTX, or code for its device. HIP is handed code, or HIP C,
// which HIPRTC (run-time-compiler.ts) makes code of for the device at hand; it comes with the driver.
// Sources: cuda.h, and hip_runtime_api.h of ROCm.

import { type DriverLibrary, FunctionMissing, type Pointer } from "../ffi.ts"
import type { TileShape } from "./tile-shapes.ts"

export type CudaKind = "cuda" | "rocm"

const SIDE: Record<CudaKind, 0 | 1> = { cuda: 0, rocm: 1 }

/** Of both: the name, and what it takes. */
const calls = {
  memory: ["cuMemGetInfo_v2", "hipMemGetInfo", "void *free, void *total"],
  createStream: ["cuStreamCreate", "hipStreamCreateWithFlags", "void *out, uint32_t flags"],
  destroyStream: ["cuStreamDestroy_v2", "hipStreamDestroy", "void *stream"],
  wait: ["cuStreamSynchronize", "hipStreamSynchronize", "void *stream"],
  allocate: ["cuMemAlloc_v2", "hipMalloc", "void *out, size_t bytes"],
  free: ["cuMemFree_v2", "hipFree", "uint64_t at"],
  allocateHost: ["cuMemHostAlloc", "hipHostMalloc", "void *out, size_t bytes, uint32_t flags"],
  freeHost: ["cuMemFreeHost", "hipHostFree", "void *at"],
  fill: [
    "cuMemsetD8Async",
    "hipMemsetD8Async",
    "uint64_t at, uint8_t value, size_t bytes, void *stream",
  ],
  write: [
    "cuMemcpyHtoDAsync_v2",
    "hipMemcpyHtoDAsync",
    "uint64_t to, void *from, size_t bytes, void *stream",
  ],
  read: [
    "cuMemcpyDtoHAsync_v2",
    "hipMemcpyDtoHAsync",
    "void *to, uint64_t from, size_t bytes, void *stream",
  ],
  load: [
    "cuModuleLoadDataEx",
    "hipModuleLoadDataEx",
    "void *out, void *image, uint32_t count, void *options, void *values",
  ],
  functionOf: [
    "cuModuleGetFunction",
    "hipModuleGetFunction",
    "void *out, void *module, const char *name",
  ],
  functionAttribute: [
    "cuFuncGetAttribute",
    "hipFuncGetAttribute",
    "void *out, int32_t what, void *function",
  ],
  unload: ["cuModuleUnload", "hipModuleUnload", "void *module"],
  createGraph: ["cuGraphCreate", "hipGraphCreate", "void *out, uint32_t flags"],
  addKernel: [
    "cuGraphAddKernelNode",
    "hipGraphAddKernelNode",
    "void *out, void *graph, void *after, size_t count, void *parameters",
  ],
  instantiate: [
    "cuGraphInstantiateWithFlags",
    "hipGraphInstantiateWithFlags",
    "void *out, void *graph, uint64_t flags",
  ],
  destroyGraph: ["cuGraphDestroy", "hipGraphDestroy", "void *graph"],
  launch: ["cuGraphLaunch", "hipGraphLaunch", "void *graph, void *stream"],
  destroyLaunchable: ["cuGraphExecDestroy", "hipGraphExecDestroy", "void *graph"],
  copy: [
    "cuMemcpyDtoDAsync_v2",
    "hipMemcpyDtoDAsync",
    "uint64_t to, uint64_t from, size_t bytes, void *stream",
  ],
  createEvent: ["cuEventCreate", "hipEventCreateWithFlags", "void *out, uint32_t flags"],
  destroyEvent: ["cuEventDestroy_v2", "hipEventDestroy", "void *event"],
  recordEvent: ["cuEventRecord", "hipEventRecord", "void *event, void *stream"],
  waitForEvent: ["cuEventSynchronize", "hipEventSynchronize", "void *event"],
  waitEvent: [
    "cuStreamWaitEvent",
    "hipStreamWaitEvent",
    "void *stream, void *event, uint32_t flags",
  ],
  canReach: [
    "cuDeviceCanAccessPeer",
    "hipDeviceCanAccessPeer",
    "void *out, int32_t device, int32_t other",
  ],
} as const satisfies Record<string, readonly [cuda: string, rocm: string, takes: string]>

export type CallName = keyof typeof calls

export type CudaCalls = Record<CallName, (...values: unknown[]) => number>

export function callsOf(kind: CudaKind, { take }: DriverLibrary): CudaCalls {
  const entries = Object.entries(calls).map(([name, row]) => [
    name,
    take(`int32_t ${row[SIDE[kind]]}(${row[2]})`),
  ])
  return Object.fromEntries(entries) as CudaCalls
}

/** What the codes are called that a sound program can meet. */
const codes: Readonly<Record<number, readonly [cuda: string, rocm: string]>> = {
  2: ["CUDA_ERROR_OUT_OF_MEMORY", "hipErrorOutOfMemory"],
  4: ["CUDA_ERROR_DEINITIALIZED", "hipErrorDeinitialized"],
  46: ["CUDA_ERROR_DEVICE_UNAVAILABLE", "hipErrorDeviceUnavailable"],
  201: ["CUDA_ERROR_INVALID_CONTEXT", "hipErrorInvalidContext"],
  209: ["CUDA_ERROR_NO_BINARY_FOR_GPU", "hipErrorNoBinaryForGpu"],
  214: ["CUDA_ERROR_ECC_UNCORRECTABLE", "hipErrorECCNotCorrectable"],
  218: ["CUDA_ERROR_INVALID_PTX", "hipErrorInvalidKernelFile"],
  220: ["CUDA_ERROR_NVLINK_UNCORRECTABLE", "220"],
  222: ["CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "222"],
  500: ["CUDA_ERROR_NOT_FOUND", "hipErrorNotFound"],
  700: ["CUDA_ERROR_ILLEGAL_ADDRESS", "hipErrorIllegalAddress"],
  701: ["CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "hipErrorLaunchOutOfResources"],
  702: ["CUDA_ERROR_LAUNCH_TIMEOUT", "hipErrorLaunchTimeOut"],
  709: ["CUDA_ERROR_CONTEXT_IS_DESTROYED", "hipErrorContextIsDestroyed"],
  710: ["CUDA_ERROR_ASSERT", "hipErrorAssert"],
  714: ["CUDA_ERROR_HARDWARE_STACK_ERROR", "714"],
  715: ["CUDA_ERROR_ILLEGAL_INSTRUCTION", "715"],
  716: ["CUDA_ERROR_MISALIGNED_ADDRESS", "716"],
  717: ["CUDA_ERROR_INVALID_ADDRESS_SPACE", "717"],
  718: ["CUDA_ERROR_INVALID_PC", "718"],
  719: ["CUDA_ERROR_LAUNCH_FAILED", "hipErrorLaunchFailure"],
  999: ["CUDA_ERROR_UNKNOWN", "hipErrorUnknown"],
}

export function failureOf(kind: CudaKind, code: number, call: string): string {
  return `${call} answers ${codes[code]?.[SIDE[kind]] ?? code}`
}

export function nameOf(kind: CudaKind, call: CallName): string {
  return calls[call][SIDE[kind]].replace(/_v2$/, "")
}

/** A device's part of what a thread has to be told: CUDA's context, or HIP's number. */
export function entering(
  kind: CudaKind,
  { take }: DriverLibrary,
  handle: Pointer,
): { call: string; enter: () => number } {
  if (kind === "cuda") {
    const enter = take("int32_t cuCtxSetCurrent(void *context)")
    return { call: "cuCtxSetCurrent", enter: () => enter(handle) }
  }
  const enter = take("int32_t hipSetDevice(int32_t device)")
  return { call: "hipSetDevice", enter: () => enter(Number(handle)) }
}

/** Lets the device that a thread has entered read another's memory: CUDA is told its context, HIP its number. */
export function reaching(kind: CudaKind, { take }: DriverLibrary): (other: Pointer) => number {
  if (kind === "cuda") {
    const reach = take("int32_t cuCtxEnablePeerAccess(void *other, uint32_t flags)")
    return (other) => reach(other, 0)
  }
  const reach = take("int32_t hipDeviceEnablePeerAccess(int32_t other, uint32_t flags)")
  return (other) => reach(Number(other), 0)
}

/** CUgraphEdgeData: from the port that opens when all groups of a kernel have let others begin, and of that kind. */
const PROGRAMMATIC = Uint8Array.of(1, 0, 1, 0, 0, 0, 0, 0)

/**
 * Orders two kernels of a graph so that the second waits for the first itself.
 * @returns undefined where the driver knows no such order: those before CUDA 12.3, and AMD's
 */
export function overlapping(
  kind: CudaKind,
  { take }: DriverLibrary,
): ((graph: unknown, from: BigUint64Array, to: BigUint64Array) => number) | undefined {
  if (kind === "rocm") return undefined
  try {
    const add = take(
      "int32_t cuGraphAddDependencies_v2(void *graph, void *from, void *to, void *edges, size_t count)",
    )
    return (graph, from, to) => add(graph, from, to, PROGRAMMATIC, 1)
  } catch (error) {
    if (error instanceof FunctionMissing) return undefined
    throw error
  }
}

/** Rows of a device's memory, or of one that it reaches, so many bytes from one to the next. */
export interface CudaRows {
  at: Pointer
  stride: number
}

type CopyRows = (
  to: CudaRows,
  from: CudaRows,
  bytes: number,
  rows: number,
  stream: Pointer,
) => number

const UNIFIED = 4 // CU_MEMORYTYPE_UNIFIED: the address says whose memory it is
const DEFAULT = 4 // hipMemcpyDefault, which means the same

/** CUDA_MEMCPY2D. */
function rowsParameters(to: CudaRows, from: CudaRows, bytes: number, rows: number): BigUint64Array {
  const side = ({ at, stride }: CudaRows) => [0, 0, UNIFIED, 0, at, 0, stride]
  return BigUint64Array.from([...side(from), ...side(to), bytes, rows], BigInt)
}

/** The first `bytes` of each row. */
export function rowsCopying(kind: CudaKind, { take }: DriverLibrary): CopyRows {
  if (kind === "cuda") {
    const copy = take("int32_t cuMemcpy2DAsync_v2(void *copy, void *stream)")
    return (to, from, bytes, rows, stream) => copy(rowsParameters(to, from, bytes, rows), stream)
  }
  const copy = take(
    "int32_t hipMemcpy2DAsync(uint64_t to, size_t toStride, uint64_t from, size_t fromStride, size_t bytes, size_t rows, int32_t kind, void *stream)",
  )
  return (to, from, bytes, rows, stream) =>
    copy(to.at, to.stride, from.at, from.stride, bytes, rows, DEFAULT, stream)
}

/**
 * CUDA_KERNEL_NODE_PARAMS in its first form, or hipKernelNodeParams.
 * @param values the address of a list of operands' addresses
 */
export function nodeParameters(
  kind: CudaKind,
  called: Pointer,
  groups: readonly number[],
  threads: number,
  values: Pointer,
): Uint8Array {
  const parameters = new Uint8Array(kind === "cuda" ? 56 : 64)
  const view = new DataView(parameters.buffer)
  const three = (at: number, counts: readonly number[]) => {
    for (const [i, count] of counts.entries()) view.setUint32(at + 4 * i, count, true)
  }
  if (kind === "cuda") {
    view.setBigUint64(0, called, true)
    three(8, groups)
    three(20, [threads, 1, 1])
    view.setBigUint64(40, values, true)
  } else {
    three(0, [threads, 1, 1])
    view.setBigUint64(24, called, true)
    three(32, groups)
    view.setBigUint64(48, values, true)
  }
  return parameters
}

/** Tiles that AMD's matrix units multiply, on the devices that have some: CDNA from the first on, RDNA from the third. */
export const ROCM_TILES: TileShape = "bytes16x16x16"

export function hasRocmTiles(architecture: string): boolean {
  return /^gfx(908|90a|94[0-2]|950|1[12][0-9a-f]{2})$/.test(architecture)
}
