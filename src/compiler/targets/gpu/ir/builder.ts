// How kernels are written down. Values are combined by methods, and statements are added where they are called; loads are
// statements, so that nothing that is read moves past something that is written. An expression that is used twice is computed
// twice unless `let` gives it a name. A loop of TypeScript is an unrolled loop of the kernel.

import {
  type Access,
  type Binary,
  type Eight,
  type Element,
  type Expression,
  type Four,
  type Id,
  type Kernel,
  type KernelNeed,
  loaded,
  type Memory,
  type Nibble,
  type Operand,
  type SharedArray,
  type Statement,
  type Two,
  type Type,
  type Unary,
} from "./ir.ts"

/** A number stands for a constant of the type that is wanted. */
export type Operable = Value | number

type NumberType = Exclude<Type, "bool">

/** Something that has been computed, or will be where it is used. */
export class Value {
  readonly expression: Expression

  constructor(expression: Expression) {
    this.expression = expression
  }

  get type(): Type {
    return this.expression.type
  }

  add(b: Operable): Value {
    return this.#binary("add", b)
  }

  sub(b: Operable): Value {
    return this.#binary("sub", b)
  }

  mul(b: Operable): Value {
    return this.#binary("mul", b)
  }

  div(b: Operable): Value {
    return this.#binary("div", b)
  }

  rem(b: Operable): Value {
    return this.#binary("rem", b)
  }

  min(b: Operable): Value {
    return this.#binary("min", b)
  }

  max(b: Operable): Value {
    return this.#binary("max", b)
  }

  and(b: Operable): Value {
    return this.#binary("and", b)
  }

  or(b: Operable): Value {
    return this.#binary("or", b)
  }

  xor(b: Operable): Value {
    return this.#binary("xor", b)
  }

  shl(b: Operable): Value {
    return this.#binary("shl", b)
  }

  shr(b: Operable): Value {
    return this.#binary("shr", b)
  }

  mulHigh(b: Operable): Value {
    return this.#binary("mulHigh", b)
  }

  eq(b: Operable): Value {
    return this.#binary("eq", b, "bool")
  }

  ne(b: Operable): Value {
    return this.#binary("ne", b, "bool")
  }

  lt(b: Operable): Value {
    return this.#binary("lt", b, "bool")
  }

  le(b: Operable): Value {
    return this.#binary("le", b, "bool")
  }

  gt(b: Operable): Value {
    return asValue(b, this.type).lt(this)
  }

  ge(b: Operable): Value {
    return asValue(b, this.type).le(this)
  }

  neg(): Value {
    return this.#unary("neg", this.type)
  }

  abs(): Value {
    return this.#unary("abs", "f32")
  }

  sqrt(): Value {
    return this.#unary("sqrt", "f32")
  }

  not(): Value {
    return this.#unary("not", "bool")
  }

  /** The nearest float of a whole number. */
  float(): Value {
    return this.#unary("float", "f32")
  }

  /** Of a float, towards zero. */
  whole(): Value {
    return this.#unary("whole", "i32")
  }

  /** The same bits. */
  bits(type: NumberType): Value {
    return type === this.type ? this : this.#unary(type, type)
  }

  #binary(name: Binary, b: Operable, type: Type = this.type): Value {
    const other = asValue(b, this.type)
    if (other.type !== this.type)
      throw new Error(`internal: ${name} of ${this.type} and ${other.type}`)
    return new Value({ kind: "binary", type, name, a: this.expression, b: other.expression })
  }

  #unary(name: Unary, type: Type): Value {
    return new Value({ kind: "unary", type, name, a: this.expression })
  }
}

function asValue(value: Operable, type: Type): Value {
  if (value instanceof Value) return value
  if (type === "bool") throw new Error("internal: a number is no bool")
  if (type !== "f32" && !Number.isInteger(value))
    throw new Error(`internal: ${value} is no whole number`)
  const own = type === "f32" ? Math.fround(value) : type === "i32" ? value | 0 : value >>> 0
  return new Value({ kind: "constant", type, value: own })
}

export const f32 = (value: number) => asValue(value, "f32")
export const i32 = (value: number) => asValue(value, "i32")
export const u32 = (value: number) => asValue(value, "u32")

