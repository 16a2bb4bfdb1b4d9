// What http hands to chat and what it gets back: a conversation in our own types, and one stream of events. Whole
// answers are that stream collected, so both are one code path; a dialect only shapes these events into JSON.

import type { SamplingParams } from "../engine/generation.ts"
import type { Problem } from "../errors.ts"
import type { Language } from "../grammar/grammar.ts"
import type { Caller } from "../worker/lane.ts"

/** What the http room calls. */
export interface Chat {
  /**
   * Admits a chat or rejects with the Problem that refuses it. The signal ends it, whether it waits or runs.
   * @param client who shares turns with its other requests; absent: everybody of its scope
   */
  reply(request: ChatRequest, signal: AbortSignal, client?: string): Promise<ChatReply>
}

/** Text and tokens without roles: what /v1/completions, /tokenize and /detokenize call. The same room implements both. */
export interface PlainText {
  /** Admits the continuation of a prompt, as `reply` admits a chat. Its events are content, finish and usage. */
  complete(request: CompletionRequest, signal: AbortSignal, client?: string): Promise<ChatReply>
  /** A text's tokens. */
  tokenize(text: string, how: Tokenizing, caller?: Caller): Promise<Int32Array>
  /** The tokens of a conversation, as `reply` would hand them to the engine. */
  tokenizeChat(request: ConversationRequest, caller?: Caller): Promise<Int32Array>
  /** The text of tokens, piece by piece, control tokens included; U+FFFD where bytes are no text. */
  detokenize(tokens: Int32Array): Iterable<string>
}

export interface Tokenizing {
  /** Whether the names of control tokens in the text become those tokens, else they stay text. */
  control: boolean
  /** Whether the tokens stand before it with which the tokenizer begins what is completed. */
  isBegun: boolean
}

/** What the endpoints that embed call. The same room implements it, too. */
export interface Embeddings {
  /** Admits texts as `reply` admits a chat, and resolves when all of them have been read. */
  embed(request: EmbeddingRequest, signal: AbortSignal, client?: string): Promise<Embedded>
}

export interface EmbeddingRequest {
  id: string
  /** Each a text, which the tokenizer's own begin and end tokens are put around, or tokens as they are. */
  texts: readonly (string | Int32Array)[]
  /** What the client calls them, for refusals. */
  field: string
  /** A text that is too long is cut instead of refused. */
  truncate: boolean
  /** How many of the first numbers are kept, at unit length again; undefined: all. */
  dimensions: number | undefined
  /** Which of the prompts of the model's folder stands before each text; undefined: none. */
  promptName?: string | undefined
  scope: string
}

export interface Embedded {
  /** One of unit length for each text. */
  vectors: readonly Float64Array[]
  /** Of all texts. */
  tokens: number
}

/** What POST /v1/rerank calls. The same room implements it, too. */
export interface Rankings {
  /** Admits pairs as `embed` admits texts, and resolves when all of them have been read. */
  rank(request: RankingRequest, signal: AbortSignal, client?: string): Promise<Ranked>
}

export interface RankingRequest {
  id: string
  query: string
  documents: readonly string[]
  scope: string
}

export interface Ranked {
  /** How well each document answers the query, from 0 to 1. */
  scores: readonly number[]
  /** Of all pairs. */
  tokens: number
}

/** What POST /v1/schema/check calls. The same room implements it, too. */
export interface SchemaChecks {
  /** Whether answers can be held to it, before anything is generated. What it compiles is ready for requests. */
  checkSchema(asked: ResponseFormat | Tool, caller?: Caller): Promise<SchemaVerdict>
}

/** What POST /v1/audio/transcriptions and its kin call where a model was made for that and writes nothing else (Whisper). */
export interface Transcripts {
  /** Admits a recording, finds its language, and resolves before the first window has been written down. */
  transcribe(
    request: TranscriptRequest,
    signal: AbortSignal,
    client?: string,
  ): Promise<TranscriptReply>
  /** Whoever waits for words is told `server_closing`. */
  close(): Promise<void>
}

export interface TranscriptRequest {
  id: string
  /** An audio file's bytes. */
  audio: Uint8Array
  /** What the client calls it, for refusals. */
  field: string
  /** translate: into English. */
  task: "transcribe" | "translate"
  /** A code, or a name in English; undefined: it is found out. */
  language: string | undefined
  /** What was said before, or whose style is to be followed. */
  prompt: string | undefined
  /** Whether segments with times are told; what a longer recording than a window has is always. */
  timed: boolean
  /** Whether it is told when each word is said. Then it is timed. */
  worded: boolean
  /** Whether its text is told as it comes: then one window is not tried again. Longer ones are told window by window. */
  streamed: boolean
  /** Whether segments tell how likely it is that nobody speaks, which takes a step of each window. */
  judged: boolean
  sampling: SamplingParams
  scope: string
}

