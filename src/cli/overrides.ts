// `--overrides "field=value;field=value"`: fields of the engine's configuration, each with a type. A field that is not in
// the table, a value of another type, or a field given twice ends the start: a typing error must not become a default.

import { shardCounts } from "../compiler/shard.ts"
import { targets } from "../compiler/targets/targets.ts"
import type { Overrides } from "../engine/limits.ts"
import { MAX_DRAFT } from "../engine/speculative.ts"
import { MAX_PATCHES } from "../model/vision/tower.ts"
import { kvTypes } from "../runtime/manifest.ts"
import { decimal, integer, oneOf, quoted, type Reader, refuse } from "./values.ts"

interface Field<Value = unknown> {
  /** As the help shows it. */
  type: string
  read: Reader<Value>
  help: string
}

/** One for each field of the engine's. */
type Fields = { [Name in keyof Required<Overrides>]: Field<Required<Overrides>[Name]> }

const shards: Reader<number> = (given, option) =>
  shardCounts.find((count) => String(count) === given) ??
  refuse(option, `expected one of ${shardCounts.join(", ")}, got ${quoted(given)}.`)

export const overrideFields = {
  max_num_sequence: {
    type: "integer",
    read: integer(1, 1024),
    help: "Sequences that run at once; wins over the mode's.",
  },
  max_total_seq_length: {
    type: "integer",
    read: integer(1),
    help: "Tokens held for all sequences together; wins over the mode's.",
  },
  prefill_chunk_size: {
    type: "integer",
    read: integer(1),
    help: `The most prompt tokens one step takes, and never more than ${targets.cpu.steps.stepTokens} where a prompt may be cut; wins over the mode's.`,
  },
  context_window_size: {
    type: "integer",
    read: integer(1),
    help: "The longest sequence, at most what the model was made for.",
  },
  gpu_memory_utilization: {
    type: "fraction",
    read: decimal(0.01, 1),
    help: "The share of available memory, of any device, that may be taken: 0.85 in mode server, else 1.",
  },
  prefix_cache_max_num_recycling_seqs: {
    type: "integer",
    read: integer(-1),
    help: "Finished sequences whose prefixes are kept for later requests; 0 is none, -1 as many as fit.",
  },
  kv_dtype: {
    type: "enum",
    read: oneOf(...kvTypes),
    help: "The type of cached keys and values: f32, f16, bf16 or q8 (8 bits with a scale for each head). Otherwise f32 for float formats and f16 for packed ones. What sees or hears has f32 where that is named, and otherwise its own.",
  },
  spec_draft_length: {
    type: "integer",
    read: integer(0, MAX_DRAFT),
    help: "Tokens proposed for each request and step, with --speculative-mode; 0 proposes as many as pay.",
  },
  tensor_parallel_shards: {
    type: "integer",
    read: shards,
    help: "GPUs that share the model's tensors, from that of --device on: 1, 2, 4 or 8.",
  },
  max_image_patches: {
    type: "integer",
    read: integer(64, 65_536),
    help: `Patches that an image may have where its tile is as large as it is, otherwise ${MAX_PATCHES}: more make small print readable and take memory, as "sinter inspect" and the start say. No more than the model's own files allow.`,
  },
} as const satisfies Fields

const fields: Record<string, Field> = overrideFields

export const overrides: Reader<Overrides> = (given, option) => {
  const values: Record<string, unknown> = {}
  for (const pair of given.split(";")) {
    if (pair.trim() === "") continue // a closing semicolon
    const [, name, value] = /^\s*([^=\s]+)\s*=\s*(.*?)\s*$/s.exec(pair) ?? []
    if (name === undefined || value === undefined) {
      return refuse(option, `expected field=value pairs separated by ";", got ${quoted(pair)}.`)
    }
    const field = Object.hasOwn(fields, name) ? fields[name] : undefined
    if (!field) {
      return refuse(option, `there is no field ${quoted(name)}; known: ${known()}.`)
    }
    if (name in values) refuse(option, `${name} is given twice.`)
    values[name] = field.read(value, `${option} ${name}`)
  }
  return values as Overrides
}

/** Those that a library is compiled with. */
const compiled: readonly string[] = [
  "kv_dtype",
  "tensor_parallel_shards",
] satisfies (keyof Fields)[]

/** The same, as sentences have them. */
export const compiledNames = compiled.join(" and ")

export const compiledOverrides: Reader<Overrides> = (given, option) =>
  only(compiled, given, option, `only ${compiledNames} are compiled in`)

/** What a plan is shown with, too. */
const SHOWN = "max_image_patches" satisfies keyof Fields

export const shownOverrides: Reader<Overrides> = (given, option) =>
  only([...compiled, SHOWN], given, option, `only ${[...compiled, SHOWN].join(" and ")} are shown`)

function only(names: readonly string[], given: string, option: string, why: string): Overrides {
  const values = overrides(given, option)
  const other = Object.keys(values).find((field) => !names.includes(field))
  if (other) refuse(option, `${other} is chosen when the model is served; ${why}.`)
  return values
}

const known = () => Object.keys(fields).join(", ")
