// docs/api.md and docs/errors.md, printed from the tables that the server runs on. Words that no table holds (how the
// dialects differ, which headers mean what) stand here once.

import type { TSchema } from "typebox"
import { MAX_AUDIO, MAX_IMAGE } from "../chat/media.ts"
import { errors } from "../errors.ts"
import { CLIENTS } from "./apis/chat/dialects/choose.ts"
import { ChatCompletionMessage } from "./apis/chat/schema.ts"
import { MAX_STOP_LENGTH } from "./apis/fields.ts"
import { MAX_LOGPROBS, MAX_LOGPROBS_AT_ONCE } from "./apis/logprob-budget.ts"
import { unsupported } from "./apis/refusals.ts"
import { INSTRUCTION, moreOf } from "./apis/transcriptions/request.ts"
import { describe } from "./check.ts"
import { MAX_FORM_TEXT, MAX_PARTS } from "./form.ts"
import { HEADERS } from "./headers.ts"
import { MAX_DEPTH, MAX_DIGITS, MAX_MEMBERS, MAX_VALUES } from "./json.ts"
import { exampleOf } from "./openapi.ts"
import type { Route } from "./route.ts"
import { routes } from "./routes.ts"
import { defaultHttpOptions, defaultTimeouts } from "./service.ts"

export function apiPage(): string {
  return `# The API

Printed from \`src/http\` by \`npm run docs\`. A running server shows the same at \`/docs\`, where every request can be tried,
and at \`/openapi.json\`.

![The page at /docs, with a reply](docs-page.png)

${table(
  ["Endpoint", "What it gives"],
  routes.map(({ method, path, summary }) => [`\`${method} ${path}\``, summary]),
)}

