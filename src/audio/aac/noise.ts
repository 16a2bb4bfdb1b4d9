// Noise in the place of a band that was noise when it was written: all that is known of it is how loud it is. The standard leaves
// open which numbers come; these are a linear congruential generator's with the constants of Numerical Recipes, from the seed that FFmpeg has, so
// that both decode the same.
//
// ISO/IEC 14496-3, 4.6.13.

const SEED = 0x1f2e3d4c

export class Noise {
  #state = SEED

  /** @param loudness the square root of what the squares add up to */
  fill(spectrum: Float64Array, from: number, end: number, loudness: number): void {
    let energy = 0
    for (let at = from; at < end; at++) {
      this.#state = (Math.imul(this.#state, 1_664_525) + 1_013_904_223) | 0
      spectrum[at] = this.#state
      energy += this.#state ** 2
    }
    const scale = loudness / Math.sqrt(energy)
    for (let at = from; at < end; at++) spectrum[at]! *= scale
  }
}
