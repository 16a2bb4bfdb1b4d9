// `sinter chat MODEL`: a conversation in the terminal, over the same engine that serves. One line is one message, or all that
// stands between two """; a line that begins with / is for the chat itself. Piped, it answers each message of stdin on stdout and
// says nothing else there; what is refused costs its answer, and ends the whole with exit code 2. Ctrl-C stops an answer; a second
// one, and one between answers, ends.

import type { AppChat } from "../app/requests.ts"
import type { AudioPart, ChatMessage, ImagePart } from "../chat/conversation.ts"
import type { EngineStats } from "../engine/stats.ts"
import { Problem } from "../errors.ts"
import {
  begunWith,
  type ChatOptions,
  counted,
  openForOne,
  printAnswer,
  type SamplingOptions,
} from "./answer.ts"
import { loadConversation, saveConversation } from "./conversation-file.ts"
import { type Lines, openLines } from "./lines.ts"
import { audioOf, imageOf, userMessage } from "./media.ts"
import { samplingOptions } from "./options.ts"
import { endNow, INTERRUPTED } from "./signals.ts"
import { quoted, refuse } from "./values.ts"

export async function chat(model: string, options: ChatOptions): Promise<void> {
  const app = await openForOne(model, options)
  try {
    const { chat, engine } = await app.ready
    const stats = options["--stats"] ? () => engine.stats() : undefined
    const begin = begunWith(options)
    await converse({ chat, stats, model, begin, messages: begin, media: [], sampling: options })
  } finally {
    await app.close()
  }
}

const EXIT = "/exit"
const QUOTES = '"""'

interface Conversation {
  chat: AppChat
  stats: (() => EngineStats) | undefined
  model: string
  /** What it begins with, and begins again with. */
  begin: readonly ChatMessage[]
  messages: readonly ChatMessage[]
  /** What the next message shows or plays. */
  media: readonly (ImagePart | AudioPart)[]
  sampling: SamplingOptions
}

interface Command {
  /** What stands behind its name. */
  argument?: string
  help: string
  /** @returns what to say of it */
  run(conversation: Conversation, argument: string): string
}

function withNext(conversation: Conversation, part: ImagePart | AudioPart): string {
  conversation.media = [...conversation.media, part]
  const images = conversation.media.filter((part) => "image" in part).length
  const recordings = conversation.media.length - images
  const count = (number: number, one: string, many: string) =>
    number === 1 ? one : `${number} ${many}`
  const does = [
    ...(images > 0 ? [`shows ${count(images, "an image", "images")}`] : []),
    ...(recordings > 0 ? [`plays ${count(recordings, "a recording", "recordings")}`] : []),
  ]
  return `the next message ${does.join(" and ")}`
}

const commands: Readonly<Record<string, Command>> = {
  "/help": { help: "Lists these.", run: help },
  "/reset": {
    help: "Forgets what was said.",
    run: (conversation) => {
      conversation.messages = conversation.begin
      conversation.media = []
      return "forgotten"
    },
  },
  "/image": {
    argument: "FILE",
    help: "Shows the model an image, with the next message.",
    run: (conversation, file) => withNext(conversation, imageOf(file, "/image")),
  },
  "/audio": {
    argument: "FILE",
    help: "Plays the model a recording, with the next message.",
    run: (conversation, file) => withNext(conversation, audioOf(file, "/audio")),
  },
  "/set": {
    argument: "NAME VALUE",
    help: "Draws answers otherwise: an option of sinter chat, without its dashes.",
    run: (conversation, setting) => set(conversation, setting),
  },
  "/save": {
    argument: "FILE",
    help: "Writes the conversation, as a request that a server takes.",
    run: ({ model, messages }, file) => {
      saveConversation(file, model, messages)
      return `${messages.length} messages saved`
    },
  },
  "/load": {
    argument: "FILE",
    help: "Goes on with a conversation that was saved.",
    run: (conversation, file) => {
      conversation.messages = loadConversation(file)
      return `${conversation.messages.length} messages loaded`
    },
  },
  [EXIT]: { help: "Ends.", run: () => "" },
}

