// What is asked of drivers, and how they are read: of those that can be installed here by holding it to what other programs
// say of them, of the others by libraries that answer as their makers' headers say.

import { spawnSync } from "node:child_process"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, test } from "vitest"
import { isLeftOut } from "../../../test/left-out.ts"
import {
  hasCompiler,
  type PlantedCuda,
  plantCuda,
  plantDriver,
} from "../../../test/planted-drivers.ts"
import { askDriver } from "./ask.ts"
import { listCuda, listHip } from "./cuda.ts"
import { byType, DriverObstacle, versionText } from "./driver.ts"
import { listMetal } from "./metal.ts"
import { computeFamily } from "./vulkan.ts"

const folder = mkdtempSync(join(tmpdir(), "sinter-drivers-"))
afterAll(() => rmSync(folder, { recursive: true }))

const PATIENCE = 60_000 // milliseconds: what other tests do to the machine is not the driver's fault

const output = (command: string, ...options: string[]) => {
  const { status, stdout } = spawnSync(command, options, { encoding: "utf8" })
  return status === 0 ? stdout : ""
}

// ------------------------------------------------------------------ Vulkan

const vulkaninfo = output("vulkaninfo")
const withoutVulkan = isLeftOut(vulkaninfo.includes("VkPhysicalDeviceProperties"))

/** Of the first device, "name = value" as vulkaninfo prints it. */
function vulkanSays(name: string): string {
  const [, value] = new RegExp(`^\\s*${name}\\s*=\\s*(.+?)\\s*$`, "m").exec(vulkaninfo) ?? []
  return value ?? `vulkaninfo says nothing of ${name}`
}

test.skipIf(withoutVulkan)(
  `Vulkan's devices are what vulkaninfo says they are${withoutVulkan ? " (skipped: none here, or no vulkaninfo)" : ""}`,
  async () => {
    const order = { driver: "vulkan", libraries: ["libvulkan.so.1"] } as const
    const answer = await askDriver(order, PATIENCE)
    const [device] = "devices" in answer ? answer.devices : []
    const number = (name: string) => Number(vulkanSays(name).split(" ")[0])
    const bool = (name: string) => vulkanSays(name) === "true"
    expect(device).toMatchObject({
      description: vulkanSays("deviceName"),
      driver: [
        vulkanSays("driverName"),
        vulkanSays("driverInfo"),
        `Vulkan ${vulkanSays("apiVersion").split(" ")[0]}`,
      ].join(", "),
      features: {
        subgroup_size: number("subgroupSize"),
        f16_storage: bool("storageBuffer16BitAccess"),
        f16_arithmetic: bool("shaderFloat16"),
        int8_storage: bool("storageBuffer8BitAccess"),
        int8_arithmetic: bool("shaderInt8"),
        int8_dot: bool("shaderIntegerDotProduct"),
        int8_dot_accelerated: bool("integerDotProduct4x8BitPackedSignedAccelerated"),
        f64_arithmetic: bool("shaderFloat64"),
        int64: bool("shaderInt64"),
        matrix_units: vulkaninfo.includes("VK_KHR_cooperative_matrix"),
        buffer_addresses: bool("bufferDeviceAddress"),
        keeps_nan: bool("shaderSignedZeroInfNanPreserveFloat32"),
        rounds_to_nearest: bool("shaderRoundingModeRTEFloat32"),
        keeps_subnormals: bool("shaderDenormPreserveFloat32"),
        f16_keeps_nan: bool("shaderSignedZeroInfNanPreserveFloat16"),
        f16_keeps_subnormals: bool("shaderDenormPreserveFloat16"),
        threads_per_group: number("maxComputeWorkGroupInvocations"),
        shared_bytes: number("maxComputeSharedMemorySize"),
        operand_bytes: number("maxPushConstantsSize"),
        largest_allocation_bytes: number("maxMemoryAllocationSize"),
      },
    })
    const type = vulkanSays("deviceType").replace("PHYSICAL_DEVICE_TYPE_", "")
    expect(device!.type === "processor").toBe(type === "CPU")
    const [, heap] = /memoryHeaps\[0\]:\s+size\s+= (\d+)/.exec(vulkaninfo)!
    expect(device!.memory.total).toBeGreaterThanOrEqual(Number(heap))
  },
)

// ------------------------------------------------------------------ OpenCL

