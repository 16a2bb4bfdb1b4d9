// What the files say is held to what transformers' processors do with them: test/golden/images/make.py.

import { createHash } from "node:crypto"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, test } from "vitest"
import { type Cut, cut, mostTiles } from "../../images/cut.ts"
import { decode } from "../../images/decode.ts"
import type { ImageProcessing, Picture } from "../../images/image.ts"
import {
  gridOf,
  layoutOf,
  mostRows,
  pixelColumns,
  pixelsOf,
  placesOf,
  rowsOf,
  takenOf,
  tileOf,
  wantedOf,
} from "../../images/patches.ts"
import { textOf } from "../../images/wording.ts"
import { Fields } from "../fields.ts"
import { Folder, type Json } from "../folder.ts"
import { readProcessing } from "./processing.ts"

const golden = new URL("../../../test/golden/images/", import.meta.url)
const { seen, fitted, sizes } = JSON.parse(
  readFileSync(new URL("golden.json", golden), "utf8"),
) as {
  seen: Record<string, Case>
  fitted: Record<string, { config: Json; image: Json; images: Record<string, Fitted> }>
  sizes: Record<"mistral3" | "pixtral", Sizes> & {
    allowed: Record<"hunyuan_vl" | "mistral3", number[][]>
    lfm2_vl: number[][]
    lighton_ocr: number[][]
    muse_glimmer: number[][]
    paddleocr_vl: number[][]
    granite_docling: { fields: Record<string, number>; images: number[][]; long: number[][] }
    minicpm_ocr: number[][]
    minicpmv4_6: number[][]
    llama4: Record<"grown" | "kept", number[][]>
    mllama: number[][]
    llava_onevision: { tile: number; pinpoints: number[][]; images: number[][] }
  }
}

/** What becomes of images where no edge may be longer: widths and heights, before and behind. */
interface Sizes {
  longest: number
  patch: number
  joined: number
  images: [width: number, height: number, number, number][]
}

interface Case {
  config: Json
  image: Json
  tokenizer?: Json
  images: Record<string, Seen>
}

/** Hashes are of joined rows: of what is handed to the projector, were the tower to change nothing. */
interface Seen {
  tiles: number
  rows: number
  text: string
  textBegins: string
  places: string
  pixels: string[]
  middle: number[]
}

/** Of a tile that is as large as its image. Hashes are of rows as the tower reads them. */
interface Fitted {
  grid: [height: number, width: number] // in patches
  pixels: string
  places: string // [2, rows]
  first: number[]
  /** Where windows begin and end, and in which rows what comes out begins. */
  windows?: number[]
  wanted?: string
  /** Of three rows, how much each learned place counts. */
  shares?: number[][]
}

const folder = mkdtempSync(join(tmpdir(), "sinter-processing-"))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

function read(
  config: Json,
  files: Record<string, Json>,
  most?: number,
): Promise<ImageProcessing | undefined> {
  const model = new Folder(mkdtempSync(join(folder, "model-")))
  for (const [name, json] of Object.entries(files))
    writeFileSync(join(model.path, name), JSON.stringify(json))
  const fields = new Fields(config, (what) => model.broken("config.json", what))
  return readProcessing(fields, model, undefined, most)
}

/** The files of the golden case, with changes. */
function readCase(name: string, changes: { config?: Json; image?: Json; vision?: Json } = {}) {
  const { config, image, tokenizer = {} } = seen[name]!
  const vision = { ...(config.vision_config as Json), ...changes.vision }
  return read(
    { ...config, vision_config: vision, ...changes.config },
    {
      "preprocessor_config.json": { ...image, ...changes.image },
      "tokenizer_config.json": tokenizer,
    },
  )
}

async function pictureOf(name: string): Promise<Picture> {
  const picture = await decode(readFileSync(new URL(name, golden)))
  if ("refusal" in picture) throw new Error(picture.refusal)
  return picture
}

async function cutOf(name: string, processing: ImageProcessing): Promise<Cut> {
  const parts = cut(await pictureOf(name), processing)
  if ("refusal" in parts) throw new Error(parts.refusal)
  return parts
}

const sha256 = (data: string | NodeJS.ArrayBufferView) =>
  createHash("sha256").update(data).digest("hex")

/** A tile's rows as `select` joins them: those wanted, each with those behind it. */
function joined<Rows extends Float32Array | Int32Array>(
  rows: Rows,
  columns: number,
  processing: ImageProcessing,
): Rows {
  const each = processing.joined ** 2 * columns
  const from = [...wantedOf(processing)].map((row) => row * columns)
  const all = rows.slice(0, from.length * each) as Rows
  from.forEach((at, i) => {
    all.set(rows.subarray(at, at + each), i * each)
  })
  return all
}

