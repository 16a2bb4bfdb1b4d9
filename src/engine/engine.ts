// The loop: choose, flatten, step, hand out (results.ts). One step holds everybody who can go on, so whoever comes joins the
// next one and whoever leaves (endings.ts) frees its blocks at once; that is all that continuous batching is.
//
// Where the program takes a step while another runs, the next one is put together meanwhile and waits for the tokens alone, if for
// anything (riders.ts).
//
// A reader that leaves while a step computes its sequence is let go when the step is over. A step that has nobody left is
// told to give up, and a step with several sequences is short, so both come within 100 ms.

import { setImmediate as breathe, setTimeout as sleep } from "node:timers/promises"
import { Closing } from "../closing.ts"
import { type Problem, problem } from "../errors.ts"
import type { Log } from "../log.ts"
import { givenColumns, reachOf, takenColumns } from "../runtime/manifest.ts"
import {
  type CancelWord,
  type Program,
  ProgramLost,
  type StepInput,
  type StepOutput,
} from "../runtime/program.ts"
import { Batch, type Part } from "./batch.ts"
import { Endings, failure } from "./endings.ts"
import type { Generation, GenerationMedia, GenerationRequest } from "./generation.ts"
import { type Context, type EngineLimits, spareBlocks, trailBlocks } from "./limits.ts"
import { Memory } from "./memory.ts"
import { Outbox } from "./outbox.ts"
import { timeBeside } from "./pace.ts"
import { Redrawing } from "./redrawing.ts"
import { Results, scoresOf } from "./results.ts"
import { ridersOf } from "./riders.ts"
import { Scheduler } from "./scheduler.ts"
import { Sequence, SequenceGroup } from "./sequence.ts"
import { Speculation, type Speculative } from "./speculative.ts"
import { type EngineStats, noCounts } from "./stats.ts"
import type { Beside } from "./tower.ts"
import type { Trace } from "./trace.ts"

const MAX_TIMER = 2 ** 31 - 1 // milliseconds
const MAX_WAITING_ROWS = 2 * 2 ** 30 // bytes: those of some 200 images of LLaVA's

/**
 * How long a step waits for masks: so many turns of the event loop, which are a tenth of a millisecond or two, and this share
 * of the step before. Who drew together then stays together, where the next step would begin with the first few masks.
 */
const MASK_TURNS = 16
const MASK_SHARE = 1 / 16

export interface EngineOptions {
  limits: Pick<EngineLimits, "context" | "total" | "sequences" | "chunk">
  /** Requests that may wait; one more is refused. */
  maxQueue: number
  /** Milliseconds from a request's arrival to its end; absent: as long as it takes. */
  requestTimeout?: number
  /** What has a share of the time between steps and none while they run. */
  beside?: Beside
  /** What proposes tokens; absent: a step draws one for each sequence. It belongs to the engine from here on. */
  speculative?: Speculative
  /** Finished sequences that are remembered for others; 0: none; absent: as many as the blocks allow. */
  recycledSequences?: number
  log?: Log
  /** Told once when the program is lost: everybody has been told why, and nobody is admitted again. */
  onLost?: (reason: Problem) => void
  /** Records what happens to requests and in steps; absent: nothing is recorded, at no cost. */
  trace?: Trace
  /** Milliseconds on a clock that never goes back; for tests. */
  now?: () => number
}

export interface Engine {
  /**
   * Admits a request or throws the Problem that refuses it: `context_length_exceeded`, `queue_full`, `server_closing`.
   * The signal ends all its choices without another event.
   */
  generate(request: GenerationRequest, signal?: AbortSignal): Generation
  /** Throws `context_length_exceeded` where a prompt of so many tokens, or more, is too long; `field` is its name. */
  assertRoom(atLeast: number, field: string): void
  stats(): EngineStats
  /** Resolves when the first request has ended. */
  readonly answered: Promise<void>
  /** Throws unless every block is free once or owned by exactly those sequences that list it. */
  audit(): void
  /** Refuses new requests and resolves when the last running one has ended. */
  drain(): Promise<void>
  /** Ends everything with `server_closing` and closes the program, never during a step. */
  close(): Promise<void>
}

