// The command line from outside: what a user typed wrong is one line on stderr and exit code 2.

import { expect, test } from "vitest"
import { run } from "./sinter.ts"

test.each([
  [["serv", "tiny"], "unknown command 'serv' (Did you mean serve?)"],
  [["serve"], "missing required argument 'MODEL'"],
  [["serve", "a", "b"], "too many arguments"],
  [["serve", "tiny", "--prot", "80"], "unknown option '--prot' (Did you mean --port?)"],
  [["serve", "tiny", "--port"], "option '--port <PORT>' argument missing"],
  [["serve", "tiny", "--port", "http"], "--port: expected a whole number, 0 to 65535"],
  [["serve", "tiny", "--allow-origins", "*"], "--allowed-origins: expected a JSON list"],
  [["serve", "tiny", "--overrides", "batch=1"], 'there is no field "batch"; known: max_num_seq'],
  [
    ["serve", "tiny", "--api-key", "a", "--api-key", "b"],
    "--api-key: is given twice; give it once.",
  ],
  [["serve", "tiny", "--speculative-mode", "medusa"], "needs 1 additional model and 0 are given"],
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

test("no command: the help, and exit code 2", async () => {
  const { code, err } = await run([])
  expect(code).toBe(2)
  expect(err).toContain("serve [options] <MODEL>")
})