const cases = Object.entries(seen).flatMap(([name, { images }]) =>
  Object.entries(images).map(([image, expected]) => ({ name, image, expected })),
)

test.each(cases)("$name sees $image as transformers does", async ({ name, image, expected }) => {
  const processing = (await readCase(name))!
  const { grid, tiles } = await cutOf(image, processing)
  const rows = wantedOf(processing).length
  const text = textOf(processing, grid, rows)
  const count = rowsOf(processing)
  const pixels = tiles.map((tile) =>
    joined(pixelsOf(tile, processing, 0, count), takenOf(processing), processing),
  )
  const middle = Math.floor(rows / 2) * processing.joined ** 2 * takenOf(processing)
  expect({
    tiles: tiles.length,
    rows,
    text: sha256(text),
    textBegins: text.slice(0, 60),
    places: sha256(joined(placesOf(processing), 1, processing)),
    pixels: pixels.map(sha256),
    middle: Array.from(pixels[0]!.subarray(middle, middle + 4)),
  }).toEqual(expected)
  expect(text.split(processing.soft).length - 1).toBe(rows * tiles.length)
})

const fits = Object.entries(fitted).flatMap(([name, { images }]) =>
  Object.entries(images).map(([image, expected]) => ({ name, image, expected })),
)

test.each(fits)("$name fits $image as transformers does", async ({ name, image, expected }) => {
  const processing = (await readFitted(name))!
  const { grid, tiles } = await cutOf(image, processing)
  const layout = layoutOf(processing, tiles[0]!)
  const rows = rowsOf(layout)
  const pixels = pixelsOf(tiles[0]!, layout, 0, rows)
  const taken = takenOf(layout)
  const tile = tileOf(new Float32Array(rows * taken), layout)
  const [height, width] = expected.grid
  const { joined, soft } = processing
  const each = joined * joined
  expect(gridOf(layout)).toEqual({ width: width / joined, height: height / joined })
  expect(Array.from(pixels.subarray(0, 4))).toEqual(expected.first)
  expect(sha256(pixels)).toBe(expected.pixels)
  expect(tile.coordinates!.subarray(0, rows).every((time) => time === 0)).toBe(true)
  expect(sha256(tile.coordinates!.subarray(rows))).toBe(expected.places)
  expect(tile.wanted.length).toBe(rows / each)
  const { windows, wanted, shares } = expected
  if (windows) {
    const ends = windows.slice(1)
    const ofRows = ends.flatMap((end, i) =>
      Array<number[]>(end - windows[i]!).fill([windows[i]!, end - 1]),
    )
    expect(Array.from(tile.seenFrom!, (from, row) => [from, tile.seenTo![row]])).toEqual(ofRows)
    expect(sha256(tile.wanted)).toBe(wanted)
  } else
    expect(tile.wanted).toEqual(Int32Array.from({ length: rows / each }, (_, row) => each * row))
  shares?.forEach((ofRow, i) => {
    const row = [0, Math.floor(rows / 3), rows - 1][i]!
    const own = tile.given.subarray(row * taken + pixelColumns(layout), (row + 1) * taken)
    expect(own.length).toBe(ofRow.length)
    for (const [place, share] of ofRow.entries()) expect(own[place]).toBeCloseTo(share, 5)
  })
  const around: Record<string, [string, string]> = {
    gemma4: ["<|image>", "<image|>"],
    "muse-glimmer": ["<|image_start|>", "<|image_end|>"],
  }
  const text = textOf(processing, grid, tile.wanted.length)
  expect(text).toBe((around[name] ?? ["", ""]).join(soft.repeat(rows / each)))
  expect(mostRows(processing)).toBeGreaterThanOrEqual(rows)
})

/** The files of a golden case of Qwen, with changes. */
function readFitted(name: string, changes: { image?: Json; vision?: Json } = {}) {
  const { config, image } = fitted[name]!
  const vision_config = { ...(config.vision_config as Json), ...changes.vision }
  const files = { "preprocessor_config.json": { ...image, ...changes.image } }
  return read({ ...config, vision_config }, files)
}

test("no image is larger than the most, whatever its proportions, and very long ones are refused", async () => {
  for (const [least, most] of [
    [56 * 56, 56 * 56],
    [28 * 28, 28 * 28 * 3],
    [28 * 28 * 4, 28 * 28 * 1280],
  ] as const) {
    const processing = (await readFitted("qwen2-vl", {
      image: { min_pixels: least, max_pixels: most },
    }))!
    const room = mostRows(processing)
    for (const [width, height] of [
      [1, 1],
      [1, 200],
      [400, 2],
      [29, 14],
      [57, 55],
      [900, 1100],
      [1500, 8],
    ] as const) {
      const picture = { width, height, data: new Uint8Array(width * height * 3) }
      const parts = cut(picture, processing)
      if ("refusal" in parts) throw new Error(parts.refusal)
      expect(rowsOf(layoutOf(processing, parts.tiles[0]!))).toBeLessThanOrEqual(room)
    }
    const long = { width: 201, height: 1, data: new Uint8Array(201 * 3) }
    expect(cut(long, processing)).toEqual({
      refusal:
        "has 201 x 1 pixels; no side may be more than 200 times the other; send a part of it",
    })
  }
})

