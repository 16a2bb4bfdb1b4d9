// Plan to C: a driver with what the model makes constant, where everything lies, and the plan's steps as a table; its
// distinct products and attentions in files beside it, so that they compile side by side. What is emitted calls the kernels
// under kernels/ with literal shapes; the compiler unfolds them.

import { type Manifest, readableTokens } from "../../../runtime/manifest.ts"
import { type RowSet, rowSets } from "../../../runtime/step-rows.ts"
import { STEP_WORDS, stepFields } from "../../../runtime/step-words.ts"
import { type Buffer, joinedBy, type Plan, readsWords, type Step, takenBy } from "../../plan.ts"
import type { Source } from "../target.ts"
import { type Kept, keptParameters } from "./kept.ts"
import { panelsText } from "./kinds.ts"
import {
  attentions,
  bufferName,
  type Extent,
  expertName,
  expertRegions,
  expertTables,
  extentKeys,
  type Layout,
  LINE,
  layoutOf,
  PLANES,
  PLANES_BEHIND,
  paddedColumns,
  ROWS_BEHIND,
  regionOf,
  rowTables,
  SAMPLERS,
  SCORES,
  SCRATCH,
  strideOf,
  tableName,
  tokenTables,
} from "./layout.ts"
import { defines, initialiser, longInitialiser } from "./literals.ts"
import { DRIVER } from "./objects.ts"
import { stepCode } from "./steps.ts"

type Emitted = Extract<Source, { text: string }>

export function emit(plan: Plan, layout: Layout = layoutOf(plan)): Emitted[] {
  const weights = keptParameters(plan)
  const code = stepCode(plan, weights)
  const driver = [
    `// ${plan.architecture}, ${plan.format}: emitted by sinter compile. The plan's steps stand at the end, as a table.`,
    ...constants(plan, layout, code.count),
    "",
    '#include "driver_types.h"',
    "",
    ...stepAssertions(),
    "",
    ...layoutAssertions,
    "",
    ...placeTables(plan, layout),
    "",
    ...parameterTable(plan, weights, layout),
    "",
    '#include "driver.h"',
    "",
    ...bufferMacros(plan),
    "",
    ...code.functions,
    "static const struct step plan_steps[PLAN_STEPS] = {",
    ...code.entries,
    "};",
    "",
  ]
  const units = [...code.units].map(([name, text]) => ({ name: `${name}.c`, text }))
  const states = plan.steps.some(({ op }) => op === "delta") ? [ofStates] : []
  return [{ name: DRIVER, text: driver.join("\n") }, ...shared, ...states, ...units]
}

/** What draws a row's token, and what brings weights to their places: the same in every library. */
export const shared: readonly Emitted[] = [
  {
    name: "sampler.c",
    text: [
      '#include "sampler.h"',
      "",
      "void sample_from(const sinter_step_arrays *a, const float *logits, int64_t vocabulary, int64_t row,",
      "                 uint8_t *workspace) {",
      "  sample(a, logits, vocabulary, row, workspace);",
      "}",
      "",
    ].join("\n"),
  },
  {
    name: "loading.c",
    text: [
      '#include "loading.h"',
      "",
      "void load_panel(void *context, int64_t index, int32_t thread) { load_rows(context, index); }",
      "",
    ].join("\n"),
  },
]

/** What takes states from position to position: the same in every library that has them. */
export const ofStates: Emitted = {
  name: "delta.c",
  text: [
    '#include "delta.h"',
    "",
    "void delta_heads(void *context, int64_t index, int32_t thread) { delta_item(context, index); }",
    "",
  ].join("\n"),
}

// ------------------------------------------------------------------ parameters

export function parametersOf(weights: readonly Kept[], layout: Layout) {
  return weights.map(({ as, panels, stored }, id) => {
    const at = layout.weights.regions[id]!.at.fixed
    return { kept: as, at, panels, stored }
  })
}

function parameterTable(plan: Plan, weights: readonly Kept[], layout: Layout): string[] {
  const lines = parametersOf(weights, layout).flatMap(({ kept, at, panels, stored }, id) => {
    const { name, rows, columns, codec } = plan.parameters[id]!
    const fields = { kept, at, panels: panelsText(panels), stored: panelsText(stored) }
    return [
      `  // p${id} ${name} [${rows}, ${columns}] ${codec}`,
      `  ${longInitialiser(fields, "  ")},`,
    ]
  })
  return ["static const struct parameter parameters[PARAMETERS] = {", ...lines, "};"]
}

