// One program in several settings of its own, where nobody knows beforehand which suits it: every sample asks each setting, and
// the better answer counts, so that no peer is shown in a setting that its users would not choose.

import type { Contender } from "./contender.ts"

export function bestOf(settings: readonly [Contender, ...Contender[]]): Contender {
  const [first] = settings
  const all = <Key extends keyof Contender>(key: Key) =>
    settings.map((contender) => contender[key] as NonNullable<Contender[Key]>)
  return {
    name: first.name,
    about: settings.map(({ about }) => about).join("; or, whichever is better: "),
    ...(first.prefill && { prefill: (tokens) => highest(all("prefill"), (ask) => ask(tokens)) }),
    ...(first.decode && {
      decode: (sequences, depth) => highest(all("decode"), (ask) => ask(sequences, depth)),
    }),
    ...(first.long && {
      long: (depth) =>
        best(
          all("long"),
          (ask) => ask(depth),
          ({ tokensPerSecond }) => tokensPerSecond,
        ),
    }),
    ...(first.javascript && {
      javascript: (sequences) =>
        best(
          all("javascript"),
          (ask) => ask(sequences),
          (milliseconds) => -milliseconds,
        ),
    }),
    ...(first.crowd && {
      crowd: (clients) =>
        best(
          all("crowd"),
          (ask) => ask(clients),
          ({ tokensPerSecond }) => tokensPerSecond,
        ),
    }),
    ...(first.twice && {
      twice: () =>
        best(
          all("twice"),
          (ask) => ask(),
          ({ first }) => -first,
        ),
    }),
    ...(first.disturbed && {
      disturbed: () =>
        best(
          all("disturbed"),
          (ask) => ask(),
          ({ beside }) => -beside,
        ),
    }),
    ...(first.start && {
      start: () =>
        best(
          all("start"),
          (ask) => ask(),
          (seconds) => -seconds,
        ),
    }),
    ...(first.coldStart && {
      coldStart: () =>
        best(
          all("coldStart"),
          (ask) => ask(),
          (seconds) => -seconds,
        ),
    }),
    ...(first.rest && { rest: () => inTurn(all("rest")) }),
    ...(first.wake && { wake: () => inTurn(all("wake")) }),
    ...(first.memory && { memory: () => Math.min(...all("memory").map((ask) => ask())) }),
    close: () => inTurn(all("close")),
  }
}

const highest = <Ask>(asks: readonly Ask[], sample: (ask: Ask) => Promise<number>) =>
  best(asks, sample, (rate) => rate)

async function inTurn(asks: readonly (() => Promise<void>)[]): Promise<void> {
  for (const ask of asks) await ask()
}

/** One after the other, since each wants the whole machine. */
async function best<Ask, Sample>(
  asks: readonly Ask[],
  take: (ask: Ask) => Promise<Sample>,
  worth: (sample: Sample) => number,
): Promise<Sample> {
  const samples: Sample[] = []
  for (const ask of asks) samples.push(await take(ask))
  return samples.reduce((one, other) => (worth(other) > worth(one) ? other : one))
}
