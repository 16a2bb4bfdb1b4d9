// The discrete Fourier transform of one length, by its prime factors (Cooley and Tukey): of 400 numbers, as Whisper's spectra need it,
// a few thousand products instead of 640,000.

export class Fourier {
  readonly length: number
  readonly #factors: number[]
  readonly #cosines: Float64Array // [length] of the angles of the circle
  readonly #sines: Float64Array // [length]
  readonly #pairs: Float64Array // [largest factor, 2] what one butterfly reads

  constructor(length: number) {
    this.length = length
    this.#factors = primeFactors(length)
    const angle = (index: number) => (2 * Math.PI * index) / length
    this.#cosines = Float64Array.from({ length }, (_, index) => Math.cos(angle(index)))
    this.#sines = Float64Array.from({ length }, (_, index) => -Math.sin(angle(index)))
    this.#pairs = new Float64Array(2 * Math.max(1, ...this.#factors))
  }

  /** @param to [length, 2] real and imaginary parts one behind the other, as in `from`; not the same array */
  transform(from: Float64Array, to: Float64Array): void {
    this.#part(from, 0, 1, to, 0, 0)
  }

  /** Transforms every `stride`th number from `first` on, and puts it at `at`. */
  #part(
    from: Float64Array,
    first: number,
    stride: number,
    to: Float64Array,
    at: number,
    depth: number,
  ): void {
    const factor = this.#factors[depth]
    if (factor === undefined) {
      to[2 * at] = from[2 * first]!
      to[2 * at + 1] = from[2 * first + 1]!
      return
    }
    const count = this.length / stride / factor
    for (let part = 0; part < factor; part++)
      this.#part(from, first + part * stride, stride * factor, to, at + part * count, depth + 1)
    if (factor === 2) {
      this.#twos(to, at, count, stride)
      return
    }
    for (let index = 0; index < count; index++)
      this.#butterfly(to, at + index, count, factor, index * stride)
  }

  /** Joins `factor` numbers that lie `count` apart, turned by their multiples of `turn`. */
  #butterfly(to: Float64Array, at: number, count: number, factor: number, turn: number): void {
    const pairs = this.#pairs
    for (let part = 0; part < factor; part++) {
      const [cosine, sine] = [this.#cosines[part * turn]!, this.#sines[part * turn]!]
      const [real, imaginary] = [to[2 * (at + part * count)]!, to[2 * (at + part * count) + 1]!]
      pairs[2 * part] = real * cosine - imaginary * sine
      pairs[2 * part + 1] = real * sine + imaginary * cosine
    }
    this.#odd(to, at, count, factor)
  }

  /** The same of two numbers, for all of a part: no others are as many. */
  #twos(to: Float64Array, at: number, count: number, stride: number): void {
    for (let index = 0; index < count; index++) {
      const [cosine, sine] = [this.#cosines[index * stride]!, this.#sines[index * stride]!]
      const [one, other] = [2 * (at + index), 2 * (at + count + index)]
      const real = to[other]! * cosine - to[other + 1]! * sine
      const imaginary = to[other]! * sine + to[other + 1]! * cosine
      to[other] = to[one]! - real
      to[other + 1] = to[one + 1]! - imaginary
      to[one]! += real
      to[one + 1]! += imaginary
    }
  }

  /** Two outputs that mirror each other are made of the same sums and differences of numbers that do. */
  #odd(to: Float64Array, at: number, count: number, factor: number): void {
    const pairs = this.#pairs
    const step = this.length / factor
    const [firstReal, firstImaginary] = [pairs[0]!, pairs[1]!]
    let [wholeReal, wholeImaginary] = [firstReal, firstImaginary]
    for (let part = 1; part < factor; part++) {
      wholeReal += pairs[2 * part]!
      wholeImaginary += pairs[2 * part + 1]!
    }
    to[2 * at] = wholeReal
    to[2 * at + 1] = wholeImaginary
    for (let out = 1; out < factor / 2; out++) {
      let [evenReal, evenImaginary, oddReal, oddImaginary] = [firstReal, firstImaginary, 0, 0]
      for (let part = 1; part < factor / 2; part++) {
        const angle = ((part * out) % factor) * step
        const [cosine, sine] = [this.#cosines[angle]!, this.#sines[angle]!]
        const [one, other] = [2 * part, 2 * (factor - part)]
        evenReal += (pairs[one]! + pairs[other]!) * cosine
        evenImaginary += (pairs[one + 1]! + pairs[other + 1]!) * cosine
        oddReal += (pairs[one + 1]! - pairs[other + 1]!) * sine
        oddImaginary += (pairs[one]! - pairs[other]!) * sine
      }
      const [place, mirror] = [2 * (at + out * count), 2 * (at + (factor - out) * count)]
      to[place] = evenReal - oddReal
      to[place + 1] = evenImaginary + oddImaginary
      to[mirror] = evenReal + oddReal
      to[mirror + 1] = evenImaginary - oddImaginary
    }
  }
}

function primeFactors(number: number): number[] {
  for (let factor = 2; factor <= number; factor++)
    if (number % factor === 0) return [factor, ...primeFactors(number / factor)]
  return []
}
