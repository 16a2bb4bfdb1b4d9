// The devices of OpenCL's drivers, through the loader that knows them all. Names and numbers are those of cl.h.

import { openDriverLibrary, type Pointer } from "../ffi.ts"
import { byType, type DeviceType, type DriverDevice, DriverObstacle } from "./driver.ts"
import { Structure } from "./structure.ts"

const NO_PLATFORM = -1001 // CL_PLATFORM_NOT_FOUND_KHR
const NO_DEVICE = -1
const ALL_TYPES = 0xffffffff

/** Kernels are written in the C of this version. */
const NEEDED = [1, 2] as const

type Api = ReturnType<typeof openApi>

function openApi(names: readonly string[]) {
  const { take, takeAsync } = openDriverLibrary(names)
  return {
    createContext: takeAsync<Handle>(
      "void *clCreateContext(void *properties, uint32_t count, void *devices, void *notify, void *data, void *code)",
    ),
    releaseContext: take("int32_t clReleaseContext(void *context)"),
    createQueue: take<Handle>(
      "void *clCreateCommandQueue(void *context, void *device, uint64_t properties, void *code)",
    ),
    releaseQueue: take("int32_t clReleaseCommandQueue(void *queue)"),
    platforms: take("int32_t clGetPlatformIDs(uint32_t most, void *platforms, void *count)"),
    devices: take(
      "int32_t clGetDeviceIDs(void *platform, uint64_t type, uint32_t most, void *devices, void *count)",
    ),
    info: take(
      "int32_t clGetDeviceInfo(void *device, uint32_t what, size_t size, void *value, void *needed)",
    ),
  }
}

/** Each is opened once and closed again: a driver that answers questions may still hang, or refuse, when it is to work. */
export async function listOpenCl(names: readonly string[]): Promise<DriverDevice[]> {
  const api = openApi(names)
  const devices: DriverDevice[] = []
  for (const handle of listHandles(api)) devices.push(await tried(api, handle))
  return devices
}

async function tried(api: Api, handle: OpenClHandle): Promise<DriverDevice> {
  const described = describe(api, handle.device)
  if (described.obstacle) return described
  try {
    const { context, queue } = await openQueue(api, handle)
    api.releaseQueue(queue)
    api.releaseContext(context)
    return described
  } catch (error) {
    if (!(error instanceof DriverObstacle)) throw error
    return { ...described, obstacle: error.obstacle }
  }
}

/** What the FFI makes of a pointer; where something failed there is none, and a code beside it. */
export type Handle = number | bigint | null

const CONTEXT_PLATFORM = 0x1084n

async function openQueue(
  api: Api,
  { platform, device }: OpenClHandle,
): Promise<{ context: Pointer; queue: Pointer }> {
  const code = new Int32Array(1)
  const properties = BigUint64Array.of(CONTEXT_PLATFORM, platform, 0n)
  const devices = BigUint64Array.of(device)
  const context = await api.createContext(properties, 1, devices, null, null, code)
  check(code[0]!, "clCreateContext")
  const queue = api.createQueue(context, device, 0n, code)
  if (code[0] !== 0) api.releaseContext(context)
  check(code[0]!, "clCreateCommandQueue")
  return { context: BigInt(context ?? 0), queue: BigInt(queue ?? 0) }
}

function check(code: number, call: string): void {
  if (code !== 0) throw new DriverObstacle("driver_failed", `${call} answers ${code}`)
}

/** A device as OpenCL's calls name it. */
export interface OpenClHandle {
  platform: Pointer
  device: Pointer
}

/** A device that is open. */
export interface OpenedOpenCl {
  handle: OpenClHandle
  described: DriverDevice
  context: Pointer
  queue: Pointer
}

/**
 * The device of this number.
 * @throws DriverObstacle where it cannot be opened
 */
export async function openOpenClDevice(
  names: readonly string[],
  id: number,
): Promise<OpenedOpenCl> {
  const api = openApi(names)
  const handle = listHandles(api)[id]
  if (!handle) throw new DriverObstacle("no_device", `OpenCL has no device ${id}`)
  const described = describe(api, handle.device)
  const { obstacle } = described
  if (obstacle) throw new DriverObstacle(obstacle.reason, obstacle.problem)
  return { handle, described, ...(await openQueue(api, handle)) }
}

