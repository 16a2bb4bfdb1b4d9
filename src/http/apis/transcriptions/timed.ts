// A transcript with times, in the forms that have some: JSON with its segments, and two of subtitles, as OpenAI's whisper writes them
// (whisper/utils.py).

import type {
  ReplyEvent,
  TranscriptReply,
  TranscriptSegment,
  TranscriptWord,
} from "../../../chat/conversation.ts"
import { joined } from "../collected.ts"
import { endOf } from "../parts.ts"
import { textOf, usageOf } from "./reply.ts"

export type TimedFormat = "verbose_json" | "srt" | "vtt"

export const isTimed = (format: string | null | undefined): format is TimedFormat =>
  format === "verbose_json" || format === "srt" || format === "vtt"

/** What times are told of. */
type Granularity = "word" | "segment"

/** The pieces of a whole one. Throws the problem of a reply that fails. */
export async function* verboseTranscript(
  events: AsyncIterable<ReplyEvent>,
  { seconds, language, segments, words }: TranscriptReply,
  task: string,
  granularities: readonly Granularity[] = ["segment"],
): AsyncGenerator<string, void, undefined> {
  const end = await endOf(events)
  const told = { task, language, duration: seconds, text: textOf(end) }
  yield JSON.stringify(told).slice(0, -1)
  if (granularities.includes("word")) {
    yield ',"words":['
    yield* joined(words, (word) => JSON.stringify(wordJson(word)))
    yield "]"
  }
  if (granularities.includes("segment")) {
    yield ',"segments":['
    yield* joined(segments.entries(), ([id, segment]) => JSON.stringify(segmentJson(segment, id)))
    yield "]"
  }
  yield `,"usage":${JSON.stringify(usageOf(end.usage, { ...NOTHING, seconds }))}}`
}

const wordJson = ({ text: word, start, end }: TranscriptWord) => ({ word, start, end })

const NOTHING = { names: undefined as never, logprobs: false, heard: 0 }

function segmentJson(segment: TranscriptSegment, id: number) {
  const { seek, start, end, text, tokens, temperature } = segment
  return {
    ...{ id, seek, start, end, text, tokens, temperature },
    avg_logprob: segment.averageLogprob,
    compression_ratio: segment.compressionRatio,
    no_speech_prob: segment.noSpeech,
  }
}

/** The same as subtitles. */
export async function subtitles(
  events: AsyncIterable<ReplyEvent>,
  { segments }: TranscriptReply,
  format: "srt" | "vtt",
): Promise<string> {
  await endOf(events)
  const cue = ({ start, end, text }: TranscriptSegment, number: number) => {
    const words = text.trim().replaceAll("-->", "->") // which is a mark of theirs
    const time = `${clock(start, format)} --> ${clock(end, format)}\n${words}\n\n`
    return format === "srt" ? `${number + 1}\n${time}` : time
  }
  const shown = segments.filter(({ text }) => text.trim() !== "")
  return (format === "vtt" ? "WEBVTT\n\n" : "") + shown.map(cue).join("")
}

/** "00:01:02.340", and with a comma in srt */
function clock(seconds: number, format: "srt" | "vtt"): string {
  const all = Math.round(seconds * 1000)
  const two = (value: number) => String(Math.floor(value) % 60).padStart(2, "0")
  const hours = String(Math.floor(all / 3_600_000)).padStart(2, "0")
  const rest = String(all % 1000).padStart(3, "0")
  return `${hours}:${two(all / 60_000)}:${two(all / 1000)}${format === "srt" ? "," : "."}${rest}`
}
