// Images take turns at a tower.

import { expect, onTestFinished, test } from "vitest"
import { createTower, type Tile, type Tower } from "../../src/engine/tower.ts"
import type { Problem } from "../../src/errors.ts"
import { type LoadableProgram, ProgramLost } from "../../src/runtime/program.ts"
import { smallWeights } from "./small.ts"
import { JOINED, openProgram, ROWS, TAKEN } from "./small-tower.ts"

async function openTower(changes: Partial<LoadableProgram> = {}): Promise<Tower> {
  const tower = createTower({ ...(await openProgram()), ...changes })
  onTestFinished(() => tower.close())
  return tower
}

const tileOf = (name: string): Tile => ({
  given: smallWeights(name, ROWS * TAKEN),
  places: Int32Array.from({ length: ROWS }, (_, row) => row),
  wanted: Int32Array.from({ length: ROWS / JOINED }, (_, row) => row * JOINED),
})
const OUT = (ROWS / JOINED) * 20

test("an image's rows are those of its tiles, alone or among others", async () => {
  const tower = await openTower()
  const read = (...names: string[]) =>
    tower.read((names.length * ROWS) / JOINED, async () => names.map(tileOf), { client: "" })
  const [a, b] = [await read("first"), await read("another")]
  expect(a).toHaveLength(OUT)
  expect(a).not.toEqual(b)
  const [both, again] = await Promise.all([read("another", "first"), read("first")])
  expect(both).toEqual(Float32Array.from([...b, ...a]))
  expect(again).toEqual(a)
})

test("a row may see others and not itself, but something", async () => {
  const tower = await openTower()
  const read = (seen: Pick<Tile, "seenFrom" | "seenTo">) =>
    tower.read(ROWS / JOINED, async () => [{ ...tileOf("first"), ...seen }], { client: "" })
  const rows = (of: (row: number) => number) => Int32Array.from({ length: ROWS }, (_, i) => of(i))
  expect(await read({ seenTo: rows(() => 1) })).toHaveLength(OUT)
  await expect(read({ seenTo: rows((row) => 1 - 2 * Math.sign(row)) })).rejects.toThrow("seenTo[1]")
  const from = rows((row) => Math.min(row, 2))
  await expect(read({ seenFrom: from, seenTo: rows(() => 1) })).rejects.toThrow("seenFrom[2]")
})

test("tiles are asked for when the image before has been read", async () => {
  const told: string[] = []
  const program = await openProgram()
  const tower = await openTower({
    async step(input, cancel) {
      const output = await program.step(input, cancel)
      told.push("read")
      return output
    },
  })
  const read = (name: string) => {
    const tiles = async () => {
      told.push(name)
      return [tileOf(name)]
    }
    return tower.read(ROWS / JOINED, tiles, { client: "" })
  }
  await Promise.all([read("first"), read("another")])
  expect(told).toEqual(["first", "read", "another", "read"])
  const broken = tower.read(8, () => Promise.reject(new Error("no image")), { client: "" })
  await expect(broken).rejects.toThrow("no image")
  expect(await read("first")).toHaveLength(OUT)
})

test("who leaves ends the step that reads for it, and the next image is read", async () => {
  let steps = 0
  const leaving = new AbortController()
  const own = await openTower()
  const expected = await own.read(8, async () => [tileOf("another")], { client: "" })
  const program = await openProgram()
  const tower = await openTower({
    step(input, cancel) {
      if (steps++ === 0) leaving.abort(new Error("left"))
      return program.step(input, cancel) // which looks at the word before anything else
    },
  })
  const left = tower.read(8, async () => [tileOf("first")], { client: "", signal: leaving.signal })
  const next = tower.read(8, async () => [tileOf("another")], { client: "" })
  await expect(left).rejects.toThrow("left")
  expect(await next).toEqual(expected)
})

test("a step is told to stand back while the model's run", async () => {
  const words: number[] = []
  const program = await openProgram()
  const tower = await openTower({
    async step(input, cancel) {
      await Promise.resolve()
      expect(tower.isBusy).toBe(true)
      words.push(input.behind![0]!)
      tower.hold()
      words.push(input.behind![0]!)
      tower.letGo()
      words.push(input.behind![0]!)
      return program.step(input, cancel)
    },
  })
  await tower.read(8, async () => [tileOf("first")], { client: "" })
  expect(words).toEqual([0, 1, 0])
  expect(tower.isBusy).toBe(false)
})

test("when its program is lost, that is told once, and to whoever asks", async () => {
  const told: string[] = []
  const program = await openProgram()
  const step = () => Promise.reject(new ProgramLost("it fell off the bus"))
  const onLost = ({ code }: Problem) => void told.push(String(code))
  const tower = createTower({ ...program, step }, { onLost })
  onTestFinished(() => tower.close())
  const read = () => tower.read(8, async () => [tileOf("first")], { client: "" })
  for (const asked of [read(), read()])
    await expect(asked).rejects.toMatchObject({ code: "program_lost" })
  await expect(read()).rejects.toThrow("it fell off the bus")
  expect(told).toEqual(["program_lost"])
})

test("what waits when a tower closes is told so", async () => {
  const tower = await openTower()
  const read = () => tower.read(8, async () => [tileOf("first")], { client: "" })
  const [running, waiting] = [read(), read()]
  running.catch(() => {})
  const closed = tower.close()
  await expect(waiting).rejects.toMatchObject({ code: "server_closing" })
  await expect(running).rejects.toMatchObject({ code: "server_closing" })
  await closed
})
