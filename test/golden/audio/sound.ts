/** As `sound` of make.py: noise and a square wave, now loud, now 4,096 times softer, now nothing; exact in float32. */
export function sound(count: number): Float32Array {
  let state = 1
  return Float32Array.from({ length: count }, (_, at) => {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff
    const block = Math.floor(at / 8000)
    const square = 1 - 2 * ((Math.floor(at * 55) >> 11) & 1)
    const loud = block % 7 === 6 ? 0 : 2 ** -((block * 5) % 13)
    return (((state >> 15) - 32768) / 131072 + square / 2) * loud
  })
}
