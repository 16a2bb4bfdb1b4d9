// How a model is to be served: what may be said of it, and what holds where nothing is said.

import type { FormatName as ToolFormat } from "../chat/formats/formats.ts"
import type { TargetName } from "../compiler/targets/targets.ts"
import type { Mode, Overrides } from "../engine/limits.ts"
import { createLog, type Log } from "../log.ts"
import type { DeviceRequest } from "../runtime/devices.ts"
import type { FormatName } from "../runtime/format.ts"
import { appDefaults, said } from "./defaults.ts"
import type { DraftingOptions } from "./drafting.ts"

export interface ModelOptions {
  /** A model folder or a GGUF file, by its path, by its name, or by that on the hub, which downloads it. */
  model: string
  /** Adapters, which change its weights one after the other, each by its path or its name. */
  lora?: readonly string[]
  /** Adapters of which requests choose one, or none, by the names that these are served under. */
  choices?: readonly NamedAdapter[]
  /** The GGUF file that a GGUF model sees with, by its path, or `none`; absent: the one that lies beside it. */
  mmproj?: string | undefined
  device?: DeviceRequest
  /** What to compile for; auto: the processor, or the interpreter where there is no C compiler. */
  target?: TargetName | "auto"
  /** A compiled library that must be used. */
  modelLib?: string | undefined
  /** Whether libraries in model folders are opened though another machine built them. */
  trustLibraries?: boolean
  /** The number format to serve in; absent: the folder's own. */
  quantization?: FormatName | undefined
  mode?: Mode
  overrides?: Overrides
  /** One more name for the model. */
  servedName?: string | undefined
  /** What proposes tokens; absent: `auto`. */
  drafting?: DraftingOptions
  /** How the model writes tool calls; absent: as its template shows. */
  toolFormat?: ToolFormat | undefined
  /** Whose sampling defaults: the API's, or the model folder's. */
  generationDefaults?: "api" | "model"
  /** Requests that may wait. */
  maxQueue?: number
  /** Milliseconds from a request's arrival to its end. */
  requestTimeout?: number | undefined
  /** Bytes that the shelf may hold: libraries and packed weights of all models. */
  shelfSize?: number
  log?: Log
  /** Told how many bytes of a download are here of how many. */
  onDownload?: (what: string, done: number, total: number) => void
  /** Told how far a long part of the start has come. */
  onProgress?: (what: string, done: number, total: number) => void
}

/** An adapter by its path or its name, and what requests call the model that it makes. */
export interface NamedAdapter {
  name: string
  adapter: string
}

/** All that has a default is there. */
export type ModelSettings = ModelOptions & Required<Pick<ModelOptions, Settled>>

type Settled = keyof typeof appDefaults | "overrides" | "trustLibraries" | "log" | "onProgress"

/** Milliseconds that a timer can wait; of 0 none is set, as if nothing were said. */
export function timeoutOf({ requestTimeout }: Pick<ModelOptions, "requestTimeout">) {
  return requestTimeout ? Math.min(Math.ceil(requestTimeout), 2 ** 31 - 1) : undefined
}

export function settingsOf(options: ModelOptions): ModelSettings {
  return {
    ...appDefaults,
    overrides: {},
    trustLibraries: false,
    onProgress: () => {},
    ...said(options),
    requestTimeout: timeoutOf(options),
    log: options.log ?? createLog("silent", false),
  }
}