function help(): string {
  const rows = Object.entries(commands).map(([name, { argument, help }]) => {
    const usage = argument ? `${name} ${argument}` : name
    return `${usage.padEnd(18)}${help}`
  })
  return [...rows, `${QUOTES}               Begins a message of several lines, and ends it.`].join(
    "\n",
  )
}

function settable(): string[] {
  return Object.keys(samplingOptions).map((name) => name.slice(2))
}

/** @param setting "temperature 0.5" */
function set(conversation: Conversation, setting: string): string {
  const [name = "", value = ""] = setting.split(/\s+/)
  const option = Object.entries(samplingOptions).find(([long]) => long === `--${name}`)?.[1]
  if (!option) refuse("/set", `${quoted(name)} is none of ${settable().join(", ")}.`)
  const read = option.read(value, `/set ${name}`)
  conversation.sampling = { ...conversation.sampling, [`--${name}`]: read }
  return `${name} is ${value}`
}

async function converse(conversation: Conversation): Promise<void> {
  let answering: AbortController | undefined
  const { stdin, stdout } = process
  const lines = openLines(stdin, stdout, stdin.isTTY === true)
  const interrupt = () => {
    const isStuck = answering?.signal.aborted
    if (answering && !isStuck) return answering.abort()
    lines.close()
    if (isStuck) void endNow(INTERRUPTED)
  }
  lines.onInterrupt(interrupt)
  process.on("SIGINT", interrupt)
  if (stdin.isTTY) console.log("Ctrl-C stops an answer; /help lists what else there is.")
  for await (const said of messagesOf(lines)) {
    if (said.command === EXIT) break
    answering = new AbortController()
    await react(conversation, said, answering.signal).catch(complain)
    answering = undefined
  }
  lines.close()
  process.off("SIGINT", interrupt)
}

/** What somebody has said: to the chat when it names a command, else to the model. */
interface Said {
  command?: string | undefined
  /** The command's argument, or the message. */
  text: string
}

async function react(
  conversation: Conversation,
  { command, text }: Said,
  signal: AbortSignal,
): Promise<void> {
  if (command !== undefined) console.error(obey(conversation, command, text))
  else if (text.trim() !== "") {
    const { chat, messages, media, sampling, stats } = conversation
    const asked: ChatMessage[] = [...messages, userMessage(text, media)]
    conversation.media = [] // also of a message that is refused: one of them may be why
    const content = await counted(stats, () => printAnswer(chat, asked, sampling, signal))
    conversation.messages = [...asked, { role: "assistant", content }]
  }
}

function obey(conversation: Conversation, name: string, argument: string): string {
  const command = commands[name]
  if (!command)
    refuse(name, `is no command: /help lists them; between two ${QUOTES} it is a message.`)
  if (command.argument && argument === "") refuse(name, `needs ${command.argument} behind it.`)
  return command.run(conversation, argument)
}

/** Of a refusal the conversation is as it was before. */
function complain(error: unknown): void {
  if (!(error instanceof Problem)) throw error
  console.error(error.message)
  if (!process.stdin.isTTY) process.exitCode = 2 // nobody watches, so whoever runs it must be told
}

/** A line each, or all lines from one """ to the next. */
async function* messagesOf(lines: Lines): AsyncGenerator<Said> {
  let open: string | undefined
  lines.ask()
  for await (const line of lines) {
    if (open === undefined && !line.startsWith(QUOTES)) yield saidBy(line)
    else {
      const text: string = open === undefined ? line.slice(QUOTES.length) : `${open}\n${line}`
      const isOver = text.trimEnd().endsWith(QUOTES)
      open = isOver ? undefined : text
      if (isOver)
        yield {
          text: text
            .trimEnd()
            .slice(0, -QUOTES.length)
            .replace(/^\n|\n$/g, ""),
        }
    }
    lines.ask(open === undefined ? undefined : "… ")
  }
  if (open !== undefined) yield { text: open }
}

function saidBy(line: string): Said {
  const [, command, argument = ""] = /^(\/[a-z]+)(?:\s+(.*))?$/.exec(line.trimEnd()) ?? []
  return command === undefined ? { text: line } : { command, text: argument }
}
