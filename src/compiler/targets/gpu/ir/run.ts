// The slow twin of every device: runs a kernel here, and refuses what a device would do silently. All lanes of a group take a
// statement together before the next one begins, those of a branch while the others wait; so a barrier is only a new interval
// of time, and lanes that would have to be at different statements to meet there are seen at once. Nothing of a sound kernel
// depends on that: what one lane does between two barriers, no other may notice (memory.ts).
//
// A kernel is compiled once, to closures over columns of numbers (lanes.ts), and kept as long as the kernel itself.

import { halfValues, narrow } from "../../../../runtime/dtype.ts"
import {
  type Expression,
  elementBytes,
  type Id,
  type Kernel,
  loaded,
  MATRIX_THREADS,
  type Memory as MemoryName,
  type Side,
  type Statement,
  TILE,
  type Type,
} from "./ir.ts"
import {
  binaries,
  type Column,
  copyColumn,
  dotLanes,
  fmaLanes,
  type Lanes,
  laneOutside,
  lookUpLanes,
  multiplyTiles,
  newColumn,
  sameBits,
  selectLanes,
  unaries,
} from "./lanes.ts"
import {
  addLanes,
  type Bound,
  type Clock,
  checkRead,
  checkWrite,
  loadLanes,
  Memory,
  type Refuse,
  storeLanes,
  tick,
} from "./memory.ts"
import { statementName } from "./names.ts"

export { Memory } from "./memory.ts"

export interface RunOptions {
  /** Threads of a subgroup. */
  subgroup?: number
  /** In which threads come, and groups; a sound kernel does the same in each. */
  order?: Order
}

export type Order = "forward" | "backward" | "shuffled"

/**
 * @param operands memory and words in the order of the kernel's own; a word has 32 bits whatever its type
 * @throws Error naming kernel, statement and lane where something is refused
 */
export function runKernel(
  kernel: Kernel,
  operands: readonly (Memory | number)[],
  groups: readonly [number, number, number],
  { subgroup = 32, order = "forward" }: RunOptions = {},
): void {
  let compiled = compiledKernels.get(kernel)
  if (!compiled) {
    compiled = new CompiledKernel(kernel)
    compiledKernels.set(kernel, compiled)
  }
  compiled.run(operands, groups, subgroup, order)
}

const compiledKernels = new WeakMap<Kernel, CompiledKernel>()

type Step = (active: Lanes) => void

/** A column, and what fills it where that takes doing. */
interface Source {
  column: Column
  fill?: Step
}

class CompiledKernel {
  readonly #kernel: Kernel
  readonly #body: Step
  readonly #lane: Column
  readonly #team: Column
  readonly #words: readonly (Column | undefined)[]
  readonly #group: readonly Column[]
  readonly #groups: readonly Column[]
  /** Of ids, what they hold. */
  readonly #columns: Column[] = []
  /** Intermediate results by type; each statement begins with the first again. */
  readonly #spare: Record<Type, Column[]> = { f32: [], i32: [], u32: [], bool: [] }
  readonly #taken: Record<Type, number> = { f32: 0, i32: 0, u32: 0, bool: 0 }
  readonly #clock: Clock = { launch: 0, group: 0, interval: 0 }
  readonly #sharedClock: Clock
  /** Of buffer operands, what they are in this launch. */
  #buffers: (Bound | undefined)[] = []
  readonly #shared: ReadonlyMap<Id, Bound>
  #statements = 0
  #subgroup = 1
  #order: Order = "forward"
  /** Which group this is, for whoever reads an error. */
  #where = "any group"

  constructor(kernel: Kernel) {
    this.#kernel = kernel
    this.#lane = this.#newColumn("u32").map((_, lane) => lane)
    this.#team = this.#lane.map((lane) => Math.floor(lane / MATRIX_THREADS))
    this.#words = kernel.operands.map((operand) =>
      operand.kind === "word" ? this.#newColumn(operand.type) : undefined,
    )
    this.#group = [0, 1, 2].map(() => this.#newColumn("u32"))
    this.#groups = [0, 1, 2].map(() => this.#newColumn("u32"))
    // To a shared array a group is what a launch is to a buffer: before it there was nothing.
    const clock = { ...this.#clock }
    const shared = kernel.shared.map(({ id, name, element, length }): [Id, Bound] => {
      const { storage } = new Memory(length * elementBytes[element])
      return [
        id,
        {
          name,
          element,
          storage,
          from: 0,
          length,
          cells: storage.cells(elementBytes[element]),
          isSettled: false,
          clock,
        },
      ]
    })
    this.#shared = new Map(shared)
    this.#sharedClock = clock
    this.#body = this.#block(kernel.body)
  }

