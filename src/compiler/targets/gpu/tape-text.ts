// A tape for people: a line for each launch of a kernel, under the plan's lines that it stands for.

import type { TapeGroups, TapeLaunch, TapeOperand } from "../../../runtime/gpu/tape.ts"
import type { Unprinted } from "./tape-of.ts"

export function tapeText({ tape, kernels }: Unprinted): string {
  const operand = (operand: TapeOperand): string => {
    if (typeof operand === "number") return String(operand)
    if ("place" in operand)
      return `${tape.places[operand.place]!.name}${operand.at ? `+${operand.at}` : ""}`
    if ("region" in operand) {
      const { name, ...of } = tape.regions[operand.region]!
      return [name, ...Object.values(of).filter((each) => typeof each !== "object")].join(".")
    }
    return "given" in operand ? operand.given : operand.number
  }
  const line = ({ kernel, operands, groups }: TapeLaunch) =>
    `    ${kernels[kernel]!.name} [${groups.map(groupsText).join(", ")}] ${operands.map(operand).join(", ")}`
  return tape.steps
    .flatMap(({ text, rows, only, choices }) => [
      ...(only === undefined ? [] : [`  of ${only}:`]),
      ...text.map((each) => each.trimEnd()),
      ...choices.flatMap(({ most, repeats, launches }) => [
        ...(most === undefined ? [] : [`  up to ${most} ${rows}`]),
        ...(repeats === undefined ? [] : [`  for each of ${repeats}`]),
        ...launches.map(line),
      ]),
    ])
    .join("\n")
}

function groupsText(groups: TapeGroups): string {
  if (typeof groups === "number") return String(groups)
  const what = "rows" in groups ? groups.rows : "count" in groups ? groups.count : groups.number
  return groups.per === 1 ? what : `${what} / ${groups.per}`
}
