// Which of several are open: at most so many at once. One that is wanted and not open is opened, and if there is no room the
// least recently used is closed first, once nobody uses it any more. Whoever wants it waits meanwhile, in turn: one is opened at a
// time, the one that has been waited for longest.

import { type Closable, Closing } from "../closing.ts"
import { problem } from "../errors.ts"

/** How one of them is opened: first what can be told to be wrong without closing another for it, then the rest. */
export interface Source<Value extends Closable> {
  prepare(): Promise<Prepared<Value>>
}

export interface Prepared<Value extends Closable> {
  /** What is opened closes what was prepared as well; what cannot be opened does not. */
  open(signal: AbortSignal): Promise<Value>
  close(): Promise<void>
}

export interface ResidentsOptions {
  /** How many may be open at once. */
  most: number
  /** Milliseconds that one stays open without being used; absent: until another needs its place. */
  idle?: number | undefined
  /** How many may wait. */
  maxWaiting: number
  /** Told of one that could not be closed when nobody had used it for so long. */
  onError: (error: unknown) => void
}

export interface Lease<Value> {
  value: Value
  release: () => void
}

/** What has failed after another was closed for it is not tried again for so long. */
const RETRY = 30_000 // milliseconds

interface Waiter<Value> {
  since: number
  resolve: (lease: Lease<Value>) => void
  reject: (reason: unknown) => void
}

interface Seat<Value extends Closable> {
  source: Source<Value>
  value?: Value | undefined
  closing?: Promise<void> | undefined
  /** Who wants it waits until it has been closed and opened again. */
  isLeaving: boolean
  leases: number
  /** When it was last wanted or released, counted in such events. */
  used: number
  /** When it was last released. */
  restedAt: number // unix milliseconds
  waiting: Waiter<Value>[]
  failed?: { error: unknown; at: number } | undefined
  idle?: NodeJS.Timeout | undefined
}

export class Residents<Value extends Closable> {
  readonly #seats: readonly Seat<Value>[]
  readonly #options: ResidentsOptions
  readonly #ending = new AbortController()
  #events = 0
  #work: Promise<void> | undefined
  #onChange = () => {}

