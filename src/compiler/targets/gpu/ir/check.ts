// Whether a kernel is well formed, said before any device sees it: every number has the type that its use wants, nothing is
// used before or outside of where it is defined, barriers stand where all threads of a group come and under no condition, and
// the kernel asks no more than the weakest device has. What depends on the numbers themselves is the twin's to refuse (run.ts).

import { operandLayout } from "../../../../runtime/gpu/device.ts"
import {
  type Binary,
  type Expression,
  elementBytes,
  type Id,
  isEight,
  type Kernel,
  type KernelNeed,
  loaded,
  MATRIX_THREADS,
  type Memory,
  type Side,
  type Statement,
  sharedBytes,
  TILE,
  TILE_DEPTHS,
  type Type,
  type Unary,
} from "./ir.ts"
import { statementName } from "./names.ts"

const MAX_THREADS = 256
const MAX_SHARED_BYTES = 16384
/** Of kernels that CUDA alone has words for: all of its devices have as much. */
const MAX_SHARED_OF_CUDA = 49152
const MAX_OPERAND_BYTES = 128

/** @throws Error naming the kernel and the place where something is wrong */
export function checkKernel(kernel: Kernel): void {
  const refuse = (problem: string): never => {
    throw new Error(`internal: kernel ${kernel.name}: ${problem}`)
  }
  const { threads, operands, shared } = kernel
  const isOfCuda = kernel.needs.has("matrix") || kernel.needs.has("cuda")
  if (!(Number.isInteger(threads) && threads >= 1 && threads <= MAX_THREADS))
    refuse(`a group has 1 to ${MAX_THREADS} threads, not ${threads}`)
  const { bytes } = operandLayout(operands.map(({ kind }) => kind))
  if (bytes > MAX_OPERAND_BYTES)
    refuse(`its operands take ${bytes} bytes of ${MAX_OPERAND_BYTES} at most`)
  for (const { name, length } of shared)
    if (!(Number.isInteger(length) && length >= 1)) refuse(`${name} has ${length} elements`)
  const most = isOfCuda ? MAX_SHARED_OF_CUDA : MAX_SHARED_BYTES
  if (sharedBytes(kernel) > most)
    refuse(`its shared arrays take ${sharedBytes(kernel)} bytes of ${most} at most`)
  new Checker(kernel).check()
  const { otherwise } = kernel
  if (!otherwise) return
  if (
    otherwise.threads !== threads ||
    JSON.stringify(otherwise.operands) !== JSON.stringify(operands)
  )
    refuse("what does the same has other threads or operands")
  checkKernel(otherwise)
}

/** The types that an operation takes. What it gives is told by `resultOf`. */
const binaryTypes: Record<Binary, readonly Type[]> = {
  add: ["f32", "i32", "u32"],
  sub: ["f32", "i32", "u32"],
  mul: ["f32", "i32", "u32"],
  div: ["f32", "u32"],
  rem: ["u32"],
  min: ["i32", "u32"],
  max: ["i32", "u32"],
  and: ["i32", "u32", "bool"],
  or: ["i32", "u32", "bool"],
  xor: ["i32", "u32", "bool"],
  shl: ["i32", "u32"],
  shr: ["i32", "u32"],
  eq: ["f32", "i32", "u32"],
  ne: ["f32", "i32", "u32"],
  lt: ["f32", "i32", "u32"],
  le: ["f32", "i32", "u32"],
  mulHigh: ["u32"],
}

const unaryTypes: Record<Unary, readonly Type[]> = {
  neg: ["f32", "i32"],
  abs: ["f32"],
  sqrt: ["f32"],
  not: ["bool"],
  float: ["i32", "u32"],
  whole: ["f32"],
  i32: ["f32", "u32"],
  u32: ["f32", "i32"],
  f32: ["i32", "u32"],
}

function resultOf(name: Binary | Unary, type: Type): Type {
  if (name === "eq" || name === "ne" || name === "lt" || name === "le") return "bool"
  if (name === "float" || name === "f32") return "f32"
  if (name === "whole" || name === "i32") return "i32"
  return name === "u32" ? "u32" : type
}

/** Something with an id, where it is defined. */
interface Definition {
  kind: "value" | "variable" | "index"
  type: Type
  /** The same in all threads of a group that are there. */
  isUniform: boolean
}

/** Of a block of statements. */
interface Surroundings {
  /** All threads of the group come here or none. */
  isUniform: boolean
  /** It is in a branch, or in a loop in one. */
  isConditional: boolean
}

