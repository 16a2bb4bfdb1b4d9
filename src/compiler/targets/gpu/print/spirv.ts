// A kernel as SPIR-V: one module, one entry point, no descriptors. Operands come as push constants, where a buffer is its
// address; `operandLayout` says where each lies.
//
// Vulkan promises less of floats than kernels do. Nothing is contracted: every operation on floats is decorated so. Modules ask
// for roundings to nearest, for NaN, infinities and numbers next to zero to stay what they are; a driver that cannot be asked
// is not (runtime/gpu/spirv-modes.ts takes that out). What a device does not round correctly by itself is spelled in operations
// that it does: whoever has a module printed says what the device has, and nothing has to be there.

import { operandLayout } from "../../../../runtime/gpu/device.ts"
import { isTileShape, type Need } from "../../../../runtime/gpu/tape.ts"
import { tileShapes } from "../../../../runtime/gpu/tile-shapes.ts"
import { Builder, type Value } from "../ir/builder.ts"
import {
  type Binary,
  type Element,
  type Expression,
  elementBytes,
  type Id,
  isEight,
  type Kernel,
  type LookUp,
  loaded,
  type Memory,
  type SharedArray,
  type Side,
  type Statement,
  TILE,
  type Type,
  type Unary,
} from "../ir/ir.ts"
import { divide, multiplyAdd, root } from "./exact.ts"
import { op, SpirvFunction, type SpirvId, SpirvModule, wordsOfText } from "./words.ts"

const capability = {
  shader: 1,
  float64: 10,
  int64: 11,
  subgroupArithmetic: 63,
  storage16: 4433,
  storage8: 4448,
  keepsSubnormals: 4464,
  keepsNan: 4466,
  roundsToNearest: 4467,
  addresses: 5347,
  dotOfWords: 6018,
  dot: 6019,
  float16: 9,
  int8: 39,
  subgroups: 61,
  vulkanMemory: 5345,
  matrices: 6022,
} as const

const mode = {
  localSize: 17,
  keepsSubnormals: 4459,
  keepsNan: 4461,
  roundsToNearest: 4462,
} as const

const storage = { input: 1, workgroup: 4, function: 7, pushConstant: 9, address: 5349 } as const

const decoration = {
  block: 2,
  arrayStride: 6,
  builtIn: 11,
  coherent: 23,
  nonWritable: 24,
  offset: 35,
  rounding: 39,
  noContraction: 42,
} as const

const builtIn = { groups: 24, group: 26, lane: 29, subgroup: 40 } as const
const extended = { abs: 4, sqrt: 31, minU: 38, minI: 39, maxU: 41, maxI: 42, fma: 50 } as const

const ADDRESSES_OF_64_BITS = 5348
const GLSL450 = 1
const VULKAN = 3
const ENTRY_OF_COMPUTE = 5
const ALIGNED = 2
const NEAREST = 0
const SCOPE_WORKGROUP = 2
const SCOPE_SUBGROUP = 3
/** Acquire and release, of what lies in shared arrays and in buffers. */
const ORDER_ALL = 0x8 | 0x100 | 0x40
const REDUCE = 0
/** Of an access to memory that other threads see: it is made visible before a load, and available after a store. */
const SEEN = { load: 0x10 | 0x20, store: 0x8 | 0x20 } as const
/** What a matrix is to a product, how it lies in memory, and that all numbers of a product have signs. */
const uses = { rows: 0, columns: 1, sums: 2 } as const
const ROW_MAJOR = 0
const COLUMN_MAJOR = 1
const SIGNED = 0x1 | 0x2 | 0x4 | 0x8
const FOUR_BYTES = 0

/** What devices have, the best first: GPUs fuse, and divide only nearly; lavapipe is the other way round. */
export const spirvProfiles: readonly (readonly Need[])[] = [
  ...tileShapes.map((shape): Need[] => ["fma", "division", "dot4", shape]),
  ...tileShapes.map((shape): Need[] => ["fma", "dot4", shape]),
  ["fma", "division", "dot4"],
  ["fma", "dot4"],
  ["fma"],
  ["division", "float64", "dot4"],
  [],
]

/** @param needs of what a device may have, what the words use */
export function printSpirv(kernel: Kernel, needs: readonly Need[]): Uint8Array {
  return new Printer(kernel, needs).print()
}

class Printer {
  readonly #module = new SpirvModule()
  readonly #kernel: Kernel
  readonly #needs: readonly Need[]
  readonly #globals: SpirvId[] = []
  readonly #extended: SpirvId
  /** What is being written. */
  #body: SpirvFunction
  /** Words, and addresses of buffers' elements. */
  #operands: SpirvId[] = []
  #values = new Map<Id, SpirvId>()
  #variables = new Map<Id, SpirvId>()
  /** Within what spells an operation, the operation itself is the device's. */
  #isSpelling = false
  #shared = new Map<Id, { array: SpirvId; element: SharedArray["element"] }>()
  /** Of values, those that a driver can find out: they may be 0. */
  #known = new Set<Id>()
  /** Of tiles that it multiplies. */
  readonly #shape: Shape | undefined
  /** What the function has made at its head. */
  #made = new Map<string, SpirvId>()

