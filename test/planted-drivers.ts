// Libraries that a test puts where a driver's would be: C, compiled into a folder that LD_LIBRARY_PATH names for the
// processes that the test starts.

import { execFileSync, spawnSync } from "node:child_process"
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"

const compiler = "cc"

export const hasCompiler =
  process.platform === "linux" && spawnSync(compiler, ["--version"]).status === 0

/** Where Linux keeps what Vulkan's loader is told of drivers. */
const MANIFESTS = "/usr/share/vulkan/icd.d"

const headers = ["stdio", "stdlib", "string", "stdint", "unistd", "stdbool"]

/**
 * @param behind a library that has what this one lacks
 * @returns its path
 */
export function plantDriver(folder: string, name: string, code: string, behind?: string): string {
  const [source, path] = [join(folder, `${name}.c`), join(folder, name)]
  writeFileSync(source, headers.map((header) => `#include <${header}.h>\n`).join("") + code)
  const linked = behind === undefined ? [] : ["-Wl,--no-as-needed", `-l:${behind}`]
  execFileSync(compiler, ["-shared", "-fPIC", "-O1", "-o", path, source, ...linked])
  return path
}

/** What mesa calls lavapipe. Undefined where it is not installed. */
const lavapipe = existsSync(MANIFESTS)
  ? readdirSync(MANIFESTS).find((file) => /^lvp_icd/.test(file))
  : undefined

/** A driver that is lost as soon as there is a file of the name `lost`. */
export interface Losable {
  lost: string
  /** What a process must have in its environment. */
  env: Record<string, string>
}

/**
 * Lavapipe, until there is a file of the name `lost`: from then on it answers that its device is lost.
 * @param how or ends the process, as a driver does that crashes
 * @returns undefined without lavapipe or a compiler
 */
export function plantLosableVulkan(
  folder: string,
  how: "answers" | "crashes" = "answers",
): Losable | undefined {
  if (!hasCompiler || !lavapipe) return undefined
  const { ICD: icd } = JSON.parse(readFileSync(join(MANIFESTS, lavapipe), "utf8"))
  const lost = join(folder, "lost")
  const code = `
    #include <dlfcn.h>
    typedef void (*Function)(void);
    typedef Function (*Find)(void *, const char *);
    static void *behind(const char *name) { return dlsym(dlopen("${icd.library_path}", RTLD_NOW), name); }
    static Find ofDevice;
    static int (*submit)(void *, uint32_t, void *, uint64_t);
    static int submitUnlessLost(void *queue, uint32_t count, void *submits, uint64_t fence) {
      if (access("${lost}", F_OK)) return submit(queue, count, submits, fence);
      return ${how === "answers" ? "-4" : "(_exit(1), 0)"};
    }
    static Function ofPlanted(void *device, const char *name) {
      Function found = ofDevice(device, name);
      if (strcmp(name, "vkQueueSubmit")) return found;
      submit = (void *)found;
      return (Function)submitUnlessLost;
    }
    Function vk_icdGetInstanceProcAddr(void *instance, const char *name) {
      Function found = ((Find)behind("vk_icdGetInstanceProcAddr"))(instance, name);
      if (strcmp(name, "vkGetDeviceProcAddr")) return found;
      ofDevice = (Find)found;
      return (Function)ofPlanted;
    }
    Function vk_icdGetPhysicalDeviceProcAddr(void *instance, const char *name) {
      return ((Find)behind("vk_icdGetPhysicalDeviceProcAddr"))(instance, name);
    }
    int vk_icdNegotiateLoaderICDInterfaceVersion(uint32_t *version) {
      return ((int (*)(uint32_t *))behind("vk_icdNegotiateLoaderICDInterfaceVersion"))(version);
    }`
  icd.library_path = plantDriver(folder, "libvulkan_losable.so", code)
  const manifest = join(folder, "losable.json")
  writeFileSync(manifest, JSON.stringify({ ICD: icd, file_format_version: "1.0.0" }))
  return { lost, env: { VK_ICD_FILENAMES: manifest, VK_DRIVER_FILES: manifest } }
}

/** Where Linux keeps what OpenCL's loader is told of drivers: a file with a library's name for each. */
const VENDORS = "/etc/OpenCL/vendors"

const pocl = existsSync(VENDORS)
  ? readdirSync(VENDORS).find((file) => /^pocl/.test(file))
  : undefined