export interface TranscriptReply {
  /** Of the recording. */
  seconds: number
  /** Its name in English; undefined: the model does not say. */
  language: string | undefined
  /** Of one choice: content, finish and usage. */
  events: AsyncIterable<ReplyEvent>
  /** Those whose text has been told; none where they were not asked for and all of it is one window. */
  segments: readonly TranscriptSegment[]
  /** Of these segments, where they were asked for. */
  words: readonly TranscriptWord[]
}

export interface TranscriptWord {
  /** With the punctuation that belongs to it, and without blanks around it. */
  text: string
  start: number // seconds
  end: number
}

export interface TranscriptSegment {
  start: number // seconds
  end: number
  text: string
  /** Times included. */
  tokens: readonly number[]
  /** Where its window begins, in hundredths of a second. */
  seek: number
  temperature: number
  /** Of its window's tokens, the end included, among those that might have come. */
  averageLogprob: number
  /** How many times as long its window's text is as what zlib makes of it. */
  compressionRatio: number
  /** How likely it is that nobody speaks in its window; 0 where that was not asked. */
  noSpeech: number
}

export interface SchemaVerdict {
  /** No value satisfies the schema. */
  isUnsatisfiable: boolean
  /** What cannot be enforced; empty: all of it can. `pointer` is a JSON pointer into the schema. */
  unenforced: readonly { pointer: string; keyword: string; reason: string }[]
}

export interface CompletionRequest {
  id: string
  prompt: string | Int32Array // a text is encoded with control tokens off; ids are below the vocabulary's size
  /** The reply is what stands between the prompt and this; absent: nothing follows. */
  suffix?: string
  choices: number
  maxTokens: number | undefined // 0: the prompt is only read
  /** Whether every choice begins with the prompt: its text, and its log probabilities where they are wanted. */
  echo: boolean
  stop: readonly string[]
  /** Tokens that end the reply as well. */
  stopTokens?: readonly number[]
  /** The reply does not end of itself, nor at a stop, before it has so many tokens. */
  minTokens?: number
  ignoreEos: boolean
  sampling: SamplingParams
  /** Whether events list the tokens of the reply, be their log probabilities wanted or not. */
  tellsTokens?: boolean
  /** Absent: any text. */
  format?: ResponseFormat
  scope: string
}

export interface ChatRequest {
  id: string // of the request, for logs and traces
  messages: readonly ChatMessage[]
  choices: number
  maxTokens: number | undefined
  stop: readonly string[]
  /** Tokens that end the reply as well. */
  stopTokens?: readonly number[]
  /** The reply does not end of itself, nor at a stop, before it has so many tokens. */
  minTokens?: number
  ignoreEos: boolean
  sampling: SamplingParams
  /** Whether events list the tokens of the reply, be their log probabilities wanted or not. */
  tellsTokens?: boolean
  /** Extra variables for the model's template (`chat_template_kwargs`). */
  templateArguments: Readonly<Record<string, unknown>>
  /** Absent or empty: the model is told of none. */
  tools?: readonly Tool[]
  /** Absent: `auto` over all tools. */
  toolChoice?: ToolChoice
  /** False: the reply ends with its first call. */
  parallelToolCalls?: boolean
  /** Absent: any text. An answer that is a call is held to its tool instead. */
  format?: ResponseFormat
  /** What the reply begins with and does not say, in the template's own characters, so that marks in it count. */
  opening?: string
  /** "split" moves the model's thinking out of the content; "inline" leaves it in the text. */
  reasoning: "split" | "inline"
  scope: string
}

/** What of a chat becomes its prompt. */
export type ConversationRequest = Pick<
  ChatRequest,
  "messages" | "templateArguments" | "tools" | "toolChoice" | "opening"
>

export interface Tool {
  name: string
  /** The whole definition as the client wrote it, for the model's template; floats that are whole as `Object(1)`. */
  definition: unknown
  /** JSON Schema of the arguments; undefined: any object. */
  parameters: unknown
  /** A free-form tool's: what its one argument, the text `input`, is held to where that can be kept to. */
  input?: Language
  /** Where the request has them, for refusals. */
  field?: string
  /** What of the schema cannot be enforced is refused instead of left out. */
  strict: boolean
}

/** What the whole answer is. */
export type ResponseFormat = SchemaFormat | LanguageFormat

