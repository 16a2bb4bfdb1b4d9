// Known fields that this server does not support, in one table: those of OpenAI's API and of other servers that would change
// the answer. A request with one is answered 400 with a sentence that names it, never with a silent omission. A value that
// asks for nothing (`best_of: 1`) is ignored, as clients send whole lists of defaults.

import { problem } from "../../errors.ts"
import { isMembers, type Json, type Members } from "../json.ts"

/** What is a field of the one may have to be refused by the other. */
export type Kind = "chat" | "completions" | "transcriptions"

interface Refusal {
  /** Spellings of one wish. */
  params: readonly string[]
  /** Refused by this kind alone; absent: by both kinds of completion. */
  by?: Kind
  asked: (value: Json, body: Members) => boolean
  /** Why, and what to do instead; the field's name stands before it. */
  because: string
}

const isGiven = () => true
const isTrue = (value: Json) => value === true
const isFalse = (value: Json) => value === false
const isOther = (nothing: Json) => (value: Json) => value !== nothing
const isAbove = (most: number) => (value: Json) => !(typeof value === "number" && value <= most)

/** Neither "", [], {}, 0 nor false. */
function isFilled(value: Json): boolean {
  if (typeof value === "object" && value !== null) return Object.keys(value).length > 0
  return Boolean(value)
}

const OTHER_SAMPLER = "no sampler of this server; temperature, top_p, top_k and min_p are."
const USE_MAX_TOKENS = "the length of a reply is bounded by max_tokens."
const USE_FORMAT = "a reply is held to a JSON Schema by response_format."