test("an image of Qwen's becomes 1280 rows of the prompt at most, also where published files say more", async () => {
  const processing = (await readFitted("qwen2-vl", { image: { max_pixels: 12845056 } }))!
  expect(processing.cutting).toEqual({ kind: "fit", least: 3136, most: 1280 * 28 * 28 })
  const usual = (await readFitted("qwen2-vl", { image: { min_pixels: null, max_pixels: null } }))!
  expect(usual.cutting).toEqual(processing.cutting)
  expect(mostRows(usual)).toBe(4 * 1280)
})

const blank = (width: number, height: number): Picture => ({
  width,
  height,
  data: new Uint8Array(width * height * 3),
})

/** Pixtral's, with a merger behind it or without. */
function readPixtral(
  { longest, patch, joined }: Omit<Sizes, "images">,
  changes: { image?: Json; processor?: Json; vision?: Json } = {},
) {
  const vision_config = { model_type: "pixtral", patch_size: patch, ...changes.vision }
  const model = joined > 1 ? { model_type: "mistral3", spatial_merge_size: joined } : LLAVA
  const image = { size: { longest_edge: longest }, ...changes.image }
  const processor = { patch_size: patch, spatial_merge_size: joined, ...changes.processor }
  const files = { "preprocessor_config.json": image, "processor_config.json": processor }
  return read({ ...model, vision_config }, files)
}

const LLAVA = { model_type: "llava" }

function sizeOf(picture: Picture, processing: ImageProcessing) {
  const parts = cut(picture, processing)
  if ("refusal" in parts) throw new Error(parts.refusal)
  return parts.tiles.map(({ width, height }) => [width, height])
}

test.each(["pixtral", "mistral3"] as const)(
  "%s makes images as large as transformers does",
  async (name) => {
    const processing = (await readPixtral(sizes[name]))!
    for (const [width, height, ...expected] of sizes[name].images)
      expect(sizeOf(blank(width, height), processing)).toEqual([expected])
  },
)

const small = { patch_size: 2, size: { shortest_edge: 16, longest_edge: 4 * 16384 } }

test.each<["hunyuan_vl" | "mistral3", Json]>([
  ["hunyuan_vl", small],
  ["mistral3", { patch_size: 2, size: { longest_edge: 256 } }],
])(
  "%s makes images as large as transformers does where as many patches are allowed",
  async (name, image) => {
    const own = name === "mistral3" ? { model_type: "pixtral" } : { max_image_size: 256 }
    const vision_config = { patch_size: 2, ...own }
    const readBy = async (most?: number) =>
      (await read(
        { model_type: name, vision_config },
        { "preprocessor_config.json": image },
        most,
      ))!
    const [usual, more, fewer] = [await readBy(), await readBy(16384), await readBy(1000)]
    expect([usual, more, fewer].map(mostRows)).toEqual([5120, 16384, 1000])
    for (const [width, height, ...expected] of sizes.allowed[name])
      expect(sizeOf(blank(width!, height!), more)).toEqual([expected])
    const [[across, down]] = sizeOf(blank(1000, 600), fewer) as [[number, number]]
    expect(across * down).toBeLessThanOrEqual(4 * 1000)
    expect(across * down).toBeGreaterThan(4 * 900)
  },
)

test("an image that is larger at the least than is allowed is refused", async () => {
  const files = { "preprocessor_config.json": { ...small, min_pixels: 4 * 2000 } }
  const config = { model_type: "hunyuan_vl", vision_config: { patch_size: 2, max_image_size: 256 } }
  await expect(read(config, files, 1000)).rejects.toThrow(/rows; at most 250 are allowed/)
})

