// `sinter compile MODEL --output DIR`: a folder that serves as it stands: weights in one number format, configuration,
// tokenizer, and lib/ with a library for this processor, or for any of its kind. All of it appears at once, at the end.

import { mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { dirname, join, resolve } from "node:path"
import { planOf } from "../app.ts"
import type { Plan } from "../compiler/plan.ts"
import { prepareCpu } from "../compiler/targets/cpu/cpu.ts"
import { libraryPath } from "../compiler/targets/targets.ts"
import { checkFormat, compileFolder } from "../model/compile-folder.ts"
import { locateModel } from "../model/locate.ts"
import { openModel } from "../model/model.ts"
import type { compileOptions, Values } from "./options.ts"
import { progressBar } from "./progress.ts"
import { refuse } from "./values.ts"

export async function compile(name: string, options: Values<typeof compileOptions>): Promise<void> {
  const output = options["--output"] ?? refuse("--output", "say which folder to write.")
  const weightsOnly = options["--weights-only"]
  if (weightsOnly && options["--library-only"]) {
    refuse("--library-only", "together with --weights-only nothing is left to write.")
  }
  const model = await openModel(locateModel(name))
  try {
    const format = options["--quantization"] ?? model.format
    checkFormat(model, format)
    const dump = dumper(options["--dump"])
    const plan = planOf(model, format, options["--overrides"], dump)
    const writeLibrary = (folder: string) => putLibrary(plan, options["--target"], folder, dump)
    if (options["--library-only"]) {
      await writeLibrary(output)
    } else {
      const bar = progressBar(process.stderr)
      await compileFolder(model, output, {
        format,
        progress: (done, total) => bar(`packing as ${format}`, done, total),
        ...(weightsOnly ? {} : { finish: writeLibrary }),
      })
    }
    console.log(`${resolve(output)}: ${model.architecture}, ${format}`)
  } finally {
    await model.close()
  }
}

/** Builds the library and puts it into the folder's lib/, whole or not at all. */
async function putLibrary(
  plan: Plan,
  target: "cpu" | "cpu:baseline",
  folder: string,
  dump: Dump | undefined,
): Promise<void> {
  const library = await prepareCpu(plan, target)
  for (const source of library.sources) if ("text" in source) dump?.(source.name, source.text)
  dump?.("manifest.json", `${JSON.stringify(library.manifest, undefined, 1)}\n`)
  const path = libraryPath(folder, target)
  const aside = `${path}.partial-${process.pid}`
  mkdirSync(dirname(path), { recursive: true })
  try {
    writeFileSync(aside, await library.build(), { mode: 0o755 })
    renameSync(aside, path)
  } finally {
    rmSync(aside, { force: true })
  }
}

type Dump = (name: string, text: string) => void

/** Leaves every phase as a readable file in `folder`. */
function dumper(folder: string | undefined): Dump | undefined {
  if (!folder) return undefined
  mkdirSync(folder, { recursive: true })
  return (name, text) => writeFileSync(join(folder, name), text)
}
