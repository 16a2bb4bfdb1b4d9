// SPIR-V and the driver of Vulkan's devices, on the first device that is here: lavapipe in CI. What kernels compute is what the
// slow twin computes, bit for bit, in the words of each profile. The validation layer and what counts memory want a process of
// their own: vulkan-child.ts.

import { execFileSync, spawnSync } from "node:child_process"
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { afterAll, describe, expect, onTestFinished, test, vi } from "vitest"
import { type GpuCase, gpuCases } from "../../src/compiler/targets/gpu/check-cases.ts"
import {
  differences,
  newCancel,
  runOn,
  twinOf,
} from "../../src/compiler/targets/gpu/check-device.ts"
import { f32, fma, i32, kernel, u32 } from "../../src/compiler/targets/gpu/ir/builder.ts"
import { printSpirv, spirvProfiles } from "../../src/compiler/targets/gpu/print/spirv.ts"
import { findDevices } from "../../src/runtime/devices.ts"
import { openDriverLibrary } from "../../src/runtime/ffi.ts"
import { openGpuLibrary } from "../../src/runtime/gpu/program.ts"
import { isTileShape, meets, type Need, type Tape, writeTape } from "../../src/runtime/gpu/tape.ts"
import { openVulkan, type VulkanOptions } from "../../src/runtime/gpu/vulkan.ts"
import { probeCases, probeModule } from "../../src/runtime/gpu/vulkan-probe.ts"
import { seal } from "../../src/runtime/library.ts"
import { ABI, type Manifest } from "../../src/runtime/manifest.ts"
import { ProgramLost } from "../../src/runtime/program.ts"
import { isLeftOut } from "../left-out.ts"
import { batch, blocksFor, take } from "../model/steps.ts"
import { hasCompiler, plantDriver } from "../planted-drivers.ts"
import { adds, describeDriver, expectGivenUp } from "./gpu-driver.ts"
import { randomCases } from "./random-kernels.ts"
import { codeOf } from "./vulkan-kernels.ts"

const open = (options?: VulkanOptions) => openVulkan(0, options).catch(() => undefined)
const [opened, staged] = [await open(), await open({ staged: true })]
afterAll(async () => {
  await opened?.close()
  await staged?.close()
})
const isSkipped = isLeftOut(opened && staged)
const note = isSkipped ? " (skipped: no device of Vulkan)" : ""
const device = () => {
  if (!opened) throw new Error("no device of Vulkan")
  return opened
}

describe.each([
  { name: "mapped", on: opened },
  { name: "staged", on: staged },
])("$name", ({ on }) => {
  describeDriver({
    note,
    isSkipped,
    device: () => on!,
    load: async (each) => (await on!.load(...codeOf([each], [])))[0]!,
  })
})

// ------------------------------------------------------------------ kernels

/** Threads add among themselves, some of them more than once. */
const subgroups: GpuCase = {
  kernel: kernel("subgroups", 64, (k) => {
    const [sums, ones] = ["sums", "ones"].map((name) => k.buffer(name, "u32", "write"))
    const signed = k.buffer("signed", "i32", "write")
    const at = k.let(k.group(0).mul(64).add(k.lane))
    sums!.store(at, k.subgroupSum(at.mul(0x9e3779b9)))
    ones!.store(at, k.subgroupSum(u32(1)).add(k.subgroupSum(k.lane.and(1))))
    signed.store(at, k.subgroupSum(at.bits("i32").sub(100).mul(-7)))
  }),
  operands: [new Uint32Array(192), new Uint32Array(192), new Int32Array(192)],
  groups: [3, 1, 1],
}