  constructor(kernel: Kernel, needs: readonly Need[]) {
    this.#kernel = kernel
    this.#needs = needs
    const module = this.#module
    module.require(op.Capability, capability.shader)
    module.require(op.Capability, capability.addresses)
    this.#extended = module.id()
    module.add("imports", op.ExtInstImport, this.#extended, ...wordsOfText("GLSL.std.450"))
    this.#shape = shapeOf(kernel, needs)
    const model = this.#shape ? VULKAN : GLSL450
    if (this.#shape) {
      module.require(op.Extension, ...wordsOfText("SPV_KHR_cooperative_matrix"))
      for (const each of ["vulkanMemory", "matrices", "subgroups"] as const)
        module.require(op.Capability, capability[each])
    }
    module.add("model", op.MemoryModel, ADDRESSES_OF_64_BITS, model)
    this.#body = new SpirvFunction(module)
  }

  print(): Uint8Array {
    const module = this.#module
    const { name, threads, body, shared } = this.#kernel
    const none = module.type(op.TypeVoid, [])
    const entry = module.id()
    this.#loadOperands()
    for (const { id, element, length } of shared)
      this.#shared.set(id, { array: this.#sharedArray(element, length), element })
    this.#statements(body)
    this.#body.do(op.Return)
    this.#body.finish(entry, module.type(op.TypeFunction, [none]), none)
    module.add(
      "entries",
      op.EntryPoint,
      ENTRY_OF_COMPUTE,
      entry,
      ...wordsOfText(name),
      ...this.#globals,
    )
    this.#modes(entry, threads)
    return module.bytes()
  }

  #modes(entry: SpirvId, threads: number): void {
    const module = this.#module
    module.add("modes", op.ExecutionMode, entry, mode.localSize, threads, 1, 1)
    const wish = (name: "keepsNan" | "roundsToNearest" | "keepsSubnormals", bits: number) => {
      module.require(op.Capability, capability[name])
      module.add("modes", op.ExecutionMode, entry, mode[name], bits)
    }
    for (const name of ["keepsNan", "roundsToNearest", "keepsSubnormals"] as const) wish(name, 32)
    if (this.#kernel.operands.some((each) => each.kind === "buffer" && each.element === "f16"))
      for (const name of ["keepsNan", "keepsSubnormals"] as const) wish(name, 16)
  }

  // ------------------------------------------------------------------ types

  #type(type: Type | "f64" | "u64" | Element): SpirvId {
    const module = this.#module
    switch (type) {
      case "bool":
        return module.type(op.TypeBool, [])
      case "f32":
        return module.type(op.TypeFloat, [32])
      case "i32":
        return module.type(op.TypeInt, [32, 1])
      case "u32":
        return module.type(op.TypeInt, [32, 0])
      case "f64":
        module.require(op.Capability, capability.float64)
        return module.type(op.TypeFloat, [64])
      case "u64":
        module.require(op.Capability, capability.int64)
        return module.type(op.TypeInt, [64, 0])
      case "f16":
        module.require(op.Capability, capability.storage16)
        return module.type(op.TypeFloat, [16])
      case "u16":
        module.require(op.Capability, capability.storage16)
        return module.type(op.TypeInt, [16, 0])
      case "i8":
        module.require(op.Capability, capability.storage8)
        return module.type(op.TypeInt, [8, 1])
      case "u8":
        module.require(op.Capability, capability.storage8)
        return module.type(op.TypeInt, [8, 0])
    }
  }

