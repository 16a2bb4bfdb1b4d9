// Builds the generic libraries into build/generic/: kernels for whoever has no C compiler. Without arguments for the
// machine at hand, with its own compiler; `npm run generic -- linux-arm64 darwin-x64` builds for others, with zig's
// (`pip install ziglang`, or ZIG=/path/to/zig). GENERIC_LEVELS names the instruction sets, where not all are wanted.
import { mkdirSync, writeFileSync } from "node:fs"
import { buildGeneric, genericName } from "../src/compiler/targets/cpu/generic.ts"
import { levels } from "../src/compiler/targets/cpu/levels.ts"
import { findCompiler, supports, zigFor } from "../src/compiler/targets/cpu/toolchain.ts"

const here = `${process.platform}-${process.arch}`
const wanted = process.env.GENERIC_LEVELS?.split(",")

mkdirSync("build/generic", { recursive: true })
for (const machine of process.argv.length > 2 ? process.argv.slice(2) : [here]) {
  const [platform = "", arch = ""] = machine.split("-")
  const compiler = machine === here ? await findCompiler() : await zigFor(platform, arch)
  if (!compiler) {
    console.error(`build/generic/ is not made for ${machine}: no C compiler is here.`)
    continue
  }
  for (const level of levels) {
    if (![arch, "any"].includes(level.arch) || wanted?.includes(level.name) === false) continue
    if (!(await supports(compiler, level))) continue
    const name = genericName(platform, arch, level)
    writeFileSync(`build/generic/${name}`, await buildGeneric(compiler, level))
    console.error(`build/generic/${name}`)
  }
}
