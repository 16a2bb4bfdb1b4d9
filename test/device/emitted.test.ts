// The C that is made of a plan: it reads as the plan does, and every compiler takes it without a warning.

import { spawnSync } from "node:child_process"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, expect, test } from "vitest"
import { compile } from "../../src/compiler/compile.ts"
import { type Plan, printPlan } from "../../src/compiler/plan.ts"
import { emit } from "../../src/compiler/targets/cpu/emit.ts"
import { levels } from "../../src/compiler/targets/cpu/levels.ts"
import { flagsOf, identify, supports } from "../../src/compiler/targets/cpu/toolchain.ts"
import { isLeftOut } from "../left-out.ts"
import { smallGraph } from "../model/small.ts"

/** With products near and far, keys and values as codes, rows taken in, sinks and a window. */
const plans: readonly (readonly [string, Plan])[] = [
  [
    "q4f16_1",
    compile(smallGraph({ hidden: 1024, intermediate: 1056, window: 40, sinks: 4 }), {
      format: "q4f16_1",
      activations: "int8",
      kv: "q8",
    }),
  ],
  [
    "q0bf16",
    compile(smallGraph({ takesHidden: true }), {
      format: "q0bf16",
      activations: "int8",
      kv: "bf16",
    }),
  ],
]

test.each(plans)("%s: the table of steps reads as the plan", (_, plan) => {
  const { text } = emit(plan).find(({ name }) => name === "driver.c")!
  const table = text.slice(text.indexOf("static const struct step plan_steps"))
  const said = Array.from(table.matchAll(/^ {2}\/\/(.*)$/gm), ([, line]) => line)
  const lines = printPlan(plan).split("\n")
  const first = lines.indexOf("steps") + 1
  expect(said).toEqual(lines.slice(first, first + plan.steps.length))
})

test.each(plans)("%s: whatever a step is given has a name", (_, plan) => {
  const { text } = emit(plan).find(({ name }) => name === "driver.c")!
  const calls = Array.from(text.matchAll(/^ {4}\w+_row\(.*$/gm), ([call]) => call)
  expect(calls.length).toBeGreaterThan(5)
  for (const call of calls) expect(call).toMatch(/\(struct \w+\)\{\.\w+ = /)
  const entries = Array.from(
    text.slice(text.indexOf("struct step plan_steps")).matchAll(/^ {2}\{.*$/gm),
    ([entry]) => entry,
  )
  expect(entries.length).toBeGreaterThan(5)
  for (const entry of entries) expect(entry).toMatch(/^ {2}\{\.kind = \w+, \.rows = \w+, \.body = /)
})

const scratch = mkdtempSync(join(tmpdir(), "sinter-emitted-"))
afterAll(() => rmSync(scratch, { recursive: true }))

const named = ["gcc", "clang", "aarch64-linux-gnu-gcc"] as const
const found = await Promise.all(named.map((command) => identify(command)))

for (const [i, command] of named.entries()) {
  const compiler = found[i]
  const arch = command.startsWith("aarch64") ? "arm64" : process.arch
  test.skipIf(isLeftOut(compiler))(
    `${command} has nothing to say, for any instruction set${compiler ? "" : ` (skipped: no ${command})`}`,
    async () => {
      if (!compiler) throw new Error(`no C compiler: ${command}`)
      const sources = plans.map(([name, plan]) => inOne(plan, join(scratch, `${command}-${name}`)))
      for (const level of levels) {
        if (level.arch !== arch && level.arch !== "any") continue
        if (!(await supports(compiler, level))) continue
        const flags = [...flagsOf(level, compiler), "-Werror", "-fsyntax-only"]
        const { status, stderr } = spawnSync(compiler.command, [...flags, ...sources])
        expect({ level: level.name, status, said: stderr.toString() }).toMatchObject({
          status: 0,
          said: "",
        })
      }
    },
    600_000,
  )
}

/** All of a plan's sources as one: headers are what takes time. They have read what the first source told them. */
function inOne(plan: Plan, folder: string): string {
  mkdirSync(folder)
  const sources = emit(plan)
  for (const { name, text } of sources) writeFileSync(join(folder, name), text)
  const all = join(folder, "all.c")
  const lines = sources.flatMap(({ name, text }) => [
    ...Array.from(text.matchAll(/^#define (\w+)/gm), ([, known]) => `#undef ${known}`),
    `#include "${name}"`,
  ])
  writeFileSync(all, `${lines.join("\n")}\n`)
  return all
}
