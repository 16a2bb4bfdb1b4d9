// Printed pages are committed, so that they can be read without running anything; here they are held to their tables.

import { readFileSync } from "node:fs"
import { expect, test } from "vitest"
import { pagePath, pages } from "../scripts/docs.ts"

test.each(Object.keys(pages))("docs/%s is what its table prints (mend: npm run docs)", (name) => {
  expect(readFileSync(pagePath(name), "utf8")).toBe(pages[name]!())
})
