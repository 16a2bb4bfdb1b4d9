// What granite-for-docling sees with: SigLIP's tiles. Each patch is normed before squares of them become rows by a matrix; a row is told by sines
// where it lies in its tile, and behind a norm and gelu are another matrix and another norm. What some layers leave goes to the text model's first
// layers as well, each through matrices of its own.
//
// A second way makes four times as many rows of a tile. Transformers goes it where it is asked to, and so may a router that is stored beside the tower
// advise; here all images go the first.
//
// Source: configuration_granite_docling.py and modeling_granite_docling.py of transformers.

import type { Fields } from "../fields.ts"
import type { Naming } from "../weights/names.ts"
import { type Projector, STACKED, type Stacked } from "./tower.ts"

export const GRANITE_DOCLING = "granite_docling"

/** Where `vision_config` says nothing. */
export const GRANITE_DOCLING_EYE = { image_size: 512, patch_size: 16 }

/** Patches a side that become one row. */
export const graniteDoclingScale = (fields: Fields) =>
  fields.object("vision_config")!.count("scale_factor", 4, 1, 1 << 5)

/** Whose rows go to the text model besides the last ones. @param depth of the tower */
export function graniteDoclingStacked(vision: Fields, depth: number): Stacked[] {
  const name = "deepstack_visual_indexes"
  const layers = vision.has(name) ? vision.counts(name, depth) : [3, 7, 10]
  const far = layers.find((layer) => layer >= depth)
  if (far !== undefined) throw vision.wrong(name, `names layer ${far} of ${depth}`)
  return [...layers].sort((a, b) => a - b).map((layer, number) => ({ layer, number }))
}

const NORM = { kind: "layer", bias: true, epsilon: 1e-5 } as const

/** @param width of the text model */
export function graniteDoclingProjectors(width: number): Record<"main" | "stacked", Projector> {
  const inner = { columns: width, activation: "gelu", gated: false } as const
  const both = { width, factor: 1 }
  return {
    main: {
      ...both,
      norm: undefined,
      inner: { ...inner, placed: NORM },
      last: NORM,
      bias: false,
    },
    stacked: { ...both, norm: NORM, inner, bias: true },
  }
}

export const GRANITE_DOCLING_MERGING = NORM

export function graniteDoclingParts(stacked: readonly Stacked[]): Naming["parts"] {
  const names = { projector_norm: "layer_norm", linear_1: "linear_1", linear_2: "linear_2" }
  return {
    merging_norm: "ln_in",
    linear_1: "coarse.projection",
    "lines.weight": { name: "lines", sines: "open" },
    placed_norm: "ln_mid",
    linear_2: "mlp_fc2",
    last_norm: "ln_out",
    ...Object.fromEntries(
      stacked.flatMap(({ number }) =>
        Object.entries(names).map(([name, own]) => [
          `${STACKED}.${number}.${name}`,
          `connector.coarse.deepstack_mergers.${number}.${own}`,
        ]),
      ),
    ),
  }
}
