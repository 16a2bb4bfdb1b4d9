// Models that hear make of recordings what transformers' make of them, and answer with its tokens (test/golden/hearing).

import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest"
import { type App, createApp } from "../../src/app.ts"
import { openRecordings } from "../../src/audio/recordings.ts"
import { mostRows } from "../../src/audio/tiles.ts"
import { compile } from "../../src/compiler/compile.ts"
import { targets } from "../../src/compiler/targets/targets.ts"
import { createTower, towerLimits } from "../../src/engine/tower.ts"
import { openModel } from "../../src/model/model.ts"
import { loadParameters } from "../../src/model/weights/weights.ts"
import { goldenFolder } from "./golden.ts"
import { goldenHearing, hearingModels } from "./recordings.ts"

describe.each(hearingModels)("%s", (name) => {
  test("hears", async () => {
    const model = await openModel(goldenFolder("hearing", name), { sees: true })
    onTestFinished(() => model.close())
    expect(model.deaf).toBeUndefined()
    const { graph, format, weights, audio } = model.hearing!
    const plan = compile(graph, { format, activations: "float", kv: "f32" })
    const prepared = await targets.cpu.prepare(plan)
    const program = await prepared.open(towerLimits(plan.groups.length, mostRows(audio)))
    const tower = createTower(program)
    onTestFinished(() => tower.close())
    await loadParameters(weights, program.manifest, program)
    const recordings = openRecordings(audio)
    const nobody = { client: "" }
    for (const { bytes, features, rows } of goldenHearing(name)) {
      let at = 0
      for (const [i, each] of bytes.entries()) {
        const { tiles } = await recordings.prepare(each, "audio", nobody)
        const out = await tower.read(rows[i]!, async () => tiles, nobody)
        const width = out.length / rows[i]!
        expect(width).toBe(40)
        for (let row = (16 - (at % 16)) % 16; row < rows[i]!; row += 16) {
          const golden = features.subarray(((at + row) / 16) * width)
          for (let c = 0; c < width; c++)
            expect(Math.abs(out[row * width + c]! - golden[c]!)).toBeLessThan(2e-4)
        }
        at += rows[i]!
      }
    }
  }, 120_000)

  describe("answers as transformers does", () => {
    let app: App
    let url: string
    beforeAll(async () => {
      const overrides = { max_total_seq_length: 2048, kv_dtype: "f32" } as const
      const model = goldenFolder("hearing", name)
      app = await createApp({ model, servedName: name, overrides })
      url = `http://127.0.0.1:${await app.listen(0)}`
      await app.ready
    }, 240_000)
    afterAll(() => app.close())

    async function ask({ parts, bytes, greedy }: ReturnType<typeof goldenHearing>[number]) {
      let at = 0
      const content = parts.map((part) => {
        if (part !== "audio") return { type: "text", text: part }
        const data = bytes[at++]!.toString("base64")
        return { type: "input_audio", input_audio: { data, format: "wav" } }
      })
      const response = await fetch(`${url}/v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({
          model: name,
          messages: [{ role: "user", content }],
          temperature: 0,
          max_tokens: greedy.length,
          return_token_ids: true,
        }),
      })
      return (await response.json()) as Answer
    }

    test("recordings and texts, alone and together", async () => {
      const prompts = goldenHearing(name)
      const replies = await Promise.all(prompts.map(ask))
      replies.push(await ask(prompts[1]!))
      for (const [i, { ids, greedy }] of [...prompts, prompts[1]!].entries()) {
        expect(replies[i]).toMatchObject({
          prompt_token_ids: ids,
          choices: [{ token_ids: greedy }],
        })
      }
      expect(replies.at(-1)!.usage.prompt_tokens_details.cached_tokens).toBeGreaterThan(16)
    }, 240_000)
  })
})

interface Answer {
  usage: { prompt_tokens_details: { cached_tokens: number } }
}
