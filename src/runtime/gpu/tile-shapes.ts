// Which tiles matrix units multiply that do not say how a tile lies with their threads.

/**
 * Tiles that a subgroup multiplies, and how they lie is its device's to say: rows of the first by columns of the second, and how
 * many numbers each of those has. Every thread holds eight elements of a product on Vulkan, so the subgroup has an eighth as many
 * threads as there are elements; on Metal 32 hold two each.
 */
export type TileShape = (typeof tileShapes)[number]

/** Those that kernels are written for: of Intel's, AMD's and NVIDIA's GPUs, of Mesa's processor, and of Apple's GPUs. */
export const tileShapes = [
  "bytes16x16x32",
  "bytes16x16x16",
  "bytes8x16x32",
  "bytes8x8x32",
  "bytes8x8x8",
  "halves16x16x16",
  "halves8x8x8",
] as const