/** What becomes of numbers beside a 0 that can be seen before the kernel runs. */
const zeros: GpuCase = (() => {
  const numbers = [0, -0, 1.5, -2.5, 2 ** -149, Infinity, -Infinity, Number.NaN]
  const count = numbers.length
  const written = kernel("zeros", 32, (k) => {
    const input = k.buffer("numbers", "f32", "read")
    const output = k.buffer("results", "f32", "write")
    const start = k.variable(f32(0))
    k.each(count, (i) => {
      const a = input.load(i)
      const results = [
        a.add(0),
        f32(0).add(a),
        a.mul(0),
        f32(0).mul(a),
        a.sub(0),
        f32(0).sub(a),
        a.div(0),
        f32(0).div(a),
        fma(a, f32(0), a),
        fma(a, a, 0),
        u32(0).bits("f32").mul(a),
        i32(0).float().add(a),
        start.now.add(a),
        a.sub(a),
        a.div(a),
        a.mul(1),
        a.neg().add(0),
        a.mul(-0),
        a.add(-0),
      ]
      for (const [j, result] of results.entries()) output.store(i.mul(40).add(j), result)
      k.for(0, 2, 1, (turn) => {
        output.store(i.mul(40).add(20).add(turn), turn.float().mul(a))
        output.store(i.mul(40).add(22).add(turn), turn.float().add(a))
        output.store(i.mul(40).add(24).add(turn), a.div(turn.float()))
        output.store(i.mul(40).add(26).add(turn), turn.float().div(a))
      })
    })
  })
  const operands = [Float32Array.from(numbers), new Float32Array(40 * count)]
  return { kernel: written, operands, groups: [1, 1, 1] }
})()

const cases = [...gpuCases, ...randomCases(6), subgroups, zeros]
/** Kernels that multiply no tiles are the same with all of their shapes: tiles.test.ts is about the others. */
const withoutTiles = spirvProfiles.filter((needs) => !needs.some(isTileShape))

const canRun = (needs: readonly Need[]) => meets(device().traits, needs)

const expectedOf = (each: GpuCase) => twinOf(each, device().traits.subgroup)

describe.skipIf(isSkipped)(`kernels${note}`, () => {
  test.each(cases.map((each) => ({ name: each.kernel.name, each })))(
    "$name, as the twin has it",
    async ({ each }) => {
      const expected = expectedOf(each)
      const profiles = [...withoutTiles, ["float64"] as const].filter(canRun)
      expect(profiles.length).toBeGreaterThanOrEqual(2)
      for (const needs of profiles) {
        const [loaded] = await device().load(...codeOf([each.kernel], needs))
        const found = await runOn(device(), loaded!, each)
        for (const [i, array] of found.entries())
          expect(differences(array, expected[i]!), `operand ${i} with ${needs.join(", ")}`).toEqual(
            [],
          )
      }
    },
  )

  test("what no device of its kind could run is refused by its name", async () => {
    const [modules, [code]] = codeOf([adds], [])
    const load = (changed: object) => device().load(modules, [{ ...code!, ...changed }])
    const { threads, sharedBytes, operandBytes } = device().traits
    await expect(load({ threads: threads + 1 })).rejects.toThrow("internal: adds wants")
    await expect(load({ sharedBytes: sharedBytes + 4 })).rejects.toThrow("internal: adds wants")
    const operands = Array(operandBytes / 4 + 1).fill("word")
    await expect(load({ operands })).rejects.toThrow("internal: adds wants")
  })

  test("dispatches that reach beyond what there is are not recorded", async () => {
    const [add] = await device().load(...codeOf([adds], []))
    const place = await device().allocate(64, "device")
    const record = (operands: object[], groups = [1, 1, 1]) =>
      device().record([{ kernel: add!, operands, groups } as never])
    expect(() => record([{ place, at: 64 }, 1, 1] as never)).toThrow("an operand at 64 of a place")
    expect(() => record([{ place, at: 2 }, 1, 1] as never)).toThrow("an operand at 2 of a place")
    expect(() => record([{ place, at: 0 }] as never)).toThrow("with 1 operands")
    expect(() => record([{ place, at: 0 }, 1, 1] as never, [65536, 1, 1])).toThrow("65536 x 1 x 1")
    device().free(place)
  })
})

// ------------------------------------------------------------------ rounding

