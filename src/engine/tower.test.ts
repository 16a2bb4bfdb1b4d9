import { expect, onTestFinished, test } from "vitest"
import { loadSmall, smallGraph, smallWeights } from "../../test/model/small.ts"
import { limitsFor } from "../../test/model/steps.ts"
import { compile } from "../compiler/compile.ts"
import { openReference } from "../compiler/targets/reference/reference.ts"
import type { Program, StepOutput } from "../runtime/program.ts"
import { allBeside, createTower, type Tile } from "./tower.ts"

const [ROWS, TAKEN, JOINED] = [64, 12, 4]

/** A tower, and what happens as it takes its steps. */
async function open(meanwhile: (steps: number) => void = () => {}) {
  const graph = smallGraph({ tower: { taken: TAKEN, joined: JOINED }, bidirectional: true })
  const plan = compile(graph, { format: "q0f32", activations: "float", kv: "f32" })
  const limits = limitsFor(plan, { blocks: 4, tokens: ROWS, sequences: 1, rows: 1 })
  const program = openReference(plan, limits)
  await loadSmall(program)
  let steps = 0
  const kinds: StepOutput["kind"][] = []
  const watched: Program = {
    ...program,
    async step(input, cancel) {
      await Promise.resolve() // the tower knows of it
      meanwhile(++steps)
      const output = await program.step(input, cancel)
      kinds.push(output.kind)
      return output
    },
  }
  const tower = createTower(watched)
  onTestFinished(() => tower.close())
  return { tower, kinds }
}

const tile = (name: string): Tile => ({
  given: smallWeights(name, ROWS * TAKEN),
  places: Int32Array.from({ length: ROWS }, (_, row) => row),
  wanted: Int32Array.from({ length: ROWS / JOINED }, (_, row) => row * JOINED),
})

const read = (
  tower: Awaited<ReturnType<typeof open>>["tower"],
  tiles: Tile[],
  signal?: AbortSignal,
) => tower.read((tiles.length * ROWS) / JOINED, async () => tiles, { client: "", signal })

test("an image's tiles are read one by one, and its rows are theirs in order", async () => {
  const { tower, kinds } = await open()
  const [one, two] = [tile("left"), tile("right")]
  const alone = [await read(tower, [one]), await read(tower, [two])]
  expect(alone[0]).not.toEqual(alone[1])
  const [both, turned] = await Promise.all([read(tower, [one, two]), read(tower, [two, one])])
  expect([...both]).toEqual(alone.flatMap((rows) => [...rows]))
  expect([...turned]).toEqual(alone.toReversed().flatMap((rows) => [...rows]))
  expect(kinds).toEqual(Array(6).fill("done"))
})

test("a client that leaves ends the step of its tile, and takes no other", async () => {
  const leaving = new AbortController()
  const { tower, kinds } = await open((steps) => {
    if (steps === 1) leaving.abort(new Error("gone"))
  })
  const left = read(tower, [tile("left"), tile("right")], leaving.signal)
  await expect(left).rejects.toThrow("gone")
  await expect.poll(() => tower.isBusy).toBe(false)
  expect(kinds).toEqual(["cancelled"])
  expect((await read(tower, [tile("left")])).length).toBeGreaterThan(0)
})

test("closing ends what runs", async () => {
  let closing: Promise<void> | undefined
  const { tower, kinds } = await open(() => {
    closing = tower.close()
  })
  await expect(read(tower, [tile("left"), tile("right")])).rejects.toMatchObject({
    code: "server_closing",
  })
  await closing
  expect(kinds).toEqual(["cancelled"])
})

test("towers of a model that sees and hears stand back together, and one that is busy is enough", () => {
  const said: string[] = []
  const besides = ["sees", "hears"].map((name) => ({
    isBusy: false,
    hold: () => void said.push(`${name} holds`),
    letGo: () => void said.push(`${name} goes`),
  }))
  const both = allBeside(besides)
  expect(both.isBusy).toBe(false)
  besides[1]!.isBusy = true
  expect(both.isBusy).toBe(true)
  both.hold()
  both.letGo()
  expect(said).toEqual(["sees holds", "hears holds", "sees goes", "hears goes"])
})
