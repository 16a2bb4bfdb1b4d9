// The models of a server. All are prepared once before the port opens, so that what is wrong with one is said at the start; as many
// as may be loaded at once are loaded then, and the others when a request names them (residents.ts). Each has an equal part of the
// memory that was free at the start, so that what it answers does not depend on what else is loaded.

import { type Closing, openWhole } from "../closing.ts"
import { Problem, problem } from "../errors.ts"
import type { ModelCard, ServedModel } from "../http/service.ts"
import type { Log } from "../log.ts"
import { adapterCard, cardOf } from "./card.ts"
import { appDefaults } from "./defaults.ts"
import { draftingOfEach } from "./drafting.ts"
import { type LoadedModel, loadModel, type Surroundings } from "./loaded-model.ts"
import { type ModelOptions, timeoutOf } from "./options.ts"
import { type PreparedModel, prepareModel } from "./prepared-model.ts"
import { type Prepared, Residents, type Source } from "./residents.ts"

export interface ModelsOptions extends Omit<ModelOptions, "model"> {
  /** Paths and names; each is one model. */
  models: readonly string[]
  /** How many may be loaded at once; absent: all. */
  maxLoaded?: number | undefined
  /** Milliseconds without a request after which a model is unloaded; absent: it stays until another needs its place. */
  idleUnload?: number | undefined
  log: Log
}

export interface Models {
  served: readonly ServedModel[]
  /** Resolves with those that are loaded at the start. */
  loaded: Promise<readonly LoadedModel[]>
  close(): Promise<void>
}

/** @throws the start-up problems: a model, a device, limits that cannot be had. */
export function openModels(options: ModelsOptions, surroundings: Surroundings): Promise<Models> {
  const { models, maxLoaded = models.length, idleUnload, log } = options
  const isAlone = models.length === 1 && idleUnload === undefined
  const sharers = Math.min(maxLoaded, models.length)
  return openWhole(async (closing) => {
    const seats: Seat[] = []
    const drafting = draftingOfEach(options.drafting ?? appDefaults.drafting, models)
    for (const [at, model] of models.entries()) {
      const place = { sharers, isFirst: seats.length < sharers, isAlone, closing }
      seats.push(
        await prepareSeat({ ...options, model, drafting: drafting[at]! }, place, surroundings),
      )
    }
    const residents = closing.add(
      new Residents(
        seats.map(({ source }) => source),
        {
          most: sharers,
          idle: idleUnload,
          maxWaiting: options.maxQueue ?? appDefaults.maxQueue,
          onError: (error) => log.error({ err: error }, "a model was not unloaded cleanly"),
        },
      ),
    )
    const places = seats.flatMap(({ cards }, index) => cards.map((_, at) => ({ index, at })))
    const cards = withOwnNames(seats.flatMap(({ cards }) => cards))
    const loaded = first(residents, sharers)
    loaded.catch(() => {}) // whoever waits for it is told; nobody has to
    return {
      served: cards.map((card, i) => servedModel(card, places[i]!, residents, options)),
      loaded,
      close: () => closing.close(),
    }
  })
}

interface Seat {
  /** The model's own, then those of the adapters that requests choose. */
  cards: readonly ModelCard[]
  source: Source<LoadedModel>
}

interface Seating {
  sharers: number
  /** Whether it is loaded at once: what was prepared is used, and closed at the end if it comes to nothing. */
  isFirst: boolean
  /** Whether it is loaded as long as the server runs. */
  isAlone: boolean
  closing: Closing
}

async function prepareSeat(
  options: ModelOptions,
  { sharers, isFirst, isAlone, closing }: Seating,
  surroundings: Surroundings,
): Promise<Seat> {
  const prepared = await prepareModel(options, { sharers }).catch((error) => {
    throw sharers > 1 ? amongOthers(error, options.model, sharers) : error
  })
  const { log } = prepared.settings
  const level = isAlone ? "debug" : "info"
  const card = cardOf(prepared, Math.floor(surroundings.now.getTime() / 1000))
  const { place } = prepared
  let kept: PreparedModel | undefined
  if (isFirst) kept = closing.add(prepared)
  else await prepared.close()
  const source = {
    prepare: async () => {
      const again = kept ?? (await prepareModel(options, place))
      kept = undefined
      return opening(again, surroundings, (what) => log[level]({ model: card.names[0] }, what))
    },
  }
  const adapters = prepared.summary.choices.map(({ name }) => adapterCard(card, name))
  return { cards: [card, ...adapters], source }
}

/** @param say tells in the log what has become of it */
function opening(
  prepared: PreparedModel,
  surroundings: Surroundings,
  say: (what: string) => void,
): Prepared<LoadedModel> {
  return {
    open: async (signal) => {
      const loading = loadModel(prepared, surroundings)
      const giveUp = () => void loading.close()
      signal.addEventListener("abort", giveUp)
      const model = await loading.loaded.finally(() => signal.removeEventListener("abort", giveUp))
      say("loaded")
      const close = async () => {
        await loading.close()
        await prepared.close()
        say("unloaded")
      }
      return { ...model, close }
    },
    close: () => prepared.close(),
  }
}

/** A model that does not fit into its part might have fit alone. */
function amongOthers(error: unknown, model: string, sharers: number): unknown {
  if (!(error instanceof Problem) || error.code !== "memory_short") return error
  const { cure, ...values } = error.values
  const more = `${model} has an equal part of the memory, as ${sharers} models may be loaded at once; --max-loaded lowers that.`
  return problem(error.code, { ...values, cure: `${cure} ${more}` })
}

/** A name means one model: of those that are called alike, the first. */
function withOwnNames(cards: readonly ModelCard[]): ModelCard[] {
  const taken = new Set<string>()
  return cards.map((card) => {
    const names = card.names.filter((name) => !taken.has(name))
    if (names.length === 0)
      throw problem("option_invalid", {
        option: card.parent === undefined ? "MODEL" : "--lora-modules",
        problem: `${card.names[0]} is ${card.parent === undefined ? "given twice; give it once" : "the name of two; give another"}.`,
      })
    for (const name of names) taken.add(name)
    return { ...card, names }
  })
}

async function first(
  residents: Residents<LoadedModel>,
  count: number,
): Promise<readonly LoadedModel[]> {
  const leases = await Promise.all(Array.from({ length: count }, (_, at) => residents.lease(at)))
  for (const { release } of leases) release()
  return leases.map(({ value }) => value)
}

/** @param place which of the residents, and which of its services */
function servedModel(
  card: ModelCard,
  { index, at }: { index: number; at: number },
  residents: Residents<LoadedModel>,
  { log, ...options }: ModelsOptions,
): ServedModel {
  const requestTimeout = timeoutOf(options)
  return {
    card,
    get loaded() {
      return residents.at(index)?.services[at]
    },
    get unloadsAt() {
      return residents.endOf(index)
    },
    lease: async (signal) => {
      const waiting = requestTimeout ? AbortSignal.timeout(requestTimeout) : undefined
      const either = waiting ? AbortSignal.any([signal, waiting]) : signal
      try {
        const { value, release } = await residents.lease(index, either)
        return { service: value.services[at]!, release }
      } catch (error) {
        if (signal.aborted || (error instanceof Problem && error.status > 0)) throw error
        if (waiting?.aborted) throw problem("request_timeout", { seconds: requestTimeout! / 1000 })
        log.error({ err: error, model: card.names[0] }, "cannot be loaded")
        throw problem("model_unavailable", { model: card.names[0]! })
      }
    },
  }
}
