// What large requests took is given back when they are over, by the server and by the process that encodes texts.

import { readdirSync, readFileSync } from "node:fs"
import { platform } from "node:os"
import { setTimeout as sleep } from "node:timers/promises"
import { expect, test } from "vitest"
import { serve } from "./sinter.ts"

const MIB = 2 ** 20

const without = platform() !== "linux"

test.skipIf(without)(
  `large requests leave nothing in memory${without ? " (skipped: read from Linux's /proc)" : ""}`,
  { timeout: 240_000 },
  async () => {
    const server = await serve(["tiny", "--log-level", "error"])
    const ask = async (path: string, body: object) => {
      const answer = await fetch(server.url + path, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ model: "tiny", ...body }),
      })
      expect(answer.status).toBe(200)
      await answer.arrayBuffer()
    }
    const resident = () => processes(server.child.pid!).reduce((sum, pid) => sum + bytesOf(pid), 0)
    try {
      for (let i = 0; i < 20; i++) await ask("/v1/completions", { prompt: "Hello", max_tokens: 20 })
      await ask("/tokenize", { prompt: "word ".repeat(20_000) })
      await sleep(4000)
      const base = resident()
      const ids = Array.from({ length: 4000 }, (_, i) => 300 + (i % 1000))
      const large = [
        ["/tokenize", { prompt: "word ".repeat(300_000) }],
        ["/detokenize", { tokens: Array.from({ length: 300_000 }, () => 300) }],
        ["/v1/completions", { prompt: ids, echo: true, logprobs: 20, n: 4, max_tokens: 0 }],
      ] as const
      let most = 0
      const watch = setInterval(() => {
        most = Math.max(most, resident())
      }, 20)
      for (let round = 0; round < 3; round++) {
        await Promise.all(large.map(([path, body]) => ask(path, body)))
      }
      clearInterval(watch)
      expect(most).toBeGreaterThan(base + 100 * MIB)
      while (resident() > 1.2 * base) await sleep(100) // for ever, if it is not given back
    } finally {
      await server.stop()
    }
  },
)

/** A process and those that it started. */
function processes(pid: number): number[] {
  const tasks = readdirSync(`/proc/${pid}/task`)
  const children = tasks.flatMap((task) =>
    readFileSync(`/proc/${pid}/task/${task}/children`, "utf8").split(" ").filter(Boolean),
  )
  return [pid, ...children.flatMap((child) => processes(Number(child)))]
}

function bytesOf(pid: number): number {
  const [, kib] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? []
  return Number(kib) * 1024
}
