// The one logger. Everything the server says goes to stderr, so that stdout stays free for what a command prints.

import { type Logger, pino } from "pino"

export type Log = Pick<Logger, "debug" | "info" | "warn" | "error" | "child" | "isLevelEnabled">
export type LogLevel = "debug" | "info" | "warn" | "error" | "silent"

/** @param pretty one readable line per event for terminals; otherwise one JSON object per line. */
export function createLog(level: LogLevel, pretty: boolean): Logger {
  if (level === "silent") return pino({ level })
  if (!pretty) return pino({ level, base: undefined }, pino.destination({ dest: 2, sync: true }))
  const transport = pino.transport({
    target: "pino-pretty",
    options: { destination: 2, ignore: "pid,hostname" },
  })
  return pino({ level }, transport)
}
