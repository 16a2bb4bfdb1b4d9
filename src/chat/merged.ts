// Several iterators as one. Each is asked for one value at a time, so a slow reader slows them all. What waits hangs on no
// promise that outlives a value: Promise.race would leave a reaction behind on every iterator that stays silent.

export interface Merged<Value> {
  index: number
  value: Value
  /** Asks this one for no more; it is told `used`. */
  leave: (used?: number) => void
}

type Source<Value> = Pick<AsyncIterator<Value, unknown, undefined>, "next"> & {
  return?: (used?: number) => Promise<unknown>
}

/** Values in the order in which they come. Throws what an iterator throws; leaving the loop leaves those that go on. */
export function merged<Value>(
  sources: readonly Source<Value>[],
): AsyncGenerator<Merged<Value>, void, undefined> {
  return sources.length === 1 ? alone(sources[0]!) : crowd(sources)
}

async function* crowd<Value>(
  sources: readonly Source<Value>[],
): AsyncGenerator<Merged<Value>, void, undefined> {
  const arrived: { index: number; next: Promise<IteratorResult<Value, unknown>> }[] = []
  const running = new Set(sources.keys())
  let wake: () => void = () => {}
  const ask = (index: number) => {
    const next = sources[index]!.next()
    const arrive = () => {
      arrived.push({ index, next })
      wake()
    }
    next.then(arrive, arrive)
  }
  const leave = (index: number, used?: number) => {
    if (running.delete(index)) sources[index]!.return?.(used).catch(() => {}) // nobody is left to be told
  }
  for (const index of sources.keys()) ask(index)
  try {
    while (running.size > 0) {
      if (arrived.length === 0) {
        await new Promise<void>((resolve) => {
          wake = resolve
        })
      }
      const { index, next } = arrived.shift()!
      const result = await next // has settled; throws what the iterator threw
      if (result.done) running.delete(index)
      else {
        yield { index, value: result.value, leave: (used) => leave(index, used) }
        if (running.has(index)) ask(index)
      }
    }
  } finally {
    for (const index of running) leave(index)
  }
}

/** Nobody else can be first, so nothing is waited for but its next value. */
async function* alone<Value>(
  source: Source<Value>,
): AsyncGenerator<Merged<Value>, void, undefined> {
  let isOver = false
  const leave = (used?: number) => {
    if (isOver) return
    isOver = true
    source.return?.(used).catch(() => {}) // nobody is left to be told
  }
  try {
    while (!isOver) {
      const result = await source.next()
      if (result.done) isOver = true
      else yield { index: 0, value: result.value, leave }
    }
  } finally {
    leave()
  }
}
