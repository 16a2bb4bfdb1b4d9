import { execFileSync } from "node:child_process"
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, onTestFinished, test, vi } from "vitest"
import { isLeftOut } from "../../test/left-out.ts"
import { hasCompiler, plantCuda, plantDriver } from "../../test/planted-drivers.ts"
import { Problem } from "../errors.ts"
import {
  chooseDevice,
  type DeviceName,
  deviceNames,
  devicesFrom,
  findDevices,
  lockedFiles,
} from "./devices.ts"
import { readMemory } from "./memory.ts"

/** The first driver's library of these is this one, in processes that this test starts. */
function useDrivers(folder: string): void {
  vi.stubEnv("LD_LIBRARY_PATH", folder)
  onTestFinished(() => void vi.unstubAllEnvs())
}

function newFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "sinter-drivers-"))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  return folder
}

test("auto takes the processor, and says which it is", async () => {
  const device = await chooseDevice({ name: "auto", id: 0 }, ["cpu"])
  expect(device).toMatchObject({ name: "cpu", id: 0 })
  expect(device.description).toMatch(/, \d+ threads?$/)
})

test("a processor is always here, once, with its memory and its instructions", async () => {
  const found = (await findDevices()).flatMap(({ devices }) => devices)
  const [processor, ...others] = found.filter(({ name }) => name === "cpu")
  expect(others).toEqual([])
  expect(processor!.memory.total).toBe(readMemory().total)
  const { threads, usable_threads: usable, instructions } = processor!.features
  expect(usable).toBeLessThanOrEqual(threads as number)
  expect(usable).toBeGreaterThan(0)
  if (process.arch === "x64" && process.platform === "linux") expect(instructions).toContain("sse2")
})

test.each([
  { name: "cuda", id: 63 },
  { name: "cpu", id: 1 },
  { name: "auto", id: 7 },
] as const)("$name:$id is not here: an error names it and what was found", async (request) => {
  const choosing = chooseDevice(request, deviceNames)
  await expect(choosing).rejects.toThrow(Problem)
  await expect(choosing).rejects.toThrow(
    new RegExp(
      `^--device ${request.name}:${request.id} is not on this machine.*; found: .*cpu:0 \\(.+\\)\\. sinter devices lists`,
    ),
  )
})

test("auto says why it finds nothing", async () => {
  const choosing = chooseDevice({ name: "auto", id: 0 }, ["metal"])
  if (process.platform === "linux")
    await expect(choosing).rejects.toThrow(
      /^--device auto is not on this machine: there is no driver for linux; found: .*cpu:0 \(.+\)\./,
    )
})

test("auto says of each of several kinds why it has no more of it", async () => {
  const choosing = chooseDevice({ name: "auto", id: 99 }, ["rocm", "metal", "cpu"])
  if (process.platform === "linux")
    await expect(choosing).rejects.toThrow(
      /^--device auto:99 is not on this machine: (rocm: [^;]+; )?metal: there is no driver for linux; found: /,
    )
})

test("a device that is here and that nothing runs on is refused, with those that something does", async () => {
  await expect(chooseDevice({ name: "cpu", id: 0 }, ["cuda", "vulkan"])).rejects.toThrow(
    "--device cpu:0 is here, but what was asked for runs on cuda, vulkan only",
  )
})

const without = isLeftOut(hasCompiler)
const title = (what: string) => (without ? `${what} (skipped: no C compiler)` : what)
const native = test.skipIf(without)

const one = `
  int hipInit(unsigned flags) { return 0; }
  int hipDriverGetVersion(int *out) { *out = 60342131; return 0; }
  int hipGetDeviceCount(int *out) { *out = 2; return 0; }
  int hipSetDevice(int device) { chosen = device; return 0; }
  int hipDeviceGetName(char *name, int length, int device) {
    snprintf(name, length, "Planted %d", device);
    return 0;
  }
  static int integrated = -1; // which of them
  int hipDeviceGetAttribute(int *out, int what, int device) { return *out = device == integrated, what != 16; }
  int hipDeviceGetPCIBusId(char *text, int length, int device) { return strcpy(text, "none"), 0; }
  int hipDeviceTotalMem(size_t *bytes, int device) { *bytes = (2ul + device) << 30; return 0; }
  int hipDeviceCanAccessPeer(int *out, int device, int other) { *out = 1; return 0; }
  int hipMemGetInfo(size_t *left, size_t *total) { *left = (1ul + chosen) << 30; return 0; }
  int hipGetDevicePropertiesR0600(char *properties, int device) {
    strcpy(properties + 1160, device ? "gfx1100" : "gfx942:sramecc+:xnack-");
    return 0;
  }
`

