// How byte-level tokenizers write a byte: printable Latin-1 stands for itself, the other 68 bytes for U+0100 and on
// (github.com/openai/gpt-2, src/encoder.py).

let next = 0x100

/** The character of each byte. */
export const byteAlphabet: readonly string[] = Array.from({ length: 256 }, (_, byte) => {
  const character = String.fromCharCode(byte)
  return /[!-~¡-¬®-ÿ]/.test(character) ? character : String.fromCharCode(next++)
})

export const byteLevelCharacter = (byte: number): string => byteAlphabet[byte]!
