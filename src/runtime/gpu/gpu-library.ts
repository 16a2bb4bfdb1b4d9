// A GPU library, read: like any file it is not believed. Its tape is held to its shape, member by member, and every number in
// it must point at something that is there, so that whoever plays it need not look.

import { problem } from "../../errors.ts"
import { rowLayout } from "../format.ts"
import { unseal } from "../library.ts"
import type { Manifest } from "../manifest.ts"
import type { Axis, Rotation } from "../rotation.ts"
import {
  absentOr,
  count,
  isTrue,
  listOf,
  number,
  oneOf,
  positive,
  record,
  type Shape,
  text,
} from "../shape.ts"
import { type Cut, cutIsSound, type Segment, type Slice } from "../slices.ts"
import { type RowSet, rowSets } from "../step-rows.ts"
import type { AttentionOrder, WorkCount } from "./attention-work.ts"
import type { KernelCode, OperandKind } from "./device.ts"
import type { AskedName, ItemsName, Region, SamplingArray } from "./regions.ts"
import type {
  Need,
  PlaceSize,
  Profile,
  Tape,
  TapeChoice,
  TapeLaunch,
  TapeRows,
  TapeStep,
} from "./tape.ts"
import { tileShapes } from "./tile-shapes.ts"

export interface GpuLibrary {
  manifest: Manifest
  tape: Tape
  /** Those of a profile. */
  modulesOf(profile: Profile): Uint8Array[]
}

/** @throws `library_unusable` for what is no library of ours, is damaged, or holds what no compiler of ours writes */
export function readGpuLibrary(path: string): GpuLibrary {
  const { manifest, code } = unseal(path)
  const end = code.length - 4
  const length = end >= 0 ? code.readUInt32LE(end) : 0
  const begin = end - length
  try {
    if (begin < 0 || length === 0) throw new Error("it holds no tape")
    const tape = parseTape(code.subarray(begin, end).toString())
    checkTape(tape, manifest, begin)
    return {
      manifest,
      tape,
      modulesOf: ({ modules }) => modules.map(({ at, bytes }) => code.subarray(at, at + bytes)),
    }
  } catch (error) {
    throw problem("library_unusable", {
      file: path,
      problem: `${(error as Error).message}; compile it again`,
    })
  }
}

function parseTape(json: string): Tape {
  let tape: Tape
  try {
    tape = JSON.parse(json)
  } catch {
    throw new Error("its tape is no JSON")
  }
  try {
    tapeShape(tape, "")
  } catch (error) {
    throw new Error(`its tape is not sound: ${(error as Error).message}`)
  }
  return tape
}

const set = oneOf(rowSets)
const works: readonly string[] = [
  "chunks",
  "singles",
  "multiples",
  "merges",
  "chunkMerges",
] satisfies WorkCount[]
const asked: readonly string[] = [
  "listed",
  "unlisted",
  "raced",
  "counted",
  "weighed",
  "described",
] satisfies AskedName[]

type RegionOf<Name extends Region["name"]> = Omit<Extract<Region, { name: Name }>, "name">

const regionShapes: { [Name in Region["name"]]: Shape } = {
  count: record<RegionOf<"count">>({ of: text }),
  tokens: record({}),
  positions: record({}),
  places: record<RegionOf<"places">>({ of: oneOf(["time", "height", "width"]) }),
  adapters: record({}),
  sequences: record({}),
  starts: record({}),
  states: record<RegionOf<"states">>({ group: count }),
  tokensOf: record<RegionOf<"tokensOf">>({ set }),
  rowsInWanted: record({}),
  slots: record<RegionOf<"slots">>({ group: count }),
  lastSlots: record<RegionOf<"lastSlots">>({ group: count, count: positive, ahead: count }),
  firstSeen: record<RegionOf<"firstSeen">>({
    group: count,
    window: absentOr(positive),
    chunked: absentOr(isTrue),
    mutual: absentOr(isTrue),
  }),
  lastSeen: record<RegionOf<"lastSeen">>({ window: absentOr(positive) }),
  crossSeen: record<RegionOf<"crossSeen">>({ cross: positive }),
  seenTo: record({}),
  blocks: record({}),
  items: record<RegionOf<"items">>({
    of: text,
    order: record<AttentionOrder>({
      set,
      visible: record<AttentionOrder["visible"]>({
        group: count,
        window: absentOr(positive),
        chunked: absentOr(isTrue),
        sinks: count,
        bidirectional: absentOr(isTrue),
        mutual: absentOr(isTrue),
        cross: absentOr(positive),
        span: positive,
      }),
      height: positive,
      slots: count,
      keepsSingles: absentOr(isTrue),
    }),
  }),
  chunkStarts: record<RegionOf<"chunkStarts">>({ of: text }),
  waiting: record<RegionOf<"waiting">>({ of: text }),
  turns: record<RegionOf<"turns">>({
    rotation: record<Rotation>({
      frequencies: listOf(number),
      factor: number,
      growth: absentOr(
        record<NonNullable<Rotation["growth"]>>({ beta: number, original: positive, ahead: count }),
      ),
      axes: absentOr(listOf(oneOf([0, 1, 2] satisfies Axis[]))),
    }),
  }),
  hiddenIn: record({}),
  sampling: record<RegionOf<"sampling">>({
    array: oneOf([
      "rows",
      "countTokens",
      "counts",
      "biasTokens",
      "biases",
      "masks",
    ] satisfies SamplingArray[]),
  }),
  results: record({}),
  drawn: record({}),
}

