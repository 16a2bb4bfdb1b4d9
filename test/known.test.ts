// What a start remembers of a library instead of writing its C text again, and everything that makes it write it again.

import {
  appendFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, expect, test } from "vitest"
import { KNOWN, type Known, known } from "../src/compiler/targets/cpu/known.ts"
import { sealed, unsealed } from "../src/compiler/targets/cpu/objects.ts"
import { findCompiler } from "../src/compiler/targets/cpu/toolchain.ts"
import { openShelf } from "../src/runtime/shelf.ts"
import { isLeftOut } from "./left-out.ts"
import { built, start } from "./sinter.ts"

const folder = mkdtempSync(join(tmpdir(), "sinter-known-"))
afterAll(() => rmSync(folder, { recursive: true }))

const itemsOf = (shelf: string) =>
  readdirSync(shelf)
    .filter((name) => name.endsWith(KNOWN))
    .map((name) => join(shelf, name))

test("a text is written once for all that decides it, and again when what was kept is cut", async () => {
  const shelf = openShelf(join(folder, "shelf"))
  let written = 0
  const write = async () => ({ name: `${++written}.so` }) as Known
  const nameOf = async (code: string | undefined, ...decided: string[]) =>
    (await known(shelf, code, decided, write)).name
  expect(await nameOf("code", "plan", "gcc")).toBe("1.so")
  expect(await nameOf("code", "plan", "gcc")).toBe("1.so")
  expect(await nameOf("code", "plan", "clang")).toBe("2.so")
  expect(await nameOf("other code", "plan", "gcc")).toBe("3.so")
  expect(await nameOf(undefined, "plan", "gcc")).toBe("4.so") // nobody knows which
  expect(await nameOf(undefined, "plan", "gcc")).toBe("5.so")
  for (const path of itemsOf(shelf.folder)) truncateSync(path, readFileSync(path).length - 1)
  expect(await nameOf("code", "plan", "gcc")).toBe("6.so")
  expect(await nameOf("code", "plan", "gcc")).toBe("6.so")
  const nowhere = openShelf("/proc/nowhere")
  expect((await known(nowhere, "code", [], write)).name).toBe("7.so")
  expect((await known(nowhere, "code", [], write)).name).toBe("8.so")
})

const skipped = isLeftOut(await findCompiler())
const note = skipped ? " (skipped: no C compiler is here)" : ""

const root = join(folder, "package")
const shelf = join(folder, "cache/sinter/shelf")

beforeAll(() => {
  mkdirSync(root)
  for (const part of ["build", "package.json"])
    cpSync(join(built.folder, part), join(root, part), { recursive: true })
  for (const part of ["node_modules", "models"])
    symlinkSync(join(built.folder, part), join(root, part))
})

/** What the built program says of the library of `tiny`. */
async function manifestOf(args: readonly string[] = [], CC?: string): Promise<Known["manifest"]> {
  const where = { command: [process.execPath, join(root, "build/cli/main.js")], folder }
  const asked = ["inspect", join(root, "models/tiny"), "--show", "library", "--json", ...args]
  const run = start(asked, where, { XDG_CACHE_HOME: join(folder, "cache"), CC })
  const { code, out, err } = await run.ended
  expect({ code, err }).toEqual({ code: 0, err: "" })
  return JSON.parse(out)
}

test.skipIf(skipped)(
  `a library that is known is not written again, unless something that decides it is another${note}`,
  async () => {
    const first = await manifestOf()
    const [item, ...others] = itemsOf(shelf)
    expect(others).toEqual([])
    const kept: Known = JSON.parse(unsealed(readFileSync(item!))!.toString())
    expect(kept.manifest).toEqual(first)
    // What nobody can have written shows whether it is read.
    const planted = { ...kept, manifest: { ...kept.manifest, architecture: "planted" } }
    writeFileSync(item!, sealed(Buffer.from(JSON.stringify(planted))))
    expect(await manifestOf()).toEqual(planted.manifest)

    const { fingerprint } = first
    for (const manifest of await Promise.all([
      manifestOf([], "cc -DOTHER"),
      manifestOf(["--target", "cpu:baseline"]),
      manifestOf(["--overrides", "kv_dtype=f32"]),
    ])) {
      expect(manifest.architecture).toBe(first.architecture)
      expect(manifest.fingerprint).not.toBe(fingerprint)
    }
    const kernel = join(root, "build/compiler/targets/cpu/kernels/driver_model.h")
    const text = readFileSync(kernel)
    appendFileSync(kernel, "\n// another\n")
    const changed = await manifestOf()
    expect(changed.architecture).toBe(first.architecture)
    expect(changed.fingerprint).not.toBe(fingerprint)

    writeFileSync(kernel, text)
    expect(await manifestOf()).toEqual(planted.manifest)
    writeFileSync(join(root, "build/code.sha256"), "another")
    expect(await manifestOf()).toEqual(first)
  },
  60_000,
)