function listHandles(api: Api): OpenClHandle[] {
  const platforms = listed((most, out, count) => api.platforms(most, out, count), [NO_PLATFORM])
  if (platforms.length === 0)
    throw new DriverObstacle("no_device", "OpenCL's loader is here and knows no driver")
  const handles = platforms.flatMap((platform) =>
    listed(
      (most, out, count) => api.devices(platform, ALL_TYPES, most, out, count),
      [NO_DEVICE],
    ).map((device) => ({ platform, device })),
  )
  return byType(handles, ({ device }) => describe(api, device).type)
}

/** Addresses as OpenCL lists them: asked for their number first. */
function listed(
  ask: (most: number, out: BigUint64Array | null, count: Uint32Array | null) => number,
  none: readonly number[],
): Pointer[] {
  const count = new Uint32Array(1)
  const code = ask(0, null, count)
  if (none.includes(code)) return []
  if (code !== 0) throw new DriverObstacle("driver_failed", `OpenCL answers ${code}`)
  const out = new BigUint64Array(count[0]!)
  if (out.length > 0) ask(out.length, out, null)
  return [...out]
}

/** CL_DEVICE_… */
const what = {
  type: 0x1000,
  units: 0x1002,
  threads: 0x1004,
  largest: 0x1010,
  singles: 0x101b,
  memory: 0x101f,
  shared: 0x1023,
  unified: 0x1035,
  name: 0x102b,
  driver: 0x102d,
  version: 0x102f,
  extensions: 0x1030,
} as const

const FUSED = 1 << 5 // CL_FP_FMA

/** The bits of CL_DEVICE_TYPE. */
const [PROCESSOR, GPU] = [2, 4]

function describe(api: Api, device: Pointer): DriverDevice {
  const ask = (about: keyof typeof what) => {
    const needed = new BigUint64Array(1)
    if (api.info(device, what[about], 0, null, needed) !== 0) return new Structure(8)
    const value = new Structure(Math.max(8, Number(needed[0])))
    api.info(device, what[about], value.bytes.length, value.bytes, null)
    return value
  }
  const extensions = new Set(ask("extensions").text().split(" "))
  const [kind, unified] = [ask("type").word(0), ask("unified").word(0) === 1]
  const type = typeOf(kind, unified)
  const version = ask("version").text() // "OpenCL 3.0 CUDA"
  const described: DriverDevice = {
    description: ask("name").text(),
    type,
    driver: `${version}, driver ${ask("driver").text()}`,
    memory: { total: ask("memory").long(0), shared: unified || type === "processor" },
    features: {
      subgroups: ["cl_khr_subgroups", "cl_intel_subgroups"].some((name) => extensions.has(name)),
      f16_storage: true, // vload_half and vstore_half, in every version
      f16_arithmetic: extensions.has("cl_khr_fp16"),
      int8_dot: extensions.has("cl_khr_integer_dot_product"),
      fused_multiply_add: (ask("singles").word(0) & FUSED) !== 0,
      command_buffers: extensions.has("cl_khr_command_buffer"),
      units: ask("units").word(0),
      threads_per_group: ask("threads").long(0),
      shared_bytes: ask("shared").long(0),
      largest_allocation_bytes: ask("largest").long(0),
    },
  }
  const [, major = 0, minor = 0] = (/^OpenCL (\d+)\.(\d+)/.exec(version) ?? []).map(Number)
  if (major > NEEDED[0] || (major === NEEDED[0] && minor >= NEEDED[1])) return described
  const problem = `its driver speaks ${version} and ${NEEDED.join(".")} is needed; update the driver`
  return { ...described, obstacle: { reason: "driver_too_old", problem } }
}

function typeOf(kind: number, unified: boolean): DeviceType {
  if (kind & PROCESSOR) return "processor"
  if (kind & GPU) return unified ? "integrated_gpu" : "gpu"
  return "accelerator"
}
