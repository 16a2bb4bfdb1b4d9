// Libraries that a test puts where a driver's would be: C, compiled into a folder that LD_LIBRARY_PATH names for the
// processes that the test starts.

import { execFileSync, spawnSync } from "node:child_process"
import { writeFileSync } from "node:fs"
import { join } from "node:path"

const compiler = "cc"

export const hasCompiler =
  process.platform === "linux" && spawnSync(compiler, ["--version"]).status === 0

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

export interface PlantedCuda {
  init?: number
  version?: number
  count?: number
  /** What retaining the first device's context answers. */
  retain?: number
  /** Left out of the library. */
  without?: string
}

/** A driver of CUDA's devices, as the names and numbers of cuda.h have it. @returns the names of its library */
export function plantCuda(folder: string, name: string, planted: PlantedCuda): readonly [string] {
  const { init = 0, version = 12040, count = 1, retain = 0, without = "" } = planted
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
        case 18: *out = 0; return 0;
        case 75: *out = device ? 7 : 9; return 0;
        case 76: *out = 0; return 0;
        case 97: *out = 232448; return 0;
        default: return 1;
      }
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
