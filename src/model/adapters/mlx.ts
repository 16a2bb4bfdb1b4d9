// Adapters as MLX writes them: adapter_config.json and adapters.safetensors, in which a module X has X.lora_a [columns, rank] and
// X.lora_b [rank, rows], a table [rows, rank] and [rank, columns], and after DoRA X.m, the lengths of its rows.
// https://github.com/ml-explore/mlx-lm/blob/main/mlx_lm/LORA.md

import type { Fields } from "../fields.ts"
import type { Part } from "../packed/matrix.ts"
import { type Adapter, changesOf, isTable, type Piece } from "./adapter.ts"

const KINDS = ["lora", "dora"]

export function readMlxAdapter(
  fields: Fields,
  parts: readonly Part[],
  broken: Adapter["broken"],
): Pick<Adapter, "changes" | "tied"> {
  const kind = fields.text("fine_tune_type", "lora")
  if (!KINDS.includes(kind))
    throw fields.wrong("fine_tune_type", `is "${kind}"; ${KINDS.join(", ")} are read`)
  const factor = fields.object("lora_parameters")?.finite("scale")
  if (factor === undefined) throw fields.wrong("lora_parameters", "is missing")
  // There a head that is the embedding is that module.
  return { changes: changesOf(parts.map(pieceOf), () => factor, broken), tied: true }
}

function pieceOf(part: Part): Piece {
  const [, module, kind] = /^(.+)\.(lora_a|lora_b|m)$/.exec(part.name) ?? []
  const tensor = `${module}.weight`
  if (kind === "m") return { tensor, kind: "lengths", part }
  if (kind && isTable(tensor))
    return { tensor, kind: kind === "lora_a" ? "left" : "right", part, turned: false }
  if (kind) return { tensor, kind: kind === "lora_a" ? "right" : "left", part, turned: true }
  return { tensor: part.name, kind: "whole", part }
}
