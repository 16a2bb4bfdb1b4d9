// Weights that were packed once are read back at the next start, bit for bit, or packed again when anything is wrong with
// what lies on the shelf. Judged by the program's own memory.

import {
  closeSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from "vitest"
import { compile } from "../../src/compiler/compile.ts"
import { shelvedCpu } from "../../src/compiler/targets/cpu/cpu.ts"
import { findCompiler } from "../../src/compiler/targets/cpu/toolchain.ts"
import { createLog } from "../../src/log.ts"
import { Folder } from "../../src/model/folder.ts"
import { openModel } from "../../src/model/model.ts"
import {
  type Loaded,
  loadWeights,
  readHeader,
  type WeightSource,
} from "../../src/model/packed-copy.ts"
import { openLibrary } from "../../src/runtime/library.ts"
import type { PackedWeights } from "../../src/runtime/program.ts"
import { openShelf, type Shelf } from "../../src/runtime/shelf.ts"
import { isLeftOut } from "../left-out.ts"
import { goldenFolder } from "./golden.ts"

const compiler = await findCompiler()
const scratch = mkdtempSync(join(tmpdir(), "sinter-packed-"))
const folder = join(scratch, "llama-wide")
cpSync(goldenFolder("models", "llama-wide"), folder, { recursive: true })
afterAll(() => rmSync(scratch, { recursive: true, force: true }))

const log = createLog("silent", false)
const warn = vi.spyOn(log, "warn")
let library: string
beforeAll(async () => {
  if (!compiler) return
  const model = await openModel(folder)
  await model.close()
  const plan = compile(model.graph, { format: "q4f16_1", activations: "int8", kv: "f16" })
  library = (await shelvedCpu(plan)).path
}, 240_000)
let shelf: Shelf
beforeEach(() => {
  shelf = openShelf(mkdtempSync(join(scratch, "shelf-")))
  warn.mockClear()
})

const LIMITS = { blocks: [1], tokens: 1, sequences: 1, rows: 1 }

const optionsFor = (shelfSize = 1 << 30) => {
  const { signal } = new AbortController()
  return { shelf, shelfSize, leastBytes: 0, log, signal, progress: () => {} }
}

interface Started extends Omit<Loaded, "finish"> {
  /** Before and after it was finished. */
  memory: Uint8Array
}

/** Loads the model as a start does, waits until a copy is kept, and looks at the program's memory. */
async function start(
  shelfSize?: number,
  more: Pick<WeightSource, "part" | "borrowed" | "adapters"> = {},
  place = (packed: PackedWeights) => packed,
): Promise<Started> {
  const model = { ...(await openModel(folder)), ...more }
  const program = await openLibrary(library, LIMITS)
  try {
    const receiver = { ...program, packed: place(program.packed) }
    const { finish, ...loaded } = await loadWeights(model, receiver, optionsFor(shelfSize))
    const memory = program.packed.blank(0, program.packed.bytes).slice()
    await finish()
    expect(program.packed.blank(0, program.packed.bytes)).toEqual(memory)
    return { ...loaded, memory }
  } finally {
    await program.close()
    await model.close()
  }
}

/** As a device keeps them: what is read is a copy, what is to be filled holds something else, and only what is put arrives. */
function elsewhere(packed: PackedWeights): PackedWeights {
  return {
    bytes: packed.bytes,
    take: async (from, length) => (await packed.take(from, length)).slice(),
    blank: (_, length) => new Uint8Array(length).fill(0xa5),
    put: async (from, window) => packed.blank(from, window.length).set(window),
    checksum: () => packed.checksum(),
  }
}

const copyPath = () =>
  join(shelf.folder, readdirSync(shelf.folder).find((name) => name.endsWith(".weights"))!)

const lacksPages = process.platform !== "linux"
const reason = lacksPages ? " (skipped: only Linux puts pages in the place of others)" : ""
const needsCompiler = `packed weights${compiler ? "" : ": no C compiler on this machine"}`
describe.skipIf(isLeftOut(compiler))(needsCompiler, () => {
  test("are read back as they were, by two servers at once too", async () => {
    const first = await start()
    const again = await Promise.all([start(), start()])
    expect(first.from).toBe("folder")
    for (const next of again) expect(next).toEqual({ ...first, from: "shelf" })
    expect(warn).not.toHaveBeenCalled()
  })

  test("that were damaged or cut short on the shelf are packed again", async () => {
    const first = await start()
    const path = copyPath()
    const bytes = readFileSync(path)
    bytes[bytes.length >> 1]! ^= 1
    writeFileSync(path, bytes)
    expect(await start()).toEqual(first)
    expect(warn.mock.lastCall?.[0]).toContain("it is damaged")
    expect((await start()).from).toBe("shelf")
    for (const length of [bytes.length - 1, 5000, 3, 0]) {
      truncateSync(path, length)
      expect(await start()).toEqual(first)
    }
    expect(warn).toHaveBeenCalledTimes(5)
    expect((await start()).from).toBe("shelf")
  })

  test("that are not what their checksums say are refused for that, whatever storing them came to", async () => {
    const damaged = join(scratch, "damaged")
    cpSync(goldenFolder("mlc", "llama-wide-q4f16_1"), damaged, { recursive: true })
    const file = join(damaged, "params_shard_0.bin")
    const bytes = readFileSync(file)
    bytes[bytes.length >> 1]! ^= 1
    writeFileSync(file, bytes)
    const model = await openModel(damaged, { verify: false })
    const program = await openLibrary(library, LIMITS)
    const refuses = { ...program, load: () => Promise.reject(new Error("it cannot be stored")) }
    for (const receiver of [program, refuses]) {
      const loading = loadWeights(model, receiver, optionsFor())
      await expect(loading).rejects.toThrow(/params_shard_0\.bin: its checksum is/)
    }
    await program.close()
    await model.close()
  })

  test("of a model whose files changed are not taken for it", async () => {
    await start()
    const now = new Date()
    utimesSync(join(folder, "config.json"), now, now)
    expect((await start()).from).toBe("folder")
    expect((await start()).from).toBe("shelf")
  })

  test("that are borrowed in part, or one of several, have copies of their own", async () => {
    const other = join(scratch, "other")
    cpSync(folder, other, { recursive: true })
    const borrowed = await openModel(other)
    const wishes = [{}, { part: 1 }, { borrowed }]
    for (const from of ["folder", "shelf"]) {
      for (const more of wishes) expect((await start(1 << 30, more)).from).toBe(from)
    }
    utimesSync(join(other, "config.json"), new Date(), new Date())
    expect((await start(1 << 30, { borrowed })).from).toBe("folder")
    expect((await start()).from).toBe("shelf")
    await borrowed.close()
  })

  test("that an adapter has changed have a copy of their own, of as that is now", async () => {
    const path = join(scratch, "adapter")
    const files = ["adapter_model.safetensors"]
    mkdirSync(path)
    writeFileSync(join(path, files[0]!), "changes")
    const adapters = [{ path, folder: new Folder(path), files }]
    for (const from of ["folder", "shelf"])
      for (const more of [{}, { adapters }, { adapters: [...adapters, ...adapters] }])
        expect((await start(1 << 30, more)).from).toBe(from)
    writeFileSync(join(path, files[0]!), "other changes")
    expect((await start(1 << 30, { adapters })).from).toBe("folder")
  })

  test("that lie elsewhere come and go through windows, to the same bytes", async () => {
    const here = await start()
    const copy = readFileSync(copyPath())
    const there = await start(1 << 30, {}, elsewhere)
    expect(there).toEqual({ ...here, from: "shelf" })
    rmSync(copyPath())
    expect(await start(1 << 30, {}, elsewhere)).toEqual(here)
    expect(readFileSync(copyPath()).equals(copy)).toBe(true)
    copy[copy.length >> 1]! ^= 1
    writeFileSync(copyPath(), copy)
    expect(await start(1 << 30, {}, elsewhere)).toEqual(here)
    expect(warn.mock.lastCall?.[0]).toContain("it is damaged")
  })

  test("that lie in this process are its windows, without a copy", async () => {
    const program = await openLibrary(library, { blocks: [1], tokens: 1, sequences: 1, rows: 1 })
    const { packed } = program
    const [first, again] = [packed.blank(64, 128), await packed.take(0, 256)]
    first.fill(7)
    expect([...again.subarray(60, 68)]).toEqual([0, 0, 0, 0, 7, 7, 7, 7])
    expect(again.buffer).toBe(first.buffer)
    await program.close()
  })

  test.skipIf(lacksPages)(
    `lie in the pages of their copy until they have memory of their own, under whoever reads them${reason}`,
    async () => {
      await start()
      const model = await openModel(folder)
      const program = await openLibrary(library, LIMITS)
      const { finish } = await loadWeights(model, program, optionsFor())
      const isShown = () => readFileSync("/proc/self/maps", "utf8").includes(copyPath())
      expect(isShown()).toBe(true)
      const sum = await program.packed.checksum()
      let isFinished = false
      const finished = finish().then(() => {
        isFinished = true
      })
      const sums = new Set([sum])
      while (!isFinished) sums.add(await program.packed.checksum())
      await finished
      expect(isShown()).toBe(false)
      truncateSync(copyPath(), 0)
      expect(sums.add(await program.packed.checksum())).toEqual(new Set([sum]))
      await program.close()
      await model.close()
    },
  )

  test.skipIf(lacksPages)(
    `get memory of their own piece by piece, each what it was, and zeros where they are removed${reason}`,
    async () => {
      const { memory } = await start()
      const program = await openLibrary(library, LIMITS)
      const { packed } = program
      const file = openSync(copyPath(), "r")
      const { end } = readHeader(file)!
      const shown = packed.show!(file, end)!
      expect(packed.blank(0, packed.bytes)).toEqual(memory)
      const piece = 64 << 10
      for (let at = 0; at < packed.bytes; at += 2 * piece)
        await shown.own(at, Math.min(piece, packed.bytes - at))
      expect(packed.blank(0, packed.bytes)).toEqual(memory)
      packed.blank(2 * piece, 1)[0]! ^= 1 // it may be written
      expect(packed.blank(2 * piece, 1)[0]).not.toBe(memory[2 * piece])
      expect(readFileSync(copyPath()).subarray(end).equals(memory)).toBe(true)
      await expect(packed.show!(file, end)!.own(packed.bytes, piece)).rejects.toThrow(
        "cannot be read",
      )
      packed.show!(file, end)!.remove()
      expect(packed.blank(0, packed.bytes).every((byte) => byte === 0)).toBe(true)
      closeSync(file)
      await program.close()
    },
  )

  test("that do not fit on the shelf cost the caching", async () => {
    const first = await start(1000)
    expect(warn.mock.lastCall?.[0]).toContain("the shelf may hold 1000 bytes")
    expect(await start(1000)).toEqual(first)
    expect(readdirSync(shelf.folder)).toEqual([])
  })
})