const clinfo = output("clinfo", "--raw")
const withoutOpenCl = isLeftOut(clinfo.includes("CL_DEVICE_NAME"))

/** Of the first device, "CL_DEVICE_NAME value" as clinfo prints it. */
function openClSays(name: string): string {
  const [, value] = new RegExp(`\\s${name}\\s+(.+?)\\s*$`, "m").exec(clinfo) ?? []
  return value ?? `clinfo says nothing of ${name}`
}

test.skipIf(withoutOpenCl)(
  `OpenCL's devices are what clinfo says they are${withoutOpenCl ? " (skipped: none here, or no clinfo)" : ""}`,
  async () => {
    const answer = await askDriver({ driver: "opencl", libraries: ["libOpenCL.so.1"] }, PATIENCE)
    const [device] = "devices" in answer ? answer.devices : []
    const extensions = openClSays("CL_DEVICE_EXTENSIONS").split(" ")
    expect(device).toMatchObject({
      description: openClSays("CL_DEVICE_NAME"),
      driver: `${openClSays("CL_DEVICE_VERSION")}, driver ${openClSays("CL_DRIVER_VERSION")}`,
      memory: { total: Number(openClSays("CL_DEVICE_GLOBAL_MEM_SIZE")) },
      features: {
        f16_arithmetic: extensions.includes("cl_khr_fp16"),
        int8_dot: extensions.includes("cl_khr_integer_dot_product"),
        fused_multiply_add: openClSays("CL_DEVICE_SINGLE_FP_CONFIG").includes("CL_FP_FMA"),
        command_buffers: extensions.includes("cl_khr_command_buffer"),
        units: Number(openClSays("CL_DEVICE_MAX_COMPUTE_UNITS")),
        threads_per_group: Number(openClSays("CL_DEVICE_MAX_WORK_GROUP_SIZE")),
        shared_bytes: Number(openClSays("CL_DEVICE_LOCAL_MEM_SIZE")),
        largest_allocation_bytes: Number(openClSays("CL_DEVICE_MAX_MEM_ALLOC_SIZE")),
      },
    })
    const isProcessor = openClSays("CL_DEVICE_TYPE").includes("CL_DEVICE_TYPE_CPU")
    expect(device!.type === "processor").toBe(isProcessor)
  },
)

// ------------------------------------------------------------------ drivers that answer and do not work

// VkQueueFlagBits: graphics 1, compute 2, transfer 4, sparse binding 8, video 32.
test.each([
  ["the one that does not draw, wherever it stands", [15, 12, 14, 44], 2],
  ["the first that computes, where all of those draw", [4, 7, 7], 1],
  ["none where none computes", [5, 4], undefined],
])("kernels are handed to a family of queues: %s", (_, flags, family) => {
  expect(computeFamily(flags)).toBe(family)
})

const opening = {
  vulkan: {
    library: "libvulkan.so.1",
    isSkipped: withoutVulkan,
    prototype: "int vkCreateDevice(void *physical, void *info, void *none, void *out)",
    refuses: "return -3;",
    says: "vkCreateDevice answers -3",
  },
  opencl: {
    library: "libOpenCL.so.1",
    isSkipped: withoutOpenCl,
    prototype:
      "void *clCreateContext(void *with, unsigned count, void *devices, void *tell, void *data, int *code)",
    refuses: "*code = -6; return 0;",
    says: "clCreateContext answers -6",
  },
} as const

const without = isLeftOut(hasCompiler)
for (const driver of ["vulkan", "opencl"] as const) {
  const { library, isSkipped, prototype, refuses, says } = opening[driver]
  const left = isSkipped || without
  test.skipIf(left)(
    `a device of ${driver} that cannot be opened says so, and a driver that hangs there is given up${left ? " (skipped: none here, or no C compiler)" : ""}`,
    async () => {
      const ask = (name: string, body: string, milliseconds: number) => {
        const planted = plantDriver(folder, name, `${prototype} { ${body} }`, library)
        return askDriver({ driver, libraries: [planted] }, milliseconds)
      }
      const [refused, hung] = await Promise.all([
        ask(`refusing-${driver}.so`, refuses, PATIENCE),
        ask(`hanging-${driver}.so`, "for (;;) pause();", 2000),
      ])
      const obstacle = { reason: "driver_failed", problem: says }
      expect(refused).toMatchObject({ devices: [{ obstacle }] })
      expect(hung).toMatchObject({ obstacle: { reason: "driver_hangs" } })
    },
  )
}

