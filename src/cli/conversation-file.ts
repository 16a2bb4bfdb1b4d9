// A conversation as a file: the body of a request to /v1/chat/completions, so that it can be sent to a server as well.

import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { checkNames } from "../app/requests.ts"
import type { ChatMessage } from "../chat/conversation.ts"
import { Problem, systemWords, unreadable } from "../errors.ts"
import { readingMessages } from "../http/apis/chat/messages.ts"
import { ChatCompletionMessage } from "../http/apis/chat/schema.ts"
import { check } from "../http/check.ts"
import type { Json } from "../http/json.ts"
import { atOnce } from "../http/turns.ts"
import { Type } from "../http/type.ts"
import { sent } from "./media.ts"
import { quoted, refuse } from "./values.ts"

/** Writes over what `saveConversation` has written, and over nothing else. */
export function saveConversation(
  path: string,
  model: string,
  messages: readonly ChatMessage[],
): void {
  if (existsSync(path) && !isConversation(path))
    refuse("/save", `${quoted(path)} exists and is no conversation; give it another name.`)
  const text = JSON.stringify({ model, messages: messages.map(written) }, undefined, 2)
  try {
    writeFileSync(path, `${text}\n`)
  } catch (error) {
    refuse("/save", `${quoted(path)} cannot be written: ${systemWords(error as Error)}.`)
  }
}

/** As a client writes it. */
function written({ parts, ...message }: ChatMessage): object {
  if (!parts) return message
  const content = parts.map((part) => ("text" in part ? { type: "text", ...part } : sent(part)))
  return { ...message, content }
}

/** @throws `option_invalid` in words for people */
export function loadConversation(path: string): ChatMessage[] {
  const text = contentOf(path)
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch (error) {
    refuse("/load", `${quoted(path)} is no JSON: ${(error as Error).message}.`)
  }
  try {
    return messagesIn(body)
  } catch (error) {
    if (!(error instanceof Problem)) throw error
    return refuse("/load", `${quoted(path)} is no conversation: ${error.message}`)
  }
}

const Messages = Type.Array(ChatCompletionMessage)

function messagesIn(body: unknown): ChatMessage[] {
  const { messages = null } = (body ?? {}) as { messages?: Json }
  const given = check(Messages, messages, "messages")
  for (const [i, message] of given.entries())
    checkNames(`messages[${i}]`, message, ["role", "content"])
  return atOnce(readingMessages(given, { sees: true, hears: true }))
}

function contentOf(path: string): string {
  try {
    return readFileSync(path, "utf8")
  } catch (error) {
    return refuse("/load", `${unreadable(quoted(path), error)}.`)
  }
}

function isConversation(path: string): boolean {
  try {
    loadConversation(path)
    return true
  } catch {
    return false
  }
}