/** That the struct of a step has its fields where the host writes them. */
export function stepAssertions(): string[] {
  const size = `_Static_assert(sizeof(sinter_step_arrays) == ${8 * STEP_WORDS}, "the size of a step");`
  return [...stepFields.map(({ name, word }) => `STEP_FIELD(${name}, ${word});`), size]
}

/** That the kernels are written for what layout.ts takes for granted. */
export const layoutAssertions = [
  `_Static_assert(LINE == ${LINE}, "a line");`,
  `_Static_assert(TILES_BEHIND <= ${ROWS_BEHIND}, "rows that tiles read behind the last");`,
  `_Static_assert(PLANES_BEHIND <= ${PLANES_BEHIND}, "planes that tiles read behind the last");`,
  `_Static_assert(sizeof(struct attention_run) == ${rowTables.runs}, "the size of a run");`,
]

// ------------------------------------------------------------------ constants

/** In the order of the driver's `enum takes`. */
const takes: readonly Manifest["takes"][] = [undefined, "all", "some"]

/** What a model makes constant, by the names that the driver has for it. */
export function constantsOf(plan: Plan, { kv, work }: Layout, steps: number) {
  const { logits, hidden, shapes, sinks } = plan
  return {
    VOCABULARY: shapes.vocabulary,
    READABLE: readableTokens(shapes),
    CONTEXT: shapes.context,
    SINKS: sinks,
    TAKES: takes.indexOf(takenBy(plan)),
    WORDS: readsWords(plan) ? 1 : 0,
    JOINED: joinedBy(plan),
    BUFFERS: plan.buffers.length,
    PARAMETERS: plan.parameters.length,
    PLAN_STEPS: steps,
    KV_STORAGES: kv.length,
    LOGITS_BUFFER: logits.buffer,
    LOGITS_STRIDE: strideOf(plan, logits),
    HIDDEN_BUFFER: hidden.buffer,
    HIDDEN_COLUMNS: hidden.columns,
    HIDDEN_STRIDE: strideOf(plan, hidden),
    SCRATCH_BYTES: regionOf(work, SCRATCH).bytes.thread, // of a thread
    SCORE_BYTES: regionOf(work, SCORES).bytes.thread,
    SAMPLER_BYTES: regionOf(work, SAMPLERS).bytes.thread,
  }
}

export const constantNames = [
  "VOCABULARY",
  "READABLE",
  "CONTEXT",
  "SINKS",
  "TAKES",
  "WORDS",
  "JOINED",
  "BUFFERS",
  "PARAMETERS",
  "PLAN_STEPS",
  "KV_STORAGES",
  "LOGITS_BUFFER",
  "LOGITS_STRIDE",
  "HIDDEN_BUFFER",
  "HIDDEN_COLUMNS",
  "HIDDEN_STRIDE",
  "SCRATCH_BYTES",
  "SCORE_BYTES",
  "SAMPLER_BYTES",
] as const satisfies readonly (keyof ReturnType<typeof constantsOf>)[]

/** As many queries a head as any layer has: pieces of work are made for all layers. */
export function widestAttention(plan: Plan) {
  const all = attentions(plan)
  return {
    heads: Math.max(1, ...all.map(({ heads, kvHeads }) => heads / kvHeads)),
    kv_heads: 1,
    head_dim: Math.max(1, ...all.map(({ headDim }) => headDim)),
    latent: Math.max(0, ...all.map(({ latent }) => latent ?? 0)) || undefined,
    value: Math.max(0, ...all.map(({ value }) => value ?? 0)) || undefined,
    number: plan.kv.toUpperCase() as "F32",
    distances: Math.max(0, ...plan.steps.map(distancesIn)) || undefined,
    sparse: all.some(({ sparse }) => sparse) ? 1 : undefined,
  }
}

const distancesIn = (step: Step) => (step.op === "attend" && step.biases?.distances) || 0

function constants(plan: Plan, layout: Layout, steps: number): string[] {
  const has = (op: Step["op"]) => Number(plan.steps.some((step) => step.op === op))
  const values = {
    ...constantsOf(plan, layout, steps),
    // Or what takes such steps would be compiled for nothing: a sixth of the driver's time.
    HAS_EXPERTS: has("experts"),
    HAS_HEAD_PRODUCTS: has("headMatmul"),
    HAS_DELTAS: has("delta"),
    HAS_INDEXERS: has("indexer"),
    ATTENTION: `((struct attention)${initialiser(widestAttention(plan))})`,
  }
  return defines(values)
}

