// A text as one row of numbers of unit length: its tokens go through the model once, and of the rows that come out those that its
// folder says become one. Sums are taken in double precision, position by position, so that neither the company nor the chunks of a
// prompt show in them.

import { setMaxListeners } from "node:events"
import { type GenerationRequest, plainSampling } from "../engine/generation.ts"
import { problem } from "../errors.ts"
import type { Asker, ChatEngine } from "./admission.ts"
import type { Embedded, EmbeddingRequest } from "./conversation.ts"
import { foreign } from "./jinja/text.ts"
import { FROM_REQUEST } from "./rendering.ts"
import type { Tokenizer } from "./tokenizer.ts"

/** How rows become one: see model/pooling.ts. */
export interface EmbeddingModel {
  /** It was made for nothing else, and writes no text. */
  only: boolean
  /** Numbers in a row. */
  hidden: number
  /** The most tokens of a text. */
  context: number
  mode: "mean" | "cls" | "lasttoken"
  dense: readonly {
    rows: number
    columns: number
    weight: Float32Array // [rows, columns]
    bias: Float32Array | undefined // [rows]
  }[]
}

const AT_ONCE = 32 // texts of one request

export class Embedder {
  readonly #engine: ChatEngine
  readonly #tokenizer: Tokenizer
  readonly #model: EmbeddingModel

  constructor(engine: ChatEngine, tokenizer: Tokenizer, model: EmbeddingModel) {
    this.#engine = engine
    this.#tokenizer = tokenizer
    this.#model = model
  }

  /** @throws the problem that refuses a text, or that its computing failed of */
  async embed(request: EmbeddingRequest, { client, signal: leaving }: Asker): Promise<Embedded> {
    const { texts, dimensions } = request
    this.#assertHas(dimensions)
    const ending = new AbortController()
    const signal = AbortSignal.any([leaving, ending.signal])
    setMaxListeners(2 * AT_ONCE, signal)
    const vectors: Float64Array[] = new Array(texts.length)
    let tokens = 0
    let next = 0
    const work = async () => {
      for (let index = next++; index < texts.length; index = next++) {
        const prompt = await this.#tokens(request, index, { client, signal })
        tokens += prompt.length
        vectors[index] = await this.#vector(request, prompt, { client, signal })
      }
    }
    try {
      await Promise.all(Array.from({ length: Math.min(AT_ONCE, texts.length) }, work))
    } finally {
      ending.abort() // where one text is refused, nobody waits for the others
    }
    return { vectors, tokens }
  }

  #assertHas(dimensions: number | undefined): void {
    const own = this.#model.dense.at(-1)?.rows ?? this.#model.hidden
    if (dimensions === undefined || dimensions <= own) return
    const words = `dimensions must be at most ${own}, the model's own.`
    throw problem("invalid_value", { problem: words }, "dimensions")
  }

  async #tokens(
    { texts, field, truncate }: EmbeddingRequest,
    index: number,
    asker: Asker,
  ): Promise<Int32Array> {
    const text = texts[index]!
    const { prefix, suffix } = this.#tokenizer
    const own =
      typeof text === "string"
        ? await this.#tokenizer.encode(foreign(text, FROM_REQUEST), asker)
        : text
    const frame = typeof text === "string" ? prefix.length + suffix.length : 0
    const { context } = this.#model
    const kept = truncate ? own.subarray(0, Math.max(0, context - frame)) : own
    if (kept.length + frame === 0)
      throw problem("invalid_value", { problem: `${field} must hold at least one token.` }, field)
    if (frame === 0) return kept
    return Int32Array.from([...prefix, ...kept, ...suffix])
  }

  async #vector(
    { id, scope, field, dimensions }: EmbeddingRequest,
    prompt: Int32Array,
    { client, signal }: Asker,
  ): Promise<Float64Array> {
    const pool = new Pool(this.#model, prompt.length)
    const request: GenerationRequest = {
      ...{ id, prompt, scope, client, field },
      choices: 1,
      maxTokens: 0,
      stopTokens: new Set(),
      sampling: { ...plainSampling, seed: 0n },
      readHidden: (rows, from) => pool.read(rows, from),
    }
    const { choices } = await this.#engine.generate(request, signal)
    for await (const event of choices[0]!)
      if (event.kind === "end" && event.problem) throw event.problem
    signal.throwIfAborted()
    return unit(this.#model.dense.reduce(through, pool.pooled()).subarray(0, dimensions))
  }
}

/** The rows of one text on their way to one. */
class Pool {
  readonly #mode: EmbeddingModel["mode"]
  readonly #hidden: number
  readonly #length: number
  readonly #sum: Float64Array
  #next = 0

  constructor({ mode, hidden }: EmbeddingModel, length: number) {
    this.#mode = mode
    this.#hidden = hidden
    this.#length = length
    this.#sum = new Float64Array(hidden)
  }

  /** Rows that come again are the same as before. */
  read(rows: Float32Array, from: number): void {
    const end = from + rows.length / this.#hidden
    for (; this.#next < end; this.#next++) {
      const at = (this.#next - from) * this.#hidden
      if (this.#counts(this.#next))
        for (let i = 0; i < this.#hidden; i++) this.#sum[i]! += rows[at + i]!
    }
  }

  pooled(): Float64Array {
    return this.#mode === "mean" ? this.#sum.map((sum) => sum / this.#length) : this.#sum
  }

  #counts(position: number): boolean {
    if (this.#mode === "mean") return true
    return position === (this.#mode === "cls" ? 0 : this.#length - 1)
  }
}

function through(
  row: Float64Array,
  { rows, columns, weight, bias }: EmbeddingModel["dense"][number],
): Float64Array {
  const out = new Float64Array(rows)
  for (let i = 0; i < rows; i++) {
    let sum = bias?.[i] ?? 0
    for (let j = 0; j < columns; j++) sum += weight[i * columns + j]! * row[j]!
    out[i] = sum
  }
  return out
}

/** At unit length. @throws `generation_failed` for a row that has no direction */
function unit(row: Float64Array): Float64Array {
  const length = Math.sqrt(row.reduce((sum, value) => sum + value * value, 0))
  if (Number.isFinite(length) && length > 0) return row.map((value) => value / length)
  throw problem("generation_failed", { problem: "it computed a row that is not finite or empty" })
}
