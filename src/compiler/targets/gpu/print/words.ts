// SPIR-V as words: a module that grows by instructions, each in the section where the standard wants it. Types and constants
// are made once however often they are asked for, since a second one of the same kind is no valid module.

export type SpirvId = number

/** The instructions that kernels need, by the standard's names without its prefix. */
export const op = {
  Extension: 10,
  ExtInstImport: 11,
  ExtInst: 12,
  MemoryModel: 14,
  EntryPoint: 15,
  ExecutionMode: 16,
  Capability: 17,
  TypeVoid: 19,
  TypeBool: 20,
  TypeInt: 21,
  TypeFloat: 22,
  TypeVector: 23,
  TypeArray: 28,
  TypeRuntimeArray: 29,
  TypeStruct: 30,
  TypePointer: 32,
  TypeFunction: 33,
  Constant: 43,
  ConstantNull: 46,
  Function: 54,
  FunctionParameter: 55,
  FunctionEnd: 56,
  FunctionCall: 57,
  Variable: 59,
  Load: 61,
  Store: 62,
  AccessChain: 65,
  Decorate: 71,
  MemberDecorate: 72,
  CompositeConstruct: 80,
  CompositeExtract: 81,
  ConvertFToS: 110,
  ConvertSToF: 111,
  ConvertUToF: 112,
  UConvert: 113,
  SConvert: 114,
  FConvert: 115,
  ConvertUToPtr: 120,
  Bitcast: 124,
  SNegate: 126,
  FNegate: 127,
  IAdd: 128,
  FAdd: 129,
  ISub: 130,
  FSub: 131,
  IMul: 132,
  FMul: 133,
  UDiv: 134,
  FDiv: 136,
  UMod: 137,
  UMulExtended: 151,
  LogicalNotEqual: 165,
  LogicalOr: 166,
  LogicalAnd: 167,
  LogicalNot: 168,
  Select: 169,
  IEqual: 170,
  INotEqual: 171,
  ULessThan: 176,
  SLessThan: 177,
  ULessThanEqual: 178,
  SLessThanEqual: 179,
  FOrdEqual: 180,
  FOrdNotEqual: 182,
  FUnordNotEqual: 183,
  FOrdLessThan: 184,
  FOrdLessThanEqual: 188,
  ShiftRightLogical: 194,
  ShiftRightArithmetic: 195,
  ShiftLeftLogical: 196,
  BitwiseOr: 197,
  BitwiseXor: 198,
  BitwiseAnd: 199,
  BitFieldSExtract: 202,
  ControlBarrier: 224,
  AtomicIAdd: 234,
  Phi: 245,
  LoopMerge: 246,
  SelectionMerge: 247,
  Label: 248,
  Branch: 249,
  BranchConditional: 250,
  Return: 253,
  ReturnValue: 254,
  GroupNonUniformIAdd: 349,
  SDot: 4450,
  TypeCooperativeMatrix: 4456,
  CooperativeMatrixLoad: 4457,
  CooperativeMatrixMulAdd: 4459,
} as const

const MAGIC = 0x07230203
/** The newest that Vulkan 1.2 takes: addresses of buffers, bytes in them and the modes of floats are a part of it. */
const VERSION = 0x00010500

const sections = [
  "capabilities",
  "extensions",
  "imports",
  "model",
  "entries",
  "modes",
  "decorations",
  "declarations",
  "functions",
] as const

