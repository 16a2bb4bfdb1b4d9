// Kernels under Oclgrind, which sees races between threads and what reaches beyond its memory: it stays silent over sound ones
// and names what is wrong with others. It is an OpenCL driver that interprets, and goes in front of all others by the loader's
// own list, in a process of its own.

import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { afterAll, expect, test } from "vitest"
import { isLeftOut } from "../left-out.ts"
import { type Installed, run } from "../sinter.ts"

const oclgrind = "/usr/lib/oclgrind/liboclgrind-rt-icd.so"
const isSkipped = isLeftOut(existsSync(oclgrind))
const note = isSkipped ? " (skipped: no Oclgrind)" : ""

const folder = mkdtempSync(join(tmpdir(), "sinter-oclgrind-"))
afterAll(() => rmSync(folder, { recursive: true }))
writeFileSync(join(folder, "oclgrind.icd"), `${oclgrind}\n`)

const child: Installed = {
  command: [process.execPath, "--import", "tsx", resolve(import.meta.dirname, "races-child.ts")],
  folder: resolve(import.meta.dirname, "../.."),
}

const checked = (name: string) =>
  run([name], "", child, {
    OCL_ICD_VENDORS: folder,
    OCLGRIND_DATA_RACES: "1",
    OCLGRIND_CHECK_API: "1",
  })

test.skipIf(isSkipped).each(["normalized", "counted", "transposed"])(
  `a sound kernel: %s${note}`,
  async (name) => {
    expect(await checked(name)).toMatchObject({
      code: 0,
      out: "Oclgrind Simulator: ran\n",
      err: "",
    })
  },
)

test.skipIf(isSkipped).each([
  ["normalized without barriers", /^Read-write data race at local memory address/m],
  ["counted, a place too many", /^Invalid read of size 4 at local memory address/m],
  ["transposed, four words too many", /^Invalid read of size 16 at global memory address/m],
])(`a planted fault: %s${note}`, async (name, words) => {
  expect((await checked(name)).err).toMatch(words)
})
