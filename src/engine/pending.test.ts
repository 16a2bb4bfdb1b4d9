// Constraints that need time: their sequences are left out of the steps meanwhile, and nothing else changes.

import { expect, test } from "vitest"
import { request, setUp, turns } from "../../test/history-engine.ts"
import { collect } from "../../test/history-program.ts"
import type { Constraint } from "./generation.ts"

/** Allows even tokens and odd ones by turns; each mask is there some turns of the event loop after it was asked for. */
function slow(delay: () => number) {
  const made = { opened: 0, closed: 0, early: 0 }
  const constraint = (): Constraint => {
    made.opened++
    let odd = 0
    let pending: Promise<void> | undefined
    const prepare = () => {
      pending = turns(delay()).then(() => {
        pending = undefined
      })
    }
    prepare()
    return {
      get pending() {
        return pending
      },
      mask: (into) => {
        if (pending) made.early++
        into.fill(odd ? 0xaaaa_aaaa : 0x5555_5555)
      },
      accept: () => {
        odd = 1 - odd
        prepare()
      },
      close: () => {
        made.closed++
      },
    }
  }
  return { constraint, made }
}

const steady = (delay: number) => slow(() => delay)

test("slow masks give the tokens that fast ones give, alone and in company", async () => {
  const input = request(40, { choices: 3 })
  const reply = async (delay: number, company: number) => {
    const { engine, isClean } = setUp()
    const { constraint, made } = steady(delay)
    const others = Array.from({ length: company }, () =>
      collect(engine.generate(request(30)).choices[0]!),
    )
    const { choices } = engine.generate({ ...input, constraint })
    const replies = await Promise.all(choices.map(collect))
    await Promise.all(others)
    expect(made).toEqual({ opened: 3, closed: 3, early: 0 })
    isClean()
    return replies.map(({ tokens, logprobs }) => ({ tokens, logprobs }))
  }
  const fast = await reply(0, 0)
  expect(fast.map(({ tokens }) => tokens.length)).toEqual([20, 20, 20])
  for (const delay of [1, 7, 40]) {
    expect(await reply(delay, 0)).toEqual(fast)
    expect(await reply(delay, 2)).toEqual(fast)
  }
})

test("whoever waits for a mask holds up nobody, and its prompt is read meanwhile", async () => {
  let clock = 0 // runs between steps, too
  const { engine, program, isClean } = setUp({ options: { now: () => clock++ } })
  let open = false
  const { constraint } = slow(() => (open ? 0 : 400))
  const waiting = collect(engine.generate(request(50, { constraint, maxTokens: 3 })).choices[0]!)
  const { tokens } = await collect(engine.generate(request(10)).choices[0]!)
  expect(tokens).toHaveLength(20)
  const before = program.steps.length
  expect(before).toBeLessThan(40)
  expect(engine.stats().promptTokens).toBe(49 + 10)
  open = true
  expect((await waiting).tokens).toHaveLength(3)
  expect(program.steps.slice(before).flatMap(({ chunks }) => chunks)).toEqual([1, 1, 1])
  isClean()
})

test("who drew together stays together while masks take a small share of a step", async () => {
  const { engine, program, isClean } = setUp({ cost: () => 100 })
  let draws = 0
  const { constraint } = slow(() => 20 + 30 * (draws++ % 3))
  const { choices } = engine.generate(request(16, { choices: 3, constraint }))
  await Promise.all(choices.map(collect))
  const together = program.steps.filter(({ sequences }) => sequences === 3)
  expect(together.length).toBeGreaterThanOrEqual(18)
  isClean()
})

test("a reader that leaves while its mask is made frees everything", async () => {
  const { engine, isClean } = setUp()
  const { constraint, made } = steady(1000)
  const leaving = new AbortController()
  engine.generate(request(20, { constraint }), leaving.signal)
  await turns(50)
  leaving.abort()
  await turns(5)
  expect(made.closed).toBe(1)
  isClean()
})
