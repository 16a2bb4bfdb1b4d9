// Writes the pages that are printed from tables: `npm run docs`. test/docs.test.ts fails when a committed page differs.

import { readFileSync, writeFileSync } from "node:fs"
import { besideOthers, draftGains, readResults } from "../bench/figures.ts"
import { readmeTables } from "../bench/readme.ts"
import { markdown } from "../bench/report.ts"
import { type Drafts, draftsPage } from "../bench/speculation-report.ts"
import { formatsSection } from "../src/chat/formats/manual.ts"
import { optionsPage } from "../src/cli/manual.ts"
import { apiPage, errorsPage } from "../src/http/manual.ts"
import { modelsPage } from "../src/model/manual.ts"

/** A page, by its path from docs/, and what prints it. */
export const pages: Record<string, () => string> = {
  "api.md": apiPage,
  "errors.md": errorsPage,
  "models.md": () => `${modelsPage()}\n${formatsSection()}`,
  "options.md": optionsPage,
  "performance.md": () => withPassage("performance.md", besideOthers()),
  "speculation.md": () => withPassage("speculation.md", draftGains()),
  "../README.md": () => withPassage("../README.md", readmeTables()),
  ...resultsPage("1B-q4f16_1"),
  ...resultsPage("1B-q0bf16"),
  ...resultsPage("0.6B-q4f16_1"),
  "../bench/results/speculation-1B-q4f16_1.md": () =>
    draftsPage(readResults<Drafts>("speculation-1B-q4f16_1")),
}

export const pagePath = (name: string) => new URL(`../docs/${name}`, import.meta.url)

/** A page as it stands, with its figures printed anew. */
function withPassage(name: string, passage: string): string {
  const text = readFileSync(pagePath(name), "utf8")
  const between = /(<!-- printed by npm run docs -->\n).*?(\n<!-- end -->)/s
  if (!between.test(text)) throw new Error(`internal: ${name} has no place for its figures`)
  return text.replace(between, (_, begin: string, end: string) => begin + passage + end)
}

/** The report of a run, and behind it what somebody wrote who looked at it. */
function resultsPage(name: string): typeof pages {
  const page = `../bench/results/${name}.md`
  return {
    [page]: () => {
      const [, remarks = ""] = readFileSync(pagePath(page), "utf8").split(/^(?=## )/m)
      return `${markdown(readResults(name), `${name}.svg`)}${remarks && `\n${remarks}`}`
    },
  }
}

if (process.argv[1]?.endsWith("docs.ts")) {
  for (const [name, print] of Object.entries(pages)) writeFileSync(pagePath(name), print())
}
