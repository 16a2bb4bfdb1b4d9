// What whoever reads the table takes for granted of every row.

import { execFileSync } from "node:child_process"
import { expect, test } from "vitest"
import { deviceNames } from "../../runtime/devices.ts"
import {
  isLibraryName,
  lackFor,
  libraryTargets,
  targetNames,
  targetOf,
  targets,
  targetsOf,
} from "./targets.ts"

test("a plan is made before its target is known, so all targets of a device want the same", () => {
  for (const device of deviceNames)
    for (const name of targetsOf(device))
      expect([name, targets[name].traits]).toEqual([name, targets[targetsOf(device)[0]!].traits])
})

test("every target is run by a device that has a name, and keeps libraries under a name of its own", () => {
  for (const name of targetNames) {
    expect(targets[name].devices.length).toBeGreaterThan(0)
    expect(deviceNames).toEqual(expect.arrayContaining([...targets[name].devices]))
  }
  const files = libraryTargets.map((name) => targets[name].library!.file)
  expect(files).toEqual([...new Set(files)])
  expect(files).toEqual(expect.arrayContaining(["cpu.so", "cpu-baseline.so"]))
})

test("the shelf tells libraries from weights by their names", () => {
  const names = ["0123.so", "cpu-baseline.so", "0123.weights", "so", "0123.so.lock"]
  expect(names.filter(isLibraryName)).toEqual(["0123.so", "cpu-baseline.so"])
})

test("every row says what it lacks on this machine, or what it makes", async () => {
  for (const name of targetNames) {
    const lack = await targets[name].lacks()
    expect(lack?.problem ?? (await targets[name].makes())).toMatch(/\w/)
  }
  expect(await targets.reference.lacks()).toBeUndefined()
})

test("every kind of device has a target", () => {
  for (const device of deviceNames) expect(targetsOf(device)).not.toEqual([])
})

test("a name that a library made up is no target", () => {
  for (const name of ["tpu", "toString", "__proto__", ""]) expect(targetOf(name)).toBeUndefined()
  expect(targetOf("cpu")).toBe(targets.cpu)
})

test("reading the table loads no native package", () => {
  const script = `
    import("${new URL("./targets.ts", import.meta.url).href}").then(() => {
      console.log(process.report.getReport().sharedObjects.filter((path) => /koffi/.test(path)).length)
    })`
  const parameters = ["--import", "tsx", "--eval", script]
  expect(execFileSync(process.execPath, parameters, { encoding: "utf8" }).trim()).toBe("0")
})

test("where nothing makes PTX, CUDA's devices lack it and the processor lacks nothing", async () => {
  const { NVRTC } = process.env
  process.env.NVRTC = "/nowhere/libnvrtc.so"
  try {
    expect((await lackFor("cuda"))?.problem).toBe(
      "No compiler for CUDA is here (looked for /nowhere/libnvrtc.so)",
    )
    expect(await lackFor("cpu")).toBeUndefined()
  } finally {
    if (NVRTC === undefined) delete process.env.NVRTC
    else process.env.NVRTC = NVRTC
  }
})
