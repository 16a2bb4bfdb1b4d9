// Adapters that change what a model sees or hears with, against what PEFT makes of one (test/golden/towers), and against folders whose
// matrices are the sums of both.

import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, onTestFinished, test } from "vitest"
import { openReference } from "../../src/compiler/targets/reference/reference.ts"
import { weightsOf } from "../../src/model/graph-weights.ts"
import { openModel } from "../../src/model/model.ts"
import { floatTypes } from "../../src/model/packed/matrix.ts"
import { narrow, widen } from "../../src/runtime/dtype.ts"
import { goldenFolder, readTensors as readGoldenTensors } from "./golden.ts"
import { floats, PLAIN, readTensors, type Tensors, writeAdapter, written } from "./peft-files.ts"
import { picturedModels } from "./pictures.ts"
import { judgeTower } from "./towers.ts"
import { readSights } from "./vision.ts"

const scratch = mkdtempSync(join(tmpdir(), "sinter-tower-adapters-"))
afterAll(() => rmSync(scratch, { recursive: true }))

function copyOf(sense: "vision" | "hearing", name: string): string {
  const copy = mkdtempSync(join(scratch, `${name}-`))
  cpSync(goldenFolder(sense, name), copy, { recursive: true })
  return copy
}

test("a tower makes of pixels what PEFT's makes of them", async () => {
  const name = "llava-siglip"
  const adapter = goldenFolder("towers", name)
  const folder = copyOf("vision", name)
  const size = { height: 21, width: 21 }
  const means = { image_mean: [0.5, 0.5, 0.5], image_std: [0.5, 0.5, 0.5] }
  const image = { image_processor_type: "SiglipImageProcessor", size, ...means }
  writeFileSync(join(folder, "preprocessor_config.json"), JSON.stringify(image))
  const model = await openModel(folder, { sees: true, adapters: [adapter] })
  onTestFinished(() => model.close())
  expect(model.blind ?? "").toBe("")
  const features = readGoldenTensors(join(adapter, "golden.safetensors"))
  const sights = readSights(name).map((sight, i) => ({
    ...sight,
    features: new Float32Array(features(`features.${i}`)),
  }))
  await judgeTower(model.vision!, sights, openReference)
})

const RANK = 2

/** Of names of tensors. */
const VISION = /vision|visual|image|\bv(?:pm|it)\b|projector|connector|resampler/
const HEARING = /audio|speech|projector/

/** An adapter of all matrices of that sense, called as they are in memory, and the tensors that they become. */
function changesOf(tensors: Tensors, isIts: (name: string) => boolean): [Tensors, Tensors] {
  const [changes, sums]: [Tensors, Tensors] = [new Map(), new Map(tensors)]
  for (const [name, { dtype, shape, bytes }] of tensors) {
    const codec = floatTypes[dtype]
    const [rows, columns] = shape as [number, number]
    if (!isIts(name) || shape.length !== 2 || !codec || !/(?<!embed\w*)\.weight$/.test(name))
      continue
    const module = `base_model.model.${name.replace(/^(?!model\.)/, "model.").replace(/\.weight$/, "")}`
    const [right, left] = [floats(RANK, columns), floats(rows, RANK)]
    changes.set(`${module}.lora_A.weight`, right).set(`${module}.lora_B.weight`, left)
    const [a, b] = [right, left].map(({ bytes }) => widen(bytes, "f32")) as [
      Float32Array,
      Float32Array,
    ]
    const values = widen(bytes.slice(), codec).map((value, i) => {
      const [row, column] = [Math.floor(i / columns), i % columns]
      const added = b[2 * row]! * a[column]! + b[2 * row + 1]! * a[columns + column]!
      return Math.fround(value + Math.fround(added))
    })
    sums.set(name, { dtype, shape, bytes: narrow(values, codec) })
  }
  return [changes, sums]
}

const hearing = readdirSync(goldenFolder("hearing", "."), { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name)

test.each([
  ...picturedModels.map((name) => ["vision", name, VISION] as const),
  ...hearing.map((name) => ["hearing", name, HEARING] as const),
])("a change of every matrix is that of the files: %s of %s", async (sense, name, names) => {
  const folder = goldenFolder(sense, name)
  const file = "model.safetensors"
  const [changes, sums] = changesOf(readTensors(readFileSync(join(folder, file))), (each) =>
    names.test(each),
  )
  const copy = copyOf(sense, name)
  writeFileSync(join(copy, file), written(sums))
  const adapter = writeAdapter(scratch, { ...PLAIN, r: RANK, lora_alpha: RANK }, changes)
  const ours = await openModel(folder, { sees: true, adapters: [adapter] })
  const theirs = await openModel(copy, { sees: true })
  onTestFinished(() => ours.close())
  onTestFinished(() => theirs.close())
  expect([ours.blind, ours.deaf]).toEqual([theirs.blind, theirs.deaf])
  const [own, its] = [ours[sense]!, theirs[sense]!]
  for (const { sources, columns } of weightsOf(own.graph))
    for (const { tensor, rows } of sources) {
      const [made, wanted] = [own, its].map(({ weights }) => weights.tensor(tensor, rows, columns))
      expect([tensor, (await made!.read(0, rows)).values]).toEqual([
        tensor,
        (await wanted!.read(0, rows)).values,
      ])
    }
})
