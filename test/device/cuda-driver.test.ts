// CUDA's devices and HIP's on a stand-in for their drivers' libraries: what every driver promises, and whole servers.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setImmediate } from "node:timers/promises"
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest"
import { languageKernels } from "../../src/compiler/targets/gpu/check-cases.ts"
import { checkShapes } from "../../src/compiler/targets/gpu/check-device.ts"
import { printCuda } from "../../src/compiler/targets/gpu/print/cuda.ts"
import { findRunTimeCompiler } from "../../src/compiler/targets/gpu/run-time-compiler.ts"
import { DriverObstacle } from "../../src/runtime/drivers/driver.ts"
import { openDriverLibrary } from "../../src/runtime/ffi.ts"
import { openCuda, openHip } from "../../src/runtime/gpu/cuda.ts"
import type { GpuDevice } from "../../src/runtime/gpu/device.ts"
import { PATIENCE } from "../../src/runtime/gpu/patience.ts"
import { hiprtcLibraries } from "../../src/runtime/gpu/run-time-compiler.ts"
import { isLeftOut } from "../left-out.ts"
import { notCancelled } from "../model/steps.ts"
import { built, run, serve } from "../sinter.ts"
import { buildStandIn, hasStandIn, type StandIn } from "./cuda-stand-in.ts"
import { adds, describeDriver, expectGivenUp, sums } from "./gpu-driver.ts"

const isSkipped = isLeftOut(hasStandIn)
const note = isSkipped ? " (skipped: no g++)" : ""

const folder = mkdtempSync(join(tmpdir(), "sinter-cuda-stand-in-"))
let standIn: StandIn
beforeAll(async () => {
  if (!isSkipped) standIn = await buildStandIn(folder)
}, 60_000)
afterAll(() => rmSync(folder, { recursive: true }))

/** As the stand-in of CUDA's compiler makes it; to HIP's this is a comment. */
function textOf(kernels: Parameters<typeof printCuda>[0]) {
  const printed = printCuda(kernels, ["dot4"])
  return { ...printed, text: `// PTX\n${printed.text}` }
}

const MILLISECONDS = 240_000

const hiprtc = await findRunTimeCompiler({ compiler: "hiprtc", names: hiprtcLibraries([]) })
const hasHiprtc = isSkipped || isLeftOut(hiprtc === undefined)

test.skipIf(hasHiprtc)(
  `text on HIP's devices is refused in a sentence where its compiler is not installed${hasHiprtc ? " (skipped: no g++, or HIPRTC is here)" : ""}`,
  async () => {
    const own = mkdtempSync(join(folder, "without-"))
    const { library } = await buildStandIn(own, "hiprtcCreateProgram")
    const device = await openHip(0, [library])
    try {
      const { text, kernels } = textOf([adds])
      const loading = device.load([Buffer.from(text)], kernels)
      await expect(loading).rejects.toThrow(DriverObstacle)
      await expect(loading).rejects.toThrow(
        /refuses \d+ bytes of kernels: AMD's compiler HIPRTC is not here \(looked for .+libcuda\.so\.1\); install it, /,
      )
    } finally {
      await device.close()
    }
  },
  60_000,
)

const kinds = [
  {
    kind: "cuda",
    open: openCuda,
    missing: "cuModuleGetFunction answers CUDA_ERROR_NOT_FOUND",
    lost: "CUDA_ERROR_LAUNCH_FAILED",
    code: "",
    servers: [
      { devices: 1, named: "cuda:0 (Stand-in)", generation: undefined },
      { devices: 1, named: "cuda:0 (Stand-in)", generation: "HOPPER" },
      { devices: 2, named: "cuda:0, cuda:1 (Stand-in) in 2 shards", generation: undefined },
    ],
  },
  {
    kind: "rocm",
    open: openHip,
    missing: "hipModuleGetFunction answers hipErrorNotFound",
    lost: "hipErrorAssert",
    code: "710",
    servers: [
      { devices: 2, named: "rocm:0, rocm:1 (Stand-in) in 2 shards", generation: undefined },
    ],
  },
] as const