const region: Shape = (value, path) => {
  record<Pick<Region, "name">>({ name: oneOf(Object.keys(regionShapes)) })(value, path)
  regionShapes[(value as Region).name](value, path)
}

/** A number, or an object that one of its members tells from others. */
function numberOr(number: Shape, shapes: Readonly<Record<string, Shape>>): Shape {
  const names = Object.keys(shapes)
  return (value, path) => {
    if (typeof value === "number") return number(value, path)
    const name = names.find((name) => typeof value === "object" && value && name in value)
    if (name === undefined) throw new Error(`${path} is neither a number nor a ${names.join(", ")}`)
    shapes[name]!(value, path)
  }
}

const launch = record<TapeLaunch>({
  kernel: count,
  operands: listOf(
    numberOr(count, {
      place: record<{ place: number; at: number }>({ place: count, at: count }),
      region: record<{ region: number }>({ region: count }),
      given: record<{ given: string }>({ given: oneOf(["values", "scales", "pairs"]) }),
      number: record<{ number: string }>({ number: oneOf(["row", "rows", "count", "chunk"]) }),
    }),
  ),
  groups: listOf(
    numberOr(count, {
      rows: record<{ rows: RowSet; per: number }>({ rows: set, per: positive }),
      count: record<{ count: string; per: number }>({ count: text, per: positive }),
      number: record<{ number: string; per: number }>({
        number: oneOf(["rows", "count"]),
        per: positive,
      }),
    }),
    3,
  ),
})

const cutShapes: { [Kind in Cut["kind"]]: Shape } = {
  whole: record({}),
  rows: record<Omit<Extract<Cut, { kind: "rows" }>, "kind">>({
    segments: listOf(
      record<Segment>({ length: positive, parts: positive, cyclic: absentOr(isTrue) }),
    ),
    times: absentOr(positive),
  }),
  columns: record({}),
}

const cutShape: Shape = (value, path) => {
  record<Pick<Cut, "kind">>({ kind: oneOf(Object.keys(cutShapes)) })(value, path)
  cutShapes[(value as Cut).kind](value, path)
}

const rows = record<TapeRows>({ place: count, at: count, stride: count })

const tapeShape = record<Tape>({
  profiles: listOf(
    record<Profile>({
      needs: listOf(
        oneOf([
          "dot4",
          "fma",
          "division",
          "float64",
          "matrix",
          "overlap",
          ...tileShapes,
        ] satisfies readonly Need[]),
      ),
      architecture: absentOr(text),
      modules: listOf(record<Profile["modules"][number]>({ at: count, bytes: count })),
    }),
  ),
  kernels: listOf(
    record<KernelCode>({
      name: text,
      module: count,
      entry: text,
      threads: positive,
      sharedBytes: count,
      operands: listOf(oneOf(["buffer", "word"] satisfies OperandKind[])),
      waits: absentOr(isTrue),
    }),
  ),
  places: listOf(
    record<PlaceSize>({
      name: text,
      fixed: count,
      perToken: count,
      perRow: count,
      perBlock: absentOr(
        record<NonNullable<PlaceSize["perBlock"]>>({ group: count, bytes: count }),
      ),
    }),
  ),
  slices: absentOr(listOf(record<Slice>({ of: count, cut: cutShape }))),
  packs: listOf(listOf(launch)),
  copies: listOf(listOf(launch)),
  regions: listOf(region),
  counts: listOf(text),
  steps: listOf(
    record<TapeStep>({
      text: listOf(text),
      rows: set,
      only: absentOr(oneOf(["one token", "more tokens"])),
      choices: listOf(
        record<TapeChoice>({
          most: absentOr(count),
          repeats: absentOr(text),
          launches: listOf(launch),
        }),
      ),
      gather: absentOr(
        record<NonNullable<TapeStep["gather"]>>({
          part: rows,
          columns: positive,
          pieces: absentOr(positive),
          output: rows,
        }),
      ),
    }),
  ),
  logits: rows,
  hidden: rows,
})

/** What a launch may be told beside its own numbers, by when it runs. */
interface Told {
  given: readonly string[]
  numbers: readonly string[]
}

