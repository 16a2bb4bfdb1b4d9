// What becomes of a body that has not fully arrived when its request is answered: one that is refused before it is read, or
// that has no use for a body. Mostly the rest is on its way, and the connection can go on. Otherwise the answer says
// `Connection: close`; the rest is discarded for a while, so that the client can read the answer before its pipe breaks, and
// then the connection is closed.

import type { IncomingMessage } from "node:http"

const MOMENT = 100 // milliseconds in which the rest may arrive
const MAX_REST = 5000 // milliseconds

/** Whether the body has come to its end, or does within a moment. */
export function isOver(raw: IncomingMessage): Promise<boolean> {
  if (raw.complete || raw.destroyed || raw.readableEnded) return Promise.resolve(true)
  raw.resume()
  return new Promise((resolve) => {
    const settle = () => {
      clearTimeout(timer)
      raw.off("end", settle).off("close", settle)
      resolve(raw.complete || raw.destroyed)
    }
    const timer = setTimeout(settle, MOMENT)
    raw.once("end", settle).once("close", settle)
  })
}

/** To be called before an answer with `Connection: close` is sent: Node would cut the connection right behind it. */
export function closeLater({ socket }: IncomingMessage, timeout: number): void {
  socket.destroySoon = () => {
    socket.end()
    const cut = setTimeout(() => socket.destroy(), Math.min(timeout, MAX_REST))
    socket.once("close", () => clearTimeout(cut))
  }
}
