// The formats by name, which one a model speaks, and the reader that runs one over a reply. A format brings its parser and its
// grammar: what the grammar lets a model write, the parser reads.

import { channels } from "../channels.ts"
import type { Spelling } from "../markers.ts"
import type { Template } from "../template.ts"
import { apertus } from "./apertus.ts"
import { atem } from "./atem.ts"
import type { CallGrammar, CallText } from "./call-grammar.ts"
import { cohere } from "./cohere.ts"
import { deepseek, deepseek31 } from "./deepseek.ts"
import * as families from "./families.ts"
import { gemma4 } from "./gemma4.ts"
import { glm4 } from "./glm4.ts"
import { harmony } from "./harmony.ts"
import { hunyuan } from "./hunyuan.ts"
import { type CallPiece, Input, type Reading, type Tools } from "./input.ts"
import { kimi } from "./kimi.ts"
import { COMMA, heads, listBehind, markedJson, NAME, named, spelled } from "./marked-json.ts"
import { deepseek32, glm45, hy3, minimaxM2, qwen3Coder, seedOss } from "./parameters.ts"
import { expressions, lfm2, olmo3 } from "./python-calls.ts"
import { solar } from "./solar.ts"

export interface Format {
  /** Who writes calls this way. */
  models: string
  /** Reads calls out of a reply. */
  family: families.Family
  /** Marks that may be special tokens, which show as nothing unless they are asked for. */
  marks: readonly string[]
  /** What it is held to where those that begin with <| are tokens, whose spelling is text like any other; absent: it counts. */
  byTokens?: CallGrammar
  /** What in a chat template shows that the model writes calls this way; undefined: nothing does. */
  shownBy: RegExp | undefined
  /** What the model is held to where it writes calls: of what the family reads, one form. */
  grammar: CallGrammar
  /** Calls in that form, for prompts whose templates show none. */
  written(calls: readonly CallText[]): string
  /** What shows, in thinking, that a call has begun and the thinking is over. */
  opening?: { mark: string; heads(name: string): readonly string[] }
  /** Whether templates that know tools show their results as turns of their own, be it that they show no calls. */
  showsResults?: boolean
  /** The ids that templates want of the calls of a conversation, by their numbers; absent: they take any. */
  callId?(name: string, number: number): string
}

const TOOL_CALL = ["<tool_call>", "</tool_call>"] as const
/** Between these and a call as JSON; some templates write none. */
const LINE = ["\n", ""]

