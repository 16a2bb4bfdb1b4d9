// The commands and what each takes, as commander sees them: help, suggestions for typing errors, and the text of every
// option. What the texts mean is read in read-options.ts; what a command does stands in its own file, which is loaded when the
// command has been read: help and refusals must not wait for native packages.

import { Command, type CommanderError, Option as Flag, Help } from "commander"
import { version } from "../version.ts"
import { completion, installing, shells } from "./completion.ts"
import { type ConfigFile, readConfigFile } from "./config-file.ts"
import { isLikely } from "./likely.ts"
import {
  batchOptions,
  chatOptions,
  compileOptions,
  devicesOptions,
  embedOptions,
  inspectOptions,
  MODEL_HELP,
  modelCommands,
  type Option,
  printedDefault,
  pruneOptions,
  psOptions,
  runOptions,
  serveOptions,
} from "./options.ts"
import {
  assertKnownNames,
  environmentName,
  type Given,
  readOptions,
  type Values,
} from "./read-options.ts"
import { quoted, refuse } from "./values.ts"

export function commandLine(): Command {
  const program = new Command("sinter")
    .description("Compiles language models and serves them over an OpenAI-compatible API.")
    .version(version)
    .helpCommand("help [command]", "Print the help of a command.")
    .configureHelp({ formatItem })
    .addHelpText("after", "\nsinter serve --help lists the options of a command.")
    .configureOutput({ outputError: () => {} }) // command-line.ts prints them, all in one form
    .exitOverride()
  const serving = program
    .command("serve")
    .description("Serve a model, or several, over HTTP.")
    .argument("[MODEL...]", `${MODEL_HELP}; or a folder of models: all that can be are served`)
    .usage("MODEL... [options]")
  withOptions(serving, serveOptions, async (options, { models }) => {
    const named = serving.args.length > 0 ? serving.args : models
    if (named.length === 0) refuse("serve", "no MODEL is named, here or in a file of --config.")
    await (await import("./serve.ts")).serve(named, options)
  })
  command(
    program,
    "chat",
    "Talk to a model in the terminal.",
    chatOptions,
    async (model, options) => (await import("./chat.ts")).chat(model, options),
  )
  command(
    program,
    "run",
    "Print one answer.",
    runOptions,
    async (model, options, prompt) => (await import("./run.ts")).run(model, prompt, options),
    ["[PROMPT]", "What to answer; what is piped in stands behind it. Without either: chat."],
  )
  command(
    program,
    "embed",
    "Turn each line of stdin into a row of numbers.",
    embedOptions,
    async (model, options) => (await import("./embed.ts")).embed(model, options),
  )
  command(program, "batch", "Answer a file of requests.", batchOptions, async (model, options) =>
    (await import("./batch.ts")).batch(model, options),
  )
  command(
    program,
    "compile",
    "Compile a model for this machine.",
    compileOptions,
    async (model, options) => (await import("./compile.ts")).compile(model, options),
  )
  command(
    program,
    "inspect",
    "Show a model and what is made of it.",
    inspectOptions,
    async (model, options) => (await import("./inspect.ts")).inspect(model, options),
  )
  for (const [name, summary] of Object.entries(modelCommands)) {
    command(program, name, summary, {}, async (model) =>
      (await import("./models.ts"))[name as keyof typeof modelCommands](model),
    )
  }
  withOptions(
    program.command("list").description("List the models that are downloaded.").usage(""),
    {},
    async () => (await import("./models.ts")).list(),
  )
  withOptions(
    program
      .command("devices")
      .description("List the devices of this machine, and why one cannot be used.")
      .usage("[options]"),
    devicesOptions,
    async (options) => (await import("./devices.ts")).devices(options),
  )
  withOptions(
    program
      .command("ps")
      .description("List what a running server has in memory.")
      .usage("[options]"),
    psOptions,
    async (options) => (await import("./ps.ts")).ps(options["--url"], options["--api-key"][0]),
  )
  const completing = program
    .command("completion")
    .description("Print what a shell needs to complete sinter's command lines.")
    .argument("<SHELL>", shells.map((shell) => `${shell}: ${installing[shell]}`).join("; "))
    .usage(shells.join("|"))
  withOptions(completing, {}, async () => {
    const [shell] = completing.args as [string]
    const known = shells.find((name) => name === shell)
    if (!known) refuse("completion", `expected ${shells.join(", ")}, got ${quoted(shell)}.`)
    process.stdout.write(completion(known, program))
  })
  const shelf = program
    .command("shelf")
    .description("What earlier starts have built and packed for the next ones.")
    .usage("list|prune [options]")
    .helpCommand(false)
  withOptions(shelf.command("list").description("List it."), {}, async () =>
    (await import("./shelf.ts")).list(),
  )
  withOptions(
    shelf.command("prune").description("Take away what is not used, and what dead runs left."),
    pruneOptions,
    async (options) => (await import("./shelf.ts")).prune(options),
  )
  return program
}

