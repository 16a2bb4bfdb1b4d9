// Kernels as text of a C dialect: what all of them share, which is nearly everything. What differs is a table of words
// (`Dialect`), one file a dialect. The text computes what ir.ts says if the compiler fuses and relaxes nothing, which is said
// by the dialect's opening or by whoever calls the compiler.
//
// Sums of signed numbers are written in unsigned ones: C leaves it open what becomes of a signed one that is too large.

import type { KernelCode } from "../../../../runtime/gpu/device.ts"
import {
  type Binary,
  type Eight,
  type Element,
  type Expression,
  elementBytes,
  type Id,
  isEight,
  type Kernel,
  loaded,
  type Memory,
  type Operand,
  type Statement,
  sharedBytes,
  type Type,
} from "../ir/ir.ts"

export interface Dialect {
  /** The first lines of a program. */
  opening: readonly string[]
  types: Readonly<Record<Type | Element, string>>
  /** What no operand and no variable can be called, beside the words of C. */
  reserved: readonly string[]
  /** Up to the brace of a kernel. */
  head(kernel: Kernel, entry: string, parameters: readonly string[]): string[]
  /** How an operand is handed over, and the line that makes it what the body calls it; `give` makes names that are free. */
  operand(operand: Operand, give: (wanted: string) => string): { parameter: string; line?: string }
  /** The declaration of a shared array. @param isNear neighbours in it are loaded at once, at 16 bytes at most */
  shared(type: string, name: string, length: number, isNear: boolean): string
  /** This thread's place among the others. */
  lane: string
  group(axis: number): string
  groups(axis: number): string
  barrier: string
  /** Waits for the kernels before this one, and lets those behind it begin; absent: none begins before others have ended. */
  beside?: { earlier: string; later: string }
  /** Without one for division, its sign rounds correctly. */
  functions: Readonly<Record<Named, string> & { divide?: string }>
  /** Text that a program brings along which calls one of these functions. */
  helpers: readonly { names: readonly string[]; text: string }[]
  /** The bits of a number as another type: one of the two is a float. */
  bits(to: Type, from: Type, value: string): string
  loadHalf(memory: string, index: string): string
  storeHalf(memory: string, index: string, value: string): string
  /** The two halves of a word, as floats; not all have a word for them. */
  halvesOf?(word: string): [string, string]
  /** The types of two and of four elements, whose names are x, y, z and w. */
  near(type: string, count: 2 | 4): string
  loadNear(type: string, memory: string, index: string): string
  atomicAdd(element: string, value: string): string
  /** The number of this thread's team, and functions of tiles in shared arrays (ir.ts); not all have them. */
  tiles?: Tiles
  /** A function of the pieces of two tiles and the sums they are added to, which gives four (ir.ts); not all have one. */
  matrixDot?: string
}

export interface Tiles {
  /** The helper that has them. */
  helper: string
  team: string
  /** What they hold: bytes, as words of four, or halves. */
  element: "u32" | "f16"
  /** The declaration of eight sums, i32. */
  dot(name: string, a: TileSide, b: TileSide, depth: number): string
  /** That of eight elements of an array of words, or for tiles of halves of floats. */
  elements(name: string, array: string): string
}

/** A shared array, and of a tile in it the first element and the stride. */
interface TileSide {
  array: string
  from: string
  stride: number
}

/** What every dialect has a function for, under some name. */
type Named = "fma" | "sqrt" | "abs" | "min" | "max" | "mulHigh" | "dot4" | "lookUp"

/** A look-up for devices that have no instruction for it. @param type of a word @param inline what stands before a function */
export const lookUpByBits = (type: string, inline = ""): string => {
  const word = (name: string) => `${type} ${name}`
  const begin = (name: string, ...of: string[]) =>
    `${inline}${type} ${name}(${of.map(word).join(", ")}) {`
  return `${begin("chosen", "mask", "yes", "no")} return no ^ (mask & (no ^ yes)); }
${begin("every", "table", "byte")} return ((table >> (8u * byte)) & 255u) * 0x01010101u; }
${begin("of_four", "table", "lowest", "next")}
  return chosen(
      next, chosen(lowest, every(table, 3u), every(table, 2u)), chosen(lowest, every(table, 1u), every(table, 0u)));
}
// Masks of a byte's bits, which halve the table four times.
${begin("look_up", "a", "from", "first", "second", "third", "fourth")}
  const ${type} lowest = ((a >> from) & 0x01010101u) * 255u, next = ((a >> (from + 1u)) & 0x01010101u) * 255u;
  const ${type} third_bit = ((a >> (from + 2u)) & 0x01010101u) * 255u, last = ((a >> (from + 3u)) & 0x01010101u) * 255u;
  return chosen(
      last,
      chosen(third_bit, of_four(fourth, lowest, next), of_four(third, lowest, next)),
      chosen(third_bit, of_four(second, lowest, next), of_four(first, lowest, next)));
}`
}