test("LightOnOCR's images are of whole patches, and no smaller than a token", async () => {
  const vision_config = { model_type: "pixtral", patch_size: 14 }
  const config = { model_type: "lighton_ocr", vision_config }
  const readBy = (patch_size: unknown, longest_edge = 110) =>
    read(config, { "preprocessor_config.json": { patch_size, size: { longest_edge } } })
  const processing = (await readBy(14))!
  for (const [width, height, ...expected] of sizes.lighton_ocr)
    expect(sizeOf(blank(width!, height!), processing)).toEqual([expected])
  expect(sizeOf(blank(90, 5), processing)).toEqual([[98, 28]])
  expect(sizeOf(blank(41, 27), (await readBy({ height: 28, width: 28 }))!)).toEqual([[56, 28]])
  const smallest = (await readBy(14, 1))! // whose longest edge is less than a token has
  expect(sizeOf(blank(90, 50), smallest)).toEqual([[28, 28]])
  expect(mostRows(smallest)).toBe(4)
  const sentence = "patch_size is no square of 1 to 28 pixels, which become one token"
  await expect(readBy(29)).rejects.toThrow(sentence)
  await expect(readBy({ height: 14, width: 28 })).rejects.toThrow(sentence)
})

test("PaddleOCR-VL's images are thought of as large enough first by their height", async () => {
  const config = { model_type: "paddleocr_vl", vision_config: { patch_size: 14 } }
  const image = { min_pixels: 5000, max_pixels: 50000 }
  const processing = (await read(config, { "preprocessor_config.json": image }))!
  for (const [width, height, ...expected] of sizes.paddleocr_vl)
    expect(sizeOf(blank(width!, height!), processing)).toEqual([expected])
  expect(cut(blank(201, 1), processing)).toHaveProperty("refusal")
  const usual = (await read(config, { "preprocessor_config.json": {} }))!
  expect(usual.cutting).toEqual({
    ...{ kind: "fit", grows: "height first" },
    ...{ least: 384 * 384, most: 1280 * 28 * 28 },
  })
})

test("Muse Glimmer's images have the nearest proportions, and of equally near ones those that Python's set has first", async () => {
  const vision_config = { patch_size: 7, pos_emb_height: 4, pos_emb_width: 4 }
  const image = { patch_size: 7, max_image_tokens: 60 }
  const readBy = (changes: Json) =>
    read(
      { model_type: "muse_glimmer", vision_config },
      { "preprocessor_config.json": { ...image, ...changes } },
    )
  const processing = (await readBy({}))!
  for (const [width, height, ...expected] of sizes.muse_glimmer)
    expect(sizeOf(blank(width!, height!), processing)).toEqual([expected])
  expect(mostRows(processing)).toBe(4 * 60)
  // Where transformers makes more rows than it says.
  expect(sizeOf(blank(1000, 2), processing)).toEqual([[60 * 14, 14]])
  expect(sizeOf(blank(2, 1000), processing)).toEqual([[14, 60 * 14]])
  expect(mostRows((await readBy({ max_image_tokens: null }))!)).toBe(4 * 1280)
})

/** LLaVA OneVision's, in tiles of 56 pixels. */
function readAnyRes(
  changes: { image?: Json; vision?: Json; processor?: Json; config?: Json } = {},
) {
  const { tile, pinpoints } = sizes.llava_onevision
  const vision_config = { image_size: tile, patch_size: 14, ...changes.vision }
  const grids = { image_grid_pinpoints: pinpoints }
  const config = { model_type: "llava_onevision", vision_config, ...grids, ...changes.config }
  const image = { size: { height: tile, width: tile }, ...grids, ...changes.image }
  const files = { "preprocessor_config.json": image }
  const processor = changes.processor && { "processor_config.json": changes.processor }
  return read(config, { ...files, ...processor })
}

test("tiles lie in the grid that transformers chooses, and an image is as large in it", async () => {
  const processing = (await readAnyRes())!
  const { tile, images } = sizes.llava_onevision
  for (const [width, height, across, tall, wide, high] of images) {
    const white = blank(width!, height!)
    white.data.fill(255)
    const parts = cut(white, processing)
    if ("refusal" in parts) throw new Error(parts.refusal)
    const { grid, tiles } = parts
    expect(grid).toEqual({ width: across! / tile, height: tall! / tile })
    expect(tiles).toHaveLength(1 + grid.width * grid.height)
    const pixels = tiles.slice(1).flatMap(({ data }) => data.filter((byte) => byte > 0).length / 3)
    expect(pixels.reduce((sum, each) => sum + each, 0)).toBe(wide! * high!)
  }
})

test.each([
  [{ image: { image_grid_pinpoints: [[56, 60]] } }, "holds [56,60], which is no height and width"],
  [{ image: { image_grid_pinpoints: [[5600, 56]] } }, "holds [5600,56]"],
  [{ image: { image_grid_pinpoints: "all" } }, "image_grid_pinpoints is no list of 1 to 256 sizes"],
  [{ image: { crop_size: 28 } }, "crop_size is another than size"],
  [{ vision: { image_size: 112 } }, "size makes tiles of 56 x 56 pixels, but the tower sees 112"],
  [{ processor: { num_image_tokens: 17 } }, "num_image_tokens is 17, but 16 rows of a tile come"],
])("OneVision with %j is refused", async (changes, sentence) => {
  await expect(readAnyRes(changes)).rejects.toThrow(sentence)
})