/** One JSON value. */
export interface SchemaFormat {
  /** undefined: any object. */
  schema: unknown
  /** Where the request has it, for refusals. */
  field?: string
}

/** A text of a language. */
export interface LanguageFormat {
  language: Language
  /** Where the request has it, for refusals. */
  field: string
}

/** `names` are those that may be called; the model still sees all tools. `none` hides them. */
export type ToolChoice = { mode: "none" } | { mode: "auto" | "required"; names: readonly string[] }

export interface ChatMessage {
  role: "system" | "user" | "assistant" | "tool"
  content: string | null
  /** Of users and tools, where images or recordings stand among the texts: all in order. `content` has the texts alone, then. */
  parts?: readonly MessagePart[]
  reasoning?: string // of assistants: thinking they showed, for templates that ask for it
  name?: string
  toolCalls?: readonly ToolCall[] // of assistants
  isWhole?: true // of assistants: a reply that comes last is not gone on with
  toolCallId?: string // of tools
}

export type MessagePart = { text: string } | ImagePart | AudioPart

/** What a message may hold beside texts. */
export type MediumKind = "image" | "audio"

export interface ImagePart {
  /** An image file's bytes. */
  image: Uint8Array
  /** Where the request has it, for refusals. */
  field?: string
}

export interface AudioPart {
  /** An audio file's bytes. */
  audio: Uint8Array
  field?: string
}

export interface ToolCall {
  id: string
  name: string
  arguments: string // JSON text of an object
}

/** An admitted chat: whatever could be refused has been refused before this exists. */
export interface ChatReply {
  readonly promptTokens: number
  /** What it goes on from. */
  readonly prompt: Int32Array
  /** What of the tools' schemas is not enforced: `name#/pointer/keyword`. */
  readonly unenforced?: readonly string[]
  /** How many images and recordings there are in its prompt. */
  readonly media?: Readonly<Record<MediumKind, number>>
  /** How many of its prompt's tokens stand for rows of those. */
  readonly mediaTokens?: number
  /** Milliseconds from its arrival until the engine had it: its texts are encoded, schemas compiled, images looked at. */
  readonly prepared?: number
  /** Milliseconds that it waited for its first step; undefined while it waits. */
  readonly queued?: number | undefined
  /** Events of all choices in the order in which they happen. Leaving the loop cancels the generation. */
  readonly events: AsyncIterable<ReplyEvent>
  /** What the tokens of its log probabilities are called. */
  readonly names: TokenNames
}

export type ReplyEvent =
  /** What a choice begins with, where the prompt is echoed. The list is one for all choices, and made as it is read. */
  | { kind: "prompt"; choice: number; text: string; logprobs: Iterable<TokenLogprob> }
  | { kind: "content"; choice: number; text: string; logprobs: readonly TokenLogprob[] }
  | { kind: "reasoning"; choice: number; text: string; logprobs: readonly TokenLogprob[] }
  /** A call begins; its arguments follow, JSON text of an object in pieces. `index` counts the choice's calls. */
  | { kind: "call"; choice: number; index: number; id: string; name: string }
  | { kind: "arguments"; choice: number; index: number; text: string }
  /** The reason `error` without a problem: what was to be a call cannot be read; its text was sent as content. */
  /** `stop` is the stop string that ended it, `token` the token that did, where no list has told it. */
  | {
      kind: "finish"
      choice: number
      reason: FinishReason
      problem?: Problem
      stop?: string
      token?: number
    }
  | { kind: "usage"; usage: Usage } // last, once

export type FinishReason = "stop" | "length" | "tool_calls" | "error"

/**
 * One token, in the place where it was generated. Where log probabilities or tokens were asked for, every token that `usage`
 * counts is told once; the lists are empty otherwise.
 */
export interface TokenLogprob {
  token: number // `TokenNames` says what it is called
  /** Whether any of its bytes stand in the text that it is told with: not of markers, calls and control tokens. */
  shows: boolean
  offset: number // where its text begins in the reply's, markers and thinking included, in code points
  logprob: number | undefined // undefined: of a prompt's first token, which nothing comes before
  top: readonly { token: number; logprob: number }[] // best first
}

export interface TokenNames {
  /** Its text, a control token's name included; U+FFFD where its bytes alone are no text. */
  text(token: number): string
  /** The same in bytes, as they are. */
  bytes(token: number): Uint8Array
  /** Whether it is a control token, which shows as nothing. */
  isSilent(token: number): boolean
}

export interface Usage {
  promptTokens: number
  cachedTokens: number
  completionTokens: number
  reasoningTokens: number
}
