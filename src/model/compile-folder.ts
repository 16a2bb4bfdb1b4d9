// A compiled model folder: weights in MLC's layout and a number format, the configuration that goes with them, and the
// tokenizer's files as they were. It is written aside and renamed into place when all of it is there, so that a run that
// was killed leaves nothing that loads, and what it left is taken away by the next.

import {
  chmod,
  copyFile,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rename,
  rm,
  writeFile,
} from "node:fs/promises"
import { hostname } from "node:os"
import { basename, dirname, join, resolve } from "node:path"
import { problem } from "../errors.ts"
import { type FormatName, type ParameterFormat, parameterFormats } from "../runtime/format.ts"
import { architectures } from "./architectures.ts"
import type { ModelConfig, Rope } from "./config.ts"
import { weightsOf } from "./graph-weights.ts"
import type { Head } from "./head.ts"
import type { Model } from "./model.ts"
import { convertible } from "./weights/convert.ts"
import { writeMlc } from "./weights/write-mlc.ts"

export interface CompileFolderOptions {
  format: FormatName
  progress?: (written: number, total: number) => void
  /** Adds to the folder before it is put into place: the library. */
  finish?: (directory: string) => Promise<void>
}

/** Files that are copied as they are. */
const COPIED = [
  "tokenizer.json",
  "tokenizer_config.json",
  "special_tokens_map.json",
  "chat_template.jinja",
  "generation_config.json",
]

/**
 * Writes `model` in a format to the folder `output`, which must not be there, or be empty.
 * @throws `option_invalid` when it cannot be had in that format, or the place is taken.
 */
export async function compileFolder(
  model: Model,
  output: string,
  { format, progress, finish }: CompileFolderOptions,
): Promise<void> {
  checkFormat(model, format)
  await writeAside(output, async (directory) => {
    for (const file of COPIED)
      await copyFile(join(model.path, file), join(directory, file)).catch(ignoreMissing)
    // A conversation that an MLC configuration describes goes along as the template that was made of it.
    const template = model.texts.templates.get("default")
    if (template && basename(template.file) === model.configuration)
      await writeFile(join(directory, "chat_template.jinja"), template.text)
    const { shapes } = model.config
    const names = { shapes, attention: architectures[model.architecture].mlcAttention }
    await writeMlc(weightsOf(model.graph), model.weights, directory, {
      format,
      names,
      ...(progress ? { progress } : {}),
    })
    await finish?.(directory)
    await writeConfig(directory, chatConfig(model, format))
  })
}

/**
 * The same for heads, without what they borrow of their model.
 * @throws `option_invalid` as above
 */
export async function compileHeadFolder(
  head: Head,
  output: string,
  { format, progress, finish }: CompileFolderOptions,
): Promise<void> {
  checkHeadFormat(head, format)
  await writeAside(output, async (directory) => {
    const { wanted, weights } = head.own
    const names = { shapes: head.config.shapes, attention: "qkv_proj" } as const
    await writeMlc(wanted, weights, directory, { format, names, ...(progress ? { progress } : {}) })
    await finish?.(directory)
    await writeConfig(directory, headConfig(head, format))
  })
}

/** Codes cannot be unpacked into another format: a packed folder is served as it is. */
export function checkFormat(model: Model, format: FormatName): void {
  const { vocabulary, hidden } = model.config.shapes
  const stored = model.weights.tensor("model.embed_tokens.weight", vocabulary, hidden).format
  checkPacking(model, stored, format)
}

export function checkHeadFormat(head: Head, format: FormatName): void {
  const { wanted, weights } = head.own
  const { columns, sources } = wanted.find(({ columns }) => columns > 1)!
  const { tensor, rows } = sources[0]!
  checkPacking(head, weights.tensor(tensor, rows, columns).format, format)
}

function checkPacking(
  { path, format: packed }: Pick<Model, "path" | "format">,
  stored: ParameterFormat,
  format: FormatName,
): void {
  if (convertible(stored, parameterFormats(format).matrix)) return
  throw problem("option_invalid", {
    option: "--quantization",
    problem: `${path} is packed as ${packed} already; ${format} needs the original weights`,
  })
}

async function writeConfig(directory: string, config: object): Promise<void> {
  const text = `${JSON.stringify(config, undefined, 1)}\n`
  await writeFile(join(directory, "mlc-chat-config.json"), text)
}

