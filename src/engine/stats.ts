// What the engine counts, for metrics and for tests. Plain numbers, read whenever somebody asks.

export interface EngineStats {
  // now
  running: number // sequences with a place in the steps
  waiting: number // requests of which nothing runs yet
  blocksUsed: number
  blocks: number
  blocksRemembered: number // known to the prefix cache, used or free
  // ever
  steps: number
  promptTokens: number // computed for the first time in their request
  cachedTokens: number // prompt tokens taken over from the prefix cache
  replyTokens: number // handed out
  recomputedTokens: number // computed once more, after blocks were taken or for another choice
  preemptions: number
  failures: number // sequences that ended in an error
  forcedTokens: number // of replyTokens, those computed ahead because a constraint left no choice
  /** Where tokens are proposed: how many at each place of a draft, and how many of them came true. */
  drafts?: { mode: string; drafted: readonly number[]; accepted: readonly number[] }
}

/** Those that the loop itself counts. */
export type Counts = Pick<
  EngineStats,
  "steps" | "promptTokens" | "replyTokens" | "recomputedTokens" | "failures"
>

export const noCounts = (): Counts => ({
  steps: 0,
  promptTokens: 0,
  replyTokens: 0,
  recomputedTokens: 0,
  failures: 0,
})
