// How much memory may be taken, and is: what a device has of its own less a reserve, and of the host's what the machine has
// left, or what the control groups around this process leave of it, if that is less. In a container the machine's own figures
// are not ours to use. Page cache that the kernel would give back counts as free, on both sides: reading a model's file must
// not look like memory in use.

import { execFileSync } from "node:child_process"
import { readFileSync } from "node:fs"
import { freemem, totalmem } from "node:os"
import { dirname, join } from "node:path"
import type { OwnMemory } from "./drivers/driver.ts"

export interface Memory {
  total: number // bytes
  available: number // bytes
  limitedBy: "machine" | "cgroup" | "device"
}

/** The pools that a program takes memory from. */
export interface Budget {
  /** Where its weights, keys and values and buffers lie. */
  device: Memory
  /** The host's; absent: the same pool, in which everything is counted once. */
  host?: Memory
}

/** Of a device's own memory, what its driver, its kernels and other programs' windows take after it was asked. */
const RESERVE = { bytes: 256 * 2 ** 20, share: 0.02 }

/**
 * Of a device that says what it has. One that shares the host's memory has no more than the host has left, and what it has beyond all
 * that the system counts: so much the firmware has set apart for it.
 * @param own `available` absent: the device does not say how much is free
 */
export function budgetOf(own: OwnMemory, host: Memory = readMemory()): Budget {
  const { total, available = total, shared } = own
  const device: Memory = { total, available, limitedBy: "device" }
  if (shared) {
    const apart = host.limitedBy === "machine" ? Math.max(0, total - host.total) : 0
    const most = host.available + apart
    if (available < most) return { device }
    return { device: apart > 0 ? { ...device, available: most } : host }
  }
  const reserve = Math.max(RESERVE.bytes, Math.ceil(total * RESERVE.share))
  return { device: { ...device, available: Math.max(0, available - reserve) }, host }
}

/** Version 2 and version 1 of the control groups: where they are mounted and what their files are called. */
const versions = [
  {
    line: /^0::(\/.*)$/m,
    mount: "sys/fs/cgroup",
    most: "memory.max",
    used: "memory.current",
    reclaimable: /^inactive_file (\d+)$/m,
  },
  {
    line: /^\d+:(?:[^:]*,)?memory(?:,[^:]*)?:(\/.*)$/m,
    mount: "sys/fs/cgroup/memory",
    most: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    reclaimable: /^total_inactive_file (\d+)$/m,
  },
]

/** @param root where /proc and /sys are; for tests. */
export function readMemory(root = "/"): Memory {
  let memory: Memory = machine(root)
  const groups = read(join(root, "proc/self/cgroup"))
  for (const version of versions) {
    // A container sees its own group as the mount itself, while the path may still be the host's: missing folders are passed.
    for (
      let path = version.line.exec(groups)?.[1];
      path;
      path = path === "/" ? "" : dirname(path)
    ) {
      const folder = join(root, version.mount, path)
      const total = number(read(join(folder, version.most)))
      if (!(total < memory.total)) continue // no limit ("max", or a number beyond the machine)
      const [, reclaimable] = version.reclaimable.exec(read(join(folder, "memory.stat"))) ?? []
      const used = number(read(join(folder, version.used))) - Number(reclaimable ?? 0)
      const available = Math.min(memory.available, Math.max(0, total - used))
      memory = { total, available, limitedBy: "cgroup" }
    }
  }
  return memory
}

function machine(root: string): Memory {
  const info = read(join(root, "proc/meminfo"))
  const kib = (name: string) =>
    number(new RegExp(`^${name}:\\s+(\\d+) kB$`, "m").exec(info)?.[1] ?? "")
  const total = kib("MemTotal") * 1024
  const available = kib("MemAvailable") * 1024
  if (total > 0) return { total, available, limitedBy: "machine" }
  const ofMac = process.platform === "darwin" ? availableOf(vmStat()) : undefined
  return { total: totalmem(), available: ofMac ?? freemem(), limitedBy: "machine" }
}

/**
 * What a Mac can give without what programs use now: pages that are free, read ahead of anybody's wish, or inactive, as psutil
 * counts them. Node's own figure has the first two alone, a tenth of a GiB on a Mac that caches files. Purgeable pages are among the
 * others already.
 * @param statistics as vm_stat prints them
 * @returns bytes; undefined where it says something else
 */
export function availableOf(statistics: string): number | undefined {
  const numberIn = (line: RegExp) => Number(line.exec(statistics)?.[1])
  const pages = ["free", "speculative", "inactive"]
    .map((name) => numberIn(new RegExp(`^Pages ${name}:\\s+(\\d+)\\.$`, "m")))
    .reduce((sum, count) => sum + count)
  const available = pages * numberIn(/page size of (\d+) bytes/)
  return Number.isNaN(available) ? undefined : available
}

/** Empty where it does not run. */
function vmStat(): string {
  try {
    return execFileSync("/usr/bin/vm_stat", {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    })
  } catch {
    return ""
  }
}

/** Bytes that this process has on pages of 2 MiB; undefined where the system does not say. It looks at every page for it. */
export function bytesOnHugePages(): number | undefined {
  const [, kib] = /^AnonHugePages:\s+(\d+) kB$/m.exec(read("/proc/self/smaps_rollup")) ?? []
  return kib ? Number(kib) * 1024 : undefined
}

const number = (text: string) => (/^\d+\s*$/.test(text) ? Number(text) : Number.NaN)

function read(file: string): string {
  try {
    return readFileSync(file, "utf8")
  } catch {
    return ""
  }
}