/** Lavapipe, which says that it multiplies tiles: `find` is what asking for those does. @param more of VkPhysicalDeviceDriverProperties and so on */
const withTiles = (find: string, type: number, driver: number) => `#define _GNU_SOURCE
  #include <dlfcn.h>
  #define REAL(name, ...) ((int (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name))
  typedef struct Link { uint32_t type; struct Link *next; uint32_t words[]; } Link;
  static Link *linked(Link *each, uint32_t type) {
    while (each && each->type != type) each = each->next;
    return each;
  }
  static const char *extensions[] = {"VK_KHR_cooperative_matrix", "VK_EXT_subgroup_size_control"};
  int vkEnumerateDeviceExtensionProperties(void *device, void *layer, uint32_t *count, char *out) {
    *count = 2;
    for (int i = 0; out && i < 2; i++) strcpy(out + 260 * i, extensions[i]);
    return 0;
  }
  void vkGetPhysicalDeviceProperties2(void *device, Link *out) {
    REAL("vkGetPhysicalDeviceProperties2", void *, void *)(device, out);
    out->words[4] = ${type};
    Link *driver = linked(out, 1000196000), *sizes = linked(out, 1000225000);
    if (driver) driver->words[0] = ${driver};
    if (sizes) sizes->words[0] = 1, sizes->words[1] = 128, sizes->words[3] = 0x20;
  }
  void vkGetPhysicalDeviceFeatures2(void *device, Link *out) {
    REAL("vkGetPhysicalDeviceFeatures2", void *, void *)(device, out);
    Link *matrices = linked(out, 1000506000), *sizes = linked(out, 1000225002), *more = linked(out, 51);
    if (matrices) matrices->words[0] = 1;
    if (sizes) sizes->words[0] = sizes->words[1] = 1;
    if (matrices && more) for (int i = 0; i < 47; i++) more->words[i] = 1;
  }
  static int find(void *device, uint32_t *count, void *list) { ${find} }
  void *vkGetInstanceProcAddr(void *instance, const char *name) {
    if (!strcmp(name, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR")) return find;
    return ((void *(*)(void *, const char *))dlsym(RTLD_NEXT, "vkGetInstanceProcAddr"))(instance, name);
  }`

const leftTiles = withoutVulkan || without
const [INTEGRATED, DISCRETE] = [1, 2]
test.skipIf(leftTiles).each([
  ["that refuses", "return -1;", DISCRETE, 2, true],
  ["that refuses behind the count", "*count = 4; return list ? -1 : 0;", DISCRETE, 3, true],
  // https://github.com/GPUOpen-Drivers/AMDVLK/issues/422
  [
    "of AMD's that ends the process",
    "*count = 4; return list ? abort(), 0 : 0;",
    INTEGRATED,
    1,
    false,
  ],
])(
  `a driver %s when it is asked for tiles keeps its devices${leftTiles ? " (skipped: none here, or no C compiler)" : ""}`,
  async (what, find, type, driver, matrixUnits) => {
    const name = `${what.replaceAll(" ", "-")}.so`
    const planted = plantDriver(folder, name, withTiles(find, type, driver), "libvulkan.so.1")
    const answer = await askDriver({ driver: "vulkan", libraries: [planted] }, PATIENCE)
    expect(answer).toMatchObject({ devices: [{ features: { matrix_units: matrixUnits } }] })
    expect("devices" in answer && answer.devices[0]!.obstacle).toBeUndefined()
  },
)

// ------------------------------------------------------------------ CUDA, Metal

const native = test.skipIf(without)
const titled = (what: string) => (without ? `${what} (skipped: no C compiler)` : what)

native(titled("CUDA's devices, as its driver describes them"), () => {
  const [first, second] = listCuda(plantCuda(folder, "cuda-two.so", { count: 2 }))
  expect(first).toEqual({
    description: "Planted 0",
    type: "gpu",
    driver: "CUDA 12.4",
    memory: { total: 80 * 2 ** 30, available: 70 * 2 ** 30, shared: false },
    features: {
      compute_capability: "9.0",
      subgroup_size: 32,
      f16_storage: true,
      int8_dot: true,
      matrix_units: true,
      units: 114,
      threads_per_group: 1024,
      shared_bytes: 232448,
      reaches: "1",
    },
  })
  expect(second).toMatchObject({
    description: "Planted 1",
    features: {
      compute_capability: "7.0",
      int8_dot: true,
      matrix_units: false,
      reaches: false,
    },
  })
  expect(second!.obstacle).toEqual({
    reason: "unsuitable",
    problem: "its compute capability is 7.0 and 7.5 is needed",
  })
})

