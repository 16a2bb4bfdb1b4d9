// Long work on the event loop, in pieces between which everybody else is served. The work is a generator that yields after
// each bounded piece; all of it that goes on at once takes turns, one piece each time round the loop, so that a crowd of
// large bodies delays a neighbour no more than one does. Work that is over within its first piece never waits.

/** What it yields is how much it has done since it last yielded, in units of its own. */
export type Work<Result> = Generator<number, Result>

const waiting: (() => void)[] = []

/** Resolves when it is one's turn: in the next round of the event loop, or as many later as others wait. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    if (waiting.push(resolve) === 1) setImmediate(giveTurn)
  })
}

function giveTurn(): void {
  const take = waiting.shift()!
  if (waiting.length > 0) setImmediate(giveTurn)
  take()
}

export async function inTurns<Result>(work: Work<Result>): Promise<Result> {
  let piece = work.next()
  while (!piece.done) {
    await nextTurn()
    piece = work.next()
  }
  return piece.value
}

/** For work that is known to be short, and where nobody can wait. */
export function atOnce<Result>(work: Work<Result>): Result {
  for (;;) {
    const piece = work.next()
    if (piece.done) return piece.value
  }
}