  constructor(sources: readonly Source<Value>[], options: ResidentsOptions) {
    this.#options = options
    this.#seats = sources.map((source) => ({
      source,
      isLeaving: false,
      leases: 0,
      used: 0,
      restedAt: 0,
      waiting: [],
    }))
  }

  /** What is open at a place, and will be for the next who wants it. */
  at(index: number): Value | undefined {
    const seat = this.#seats[index]!
    return isHere(seat) ? seat.value : undefined
  }

  /** When what is open at a place is closed if nobody wants it, in unix milliseconds; undefined: not for that. */
  endOf(index: number): number | undefined {
    const { leases, restedAt } = this.#seats[index]!
    const { idle } = this.#options
    return idle === undefined ? undefined : (leases > 0 ? Date.now() : restedAt) + idle
  }

  /**
   * What is at a place, open until the lease is released.
   * @throws why it cannot be opened, `queue_full`, `not_ready` at the end, or the signal's reason
   */
  async lease(index: number, signal?: AbortSignal): Promise<Lease<Value>> {
    signal?.throwIfAborted()
    const seat = this.#seats[index]!
    if (isHere(seat)) return this.#grant(seat)
    this.#refuse(seat)
    return new Promise((resolve, reject) => {
      const waiter = { since: this.#events++, resolve, reject }
      seat.waiting.push(waiter)
      signal?.addEventListener("abort", () => this.#leave(seat, waiter, signal.reason), {
        once: true,
      })
      this.#work ??= this.#serve().finally(() => {
        this.#work = undefined
      })
    })
  }

  /** Whoever waits is refused, what is being opened is given up, and all is closed. */
  async close(): Promise<void> {
    this.#ending.abort()
    for (const { waiting, idle } of this.#seats) {
      clearTimeout(idle)
      for (const { reject } of waiting.splice(0)) reject(ending())
    }
    this.#changed()
    await this.#work
    const closing = new Closing()
    for (const seat of this.#seats) closing.add({ close: () => this.#closeAt(seat) })
    await closing.close()
  }

  #refuse({ failed }: Seat<Value>): void {
    if (this.#ending.signal.aborted) throw ending()
    if (failed && performance.now() - failed.at < RETRY) throw failed.error
    const waiting = this.#seats.reduce((sum, seat) => sum + seat.waiting.length, 0)
    if (waiting >= this.#options.maxWaiting) throw problem("queue_full", { waiting })
  }

  #leave(seat: Seat<Value>, waiter: Waiter<Value>, reason: unknown): void {
    const at = seat.waiting.indexOf(waiter)
    if (at < 0) return
    seat.waiting.splice(at, 1)
    waiter.reject(reason)
    this.#changed()
  }

  #grant(seat: Seat<Value>): Lease<Value> {
    clearTimeout(seat.idle)
    seat.leases += 1
    seat.used = this.#events++
    let isHeld = true
    const release = () => {
      if (!isHeld) return
      isHeld = false
      this.#released(seat)
    }
    return { value: seat.value!, release }
  }

  #released(seat: Seat<Value>): void {
    seat.leases -= 1
    seat.restedAt = Date.now()
    seat.used = this.#events++
    const { idle, onError } = this.#options
    if (seat.leases === 0 && idle !== undefined && !this.#ending.signal.aborted) {
      seat.idle = setTimeout(() => void this.#closeAt(seat).catch(onError), idle).unref()
    }
    this.#changed()
  }

  #grantAll(seat: Seat<Value>): void {
    for (const { resolve } of seat.waiting.splice(0)) resolve(this.#grant(seat))
  }

  /** Opens what is waited for, until nobody waits. */
  async #serve(): Promise<void> {
    for (let seat = this.#next(); seat; seat = this.#next()) {
      try {
        if (await this.#openAt(seat)) this.#grantAll(seat)
      } catch (error) {
        for (const { reject } of seat.waiting.splice(0)) reject(error)
      }
    }
  }

  #next(): Seat<Value> | undefined {
    const wanted = this.#seats.filter(({ waiting }) => waiting.length > 0)
    return leastBy(wanted, ({ waiting }) => waiting[0]!.since)
  }

  /** @returns false if nobody waited for it any more; whoever has come since then waits for the next time */
  async #openAt(seat: Seat<Value>): Promise<boolean> {
    await seat.closing
    const prepared = await seat.source.prepare()
    try {
      if (!(await this.#makeRoom(seat))) {
        await prepared.close()
        return false
      }
      seat.value = await this.#opened(seat, prepared)
      return true
    } catch (error) {
      await prepared.close()
      throw error
    }
  }

  async #opened(seat: Seat<Value>, prepared: Prepared<Value>): Promise<Value> {
    try {
      const value = await prepared.open(this.#ending.signal)
      seat.failed = undefined
      return value
    } catch (error) {
      seat.failed = { error, at: performance.now() }
      throw error
    }
  }

  /** @returns false if nobody waits for it any more */
  async #makeRoom(seat: Seat<Value>): Promise<boolean> {
    let leaving: Seat<Value> | undefined
    try {
      while (seat.waiting.length > 0) {
        const open = this.#seats.filter(({ value }) => value)
        if (open.length < this.#options.most) return true
        const staying = open.filter(({ closing }) => !closing)
        const unused = staying.filter(({ leases }) => leases === 0)
        if (unused.length > 0) await this.#closeAt(leastBy(unused, ({ used }) => used)!)
        else {
          leaving ??= leastBy(staying, ({ used }) => used)
          if (leaving) leaving.isLeaving = true
          await this.#change()
        }
      }
      return false
    } finally {
      if (leaving) this.#stay(leaving)
    }
  }

  /** Another was closed in its place, or nobody needs its place any more. */
  #stay(seat: Seat<Value>): void {
    seat.isLeaving = false
    if (isHere(seat)) this.#grantAll(seat)
  }

  #closeAt(seat: Seat<Value>): Promise<void> {
    clearTimeout(seat.idle)
    seat.closing ??= this.#closeNow(seat).finally(() => {
      seat.closing = undefined
      this.#changed()
    })
    return seat.closing
  }

  async #closeNow(seat: Seat<Value>): Promise<void> {
    try {
      await seat.value?.close()
    } finally {
      seat.value = undefined
    }
  }

  #change(): Promise<void> {
    return new Promise((resolve) => {
      this.#onChange = resolve
    })
  }

  #changed(): void {
    this.#onChange()
  }
}

function isHere<Value extends Closable>({ value, closing, isLeaving }: Seat<Value>): boolean {
  return value !== undefined && !closing && !isLeaving
}

const ending = () => problem("not_ready", { state: "shutting down" })

function leastBy<Item>(items: readonly Item[], rank: (item: Item) => number): Item | undefined {
  const [first, ...others] = items
  return others.reduce((least, item) => (rank(item) < rank(least!) ? item : least), first)
}
