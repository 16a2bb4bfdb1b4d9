// Where this user's programs keep what can be made again: https://specifications.freedesktop.org/basedir-spec/latest/

import { devNull, homedir } from "node:os"
import { isAbsolute, join } from "node:path"

/** XDG_CACHE_HOME; ~/.cache where it is not set, empty, or not absolute, as the specification has it. */
export function cacheHome(env: Readonly<Record<string, string | undefined>> = process.env): string {
  const { XDG_CACHE_HOME: named } = env
  return named && isAbsolute(named) ? named : join(home(), ".cache")
}

/** The user's own folder. Of one who has none, whom the system does not know, say, a place where nothing can be kept. */
export function home(): string {
  try {
    const folder = homedir()
    return isAbsolute(folder) ? folder : devNull
  } catch {
    return devNull
  }
}