Everything under \`/v1\` is served under \`/openai/v1\` as well. HEAD goes wherever GET goes; another method is 405 with
\`Allow\`, and a WebSocket 426, upon which Codex asks over HTTP at once. Bodies are JSON in UTF-8. What a browser sends must be called so (\`Content-Type: application/json\`), so that no web
page can post one without the browser asking first; of other clients it is taken for JSON whatever it is called.
The body of [a transcription](#transcriptions) alone is a form. Nothing is coerced, clamped or dropped: a field out of range or of the wrong type is 400 with its
name in \`error.param\`. Fields nobody knows are ignored and listed in \`x-ignored-fields\`. Null means absent. Integers beyond
2^53 are read from the text, digit by digit.

## Two dialects

One server speaks two forms of the API; only the last step, from events to JSON, differs.

${table(["", "`native`", "`openai`"], DIALECTS)}

Which one a request gets, first match wins:

1. a path under \`/openai/v1\`: \`openai\`;
2. the request header \`x-api-dialect\`: what it says;
3. the server option \`--api-dialect\`, unless it is \`auto\`;
4. \`openai\` when the client is a kit or a page made for OpenAI's API (header \`x-stainless-lang\`, or a user agent with
   ${CLIENTS.map((name) => `\`${name}\``).join(", ")}), sends an \`Authorization\` header, which the specification does not know,
   or uses in the body what only that contract has (\`stream_options\`, \`max_completion_tokens\`, \`parallel_tool_calls\`,
   \`tools[].function.strict\`, \`response_format.json_schema\`, earlier calls whose arguments are a string);
5. else \`native\`.

The answer's \`x-api-dialect\` header says which it was.

In an earlier message of the assistant the textual list is left out where \`tool_calls\` beside it say the same: the deltas of a
\`native\` stream can be joined and sent back as they are.

${routes
  .filter(({ body }) => body)
  .map(requestSection)
  .join("\n\n")}

## Messages

${fieldsTable(ChatCompletionMessage)}

Maps with a \`text\` are joined. A tool's list of maps of strings of which one says more than a text, or of maps without any
\`text\`, reaches the model's template as its JSON. [Images](#images) are 400 where the model does not see, and [recordings](#audio) where it does not hear. Arguments of
earlier calls may be a map or a string that holds one.

## Images

A model that sees has \`vision\` among the \`capabilities\` that \`GET /v1/models\` lists. It takes images in messages of the user and in
results of tools, as PNG, JPEG, WebP or GIF of at most ${MAX_IMAGE / 2 ** 20} MiB:

| API | An image is |
|---|---|
| \`/v1/chat/completions\`, \`/tokenize\` | a part of a \`content\`: \`{"type": "image_url", "image_url": {"url": "data:image/png;base64,…"}}\`, or with the URL itself as \`image_url\` |
| \`/v1/responses\` | a part of a message or of an output: \`{"type": "input_image", "image_url": "data:…"}\`; no \`file_id\`, as no files are kept |
| \`/v1/messages\` | a block of a message or of a \`tool_result\`: \`{"type": "image", "source": {"type": "base64", "media_type": …, "data": …}}\`, or \`{"type": "url", "url": "data:…"}\` |
| \`/api/chat\`, \`/api/generate\` | an entry of \`images\`, in Base64, ahead of the text |

- This server connects to nobody on a request's behalf: an \`http\` or \`https\` address is 400.
- Base64 is that of RFC 4648 with its padding, without line breaks. What a file is shows in its bytes; what its client calls it does not count,
  and \`detail\` has no effect: an image is prepared as the model's own files say.
- An image stands where it is sent, among the texts before and behind it. Its rows count as tokens of the prompt; \`/tokenize\` and the
  other counts tell them, too, by the id of the token that stands for each in the prompt. So images are bounded by the context, and a
  prompt that is too long is refused before the model looks at any of them.
- A prompt that begins with the same images finds them in the prefix cache.
- A text that spells what a template writes for an image is a text like any other.

## Audio

A model that hears has \`audio\` among its \`capabilities\`. It takes recordings where another takes images, as WAV, MP3, FLAC, Ogg, WebM, MP4 (M4A) or AAC of at most
${MAX_AUDIO / 2 ** 20} MiB ([how they are prepared](audio.md)):

| API | A recording is |
|---|---|
| \`/v1/chat/completions\`, \`/tokenize\` | a part of a \`content\`: \`{"type": "input_audio", "input_audio": {"data": "…", "format": "wav"}}\`, in Base64; or \`{"type": "audio_url", "audio_url": {"url": "data:audio/wav;base64,…"}}\` |
| \`/v1/responses\` | a part of a message or of an output: \`{"type": "input_audio", "input_audio": {"data": …, "format": …}}\` |

What holds for images holds for recordings: what a file is shows in its bytes, whatever \`format\` says; rows count as tokens, are known to the prefix
cache, and are bounded by the context. The model answers in text: \`modalities\` with \`audio\` is 400.

## Transcriptions

\`POST /v1/audio/transcriptions\` asks a model that hears what is said in a recording. The body is a form (\`multipart/form-data\`), as
OpenAI's clients and \`curl -F\` send it. It is a chat of one message, in which the recording comes first and then, as text, what the
model's own \`processor_config.json\` has as \`default_transcription_prompt\`. Audio Flamingo 3 and GLM-ASR have words of their own without it, too;
any other model is asked

> ${INSTRUCTION}

With a \`language\` and a \`prompt\` there stands behind it

> ${moreOf({ language: "en", prompt: "PROMPT" }).join(" ")}

A [Whisper](audio.md#whisper) was made for this and nothing else, and answers as OpenAI's \`whisper-1\`: told below; so does a [Parakeet](audio.md#parakeet), and, without times, a [Moonshine](audio.md#moonshine). Two families were taught a form of their own, and are asked by it, with no words at all:

- Qwen3-ASR: \`prompt\` is the system's message, and with a \`language\` the reply begins with \`language English<asr_text>\`, which is no part
  of the answer. Without one the model says so itself, which is left out. It knows 30 languages; another is 400.
- Voxtral: behind the recording stands \`[TRANSCRIBE]\`, with a \`language\` of two letters after \`lang:en\`. It was taught no \`prompt\`, which
  is 400.

- The answer is what the model writes, word for word, without its thinking: one that answers instead of transcribing is the wrong model, or needs
  a chat with other words. A recording that is longer than the model hears is refused ([how long that is](audio.md#how-it-is-prepared)), and
  a transcript ends where the context does.
- A stream has the events \`transcript.text.delta\` and one \`transcript.text.done\`, and ends with \`[DONE]\`.
- Models tell no speakers, and only Whisper and Parakeet tell times, so what asks for those is [refused](#known-and-refused), as is \`chunking_strategy\`.
- A Whisper's \`response_format\` may be \`verbose_json\`, with \`segments\`, [\`words\`](audio.md#when-each-word-is-said), \`language\` and \`duration\`, or \`srt\` or \`vtt\`, and its \`language\` a name in English, too;
  without one it is found. Its \`prompt\` is what was said before. \`usage\` has the recording's seconds. \`include\` is refused, and so are times in a stream, which
  has a delta for each segment where the recording is longer than 30 seconds. \`POST /v1/audio/translations\` takes the same but for \`language\`, \`stream\` and
  \`timestamp_granularities\`, and answers in English; of other models it is refused.
- A Parakeet's \`response_format\` may be any of these, too. It takes no \`language\`, no \`prompt\` and no \`temperature\` above 0, and translates nothing. A stream has a delta
  for each token.
- A Moonshine's \`response_format\` is \`json\` or \`text\`, and it takes no \`language\` and no \`prompt\`. A stream has a delta for each token.
- A field's text is what its type says: \`0.5\`, \`true\`; an empty one is absent. Lists are parts of one name, with or without \`[]\`.
- A web page may send one from this server's own origin, or from one that may post by the [options of CORS](#who-may-call); any other is 403.

## Embeddings

\`POST /v1/embeddings\` turns texts into rows of unit length. A folder in the form of sentence-transformers (\`modules.json\`) says which of
a text's rows are taken (their mean, the first, the last) and which matrices they go through; of other models it is the last token's
row. Texts are embedded as they are, unless \`prompt_name\` names one of the prompts of the model's folder
(\`config_sentence_transformers.json\`), which then stands before each of them. A text that is too long is
refused, and on Ollama's \`/api/embed\` cut unless \`truncate\` is false. A folder with a \`modules.json\` is served for this alone: it writes
no text, and need hold no head.

\`POST /v1/rerank\` says how well each of some documents answers a query, as Jina's, vLLM's and llama.cpp's do. It takes a cross-encoder:
\`BertForSequenceClassification\`, or that of XLM-RoBERTa, RoBERTa, CamemBERT, MPNet, ELECTRA, DistilBERT, DeBERTa 2 and 3 or ModernBERT, with one label, whose number
becomes one from 0 to 1 (sigmoid).
Such a model is served for this alone. A pair that is longer than the model reads is refused. \`/rerank\` and \`/v2/rerank\`, where clients
of vLLM and Cohere's own ask, are the same.

## Responses

\`POST /v1/responses\` takes a conversation in items and answers in items.

- A response is kept in memory for an hour, unless \`store\` is false: 192 MiB in all at most, a third of it for one key, oldest out first.
  \`GET\` and \`DELETE /v1/responses/{id}\` show and forget it, \`/v1/responses/{id}/input_items\` tells what it was asked, in pages
  (\`limit\`, \`order\`, \`after\`), and
  \`previous_response_id\` goes on from it. One that is no longer kept is 400 and never passed over.
- Tools are functions, free-form tools (\`custom\`) and those of a \`namespace\`. A free-form tool's \`regex\` and its Lark
  grammar are enforced; a grammar that cannot be kept to is shown to the model alone and listed in \`x-unenforced\`. Of the tools that OpenAI runs, \`web_search\`,
  \`tool_search\`, \`image_generation\` and \`local_shell\` beside others are left out, and \`x-ignored-tools\` lists them; alone they
  are refused, and all others always.
- Every event has its name, \`sequence_number\` and the indexes of what it is about; the last one, \`response.completed\`,
  \`response.incomplete\` or \`response.failed\`, has the whole response. There is no \`[DONE]\`. A long silence between items is broken by \`response.in_progress\`.
- A streamed prompt that is too long is told within the stream, as \`response.failed\` with \`context_length_exceeded\`.
- An answer at the end of the input is gone on with where its status is \`in_progress\` or \`incomplete\`; else a new one begins.
- \`instructions\` and what a developer says ahead of all others are one message of the system. A \`function_call\` that the end of a
  reply cut off may come back: the model reads it without arguments.
- Thinking is a \`reasoning\` item. \`reasoning.summary\` repeats it as a summary, and \`encrypted_content\` in \`include\` adds it in a
  form that clients hand back.
- \`background\`, \`conversation\` and \`prompt\` are refused, and so are fields of chat completions that have another name here
  (\`messages\`, \`max_tokens\`, \`response_format\`, \`reasoning_effort\`).
- Log probabilities are told of texts, not of thinking nor of calls.

## Anthropic's clients

\`POST /v1/messages\` and \`/v1/messages/count_tokens\` speak Anthropic's API: give its clients the address without \`/v1\`.

- Keys come as \`x-api-key\` or as a bearer token; any \`anthropic-version\` and \`anthropic-beta\` will do. Errors are
  \`{"type":"error","error":{"type","message"}}\`, also of paths below that this server does not have.
- \`max_tokens\` is a bound and not a demand: it may be larger than the context.
- Blocks of text are joined. Thinking comes first, in a block of its own. Server tools (\`web_search_…\` and the like) beside others
  are left out, and \`x-ignored-tools\` lists them; alone they are refused.
  Documents that are text, and results of a search, are read as their title and their text; other documents are refused.
- A first line \`x-anthropic-billing-header:\` of a system text is left out: it differs in each request of Claude Code, and no prefix
  would be found again.
- \`count_tokens\` counts what the prompt of the same body has.
- No thread is kept: \`thread\` of the type \`continue\` is 404 with the code \`thread_not_found\`, and the clients' tool runners
  and threads then send the whole conversation by themselves.

## Ollama's clients

Paths under \`/api\` speak Ollama's API, at the level that \`/api/version\` tells. Its clients look for a server on port 11434:
\`sinter serve MODEL --port 11434\`.

- \`/api/chat\` and \`/api/generate\` stream lines of JSON unless \`stream\` is false; arguments of calls are maps; an error is a text.
- What \`options\` leaves out is what this server has as defaults, not what Ollama has. The context is the server's, whatever
  \`num_ctx\` says, and the model stays loaded, whatever \`keep_alive\` says.
- A \`format\` is held to as Ollama does it: objects have the members that \`properties\` lists and no others, unless the schema says
  that there may be some ([structured-output.md](structured-output.md#what-is-enforced)).
- \`logprobs\` and \`top_logprobs\` tell of the tokens of texts and thinking, not of calls.
- Names may end in \`:latest\`, on every path. A result of a tool goes to the call with its \`tool_call_id\`, else to the first one of
  its \`tool_name\` without a result, else to the first. \`/api/pull\` succeeds for what is served; whatever would change the models is refused.

## Answers

- \`usage\` stands in every whole answer, and in streams, as a last chunk with \`choices: []\`, when
  \`stream_options.include_usage\` asks.
- A stream is \`data: \`, one JSON object and a blank line for each event, one write each, and \`data: [DONE]\` last. A failure
  once it has begun is one event with \`error\`, and then \`[DONE]\`.
- In a whole answer a choice that failed has \`finish_reason: "error"\`, and the others are kept; when all failed the answer is 500.
- A reply that \`max_tokens\` cut ends with \`length\`, also behind whole calls: more might have followed.
- \`completion_tokens\` counts the tokens of the reply: thinking, markers, calls and control tokens included, without the token
  that ended it and without those that lie wholly in a stop string or behind it.
- \`logprobs\` are the model's own: of the raw logits, before temperature, penalties and bias. Every token that
  \`completion_tokens\` counts is listed once, those of thinking under \`reasoning_content\`. \`bytes\` are the token's true bytes
  and join to the text; a token that does not show in the text (a marker, a control token, a part of a call) has its name as
  \`token\` and no bytes. In completions \`top_logprobs\` is a map by name; of tokens with the same name it has the likeliest.
- A completion with \`echo\` begins with the prompt's log probabilities, the first of them null, and also has the token that ended
  the reply: evaluation harnesses read both.
- A stop string works in the text of a reply, and in JSON of a \`response_format\`, which it cuts like any text. It does not work in
  thinking or in calls, so not at all in a reply that consists of calls.
- A model's thinking is in \`reasoning_content\`, not in \`content\`; \`--reasoning inline\` leaves it in the text.
- The same request with the same \`seed\` and \`system_fingerprint\` gives the same text, whatever else runs. The fingerprint stands
  for everything else that decides a text: sinter's version, the compiled program, weights, tokenizer, template, the date that the
  template is given (the day the server started), end tokens, the longest sequence, \`--generation-defaults\`,
  \`--tool-format\` and \`--reasoning\`.

## Headers

${table(
  ["Header", "Where", "Meaning"],
  HEADERS.map(([name, where, says]) => [`\`${name}\``, where, says]),
)}

