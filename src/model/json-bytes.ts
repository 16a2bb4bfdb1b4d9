// JSON that is put together as bytes of UTF-8: a tokenizer.json has megabytes of texts that are copied from other bytes.

const [BLANK, QUOTE, COMMA, BACKSLASH] = [0x20, 0x22, 0x2c, 0x5c]

/** Characters that stand for a byte at most: \u001f */
const LONGEST_ESCAPE = 6

export class JsonBytes {
  #bytes = Buffer.allocUnsafe(1 << 16)
  #size = 0

  /** As it stands. */
  put(json: string): void {
    this.#makeRoom(3 * json.length) // bytes of a unit of UTF-16, at most
    this.#size += this.#bytes.write(json, this.#size)
  }

  /** A text of the `source`, its bytes from one to another, as JSON.stringify prints it; then what is `behind` it, in ASCII. */
  putText(source: Uint8Array, from: number, to: number, behind: string): void {
    this.#makeRoom(LONGEST_ESCAPE * (to - from) + 2 + behind.length)
    const bytes = this.#bytes
    let size = this.#size
    bytes[size++] = QUOTE
    for (let at = from; at < to; at++) {
      const byte = source[at]!
      if (byte >= BLANK && byte !== QUOTE && byte !== BACKSLASH) bytes[size++] = byte
      else size += bytes.write(escapes[byte]!, size, "latin1")
    }
    bytes[size++] = QUOTE
    for (let i = 0; i < behind.length; i++) bytes[size++] = behind.charCodeAt(i)
    this.#size = size
  }

  /** A bracket in the place of the comma behind the last member, if there is one. */
  close(bracket: "]" | "}"): void {
    if (this.#bytes[this.#size - 1] === COMMA) this.#size--
    this.put(bracket)
  }

  bytes(): Buffer {
    return this.#bytes.subarray(0, this.#size)
  }

  #makeRoom(size: number): void {
    if (this.#size + size <= this.#bytes.length) return
    const larger = Buffer.allocUnsafe(2 * (this.#size + size))
    this.#bytes.copy(larger, 0, 0, this.#size)
    this.#bytes = larger
  }
}

/** Of the bytes that do not stand for themselves. */
const escapes: readonly string[] = Array.from({ length: BACKSLASH + 1 }, (_, code) =>
  JSON.stringify(String.fromCharCode(code)).slice(1, -1),
)
