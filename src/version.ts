// The product's own version, as package.json says it.

import { readFileSync } from "node:fs"
import { codeRoot } from "./code-root.ts"

export const version: string = JSON.parse(
  readFileSync(new URL("../package.json", codeRoot), "utf8"),
).version