## Who may call

- A server bound to loopback answers to loopback's names and \`--allowed-hosts\` only: any other Host header is 403.
- With \`--api-key\` or \`--api-key-file\`, everything but \`/health\`, \`/live\` and, with \`--open-metrics\`, \`/metrics\` asks for
  \`Authorization: Bearer KEY\` or \`x-api-key\`; a browser that opens \`/docs\` asks its user for the key as a password.
- Web pages from elsewhere can read nothing, unless \`--allow-credentials\` or an \`--allowed-*\` option is given; then cross-origin
  headers are those of Starlette's CORSMiddleware with the same settings, and pages may read the [headers](#headers) above.

## Limits

${table(["What", "Default", "Then"], LIMITS)}

## Known and refused

A request with one of these fields is answered 400, with the field's name. Values that ask for nothing (\`best_of: 1\`,
\`skip_special_tokens: true\`) are ignored like unknown fields. Both are chat and plain completions.

${table(
  ["Field", "Refused by", "Why"],
  unsupported.map(({ params, by, because }) => [
    params.map((param) => `\`${param}\``).join(", "),
    by ?? "both",
    because,
  ]),
)}
`
}

const DIALECTS = [
  [
    "a delta",
    "a whole message: the role and a text in each",
    "the role once, ahead of the first words",
  ],
  ["the last delta", "an empty message", "`{}`"],
  ["a call in a whole answer", "`arguments` is a map", "`arguments` is a string"],
  [
    "calls in a stream",
    "a text, `[name(key=value), …]`, then one `tool_calls` delta with all of them",
    "`tool_calls` fragments as they are generated",
  ],
  ["a call that cannot be read", "its text, and `error` in a whole answer", "its text, and `stop`"],
  ["what is absent", "null", "left out, but for `refusal` and `logprobs`"],
  ["thinking", "`reasoning_content`", "`reasoning_content`, and the same under `reasoning`"],
  ["long silence", "an empty delta now and then", "an SSE comment now and then"],
]

const seconds = (milliseconds: number) => `${milliseconds / 1000} s`

const LIMITS = [
  [
    "size of a body",
    "2 MiB, or 16 bytes a token of context if that is more; at least 32 MiB where a model sees, 40 MiB where one hears",
    "413",
  ],
  ["bytes of an image", String(MAX_IMAGE), "400"],
  ["bytes of a recording", String(MAX_AUDIO), "400"],
  ["parts of a form", String(MAX_PARTS), "400"],
  ["bytes of a text in it", String(MAX_FORM_TEXT), "400"],
  ["depth of its JSON", String(MAX_DEPTH), "400"],
  ["objects, lists and texts in it, names included", String(MAX_VALUES), "400"],
  ["members of one object", String(MAX_MEMBERS), "400"],
  ["digits of one number", String(MAX_DIGITS), "400"],
  ["bodies that are being read, together", "256 MiB", "429"],
  ["bodies of more than 2 MiB whose requests are not answered yet, together", "512 MiB", "429"],
  ["headers", "16 KiB", "431"],
  ["time for the headers", seconds(defaultTimeouts.header), "408"],
  ["time for the body", seconds(defaultTimeouts.body), "408"],
  [
    "idle connection",
    seconds(defaultTimeouts.idle),
    "closed, a little later than its `keep-alive` header says",
  ],
  [
    "client that reads nothing",
    seconds(defaultTimeouts.write),
    "closed; its generation pauses once 256 KiB are unread",
  ],
  [
    "silence in a stream",
    seconds(defaultTimeouts.keepAlive),
    "an event that keeps the connection alive, see above",
  ],
  ["stop strings of a request", `${MAX_STOP_LENGTH} characters together`, "400"],
  [
    "log probabilities in an answer",
    `${MAX_LOGPROBS}; in a stream only those of echoed prompts count`,
    "400",
  ],
  [
    "the same in a response, streamed or not, and in a whole answer to Ollama's clients",
    String(MAX_LOGPROBS_AT_ONCE),
    "400",
  ],
  ["choices of one request", "128", "400"],
  ["connections", `${defaultHttpOptions.maxConnections} (\`--max-connections\`)`, "503"],
  ["requests that wait", "`--max-queue`", "429"],
]