/** The program belongs to the engine from here on. */
export function createEngine(program: Program, options: EngineOptions): Engine {
  return new Loop(program, options)
}

class Loop implements Engine {
  readonly #program: Program
  readonly #options: EngineOptions
  readonly #context: number
  readonly #now: () => number
  readonly #scheduler: Scheduler
  readonly #batch: Batch
  /** For a step that is put together while the other one's runs; absent: there is none. */
  readonly #other: Batch | undefined
  readonly #speculation: Speculation | undefined
  readonly #endings: Endings
  readonly #results: Results
  readonly #cancel: CancelWord = new Int32Array(new SharedArrayBuffer(4))
  readonly #redrawing: Redrawing
  readonly #counts = noCounts()
  #arrivals = 0
  #step: readonly Sequence[] = [] // the one being taken, with those that are chained to it
  /** Whether somebody has come, left or caught up since the last choice. */
  #isCalled = false
  /** Those whose step failed together: each is taken alone once, so that only the one to blame fails. */
  readonly #suspects = new WeakSet<Sequence>()
  #stepTime = 0 // milliseconds that the last one took
  #serving: Promise<void> | undefined
  #alarm: NodeJS.Timeout | undefined
  /** For whose deadline it is set. */
  #alarmAt = Number.POSITIVE_INFINITY
  /** The program and what drafts for it. */
  readonly #closing = new Closing()
  #isClosing = false
  #lost: Problem | undefined

  constructor(program: Program, options: EngineOptions) {
    const { manifest, limits } = program
    const { speculative } = options
    const sequences = Math.min(limits.sequences, options.limits.sequences.value)
    const room = speculative?.room ?? 0 // for drafts beside everything else
    const crosses = manifest.kv.groups.some(({ media }) => media)
    const groups = manifest.kv.groups.map((group, held) => ({
      blocks: limits.blocks[held]!,
      window: reachOf(group),
      held,
      isState: group.state !== undefined,
      isBehindMedia: crosses && !group.media,
    }))
    const { sinks } = manifest
    const memory = new Memory({
      groups,
      trail: trailBlocks(manifest, options.limits),
      spares: spareBlocks(sequences, room),
      sinks,
      recycled: options.recycledSequences ?? Number.POSITIVE_INFINITY,
    })
    const { context } = options.limits
    if (context.value > memory.room) {
      throw new Error(`internal: room for ${memory.room} tokens is none for ${context.value}`)
    }
    this.#program = program
    this.#options = options
    this.#context = context.value
    this.#now = options.now ?? (() => performance.now())
    this.#scheduler = new Scheduler(
      memory,
      {
        tokens: limits.tokens - room,
        rows: limits.rows - room,
        sequences,
        chunk: options.limits.chunk.value,
        whole: manifest.bidirectional,
        wholeImages: manifest.mutual,
      },
      options,
    )
    const { vocabulary, hidden } = manifest.shapes
    const given = givenColumns(manifest.shapes)
    const taken = takenColumns(manifest.shapes)
    const [sees, mutual] = [manifest.takes === "some", manifest.mutual ?? false]
    const adapts = manifest.adapters !== undefined
    const media = { sees, mutual, crosses, adapts }
    const shape = { limits, vocabulary, taken, groups, sinks, draws: true, ...media }
    this.#batch = new Batch(shape)
    this.#redrawing = new Redrawing(vocabulary)
    // Drafts are proposed behind tokens that are known.
    const drafts = (speculative?.mode ?? "disable") !== "disable"
    if (program.chains && !drafts) this.#other = new Batch(shape)
    this.#closing.add(program)
    if (speculative) {
      this.#speculation = new Speculation(speculative, { sequences, vocabulary }, memory, options)
      this.#closing.add(this.#speculation.drafter)
    }
    const parts = {
      scheduler: this.#scheduler,
      counts: this.#counts,
      now: this.#now,
      trace: options.trace,
    }
    this.#endings = new Endings(parts)
    const [endings, speculation] = [this.#endings, this.#speculation]
    this.#results = new Results({ ...parts, hidden, given, endings, speculation })
  }

