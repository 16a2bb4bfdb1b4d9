// A checked body becomes the requests that the chat room takes, one for each prompt.

import type { CompletionRequest as Completion } from "../../../chat/conversation.ts"
import type { Problem } from "../../../errors.ts"
import { fault } from "../../check.ts"
import type { ModelCard, Service } from "../../service.ts"
import type { Work } from "../../turns.ts"
import { readingFormats } from "../format.ts"
import { assertStreamOptions, readEnds, readSampling } from "../sampling.ts"
import type { CompletionRequest } from "./schema.ts"

const MAX_CHOICES = 128 // of all prompts together

type Prompt = Completion["prompt"]

export interface Completions {
  prompts: readonly Prompt[]
  /** What they have in common. */
  common: Omit<Completion, "prompt">
}

/** Yields what it has read, as much as a body may hold. */
export function* readingCompletion(
  body: CompletionRequest,
  { model, defaults }: Service,
  { id, scope }: { id: string; scope: string },
): Work<Completions> {
  assertStreamOptions(body)
  if (body.max_tokens === 0 && !body.echo) {
    throw fault("max_tokens", "may be 0 only with echo")
  }
  if (body.suffix && body.echo) throw fault("echo", "cannot repeat a prompt that has a suffix")
  const choices = body.n ?? 1
  const prompts = yield* readingPrompts(body.prompt, model, "prompt", MAX_CHOICES)
  if (prompts.length * choices > MAX_CHOICES)
    throw fault(
      "prompt",
      `and n ask for ${prompts.length * choices} replies, more than ${MAX_CHOICES}`,
    )
  const format = yield* readingFormats(body)
  const common = {
    id,
    scope,
    choices,
    maxTokens: body.max_tokens ?? 16,
    echo: body.echo ?? false,
    ...readEnds(body, model),
    sampling: {
      ...readSampling(body, model, defaults),
      topLogprobs: body.logprobs ?? undefined,
    },
    ...(body.return_token_ids && { tellsTokens: true }),
    ...(format && { format }),
    ...(body.suffix && { suffix: body.suffix }),
  }
  return { prompts, common }
}

const PIECE = 16_384 // token ids read between two turns

/** Texts or token ids, at most so many; yields how many ids it has read. */
export function* readingPrompts(
  given: CompletionRequest["prompt"],
  model: ModelCard,
  field: string,
  most: number,
): Work<readonly Prompt[]> {
  if (typeof given === "string") return [given]
  const [first] = given
  if (first === undefined) throw fault(field, "must not be an empty list")
  if (typeof first === "number") return [yield* readingTokens(given, model, field)]
  if (given.length > most) throw fault(field, `must hold at most ${most}, not ${given.length}`)
  const prompts: Prompt[] = []
  for (const [index, each] of given.entries()) {
    if (typeof each !== typeof first || typeof each === "number") throw mixture(field)
    if (typeof each === "string") prompts.push(each)
    else prompts.push(yield* readingTokens(each, model, `${field}[${index}]`))
  }
  return prompts
}

/** Token ids that the model has; yields how many it has read. */
export function* readingTokens(
  given: readonly unknown[],
  { vocabularySize }: ModelCard,
  path: string,
): Work<Int32Array> {
  if (given.length === 0) throw fault(path, "must not be empty")
  const tokens = new Int32Array(given.length)
  for (let at = 0; at < given.length; at++) {
    if (at % PIECE === PIECE - 1) yield PIECE
    const token = given[at]
    if (typeof token !== "number") throw mixture(path)
    if (token >= vocabularySize) {
      const ids = `token ids from 0 to ${vocabularySize - 1}`
      throw fault(path, `must hold ${ids}, not ${token} (at ${at})`)
    }
    tokens[at] = token
  }
  return tokens
}

function mixture(field: string): Problem {
  return fault(field, "must hold texts, token ids or lists of token ids, not a mixture")
}