/** What `lookUpByBits` calls its functions, the one that kernels call first. */
export const lookUpNames = ["look_up", "chosen", "every", "of_four"]

export interface PrintedProgram {
  text: string
  /** In the order of the kernels. */
  kernels: KernelCode[]
}

const besideOf = ({ beside }: Dialect, what: "earlier" | "later") =>
  beside === undefined ? [] : [`${beside[what]};`]

/** Kernels as one program; each has an entry of its own, also where two are called the same. */
export function printProgram(kernels: readonly Kernel[], dialect: Dialect): PrintedProgram {
  const entries = new Names([])
  const called = new Set<string>()
  const printed = kernels.map((kernel) => {
    const entry = entries.give(`sinter_${kernel.name}`)
    return { kernel, entry, lines: new KernelPrinter(kernel, dialect, called).print(entry) }
  })
  const helpers = dialect.helpers.filter(({ names }) => names.some((name) => called.has(name)))
  const pieces = [
    dialect.opening.join("\n"),
    ...helpers.map(({ text }) => text),
    ...printed.map(({ lines }) => lines.join("\n")),
  ]
  return {
    text: pieces.map((piece) => `${piece}\n`).join("\n"),
    kernels: printed.map(({ kernel, entry }) => ({
      name: kernel.name,
      module: 0,
      entry,
      threads: kernel.threads,
      sharedBytes: sharedBytes(kernel),
      operands: kernel.operands.map(({ kind }) => kind),
    })),
  }
}

/** Words that can be told from each other, and from those of the language. */
class Names {
  readonly #taken: Set<string>
  readonly #given: string[] = []

  constructor(taken: Iterable<string>) {
    this.#taken = new Set(taken)
  }

