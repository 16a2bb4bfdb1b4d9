// Values by key, as many as are said: the one that was used longest ago is forgotten first.

export class LruMap<Value extends object> {
  readonly #most: number
  readonly #values = new Map<string, Value>() // the last one used comes last

  constructor(most: number) {
    this.#most = most
  }

  get(key: string): Value | undefined {
    const value = this.#values.get(key)
    return value && this.put(key, value)
  }

  /** @returns the value */
  put(key: string, value: Value): Value {
    this.#values.delete(key)
    this.#values.set(key, value)
    if (this.#values.size > this.#most) this.#values.delete(this.#values.keys().next().value!)
    return value
  }
}