function requestSection(route: Route): string {
  const { method, path, summary, body, takes } = route
  const sent =
    takes === "form"
      ? "-F model=MODEL -F file=@speech.wav"
      : `-H 'Content-Type: application/json' -d '${JSON.stringify(exampleOf(route, "tiny"))}'`
  return `## ${method} ${path}

${summary}

\`\`\`sh
curl -N http://127.0.0.1:8000${path} ${sent}
\`\`\`

${fieldsTable(body!)}`
}

interface Field {
  description?: string
  default?: unknown
  anyOf?: readonly Field[]
  items?: Field
}

interface Fields {
  /** Absent where a body is not a map of certain fields. */
  properties?: Record<string, Field>
  required?: readonly string[]
  description?: string
}

function fieldsTable(schema: TSchema): string {
  const { properties, description } = schema as unknown as Fields
  if (!properties) return description ?? ""
  return table(["Field", "Value", "Default", "Meaning"], fieldRows(schema))
}

/** A row for each field, and under it those of the map, or of each map of the list, that it holds. */
function fieldRows(schema: TSchema, path = ""): string[][] {
  const { properties = {}, required = [] } = schema as unknown as Fields
  return Object.entries(properties).flatMap(([name, field]) => {
    const inner = mapWithin(field)
    return [
      [
        `\`${path}${name}\``,
        describe(field as TSchema),
        required.includes(name)
          ? "required"
          : JSON.stringify(field.default ?? null).replace("null", ""),
        field.description ?? "",
      ],
      ...(inner ? fieldRows(inner.map, `${path}${name}${inner.mark}.`) : []),
    ]
  })
}

