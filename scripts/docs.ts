// Writes the pages that are printed from tables: `npm run docs`. test/docs.test.ts fails when a committed page differs.

import { writeFileSync } from "node:fs"
import { optionsPage } from "../src/cli/manual.ts"
import { apiPage, errorsPage } from "../src/http/manual.ts"

/** A page of docs/ and what prints it. */
export const pages: Record<string, () => string> = {
  "api.md": apiPage,
  "errors.md": errorsPage,
  "options.md": optionsPage,
}

export const pagePath = (name: string) => new URL(`../docs/${name}`, import.meta.url)

if (process.argv[1]?.endsWith("docs.ts")) {
  for (const [name, print] of Object.entries(pages)) writeFileSync(pagePath(name), print())
}