  #vector(type: Type, length: number): SpirvId {
    return this.#module.type(op.TypeVector, [this.#type(type), length])
  }

  #constant(type: Type, value: number): SpirvId {
    return this.#module.constant(
      this.#type(type),
      type === "f32" ? bitsOfFloat(value) : value >>> 0,
    )
  }

  /** The type of an address of elements without an end: a structure that holds nothing but them. */
  #addressType(element: SpirvId, stride: number, operand: number): SpirvId {
    const module = this.#module
    const { access } = this.#bufferOperand(operand)
    return module.once(`address ${element} ${access}`, () => {
      const array = module.type(op.TypeRuntimeArray, [element], access)
      module.decorate(array, decoration.arrayStride, stride)
      const block = module.type(op.TypeStruct, [array])
      module.decorate(block, decoration.block)
      module.decorateMember(block, 0, decoration.offset, 0)
      if (access === "read") module.decorateMember(block, 0, decoration.nonWritable)
      // What one thread writes another may read behind a barrier.
      if (access === "readwrite" && !this.#shape)
        module.decorateMember(block, 0, decoration.coherent)
      return module.pointer(storage.address, block)
    })
  }

  #bufferOperand(number: number) {
    const operand = this.#kernel.operands[number]
    if (operand?.kind !== "buffer") throw new Error(`internal: operand ${number} is no buffer`)
    return operand
  }

  #sharedArray(element: SharedArray["element"], length: number): SpirvId {
    const module = this.#module
    if (element === "f16") module.require(op.Capability, capability.float16)
    const array = module.type(op.TypeArray, [this.#type(element), this.#constant("u32", length)])
    const variable = module.variable(module.pointer(storage.workgroup, array), storage.workgroup)
    this.#globals.push(variable)
    return variable
  }

  // ------------------------------------------------------------------ what a dispatch brings

  #loadOperands(): void {
    const module = this.#module
    const { operands } = this.#kernel
    if (operands.length === 0) return
    // An address comes as a number: for pointers to bytes or halves the standard's own checker wants arithmetic on those.
    const types = operands.map((operand) =>
      this.#type(operand.kind === "word" ? operand.type : "u64"),
    )
    const block = module.type(op.TypeStruct, types)
    module.decorate(block, decoration.block)
    const { offsets } = operandLayout(operands.map(({ kind }) => kind))
    for (const [member, at] of offsets.entries())
      module.decorateMember(block, member, decoration.offset, at)
    const pointer = module.pointer(storage.pushConstant, block)
    const variable = module.variable(pointer, storage.pushConstant)
    this.#globals.push(variable)
    for (const [number, operand] of operands.entries()) {
      const type = types[number]!
      const at = this.#body.give(
        op.AccessChain,
        module.pointer(storage.pushConstant, type),
        variable,
        this.#constant("u32", number),
      )
      const value = this.#body.give(op.Load, type, at)
      if (operand.kind === "word") this.#operands.push(value)
      else {
        const address = this.#addressType(
          this.#type(operand.element),
          elementBytes[operand.element],
          number,
        )
        this.#operands.push(this.#body.give(op.ConvertUToPtr, address, value))
      }
    }
  }

  /** A number that the device has built in, loaded once in each function that wants it. */
  #input(name: keyof typeof builtIn, axis?: number): SpirvId {
    const module = this.#module
    const body = this.#body
    const u32 = this.#type("u32")
    const type = axis === undefined ? u32 : this.#vector("u32", 3)
    const variable = module.once(`built in ${name}`, () => {
      const made = module.variable(module.pointer(storage.input, type), storage.input)
      module.decorate(made, decoration.builtIn, builtIn[name])
      this.#globals.push(made)
      return made
    })
    const loaded = this.#once(name, () => body.giveFirst(op.Load, type, variable))
    if (axis === undefined) return loaded
    return this.#once(`${name} ${axis}`, () =>
      body.giveFirst(op.CompositeExtract, u32, loaded, axis),
    )
  }

  /** Whatever a function makes once. */
  #once(key: string, make: () => SpirvId): SpirvId {
    const known = this.#made.get(key)
    if (known !== undefined) return known
    const made = make()
    this.#made.set(key, made)
    return made
  }

  /**
   * A word 0 that nobody knows to be one before the kernel runs. lavapipe takes a number times a float 0 that it knows for 0,
   * whatever the number is, a number plus one for the number, and a number by one for anything at all.
   */
  #none(): SpirvId {
    return this.#once("none", () => {
      const top = this.#constant("u32", 31)
      return this.#body.giveFirst(
        op.ShiftRightLogical,
        this.#type("u32"),
        this.#input("groups", 0),
        top,
      )
    })
  }

  /** Such a float. */
  #zero(): SpirvId {
    return this.#once("zero", () => {
      const none = this.#none()
      return this.#body.giveFirst(op.Bitcast, this.#type("f32"), none)
    })
  }

  /** Whether a driver can find out what it is, having unrolled all loops. */
  #isKnown(expression: Expression): boolean {
    switch (expression.kind) {
      case "constant":
      case "variable":
        return true
      case "value":
        return this.#known.has(expression.id)
      case "unary":
      case "lookUp":
        return this.#isKnown(expression.a)
      case "binary":
        return this.#isKnown(expression.a) && this.#isKnown(expression.b)
      case "select":
        return this.#isKnown(expression.yes) || this.#isKnown(expression.no)
      default:
        return false
    }
  }

  // ------------------------------------------------------------------ statements

  #statements(statements: readonly Statement[]): void {
    for (const statement of statements) this.#statement(statement)
  }

  #statement(statement: Statement): void {
    const body = this.#body
    switch (statement.kind) {
      case "let":
        this.#values.set(statement.id, this.#value(statement.value))
        if (this.#isKnown(statement.value)) this.#known.add(statement.id)
        return
      case "variable": {
        const pointer = this.#module.pointer(storage.function, this.#type(statement.value.type))
        const variable = body.variable(pointer, storage.function)
        this.#variables.set(statement.id, variable)
        body.do(op.Store, variable, this.#value(statement.value))
        return
      }
      case "assign":
        body.do(op.Store, this.#variableOf(statement.id), this.#value(statement.value))
        return
      case "load":
        this.#values.set(statement.id, this.#load(statement.memory, statement.index))
        return
      case "loadNear":
        this.#loadNear(statement)
        return
      case "store":
        this.#store(statement)
        return
      case "atomicAdd": {
        const { pointer, type } = this.#cell(statement.memory, statement.index)
        const value = this.#value(statement.value)
        const [scope, order] = [SCOPE_WORKGROUP, 0].map((bits) => this.#constant("u32", bits))
        body.give(op.AtomicIAdd, this.#type(type), pointer, scope!, order!, value)
        return
      }
      case "for":
        this.#for(statement)
        return
      case "if":
        this.#if(statement)
        return
      case "later":
      case "earlier": // a recording has a barrier between kernels
        return
      case "barrier": {
        const scope = this.#constant("u32", SCOPE_WORKGROUP)
        body.do(op.ControlBarrier, scope, scope, this.#constant("u32", ORDER_ALL))
        return
      }
      case "subgroupSum": {
        this.#module.require(op.Capability, capability.subgroupArithmetic)
        const scope = this.#constant("u32", SCOPE_SUBGROUP)
        const value = this.#value(statement.value)
        const type = this.#type(statement.value.type)
        const sum = body.give(op.GroupNonUniformIAdd, type, scope, REDUCE, value)
        this.#values.set(statement.id, sum)
        return
      }
      // Cooperative matrices lie as each device likes.
      case "matrixDot":
        throw new Error("internal: SPIR-V has no word for tiles that lie in a known way")
      case "tileDot":
        this.#tileDot(statement)
        return
      case "tileElements": {
        const { rows, columns } = this.#piece()
        const at = body.give(op.IAdd, this.#type("u32"), this.#times(rows, TILE), columns)
        const sums = this.#sumsType()
        this.#elements(statement.ids, this.#loadTile(statement.memory, at, sums, ROW_MAJOR, TILE))
        if (this.#tileShape.isBytes) this.#convert(statement.ids, op.Bitcast, "u32")
        return
      }
    }
  }

  // ------------------------------------------------------------------ tiles

  get #tileShape(): Shape {
    if (!this.#shape) throw new Error(`internal: no shape for ${this.#kernel.name}'s tiles`)
    return this.#shape
  }

  /** A subgroup's piece of its team's product: where it begins. */
  #piece(): { rows: SpirvId; columns: SpirvId } {
    const body = this.#body
    const u32 = this.#type("u32")
    const { rows, columns } = this.#tileShape
    const [across, pieces] = [TILE / columns, TILE ** 2 / (rows * columns)]
    const mask = (number: number) => this.#constant("u32", number)
    const piece = body.give(op.BitwiseAnd, u32, this.#input("subgroup"), mask(pieces - 1))
    const row = body.give(op.UDiv, u32, piece, mask(across))
    const column = body.give(op.UMod, u32, piece, mask(across))
    return { rows: this.#times(row, rows), columns: this.#times(column, columns) }
  }

  #times(value: SpirvId, by: number): SpirvId {
    return this.#body.give(op.IMul, this.#type("u32"), value, this.#constant("u32", by))
  }

  #matrixType(element: SpirvId, rows: number, columns: number, use: number): SpirvId {
    const [scope, ...words] = [SCOPE_SUBGROUP, rows, columns, use].map((word) =>
      this.#constant("u32", word),
    )
    return this.#module.type(op.TypeCooperativeMatrix, [element, scope!, ...words])
  }

  #sumsType(): SpirvId {
    const { isBytes, rows, columns } = this.#tileShape
    return this.#matrixType(this.#type(isBytes ? "i32" : "f32"), rows, columns, uses.sums)
  }

  #loadTile(memory: Memory, at: SpirvId, type: SpirvId, order: number, stride: number): SpirvId {
    if (memory.kind !== "shared") throw new Error("internal: tiles lie in shared arrays only")
    const { array, element } = this.#shared.get(memory.id)!
    const pointer = this.#module.pointer(storage.workgroup, this.#type(element))
    const first = this.#body.give(op.AccessChain, pointer, array, at)
    const [layout, step] = [order, stride].map((word) => this.#constant("u32", word))
    return this.#body.give(
      op.CooperativeMatrixLoad,
      type,
      first,
      layout!,
      step!,
      SEEN.load,
      this.#constant("u32", SCOPE_WORKGROUP),
    )
  }

  #tileDot({ ids, a, b, depth }: Extract<Statement, { kind: "tileDot" }>): void {
    const [body, module] = [this.#body, this.#module]
    const shape = this.#tileShape
    const u32 = this.#type("u32")
    const number = shape.isBytes ? this.#byte() : this.#type("f16")
    const left = this.#matrixType(number, shape.rows, shape.depth, uses.rows)
    const right = this.#matrixType(number, shape.depth, shape.columns, uses.columns)
    const sums = this.#sumsType()
    const piece = this.#piece()
    const begin = ({ from, stride }: Side, lines: SpirvId) =>
      body.give(op.IAdd, u32, this.#value(from), this.#times(lines, stride))
    const [rows, columns] = [begin(a, piece.rows), begin(b, piece.columns)]
    const perElement = shape.isBytes ? 4 : 1
    let sum = module.null(sums)
    for (let k = 0; k < depth; k += shape.depth) {
      const further = this.#constant("u32", k / perElement)
      const [x, y] = [rows, columns].map((at) => body.give(op.IAdd, u32, at, further))
      sum = body.give(
        op.CooperativeMatrixMulAdd,
        sums,
        this.#loadTile(a.memory, x!, left, ROW_MAJOR, a.stride),
        this.#loadTile(b.memory, y!, right, COLUMN_MAJOR, b.stride),
        sum,
        ...(shape.isBytes ? [SIGNED] : []),
      )
    }
    this.#elements(ids, sum)
    if (!shape.isBytes) this.#convert(ids, op.ConvertFToS, "i32")
  }

  #convert(ids: readonly Id[], opcode: number, type: Type): void {
    for (const id of ids) {
      const converted = this.#body.give(opcode, this.#type(type), this.#values.get(id)!)
      this.#values.set(id, converted)
    }
  }

  /** A number of matrices alone: nothing is computed with it. */
  #byte(): SpirvId {
    this.#module.require(op.Capability, capability.int8)
    return this.#module.type(op.TypeInt, [8, 1])
  }

  #elements(ids: readonly Id[], matrix: SpirvId): void {
    const type = this.#type(this.#tileShape.isBytes ? "i32" : "f32")
    for (const [i, id] of ids.entries())
      this.#values.set(id, this.#body.give(op.CompositeExtract, type, matrix, i))
  }

  #variableOf(id: Id): SpirvId {
    const variable = this.#variables.get(id)
    if (variable === undefined) throw new Error(`internal: no variable ${id}`)
    return variable
  }

  /** `to` and `step` are computed once, before the first turn. */
  #for(statement: Extract<Statement, { kind: "for" }>): void {
    const [body, module] = [this.#body, this.#module]
    const [from, to, step] = [statement.from, statement.to, statement.step].map((each) =>
      this.#value(each),
    )
    const [header, turn, onward, after] = [module.id(), module.id(), module.id(), module.id()]
    const next = module.id()
    const before = body.block
    const u32 = this.#type("u32")
    body.do(op.Branch, header)
    body.begin(header)
    const index = body.give(op.Phi, u32, from!, before, next, onward)
    this.#values.set(statement.id, index)
    if (this.#isKnown(statement.from)) this.#known.add(statement.id)
    const isBelow = body.give(op.ULessThan, this.#type("bool"), index, to!)
    body.do(op.LoopMerge, after, onward, 0)
    body.do(op.BranchConditional, isBelow, turn, after)
    body.begin(turn)
    this.#statements(statement.body)
    body.do(op.Branch, onward)
    body.begin(onward)
    body.do(op.IAdd, u32, next, index, step!)
    body.do(op.Branch, header)
    body.begin(after)
  }

  #if({ condition, yes, no }: Extract<Statement, { kind: "if" }>): void {
    const [body, module] = [this.#body, this.#module]
    const [then, otherwise, after] = [module.id(), module.id(), module.id()]
    const holds = this.#value(condition)
    body.do(op.SelectionMerge, after, 0)
    body.do(op.BranchConditional, holds, then, no.length > 0 ? otherwise : after)
    for (const [label, statements] of [
      [then, yes],
      [otherwise, no],
    ] as const) {
      if (label === otherwise && no.length === 0) continue
      body.begin(label)
      this.#statements(statements)
      body.do(op.Branch, after)
    }
    body.begin(after)
  }

  // ------------------------------------------------------------------ memory

  /** Where an element lies, the type of what lies there, and what an access to it must say. */
  #cell(memory: Memory, index: Expression) {
    const module = this.#module
    const number = this.#value(index)
    if (memory.kind === "shared") {
      const { array, element } = this.#shared.get(memory.id)!
      const pointer = module.pointer(storage.workgroup, this.#type(element))
      return {
        pointer: this.#body.give(op.AccessChain, pointer, array, number),
        type: loaded[element],
        element: element as Element,
        says: (access: keyof typeof SEEN) => (this.#shape ? this.#seen(access) : []),
      }
    }
    const { element, access } = this.#bufferOperand(memory.operand)
    const alignment = [ALIGNED, elementBytes[element]] as const
    const pointer = this.#body.give(
      op.AccessChain,
      module.pointer(storage.address, this.#type(element)),
      this.#operands[memory.operand]!,
      this.#constant("u32", 0),
      number,
    )
    const isSeen = this.#shape !== undefined && access === "readwrite"
    const says = (access: keyof typeof SEEN) =>
      isSeen ? this.#seen(access, ...alignment) : alignment
    return { pointer, type: loaded[element], element, says }
  }

  /** Where the order of threads is said by each access and not by where the memory is. */
  #seen(access: keyof typeof SEEN, aligned = 0, ...alignment: readonly number[]): number[] {
    return [SEEN[access] | aligned, ...alignment, this.#constant("u32", SCOPE_WORKGROUP)]
  }

  #load(memory: Memory, index: Expression): SpirvId {
    const { pointer, type, element, says } = this.#cell(memory, index)
    const found = this.#body.give(op.Load, this.#type(element), pointer, ...says("load"))
    return element === type ? found : this.#body.give(widening[type], this.#type(type), found)
  }

  #store({ memory, index, value }: Extract<Statement, { kind: "store" }>): void {
    const { pointer, type, element, says } = this.#cell(memory, index)
    let stored = this.#value(value)
    if (element !== type) stored = this.#body.give(widening[type], this.#type(element), stored)
    if (element === "f16" && memory.kind === "buffer")
      this.#module.decorate(stored, decoration.rounding, NEAREST)
    this.#body.do(op.Store, pointer, stored, ...says("store"))
  }

  #loadNear({ ids, memory, index }: Extract<Statement, { kind: "loadNear" }>): void {
    if (memory.kind !== "buffer")
      throw new Error("internal: neighbours are loaded from buffers only")
    if (isEight(ids)) throw new Error("internal: no instruction for eight halves")
    const bytes = 4 * ids.length
    const body = this.#body
    const type = loaded[this.#bufferOperand(memory.operand).element]
    const vector = this.#vector(type, ids.length)
    const base = body.give(
      op.Bitcast,
      this.#addressType(vector, bytes, memory.operand),
      this.#operands[memory.operand]!,
    )
    const pointer = body.give(
      op.AccessChain,
      this.#module.pointer(storage.address, vector),
      base,
      this.#constant("u32", 0),
      this.#value(index),
    )
    const isSeen = this.#shape && this.#bufferOperand(memory.operand).access === "readwrite"
    const says = isSeen ? this.#seen("load", ALIGNED, bytes) : [ALIGNED, bytes]
    const near = body.give(op.Load, vector, pointer, ...says)
    for (const [number, id] of ids.entries())
      this.#values.set(id, body.give(op.CompositeExtract, this.#type(type), near, number))
  }

  // ------------------------------------------------------------------ expressions

  #value(expression: Expression): SpirvId {
    const type = this.#type(expression.type)
    const body = this.#body
    switch (expression.kind) {
      case "constant":
        if (expression.type === "f32" && Object.is(expression.value, 0)) return this.#zero()
        return this.#constant(expression.type, expression.value)
      case "value": {
        const value = this.#values.get(expression.id)
        if (value === undefined) throw new Error(`internal: nothing defines ${expression.id}`)
        return value
      }
      case "variable":
        return body.give(op.Load, type, this.#variableOf(expression.id))
      case "operand":
        return this.#operands[expression.operand]!
      case "lane":
        return this.#input("lane")
      case "team": {
        const { rows, columns } = this.#tileShape
        const pieces = this.#constant("u32", TILE ** 2 / (rows * columns))
        return body.give(op.UDiv, type, this.#input("subgroup"), pieces)
      }
      case "group":
      case "groups":
        return this.#input(expression.kind, expression.axis)
      case "binary":
        return this.#binary(expression.name, expression.a, expression.b, type)
      case "unary":
        return this.#unary(expression.name, expression.a, type)
      case "select": {
        const [condition, yes, no] = [expression.condition, expression.yes, expression.no].map(
          (each) => this.#value(each),
        )
        return body.give(op.Select, type, condition!, yes!, no!)
      }
      case "fma":
        return this.#fma(
          [expression.a, expression.b, expression.c].map((each) => this.#value(each)),
        )
      case "dot4":
        return this.#dot4(
          [expression.a, expression.b, expression.c].map((each) => this.#value(each)),
        )
      case "lookUp":
        return this.#lookUp(expression)
    }
  }

  /** An operation on floats, which may be no part of another. */
  #float(opcode: number, type: SpirvId, ...words: readonly number[]): SpirvId {
    const id = this.#body.give(opcode, type, ...words)
    this.#module.decorate(id, decoration.noContraction)
    return id
  }

  #binary(name: Binary, a: Expression, b: Expression, type: SpirvId): SpirvId {
    const [x, y] = [this.#value(a), this.#value(b)]
    const word = binary[a.type][name]
    if (word === undefined) throw new Error(`internal: ${name} of ${a.type}`)
    const body = this.#body
    if (name === "mulHigh") {
      const both = this.#module.type(op.TypeStruct, [type, type])
      return body.give(op.CompositeExtract, type, body.give(word, both, x, y), 1)
    }
    if (name === "div" && a.type === "f32" && !this.#isRounded("division"))
      return this.#call("divide", divide, [x, y])
    if (name === "min" || name === "max")
      return body.give(op.ExtInst, type, this.#extended, word, x, y)
    return a.type === "f32" && type === this.#type("f32")
      ? this.#float(word, type, x, y)
      : body.give(word, type, x, y)
  }

  #unary(name: Unary, a: Expression, type: SpirvId): SpirvId {
    const body = this.#body
    let x = this.#value(a)
    if (type === this.#type("f32") && a.type !== "f32" && this.#isKnown(a))
      x = body.give(op.BitwiseOr, this.#type(a.type), x, this.#none())
    switch (name) {
      case "neg":
        return a.type === "f32" ? this.#float(op.FNegate, type, x) : body.give(op.SNegate, type, x)
      case "abs":
        return body.give(op.ExtInst, type, this.#extended, extended.abs, x)
      case "sqrt":
        if (!this.#isRounded("division")) return this.#call("root", root, [x])
        return this.#float(op.ExtInst, type, this.#extended, extended.sqrt, x)
      case "not":
        return body.give(op.LogicalNot, type, x)
      case "float":
        return body.give(a.type === "i32" ? op.ConvertSToF : op.ConvertUToF, type, x)
      case "whole":
        return body.give(op.ConvertFToS, type, x)
      case "i32":
      case "u32":
      case "f32":
        return name === a.type ? x : body.give(op.Bitcast, type, x)
    }
  }

  #isRounded(need: "division" | "fma"): boolean {
    return this.#isSpelling || this.#needs.includes(need)
  }

  #fma(factors: readonly SpirvId[]): SpirvId {
    const f32 = this.#type("f32")
    if (this.#isRounded("fma"))
      return this.#float(op.ExtInst, f32, this.#extended, extended.fma, ...factors)
    if (this.#needs.includes("float64"))
      return this.#body.give(op.FunctionCall, f32, this.#fmaInDoubles(), ...factors)
    return this.#call("multiply and add", multiplyAdd, factors)
  }

  /** Calls a function of floats whose statements a builder writes. */
  #call(
    name: string,
    write: (k: Builder, ...parameters: Value[]) => Value,
    values: readonly SpirvId[],
  ): SpirvId {
    const f32 = this.#type("f32")
    const id = this.#function(name, values.length, (parameters) => {
      const k = new Builder(name, 1)
      const result = write(k, ...parameters.map((_, i) => k.word(`${i}`, "f32")))
      const outer = [
        this.#operands,
        this.#values,
        this.#variables,
        this.#known,
        this.#isSpelling,
      ] as const
      this.#operands = [...parameters]
      this.#values = new Map()
      this.#variables = new Map()
      this.#known = new Set()
      this.#isSpelling = true
      this.#statements(k.finish().body)
      const value = this.#value(result.expression)
      ;[this.#operands, this.#values, this.#variables, this.#known, this.#isSpelling] = outer
      return value
    })
    return this.#body.give(op.FunctionCall, f32, id, ...values)
  }

  /** A function of floats that gives one, written when it is first called. */
  #function(
    name: string,
    count: number,
    write: (parameters: readonly SpirvId[]) => SpirvId,
  ): SpirvId {
    const module = this.#module
    return module.once(`function ${name}`, () => {
      const f32 = this.#type("f32")
      const outer = [this.#body, this.#made] as const
      this.#body = new SpirvFunction(module)
      this.#made = new Map()
      const parameters = Array.from({ length: count }, () => ({ id: module.id(), type: f32 }))
      this.#body.do(op.ReturnValue, write(parameters.map(({ id }) => id)))
      const id = module.id()
      const type = module.type(op.TypeFunction, [f32, ...parameters.map(() => f32)])
      this.#body.finish(id, type, f32, parameters)
      ;[this.#body, this.#made] = outer
      return id
    })
  }

  /**
   * A product of two floats is exact in doubles. Its sum with the third is rounded to odd, which the error of the sum tells how
   * to do, so that rounding it to a float rounds it for the first time (Boldo and Melquiond, "Emulation of a FMA and correctly
   * rounded sums", 2008). Nothing overflows on the way, and what is not finite has no error: it is NaN.
   */
  #fmaInDoubles(): SpirvId {
    const module = this.#module
    return this.#function("fma in doubles", 3, (parameters) => {
      const body = this.#body
      const [f32, f64, u64, bool] = (["f32", "f64", "u64", "bool"] as const).map((type) =>
        this.#type(type),
      ) as [SpirvId, SpirvId, SpirvId, SpirvId]
      const [a, b, c] = parameters.map((id) => body.give(op.FConvert, f64, id))
      const product = this.#float(op.FMul, f64, a!, b!)
      const sum = this.#float(op.FAdd, f64, product, c!)
      const second = this.#float(op.FSub, f64, sum, product)
      const first = this.#float(op.FSub, f64, sum, second)
      const error = this.#float(
        op.FAdd,
        f64,
        this.#float(op.FSub, f64, product, first),
        this.#float(op.FSub, f64, c!, second),
      )
      const [none, one, zero] = [
        module.constant(u64, 0, 0),
        module.constant(u64, 1, 0),
        module.constant(f64, 0, 0),
      ]
      const bits = body.give(op.Bitcast, u64, sum)
      const isEven = body.give(op.IEqual, bool, body.give(op.BitwiseAnd, u64, bits, one), none)
      const isInexact = body.give(op.FOrdNotEqual, bool, error, zero)
      // An even sum lies between two odd ones: away from zero, and towards it where sum and error disagree.
      const isTowards = body.give(
        op.LogicalNotEqual,
        bool,
        body.give(op.FOrdLessThan, bool, error, zero),
        body.give(op.FOrdLessThan, bool, sum, zero),
      )
      const [away, towards] = [op.IAdd, op.ISub].map((by) => body.give(by, u64, bits, one))
      const odd = body.give(op.Select, u64, isTowards, towards!, away!)
      const moves = body.give(op.LogicalAnd, bool, isEven, isInexact)
      const settled = body.give(op.Select, u64, moves, odd, bits)
      const rounded = body.give(op.Bitcast, f64, settled)
      return body.give(op.FConvert, f32, rounded)
    })
  }

  #dot4([a, b, c]: readonly SpirvId[]): SpirvId {
    const body = this.#body
    const i32 = this.#type("i32")
    if (this.#needs.includes("dot4")) {
      const module = this.#module
      module.require(op.Extension, ...wordsOfText("SPV_KHR_integer_dot_product"))
      module.require(op.Capability, capability.dot)
      module.require(op.Capability, capability.dotOfWords)
      return body.give(op.IAdd, i32, body.give(op.SDot, i32, a!, b!, FOUR_BYTES), c!)
    }
    const [words, eight] = [
      [a!, b!].map((word) => body.give(op.Bitcast, i32, word)),
      this.#constant("u32", 8),
    ]
    let sum = c!
    for (const from of [0, 8, 16, 24]) {
      const [x, y] = words.map((word) =>
        body.give(op.BitFieldSExtract, i32, word, this.#constant("u32", from), eight),
      )
      sum = body.give(op.IAdd, i32, sum, body.give(op.IMul, i32, x!, y!))
    }
    return sum
  }

  /** Of each two neighbours one, by the lowest of a byte's bits; then of two such, by the next. */
  #lookUp({ a, from, table }: LookUp): SpirvId {
    const body = this.#body
    const u32 = this.#type("u32")
    const word = this.#value(a)
    const of = (code: number, x: SpirvId, y: SpirvId) => body.give(code, u32, x, y)
    const constant = (value: number) => this.#constant("u32", value)
    const every = (byte: number) => Math.imul(byte, 0x01010101) >>> 0
    const masks = [0, 1, 2, 3].map((bit) => {
      const shifted = of(op.ShiftRightLogical, word, constant(from + bit))
      return of(op.IMul, of(op.BitwiseAnd, shifted, constant(every(1))), constant(255))
    })
    const bytes = table.flatMap((word) => [0, 8, 16, 24].map((shift) => (word >>> shift) & 0xff))
    const differing = (no: SpirvId, mask: SpirvId, difference: SpirvId) =>
      of(op.BitwiseXor, no, of(op.BitwiseAnd, mask, difference))
    let chosen = Array.from({ length: bytes.length / 2 }, (_, i) => {
      const [no, yes] = [bytes[2 * i]!, bytes[2 * i + 1]!]
      return differing(constant(every(no)), masks[0]!, constant(every(no ^ yes)))
    })
    for (const mask of masks.slice(1))
      chosen = Array.from({ length: chosen.length / 2 }, (_, i) => {
        const [no, yes] = [chosen[2 * i]!, chosen[2 * i + 1]!]
        return differing(no, mask, of(op.BitwiseXor, no, yes))
      })
    return chosen[0]!
  }
}