// cuMemGetInfo counts as taken what Linux keeps of files and would give back: on a DGX Spark, most of its memory behind a download.
// llama.cpp reads MemAvailable there, too.
native(titled("of a GPU in the processor, CUDA's driver does not say what is free"), () => {
  const [device] = listCuda(plantCuda(folder, "cuda-integrated.so", { integrated: 1 }))
  expect(device).toMatchObject({ type: "integrated_gpu", description: "Planted 0" })
  expect(device!.memory).toEqual({ total: 80 * 2 ** 30, shared: true })
})

/** HIP's, of one GPU in the processor: hipDeviceAttributeIntegrated is 16 in hip_runtime_api.h. */
const integrated = `
  int hipInit(unsigned flags) { return 0; }
  int hipDriverGetVersion(int *out) { *out = 60342131; return 0; }
  int hipGetDeviceCount(int *out) { *out = 1; return 0; }
  int hipSetDevice(int device) { return 0; }
  int hipDeviceGetName(char *name, int length, int device) { strcpy(name, "Planted"); return 0; }
  int hipDeviceGetAttribute(int *out, int what, int device) { return *out = 1, what != 16; }
  int hipDeviceGetPCIBusId(char *text, int length, int device) {
    snprintf(text, length, "0000:c4:00.0");
    return 0;
  }
  int hipDeviceTotalMem(size_t *bytes, int device) { *bytes = 16ul << 30; return 0; }
  int hipMemGetInfo(size_t *left, size_t *total) { *left = 15ul << 30; *total = 16ul << 30; return 0; }
  int hipGetDevicePropertiesR0600(char *properties, int device) {
    strcpy(properties + 1160, "gfx1151");
    return 0;
  }
`

// amdgpu's files in /sys name what the firmware has set apart: mem_info_vram_total. AMD's driver says of either memory what is free, as
// llama.cpp takes it (ggml-org/llama.cpp#27083).
native(
  titled("a GPU in the processor shares its memory, but for what the firmware has set apart"),
  () => {
    const names = [plantDriver(folder, "hip-integrated.so", integrated)]
    const device = join(folder, "sys/bus/pci/devices/0000:c4:00.0")
    mkdirSync(device, { recursive: true })
    const memory = { total: 16 * 2 ** 30, available: 15 * 2 ** 30 }
    const listed = () => listHip(names, folder)
    expect(listed()).toMatchObject([
      { type: "integrated_gpu", memory: { ...memory, shared: true } },
    ])
    writeFileSync(join(device, "mem_info_vram_total"), `${2 ** 29}\n`)
    expect(listed()).toMatchObject([
      { type: "integrated_gpu", memory: { ...memory, shared: true } },
    ])
    writeFileSync(join(device, "mem_info_vram_total"), `${16 * 2 ** 30}\n`)
    expect(listed()).toMatchObject([
      { type: "integrated_gpu", memory: { ...memory, shared: false } },
    ])
  },
)

native(titled("a device that another process has for itself is listed, and says so"), () => {
  const [first, second] = listCuda(plantCuda(folder, "cuda-busy.so", { count: 2, retain: 46 }))
  expect(first!.memory).toEqual({ total: 80 * 2 ** 30, shared: false })
  expect(first!.obstacle).toEqual({
    reason: "no_device",
    problem: "another process has it for itself (exclusive mode)",
  })
  expect(second!.obstacle).toMatchObject({ reason: "unsuitable" }) // and was asked all the same
})

