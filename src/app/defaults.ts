// What an app does unless it is told otherwise, from a program and from the command line alike. Those of HTTP stand with its
// options (http/service.ts).

import { DEFAULT_SHELF_SIZE } from "../runtime/shelf.ts"

export const appDefaults = {
  device: { name: "auto", id: 0 },
  target: "auto",
  mode: "local",
  drafting: { mode: "auto" },
  generationDefaults: "api",
  maxQueue: 256,
  shelfSize: DEFAULT_SHELF_SIZE,
} as const

/** Undefined is as not said. */
export function said<Given extends object>(given: Given): Given {
  return Object.fromEntries(
    Object.entries(given).filter(([, value]) => value !== undefined),
  ) as Given
}