/** The same of PoCL: the loader calls what stands in a table that all of a driver's objects point to, in the order of cl_icd.h. */
export function plantLosableOpencl(folder: string): Losable | undefined {
  if (!hasCompiler || !pocl) return undefined
  const driver = readFileSync(join(VENDORS, pocl), "utf8").trim()
  const lost = join(folder, "lost-opencl")
  const code = `
    #include <dlfcn.h>
    #include <sys/mman.h>
    enum { DISPATCH = 59, EXTENSION = 107, PAGE = 4096 };
    static void *behind(const char *name) {
      void *find = dlsym(dlopen("${driver}", RTLD_NOW), "clGetExtensionFunctionAddress");
      return ((void *(*)(const char *))find)(name);
    }
    static int (*dispatch)(void *, void *, unsigned, void *, void *, void *, unsigned, void *, void *);
    static int dispatchUnlessLost(void *queue, void *kernel, unsigned axes, void *from, void *threads,
                                  void *group, unsigned events, void *after, void *event) {
      if (!access("${lost}", F_OK)) return -36;
      return dispatch(queue, kernel, axes, from, threads, group, events, after, event);
    }
    static int (*enqueue)(unsigned, void *, void *, unsigned, void *, void *);
    static int enqueueUnlessLost(unsigned queues, void *queue, void *buffer, unsigned events, void *after,
                                 void *event) {
      return access("${lost}", F_OK) ? enqueue(queues, queue, buffer, events, after, event) : -36;
    }
    static void *(*extension)(void *, const char *);
    static void *extensionUnlessLost(void *platform, const char *name) {
      void *found = extension(platform, name);
      if (!found || strcmp(name, "clEnqueueCommandBufferKHR")) return found;
      enqueue = found;
      return enqueueUnlessLost;
    }
    static int platforms(unsigned most, void ***out, unsigned *count) {
      int code = ((int (*)(unsigned, void ***, unsigned *))behind("clIcdGetPlatformIDsKHR"))(most, out, count);
      if (code || !out || dispatch) return code;
      void **table = out[0][0];
      mprotect((void *)((uintptr_t)table & -PAGE), 2 * PAGE, PROT_READ | PROT_WRITE);
      dispatch = table[DISPATCH];
      table[DISPATCH] = dispatchUnlessLost;
      extension = table[EXTENSION];
      table[EXTENSION] = extensionUnlessLost;
      return code;
    }
    void *clGetExtensionFunctionAddress(const char *name) {
      return strcmp(name, "clIcdGetPlatformIDsKHR") ? behind(name) : (void *)platforms;
    }`
  const vendors = join(folder, "vendors")
  mkdirSync(vendors)
  writeFileSync(join(vendors, "losable.icd"), plantDriver(folder, "libopencl_losable.so", code))
  return { lost, env: { OCL_ICD_VENDORS: vendors } }
}

export interface PlantedCuda {
  init?: number
  version?: number
  count?: number
  /** 1: built into the processor, whose memory it has. */
  integrated?: number
  /** What retaining the first device's context answers. */
  retain?: number
  /** Left out of the library. */
  without?: string
}

/** A driver of CUDA's devices, as the names and numbers of cuda.h have it. @returns the names of its library */
export function plantCuda(folder: string, name: string, planted: PlantedCuda): readonly [string] {
  const { init = 0, version = 12040, count = 1, integrated = 0 } = planted
  const { retain = 0, without = "" } = planted
  const functions = {
    cuInit: `int cuInit(unsigned flags) { return ${init}; }`,
    cuDriverGetVersion: `int cuDriverGetVersion(int *out) { *out = ${version}; return 0; }`,
    cuDeviceGetCount: `int cuDeviceGetCount(int *out) { *out = ${count}; return 0; }`,
    cuDeviceGet: "int cuDeviceGet(int *out, int number) { *out = number; return 0; }",
    cuDeviceGetName: `int cuDeviceGetName(char *name, int length, int device) {
      snprintf(name, length, "Planted %d", device);
      return 0;
    }`,
    cuDeviceGetAttribute: `int cuDeviceGetAttribute(int *out, int what, int device) {
      switch (what) {
        case 1: *out = 1024; return 0;
        case 10: *out = 32; return 0;
        case 16: *out = 114; return 0;
        case 18: *out = ${integrated}; return 0;
        case 75: *out = device ? 7 : 9; return 0;
        case 76: *out = 0; return 0;
        case 97: *out = 232448; return 0;
        default: return 1;
      }
    }`,
    cuDeviceCanAccessPeer: `int cuDeviceCanAccessPeer(int *out, int device, int other) {
      *out = device < other; // one way alone
      return 0;
    }`,
    cuDeviceTotalMem_v2:
      "int cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = 80ul << 30; return 0; }",
    cuDevicePrimaryCtxRetain: `static int held;
    int cuDevicePrimaryCtxRetain(void **context, int device) {
      if (held) return 2; // there is room for one
      if (${retain} && !device) return ${retain};
      *context = &held;
      held = 1;
      return 0;
    }`,
    cuDevicePrimaryCtxRelease_v2:
      "int cuDevicePrimaryCtxRelease_v2(int device) { held = 0; return 0; }",
    cuCtxSetCurrent: "int cuCtxSetCurrent(void *context) { return context == &held ? 0 : 201; }",
    cuMemGetInfo_v2:
      "int cuMemGetInfo_v2(size_t *left, size_t *total) { *left = 70ul << 30; *total = 80ul << 30; return 0; }",
  }
  const code = Object.entries(functions).filter(([name]) => name !== without)
  return [plantDriver(folder, name, code.map(([, text]) => text).join("\n"))]
}