  generate(request: GenerationRequest, signal?: AbortSignal): Generation {
    signal?.throwIfAborted()
    this.#check(request)
    const { requestTimeout = Number.POSITIVE_INFINITY } = this.#options
    const now = this.#now()
    const sequenceGroup = new SequenceGroup(
      request,
      this.#context,
      this.#arrivals++,
      now,
      requestTimeout,
    )
    for (let choice = 0; choice < request.choices; choice++) {
      sequenceGroup.live.push(this.#newSequence(sequenceGroup, choice))
    }
    const choices = sequenceGroup.live.map((sequence) => sequence.outbox)
    const abort = () => this.#stopAll(sequenceGroup)
    signal?.addEventListener("abort", abort, { once: true })
    sequenceGroup.onEnd = () => signal?.removeEventListener("abort", abort)
    this.#scheduler.add(sequenceGroup)
    if (sequenceGroup.deadline < this.#alarmAt) this.#setAlarm()
    this.#options.trace?.mark(request.id, "queued", {
      choices: request.choices,
      prompt: request.prompt.length,
      constrained: request.constraint ? 1 : 0,
    })
    this.#wake()
    return {
      promptTokens: request.prompt.length,
      get cachedTokens() {
        return sequenceGroup.cached
      },
      get queued() {
        return sequenceGroup.steppedAt === undefined
          ? undefined
          : sequenceGroup.steppedAt - sequenceGroup.arrivedAt
      },
      get scores() {
        return request.scorePrompt ? scoresOf(sequenceGroup) : undefined
      },
      choices,
    }
  }

  get answered(): Promise<void> {
    return this.#endings.first
  }

  stats(): EngineStats {
    const { memory, running, waiting, preemptions } = this.#scheduler
    const { mode = "disable" } = this.#options.speculative ?? {}
    const { drafted, accepted } = this.#speculation?.counts ?? { drafted: [], accepted: [] }
    return {
      running,
      waiting,
      blocksUsed: memory.used,
      blocks: memory.total,
      blocksRemembered: memory.remembered,
      cachedTokens: memory.cachedTokens,
      preemptions,
      ...this.#counts,
      forcedTokens: this.#speculation?.forced ?? 0,
      ...(mode !== "disable" && {
        drafts: { mode, drafted: [...drafted], accepted: [...accepted] },
      }),
    }
  }

  audit(): void {
    this.#scheduler.audit()
  }

