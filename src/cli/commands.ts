// The commands and what each takes, as commander sees them: help, suggestions for typing errors, and the text of every
// option. What the texts mean is read in options.ts; what a command does stands in its own file, which is loaded when the
// command has been read: help and refusals must not wait for native packages.

import { Command, Option as Flag } from "commander"
import { version } from "../version.ts"
import {
  chatOptions,
  compileOptions,
  environmentName,
  inspectOptions,
  type Option,
  printedDefault,
  readOptions,
  serveOptions,
  type Values,
} from "./options.ts"
import { refuse } from "./values.ts"

export function commandLine(): Command {
  const program = new Command("sinter")
    .description("Compiles language models and serves them over an OpenAI-compatible API.")
    .version(version)
    .helpCommand(false)
    .addHelpText("after", "\nsinter serve --help lists the options of a command.")
    .configureOutput({ outputError: () => {} }) // `main` prints them, all in one form
    .exitOverride()
  command(program, "serve", "Serve a model over HTTP.", serveOptions, async (model, options) =>
    (await import("./serve.ts")).serve(model, options),
  )
  command(
    program,
    "chat",
    "Talk to a model in the terminal.",
    chatOptions,
    async (model, options) => (await import("./chat.ts")).chat(model, options),
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
  return program
}

function command<Table extends Record<string, Option>>(
  program: Command,
  name: string,
  summary: string,
  options: Table,
  run: (model: string, values: Values<Table>) => Promise<void>,
): void {
  const added = program
    .command(name)
    .description(summary)
    .argument("<MODEL>", "a model folder, or the name of one")
    .usage("MODEL [options]")
    .action(async (model: string) => run(model, readOptions(options, given(), process.env)))
  for (const [long, option] of Object.entries(options)) added.addOption(toFlag(long, option))
  const given = () => {
    const typed: Record<string, string | true> = added.opts()
    return Object.fromEntries(
      added.options.map((flag) => [flag.long!, typed[flag.attributeName()]]),
    )
  }
}

function toFlag(long: string, option: Option): Flag {
  const { also, value, help } = option
  const spellings = also ? `${also}, ${long}` : long
  return new Flag(
    value ? `${spellings} <${value}>` : spellings,
    `${help} (default: ${printedDefault(option)}; env: ${environmentName(long)})`,
  ).argParser(once(long))
}

/** Of a value given twice only one could count, and nobody would see which. */
function once(long: string): (given: string, before: string | undefined) => string {
  return (given, before) => {
    if (before !== undefined) refuse(long, "is given twice; give it once.")
    return given
  }
}
