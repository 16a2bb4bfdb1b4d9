// What an engine drafts with the programs of a head, while its model replies.

import { compile } from "../../src/compiler/compile.ts"
import type { Graph } from "../../src/compiler/graph/graph.ts"
import { traitsOf } from "../../src/compiler/targets/prepare.ts"
import { openReference } from "../../src/compiler/targets/reference/reference.ts"
import { targets } from "../../src/compiler/targets/targets.ts"
import { createEngine } from "../../src/engine/engine.ts"
import type { GenerationRequest, SamplingParams } from "../../src/engine/generation.ts"
import type { Memory } from "../../src/engine/memory.ts"
import type { Drafter, SpeculativeMode } from "../../src/engine/speculative.ts"
import { loadParameters, type Weights } from "../../src/model/weights/weights.ts"
import type { FormatName } from "../../src/runtime/format.ts"
import { plain, request } from "../history-engine.ts"
import { collect } from "../history-program.ts"
import { arithmeticHere, limitsFor } from "./steps.ts"

export type On = "reference" | "cpu" | "vulkan"

const limits = { blocks: 20, tokens: 128, sequences: 1, rows: 128 }

/** A graph as a program with its weights in; sums in the order of its device. */
export async function opened(
  { graph, format }: { graph: Graph; format: FormatName },
  weights: Weights,
  on: On = "reference",
) {
  const { sums } = on === "reference" ? { sums: undefined } : traitsOf(on)
  const options = { format, activations: "float", kv: "f32" } as const
  const plan = compile(graph, { ...options, ...(sums && { sums }) })
  const program =
    on === "reference"
      ? openReference(plan, limitsFor(plan, limits), arithmeticHere)
      : await (await targets[on].prepare(plan)).open(limitsFor(plan, limits))
  await loadParameters(weights, program.manifest, program)
  return program
}

/** A text that a model says, and what of it is asked for. */
interface Text {
  prompt: readonly number[]
  reply: readonly number[]
}

export function asking({ prompt, reply }: Text, changes: Partial<SamplingParams>) {
  const sampling = { ...plain, topLogprobs: undefined, ...changes }
  return request(1, { prompt: Int32Array.from(prompt), maxTokens: reply.length, sampling })
}

export interface Drafting {
  model: { graph: Graph; format: FormatName; weights: Weights }
  mode: SpeculativeMode
  drafter: (memory: Memory) => Drafter
  /** Tokens that are proposed at once. */
  length: number
  on?: On
}

export interface Drafted {
  /** The text's length then, and what was proposed. */
  made: { at: number; proposed: number[] }[]
  /** The row that the text's last token was drawn from, by the text's length. */
  rows: Map<number, Float32Array>
  reply: number[]
}

/** Lets the model reply with drafts; the drafter's programs stay open. */
export async function drafted(
  { model, mode, drafter, length, on }: Drafting,
  asked: GenerationRequest,
): Promise<Drafted> {
  const [made, rows]: [Drafted["made"], Drafted["rows"]] = [[], new Map()]
  const watched = (memory: Memory): Drafter => {
    const own = drafter(memory)
    return {
      ...own,
      async propose(step, cancel) {
        await own.propose(step, cancel)
        for (const { length: at, drafts } of step)
          if (drafts.length > 0) made.push({ at, proposed: [...drafts] })
      },
      observe(sequence, seen, from, given) {
        own.observe!(sequence, seen, from, given)
        const at = (sequence.computed - 1 - from) * given
        rows.set(sequence.length, seen.slice(at, at + given))
      },
      async close() {},
    }
  }
  const chosen = (value: number) => ({ value, why: "test" })
  const engine = createEngine(await opened(model, model.weights, on), {
    limits: {
      context: { ...chosen(100), bound: "model" },
      total: chosen(160),
      sequences: chosen(1),
      chunk: chosen(50),
    },
    maxQueue: 1,
    speculative: { mode, drafter: watched, length, room: length },
  })
  const { tokens } = await collect(engine.generate(asked).choices[0]!)
  await engine.close()
  return { made, rows, reply: tokens }
}