  assertRoom(atLeast: number, field: string): void {
    if (atLeast > this.#context) throw this.#tooLong(`at least ${atLeast}`, this.#context, field)
  }

  async drain(): Promise<void> {
    this.#isClosing = true
    await this.#endings.idle()
  }

  async close(): Promise<void> {
    this.#isClosing = true
    for (const sequenceGroup of [...this.#scheduler.sequenceGroups]) {
      this.#stopAll(sequenceGroup, problem("server_closing", {}))
    }
    await this.#serving
    clearTimeout(this.#alarm)
    await this.#closing.close()
  }

  // one request

  /** A full queue refuses whoever is of the larger crowd: the newcomer, or the last of those who wait. */
  #check(request: GenerationRequest): void {
    const { prompt, media, field = "prompt", maxTokens, readHidden, client, choices } = request
    if (media && this.#program.manifest.takes !== "some")
      throw new Error("internal: rows of media for a model that takes none")
    if (media && this.#program.manifest.mutual) {
      if (media.promptKey === undefined) this.#checkImages(media, field)
      else this.#checkWhole(prompt.length, field)
    }
    if (this.#lost) throw this.#lost
    if (this.#isClosing) throw problem("server_closing", {})
    const tokens = prompt.length
    if (tokens === 0) {
      throw problem("invalid_value", { problem: `${field} must hold at least one token.` }, field)
    }
    const limit = this.#context - (maxTokens === 0 || readHidden ? 0 : 1)
    if (tokens > limit) throw this.#tooLong(tokens, limit, field)
    const waiting = this.#scheduler.waiting - this.#scheduler.places // the others join the next step
    if (media && !this.#mayHold(media))
      throw problem("queue_full", { waiting: this.#scheduler.waiting })
    if (waiting < this.#options.maxQueue) return
    const full = problem("queue_full", { waiting })
    const last = this.#scheduler.lastInQueue(client, choices)
    if (!last) throw full
    this.#stopAll(last, full)
  }

  /** Rows are held from here to the end of their request, whose text may be short: of those who wait, so many bytes at most. */
  #mayHold({ rows }: GenerationMedia): boolean {
    const held = this.#scheduler.sequenceGroups
      .filter(({ begun }) => !begun)
      .reduce((sum, { request }) => sum + (request.media?.rows.byteLength ?? 0), 0)
    return held === 0 || held + rows.byteLength <= MAX_WAITING_ROWS
  }

  /** Each must find room in a step beside everybody's next token. */
  #checkImages({ at, heard }: GenerationMedia, field: string): void {
    const room = this.#scheduler.roomForImage
    let run = 0
    for (let row = 0; row < at.length; row++) {
      if (heard?.[row]) run = 0
      else run = at[row] === (at[row - 1] ?? -1) + 1 ? run + 1 : 1
      if (run <= room) continue
      const words = `${field} has an image of more than ${room} tokens, which a step has no room for; start the server with a larger --overrides "prefill_chunk_size=…".`
      throw problem("invalid_value", { problem: words }, field)
    }
  }

  /** All of a prompt that is seen both ways must find room in a step, and its last token see the first one in every layer. */
  #checkWhole(tokens: number, field: string): void {
    const room = this.#scheduler.roomForImage
    const { groups } = this.#program.manifest.kv
    const window = Math.min(...groups.map(({ window = Number.POSITIVE_INFINITY }) => window))
    if (tokens <= Math.min(room, window)) return
    const why =
      window < room
        ? `${window} of which this model's layers look back over; ask in fewer words`
        : `${room} of which a step has room for; ask in fewer words, or start the server with a larger --overrides "prefill_chunk_size=…"`
    const words = `${field} and its images have ${tokens} tokens that all see each other, ${why}.`
    throw problem("invalid_value", { problem: words }, field)
  }

  #tooLong(tokens: number | string, limit: number, field: string): Problem {
    const room = limit < this.#context ? "A reply needs room as well. " : ""
    const cure = room + cures[this.#options.limits.context.bound]
    return problem("context_length_exceeded", { tokens, limit, cure }, field)
  }

  #newSequence(sequenceGroup: SequenceGroup, choice: number): Sequence {
    const outbox = new Outbox(
      () => {
        if (sequence.state === "waiting" && !sequence.isBehind) this.#wake()
      },
      () => this.#stop(sequence),
    )
    const { holdings } = this.#scheduler.memory
    const sequence = new Sequence(sequenceGroup, choice, outbox, holdings)
    return sequence
  }

  /** Ends a sequence from outside: its reader has gone, or is told why it is over. */
  #stop(sequence: Sequence, reason?: Problem): void {
    if (sequence.state === "leaving") return
    if (sequence.state === "ended") {
      const { sequenceGroup, choice, replyTokens, outbox } = sequence
      this.#options.trace?.mark(sequenceGroup.request.id, "left", {
        choice,
        unread: replyTokens - outbox.read,
      })
      return
    }
    if (reason) sequence.outbox.put({ kind: "end", reason: "error", problem: reason })
    else sequence.outbox.close()
    this.#isCalled = true
    if (!this.#step.includes(sequence)) {
      this.#endings.letGo(sequence)
      return
    }
    sequence.state = "leaving"
    if (!this.#step.some(isRunning)) Atomics.store(this.#cancel, 0, 1)
  }

  #stopAll(sequenceGroup: SequenceGroup, reason?: Problem): void {
    for (const sequence of [...sequenceGroup.live]) this.#stop(sequence, reason)
  }

  // the loop

  #wake(): void {
    this.#isCalled = true
    this.#serving ??= this.#serve()
  }

  /** Runs while anybody can go on. Between steps the event loop breathes, whatever the program does to it in them. */
  async #serve(): Promise<void> {
    try {
      for (;;) {
        await breathe()
        await this.#gather()
        this.#expire()
        const step = this.#choose()
        if (step.length === 0) {
          for (const ready of this.#scheduler.pending) void ready.then(() => this.#wake())
          this.#setAlarm()
          return
        }
        await this.#take(step)
        await this.#share()
      }
    } finally {
      this.#serving = undefined
    }
  }

  /** Who reads an image has a part of the time, as a prompt has of others' steps (pace.ts). */
  async #share(): Promise<void> {
    if (this.#options.beside?.isBusy) await sleep(timeBeside(this.#stepTime))
  }

  /** Masks are made while tokens are handed out, and for a moment more. */
  async #gather(): Promise<void> {
    const end = this.#now() + MASK_SHARE * this.#stepTime
    for (let turn = 0; this.#scheduler.pending.length > 0; turn++) {
      if (turn >= MASK_TURNS && this.#now() >= end) return
      await breathe()
    }
  }

  /** A mistake of ours must not end the loop: it costs those who are here, and the log tells of it. */
  #choose(): readonly Sequence[] {
    try {
      this.#isCalled = false
      return this.#scheduler.choose()
    } catch (error) {
      this.#options.log?.error({ err: error }, "no step could be chosen")
      for (const sequenceGroup of [...this.#scheduler.sequenceGroups])
        this.#stopAll(sequenceGroup, failure(error))
      return []
    }
  }

  #expire(): void {
    const now = this.#now()
    const seconds = (this.#options.requestTimeout ?? 0) / 1000
    for (const sequenceGroup of this.#scheduler.sequenceGroups.filter(
      ({ deadline }) => deadline <= now,
    )) {
      this.#stopAll(sequenceGroup, problem("request_timeout", { seconds }))
    }
  }

  /** Between steps the loop looks at the clock; in a long one, and while there are none, nobody else does. */
  #setAlarm(): void {
    clearTimeout(this.#alarm)
    this.#alarm = undefined
    const staying = this.#scheduler.sequenceGroups.filter(({ live }) => live.some(stays))
    this.#alarmAt = Math.min(...staying.map(({ deadline }) => deadline))
    if (this.#alarmAt === Number.POSITIVE_INFINITY) return
    const delay = Math.min(Math.ceil(this.#alarmAt - this.#now()), MAX_TIMER)
    this.#alarm = setTimeout(() => {
      this.#expire()
      this.#setAlarm()
      this.#wake()
    }, delay)
  }

  async #take(step: readonly Sequence[]): Promise<void> {
    const begun = this.#now()
    this.#step = step
    for (const { sequenceGroup } of step) sequenceGroup.steppedAt ??= begun
    Atomics.store(this.#cancel, 0, 0)
    let members = step
    try {
      await this.#copyBlocks(step)
      const able = (await this.#speculation?.propose(step, this.#cancel)) ?? step
      if (able.length === 0) return
      members = this.#withoutSuspects(able)
      this.#speculation?.begin()
      await this.#run(
        members.map((sequence) => this.#partOf(sequence)),
        begun,
      )
      for (const sequence of members) this.#suspects.delete(sequence)
    } catch (error) {
      if (error instanceof ProgramLost) this.#lose(error)
      else this.#blame(members, error)
    } finally {
      this.#step = []
      for (const sequence of step) {
        sequence.chunk = 0
        this.#speculation?.forget(sequence)
        if (sequence.state === "leaving") this.#endings.letGo(sequence)
      }
    }
  }

  /** A step, and those that are chained to it: each begins behind the one before it, whose tokens are handed out meanwhile. */
  async #run(first: readonly Part[], begun: number): Promise<void> {
    const { beside } = this.#options
    beside?.hold()
    let step = this.#begin(first, this.#batch)
    let next: RunningStep | undefined
    try {
      for (let since = begun; ; since = this.#now()) {
        next = this.#chain(step)
        const output = await step.output
        if (next) await breathe() // it has begun
        if (output.kind === "cancelled" && Atomics.load(this.#cancel, 0) === 0)
          throw new Error("it gave up unasked")
        this.#stepTime = this.#now() - since
        const isOver = step.parts.every(hasEnded)
        if (output.kind === "done" && !isOver) {
          this.#redrawing.redraw(step.parts, step.input, output)
          this.#results.handOut(step.parts, output, since)
        }
        // Who waits for a place or for blocks may come, which no chain lets anybody.
        if (step.parts.some(hasEnded) && this.#scheduler.hasWaiting) this.#isCalled = true
        if (!next) return
        if (!this.#step.some(isRunning)) Atomics.store(this.#cancel, 0, 1)
        await breathe() // for whoever reads what was handed out, and may leave
        this.#expire()
        step = next
      }
    } finally {
      await Promise.allSettled([step.output, next?.output])
      beside?.letGo()
    }
  }

  #begin(parts: readonly Part[], batch: Batch): RunningStep {
    const flat = batch.flatten(parts)
    const input = this.#redrawing.wants(parts) ? { ...flat, wantLogits: true } : flat
    return { parts, batch, input, output: this.#program.step(input, this.#cancel) }
  }

  /** Hands over the step behind one that runs, where all who run are in both: `riders.ts`. */
  #chain({ parts, batch }: RunningStep): RunningStep | undefined {
    if (!this.#other || this.#isCalled || parts.length !== this.#scheduler.running) return undefined
    const riders = ridersOf(parts, this.#scheduler)
    if (riders.length === 0) return undefined
    return this.#begin(riders, batch === this.#batch ? this.#other : this.#batch)
  }

  /** Nothing is tried again: no step would come to an end. */
  #lose({ message }: ProgramLost): void {
    const reason = problem("program_lost", { problem: message })
    this.#lost = reason
    this.#options.log?.error({ why: message }, "the program is lost")
    for (const { live } of [...this.#scheduler.sequenceGroups])
      for (const sequence of [...live]) this.#endings.fail(sequence, reason)
    this.#options.onLost?.(reason)
  }

  /** One suspect alone, as long as there are any in the step. */
  #withoutSuspects(able: readonly Sequence[]): readonly Sequence[] {
    const suspect = able.find((each) => this.#suspects.has(each))
    return suspect ? [suspect] : able
  }

  /** One bad member never fails the others of its step: they are tried one by one. */
  #blame(members: readonly Sequence[], error: unknown): void {
    const left = members.filter(({ state }) => state !== "ended")
    if (left.length <= 1) {
      this.#options.log?.error({ err: error }, "a step failed")
      for (const sequence of left) this.#endings.fail(sequence, failure(error))
      return
    }
    this.#options.log?.warn({ err: error }, "a step failed; its sequences are tried one by one")
    for (const sequence of left) this.#suspects.add(sequence)
  }

  /** Without its copies no sequence of the step can be tried again. */
  async #copyBlocks(step: readonly Sequence[]): Promise<void> {
    for (const [group, { from, to }] of this.#scheduler.memory.copies.entries()) {
      if (from.length === 0) continue
      const copies = [Int32Array.from(from), Int32Array.from(to)] as const
      try {
        await this.#program.copyBlocks(group, ...copies)
      } catch (error) {
        if (error instanceof ProgramLost) throw error
        for (const sequence of step) this.#endings.fail(sequence, failure(error))
        throw error
      }
      if (group === 0) await this.#speculation?.copyBlocks(...copies)
    }
  }

  #partOf(sequence: Sequence): Part {
    const { from, computed, chunk, drafts, rows, sequenceGroup } = sequence
    const { request, promptTokens } = sequenceGroup
    const end = computed + chunk + drafts.length
    const hidden = request.readHidden
      ? chunk
      : request.readGiven
        ? Math.max(0, end - Math.max(from, promptTokens))
        : (this.#speculation?.hiddenRows(sequence) ?? 0)
    return { sequence, from, end, rows, hidden }
  }
}

/** A step that was handed to the program. */
interface RunningStep {
  parts: readonly Part[]
  batch: Batch
  input: StepInput
  output: Promise<StepOutput>
}

const isRunning = ({ state }: Sequence) => state === "running"
const hasEnded = ({ sequence }: Part) => sequence.state === "ended"
const stays = ({ state }: Sequence) => state !== "leaving"

/** For whoever asks for more than a sequence may have, by what bound it. */
const cures = {
  model: "Shorten it; the model was made for no more.",
  memory:
    'Shorten it, or give the server more memory, a smaller --quantization or --overrides "kv_dtype=q8".',
  context_window_size:
    'Shorten it or start the server with a larger --overrides "context_window_size=…".',
  prefill_chunk_size:
    'Shorten it or start the server with a larger --overrides "prefill_chunk_size=…".',
  max_total_seq_length:
    'Shorten it or start the server with a larger --overrides "max_total_seq_length=…".',
} as const satisfies Record<Context["bound"], string>
