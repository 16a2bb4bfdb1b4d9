// The real server over the embedded model, on a free port, for tests of the API.

import { afterAll, beforeAll } from "vitest"
import { type App, type AppOptions, createApp } from "../../src/app.ts"

export interface Server {
  app: App
  /** http://127.0.0.1:PORT */
  url: string
}

/** Starts one before the file's tests and ends it after them. */
export function server(options: Partial<AppOptions> = {}): Server {
  const started = {} as Server
  beforeAll(async () => {
    started.app = await createApp({ model: "models/tiny", ...options })
    started.url = `http://127.0.0.1:${await started.app.listen(0)}`
    await started.app.ready
  }, 60_000)
  afterAll(() => started.app?.close())
  return started
}

export const messages = [{ role: "user" as const, content: "Hello! Who are you?" }]

export async function post(
  { url }: Server,
  path: string,
  body: object,
  headers: Record<string, string> = {},
): Promise<Response> {
  return fetch(url + path, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify({ model: "models/tiny", ...body }),
  })
}

/** The JSON of an answer, whatever its status. */
export async function ask(
  server: Server,
  path: string,
  body: object,
  // biome-ignore lint/suspicious/noExplicitAny: tests look wherever they like
): Promise<any> {
  return (await post(server, path, body)).json()
}

/** A whole chat completion, which must succeed. */
export async function chat(server: Server, body: object): ReturnType<typeof ask> {
  const told = await ask(server, "/v1/chat/completions", { messages, ...body })
  if (told.error) throw new Error(told.message)
  return told
}
