// Writes the pages that are printed from tables: `npm run docs`. test/docs.test.ts fails when a committed page differs.

import { readFileSync, writeFileSync } from "node:fs"
import { type Results as Copying, pageOf } from "../bench/copying-report.ts"
import {
  besideOthers,
  copyingGains,
  draftGains,
  readResults,
  runsWithoutMatrixUnit,
  withoutMatrixUnit,
} from "../bench/figures.ts"
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
  "performance.md": () => withPassages("performance.md", [besideOthers(), withoutMatrixUnit()]),
  "speculation.md": () => withPassages("speculation.md", [copyingGains(), draftGains()]),
  "../README.md": () => withPassages("../README.md", [readmeTables()]),
  ...resultsPages([
    "1B-q4f16_1",
    "1B-q4f16_1-amx",
    "1B-q4f16_1-start",
    "1B-q4f16_1-start-node24",
    "1B-q0bf16",
    "0.6B-q4f16_1",
    ...runsWithoutMatrixUnit,
  ]),
  "../bench/results/copying-1B-q4_0.md": () => pageOf(readResults<Copying>("copying-1B-q4_0")),
  "../bench/results/copying-1B-q4_0-auto.md": () =>
    pageOf(readResults<Copying>("copying-1B-q4_0-auto")),
  "../bench/results/speculation-1B-q4f16_1.md": () =>
    draftsPage(readResults<Drafts>("speculation-1B-q4f16_1")),
}

export const pagePath = (name: string) => new URL(`../docs/${name}`, import.meta.url)

/** A page as it stands, with its figures printed anew, passage by passage. */
function withPassages(name: string, passages: readonly string[]): string {
  const left = [...passages]
  const places = /(<!-- printed by npm run docs -->\n).*?\n?<!-- end -->/gs
  const text = readFileSync(pagePath(name), "utf8").replace(
    places,
    (_, begin: string) => `${begin}${left.shift()}\n<!-- end -->`,
  )
  if (left.length > 0) throw new Error(`internal: ${name} has no place for its figures`)
  return text
}

/** Reports of runs, and behind each what somebody wrote who looked at it. */
function resultsPages(names: readonly string[]): typeof pages {
  const page = (name: string) => `../bench/results/${name}.md`
  const print = (name: string) => {
    const [, remarks = ""] = readFileSync(pagePath(page(name)), "utf8").split(/^(?=## )/m)
    return `${markdown(readResults(name), `${name}.svg`)}${remarks && `\n${remarks}`}`
  }
  return Object.fromEntries(names.map((name) => [page(name), () => print(name)]))
}

if (process.argv[1]?.endsWith("docs.ts")) {
  for (const [name, print] of Object.entries(pages)) writeFileSync(pagePath(name), print())
}