  run(
    operands: readonly (Memory | number)[],
    groups: readonly [number, number, number],
    subgroup: number,
    order: Order,
  ): void {
    this.#bind(operands)
    this.#subgroup = subgroup
    this.#order = order
    groups.forEach((count, axis) => void this.#groups[axis]!.fill(count))
    this.#clock.launch = tick()
    const list = ordered(this.#kernel.threads, order)
    for (const number of ordered(groups[0] * groups[1] * groups[2], order)) {
      const x = number % groups[0]
      const y = Math.floor(number / groups[0]) % groups[1]
      const z = Math.floor(number / (groups[0] * groups[1]))
      ;[x, y, z].forEach((at, axis) => void this.#group[axis]!.fill(at))
      this.#where = `group ${x} ${y} ${z}`
      this.#clock.group = tick()
      this.#sharedClock.launch = this.#clock.group
      this.#sharedClock.group = this.#clock.group
      this.#barrier()
      for (const { storage } of this.#shared.values()) storage.written.fill(0)
      this.#body({ list, count: list.length })
    }
  }

  #bind(operands: readonly (Memory | number)[]): void {
    const wanted = this.#kernel.operands
    if (operands.length !== wanted.length)
      throw this.#error(`it takes ${wanted.length} operands, not ${operands.length}`)
    this.#buffers = wanted.map((operand, i) => {
      const given = operands[i]!
      if (operand.kind === "word") {
        if (typeof given !== "number") throw this.#error(`${operand.name} is a word`)
        sameBits(this.#words[i]!, "u32").fill(given)
        return undefined
      }
      if (typeof given === "number") throw this.#error(`${operand.name} is a buffer`)
      const { name, element, access } = operand
      const { storage, from, bytes } = given
      if (from % 4 !== 0) throw this.#error(`${name} begins at ${from}, no multiple of 4 bytes`)
      const length = Math.floor(bytes / elementBytes[element])
      const isSettled = access === "read"
      return {
        name,
        element,
        storage,
        from,
        length,
        cells: undefined,
        isSettled,
        clock: this.#clock,
      }
    })
    for (const bound of this.#buffers) {
      // Operands may be the same memory. Nobody can collide in it where none of them is written.
      const same = this.#buffers.filter((other) => other && other.storage === bound?.storage)
      const isWritten = same.some((other) => !other!.isSettled)
      const unit = Math.min(...same.map((other) => elementBytes[other!.element]))
      if (bound && isWritten) bound.cells = bound.storage.cells(unit)
    }
  }

  #barrier(): void {
    this.#clock.interval = tick()
    this.#sharedClock.interval = this.#clock.interval
  }

  #error(problem: string): Error {
    return new Error(`internal: kernel ${this.#kernel.name}: ${problem}`)
  }

  #newColumn(type: Type): Column {
    return newColumn(type, this.#kernel.threads)
  }

