// The kernel language, as data. A kernel is what one group of threads does; printers (../print) spell it in a device's words,
// run.ts runs it here, and builder.ts is how kernels are written down. There are no functions and no pointers: what would be
// a function is a TypeScript function that writes its statements where it is called, and memory is reached by the index of
// an element in a named buffer.
//
// Every operation on floats is rounded by itself, to nearest, and is never fused but by `fma`; NaN and infinities stay what
// they are. Whole numbers wrap. What a device computes otherwise, its printer must spell in a way that is right.

/** What a value is. A bool is never stored. */
export type Type = "f32" | "i32" | "u32" | "bool"

/**
 * What an element of a buffer is. A load widens it and a store rounds it (floats: to nearest, halves to even), or cuts it. Shared
 * arrays of halves take only what one holds: not every language rounds there.
 */
export type Element = "f32" | "i32" | "u32" | "f16" | "u16" | "i8" | "u8"

/** What a load of an element gives, and what a store of one takes. */
export const loaded = {
  f32: "f32",
  i32: "i32",
  u32: "u32",
  f16: "f32",
  u16: "u32",
  i8: "i32",
  u8: "u32",
} as const satisfies Record<Element, Type>

export const elementBytes = {
  f32: 4,
  i32: 4,
  u32: 4,
  f16: 2,
  u16: 2,
  i8: 1,
  u8: 1,
} as const satisfies Record<Element, number>

/** The first of four bits of a byte. */
export type Nibble = 0 | 4

/** A number that a statement defines, and what later ones call it. Unique within a kernel. */
export type Id = number

export type Expression =
  | { kind: "constant"; type: Exclude<Type, "bool">; value: number }
  /** What a `let`, a load or a loop has defined. */
  | { kind: "value"; type: Type; id: Id }
  /** What a variable holds now. */
  | { kind: "variable"; type: Type; id: Id }
  /** A word that the dispatch brings. */
  | { kind: "operand"; type: Exclude<Type, "bool">; operand: number }
  /** The number of this thread in its group, always a u32. */
  | { kind: "lane"; type: "u32" }
  /** The number of this thread's team: so many threads multiply tiles together, and which they are is the device's to choose. */
  | { kind: "team"; type: "u32" }
  /** The number of this group along one of three axes, and how many there are. */
  | { kind: "group" | "groups"; type: "u32"; axis: 0 | 1 | 2 }
  | { kind: "binary"; type: Type; name: Binary; a: Expression; b: Expression }
  | { kind: "unary"; type: Type; name: Unary; a: Expression }
  | { kind: "select"; type: Type; condition: Expression; yes: Expression; no: Expression }
  /** a * b + c, rounded once. */
  | { kind: "fma"; type: "f32"; a: Expression; b: Expression; c: Expression }
  /** c + the products of the four signed bytes of two words: of `a` and `b`, both u32. Wraps. */
  | { kind: "dot4"; type: "i32"; a: Expression; b: Expression; c: Expression }
  /** Four bytes of a table of sixteen, whose words are here: each is the one that four bits of a byte of `a`, a u32, say. */
  | { kind: "lookUp"; type: "u32"; a: Expression; from: Nibble; table: Four<number> }

export type LookUp = Extract<Expression, { kind: "lookUp" }>

/**
 * Both sides are of one type, and so is the result, but for comparisons, which give a bool.
 *   add sub mul                     of numbers
 *   div                             of floats, correctly rounded; of u32 without a rest. Never by zero where it is whole.
 *   rem                             of u32
 *   min max                         of whole numbers; floats choose by `select`, which says what becomes of NaN
 *   and or xor                      of whole numbers and bools
 *   shl shr                         of whole numbers, by less than 32: shr fills with zeros, or with the sign of an i32
 *   eq ne lt le                     of numbers; with a NaN all but `ne` are false
 *   mulHigh                         of u32: the upper word of the product
 */
export type Binary =
  | "add"
  | "sub"
  | "mul"
  | "div"
  | "rem"
  | "min"
  | "max"
  | "and"
  | "or"
  | "xor"
  | "shl"
  | "shr"
  | "eq"
  | "ne"
  | "lt"
  | "le"
  | "mulHigh"

/**
 *   neg abs sqrt                    of floats; sqrt is correctly rounded. `neg` also of i32.
 *   not                             of bools
 *   float                           of a whole number: the nearest float
 *   whole                           of a float to an i32, towards zero; it must fit
 *   i32 u32 f32                     the same 32 bits as another type
 */
export type Unary = "neg" | "abs" | "sqrt" | "not" | "float" | "whole" | "i32" | "u32" | "f32"

/** A buffer among the kernel's operands, or a shared array. */
export type Memory = { kind: "buffer"; operand: number } | { kind: "shared"; id: Id }

