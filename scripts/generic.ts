// Builds the generic libraries of this machine's kind into build/generic/: kernels for whoever has no C compiler.
// GENERIC_LEVELS names the instruction sets, where not all are wanted.
import { mkdirSync, writeFileSync } from "node:fs"
import { arch } from "node:process"
import { buildGeneric, genericName } from "../src/compiler/targets/cpu/generic.ts"
import { levels } from "../src/compiler/targets/cpu/levels.ts"
import { findCompiler, supports } from "../src/compiler/targets/cpu/toolchain.ts"

const wanted = process.env.GENERIC_LEVELS?.split(",")
const compiler = await findCompiler()
if (!compiler) {
  console.error("build/generic/ is not made: no C compiler is here.")
  process.exit()
}
mkdirSync("build/generic", { recursive: true })
for (const level of levels) {
  if (![arch, "any"].includes(level.arch) || wanted?.includes(level.name) === false) continue
  if (!(await supports(compiler, level))) continue
  const name = genericName(level)
  writeFileSync(`build/generic/${name}`, await buildGeneric(compiler, level))
  console.error(`build/generic/${name}`)
}
