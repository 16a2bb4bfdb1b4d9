// A model's chat template. What it renders is text that knows which characters the template wrote and which came with the
// request: only the former can be control tokens. Nearly all conversations are rendered at once, in a fraction of a
// millisecond; one that takes many steps goes to a thread of its own, so that no template can hold up the event loop.

import { problem } from "../errors.ts"
import type { Caller } from "../worker/lane.ts"
import { OutOfSteps, TemplateError } from "./jinja/meter.ts"
import type { Text } from "./jinja/text.ts"
import { RenderThread } from "./render-thread.ts"
import {
  openRenderer,
  type Renderer,
  type Rendering,
  type TemplateOptions,
  whereToolsStand,
} from "./rendering.ts"

export interface Template {
  readonly source: string
  /** Whether it shows tools to the model, and calls and their results. */
  readonly knowsTools: boolean
  readonly knowsCalls: boolean
  /** Whether it reads a content as a list of parts alone, and leaves out one that is a text. */
  readonly wantsLists: boolean
  /** Rejects with the problem `template_failed`, in the template's own words and caused by them; `queue_full`; or the signal's reason. */
  render(rendering: Rendering, caller?: Caller): Promise<Text>
  /** Ends its thread, if a conversation ever needed it. */
  close(): Promise<void>
}

// A turn takes about 110 steps, and 30,000 steps 3 to 10 ms; 5 million are about a second and more than a context holds.
const MESSAGES_AT_ONCE = 250
const STEPS_AT_ONCE = 30_000
const MAX_STEPS = 5_000_000
const MAX_SOURCE = 1 << 20 // characters

/** Throws the problem `model_broken`, naming `file`, when `source` is no template. */
export function openTemplate(source: string, file: string, options: TemplateOptions): Template {
  const render = open(source, file, options)
  const thread = new RenderThread(source, options)
  return {
    source,
    knowsTools: whereToolsStand(source) !== undefined,
    knowsCalls: /\btool_calls\b/.test(source),
    wantsLists: wantsLists(source, render),
    render: async (rendering, caller = { client: "" }) => {
      try {
        if (rendering.messages.length <= MESSAGES_AT_ONCE) return render(rendering, STEPS_AT_ONCE)
      } catch (error) {
        if (!(error instanceof OutOfSteps)) throw refusalOf(error)
      }
      return thread.render(rendering, MAX_STEPS, caller).catch((error: unknown) => {
        throw refusalOf(error)
      })
    },
    close: () => thread.close(),
  }
}

function open(source: string, file: string, options: TemplateOptions): Renderer {
  try {
    if (source.length > MAX_SOURCE) throw new Error("it is longer than a megabyte")
    return openRenderer(source, options)
  } catch (error) {
    const words = error instanceof Error ? error.message : String(error)
    throw problem("model_broken", { file, problem: `the chat template does not parse: ${words}` })
  }
}

const SAID = "needle"

/** Templates of Idefics 3, SmolVLM and LLaVA walk over a content, and find no part in a text. */
function wantsLists(source: string, render: Renderer): boolean {
  if (!/\btype\b/.test(source)) return false
  const messages = [{ role: "user", content: SAID }]
  const shows = (contentsAsLists: boolean) => {
    const rendering = { messages, tools: undefined, variables: {}, generationPrompt: true }
    try {
      return render({ ...rendering, contentsAsLists }, STEPS_AT_ONCE).value.includes(SAID)
    } catch {
      return false // what it refuses of a conversation is told when there is one
    }
  }
  return !shows(false) && shows(true)
}

function refusalOf(error: unknown): unknown {
  if (!(error instanceof TemplateError)) return error
  const refusal = problem("template_failed", { problem: error.message }, "messages")
  refusal.cause = error
  return refusal
}
