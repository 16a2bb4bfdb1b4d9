import { getPriority, platform } from "node:os"
import { describe, expect, onTestFinished, test, vi } from "vitest"
import type { Opening, Order } from "./planted.ts"
import type { Ending, WorkerOptions } from "./protocol.ts"
import { Worker } from "./worker.ts"

const HOSTS = ["thread", "process"] as const

function started(options: Partial<WorkerOptions> & { opening?: Opening }): Worker<Order, unknown> {
  const worker = new Worker<Order, unknown>({
    name: "planted worker",
    file: new URL("planted", import.meta.url),
    host: "thread",
    afterLoss: "resume",
    opening: {},
    ...options,
  })
  onTestFinished(() => worker.close())
  return worker
}

describe.each(HOSTS)("in a %s", (host) => {
  test("orders are answered in order, and each by its own answer", async () => {
    const worker = started({ host })
    const done: unknown[] = []
    const asked = [1, new Int32Array([2]), { three: "³" }].map((say) =>
      worker.ask({ say }).then((answer) => done.push(answer)),
    )
    worker.tell("told")
    await Promise.all(asked)
    expect(done).toEqual([[1], [new Int32Array([2])], [{ three: "³" }]])
    expect(await worker.ask({ say: 4 })).toEqual([4, "told"])
    await expect(worker.ask({ fail: "in its own words" })).rejects.toThrow(/^in its own words$/)
    expect(worker.losses).toBe(0)
  })

  test("what nobody catches costs the order that was worked on", async () => {
    const worker = started({ host })
    const orders: Order[] = [{ say: 1 }, { later: "uncaught" }, { say: 2 }]
    const [before, culprit, after] = await Promise.allSettled(
      orders.map((each) => worker.ask(each)),
    )
    expect(before).toMatchObject({ value: [1] })
    expect(culprit).toMatchObject({
      reason: { code: "worker_failed", status: 500, reason: "ended", isInnocent: false },
    })
    expect(after).toMatchObject({ value: [2] })
    expect(worker.losses).toBe(1)
  })

  test("one that ends by itself is replaced, with its opening", async () => {
    const worker = started({ host })
    const first = await worker.open({})
    await expect(worker.ask("exit")).rejects.toMatchObject({ reason: "ended" })
    expect(await worker.ask({ say: 1 })).toEqual([1])
    expect(worker.losses).toBe(1)
    if (host === "process") expect(first).not.toBe(process.pid)
  })

  // The answer and the end that follows it arrive in any order; neither may be taken for the other, or for a later one's.
  test("the end of one that has just answered costs one order behind it at most", async () => {
    const worker = started({ host })
    for (let round = 0; round < 4; round++) {
      const orders: Order[] = ["answer and throw", { say: 1 }, { say: 2 }]
      const answers = await Promise.allSettled(orders.map((each) => worker.ask(each)))
      expect(answers.filter(({ status }) => status === "rejected").length).toBeLessThan(2)
      const values = answers.map((each) => ("value" in each ? each.value : undefined))
      for (const [i, own] of ["answered", [1], [2]].entries())
        expect([own, undefined]).toContainEqual(values[i])
      await vi.waitFor(() => expect(worker.losses).toBe(round + 1), 60_000)
    }
    expect(await worker.ask({ say: 3 })).toEqual([3])
  })

  test("one that hangs is given up after its time, and the others go on", async () => {
    const worker = started({ host, milliseconds: 1000 })
    const asked = [worker.ask("hang"), worker.ask({ say: 1 })]
    await expect(asked[0]).rejects.toMatchObject({ reason: "time" })
    expect(await asked[1]).toEqual([1])
  })

  test("one that takes too much memory is given up, and the others go on", async () => {
    const worker = started({ host, megabytes: host === "thread" ? 16 : 128 })
    const asked = [worker.ask("eat"), worker.ask({ say: 1 })]
    await expect(asked[0]).rejects.toMatchObject({
      reason: "memory",
      message: expect.stringMatching(
        /planted worker failed .* it took more than \d+ MiB of memory/,
      ),
    })
    expect(await asked[1]).toEqual([1])
  })

  test("an order that nobody waits for any more is given up soon", async () => {
    const ends: string[] = []
    const onLoss = ({ why }: Ending) => void ends.push(why)
    const worker = started({ host, milliseconds: 3_600_000, unwantedMilliseconds: 10, onLoss })
    const leaving = new AbortController()
    const hanging = worker.ask("hang", { signal: leaving.signal })
    const next = worker.ask({ say: 1 })
    leaving.abort(new Error("gone"))
    await expect(hanging).rejects.toThrow("gone")
    expect(await next).toEqual([1])
    expect(ends).toEqual(["it went on with an order whose asker had left"])
  })

  const isWhole = host === "thread" && platform() !== "linux"
  test.skipIf(isWhole)(
    `it stands back behind this process as far as it is told${isWhole ? " (skipped: priorities of threads are Linux's)" : ""}`,
    async () => {
      const own = getPriority()
      const nice = Math.min(own + 3, 19)
      expect(await started({ host, nice }).ask("tell how nice you are")).toBe(nice)
      expect(await started({ host }).ask("tell how nice you are")).toBe(own)
      expect(getPriority()).toBe(own)
    },
  )

  test("what cannot be opened says why, and so does one that dies over it", async () => {
    const broken = started({ host, opening: { isBroken: true } })
    await expect(broken.ask({ say: 1 })).rejects.toThrow(/^it cannot be opened$/)
    await expect(broken.open({ dies: true })).rejects.toThrow(
      /^it cannot be opened$|ended by itself/,
    )
    const dying = started({ host, opening: { dies: true } })
    const asked = [1, 2].map((say) => dying.ask({ say }))
    for (const each of asked) await expect(each).rejects.toMatchObject({ reason: "ended" })
    expect(dying.losses).toBe(1)
    expect(await dying.open({})).toEqual(expect.any(Number))
    expect(await dying.ask({ say: 3 })).toEqual([3])
  })

  test("closed, it answers nobody", async () => {
    const worker = started({ host })
    const asked = [worker.ask("hang"), worker.ask({ say: 1 })]
    const refused = asked.map((each) =>
      expect(each).rejects.toMatchObject({ code: "server_closing" }),
    )
    await worker.close()
    await Promise.all(refused)
    await expect(worker.ask({ say: 1 })).rejects.toMatchObject({ code: "server_closing" })
  })
})

