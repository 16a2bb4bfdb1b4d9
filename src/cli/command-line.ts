// The command line: `sinter serve MODEL`, `sinter chat MODEL`. What a user got wrong is one sentence on stderr and exit
// code 2; a stack trace means a bug of ours, and exit code 1.

import { CommanderError } from "commander"
import { exitIfStuck } from "../closing.ts"
import { Problem, systemProblem } from "../errors.ts"
import { commandLine, sentenceOf } from "./commands.ts"

/** Does what this process was asked for. */
export async function takeCommandLine(): Promise<void> {
  // Whoever read our output has seen enough (`sinter chat … | head`).
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE") process.exit(0)
    const problem = systemProblem(error)
    if (!problem) throw error
    complain(problem.message)
    process.exit()
  })
  try {
    await commandLine().parseAsync()
  } catch (error) {
    const problem = error instanceof Problem ? error : systemProblem(error)
    if (problem) complain(problem.message)
    else if (!(error instanceof CommanderError)) bug(error)
    else if (error.code === "commander.help" && error.exitCode !== 0)
      process.exitCode = 2 // no command: the help has been printed
    else if (error.exitCode !== 0) complain(sentenceOf(error))
  }
  exitIfStuck()
}

function complain(sentence: string): void {
  console.error(`sinter: ${sentence.replaceAll("\n", " ")}`)
  process.exitCode = 2
}

function bug(error: unknown): void {
  console.error(error)
  process.exit(1)
}
