// A text as one row of numbers of unit length, or two as one number: their tokens go through the model once, and of the rows that
// come out those that its folder says become one. Sums are taken in double precision, position by position, so that neither the
// company nor the chunks of a prompt show in them.

import { setMaxListeners } from "node:events"
import { type GenerationRequest, plainSampling } from "../engine/generation.ts"
import { problem } from "../errors.ts"
import type { Asker, ChatEngine } from "./admission.ts"
import type { Embedded, EmbeddingRequest, Ranked, RankingRequest } from "./conversation.ts"
import { foreign } from "./jinja/text.ts"
import { FROM_REQUEST } from "./rendering.ts"
import type { Tokenizer } from "./tokenizer.ts"

/** How rows become one: see model/pooling.ts. */
export interface EmbeddingModel {
  /** What it was made for: to embed and to rank it writes no text, and rows of a ranker are of one number; to transcribe nothing else. */
  made: "to write" | "to embed" | "to rank" | "to transcribe"
  /** Tokens of the second of two texts are so much further on in the vocabulary. */
  pairedBy: number
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
    activation: keyof typeof activations
    /** Of what was activated, if there is one. */
    norm?: { weight: Float32Array; bias: Float32Array | undefined; epsilon: number }
  }[]
  /** By name, what may be put before texts. */
  prompts: Readonly<Record<string, string>>
}

type Reading = Pick<EmbeddingRequest, "id" | "scope" | "field">

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
  async embed(request: EmbeddingRequest, asker: Asker): Promise<Embedded> {
    const { texts, dimensions } = request
    this.#assertEmbeds(request)
    const tokensOf = (index: number, asker: Asker) => this.#tokens(request, index, asker)
    const { rows, tokens } = await this.#rows(request, texts.length, tokensOf, asker)
    return { vectors: rows.map((row) => unit(row.subarray(0, dimensions))), tokens }
  }

  /** @throws the problem that refuses the query or a document, or that its computing failed of */
  async rank(request: RankingRequest, asker: Asker): Promise<Ranked> {
    const { query, documents } = request
    if (this.#model.made !== "to rank") {
      const words = "This model does not rank; a cross-encoder with one label does."
      throw problem("unsupported_value", { problem: words }, "query")
    }
    const { prefix, between, suffix } = this.#tokenizer
    const encode = (text: string, asker: Asker) =>
      this.#tokenizer.encode(foreign(text, FROM_REQUEST), asker)
    const first = [...prefix, ...(await encode(query, asker)), ...between]
    const tokensOf = async (index: number, asker: Asker) => {
      const second = [...(await encode(documents[index]!, asker)), ...suffix]
      return Int32Array.from([...first, ...second.map((token) => token + this.#model.pairedBy)])
    }
    const asked = { ...request, field: "documents" }
    const { rows, tokens } = await this.#rows(asked, documents.length, tokensOf, asker)
    return { scores: rows.map(([score]) => 1 / (1 + Math.exp(-score!))), tokens }
  }

  /** One for each of so many prompts, in order, and how many tokens they had in all. */
  async #rows(
    request: Reading,
    count: number,
    tokensOf: (index: number, asker: Asker) => Promise<Int32Array>,
    { client, signal: leaving }: Asker,
  ): Promise<{ rows: Float64Array[]; tokens: number }> {
    const ending = new AbortController()
    const signal = AbortSignal.any([leaving, ending.signal])
    setMaxListeners(2 * AT_ONCE, signal)
    const rows: Float64Array[] = new Array(count)
    let tokens = 0
    let next = 0
    const work = async () => {
      for (let index = next++; index < count; index = next++) {
        const prompt = await tokensOf(index, { client, signal })
        tokens += prompt.length
        const field = fieldOf(request, index, count)
        rows[index] = await this.#row({ ...request, field }, prompt, { client, signal })
      }
    }
    try {
      await Promise.all(Array.from({ length: Math.min(AT_ONCE, count) }, work))
    } finally {
      ending.abort() // where one text is refused, nobody waits for the others
    }
    return { rows, tokens }
  }

  #assertEmbeds({ field, dimensions }: EmbeddingRequest): void {
    if (this.#model.made === "to rank") {
      const words = "This model turns no text into a vector; POST /v1/rerank ranks documents by it."
      throw problem("unsupported_value", { problem: words }, field)
    }
    const own = this.#model.dense.at(-1)?.rows ?? this.#model.hidden
    if (dimensions === undefined || dimensions <= own) return
    const words = `dimensions must be at most ${own}, the model's own.`
    throw problem("invalid_value", { problem: words }, "dimensions")
  }

  async #tokens(request: EmbeddingRequest, index: number, asker: Asker): Promise<Int32Array> {
    const { texts, truncate } = request
    const field = fieldOf(request, index, texts.length)
    const text = texts[index]!
    const { prefix, suffix } = this.#tokenizer
    const own =
      typeof text === "string"
        ? await this.#tokenizer.encode(foreign(this.#promptOf(request) + text, FROM_REQUEST), asker)
        : text
    const frame = typeof text === "string" ? prefix.length + suffix.length : 0
    const { context } = this.#model
    const kept = truncate ? own.subarray(0, Math.max(0, context - frame)) : own
    if (kept.length + frame === 0)
      throw problem("invalid_value", { problem: `${field} must hold at least one token.` }, field)
    if (frame === 0) return kept
    return Int32Array.from([...prefix, ...kept, ...suffix])
  }

  #promptOf({ promptName: name, texts }: EmbeddingRequest): string {
    if (name === undefined) return ""
    const { prompts } = this.#model
    if (Object.hasOwn(prompts, name) && typeof texts[0] === "string") return prompts[name]!
    const names = Object.keys(prompts).join(", ")
    const words = Object.hasOwn(prompts, name)
      ? "prompt_name is for texts; put the prompt's own tokens before token ids."
      : `prompt_name must be ${names ? `one of ${names}` : "left out: this model's folder has no prompts"}.`
    throw problem("invalid_value", { problem: words }, "prompt_name")
  }

  async #row(
    { id, scope, field }: Reading,
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
    return this.#model.dense.reduce(through, pool.pooled())
  }
}

