// The configuration of an MLC folder: its own fields, and what they say of the model in the words of a config.json.

import { type FormatName, formatNames, isFormatName } from "../runtime/format.ts"
import { Fields } from "./fields.ts"
import type { Folder, Json } from "./folder.ts"

/** The file that MLC-LLM describes a compiled model with. */
export const MLC = "mlc-chat-config.json"

export interface MlcConfig {
  /** As they stand in the file. */
  chat: Fields
  /** The model's, under transformers' names. */
  fields: Fields
  format: FormatName
}

/** Rejects with `model_broken`, naming the field, when the number format is not known. */
export async function readMlcConfig(folder: Folder): Promise<MlcConfig> {
  const broken = (what: string) => folder.broken(MLC, what)
  const chat = new Fields(await folder.json(MLC), broken)
  const format = chat.text("quantization")
  if (!isFormatName(format))
    throw chat.wrong("quantization", `is "${format}"; known: ${formatNames.join(", ")}`)
  return { chat, fields: new Fields(fromMlc(chat), broken), format }
}

const FAR = 32768 // an MLC folder with a sliding window may say no context at all

/** An mlc-chat-config.json in the words of a config.json. */
export function fromMlc(chat: Fields): Json {
  const model = chat.object("model_config")
  if (!model) throw chat.wrong("model_config", "is missing")
  /** MLC writes -1 for what is off. */
  const above = (name: string) => (Number(chat.json[name]) > 0 ? chat.json[name] : undefined)
  const window = above("sliding_window_size")
  return {
    ...model.json,
    model_type: chat.json.model_type,
    vocab_size: chat.json.vocab_size ?? model.json.vocab_size,
    rope_theta: model.json.rope_theta ?? model.json.position_embedding_base,
    max_position_embeddings:
      above("context_window_size") ?? model.json.max_position_embeddings ?? (window && FAR),
    sliding_window: window ?? model.json.sliding_window ?? null,
    use_sliding_window: model.json.use_sliding_window ?? window !== undefined,
    max_window_layers: model.json.max_window_layers ?? 0,
    attention_sink_size: above("attention_sink_size") ?? 0,
  }
}