/** `yes` where the condition holds; both sides are computed. */
export function select(condition: Value, yes: Value, no: Operable): Value {
  const other = asValue(no, yes.type)
  if (other.type !== yes.type) throw new Error(`internal: ${yes.type} or ${other.type}`)
  return new Value({
    kind: "select",
    type: yes.type,
    condition: condition.expression,
    yes: yes.expression,
    no: other.expression,
  })
}

/** a * b + c, rounded once. */
export function fma(a: Value, b: Operable, c: Operable): Value {
  const [x, y] = [asValue(b, "f32").expression, asValue(c, "f32").expression]
  return new Value({ kind: "fma", type: "f32", a: a.expression, b: x, c: y })
}

/** Four bytes of a table of sixteen, each of which four bits of a byte of a word say, from bit `from` of it up. */
export function lookUp(word: Value, from: Nibble, table: Four<number>): Value {
  return new Value({ kind: "lookUp", type: "u32", a: word.expression, from, table })
}

/** The larger of two floats, and `b` where one is NaN. */
export const larger = (a: Value, b: Value) => select(a.gt(b), a, b)

/** Elements that all threads of the group see, or all groups. */
export class Elements {
  readonly #write: (statement: Statement) => void
  readonly #define: () => Id
  readonly memory: Memory
  readonly element: Element

  constructor(
    memory: Memory,
    element: Element,
    write: (statement: Statement) => void,
    define: () => Id,
  ) {
    this.memory = memory
    this.element = element
    this.#write = write
    this.#define = define
  }

  load(index: Operable): Value {
    const type = loaded[this.element]
    const id = this.#define()
    this.#write({ kind: "load", id, memory: this.memory, index: indexOf(index) })
    return new Value({ kind: "value", type, id })
  }

  /** Elements 4 * index … 4 * index + 3, which lie on a multiple of 16 bytes. */
  loadFour(index: Operable): [Value, Value, Value, Value] {
    const define = () => this.#define()
    const ids = [define(), define(), define(), define()] as const
    const [first, second, third, fourth] = this.#loadNear(ids, index)
    return [first!, second!, third!, fourth!]
  }

  /** Elements 2 * index and 2 * index + 1, which lie on a multiple of 8 bytes. */
  loadTwo(index: Operable): [Value, Value] {
    const [first, second] = this.#loadNear([this.#define(), this.#define()], index)
    return [first!, second!]
  }

  /** Halves 8 * index … 8 * index + 7, which lie on a multiple of 16 bytes. */
  loadEight(index: Operable): Value[] {
    const ids = Array.from({ length: 8 }, () => this.#define())
    return this.#loadNear(ids as unknown as Eight<Id>, index)
  }

  #loadNear(ids: Two<Id> | Four<Id> | Eight<Id>, index: Operable): Value[] {
    const type = loaded[this.element]
    this.#write({ kind: "loadNear", ids, memory: this.memory, index: indexOf(index) })
    return ids.map((id) => new Value({ kind: "value", type, id }))
  }

  store(index: Operable, value: Operable): void {
    const { expression } = asValue(value, loaded[this.element])
    if (expression.type !== loaded[this.element])
      throw new Error(`internal: ${expression.type} into ${this.element}`)
    this.#write({ kind: "store", memory: this.memory, index: indexOf(index), value: expression })
  }

  /** Of a shared array of whole numbers. */
  atomicAdd(index: Operable, value: Operable): void {
    const { expression } = asValue(value, loaded[this.element])
    this.#write({
      kind: "atomicAdd",
      memory: this.memory,
      index: indexOf(index),
      value: expression,
    })
  }
}

function indexOf(index: Operable): Expression {
  const { expression } = asValue(index, "u32")
  if (expression.type !== "u32")
    throw new Error(`internal: an index is a u32, not ${expression.type}`)
  return expression
}

/** A tile in a shared array: ir.ts says how it lies. */
export interface TileSide {
  elements: Elements
  from: Operable
  stride: number
}

/** A variable of one thread. */
export interface Variable {
  /** What it holds where this is used. */
  readonly now: Value
  set(value: Operable): void
}

