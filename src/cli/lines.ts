// Lines of a terminal or a pipe. From the end of a line until the next one is asked for, a terminal echoes nothing: what is
// typed or pasted meanwhile is kept, and shown when its turn comes. A pipe has no echo and no prompt.

import { createInterface } from "node:readline"
import { type Readable, Writable } from "node:stream"

export interface Lines extends AsyncIterable<string> {
  /** Shows the prompt, and behind it what has been typed of the next line; echoes the rest of that line. */
  ask(): void
  /** Ctrl-C of a terminal, whose keys are read here. */
  onInterrupt(listener: () => void): void
  /** No line follows. */
  close(): void
}

const PROMPT = "> "

export function openLines(
  input: Readable,
  screen: Writable & { columns?: number },
  terminal: boolean,
): Lines {
  const echo = new Echo(screen)
  const reader = createInterface({
    input,
    terminal,
    prompt: PROMPT,
    ...(terminal && { output: echo }),
  })
  /** Those that nobody has taken yet, and whether the screen has them. */
  const waiting: { text: string; shown: boolean }[] = []
  let closed = false
  let wake = () => {}
  reader.on("line", (text) => {
    waiting.push({ text, shown: !terminal || echo.open })
    echo.open = false
    wake()
  })
  reader.on("close", () => {
    closed = true
    wake()
  })
  return {
    ask() {
      if (!terminal || closed || waiting.length > 0) return // the next line is there already
      const typed = reader.line
      reader.write(null, { ctrl: true, name: "e" })
      reader.write(null, { ctrl: true, name: "u" })
      echo.open = true
      reader.prompt()
      reader.write(typed)
    },
    onInterrupt: (listener) => void reader.on("SIGINT", listener),
    close: () => reader.close(),
    async *[Symbol.asyncIterator]() {
      for (;;) {
        const line = waiting.shift()
        if (line) {
          if (!line.shown) screen.write(`${PROMPT}${line.text}\n`)
          yield line.text
        } else if (closed) return
        else {
          await new Promise<void>((resolve) => {
            wake = resolve
          })
        }
      }
    },
  }
}

/** What readline writes to: the screen, or nothing. */
class Echo extends Writable {
  open = true
  readonly #screen: Writable & { columns?: number }

  constructor(screen: Writable & { columns?: number }) {
    super()
    this.#screen = screen
    screen.on("resize", () => this.emit("resize"))
  }

  get columns(): number {
    return this.#screen.columns ?? 80
  }

  override _write(bytes: Buffer, _encoding: string, done: () => void): void {
    if (this.open) this.#screen.write(bytes)
    done()
  }
}
