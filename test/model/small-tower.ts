// A tower small enough for the reference: tiles of 32 patches of 2 pixels a side.

import { compile } from "../../src/compiler/compile.ts"
import { openReference } from "../../src/compiler/targets/reference/reference.ts"
import { towerLimits } from "../../src/engine/tower.ts"
import type { LoadableProgram } from "../../src/runtime/program.ts"
import { loadSmall, smallGraph } from "./small.ts"

export const [TAKEN, ROWS, JOINED] = [12, 32, 4]

export async function openProgram(): Promise<LoadableProgram> {
  const graph = smallGraph({ tower: { taken: TAKEN, joined: JOINED }, bidirectional: true })
  const plan = compile(graph, { format: "q0f32", activations: "float", kv: "f32" })
  const program = openReference(plan, towerLimits(plan.groups.length, ROWS))
  await loadSmall(program)
  return program
}
