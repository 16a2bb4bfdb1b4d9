import { expect, test } from "vitest"
import { OpenDevices } from "./open-device.ts"

/** Devices that write down what becomes of them. */
function planted() {
  const events: string[] = []
  const devices = new OpenDevices<{ name: string; close(): Promise<void> }>()
  const opener = (name: string) => async () => {
    events.push(`open ${name}`)
    await Promise.resolve()
    return {
      name,
      close: async () => {
        events.push(`close ${name}`)
      },
    }
  }
  return { events, devices, opener }
}

test("a device is opened by the first, lent to all, and closed with the last", async () => {
  const { events, devices, opener } = planted()
  const loans = await Promise.all(
    ["a", "b", "c"].map((name) => devices.borrow(0, opener(name))), // before it is open
  )
  loans.push(await devices.borrow(0, opener("d")))
  expect(loans.map(({ device }) => device.name)).toEqual(["a", "a", "a", "a"])
  for (const loan of loans.slice(1)) await loan.giveBack()
  expect(events).toEqual(["open a"])
  await loans[0]!.giveBack()
  expect(events).toEqual(["open a", "close a"])
})

test("a loan that is given back twice counts once", async () => {
  const { events, devices, opener } = planted()
  const [first] = [await devices.borrow(0, opener("a")), await devices.borrow(0, opener("b"))]
  await first.giveBack()
  await first.giveBack()
  expect(events).toEqual(["open a"])
})

test("a closed device is opened anew, and another number is another device", async () => {
  const { events, devices, opener } = planted()
  const first = await devices.borrow(0, opener("a"))
  const other = await devices.borrow(1, opener("b"))
  const closing = first.giveBack()
  const next = await devices.borrow(0, opener("c")) // while the first closes
  await closing
  expect([other.device.name, next.device.name]).toEqual(["b", "c"])
  await other.giveBack()
  await next.giveBack()
  expect(events).toEqual(["open a", "open b", "close a", "open c", "close b", "close c"])
})

test("what cannot be opened is lent to nobody, and tried again by the next", async () => {
  const { events, devices, opener } = planted()
  const refuse = async () => {
    throw new Error("no")
  }
  const both = [devices.borrow(0, refuse), devices.borrow(0, opener("a"))]
  for (const each of both) await expect(each).rejects.toThrow("no")
  await devices.borrow(0, opener("b"))
  expect(events).toEqual(["open b"])
})