class Checker {
  readonly #kernel: Kernel
  readonly #shared: ReadonlyMap<Id, Kernel["shared"][number]>
  /** What can be named here; blocks add theirs and take them away. */
  readonly #defined = new Map<Id, Definition>()
  /** Ids, each of which may be defined by one statement only. */
  readonly #seen = new Set<Id>()
  /** Variables that have differed between threads. */
  readonly #divergent = new Set<Id>()
  /** What waits for earlier kernels is still to come. */
  #isBeforeEarlier = false
  #number = 0
  #place = ""

  constructor(kernel: Kernel) {
    this.#kernel = kernel
    this.#shared = new Map(kernel.shared.map((array) => [array.id, array]))
  }

  check(): void {
    // What a loop's end makes of a variable is what its beginning finds: until nothing more is found to differ.
    let before = -1
    while (before !== this.#divergent.size) {
      before = this.#divergent.size
      this.#walk(() => {})
    }
    this.#walk((problem) => this.#refuse(problem))
  }

  /** @param misplaced is told of barriers, and sums of subgroups, that stand where they may not */
  #walk(misplaced: (problem: string) => void): void {
    this.#number = 0
    this.#isBeforeEarlier = this.#kernel.body.some(({ kind }) => kind === "earlier")
    this.#seen.clear()
    for (const { id } of this.#kernel.shared) this.#claim(id)
    this.#block(this.#kernel.body, { isUniform: true, isConditional: false }, misplaced)
  }