/** Llama 4's, in tiles of 56 pixels. */
function readCanvas(changes: { image?: Json; vision?: Json; processor?: Json } = {}) {
  const model_type = "llama4_vision_model"
  const vision_config = { model_type, image_size: 56, patch_size: 14, ...changes.vision }
  const image = { size: { height: 56, width: 56 }, max_patches: 7, ...changes.image }
  const files = { "preprocessor_config.json": image }
  const processor = changes.processor && { "processor_config.json": changes.processor }
  return read({ model_type: "llama4", vision_config }, { ...files, ...processor })
}

test.each(["grown", "kept"] as const)("an image of Llama 4's is %s on the canvas", async (how) => {
  const processing = (await readCanvas({ image: { resize_to_max_canvas: how === "grown" } }))!
  for (const [width, height, columns, rows, wide, high] of sizes.llama4[how]) {
    const white = blank(width!, height!)
    white.data.fill(255)
    const parts = cut(white, processing)
    if ("refusal" in parts) throw new Error(parts.refusal)
    const { grid, tiles } = parts
    expect(grid).toEqual({ width: columns, height: rows })
    const count = columns! * rows!
    expect(tiles).toHaveLength(count > 1 ? count + 1 : 1)
    const pixels = tiles.slice(0, count).map(({ data }) => data.filter((byte) => byte > 0).length)
    expect(pixels.reduce((sum, each) => sum + each, 0)).toBe(3 * wide! * high!)
  }
})

test("an image of Llama 3.2 Vision's lies in the grid in which it grows least", async () => {
  const model_type = "mllama_vision_model"
  const processing = await read(
    { model_type: "mllama", vision_config: { model_type, image_size: 56, patch_size: 14 } },
    { "preprocessor_config.json": { size: { height: 56, width: 56 } } },
  )
  for (const [width, height, columns, rows, wide, high] of sizes.mllama) {
    const white = blank(width!, height!)
    white.data.fill(255)
    const parts = cut(white, processing!)
    if ("refusal" in parts) throw new Error(parts.refusal)
    expect(parts.grid).toEqual({ width: columns, height: rows })
    const [canvas] = parts.tiles
    expect(canvas).toMatchObject({ width: 56 * columns!, height: 56 * rows! })
    expect(canvas!.data.filter((byte) => byte > 0).length).toBe(3 * wide! * high!)
  }
})

test.each([
  [{ image: { max_patches: 65 } }, "max_patches is 65, not between 1 and 64"],
  [{ image: { size: { height: 56, width: 28 } } }, "size has another height than width"],
  [{ vision: { pixel_shuffle_ratio: 0.3 } }, "pixel_shuffle_ratio does not join whole squares"],
  [{ vision: { image_size: 70 } }, "size makes tiles of 56 x 56 pixels, but the tower sees 70"],
  [{ processor: { patch_size: 28 } }, "patch_size is 28, but the tower's is 14"],
  [{ processor: { pixel_shuffle_ratio: 1 } }, "pixel_shuffle_ratio is 1, but the tower's is 0.5"],
])("Llama 4 with %j is refused", async (changes, sentence) => {
  await expect(readCanvas(changes)).rejects.toThrow(sentence)
})

/** LFM2-VL's, of 4 to 16 tokens of 28 pixels, above twice of which it lies in tiles of 56. */
function readTiled(changes: { image?: Json; vision?: Json; processor?: Json } = {}) {
  const vision_config = { patch_size: 14, num_patches: 16, ...changes.vision }
  const tokens = { min_image_tokens: 4, max_image_tokens: 16, max_tiles: 6, tile_size: 56 }
  const image = { encoder_patch_size: 14, ...tokens, ...changes.image }
  const files = { "preprocessor_config.json": image }
  const processor = changes.processor && { "processor_config.json": changes.processor }
  return read({ model_type: "lfm2_vl", vision_config }, { ...files, ...processor })
}

test("an image of LFM2-VL's lies in the tiles that transformers chooses, and behind them fits", async () => {
  const processing = (await readTiled())!
  for (const [width, height, columns, rows, wide, high] of sizes.lfm2_vl) {
    const parts = cut(blank(width!, height!), processing)
    if ("refusal" in parts) throw new Error(parts.refusal)
    expect(parts.grid).toEqual({ width: columns, height: rows })
    const tiles = columns! * rows! > 1 ? Array<number[]>(columns! * rows!).fill([56, 56]) : []
    const found = parts.tiles.map((tile) => [tile.width, tile.height])
    expect(found).toEqual([...tiles, [wide, high]])
  }
  expect(cut(blank(201, 1), processing)).toHaveProperty("refusal")
})

