// Sums of files that a thread reads, and of those that it is not worth starting for.

import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, describe, expect, test } from "vitest"
import { sumFiles } from "./checksums.ts"

const folder = mkdtempSync(join(tmpdir(), "sinter-checksums-"))
afterAll(() => rmSync(folder, { recursive: true }))

describe.each([
  ["small", 5, ["dbc9dbf475bca4512b72d62b7e024848", "7329ab4d21a59fdf094354552079f6f1"]],
  [
    "as large as several pieces",
    9_000_001,
    ["4f6379b4575dfe87b7ffdfe0f732f4a2", "f5eff1e3b62e1a50ce7888f31c721608"],
  ],
] as const)("files, %s", (name, size, sums) => {
  const paths = ["first", "second"].map((which) => join(folder, `${name} ${which}`))
  let files: { fd: number; size: number }[]

  beforeAll(() => {
    paths.forEach((path, i) => {
      writeFileSync(path, Buffer.alloc(size, `${i} of two`))
    })
    files = paths.map((path) => ({ fd: openSync(path, "r"), size }))
  })
  afterAll(() => {
    for (const { fd } of files) closeSync(fd)
  })

  test("are told as md5sum tells them, in their order", async () => {
    const told: string[] = []
    await sumFiles(files, (file, md5) => told.push(`${files.indexOf(file)} ${md5}`))
    expect(told).toEqual(sums.map((sum, i) => `${i} ${sum}`))
  })

  test("what is thrown on being told ends it", async () => {
    let told = 0
    const refuse = () => {
      told++
      throw new Error("damaged")
    }
    await expect(sumFiles(files, refuse)).rejects.toThrow("damaged")
    expect(told).toBe(1)
  })

  test("one that is shorter than it was is refused", async () => {
    const [file] = files
    await expect(sumFiles([{ ...file!, size: size + 1 }], () => {})).rejects.toThrow(
      `a weights file ended early, at byte ${size}`,
    )
  })

  test("whoever leaves waits for none", async () => {
    const signal = AbortSignal.abort(new Error("gone"))
    await expect(sumFiles(files, () => {}, signal)).rejects.toThrow("gone")
  })
})