/** What a kernel is written with. */
export class Builder {
  readonly threads: number
  readonly lane = new Value({ kind: "lane", type: "u32" })
  readonly team = new Value({ kind: "team", type: "u32" })
  readonly #name: string
  readonly #operands: Operand[] = []
  readonly #shared: SharedArray[] = []
  readonly #needs = new Set<KernelNeed>()
  readonly #names = new Map<Id, string>()
  #ids = 0
  #body: Statement[] = []
  #groupsAtOnce: number | undefined

  constructor(name: string, threads: number) {
    this.#name = name
    this.threads = threads
  }

  /** Says that there need be room for so many threads at once and no more: `groupsAtOnce`. */
  roomFor(threads: number): void {
    this.#groupsAtOnce = Math.max(1, Math.floor(threads / this.threads))
  }

  /** Says that it is for CUDA alone, where shared memory is not scarce and neighbours in it are loaded at once, and eights. */
  forCuda(): void {
    this.#needs.add("cuda")
  }

  group(axis: 0 | 1 | 2): Value {
    return new Value({ kind: "group", type: "u32", axis })
  }

  groups(axis: 0 | 1 | 2): Value {
    return new Value({ kind: "groups", type: "u32", axis })
  }

  /** Operands are handed over in the order in which they are named. */
  buffer(name: string, element: Element, access: Access): Elements {
    const operand = this.#operands.push({ kind: "buffer", name, element, access }) - 1
    return this.#elements({ kind: "buffer", operand }, element)
  }

  word(name: string, type: NumberType = "u32"): Value {
    const operand = this.#operands.push({ kind: "word", name, type }) - 1
    return new Value({ kind: "operand", type, operand })
  }

  shared(name: string, element: SharedArray["element"], length: number): Elements {
    const id = this.#define(name)
    this.#shared.push({ id, name, element, length })
    return this.#elements({ kind: "shared", id }, element)
  }

  /** Computed once, here. */
  let(value: Value, name?: string): Value {
    const id = this.#define(name)
    this.#write({ kind: "let", id, value: value.expression })
    return new Value({ kind: "value", type: value.type, id })
  }

  variable(value: Value, name?: string): Variable {
    const id = this.#define(name)
    const { type } = value
    this.#write({ kind: "variable", id, value: value.expression })
    return {
      now: new Value({ kind: "variable", type, id }),
      set: (next) => {
        const { expression } = asValue(next, type)
        if (expression.type !== type) throw new Error(`internal: ${expression.type} into ${type}`)
        this.#write({ kind: "assign", id, value: expression })
      },
    }
  }