test.each([
  ["minicpmv4_6", {}],
  ["minicpm_ocr", { small_image_upsize: "never" }],
] as const)(
  "an image of %s lies in the slices that transformers chooses, and before them all of it fits",
  async (model_type, own) => {
    const image = { patch_size: 7, scale_resolution: 56, ...own }
    const vision_config = { image_size: 70, patch_size: 7 }
    const files = { "preprocessor_config.json": image }
    const processing = (await read({ model_type, vision_config }, files))!
    let most = 0
    for (const [width, height, ...expected] of sizes[model_type]) {
      const [wide, high, columns, rows, ...all] = expected as number[]
      const parts = cut(blank(width!, height!), processing)
      if ("refusal" in parts) throw new Error(parts.refusal)
      const count = columns! * rows!
      expect(parts.grid).toEqual(count ? { width: columns, height: rows } : { width: 1, height: 1 })
      const each = [all[0]! / columns!, all[1]! / rows!]
      const found = parts.tiles.map((tile) => [tile.width, tile.height])
      expect(found).toEqual([[wide, high], ...Array<number[]>(count).fill(each)])
      most = Math.max(most, ...found.map(([across, down]) => across! * down!))
    }
    expect(mostRows(processing)).toBeGreaterThanOrEqual(most / 49)
    expect(cut(blank(201, 1), processing)).toHaveProperty("refusal")
  },
)

test("a page of Granite Docling's lies in the grid that transformers chooses, larger where it is dense", async () => {
  const { fields, images, long } = sizes.granite_docling
  const vision_config = { image_size: 56, patch_size: 7, scale_factor: 2 }
  const gridsOf = async (own: Record<string, number>, pages: readonly number[][]) => {
    const files = { "preprocessor_config.json": { size: { height: 56, width: 56 }, ...own } }
    const processing = (await read({ model_type: "granite_docling", vision_config }, files))!
    return pages.map(([width, height]) => {
      const parts = cut(blank(width!, height!), processing)
      if ("refusal" in parts) throw new Error(parts.refusal)
      expect(parts.tiles.length).toBeLessThanOrEqual(mostTiles(processing))
      return [width, height, parts.grid.width, parts.grid.height]
    })
  }
  expect(await gridsOf(fields, images)).toEqual(images)
  expect(await gridsOf({ max_patches: 40 }, long)).toEqual(long)
})

test("LFM2-VL's tiles and what holds all of them have words of their own", async () => {
  const [said, plain] = [await readTiled(), await readTiled({ processor: SILENT })]
  const grid = { width: 2, height: 1 }
  expect(textOf(said!, grid, 2, 2, 1)).toBe(
    "<|image_start|><|img_row_1_col_1|><image><image><|img_row_1_col_2|><image><image><|img_thumbnail|><image><|image_end|>",
  )
  expect(textOf(plain!, grid, 2, 2, 1)).toBe("<image>".repeat(5))
})

const SILENT = { use_image_special_tokens: false }

test.each([
  [{ image: { encoder_patch_size: 16 } }, "encoder_patch_size is 16, but the tower's is 14"],
  [{ image: { downsample_factor: 4 } }, "downsample_factor is 4, but the tower's is 2"],
  [{ image: { use_thumbnail: false } }, "use_thumbnail is false"],
  [{ image: { min_tiles: 1 } }, "min_tiles is 1; known"],
  [{ image: { tile_size: 64 } }, "tile_size is 64, no multiple of 28 pixels"],
  [{ image: { tile_size: 2016 } }, "tile_size or max_image_tokens make 20736 patches"],
  [{ vision: { num_patches: 15 } }, "num_patches is 15, which is no square"],
])("LFM2-VL with %j is refused", async (changes, sentence) => {
  await expect(readTiled(changes)).rejects.toThrow(sentence)
})

test("an image of Pixtral's becomes 5120 patches at the most", async () => {
  const processing = (await readPixtral({ longest: 60_000, patch: 2, joined: 2 }))!
  expect(mostRows(processing)).toBe(5120)
  for (const [width, height, ...expected] of [
    [144, 140, 144, 140], // 72 x 70 patches
    [145, 144, 144, 140],
    [400, 300, 164, 120],
    [20_000, 1, 5120, 4],
  ] as const)
    expect(sizeOf(blank(width, height), processing)).toEqual([expected])
  const usual = (await readPixtral({ longest: 1540, patch: 14, joined: 2 }))!
  expect(mostRows(usual)).toBe(5120)
  expect(mostRows((await readPixtral({ longest: 1024, patch: 16, joined: 1 }))!)).toBe(64 * 64)
})

