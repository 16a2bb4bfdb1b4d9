// What this processor can do, in the names Linux gives it ("avx512_vnni", "asimddp"): a library lists what it was built
// for, and is opened only where all of that is here. Where the system shows nothing, nothing is assumed.

import { readFileSync } from "node:fs"

/** Every Mac with an ARM processor has these; the system does not list them by these names. */
const appleFeatures = ["asimd", "asimddp", "fphp", "asimdhp"]

export function processorFeatures(): ReadonlySet<string> {
  if (process.platform === "darwin" && process.arch === "arm64") return new Set(appleFeatures)
  try {
    return parseFeatures(readFileSync("/proc/cpuinfo", "utf8"))
  } catch {
    return new Set()
  }
}

/** The features that every core of a /proc/cpuinfo has: cores may differ. */
export function parseFeatures(cpuinfo: string): ReadonlySet<string> {
  const cores = [...cpuinfo.matchAll(/^(?:flags|Features)\s*:(.*)$/gm)].map(
    ([, names]) => new Set(names!.trim().split(/\s+/)),
  )
  const [first, ...others] = cores
  return new Set([...(first ?? [])].filter((name) => others.every((core) => core.has(name))))
}
