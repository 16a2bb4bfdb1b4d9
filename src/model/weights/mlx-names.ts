// How MLX's converters keep tensors where it is not as their publishers do: experts stacked, each projection by itself, what makes
// latent keys and what makes values apart, filters with their taps last but one, and norms that count one more than is published
// with that one added. Whether a folder is theirs its tensors tell. Sources: `sanitize` of the models of mlx-lm.

import type { ModelConfig } from "../config.ts"
import { type Instead, type NamedPart, type Naming, partIn } from "./names.ts"

/** Where experts stand, instead of under the names that publishers give them. */
const STACKS = ["switch_mlp", "experts", "experts.switch_glu"]

/** The naming, and how it is otherwise in a folder of MLX's. */
export function withMlxNames(naming: Naming, config: ModelConfig): Naming {
  if (naming.foldedByMlx) return naming
  const { instead = [] } = naming
  return { ...naming, instead: [...instead, ...stacks(naming, config), ...filters(naming, config)] }
}

function stacks(naming: Naming, config: ModelConfig): Instead[] {
  const { blocks, shapes } = config
  const layer = blocks.findIndex(({ experts }) => experts)
  const { experts, mlp } = blocks[layer] ?? {}
  if (!experts || !mlp) return []
  const { name } = partIn(naming.parts, "mlp.experts.*.up_proj")
  const [, place = ""] = /^(.*\.)?(experts|input_linear)\b/.exec(name) ?? []
  const [up, down] = mlp.gated ? ["up_proj", "down_proj"] : ["fc1", "fc2"]
  const shared = {
    ...filtersLastButOne(naming),
    ...(countsOne(config) && withoutOne(naming)),
    ...denseNames(naming, place),
    ...naming.mlx,
  }
  const latent = latentParts(config)
  return STACKS.flatMap((stack): Instead[] => {
    const part = (projection: string, rows: number): NamedPart => ({
      name: `${place}${stack}.${projection}`,
      ...stackOf(experts.count, rows),
    })
    const parts = {
      ...shared,
      "mlp.experts.*.gate_proj": part("gate_proj", mlp.intermediate),
      "mlp.experts.*.up_proj": part(up, mlp.intermediate),
      "mlp.experts.*.down_proj": part(down, experts.latent ?? shapes.hidden),
    }
    const stored = `${layer}.${place}${stack}.${up}.weight`
    const whole = { stored, parts }
    if (!latent) return [whole]
    const also = `${layer}.${LATENT_KEYS}.weight`
    return [{ stored, also, parts: { ...parts, ...latent } }, whole]
  })
}

const stackOf = (count: number, rows: number) => ({
  stacked: count,
  rows: { of: rows * count, from: 0, run: rows, every: rows },
})

/** Of layers without experts, which beside stacks have the names of these. */
function denseNames({ parts }: Naming, place: string): Naming["parts"] {
  const names = ["gate_proj", "up_proj", "down_proj"].map((projection) => {
    const own = partIn(parts, `mlp.${projection}`)
    const isBeside = place !== "" && own.name.startsWith(place) && !own.rows
    return [`mlp.${projection}`, isBeside ? `${place}${projection}` : own] as const
  })
  return Object.fromEntries(names)
}

const LATENT_KEYS = "self_attn.embed_q"

/** Undefined where attention is not latent. */
function latentParts({
  blocks: [block],
  shapes: { heads },
}: ModelConfig): Naming["parts"] | undefined {
  const latent = block?.attention.latent
  if (!latent) return undefined
  const whole = (rows: number) => {
    const { stacked, rows: each } = stackOf(heads, rows)
    return { stacked, rows: { ...each, run: each.of, every: each.of } }
  }
  return {
    "self_attn.k_up_proj": { name: LATENT_KEYS, ...whole(latent.rank) },
    "self_attn.v_up_proj": { name: "self_attn.unembed_out", ...whole(latent.value) },
  }
}

/** Of models without experts. */
function filters(naming: Naming, config: ModelConfig): Instead[] {
  const isFiltered = ({ delta, convolution, selective, scan }: ModelConfig["blocks"][number]) =>
    delta || convolution || selective || scan
  const layer = config.blocks.findIndex(isFiltered)
  return Object.values(filtersLastButOne(naming)).map(({ name, taps }) => ({
    stored: `${layer}.${name}.weight`,
    shape: [undefined, taps!, 1],
    parts: { ...filtersLastButOne(naming), ...(countsOne(config) && withoutOne(naming)) },
  }))
}

function filtersLastButOne({ parts }: Naming): Record<string, NamedPart> {
  return Object.fromEntries(
    Object.entries(parts).flatMap(([name, part]) =>
      typeof part !== "string" && part.taps ? [[name, { ...part, tapsLastButOne: true }]] : [],
    ),
  )
}

/** Only those with the delta rule are kept with one added. */
function countsOne({ blocks }: ModelConfig): boolean {
  return blocks.some(({ delta }) => delta)
}

function withoutOne({ parts }: Naming): Naming["parts"] {
  return Object.fromEntries(
    Object.entries(parts).flatMap(([name, part]) => {
      if (typeof part === "string" || part.plus === undefined) return []
      const { plus: _, ...rest } = part
      return [[name, rest]]
    }),
  )
}