export type Statement =
  /** Computed once, here. */
  | { kind: "let"; id: Id; value: Expression }
  | { kind: "variable"; id: Id; value: Expression }
  | { kind: "assign"; id: Id; value: Expression }
  | { kind: "load"; id: Id; memory: Memory; index: Expression }
  /**
   * Two or four neighbours of 32 bits, or eight halves, the first at as many times the index: bytes that are aligned. Eights, and
   * what lies in shared arrays, only for CUDA.
   */
  | { kind: "loadNear"; ids: Two<Id> | Four<Id> | Eight<Id>; memory: Memory; index: Expression }
  | { kind: "store"; memory: Memory; index: Expression; value: Expression }
  /** Adds to an element of a shared array of whole numbers, in whatever order threads come; wraps. */
  | { kind: "atomicAdd"; memory: Memory; index: Expression; value: Expression }
  /** `id` is a u32 that begins at `from` and grows by `step`, which is not 0, as long as it is below `to`. */
  | {
      kind: "for"
      id: Id
      from: Expression
      to: Expression
      step: Expression
      body: readonly Statement[]
    }
  | { kind: "if"; condition: Expression; yes: readonly Statement[]; no: readonly Statement[] }
  /**
   * All threads of the group come here before one goes on, and see what the others have written, in shared arrays and in
   * buffers. So it stands in no branch, and only in loops whose bounds are the same for all of them: a loop may have no turns
   * where a branch would not be taken. (A compiler that copies what follows a branch with a barrier gets it wrong.)
   */
  | { kind: "barrier" }
  /**
   * Behind it stands whatever has to do with what kernels before this one leave: a device may begin a kernel before they have
   * ended, and waits for them here. Before it, nothing is written, and only what no kernel of a recording writes is read (weights).
   * It stands under no condition. A kernel that has none waits at its beginning.
   */
  | { kind: "earlier" }
  /** From here on kernels behind this one may begin, to wait for it as above; of one that has none, from its beginning on. */
  | { kind: "later" }
  /** Of whole numbers: the sum, over the threads of the lane's subgroup; all of them come here. */
  | { kind: "subgroupSum"; id: Id; value: Expression }
  /**
   * The 32 threads of a subgroup multiply tiles of signed bytes, [16, 32] and [32, 8], and add the product to one of i32; all of
   * them come here, and each brings and gets pieces of the tiles, which lie as in PTX (`mma.m16n8k32` of its section on
   * integer matrices). Thread 4q + p of them has, all as words of four bytes:
   *   a    columns 4p … 4p + 3 of rows q and q + 8, then 16 more columns on in the same rows
   *   b    rows 4p … 4p + 3 of column q, then those 16 further down
   *   c    columns 2p and 2p + 1 of row q, then of row q + 8: what is added to, and so lies the result
   * Sums wrap.
   */
  | {
      kind: "matrixDot"
      ids: Four<Id>
      a: Four<Expression>
      b: Two<Expression>
      c: Four<Expression>
    }
  /**
   * Each team multiplies two tiles of whole numbers, [16, depth] and [depth, 16], which lie in shared arrays; all of them come
   * here. Each thread gets eight elements of the product, whichever the device likes, but the same ones every time:
   * `tileElements` tells. They are i32, and wrap where the numbers are bytes; halves are whole numbers, of which no sum reaches
   * 2^24 in size, so that floats hold it in whatever order it comes.
   */
  | { kind: "tileDot"; ids: Eight<Id>; a: Side; b: Side; depth: number }
  /** Of a tile [16, 16] that fills a shared array, row by row, the elements that a product would give this thread. */
  | { kind: "tileElements"; ids: Eight<Id>; memory: Memory }

/**
 * A tile in a shared array, of words of four bytes (u32) or of halves (f16). Each row of the first tile of a product, and each
 * column of the second, lies there as `depth` numbers side by side; elements, which are multiples of 16 bytes, count from where it begins to
 * where the next one does.
 */
export interface Side {
  memory: Memory
  /** Of the first element; the same for all threads of a team. */
  from: Expression
  stride: number
}

/**
 * Threads that there is room for at once where each keeps many numbers: 128 registers of an NVIDIA device. A compiler left to
 * itself puts a few of them into memory, to have room for more threads than these kernels gain by.
 */
export const ROOMY = 512

/** Threads that multiply tiles together. */
export const MATRIX_THREADS = 32
/** Rows and columns of a team's product. */
export const TILE = 16
/** Tiles are so many numbers deep, or a multiple of it. */
export const TILE_DEPTHS = { byteTiles: 32, halfTiles: 16 } as const

export type Two<T> = readonly [T, T]
export type Four<T> = readonly [T, T, T, T]
export type Eight<T> = readonly [T, T, T, T, T, T, T, T]

export function isEight<T>(many: readonly T[]): many is Eight<T> {
  return many.length === 8
}

/** What a dispatch hands a kernel. */
export type Operand =
  | { kind: "buffer"; name: string; element: Element; access: Access }
  | { kind: "word"; name: string; type: Exclude<Type, "bool"> }

/** "read": nobody writes it while the kernel runs. */
export type Access = "read" | "write" | "readwrite"

export interface SharedArray {
  id: Id
  name: string
  element: "f32" | "i32" | "u32" | "f16"
  length: number
}

/** What not every device can do, and not every printer has words for. */
export type KernelNeed = "dot4" | "subgroups" | "matrix" | "cuda" | "byteTiles" | "halfTiles"

export interface Kernel {
  name: string
  /** In a group, along one axis. */
  threads: number
  /**
   * How many groups there is to be room for at once, where many run side by side, so how many registers a thread may take at
   * most. Absent: as the compiler likes, which may keep some numbers in memory to have room for more.
   */
  groupsAtOnce?: number
  operands: readonly Operand[]
  shared: readonly SharedArray[]
  body: readonly Statement[]
  /** What a device must be able to do. */
  needs: ReadonlySet<KernelNeed>
  /** What computes the same where it cannot, with as many threads and the same operands. */
  otherwise?: Kernel
  /** How many ids there are: they are the numbers below it. */
  ids: number
  /** Of ids, what kernels' writers call them: for whoever reads a printed kernel. */
  names: ReadonlyMap<Id, string>
}

/** What shared arrays take. */
export function sharedBytes({ shared }: Pick<Kernel, "shared">): number {
  return shared.reduce((bytes, { element, length }) => bytes + elementBytes[element] * length, 0)
}
