// Where a processor has all that the level with a matrix unit (AMX) wants but the unit, matrix-unit.c stands in for it.

import { join } from "node:path"
import { pathToFileURL } from "node:url"

/** Its source, to be compiled into a program. */
export const softwareUnit = join(import.meta.dirname, "matrix-unit.c")

/** A module to be imported before a program that it is loaded into: the processor's list then has the unit. */
export const listsUnit = pathToFileURL(join(import.meta.dirname, "matrix-unit.mjs")).href

/** @param lacking features of a level that this processor has not */
export const lacksUnitAlone = (lacking: readonly string[]) =>
  process.platform === "linux" &&
  lacking.length > 0 &&
  lacking.every((feature) => feature.startsWith("amx_"))