  #refuse(problem: string): never {
    throw new Error(`internal: kernel ${this.#kernel.name}: ${this.#place}${problem}`)
  }

  // ---- statements

  #block(
    statements: readonly Statement[],
    here: Surroundings,
    misplaced: (problem: string) => void,
  ): void {
    const { isUniform, isConditional } = here
    const own: Id[] = []
    const define = (id: Id, definition: Definition) => {
      this.#claim(id)
      this.#defined.set(id, definition)
      own.push(id)
    }
    for (const statement of statements) {
      this.#place = `${statementName(this.#kernel, statement, this.#number++)}: `
      switch (statement.kind) {
        case "let": {
          const { type } = statement.value
          define(statement.id, { kind: "value", type, isUniform: this.#typed(statement.value) })
          break
        }
        case "variable": {
          const { id, value } = statement
          this.#vary(id, this.#typed(value))
          const isSame = !this.#divergent.has(id)
          define(id, { kind: "variable", type: value.type, isUniform: isSame })
          break
        }
        case "assign": {
          const { id, value } = statement
          const variable = this.#defined.get(id)
          if (variable?.kind !== "variable")
            this.#refuse(`${this.#nameOf(id)} is no variable that can be named here`)
          this.#vary(id, this.#typed(value, variable.type) && isUniform)
          variable.isUniform = !this.#divergent.has(id)
          break
        }
        case "load":
        case "loadNear": {
          const isNear = statement.kind === "loadNear"
          const element = this.#element(statement.memory, "write")
          if (isNear) {
            const isHalves = isEight(statement.ids)
            if (isHalves || statement.memory.kind === "shared") this.#need("cuda")
            if (isHalves ? element !== "f16" : elementBytes[element] !== 4)
              this.#refuse("twos and fours are of 32-bit elements, eights of halves")
          }
          // No sound kernel writes what others read between two barriers, so all find the same there.
          const isSame = this.#typed(statement.index, "u32")
          for (const id of isNear ? statement.ids : [statement.id])
            define(id, { kind: "value", type: loaded[element], isUniform: isSame })
          break
        }
        case "store": {
          this.#refuseBeforeEarlier(statement.memory)
          const element = this.#element(statement.memory, "read")
          this.#typed(statement.index, "u32")
          this.#typed(statement.value, loaded[element])
          break
        }
        case "atomicAdd": {
          const element = this.#element(statement.memory, "read")
          if (statement.memory.kind !== "shared" || element === "f32")
            this.#refuse("atomics are for shared arrays of whole numbers")
          this.#typed(statement.index, "u32")
          this.#typed(statement.value, loaded[element])
          break
        }
        case "for": {
          const bounds = [statement.from, statement.to, statement.step]
          const isSame = bounds.map((bound) => this.#typed(bound, "u32")).every(Boolean)
          if (statement.step.kind === "constant" && statement.step.value === 0)
            this.#refuse("the step is 0")
          this.#claim(statement.id)
          this.#defined.set(statement.id, { kind: "index", type: "u32", isUniform: isSame })
          this.#block(statement.body, { ...here, isUniform: isUniform && isSame }, misplaced)
          this.#defined.delete(statement.id)
          break
        }
        case "if": {
          const isSame = this.#typed(statement.condition, "bool") && isUniform
          const within = { isUniform: isSame, isConditional: true }
          this.#block(statement.yes, within, misplaced)
          this.#block(statement.no, within, misplaced)
          break
        }
        case "barrier":
          if (!isUniform) misplaced("not all threads of a group may come to this barrier")
          // PoCL copies all that follows such a barrier, and computes wrong numbers.
          if (isConditional) misplaced("a barrier stands under no condition")
          break
        case "earlier":
        case "later":
          if (isConditional || !isUniform)
            misplaced("where other kernels are waited for or let begin stands under no condition")
          if (statement.kind === "earlier") this.#isBeforeEarlier = false
          break
        case "subgroupSum": {
          this.#need("subgroups")
          const { type } = statement.value
          if (type !== "i32" && type !== "u32") this.#refuse(`subgroups sum no ${type}`)
          this.#typed(statement.value)
          if (!isUniform) misplaced("not all threads of a subgroup may come to this sum")
          define(statement.id, { kind: "value", type, isUniform: this.#isAlone })
          break
        }
        case "matrixDot": {
          this.#need("matrix")
          if (this.#kernel.threads % MATRIX_THREADS !== 0)
            this.#refuse(`${MATRIX_THREADS} threads multiply tiles, not a part of them`)
          for (const words of [statement.a, statement.b])
            for (const word of words) this.#typed(word, "u32")
          for (const sum of statement.c) this.#typed(sum, "i32")
          if (!isUniform) misplaced("not all threads of a subgroup may come to this product")
          for (const id of statement.ids)
            define(id, { kind: "value", type: "i32", isUniform: false })
          break
        }
        case "tileDot": {
          const { ids, a, b, depth } = statement
          const element = this.#side(a)
          if (this.#side(b) !== element) this.#refuse("its tiles are of two kinds")
          const need = element === "u32" ? "byteTiles" : "halfTiles"
          this.#teams(need, isUniform, misplaced)
          if (!(depth > 0 && depth % TILE_DEPTHS[need] === 0))
            this.#refuse(`tiles are multiples of ${TILE_DEPTHS[need]} deep, not ${depth}`)
          for (const id of ids) define(id, { kind: "value", type: "i32", isUniform: false })
          break
        }
        case "tileElements": {
          const { ids, memory } = statement
          const element = this.#wholeTile(memory)
          this.#teams(element === "u32" ? "byteTiles" : "halfTiles", isUniform, misplaced)
          for (const id of ids) define(id, { kind: "value", type: element, isUniform: false })
          break
        }
      }
    }
    for (const id of own) this.#defined.delete(id)
  }

  /** @returns what the elements of a tile are */
  #side({ memory, from, stride }: Side): "u32" | "f16" {
    const array = memory.kind === "shared" ? this.#shared.get(memory.id) : undefined
    const element = array?.element
    if (element !== "u32" && element !== "f16")
      return this.#refuse("its tiles are not in shared arrays of u32 or f16")
    this.#typed(from, "u32")
    if ((stride * elementBytes[element]) % 16 !== 0)
      this.#refuse(`${stride} elements are no multiple of 16 bytes`)
    return element
  }

  #wholeTile(memory: Memory): "u32" | "f32" {
    const array = memory.kind === "shared" ? this.#shared.get(memory.id) : undefined
    const element = array?.element
    if (element !== "u32" && element !== "f32")
      return this.#refuse("its tile is no shared array of u32 or f32")
    if (array!.length !== TILE ** 2) this.#refuse(`its tile has ${array!.length} elements`)
    return element
  }

  /** Whether whole teams come here. */
  #teams(need: KernelNeed, isUniform: boolean, misplaced: (problem: string) => void): void {
    this.#need(need)
    if (this.#kernel.threads % MATRIX_THREADS !== 0)
      this.#refuse(`${MATRIX_THREADS} threads multiply tiles, not a part of them`)
    if (!isUniform) misplaced("not all threads of a team may come to these tiles")
  }

  /** One thread is never of two minds. */
  get #isAlone(): boolean {
    return this.#kernel.threads === 1
  }

  #vary(id: Id, isUniform: boolean): void {
    if (!isUniform) this.#divergent.add(id)
  }

  #claim(id: Id): void {
    if (!(Number.isInteger(id) && id >= 0 && id < this.#kernel.ids))
      this.#refuse(`its ids are below ${this.#kernel.ids}, which ${id} is not`)
    if (this.#seen.has(id)) this.#refuse(`${this.#nameOf(id)} is defined twice`)
    this.#seen.add(id)
  }

  #nameOf(id: Id): string {
    return this.#kernel.names.get(id) ?? `id ${id}`
  }

  /** Kernels before this one may still read what is there, or write it. */
  #refuseBeforeEarlier({ kind }: Memory): void {
    if (this.#isBeforeEarlier && kind === "buffer")
      this.#refuse("nothing is written before earlier kernels are waited for")
  }

  #need(need: KernelNeed): void {
    if (!this.#kernel.needs.has(need)) this.#refuse(`the kernel does not say that it needs ${need}`)
  }

  #element(memory: Memory, forbidden: "read" | "write") {
    if (memory.kind === "shared") {
      const array = this.#shared.get(memory.id)
      return array ? array.element : this.#refuse(`id ${memory.id} is no shared array`)
    }
    const operand = this.#kernel.operands[memory.operand]
    if (operand?.kind !== "buffer") return this.#refuse(`operand ${memory.operand} is no buffer`)
    if (operand.access === forbidden)
      this.#refuse(`${operand.name} may only be ${forbidden === "read" ? "read" : "written"}`)
    return operand.element
  }

  // ---- expressions

  /**
   * Checks an expression, and that it has the type that is wanted here.
   * @returns whether it is the same in all threads that compute it
   */
  #typed(expression: Expression, wanted: Type = expression.type): boolean {
    if (expression.type !== wanted)
      this.#refuse(`a ${expression.type} stands where a ${wanted} is wanted`)
    switch (expression.kind) {
      case "constant":
        this.#constant(expression.type, expression.value)
        return true
      case "value":
      case "variable": {
        const { id, kind, type } = expression
        const definition = this.#defined.get(id)
        if (!definition) return this.#refuse(`${this.#nameOf(id)} cannot be named here`)
        if ((definition.kind === "variable") !== (kind === "variable") || definition.type !== type)
          this.#refuse(`${this.#nameOf(id)} is a ${definition.type} ${definition.kind}`)
        return definition.isUniform
      }
      case "operand": {
        const operand = this.#kernel.operands[expression.operand]
        if (operand?.kind !== "word" || operand.type !== expression.type)
          this.#refuse(`operand ${expression.operand} is no ${expression.type}`)
        return true
      }
      case "lane":
      case "team":
        return this.#isAlone
      case "group":
      case "groups":
        return true
      case "binary": {
        const { name, type, a, b } = expression
        return this.#operation(name, type, [a, b], binaryTypes[name])
      }
      case "unary": {
        const { name, type, a } = expression
        return this.#operation(name, type, [a], unaryTypes[name])
      }
      case "select":
        return all([
          this.#typed(expression.condition, "bool"),
          this.#typed(expression.yes, expression.type),
          this.#typed(expression.no, expression.type),
        ])
      case "fma":
        return all([expression.a, expression.b, expression.c].map((x) => this.#typed(x, "f32")))
      case "dot4":
        this.#need("dot4")
        return all([
          this.#typed(expression.a, "u32"),
          this.#typed(expression.b, "u32"),
          this.#typed(expression.c, "i32"),
        ])
      case "lookUp":
        return this.#typed(expression.a, "u32")
    }
  }

  #operation(
    name: Binary | Unary,
    type: Type,
    sides: readonly Expression[],
    types: readonly Type[],
  ): boolean {
    const [{ type: own }] = sides as [Expression]
    if (!types.includes(own)) this.#refuse(`there is no ${name} of ${own}`)
    if (resultOf(name, own) !== type) this.#refuse(`${name} of ${own} gives no ${type}`)
    return all(sides.map((side) => this.#typed(side, own)))
  }

  #constant(type: Type, value: number): void {
    const isHeld =
      type === "f32"
        ? Object.is(Math.fround(value), value)
        : type === "i32"
          ? (value | 0) === value
          : value >>> 0 === value
    if (!isHeld) this.#refuse(`${value} is no ${type}`)
  }
}

/** Of what has been computed already, so that every part was checked. */
const all = (parts: readonly boolean[]) => parts.every(Boolean)