/** Runs `write` on a folder beside `output` and renames it to `output`, or leaves nothing. */
async function writeAside(
  output: string,
  write: (directory: string) => Promise<void>,
): Promise<void> {
  const path = resolve(output)
  const entries = await readdir(path).catch(ignoreMissing)
  if (entries && entries.length > 0)
    throw problem("option_invalid", {
      option: "--output",
      problem: `${path} is there already and is not empty; name another folder or remove it`,
    })
  const prefix = join(dirname(path), `.${basename(path)}.partial-`)
  await mkdir(dirname(path), { recursive: true })
  await sweep(prefix)
  const aside = await mkdtemp(prefix)
  active.add(aside)
  try {
    await writeFile(join(aside, WRITER), `${hostname()} ${process.pid}`)
    await write(aside)
    await rm(join(aside, WRITER))
    await chmod(aside, 0o777 & ~process.umask())
    await rm(path, { recursive: true, force: true }) // empty, or not there
    await rename(aside, path)
  } finally {
    await rm(aside, { recursive: true, force: true })
    active.delete(aside)
  }
}

/** In a folder that is being written: on which machine, and by which process. */
const WRITER = ".writer"

/** Folders that this process is writing. */
const active = new Set<string>()

/** Takes away what killed processes of this machine left of the same output. A folder that says no such thing is not ours. */
async function sweep(prefix: string): Promise<void> {
  for (const name of await readdir(dirname(prefix))) {
    const left = join(dirname(prefix), name)
    if (!left.startsWith(prefix) || active.has(left)) continue
    const writer = await readFile(join(left, WRITER), "utf8").catch(() => "")
    const [host, pid] = writer.split(" ")
    if (host !== hostname() || !(Number(pid) > 0)) continue
    if (Number(pid) === process.pid || !isAlive(Number(pid)))
      await rm(left, { recursive: true, force: true })
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM"
  }
}

function ignoreMissing(error: NodeJS.ErrnoException): undefined {
  if (error.code !== "ENOENT") throw error
}

/** mlc-chat-config.json, with the fields that config.ts reads back. */
function chatConfig({ architecture, config, texts }: Model, format: FormatName): object {
  const { shapes, window } = config
  const { endTokens, beginToken, sampling } = texts
  return {
    version: "0.1.0",
    model_type: architecture,
    quantization: format,
    model_config: decoderFields(config),
    vocab_size: shapes.vocabulary,
    context_window_size: window === undefined ? shapes.context : -1,
    sliding_window_size: window ?? -1,
    prefill_chunk_size: Math.min(shapes.context, 2048),
    attention_sink_size: window === undefined ? -1 : config.sinks,
    tensor_parallel_shards: 1,
    pipeline_parallel_stages: 1,
    temperature: sampling.temperature ?? 1,
    presence_penalty: sampling.presencePenalty ?? 0,
    frequency_penalty: sampling.frequencyPenalty ?? 0,
    repetition_penalty: sampling.repetitionPenalty ?? 1,
    top_p: sampling.topP ?? 1,
    tokenizer_files: ["tokenizer.json", "tokenizer_config.json"],
    bos_token_id: beginToken ?? null,
    eos_token_id: endTokens,
    model_task: "chat",
  }
}

/** Of heads only what theirs says, in the same file. */
function headConfig(head: Head, format: FormatName): object {
  const { vocabulary, hidden } = head.config.shapes
  const fields =
    head.kind === "eagle"
      ? { ...decoderFields(head.config), bias: head.config.joinBias }
      : {
          medusa_num_heads: head.config.heads,
          medusa_num_layers: head.config.layers,
          hidden_size: hidden,
          vocab_size: vocabulary,
        }
  return {
    version: "0.1.0",
    model_type: head.kind,
    quantization: format,
    model_config: fields,
    vocab_size: vocabulary,
  }
}

function decoderFields(config: ModelConfig): object {
  const { shapes, rope } = config
  return {
    hidden_size: shapes.hidden,
    intermediate_size: shapes.intermediate,
    num_attention_heads: shapes.heads,
    num_hidden_layers: shapes.layers,
    num_key_value_heads: shapes.kvHeads,
    rms_norm_eps: config.epsilon,
    vocab_size: shapes.vocabulary,
    head_dim: shapes.headDim,
    hidden_act: "silu",
    tie_word_embeddings: config.tied,
    attention_bias: config.attentionBias,
    mlp_bias: config.mlpBias,
    rope_theta: rope.theta,
    position_embedding_base: rope.theta,
    rope_scaling: ropeScaling(rope),
    max_position_embeddings: shapes.context,
    max_window_layers: config.firstSliding,
    tensor_parallel_shards: 1,
  }
}

function ropeScaling({ scaling }: Rope): object | null {
  switch (scaling.kind) {
    case "none":
      return null
    case "linear":
      return { rope_type: "linear", factor: scaling.factor }
    case "llama3":
      return {
        rope_type: "llama3",
        factor: scaling.factor,
        low_freq_factor: scaling.low,
        high_freq_factor: scaling.high,
        original_max_position_embeddings: scaling.original,
      }
  }
}
