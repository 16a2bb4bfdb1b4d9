// Sends an answer that is not streamed: at once where it is small, with its length; else as it comes, at the speed at which the
// client takes it. Until the first of it is sent a failure is still an answer of its own.

import { type Answer, type Exchange, JSON_TYPE, json } from "../exchange.ts"
import { Outflow } from "../outflow.ts"
import { nextTurn } from "../turns.ts"

const AT_ONCE = 256 * 1024 // characters
const PIECE = 4 * 1024 // characters: with log probabilities a third of a millisecond

export async function whole(exchange: Exchange, pieces: AsyncIterable<string>): Promise<Answer> {
  let text = ""
  let made = 0 // since others had their turn
  let outflow: Outflow | undefined
  try {
    for await (const piece of pieces) {
      text += piece
      made += piece.length
      if (made >= PIECE) {
        made = 0
        await nextTurn()
      }
      if (text.length < AT_ONCE) continue
      outflow ??= new Outflow(exchange, { "content-type": JSON_TYPE })
      await outflow.write(text)
      text = ""
    }
  } catch (error) {
    if (!outflow) throw error
    if (!exchange.signal.aborted) exchange.log.error({ err: error }, "an answer broke off")
    outflow.cut()
    return "sent"
  }
  if (!outflow) return json(text)
  await outflow.write(text)
  outflow.end()
  return "sent"
}
