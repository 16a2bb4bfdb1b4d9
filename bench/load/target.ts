// The server under load: how it is called, and what its /metrics say.

import { once } from "node:events"
import { Agent, type ClientRequest, type IncomingMessage, request } from "node:http"

export interface Target {
  url: string
  model: string
  apiKey: string | undefined
  agent: Agent
}

export interface Opened {
  sent: ClientRequest
  response: IncomingMessage
}

export const CHAT = "/v1/chat/completions"

export function targetAt(url: string, model: string, apiKey?: string): Target {
  const agent = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY })
  return { url: url.replace(/\/$/, ""), model, apiKey, agent }
}

/** Sends a chat and waits for the answer's headers. */
export async function open(target: Target, body: object): Promise<Opened> {
  const sent = send(target, JSON.stringify({ model: target.model, ...body }))
  const [response] = (await once(sent, "response")) as [IncomingMessage]
  return { sent, response }
}

/** Sends any text as a body, at once and whole. */
export function send(target: Target, text: string, path = CHAT, method = "POST"): ClientRequest {
  const sent = start(target, path, method, { "content-length": Buffer.byteLength(text) })
  sent.end(text)
  return sent
}

/** Begins a request; its body is the caller's. */
export function start(
  { url, apiKey, agent }: Target,
  path: string,
  method: string,
  headers: Record<string, string | number>,
): ClientRequest {
  const sent = request(url + path, {
    method,
    agent,
    headers: {
      "content-type": "application/json",
      "x-api-dialect": "openai",
      ...(apiKey && { authorization: `Bearer ${apiKey}` }),
      ...headers,
    },
  })
  sent.on("error", () => {}) // whoever waits for the response is told by `once`
  return sent
}

export async function textOf(response: IncomingMessage): Promise<string> {
  let text = ""
  for await (const piece of response.setEncoding("utf8")) text += piece
  return text
}

/** Numbers of /metrics by name, with their labels. */
export async function scrape(target: Target): Promise<ReadonlyMap<string, number>> {
  const [response] = (await once(send(target, "", "/metrics", "GET"), "response")) as [
    IncomingMessage,
  ]
  const page = await textOf(response)
  if (response.statusCode !== 200) throw new Error(`/metrics answered ${response.statusCode}`)
  const lines = page.matchAll(/^(\w+(?:\{.*\})?) (\S+)$/gm)
  return new Map(Array.from(lines, ([, name, value]) => [name!, Number(value)]))
}