native(title("devices that a driver lists can be chosen by their number"), async () => {
  const folder = newFolder()
  plantDriver(folder, "libamdhip64.so.7", `static int chosen; ${one}`)
  useDrivers(folder)
  const usable: DeviceName[] = ["rocm", "cpu"]
  const chosen = await chooseDevice({ name: "rocm", id: 1 }, usable)
  const memory = { total: 3 * 2 ** 30, available: 2 * 2 ** 30, shared: false }
  expect(chosen).toEqual({ name: "rocm", id: 1, description: "Planted 1", memory })
  const best = (hasGpu: boolean) => chooseDevice({ name: "auto", id: 0 }, usable, hasGpu)
  expect(await best(true)).toMatchObject({ name: "rocm", id: 0 })
  expect(await best(false)).toMatchObject({ name: "cpu", id: 0 })
  await expect(chooseDevice({ name: "rocm", id: 2 }, usable)).rejects.toThrow(
    /^--device rocm:2 is not on this machine; found: rocm:0 \(Planted 0\), rocm:1 \(Planted 1\), cpu:0/,
  )
  await expect(chooseDevice({ name: "rocm", id: 1 }, ["cpu"])).rejects.toThrow(
    /^--device rocm:1 is here, but what was asked for runs on cpu only; found: rocm:0 \(Planted 0\), rocm:1 \(Planted 1\), cpu:0/,
  )
  const [, survey] = await findDevices()
  expect(survey).toMatchObject({ name: "rocm", obstacles: [] })
  const described = survey!.devices.map(({ driver, memory, features }) => ({
    driver,
    memory,
    features,
  }))
  expect(described).toEqual([
    {
      driver: "HIP 6.3.42131",
      memory: { total: 2 ** 31, available: 2 ** 30, shared: false },
      features: { architecture: "gfx942", f16_storage: true, matrix_units: true, reaches: "1" },
    },
    {
      driver: "HIP 6.3.42131",
      memory: { total: 3 * 2 ** 30, available: 2 ** 31, shared: false },
      features: { architecture: "gfx1100", f16_storage: true, matrix_units: true, reaches: "0" },
    },
  ])
})

/** A GPU as a driver of Vulkan's lists it. Numbers of the bus, -1: the driver does not say. */
type Listed = readonly [uuid: number, bus: number]

/** Vulkan's loader with such devices and nothing else; structures are those of vulkan_core.h. */
const listing = (devices: readonly Listed[]) => `
  typedef struct Link { uint32_t type; struct Link *next; uint32_t words[]; } Link;
  static const int listed[][2] = {${devices.map(([uuid, bus]) => `{${uuid}, ${bus}}`).join()}};
  enum { COUNT = ${devices.length} };
  void *vkGetInstanceProcAddr(void *instance, const char *name) { return NULL; }
  int vkCreateInstance(void *info, void *none, void **out) { *out = (void *)listed; return 0; }
  void vkDestroyInstance(void *instance, void *none) {}
  int vkEnumeratePhysicalDevices(void *instance, uint32_t *count, const void **out) {
    *count = COUNT;
    for (int i = 0; out && i < COUNT; i++) out[i] = listed[i];
    return 0;
  }
  int vkEnumerateDeviceExtensionProperties(const int *device, void *layer, uint32_t *count, char *out) {
    *count = device[1] >= 0;
    if (out && *count) strcpy(out, "VK_EXT_pci_bus_info");
    return 0;
  }
  void vkGetPhysicalDeviceQueueFamilyProperties(void *device, uint32_t *count, uint32_t *out) {
    *count = 1;
    if (out) *out = 2; // VK_QUEUE_COMPUTE_BIT
  }
  int vkCreateDevice(void *physical, void *info, void *none, void **out) { *out = physical; return 0; }
  void vkDestroyDevice(void *device, void *none) {}
  void vkGetPhysicalDeviceProperties2(const int *device, Link *out) {
    out->words[0] = 3 << 12 | 1 << 22;
    out->words[4] = 2; // VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU
    for (Link *each = out; each; each = each->next) {
      if (each->type == 1000071004) each->words[0] = device[0];
      if (each->type == 1000212000 && device[1] >= 0) each->words[1] = device[1];
    }
  }
  void vkGetPhysicalDeviceFeatures2(void *device, Link *out) {
    for (Link *each = out; each; each = each->next)
      for (int i = 0; i < (each->type == 51 ? 47 : each->type == 1000059000 ? 55 : 1); i++) each->words[i] = 1;
  }
  void vkGetPhysicalDeviceMemoryProperties2(void *device, Link *out) {}
`