test("between the lines of an image stands what its processor says", async () => {
  const named = { image_token: "<i>", image_break_token: "<b>", image_end_token: "<e>" }
  const processing = (await readPixtral(sizes.mistral3, { processor: named }))!
  expect(textOf(processing, { width: 1, height: 1 }, 6, 3)).toBe("<i><i><i><b><i><i><i><e>")
  expect(processing.mark).toBe("<i>")
})

test.each([
  [{ image: { size: { height: 64, width: 32 } } }, "size has another height than width"],
  [{ image: { size: { shortest_edge: 64 } } }, "size.longest_edge is missing"],
  [{ image: { do_center_crop: true } }, "do_center_crop is true, which changes the pixels"],
  [{ processor: { patch_size: 16 } }, "patch_size is 16, but the tower's is 14"],
  [{ processor: { spatial_merge_size: 1 } }, "spatial_merge_size is 1, but the tower's is 2"],
  [{ vision: { patch_size: [14, 16] } }, "only squares are known"],
])("Pixtral with %j is refused", async (changes, sentence) => {
  await expect(readPixtral(sizes.mistral3, changes)).rejects.toThrow(sentence)
})

test.each([
  ["qwen2-vl", { image: { patch_size: 16 } }, "patch_size is 16, but the tower's is 14"],
  ["qwen2-vl", { image: { merge_size: 4 } }, "merge_size is 4, but the tower's is 2"],
  ["qwen2-vl", { image: { min_pixels: 300000 } }, "min_pixels is 300000, more than max_pixels"],
  ["qwen2-vl", { image: { image_processor_type: "CLIPImageProcessor" } }, "known: Qwen2VL"],
  ["qwen2-vl", { vision: { temporal_patch_size: 3 } }, "temporal_patch_size is 3; known: 2"],
  ["qwen2-vl", { vision: { in_channels: 1 } }, "vision_config.in_channels is 1"],
  ["qwen2.5-vl", { vision: { window_size: 20 } }, "window_size is 20, less than 2 patches of 14"],
  ["qwen3-vl", { vision: { num_position_embeddings: 50 } }, "is 50, which is no square"],
  ["qwen3-vl", { vision: { patch_size: [8, 16] } }, "patch_size is [8, 16]; only squares"],
  ["glm4v", { image: { size: { shortest_edge: 99, longest_edge: 9 } } }, "99, more than longest"],
  ["muse-glimmer", { image: { temporal_patch_size: 1 } }, "is 1, but the tower's is 2"],
  ["muse-glimmer", { vision: { pos_emb_height: 6 } }, "is 6, but pos_emb_width is 4"],
  ["muse-glimmer", { vision: { merge_size: 3 } }, "is 4, so that windows cut the squares of 3"],
  ["gemma4", { image: { max_soft_tokens: 100 } }, "is 100; known: 70, 140, 280, 560, 1120"],
  ["gemma4", { image: { do_normalize: true } }, "do_normalize is true, which changes the pixels"],
  ["gemma4", { image: { pooling_kernel_size: 2 } }, "is 2, but the tower's is 3"],
  [
    "gemma4",
    { vision: { position_embedding_size: 209 } },
    "makes images of up to 210 patches a side; the tower has places for 209",
  ],
] as const)("%s with %j cannot be fitted", async (name, changes, sentence) => {
  await expect(readFitted(name, changes)).rejects.toThrow(sentence)
})

test("a class row stands in front, takes zeros and comes out where it is asked for", async () => {
  const processing = (await readCase("llava"))!
  const tile = await pictureOf("rgb.png")
  const first = pixelsOf(tile, processing, 0, 2)
  expect(rowsOf(processing)).toBe(17)
  expect(placesOf(processing).slice(0, 3)).toEqual(Int32Array.of(0, 1, 2))
  expect(first.subarray(0, takenOf(processing)).every((value) => value === 0)).toBe(true)
  expect(first[takenOf(processing)]).not.toBe(0)
  expect(wantedOf(processing)[0]).toBe(1)
  const full = await readCase("llava", { config: { vision_feature_select_strategy: "full" } })
  expect(wantedOf(full!)).toEqual(Int32Array.from({ length: 17 }, (_, row) => row))
})

test("rows are the same in pieces", async () => {
  const processing = (await readCase("internvl"))!
  const { tiles } = await cutOf("rgb.png", processing)
  const whole = pixelsOf(tiles[1]!, processing, 0, rowsOf(processing))
  const taken = takenOf(processing)
  expect(pixelsOf(tiles[1]!, processing, 3, 9)).toEqual(whole.slice(3 * taken, 9 * taken))
})

