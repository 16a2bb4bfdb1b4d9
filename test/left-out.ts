// What a test needs beside Node may be missing: it is then left out with its reason. In CI all that can be installed is
// (.ci/run), so there the test runs and says by failing what is not there.

/** @param there whatever the test needs; anything false is missing */
export const isLeftOut = (there: unknown): boolean => !there && process.env.CI !== "true"

/** Whether tests take all of a kind that in other runs a few stand for: golden models on stand-ins, a maker's architectures. */
export const takesAll = process.env.TESTS === "all"