/** In the order in which templates are asked: the first that fits. */
export const formats = {
  harmony: {
    models: "gpt-oss",
    marks: channels.marks!,
    shownBy: /<\|channel\|>/,
    ...harmony,
  },
  gemma4: {
    models: "Gemma 4",
    shownBy: /<\|tool_call>/,
    ...gemma4,
  },
  lfm2: {
    models: "LFM2 and LFM2.5",
    // Most of its templates show tools and no calls, and some of LFM2.5 the tools without marks.
    shownBy: /<\|tool_(?:call|list)_start\|>|List of tools: \[/,
    ...lfm2,
    showsResults: true,
  },
  olmo3: {
    models: "OLMo 3",
    shownBy: /<function_calls>/,
    ...olmo3,
  },
  deepseek: {
    models: "DeepSeek V3 and R1, R1's distillates",
    // With a fence, behind the type of call that the template hands on.
    shownBy: /<｜tool▁call▁begin｜>[\s\S]*```json/,
    ...deepseek,
  },
  deepseek_v31: {
    models: "DeepSeek V3.1",
    shownBy: /<｜tool▁call▁begin｜>/,
    ...deepseek31,
  },
  deepseek_v32: {
    models: "DeepSeek V3.2",
    shownBy: /｜DSML｜[\s\S]*function_calls>/,
    ...deepseek32,
  },
  kimi_k2: {
    models: "Kimi K2, K2 Thinking, K2.5 and K2.6",
    // The first template of Kimi K2 shows tools and no calls.
    shownBy: /<\|tool_calls_section_begin\|>|tool_declare<\|im_middle\|>/,
    ...kimi,
    showsResults: true,
  },
  solar_open: {
    models: "Solar Open",
    shownBy: /<\|tool_call:begin\|>/,
    ...solar,
  },
  cohere: {
    models: "Command R7B, Command A",
    shownBy: /<\|START_ACTION\|>/,
    ...cohere,
  },
  granite: {
    models: "Granite 3",
    family: families.behind(["<|tool_call|>"], undefined),
    marks: ["<|tool_call|>"],
    shownBy: /<\|tool_call\|> followed by a JSON list|<\|start_of_role\|>[\s\S]*<\|tool_call\|>/,
    ...listBehind("<|tool_call|>"),
  },
  phi4: {
    models: "Phi 4 mini",
    family: families.behind(["<|tool_call|>", "functools"], "<|/tool_call|>"),
    marks: ["<|tool_call|>", "<|/tool_call|>"],
    shownBy: /<\|tool\|>/,
    ...listBehind("<|tool_call|>", "<|/tool_call|>"),
  },
  nemotron: {
    models: "Llama Nemotron",
    family: families.behind(["<TOOLCALL>"], "</TOOLCALL>"),
    marks: ["<TOOLCALL>", "</TOOLCALL>"],
    shownBy: /<TOOLCALL>/,
    opening: { mark: "<TOOLCALL>", heads: (name) => spelled("[", NAME, `${name}"`) },
    ...listBehind("<TOOLCALL>", "</TOOLCALL>"),
  },
  apriel: {
    models: "Apriel 1.5 and 1.6",
    family: families.behind(["<tool_calls>"], "</tool_calls>"),
    marks: ["<tool_calls>", "</tool_calls>"],
    shownBy: /<tool_calls>\[/,
    opening: { mark: "<tool_calls>", heads: (name) => spelled("[", NAME, `${name}"`) },
    ...listBehind("<tool_calls>", "</tool_calls>"),
  },
  hunyuan: {
    models: "Hunyuan",
    shownBy: /<tool_calls>/,
    ...hunyuan,
  },
  glm4: {
    models: "GLM-4 9B and 32B of April 2025",
    shownBy: /在调用上述函数时，请使用 Json 格式/,
    ...glm4,
  },
  seed_oss: {
    models: "Seed OSS",
    marks: ["<seed:tool_call>", "</seed:tool_call>"],
    shownBy: /<seed:tool_call>/,
    opening: { mark: "<seed:tool_call>", heads: (name) => spelled(LINE, `<function=${name}>`) },
    ...seedOss,
  },
  qwen3_coder: {
    models: "Qwen 3 Coder, Qwen 3.5 and 3.6",
    marks: [...TOOL_CALL],
    shownBy: /<parameter=/,
    opening: { mark: "<tool_call>", heads: (name) => spelled(LINE, `<function=${name}>`) },
    ...qwen3Coder,
  },
  glm45: {
    models: "GLM-4.5 to 4.7, GLM 5 and 5.1",
    marks: [...TOOL_CALL, "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"],
    shownBy: /<arg_key>/,
    opening: {
      mark: "<tool_call>",
      heads: (name) => ["\n", "<arg_key>", "</tool_call>"].map((next) => name + next),
    },
    ...glm45,
  },
  minimax_m2: {
    models: "MiniMax M2",
    marks: ["<minimax:tool_call>", "</minimax:tool_call>"],
    shownBy: /<minimax:tool_call>/,
    opening: {
      mark: "<minimax:tool_call>",
      heads: (name) => spelled(LINE, `<invoke name="${name}">`),
    },
    ...minimaxM2,
  },
  atem: {
    models: "Muse Glimmer",
    shownBy: /<atem:function_calls>/,
    ...atem,
  },
  hy3: {
    models: "Hy 3",
    marks: [
      ...["<tool_calls:opensource>", "</tool_calls:opensource>"],
      ...["<tool_call:opensource>", "</tool_call:opensource>", "<tool_sep:opensource>"],
      ...["<arg_key:opensource>", "</arg_key:opensource>"],
      ...["<arg_value:opensource>", "</arg_value:opensource>"],
    ],
    // Its template puts the marks together.
    shownBy: /:opensource[\s\S]*<tool_sep/,
    opening: {
      mark: "<tool_calls:opensource>",
      heads: (name) => spelled(LINE, `<tool_call:opensource>${name}<tool_sep:opensource>`),
    },
    ...hy3,
  },
  apertus: {
    models: "Apertus",
    marks: ["<|tools_prefix|>", "<|tools_suffix|>"],
    shownBy: /<\|tools_prefix\|>/,
    opening: { mark: "<|tools_prefix|>", heads: (name) => [`[{"${name}"`] },
    ...apertus,
  },
  hermes: {
    models: "Qwen 2.5 and 3, Hermes, SmolLM3, EXAONE 4, Granite 4",
    family: families.hermes,
    marks: [...TOOL_CALL],
    shownBy: /<tool_call>/,
    opening: { mark: "<tool_call>", heads: (name) => spelled(LINE, NAME, `${name}"`) },
    ...markedJson({
      open: "",
      between: "\n",
      close: "",
      call: [
        spelled("<tool_call>", LINE, NAME),
        named("arguments"),
        spelled("}", LINE, "</tool_call>"),
      ],
      triggers: [{ before: "<tool_call>", rest: spelled(LINE, NAME) }],
      textAfter: true,
    }),
  },
  mistral_args: {
    models: "Ministral 3, Mistral Small from 3.1 on, Magistral, Devstral",
    family: families.mistral,
    marks: ["[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"],
    shownBy: /\[ARGS\]/,
    ...markedJson({
      open: "",
      between: "",
      close: "",
      call: ["[TOOL_CALLS]", "[ARGS]", ""],
      triggers: [{ before: "[TOOL_CALLS]", rest: "" }],
      textAfter: true,
    }),
  },
  mistral: {
    models: "Mistral 7B and Nemo, Ministral 8B",
    family: families.mistral,
    marks: ["[TOOL_CALLS]"],
    shownBy: /\[TOOL_CALLS\]/,
    ...listBehind("[TOOL_CALLS]", "", [" ", ""]),
  },
  llama3: {
    models: "Llama 3.1 to 3.3",
    family: families.llama3,
    marks: ["<|python_tag|>"],
    shownBy: /<\|python_tag\|>|ipython/,
    ...markedJson({
      open: "",
      between: "; ",
      close: "",
      call: [NAME, named("parameters"), "}"],
      triggers: [
        { before: "<|python_tag|>", rest: NAME },
        ...heads(["parameters", "arguments"], ""),
      ],
      textAfter: false,
    }),
  },
  expressions: {
    models: "Llama 4, and others that write Python",
    marks: [],
    shownBy: /\[\w+\(\w+=/,
    ...expressions,
  },
  json: {
    models: "all others, which are told in words",
    family: families.json,
    marks: [],
    shownBy: undefined,
    ...markedJson({
      open: "[",
      between: COMMA,
      close: "]",
      call: [NAME, named("arguments"), "}"],
      triggers: heads(["arguments", "parameters"], "["),
      textAfter: false,
    }),
  },
} as const satisfies Record<string, Format>

export type FormatName = keyof typeof formats

// A family that writes the marks of others around something else: <function=name>, and JSON behind it.
const OTHERS = /<function=/

/** Undefined when the template shows none that is known here. DeepSeek's show calls, and leave it to others to show tools. */
export function formatOf({ knowsTools, knowsCalls, source }: Template): FormatName | undefined {
  if (!knowsTools && !knowsCalls) return undefined
  const names = Object.keys(formats) as FormatName[]
  const shown = names.find((name) => formats[name].shownBy?.test(source))
  return OTHERS.test(source) && shown !== "qwen3_coder" && shown !== "seed_oss" ? undefined : shown
}

/** A mark, and what stands behind it where a call of one of some tools begins. */
export interface Opening {
  mark: string
  heads: readonly string[]
}

/** Undefined where a call in thinking is a thought. */
export function openingOf({ opening }: Format, names: readonly string[]): Opening | undefined {
  if (!opening || names.length === 0) return undefined
  return { mark: opening.mark, heads: names.flatMap((name) => opening.heads(name)) }
}

/** Reads the calls of one reply. All text given comes back as pieces, in order; what is undecided waits. */
export class CallReader {
  readonly #input: Input
  readonly #run: Reading<void>

  constructor(format: Format, tools: Tools, spelling?: Spelling) {
    const input = new Input(spelling)
    this.#input = input
    this.#run = (function* () {
      yield* format.family(input, tools)
      yield* input.restIsText()
    })()
  }

  push(text: string): CallPiece[] {
    this.#input.append(text)
    return this.#pieces()
  }

  /** What waited, when nothing more comes. */
  flush(): CallPiece[] {
    this.#input.close()
    return this.#pieces()
  }

  #pieces(): CallPiece[] {
    this.#run.next()
    const { pieces } = this.#input
    this.#input.pieces = []
    return pieces
  }
}