  #newLanes(): Lanes {
    return { list: new Int32Array(this.#kernel.threads), count: 0 }
  }

  // ---- statements

  #block(statements: readonly Statement[]): Step {
    const steps = statements.map((statement) => this.#statement(statement))
    return (active) => {
      for (const step of steps) step(active)
    }
  }

  #statement(statement: Statement): Step {
    const refuse = this.#refusal(statement)
    this.#taken.f32 = this.#taken.i32 = this.#taken.u32 = this.#taken.bool = 0
    switch (statement.kind) {
      case "let":
      case "variable":
        return this.#into(this.#define(statement.id, statement.value.type), statement.value, refuse)
      case "assign":
        return this.#into(this.#columns[statement.id]!, statement.value, refuse)
      case "load": {
        const { element, bound } = this.#memory(statement.memory, "write", refuse)
        const out = this.#define(statement.id, loaded[element])
        const index = this.#source(statement.index, refuse)
        const move = loadLanes[element]
        return (active) => {
          index.fill?.(active)
          checkRead(bound(), index.column, 1, active, refuse)
          move(out, bound(), index.column, 1, 0, active)
        }
      }
      case "loadNear": {
        const { element, bound } = this.#memory(statement.memory, "write", refuse)
        const { length: width } = statement.ids
        if (width === 8 ? element !== "f16" : elementBytes[element] !== 4)
          refuse(0, `${width} elements of ${element} are none that are read at once`)
        const outs = statement.ids.map((id) => this.#define(id, loaded[element]))
        const index = this.#source(statement.index, refuse)
        const move = loadLanes[element]
        return (active) => {
          index.fill?.(active)
          checkRead(bound(), index.column, width, active, refuse)
          for (const [part, out] of outs.entries())
            move(out, bound(), index.column, width, part, active)
        }
      }
      case "store": {
        const { bound, element } = this.#memory(statement.memory, "read", refuse)
        const index = this.#source(statement.index, refuse)
        const value = this.#source(statement.value, refuse)
        const mustFit = element === "f16" && statement.memory.kind === "shared"
        return (active) => {
          index.fill?.(active)
          value.fill?.(active)
          if (mustFit) checkHalves(value.column, active, refuse)
          checkWrite(bound(), index.column, active, refuse)
          storeLanes(bound(), index.column, value.column, active)
        }
      }
      case "atomicAdd": {
        const { bound, element } = this.#memory(statement.memory, "read", refuse)
        if (statement.memory.kind !== "shared" || element === "f32")
          refuse(0, "atomics are for shared arrays of whole numbers")
        const index = this.#source(statement.index, refuse)
        const value = this.#source(statement.value, refuse)
        return (active) => {
          index.fill?.(active)
          value.fill?.(active)
          addLanes(bound(), index.column, value.column, active, refuse)
        }
      }
      case "for":
        return this.#loop(statement, refuse)
      case "if":
        return this.#branch(statement, refuse)
      case "later":
      case "earlier": // kernels run one after the other here
        return () => {}
      case "barrier":
        return (active) => {
          if (active.count < this.#kernel.threads)
            refuse(absent(active, this.#kernel.threads), "it does not come to this barrier")
          this.#barrier()
        }
      case "subgroupSum":
        return this.#subgroupSum(statement, refuse)
      case "matrixDot":
        return this.#matrixDot(statement, refuse)
      case "tileDot":
        return this.#tileDot(statement, refuse)
      case "tileElements":
        return this.#tileElements(statement, refuse)
    }
  }

  #loop(statement: Statement & { kind: "for" }, refuse: Refuse): Step {
    const index = this.#define(statement.id, "u32")
    const [to, step] = [this.#newColumn("u32"), this.#newColumn("u32")]
    const begin = [
      this.#into(index, statement.from, refuse),
      this.#into(to, statement.to, refuse),
      this.#into(step, statement.step, refuse),
    ]
    const left = this.#newLanes()
    const body = this.#block(statement.body)
    return (active) => {
      for (const column of begin) column(active)
      const standing = laneOutside(step, 1, 2 ** 32, active)
      if (standing !== undefined) refuse(standing, "the step is 0")
      left.count = 0
      for (let k = 0; k < active.count; k++) left.list[left.count++] = active.list[k]!
      for (;;) {
        keep(left, (lane) => index[lane]! < to[lane]!)
        if (left.count === 0) return
        body(left)
        for (let k = 0; k < left.count; k++) {
          const lane = left.list[k]!
          const next = index[lane]! + step[lane]!
          if (next >= 2 ** 32) refuse(lane, "its index grows beyond 32 bits")
          index[lane] = next
        }
      }
    }
  }

  #branch(statement: Statement & { kind: "if" }, refuse: Refuse): Step {
    const condition = this.#source(statement.condition, refuse)
    const [yes, no] = [this.#block(statement.yes), this.#block(statement.no)]
    const [those, others] = [this.#newLanes(), this.#newLanes()]
    return (active) => {
      condition.fill?.(active)
      those.count = others.count = 0
      for (let k = 0; k < active.count; k++) {
        const lane = active.list[k]!
        const side = condition.column[lane] === 1 ? those : others
        side.list[side.count++] = lane
      }
      if (those.count > 0) yes(those)
      if (others.count > 0) no(others)
    }
  }

  #subgroupSum(statement: Statement & { kind: "subgroupSum" }, refuse: Refuse): Step {
    const out = this.#define(statement.id, statement.value.type)
    const value = this.#source(statement.value, refuse)
    const { threads } = this.#kernel
    return (active) => {
      value.fill?.(active)
      const comes = new Uint8Array(threads)
      for (let k = 0; k < active.count; k++) comes[active.list[k]!] = 1
      for (let from = 0; from < threads; from += this.#subgroup) {
        const to = Math.min(from + this.#subgroup, threads)
        const those = comes.subarray(from, to)
        if (!those.includes(1)) continue
        if (those.includes(0)) refuse(from + those.indexOf(0), "its subgroup sums without it")
        let sum = 0
        for (let lane = from; lane < to; lane++) sum = (sum + value.column[lane]!) | 0
        out.fill(sum, from, to)
      }
    }
  }

  #matrixDot({ ids, ...given }: Statement & { kind: "matrixDot" }, refuse: Refuse): Step {
    const sources = (words: readonly Expression[]) =>
      words.map((word) => this.#source(word, refuse))
    const [a, b, c] = [sources(given.a), sources(given.b), sources(given.c)]
    const outs = ids.map((id) => this.#define(id, "i32"))
    return (active) => {
      for (const { fill } of [...a, ...b, ...c]) fill?.(active)
      const { threads } = this.#kernel
      if (this.#subgroup !== MATRIX_THREADS) refuse(0, `it has a subgroup of ${this.#subgroup}`)
      if (active.count < threads)
        refuse(absent(active, threads), "its subgroup multiplies tiles without it")
      const columns = (sources: readonly Source[]) => sources.map(({ column }) => column)
      for (let from = 0; from < threads; from += MATRIX_THREADS)
        multiplyTiles(outs, columns(a), columns(b), columns(c), from)
    }
  }

  /**
   * Which lanes read a tile is nobody's to know: each number is read by two, so that a race shows whoever it is with.
   */
  #tileDot({ ids, a, b, depth }: Statement & { kind: "tileDot" }, refuse: Refuse): Step {
    const [left, right] = [a, b].map((side) => this.#tile(side, depth, refuse)) as [Tile, Tile]
    const outs = ids.map((id) => this.#define(id, "i32"))
    return (active) => {
      this.#wholeTeams(active, refuse)
      for (const { from } of [left, right]) from.fill?.(active)
      for (let first = 0; first < this.#kernel.threads; first += MATRIX_THREADS) {
        const [rows, columns] = [left.read(first), right.read(first)]
        this.#eachElement(first, (lane, i, row, column) => {
          let [sum, size] = [0, 0]
          for (let k = 0; k < depth; k++) {
            const product = rows[row * depth + k]! * columns[column * depth + k]!
            sum += product
            size += Math.abs(product)
          }
          // Bytes are summed in whole numbers, and never that many of them.
          if (size >= 2 ** 24 || !Number.isInteger(sum))
            refuse(lane, `a sum of ${size} is not exact in floats`)
          outs[i]![lane] = sum
        })
      }
    }
  }

  /** What reads a tile for a team, row by row: numbers, `depth` of each. */
  #tile({ memory, from, stride }: Side, depth: number, refuse: Refuse): Tile {
    const { element, bound } = this.#memory(memory, "write", refuse)
    const source = this.#source(from, refuse)
    const perElement = element === "u32" ? 4 : 1
    const width = depth / perElement
    const [index, value] = [this.#newColumn("u32"), this.#newColumn(loaded[element])]
    const move = loadLanes[element]
    const read = (first: number) => {
      const two: Lanes = { list: Int32Array.of(first, first + 1), count: 2 }
      const numbers = new Float64Array(TILE * depth)
      const begin = source.column[first]!
      for (let lane = first; lane < first + MATRIX_THREADS; lane++)
        if (source.column[lane] !== begin) refuse(lane, "its tile begins elsewhere than its team's")
      if ((begin * elementBytes[element]) % 16 !== 0)
        refuse(first, `element ${begin} does not lie on a multiple of 16 bytes`)
      for (let n = 0; n < TILE * width; n++) {
        const [row, at] = [Math.floor(n / width), n % width]
        index[first] = index[first + 1] = begin + row * stride + at
        checkRead(bound(), index, 1, two, refuse)
        move(value, bound(), index, 1, 0, two)
        for (let i = 0; i < perElement; i++) {
          const word = value[first]!
          numbers[row * depth + at * perElement + i] =
            perElement === 1 ? word : (word << (24 - 8 * i)) >> 24
        }
      }
      return numbers
    }
    return { from: source, read }
  }

  #tileElements({ ids, memory }: Statement & { kind: "tileElements" }, refuse: Refuse): Step {
    const { element, bound } = this.#memory(memory, "write", refuse)
    const outs = ids.map((id) => this.#define(id, loaded[element]))
    const index = this.#newColumn("u32")
    const move = loadLanes[element]
    return (active) => {
      this.#wholeTeams(active, refuse)
      for (let first = 0; first < this.#kernel.threads; first += MATRIX_THREADS)
        this.#eachElement(first, (lane, i, row, column) => {
          const other = first + ((lane + 1) % MATRIX_THREADS)
          index[lane] = index[other] = row * TILE + column
          checkRead(bound(), index, 1, { list: Int32Array.of(lane, other), count: 2 }, refuse)
          move(outs[i]!, bound(), index, 1, 0, { list: Int32Array.of(lane), count: 1 })
        })
    }
  }

  /** Which eight elements each lane of a team has: in another order of threads it has others. */
  #eachElement(
    first: number,
    visit: (lane: number, i: number, row: number, column: number) => void,
  ): void {
    const all = TILE ** 2
    for (let i = 0; i < all; i++) {
      const place =
        this.#order === "forward"
          ? i
          : this.#order === "backward"
            ? all - 1 - i
            : (i * 97 + 31) % all
      visit(
        first + (i % MATRIX_THREADS),
        Math.floor(i / MATRIX_THREADS),
        Math.floor(place / TILE),
        place % TILE,
      )
    }
  }

  #wholeTeams(active: Lanes, refuse: Refuse): void {
    const { threads } = this.#kernel
    if (active.count < threads)
      refuse(absent(active, threads), "its team multiplies tiles without it")
  }

  /** What refuses a lane at a statement. */
  #refusal(statement: Statement): Refuse {
    const number = this.#statements++
    return (lane, problem) => {
      const at = statementName(this.#kernel, statement, number)
      throw this.#error(`${at}, lane ${lane} of ${this.#where}: ${problem}`)
    }
  }

  #memory(memory: MemoryName, forbidden: "read" | "write", refuse: Refuse) {
    if (memory.kind === "shared") {
      const bound = this.#shared.get(memory.id)!
      return { element: bound.element, bound: () => bound }
    }
    const operand = this.#kernel.operands[memory.operand]!
    if (operand.kind === "word") return refuse(0, `${operand.name} is a word`)
    if (operand.access === forbidden)
      return refuse(0, `${operand.name} may only be ${forbidden === "read" ? "read" : "written"}`)
    return { element: operand.element, bound: () => this.#buffers[memory.operand]! }
  }

  #define(id: Id, type: Type): Column {
    const column = this.#newColumn(type)
    this.#columns[id] = column
    return column
  }

  // ---- expressions

  /** Computes an expression into a column that something keeps. */
  #into(out: Column, expression: Expression, refuse: Refuse): Step {
    const { column, fill } = this.#source(expression, refuse, out)
    if (column === out && fill) return fill
    return (active) => {
      fill?.(active)
      copyColumn(out, column, active)
    }
  }

  #spareColumn(type: Type): Column {
    const at = this.#taken[type]++
    this.#spare[type][at] ??= this.#newColumn(type)
    return this.#spare[type][at]
  }

