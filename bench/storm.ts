// A storm: fifty clients that mean harm, at random, beside one that means none and reads stream after stream. What must hold:
// the server lives, the good client's 95th percentile stays under three times what it is alone, and memory comes back to 1.2
// times what it was. The attackers are a process of their own, so that what they do does not count as the server's delay.
//
//   npm run storm -- --seconds 600 --clients 50
//
// Exit code 1 when something did not hold.

import { type ChildProcess, fork, spawn } from "node:child_process"
import { once } from "node:events"
import { readdirSync, readFileSync } from "node:fs"
import { Agent, request } from "node:http"
import { createInterface } from "node:readline"
import { setTimeout as sleep } from "node:timers/promises"
import { parseArgs } from "node:util"
import { attack } from "./load/attacks.ts"
import { randomFrom } from "./load/questions.ts"

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "600" },
    clients: { type: "string", default: "50" },
    seed: { type: "string", default: "1" },
    only: { type: "string" }, // the name of one attack
    attack: { type: "string" }, // a server's address: this process is the attackers
  },
})
const seconds = Number(values.seconds)
const ALONE = 30 // seconds

if (values.attack) await attackers(new URL(values.attack))
else await main()

/** Prints how often each attack came, and with what status. */
async function attackers(url: URL): Promise<void> {
  const until = performance.now() + seconds * 1000
  const counts = new Map<string, number>()
  const client = async (seed: number) => {
    const random = randomFrom(seed)
    while (performance.now() < until) {
      const { name, status } = await attack(url, random, values.only)
      const key = `${name}: ${status || "left"}`
      counts.set(key, (counts.get(key) ?? 0) + 1)
    }
  }
  const seeds = randomFrom(Number(values.seed))
  const clients = Array.from({ length: Number(values.clients) }, () => client(seeds() * 2 ** 32))
  await Promise.race([Promise.all(clients), sleep(seconds * 1000 + 10_000)])
  for (const [key, count] of [...counts].sort()) console.log(`  ${count} × ${key}`)
  process.exit()
}

async function main(): Promise<void> {
  const server = spawn(
    process.execPath,
    ["build/cli/main.js", "serve", "tiny", "--port", "0", "--log-level", "warn"],
    { stdio: ["ignore", "pipe", "inherit"] },
  )
  const url = await address(server)
  await measured(url, 5) // warms up
  await sleep(5000)
  const base = resident(server.pid!)
  const alone = await measured(url, ALONE)
  const storm = fork(
    import.meta.filename,
    [
      `--attack=${url}`,
      `--seconds=${seconds}`,
      `--clients=${values.clients}`,
      `--seed=${values.seed}`,
      ...(values.only === undefined ? [] : [`--only=${values.only}`]),
    ],
    { stdio: "inherit" },
  )
  const over = once(storm, "exit")
  let most = 0
  const watch = setInterval(() => {
    most = Math.max(most, resident(server.pid!))
  }, 1000)
  const beside = await measured(url, seconds)
  await over
  clearInterval(watch)
  const isAlive = server.exitCode === null && (await fetch(`${url}/health`)).status === 200
  let after = Number.POSITIVE_INFINITY
  for (let waited = 0; waited < 60 && after > 1.2 * base; waited++) {
    await sleep(1000)
    after = resident(server.pid!)
  }
  const ended = once(server, "exit")
  server.kill("SIGTERM")
  const [code] = await ended
  const mib = (bytes: number) => `${Math.round(bytes / 2 ** 20)} MiB`
  console.log(`alive          ${isAlive ? "yes" : "no"}, ended with ${code}`)
  console.log(
    `between tokens p95 ${alone.gap.toFixed(2)} ms alone, ${beside.gap.toFixed(2)} ms in the storm`,
  )
  console.log(
    `first token    p95 ${alone.first.toFixed(1)} ms alone, ${beside.first.toFixed(1)} ms in the storm`,
  )
  console.log(
    `streams        ${alone.streams} alone in ${ALONE} s, ${beside.streams} in the storm in ${seconds} s`,
  )
  console.log(`memory         ${mib(base)} before, ${mib(most)} at most, ${mib(after)} after`)
  const holds = isAlive && code === 0 && beside.gap < 3 * alone.gap && after <= 1.2 * base
  process.exitCode = holds ? 0 : 1
}

async function address(server: ChildProcess): Promise<string> {
  for await (const line of createInterface({ input: server.stdout! })) {
    const [found] = /http:\/\/[\d.:]+/.exec(line) ?? []
    if (!found) continue
    while (!(await fetch(`${found}/health`)).ok) await sleep(10)
    return found
  }
  throw new Error("the server did not start")
}

interface Measured {
  /** Milliseconds, 95th percentiles: between two tokens, and to the first. */
  gap: number
  first: number
  streams: number
}

/** Reads one stream after the other on one connection. */
async function measured(url: string, forSeconds: number): Promise<Measured> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const until = performance.now() + forSeconds * 1000
  const gaps: number[] = []
  const firsts: number[] = []
  while (performance.now() < until) {
    const times = await stream(url, agent, firsts.length)
    firsts.push(times[1]! - times[0]!)
    for (let i = 2; i < times.length; i++) gaps.push(times[i]! - times[i - 1]!)
  }
  agent.destroy()
  return { gap: p95(gaps), first: p95(firsts), streams: firsts.length }
}

/** When it was asked, and when each event came. */
async function stream(url: string, agent: Agent, seed: number): Promise<number[]> {
  const body = { model: "tiny", messages: [{ role: "user", content: "Tell me about the sea." }] }
  const sent = request(`${url}/v1/chat/completions`, {
    method: "POST",
    agent,
    headers: { "content-type": "application/json" },
  })
  const times = [performance.now()]
  sent.end(JSON.stringify({ ...body, stream: true, max_tokens: 100, ignore_eos: true, seed }))
  const [response] = await once(sent, "response")
  if (response.statusCode !== 200) throw new Error(`the good client got ${response.statusCode}`)
  for await (const piece of response) {
    const events = String(piece).split("data: ").length - 1
    for (let i = 0; i < events; i++) times.push(performance.now())
  }
  return times
}

function p95(values: number[]): number {
  return values.sort((a, b) => a - b)[Math.floor(0.95 * (values.length - 1))] ?? Number.NaN
}

/** Bytes of a process and of those that it started. */
function resident(pid: number): number {
  const [, kib] = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? []
  const children = readdirSync(`/proc/${pid}/task`).flatMap((task) =>
    readFileSync(`/proc/${pid}/task/${task}/children`, "utf8").split(" ").filter(Boolean),
  )
  return children.reduce((sum, child) => sum + resident(Number(child)), Number(kib) * 1024)
}
