// Golden models that see (test/golden/vision), and tiles of their pixels as a tower takes them, cut here by what the models' own code
// says of patches.

import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import type { Tile } from "../../src/engine/tower.ts"
import type { TowerConfig } from "../../src/model/vision/tower.ts"
import { SEEN, type StepInput } from "../../src/runtime/program.ts"
import { type GoldenPrompt, goldenFolder, readGolden, readTensors } from "./golden.ts"
import { picturedModels } from "./pictures.ts"
import { batch, type Part } from "./steps.ts"

export const seeingModels = readdirSync(goldenFolder("vision", "."), { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map(({ name }) => name)
  .filter((name) => !picturedModels.includes(name))

/** A prompt with some tiles, and the rows that come out of all of them. */
export interface GoldenSight extends GoldenPrompt {
  tiles: number
  pixels: Float32Array // [tiles, 3, side, side]
  features: Float32Array // [rows, hidden]
}

export function readSights(name: string): GoldenSight[] {
  const folder = goldenFolder("vision", name)
  const { prompts } = JSON.parse(readFileSync(join(folder, "golden.json"), "utf8"))
  const tensors = readTensors(join(folder, "golden.safetensors"))
  return readGolden(folder).map((prompt, i) => ({
    ...prompt,
    tiles: (prompts as { tiles: number }[])[i]!.tiles,
    pixels: new Float32Array(tensors(`pixels.${i}`)),
    features: new Float32Array(tensors(`features.${i}`)),
  }))
}

/** Its tiles one by one. */
export function tilesOf(config: TowerConfig, { tiles, pixels }: GoldenSight): Tile[] {
  const size = pixels.length / tiles
  return Array.from({ length: tiles }, (_, tile) =>
    cut(config, pixels.subarray(tile * size, (tile + 1) * size)),
  )
}

/**
 * The patches of a tile [3, pixels, pixels] as a tower takes them: those that become one row behind one another, and a class's
 * row before them.
 */
function cut({ patch, side, hasClass, merge }: TowerConfig, tile: Float32Array): Tile {
  const across = Math.sqrt(tile.length / 3)
  const [rows, places, wanted]: [number[][], number[], number[]] = [[], [], []]
  if (hasClass) {
    rows.push(Array<number>(3 * patch * patch).fill(0))
    places.push(0)
  }
  const inBlocks = side / merge.side
  for (let block = 0; block < inBlocks * inBlocks; block++) {
    wanted.push(rows.length)
    for (let i = 0; i < merge.side * merge.side; i++) {
      const y = Math.floor(block / inBlocks) * merge.side + Math.floor(i / merge.side)
      const x = (block % inBlocks) * merge.side + (i % merge.side)
      places.push((hasClass ? 1 : 0) + y * side + x)
      rows.push(
        Array.from({ length: 3 * patch * patch }, (_, n) => {
          const colour = Math.floor(n / (patch * patch))
          const down = y * patch + (Math.floor(n / patch) % patch)
          return tile[(colour * across + down) * across + x * patch + (n % patch)]!
        }),
      )
    }
  }
  return {
    given: Float32Array.from(rows.flat()),
    places: Int32Array.from(places),
    wanted: Int32Array.from(wanted),
  }
}

/** A prompt as the text model takes it: where the rows of its tiles stand. */
export interface SeenPrompt {
  tokens: Int32Array
  /** The row of `features` in each token's place, or -1. */
  rowAt: Int32Array
  features: Float32Array // [rows, hidden]
}

export function seenPrompt(
  { tokens }: Pick<GoldenPrompt, "tokens">,
  softToken: number,
  features: Float32Array,
): SeenPrompt {
  let row = 0
  const rowAt = tokens.map((token) => (token === softToken ? row++ : -1))
  return { tokens, rowAt, features }
}

/** Some of a prompt's tokens: from `from` on, before `to`. */
export interface SeenPart extends Pick<Part, "blocks" | "logits"> {
  prompt: SeenPrompt
  from: number
  to: number
}

/** A step of parts of prompts; where it is mutual, rows that stand behind one another see each other. */
export function seeingStep(
  parts: readonly SeenPart[],
  { hidden, isMutual }: { hidden: number; isMutual: boolean },
): StepInput {
  const rows: Float32Array[] = []
  const seenTo: number[] = []
  const told = parts.map(({ prompt, from, to, blocks, logits }): Part => {
    const tokens = [...prompt.tokens.subarray(from, to)].map((token, i) => {
      const row = prompt.rowAt[from + i]!
      seenTo.push(row < 0 ? from + i : runEnd(prompt, from + i) - 1)
      if (row < 0) return token
      rows.push(prompt.features.subarray(row * hidden, (row + 1) * hidden))
      return SEEN + rows.length - 1
    })
    return { tokens, from, blocks, ...(logits && { logits }) }
  })
  const hiddenIn = Float32Array.from(rows.flatMap((row) => [...row]))
  return {
    ...batch(told),
    ...(rows.length > 0 && { hiddenIn }),
    ...(isMutual && { seenTo: Int32Array.from(seenTo) }),
  }
}

/** Where the rows end that `position` is one of. */
export function runEnd({ rowAt }: SeenPrompt, position: number): number {
  let end = position
  while (end < rowAt.length && rowAt[end]! >= 0) end++
  return end
}