/** The kernel whose words vulkan-probe.ts keeps. */
const probe = kernel("probe", 64, (k) => {
  const cases = k.buffer("cases", "f32", "read")
  const results = k.buffer("results", "f32", "write")
  const at = k.let(k.group(0).mul(64).add(k.lane).mul(3))
  const [a, b, c] = [cases.load(at), cases.load(at.add(1)), cases.load(at.add(2))] as const
  results.store(at, fma(a, b, c))
  results.store(at.add(1), a.div(b))
  results.store(at.add(2), a.sqrt())
})

describe("how a device rounds", () => {
  test("is asked by a kernel in the words of the printer", () => {
    const words = printSpirv(probe, ["fma", "division"])
    expect(Buffer.from(words).toString("base64")).toBe(probeModule)
  })

  test("is seen: one who rounds twice is told from one who does not", () => {
    const { cases, results } = probeCases()
    const wrong = (formula: (a: number, b: number, c: number) => number, kind: number) =>
      results.filter((result, i) => {
        const from = i - kind
        const [a, b, c] = cases.subarray(from, from + 3)
        return i % 3 === kind && !Object.is(Math.fround(formula(a!, b!, c!)), result)
      }).length
    expect(wrong((a, b, c) => Math.fround(a * b) + c, 0)).toBeGreaterThan(1000)
    expect(wrong((a, b, c) => a * b + c, 0)).toBeGreaterThan(1000)
    expect(wrong((a, b) => a * Math.fround(1 / b), 1)).toBeGreaterThan(100)
    expect(wrong((a) => a * Math.fround(1 / Math.sqrt(a)), 2)).toBeGreaterThan(100)
    const exact = (a: number, b: number, c: number) => (c === -Math.fround(a * b) ? a * b + c : c)
    expect([wrong(exact, 0), wrong((a, b) => a / b, 1), wrong(Math.sqrt, 2)]).toEqual([0, 0, 0])
  })

  test.skipIf(isSkipped)(`does not show in a kernel's results${note}`, async () => {
    const { cases, results } = probeCases()
    for (const needs of [...spirvProfiles, ["float64"] as const].filter(canRun)) {
      const [loaded] = await device().load(...codeOf([probe], needs))
      const operands = [cases, new Float32Array(cases.length)]
      const groups = [cases.length / 3 / 64, 1, 1] as const
      const found = await runOn(device(), loaded!, { kernel: probe, operands, groups })
      expect(differences(found[1]!, results), needs.join(", ")).toEqual([])
    }
  })

  test.skipIf(isSkipped)(`and what it says of lavapipe is known${note}`, () => {
    if (!device().description.startsWith("llvmpipe")) return
    expect(device().traits).toMatchObject({ division: true, isProcessor: true })
  })
})

// ------------------------------------------------------------------ others' judgement

const validator = "spirv-val"
const withoutValidator = isLeftOut(spawnSync(validator, ["--version"]).status === 0)

test.skipIf(withoutValidator)(
  `modules are valid SPIR-V for Vulkan 1.2${withoutValidator ? ` (skipped: no ${validator})` : ""}`,
  () => {
    const folder = mkdtempSync(join(tmpdir(), "sinter-spirv-"))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const files = [...cases, { kernel: probe }].flatMap(({ kernel }) =>
      withoutTiles.map((needs, i) => {
        const file = join(folder, `${kernel.name}.${i}.spv`)
        writeFileSync(file, printSpirv(kernel, needs))
        return file
      }),
    )
    // From a shell, which is copied in no time: each process that this one begins is a copy of all that tests hold.
    const script = `for file; do ${validator} --target-env vulkan1.2 "$file" 2>&1 || echo "$file"; done`
    expect(execFileSync("sh", ["-c", script, "sh", ...files]).toString()).toBe("")
  },
)

const layer = "/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json"
const withoutLayer = isSkipped || isLeftOut(existsSync(layer))
const layerNote = withoutLayer ? note || " (skipped: no validation layer)" : ""

