// The formats by name, which one a model speaks, and the reader that runs one over a reply. A format brings its parser and its
// grammar: what the grammar lets a model write, the parser reads.

import { channels } from "../channels.ts"
import type { Template } from "../template.ts"
import type { CallGrammar, CallText } from "./call-grammar.ts"
import * as families from "./families.ts"
import { gemma4 } from "./gemma4.ts"
import { harmony } from "./harmony.ts"
import { type CallPiece, Input, type Reading, type Tools } from "./input.ts"
import { heads, markedJson } from "./marked-json.ts"
import { glm45, qwen3Coder } from "./parameters.ts"
import { expressions, lfm2 } from "./python-calls.ts"

export interface Format {
  /** Reads calls out of a reply. */
  family: families.Family
  /** Marks that may be special tokens, which show as nothing unless they are asked for. */
  marks: readonly string[]
  /** What in a chat template shows that the model writes calls this way; undefined: nothing does. */
  shownBy: RegExp | undefined
  /** What the model is held to where it writes calls: of what the family reads, one form. */
  grammar: CallGrammar
  /** Calls in that form, for prompts whose templates show none. */
  written(calls: readonly CallText[]): string
  /** Whether templates that know tools show their results as turns of their own, be it that they show no calls. */
  showsResults?: boolean
}

const TOOL_CALL = ["<tool_call>", "</tool_call>"] as const

/** In the order in which templates are asked: the first that fits. */
export const formats = {
  harmony: {
    marks: channels.marks!,
    shownBy: /<\|channel\|>/,
    ...harmony,
  },
  gemma4: {
    shownBy: /<\|tool_call>/,
    ...gemma4,
  },
  lfm2: {
    // Most of its templates show tools and no calls, and some of LFM2.5 the tools without marks.
    shownBy: /<\|tool_(?:call|list)_start\|>|List of tools: \[/,
    ...lfm2,
    showsResults: true,
  },
  qwen3_coder: {
    marks: [...TOOL_CALL],
    shownBy: /<parameter=/,
    ...qwen3Coder,
  },
  glm45: {
    marks: [...TOOL_CALL, "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"],
    shownBy: /<arg_key>/,
    ...glm45,
  },
  hermes: {
    family: families.hermes,
    marks: [...TOOL_CALL],
    shownBy: /<tool_call>/,
    ...markedJson({
      open: "",
      between: "\n",
      close: "",
      call: ['<tool_call>\n{"name": "', '", "arguments": ', "}\n</tool_call>"],
      triggers: [{ before: "<tool_call>", rest: '\n{"name": "' }],
      textAfter: true,
    }),
  },
  mistral_args: {
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
    family: families.mistral,
    marks: ["[TOOL_CALLS]"],
    shownBy: /\[TOOL_CALLS\]/,
    ...markedJson({
      open: "[TOOL_CALLS] [",
      between: ", ",
      close: "]",
      call: ['{"name": "', '", "arguments": ', "}"],
      triggers: [{ before: "[TOOL_CALLS]", rest: ' [{"name": "' }],
      textAfter: false,
    }),
  },
  llama3: {
    family: families.llama3,
    marks: ["<|python_tag|>"],
    shownBy: /<\|python_tag\|>|ipython/,
    ...markedJson({
      open: "",
      between: "; ",
      close: "",
      call: ['{"name": "', '", "parameters": ', "}"],
      triggers: [
        { before: "<|python_tag|>", rest: '{"name": "' },
        ...heads(["parameters", "arguments"], ""),
      ],
      textAfter: false,
    }),
  },
  expressions: {
    marks: [],
    shownBy: /\[\w+\(\w+=/,
    ...expressions,
  },
  json: {
    family: families.json,
    marks: [],
    shownBy: undefined,
    ...markedJson({
      open: "[",
      between: ", ",
      close: "]",
      call: ['{"name": "', '", "arguments": ', "}"],
      triggers: heads(["arguments", "parameters"], "["),
      textAfter: false,
    }),
  },
} as const satisfies Record<string, Format>

export type FormatName = keyof typeof formats

// A family that writes the marks of others around something else: <function=name>, and JSON behind it.
const OTHERS = /<function=/

/** Undefined when the template shows none that is known here. */
export function formatOf({ knowsTools, source }: Template): FormatName | undefined {
  if (!knowsTools) return undefined
  const names = Object.keys(formats) as FormatName[]
  const shown = names.find((name) => formats[name].shownBy?.test(source))
  return OTHERS.test(source) && shown !== "qwen3_coder" ? undefined : shown
}

/** Reads the calls of one reply. All text given comes back as pieces, in order; what is undecided waits. */
export class CallReader {
  readonly #input = new Input()
  readonly #run: Reading<void>

  constructor(format: Format, tools: Tools) {
    const input = this.#input
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
