// How much memory JavaScript has taken, wherever a test must say that something takes little: what the process holds
// grows and shrinks as pages are given and taken back, whatever one call does.

/** Bytes on the heap and in buffers, whether written to or not. Only a collection makes it smaller: a rise is never more than what was taken. */
export function allocated(): number {
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}