export class SpirvModule {
  readonly #sections = Object.fromEntries(
    sections.map((section) => [section, [] as number[]]),
  ) as Record<(typeof sections)[number], number[]>
  readonly #required = new Set<string>()
  readonly #once = new Map<string, SpirvId>()
  #bound = 1

  id(): SpirvId {
    return this.#bound++
  }

  add(section: (typeof sections)[number], opcode: number, ...words: readonly number[]): void {
    this.#sections[section].push(...instruction(opcode, words))
  }

  /** Instructions that have been made elsewhere. */
  append(section: (typeof sections)[number], words: readonly number[]): void {
    for (const word of words) this.#sections[section].push(word)
  }

  /** What the module asks for, by an instruction that is written once. */
  require(opcode: typeof op.Capability | typeof op.Extension, ...words: readonly number[]): void {
    const key = `${opcode} ${words.join(" ")}`
    if (this.#required.has(key)) return
    this.#required.add(key)
    this.add(opcode === op.Capability ? "capabilities" : "extensions", opcode, ...words)
  }

  /** What `declare` declares, at the first time that `key` is asked for. */
  once(key: string, declare: () => SpirvId): SpirvId {
    const known = this.#once.get(key)
    if (known !== undefined) return known
    const made = declare()
    this.#once.set(key, made)
    return made
  }

  /** A type; `key` tells apart those that are alike but for their decorations. */
  type(opcode: number, words: readonly number[], key = ""): SpirvId {
    return this.once(`${opcode} ${words.join(" ")} ${key}`, () => {
      const id = this.id()
      this.add("declarations", opcode, id, ...words)
      return id
    })
  }

  /** @param bits its words, the lowest first */
  constant(type: SpirvId, ...bits: readonly number[]): SpirvId {
    return this.once(`constant ${type} ${bits.join(" ")}`, () => {
      const id = this.id()
      this.add("declarations", op.Constant, type, id, ...bits)
      return id
    })
  }

  /** Zeros of a type. */
  null(type: SpirvId): SpirvId {
    return this.once(`null ${type}`, () => {
      const id = this.id()
      this.add("declarations", op.ConstantNull, type, id)
      return id
    })
  }

  pointer(storage: number, to: SpirvId): SpirvId {
    return this.type(op.TypePointer, [storage, to])
  }

  /** A variable of the module, of a pointer's type. */
  variable(pointer: SpirvId, storage: number): SpirvId {
    const id = this.id()
    this.add("declarations", op.Variable, pointer, id, storage)
    return id
  }

  decorate(id: SpirvId, ...words: readonly number[]): void {
    this.add("decorations", op.Decorate, id, ...words)
  }

  decorateMember(id: SpirvId, member: number, ...words: readonly number[]): void {
    this.add("decorations", op.MemberDecorate, id, member, ...words)
  }

  bytes(): Uint8Array {
    const header = [MAGIC, VERSION, 0, this.#bound, 0]
    const parts = [header, ...sections.map((section) => this.#sections[section])]
    const words = new Uint32Array(parts.reduce((length, part) => length + part.length, 0))
    let at = 0
    for (const part of parts) {
      words.set(part, at)
      at += part.length
    }
    return new Uint8Array(words.buffer)
  }
}

/** What a function of a module does: blocks of instructions. At the head of the first are its variables, and what all may use. */
export class SpirvFunction {
  readonly #module: SpirvModule
  readonly #variables: number[] = []
  readonly #head: number[] = []
  readonly #body: number[] = []
  readonly #first: SpirvId
  /** The label of the block that is being written. */
  block: SpirvId

  constructor(module: SpirvModule) {
    this.#module = module
    this.#first = module.id()
    this.block = this.#first
  }

  do(opcode: number, ...words: readonly number[]): void {
    this.#body.push(...instruction(opcode, words))
  }

  /** An instruction with a result. */
  give(opcode: number, type: SpirvId, ...words: readonly number[]): SpirvId {
    const id = this.#module.id()
    this.do(opcode, type, id, ...words)
    return id
  }

  /** The same at the head of the first block, whichever is being written. */
  giveFirst(opcode: number, type: SpirvId, ...words: readonly number[]): SpirvId {
    const id = this.#module.id()
    this.#head.push(...instruction(opcode, [type, id, ...words]))
    return id
  }

  variable(pointer: SpirvId, storage: number): SpirvId {
    const id = this.#module.id()
    this.#variables.push(...instruction(op.Variable, [pointer, id, storage]))
    return id
  }

  /** From here on, instructions belong to this block. */
  begin(label: SpirvId): void {
    this.do(op.Label, label)
    this.block = label
  }

  /** @param type of the function; `result` is what it returns */
  finish(
    id: SpirvId,
    type: SpirvId,
    result: SpirvId,
    parameters: readonly { id: SpirvId; type: SpirvId }[] = [],
  ): void {
    const module = this.#module
    module.add("functions", op.Function, result, id, 0, type)
    for (const parameter of parameters)
      module.add("functions", op.FunctionParameter, parameter.type, parameter.id)
    module.add("functions", op.Label, this.#first)
    module.append("functions", this.#variables)
    module.append("functions", this.#head)
    module.append("functions", this.#body)
    module.add("functions", op.FunctionEnd)
  }
}

function instruction(opcode: number, words: readonly number[]): number[] {
  return [((words.length + 1) << 16) | opcode, ...words]
}

/** Bytes of UTF-8 and at least one zero, the first in the lowest byte of the first word. */
export function wordsOfText(text: string): number[] {
  const bytes = new TextEncoder().encode(text)
  const words = new Uint32Array(Math.floor(bytes.length / 4) + 1)
  new Uint8Array(words.buffer).set(bytes)
  return [...words]
}
