// Every example runs as it stands.

import { spawnSync } from "node:child_process"
import { readdirSync } from "node:fs"
import { resolve } from "node:path"
import { expect, test } from "vitest"

const folder = resolve(import.meta.dirname, "../examples")

test.each(readdirSync(folder))("examples/%s", (file) => {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    ["--import", "tsx", resolve(folder, file)],
    { encoding: "utf8", cwd: resolve(folder, "..") },
  )
  expect({ status, stderr }).toEqual({ status: 0, stderr: "" })
  expect(stdout).toMatch(/\w{2,}/)
})
