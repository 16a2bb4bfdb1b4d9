import { expect, test } from "vitest"
import { Problem } from "../errors.ts"
import { chooseDevice, findDevices } from "./devices.ts"

test("auto takes the processor, and says which it is", () => {
  const device = chooseDevice({ name: "auto", id: 0 })
  expect(device).toMatchObject({ name: "cpu", id: 0 })
  expect(device.description).toMatch(/, \d+ threads?$/)
})

test("a processor is always here, once", () => {
  expect(findDevices().filter(({ name }) => name === "cpu")).toHaveLength(1)
})

test.each([
  { name: "cuda", id: 63 },
  { name: "cpu", id: 1 },
  { name: "auto", id: 7 },
] as const)("$name:$id is not here: an error names it and what was found", (request) => {
  expect(() => chooseDevice(request)).toThrow(Problem)
  expect(() => chooseDevice(request)).toThrow(
    new RegExp(
      `^--device ${request.name}:${request.id} is not on this machine; found: .*cpu:0 \\(.+\\)\\.$`,
    ),
  )
})
