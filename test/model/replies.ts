// What golden prompts are asked of an engine, what it says, and who drafts it half right.

import {
  type GenerationEvent,
  type GenerationRequest,
  plainSampling,
  type TokenEvent,
} from "../../src/engine/generation.ts"
import { type Drafter, nobody } from "../../src/engine/speculative.ts"

export function greedily(prompt: Int32Array, maxTokens: number): GenerationRequest {
  return {
    id: "golden",
    prompt,
    choices: 1,
    maxTokens,
    stopTokens: new Set(),
    sampling: { ...plainSampling, temperature: 0, seed: 0n },
    scope: "",
  }
}

/** A prompt, and what is said to it. */
interface Known {
  tokens: Int32Array
  greedy: ArrayLike<number>
}

/** Knows what will be said, and every third time says something else from some place on. */
export function halfRight(prompts: readonly Known[]): Drafter {
  let asked = 0
  return {
    ...nobody,
    longest: 4,
    async propose(step) {
      for (const { wish, drafts, tokens, length } of step) {
        const { tokens: prompt, greedy } = prompts.find((each) =>
          each.tokens.every((token, i) => token === tokens[i]),
        )!
        // Only who wants a draft counts: how many do depends on the times of steps.
        const wrongFrom = wish > 0 && asked++ % 3 === 0 ? asked % 4 : wish
        for (let i = 0; i < wish; i++) {
          const right = greedy[length - prompt.length + i] ?? 0
          drafts.push(i < wrongFrom ? right : right ^ 1)
        }
      }
    },
  }
}

export async function reply(events: AsyncIterable<GenerationEvent>): Promise<TokenEvent[]> {
  const tokens: TokenEvent[] = []
  for await (const event of events) {
    if (event.kind === "token") tokens.push(event)
    else if (event.kind === "end" && event.problem) throw event.problem
  }
  return tokens
}
