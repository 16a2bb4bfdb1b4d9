// Kernels as Metal's shading language, which is C++14 with words for where memory lies. Operands are bound one by one, a word as a
// constant; where a thread stands it is told by parameters before them. The text is to be built without fast mathematics: then
// quotients, roots and fma are rounded correctly (Metal Shading Language Specification, 8), and the pragmas keep products and
// sums apart. It has no doubles, and nothing here wants any.

import type { Need } from "../../../../runtime/gpu/tape.ts"
import type { Kernel } from "../ir/ir.ts"
import { type Dialect, lookUpByBits, lookUpNames, type PrintedProgram, printProgram } from "./c.ts"

/** Metal has places for so many buffers, and words take one each as well. */
const MOST_OPERANDS = 31

/** What devices have, the best first: Apple's own from the A14 and the M1 on multiply tiles of halves. */
export const metalProfiles: readonly (readonly Need[])[] = [["halves8x8x8"], []]

export function printMetal(kernels: readonly Kernel[]): PrintedProgram {
  for (const { name, operands } of kernels)
    if (operands.length > MOST_OPERANDS)
      throw new Error(`internal: ${name} has ${operands.length} operands`)
  return printProgram(kernels, dialect)
}

const opening = `#pragma METAL fp contract(off)
#pragma clang fp contract(off)
#include <metal_stdlib>
using namespace metal;

// What these do with what is no number is not left open.
template <class Number> inline Number least(Number a, Number b) { return b < a ? b : a; }
template <class Number> inline Number most(Number a, Number b) { return a < b ? b : a; }
${["device", "threadgroup"]
  .flatMap((space) =>
    ["uint", "int"].map(
      (type) => `inline void add_to(${space} ${type} &place, ${type} value) {
  atomic_fetch_add_explicit((${space} atomic_${type} *)&place, value, memory_order_relaxed);
}`,
    ),
  )
  .join("\n")}`

const dot4 = `inline int dot4(uint a, uint b, int c) {
  const int sum = (char)a * (char)b + (char)(a >> 8) * (char)(b >> 8) +
      (char)(a >> 16) * (char)(b >> 16) + (char)(a >> 24) * (char)(b >> 24);
  return (int)((uint)sum + (uint)c);
}`

/**
 * What a thread has of tiles of 16 by 16, which are four of the 8 by 8 that Metal multiplies. Where its two elements of such a one
 * lie, Metal leaves open: whoever wants to know reads a tile of numbers that say it (`tile_elements`). Sums are floats, and exact.
 */
const tiles = `struct Sums { int of[8]; };
struct Elements { float of[8]; };
inline Sums tile_dot(threadgroup const half *a, ulong a_stride, threadgroup const half *b, ulong b_stride, uint depth) {
  simdgroup_float8x8 sums[4];
  for (uint i = 0; i < 4; i++) sums[i] = make_filled_simdgroup_matrix<float, 8, 8>(0.0f);
  for (uint k = 0; k < depth; k += 8) {
    simdgroup_half8x8 rows[2], columns[2];
    for (uint i = 0; i < 2; i++) {
      simdgroup_load(rows[i], a + 8 * i * a_stride + k, a_stride);
      simdgroup_load(columns[i], b + 8 * i * b_stride + k, b_stride, ulong2(0, 0), true);
    }
    for (uint i = 0; i < 4; i++)
      simdgroup_multiply_accumulate(sums[i], rows[i / 2], columns[i % 2], sums[i]);
  }
  Sums own;
  for (uint i = 0; i < 8; i++) own.of[i] = int(sums[i / 2].thread_elements()[i % 2]);
  return own;
}
inline Elements tile_elements(threadgroup const float *tile) {
  Elements own;
  for (uint i = 0; i < 4; i++) {
    simdgroup_float8x8 piece;
    simdgroup_load(piece, tile + 128 * (i / 2) + 8 * (i % 2), 16);
    for (uint j = 0; j < 2; j++) own.of[2 * i + j] = piece.thread_elements()[j];
  }
  return own;
}`