  /** @param into where an operation's result goes, else a spare column; each lane reads its operands first, so they may overlap */
  #source(expression: Expression, refuse: Refuse, into?: Column): Source {
    switch (expression.kind) {
      case "constant":
        return { column: this.#newColumn(expression.type).fill(expression.value) }
      case "value":
      case "variable": {
        const column = this.#columns[expression.id]
        if (!column) return refuse(0, `value ${expression.id} is defined nowhere before`)
        return { column }
      }
      case "operand":
        return { column: this.#words[expression.operand]! }
      case "lane":
        return { column: this.#lane }
      case "team":
        return { column: this.#team }
      case "group":
        return { column: this.#group[expression.axis]! }
      case "groups":
        return { column: this.#groups[expression.axis]! }
      case "binary":
        return this.#binary(expression, refuse, into)
      case "unary":
        return this.#unary(expression, refuse, into)
      case "select": {
        const [condition, yes, no] = this.#sources(
          [expression.condition, expression.yes, expression.no],
          refuse,
        )
        const out = into ?? this.#spareColumn(expression.type)
        const fill: Step = (active) => {
          for (const source of [condition, yes, no]) source!.fill?.(active)
          selectLanes(out, condition!.column, yes!.column, no!.column, active)
        }
        return { column: out, fill }
      }
      case "fma":
      case "dot4": {
        const [a, b, c] = this.#sources([expression.a, expression.b, expression.c], refuse)
        const out = into ?? this.#spareColumn(expression.type)
        const compute = expression.kind === "fma" ? fmaLanes : dotLanes
        const fill: Step = (active) => {
          for (const source of [a, b, c]) source!.fill?.(active)
          compute(out, a!.column, b!.column, c!.column, active)
        }
        return { column: out, fill }
      }
      case "lookUp": {
        const [a] = this.#sources([expression.a], refuse)
        const out = into ?? this.#spareColumn(expression.type)
        const fill: Step = (active) => {
          a!.fill?.(active)
          lookUpLanes(out, a!.column, expression, active)
        }
        return { column: out, fill }
      }
    }
  }

  #sources(expressions: readonly Expression[], refuse: Refuse): Source[] {
    return expressions.map((expression) => this.#source(expression, refuse))
  }

  #binary(
    { name, type, ...sides }: Expression & { kind: "binary" },
    refuse: Refuse,
    into?: Column,
  ) {
    const [a, b] = this.#sources([sides.a, sides.b], refuse) as [Source, Source]
    const operation = binaries[sides.a.type][name]
    if (!operation) return refuse(0, `there is no ${name} of ${sides.a.type}`)
    const isWhole = sides.a.type !== "f32"
    const isShift = name === "shl" || name === "shr"
    const isDivision = isWhole && (name === "div" || name === "rem")
    const out = into ?? this.#spareColumn(type)
    const fill: Step = (active) => {
      a.fill?.(active)
      b.fill?.(active)
      if (isShift) {
        const lane = laneOutside(b.column, 0, 32, active)
        if (lane !== undefined) refuse(lane, `${name} by ${b.column[lane]}`)
      }
      if (isDivision) {
        const lane = laneOutside(b.column, 1, 2 ** 32, active)
        if (lane !== undefined) refuse(lane, `${name} by zero`)
      }
      operation(out, a.column, b.column, active)
    }
    return { column: out, fill }
  }

  #unary({ name, type, a }: Expression & { kind: "unary" }, refuse: Refuse, into?: Column): Source {
    const source = this.#source(a, refuse)
    if (name === "i32" || name === "u32" || name === "f32")
      return { ...source, column: sameBits(source.column, name) }
    const operation = unaries[a.type][name]
    if (!operation) return refuse(0, `there is no ${name} of ${a.type}`)
    const out = into ?? this.#spareColumn(type)
    const fill: Step = (active) => {
      source.fill?.(active)
      if (name === "whole") {
        const lane = laneOutside(source.column, -(2 ** 31), 2 ** 31, active)
        if (lane !== undefined) refuse(lane, `${source.column[lane]} does not fit an i32`)
      }
      operation(out, source.column, active)
    }
    return { column: out, fill }
  }
}

function checkHalves(column: Column, { list, count }: Lanes, refuse: Refuse): void {
  const numbers = Float32Array.from({ length: count }, (_, k) => column[list[k]!]!)
  const halves = new Uint16Array(narrow(numbers, "f16").buffer)
  const values = halfValues()
  for (let k = 0; k < count; k++)
    if (!Object.is(values[halves[k]!]!, numbers[k]!))
      refuse(list[k]!, `${numbers[k]} is no half, and not every device rounds it`)
}

/** A tile of a product: where it begins, and what reads it for the team of a lane. */
interface Tile {
  from: Source
  read: (first: number) => Float64Array
}

/** Lets those go on for whom something holds. */
function keep(lanes: Lanes, holds: (lane: number) => boolean): void {
  let kept = 0
  for (let k = 0; k < lanes.count; k++) {
    const lane = lanes.list[k]!
    if (holds(lane)) lanes.list[kept++] = lane
  }
  lanes.count = kept
}

/** The first lane that is not there. */
function absent({ list, count }: Lanes, threads: number): number {
  const there = new Set(list.subarray(0, count))
  return Array.from({ length: threads }, (_, lane) => lane).find((lane) => !there.has(lane))!
}

/** 0 … count - 1 in some order; shuffled alike every time. */
function ordered(count: number, order: Order): Int32Array {
  const list = Int32Array.from({ length: count }, (_, i) => i)
  if (order === "backward") return list.reverse()
  if (order === "forward") return list
  let state = count
  for (let i = count - 1; i > 0; i--) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0 // Numerical Recipes' generator
    const other = Math.floor((state / 2 ** 32) * (i + 1))
    const held = list[i]!
    list[i] = list[other]!
    list[other] = held
  }
  return list
}