native.each<[string, PlantedCuda, string, RegExp]>([
  ["too old", { version: 10020 }, "driver_too_old", /speaks CUDA 10\.2 and 11\.4 is needed/],
  ["of two versions", { init: 803 }, "driver_too_old", /of different versions/],
  ["without devices", { init: 100 }, "no_device", /finds no device/],
  ["that counts none", { count: 0 }, "no_device", /finds no device/],
  ["that is refused a file", { init: 304 }, "no_permission", /refuses the driver a file/],
  ["with a number of its own", { init: 999 }, "driver_failed", /^cuInit answers 999$/],
])(titled("a CUDA driver %s"), (name, planted, reason, words) => {
  let thrown: unknown
  try {
    listCuda(plantCuda(folder, `cuda-${name.replaceAll(" ", "-")}.so`, planted))
  } catch (error) {
    thrown = error
  }
  expect(thrown).toBeInstanceOf(DriverObstacle)
  const { obstacle } = thrown as DriverObstacle
  expect(obstacle.reason).toBe(reason)
  expect(obstacle.problem).toMatch(words)
})

native(
  titled("a library that lacks a function, or another library, is told from none"),
  async () => {
    const ask = async (libraries: readonly string[]) =>
      askDriver({ driver: "cuda", libraries }, PATIENCE)
    const old = plantCuda(folder, "cuda-old.so", { without: "cuDeviceGetCount" })
    expect(await ask(old)).toEqual({
      obstacle: {
        reason: "driver_too_old",
        problem: expect.stringMatching(/^its driver is too old \(.*cuDeviceGetCount.*\); update/),
      },
    })
    const text = join(folder, "cuda-two.so.c") // what is no library at all
    expect(await ask(["libsinter-none.so.1", text])).toEqual({
      obstacle: {
        reason: "driver_failed",
        problem: expect.stringMatching(/^its driver cannot be loaded: .*cuda-two\.so\.c: /),
      },
    })
    expect(await ask(["libsinter-none.so.2", "libsinter-none.so.1"])).toEqual({
      obstacle: {
        reason: "no_driver",
        problem: "no driver is installed (looked for libsinter-none.so.2, libsinter-none.so.1)",
      },
    })
  },
)

/** An Objective-C runtime that knows an array of one device, and ends the process over a message it does not. */
const metal = `
  static const char device[] = "device", devices[] = "devices", name[] = "name";
  static int released;
  void *MTLCopyAllDevices(void) { return (void *)devices; }
  const char *sel_registerName(const char *selector) { return strdup(selector); }
  void *objc_autoreleasePoolPush(void) { return &released; }
  void objc_autoreleasePoolPop(void *pool) { if (pool != &released) abort(); }
  uint64_t objc_msgSend(const void *self, const char *selector, uint64_t operand) {
  #define ANSWER(object, text, value) if (self == object && !strcmp(selector, text)) return (uint64_t)(value)
    ANSWER(devices, "count", 1);
    ANSWER(devices, "objectAtIndex:", operand == 0 ? device : NULL);
    ANSWER(devices, "release", ++released);
    ANSWER(device, "name", name);
    ANSWER(name, "UTF8String", "Planted M3");
    ANSWER(device, "recommendedMaxWorkingSetSize", 48ull << 30);
    ANSWER(device, "currentAllocatedSize", 1ull << 30);
    ANSWER(device, "hasUnifiedMemory", 1);
    ANSWER(device, "isLowPower", 0);
    ANSWER(device, "supportsFamily:", operand == 1007 || operand == 5001);
    ANSWER(device, "maxThreadgroupMemoryLength", 32768);
    ANSWER(device, "maxBufferLength", 36ull << 30);
    abort();
  }
`

native(titled("a Mac's GPU, through Objective-C's messages"), () => {
  const names = [plantDriver(folder, "metal.so", metal)]
  expect(listMetal(names, names)).toEqual([
    {
      description: "Planted M3",
      type: "integrated_gpu",
      driver: "Metal 3",
      memory: { total: 48 * 2 ** 30, available: 47 * 2 ** 30, shared: true },
      features: {
        f16_storage: true,
        f16_arithmetic: true,
        matrix_units: true,
        shared_bytes: 32768,
        largest_allocation_bytes: 36 * 2 ** 30,
      },
    },
  ])
})

test("versions that lie in one word", () => {
  expect(versionText((1 << 22) | (3 << 12) | 230, [22, 12, 0])).toBe("1.3.230")
})

test("devices are numbered by their type, and those of a type as the driver lists them", () => {
  const listed = [
    "processor",
    "integrated_gpu",
    "gpu",
    "accelerator",
    "virtual_gpu",
    "gpu",
  ] as const
  const order = byType([0, 1, 2, 3, 4, 5], (i) => listed[i]!)
  expect(order).toEqual([2, 5, 4, 1, 3, 0])
})
