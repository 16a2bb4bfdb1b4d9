// The devices of CUDA's driver, and of AMD's HIP, which has the same calls under other names. How much memory is free is known
// to a context alone, so each device gets one for a moment: that also tells a device that another process has for itself.

import { readFileSync } from "node:fs"
import { join } from "node:path"
import { type DriverLibrary, FunctionMissing, openDriverLibrary } from "../ffi.ts"
import { type DriverDevice, DriverObstacle, type Features, type Obstacle } from "./driver.ts"
import { Structure } from "./structure.ts"

/** The first that makes graphs ready as gpu/cuda.ts asks for it. */
const NEEDED = { number: 11040, text: "11.4" }

/** Kernels are compiled for devices from this one on. */
const NEEDED_CAPABILITY = 75

const NAME_BYTES = 256

/** What both answer; the numbers mean the same. */
const NO_DEVICE = 100
const codes: Record<number, Pick<Obstacle, "reason" | "problem">> = {
  34: { reason: "no_driver", problem: "what is installed is a stub of the driver" },
  35: { reason: "driver_too_old", problem: "its driver is older than its library; update it" },
  46: { reason: "no_device", problem: "another process has it for itself (exclusive mode)" },
  [NO_DEVICE]: { reason: "no_device", problem: "the driver is here and finds no device" },
  101: { reason: "no_device", problem: "the driver is here and finds no device" }, // so says hipInit
  304: { reason: "no_permission", problem: "the system refuses the driver a file or a call" },
  802: { reason: "driver_failed", problem: "the system around the device is not ready yet" },
  803: {
    reason: "driver_too_old",
    problem: "the driver in the kernel and its library are of different versions",
  },
}

function failed(call: string, code: number): DriverObstacle {
  const { reason, problem } = codes[code] ?? {
    reason: "driver_failed",
    problem: `${call} answers ${code}`,
  }
  return new DriverObstacle(reason, problem)
}

function check(call: string, code: number): void {
  if (code !== 0) throw failed(call, code)
}

// ------------------------------------------------------------------ CUDA

/** CU_DEVICE_ATTRIBUTE_… */
const attributes = {
  threads: 1,
  warp: 10,
  units: 16,
  integrated: 18,
  major: 75,
  minor: 76,
  shared: 97,
} as const

export function listCuda(names: readonly string[]): DriverDevice[] {
  const cuda = openDriverLibrary(names)
  check("cuInit", cuda.take("int32_t cuInit(uint32_t flags)")(0))
  const version = asked(cuda.take("int32_t cuDriverGetVersion(void *out)"), "cuDriverGetVersion")
  const text = `CUDA ${Math.floor(version / 1000)}.${Math.floor((version % 1000) / 10)}`
  if (version < NEEDED.number)
    throw new DriverObstacle(
      "driver_too_old",
      `its driver speaks ${text} and ${NEEDED.text} is needed; update the driver`,
    )
  const count = asked(cuda.take("int32_t cuDeviceGetCount(void *out)"), "cuDeviceGetCount")
  if (count === 0) throw failed("cuDeviceGetCount", NO_DEVICE)
  const reach = reachOf(cuda, "cuDeviceCanAccessPeer", count)
  return Array.from({ length: count }, (_, id) => describeCuda(cuda, id, text, reach(id)))
}

