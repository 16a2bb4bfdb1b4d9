// The table of planted faults keeps up with the code: each can be planted. Whether it is noticed is what `npm run mutate` finds out.

import { existsSync, readFileSync } from "node:fs"
import { resolve } from "node:path"
import { expect, test } from "vitest"
import { planted } from "./planted.ts"

const root = resolve(import.meta.dirname, "..")

test.each(planted)("$file: $what", ({ file, text, fault, test: named }) => {
  expect(readFileSync(resolve(root, file), "utf8").split(text).length - 1).toBe(1)
  expect(fault).not.toBe(text)
  expect(existsSync(resolve(root, named))).toBe(true)
})

test("there are fifty at least, each of them once", () => {
  const places = planted.map(({ file, text, fault }) => `${file} ${text} ${fault}`)
  expect(new Set(places).size).toBe(planted.length)
  expect(planted.length).toBeGreaterThanOrEqual(50)
})
