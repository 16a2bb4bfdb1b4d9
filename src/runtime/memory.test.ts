import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { afterEach, beforeEach, expect, test } from "vitest"
import { availableOf, budgetOf, type Memory, readMemory } from "./memory.ts"

const GIB = 2 ** 30
let root: string
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "sinter-memory-"))
  put("proc/meminfo", "MemTotal:       16777216 kB\nMemFree:  9 kB\nMemAvailable:   12582912 kB\n")
})
afterEach(() => rmSync(root, { recursive: true }))

function put(file: string, text: string): void {
  mkdirSync(dirname(join(root, file)), { recursive: true })
  writeFileSync(join(root, file), text)
}

test("no control groups: the machine's own figures", () => {
  expect(readMemory(root)).toEqual({
    total: 16 * GIB,
    available: 12 * GIB,
    limitedBy: "machine",
  })
})

test("version 2: the tightest group on the way up, page cache counted as free", () => {
  put("proc/self/cgroup", "0::/pods/one\n")
  put("sys/fs/cgroup/pods/memory.max", `${4 * GIB}\n`)
  put("sys/fs/cgroup/pods/memory.current", `${3 * GIB}\n`)
  put("sys/fs/cgroup/pods/memory.stat", `anon ${GIB}\ninactive_file ${2 * GIB}\n`)
  put("sys/fs/cgroup/pods/one/memory.max", "max\n")
  put("sys/fs/cgroup/pods/one/memory.current", `${GIB}\n`)
  expect(readMemory(root)).toEqual({ total: 4 * GIB, available: 3 * GIB, limitedBy: "cgroup" })
})

test("version 1, in a container that sees its group as the mount", () => {
  put("proc/self/cgroup", "4:cpu,memory:/docker/abc\n3:cpuset:/docker/abc\n0::/\n")
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", `${GIB}\n`)
  put("sys/fs/cgroup/memory/memory.usage_in_bytes", `${GIB / 2}\n`)
  put("sys/fs/cgroup/memory/memory.stat", `total_inactive_file ${GIB / 4}\n`)
  expect(readMemory(root)).toEqual({
    total: GIB,
    available: GIB * 0.75,
    limitedBy: "cgroup",
  })
})

test("version 1 without a limit says a number beyond the machine", () => {
  put("proc/self/cgroup", "4:memory:/\n")
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
  expect(readMemory(root).limitedBy).toBe("machine")
})

test("a full group leaves nothing, not less than nothing", () => {
  put("proc/self/cgroup", "0::/\n")
  put("sys/fs/cgroup/memory.max", `${GIB}\n`)
  put("sys/fs/cgroup/memory.current", `${2 * GIB}\n`)
  expect(readMemory(root).available).toBe(0)
})

// The lines that Apple's vm_stat prints, in their order; psutil's "available" of them is free (with speculative) and inactive.
const statistics = `Mach Virtual Memory Statistics: (page size of 16384 bytes)
Pages free:                                6258.
Pages active:                            393087.
Pages inactive:                          390262.
Pages speculative:                         2141.
Pages throttled:                              0.
Pages wired down:                        123456.
Pages purgeable:                           5011.
"Translation faults":                  98765432.
Pages copy-on-write:                     345678.
Pages reactivated:                       234567.
Pages purged:                             45678.
File-backed pages:                       456789.
Anonymous pages:                         678901.
`

test("on a Mac: pages that are free or not in use, whatever a page's size", () => {
  const pages = 6258 + 390262 + 2141
  expect(availableOf(statistics)).toBe(pages * 16384)
  expect(availableOf(statistics.replace("16384", "4096"))).toBe(pages * 4096)
})

test("on a Mac that says it otherwise: nothing is made up", () => {
  for (const line of ["Pages inactive", "Pages speculative", "page size"])
    expect(availableOf(statistics.replace(line, "something"))).toBeUndefined()
  expect(availableOf("")).toBeUndefined()
})

test("here, something is available", () => {
  expect(readMemory().available).toBeGreaterThan(0)
})

test("a device with memory of its own leaves the host's to others; one that shares it has one pool", () => {
  const host: Memory = { total: 16 * GIB, available: 10 * GIB, limitedBy: "cgroup" }
  const own = { total: 24 * GIB, available: 20 * GIB, shared: false }
  const left = 20 * GIB - Math.ceil(24 * GIB * 0.02)
  const device = { total: 24 * GIB, available: left, limitedBy: "device" }
  expect(budgetOf(own, host)).toEqual({ device, host })
  const small = { total: 8 * GIB, shared: false } // of which 2 % are little
  expect(budgetOf(small, host).device.available).toBe(8 * GIB - GIB / 4)
  expect(budgetOf({ ...small, available: GIB / 8 }, host).device.available).toBe(0)
  // A GPU in the processor may be told of more than the system has left, or allowed less.
  expect(budgetOf({ ...own, shared: true }, host)).toEqual({ device: host })
  const machine: Memory = { ...host, total: 16 * GIB, limitedBy: "machine" }
  expect(budgetOf({ ...own, total: 16 * GIB, shared: true }, machine)).toEqual({ device: machine })
  const allowed = { total: 12 * GIB, available: 8 * GIB, shared: true }
  expect(budgetOf(allowed, host)).toEqual({
    device: { total: 12 * GIB, available: 8 * GIB, limitedBy: "device" },
  })
})

// Of 128 GiB, 96 are set apart for the GPU by the firmware: the system counts 32, half of which the GPU may have beside its own.
test("what the firmware has set apart for a GPU in the processor is the GPU's, whatever the host has left", () => {
  const host: Memory = { total: 32 * GIB, available: 10 * GIB, limitedBy: "machine" }
  const own = { total: (96 + 16) * GIB, available: (95 + 16) * GIB, shared: true }
  const device = { total: own.total, available: (10 + 112 - 32) * GIB, limitedBy: "device" }
  expect(budgetOf(own, host)).toEqual({ device })
  const taken = { ...own, available: 40 * GIB }
  expect(budgetOf(taken, host)).toEqual({ device: { ...device, available: 40 * GIB } })
  // How much the whole machine has is not known in a group that may take less.
  expect(budgetOf(own, { ...host, limitedBy: "cgroup" }).device.available).toBe(10 * GIB)
})
