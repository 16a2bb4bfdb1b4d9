// `sinter compile MODEL --output DIR`: a folder that serves as it stands: weights in one number format, configuration,
// tokenizer, and lib/ with a library for this processor, or for any of its kind. All of it appears at once, at the end.

import { mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { dirname, join, resolve } from "node:path"
import { planOf } from "../app.ts"
import type { Plan } from "../compiler/plan.ts"
import { prepareCpu } from "../compiler/targets/cpu/cpu.ts"
import { libraryPath } from "../compiler/targets/targets.ts"
import {
  type CompileFolderOptions,
  checkFormat,
  checkHeadFormat,
  compileFolder,
  compileHeadFolder,
} from "../model/compile-folder.ts"
import { headDifference, headKindOf, headTitles, openHead } from "../model/head.ts"
import { locateModel } from "../model/locate.ts"
import { type Model, openModel } from "../model/model.ts"
import type { FormatName } from "../runtime/format.ts"
import type { compileOptions, Values } from "./options.ts"
import { progressBar } from "./progress.ts"
import { refuse } from "./values.ts"

export async function compile(name: string, options: Values<typeof compileOptions>): Promise<void> {
  const output = options["--output"] ?? refuse("--output", "say which folder to write.")
  const weightsOnly = options["--weights-only"]
  if (weightsOnly && options["--library-only"]) {
    refuse("--library-only", "together with --weights-only nothing is left to write.")
  }
  const source = await openSource(name, options["--base"])
  try {
    const format = options["--quantization"] ?? source.format
    source.check(format)
    const dump = dumper(options["--dump"])
    const plan = planOf(source, format, options["--overrides"], dump)
    const writeLibrary = (folder: string) => putLibrary(plan, options["--target"], folder, dump)
    if (options["--library-only"]) {
      await writeLibrary(output)
    } else {
      const bar = progressBar(process.stderr)
      await source.write(output, {
        format,
        progress: (done, total) => bar(`packing as ${format}`, done, total),
        ...(weightsOnly ? {} : { finish: writeLibrary }),
      })
    }
    console.log(`${resolve(output)}: ${source.architecture}, ${format}`)
  } finally {
    await source.close()
  }
}

/** A model, or heads of one. */
interface Source extends Pick<Model, "graph" | "format" | "close"> {
  architecture: string
  check(format: FormatName): void
  write(output: string, options: CompileFolderOptions): Promise<void>
}

async function openSource(name: string, baseName: string | undefined): Promise<Source> {
  const path = locateModel(name)
  if (baseName !== undefined) return openHeadSource(path, baseName)
  const kind = await headKindOf(path)
  if (kind) {
    refuse("--base", `${name} holds ${headTitles[kind]}; say which model they propose tokens to.`)
  }
  const model = await openModel(path)
  return {
    ...model,
    check: (format) => checkFormat(model, format),
    write: (output, options) => compileFolder(model, output, options),
  }
}

async function openHeadSource(path: string, baseName: string): Promise<Source> {
  const base = await openModel(locateModel(baseName), { verify: false })
  const closing = [() => base.close()]
  try {
    const head = await openHead(path, base)
    if (head.kind === "plain") {
      return refuse(
        "--base",
        `${head.name} is a whole model, which belongs to no other; leave it out.`,
      )
    }
    closing.unshift(() => head.close())
    const difference = headDifference(head, base)
    if (difference) refuse("--base", `${difference}.`)
    await head.own.weights.verify()
    return {
      ...head,
      architecture: `${head.kind} for ${base.name}`,
      check: (format) => checkHeadFormat(head, format),
      write: (output, options) => compileHeadFolder(head, output, options),
      close: () => closeAll(closing),
    }
  } catch (error) {
    await closeAll(closing)
    throw error
  }
}

async function closeAll(closing: readonly (() => Promise<void>)[]): Promise<void> {
  for (const close of closing) await close()
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