/** Messages have a section of their own. */
function mapWithin(field: Field): { map: TSchema; mark: string } | undefined {
  const { anyOf, items } = field
  if (anyOf) return anyOf.map(mapWithin).find((found) => found !== undefined)
  const map = items ?? field
  if (!("properties" in map) || map === (ChatCompletionMessage as Field)) return undefined
  return { map: map as TSchema, mark: items ? "[]" : "" }
}

export function errorsPage(): string {
  const rows = Object.entries(errors).map(([code, { status, type, text }]) => ({
    status,
    cells: [
      `\`${code}\``,
      status === 0 ? "exit 2" : String(status),
      type,
      text.replace(/\{(\w+)\}/g, "*$1*"),
    ],
  }))
  const columns = ["Code", "Status", "Type", "Sentence"]
  const cellsOf = (wanted: (status: number) => boolean) =>
    rows.filter(({ status }) => wanted(status)).map(({ cells }) => cells)
  return `# Errors

Printed from \`src/errors.ts\` by \`npm run docs\`. Words in italics are filled in.

## Of requests

One body for every client: the nested form of OpenAI's API and a flat one beside it. \`param\` names the field at fault.

\`\`\`json
{"error":{"message":"…","type":"…","param":null,"code":"…"},"object":"error","message":"…","code":400}
\`\`\`

${table(
  columns,
  cellsOf((status) => status > 0),
)}

## Of starting

One line on stderr and exit code 2.

${table(
  columns,
  cellsOf((status) => status === 0),
)}
`
}

function table(columns: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`
  return [line(columns), `|${columns.map(() => "---|").join("")}`, ...rows.map(line)].join("\n")
}