function child(work: string, env: Record<string, string> = {}) {
  const file = resolve(import.meta.dirname, "vulkan-child.ts")
  const { stdout, stderr, status } = spawnSync(
    process.execPath,
    ["--expose-gc", "--import", "tsx", file, work],
    { env: { ...process.env, ...env }, encoding: "utf8" },
  )
  return { out: stdout, err: stderr, code: status }
}

describe("under the validation layer", () => {
  const env = { VK_INSTANCE_LAYERS: "VK_LAYER_KHRONOS_validation" }

  test.skipIf(withoutLayer)(`everything that the driver does is allowed${layerNote}`, () => {
    expect(child("everything", env)).toEqual({ out: "done\n", err: "", code: 0 })
  })

  test.skipIf(withoutLayer)(`what is not allowed is seen${layerNote}`, () => {
    expect(child("misuse", env).out).toMatch(/VUID-\S*/)
  })
})

test.skipIf(isSkipped)(`a thousand runs leave nothing behind${note}`, () => {
  const { out, err, code } = child("growth")
  expect([code, err]).toEqual([0, ""])
  const { before, after } = JSON.parse(out)
  expect(after.files).toBe(before.files)
  // The driver's own memory comes and goes by 9 MiB; recordings that nobody frees take 24.
  expect(after.resident - before.resident).toBeLessThan(16 << 20)
})

test.skipIf(isSkipped)(`devices have the numbers of the list${note}`, async () => {
  const survey = (await findDevices()).find(({ name }) => name === "vulkan")!
  expect(device().description).toBe(survey.devices[0]!.description)
  expect(device().traits.isProcessor).toBe(survey.devices[0]!.type === "processor")
  expect(device().memory().total).toBe(survey.devices[0]!.memory.total)
  await expect(openVulkan(survey.devices.length)).rejects.toThrow("Vulkan has no device")
})

/** Of one row at a time, whose softmaxes over spans of 64 positions have room four at a time. */
const attention = {
  name: "tokens g0 wall s0",
  order: {
    set: "tokens",
    visible: { group: 0, window: undefined, sinks: 0, span: 64 },
    height: 1,
    slots: 4,
  },
} as const

/** A library of one kernel, which adds 1 to a number, `launches` times a step. Its attention is laid out, and nobody computes it. */
function addingLibrary(numbers = 4, launches = 1): Buffer {
  const [modules, kernels] = codeOf([adds], [])
  const rows = { place: 0, at: 0, stride: 4 }
  const tape: Tape = {
    profiles: [{ needs: [], modules: [{ at: 0, bytes: modules[0]!.length }] }],
    kernels,
    places: [{ name: "numbers", fixed: numbers, perToken: 0, perRow: 0 }],
    packs: [],
    copies: [[]],
    regions: [{ name: "items", of: attention.name, order: attention.order }],
    counts: ["tokens", `chunks ${attention.name}`],
    steps: Array(launches).fill({
      text: [],
      rows: "tokens",
      choices: [
        { launches: [{ kernel: 0, operands: [{ place: 0, at: 0 }, 1, 1], groups: [1, 1, 1] }] },
      ],
    }),
    logits: rows,
    hidden: rows,
  }
  const manifest: Manifest = {
    abi: ABI,
    target: "vulkan",
    architecture: "none",
    format: "q0f32",
    plan: "",
    fingerprint: "",
    shapes: {
      vocabulary: 4,
      hidden: 4,
      layers: 0,
      heads: 0,
      kvHeads: 0,
      headDim: 0,
      intermediate: 0,
      context: 300,
    },
    sinks: 0,
    kv: {
      dtype: "f32",
      groups: [{ layers: [0], kvHeads: 1, headDim: { key: 4, value: 4 }, bytesPerBlock: 512 }],
    },
    bytes: { weights: 0, perToken: 0, perRow: 0, perThread: 0, fixed: 4 },
    features: [],
    parameters: [],
  }
  return seal(writeTape(modules, tape), manifest)
}

const withoutCompiler = isSkipped || isLeftOut(hasCompiler)
const compilerNote = withoutCompiler ? note || " (skipped: no C compiler)" : ""

