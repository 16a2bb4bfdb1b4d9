// `sinter shelf`, as a user meets it: what starts left behind, and taking it away.

import { spawnSync } from "node:child_process"
import { mkdirSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, test } from "vitest"
import { isLeftOut } from "./left-out.ts"
import { built, type Installed, run } from "./sinter.ts"

const cache = mkdtempSync(join(tmpdir(), "sinter-shelf-"))
const folder = join(cache, "sinter", "shelf")
afterAll(() => rmSync(cache, { recursive: true, force: true }))

const sinter = (...args: string[]) => run(args, "", undefined, { XDG_CACHE_HOME: cache })

test("the shelf is listed and pruned", async () => {
  expect(await sinter("shelf", "list")).toMatchObject({
    code: 0,
    out: `${folder}: 0 items, 0.0 MiB\n`,
  })
  mkdirSync(folder, { recursive: true })
  const header = JSON.stringify({
    version: 1,
    model: "small",
    folder: "/models/small",
    format: "q4f16_1",
  })
  const length = Buffer.alloc(4)
  length.writeUInt32LE(header.length)
  const long = new Date(Date.now() - 40.5 * 86_400_000)
  const files = {
    "1.so": "no library",
    "2.weights": Buffer.concat([Buffer.from("SINTERWT"), length, Buffer.from(header)]),
    "3.weights.4194305.new": "half of one",
  }
  for (const [name, content] of Object.entries(files)) {
    writeFileSync(join(folder, name), content)
    utimesSync(join(folder, name), long, long)
  }
  const { out } = await sinter("shelf", "list")
  expect(out).toMatch(/^library of another version, or damaged +0\.0 MiB +40 days ago$/m)
  expect(out).toMatch(/^weights: small, q4f16_1, of \/models\/small +0\.0 MiB +40 days ago$/m)
  expect(out).toContain(`${folder}: 2 items`)

  expect((await sinter("shelf", "prune", "--older-than", "50d")).out).toContain("removed 0 items")
  expect((await sinter("shelf", "prune", "--older-than", "12h")).out).toContain(
    `removed ${join(folder, "2.weights")}\nremoved 2 items, 0.0 MiB; 0 items, 0.0 MiB left`,
  )
  expect(await sinter("shelf", "prune", "--older-than", "30")).toMatchObject({
    code: 2,
    err: 'sinter: --older-than: expected days or hours like 30d or 12h, got "30".\n',
  })
})

/** Runs a command in a world of its own where `folder` is mounted noexec, and once more with that as the temporary folder, too. */
const noexec = (folder: string) => {
  const script = 'mount -t tmpfs -o noexec tmpfs "$0" && "$@" && TMPDIR="$0" exec "$@"'
  return ["unshare", "-rm", "sh", "-c", script, folder]
}
const [unshare, ...words] = [...noexec(cache), "true"]
const mounts = spawnSync(unshare!, words).status === 0
const reason = mounts ? "" : " (skipped: nothing may be mounted here)"

test.skipIf(isLeftOut(mounts))(
  `where the cache is mounted noexec a copy of the library is opened, and where nothing else is the cure is said${reason}`,
  async () => {
    const barred = mkdtempSync(join(tmpdir(), "sinter-noexec-"))
    const within: Installed = { ...built, command: [...noexec(barred), ...built.command] }
    const options = ["--target", "cpu", "--max-tokens", "3"]
    const { code, out, err } = await run(["run", "tiny", "Hello!", ...options], "", within, {
      XDG_CACHE_HOME: barred,
    })
    expect(out).toMatch(/\w/)
    expect(err).toContain(`${join(barred, "sinter/shelf")} is mounted noexec: a copy`)
    expect(code).toBe(2)
    expect(err).toMatch(
      /sinter: .+\.so cannot be used .+ mounted noexec, .+; set TMPDIR or XDG_CACHE_HOME to a folder elsewhere\.\n$/,
    )
    rmSync(barred, { recursive: true })
  },
)
