import { expect, test } from "vitest"
import { batch, notCancelled } from "../../test/model/steps.ts"
import { newStepDone, type StepInput, type StepOutput, TOLD } from "./program.ts"
import { type StartedStep, StepQueue } from "./step-queue.ts"

/** Of as many sequences as there are tokens; those whose row is not TOLD are drawn by it. */
function step(tokens: readonly number[], drawnBy?: readonly number[]): StepInput {
  const input = batch(tokens.map((token, i) => ({ tokens: [token], from: 0, blocks: [i] })))
  return drawnBy ? { ...input, drawnBy: Int32Array.from(drawnBy) } : input
}

/** What a step of these tokens draws: each its successor, and -1 where there is none. */
function drawn(input: StepInput, tokens: readonly number[]): StepOutput {
  const done = newStepDone(input, { hidden: 1, vocabulary: 1 })
  for (const [row, token] of tokens.entries())
    if (token >= 0) [done.tokens[row], done.finite[row]] = [token, 1]
  return done
}

const turn = () => new Promise((resolve) => setImmediate(resolve))

/** A device that ends steps when it is told to, in their order. */
function setUp({ leads = true, behind = true } = {}) {
  const log: string[] = []
  const ends: ((output: StepOutput | Error) => void)[] = []
  const inputs: StepInput[] = []
  const start =
    (kind: string) =>
    async (input: StepInput): Promise<StartedStep> => {
      log.push(`${kind} ${[...input.tokens].join(" ")}`)
      inputs.push(input)
      const output = new Promise<StepOutput>((resolve, reject) => {
        ends.push((end) => (end instanceof Error ? reject(end) : resolve(end)))
      })
      return { output, ...(leads && { leads }) }
    }
  const queue = new StepQueue(
    start("alone"),
    behind ? start("behind") : async () => undefined, // as where a block has grown
  )
  const hand = async (input: StepInput) => {
    const output = queue.step(input, notCancelled())
    output.catch(() => {})
    await turn()
    return output
  }
  return { queue, hand, log, ends, inputs }
}

test("a step is started behind one that leads, and no third before that one is over", async () => {
  const { queue, hand, log, ends, inputs } = setUp()
  const outputs = [hand(step([7, 8])), hand(step([0, 9], [1, TOLD])), hand(step([0], [0]))]
  await turn()
  expect(log).toEqual(["alone 7 8", "behind 0 9"])
  expect([...inputs[1]!.drawnBy!]).toEqual([1, TOLD])
  ends[0]!(drawn(inputs[0]!, [1, 2]))
  await turn()
  expect(log.slice(2)).toEqual(["behind 0"])
  let isIdle = false
  void queue.idle().then(() => (isIdle = true))
  ends[1]!(drawn(inputs[1]!, [3, 4]))
  await turn()
  expect(isIdle).toBe(false)
  ends[2]!(drawn(inputs[2]!, [5]))
  const tokens = (await Promise.all(outputs)).map((out) => out.kind === "done" && [...out.tokens])
  expect(tokens).toEqual([[1, 2], [3, 4], [5]])
  await turn()
  expect(isIdle).toBe(true)
})

test.each([
  ["ahead does not lead", { leads: false }],
  ["behind must be told", { behind: false }],
])("where the step %s, it waits for its tokens", async (_, given) => {
  const { hand, log, ends, inputs } = setUp(given)
  void hand(step([7, 8, 9]))
  const output = hand(step([0, 0, 6], [2, 1, TOLD]))
  await turn()
  expect(log).toEqual(["alone 7 8 9"])
  ends[0]!(drawn(inputs[0]!, [1, -1, 3]))
  await turn()
  expect(log.slice(1)).toEqual(["alone 3 0 6"])
  expect([...inputs[1]!.drawnBy!]).toEqual([TOLD, TOLD, TOLD])
  ends[1]!(drawn(inputs[1]!, [4, 5, 6]))
  expect(await output).toMatchObject({ kind: "done", tokens: Int32Array.of(4, 5, 6) })
})

test("one that is behind a step which fails fails as that one does, once both are over", async () => {
  const { hand, ends, inputs } = setUp()
  const [first, second] = [hand(step([7])), hand(step([0], [0]))]
  await turn()
  let isOver = false
  void second.catch(() => (isOver = true))
  ends[0]!(new Error("planted"))
  await expect(first).rejects.toThrow("planted")
  await turn()
  expect(isOver).toBe(false)
  ends[1]!(drawn(inputs[1]!, [1]))
  await expect(second).rejects.toThrow("planted")
})

test("one that is behind a cancelled step is cancelled", async () => {
  const { hand, log, ends } = setUp({ leads: false })
  void hand(step([7]))
  const output = hand(step([0], [0]))
  await turn()
  ends[0]!({ kind: "cancelled" })
  expect(await output).toEqual({ kind: "cancelled" })
  expect(log.length).toBe(1)
})

test("rows that the step before has not are refused", async () => {
  const { hand, log } = setUp()
  await expect(hand(step([0], [0]))).rejects.toThrow("internal: a step behind none")
  for (const [rows, words] of [
    [[1], "drawnBy[0] is row 1 of 1"],
    [[-2], "drawnBy[0] is row -2 of 1"],
    [[0, 0], "drawnBy has 2 entries, not 1"],
  ] as const) {
    const own = setUp()
    void own.hand(step([7]))
    await expect(own.hand(step([0], rows))).rejects.toThrow(`internal: ${words}`)
  }
  expect(log).toEqual([])
})
