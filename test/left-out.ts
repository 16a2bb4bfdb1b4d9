// What a test needs beside Node may be missing: it is then left out with its reason. In CI all that can be installed is
// (.ci/run), so there the test runs and says by failing what is not there.

/** @param there whatever the test needs; anything false is missing */
export const isLeftOut = (there: unknown): boolean => !there && process.env.CI !== "true"

/**
 * Whether tests take all that there is of a kind, for hours of a quiet machine. In every other run one that differs most stands for
 * the others where a compiler of kernels takes longer than what is judged.
 */
export const takesAll = process.env.TESTS === "all"