// Two GPUs: VkPhysicalDeviceIDProperties names one by its UUID in whichever driver, and where drivers make UUIDs of their own,
// VK_EXT_pci_bus_info says where it is plugged in.
native.each<[string, readonly Listed[], readonly number[]]>([
  [
    "one driver",
    [
      [1, 3],
      [2, 4],
    ],
    [0, 1],
  ],
  [
    "one that gives no address",
    [
      [1, -1],
      [2, -1],
    ],
    [0, 1],
  ],
  [
    "two that agree on their UUIDs",
    [
      [1, -1],
      [1, -1],
      [2, -1],
      [2, -1],
    ],
    [0, 2],
  ],
  [
    "two with UUIDs of their own",
    [
      [1, 3],
      [2, 4],
      [5, 3],
      [6, 4],
    ],
    [0, 1],
  ],
])(title("a model is divided among GPUs as many as they are, by %s"), async (_, listed, ids) => {
  const folder = newFolder()
  plantDriver(folder, "libvulkan.so.1", listing(listed))
  useDrivers(folder)
  const first = await chooseDevice({ name: "vulkan", id: 0 }, ["vulkan"])
  const two = await devicesFrom(first, 2)
  expect(two.map(({ id }) => id)).toEqual(ids)
  const twice = listed.length > 2 ? ", since drivers list some of them twice" : ""
  await expect(devicesFrom(first, 4)).rejects.toThrow(
    `4 devices are to share the model, and 2 of them are here from vulkan:0 on${twice}.`,
  )
})

test("auto looks for CUDA's devices first, and for the processor last", () => {
  expect(deviceNames).toEqual(["cuda", "rocm", "metal", "vulkan", "opencl", "cpu"])
})

native(
  title("auto takes the best kind that has a device, however the kinds are named"),
  async () => {
    const folder = newFolder()
    plantDriver(folder, "libamdhip64.so.7", `static int chosen; ${one}`)
    useDrivers(folder)
    const best = (usable: DeviceName[]) => chooseDevice({ name: "auto", id: 0 }, usable, true)
    expect(await best(["cpu", "rocm", "cuda"])).toMatchObject({ name: "rocm", id: 0 })
    plantCuda(folder, "libcuda.so.1", { count: 1 })
    expect(await best(["cpu", "rocm", "cuda"])).toMatchObject({ name: "cuda", id: 0 })
    expect(await best(["cpu", "rocm"])).toMatchObject({ name: "rocm", id: 0 })
    await expect(chooseDevice({ name: "cuda", id: 1 }, ["cuda", "rocm"])).rejects.toThrow(
      "--device cuda:1 is not on this machine; found: cuda:0 (Planted 0), rocm:0 (Planted 0), rocm:1 (Planted 1). ",
    )
  },
)

native(title("auto takes a GPU with memory of its own before one in the processor"), async () => {
  const folder = newFolder()
  const own = one.replace("integrated = -1", "integrated = 0")
  plantDriver(folder, "libamdhip64.so.7", `static int chosen; ${own}`)
  useDrivers(folder)
  const take = (name: "auto" | "rocm", id = 0) => chooseDevice({ name, id }, ["rocm", "cpu"], true)
  expect(await take("auto")).toMatchObject({ name: "rocm", id: 1, memory: { shared: false } })
  expect(await take("auto", 1)).toMatchObject({ name: "rocm", id: 0, memory: { shared: true } })
  expect(await take("rocm")).toMatchObject({ name: "rocm", id: 0 }) // the driver's own number
})

native(title("a device that the environment hides is missed with the variable"), async () => {
  const folder = newFolder()
  plantCuda(folder, "libcuda.so.1", { count: 1 })
  useDrivers(folder)
  vi.stubEnv("CUDA_VISIBLE_DEVICES", "1")
  onTestFinished(() => void vi.unstubAllEnvs())
  await expect(chooseDevice({ name: "cuda", id: 1 }, ["cuda", "cpu"])).rejects.toThrow(
    'cuda:1 is not on this machine: CUDA_VISIBLE_DEVICES="1" hides devices, and those left are numbered from 0; found: cuda:0 (Planted 0)',
  )
  vi.stubEnv("CUDA_VISIBLE_DEVICES", "")
  plantCuda(folder, "libcuda.so.1", { init: 100 }) // so answers cuInit then
  const cuda = (await findDevices()).find(({ name }) => name === "cuda")!
  expect(cuda.obstacles[0]).toEqual({
    reason: "no_device",
    problem:
      'the driver is here and finds no device; CUDA_VISIBLE_DEVICES="" hides devices, and those left are numbered from 0',
  })
})

