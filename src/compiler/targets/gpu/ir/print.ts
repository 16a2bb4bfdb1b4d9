// A kernel for people, in a notation of its own that looks like C: what `inspect` shows, whatever language a device is handed.
// Statements have the numbers that refusals call them by. An expression has brackets only where it needs them.

import type {
  Binary,
  Expression,
  Id,
  Kernel,
  Memory,
  Operand,
  Side,
  Statement,
  Unary,
} from "./ir.ts"
import { memoryName } from "./names.ts"

export function printKernel(kernel: Kernel): string {
  return new KernelText(kernel).text()
}

/** How an operation is written, and how tightly it binds: as in C, but that comparisons bind tighter than `&` and its like. */
const infix: Partial<Record<Binary, { sign: string; binds: number }>> = {
  mul: { sign: "*", binds: 5 },
  div: { sign: "/", binds: 5 },
  rem: { sign: "%", binds: 5 },
  add: { sign: "+", binds: 4 },
  sub: { sign: "-", binds: 4 },
  shl: { sign: "<<", binds: 3 },
  shr: { sign: ">>", binds: 3 },
  lt: { sign: "<", binds: 2 },
  le: { sign: "<=", binds: 2 },
  eq: { sign: "==", binds: 2 },
  ne: { sign: "!=", binds: 2 },
  and: { sign: "&", binds: 1 },
  or: { sign: "|", binds: 1 },
  xor: { sign: "^", binds: 1 },
}

const SUMS = 4
const UNARY = 9

const prefix: Partial<Record<Unary, string>> = { neg: "-", not: "!" }

const axes = ["x", "y", "z"] as const

class KernelText {
  readonly #kernel: Kernel
  readonly #names: ReadonlyMap<Id, string>
  readonly #lines: string[] = []
  #number = 0

  constructor(kernel: Kernel) {
    this.#kernel = kernel
    this.#names = uniqueNames(kernel)
  }

  text(): string {
    const { name, threads, operands, shared, needs } = this.#kernel
    this.#lines.push(`kernel ${name} of ${threads} threads`)
    if (needs.size > 0) this.#lines.push(`needs ${[...needs].join(", ")}`)
    for (const operand of operands) this.#lines.push(`  ${operandText(operand)}`)
    for (const array of shared)
      this.#lines.push(`  shared ${array.element} ${quoted(array.name)}[${array.length}]`)
    this.#block(this.#kernel.body, 0)
    const text = `${this.#lines.join("\n")}\n`
    const { otherwise } = this.#kernel
    return otherwise ? `${text}or where it cannot:\n${printKernel(otherwise)}` : text
  }

