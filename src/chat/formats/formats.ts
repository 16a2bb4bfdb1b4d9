// The formats by name, which one a model speaks, and the reader that runs one over a reply.

import type { Template } from "../template.ts"
import * as families from "./families.ts"
import { type CallPiece, Input, type Names, type Reading } from "./input.ts"

export interface Format {
  /** Reads calls out of a reply. */
  family: families.Family
  /** Marks that may be special tokens, which show as nothing unless they are asked for. */
  marks: readonly string[]
  /** What in a chat template shows that the model writes calls this way. */
  shownBy: RegExp
}

/** In the order in which templates are asked: the first that fits. */
export const formats = {
  hermes: {
    family: families.hermes,
    marks: ["<tool_call>", "</tool_call>"],
    shownBy: /<tool_call>/,
  },
  mistral: {
    family: families.mistral,
    marks: ["[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"],
    shownBy: /\[TOOL_CALLS\]/,
  },
  llama3: {
    family: families.llama3,
    marks: ["<|python_tag|>"],
    shownBy: /<\|python_tag\|>|ipython/,
  },
  expressions: { family: families.expressions, marks: [], shownBy: /\[\w+\(\w+=/ },
  json: { family: families.json, marks: [], shownBy: /(?:)/ },
} as const satisfies Record<string, Format>

export type FormatName = keyof typeof formats

export function formatOf(template: Template): FormatName {
  const names = Object.keys(formats) as FormatName[]
  return names.find((name) => formats[name].shownBy.test(template.source))!
}

/** Reads the calls of one reply. All text given comes back as pieces, in order; what is undecided waits. */
export class CallReader {
  readonly #input = new Input()
  readonly #run: Reading<void>

  constructor(format: Format, names: Names) {
    const input = this.#input
    this.#run = (function* () {
      yield* format.family(input, names)
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
