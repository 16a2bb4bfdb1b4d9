// Two launches that have nothing to do with each other as one: the first groups of threads along the first axis do the one, the
// others the other. Each computes what it did by itself. Words become literals, and buffers that both read are named once, so that
// operands are few enough; shared arrays of one are those of the other, since no group does both.

import { operandLayout } from "../../../runtime/gpu/device.ts"
import { select, u32, Value } from "./ir/builder.ts"
import type { Expression, Id, Kernel, Operand, Statement } from "./ir/ir.ts"
import { type Binding, type Launch, OPERAND_BYTES } from "./launch.ts"

/** Kernels that have been made of two, by these and by what is literal. */
const known = new WeakMap<Kernel, WeakMap<Kernel, Map<string, Kernel>>>()

/** @returns undefined: they are not alike enough, or have too many operands together */
export function beside(a: Launch, b: Launch): Launch | undefined {
  const [aGroups, bGroups] = [sizeOf(a), sizeOf(b)]
  if (!aGroups || !bGroups || a.kernel.threads !== b.kernel.threads) return undefined
  if (aGroups.rows !== bGroups.rows || !isPlain(a.kernel) || !isPlain(b.kernel)) return undefined
  const list = new OperandList()
  const [ofA, ofB] = [list.of(a), list.of(b)]
  if (operandLayout(list.operands.map(({ kind }) => kind)).bytes > OPERAND_BYTES) return undefined
  const depth = Math.max(aGroups.depth, bGroups.depth)
  const literals = JSON.stringify([aGroups, bGroups, ofA, ofB])
  const ofKernel = getOr(known, a.kernel, () => new WeakMap<Kernel, Map<string, Kernel>>())
  const kernels = getOr(ofKernel, b.kernel, () => new Map<string, Kernel>())
  const made = kernels.get(literals) ?? joined(a.kernel, b.kernel)
  kernels.set(literals, made)
  return {
    kernel: made,
    operands: list.bindings,
    groups: [
      aGroups.width + bGroups.width,
      { rows: aGroups.rows, per: Math.min(aGroups.per, bGroups.per) },
      depth,
    ],
  }

  function joined(first: Kernel, second: Kernel): Kernel {
    const name = `${first.name}_beside_${second.name}`
    const shared = first.shared.map((array) => ({ ...array }))
    const shift = (id: Id) => id + first.ids
    const arrays = new Map<Id, Id>() // of the second, where the first has one of its kind
    for (const array of second.shared) {
      const taken = new Set(arrays.values())
      const same = shared.find(({ id, element }) => element === array.element && !taken.has(id))
      if (same) same.length = Math.max(same.length, array.length)
      else shared.push({ ...array, id: shift(array.id) })
      arrays.set(array.id, same ? same.id : shift(array.id))
    }
    const x: Expression = { kind: "group", type: "u32", axis: 0 }
    const width: Expression = { kind: "constant", type: "u32", value: aGroups!.width }
    const within = { kind: "binary", type: "u32", name: "sub", a: x, b: width } as const
    const bodies = [
      renamed(first.body, { id: (id) => id, operands: ofA, group: x }),
      renamed(second.body, {
        id: (id) => arrays.get(id) ?? shift(id),
        operands: ofB,
        group: within,
      }),
    ]
    const turns = [first.ids + second.ids, first.ids + second.ids + 1]
    const isFirst = new Value(x).lt(aGroups!.width)
    const conditions = [isFirst, isFirst.not()].map((condition, i) => {
      const own = [aGroups, bGroups][i]!.depth
      const z = new Value({ kind: "group", type: "u32", axis: 2 })
      return own === depth ? condition : condition.and(z.lt(own))
    })
    // Barriers stand under no condition: a loop has one turn, or none.
    const body = bodies.map(
      (own, i): Statement => ({
        kind: "for",
        id: turns[i]!,
        from: u32(0).expression,
        to: select(conditions[i]!, u32(1), 0).expression,
        step: u32(1).expression,
        body: own,
      }),
    )
    const names = new Map(first.names)
    for (const [id, own] of second.names) names.set(shift(id), own)
    const rooms = [first.groupsAtOnce, second.groupsAtOnce].filter((room) => room !== undefined)
    return {
      name,
      threads: first.threads,
      ...(rooms.length > 0 && { groupsAtOnce: Math.min(...rooms) }),
      operands: list.operands,
      shared,
      body,
      needs: new Set([...first.needs, ...second.needs]),
      ids: first.ids + second.ids + 2,
      names,
    }
  }
}

/** [width, a row set divided by some, depth] */
function sizeOf({ groups: [width, rows, depth] }: Launch) {
  if (typeof width !== "number" || typeof depth !== "number") return undefined
  if (typeof rows === "number" || !("rows" in rows)) return undefined
  return { width, ...rows, depth }
}

/** It has no other form, and does not ask how many groups there are. */
function isPlain({ otherwise, body }: Kernel): boolean {
  return !otherwise && !JSON.stringify(body).includes('"kind":"groups"')
}

type Literal = { word: number }

/** Operands of several launches. */
class OperandList {
  readonly operands: Operand[] = []
  readonly bindings: Binding[] = []
  readonly #numbers = new Map<string, number>()

  /** Of each operand of a launch, which of the list it is; or its word. */
  of({ kernel, operands }: Launch): (number | Literal)[] {
    return operands.map((binding, i) => {
      const operand = kernel.operands[i]!
      if (operand.kind === "word") {
        if (typeof binding !== "number") throw new Error(`internal: ${operand.name} is no literal`)
        return { word: binding }
      }
      const key = JSON.stringify([binding, operand.element])
      const same = operand.access === "read" ? this.#numbers.get(key) : undefined
      if (same !== undefined) return same
      const number = this.operands.push(operand) - 1
      this.bindings.push(binding)
      if (operand.access === "read") this.#numbers.set(key, number)
      return number
    })
  }
}

interface Renaming {
  id: (id: Id) => Id
  operands: readonly (number | Literal)[]
  /** Of the first axis. */
  group: Expression
}

function renamed<Node>(node: Node, to: Renaming): Node {
  if (Array.isArray(node)) return node.map((each) => renamed(each, to)) as Node
  if (typeof node !== "object" || node === null) return node
  const own = node as unknown as Expression
  if (own.kind === "group" && own.axis === 0) return to.group as Node
  if (own.kind === "operand") return literal(to.operands[own.operand] as Literal, own.type) as Node
  const entries = Object.entries(node).map(([name, value]) => {
    if (name === "id") return [name, to.id(value)]
    if (name === "ids") return [name, value.map(to.id)]
    if (name === "operand") return [name, to.operands[value]]
    return [name, renamed(value, to)]
  })
  return Object.fromEntries(entries) as Node
}

function literal({ word }: Literal, type: "f32" | "i32" | "u32"): Expression {
  const bits = Uint32Array.of(word).buffer
  const value = type === "f32" ? new Float32Array(bits)[0]! : type === "i32" ? word | 0 : word >>> 0
  return { kind: "constant", type, value }
}

function getOr<Key extends object, Own>(map: WeakMap<Key, Own>, key: Key, make: () => Own): Own {
  const own = map.get(key) ?? make()
  map.set(key, own)
  return own
}
