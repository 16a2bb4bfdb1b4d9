// What tests take for src/code-root.ts (vitest.config.ts): threads that the program starts run what the setup has built (build.ts).
// From the sources each would read TypeScript first, which takes longer than most have to do.

export const codeRoot = new URL("../build/", import.meta.url)