const tablesOf = (rows: RowSet) =>
  (Object.keys(rowTables) as (keyof typeof rowTables)[]).map((table) => tableName(rows, table))

/** Where everything lies but the buffers, by the driver's names; those of row sets have a point. */
export const fixedExtents: readonly string[] = [
  "weights_end",
  "work_end",
  "scratch_at",
  "scores_at",
  "samplers_at",
  "planes_at",
  ...[...expertRegions, ...expertTables].map((what) => `experts_${what}_at`),
  ...tokenTables.map((name) => `${name}_at`),
  ...rowSets.flatMap(tablesOf),
]

/** Those, and behind them one for each buffer. */
export function extentsOf(
  plan: Plan,
  { weights, work }: Layout,
): readonly (readonly [name: string, at: Extent])[] {
  const at = (name: string) => regionOf(work, name).at
  const fixed = [
    weights.end,
    work.end,
    at(SCRATCH),
    at(SCORES),
    at(SAMPLERS),
    at(PLANES),
    ...[...expertRegions, ...expertTables].map((what) => at(expertName(what))),
    ...tokenTables.map(at),
    ...rowSets.flatMap(tablesOf).map(at),
  ]
  // A buffer that has no region lies behind its row's codes.
  const buffers = plan.buffers.map((_, id) => {
    const region = work.regions.find(({ name }) => name === bufferName(id))
    return [bufferName(id), region?.at ?? { fixed: 0, token: 0, row: 0, thread: 0 }] as const
  })
  return [...fixed.map((extent, i) => [fixedExtents[i]!, extent] as const), ...buffers]
}

/** What layout.ts decided, for driver_model.h to evaluate. */
function placeTables(plan: Plan, layout: Layout): string[] {
  const places = new Map(extentsOf(plan, layout))
  const at = (name: string) => extentText(places.get(name)!)
  const buffers = plan.buffers.map(({ capacity, columns, dtype }, id) => {
    const what = `b${id} [${capacity}, ${columns}] ${dtype}`
    if (dtype === "scales") return `  // ${what}: behind their row's codes`
    return `  [${id}] = ${at(bufferName(id))},  // ${what}`
  })
  const sets = rowSets.map((rows) => {
    const tables = Object.keys(rowTables).map((table) => [
      table,
      at(tableName(rows, table as keyof typeof rowTables)),
    ])
    return `  [${rows.toUpperCase()}] = ${longInitialiser(Object.fromEntries(tables), "  ")},`
  })
  return [
    "// Where everything lies, in bytes from the beginning of its memory.",
    "static const size_t kv_block_bytes[KV_STORAGES + 1] = {",
    ...layout.kv.map(({ name, blockBytes }) => `  ${blockBytes},  // ${name}`),
    "  0};",
    `static const char kv_is_state[KV_STORAGES + 1] = {${[...layout.kv.map(({ isState }) => Number(isState)), 0].join(", ")}};`,
    "static const struct extent buffer_at[BUFFERS] = {",
    ...buffers,
    "};",
    ...fixedExtents
      .filter((name) => !name.includes("."))
      .map((name) => `static const struct extent ${name} = ${at(name)};`),
    "static const struct row_set_places row_sets_at[ROW_SETS] = {",
    ...sets,
    "};",
  ]
}

/** Initialiser of a struct extent. */
function extentText(extent: Extent): string {
  const parts = extentKeys.filter((key) => extent[key] !== 0)
  return initialiser(Object.fromEntries(parts.map((key) => [key, extent[key]])))
}

/** A row of each buffer by the name that the plan gives the buffer; of codes, so many bytes long. */
function bufferMacros({ buffers }: Plan): string[] {
  const macro = ({ dtype, columns, capacity }: Buffer, id: number) => {
    const what = `// [${capacity}, ${columns}] ${dtype}`
    if (dtype === "scales") return []
    return dtype === "f32"
      ? `#define b${id}(row) ((float *)m->buffers[${id}] + (row) * ${paddedColumns(columns)})  ${what}`
      : `#define b${id}(row, bytes) (m->buffers[${id}] + (row) * (bytes))  ${what}`
  }
  return ["// Rows of the plan's buffers.", ...buffers.flatMap(macro)]
}
