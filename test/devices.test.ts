// `sinter devices` as a user starts it. Drivers that hang, abort, fault or leave are libraries that stand in the place of
// real ones.

import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, test } from "vitest"
import { isLeftOut } from "./left-out.ts"
import { hasCompiler, plantDriver } from "./planted-drivers.ts"
import { run } from "./sinter.ts"

const folder = mkdtempSync(join(tmpdir(), "sinter-bad-drivers-"))
afterAll(() => rmSync(folder, { recursive: true }))

const without = isLeftOut(hasCompiler)
const titled = (what: string) => (without ? `${what} (skipped: no C compiler)` : what)

const seconds = 5
const bad = {
  cuda: {
    library: "libcuda.so.1",
    code: "int cuInit(unsigned flags) { for (;;) pause(); }",
    reason: "driver_hangs",
    line: `its driver did not answer within ${seconds} s and was given up`,
  },
  rocm: {
    library: "libamdhip64.so.7",
    code: "int hipInit(unsigned flags) { abort(); }",
    reason: "driver_crashed",
    line: "its driver ended the process that asked it (SIGABRT)",
  },
  vulkan: {
    library: "libvulkan.so.1",
    code: "__attribute__((constructor)) static void fault(void) { *(volatile int *)8 = 1; }",
    reason: "driver_crashed",
    line: "its driver ended the process that asked it (SIGSEGV)",
  },
  opencl: {
    library: "libOpenCL.so.1",
    code: 'int clGetPlatformIDs(unsigned most, void *out, unsigned *count) { fprintf(stderr, "words\\n"); _exit(0); }\nint clGetDeviceIDs; int clGetDeviceInfo; int clCreateContext; int clReleaseContext; int clCreateCommandQueue; int clReleaseCommandQueue;',
    reason: "driver_crashed",
    line: "its driver ended the process that asked it",
  },
}

test.skipIf(without)(
  titled("drivers that hang, abort, fault or leave cost one line each"),
  async () => {
    for (const { library, code } of Object.values(bad)) plantDriver(folder, library, code)
    const env = { LD_LIBRARY_PATH: folder }
    const options = ["devices", "--driver-timeout", String(seconds)]
    const printed = await run(options, "", undefined, env)
    expect(printed.err).toBe("")
    expect(printed.code).toBe(0)
    const lines = printed.out.trimEnd().split("\n")
    expect(lines[0]).toMatch(/^cpu:0 +.+, \d+ threads?$/)
    expect(printed.out).toMatch(/^ +memory +[\d.]+ GiB of [\d.]+ GiB free$/m)
    expect(printed.out).toMatch(/^ +reference \(an interpreter\)$/m)
    for (const [kind, { line }] of Object.entries(bad))
      expect(lines.filter((each) => each.startsWith(kind))).toEqual([
        expect.stringMatching(new RegExp(`^${kind} +${escaped(line)}$`)),
      ])
  },
)

const escaped = (text: string) => text.replace(/[()]/g, "\\$&")

test.skipIf(without)(titled("the same as data"), async () => {
  for (const { library, code } of Object.values(bad)) plantDriver(folder, library, code)
  const options = ["devices", "--json", "--driver-timeout", String(seconds)]
  const { out, code } = await run(options, "", undefined, { LD_LIBRARY_PATH: folder })
  expect(code).toBe(0)
  const { devices, missing } = JSON.parse(out)
  expect(devices).toEqual([
    {
      device: "cpu:0",
      name: expect.any(String),
      type: "processor",
      driver: null,
      memory: { total: expect.any(Number), available: expect.any(Number), shared: true },
      features: expect.objectContaining({ architecture: process.arch }),
      targets: [
        { target: "cpu", makes: expect.stringMatching(/^\w+, built by \w+$/), lacks: null },
        { target: "cpu:baseline", makes: expect.stringMatching(/^plain, built by /), lacks: null },
        { target: "reference", makes: "an interpreter", lacks: null },
      ],
      obstacles: [],
    },
  ])
  expect(missing).toEqual(
    Object.entries(bad)
      .map(([kind, { reason, line }]) => ({ kind, reason, problem: line }))
      .toSpliced(2, 0, {
        kind: "metal",
        reason: "no_driver",
        problem: "there is no driver for linux",
      }),
  )
})

test("without a C compiler, what is lacking and the cure stand beside the targets that need one", async () => {
  const lacks = {
    "No C compiler is here; install gcc or clang": { PATH: "/nowhere", CC: undefined },
    'CC names "/nowhere/cc", which does not run; unset it, or name a C compiler that does': {
      CC: "/nowhere/cc",
    },
  }
  for (const [lack, env] of Object.entries(lacks)) {
    const { out } = await run(["devices"], "", undefined, env)
    expect(out).toContain(` cpu (not here: ${lack})\n`)
    expect(out).toMatch(/^ +reference \(an interpreter\)$/m)
  }
})

test("a device of a kind that nothing is compiled for yet says so at the start, with what is here", async () => {
  const { code, err } = await run(["serve", "tiny", "--device", "metal"])
  expect(code).toBe(2)
  expect(err).toMatch(
    /^sinter: --device metal:0 is not on this machine: there is no driver for linux; found: .*cpu:0 \(.+\)\. sinter devices lists/,
  )
})