function describeCuda(
  cuda: DriverLibrary,
  id: number,
  driver: string,
  reach: Features,
): DriverDevice {
  const get = cuda.take("int32_t cuDeviceGet(void *out, int32_t number)")
  const device = asked((out) => get(out, id), "cuDeviceGet")
  const name = new Structure(NAME_BYTES)
  check(
    "cuDeviceGetName",
    cuda.take("int32_t cuDeviceGetName(void *name, int32_t length, int32_t device)")(
      name.bytes,
      NAME_BYTES,
      device,
    ),
  )
  const attribute = cuda.take(
    "int32_t cuDeviceGetAttribute(void *out, int32_t what, int32_t device)",
  )
  const attributeOf = (what: keyof typeof attributes) =>
    asked((out) => attribute(out, attributes[what], device), "cuDeviceGetAttribute")
  const total = new Structure(8)
  check(
    "cuDeviceTotalMem",
    cuda.take("int32_t cuDeviceTotalMem_v2(void *bytes, int32_t device)")(total.bytes, device),
  )
  const shared = attributeOf("integrated") === 1
  const capability = attributeOf("major") * 10 + attributeOf("minor")
  const memory = cudaMemory(cuda, device)
  // What files have left in the host's memory is taken, to the driver, though Linux would give it: Linux is asked instead.
  const isKnown = typeof memory === "number" && !(shared && process.platform === "linux")
  return {
    description: name.text(),
    type: shared ? "integrated_gpu" : "gpu",
    driver,
    memory: {
      total: total.long(0),
      shared,
      ...(isKnown && { available: memory }),
    },
    features: {
      compute_capability: `${attributeOf("major")}.${attributeOf("minor")}`,
      subgroup_size: attributeOf("warp"),
      f16_storage: true,
      int8_dot: capability >= 61,
      matrix_units: capability >= 75, // of whole numbers: earlier ones take halves alone
      units: attributeOf("units"),
      threads_per_group: attributeOf("threads"),
      shared_bytes: attributeOf("shared"),
      ...reach,
    },
    ...(typeof memory !== "number" ? { obstacle: memory } : tooOld(capability)),
  }
}

function tooOld(capability: number): { obstacle?: Obstacle } {
  if (capability >= NEEDED_CAPABILITY) return {}
  const [is, needed] = [capability, NEEDED_CAPABILITY].map((each) => (each / 10).toFixed(1))
  const problem = `its compute capability is ${is} and ${needed} is needed`
  return { obstacle: { reason: "unsuitable", problem } }
}

/** What is free, or why the device cannot be had. */
function cudaMemory(cuda: DriverLibrary, device: number): number | Obstacle {
  const release = cuda.take("int32_t cuDevicePrimaryCtxRelease_v2(int32_t device)")
  const context = new BigUint64Array(1)
  const retain = cuda.take("int32_t cuDevicePrimaryCtxRetain(void *context, int32_t device)")
  const code = retain(context, device)
  if (code !== 0) return failed("cuDevicePrimaryCtxRetain", code).obstacle
  try {
    check("cuCtxSetCurrent", cuda.take("int32_t cuCtxSetCurrent(void *context)")(context[0]))
    return freeBytes(cuda.take("int32_t cuMemGetInfo_v2(void *free, void *total)"))
  } finally {
    release(device)
  }
}

// ------------------------------------------------------------------ HIP

/** hipDeviceAttributeIntegrated */
const HIP_INTEGRATED = 16

/** @param root where /sys is; for tests */
export function listHip(names: readonly string[], root = "/"): DriverDevice[] {
  const hip = openDriverLibrary(names)
  check("hipInit", hip.take("int32_t hipInit(uint32_t flags)")(0))
  const version = asked(hip.take("int32_t hipDriverGetVersion(void *out)"), "hipDriverGetVersion")
  const count = asked(hip.take("int32_t hipGetDeviceCount(void *out)"), "hipGetDeviceCount")
  if (count === 0) throw failed("hipGetDeviceCount", NO_DEVICE)
  const reach = reachOf(hip, "hipDeviceCanAccessPeer", count)
  return Array.from({ length: count }, (_, id) =>
    describeHip(hip, id, { driver: hipVersion(version), reach: reach(id), root }),
  )
}

/** 60342131: 6.3.42131. */
function hipVersion(word: number): string {
  return `HIP ${Math.floor(word / 1e7)}.${Math.floor(word / 1e5) % 100}.${word % 1e5}`
}

