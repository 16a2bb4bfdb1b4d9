// How much work one schema may take to compile. A few lines of JSON can ask for billions of combinations; what grows past a
// bound is refused, with its place. Units and not seconds: a schema is refused on every machine or on none. A unit is a case
// put together, a state or an entry made: some 0.5 µs. Compiling is synchronous, so one counter serves it.

/** For a schema as it stands, and as it is with each keyword left out that cannot be enforced, all together. */
export const MAX_WORK = 2_000_000
export const MAX_WORK_IN_ALL = 2 * MAX_WORK

/** More than the compiler is willing to build. */
export class TooLarge extends Error {}

/** The units granted are used up. */
export class TooMuchWork extends TooLarge {
  constructor() {
    super("the schema has too many combinations")
  }
}

let left = Number.POSITIVE_INFINITY
let spent = 0

/** Compiles with so many units. */
export function bounded<Result>(units: number, compile: () => Result): Result {
  left = units
  try {
    return compile()
  } finally {
    left = Number.POSITIVE_INFINITY
  }
}

/** Of those granted. */
export function unitsLeft(): number {
  return left
}

/** Units spent since the process began. */
export function worked(): number {
  return spent
}

export function spend(units: number): void {
  spent += units
  left -= units
  if (left < 0) throw new TooMuchWork()
}

/** Something that took so many units to make. */
export interface Priced<Value> {
  value: Value
  units: number
}

/** What is kept costs everybody what it cost first: whether a schema is refused does not depend on who came before. */
export function priced<Value>(known: Priced<Value> | undefined, make: () => Value): Priced<Value> {
  if (known) {
    spend(known.units)
    return known
  }
  const before = spent
  const value = make()
  return { value, units: spent - before }
}
