// The folder of the program's code: src/, or build/ once it is built. There modules lie together in a few files, and
// `import.meta.url` says which file and not which module: whoever wants a file beside the code names it from here.

export const codeRoot = new URL(".", import.meta.url)
