// A Chromium that is driven over a pipe: its DevTools protocol is JSON ended by a zero byte, which needs no package.
// Where no Chromium is installed the tests that need one are skipped, saying so; CHROMIUM names one elsewhere.

import { type ChildProcess, spawn, spawnSync } from "node:child_process"
import { once } from "node:events"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { Readable, Writable } from "node:stream"

const NAMES = [process.env.CHROMIUM, "chromium", "chromium-browser", "google-chrome"]

export const chromium = NAMES.find(
  (name) => name && spawnSync(name, ["--version"], { stdio: "ignore" }).status === 0,
)

export interface Page {
  open: (url: string) => Promise<void>
  /** Shows pages as a telephone of this size does; 0 and 0: as a window does. */
  resize: (width: number, height: number) => Promise<void>
  /** The value of an expression in the page, awaited; it may do what a user may, as open a tab. */
  evaluate: <Value>(expression: string) => Promise<Value>
  screenshot: (file: URL) => Promise<void>
  /** Every address that the page asked for. */
  requests: string[]
  /** Every error that its scripts left uncaught. */
  errors: string[]
  close: () => Promise<void>
}

// biome-ignore lint/suspicious/noExplicitAny: the protocol's messages have a hundred shapes
type Message = any

export async function openBrowser(): Promise<Page> {
  const folder = mkdtempSync(join(tmpdir(), "sinter-browser-"))
  const process = spawn(
    chromium!,
    [
      "--headless=new",
      "--no-sandbox",
      "--remote-debugging-pipe",
      "--window-size=1100,1000",
      // A microphone that beeps, which pages need not ask for.
      ...["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"],
      `--user-data-dir=${folder}`,
      "about:blank",
    ],
    { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] },
  )
  const { send, onEvent } = converse(process)
  const { targetId } = await send("Target.createTarget", { url: "about:blank" })
  const { sessionId } = await send("Target.attachToTarget", { targetId, flatten: true })
  const inPage = (method: string, params: object = {}) => send(method, params, sessionId)
  const requests: string[] = []
  const errors: string[] = []
  let loaded = () => {}
  onEvent((method, params) => {
    if (method === "Network.requestWillBeSent") requests.push(params.request.url)
    if (method === "Runtime.exceptionThrown") errors.push(params.exceptionDetails.text)
    if (method === "Page.loadEventFired") loaded()
  })
  for (const domain of ["Page", "Network", "Runtime"]) await inPage(`${domain}.enable`)

  return {
    requests,
    errors,
    open: async (url) => {
      const load = new Promise<void>((resolve) => {
        loaded = resolve
      })
      await inPage("Page.navigate", { url })
      await load
    },
    resize: async (width, height) => {
      const size = { width, height, deviceScaleFactor: 1, mobile: width > 0 }
      await inPage("Emulation.setDeviceMetricsOverride", size)
    },
    evaluate: async (expression) => {
      const asked = { expression, awaitPromise: true, returnByValue: true, userGesture: true }
      const { result, exceptionDetails } = await inPage("Runtime.evaluate", asked)
      if (exceptionDetails) throw new Error(exceptionDetails.exception?.description)
      return result.value
    },
    screenshot: async (file) => {
      const { data } = await inPage("Page.captureScreenshot", { format: "png" })
      writeFileSync(file, Buffer.from(data, "base64"))
    },
    close: async () => {
      const closed = once(process, "exit")
      await send("Browser.close")
      await closed
      rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
    },
  }
}

function converse(process: ChildProcess) {
  const [, , , input, output] = process.stdio as [null, null, null, Writable, Readable]
  const waiting = new Map<number, (message: Message) => void>()
  const listeners: ((method: string, params: Message) => void)[] = []
  let rest = ""
  output.setEncoding("utf8").on("data", (piece: string) => {
    const texts = (rest + piece).split("\0")
    rest = texts.pop()!
    for (const text of texts) {
      const message: Message = JSON.parse(text)
      waiting.get(message.id)?.(message)
      waiting.delete(message.id)
      if (message.method) for (const listener of listeners) listener(message.method, message.params)
    }
  })
  let last = 0
  return {
    send: (method: string, params: object = {}, sessionId?: string) =>
      new Promise<Message>((resolve, reject) => {
        const id = ++last
        waiting.set(id, ({ result, error }) =>
          error ? reject(new Error(error.message)) : resolve(result),
        )
        input.write(`${JSON.stringify({ id, method, params, sessionId })}\0`)
      }),
    onEvent: (listener: (method: string, params: Message) => void) => void listeners.push(listener),
  }
}
