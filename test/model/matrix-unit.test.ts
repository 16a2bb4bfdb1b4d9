// The cpu target on a processor's matrix unit (AMX), where this processor lacks that alone: cpu.test.ts runs once more in a
// process that has one in software. On a processor with the unit it is judged there.

import { execFileSync, spawnSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, resolve } from "node:path"
import { expect, onTestFinished, test } from "vitest"
import { levels } from "../../src/compiler/targets/cpu/levels.ts"
import { flagsOf, identify } from "../../src/compiler/targets/cpu/toolchain.ts"
import { processorFeatures } from "../../src/runtime/features.ts"
import { lacksUnitAlone, listsUnit, softwareUnit } from "../device/matrix-unit.ts"
import { isLeftOut } from "../left-out.ts"

const here = processorFeatures()
const unit = levels.find(({ name }) => name === "amx")!
const isHere = lacksUnitAlone(unit.features.filter((feature) => !here.has(feature)))
const cc = await identify("cc")
const note = !isHere
  ? " (skipped: this processor has one, or lacks more)"
  : cc
    ? ""
    : " (skipped: no cc)"

/** Codes and floats, rows of experts, keys and values of 8 and 16 bits. */
const judged = [
  "q4f16_1 with activations in int8, keys and values in q8, computes",
  "q0f16 with activations in float",
  "experts in q0bf16 with",
]

test.skipIf(!isHere || isLeftOut(cc))(
  `models are computed on a matrix unit as the reference computes them${note}`,
  () => {
    if (!cc) throw new Error("no cc on this machine")
    const folder = mkdtempSync(join(tmpdir(), "sinter-unit-"))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const library = join(folder, "unit.so")
    execFileSync(cc.command, [...flagsOf(unit, cc), "-O2", "-shared", softwareUnit, "-o", library])
    const report = join(folder, "report.json")
    const vitest = ["run", "test/model/cpu.test.ts", "--reporter=json", `--outputFile=${report}`]
    const root = resolve(import.meta.dirname, "../..")
    const command = ["node_modules/vitest/vitest.mjs", ...vitest, "-t", judged.join("|")]
    const { stdout, stderr } = spawnSync(process.execPath, command, {
      cwd: root,
      env: { ...process.env, LD_PRELOAD: library, NODE_OPTIONS: `--import ${listsUnit}` },
      encoding: "utf8",
    })
    const { numPassedTests, numFailedTests } = JSON.parse(readFileSync(report, "utf8"))
    const words = stdout + stderr
    expect(numFailedTests, words).toBe(0)
    expect(numPassedTests, words).toBe(judged.length + 1) // one of them in two widths
    expect(stderr).toMatch(/^matrix unit: in use$/m)
  },
  240_000,
)