/**
 * That every number and name in it stands for something that is there. What kernels do with their operands is theirs: whoever
 * opens a library trusts it.
 * @throws Error in words for people
 */
function checkTape(tape: Tape, manifest: Manifest, codeBytes: number): void {
  const { profiles, kernels, places, packs, copies, regions, counts, steps } = tape
  const { groups: kvGroups } = manifest.kv
  const require = (holds: boolean, what: string) => {
    if (!holds) throw new Error(`its tape is not sound: ${what}`)
  }
  const last = profiles.at(-1)
  require(last?.needs.length === 0 && last.architecture === undefined, "profiles")
  for (const { modules } of profiles) {
    for (const { at, bytes } of modules) require(at + bytes <= codeBytes, "a module")
    for (const { module } of kernels) require(module < modules.length, "a kernel")
  }
  for (const { perBlock } of places)
    require(!perBlock || perBlock.group < kvGroups.length, "a place's KV group")
  const items = new Set(regions.flatMap((region) => (region.name === "items" ? [region.of] : [])))
  const isItems = (name: string) => items.has(name as ItemsName)
  const isWork = (name: string) => {
    const space = name.indexOf(" ")
    return works.includes(name.slice(0, space)) && isItems(name.slice(space + 1))
  }
  const isAsked = (name: string) => name.startsWith("asked ") && asked.includes(name.slice(6))
  const isCounted = (name: string) =>
    rowSets.some((rows) => rows === name) || name === "sequences" || isWork(name) || isAsked(name)
  for (const region of regions) {
    if ("group" in region) require(region.group < kvGroups.length, "a region's KV group")
    if (region.name === "states")
      require(kvGroups[region.group]!.state !== undefined, "a region's states")
    if (region.name === "count") require(isCounted(region.of), "a region's count")
    if (region.name === "chunkStarts" || region.name === "waiting")
      require(isItems(region.of), "a region's items")
    if (region.name === "items")
      require(region.order.visible.group < kvGroups.length, "the KV group of items")
  }
  require(counts.every(isCounted), "what is counted")
  const { shards = 1, parameters } = manifest
  const { slices = parameters.map((_, of): Slice => ({ of, cut: { kind: "whole" } })) } = tape
  require(shards === 1 || tape.slices !== undefined, "shards without slices")
  require(packs.length === slices.length, "the parameters")
  for (const { of, cut } of slices)
    require(of < parameters.length && cutIsSound(parameters[of]!, cut, shards), "a slice")
  require(copies.length === kvGroups.length, "the KV groups")
  const checkLaunch = ({ kernel, operands, groups }: TapeLaunch, told: Told) => {
    const kinds = kernels[kernel]?.operands
    require(kinds?.length === operands.length, "a kernel's operands")
    for (const [i, operand] of operands.entries()) {
      const isWord = typeof operand === "number" || "number" in operand
      require(isWord === (kinds![i] === "word"), "the kind of an operand")
      if (typeof operand === "number") require(operand >>> 0 === operand, "a word")
      else if ("place" in operand)
        require(operand.place < places.length && operand.at % 4 === 0, "a place")
      else if ("region" in operand) require(operand.region < regions.length, "a region")
      else if ("given" in operand) require(told.given.includes(operand.given), "what is given")
      else require(told.numbers.includes(operand.number), "a number that is told")
    }
    for (const count of groups) {
      if (typeof count === "number") continue
      if ("count" in count) require(isCounted(count.count), "the count of a launch")
      if ("number" in count) require(told.numbers.includes(count.number), "the groups of a launch")
    }
  }
  for (const [parameter, launches] of packs.entries()) {
    const { codec, columns } = parameters[slices[parameter]!.of]!
    const hasScales = rowLayout(codec, columns).scaleBytes > 0
    const given = hasScales ? ["values", "scales"] : ["values"]
    for (const launch of launches) checkLaunch(launch, { given, numbers: ["row", "rows"] })
  }
  for (const launch of copies.flat()) checkLaunch(launch, { given: ["pairs"], numbers: ["count"] })
  for (const { choices, gather } of steps) {
    if (gather) {
      for (const { place } of [gather.part, gather.output])
        require(place < places.length, "what is gathered")
      require(gather.columns % (gather.pieces ?? 1) === 0, "pieces of what is gathered")
    }
    require(choices.length > 0 && choices.at(-1)!.most === undefined, "the choices of a step")
    for (const { repeats, launches } of choices) {
      require(repeats === undefined || isWork(repeats), "the repeats of a step")
      for (const launch of launches) checkLaunch(launch, { given: [], numbers: ["chunk"] })
    }
  }
  for (const { place } of [tape.logits, tape.hidden])
    require(place < places.length, "rows that are read back")
}
