// What the first schemas of a process would wait for and later ones do not: machine code for the compiler and the masks, and
// the automata of formats and patterns that everybody uses. Here they are made before anybody asks: one piece after the
// other, so that what is asked meanwhile waits for one piece at most, and with pauses four times as long. All of it takes some
// seconds of a processor, which whoever is being served would miss: while the process is busy the pauses are far longer.

import { compileSchema } from "../grammar/grammar.ts"
import type { ConstraintOptions, Constraints } from "./constraint.ts"
import type { ConstraintSpec, Grammars } from "./grammars.ts"

const DELAY = 3000 // milliseconds, in which a server that is starting has the processor for itself
const PAUSE = 4
const MIN_PAUSE = 10 // milliseconds: over less nobody looks busy or idle
const MAX_PAUSE = 5000 // milliseconds, however busy the process is

/** The share of one processor that a process takes beside this thread when it serves somebody; another's warm-up takes less. */
const BUSY = 1 / 2

/**
 * Takes piece after piece, for as long as the thread has timers.
 * @param used microseconds of processor time that the process has taken, all its threads together
 */
export function warmUp(pieces: Generator, used: () => number = usedByProcess): void {
  const next = () => {
    const began = performance.now()
    if (!pieces.next().done) rest(Math.max(MIN_PAUSE, PAUSE * (performance.now() - began)))
  }
  const rest = (pause: number, left = MAX_PAUSE) => {
    const before = used()
    const began = performance.now()
    setTimeout(() => {
      const milliseconds = performance.now() - began
      const isBusy = used() - before > BUSY * milliseconds * 1000
      if (isBusy && left > milliseconds) rest(pause, left - milliseconds)
      else next()
    }, pause)
  }
  rest(DELAY)
}

function usedByProcess(): number {
  const { user, system } = process.cpuUsage()
  return user + system
}

/** What a thread needs that only compiles. */
export function* compilePieces(grammars: Grammars): Generator<void> {
  for (const format of FORMATS) yield void compileSchema({ type: "string", format })
  for (const { schema } of SAMPLES) yield void grammars.of(specOf(schema))
}

function specOf(schema: unknown): ConstraintSpec {
  return { calls: undefined, format: { schema }, reasoning: undefined }
}

/** @returns how many of the documents could be read to their end: all, unless bytes are no tokens of their own */
export function* warmUpPieces(
  constraints: Constraints,
  tokens: ConstraintOptions["tokens"],
): Generator<void, number> {
  const bytes = singleBytes(tokens)
  yield
  for (const format of FORMATS)
    yield void compileSchema({ type: "string", format }, { portable: true })
  let read = 0
  for (const { schema, document } of SAMPLES) {
    const text = Buffer.from(JSON.stringify(document))
    const constraint = constraints.hold(specOf(schema)).constraint()
    const mask = new Uint32Array(Math.ceil(tokens.size / 32))
    yield
    let at = 0
    for (; at < text.length; at++) {
      const token = bytes[text[at]!]
      constraint.mask(mask)
      if (token === undefined || ((mask[token >>> 5]! >>> (token & 31)) & 1) === 0) break
      constraint.accept(token)
      constraint.draft(constraint.forced)
      if (at % 8 === 7) yield
    }
    if (at === text.length) read++
    yield
  }
  return read
}

/** The tokens that are one byte each. */
function singleBytes({ size, bytes, special }: ConstraintOptions["tokens"]): number[] {
  const ids: number[] = []
  for (let id = 0; id < size; id++) {
    const own = bytes.of(id)
    if (own.length === 1 && !special.has(id)) ids[own[0]!] ??= id
  }
  return ids
}

/** Those whose automata take longer than a millisecond to build. */
const FORMATS = (
  "date time date-time email hostname ipv4 ipv6 uri uri-reference uuid " +
  "idn-email idn-hostname iri iri-reference regex"
).split(" ")

/** Each holds many kinds of things, as tools and data formats do; its document takes them in turn. */
const SAMPLES: readonly { schema: unknown; document: unknown }[] = [
  {
    schema: {
      type: "object",
      properties: {
        id: { type: "integer", minimum: 1 },
        title: { type: "string", minLength: 1, maxLength: 80 },
        name: { type: "string", pattern: "^\\p{L}+$" },
        code: { type: "string", pattern: "^[A-Z]{2,3}-\\d{3,6}$" },
        status: { enum: ["open", "in progress", "closed"] },
        price: { type: "number", exclusiveMinimum: 0, multipleOf: 0.01 },
        share: { type: "number", minimum: 0, maximum: 1 },
        due: { type: "string", format: "date" },
        done: { type: "boolean" },
        note: { type: ["string", "null"], description: "What else there is to say." },
        tags: { type: "array", items: { type: "string" }, uniqueItems: true, maxItems: 5 },
        size: { type: "array", items: { type: "integer" }, minItems: 2, maxItems: 2 },
      },
      required: ["id", "title", "status", "tags"],
      additionalProperties: false,
    },
    document: {
      id: 12,
      title: "A first visit",
      name: "Ada",
      code: "AB-1234",
      status: "in progress",
      price: 19.98,
      share: 0.25,
      due: "2024-02-29",
      done: true,
      note: null,
      tags: ["new", "now"],
      size: [3, 4],
    },
  },
  {
    schema: {
      type: "object",
      properties: {
        kind: { const: "Deployment" },
        labels: { type: "object", additionalProperties: { type: "string" } },
        where: { allOf: [{ $ref: "#/$defs/place" }, { required: ["city"] }] },
        steps: { type: "array", items: { $ref: "#/$defs/step" }, minItems: 1 },
        extra: {},
      },
      patternProperties: { "^x-": { type: ["string", "number"] } },
      required: ["kind", "steps"],
      if: { properties: { labels: { not: { required: ["strict"] } } } },
      else: { required: ["where"] },
      dependentRequired: { where: ["labels"] },
      $defs: {
        place: { type: "object", properties: { city: { type: "string" } }, maxProperties: 3 },
        step: {
          oneOf: [
            {
              type: "object",
              properties: { run: { type: "string" }, after: { $ref: "#/$defs/step" } },
              required: ["run"],
              additionalProperties: false,
            },
            {
              type: "object",
              properties: { wait: { anyOf: [{ type: "integer" }, { const: "ready" }] } },
              required: ["wait"],
              additionalProperties: false,
            },
          ],
        },
      },
    },
    document: {
      kind: "Deployment",
      labels: { app: "shop", tier: "front" },
      where: { city: "Bern" },
      steps: [{ wait: 5 }, { run: "start", after: { wait: "ready" } }],
      "x-note": "two\nlines",
      extra: { list: [1, -2.5e3, "é", null, { deep: [] }] },
      other: false,
    },
  },
]