/** Of tiles as a device multiplies them: the numbers are bytes or halves, and subgroups have an eighth of the product's threads. */
interface Shape {
  isBytes: boolean
  rows: number
  columns: number
  depth: number
}

/** @returns none for a kernel without tiles */
function shapeOf({ name, needs }: Kernel, profile: readonly Need[]): Shape | undefined {
  const wanted = needs.has("byteTiles") ? "bytes" : needs.has("halfTiles") ? "halves" : undefined
  if (!wanted) return undefined
  const shape = profile.find((need) => isTileShape(need) && need.startsWith(wanted))
  if (!shape) throw new Error(`internal: no shape for ${name}'s tiles of ${wanted}`)
  const [rows, columns, depth] = shape.match(/\d+/g)!.map(Number)
  return { isBytes: wanted === "bytes", rows: rows!, columns: columns!, depth: depth! }
}

/** Between an element and what a load gives of it: to the wider one and back. */
const widening = {
  f32: op.FConvert,
  i32: op.SConvert,
  u32: op.UConvert,
  bool: 0,
} as const satisfies Record<Type, number>

const ofWhole = {
  add: op.IAdd,
  sub: op.ISub,
  mul: op.IMul,
  and: op.BitwiseAnd,
  or: op.BitwiseOr,
  xor: op.BitwiseXor,
  shl: op.ShiftLeftLogical,
  eq: op.IEqual,
  ne: op.INotEqual,
} as const

const binary: Record<Type, Partial<Record<Binary, number>>> = {
  f32: {
    add: op.FAdd,
    sub: op.FSub,
    mul: op.FMul,
    div: op.FDiv,
    eq: op.FOrdEqual,
    ne: op.FUnordNotEqual,
    lt: op.FOrdLessThan,
    le: op.FOrdLessThanEqual,
  },
  i32: {
    ...ofWhole,
    min: extended.minI,
    max: extended.maxI,
    shr: op.ShiftRightArithmetic,
    lt: op.SLessThan,
    le: op.SLessThanEqual,
  },
  u32: {
    ...ofWhole,
    div: op.UDiv,
    rem: op.UMod,
    min: extended.minU,
    max: extended.maxU,
    shr: op.ShiftRightLogical,
    lt: op.ULessThan,
    le: op.ULessThanEqual,
    mulHigh: op.UMulExtended,
  },
  bool: { and: op.LogicalAnd, or: op.LogicalOr, xor: op.LogicalNotEqual },
}

function bitsOfFloat(value: number): number {
  return new Uint32Array(Float32Array.of(value).buffer)[0]!
}
