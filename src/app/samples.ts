// The engine's numbers for /metrics, under the names that they have there.

import type { Engine } from "../engine/engine.ts"
import type { EngineStats } from "../engine/stats.ts"
import type { Sample } from "../http/service.ts"
import { BLOCK } from "../runtime/program.ts"
import type { OpenTower } from "./towers.ts"

/** What it says of now. */
const levels = {
  running: "Sequences with a place in the steps.",
  waiting: "Requests of which nothing runs yet.",
  blocksUsed: "KV blocks that sequences hold.",
  blocks: "KV blocks in all.",
  blocksRemembered: "KV blocks that the prefix cache knows.",
} as const satisfies Partial<Record<keyof EngineStats, string>>

/** What it has counted. */
const counts = {
  steps: "Steps taken.",
  promptTokens: "Prompt tokens computed.",
  cachedTokens: "Prompt tokens taken over from the prefix cache.",
  replyTokens: "Tokens drawn.",
  recomputedTokens: "Tokens computed once more, after blocks were taken.",
  preemptions: "Sequences whose blocks were taken for others.",
  failures: "Sequences that ended in an error.",
  forcedTokens: "Tokens that a schema left no choice about, computed beside the one before them.",
} as const satisfies Record<Exclude<keyof EngineStats, "drafts" | keyof typeof levels>, string>

/** @param towers none: the model takes text alone */
export function samplesOf(engine: Engine, towers: readonly SampledTower[] = []): Sample[] {
  const stats = engine.stats()
  const rows = <Name extends keyof EngineStats>(help: Record<Name, string>, ending: string) =>
    (Object.keys(help) as Name[]).map((name) => ({
      name: `sinter_${name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)}${ending}`,
      help: help[name],
      value: stats[name] as number,
    }))
  const block = { name: "sinter_block_tokens", help: "Tokens of a KV block.", value: BLOCK }
  return [
    ...rows(levels, ""),
    block,
    ...rows(counts, "_total"),
    ...draftSamples(stats),
    ...towerSamples(towers),
  ]
}

type SampledTower = Pick<OpenTower, "kind" | "stats">

const towerWords = { image: ["images", "Images"], audio: ["recordings", "Recordings"] } as const

/** Those of one name one after the other. */
function towerSamples(towers: readonly SampledTower[]): Sample[] {
  const told = towers.map(({ kind, stats }) => ({ words: towerWords[kind], ...stats() }))
  return [
    ...told.map(({ words: [name, title], read }) => ({
      name: `sinter_tower_${name}_total`,
      help: `${title} that the tower has read; of others it was known what comes of them.`,
      value: read,
    })),
    ...told.map(({ words: [name], seconds }) => ({
      name: "sinter_tower_seconds_total",
      help: "How long it has read them, standing back behind tokens among it.",
      labels: { of: name },
      value: seconds,
    })),
  ]
}

/** One for each place of a draft, the first one's place being 1. */
function draftSamples({ drafts }: EngineStats): Sample[] {
  if (!drafts) return []
  const { mode, drafted, accepted } = drafts
  const places = (name: string, help: string, counts: readonly number[]) =>
    counts.map((value, i) => ({ name, help, labels: { mode, place: String(i + 1) }, value }))
  return [
    ...places(
      "sinter_drafted_tokens_total",
      "Tokens proposed, by their place in the draft.",
      drafted,
    ),
    ...places(
      "sinter_accepted_tokens_total",
      "Tokens proposed that came true, by place.",
      accepted,
    ),
  ]
}