describe.each(kinds)("$kind", ({ kind, open, missing, lost, code, servers }) => {
  let device: GpuDevice
  beforeAll(async () => {
    if (!isSkipped) device = await open(0, [standIn.library])
  }, 60_000)
  afterAll(() => device?.close())

  describeDriver({
    note,
    isSkipped,
    device: () => device,
    load: async (kernel) => {
      const { text, kernels } = textOf([kernel])
      return (await device.load([Buffer.from(text)], kernels))[0]!
    },
  })

  test.skipIf(isSkipped)(
    `nobody waits for what is started but whoever wants to${note}`,
    async () => {
      const { text, kernels } = textOf([adds])
      const [kernel] = await device.load([Buffer.from(text)], kernels)
      const { take } = openDriverLibrary([standIn.library])
      const pending = () => Number(take("uint64_t stand_in_pending(int number)")(0))
      const hold = take<void>("void stand_in_hold(int isHeld)")
      const places = [await device.allocate(4, "host"), await device.allocate(4, "host")]
      const read = places.map(() => new Uint32Array(1))
      const ends: Promise<void>[] = []
      await device.run([], notCancelled())
      const counts = [pending()]
      onTestFinished(() => hold(0))
      hold(1)
      for (const [i, place] of places.entries()) {
        await device.write(place, 0, new Uint8Array(Uint32Array.of(i).buffer))
        const operands = [{ place, at: 0 }, 1, 7]
        const recording = device.record([{ kernel: kernel!, operands, groups: [1, 1, 1] }])
        onTestFinished(() => recording.free())
        const wanted = { place, at: 0, into: new Uint8Array(read[i]!.buffer) }
        ends.push((await device.start(recording, [wanted])).ended)
        counts.push(pending())
      }
      expect(counts).toEqual([0, 3, 6]) // a write, a graph and a read for each
      expect(read.map(([word]) => word)).toEqual([0, 0])
      hold(0)
      await Promise.all(ends)
      expect(read.map(([word]) => word)).toEqual([7, 8])
      expect(pending()).toBe(0)
      for (const place of places) device.free(place)
    },
  )

  test.skipIf(isSkipped)(
    `one that does not answer is given up, and left alone from then on${note}`,
    async () => {
      const silent = await open(0, [standIn.library])
      const { text, kernels } = textOf([adds])
      const [kernel] = await silent.load([Buffer.from(text)], kernels)
      const { take } = openDriverLibrary([standIn.library])
      await expectGivenUp(silent, kernel!, take<void>("void stand_in_hold(int isHeld)"))
    },
  )

  test.skipIf(isSkipped)(
    `one that makes kernels before it answers is not given up, however long it takes${note}`,
    async () => {
      const own = await open(0, [standIn.library])
      onTestFinished(() => own.close())
      const place = await own.allocate(4, "device")
      const { text, kernels } = textOf([adds])
      vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] })
      onTestFinished(() => void vi.useRealTimers())
      const loading = own.load([Buffer.from(text)], kernels)
      const reading = own.read(place, 0, new Uint8Array(4))
      await setImmediate()
      vi.advanceTimersByTime(1000 * 2 * PATIENCE)
      await Promise.all([loading, reading])
    },
  )

  test.skipIf(isSkipped)(`kernels that are unloaded leave nothing behind${note}`, async () => {
    const { take } = openDriverLibrary([standIn.library])
    const modules = take("int32_t stand_in_modules()")
    const { text, kernels } = textOf([adds, sums])
    const before = modules()
    const loaded = [0, 1].map(() => device.load([Buffer.from(text)], kernels))
    expect((await Promise.all(loaded)).length).toBe(modules() - before)
    for (const each of loaded) device.unload(await each)
    expect(modules()).toBe(before)
  })

  test.skipIf(isSkipped)(`a check hands it what its compiler makes${note}`, async () => {
    process.env.NVRTC = standIn.env.NVRTC
    onTestFinished(() => void delete process.env.NVRTC)
    const { profiles, at } = languageKernels.find(({ name }) => name === "paired")!
    const checked = await checkShapes(device, kind, { profiles, shapes: [at(0), at(1)] })
    expect(checked).toEqual({ result: "equal", equal: 2, words: "" })
  })

  test.skipIf(isSkipped)(`what the driver refuses is said in its words${note}`, async () => {
    const { text, kernels } = textOf([adds])
    const broken = Buffer.from(text.replace("numbers[i]", "numbers[nowhere]"))
    await expect(device.load([broken], kernels)).rejects.toThrow(
      /refuses .+ of kernels: .*nowhere/s,
    )
    const renamed = kernels.map((code) => ({ ...code, entry: "sinter_nothing" }))
    await expect(device.load([Buffer.from(text)], renamed)).rejects.toThrow(
      `refuses adds: ${missing}`,
    )
  })

  test.skipIf(isSkipped)(
    `a start whose calls find no memory is refused in a sentence${note}`,
    async () => {
      writeFileSync(standIn.lost, "2")
      onTestFinished(() => rmSync(standIn.lost))
      const command = ["serve", "tiny", "--device", kind, "--port", "0"]
      const { code, err } = await run(command, "", built, standIn.env)
      expect(code).toBe(2)
      expect(err).toMatch(
        /^sinter: The system has no memory for (cu|hip)\w+ on Stand-in; lower [^\n]+\n$/m,
      )
    },
    MILLISECONDS,
  )

  test.skipIf(isSkipped).each([...servers])(
    `a server on $devices $generation answers, twice the same, and ends when its device is lost${note}`,
    async ({ devices, named, generation }) => {
      rmSync(standIn.lost, { force: true })
      const shards = ["--overrides", `tensor_parallel_shards=${devices}`]
      // Shards exchange through the host on CUDA's stand-in, and from device to device on HIP's.
      const peers = kind === "rocm" ? { STAND_IN_PEERS: "yes" } : {}
      const hopper = generation ? { [`STAND_IN_${generation}`]: "yes" } : {}
      const env = { ...standIn.env, STAND_IN_DEVICES: `${devices}`, ...peers, ...hopper }
      const server = await serve(["tiny", "--device", kind, ...shards], built, env)
      expect(server.out()).toContain(`  device     ${named}, target ${kind}\n`)
      const ask = async () => {
        const response = await fetch(`${server.url}/v1/chat/completions`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({
            model: "tiny",
            temperature: 0,
            max_tokens: 8,
            logprobs: true,
            messages: [{ role: "user", content: "Who are you?" }],
          }),
        })
        return { status: response.status, body: (await response.json()) as Answer }
      }
      const once = await ask()
      expect(once.status).toBe(200)
      expect((await ask()).body.choices).toEqual(once.body.choices)
      expect(once.body.choices[0]!.message.content).toBe("I am the tiny model inside sinter.")
      writeFileSync(standIn.lost, code)
      expect(await ask()).toMatchObject({
        status: 503,
        body: { error: { message: expect.stringContaining(lost) } },
      })
      expect((await server.ended).code).toBe(1)
    },
    MILLISECONDS,
  )
})

