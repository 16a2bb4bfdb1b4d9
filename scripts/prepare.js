// npm runs this before it packs the package, when it installs it from git, and after `npm ci` in a clone: build/ is part of
// what is installed and not of the repository. Packing a clone in which nothing is installed yet installs first; an install
// that leaves the development packages out (`npm ci --omit=dev`) goes on without, as whoever asks for that has a build/.
// Types are not checked, which takes three quarters of a build: `npm test` does it.
import { execFileSync } from "node:child_process"
import { existsSync } from "node:fs"

const PACKING = ["pack", "publish"]
const canBuild = () => existsSync("node_modules/typescript/bin/tsc")
const run = (program, options) =>
  execFileSync(program, options, { stdio: ["ignore", process.stderr, "inherit"] }) // stdout names the tarball

if (!canBuild() && PACKING.includes(process.env.npm_command)) {
  run("npm", ["ci", "--include=dev", "--ignore-scripts"])
}
if (canBuild()) {
  run(process.execPath, ["scripts/build.js", "--unchecked"])
  // From git nobody is helped: where they could be built they are not needed.
  if (PACKING.includes(process.env.npm_command))
    run(process.execPath, ["--import", "tsx", "scripts/generic.ts"])
} else console.error("build/ is not made: the development packages are not installed.")