test("a killed process costs the order that it was working on", async () => {
  const worker = started({ host: "process" })
  const pid = (await worker.open({})) as number
  const asked = [worker.ask("wait"), worker.ask({ say: 1 })]
  process.kill(pid, "SIGKILL")
  await expect(asked[0]).rejects.toMatchObject({ reason: "ended" })
  expect(await asked[1]).toEqual([1])
})

test("of several at once it is found out which one kills", async () => {
  const worker = started({ host: "process", isParallel: true, milliseconds: 2000 })
  const orders: Order[] = ["wait", "die", { say: 1 }]
  const [waiting, culprit, after] = await Promise.allSettled(orders.map((each) => worker.ask(each)))
  expect(waiting).toMatchObject({ reason: { reason: "time" } })
  expect(culprit).toMatchObject({ reason: { reason: "ended", isInnocent: false } })
  expect(after).toMatchObject({ value: [1] })
})

test("orders that build on what was lost are told so; a worker that cannot be replaced stays lost", async () => {
  const reset = started({ afterLoss: "reset" })
  const asked = [reset.ask("exit"), reset.ask({ say: 1 })]
  await expect(asked[0]).rejects.toMatchObject({ isInnocent: false })
  await expect(asked[1]).rejects.toMatchObject({ isInnocent: true })
  expect(await reset.ask({ say: 2 })).toEqual([2])

  const ends = started({ afterLoss: "end" })
  const last = [ends.ask("exit"), ends.ask({ say: 1 })]
  for (const each of last) await expect(each).rejects.toMatchObject({ isInnocent: false })
  await expect(ends.ask({ say: 2 })).rejects.toMatchObject({ reason: "ended" })
})
