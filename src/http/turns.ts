// Long work on the event loop, in pieces between which everybody else is served. The work is a generator that yields after
// each bounded piece; all of it that goes on at once takes turns, one piece each time round the loop, so that a crowd of
// large bodies delays a neighbour no more than one does. Work that is over within its first piece never waits. Beside a stream
// it gets at most half of the time.

/** What it yields is how much it has done since it last yielded, in units of its own. */
export type Work<Result> = Generator<number, Result>

const waiting: (() => void)[] = []
let isTold = false // that somebody waits, or that a turn is not over
let streams = 0

/** Resolves when it is one's turn: in the next round of the event loop, or as many later as others wait. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    waiting.push(resolve)
    if (!isTold) setImmediate(giveTurn)
    isTold = true
  })
}

/**
 * Until the returned function is called, turns rest for as long as each of them took: a crowd of large bodies and answers would
 * else keep a processor busy that steps and streams need, however small its pieces are.
 */
export function beginStream(): () => void {
  streams++
  return () => {
    streams--
  }
}

function giveTurn(): void {
  const begun = performance.now()
  waiting.shift()!()
  // By then the turn has been used, and whatever else had come was served.
  setImmediate(() => {
    isTold = waiting.length > 0
    if (!isTold) return
    if (streams === 0) giveTurn()
    else setTimeout(giveTurn, performance.now() - begun)
  })
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