function describeHip(
  hip: DriverLibrary,
  id: number,
  { driver, reach, root }: { driver: string; reach: Features; root: string },
): DriverDevice {
  const name = new Structure(NAME_BYTES)
  check(
    "hipDeviceGetName",
    hip.take("int32_t hipDeviceGetName(void *name, int32_t length, int32_t device)")(
      name.bytes,
      NAME_BYTES,
      id,
    ),
  )
  const total = new Structure(8)
  check(
    "hipDeviceTotalMem",
    hip.take("int32_t hipDeviceTotalMem(void *bytes, int32_t device)")(total.bytes, id),
  )
  const attribute = hip.take(
    "int32_t hipDeviceGetAttribute(void *out, int32_t what, int32_t device)",
  )
  const isIntegrated =
    asked((out) => attribute(out, HIP_INTEGRATED, id), "hipDeviceGetAttribute") === 1
  const architecture = hipArchitecture(hip, id)
  check("hipSetDevice", hip.take("int32_t hipSetDevice(int32_t device)")(id))
  return {
    description: name.text() || (architecture ?? "an AMD GPU"),
    type: isIntegrated ? "integrated_gpu" : "gpu",
    driver,
    memory: {
      total: total.long(0),
      available: freeBytes(hip.take("int32_t hipMemGetInfo(void *free, void *total)")),
      shared: isIntegrated && total.long(0) > setApart(hip, id, root),
    },
    features: {
      ...(architecture && { architecture }),
      f16_storage: true,
      matrix_units: /^gfx(908|90a|9[45]\d|1[12]\d\d)/.test(architecture ?? ""),
      ...reach,
    },
  }
}

/**
 * What the firmware has set apart for a GPU in the processor, in bytes; 0 where the system does not say. The driver counts that alone
 * where it is more than such a GPU may have of the host's memory, and otherwise that part of the host's alone (amdgpu of Linux, from 6.10
 * on). It says of both what is free.
 */
function setApart(hip: DriverLibrary, id: number, root: string): number {
  const address = new Structure(NAME_BYTES)
  check(
    "hipDeviceGetPCIBusId",
    hip.take("int32_t hipDeviceGetPCIBusId(void *text, int32_t length, int32_t device)")(
      address.bytes,
      NAME_BYTES,
      id,
    ),
  )
  const file = join(root, "sys/bus/pci/devices", address.text(), "mem_info_vram_total")
  try {
    return Number(readFileSync(file, "utf8"))
  } catch {
    return 0
  }
}

/** Of several kilobytes, which differ from version to version; the name of the architecture is easily told in all of them. */
function hipArchitecture(hip: DriverLibrary, id: number): string | undefined {
  const properties = new Structure(1 << 14)
  for (const name of ["hipGetDevicePropertiesR0600", "hipGetDeviceProperties"]) {
    try {
      const code = hip.take(`int32_t ${name}(void *properties, int32_t device)`)(
        properties.bytes,
        id,
      )
      if (code === 0) break
    } catch (error) {
      if (!(error instanceof FunctionMissing)) throw error
    }
  }
  return /gfx[0-9a-f]{3,4}/.exec(Buffer.from(properties.bytes).toString("latin1"))?.[0]
}

// ------------------------------------------------------------------ both

/** Whose memory each of several devices can read without the host: their numbers, or that it can nobody's. */
function reachOf(library: DriverLibrary, name: string, count: number): (id: number) => Features {
  if (count < 2) return () => ({})
  const can = library.take(`int32_t ${name}(void *out, int32_t device, int32_t other)`)
  const out = new Int32Array(1)
  return (id) => {
    const reached = Array.from({ length: count }, (_, other) => other).filter(
      (other) => other !== id && can(out, id, other) === 0 && out[0] === 1,
    )
    return { reaches: reached.length > 0 && reached.join(" and ") }
  }
}

/** A whole number that a call writes. */
function asked(call: (out: Int32Array) => number, name: string): number {
  const out = new Int32Array(1)
  check(name, call(out))
  return out[0]!
}

function freeBytes(call: (free: BigUint64Array, total: BigUint64Array) => number): number {
  const [free, total] = [new BigUint64Array(1), new BigUint64Array(1)]
  check("MemGetInfo", call(free, total))
  return Number(free[0])
}
