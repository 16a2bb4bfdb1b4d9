// Builds the stand-in for CUDA's driver and HIP's, and for NVRTC and HIPRTC.

import { spawnSync } from "node:child_process"
import { symlinkSync } from "node:fs"
import { join } from "node:path"
import { buildLibrary } from "./stand-in-library.ts"

const compiler = "g++"
export const hasStandIn = spawnSync(compiler, ["--version"]).status === 0

export interface StandIn {
  /** The driver. */
  library: string
  /** What a process has in its environment that is to find driver and compiler. */
  env: Record<string, string>
  /** Once there is a file of this name, the device is lost. */
  lost: string
}

/** @param without a function that it is to lack */
export async function buildStandIn(folder: string, without?: string): Promise<StandIn> {
  const [library, lost] = [join(folder, "libcuda.so.1"), join(folder, "lost")]
  const source = join(import.meta.dirname, "cuda-stand-in.cpp")
  const simt = `-DSIMT="${join(import.meta.dirname, "simt.hpp")}"`
  const renamed = without === undefined ? [] : [`-D${without}=lacking`]
  const flags = ["-std=c++17", "-w", "-shared", "-fPIC", simt, ...renamed]
  await buildLibrary(compiler, source, flags, library)
  for (const name of ["libamdhip64.so.7", "libhiprtc.so.7"])
    symlinkSync(library, join(folder, name))
  const env = { LD_LIBRARY_PATH: folder, NVRTC: library, STAND_IN_LOST: lost }
  return { library, env, lost }
}