  give(wanted: string): string {
    const word = wanted.replace(/^(?=\d)|\W/g, "_")
    let name = word
    for (let i = 2; this.#taken.has(name); i++) name = `${word}_${i}`
    this.#taken.add(name)
    this.#given.push(name)
    return name
  }

  /** What is given while `work` goes on is free again afterwards. */
  within<Result>(work: () => Result): Result {
    const before = this.#given.length
    const result = work()
    for (const name of this.#given.splice(before)) this.#taken.delete(name)
    return result
  }
}

const KEYWORDS =
  "auto bool break case char const continue default do double else enum extern false float for goto if inline int long register restrict return short signed sizeof static struct switch true typedef union unsigned void volatile while".split(
    " ",
  )

/** A piece of an expression, and how tightly what is outermost in it binds. */
interface Piece {
  text: string
  binds: number
}

/** As in C, the tightest last. */
const binding = {
  choice: 1,
  or: 2,
  and: 3,
  bitOr: 4,
  bitXor: 5,
  bitAnd: 6,
  equal: 7,
  less: 8,
  shift: 9,
  sum: 10,
  product: 11,
  prefix: 12,
  whole: 13,
} as const

/** An operator, how tightly it binds, and how tightly its operands must: where C has an order that nobody remembers, parentheses. */
interface Operator {
  sign: string
  binds: number
  inside: number
  /** On its left may stand another one that binds as tightly. */
  chains: boolean
}

const operator = (sign: string, binds: number, inside: number, chains: boolean): Operator => ({
  sign,
  binds,
  inside,
  chains,
})
const { sum, product, prefix } = binding

const operators: Partial<Record<Binary, Operator>> = {
  add: operator("+", sum, product, true),
  sub: operator("-", sum, product, true),
  mul: operator("*", product, prefix, true),
  div: operator("/", product, prefix, true),
  rem: operator("%", product, prefix, true),
  and: operator("&", binding.bitAnd, prefix, true),
  or: operator("|", binding.bitOr, prefix, true),
  xor: operator("^", binding.bitXor, prefix, true),
  shl: operator("<<", binding.shift, prefix, false),
  shr: operator(">>", binding.shift, prefix, false),
  eq: operator("==", binding.equal, sum, false),
  ne: operator("!=", binding.equal, sum, false),
  lt: operator("<", binding.less, sum, false),
  le: operator("<=", binding.less, sum, false),
}

const ofBools: Partial<Record<Binary, Operator>> = {
  and: operator("&&", binding.and, binding.bitOr, true),
  or: operator("||", binding.or, binding.bitOr, true),
  xor: operator("!=", binding.equal, prefix, false),
}

class KernelPrinter {
  readonly #kernel: Kernel
  readonly #dialect: Dialect
  /** Functions that kernels of the program call. */
  readonly #called: Set<string>
  readonly #names: Names
  readonly #operands: readonly Operand[]
  readonly #ids = new Map<Id, string>()
  /** Of threads and groups, what the body uses. */
  readonly #sharedNear = new Set<Id>()
  readonly #places = new Map<string, string>()

  constructor(kernel: Kernel, dialect: Dialect, called: Set<string>) {
    this.#kernel = kernel
    this.#dialect = dialect
    this.#called = called
    const { reserved, functions, helpers, types } = dialect
    this.#names = new Names([
      ...KEYWORDS,
      ...reserved,
      ...Object.values(functions),
      ...helpers.flatMap(({ names }) => names),
      ...Object.values(types).flatMap((type) => [
        type,
        dialect.near(type, 2),
        dialect.near(type, 4),
      ]),
      ...["lane", "team", "x", "y", "z"].flatMap((place) => [
        place,
        `group_${place}`,
        `groups_${place}`,
      ]),
    ])
    this.#operands = kernel.operands.map((operand) => ({
      ...operand,
      name: this.#names.give(operand.name),
    }))
  }

  print(entry: string): string[] {
    const dialect = this.#dialect
    const operands = this.#operands.map((operand) =>
      dialect.operand(operand, (wanted) => this.#names.give(wanted)),
    )
    const arrays = this.#kernel.shared.map((array) => ({
      ...array,
      name: this.#define(array.id, array.name),
    }))
    const body = this.#block(this.#kernel.body)
    const shared = arrays.map(({ id, name, element, length }) =>
      dialect.shared(dialect.types[element], name, length, this.#sharedNear.has(id)),
    )
    const places = [...this.#places].map(
      ([name, value]) => `const ${dialect.types.u32} ${name} = ${value};`,
    )
    const lines = operands.flatMap(({ line }) => line ?? [])
    return [
      ...dialect.head(
        this.#kernel,
        entry,
        operands.map(({ parameter }) => parameter),
      ),
      ...[...lines, ...shared, ...places].map(indented),
      ...(["later", "earlier"] as const)
        .filter((each) => this.#kernel.body.every(({ kind }) => kind !== each))
        .flatMap((each) => besideOf(dialect, each))
        .map(indented),
      ...body,
      "}",
    ]
  }

  #block(statements: readonly Statement[]): string[] {
    return this.#names.within(() =>
      statements.flatMap((statement) => this.#statement(statement)).map(indented),
    )
  }

  #statement(statement: Statement): string[] {
    const { types } = this.#dialect
    switch (statement.kind) {
      case "let":
        return [`const ${this.#declared(statement)};`]
      case "variable":
        return [`${this.#declared(statement)};`]
      case "assign":
        return [`${this.#name(statement.id)} = ${this.#text(statement.value)};`]
      case "load": {
        const { memory, id } = statement
        const { element, name } = this.#memory(memory)
        const index = this.#text(statement.index)
        const value = element === "f16" ? this.#dialect.loadHalf(name, index) : `${name}[${index}]`
        return [`const ${types[loaded[element]]} ${this.#define(id, `${name}_${id}`)} = ${value};`]
      }
      case "loadNear": {
        const { element, name } = this.#memory(statement.memory)
        const { ids, memory } = statement
        if (memory.kind === "shared") this.#sharedNear.add(memory.id)
        if (isEight(ids)) return this.#halves(ids, name, this.#text(statement.index))
        const type = this.#dialect.near(types[element], ids.length)
        const near = this.#nearOf(ids, name)
        const value = this.#dialect.loadNear(type, name, this.#text(statement.index))
        return [`const ${type} ${near} = ${value};`]
      }
      case "store": {
        const { element, name } = this.#memory(statement.memory)
        const [index, value] = [this.#text(statement.index), this.#text(statement.value)]
        if (element === "f16") return [`${this.#dialect.storeHalf(name, index, value)};`]
        const isCut = elementBytes[element] < 4
        const cut = isCut ? this.#cast(types[element], statement.value).text : value
        return [`${name}[${index}] = ${cut};`]
      }
      case "atomicAdd": {
        const { name } = this.#memory(statement.memory)
        const element = `${name}[${this.#text(statement.index)}]`
        return [`${this.#dialect.atomicAdd(element, this.#text(statement.value))};`]
      }
      case "for":
        return this.#loop(statement)
      case "if": {
        const no = this.#block(statement.no)
        return [
          `if (${this.#text(statement.condition)}) {`,
          ...this.#block(statement.yes),
          ...(no.length > 0 ? ["} else {", ...no] : []),
          "}",
        ]
      }
      case "barrier":
        return [`${this.#dialect.barrier};`]
      case "later":
      case "earlier":
        return besideOf(this.#dialect, statement.kind)
      case "subgroupSum":
        throw new Error(
          `internal: ${this.#kernel.name} adds within subgroups, which C has no word for`,
        )
      case "matrixDot": {
        const { matrixDot } = this.#dialect
        if (!matrixDot) throw new Error(`internal: no word for ${this.#kernel.name}'s tiles`)
        const { ids, a, b, c } = statement
        const [type, sums] = [this.#dialect.near(types.i32, 4), this.#nearOf(ids, "sums")]
        return [`const ${type} ${sums} = ${this.#call(matrixDot, ...a, ...b, ...c).text};`]
      }
      case "tileDot": {
        const { ids, a, b, depth } = statement
        const [left, right] = [a, b].map(({ memory, from, stride }) => {
          const { element, name } = this.#memory(memory)
          if (element !== this.#tiles.element) throw this.#noTiles()
          return { array: name, from: this.#text(from), stride }
        }) as [TileSide, TileSide]
        return [`${this.#tiles.dot(this.#eightOf(ids), left, right, depth)};`]
      }
      case "tileElements": {
        const { element, name } = this.#memory(statement.memory)
        if (element !== (this.#tiles.element === "u32" ? "u32" : "f32")) throw this.#noTiles()
        return [`${this.#tiles.elements(this.#eightOf(statement.ids), name)};`]
      }
    }
  }

  /** The end and the step are those from before the first turn, whatever the turns do. */
  #loop({ id, from, to, step, body }: Extract<Statement, { kind: "for" }>): string[] {
    const type = this.#dialect.types.u32
    const before: string[] = []
    const settled = (value: Expression, name: string, binds: number): string => {
      if (!readsVariable(value)) return this.#inside(value, binds)
      const held = this.#names.give(name)
      before.push(`const ${type} ${held} = ${this.#text(value)};`)
      return held
    }
    const begin = this.#text(from)
    const end = settled(to, "end", binding.less + 1)
    const stride = settled(step, "stride", 0)
    return this.#names.within(() => {
      const index = this.#define(id, "i")
      return [
        ...before,
        `for (${type} ${index} = ${begin}; ${index} < ${end}; ${index} += ${stride}) {`,
        ...this.#block(body),
        "}",
      ]
    })
  }

  #declared({ id, value }: { id: Id; value: Expression }): string {
    const text = this.#text(value)
    return `${this.#dialect.types[value.type]} ${this.#define(id, `t_${id}`)} = ${text}`
  }

  #define(id: Id, otherwise: string): string {
    const name = this.#names.give(this.#kernel.names.get(id) ?? otherwise)
    this.#ids.set(id, name)
    return name
  }

  /** What has four values in it. */
  #nearOf(ids: readonly Id[], name: string): string {
    const near = this.#names.give(`${name}_${ids[0]}`)
    for (const [i, id] of ids.entries()) this.#ids.set(id, `${near}.${"xyzw"[i]}`)
    return near
  }

  /** Eight halves are read as four words. */
  #halves(ids: Eight<Id>, name: string, index: string): string[] {
    const dialect = this.#dialect
    if (!dialect.halvesOf)
      throw new Error(`internal: no word for eight halves in ${this.#kernel.name}`)
    const type = dialect.near(dialect.types.u32, 4)
    const words = this.#names.give(`${name}_${ids[0]}`)
    for (const [i, id] of ids.entries())
      this.#ids.set(id, dialect.halvesOf(`${words}.${"xyzw"[i >> 1]}`)[i % 2]!)
    return [`const ${type} ${words} = ${dialect.loadNear(type, name, index)};`]
  }

  /** What has eight. */
  #eightOf(ids: Eight<Id>): string {
    const eight = this.#names.give(`tile_${ids[0]}`)
    for (const [i, id] of ids.entries()) this.#ids.set(id, `${eight}.of[${i}]`)
    return eight
  }

  get #tiles(): Tiles {
    const { tiles } = this.#dialect
    if (!tiles) throw this.#noTiles()
    this.#called.add(tiles.helper)
    return tiles
  }

  #noTiles(): Error {
    return new Error(`internal: no word for ${this.#kernel.name}'s tiles`)
  }

  #name(id: Id): string {
    const name = this.#ids.get(id)
    if (name === undefined) throw new Error(`internal: ${this.#kernel.name} uses ${id} too early`)
    return name
  }

  #memory(memory: Memory): { name: string; element: Element } {
    if (memory.kind === "buffer") {
      const operand = this.#operands[memory.operand]
      if (operand?.kind === "buffer") return operand
    } else {
      const array = this.#kernel.shared.find(({ id }) => id === memory.id)
      if (array) return { name: this.#name(array.id), element: array.element }
    }
    throw new Error(`internal: ${this.#kernel.name} has no such memory`)
  }

  #text(expression: Expression): string {
    return this.#piece(expression).text
  }

  /** In parentheses where what is around it would bind tighter. */
  #inside(expression: Expression, binds: number): string {
    return enclosed(this.#piece(expression), binds)
  }

  #piece(expression: Expression): Piece {
    const dialect = this.#dialect
    switch (expression.kind) {
      case "constant":
        return this.#constant(expression)
      case "value":
      case "variable":
        return whole(this.#name(expression.id))
      case "operand":
        return whole(this.#operands[expression.operand]!.name)
      case "lane":
        return this.#place("lane", dialect.lane)
      case "team":
        return this.#place("team", this.#tiles.team)
      case "group":
      case "groups": {
        const { kind, axis } = expression
        return this.#place(`${kind}_${"xyz"[axis]}`, dialect[kind](axis))
      }
      case "binary":
        return this.#binary(expression)
      case "unary":
        return this.#unary(expression)
      case "select": {
        const { condition, yes, no } = expression
        const [one, other] = [yes, no].map((value) => this.#inside(value, binding.choice + 1))
        const question = this.#inside(condition, binding.choice + 1)
        return { text: `${question} ? ${one} : ${other}`, binds: binding.choice }
      }
      case "fma":
        return this.#call(this.#dialect.functions.fma, expression.a, expression.b, expression.c)
      case "dot4":
        return this.#call(this.#dialect.functions.dot4, expression.a, expression.b, expression.c)
      case "lookUp": {
        const { a, from, table } = expression
        return this.#call(this.#dialect.functions.lookUp, a, ...[from, ...table].map(wordOf))
      }
    }
  }

  #place(name: string, value: string): Piece {
    this.#places.set(name, value)
    return whole(name)
  }

  #constant({ type, value }: Extract<Expression, { kind: "constant" }>): Piece {
    if (type === "u32") return whole(wordText(value))
    if (type === "i32")
      return value < 0 ? this.#cast(this.#dialect.types.i32, wordText(value)) : whole(`${value}`)
    if (Number.isFinite(value)) return floatPiece(value)
    const [bits] = new Uint32Array(Float32Array.of(value).buffer)
    return whole(this.#dialect.bits("f32", "u32", wordText(bits!)))
  }

  #binary(expression: Extract<Expression, { kind: "binary" }>): Piece {
    const { name, type, a, b } = expression
    const { functions } = this.#dialect
    const { divide } = functions
    if (name === "min" || name === "max" || name === "mulHigh")
      return this.#call(functions[name], a, b)
    if (name === "div" && type === "f32" && divide) return this.#call(divide, a, b)
    if (type === "i32" && mayOverflow(expression)) {
      const sum = enclosed(this.#unsigned(expression), binding.prefix)
      return { text: `(${this.#dialect.types.i32})${sum}`, binds: binding.prefix }
    }
    return this.#joined(name, a.type === "bool", this.#piece(a), this.#piece(b))
  }

  #joined(name: Binary, areBools: boolean, a: Piece, b: Piece): Piece {
    const operator = (areBools ? ofBools : operators)[name]
    if (!operator) throw new Error(`internal: ${name} has no sign`)
    const { sign, binds, inside, chains } = operator
    const left = chains && a.binds === binds ? a.text : enclosed(a, inside)
    return { text: `${left} ${sign} ${enclosed(b, inside)}`, binds }
  }

  /** An i32 as the u32 with its bits, in which sums wrap. */
  #unsigned(expression: Expression): Piece {
    const { kind } = expression
    if (kind === "constant") return whole(wordText(expression.value))
    if (kind === "binary" && mayOverflow(expression)) {
      const { name, a, b } = expression
      return this.#joined(name, false, this.#unsigned(a), this.#unsigned(b))
    }
    if (kind === "unary" && expression.name === "neg")
      return this.#joined("sub", false, whole("0u"), this.#unsigned(expression.a))
    if (kind === "unary" && expression.name === "i32" && expression.a.type === "u32")
      return this.#piece(expression.a)
    return this.#cast(this.#dialect.types.u32, expression)
  }

  #unary(expression: Extract<Expression, { kind: "unary" }>): Piece {
    const { types } = this.#dialect
    const { name, type, a } = expression
    switch (name) {
      case "neg": {
        if (type === "i32") {
          const text = enclosed(this.#unsigned(expression), binding.prefix)
          return { text: `(${types.i32})${text}`, binds: binding.prefix }
        }
        return { text: `-${this.#inside(a, binding.whole)}`, binds: binding.prefix }
      }
      case "not":
        return { text: `!${this.#inside(a, binding.prefix)}`, binds: binding.prefix }
      case "abs":
      case "sqrt":
        return this.#call(this.#dialect.functions[name], a)
      case "float":
        return this.#cast(types.f32, a)
      case "whole":
        return this.#cast(types.i32, a)
      case "f32":
        return whole(this.#dialect.bits("f32", a.type, this.#text(a)))
      case "i32":
      case "u32":
        return a.type === "f32"
          ? whole(this.#dialect.bits(name, "f32", this.#text(a)))
          : this.#cast(types[name], a)
    }
  }

  #cast(type: string, value: Expression | string): Piece {
    const text = typeof value === "string" ? value : this.#inside(value, binding.prefix)
    return { text: `(${type})${text}`, binds: binding.prefix }
  }

  #call(word: string, ...values: Expression[]): Piece {
    this.#called.add(word)
    return whole(`${word}(${values.map((value) => this.#text(value)).join(", ")})`)
  }
}

