// `sinter compile MODEL --output DIR`: a folder that serves as it stands: weights in one number format, configuration,
// tokenizer, and lib/ with a library for each target; of a model that sees or hears the same once more, of each tower. All of it appears
// at once, at the end.

import { renameSync, rmSync, writeFileSync } from "node:fs"
import { dirname, join, parse, resolve } from "node:path"
import { findModel } from "../app/find-model.ts"
import { checkTexts } from "../app/texts.ts"
import { planOf, towerPlanOf } from "../app.ts"
import { openWhole } from "../closing.ts"
import { libraryPath, rememberBuild } from "../compiler/targets/prepare.ts"
import type { Build, LibraryKind, PlanTraits } from "../compiler/targets/target.ts"
import { targets } from "../compiler/targets/targets.ts"
import type { Overrides } from "../engine/limits.ts"
import { systemProblem, systemWords } from "../errors.ts"
import {
  type CompileFolderOptions,
  checkFormat,
  checkHeadFormat,
  compileFolder,
  compileHeadFolder,
  senseFor,
} from "../model/compile-folder.ts"
import { headDifference, headKindOf, headTitles, openHead } from "../model/head.ts"
import { type Model, type OpenOptions, openModel } from "../model/model.ts"
import { findOwnLayer, type OwnLayer, ownLayerFolder } from "../model/own-layers.ts"
import { type Sense, type SenseName, senseFolder, sensesOf } from "../model/sense.ts"
import type { FormatName } from "../runtime/format.ts"
import { makeFolder } from "../runtime/scratch.ts"
import type { compileOptions } from "./options.ts"
import { downloadProgress, progressBar } from "./progress.ts"
import type { Values } from "./read-options.ts"
import { refuse } from "./values.ts"

export async function compile(name: string, options: Values<typeof compileOptions>): Promise<void> {
  const output = options["--output"] ?? refuse("--output", "say which folder to write.")
  const weightsOnly = options["--weights-only"]
  if (weightsOnly && options["--library-only"]) {
    refuse("--library-only", "together with --weights-only nothing is left to write.")
  }
  const source = await openSource(name, options)
  try {
    const format = options["--quantization"] ?? source.format
    source.check(format)
    const wanted = options["--target"]
    const { tensor_parallel_shards: shards = 1 }: Overrides = options["--overrides"]
    const kinds = wanted.map(({ name, variants }) => {
      const { library, traits, divides } = targets[name]
      if (shards > 1 && !divides) {
        refuse("--overrides tensor_parallel_shards", `${name} runs a model alone; only 1 works.`)
      }
      return { library: library!, traits, variants }
    })
    const senses = sensesOf<Sense>(source)
    const layer = await source.layer?.(format)
    const programs = [
      {
        plan: (traits: PlanTraits, dump?: Dump) =>
          planOf(source, format, options["--overrides"], traits, dump),
        ...{ shards, folderIn: (folder: string) => folder, dumped: "" },
      },
      ...(layer ? [layerProgram(layer, options["--overrides"], shards)] : []),
      ...senses.map((each) => towerProgram(each, options["--overrides"])),
    ]
    const libraries = programs.flatMap(({ plan: planFor, shards, folderIn, dumped }) =>
      kinds.map(({ library, traits, variants }) => {
        const own = wanted.length > 1 ? parse(library.file).name : ""
        const dump = dumper(options["--dump"], join(dumped, own))
        const plan = planFor(traits, dump)
        const build = () => library.prepare(plan, shards, undefined, variants)
        return { library, build, dump, folderIn }
      }),
    )
    const writeLibraries = async (folder: string) => {
      for (const { library, build, dump, folderIn } of libraries)
        await putLibrary(await build(), library, folderIn(folder), dump)
    }
    if (options["--library-only"]) {
      await writeLibraries(output).catch(unwritten("--output", output))
    } else {
      const bar = progressBar(process.stderr)
      const written = source.write(output, {
        format,
        progress: (done, total) => bar(`packing as ${format}`, done, total),
        ...(weightsOnly ? {} : { finish: writeLibraries }),
      })
      await written.catch(unwritten("--output", output))
    }
    const also = [
      ...(layer ? ["; guesses ahead"] : []),
      ...senses.map(({ name, sense }) => `; ${does[name]}, ${sense.format}`),
    ]
    console.log(`${resolve(output)}: ${source.architecture}, ${format}${also.join("")}`)
  } finally {
    await source.close()
  }
}

const does = { vision: "sees", hearing: "hears" } as const

/** Of the layer that guesses ahead, which is divided as its model is. */
function layerProgram(layer: OwnLayer, overrides: Overrides, shards: number) {
  const plan = (traits: PlanTraits, dump?: Dump) =>
    planOf(layer, layer.format, overrides, traits, dump)
  return { plan, shards, folderIn: ownLayerFolder, dumped: "mtp" }
}

/** It runs on one device, whatever its model does. */
function towerProgram({ name, sense }: { name: SenseName; sense: Sense }, overrides: Overrides) {
  const folderIn = (folder: string) => senseFolder(folder, name)
  const plan = (traits: PlanTraits, dump?: Dump) => towerPlanOf(sense, overrides, traits, dump)
  return { plan, shards: 1, folderIn, dumped: name }
}

