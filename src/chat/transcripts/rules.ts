// What a Whisper may write, token by token: what its makers suppress, and where times stand. With times, a window begins with one, times
// come in pairs (a segment's end and the next one's beginning) or once before the end, and never go back. Whether a time is due the
// logits say: where all times together are likelier than any word, one comes.
//
// Source: SuppressTokens…, SuppressTokensAtBegin… and WhisperTimeStampLogitsProcessor in generation/logits_process.py of transformers.

import type { Constraint } from "../../engine/generation.ts"

export interface SpeechTokens {
  vocabulary: number // rows of the logits
  end: number // all words have lower numbers
  noTimes: number
  /** The first of the times, which are the last tokens: so many hundredths of a second, by twos. */
  firstTime: number
  suppressed: readonly number[]
  /** Of what may not come first. */
  suppressedFirst: readonly number[]
  /** How far behind a window's beginning its first segment may begin, in times; undefined: anywhere. */
  mostInitial: number | undefined
}

/** One of these tokens, and then the end. */
export function oneOf(tokens: readonly number[], vocabulary: number): Constraint {
  const always = new Uint32Array(Math.ceil(vocabulary / 32))
  for (const token of tokens) allow(always, token)
  return { always, mask: (into) => into.set(always), accept: () => {} }
}

/** What is said, without times. */
export class Words implements Constraint {
  readonly narrow?: NonNullable<Constraint["narrow"]>
  readonly #tokens: SpeechTokens
  #isBegun = false

  /** @param shares told of each token that is drawn how much what may come was of all (`shareOf`); absent: nobody wants to know */
  constructor(tokens: SpeechTokens, shares?: number[]) {
    this.#tokens = tokens
    if (shares)
      this.narrow = (mask, logits) => {
        shares.push(shareOf(mask, logits))
        return false
      }
  }

  mask(into: Uint32Array): void {
    fillWords(into, this.#tokens, !this.#isBegun)
    // Nothing in the rule forbids times here, but that they were not asked for.
    forbidRange(into, this.#tokens.firstTime, this.#tokens.vocabulary)
  }

  accept(): void {
    this.#isBegun = true
  }
}

/** What is said, and when. */
export class TimedWords implements Constraint {
  readonly #tokens: SpeechTokens
  #count = 0
  #wasTime = false
  #wasTimeBefore = true
  /** The last time that came. */
  #time: number | undefined
  readonly #shares: number[]

  /** @param shares as above */
  constructor(tokens: SpeechTokens, shares: number[] = []) {
    this.#tokens = tokens
    this.#shares = shares
  }

  mask(into: Uint32Array): void {
    const { vocabulary, end, firstTime, noTimes, mostInitial } = this.#tokens
    fillWords(into, this.#tokens, this.#count === 0)
    forbid(into, noTimes)
    if (this.#count === 0) {
      forbidRange(into, 0, firstTime)
      if (mostInitial !== undefined) forbidRange(into, firstTime + mostInitial + 1, vocabulary)
      return
    }
    if (this.#wasTime && this.#wasTimeBefore) forbidRange(into, firstTime, vocabulary)
    else if (this.#wasTime) forbidRange(into, 0, end)
    if (this.#time === undefined) return
    const isEnd = this.#wasTime && !this.#wasTimeBefore
    forbidRange(into, firstTime, isEnd ? this.#time : this.#time + 1)
  }

  narrow(mask: Uint32Array, logits: Float32Array): boolean {
    const isNarrower = this.#isTimeDue(mask, logits)
    if (isNarrower) forbidRange(mask, 0, this.#tokens.firstTime)
    this.#shares.push(shareOf(mask, logits))
    return isNarrower
  }

  #isTimeDue(mask: Uint32Array, logits: Float32Array): boolean {
    const { vocabulary, firstTime } = this.#tokens
    let word = Number.NEGATIVE_INFINITY
    for (let token = 0; token < firstTime; token++)
      if (isAllowed(mask, token) && logits[token]! > word) word = logits[token]!
    let most = Number.NEGATIVE_INFINITY
    for (let token = firstTime; token < vocabulary; token++)
      if (isAllowed(mask, token) && logits[token]! > most) most = logits[token]!
    if (word === Number.NEGATIVE_INFINITY || most === Number.NEGATIVE_INFINITY) return false
    let sum = 0
    for (let token = firstTime; token < vocabulary; token++)
      if (isAllowed(mask, token)) sum += Math.exp(logits[token]! - most)
    return most + Math.log(sum) > word
  }

  accept(token: number): void {
    const isTime = token >= this.#tokens.firstTime
    this.#wasTimeBefore = this.#count === 0 || this.#wasTime
    this.#wasTime = isTime
    if (isTime) this.#time = token
    this.#count++
  }
}

/** The logarithm of what all that may come has of what the model thinks likely. */
function shareOf(mask: Uint32Array, logits: Float32Array): number {
  let most = Number.NEGATIVE_INFINITY
  for (const logit of logits) if (logit > most) most = logit
  let [all, allowed] = [0, 0]
  for (let token = 0; token < logits.length; token++) {
    const part = Math.exp(logits[token]! - most)
    all += part
    if (isAllowed(mask, token)) allowed += part
  }
  return Math.log(allowed / all)
}

function fillWords(
  into: Uint32Array,
  { vocabulary, suppressed, suppressedFirst }: SpeechTokens,
  isFirst: boolean,
): void {
  const words = vocabulary >>> 5
  into.fill(0xffff_ffff, 0, words)
  into.fill(0, words) // rows that fill a matrix up are no tokens
  if (vocabulary % 32 > 0) into[words] = 2 ** (vocabulary & 31) - 1
  for (const token of suppressed) forbid(into, token)
  if (isFirst) for (const token of suppressedFirst) forbid(into, token)
}

const isAllowed = (mask: Uint32Array, token: number) => (mask[token >>> 5]! >>> (token & 31)) & 1

function allow(mask: Uint32Array, token: number): void {
  mask[token >>> 5]! |= 1 << (token & 31)
}

function forbid(mask: Uint32Array, token: number): void {
  mask[token >>> 5]! &= ~(1 << (token & 31))
}

function forbidRange(mask: Uint32Array, from: number, to: number): void {
  for (let token = from; token < to; token++) {
    if ((token & 31) === 0 && token + 32 <= to) {
      mask[token >>> 5] = 0
      token += 31
    } else forbid(mask, token)
  }
}
