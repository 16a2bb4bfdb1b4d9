// What a load asks: chats of mixed lengths with fixed seeds, some of them held to a schema or to a tool's. Each is asked
// once alone, before the load; whoever asks it later, in whatever company, must be told the same text and calls and the
// same number of tokens.

import { type Reply, readStream } from "./reply.ts"
import { open, type Target } from "./target.ts"

export interface Question {
  body: {
    messages: readonly { role: "user"; content: string }[]
    seed: number
    temperature: number
    max_tokens: number
    ignore_eos?: true
    response_format?: object
    tools?: readonly object[]
    tool_choice?: "required"
  }
  /** The answer that was given when nobody else was there. */
  alone: Reply
}

/** A number in [0, 1); the same row of them for the same seed. */
export type Random = () => number

/** Numerical Recipes' linear congruences: fine for drawing visitors. */
export function randomFrom(seed: number): Random {
  let state = seed >>> 0
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state / 2 ** 32
  }
}

export function pick<T>(list: readonly T[], random: Random): T {
  return list[Math.floor(random() * list.length)]!
}

// Lengths of prompts in words and of replies in tokens; each prompt length meets each reply length.
const PROMPT_WORDS = [4, 40, 300]
const REPLY_TOKENS = [4, 24, 96]

const person = {
  type: "object",
  properties: {
    name: { type: "string", maxLength: 12 },
    age: { type: "integer", minimum: 0, maximum: 150 },
    likes: { type: "array", items: { enum: ["music", "paper", "rivers"] }, maxItems: 3 },
  },
  required: ["name", "age", "likes"],
  additionalProperties: false,
}

/** What else a question asks for; the replies must have room to end. */
const HELD: readonly Partial<Question["body"]>[] = [
  { response_format: { type: "json_schema", json_schema: { name: "person", schema: person } } },
  { response_format: { type: "json_object" } },
  {
    tools: [{ type: "function", function: { name: "greet", parameters: person } }],
    tool_choice: "required",
  },
]

/** Asks each question alone and keeps what it was told. Throws when an answer is not whole even then. */
export async function prepareQuestions(target: Target, random: Random): Promise<Question[]> {
  const questions: Question[] = []
  for (const words of PROMPT_WORDS) {
    for (const max_tokens of REPLY_TOKENS) {
      questions.push(await askedAlone(target, newBody(words, max_tokens, random)))
    }
  }
  for (const held of HELD) {
    const body = { ...newBody(8, 96, random), ...held }
    questions.push(await askedAlone(target, body))
  }
  return questions
}

function newBody(words: number, max_tokens: number, random: Random): Question["body"] {
  const content = `${sentence(words, random)}?`
  const seed = Math.floor(random() * 2 ** 31)
  return { messages: [{ role: "user", content }], seed, temperature: 1, max_tokens }
}

async function askedAlone(target: Target, body: Question["body"]): Promise<Question> {
  const { response } = await open(target, streamed(body))
  const alone = await readStream(response)
  if (alone.fault) throw new Error(`asked alone, an answer is broken: ${alone.fault}`)
  return { body, alone }
}

export function streamed(body: Question["body"]): object {
  return { ...body, stream: true, stream_options: { include_usage: true } }
}

export function sentence(words: number, random: Random): string {
  return Array.from({ length: words }, () => pick(WORDS, random)).join(" ")
}

const WORDS =
  "the a what who where is are was can you tell me about cat dog river mountain paper light seven green old small story name number city music water never always because".split(
    " ",
  )
