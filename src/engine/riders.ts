// Who takes part in a step that is handed over while the one before it runs (`Program.chains`), so that JavaScript stands beside
// the device and not before it. Such a step has nobody but sequences of the one before, each with the token that is being drawn:
// nobody comes, no prompt is read and nobody is preempted for it. Whoever's next step depends on more than the program knows of that
// token does not ride, and then nobody does: its turn would come a step later than the others'.
//
// That a token ends a reply is seen one step late. What that step drew for the sequence is thrown away, and what it left in a block
// lies behind all that may be shared: blocks are shared as far as rows were seen to be finite.

import type { Part } from "./batch.ts"
import { penalises } from "./sampler.ts"
import type { Scheduler } from "./scheduler.ts"
import type { Sequence } from "./sequence.ts"

/** The parts of a step behind the one of `parts`, which has not been handed out; none: there is no such step. */
export function ridersOf(parts: readonly Part[], scheduler: Scheduler): Part[] {
  if (!parts.every(rides)) return []
  const riders: Part[] = []
  let row = 0
  for (const { sequence, rows } of parts) {
    row += rows
    if (!goesOn(sequence)) continue
    if (!scheduler.ride(sequence)) return []
    const from = sequence.length
    riders.push({ sequence, from, end: from + 1, rows: 1, hidden: 0, drawnBy: row - 1 })
  }
  return riders
}

/**
 * Whether the step draws one token of the sequence, and that is all there is to know of it for another. Not its first: siblings may
 * wait for the prompt.
 */
function rides({ sequence, from, end, rows, hidden }: Part): boolean {
  const { state, length, replyTokens, constraint, sequenceGroup } = sequence
  const draws = end === length && end - from === 1 && rows === 1 && hidden === 0
  const isFree = !constraint || constraint.always !== undefined
  const knows = isFree && !penalises(sequenceGroup.request.sampling) // other masks and counts are the host's
  return draws && knows && replyTokens > 0 && state === "running" && !sequence.isBehindWith(1)
}

/** Whether its reply is not over with the token that is being drawn, whichever it is. */
function goesOn({ length, sequenceGroup }: Sequence): boolean {
  return length + 1 < sequenceGroup.end && sequenceGroup.request.maxTokens !== 0
}