test.skipIf(isSkipped)(
  `what no piece of its memory holds is refused with both sizes${note}`,
  async () => {
    const folder = mkdtempSync(join(tmpdir(), "sinter-piece-"))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const library = join(folder, "adds.gpu")
    const largest = Math.floor(device().memory().largest / 2 ** 20)
    writeFileSync(library, addingLibrary((largest + 5) * 2 ** 20))
    const limits = { blocks: [1], tokens: 1, sequences: 1, rows: 1 }
    const loan = { device: device(), giveBack: async () => {} }
    await expect(openGpuLibrary(library, limits, [async () => loan])).rejects.toThrow(
      `The model takes ${largest + 5} MiB in one piece, and ${device().description} gives at most ${largest} MiB at once`,
    )
  },
)

test.skipIf(isSkipped)(
  `a step is handed over in pieces that no watchdog minds: of many tokens, and of few behind a long context${note}`,
  async () => {
    const folder = mkdtempSync(join(tmpdir(), "sinter-pieces-"))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const library = join(folder, "adds.gpu")
    writeFileSync(library, addingLibrary(4, 25))
    const limits = { blocks: [20], tokens: 65, sequences: 1, rows: 1 }
    const loan = { device: device(), giveBack: async () => {} }
    const program = await openGpuLibrary(library, limits, [async () => loan])
    onTestFinished(() => program.close())
    const record = vi.spyOn(device(), "record")
    onTestFinished(() => record.mockRestore())
    const pieces: number[][] = []
    for (const [from, tokens] of [
      [10, 1],
      [126, 2],
      [254, 2], // whose spans take twice the room that there is
      [0, 64],
      [0, 65],
    ] as const) {
      record.mockClear()
      const blocks = blocksFor(from + tokens)
      await take(program, batch([{ tokens: new Int32Array(tokens), from, blocks, logits: [] }]))
      pieces.push(record.mock.calls.map(([dispatches]) => dispatches.length))
    }
    expect(pieces).toEqual([[25], [25], [24, 1], [25], [24, 1]])
  },
)

