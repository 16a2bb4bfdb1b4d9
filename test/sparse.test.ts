// Compiling takes memory for windows, not for tensors: half a GiB in one tensor (a sparse file, so that it takes no disk)
// is packed by a process that never holds as much.

import { copyFileSync, mkdirSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, test } from "vitest"
import { goldenFolder } from "./model/golden.ts"
import { built, run } from "./sinter.ts"

const scratch = mkdtempSync(join(tmpdir(), "sinter-sparse-"))
afterAll(() => rmSync(scratch, { recursive: true }))

const [vocabulary, hidden, intermediate] = [131072, 2048, 64]

test("a tensor of 512 MiB is packed within 350 MiB", async () => {
  const model = join(scratch, "model")
  writeHollow(model)
  const [node, ...rest] = built.command
  // Not resourceUsage().maxRSS: Linux counts in it what this process held when it started the other.
  const tell = `import { readFileSync } from "node:fs"
    const most = () => /VmHWM:\\s*(\\d+)/.exec(readFileSync("/proc/self/status", "utf8"))[1]
    process.on("exit", () => console.error(most()))`
  const watched = [node!, "--import", `data:text/javascript,${encodeURIComponent(tell)}`, ...rest]
  const output = join(scratch, "packed")
  const options = ["--output", output, "--quantization", "q4f16_1", "--weights-only"]
  const { code, err } = await run(["compile", model, ...options], "", {
    ...built,
    command: watched,
  })
  expect(code).toBe(0)
  expect(Number(err.trim().split("\n").at(-1)) / 1024).toBeLessThan(350)
}, 600_000)

/** A model of one layer whose weights are all holes in a file. */
function writeHollow(folder: string): void {
  const layer = "model.layers.0."
  const shapes: [string, number[]][] = [
    ["model.embed_tokens", [vocabulary, hidden]],
    ["model.norm", [hidden]],
    [`${layer}input_layernorm`, [hidden]],
    [`${layer}post_attention_layernorm`, [hidden]],
    ...["q", "k", "v", "o"].map((name): [string, number[]] => [
      `${layer}self_attn.${name}_proj`,
      [hidden, hidden],
    ]),
    [`${layer}mlp.gate_proj`, [intermediate, hidden]],
    [`${layer}mlp.up_proj`, [intermediate, hidden]],
    [`${layer}mlp.down_proj`, [hidden, intermediate]],
  ]
  let end = 0
  const entries = shapes.map(([name, shape]) => {
    const begin = end
    end += 2 * shape.reduce((size, each) => size * each)
    return [`${name}.weight`, { dtype: "BF16", shape, data_offsets: [begin, end] }]
  })
  const header = Buffer.from(JSON.stringify(Object.fromEntries(entries)))
  const length = Buffer.alloc(8)
  length.writeBigUInt64LE(BigInt(header.length))
  mkdirSync(folder)
  const weights = join(folder, "model.safetensors")
  writeFileSync(weights, Buffer.concat([length, header]))
  truncateSync(weights, 8 + header.length + end)
  const config = {
    model_type: "llama",
    vocab_size: vocabulary,
    hidden_size: hidden,
    intermediate_size: intermediate,
    num_hidden_layers: 1,
    num_attention_heads: 16,
    max_position_embeddings: 512,
    tie_word_embeddings: true,
  }
  writeFileSync(join(folder, "config.json"), JSON.stringify(config))
  for (const file of ["tokenizer.json", "tokenizer_config.json"])
    copyFileSync(join(goldenFolder("models", "llama-tied"), file), join(folder, file))
}
