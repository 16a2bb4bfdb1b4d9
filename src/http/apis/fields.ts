// Fields that several APIs have. A schema is three things at once: the check of a request (check.ts), its TypeScript type,
// and its page in /docs, /openapi.json and docs/api.md. Bounds are said here and nowhere else. A field that may be absent may
// be null as well; null means absent. Schemas of answers document: nothing is checked against them while serving, but tests
// hold every answer to them.

import type { Static, TSchema } from "typebox"
import { Type } from "../type.ts"

/** A field that may be left out or null. */
export function optional<T extends TSchema>(schema: T, description: string, absent?: unknown) {
  const extra = absent === undefined ? { description } : { description, default: absent }
  return Type.Optional(Type.Union([schema, Type.Null()], extra))
}

export const text = Type.String()
export const flag = Type.Boolean()
export const anything = Type.Record(Type.String(), Type.Unknown())

export const TokenId = Type.Integer({ minimum: 0 })

const Int64 = Type.Unsafe<number | bigint>({
  type: "integer",
  format: "int64",
  minimum: -(2n ** 63n),
  maximum: 2n ** 64n - 1n,
})

/** Characters (UTF-16 units) of all stop strings of a request together. */
export const MAX_STOP_LENGTH = 16_384

/** What a tool may be called: as long as Anthropic's API lets it be, with the dots of qualified names. */
export const TOOL_NAME = /^[\w.-]{1,128}$/
export const TOOL_NAME_HELP = "1 to 128 letters, digits, underscores, hyphens and dots"

/** What both kinds of completion take. */
export const sampling = {
  model: Type.String({ description: "One of the names that GET /v1/models lists." }),
  frequency_penalty: optional(
    Type.Number({ minimum: -2, maximum: 2 }),
    "Above 0 makes tokens less likely the more often the reply has used them.",
    0,
  ),
  presence_penalty: optional(
    Type.Number({ minimum: -2, maximum: 2 }),
    "Above 0 makes tokens less likely once the reply has used them.",
    0,
  ),
  repetition_penalty: optional(
    Type.Number({ minimum: 0.01, maximum: 10 }),
    "Above 1 makes tokens that the reply has used less likely: positive logits are divided by it, negative ones multiplied.",
    1,
  ),
  logit_bias: optional(
    Type.Record(Type.String(), Type.Number({ minimum: -100, maximum: 100 })),
    "Added to the logits of tokens, by token id.",
  ),
  max_tokens: optional(
    Type.Integer({ minimum: 1 }),
    "The most tokens to generate; otherwise as far as the context reaches.",
  ),
  n: optional(Type.Integer({ minimum: 1, maximum: 128 }), "How many replies to generate.", 1),
  seed: optional(
    Int64,
    "The same seed and request give the same reply; otherwise a fresh one, told in the x-seed header.",
  ),
  stop: optional(
    Type.Union([
      Type.String({ minLength: 1 }),
      Type.Array(Type.String({ minLength: 1 }), { maxItems: 64 }),
    ]),
    `The reply ends before any of these texts, which have at most ${MAX_STOP_LENGTH} characters together. They are looked for in its text, JSON of a response_format included, but not in thinking nor in calls.`,
  ),
  stop_token_ids: optional(
    Type.Array(TokenId, { maxItems: 1024 }),
    "The reply ends before any of these tokens as well.",
  ),
  min_tokens: optional(
    Type.Integer({ minimum: 0 }),
    "The reply ends neither of itself nor at a stop before it has so many tokens, unless its form leaves nothing else.",
    0,
  ),
  stream: optional(flag, "Whether to send the reply piece by piece, as server-sent events.", false),
  stream_options: optional(
    Type.Object({
      include_usage: optional(flag, "One more chunk at the end with the usage.", false),
      include_obfuscation: optional(flag, "Accepted; this server adds no padding."),
    }),
    "Only with stream.",
  ),
  temperature: optional(
    Type.Number({ minimum: 0, maximum: 2 }),
    "Lower is less random; 0 always takes the likeliest token.",
    1,
  ),
  top_p: optional(
    Type.Number({ minimum: 0, maximum: 1 }),
    "Draws from the likeliest tokens that together have this probability; 0 takes the likeliest.",
    1,
  ),
  top_k: optional(
    Type.Integer({ minimum: -1 }),
    "Draws from this many of the likeliest tokens; 0 and -1 set no limit.",
    0,
  ),
  min_p: optional(
    Type.Number({ minimum: 0, maximum: 1 }),
    "Leaves out tokens less likely than this share of the likeliest one's probability.",
    0,
  ),
  ignore_eos: optional(flag, "Goes on past the model's own end.", false),
  return_tokens_as_token_ids: optional(
    flag,
    "Tokens of log probabilities are called token_id:ID instead of by their text, as vLLM has it; their bytes stay theirs.",
    false,
  ),
  return_token_ids: optional(
    flag,
    "Tells the ids of the prompt's tokens (prompt_token_ids) and of each choice's (token_ids), as vLLM has it. Those of a choice are what usage counts, and the token that ended it.",
    false,
  ),
  user: optional(text, "Whom the request is for; kept in no record."),
}