native(title("a device that something speaks against is refused with that"), async () => {
  const folder = newFolder()
  plantCuda(folder, "libcuda.so.1", { count: 2, retain: 46 })
  useDrivers(folder)
  const usable: DeviceName[] = ["cuda", "cpu"]
  await expect(chooseDevice({ name: "cuda", id: 0 }, usable)).rejects.toThrow(
    "--device cuda:0 is here, but another process has it for itself (exclusive mode); found: cuda:0",
  )
  expect(await chooseDevice({ name: "auto", id: 0 }, usable)).toMatchObject({ name: "cpu" })
  await expect(chooseDevice({ name: "cuda", id: 1 }, usable)).rejects.toThrow(
    "--device cuda:1 is here, but its compute capability is 7.0 and 7.5 is needed; found: ",
  )
})

const software = (await findDevices(60_000))
  .flatMap(({ devices }) => devices)
  .find(({ name, type }) => name !== "cpu" && type === "processor")

test.skipIf(isLeftOut(software))(
  `auto takes no processor for a GPU, who names one gets it${isLeftOut(software) ? " (skipped: no driver here makes a GPU of it)" : ""}`,
  async () => {
    const { name, id, description, memory } = software!
    expect(await chooseDevice({ name: "auto", id: 0 }, [name, "cpu"], true)).toMatchObject({
      name: "cpu",
    })
    const choosing = chooseDevice({ name: "auto", id: 0 }, [name], true)
    await expect(choosing).rejects.toThrow(
      new RegExp(
        `^--device auto takes no processor .+ --device ${name}:${id} takes it; found: ${name}:${id} `,
      ),
    )
    const { total, shared } = memory // what is free changes meanwhile
    const chosen = await chooseDevice({ name, id }, [name, "cpu"])
    expect(chosen).toMatchObject({ name, id, description, memory: { total, shared } })
  },
)

native(title("a start on the processor asks no driver"), async () => {
  const folder = newFolder()
  const traces = ["libcuda.so.1", "libamdhip64.so.7", "libvulkan.so.1", "libOpenCL.so.1"].map(
    (name) => {
      const trace = join(folder, `${name}.asked`)
      const loaded = `__attribute__((constructor)) static void loaded(void) { fclose(fopen("${trace}", "w")); }`
      plantDriver(folder, name, loaded)
      return trace
    },
  )
  useDrivers(folder)
  await chooseDevice({ name: "auto", id: 0 }, ["cpu"])
  await chooseDevice({ name: "cpu", id: 0 }, ["cpu"])
  expect(traces.filter((trace) => existsSync(trace))).toEqual([])
  await findDevices()
  expect(traces.filter((trace) => existsSync(trace))).toEqual(traces)
})

test("a device file that this user may not open is named", () => {
  const folder = newFolder()
  for (const name of ["card0", "renderD128", "renderD129"]) writeFileSync(join(folder, name), "")
  for (const name of ["card0", "renderD128"]) chmodSync(join(folder, name), 0o000)
  chmodSync(join(folder, "renderD129"), 0o666)
  chmodSync(folder, 0o755)
  // Root may open everything, and another user may not even reach the folder, which therefore is entered before.
  const script = `
    const { lockedFiles } = await import("./devices.ts")
    process.chdir(${JSON.stringify(folder)})
    if (process.getuid() === 0) process.setuid(65534)
    console.log(JSON.stringify(lockedFiles(".", /^renderD/)))`
  const run = ["--import", "tsx", "--input-type=module", "--eval", script]
  const out = execFileSync(process.execPath, run, { cwd: import.meta.dirname, encoding: "utf8" })
  const problem = expect.stringMatching(
    /^this user may not open renderD128(, which belongs to the group \w+)?$/,
  )
  expect(JSON.parse(out)).toEqual([{ reason: "no_permission", problem }])
  expect(lockedFiles(join(folder, "none"), /./)).toEqual([])
})
