// Blocks of GGUF taken apart in C (blocks.c): by the library of a program, or, for one that is none, by what a package brings.

import { existsSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { codeRoot } from "../code-root.ts"
import { type NativeUnpackBlocks, openBlocks } from "./ffi.ts"
import type { UnpackBlocks } from "./program.ts"

/** What blocks.c is called where it lies compiled for a system, beside the generic kernels. */
export const blocksName = (platform: NodeJS.Platform, arch: NodeJS.Architecture) =>
  `${platform}-${arch}-blocks.bin`

let opened: UnpackBlocks | undefined

/** The package's; undefined where it was not built for this system, as in a checkout. */
export function packageBlocks(): UnpackBlocks | undefined {
  const name = `generic/${blocksName(process.platform, process.arch)}`
  opened ??= blocksIn(fileURLToPath(new URL(name, codeRoot)))
  return opened
}

/** @param path of blocks.c, compiled; undefined where there is none, or none for this system's libc */
function blocksIn(path: string): UnpackBlocks | undefined {
  if (!existsSync(path)) return undefined
  try {
    return checked(openBlocks(path))
  } catch {
    return undefined
  }
}

const OK = 0 // SINTER_OK of abi.h

export function checked(unpack: NativeUnpackBlocks): UnpackBlocks {
  return async (...of) => {
    if ((await unpack(...of)) !== OK)
      throw new Error(`internal: blocks of the type ${of[0]} are not taken apart`)
  }
}
