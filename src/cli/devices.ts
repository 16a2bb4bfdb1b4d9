// `sinter devices`: the devices of this machine, their memory, what they can do, the targets that run on them, and why one
// cannot be used. A driver that hangs or crashes is a line of it.

import type { CheckLine } from "../compiler/targets/gpu/check.ts"
import { targetOf, targets, targetsOf } from "../compiler/targets/targets.ts"
import { type FoundDevice, findDevices } from "../runtime/devices.ts"
import type { Features, Obstacle } from "../runtime/drivers/driver.ts"
import type { devicesOptions } from "./options.ts"
import type { Values } from "./read-options.ts"
import { table } from "./table.ts"

/** What --json prints. */
interface Report {
  devices: DeviceReport[]
  /** Kinds of devices of which none is here, or not all can be seen. */
  missing: ({ kind: string } & Obstacle)[]
}

interface DeviceReport {
  /** As --device takes it. */
  device: string
  name: string
  type: string
  driver: string | null
  memory: FoundDevice["memory"]
  features: Features
  targets: { target: string; makes: string | null; lacks: string | null }[]
  /** None: it can be used. */
  obstacles: Obstacle[]
  /** With --check, of GPUs. */
  checked?: readonly CheckLine[]
}

export async function devices(options: Values<typeof devicesOptions>): Promise<void> {
  const report = await reportDevices(options["--driver-timeout"] * 1000)
  if (options["--check"]) await check(report, options["--driver-timeout"] * 1000)
  const text = options["--json"] ? JSON.stringify(report, undefined, 2) : printed(report)
  await new Promise((resolve) => process.stdout.write(`${text}\n`, resolve))
  process.exit() // a driver may wait inside the kernel, where no signal reaches it, and would be waited for
}

/** One device after the other: several drivers may lead to the same one. */
async function check({ devices }: Report, milliseconds: number): Promise<void> {
  for (const each of devices.filter(({ obstacles }) => obstacles.length === 0))
    for (const { target } of each.targets) {
      const id = Number(each.device.split(":")[1])
      const lines = await targetOf(target)!.check?.(id, milliseconds)
      if (lines) each.checked = lines
    }
}

async function reportDevices(milliseconds: number): Promise<Report> {
  const surveys = await findDevices(milliseconds)
  const reports = await Promise.all(
    surveys.flatMap((survey) => survey.devices.map((device) => reportOf(device))),
  )
  const usable = reports.filter(({ obstacles }) => obstacles.length === 0)
  return {
    devices: [...usable, ...reports.filter((each) => !usable.includes(each))],
    missing: surveys.flatMap(({ name, obstacles }) =>
      obstacles.map((obstacle) => ({ kind: name, ...obstacle })),
    ),
  }
}

async function reportOf(device: FoundDevice): Promise<DeviceReport> {
  const { name, id, description, type, driver, memory, features, obstacle } = device
  return {
    device: `${name}:${id}`,
    name: description,
    type,
    driver: driver ?? null,
    memory,
    features,
    targets: await Promise.all(
      targetsOf(name).map(async (target) => {
        const lack = await targets[target].lacks()
        const lacks = lack ? `${lack.problem}; ${lack.cure}` : null
        return { target, makes: lack ? null : await targets[target].makes(), lacks }
      }),
    ),
    obstacles: obstacle ? [obstacle] : [],
  }
}

function printed({ devices, missing }: Report): string {
  const parts = [
    ...devices.map((device) => ({ title: device.device, lines: linesOf(device) })),
    ...missing.map(({ kind, problem }) => ({ title: kind, lines: [problem] })),
  ]
  const width = Math.max(...parts.map(({ title }) => title.length)) + 2
  return parts
    .flatMap(({ title, lines }) => lines.map((line, i) => (i ? "" : title).padEnd(width) + line))
    .join("\n")
}

function linesOf({
  name,
  type,
  driver,
  memory,
  features,
  targets,
  obstacles,
  checked,
}: DeviceReport) {
  const isProcessor = driver === null
  const { total, available, shared } = memory
  const free = available === undefined ? size(total) : `${size(available)} of ${size(total)} free`
  const cannot = Object.keys(features).filter((name) => features[name] === false)
  return [
    isProcessor ? name : `${name}, ${titles[type as keyof typeof titles]}`,
    ...(driver === null ? [] : [`driver   ${driver}`]),
    `memory   ${free}${shared && !isProcessor ? ", shared with the processor" : ""}`,
    `can      ${abilities(features)}`,
    ...(cannot.length > 0 ? [`cannot   ${cannot.map(words).join(", ")}`] : []),
    ...targets.map(
      ({ target, makes, lacks }, i) =>
        `${i ? "      " : "runs  "}   ${target} (${makes ?? `not here: ${lacks}`})`,
    ),
    ...obstacles.map(({ problem }) => `unused   ${problem}`),
    ...(checked ? checkTable(checked) : []),
  ]
}

function checkTable(lines: readonly CheckLine[]): string[] {
  const rows = lines.map(({ kernel, shapes, equal, result, words }) => [
    kernel,
    result === "refused" ? "refused" : `${equal} of ${shapes} equal`,
    words,
  ])
  const text = table([["kernel", "shapes", ""], ...rows])
  return text.split("\n").map((line, i) => `${i ? "       " : "checked"}  ${line}`.trimEnd())
}

const titles = {
  gpu: "a GPU",
  integrated_gpu: "a GPU in the processor",
  virtual_gpu: "a virtual GPU",
  processor: "a processor",
  accelerator: "an accelerator",
} as const satisfies Record<FoundDevice["type"], string>

/** A processor lists a hundred instructions, of which kernels know these. */
const OF_KERNELS = /^(avx|amx|fma$|f16c$|asimd|sve|i8mm|bf16|fphp)/

function abilities(features: Features): string {
  return Object.entries(features)
    .flatMap(([name, value]) => {
      if (value === false) return []
      if (value === true) return [words(name)]
      if (typeof value === "object") return value.filter((each) => OF_KERNELS.test(each))
      const isSize = typeof value === "number" && name.endsWith("_bytes")
      return [`${words(name)} ${isSize ? size(value) : value}`]
    })
    .join(", ")
}

/** Sizes are printed with their unit. */
const words = (name: string) => name.replace(/_bytes$/, "").replaceAll("_", " ")

const units = ["B", "KiB", "MiB", "GiB"]

function size(bytes: number): string {
  const power = Math.min(3, Math.floor(Math.log2(Math.max(1, bytes)) / 10))
  return `${Number((bytes / 1024 ** power).toFixed(1))} ${units[power]}`
}