/** Which of a client's texts is meant; one alone may be no list. */
function fieldOf({ field }: Reading, index: number, count: number): string {
  return count > 1 ? `${field}[${index}]` : field
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
  { rows, columns, weight, bias, activation, norm }: EmbeddingModel["dense"][number],
): Float64Array {
  const out = new Float64Array(rows)
  for (let i = 0; i < rows; i++) {
    let sum = bias?.[i] ?? 0
    for (let j = 0; j < columns; j++) sum += weight[i * columns + j]! * row[j]!
    out[i] = activations[activation](sum)
  }
  return norm ? evened(out, norm) : out
}

const activations = {
  none: (x: number) => x,
  tanh: Math.tanh,
  relu: (x: number) => (x < 0 ? 0 : x),
  gelu: (x: number) => (x * (1 + erf(x * Math.SQRT1_2))) / 2,
}

/** The error function, by a series of terms that all have x's sign. */
function erf(x: number): number {
  if (!(Math.abs(x) <= 6)) return Math.sign(x) // within 2^-53; NaN of NaN
  let [sum, term] = [0, x]
  for (let n = 1; sum + term !== sum; n++) {
    sum += term
    term *= (2 * x * x) / (2 * n + 1)
  }
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-x * x) * sum
}

/** A LayerNorm of the row. */
function evened(
  row: Float64Array,
  { weight, bias, epsilon }: NonNullable<EmbeddingModel["dense"][number]["norm"]>,
): Float64Array {
  const mean = row.reduce((sum, x) => sum + x, 0) / row.length
  const variance = row.reduce((sum, x) => sum + (x - mean) ** 2, 0) / row.length
  const by = 1 / Math.sqrt(variance + epsilon)
  return row.map((x, i) => (x - mean) * by * weight[i]! + (bias?.[i] ?? 0))
}

/** At unit length. @throws `generation_failed` for a row that has no direction */
function unit(row: Float64Array): Float64Array {
  const length = Math.sqrt(row.reduce((sum, value) => sum + value * value, 0))
  if (Number.isFinite(length) && length > 0) return row.map((value) => value / length)
  throw problem("generation_failed", { problem: "it computed a row that is not finite or empty" })
}
