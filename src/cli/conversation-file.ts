// A conversation as a file: the body of a request to /v1/chat/completions, so that it can be sent to a server as well.

import { existsSync, readFileSync, writeFileSync } from "node:fs"
import { checkMessages, checkNames } from "../app/requests.ts"
import type { ChatMessage } from "../chat/conversation.ts"
import { Problem, systemWords, unreadable } from "../errors.ts"
import { quoted, refuse } from "./values.ts"

/** Writes over what `saveConversation` has written, and over nothing else. */
export function saveConversation(
  path: string,
  model: string,
  messages: readonly ChatMessage[],
): void {
  if (existsSync(path) && !isConversation(path))
    refuse("/save", `${quoted(path)} exists and is no conversation; give it another name.`)
  const text = JSON.stringify({ model, messages }, undefined, 2)
  try {
    writeFileSync(path, `${text}\n`)
  } catch (error) {
    refuse("/save", `${quoted(path)} cannot be written: ${systemWords(error as Error)}.`)
  }
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
  const { messages } = (body ?? {}) as { messages?: unknown }
  try {
    checkMessages(messages)
    for (const [i, message] of messages.entries())
      checkNames(`messages[${i}]`, message, ["role", "content"])
  } catch (error) {
    if (!(error instanceof Problem)) throw error
    refuse("/load", `${quoted(path)} is no conversation: ${error.message}`)
  }
  return [...messages]
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