test("what transformers 5 writes is read as what 4 wrote", async () => {
  const { config, image } = seen["smolvlm-512"]!
  const four = await read(config, { "preprocessor_config.json": image })
  const processor = {
    image_processor: image,
    image_seq_len: 64,
    processor_class: "SmolVLMProcessor",
  }
  expect(await read(config, { "processor_config.json": processor })).toEqual(four)
  const older = { "preprocessor_config.json": { ...image, max_image_size: { longest_edge: 9 } } }
  expect(await read(config, { ...older, "processor_config.json": processor })).toEqual(four)
  expect(four).toMatchObject({ mark: "<image>", soft: "<image>", joined: 4, patch: 16 })
})

test("sizes that are one number are read as they were written once", async () => {
  const size = { size: 56, crop_size: 56 }
  expect(await readCase("llava", { image: size })).toEqual(await readCase("llava"))
})

test("tokens have the names that the tokenizer gives them", async () => {
  const { config, image } = seen.internvl!
  const named = {
    extra_special_tokens: { context_image_token: "<ctx>", start_image_token: { content: "<i>" } },
    end_image_token: "</i>",
  }
  const files = { "preprocessor_config.json": image, "tokenizer_config.json": named }
  expect(await read(config, files)).toMatchObject({
    mark: "<ctx>",
    soft: "<ctx>",
    wording: { opening: "<i>", closing: "</i>" },
  })
})

test("a folder that says nothing of images, or is of no family or tower, has no processing", async () => {
  const { config, image } = seen.llava!
  expect(await read(config, {})).toBeUndefined()
  const files = { "preprocessor_config.json": image }
  for (const model_type of ["llama", "constructor"])
    expect(await read({ ...config, model_type }, files)).toBeUndefined()
  expect(await read({ model_type: "llava" }, files)).toBeUndefined()
  expect(await readCase("llava", { vision: { model_type: "vit" } })).toBeUndefined()
})

test.each([
  ["llava", { image: { do_resize: false } }, "preprocessor_config.json: do_resize is false"],
  ["llava", { image: { do_pad: true } }, "do_pad is true, which changes the pixels"],
  ["llava", { image: { do_center_crop: false } }, "do_center_crop is false"],
  ["llava", { image: { crop_size: 64 } }, "crop_size is larger than size"],
  ["llava", { image: { resample: 0 } }, "resample is 0; known: 1 (Lanczos)"],
  ["llava", { image: { image_std: [1, 0, 1] } }, "image_std is not three numbers"],
  ["llava", { image: { image_mean: [0.5] } }, "image_mean is not three numbers"],
  // Of which 32 bits make infinity or nothing: pixels would be no numbers.
  ["llava", { image: { image_mean: [0.5, 1e308, 0.5] } }, "numbers, each between 0 and 1000000000"],
  ["llava", { image: { image_std: [1, 1e-300, 1] } }, "numbers, each between 1e-9 and 1000000000"],
  ["llava", { image: { rescale_factor: 1e-300 } }, "rescale_factor is 1e-300, not"],
  ["llava", { image: { size: { shortest_edge: 1e9 } } }, "size.shortest_edge is 1000000000"],
  ["llava", { image: { image_processor_type: "ViTImageProcessor" } }, 'is "ViTImageProcessor"'],
  ["llava", { vision: { image_size: 112 } }, "size makes tiles of 56 x 56 pixels, but the tower"],
  ["llava", { config: { vision_feature_select_strategy: "cls" } }, 'strategy is "cls"'],
  ["deepseek-vl", { image: { do_pad: false } }, "do_pad is false"],
  ["deepseek-vl", { image: { min_size: 65 } }, "min_size is 65"],
  ["internvl", { vision: { patch_size: [14, 7] } }, "only squares are known"],
  ["internvl", { config: { downsample_ratio: 0.4 } }, "downsample_ratio does not join"],
  ["internvl", { config: { vision_feature_select_strategy: "full" } }, "cannot be joined by 2"],
  ["internvl", { image: { max_patches: 1000 } }, "max_patches is 1000"],
  ["idefics3", { config: { scale_factor: 3 } }, "makes 4 patches a side, which cannot be joined"],
  ["idefics3", { image: { max_image_size: { longest_edge: 64 } } }, "max_image_size makes tiles"],
  ["gemma3", { config: { mm_tokens_per_image: 5 } }, "mm_tokens_per_image does not join"],
  ["gemma3", { image: { size: { shortest_edge: 64 } } }, "size has no height and width"],
] as const)("%s with %j is refused", async (name, changes, sentence) => {
  await expect(readCase(name, changes)).rejects.toThrow(sentence)
})

test("a count of soft tokens that is not what the tower makes is refused", async () => {
  const { config, image } = seen.gemma3!
  const processor = { image_processor: image, image_seq_length: 256 }
  await expect(read(config, { "processor_config.json": processor })).rejects.toThrow(
    "processor_config.json: image_seq_length is 256, but 4 rows of a tile come out of the tower",
  )
})
