// What a shell asks to complete a line that begins with `sinter`: commands, then the options of the one that is named, then
// files. Printed from the command line itself, so a new option is completed as soon as there is one. zsh reads what bash does.

import type { Command } from "commander"

export const shells = ["bash", "zsh", "fish"] as const
export type Shell = (typeof shells)[number]

/** How a user takes each up, for good. */
export const installing: Record<Shell, string> = {
  bash: `source <(sinter completion bash)   # in ~/.bashrc`,
  zsh: `source <(sinter completion zsh)    # in ~/.zshrc, behind compinit`,
  fish: `sinter completion fish > ~/.config/fish/completions/sinter.fish`,
}

export function completion(shell: Shell, program: Command): string {
  const commands = program.commands.map((command) => ({
    name: command.name(),
    summary: command.description(),
    parts: command.commands.map((part) => part.name()),
    flags: flagsOf(command),
  }))
  if (shell === "fish") return fish(commands)
  const words = bash(commands)
  return shell === "zsh" ? `autoload -U +X bashcompinit && bashcompinit\n${words}` : words
}

interface Completed {
  name: string
  summary: string
  /** Words that must follow its name, where it has any. */
  parts: string[]
  flags: { long: string; help: string; takesValue: boolean }[]
}

/** Those of a command, and of what must follow it. */
function flagsOf(command: Command): Completed["flags"] {
  const own = [command, ...command.commands].flatMap(({ options }) => options)
  return own.map(({ long, description, required }) => ({
    long: long!,
    help: description.split(" (default: ", 1)[0]!,
    takesValue: required,
  }))
}

function bash(commands: readonly Completed[]): string {
  const cases = commands.map(({ name, parts, flags }) => {
    const words = [...parts, ...flags.map(({ long }) => long), "--help"].join(" ")
    return `    ${name}) words="${words}"${parts.length > 0 ? " files=no" : ""} ;;`
  })
  const names = [...commands.map(({ name }) => name), "help", "--version", "--help"].join(" ")
  return `_sinter() {
  local words files=yes
  case "\${COMP_WORDS[1]}" in
${cases.join("\n")}
    *) words="" ;;
  esac
  local word="\${COMP_WORDS[COMP_CWORD]}"
  if [ "$COMP_CWORD" -le 1 ]; then words="${names}"; fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
  if [ "$files" = yes ] && [ "$COMP_CWORD" -gt 1 ] && [ "\${word:0:1}" != - ]; then
    COMPREPLY+=($(compgen -f -- "$word"))
  fi
}
complete -o filenames -F _sinter sinter
`
}

function fish(commands: readonly Completed[]): string {
  const quoted = (text: string) => `'${text.replaceAll("\\", "\\\\").replaceAll("'", "\\'")}'`
  const lines = commands.flatMap(({ name, summary, parts, flags }) => {
    const within = `complete -c sinter -n '__fish_seen_subcommand_from ${name}'`
    return [
      `complete -c sinter -n __fish_use_subcommand -a ${name} -d ${quoted(summary)}`,
      ...parts.map((part) => `${within} -a ${part}`),
      ...flags.map(({ long, help, takesValue }) => {
        const value = takesValue ? " -r" : ""
        return `${within} -l ${long.slice(2)}${value} -d ${quoted(help)}`
      }),
    ]
  })
  return `${lines.join("\n")}\n`
}