const ResponseFormat = Type.Object(
  {
    type: Type.Enum(["text", "json_object", "json_schema", "regex", "grammar"], {
      description:
        "Any text, any JSON object, JSON by the schema (which is held to in json_object, too, and means objects there if it names no type), or a text by the pattern or the grammar.",
    }),
    schema: optional(Type.Union([anything, text, flag]), "A JSON Schema, or its JSON text."),
    json_schema: optional(
      Type.Union([anything, text, flag]),
      "The same, or a map with the schema under `schema`. The type json_schema needs one of them.",
    ),
    pattern: optional(text, "What the type regex needs: see regex."),
    grammar: optional(text, "What the type grammar needs: see grammar."),
  },
  { title: "RequestResponseFormat" },
)

const Schema = Type.Union([anything, text, flag])
const Choice = Type.Array(text)

/** What a reply is held to, which is enforced while it is generated. */
export const format = {
  response_format: optional(
    ResponseFormat,
    "What the reply must look like: text, any JSON object, JSON by a schema, or a text by a pattern or a grammar. It is enforced while generating.",
  ),
  regex: optional(text, "An ECMA-262 pattern that the whole reply matches."),
  choice: optional(Choice, "The reply is one of these texts."),
  grammar: optional(
    text,
    "A grammar that the reply follows: llama.cpp's GBNF, with the rule root, or Lark's notation, with the rule start.",
  ),
  structured_outputs: optional(
    anything,
    "One of json, regex, choice, grammar and json_object, as vLLM has it.",
  ),
  json_schema: optional(Schema, "A JSON Schema that the reply satisfies, as llama.cpp has it."),
  guided_json: optional(Schema, "The same, as older clients of vLLM have it."),
  guided_regex: optional(text, "The same as regex."),
  guided_choice: optional(Choice, "The same as choice."),
  guided_grammar: optional(text, "The same as grammar."),
  ebnf: optional(text, "The same as grammar."),
}

const FormatFields = Type.Object(format)
export type FormatFields = Static<typeof FormatFields>

export const nullable = <T extends TSchema>(schema: T) => Type.Union([schema, Type.Null()])

export const UsageInfo = Type.Object(
  {
    prompt_tokens: Type.Integer(),
    completion_tokens: Type.Integer(),
    total_tokens: Type.Integer(),
    prompt_tokens_details: Type.Object({ cached_tokens: Type.Integer() }),
    completion_tokens_details: Type.Object({ reasoning_tokens: Type.Integer() }),
  },
  { title: "UsageInfo" },
)

const ids = (description: string) => Type.Optional(Type.Array(TokenId, { description }))

/** Where return_token_ids asks for them; in streams, of a prompt once. */
export const promptIds = { prompt_token_ids: ids("Of the prompt's tokens.") }
export const choiceIds = { token_ids: ids("Of the choice's tokens, the last one's included.") }

export const envelope = {
  id: text,
  created: Type.Integer({ description: "Unix time in seconds." }),
  model: Type.String({ description: "The name that the request used." }),
  system_fingerprint: Type.String({
    description: "Of all that decides a text beside its request.",
  }),
}
