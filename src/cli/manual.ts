// docs/options.md, printed from the tables that the command line is read with.

import { installing } from "./completion.ts"
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
import { overrideFields } from "./overrides.ts"
import { environmentName } from "./read-options.ts"

export function optionsPage(): string {
  return `# Options

Printed from \`src/cli/options.ts\` by \`npm run docs\`. An option that is not given on the command line is looked for in
the file that \`--config\` names, then in the environment, under the name in the last column; an empty variable is as none, and one whose
name begins with \`SINTER_\` and is none of these is refused. A value that cannot be read ends the start with one sentence and exit
code 2.

## sinter serve MODEL...

MODEL is ${MODEL_HELP}: [hub.md](hub.md).

${table(serveOptions)}

## sinter chat MODEL

${table(chatOptions)}

A line is a message; so is all that stands between two \`"""\`, and what is pasted. \`/help\` lists the commands: \`/set temperature 0.5\`,
\`/image FILE\` and \`/audio FILE\`, which come with the next message to a model that sees or hears, \`/save FILE\` and \`/load FILE\`, which is the body of a request to
\`/v1/chat/completions\`, \`/reset\`, \`/exit\`.

## sinter run MODEL [PROMPT]

One answer on stdout. What is piped in stands behind the prompt, or is it: \`sinter run MODEL "Summarise:" < notes.txt\`. Without either it is
\`sinter chat\`, whose options it takes, and one more:

${table({ "--image": runOptions["--image"], "--audio": runOptions["--audio"] })}

\`sinter run MODEL "What is this?" --image cat.png\` asks a model that sees, and \`--audio question.wav\` one that hears.

## sinter embed MODEL

Each line of stdin is a text; its row of numbers is a line of stdout, as JSON. A line that is refused, as it is empty or too long, ends
it with its number, behind the rows of the lines before.

${table(embedOptions)}

## sinter batch MODEL

Each line of stdin is a request in the form of OpenAI's batches, and each line of stdout its answer, in order:
[clients.md](clients.md#a-file-of-requests).

${table(batchOptions)}

## sinter compile MODEL

${table(compileOptions)}

## sinter inspect MODEL

${table(inspectOptions)}

## sinter pull, sinter show, sinter rm MODEL; sinter list

None takes options; [hub.md](hub.md) says which variables of the environment they read.

| Command | |
|---|---|
${Object.entries(modelCommands)
  .map(([name, summary]) => `| \`sinter ${name} MODEL\` | ${summary} |`)
  .join("\n")}
| \`sinter list\` | List the models that are downloaded. |

## sinter devices

The devices of this machine, what each can do, and why one cannot be used: [devices.md](devices.md).

${table(devicesOptions)}

## sinter ps

What a running server has in memory, and when it is unloaded.

${table(psOptions)}

## sinter completion bash, zsh, fish

Prints what the shell needs to complete command lines:

\`\`\`sh
${Object.values(installing).join("\n")}
\`\`\`

## sinter shelf list, sinter shelf prune

The shelf holds libraries that were compiled, weights that were packed and what GPUs' drivers made of kernels, for the next start.
What a running server uses is never taken away; what a killed one left half written is. \`list\` takes no options, \`prune\` these:

${table(pruneOptions)}

## --overrides

Fields as \`field=value\`, several separated by \`;\`: \`--overrides "max_num_sequence=2;prefill_chunk_size=256"\`.

| Field | Type | Meaning |
|---|---|---|
${Object.entries(overrideFields)
  .map(([name, { type, help }]) => `| \`${name}\` | ${type} | ${help} |`)
  .join("\n")}
`
}

function table(options: Record<string, Option>): string {
  const rows = Object.entries(options).map(([name, option]) => {
    const spellings = [name, ...(option.also ? [option.also] : [])].map((spelling) =>
      option.value ? `\`${spelling} ${option.value}\`` : `\`${spelling}\``,
    )
    const cells = [
      spellings.join(", "),
      printedDefault(option),
      option.help,
      `\`${environmentName(name)}\``,
    ]
    return `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |`
  })
  return ["| Option | Default | Meaning | Environment |", "|---|---|---|---|", ...rows].join("\n")
}