function indented(line: string): string {
  return `  ${line}`
}

function whole(text: string): Piece {
  return { text, binds: binding.whole }
}

function enclosed({ text, binds }: Piece, least: number): string {
  return binds < least ? `(${text})` : text
}

/** Of signed numbers. */
function mayOverflow({ name }: { name: string }): boolean {
  return name === "add" || name === "sub" || name === "mul" || name === "shl"
}

/** Whether its value is another one after an assignment. */
function readsVariable(expression: Expression): boolean {
  switch (expression.kind) {
    case "variable":
      return true
    case "binary":
      return readsVariable(expression.a) || readsVariable(expression.b)
    case "unary":
    case "lookUp":
      return readsVariable(expression.a)
    case "select":
      return [expression.condition, expression.yes, expression.no].some(readsVariable)
    case "fma":
    case "dot4":
      return [expression.a, expression.b, expression.c].some(readsVariable)
    default:
      return false
  }
}

const wordOf = (value: number): Expression => ({ kind: "constant", type: "u32", value })

/** 32 bits without a sign: small ones as people count, others as bits. */
function wordText(value: number): string {
  const word = value >>> 0
  return word < 0x10000 ? `${word}u` : `0x${word.toString(16)}u`
}

/** Exact in few digits, or with nine, which are closer to it than to where a compiler would round to another float. */
function floatPiece(value: number): Piece {
  const sign = Object.is(value, -0) ? "-" : ""
  const short = `${value}`
  const digits = short.replace(/e.*|\D/g, "").length <= 9 ? short : value.toPrecision(9)
  const text = `${sign}${digits}${/[.e]/.test(digits) ? "" : ".0"}f`
  return { text, binds: text.startsWith("-") ? binding.prefix : binding.whole }
}
