// The systems that C is built for, and which of them this process runs on. Linux has two C libraries, glibc and musl (Alpine); what is
// built for one is not to be opened in a process of the other, whatever the file is called. The C library itself is asked: files of both
// may lie on one machine, and a process has one of them.

import { hasGlibc } from "./ffi.ts"

/** A system and its kind of processor, in Node's names. */
export interface System {
  platform: NodeJS.Platform
  arch: NodeJS.Architecture
  /** Absent: the one that nearly everybody has. */
  libc?: "musl"
}

export const systems: readonly System[] = (["x64", "arm64"] as const).flatMap((arch): System[] => [
  { platform: "linux", arch },
  { platform: "linux", arch, libc: "musl" },
  { platform: "darwin", arch },
  { platform: "win32", arch },
])

/** As files are named that are built for it: "linux-x64", "linux-x64-musl". */
export function systemName({ platform, arch, libc }: System): string {
  return [platform, arch, ...(libc ? [libc] : [])].join("-")
}

let here: System | undefined

export function thisSystem(): System {
  const { platform, arch } = process
  here ??= { platform, arch, ...(platform === "linux" && !hasGlibc() && { libc: "musl" }) }
  return here
}
