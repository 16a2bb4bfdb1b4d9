// Tokens as the words that they are parts of: what begins with a blank, and punctuation with the word that it belongs to. Languages that
// have no blanks are told character by character.
//
// Source: _combine_tokens_into_words in tokenization_whisper.py of transformers, which does what timing.py of OpenAI's whisper does.

export interface Word {
  text: string
  /** Its tokens, from the first to the last. */
  first: number
  last: number
}

/** Codes. */
const WITHOUT_BLANKS = new Set(["zh", "ja", "th", "lo", "my", "yue"])

const PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
const OPENING = "\"'“¡¿([{-"
const CLOSING = "\"'.。,，!！?？:：”)]}、"

const BROKEN = "\ufffd"

/**
 * @param decode some of them as a text, U+FFFD in the place of a part of a character
 * @param language a code
 */
export function wordsOf(
  tokens: readonly number[],
  decode: (tokens: readonly number[]) => string,
  language: string,
): Word[] {
  const characters = wholeCharacters(tokens, decode)
  return punctuated(WITHOUT_BLANKS.has(language) ? characters : byBlanks(characters))
}

/** As few tokens as are whole characters, unless these are broken in all of the text, too. */
function wholeCharacters(
  tokens: readonly number[],
  decode: (tokens: readonly number[]) => string,
): Word[] {
  const whole = decode(tokens)
  const words: Word[] = []
  let first = 0
  let offset = 0
  for (let last = 0; last < tokens.length; last++) {
    const text = decode(tokens.slice(first, last + 1))
    const at = offset + text.indexOf(BROKEN)
    if (at >= offset && at < whole.length && whole[at] !== BROKEN) continue
    words.push({ text, first, last })
    first = last + 1
    offset += text.length
  }
  return words
}

function byBlanks(pieces: readonly Word[]): Word[] {
  const words: Word[] = []
  for (const piece of pieces) {
    const before = words.at(-1)
    const isOwn = piece.text.startsWith(" ") || PUNCTUATION.includes(piece.text.trim())
    if (!before || isOwn) words.push(piece)
    else words[words.length - 1] = joined(before, piece)
  }
  return words
}

/** What opens goes to the word behind it, what closes to the one before. */
function punctuated(words: readonly Word[]): Word[] {
  const opened: Word[] = []
  for (const word of words.toReversed()) {
    const behind = opened[0]
    const opens = word.text.startsWith(" ") && OPENING.includes(word.text.trim())
    if (behind && opens) opened[0] = joined(word, behind)
    else opened.unshift(word)
  }
  const closed: Word[] = []
  for (const word of opened) {
    const before = closed.at(-1)
    if (before && !before.text.endsWith(" ") && CLOSING.includes(word.text))
      closed[closed.length - 1] = joined(before, word)
    else closed.push(word)
  }
  return closed
}

const joined = (word: Word, next: Word): Word => ({
  text: word.text + next.text,
  first: word.first,
  last: next.last,
})
