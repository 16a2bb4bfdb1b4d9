// What proposes tokens: nothing, a look-up, or a model of its own. What was asked for is checked before the port opens,
// and refused in a sentence with both figures where it does not fit.

import { createLookup } from "../engine/drafters/lookup.ts"
import type { DraftDemand } from "../engine/limits.ts"
import { type Drafter, LONGEST_DRAFT, type SpeculativeMode } from "../engine/speculative.ts"
import { problem } from "../errors.ts"

export interface DraftingOptions {
  mode: SpeculativeMode | "disable"
  /** A model folder or a model's name, and the library compiled for it after a comma. */
  models?: string | undefined
  /** Tokens to propose for a sequence in a step; 0 or absent: as many as pay. */
  length?: number | undefined
}

/** A drafter that fits, not opened yet. */
export interface PreparedDrafting {
  mode: SpeculativeMode
  length: number
  /** What may have to be proposed for a sequence in a step, and what the model that does it takes. */
  demand: { length: number; model?: DraftDemand | undefined }
  open(): Promise<Drafter>
}

/** @throws `option_invalid` for what does not fit together. */
export async function prepareDrafting({
  mode,
  models,
  length = 0,
}: DraftingOptions): Promise<PreparedDrafting | undefined> {
  checkModels(mode, models)
  if (mode === "disable") {
    if (length === 0) return undefined
    throw problem("option_invalid", {
      option: "--overrides spec_draft_length",
      problem: `${length} tokens are to be proposed and --speculative-mode is disable, which proposes 0; choose a mode.`,
    })
  }
  return {
    mode,
    length,
    demand: { length: length || LONGEST_DRAFT },
    open: async () => createLookup(),
  }
}

const modelsOf = { disable: 0, lookup: 0, small_draft: 1, eagle: 1, medusa: 1 } as const

function checkModels(mode: DraftingOptions["mode"], models: string | undefined): void {
  const needed = modelsOf[mode]
  const given = models === undefined ? 0 : 1
  if (needed === given) return
  throw problem("option_invalid", {
    option: needed > given ? "--speculative-mode" : "--additional-models",
    problem:
      needed > given
        ? `${mode} needs ${needed} additional model and ${given} are given; name it with --additional-models.`
        : `${given} additional model is given and --speculative-mode ${mode} takes ${needed}; choose small_draft, eagle or medusa, or leave it out.`,
  })
}
