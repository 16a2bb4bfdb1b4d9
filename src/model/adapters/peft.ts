// Adapters as PEFT saves them: adapter_config.json and adapter_model.safetensors. Modules are called as in transformers, behind
// base_model.model.: of each X that was trained X.lora_A.weight [rank, columns] and X.lora_B.weight [rows, rank]; of a table X.lora_embedding_A
// [rank, rows] and X.lora_embedding_B [columns, rank]; what was trained whole lies there whole.
// https://huggingface.co/docs/peft/developer_guides/checkpoint

import type { Fields } from "../fields.ts"
import { isObject } from "../folder.ts"
import type { Part } from "../packed/matrix.ts"
import { type Adapter, type Change, changesOf, isTable, type Piece } from "./adapter.ts"

export function readPeft(
  fields: Fields,
  parts: readonly Part[],
  broken: Adapter["broken"],
): Pick<Adapter, "changes" | "tied"> {
  checkFields(fields)
  const changes = changesOf(piecesOf(parts), readFactors(fields), broken)
  checkLengths(changes, fields, broken)
  return { changes, tied: false } // where a head changes with the table, it lies there, too
}

/** Fields that say how it was trained, or what its tensors say as well. */
const TOLD = new Set([
  "task_type",
  "peft_type",
  "auto_mapping",
  "peft_version",
  "base_model_name_or_path",
  "revision",
  "inference_mode",
  "r",
  "target_modules",
  "target_parameters",
  "exclude_modules",
  "lora_alpha",
  "lora_dropout",
  "fan_in_fan_out",
  "bias",
  "use_rslora",
  "modules_to_save",
  "init_lora_weights",
  "layers_to_transform",
  "layers_pattern",
  "rank_pattern",
  "alpha_pattern",
  "megatron_core",
  "loftq_config",
  "eva_config",
  "corda_config",
  "lora_ga_config",
  "velora_config",
  "use_dora",
  "runtime_config",
  "qalora_group_size",
  "ensure_weight_tying",
])

/** Beginnings that leave the model as it was. Others (PiSSA, OLoRA, LoftQ, CorDA) take from its weights what they put into factors. */
const PLAIN_BEGINNINGS: readonly unknown[] = [
  undefined,
  null,
  true,
  false,
  "gaussian",
  "eva",
  "orthogonal",
]

function checkFields(fields: Fields): void {
  const kind = fields.text("peft_type")
  if (kind !== "LORA") throw fields.wrong("peft_type", `is "${kind}"; LORA is read`)
  const beginning = fields.json.init_lora_weights
  if (!PLAIN_BEGINNINGS.includes(beginning))
    throw fields.wrong(
      "init_lora_weights",
      `is ${JSON.stringify(beginning)}, which changes the model's own weights; PEFT can save it as a plain LoRA (path_initial_model_for_weight_conversion)`,
    )
  for (const [name, value] of Object.entries(fields.json))
    if (!TOLD.has(name) && !isEmpty(value))
      throw fields.wrong(
        name,
        `is ${JSON.stringify(value).slice(0, 60)}, which is not known of a LoRA`,
      )
}

function isEmpty(value: unknown): boolean {
  if (Array.isArray(value)) return value.length === 0
  return isObject(value) ? Object.keys(value).length === 0 : !value
}

/** What the product of a module's factors is multiplied with. */
function readFactors(fields: Fields): (module: string, rank: number) => number {
  const alphas = ofModules(fields, "alpha_pattern", fields.finite("lora_alpha"))
  const ranks = ofModules(fields, "rank_pattern", fields.count("r"))
  const isStabilised = fields.flag("use_rslora", false) // https://arxiv.org/abs/2312.03732
  return (module, rank) => {
    const told = ranks(module)
    if (told !== rank)
      throw fields.wrong("r", `says rank ${told} of ${module}, whose factors have ${rank}`)
    return alphas(module) / (isStabilised ? Math.sqrt(rank) : rank)
  }
}

/** A number of a module: that of the first pattern that its name fits, or the usual one. */
function ofModules(
  fields: Fields,
  name: "alpha_pattern" | "rank_pattern",
  usual: number,
): (module: string) => number {
  const own = fields.object(name)
  const patterns = Object.keys(own?.json ?? {}).map((pattern) => ({
    modules: patternOf(fields, name, pattern),
    value: own!.finite(pattern),
  }))
  return (module) => patterns.find(({ modules }) => modules.test(module))?.value ?? usual
}

const MAX_REPEATS = 2

/** Of module names. It is a stranger's: one that could be matched in many ways would take for ever. */
function patternOf(fields: Fields, name: string, pattern: string): RegExp {
  const repeats = pattern.match(/[*+{]/g)?.length ?? 0
  try {
    if (repeats <= MAX_REPEATS && !/\)[*+{?]/.test(pattern))
      return new RegExp(`^(?:.*\\.)?(?:${pattern})$`)
  } catch {}
  throw fields.wrong(
    name,
    `has ${JSON.stringify(pattern).slice(0, 60)}, which is no plain pattern of names`,
  )
}

/** An adapter has a name in memory, which files of older versions have, too. */
const FACTOR = /^(.+)\.lora_(A|B)(?:\.default)?\.weight$/
const TABLE_FACTOR = /^(.+)\.lora_embedding_(A|B)(?:\.default)?$/
const LENGTHS = /^(.+)\.lora_magnitude_vector(?:\.default)?(?:\.weight)?$/
const WRAPPED = /\.(base_layer|modules_to_save(?:\.default)?)(?=\.(?:weight|bias)$)/

/** A module that was trained whole may lie there twice, and what it was before besides. */
function piecesOf(parts: readonly Part[]): Piece[] {
  const names = new Set(parts.map(({ name }) => name))
  const isTwice = (name: string) =>
    /\.(weight|bias)$/.test(name) &&
    ["modules_to_save", "modules_to_save.default"].some((kind) =>
      names.has(name.replace(/\.(weight|bias)$/, `.${kind}.$1`)),
    )
  const counts = ({ name }: Part) => !/\.original_module\./.test(name) && !isTwice(name)
  return parts.filter(counts).map(pieceOf)
}

/** Rows that get lengths do so wherever anything is added; of tables PEFT has those of columns. */
function checkLengths(
  changes: ReadonlyMap<string, Change>,
  fields: Fields,
  broken: Adapter["broken"],
): void {
  const isDora = fields.flag("use_dora", false)
  for (const [tensor, { low, lengths }] of changes) {
    if (lengths && isTable(tensor))
      throw broken(`it has lengths of ${tensor}: DoRA of tables is not read`)
    if (isDora && low && !lengths)
      throw broken(`it has no lengths of ${tensor}, and use_dora is true`)
  }
}

function pieceOf(part: Part): Piece {
  const name = part.name.replace(/^base_model\.model\./, "")
  const factor = FACTOR.exec(name)
  if (factor) {
    const kind = factor[2] === "A" ? "right" : "left"
    return { tensor: `${factor[1]}.weight`, kind, part, turned: false }
  }
  const ofTable = TABLE_FACTOR.exec(name)
  if (ofTable) {
    const kind = ofTable[2] === "A" ? "left" : "right"
    return { tensor: `${ofTable[1]}.weight`, kind, part, turned: true }
  }
  const lengths = LENGTHS.exec(name)
  if (lengths) return { tensor: `${lengths[1]}.weight`, kind: "lengths", part }
  const isBase = WRAPPED.exec(name)?.[1] === "base_layer"
  return { tensor: name.replace(WRAPPED, ""), kind: "whole", part, isBase }
}
