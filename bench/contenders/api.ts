// Any server with OpenAI's completions, measured by its clients. Prompts are token ids, drawn anew for every request, so that
// no cache helps; replies are drawn at temperature 1 and go on past their end, so that all are equally long.

import type { Contender, Crowd } from "./contender.ts"

export interface Address {
  /** Up to and without /v1. */
  url: string
  model: string
  vocabulary: number
  headers?: Record<string, string>
}

type Measured = Required<Pick<Contender, "prefill" | "decode" | "crowd" | "twice" | "disturbed">>

export function measureApi(address: Address): Measured {
  const prompt = (tokens: number) => randomPrompt(tokens, address.vocabulary)
  const ask = (tokens: readonly number[], replies: number) => complete(address, tokens, replies)
  return {
    async prefill(tokens) {
      const begun = performance.now()
      await ask(prompt(tokens), 1)
      return tokens / ((performance.now() - begun) / 1000)
    },
    async decode(sequences, depth) {
      const replies = DECODED + 4 * sequences // those who come first wait for the last
      const streams = await together(sequences, () => ask(prompt(Math.max(depth, 16)), replies))
      return rateTogether(streams)
    },
    async crowd(clients) {
      const begun = performance.now()
      const streams = await together(clients, () => ask(prompt(200), 64))
      return summary(streams, begun)
    },
    async twice() {
      const same = prompt(2000)
      const time = async () => (await ask(same, 1)).ended
      const [a, b, c] = [performance.now(), await time(), await time()]
      return { first: b - a, again: c - b }
    },
    async disturbed() {
      const alone = await ask(prompt(64), DECODED)
      let other: Promise<Stream> | undefined
      const watched = await complete(address, prompt(64), 3 * DECODED, (seen) => {
        if (seen === 8) other = ask(prompt(2000), 1)
      })
      const { begun, ended } = await other!
      return {
        alone: percentile95(gaps(alone)),
        beside: percentile95(gaps(watched)),
        longest: Math.max(...gaps(watched)),
        prompt: ended - begun,
      }
    },
  }
}

const DECODED = 32

/** Token ids of words: low ones are bytes, the highest are control tokens. */
function randomPrompt(tokens: number, vocabulary: number): number[] {
  return Array.from({ length: tokens }, () => 300 + Math.floor(Math.random() * (vocabulary * 0.9)))
}

const together = <T>(count: number, one: () => Promise<T>) =>
  Promise.all(Array.from({ length: count }, one))

// ------------------------------------------------------------------ one request

/** When each token came and when the stream ended, on performance.now()'s clock. */
interface Stream {
  begun: number
  times: number[]
  ended: number
}

/** @param onToken told how many tokens have come */
async function complete(
  { url, model, headers }: Address,
  prompt: readonly number[],
  replies: number,
  onToken: (seen: number) => void = () => {},
): Promise<Stream> {
  const body = {
    model,
    prompt,
    max_tokens: replies,
    temperature: 1,
    ignore_eos: true,
    stream: true,
  }
  const begun = performance.now()
  const response = await fetch(`${url}/v1/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  })
  if (!response.ok) throw new Error(`${url} answers ${response.status}: ${await response.text()}`)
  const times: number[] = []
  let rest = ""
  for await (const piece of response.body!.pipeThrough(new TextDecoderStream())) {
    const events = (rest + piece).split("\n\n")
    rest = events.pop()!
    const now = performance.now()
    for (const event of events) {
      if (!event.startsWith("data: {")) continue
      const { choices } = JSON.parse(event.slice("data: ".length)) as {
        choices?: { text?: string }[]
      }
      if (!choices?.[0]?.text) continue
      times.push(now)
      onToken(times.length)
    }
  }
  return { begun, times, ended: performance.now() }
}

// ------------------------------------------------------------------ what the times say

/** Tokens a second while all of the streams ran. */
function rateTogether(streams: readonly Stream[]): number {
  const from = Math.max(...streams.map(({ times }) => times[0]!))
  const until = Math.min(...streams.map(({ times }) => times.at(-1)!))
  const tokens = streams.flatMap(({ times }) => times).filter((at) => at > from && at <= until)
  return tokens.length / ((until - from) / 1000)
}

function summary(streams: readonly Stream[], begun: number): Crowd {
  const tokens = streams.reduce((sum, { times }) => sum + times.length, 0)
  const last = Math.max(...streams.map(({ ended }) => ended))
  return {
    firstToken: median(streams.map(({ begun, times }) => times[0]! - begun)),
    betweenTokens: median(
      streams.map(({ times }) => (times.at(-1)! - times[0]!) / (times.length - 1)),
    ),
    tokensPerSecond: tokens / ((last - begun) / 1000),
  }
}

const gaps = ({ times }: Stream) => times.slice(1).map((at, i) => at - times[i]!)

const sorted = (values: readonly number[]) => values.toSorted((a, b) => a - b)
const percentile95 = (values: readonly number[]) =>
  sorted(values)[Math.floor(0.95 * (values.length - 1))]!

export function median(values: readonly number[]): number {
  const all = sorted(values)
  const middle = all.length >> 1
  return all.length % 2 ? all[middle]! : (all[middle - 1]! + all[middle]!) / 2
}