/** A model, or heads of one. */
interface Source
  extends Pick<Model, "graph" | "codecOf" | "format" | "vision" | "hearing" | "close"> {
  architecture: string
  /** What guesses ahead, as it goes along with a model in that format. */
  layer?(format: FormatName): Promise<OwnLayer | undefined>
  check(format: FormatName): void
  write(output: string, options: CompileFolderOptions): Promise<void>
}

async function openSource(name: string, options: Values<typeof compileOptions>): Promise<Source> {
  const { "--base": baseName, "--lora": lora } = options
  const hub = { onDownload: downloadProgress(process.stderr), log: console }
  const { path, ...changes } = await findModel(name, hub, lora)
  if (baseName !== undefined) return openHeadSource(path, baseName)
  const kind = await headKindOf(path)
  if (kind) {
    refuse("--base", `${name} holds ${headTitles[kind]}; say which model they propose tokens to.`)
  }
  return openWhole(async (closing) => {
    const model = closing.add(await openToCompile(path, changes, options["--quantization"]))
    if (model.blind) console.warn(`It is compiled without what reads images: ${model.blind}`)
    if (model.deaf) console.warn(`It is compiled without what reads audio: ${model.deaf}`)
    await checkTexts(model)
    return {
      ...model,
      layer: async (format) => {
        const { layer, why } = await findOwnLayer(model, format)
        if (why) console.warn(`It is compiled without what guesses ahead: ${why}`)
        return layer
      },
      check: (format) => checkFormat(model, format),
      write: (output, options) => compileFolder(model, output, options),
    }
  })
}

/** What it sees or hears with is left out where it cannot go along in the format that is wanted. */
async function openToCompile(
  path: string,
  changes: OpenOptions,
  wanted: FormatName | undefined,
): Promise<Model> {
  const model = await openModel(path, { sees: true, ...changes })
  const format = wanted ?? model.format
  const senses = sensesOf<Sense>(model).map(({ name, sense }) => ({
    name,
    sense,
    kept: senseFor(sense, format),
  }))
  if (senses.every(({ kept }) => kept))
    return { ...model, ...Object.fromEntries(senses.map(({ name, kept }) => [name, kept])) }
  await model.close()
  const lacks = senses.map(({ name, sense }) => {
    const file = join(sense.path, sense.configuration)
    const why = `${file} goes along with a model that stays as it is; serve the model as it was published.`
    return [name === "vision" ? "blind" : "deaf", why]
  })
  return { ...(await openModel(path, changes)), ...Object.fromEntries(lacks) }
}

async function openHeadSource(path: string, baseName: string): Promise<Source> {
  return openWhole(async (closing) => {
    const { path: place, ...changes } = await findModel(baseName, { log: console })
    const base = closing.add(await openModel(place, { verify: false, ...changes }))
    const head = await openHead(path, base)
    if (head.kind === "plain") {
      return refuse(
        "--base",
        `${head.name} is a whole model, which belongs to no other; leave it out.`,
      )
    }
    closing.add(head)
    const difference = headDifference(head, base)
    if (difference) refuse("--base", `${difference}.`)
    await head.own.weights.verify()
    return {
      ...head,
      architecture: `${head.kind} for ${base.name}`,
      check: (format) => checkHeadFormat(head, format),
      write: (output, options) => compileHeadFolder(head, output, options),
      close: () => closing.close(),
    }
  })
}

/** Builds the library and puts it into the folder's lib/, whole or not at all. */
async function putLibrary(
  library: Build,
  kind: LibraryKind,
  folder: string,
  dump: Dump | undefined,
): Promise<void> {
  for (const source of await library.sources())
    if ("text" in source) dump?.(source.name, source.text)
  dump?.("manifest.json", `${JSON.stringify(library.manifest, undefined, 1)}\n`)
  const path = libraryPath(folder, kind, library.manifest.shards)
  const aside = `${path}.partial-${process.pid}`
  makeFolder(dirname(path))
  try {
    const bar = progressBar(process.stderr)
    const building = `building for ${kind.file.replace(/\.\w+$/, "")}`
    const bytes = await library.build({ progress: (done, total) => bar(building, done, total) })
    writeFileSync(aside, bytes, { mode: 0o755 })
    renameSync(aside, path)
    if (!(await rememberBuild(bytes, kind)))
      console.error(
        "The shelf cannot be written: this machine will not know the library as its own, so serve it with --trust-libraries.",
      )
  } finally {
    rmSync(aside, { force: true })
  }
}

type Dump = (name: string, text: string) => void

/** Leaves every phase as a readable file in `folder`, or in one of its own there. */
function dumper(folder: string | undefined, own: string): Dump | undefined {
  if (!folder) return undefined
  const place = join(folder, own)
  const attempt = (write: () => void) => {
    try {
      write()
    } catch (error) {
      unwritten("--dump", folder)(error)
    }
  }
  attempt(() => makeFolder(place))
  return (name, text) => attempt(() => writeFileSync(join(place, name), text))
}

/** What the system refuses to write in a folder, beside it or on the way to it, said of the option that names the folder. */
function unwritten(option: string, folder: string): (error: unknown) => never {
  return (error) => {
    const { syscall, path = folder } = error as NodeJS.ErrnoException
    const [place, beside] = [resolve(path), dirname(resolve(folder))]
    const isThere = place.startsWith(beside) || beside.startsWith(place)
    if (syscall === "read" || !isThere || !systemProblem(error)) throw error
    const why = systemWords(error as Error)
    return refuse(option, `nothing can be written to ${folder}, so name another folder: ${why}.`)
  }
}
