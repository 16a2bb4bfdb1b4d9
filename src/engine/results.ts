// What a step computed, handed to its sequences: each has got further, the prompt's tokens tell how likely they were, tokens are
// drawn and read, and some of them end a reply. One sequence whose row or constraint fails ends alone.

import { MAX_TOP_LOGPROBS, type StepDone } from "../runtime/program.ts"
import type { Part } from "./batch.ts"
import { columnsOf } from "./columns.ts"
import { type Endings, failure } from "./endings.ts"
import type { PromptScores, TokenEvent } from "./generation.ts"
import type { Scheduler } from "./scheduler.ts"
import type { Sequence, SequenceGroup } from "./sequence.ts"
import type { Speculation } from "./speculative.ts"
import type { Counts } from "./stats.ts"
import type { Trace } from "./trace.ts"

const NOT_FINITE = "it computed a number that is not finite"

export interface ResultsParts {
  /** Numbers in a hidden row, and in all that is handed out with it. */
  hidden: number
  given: number
  scheduler: Scheduler
  endings: Endings
  speculation: Speculation | undefined
  counts: Counts
  now: () => number
  trace: Trace | undefined
}

export class Results {
  readonly #parts: ResultsParts

  constructor(parts: ResultsParts) {
    this.#parts = parts
  }

  /** @param begun when the step began */
  handOut(parts: readonly Part[], output: StepDone, begun: number): void {
    const before = this.#parts.trace && { ...this.#parts.counts }
    const { given: width } = this.#parts
    let row = 0
    let hidden = 0
    let promptTokens = 0
    let drawing = parts.length
    for (const part of parts) {
      const { sequence, rows } = part
      if (sequence.state === "ended") {
        row += rows // by the token before: what was drawn behind it is nobody's
        drawing--
        continue
      }
      const { scores, draws } = sequence
      if (sequence.remaining > 1) {
        promptTokens += sequence.chunk
        drawing--
        this.#traceChunk(sequence, begun)
      }
      this.#advance(sequence)
      if (scores > 0 && sequence.state === "running") this.#score(sequence, output, row, scores)
      if (draws > 0 && sequence.state === "running") this.#drawAll(sequence, output, row + scores)
      row += rows
      const seen = output.hidden.subarray(hidden * width, (hidden + part.hidden) * width)
      hidden += part.hidden
      const { readHidden, readGiven } = sequence.sequenceGroup.request
      if (readHidden) this.#read(sequence, seen, part.from)
      else if (readGiven) this.#readGiven(sequence, seen, part.end - part.hidden)
      else this.#parts.speculation?.observe(sequence, seen, part.end - part.hidden, width)
    }
    this.#parts.counts.steps++
    this.#parts.speculation?.end(parts.length, promptTokens)
    this.#parts.scheduler.pace.note(drawing, promptTokens, this.#parts.now() - begun)
    if (before) this.#traceStep(parts.length, begun, before)
  }

