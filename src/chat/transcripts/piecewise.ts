// Recordings become transcripts by a decoder that attends to rows of an encoder, of one piece of a recording after the other (Moonshine).
// A reply goes on until the model ends it, or has said as much as it may; when something is said it does not tell.

import { problem } from "../../errors.ts"
import type { Caller } from "../../worker/lane.ts"
import type { ChatEngine } from "../admission.ts"
import type { TranscriptReply, TranscriptRequest, Transcripts } from "../conversation.ts"
import { Detokenizer } from "../detokenizer.ts"
import { MAX_AUDIO, MediaKeys, tooManyBytes } from "../media.ts"
import type { Tokenizer } from "../tokenizer.ts"
import type { PieceListener, Pieces } from "./acoustic.ts"
import { asked } from "./asked.ts"
import { type CountedUsage, replyOf, trimmed } from "./reply.ts"

export interface PieceWriterOptions {
  engine: ChatEngine
  tokenizer: Tokenizer
  listener: PieceListener
  /** The token that asks for the words of a piece. */
  begin: number
  /** Tokens that end a reply. */
  ends: ReadonlySet<number>
  /** Tokens of one, that which asks among them. */
  most: number
}

const RATE = 16_000

interface Writing {
  request: TranscriptRequest
  pieces: Pieces
  caller: Caller & { signal: AbortSignal }
  came: number
  usage: CountedUsage
}

export function createPieceWriter({
  engine,
  tokenizer,
  listener,
  begin,
  ends,
  most,
}: PieceWriterOptions): Transcripts {
  const keys = new MediaKeys()

  async function transcribe(
    request: TranscriptRequest,
    signal: AbortSignal,
    client = request.scope,
  ): Promise<TranscriptReply> {
    const came = performance.now()
    const { audio, field } = request
    assertPlain(request)
    if (audio.length > MAX_AUDIO) throw tooManyBytes(field, audio.length, "audio")
    const caller = { client, signal }
    const pieces = await listener.listen(audio, field, caller)
    const usage = { promptTokens: 0, cachedTokens: 0, completionTokens: 0 }
    const writing = { request, pieces, caller, came, usage }
    return {
      seconds: pieces.samples / RATE,
      language: undefined,
      events: replyOf(written(writing), usage),
      segments: [],
      words: [],
    }
  }

  /** Piece after piece, with a blank between two that say something. */
  async function* written(writing: Writing): AsyncGenerator<string> {
    let isBegun = false
    for (const number of writing.pieces.pieces.keys()) {
      let isFirst = true
      for await (const text of trimmed(said(writing, number))) {
        const isBehind = isFirst && isBegun
        yield isBehind ? ` ${text}` : text
        isFirst = false
        isBegun = true
      }
    }
  }

  async function* said(
    { request, pieces, caller, came, usage }: Writing,
    number: number,
  ): AsyncGenerator<string> {
    const { id, scope, field, sampling } = request
    const piece = pieces.pieces[number]!
    const rows = await piece.read(caller)
    const key = { hash: [pieces.hash, number].join(" "), rows: piece.rows }
    const tokens = asked(
      engine,
      {
        ...{ id, scope, client: caller.client, field, sampling },
        prompt: Int32Array.from([...new Int32Array(piece.rows), begin]), // rows stand in their place
        media: {
          at: Int32Array.from({ length: piece.rows }, (_, position) => position),
          keys: Int32Array.from(keys.of(key)),
          rows,
          sights: [{ at: piece.rows, from: 0, to: piece.rows - 1 }],
        },
        choices: 1,
        maxTokens: most - 1,
        waited: performance.now() - came,
        stopTokens: ends,
      },
      { usage, signal: caller.signal },
    )
    const text = new Detokenizer(tokenizer, true)
    for await (const { kind, token } of tokens) if (kind === "token") yield text.push(token)
    yield text.flush()
  }

  return { transcribe, close: async () => {} } // its engine is the model's
}

/** What a Whisper is told and tells, and this is not and does not. */
function assertPlain({ language, prompt, task, timed }: TranscriptRequest): void {
  if (task === "translate")
    throw refusal(
      "model",
      "This model translates nothing; POST /v1/audio/transcriptions writes down what is said.",
    )
  if (language !== undefined)
    throw refusal(
      "language",
      "language: the model was made for the one that it writes, and cannot be told another; leave it out.",
    )
  if (prompt !== undefined)
    throw refusal("prompt", "prompt: the model goes on from no text; leave it out.")
  if (timed)
    throw refusal(
      "response_format",
      "response_format: the model does not tell when something is said; ask for json or text.",
    )
}

const refusal = (field: string, words: string) =>
  problem("unsupported_value", { problem: words }, field)
