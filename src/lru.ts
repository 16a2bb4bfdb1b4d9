// Values by key, as many as there is room for: the one that was used longest ago is forgotten first.

export class LruMap<Value extends object> {
  readonly #most: number
  readonly #sizeOf: (value: Value) => number
  readonly #values = new Map<string, Value>() // the last one used comes last
  #size = 0

  /** @param sizeOf in whatever `most` counts; absent: values. One alone may be as large as it is. */
  constructor(most: number, sizeOf: (value: Value) => number = () => 1) {
    this.#most = most
    this.#sizeOf = sizeOf
  }

  get(key: string): Value | undefined {
    const value = this.#values.get(key)
    return value && this.put(key, value)
  }

  /** @returns the value */
  put(key: string, value: Value): Value {
    this.delete(key)
    this.#values.set(key, value)
    this.#size += this.#sizeOf(value)
    for (const oldest of this.#values.keys()) {
      if (this.#size <= this.#most || oldest === key) break
      this.delete(oldest)
    }
    return value
  }

  delete(key: string): void {
    const value = this.#values.get(key)
    if (!value) return
    this.#values.delete(key)
    this.#size -= this.#sizeOf(value)
  }
}
