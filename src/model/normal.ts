// The standard normal distribution: what share of it lies below a number, and below which number a share lies.

/** From 0 to 1, by the series of the error function: x + x^3/3 + x^5/15 + ..., times the density. */
export function shareBelow(x: number): number {
  if (Math.abs(x) > FAR) return x > 0 ? 1 : 0
  let [term, sum] = [x, x]
  for (let n = 3; Math.abs(term) > Math.abs(sum) * Number.EPSILON; n += 2) {
    term *= (x * x) / n
    sum += term
  }
  return 0.5 + density(x) * sum
}

/** @param share more than 0 and less than 1 */
export function numberAbove(share: number): number {
  let [least, most] = [-FAR, FAR]
  for (let middle = 0; ; middle = (least + most) / 2) {
    if (middle === least || middle === most) return middle
    if (shareBelow(middle) < share) least = middle
    else most = middle
  }
}

const density = (x: number) => Math.exp((-x * x) / 2) / Math.sqrt(2 * Math.PI)

/** Beyond it is less than 1 - the number next to 1. */
const FAR = 9
