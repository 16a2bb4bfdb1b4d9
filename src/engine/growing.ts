// Arrays that are kept from step to step and only ever grow.

/** The array itself while it is long enough, else a longer one with the same beginning. */
export function withRoom<T extends Int32Array | Float32Array | Uint32Array>(
  array: T,
  length: number,
): T {
  if (length <= array.length) return array
  const longer = new (array.constructor as new (length: number) => T)(length * 2)
  longer.set(array)
  return longer
}
