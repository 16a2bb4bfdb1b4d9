// What every library asserts when it is built: a step's fields lie where the host writes them.

import { spawnSync } from "node:child_process"
import { expect, test } from "vitest"
import { stepAssertions } from "../../src/compiler/targets/cpu/emit.ts"
import { flagsOf, identify } from "../../src/compiler/targets/cpu/toolchain.ts"
import { isLeftOut } from "../left-out.ts"
import { best } from "./ways.ts"

const cc = await identify("cc")

function compiled(lines: readonly string[]) {
  if (!cc) throw new Error("no C compiler: cc")
  const flags = [...flagsOf(best, cc), "-fsyntax-only", "-x", "c", "-"]
  const input = ['#include "driver_types.h"', ...lines].join("\n")
  return spawnSync(cc.command, flags, { input, encoding: "utf8" })
}

test.skipIf(isLeftOut(cc))(
  `fields that changed places are no library${cc ? "" : " (skipped: no cc)"}`,
  () => {
    const lines = stepAssertions()
    expect(compiled(lines)).toMatchObject({ status: 0, stderr: "" })
    const [seed, choice] = ["seed", "choice"].map((name) =>
      lines.findIndex((line) => line.startsWith(`STEP_FIELD(${name},`)),
    )
    const swapped = lines
      .with(seed!, lines[seed!]!.replace("seed", "choice"))
      .with(choice!, lines[choice!]!.replace("choice", "seed"))
    expect(compiled(swapped).stderr).toContain("the place of choice")
    const longer = lines.map((line) => line.replace(/sizeof\(.*\) == \d+/, "$& + 8"))
    expect(compiled(longer).stderr).toContain("the size of a step")
  },
)
