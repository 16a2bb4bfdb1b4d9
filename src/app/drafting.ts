// What proposes tokens: nothing, a look-up, or a model of its own. What was asked for is checked before the port opens,
// and refused in a sentence with both figures where it does not fit.

import { existsSync } from "node:fs"
import {
  type LoadableProgram,
  prepareProgram,
  type TargetName,
} from "../compiler/targets/targets.ts"
import { createLookup } from "../engine/drafters/lookup.ts"
import { createSmallDraft } from "../engine/drafters/small-draft.ts"
import type { DraftDemand, Overrides } from "../engine/limits.ts"
import type { Memory } from "../engine/memory.ts"
import { type Drafter, LONGEST_DRAFT, type SpeculativeMode } from "../engine/speculative.ts"
import { problem } from "../errors.ts"
import type { Log } from "../log.ts"
import { locateModel } from "../model/locate.ts"
import { type Model, openModel } from "../model/model.ts"
import { vocabularyDifference } from "../model/vocabulary.ts"
import type { ProgramLimits } from "../runtime/program.ts"
import { planOf } from "./plan.ts"

export interface DraftingOptions {
  mode: SpeculativeMode | "disable"
  /** A model's folder or name, and after a comma a library compiled for it. */
  models?: string | undefined
}

export interface DraftingWish extends DraftingOptions {
  /** The model that draws. */
  model: Model
  target: TargetName | "auto"
  overrides: Overrides
  log: Log
}

/** A drafter that fits, not opened yet. */
export interface PreparedDrafting {
  mode: SpeculativeMode
  length: number
  /** For people: what proposes. */
  title: string
  /** How much may be proposed for a sequence in a step, and what the model that does it takes. */
  demand: { length: number; model?: DraftDemand | undefined }
  open(opening: Opening): Promise<(memory: Memory) => Drafter>
  close(): Promise<void>
}

export interface Opening {
  /** Of the program that draws. */
  limits: ProgramLimits
  signal: AbortSignal
  /** Reads weights into a program. */
  load: (model: Model, program: LoadableProgram) => Promise<void>
}

/** @throws `option_invalid` for what does not fit together, and what a model's files are refused with. */
export async function prepareDrafting(wish: DraftingWish): Promise<PreparedDrafting | undefined> {
  const { mode, models } = wish
  const { spec_draft_length: length = 0 } = wish.overrides
  checkModels(mode, models)
  switch (mode) {
    case "disable":
      if (length === 0) return undefined
      throw problem("option_invalid", {
        option: "--overrides spec_draft_length",
        problem: `${length} tokens are to be proposed and --speculative-mode is disable, which proposes 0; choose a mode.`,
      })
    case "lookup":
      return {
        mode,
        length,
        title: "what followed the same tokens before",
        demand: { length: length || LONGEST_DRAFT },
        open: async () => createLookup,
        close: async () => {},
      }
    default:
      return prepareSmallDraft(wish, models!)
  }
}

const modelsOf = { disable: 0, lookup: 0, small_draft: 1, eagle: 1, medusa: 1 } as const

function checkModels(mode: DraftingOptions["mode"], models: string | undefined): void {
  const needed = modelsOf[mode]
  const given = models === undefined ? 0 : 1
  if (needed > given)
    throw problem("option_invalid", {
      option: "--speculative-mode",
      problem: `${mode} needs ${needed} additional model and ${given} are given; name it with --additional-models.`,
    })
  if (needed < given)
    throw problem("option_invalid", {
      option: "--additional-models",
      problem: `${given} additional model is given and --speculative-mode ${mode} takes ${needed}; choose small_draft, eagle or medusa, or leave it out.`,
    })
}

/** `PATH` or `PATH,LIBRARY`; a comma may belong to a path that is there. */
function parseModels(models: string): { path: string; library: string | undefined } {
  const [path, library, ...others] = existsSync(models) ? [models] : models.split(",")
  if (others.length > 0 || !path || library === "")
    throw misfit(`expected PATH or PATH,LIBRARY, 1 model in all, got ${JSON.stringify(models)}`)
  return { path, library }
}

function misfit(what: string): Error {
  return problem("option_invalid", { option: "--additional-models", problem: `${what}.` })
}

async function prepareSmallDraft(wish: DraftingWish, models: string): Promise<PreparedDrafting> {
  const { mode, model, target, overrides, log } = wish
  const { spec_draft_length: length = 0 } = overrides
  const { path, library } = parseModels(models)
  const draft = await openModel(locateModel(path), { verify: false })
  try {
    checkVocabulary(draft, model)
    checkSinks(draft, model)
    const plan = planOf(draft, draft.format, overrides)
    const prepared = await prepareProgram(plan, { target, library, folder: draft.path, log })
    const limitsOf = (limits: ProgramLimits) => ({ ...limits, rows: limits.sequences })
    return {
      mode: mode as SpeculativeMode,
      length,
      title: `${draft.name}: ${draft.architecture}, ${draft.format}, ${prepared.origin}`,
      demand: {
        length: length || LONGEST_DRAFT,
        model: {
          weightBytes: prepared.weightBytes,
          bytesPerBlock: prepared.manifest.kv.bytesPerBlock,
          bufferBytes: (limits) => prepared.bufferBytes(limitsOf(limits)),
        },
      },
      async open({ limits, signal, load }) {
        const program = await prepared.open(limitsOf(limits), signal)
        try {
          await load(draft, program)
        } catch (error) {
          await program.close()
          throw error
        }
        return (memory) => createSmallDraft(program, memory)
      },
      close: () => draft.close(),
    }
  } catch (error) {
    await draft.close()
    throw error
  }
}

function checkVocabulary(draft: Model, model: Model): void {
  const difference = vocabularyDifference(draft.texts.tokenizer, model.texts.tokenizer)
  if (difference)
    throw misfit(`${draft.name} and ${model.name} have different vocabularies: ${difference}`)
}

/** What has slid out of the model's window is gone for the draft too. */
function checkSinks(draft: Model, model: Model): void {
  const [has, keeps] = [draft.graph.sinks, model.graph.sinks]
  if (model.graph.window === undefined || has <= keeps) return
  throw misfit(
    `${draft.name} always looks at its first ${has} positions, and ${model.name} keeps ${keeps} of those that slide out of its window`,
  )
}
