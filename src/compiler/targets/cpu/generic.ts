// The generic library: the kernels and the driver of every compiled one, with what a model makes constant read from a tape
// (tape.ts) instead of compiled in. One is built for each system and instruction set when the package is (scripts/generic.ts), and
// serves where there is no C compiler: a model's library is then its code with the model's tape behind it.

import { existsSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { codeRoot } from "../../../code-root.ts"
import type { CodecName } from "../../../runtime/format.ts"
import { type System, systemName, thisSystem } from "../../../runtime/system.ts"
import type { Source } from "../target.ts"
import { attentionUnits, toldUnit } from "./attentions.ts"
import {
  constantNames,
  fixedExtents,
  layoutAssertions,
  ofStates,
  shared,
  stepAssertions,
} from "./emit.ts"
import { attention, extent, numbers, parameter, reader, routing, structs } from "./kinds.ts"
import { type Level, plain } from "./levels.ts"
import { DRIVER } from "./objects.ts"
import { codecNames, genericProducts, productNumber, type Unit, unitText } from "./products.ts"
import { callCases } from "./row-calls.ts"
import { build, type Compiler, runtime, shippedSources } from "./toolchain.ts"

/** In build/ alone: what runs from the sources has a compiler, and tests say what it is like without. */
const folder = fileURLToPath(new URL("generic/", codeRoot))

export function genericName(level: Level, system: System = thisSystem()): string {
  return `${systemName(system)}-${level.name}.bin`
}

/** The code for a level on this machine; undefined where none was built. */
export function genericCode(level: Level): Buffer | undefined {
  const path = join(folder, genericName(level))
  return existsSync(path) ? readFileSync(path) : undefined
}

/**
 * @param codecs that its products know; all, unless said: it takes a minute
 * @returns the bytes of the shared object
 */
export function buildGeneric(
  compiler: Compiler,
  level: Level,
  codecs: readonly CodecName[] = codecNames,
): Promise<Buffer> {
  return build(compiler, level, genericSources(new Set(codecs.map(productNumber))))
}

/** What works on weights for programs that are no libraries (runtime/weight-work.ts). */
export function buildWeightWork(compiler: Compiler): Promise<Buffer> {
  const names = ["blocks.c", "low_rank.c"]
  return build(
    compiler,
    plain,
    names.map((name) => ({ name, path: join(runtime, name) })),
  )
}

/** What features.ts asks on systems that show nothing of their processor. */
export function buildProcessor(compiler: Compiler): Promise<Buffer> {
  return build(compiler, plain, [{ name: "processor.c", path: join(runtime, "processor.c") }])
}

/** @param wanted numbers of products */
function genericSources(wanted: ReadonlySet<number>): Source[] {
  const file = (name: string, { known, body }: Unit) => ({
    name: `${name}.c`,
    text: unitText({ known: { GENERIC: 1, ...known }, body }, name),
  })
  const attentions = attentionUnits.flatMap((unit) =>
    numbers.map((number) => file(`${unit}_${number}`, toldUnit(unit, number))),
  )
  const products = genericProducts.filter((_, i) => wanted.has(i))
  const productFiles = products.map(({ name, unit }) => file(name, unit))
  return [
    { name: DRIVER, text: driver(wanted) },
    ...shared,
    ofStates,
    ...productFiles,
    ...attentions,
    ...shippedSources,
  ]
}

const PARAMETERS = "(void *context, int64_t index, int32_t thread)"

function headBody(number: string): string[] {
  return [
    `static void head_${number}${PARAMETERS} {`,
    "  const struct head_loop *loop = context;",
    "  struct head_kind kind = *loop->kind;",
    "  kind.weights.grouped = 0;",
    `  kind.weights.number = ${number};`,
    "  head_item(loop, kind, index);",
    "}",
  ]
}

function driver(wanted: ReadonlySet<number>): string {
  const bodies = (kind: string, names: readonly string[]) =>
    `static void (*const ${kind}_bodies[])${PARAMETERS} = {${names.join(", ")}};`
  const products = genericProducts.map(({ name }, i) => (wanted.has(i) ? name : "NULL"))
  const ofAttention = attentionUnits.map((unit) => ({
    unit,
    names: numbers.map((number) => `${unit}_${number}`),
  }))
  const floats = numbers.filter((number) => number !== "Q8")
  return [
    "#define GENERIC",
    '#include "driver_types.h"',
    "",
    ...stepAssertions(),
    ...layoutAssertions,
    "",
    ...[...products, ...ofAttention.flatMap(({ names }) => names)]
      .filter((name) => name !== "NULL")
      .map((name) => `void ${name}${PARAMETERS};`),
    ...floats.flatMap(headBody),
    `static void generic_rows${PARAMETERS};`,
    "static void round_generic(const struct experts_step *step, const float *input, uint8_t *output);",
    bodies("product", products),
    ...ofAttention.map(({ unit, names }) => bodies(unit, names)),
    bodies(
      "head",
      floats.map((number) => `head_${number}`),
    ),
    "",
    ...structs.map(reader),
    "",
    `enum { ${constantNames.map((name) => `CONSTANT_${name}`).join(", ")}, CONSTANTS };`,
    `enum { EXTENT_WORDS = ${extent.words}, ATTENTION_WORDS = ${attention.words}, PARAMETER_WORDS = ${parameter.words} };`,
    `enum { NAMED_EXTENTS = ${fixedExtents.length} };`,
    '#include "generic.h"',
    "",
    "// What the driver knows by these names, of the model `m`.",
    ...constantNames.map((name) => `#define ${name} ((int)m->plan.constants[CONSTANT_${name}])`),
    "#define ATTENTION (read_attention(m->plan.attention))",
    ...fixedExtents.flatMap((name, i) =>
      name.includes(".") ? [] : [`#define ${name} (m->plan.extents[${i}])`],
    ),
    `#define row_sets_at ((const struct row_set_places *)(m->plan.extents + ${fixedExtents.findIndex((name) => name.includes("."))}))`,
    "#define buffer_at (m->plan.extents + NAMED_EXTENTS)",
    "#define kv_block_bytes (m->plan.kv_block_bytes)",
    "#define kv_is_state (m->plan.kv_is_state)",
    "#define parameters (m->plan.parameters)",
    "#define plan_steps (m->plan.steps)",
    "",
    '#include "driver.h"',
    reader(routing),
    "",
    "static void round_generic(const struct experts_step *step, const float *input, uint8_t *output) {",
    "  quantize((struct quantized){.input = input, .weights = step->rounded_for, .output = output});",
    "}",
    "",
    "// A row of a view: buffer, stride, first column, and which row.",
    "INLINE float *row_at(const struct row_loop *loop, const double *w, int64_t row) {",
    "  const int64_t of = w[3] == 0 ? row : w[3] == 1 ? loop->set->token[row] : loop->set->wanted[row];",
    "  return (float *)loop->model->buffers[(int)w[0]] + of * (int64_t)w[1] + (int64_t)w[2];",
    "}",
    "",
    `static void generic_rows${PARAMETERS} {`,
    "  const struct row_loop *loop = context;",
    "  sinter_model *m = loop->model;",
    "  EACH_ROW(loop, index) {",
    "    const int64_t token = loop->set->token[row];",
    "    const double *w = loop->step->calls + 1;",
    "    for (int calls = (int)loop->step->calls[0]; calls > 0; calls--, w += (size_t)w[0]) switch ((int)w[1]) {",
    ...callCases().map((text) => `      ${text}`),
    "    }",
    "  }",
    "}",
    "",
  ].join("\n")
}
