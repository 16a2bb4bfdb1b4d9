// What it is worth that conversations stay with their server: two servers behind the two HAProxy configurations of
// docs/scaling.md, asked by turns. A conversation begins with some hundred random tokens, and each turn asks with some more behind
// them, in the place of a reply and the next question. The result is bench/results/fleet.md.
//
//   npm run build && npx tsx bench/fleet.ts --rounds 5

import { writeFileSync } from "node:fs"
import { parseArgs } from "node:util"
import OpenAI from "openai"
import { isHere, proxies, startProxy, staying } from "../test/proxies.ts"
import { uniform } from "../test/random.ts"
import { serve } from "../test/sinter.ts"
import { median } from "./contenders/api.ts"
import { machine } from "./machine.ts"
import { modelFolder } from "./models.ts"
import { shapes } from "./shapes.ts"

const { values } = parseArgs({
  options: {
    rounds: { type: "string", default: "5" },
    output: { type: "string", default: "bench/results/fleet.md" },
  },
})

const [SHAPE, FORMAT] = ["135M", "q4f16_1"] as const
const MODEL = `${SHAPE}-${FORMAT}`
const CONVERSATIONS = 12
const CLIENTS = 3
const TURNS = 6
const TOKENS = { first: 600, more: 80, reply: 24 }

interface Told {
  prompt: number
  cached: number
  /** Milliseconds to the first token of each turn but the first. */
  waits: number[]
}

const random = uniform(1)
const someTokens = (count: number) =>
  Array.from({ length: count }, () => 300 + Math.floor(random() * (shapes[SHAPE].vocab_size * 0.9)))

/** Some clients go on with whichever conversation comes next, as people do who read before they ask again. */
async function converse(url: string, name: string): Promise<Told> {
  const { completions } = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 })
  const told: Told = { prompt: 0, cached: 0, waits: [] }
  const waiting = Array.from({ length: CONVERSATIONS }, (_, number) => ({
    key: `${name} ${number}`,
    prompt: someTokens(TOKENS.first),
    turn: 0,
  }))
  const client = async () => {
    while (waiting.length > 0) {
      const [next] = waiting.splice(Math.floor(random() * waiting.length), 1)
      const { key, prompt, turn } = next!
      const begun = performance.now()
      const stream = await completions.create({
        model: MODEL,
        prompt,
        max_tokens: TOKENS.reply,
        stream: true,
        stream_options: { include_usage: true },
        ...{ prompt_cache_key: key, ignore_eos: true },
      })
      let wait: number | undefined
      for await (const { usage } of stream) {
        wait ??= performance.now() - begun
        told.prompt += usage?.prompt_tokens ?? 0
        told.cached += usage?.prompt_tokens_details?.cached_tokens ?? 0
      }
      if (turn > 0) told.waits.push(wait!)
      if (turn + 1 === TURNS) continue
      waiting.push({ key, prompt: [...prompt, ...someTokens(TOKENS.more)], turn: turn + 1 })
    }
  }
  await Promise.all(Array.from({ length: CLIENTS }, client))
  return told
}

if (!isHere(proxies.haproxy)) throw new Error("haproxy is not on this machine")
const folder = await modelFolder(SHAPE, FORMAT)
const servers = await Promise.all([1, 2].map(() => serve([folder])))
const urls = servers.map(({ url }) => url)
const routes = {
  "to the server that has least to do": await startProxy(proxies.haproxy, urls),
  "to the server of its conversation": await startProxy(proxies.haproxy, urls, staying),
}
const rounds: Told[][] = []
for (let round = 0; round < Number(values.rounds); round++) {
  const told: Told[] = []
  for (const [route, { url }] of Object.entries(routes))
    told.push(await converse(url, `${route} ${round}`))
  rounds.push(told)
  console.log(told.map(({ waits }) => `${median(waits).toFixed(0)} ms`).join("  "))
}
for (const { stop } of Object.values(routes)) await stop()
for (const server of servers) await server.stop()

const { first, more } = TOKENS
const most = 1 - (first + more * (TURNS - 1)) / sum(turns().map((turn) => first + more * turn))
const rows = Object.keys(routes).map((route, i) => {
  const own = rounds.map((told) => told[i]!)
  const share = sum(own.map(({ cached }) => cached)) / sum(own.map(({ prompt }) => prompt))
  const waits = own.flatMap((told) => told.waits).sort((a, b) => a - b)
  const late = waits[Math.floor(waits.length * 0.95)]!
  return `| ${route} | ${percent(share)} | ${median(waits).toFixed(0)} ms | ${late.toFixed(0)} ms |`
})
const ratios = rounds.map(([wandering, stays]) => median(wandering!.waits) / median(stays!.waits))
const page = `# Conversations and their servers

${new Date().toISOString().slice(0, 10)}, ${machine(2)}; two servers (${MODEL}, random weights) and HAProxy on the same machine. ${CLIENTS} clients
at once go on with one of ${CONVERSATIONS} conversations each time, by chance. A conversation has ${TURNS} turns: ${first} tokens, and ${more} more each turn;
replies of ${TOKENS.reply}. ${values.rounds} rounds, in which the routes take turns.

| A request goes | found in the prefix cache | first token, p50 | p95 |
|---|---|---|---|
${rows.join("\n")}

First tokens of all turns but the first. At most ${percent(most)} of the prompts' tokens could be found. A conversation that stays waits
${(1 / median(ratios)).toFixed(2)} times as long (median of the rounds; ${ratios
  .map((ratio) => (1 / ratio).toFixed(2))
  .join(", ")}).
`
writeFileSync(values.output, page)
console.log(page)

function turns(): number[] {
  return Array.from({ length: TURNS }, (_, turn) => turn)
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}

function percent(share: number): string {
  return `${Math.round(100 * share)} %`
}
