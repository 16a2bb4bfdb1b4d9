// llama.cpp without its server: llama-bench for prompts, llama-batched-bench, which lies beside it, for sequences together, and where it
// was built llama-depth for long contexts.

import { execFile, spawnSync } from "node:child_process"
import { existsSync } from "node:fs"
import { dirname, join } from "node:path"
import { promisify } from "node:util"
import type { Contender, Task } from "./contender.ts"

const run = promisify(execFile)

/** `-fa`: which attention is faster depends on the processor and on how deep a sequence is. */
export const FLASH_ATTENTION = [1, 0] as const
export type FlashAttention = (typeof FLASH_ATTENTION)[number]

/** What a program of llama.cpp says of its options. */
export function helpOf(binary: string): string {
  const { stdout, stderr } = spawnSync(binary, ["--help"], { encoding: "utf8" })
  return stdout + stderr
}

/** Of every program but llama-bench: a choice in newer versions, a switch in older ones. */
export function flashOption(help: string, flash: FlashAttention): string[] {
  if (/^-fa,.*\bon\b/m.test(help)) return ["-fa", flash ? "on" : "off"]
  return flash ? ["-fa"] : []
}

export async function llamaBench(
  binary: string,
  model: string,
  { threads }: Task,
  flash: FlashAttention,
): Promise<Contender> {
  const batched = join(dirname(binary), "llama-batched-bench")
  const behind = join(dirname(binary), "llama-depth") // built from llama_depth.cpp beside this file
  const flashed = flashOption(helpOf(batched), flash)
  const bench = async (...args: (string | number)[]) => {
    const options = ["-m", model, "-t", threads, "-fa", flash, "-r", 1, "-o", "json", ...args]
    const { stdout } = await run(binary, options.map(String))
    return (JSON.parse(stdout) as Row[])[0]!
  }
  const row = await bench("-p", 16, "-n", 0)
  return {
    name: "llama-bench",
    about: `llama.cpp ${row.build_commit} (${row.build_number}), ${row.cpu_info}, ${row.model_type}, ${row.n_threads} threads, -fa ${flash}, batches ${row.n_batch}/${row.n_ubatch}, keys ${row.type_k}, values ${row.type_v}`,
    prefill: async (tokens) => (await bench("-p", tokens, "-n", 0)).avg_ts,
    async decode(sequences, depth) {
      const prompt = Math.max(depth, 16)
      const context = sequences * (prompt + DECODED) + 64
      const options = ["-m", model, "-t", threads, "-tb", threads, ...flashed, "-c", context]
      const load = ["-npp", prompt, "-ntg", DECODED, "-npl", sequences]
      const { stdout } = await run(
        batched,
        [...options, ...load, "--output-format", "jsonl"].map(String),
      )
      const line = stdout.split("\n").find((text) => text.startsWith("{"))!
      return (JSON.parse(line) as { speed_tg: number }).speed_tg
    },
    ...(existsSync(behind) && {
      async long(depth) {
        const { stdout } = await run(behind, [model, threads, flash, depth].map(String))
        const [tokensPerSecond, bytes] = stdout.split(" ").map(Number)
        return { tokensPerSecond: tokensPerSecond!, bytes: bytes! }
      },
    }),
    close: async () => {},
  }
}

const DECODED = 32

/** Of llama-bench's JSON, what is used here. */
interface Row {
  build_commit: string
  build_number: number
  cpu_info: string
  model_type: string
  n_threads: number
  n_batch: number
  n_ubatch: number
  type_k: string
  type_v: string
  avg_ts: number
}
