// Lines of a terminal or a pipe. From the end of a line until the next one is asked for, a terminal echoes nothing: what is
// typed or pasted meanwhile is kept, and shown when its turn comes. A pipe has no echo and no prompt.
//
// A terminal is asked to say where a paste begins and ends (bracketed paste): what is pasted is one line, however many it has,
// until a key ends it.

import { createInterface } from "node:readline"
import { type Readable, Writable } from "node:stream"

export interface Lines extends AsyncIterable<string> {
  /** Shows the prompt, and behind it what has been typed of the next line; echoes the rest of that line. */
  ask(prompt?: string): void
  /** Ctrl-C of a terminal, whose keys are read here. */
  onInterrupt(listener: () => void): void
  /** No line follows. */
  close(): void
}

const PROMPT = "> "
const [PASTES_ARE_TOLD, PASTES_ARE_KEYS] = ["\x1b[?2004h", "\x1b[?2004l"]

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
  /** Lines of a paste whose last line has not been ended. */
  let pasted: string[] = []
  let pasting = false
  let asked = PROMPT
  let closed = false
  let wake = () => {}
  input.on("keypress", (_, key: { name?: string }) => {
    if (key.name === "paste-start") pasting = true
    if (key.name === "paste-end") pasting = false
  })
  reader.on("line", (text) => {
    pasted.push(text)
    if (pasting) return
    waiting.push({ text: pasted.join("\n"), shown: !terminal || echo.open })
    pasted = []
    echo.open = false
    wake()
  })
  reader.on("close", () => {
    closed = true
    if (terminal) screen.write(PASTES_ARE_KEYS)
    wake()
  })
  if (terminal) screen.write(PASTES_ARE_TOLD)
  return {
    ask(prompt = PROMPT) {
      asked = prompt
      if (!terminal || closed || waiting.length > 0) return // the next line is there already
      const typed = reader.line
      reader.write(null, { ctrl: true, name: "e" })
      reader.write(null, { ctrl: true, name: "u" })
      echo.open = true
      reader.setPrompt(pasted.length > 0 ? "" : prompt)
      if (pasted.length > 0) screen.write(`${prompt}${pasted.join("\n")}\n`)
      reader.prompt()
      reader.write(typed)
    },
    onInterrupt: (listener) => void reader.on("SIGINT", listener),
    close: () => reader.close(),
    async *[Symbol.asyncIterator]() {
      for (;;) {
        const line = waiting.shift()
        if (line) {
          if (!line.shown) screen.write(`${asked}${line.text}\n`)
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