  /** `body` for from, from + step, … below `to`: u32. */
  for(
    from: Operable,
    to: Operable,
    step: Operable,
    body: (index: Value) => void,
    name?: string,
  ): void {
    const id = this.#define(name)
    const within = this.#block(() => body(new Value({ kind: "value", type: "u32", id })))
    this.#write({
      kind: "for",
      id,
      from: indexOf(from),
      to: indexOf(to),
      step: indexOf(step),
      body: within,
    })
  }

  /** Each thread takes every `threads`th of 0 … count - 1, its own number first. */
  each(count: Operable, body: (index: Value) => void, name?: string): void {
    this.for(this.lane, count, this.threads, body, name)
  }

  if(condition: Value, yes: () => void, no: () => void = () => {}): void {
    if (condition.type !== "bool") throw new Error(`internal: a condition of ${condition.type}`)
    this.#write({
      kind: "if",
      condition: condition.expression,
      yes: this.#block(yes),
      no: this.#block(no),
    })
  }

  barrier(): void {
    this.#write({ kind: "barrier" })
  }

  /** Waits for the kernels before this one (ir.ts). */
  afterEarlier(): void {
    this.#write({ kind: "earlier" })
  }

  /** Lets the kernels behind this one begin: those of many threads take room that this one's own groups want until then. */
  letLaterBegin(): void {
    this.#write({ kind: "later" })
  }

  /** `sum` and the products of four signed bytes each of two words. */
  dot4(a: Value, b: Value, sum: Operable): Value {
    this.#needs.add("dot4")
    const c = asValue(sum, "i32").expression
    return new Value({ kind: "dot4", type: "i32", a: a.expression, b: b.expression, c })
  }

  /** Of whole numbers, over the threads of this one's subgroup. */
  subgroupSum(value: Value): Value {
    this.#needs.add("subgroups")
    const id = this.#define()
    this.#write({ kind: "subgroupSum", id, value: value.expression })
    return new Value({ kind: "value", type: value.type, id })
  }

  /** `c` and the product of two tiles of signed bytes, of which each thread has what ir.ts says. */
  matrixDot(a: Four<Value>, b: Two<Value>, c: Four<Value>): Four<Value> {
    this.#needs.add("matrix")
    const ids = c.map(() => this.#define()) as unknown as Four<Id>
    const expressions = (values: readonly Value[]) => values.map(({ expression }) => expression)
    this.#write({
      kind: "matrixDot",
      ids,
      a: expressions(a) as unknown as Four<Expression>,
      b: expressions(b) as unknown as Two<Expression>,
      c: expressions(c) as unknown as Four<Expression>,
    })
    const value = (id: Id) => new Value({ kind: "value", type: "i32", id })
    return [value(ids[0]), value(ids[1]), value(ids[2]), value(ids[3])]
  }

  /** Of the product of two tiles of `depth` numbers each, what this thread gets of it: see ir.ts. */
  tileDot(a: TileSide, b: TileSide, depth: number): Eight<Value> {
    const isBytes = a.elements.element === "u32"
    this.#needs.add(isBytes ? "byteTiles" : "halfTiles")
    const ids = this.#eight()
    const side = ({ elements, from, stride }: TileSide) => {
      return { memory: elements.memory, from: indexOf(from), stride }
    }
    this.#write({ kind: "tileDot", ids, a: side(a), b: side(b), depth })
    return ids.map((id) => new Value({ kind: "value", type: "i32", id })) as unknown as Eight<Value>
  }

  /** Of 256 elements, those that a product would give this thread. */
  tileElements(elements: Elements): Eight<Value> {
    const type = loaded[elements.element]
    this.#needs.add(type === "f32" ? "halfTiles" : "byteTiles")
    const ids = this.#eight()
    this.#write({ kind: "tileElements", ids, memory: elements.memory })
    return ids.map((id) => new Value({ kind: "value", type, id })) as unknown as Eight<Value>
  }

  #eight(): Eight<Id> {
    return Array.from({ length: 8 }, () => this.#define()) as unknown as Eight<Id>
  }

  finish(): Kernel {
    return {
      name: this.#name,
      threads: this.threads,
      ...(this.#groupsAtOnce && { groupsAtOnce: this.#groupsAtOnce }),
      operands: this.#operands,
      shared: this.#shared,
      body: this.#body,
      needs: this.#needs,
      ids: this.#ids,
      names: this.#names,
    }
  }

  #elements(memory: Memory, element: Element): Elements {
    return new Elements(
      memory,
      element,
      (statement) => this.#write(statement),
      () => this.#define(),
    )
  }

  #define(name?: string): Id {
    const id = this.#ids++
    if (name !== undefined) this.#names.set(id, name)
    return id
  }

  #write(statement: Statement): void {
    this.#body.push(statement)
  }

  #block(write: () => void): Statement[] {
    const outer = this.#body
    const own: Statement[] = []
    this.#body = own
    write()
    this.#body = outer
    return own
  }
}

/** A kernel of `threads` threads a group, as `write` says it. */
export function kernel(name: string, threads: number, write: (k: Builder) => void): Kernel {
  const builder = new Builder(name, threads)
  write(builder)
  return builder.finish()
}

/**
 * A maker of kernels that makes each once, as long as somebody holds it: layers of one shape ask for the same ones.
 * @param make what it is asked for says all of the kernel, as JSON
 */
export function once<Shape extends unknown[]>(
  make: (...shape: Shape) => Kernel,
): (...shape: Shape) => Kernel {
  const made = new Map<string, WeakRef<Kernel>>()
  return (...shape) => {
    const key = JSON.stringify(shape)
    const kernel = made.get(key)?.deref() ?? make(...shape)
    made.set(key, new WeakRef(kernel))
    return kernel
  }
}