const TEAM = "uint team_here [[simdgroup_index_in_threadgroup]]"

const POSITIONS = [
  "uint3 lane_here [[thread_position_in_threadgroup]]",
  "uint3 group_here [[threadgroup_position_in_grid]]",
  "uint3 groups_here [[threadgroups_per_grid]]",
]

const dialect: Dialect = {
  opening: [opening],
  types: {
    f32: "float",
    i32: "int",
    u32: "uint",
    bool: "bool",
    f16: "half",
    u16: "ushort",
    i8: "char",
    u8: "uchar",
  },
  // What C++ has beyond C, and Metal beyond C++.
  reserved:
    "access alignas alignof and and_eq array asm atomic_int atomic_uint bitand bitor buffer catch class compl const_cast constant constexpr coordinates decltype delete depth2d device dynamic_cast explicit export fragment friend imageblock kernel level main mesh metal mutable namespace new noexcept not not_eq nullptr object operator or or_eq packed patch precise private protected public ray_data reinterpret_cast sampler size_t ptrdiff_t static_assert static_cast template texture this thread thread_local threadgroup threadgroup_imageblock throw try typeid typename ulong using vec vertex virtual visible xor xor_eq lane_here team_here Sums Elements simdgroup_float8x8 simdgroup_half8x8 simdgroup_load make_filled_simdgroup_matrix simdgroup_multiply_accumulate ulong2 group_here groups_here add_to as_type quad".split(
      " ",
    ),
  head: ({ threads, needs }, entry, parameters) => {
    const bound = parameters.map((each, i) => `${each} [[buffer(${i})]]`)
    const all = [...POSITIONS, ...(needs.has("halfTiles") ? [TEAM] : []), ...bound]
    return [
      `[[max_total_threads_per_threadgroup(${threads})]]`,
      `kernel void ${entry}(`,
      ...all.map((each, i) => `    ${each}${i < all.length - 1 ? "," : ") {"}`),
    ]
  },
  operand({ name, ...operand }) {
    if (operand.kind === "word")
      return { parameter: `constant ${dialect.types[operand.type]} &${name}` }
    const space = operand.access === "read" ? "device const" : "device"
    return { parameter: `${space} ${dialect.types[operand.element]} *${name}` }
  },
  shared: (type, name, length) => `threadgroup ${type} ${name}[${length}];`,
  lane: "lane_here.x",
  group: (axis) => `group_here.${"xyz"[axis]}`,
  groups: (axis) => `groups_here.${"xyz"[axis]}`,
  barrier: "threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup)",
  functions: {
    fma: "fma",
    sqrt: "precise::sqrt",
    abs: "fabs",
    min: "least",
    max: "most",
    mulHigh: "mulhi",
    dot4: "dot4",
    lookUp: "look_up",
  },
  helpers: [
    { names: ["dot4"], text: dot4 },
    { names: lookUpNames, text: lookUpByBits("uint", "inline ") },
    { names: ["tile_dot", "tile_elements"], text: tiles },
  ],
  tiles: {
    helper: "tile_dot",
    team: "team_here",
    element: "f16",
    dot: (name, a, b, depth) => {
      const sides = [a, b].map(({ array, from, stride }) => `&${array}[${from}], ${stride}`)
      return `const Sums ${name} = tile_dot(${sides.join(", ")}, ${depth})`
    },
    elements: (name, array) => `const Elements ${name} = tile_elements(${array})`,
  },
  bits: (to, _, value) => `as_type<${dialect.types[to]}>(${value})`,
  loadHalf: (memory, index) => `float(${memory}[${index}])`,
  storeHalf: (memory, index, value) => `${memory}[${index}] = half(${value})`,
  near: (type, count) => `${type}${count}`,
  loadNear: (type, memory, index) => `((device const ${type} *)${memory})[${index}]`,
  atomicAdd: (element, value) => `add_to(${element}, ${value})`,
}
