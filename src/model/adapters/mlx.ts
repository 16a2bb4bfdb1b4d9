// Adapters as MLX writes them: adapter_config.json and adapters.safetensors, in which a module X has X.lora_a [columns, rank] and
// X.lora_b [rank, rows], a table [rows, rank] and [rank, columns], and after DoRA X.m, the lengths of its rows.
// https://github.com/ml-explore/mlx-lm/blob/main/mlx_lm/LORA.md

import { openWhole } from "../../closing.ts"
import { ADAPTER } from "../../hub/selection.ts"
import type { Fields } from "../fields.ts"
import type { Folder } from "../folder.ts"
import type { Part } from "../packed/matrix.ts"
import { openParts } from "../weights/safetensors.ts"
import { type Adapter, changesOf, isTable, type Piece } from "./adapter.ts"

const KINDS = ["lora", "dora"]

export async function openMlxAdapter(
  folder: Folder,
  fields: Fields,
  file: string,
): Promise<Adapter> {
  const kind = fields.text("fine_tune_type", "lora")
  if (!KINDS.includes(kind))
    throw fields.wrong("fine_tune_type", `is "${kind}"; ${KINDS.join(", ")} are read`)
  const factor = fields.object("lora_parameters")?.finite("scale")
  if (factor === undefined) throw fields.wrong("lora_parameters", "is missing")
  const broken = (what: string) => folder.broken(file, what)
  return openWhole(async (closing) => {
    const { parts, close } = await openParts(folder, file)
    closing.add({ close })
    const changes = changesOf(parts.map(pieceOf), () => factor, broken)
    // There a head that is the embedding is that module.
    return {
      path: folder.path,
      folder,
      files: [ADAPTER, file],
      names: "published",
      changes,
      tied: true,
      broken,
      close: () => closing.close(),
    }
  })
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
