// What the noted pieces of steps add up to: of each kind of plan step, and of each thread, how long it worked, was being woken,
// waited for the others, had nothing to do.

import { median } from "../contenders/api.ts"

/** From when until when, in nanoseconds, and which of the plan's steps it was; one behind the last is drawing tokens. */
export interface Noted {
  step: number
  loop: number
  begin: number
  end: number
}

/** One step of the model: its loops as the thread that begins them sees them, and the pieces that each thread took. */
export interface Pass {
  loops: readonly Noted[]
  pieces: readonly (readonly Noted[])[]
}

/** Microseconds of a thread in all loops of one name in one pass; together they are the loops' time. */
export interface Spent {
  worked: number
  /** Before its first piece. */
  woken: number
  /** Between pieces, which are handed out. */
  handed: number
  /** Behind its last piece, for the others. */
  waited: number
  /** In loops of which it got no piece. */
  idle: number
}

export interface Row {
  name: string
  loops: number
  microseconds: number
  threads: readonly Spent[]
}

/** @param lines `thread step loop begin end`, thread -1 for loops, as timeline.c writes them */
export function passesOf(lines: string, threads: number): Pass[] {
  const pieces: Noted[][] = Array.from({ length: threads }, () => [])
  const loops: Noted[] = []
  for (const line of lines.split("\n")) {
    if (line === "") continue
    const [thread, step, loop, begin, end] = line.split(" ").map(Number) as [
      number,
      number,
      number,
      number,
      number,
    ]
    if (step >= 0) (thread < 0 ? loops : pieces[thread]!).push({ step, loop, begin, end })
  }
  const passes: Noted[][] = []
  let last = Number.POSITIVE_INFINITY
  for (const loop of loops) {
    if (loop.step < last && (passes.length === 0 || loop.step === 0)) passes.push([])
    passes.at(-1)!.push(loop)
    last = loop.step
  }
  return passes.map((own) => {
    const [first, end] = [own[0]!.loop, own.at(-1)!.loop]
    const within = ({ loop }: Noted) => loop >= first && loop <= end
    return { loops: own, pieces: pieces.map((all) => all.filter(within)) }
  })
}

export const microsecondsOf = ({ loops }: Pass) => (loops.at(-1)!.end - loops[0]!.begin) / 1000

/** @param names of the plan's steps, and behind them what drawing tokens is called */
export function rowsOf({ loops, pieces }: Pass, names: readonly string[]): Row[] {
  const rows = new Map<string, { loops: number; microseconds: number; threads: Spent[] }>()
  const byLoop = pieces.map(grouped)
  for (const { step, loop, begin, end } of loops) {
    const name = names[step]!
    const row = rows.get(name) ?? { loops: 0, microseconds: 0, threads: pieces.map(nothing) }
    rows.set(name, row)
    row.loops++
    row.microseconds += (end - begin) / 1000
    for (const [thread, own] of byLoop.entries())
      add(row.threads[thread]!, begin, end, own.get(loop))
  }
  return [...rows].map(([name, row]) => ({ name, ...row }))
}

function grouped(pieces: readonly Noted[]): Map<number, Noted[]> {
  const byLoop = new Map<number, Noted[]>()
  for (const piece of pieces) {
    const own = byLoop.get(piece.loop)
    if (own) own.push(piece)
    else byLoop.set(piece.loop, [piece])
  }
  return byLoop
}

const nothing = (): Spent => ({ worked: 0, woken: 0, handed: 0, waited: 0, idle: 0 })

function add(spent: Spent, begin: number, end: number, pieces: readonly Noted[] | undefined): void {
  if (!pieces) {
    spent.idle += (end - begin) / 1000
    return
  }
  const worked = pieces.reduce((sum, piece) => sum + piece.end - piece.begin, 0)
  const [first, last] = [pieces[0]!.begin, pieces.at(-1)!.end]
  spent.worked += worked / 1000
  spent.woken += (first - begin) / 1000
  spent.handed += (last - first - worked) / 1000
  spent.waited += (end - last) / 1000
}

/** Of every figure the median of the passes. */
export function medians(passes: readonly (readonly Row[])[]): Row[] {
  return passes[0]!.map(({ name, loops, threads }, i) => {
    const all = passes.map((rows) => rows[i]!)
    return {
      name,
      loops,
      microseconds: median(all.map((row) => row.microseconds)),
      threads: threads.map((_, thread) => {
        const of = (key: keyof Spent) => median(all.map((row) => row.threads[thread]![key]))
        return {
          worked: of("worked"),
          woken: of("woken"),
          handed: of("handed"),
          waited: of("waited"),
          idle: of("idle"),
        }
      }),
    }
  })
}

/** The format that Perfetto and browsers' own tracing read: a row of boxes for each thread. */
export function traceOf(passes: readonly Pass[], names: readonly string[]): string {
  const zero = passes[0]!.loops[0]!.begin
  const box = (thread: number, { step, begin, end }: Noted) => ({
    name: names[step],
    ph: "X",
    pid: 1,
    tid: thread,
    ts: (begin - zero) / 1000,
    dur: (end - begin) / 1000,
  })
  const events = passes.flatMap(({ loops, pieces }) => [
    ...loops.map((loop) => box(pieces.length, loop)),
    ...pieces.flatMap((own, thread) => own.map((piece) => box(thread, piece))),
  ])
  const threads = passes[0]!.pieces.length
  const labels = Array.from({ length: threads + 1 }, (_, tid) => ({
    name: "thread_name",
    ph: "M",
    pid: 1,
    tid,
    args: { name: tid < threads ? `thread ${tid}` : "loops" },
  }))
  return JSON.stringify({ traceEvents: [...labels, ...events] })
}
