import { expect, test } from "vitest"
import { Problem } from "../errors.ts"
import { chooseDevice, deviceNames, findDevices } from "./devices.ts"

test("auto takes the processor, and says which it is", () => {
  const device = chooseDevice({ name: "auto", id: 0 }, ["cpu"])
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
  expect(() => chooseDevice(request, deviceNames)).toThrow(Problem)
  expect(() => chooseDevice(request, deviceNames)).toThrow(
    new RegExp(
      `^--device ${request.name}:${request.id} is not on this machine; found: .*cpu:0 \\(.+\\)\\.$`,
    ),
  )
})

test("a device that is here and that nothing runs on is refused, with those that something does", () => {
  expect(() => chooseDevice({ name: "cpu", id: 0 }, ["cuda", "vulkan"])).toThrow(
    "--device cpu:0 is here, but what was asked for runs on cuda, vulkan only",
  )
})
