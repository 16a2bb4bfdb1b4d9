// How much memory a process holds, for whoever asks while it serves.

/**
 * Bytes of memory that this process holds. On Linux the system tells that in a file, /proc/self/stat, which cannot be opened while
 * clients' connections hold all descriptors: undefined then.
 */
export function residentSize(): number | undefined {
  try {
    return process.memoryUsage.rss()
  } catch {
    return undefined
  }
}
