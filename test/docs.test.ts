// Printed pages are committed, so that they can be read without running anything; here they are held to their tables.

import { readFileSync } from "node:fs"
import { expect, test } from "vitest"
import { pagePath, pages } from "../scripts/docs.ts"

test.each(Object.keys(pages))("docs/%s is what its table prints (mend: npm run docs)", (name) => {
  expect(readFileSync(pagePath(name), "utf8")).toBe(pages[name]!())
})

test("walks that nobody judged are not counted as judged", () => {
  const page = readFileSync(pagePath("../bench/results/structured-output.md"), "utf8")
  const drafts = { "draft-07": "draft7", "2019-09": "draft2019-09", "2020-12": "draft2020-12" }
  for (const [dialect, draft] of Object.entries(drafts)) {
    const [, table = ""] = page.split(new RegExp(`^### ${draft}$`, "m"))
    const rows = [...table.split(/^Not counted/m)[0]!.matchAll(/^\| ([\w/-]+) \|(.+)\|$/gm)].slice(
      1,
    )
    expect(rows.length).toBeGreaterThan(30)
    for (const [, keyword, cells] of rows) {
      const [walks, , judged] = cells!.split("|").slice(5).map(Number)
      const note = new RegExp(`^- ${dialect} ${keyword}: walks not judged`, "gm")
      expect([keyword, judged]).toEqual([keyword, walks! - 200 * [...page.matchAll(note)].length])
    }
  }
})
