// Builds the stand-in for Metal and the Objective-C runtime, and says how a process is started that finds its devices.

import { spawnSync } from "node:child_process"
import { join } from "node:path"
import { built, type Installed } from "../../sinter.ts"
import { buildLibrary } from "../stand-in-library.ts"

export const compiler = "g++"
/** It knows the calls of x86-64 alone. */
export const hasStandIn =
  process.arch === "x64" &&
  process.platform === "linux" &&
  spawnSync(compiler, ["--version"]).status === 0

export interface MetalStandIn {
  library: string
  /** Once there is a file of this name, commands fail. */
  lost: string
}

export async function buildStandIn(folder: string): Promise<MetalStandIn> {
  const library = join(folder, "metal.so")
  const here = import.meta.dirname
  const flags = ["-std=c++17", "-w", "-O1", "-shared", "-fPIC", `-DHERE="${here}"`, "-ldl"]
  await buildLibrary(compiler, join(here, "stand-in.cpp"), flags, library)
  return { library, lost: join(folder, "lost") }
}

/** What a process has in its environment. */
export const environment = ({ library }: MetalStandIn, devices: number) => ({
  LD_PRELOAD: library,
  STAND_IN_DEVICES: `${devices}`,
})

const [node, ...program] = built.command
/** On what takes itself for a Mac. */
export const asMac: Installed = {
  command: [node!, "--import", join(import.meta.dirname, "as-mac.mjs"), ...program],
  folder: built.folder,
}