test.skipIf(isSkipped)(
  `what HIP's compiler has made is taken again, and made anew where it is damaged${note}`,
  async () => {
    const { text, kernels } = textOf([adds])
    const load = async (made?: Uint8Array) => {
      const device = await openHip(0, [standIn.library])
      const loaded = await device.load([Buffer.from(text)], kernels, made)
      const kept = await device.madeOf(loaded)
      await device.close()
      return kept
    }
    const made = await load()
    expect(made?.length).toBeGreaterThan(0)
    expect(await load(made)).toBeUndefined()
    expect((await load(made!.slice(1)))?.length).toBeGreaterThan(0)
  },
  MILLISECONDS,
)

test.skipIf(isSkipped)(
  `what HIP's compiler has made of one model's kernels is not taken for another's${note}`,
  async () => {
    const device = await openHip(0, [standIn.library])
    onTestFinished(() => device.close())
    const load = ({ text, kernels }: ReturnType<typeof textOf>, made?: Uint8Array) =>
      device.load([Buffer.from(text)], kernels, made)
    const [first, second] = [textOf([adds]), textOf([sums])]
    const [ofFirst, ofSecond] = [await load(first), await load(second)]
    const made = [await device.madeOf(ofFirst), await device.madeOf(ofSecond)]
    expect(made[0]).not.toEqual(made[1])
    const again = await load(first, made[0])
    expect(await device.madeOf(again)).toBeUndefined() // and the shelf keeps what it has
  },
  MILLISECONDS,
)

const architectures = [
  { kind: "cuda", named: "cuda:sm_75" },
  { kind: "rocm", named: "rocm:gfx90a" },
]
test.skipIf(isSkipped).each(architectures)(
  `a folder for $named is served without a compiler, and leaves the driver none to do${note}`,
  async ({ kind, named }) => {
    rmSync(standIn.lost, { force: true })
    const output = join(folder, `compiled-${kind}`)
    const compiled = await run(
      ["compile", "tiny", "--output", output, "--target", named],
      "",
      built,
      standIn.env,
    )
    expect(compiled).toMatchObject({ code: 0, err: "" })
    // No PTX is old enough for this driver, and nothing makes any.
    const env = { ...standIn.env, NVRTC: "/nowhere", STAND_IN_OLD: "yes" }
    const server = await serve([output, "--device", kind], built, env)
    expect(server.out()).toContain(`  program    ${join(output, "lib", `${kind}.gpu`)}\n`)
    await server.stop()
  },
  MILLISECONDS,
)

test.skipIf(isSkipped)(
  `PTX that is newer than the driver is refused with what helps${note}`,
  async () => {
    const env = { ...standIn.env, STAND_IN_OLD: "yes" }
    const { code, err } = await run(["serve", "tiny", "--device", "cuda"], "", built, env)
    expect(code).toBe(2)
    expect(err).toContain(
      "they are PTX, which is newer than its driver (CUDA 12.4); update the driver, or compile the model for it by name (--target cuda:sm_75), or with an older CUDA",
    )
  },
  MILLISECONDS,
)

interface Answer {
  choices: { message: { content: string } }[]
}
