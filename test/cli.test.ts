// The command line from outside: what a user typed wrong is one line on stderr and exit code 2.

import { spawnSync } from "node:child_process"
import {
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from "node:fs"
import module from "node:module"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { expect, test } from "vitest"
import { chatOptions, serveOptions } from "../src/cli/options.ts"
import { built, run } from "./sinter.ts"

test.each([
  [["serv", "tiny"], "unknown command 'serv' (Did you mean serve?)"],
  [["tiny"], "unknown command 'tiny'; sinter --help lists them\n"],
  [["serve"], "no MODEL is named"],
  [["serve", "--model", "tiny"], "'--model'; a model is named without one: sinter serve MODEL\n"],
  [["chat", "a", "b"], 'chat: "b" is one argument too many.'],
  [["serve", "tiny", "tiny", "--device", "cpu"], "tiny is given twice"],
  [["shelf", "list", "b"], 'list: "b" is one argument too many.'],
  [["serve", "tiny", "--prot", "80"], "unknown option '--prot' (Did you mean --port?)"],
  [["serve", "tiny", "--font", "x"], "unknown option '--font'\n"],
  [["serve", "tiny", "--port"], "option '--port <PORT>' argument missing"],
  [["serve", "tiny", "--port", "http"], "--port: expected a whole number, 0 to 65535"],
  [["serve", "tiny", "--allow-origins", "*"], "--allowed-origins: expected a JSON list"],
  [["serve", "tiny", "--overrides", "batch=1"], 'there is no field "batch"; known: max_num_seq'],
  [
    ["serve", "tiny", "--api-key", "a", "--api-key", "b"],
    "--api-key: is given twice; give it once.",
  ],
  [["serve", "tiny", "--speculative-mode", "medusa"], "needs 1 additional model and 0 are given"],
  [["serve", "tiny", "--speculative-mode", "mtp"], "is of architecture llama; known: bailing_moe"],
  [
    ["serve", "tiny", "--speculative-mode", "eagle", "--additional-models", "models/tiny-medusa"],
    "holds Medusa heads and --speculative-mode eagle takes an EAGLE head; choose medusa",
  ],
])("sinter %j: one sentence, exit code 2", async (args, sentence) => {
  const { code, out, err } = await run(args)
  expect(err).toMatch(/^sinter: .+\n$/)
  expect(err).toContain(sentence)
  expect({ code, out }).toEqual({ code: 2, out: "" })
})

test("--version and --help print on stdout and end well", async () => {
  expect(await run(["--version"])).toMatchObject({
    code: 0,
    out: expect.stringMatching(/^\d+\.\d+\.\d+\n$/),
  })
  const help = await run(["serve", "--help"])
  expect(help).toMatchObject({ code: 0, err: "" })
  expect(help.out).toContain("--allow-origins, --allowed-origins <JSON_LIST>")
})

test("sinter help, and the help of one command", async () => {
  const [all, asked] = [await run(["help"]), await run(["--help"])]
  expect(all).toMatchObject({ code: 0, err: "", out: asked.out })
  expect(await run(["help", "serve"])).toEqual(await run(["serve", "--help"]))
})

test.each([[[]], [["serve"]], [["chat"]], [["compile"]], [["shelf", "prune"]]])(
  "the help of %j fits into 80 columns, and breaks between words",
  async (command) => {
    const { out } = await run([...command, "--help"])
    expect(out.split("\n").filter((line) => line.length > 80)).toEqual([])
    const words = out.split(/\s+/).join(" ")
    const options: Record<string, { help: string }> =
      { serve: serveOptions, chat: chatOptions }[command[0] ?? ""] ?? {}
    for (const { help } of Object.values(options)) expect(words).toContain(help)
  },
)

const full = existsSync("/dev/full")
const unknown = full ? "" : " (skipped: no /dev/full is here)"
test.skipIf(!full)(
  `words that a full disk does not take are one sentence, exit code 2${unknown}`,
  () => {
    const [program, ...first] = built.command
    const output = openSync("/dev/full", "w") // full(4): a write fails with ENOSPC
    const stdio = ["ignore", output, "pipe"] as const
    const { status, stderr } = spawnSync(program!, [...first, "--help"], { stdio: [...stdio] })
    closeSync(output)
    expect([status, String(stderr)]).toEqual([
      2,
      "sinter: The system refused write: no space left on device (ENOSPC).\n",
    ])
  },
)

test("no command: the help, and exit code 2", async () => {
  const { code, err } = await run([])
  expect(code).toBe(2)
  expect(err).toContain("chat [options] <MODEL>")
})

test("compiled modules are kept where Node can do that, and a cache that is none keeps nobody", async () => {
  const home = mkdtempSync(join(tmpdir(), "sinter-modules-"))
  const within = (XDG_CACHE_HOME: string) => run(["--version"], "", built, { XDG_CACHE_HOME })
  try {
    const made = await within(home)
    expect(made).toMatchObject({ code: 0, err: "" })
    const kept = (readdirSync(home, { recursive: true }) as string[]).filter((path) =>
      path.startsWith(join("sinter", "modules")),
    )
    expect(kept.length > 0).toBe("enableCompileCache" in module)
    expect(await within(home)).toEqual(made)
    writeFileSync(join(home, "file"), "")
    expect(await within(join(home, "file"))).toEqual(made)
  } finally {
    rmSync(home, { recursive: true })
  }
})