  #block(statements: readonly Statement[], depth: number): void {
    for (const statement of statements) this.#statement(statement, depth)
  }

  #line(depth: number, text: string, number = ""): void {
    this.#lines.push(`${number.padStart(5)}  ${"  ".repeat(depth)}${text}`)
  }

  #statement(statement: Statement, depth: number): void {
    this.#line(depth, this.#firstLine(statement), String(this.#number++))
    if (statement.kind === "for") this.#block(statement.body, depth + 1)
    else if (statement.kind === "if") this.#block(statement.yes, depth + 1)
    else return
    if (statement.kind === "if" && statement.no.length > 0) {
      this.#line(depth, "} else {")
      this.#block(statement.no, depth + 1)
    }
    this.#line(depth, "}")
  }

  #firstLine(statement: Statement): string {
    switch (statement.kind) {
      case "let":
        return `${this.#name(statement.id)} = ${this.#text(statement.value)}`
      case "variable": {
        const { id, value } = statement
        return `var ${value.type} ${this.#name(id)} = ${this.#text(value)}`
      }
      case "assign":
        return `${this.#name(statement.id)} := ${this.#text(statement.value)}`
      case "load":
        return `${this.#name(statement.id)} = ${this.#element(statement)}`
      case "loadNear": {
        const names = statement.ids.map((id) => this.#name(id))
        const many = { 2: "two", 4: "four", 8: "eight" }[statement.ids.length]
        return `${names.join(", ")} = ${many} ${this.#element(statement)}`
      }
      case "store":
        return `${this.#element(statement)} := ${this.#text(statement.value)}`
      case "atomicAdd":
        return `atomic ${this.#element(statement)} += ${this.#text(statement.value)}`
      case "for": {
        const { id, from, to, step } = statement
        const by = step.kind === "constant" && step.value === 1 ? "" : ` by ${this.#text(step)}`
        return `for ${this.#name(id)} from ${this.#text(from)} below ${this.#text(to)}${by} {`
      }
      case "if":
        return `if ${this.#text(statement.condition)} {`
      case "barrier":
        return "barrier"
      case "earlier":
        return "after earlier kernels"
      case "later":
        return "later kernels may begin"
      case "subgroupSum":
        return `${this.#name(statement.id)} = subgroup sum of ${this.#text(statement.value)}`
      case "matrixDot": {
        const { ids, a, b, c } = statement
        const list = (words: readonly Expression[]) =>
          words.map((word) => this.#text(word)).join(", ")
        const names = ids.map((id) => this.#name(id)).join(", ")
        return `${names} = matrix dot of (${list(a)}) and (${list(b)}) onto (${list(c)})`
      }
      case "tileDot": {
        const { ids, a, b, depth } = statement
        const side = ({ memory, from, stride }: Side) =>
          `${this.#element({ memory, index: from })} by ${stride}`
        const names = ids.map((id) => this.#name(id)).join(", ")
        return `${names} = tile dot of ${side(a)} and ${side(b)}, ${depth} deep`
      }
      case "tileElements": {
        const names = statement.ids.map((id) => this.#name(id)).join(", ")
        return `${names} = elements of tile ${quoted(memoryName(this.#kernel, statement.memory))}`
      }
    }
  }

  #element({ memory, index }: { memory: Memory; index: Expression }): string {
    return `${quoted(memoryName(this.#kernel, memory))}[${this.#text(index)}]`
  }

  #name(id: Id): string {
    return this.#names.get(id) ?? `v${id}`
  }

  /** @param binds how tightly what stands around it does, and with which sign where this is its left side */
  #text(expression: Expression, binds = 0, outer = ""): string {
    switch (expression.kind) {
      case "constant":
        return constantText(expression.type, expression.value)
      case "value":
      case "variable":
        return this.#name(expression.id)
      case "operand":
        return quoted(this.#kernel.operands[expression.operand]!.name)
      case "lane":
      case "team":
        return expression.kind
      case "group":
      case "groups":
        return `${expression.kind}.${axes[expression.axis]}`
      case "binary": {
        const { name, a, b } = expression
        const written = infix[name]
        if (!written) return this.#call(name, [a, b])
        const { sign, binds: own } = written
        const text = `${this.#text(a, own, sign)} ${sign} ${this.#text(b, own + 0.5)}`
        // Of what binds alike the left side goes first: everybody knows that of sums and products.
        const isClear = own > binds || (own === binds && (own >= SUMS || outer === sign))
        return isClear ? text : `(${text})`
      }
      case "unary": {
        const { name, a } = expression
        const sign = prefix[name]
        if (!sign) return this.#call(name, [a])
        const text = this.#text(a, UNARY)
        return text.startsWith(sign) ? `${sign}(${text})` : `${sign}${text}`
      }
      case "select": {
        const { condition, yes, no } = expression
        return this.#call("select", [condition, yes, no])
      }
      case "fma":
      case "dot4":
        return this.#call(expression.kind, [expression.a, expression.b, expression.c])
      case "lookUp": {
        const half = expression.from === 0 ? "lower" : "upper"
        const table = expression.table.map((word) => (word >>> 0).toString(16).padStart(8, "0"))
        return `lookUp_${half}(${[this.#text(expression.a), ...table].join(", ")})`
      }
    }
  }

  #call(name: string, expressions: readonly Expression[]): string {
    const called = name === "i32" || name === "u32" || name === "f32" ? `bits_${name}` : name
    return `${called}(${expressions.map((each) => this.#text(each)).join(", ")})`
  }
}

function operandText(operand: Operand): string {
  if (operand.kind === "word") return `word ${operand.type} ${quoted(operand.name)}`
  return `${operand.access} ${operand.element} ${quoted(operand.name)}[]`
}

/** A float always shows that it is one, and can be read back as the same; whole numbers of two types look alike. */
function constantText(type: Expression["type"], value: number): string {
  if (type !== "f32") return String(value)
  const text = Object.is(value, -0) ? "-0" : shortest(value)
  return /^-?\d+$/.test(text) ? `${text}.0` : text
}

/** The fewest digits that still round to the same float. */
function shortest(value: number): string {
  for (let digits = 1; digits <= 9; digits++) {
    const text = String(Number(value.toPrecision(digits)))
    if (Math.fround(Number(text)) === value) return text
  }
  return String(value)
}

/** Names that writers gave, one id each: of equal ones all but the first have their number too. */
function uniqueNames({ names, operands, shared }: Kernel): ReadonlyMap<Id, string> {
  const taken = new Set(["lane", "team", ...operands.map(({ name }) => name)])
  const arrays = new Set(shared.map(({ id }) => id))
  for (const { name } of shared) taken.add(name)
  const unique = new Map<Id, string>()
  for (const [id, name] of names) {
    if (arrays.has(id)) continue
    const own = taken.has(name) ? `${name}_${id}` : name
    taken.add(own)
    unique.set(id, quoted(own))
  }
  return unique
}

/** Names may hold anything; what could be read as something else is quoted. */
const quoted = (name: string) => (/^[\p{L}_][\p{L}\p{N}_]*$/u.test(name) ? name : `"${name}"`)
