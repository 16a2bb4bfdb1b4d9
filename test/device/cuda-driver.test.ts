// CUDA's devices on a stand-in for the driver's library: what every driver promises, and a whole server.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, expect, test } from "vitest"
import { printCuda } from "../../src/compiler/targets/gpu/print/cuda.ts"
import { openCuda } from "../../src/runtime/gpu/cuda.ts"
import type { GpuDevice } from "../../src/runtime/gpu/device.ts"
import { isLeftOut } from "../left-out.ts"
import { fromSources, serve } from "../sinter.ts"
import { buildStandIn, hasStandIn, type StandIn } from "./cuda-stand-in.ts"
import { adds, describeDriver } from "./gpu-driver.ts"

const isSkipped = isLeftOut(hasStandIn)
const note = isSkipped ? " (skipped: no g++)" : ""

const folder = mkdtempSync(join(tmpdir(), "sinter-cuda-stand-in-"))
let standIn: StandIn
let device: GpuDevice
beforeAll(async () => {
  if (isSkipped) return
  standIn = buildStandIn(folder)
  device = await openCuda(0, [standIn.library])
}, 60_000)
afterAll(async () => {
  await device?.close()
  rmSync(folder, { recursive: true })
})

const textOf = (kernels: Parameters<typeof printCuda>[0]) => printCuda(kernels, ["dot4"])

describeDriver({
  note,
  isSkipped,
  device: () => device,
  load: async (kernel) => {
    const { text, kernels } = textOf([kernel])
    return (await device.load([Buffer.from(text)], kernels))[0]!
  },
})

test.skipIf(isSkipped)(`what the driver refuses is said in its words${note}`, async () => {
  const { text, kernels } = textOf([adds])
  const broken = Buffer.from(text.replace("numbers[i]", "numbers[nowhere]"))
  await expect(device.load([broken], kernels)).rejects.toThrow(/refuses .+ of kernels: .*nowhere/s)
  const renamed = kernels.map((code) => ({ ...code, entry: "sinter_nothing" }))
  const refusal = /refuses adds: cuModuleGetFunction answers CUDA_ERROR_NOT_FOUND/
  await expect(device.load([Buffer.from(text)], renamed)).rejects.toThrow(refusal)
})

const MILLISECONDS = 240_000

test.skipIf(isSkipped).each([
  { devices: 1, named: "cuda:0 (Stand-in)" },
  { devices: 2, named: "cuda:0, cuda:1 (Stand-in) in 2 shards" },
])(
  `a server on $devices answers, twice the same, and ends when its device is lost${note}`,
  async ({ devices, named }) => {
    rmSync(standIn.lost, { force: true })
    const shards = ["--overrides", `tensor_parallel_shards=${devices}`]
    const env = { ...standIn.env, STAND_IN_DEVICES: `${devices}` }
    const server = await serve(["tiny", "--device", "cuda", ...shards], fromSources, env)
    expect(server.out()).toContain(`  device     ${named}, target cuda\n`)
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
    writeFileSync(standIn.lost, "")
    expect(await ask()).toMatchObject({
      status: 503,
      body: { error: { message: expect.stringMatching(/CUDA_ERROR_LAUNCH_FAILED/) } },
    })
    expect((await server.ended).code).toBe(1)
  },
  MILLISECONDS,
)

interface Answer {
  choices: { message: { content: string } }[]
}
