// What a shell completes, by a real bash, and `sinter ps` of a real server.

import { spawnSync } from "node:child_process"
import { expect, test } from "vitest"
import { isLeftOut } from "./left-out.ts"
import { fromSources, run, serve } from "./sinter.ts"

const hasBash = spawnSync("bash", ["--version"]).status === 0
const without = isLeftOut(hasBash)

test.skipIf(without)(
  `bash completes commands, their options and files${without ? " (skipped: no bash)" : ""}`,
  async () => {
    const { code, out } = await run(["completion", "bash"])
    expect(code).toBe(0)
    const completed = (...words: string[]) => {
      const script = `${out}\nCOMP_WORDS=("$@"); COMP_CWORD=$(($#-1)); _sinter; printf '%s\\n' "\${COMPREPLY[@]}"`
      const found = spawnSync("bash", ["-c", script, "bash", ...words], {
        cwd: import.meta.dirname,
        encoding: "utf8",
      })
      expect(found.stderr).toBe("")
      return found.stdout.split("\n").filter((word) => word !== "")
    }
    expect(completed("sinter", "se")).toEqual(["serve"])
    expect(completed("sinter", "serve", "--api-k")).toEqual(["--api-key", "--api-key-file"])
    expect(completed("sinter", "shelf", "p")).toEqual(["prune"])
    expect(completed("sinter", "chat", "terminal.t")).toEqual(["terminal.test.ts"])
  },
)

test("an unknown shell, and a place where nothing answers, are one sentence", async () => {
  expect(await run(["completion", "tcsh"])).toMatchObject({
    code: 2,
    err: 'sinter: completion: expected bash, zsh, fish, got "tcsh".\n',
  })
  expect(await run(["ps", "--url", "127.0.0.1"])).toMatchObject({
    code: 2,
    err: expect.stringMatching(/^sinter: --url: expected an address like .+\n$/),
  })
  expect(await run(["ps", "--url", "http://127.0.0.1:9"])).toMatchObject({
    code: 2,
    err: expect.stringMatching(/^sinter: --url: no server answers at .+; sinter serve .+\n$/),
  })
})

test("what a server has in memory is listed, to who has its key", async () => {
  const server = await serve(["tiny", "--api-key", "one,two"], fromSources)
  expect(await run(["ps", "--url", server.url])).toMatchObject({
    code: 2,
    err: expect.stringMatching(/^sinter: --api-key: the server at .+ took none\.\n$/),
  })
  const { code, out } = await run(["ps", "--url", server.url, "--api-key", "two"])
  expect(code).toBe(0)
  const [head, model] = out.trimEnd().split("\n")
  expect(head!.split(/ {2,}/)).toEqual(["model", "architecture", "format", "context", "unloaded"])
  expect(model!.split(/ {2,}/)).toEqual(["tiny", "llama", "q8f16_1", "4096", "never"])
  await server.stop()
})
