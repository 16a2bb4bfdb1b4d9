// What the HTTP room is given: options as plain values, and the models that requests can name, each with a service while it is
// loaded. Nothing here looks inside a model; whatever a client may learn about it is a value that the app hands over.

import type {
  Chat,
  Embeddings,
  PlainText,
  Rankings,
  SchemaChecks,
  Transcripts,
} from "../chat/conversation.ts"

/** Told when the first of some requests begins to be answered, and when the last of them is. */
export interface Activity {
  busy(): void
  idle(): void
}

export interface HttpOptions {
  /** The product's own, for /version and /openapi.json. */
  version: string
  /** What will be bound: an address, or a name of one; on loopback, only loopback's own names and `allowedHosts` are answered. */
  host: string
  allowedHosts: readonly string[]
  /** Absent: no cross-origin headers at all, so no web page may read the server. */
  cors: CorsOptions | undefined
  /** Every request but health checks must carry one of these; none: everybody is welcome. */
  apiKeys: readonly string[]
  /** More of them, a line each; it is read again when it changes. */
  apiKeyFile?: string | undefined
  /** Absent: plain HTTP. */
  tls?: TlsOptions | undefined
  dialect: "auto" | "native" | "openai"
  reasoning: "split" | "inline"
  /** How native streams list calls: `[f(x=1)]`, or the older list of strings, `['f(x=1)']`. */
  toolText: ToolText
  /** Bytes; undefined: the larger of 2 MiB (32 where a model sees, 40 where one hears) and 16 bytes for each token of the context. */
  maxBody: number | undefined
  /** Connections that are served at once; one more is answered 503. */
  maxConnections: number
  /** Whose names /metrics uses beside our own. */
  metricsCompat: "none" | "vllm"
  /** Whether /metrics asks for no key. */
  openMetrics: boolean
  timeouts: Timeouts
}

/** Files in PEM, read again when they change. */
export interface TlsOptions {
  cert: string
  key: string
}

export type ToolText = "plain" | "quoted"

export interface CorsOptions {
  credentials: boolean
  origins: readonly string[] // ["*"]: all
  methods: readonly string[]
  headers: readonly string[]
}

/** All in milliseconds. */
export interface Timeouts {
  header: number // from connecting to the last header
  body: number // from the headers to the body's last byte
  idle: number // between two requests of one connection
  write: number // a client that takes nothing for this long is cut
  keepAlive: number // silence in a stream before a sign of life is sent
}

export const defaultTimeouts: Timeouts = {
  header: 15_000,
  body: 60_000,
  idle: 75_000,
  write: 60_000,
  keepAlive: 15_000,
}

export const defaultHttpOptions: Omit<HttpOptions, "version"> = {
  host: "127.0.0.1",
  allowedHosts: [],
  cors: undefined,
  apiKeys: [],
  dialect: "auto",
  reasoning: "split",
  toolText: "plain",
  maxBody: undefined,
  maxConnections: 4096,
  metricsCompat: "none",
  openMetrics: false,
  timeouts: defaultTimeouts,
}

/** A model that requests can name, loaded or not. */
export interface ServedModel {
  card: ModelCard
  /** Absent: it is not loaded now. */
  readonly loaded: Service | undefined
  /** When it is unloaded if nobody asks for it, in unix milliseconds; undefined: not for that. */
  readonly unloadsAt?: number | undefined
  /**
   * Loads it if it is not loaded. It stays so until the lease is released.
   * @throws why it cannot be loaded, or that too many wait for models already; the signal's reason when it fires first
   */
  lease(signal: AbortSignal): Promise<Lease>
}

export interface Lease {
  service: Service
  release: () => void
}

/** A loaded model, ready to answer. */
export interface Service {
  chat: Chat & PlainText & Embeddings & Rankings & SchemaChecks
  model: ModelCard
  fingerprint: string // fp_…: of all that decides a text beside its request
  /** What the request leaves open; fields that are absent here are the API's own defaults. */
  defaults: SamplingDefaults
  /** Numbers of the rooms below for /metrics, read at each scrape. */
  samples?: () => readonly Sample[]
  /** Of a model that writes down what it hears, and nothing else. */
  transcripts?: Transcripts
}

export interface ModelCard {
  /** The names it answers to, all listed: the model as it was typed, its folder's name, names given to it. */
  names: readonly string[]
  /** Of an adapter's, the model that it changes. */
  parent?: string
  created: number // unix seconds
  /** What can be asked of it: chat, completion, tools, json_schema, logprobs, embedding, rerank, thinking, insert. */
  capabilities: readonly string[]
  /** Whether it takes images, and recordings. */
  sees: boolean
  hears: boolean
  /** It writes down what it hears, and nothing else. */
  onlyTranscribes?: boolean
  /** How one that hears is asked for a transcript, where that is known of it. */
  transcription?: TranscriptStyle | undefined
  contextLength: number // tokens, prompt and reply together
  vocabularySize: number
  /** What writes its conversations, in Jinja; a model without one talks to nobody. */
  template?: string | undefined
  /** Shown in the model list as they are: format, device, parameters, … */
  details: Readonly<Record<string, string | number | boolean>>
}

/** In words behind the recording; or by what its reply begins with, where it was taught so. */
export type TranscriptStyle = string | OpenedTranscript

export interface OpenedTranscript {
  /** Its names of the languages that it knows, by their codes; absent: the codes are their names, of two letters. */
  languages?: Readonly<Record<string, string>>
  /** What the reply begins with. @param language in its own name; absent: it finds that out */
  opening: (language?: string) => string | undefined
  /** What it says before this is the language that it has found, and no part of the transcript. */
  header?: string
  /** What a text to follow is: the system's message; absent: it was taught none. */
  context?: "system"
}

export interface SamplingDefaults {
  temperature?: number
  topP?: number
  topK?: number
  minP?: number
  repetitionPenalty?: number
  presencePenalty?: number
  frequencyPenalty?: number
}

/** A number for /metrics. Names that end in _total are counters and only rise; all others are gauges. */
export interface Sample {
  name: string // sinter_…
  help: string
  /** What tells those of one name apart; they stand one after the other. */
  labels?: Readonly<Record<string, string>>
  value: number
}