  #traceChunk({ sequenceGroup, choice, computed, chunk }: Sequence, begun: number): void {
    const counts = { choice, from: computed, tokens: chunk }
    this.#parts.trace?.span(sequenceGroup.request.id, "prompt", begun, counts)
  }

  #traceStep(sequences: number, begun: number, before: Counts): void {
    this.#parts.trace?.span(undefined, "step", begun, {
      sequences,
      prompt: this.#parts.counts.promptTokens - before.promptTokens,
      reply: this.#parts.counts.replyTokens - before.replyTokens,
      recomputed: this.#parts.counts.recomputedTokens - before.recomputedTokens,
      blocks: this.#parts.scheduler.memory.used,
    })
  }

  /** Its chunk is in its blocks now; counts what of it was new. */
  #advance(sequence: Sequence): void {
    const { sequenceGroup } = sequence
    const to = sequence.computed + sequence.chunk
    const prompt =
      Math.min(to, sequenceGroup.promptTokens) - Math.max(sequence.computed, sequenceGroup.reached)
    const reached = Math.max(sequence.reached, sequenceGroup.promptTokens)
    const reply = to - Math.max(sequence.computed, reached)
    const fresh = Math.max(0, prompt) + Math.max(0, reply)
    this.#parts.counts.promptTokens += Math.max(0, prompt)
    this.#parts.counts.recomputedTokens += sequence.chunk - fresh
    sequenceGroup.reached = Math.max(
      sequenceGroup.reached,
      Math.min(to, sequenceGroup.promptTokens),
    )
    sequence.reached = Math.max(sequence.reached, to)
    sequence.computed = to
  }

  /** Keeps how likely the prompt's tokens were, for all choices, whichever of them computed it. */
  #score(sequence: Sequence, output: StepDone, first: number, rows: number): void {
    const { sequenceGroup } = sequence
    if (output.finite.subarray(first, first + rows).includes(0)) {
      this.#parts.endings.fail(sequence, failure(NOT_FINITE))
      return
    }
    const { top, logprobs, topTokens, topLogprobs } = scoresOf(sequenceGroup)
    logprobs.set(output.logprobs.subarray(first, first + rows), sequenceGroup.scored)
    for (let row = 0; row < rows; row++) {
      const from = (first + row) * MAX_TOP_LOGPROBS
      const at = (sequenceGroup.scored + row) * top
      topTokens.set(output.topTokens.subarray(from, from + top), at)
      topLogprobs.set(output.topLogprobs.subarray(from, from + top), at)
    }
    sequenceGroup.scored += rows
  }

  /** Its rows are all that is wanted of it. */
  #read(sequence: Sequence, seen: Float32Array, from: number): void {
    if (sequence.state !== "running") return
    const { given, hidden } = this.#parts
    try {
      sequence.sequenceGroup.request.readHidden!(columnsOf(seen, given, 0, hidden), from)
    } catch (error) {
      this.#parts.endings.fail(sequence, failure(error))
      return
    }
    if (sequence.remaining > 0) return
    this.#parts.endings.end(sequence, { kind: "end", reason: "length" })
  }

  /** What stands beside its rows is told in passing. */
  #readGiven(sequence: Sequence, seen: Float32Array, from: number): void {
    if (seen.length === 0) return
    const { given, hidden } = this.#parts
    const { readGiven } = sequence.sequenceGroup.request
    try {
      readGiven!(columnsOf(seen, given, hidden, given - hidden), from)
    } catch (error) {
      if (sequence.state === "running") this.#parts.endings.fail(sequence, failure(error))
    }
  }

  /** Draws a token, and another one for as long as the draft said which it would be: that one is computed too. */
  #drawAll(sequence: Sequence, output: StepDone, first: number): void {
    const { drafts } = sequence
    let right = 0
    for (let goesOn = true; goesOn; ) {
      const row = first + right
      this.#draw(sequence, output, row, right)
      goesOn = output.tokens[row] === drafts[right]
      if (goesOn) right++
      if (sequence.state === "ended") break
      if (goesOn) sequence.reached = ++sequence.computed
    }
    this.#parts.speculation?.verified(sequence, right)
  }

  /** @param behind so many drafted tokens that have come true */
  #draw(sequence: Sequence, output: StepDone, row: number, behind: number): void {
    const { memory } = this.#parts.scheduler
    const { fault } = sequence
    const { promptTokens, request } = sequence.sequenceGroup
    try {
      if (fault && behind >= fault.behind) throw fault.error
      if (output.finite[row] === 0) throw new Error(NOT_FINITE)
      sequence.verified = sequence.computed
      memory.publish(sequence, promptTokens)
      if (request.maxTokens === 0) {
        this.#parts.endings.end(sequence, { kind: "end", reason: "length" })
        return
      }
      const event = tokenEvent(sequence, output, row)
      const { token } = event
      if (request.stopTokens.has(token)) {
        this.#parts.endings.end(sequence, { ...event, kind: "end", reason: "stop" })
        return
      }
      sequence.constraint?.accept(token)
      if (sequence.replyTokens === 0) sequence.firstAt = this.#parts.now()
      sequence.append(token)
      this.#parts.counts.replyTokens++
      sequence.outbox.put(event)
    } catch (error) {
      this.#parts.endings.fail(sequence, failure(error))
      return
    }
    if (sequence.length < sequence.sequenceGroup.end) return
    this.#parts.endings.end(sequence, { kind: "end", reason: "length" })
  }
}

/** Their room is taken when it is first asked for. */
export function scoresOf(sequenceGroup: SequenceGroup): PromptScores {
  const top = sequenceGroup.request.sampling.topLogprobs ?? 0
  const count = sequenceGroup.promptTokens - 1
  sequenceGroup.scores ??= {
    top,
    logprobs: new Float32Array(count),
    topTokens: new Int32Array(count * top),
    topLogprobs: new Float32Array(count * top),
  }
  return sequenceGroup.scores
}

function tokenEvent({ sequenceGroup }: Sequence, output: StepDone, row: number): TokenEvent {
  const top = []
  const first = row * MAX_TOP_LOGPROBS
  for (let i = first; i < first + (sequenceGroup.request.sampling.topLogprobs ?? 0); i++) {
    top.push({ token: output.topTokens[i]!, logprob: output.topLogprobs[i]! })
  }
  return { kind: "token", token: output.tokens[row]!, logprob: output.logprobs[row]!, top }
}