/** A command that takes a model, and perhaps one thing more. */
function command<Table extends Record<string, Option>>(
  program: Command,
  name: string,
  summary: string,
  options: Table,
  run: (model: string, values: Values<Table>, second?: string) => Promise<void>,
  second?: readonly [name: string, help: string],
): void {
  const added = program.command(name).description(summary).argument("<MODEL>", MODEL_HELP)
  if (second) added.argument(...second)
  added.usage(["MODEL", ...(second ? [second[0]] : []), "[options]"].join(" "))
  withOptions(added, options, (values) => run(added.args[0]!, values, added.args[1]))
}

function withOptions<Table extends Record<string, Option>>(
  command: Command,
  options: Table,
  run: (values: Values<Table>, file: ConfigFile) => Promise<void>,
): void {
  for (const [long, option] of Object.entries(options)) command.addOption(toFlag(long, option))
  const { registeredArguments } = command
  const most = registeredArguments.at(-1)?.variadic ? Infinity : registeredArguments.length
  command.allowExcessArguments().action(async () => {
    const extra = command.args[most]
    if (extra !== undefined) refuse(command.name(), `${quoted(extra)} is one argument too many.`)
    const typed: Record<string, Exclude<Given, undefined>> = command.opts()
    const given = Object.fromEntries(
      command.options.map((flag) => [flag.long!, typed[flag.attributeName()]]),
    )
    assertKnownNames(process.env)
    const file = configFile(options, given["--config"])
    await run(readOptions(options, given, process.env, file.values), file)
  })
}

function configFile(options: Record<string, Option>, given: Given): ConfigFile {
  const path = given ?? process.env[environmentName("--config")]
  const isNamed = "--config" in options && typeof path === "string" && path !== ""
  return isNamed ? readConfigFile(path, options) : { models: [], values: new Map() }
}

function toFlag(long: string, option: Option): Flag {
  const { also, value, many, help } = option
  const spellings = also ? `${also}, ${long}` : long
  const flag = new Flag(
    value ? `${spellings} <${value}>` : spellings,
    `${help} (default: ${printedDefault(option)}; env: ${environmentName(long)})`,
  )
  return many ? flag.argParser(andBefore) : flag.argParser(once(long))
}

function andBefore(given: string, before: readonly string[] = []): readonly string[] {
  return [...before, given]
}

/** Of a value given twice only one could count, and nobody would see which. */
function once(long: string): (given: string, before: string | undefined) => string {
  return (given, before) => {
    if (before !== undefined) refuse(long, "is given twice; give it once.")
    return given
  }
}

const INDENT = 2
const MIN_COLUMNS = 40 // for what stands beside a term; with fewer it goes below

/** A term and its description: side by side where both have room, else the description below, wrapped between words. */
function formatItem(term: string, termWidth: number, description: string, help: Help): string {
  const width = help.helpWidth ?? 80
  if (width - INDENT - termWidth - INDENT >= MIN_COLUMNS)
    return Help.prototype.formatItem.call(help, term, termWidth, description, help)
  const margin = 3 * INDENT
  const below = help.boxWrap(description, width - margin).replace(/^/gm, " ".repeat(margin))
  return `${" ".repeat(INDENT)}${term}\n${below}`
}

/**
 * Commander's words for what was typed, without a suggestion that nobody could have meant: --port for --font, or --mode for
 * the --model that other servers take.
 */
export function sentenceOf({ code, message }: CommanderError): string {
  if (message.includes("unknown option '--model'")) {
    return "unknown option '--model'; a model is named without one: sinter serve MODEL"
  }
  const sentence = message.replace(/^error: /, "")
  const [, typed = ""] = /'([^']*)'/.exec(sentence) ?? []
  const told = sentence.replace(/\s*\(Did you mean (?:one of )?(.*)\?\)$/, (hint, names: string) =>
    names.split(", ").some((name) => isLikely(typed, name)) ? hint : "",
  )
  const isBare = code === "commander.unknownCommand" && told.endsWith("'")
  return isBare ? `${told}; sinter --help lists them` : told
}
