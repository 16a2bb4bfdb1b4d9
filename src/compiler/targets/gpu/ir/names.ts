// What a kernel's statements and memory are called where somebody reads about them: in the twin's refusals, in those of
// check.ts and in printed kernels. Statements are numbered as they are written down, those within a loop or a branch after it.

import type { Kernel, Memory, Statement } from "./ir.ts"

/** The name of a buffer or a shared array. */
export function memoryName({ operands, shared }: Kernel, memory: Memory): string {
  if (memory.kind === "buffer") return operands[memory.operand]?.name ?? `${memory.operand}?`
  return shared.find(({ id }) => id === memory.id)?.name ?? `${memory.id}?`
}

/** A statement by its number, its kind and what it is about. */
export function statementName(kernel: Kernel, statement: Statement, number: number): string {
  const about =
    "memory" in statement
      ? memoryName(kernel, statement.memory)
      : "id" in statement && kernel.names.get(statement.id)
  return `statement ${number} (${statement.kind}${about ? ` ${about}` : ""})`
}