describe.skipIf(withoutCompiler)(`a driver that fails${compilerNote}`, () => {
  const folder = mkdtempSync(join(tmpdir(), "sinter-failing-vulkan-"))
  afterAll(() => rmSync(folder, { recursive: true }))

  /** The driver that is here, but for what `code` does instead: it may call what is here as `real`. */
  async function failing(code: string) {
    const name = `failing${failures++}.so`
    const calls = `#define _GNU_SOURCE
#include <dlfcn.h>
#define REAL(name, ...) ((int (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name))
${code}`
    const library = plantDriver(folder, name, calls, "libvulkan.so.1")
    const broken = await openVulkan(0, { libraries: [library] })
    onTestFinished(() => broken.close())
    return broken
  }
  let failures = 0

  test("memory that it does not have is refused in a sentence, and nothing is kept", async () => {
    const broken = await failing(`
      int vkAllocateMemory(void *device, uint64_t *info, void *none, void *out) {
        if (info[2] > 100 << 20) return -2;
        return REAL("vkAllocateMemory", void *, void *, void *, void *)(device, info, none, out);
      }
      int vkMapMemory(void *device, uint64_t memory, uint64_t at, uint64_t bytes, int flags, void *out) {
        if (bytes > 80 << 20) return -5;
        return REAL("vkMapMemory", void *, uint64_t, uint64_t, uint64_t, int, void *)(device, memory, at, bytes, flags, out);
      }`)
    const { available } = broken.memory()
    for (const bytes of [200 << 20, 90 << 20])
      await expect(broken.allocate(bytes, "device")).rejects.toMatchObject({
        code: "memory_refused",
      })
    expect(broken.memory().available).toBe(available)
    broken.free(await broken.allocate(70 << 20, "device"))
  })

  test("a kernel that it refuses is named, and can be asked for again", async () => {
    const broken = await failing(`
      static int made;
      int vkCreateComputePipelines(void *device, uint64_t cache, int count, void *infos, void *none, void *out) {
        if (++made == 2) return -13;
        return REAL("vkCreateComputePipelines", void *, uint64_t, int, void *, void *, void *)(device, cache, count, infos, none, out);
      }`)
    const load = () => broken.load(...codeOf([adds], []))
    await expect(load()).rejects.toThrow(
      /refuses the kernel adds: vkCreateComputePipelines answers VK_ERROR_UNKNOWN$/,
    )
    expect(await load()).toHaveLength(1)
  })

  test("kernels of the same words are made once", async () => {
    const broken = await failing(`
      static int made;
      int vkCreateComputePipelines(void *device, uint64_t cache, int count, void *infos, void *none, void *out) {
        if (++made > 2) return -13; // the first is the one that finds out how the device rounds
        return REAL("vkCreateComputePipelines", void *, uint64_t, int, void *, void *, void *)(device, cache, count, infos, none, out);
      }`)
    expect(await broken.load(...codeOf([adds, adds], []))).toHaveLength(2)
    expect(await broken.load(...codeOf([adds], []))).toHaveLength(1)
    const others = broken.load(...codeOf([{ ...adds, threads: 64 }], []))
    await expect(others).rejects.toThrow("refuses the kernel adds")
  })

  /** Its pipeline cache says behind the header how many bytes it was handed and how many kernels have run. */
  const keeping = `
    static uint64_t told[2];
    void vkCmdDispatch(void *commands, unsigned x, unsigned y, unsigned z) {
      told[1]++;
      REAL("vkCmdDispatch", void *, unsigned, unsigned, unsigned)(commands, x, y, z);
    }
    int vkCreatePipelineCache(void *device, uint64_t *info, void *none, void *out) {
      told[0] += info[3];
      uint64_t own[5] = {info[0], info[1], info[2], 0, 0};
      return REAL("vkCreatePipelineCache", void *, void *, void *, void *)(device, own, none, out);
    }
    int vkGetPipelineCacheData(void *device, uint64_t cache, size_t *size, char *data) {
      size_t header = 32;
      *size = 48;
      if (data) memcpy(data + 32, told, 16);
      return data ? REAL("vkGetPipelineCacheData", void *, uint64_t, void *, void *)(device, cache, &header, data) : 0;
    }`
  const wordOf = (made: Uint8Array | undefined, at: number) =>
    made && new DataView(made.buffer).getUint32(at, true)
  const handed = (made: Uint8Array | undefined) => wordOf(made, 32)
  const ran = (made: Uint8Array | undefined) => wordOf(made, 40) ?? 0

  test("what it has made of kernels is handed to it again, and nothing that another has made", async () => {
    const first = await failing(keeping)
    const made = await first.madeOf(await first.load(...codeOf([adds], [])))
    expect([made?.length, handed(made)]).toEqual([48, 0])
    const second = await failing(keeping)
    expect(second.maker).toBe(first.maker)
    expect(await second.madeOf(await second.load(...codeOf([adds], []), made))).toBeUndefined()
    for (const at of [0, 8, 12, 31]) {
      const foreign = made!.slice()
      foreign[at]! ^= 1
      const third = await failing(keeping)
      const kernels = await third.load(...codeOf([adds], []), foreign)
      expect(handed(await third.madeOf(kernels))).toBe(0)
    }
  })

  test("a program that is warmed up leaves what was made of its kernels for the next start", async () => {
    vi.stubEnv("XDG_CACHE_HOME", folder)
    onTestFinished(() => void vi.unstubAllEnvs())
    const library = join(folder, "adds.gpu")
    writeFileSync(library, addingLibrary())
    const limits = { blocks: [1], tokens: 1, sequences: 1, rows: 1 }
    const start = async () => {
      const device = await failing(keeping)
      device.traits.isProcessor = false
      const loan = { device, giveBack: async () => {} }
      const program = await openGpuLibrary(library, limits, [async () => loan])
      const before = ran(await device.madeOf([]))
      const heard: string[] = []
      await program.warmUp!(
        (done, total) => heard.push(`${done}/${total}`),
        new AbortController().signal,
      )
      await program.close()
      const made = await device.madeOf([])
      return { heard, handed: handed(made), ran: ran(made) - before }
    }
    const kept = () =>
      readdirSync(join(folder, "sinter/shelf")).filter((name) => name.endsWith(".kernels"))
    expect(await start()).toEqual({ heard: ["0/1", "1/1"], handed: 0, ran: 1 })
    const [name] = kept()
    const path = join(folder, "sinter/shelf", name!)
    const bytes = readFileSync(path)
    expect(await start()).toMatchObject({ heard: ["0/1", "1/1"], handed: undefined })
    writeFileSync(path, bytes.with(40, bytes[40]! ^ 1))
    expect(await start()).toMatchObject({ handed: 0 })
    expect(kept()).toEqual([name])
    expect(readFileSync(path)).toEqual(bytes)
  })

  test("a device that is lost loses the program, now and from then on", async () => {
    const broken = await failing(`
      static int waits;
      int vkWaitForFences(void *device, int count, void *fences, int all, uint64_t nanoseconds) {
        int code = REAL("vkWaitForFences", void *, int, void *, int, uint64_t)(device, count, fences, all, nanoseconds);
        if (++waits % 3 == 0) return 2;
        return waits > 12 ? -4 : code;
      }`)
    const [add] = await broken.load(...codeOf([adds], []))
    const place = await broken.allocate(4, "device")
    const recording = broken.record([
      { kernel: add!, operands: [{ place, at: 0 }, 1, 7], groups: [1, 1, 1] },
    ])
    const run = (times: number) => broken.run(Array(times).fill(recording), newCancel())
    expect(await run(2)).toBe("done")
    await expect(run(10)).rejects.toThrow(ProgramLost)
    await expect(run(1)).rejects.toThrow(/: vkWaitForFences answers VK_ERROR_DEVICE_LOST$/)
    await expect(broken.read(place, 0, new Uint8Array(4))).rejects.toThrow(ProgramLost)
    await expect(broken.write(place, 0, new Uint8Array(4))).rejects.toThrow(ProgramLost)
    await expect(broken.allocate(4, "host")).rejects.toThrow(ProgramLost)
    await expect(broken.load(...codeOf([adds], []))).rejects.toThrow(ProgramLost)
    recording.free()
  })

  // AMD's driver for Windows lists a GPU in a processor so: 512 MiB that the firmware has set apart, here 100, and a part of the host's.
  test("a GPU in a processor takes what it may have of the host's memory, where its own is short", async () => {
    const planted = plantDriver(
      folder,
      "apart.so",
      `#define _GNU_SOURCE
      #include <dlfcn.h>
      #define REAL(name, ...) ((int (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name))
      enum { LOCAL = 1, MAPPED = 2 | 4, CACHED = 8, APART = 100 << 20 };
      static uint64_t apart, beside;
      uint64_t planted_apart(void) { return apart; }
      uint64_t planted_beside(void) { return beside; }
      void vkGetPhysicalDeviceProperties2(void *device, uint32_t *out) {
        REAL("vkGetPhysicalDeviceProperties2", void *, void *)(device, out);
        out[4 + 4] = 1; // integrated
      }
      void vkGetPhysicalDeviceMemoryProperties2(void *device, uint32_t *out) {
        REAL("vkGetPhysicalDeviceMemoryProperties2", void *, void *)(device, out);
        uint32_t *memory = out + 4, *heaps = memory + 66;
        memory[0] = 2;
        memory[1] = LOCAL | MAPPED, memory[2] = 0;
        memory[3] = MAPPED | CACHED, memory[4] = 1;
        memory[65] = 2;
        heaps[0] = APART, heaps[1] = 0, heaps[2] = LOCAL;
        heaps[4] = 1 << 30, heaps[5] = 0, heaps[6] = 0;
      }
      void vkGetBufferMemoryRequirements(void *device, uint64_t buffer, uint32_t *out) {
        REAL("vkGetBufferMemoryRequirements", void *, uint64_t, void *)(device, buffer, out);
        out[4] = 1 | 2;
      }
      int vkAllocateMemory(void *device, const uint64_t *info, void *none, void *out) {
        uint32_t type = info[3];
        if (type == 0 && info[2] > APART) abort(); // which is not allowed
        if (type == 0 && apart + info[2] > APART) return -2;
        *(type ? &beside : &apart) += info[2];
        const uint64_t copy[4] = {info[0], info[1], info[2], 0};
        return REAL("vkAllocateMemory", void *, const void *, void *, void *)(device, copy, none, out);
      }`,
      "libvulkan.so.1",
    )
    const { take } = openDriverLibrary([planted])
    const [apart, beside] = ["apart", "beside"].map((name) => take(`uint64_t planted_${name}()`))
    const amd = await openVulkan(0, { libraries: [planted] })
    onTestFinished(() => amd.close())
    expect(amd.memory()).toMatchObject({ total: (100 + 1024) << 20, shared: true })
    const before = Number(beside!())
    const places = [await amd.allocate(70 << 20, "device"), await amd.allocate(150 << 20, "device")]
    expect(Number(apart!())).toBeLessThanOrEqual(100 << 20)
    expect(Number(beside!()) - before).toBeGreaterThanOrEqual(150 << 20)
    for (const place of places) {
      await amd.write(place, place.bytes - 4, Uint8Array.of(1, 2, 3, 4))
      const read = new Uint8Array(4)
      await amd.read(place, place.bytes - 4, read)
      expect([...read]).toEqual([1, 2, 3, 4])
    }
    const rest = amd.allocate(1100 << 20, "device")
    await expect(rest).rejects.toMatchObject({ code: "memory_refused" })
  })

  test("a queue that has no memory for what it is handed is refused as memory is, and works again", async () => {
    const broken = await failing(`
      static int submits;
      int vkQueueSubmit(void *queue, int count, void *submits_, uint64_t fence) {
        if (++submits % 10 == 9) return -2;
        return REAL("vkQueueSubmit", void *, int, void *, uint64_t)(queue, count, submits_, fence);
      }`)
    const refused: string[] = []
    for (let i = 0; i < 10; i++)
      await broken
        .allocate(4, "device")
        .then((place) => broken.free(place))
        .catch(({ code, message }) => refused.push(`${code}: ${message}`))
    const sentence = `memory_refused: The system has no memory for vkQueueSubmit on ${broken.description}; `
    expect(refused).toEqual([expect.stringMatching(sentence.replace(/[()]/g, "\\$&"))])
  })

  test("one that does not answer is given up, and left alone from then on", async () => {
    const planted = plantDriver(
      folder,
      "silent.so",
      `#define _GNU_SOURCE
      #include <dlfcn.h>
      #define REAL(name, ...) ((int (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name))
      static volatile int held;
      static int asked, waited;
      int planted_hold(int isHeld) { return held = isHeld; }
      int planted_asked(void) { return asked; }
      int planted_waited(void) { return waited; }
      int vkWaitForFences(void *device, int count, void *fences, int all, uint64_t nanoseconds) {
        if (held) return __sync_fetch_and_add(&waited, 1), 2; // VK_TIMEOUT
        return REAL("vkWaitForFences", void *, int, void *, int, uint64_t)(device, count, fences, all, nanoseconds);
      }
      #define COUNTED(name) \
        int name(long a, long b, long c, long d) { return asked++, REAL(#name, long, long, long, long)(a, b, c, d); }
      COUNTED(vkDeviceWaitIdle)
      COUNTED(vkDestroyDevice)
      COUNTED(vkFreeMemory)
      COUNTED(vkFreeCommandBuffers)`,
      "libvulkan.so.1",
    )
    const { take } = openDriverLibrary([planted])
    const silent = await openVulkan(0, { libraries: [planted] })
    const [add] = await silent.load(...codeOf([adds], []))
    const asked = take("int32_t planted_asked()")
    const hold = take("int32_t planted_hold(int32_t isHeld)")
    await expectGivenUp(silent, add!, hold, asked, take("int32_t planted_waited()"))
  })
})
