// Whether others have their turn beside long work is told by turns of the event loop, not by a clock.

/** How often the event loop comes round until the promise settles. */
export async function turnsUntil(settled: Promise<unknown>): Promise<number> {
  let turns = 0
  let isOver = false
  const count = () => {
    if (isOver) return
    turns++
    setImmediate(count)
  }
  setImmediate(count)
  await settled.catch(() => {})
  isOver = true
  return turns
}
