// Which tiles a device of Vulkan multiplies (VK_KHR_cooperative_matrix), of those that kernels are written for, and whether it can
// be told how many threads a subgroup has, which they count on.

import { functionAt, type Pointer } from "../ffi.ts"
import { type TileShape, tileShapes } from "../gpu/tile-shapes.ts"
import { FEATURES, features12Of, structure } from "../gpu/vulkan-structs.ts"
import { Structure } from "./structure.ts"
import type { InstanceFunctions } from "./vulkan-calls.ts"

/** What a device must name to be asked for tiles, in this order. */
export const TILE_EXTENSIONS = [
  "VK_KHR_cooperative_matrix",
  "VK_EXT_subgroup_size_control",
] as const

const PROPERTY_BYTES = 56
const COMPUTE_STAGE = 0x20
/** VkScopeKHR */
const SUBGROUP = 3

/** VkComponentTypeKHR of what is multiplied, and of sums. */
const components = {
  bytes: { number: 3, sum: 5 },
  halves: { number: 0, sum: 1 },
} as const

/** Rows, columns and depth of a shape, and of what. */
function partsOf(shape: TileShape) {
  const [, kind, ...sizes] = /^(bytes|halves)(\d+)x(\d+)x(\d+)$/.exec(shape)!
  const [rows, columns, depth] = sizes.map(Number) as [number, number, number]
  return { kind: kind as keyof typeof components, rows, columns, depth }
}

/** Every thread of a subgroup holds eight elements of a product. */
export function subgroupFor(shape: TileShape): number {
  const { rows, columns } = partsOf(shape)
  return (rows * columns) / 8
}

/** @returns none where it lacks what all of them take */
export function findTiles(
  vulkan: InstanceFunctions,
  instance: Pointer,
  physical: Pointer,
  extensions: ReadonlySet<string>,
): readonly TileShape[] {
  if (!TILE_EXTENSIONS.every((name) => extensions.has(name))) return []
  const subgroups = structure("subgroupSizeFeatures")
  const matrices = structure("matrixFeatures", subgroups)
  const features12 = structure("features12", matrices)
  vulkan.features(physical, structure("features", features12).bytes)
  const isOn = (of: Structure, feature: number) => of.word(FEATURES + 4 * feature) === 1
  const sizes = structure("subgroupSizes")
  vulkan.properties(physical, structure("properties", sizes).bytes)
  const subgroup = { least: sizes.word(16), most: sizes.word(20) }
  const has =
    isOn(subgroups, 0) &&
    isOn(subgroups, 1) &&
    isOn(matrices, 0) &&
    isOn(features12, features12Of.memoryModel) &&
    (sizes.word(28) & COMPUTE_STAGE) !== 0
  if (!has) return []
  const numbers = {
    bytes: isOn(features12, features12Of.int8),
    halves: isOn(features12, features12Of.float16),
  }
  const offered = productsOf(vulkan, instance, physical)
  return tileShapes.filter((shape) => {
    const threads = subgroupFor(shape)
    const isTaken = threads >= subgroup.least && threads <= subgroup.most
    return isTaken && numbers[partsOf(shape).kind] && offered.has(shape)
  })
}

function productsOf(vulkan: InstanceFunctions, instance: Pointer, physical: Pointer): Set<string> {
  const address = vulkan.find(instance, "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR")
  if (!address) return new Set()
  const { call } = functionAt(BigInt(address), "int32_t (void *device, void *count, void *list)")
  const count = new Uint32Array(1)
  if (Number(call(physical, count, null)) !== 0) return new Set()
  const list = new Structure(PROPERTY_BYTES * count[0]!)
  for (let i = 0; i < count[0]!; i++) list.setWord(PROPERTY_BYTES * i, MATRIX_PROPERTIES)
  if (Number(call(physical, count, list.bytes)) !== 0) return new Set()
  const shapes = Array.from({ length: count[0]! }, (_, i) => {
    const word = (at: number) => list.word(PROPERTY_BYTES * i + at)
    const [rows, columns, depth, a, b, c, result, saturates, scope] = Array.from(
      { length: 9 },
      (_, field) => word(16 + 4 * field),
    )
    const kind = Object.entries(components).find(
      ([, { number, sum }]) => a === number && b === number && c === sum && result === sum,
    )
    if (!kind || saturates !== 0 || scope !== SUBGROUP) return []
    return [`${kind[0]}${rows}x${columns}x${depth}`]
  })
  return new Set(shapes.flat())
}

/** VkStructureType of VkCooperativeMatrixPropertiesKHR. */
const MATRIX_PROPERTIES = 1000506001