export const unsupported: readonly Refusal[] = [
  {
    params: ["functions"],
    asked: isFilled,
    because: "this older form of tools is not supported; use tools.",
  },
  {
    params: ["function_call"],
    asked: (value) => value !== "none" && value !== "auto",
    because: "this older form is not supported; use tools and tool_choice.",
  },
  {
    params: ["suffix"],
    by: "chat",
    asked: isFilled,
    because: "POST /v1/completions fills in between two texts.",
  },
  {
    params: ["best_of"],
    asked: (value, { n }) => value !== 1 && value !== n,
    because: "this server generates exactly the n replies it returns.",
  },
  {
    params: ["store"],
    asked: isTrue,
    because: "this server stores nothing; leave it out or say false.",
  },
  {
    params: ["modalities"],
    asked: (value) => !Array.isArray(value) || value.some((kind) => kind !== "text"),
    because: "the model writes text only.",
  },
  {
    params: ["audio"],
    asked: isFilled,
    because:
      "the model does not speak; a recording that it is to hear is a part of a message's content, as input_audio.",
  },
  {
    params: ["images", "image_data", "multi_modal_data"],
    by: "chat",
    asked: isFilled,
    because: "an image is a part of a message's content, with its data: URL as image_url.",
  },
  {
    params: ["images", "image_data", "multi_modal_data"],
    by: "completions",
    asked: isFilled,
    because: "a text has no images; POST /v1/chat/completions takes them.",
  },
  {
    params: ["mm_processor_kwargs"],
    asked: isFilled,
    because: "images are prepared as the model's own files say.",
  },
  {
    params: ["prompt_embeds", "input_embeds"],
    asked: isFilled,
    because: "a prompt is a text or token ids.",
  },

  // what a reply must look like
  {
    params: ["guided_decoding", "format"],
    asked: isOther(""),
    because: USE_FORMAT,
  },
  { params: ["json_mode"], asked: isTrue, because: USE_FORMAT },
  {
    params: ["guided_whitespace_pattern", "structural_tag"],
    asked: isFilled,
    because: "not supported; response_format, regex, choice and grammar hold a reply to a form.",
  },

  // where it ends
  {
    params: ["min_new_tokens", "min_length"],
    asked: isFilled,
    because: "use min_tokens.",
  },
  {
    params: ["max_new_tokens", "max_length", "n_predict", "num_predict", "max_tokens_to_sample"],
    asked: isGiven,
    because: USE_MAX_TOKENS,
  },
  {
    params: ["max_completion_tokens"],
    by: "completions",
    asked: isGiven,
    because: USE_MAX_TOKENS,
  },
  {
    params: ["stop_regex", "stop_sequences", "stop_strings"],
    asked: isFilled,
    because: "a reply ends at texts, which stop lists, and at tokens of stop_token_ids.",
  },
  {
    params: ["include_stop_str_in_output", "no_stop_trim"],
    asked: isTrue,
    because: "a reply ends before its stop text.",
  },
  { params: ["ban_eos_token"], asked: isTrue, because: "use ignore_eos." },

  // how it is drawn
  { params: ["repeat_penalty"], asked: isOther(1), because: "use repetition_penalty." },
  { params: ["random_seed"], asked: isGiven, because: "use seed." },
  { params: ["num_return_sequences"], asked: isOther(1), because: "use n." },
  { params: ["do_sample"], asked: isFalse, because: "temperature 0 takes the likeliest token." },
  {
    params: ["use_beam_search"],
    asked: isTrue,
    because: "beam search is not supported; n draws several replies.",
  },
  {
    params: ["num_beams"],
    asked: isOther(1),
    because: "beam search is not supported; n draws several replies.",
  },
  { params: ["typical_p", "typical", "tfs_z", "tfs"], asked: isOther(1), because: OTHER_SAMPLER },
  {
    params: [
      "mirostat",
      "mirostat_mode",
      "top_a",
      "xtc_probability",
      "dry_multiplier",
      "dynatemp_range",
      "smoothing_factor",
      "epsilon_cutoff",
      "eta_cutoff",
      "penalty_alpha",
      "samplers",
      "sampler_priority",
    ],
    asked: isFilled,
    because: OTHER_SAMPLER,
  },
  { params: ["top_n_sigma", "nsigma"], asked: isAbove(0), because: OTHER_SAMPLER },
  {
    params: [
      "bad_words",
      "bad_words_ids",
      "allowed_token_ids",
      "sequence_bias",
      "logits_processors",
      "custom_logit_processor",
    ],
    asked: isFilled,
    because: "not supported; logit_bias changes the odds of tokens.",
  },
  {
    params: ["lora", "lora_path", "lora_request", "adapter_id"],
    asked: isFilled,
    because:
      "chosen by the name in model; adapters are served under names (sinter serve MODEL --lora-modules NAME=ADAPTER).",
  },
  { params: ["watermark"], asked: isTrue, because: "replies carry no watermark." },

  // what the model reads
  {
    params: ["system", "system_prompt"],
    asked: isFilled,
    because: "send it as a message whose role is system.",
  },
  {
    params: ["prompt"],
    by: "chat",
    asked: isFilled,
    because: "a conversation is read from messages; POST /v1/completions goes on with a prompt.",
  },
  {
    params: ["messages"],
    by: "completions",
    asked: isFilled,
    because: "a text is read from prompt; POST /v1/chat/completions answers messages.",
  },
  {
    params: ["context"],
    asked: isFilled,
    because: "nothing is remembered between requests; send the whole conversation.",
  },
  {
    params: ["chat_template", "template"],
    asked: isFilled,
    because: "conversations are written by the model's own template.",
  },
  {
    params: ["documents"],
    asked: isFilled,
    because: "hand them to the model's template, in chat_template_kwargs.",
  },
  {
    params: ["continue_final_message"],
    by: "chat",
    asked: (value, body) => value !== endsWithAssistant(body),
    because: "a last message is continued when it is the assistant's, and only then.",
  },
  {
    params: ["add_generation_prompt"],
    by: "chat",
    asked: (value, body) => value === endsWithAssistant(body),
    because: "a reply is begun unless the last message is the assistant's, which is continued.",
  },
  {
    params: ["add_special_tokens"],
    by: "chat",
    asked: isTrue,
    because: "the model's template writes the control tokens.",
  },
  {
    params: ["add_special_tokens"],
    by: "completions",
    asked: isFalse,
    because: "a text begins as the model's tokenizer begins it; send token ids to begin otherwise.",
  },
  {
    params: ["truncate_prompt_tokens", "truncate"],
    asked: isGiven,
    because: "a prompt is never cut; one that is too long is refused.",
  },
  { params: ["safe_prompt"], asked: isTrue, because: "nothing is put before the conversation." },
  {
    params: ["web_search_options", "search_parameters", "plugins"],
    asked: (value) => !(Array.isArray(value) && value.length === 0),
    because: "this server looks nothing up.",
  },
  {
    params: ["options"],
    asked: isFilled,
    because: "its fields stand beside model: temperature, top_p, seed, …",
  },

  // thinking
  {
    params: ["think", "thinking", "enable_thinking", "reasoning"],
    asked: (value) => value === false || isFilled(value),
    because: "use reasoning_effort, or chat_template_kwargs with the template's own switch.",
  },
  {
    params: [
      "thinking_budget",
      "thinking_token_budget",
      "thinking_budget_tokens",
      "max_thinking_tokens",
      "reasoning_budget",
    ],
    asked: isOther(-1),
    because: "thinking has no bound of its own; max_tokens bounds it and the answer together.",
  },
  {
    params: ["include_reasoning", "separate_reasoning"],
    asked: isFalse,
    because: "where thinking is told is the server's to say, with --reasoning.",
  },
  {
    params: ["reasoning_format"],
    asked: (value) => value === "none",
    because: "where thinking is told is the server's to say, with --reasoning.",
  },

  // what is told of it
  {
    params: ["echo"],
    by: "chat",
    asked: isTrue,
    because: "only POST /v1/completions begins with its prompt.",
  },
  {
    params: ["prompt_logprobs", "decoder_input_details"],
    asked: (value) => value !== false,
    because: "POST /v1/completions tells them, with echo and logprobs.",
  },
  {
    params: ["top_logprobs"],
    by: "completions",
    asked: isFilled,
    because: "logprobs says how many.",
  },
  { params: ["n_probs"], asked: isFilled, because: "use logprobs." },
  {
    params: ["post_sampling_probs"],
    asked: isTrue,
    because: "log probabilities are the model's own, before any sampling.",
  },
  {
    params: ["return_tokens"],
    asked: isTrue,
    because: "use return_token_ids.",
  },
  {
    params: ["skip_special_tokens"],
    asked: isFalse,
    because: "control tokens are never part of the text.",
  },
  {
    params: ["tools", "tool_choice"],
    by: "completions",
    asked: (value) => value !== "none" && isFilled(value),
    because: "only POST /v1/chat/completions knows it.",
  },

  // transcriptions
  {
    params: ["response_format"],
    by: "transcriptions",
    asked: (value) => value === "diarized_json",
    because: "the model does not tell who speaks; ask for json or text.",
  },
  {
    params: ["known_speaker_names", "known_speaker_references"],
    by: "transcriptions",
    asked: isFilled,
    because: "the model does not tell who speaks; leave it out.",
  },
  {
    params: ["chunking_strategy"],
    by: "transcriptions",
    asked: isGiven,
    because: "a recording is heard as a whole; leave it out.",
  },
  {
    params: ["languages"],
    by: "transcriptions",
    asked: isFilled,
    because: "name one, in language.",
  },
  {
    params: ["keywords"],
    by: "transcriptions",
    asked: isFilled,
    because: "write them in prompt.",
  },
]

/** Throws the problem `unsupported_value` for the first field that a row refuses. */
export function refuse(body: Json, kind: Kind): void {
  if (!isMembers(body)) return
  const isCompletion = kind !== "transcriptions"
  for (const { params, by, asked, because } of unsupported) {
    if (by === undefined ? !isCompletion : by !== kind) continue
    for (const param of params) {
      const value = Object.hasOwn(body, param) ? body[param] : undefined
      if (value === undefined || value === null || !asked(value, body)) continue
      throw problem("unsupported_value", { problem: `${param}: ${because}` }, param)
    }
  }
}

function endsWithAssistant({ messages }: Members): boolean {
  const last = Array.isArray(messages) ? (messages as readonly Json[]).at(-1) : undefined
  return isMembers(last) && last.role === "assistant"
}
