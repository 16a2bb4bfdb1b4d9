// Kernels as CUDA C, which is HIP as well: one text, and two sets of words before it, of which the compiler takes its own. No
// vendor's header is used, since a run-time compiler may have none: what the words stand for is said in PTX for CUDA and in the
// compiler's own builtins for HIP. The text is to be built with products and sums kept apart (`-fmad=false`,
// `-ffp-contract=off`) and nothing else relaxed; division and roots are then rounded correctly on all of these devices.

import type { Need } from "../../../../runtime/gpu/tape.ts"
import type { Kernel } from "../ir/ir.ts"
import { type Dialect, type PrintedProgram, printProgram } from "./c.ts"

/** What a device may have that this dialect has other words for, the best first. */
export const cudaProfiles: readonly (readonly Need[])[] = [["dot4"], []]

/** @param needs one of the profiles above: what the text relies on */
export function printCuda(kernels: readonly Kernel[], needs: readonly Need[]): PrintedProgram {
  const text = needs.includes("dot4") ? dot4() : inBytes("dot4")
  const helpers = [
    { names: ["dot4"], text },
    { names: ["look_up", "permuted", "looked_up_four"], text: lookUp },
    { names: ["matrix_dot"], text: matrixDot },
    { names: ["tile_dot"], text: tiles },
  ]
  return printProgram(kernels, { ...dialect, helpers })
}

const attributes = `// Where the compiler is handed no header, these are words of nobody's.
#if defined(__clang__) && !defined(__global__)
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#endif
// HIP's compiler takes a group to have 1,024 threads unless it is told so.
#ifdef __HIP__
#define THREADS(threads, ...) __attribute__((amdgpu_flat_work_group_size(threads, threads)))
#else
#define THREADS(...) __launch_bounds__(__VA_ARGS__)
#endif
#define WORD static inline __device__`

const ptx = `WORD unsigned lane_here() { unsigned n; asm("mov.u32 %0, %%tid.x;" : "=r"(n)); return n; }
${["x", "y", "z"]
  .map(
    (
      axis,
    ) => `WORD unsigned group_${axis}_here() { unsigned n; asm("mov.u32 %0, %%ctaid.${axis};" : "=r"(n)); return n; }
WORD unsigned groups_${axis}_here() { unsigned n; asm("mov.u32 %0, %%nctaid.${axis};" : "=r"(n)); return n; }`,
  )
  .join("\n")}
WORD void meet() { asm volatile("bar.sync 0;" ::: "memory"); }
// From Hopper on, kernels before this one can be waited for, and those behind it be let begin.
WORD void after_earlier() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
WORD void let_later_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
WORD float fused(float a, float b, float c) {
  float sum;
  asm("fma.rn.f32 %0, %1, %2, %3;" : "=f"(sum) : "f"(a), "f"(b), "f"(c));
  return sum;
}
WORD float root(float a) { float r; asm("sqrt.rn.f32 %0, %1;" : "=f"(r) : "f"(a)); return r; }
WORD float quotient(float a, float b) {
  float q;
  asm("div.rn.f32 %0, %1, %2;" : "=f"(q) : "f"(a), "f"(b));
  return q;
}
WORD float half_value(half_bits h) { float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(h)); return f; }
WORD half_bits half_of(float f) {
  half_bits h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(f));
  return h;
}
WORD void add_to(unsigned *place, unsigned value) {
  asm volatile("{ .reg .u32 old; atom.add.u32 old, [%0], %1; }" :: "l"(place), "r"(value) : "memory");
}`

const builtins = `WORD unsigned lane_here() { return __builtin_amdgcn_workitem_id_x(); }
${["x", "y", "z"]
  .map(
    (
      axis,
    ) => `WORD unsigned group_${axis}_here() { return __builtin_amdgcn_workgroup_id_${axis}(); }
WORD unsigned groups_${axis}_here() {
  return __builtin_amdgcn_grid_size_${axis}() / __builtin_amdgcn_workgroup_size_${axis}();
}`,
  )
  .join("\n")}
WORD void meet() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
WORD void after_earlier() {}
WORD void let_later_begin() {}
WORD float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
// Older compilers' roots are off by one in the last place at times; those beside it tell by what is left of a.
WORD float root(float a) {
  const bool is_small = a < 0x1p-96f;
  const float of = is_small ? a * 0x1p32f : a;
  float r = __builtin_sqrtf(of);
  if (of > 0 && of < __builtin_inff()) {
    const unsigned word = bits_as<unsigned>(r);
    const float below = bits_as<float>(word - 1), above = bits_as<float>(word + 1);
    if (__builtin_fmaf(-below, r, of) <= 0) r = below;
    else if (__builtin_fmaf(-above, r, of) > 0) r = above;
  }
  return is_small ? r * 0x1p-16f : r;
}
WORD float quotient(float a, float b) { return a / b; }
WORD float half_value(half_bits h) { return bits_as<_Float16>(h); }
WORD half_bits half_of(float f) { return bits_as<half_bits>((_Float16)f); }
WORD void add_to(unsigned *place, unsigned value) {
  __atomic_fetch_add(place, value, __ATOMIC_RELAXED);
}`

const opening = `${attributes}

typedef unsigned short half_bits;
template <class Number> struct alignas(2 * sizeof(Number)) Two { Number x, y; };
template <class Number> struct alignas(4 * sizeof(Number)) Four { Number x, y, z, w; };
template <class To, class From> WORD To bits_as(From number) {
  union { From from; To to; } both = {number};
  return both.to;
}
template <class Number> WORD Number least(Number a, Number b) { return b < a ? b : a; }
template <class Number> WORD Number most(Number a, Number b) { return a < b ? b : a; }
WORD float size_of(float a) { return bits_as<float>(bits_as<unsigned>(a) & 0x7fffffffu); }
WORD unsigned upper_word(unsigned a, unsigned b) {
  return (unsigned)(((unsigned long long)a * b) >> 32);
}
WORD void add_to(unsigned *place, unsigned value);
WORD void add_to(int *place, int value) { add_to((unsigned *)place, (unsigned)value); }

#ifdef __HIP__
${builtins}
#else
${ptx}
#endif`

const dot4 = (): string => `${inBytes("dot4_in_bytes")}
WORD int dot4(unsigned a, unsigned b, int c) {
#if defined(__GFX11__) || defined(__GFX12__)
  return __builtin_amdgcn_sudot4(true, (int)a, true, (int)b, c, false);
#elif defined(__HIP__) && !defined(__gfx900__) && !defined(__gfx902__) && !defined(__gfx1010__) && !defined(__gfx1013__)
  return __builtin_amdgcn_sdot4((int)a, (int)b, c, false);
#elif defined(__HIP__)
  return dot4_in_bytes(a, b, c);
#else
  int sum;
  asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
  return sum;
#endif
}`

const inBytes = (name: string): string => `WORD int ${name}(unsigned a, unsigned b, int c) {
  const int sum = (signed char)a * (signed char)b + (signed char)(a >> 8) * (signed char)(b >> 8) +
      (signed char)(a >> 16) * (signed char)(b >> 16) + (signed char)(a >> 24) * (signed char)(b >> 24);
  return (int)((unsigned)sum + (unsigned)c);
}`

/**
 * Both have an instruction that takes four of eight bytes. PTX's are chosen by the lower half of a word, four bits each, so a word
 * of nibbles chooses twice: first by those of its bytes 0 and 1, lower and upper halves in turn. Of the two halves of the table each
 * nibble's last bit says which.
 */
const lookUp = `#ifdef __HIP__
WORD unsigned look_up(unsigned a, unsigned from, unsigned first, unsigned second, unsigned third, unsigned fourth) {
  const unsigned own = a >> from, places = own & 0x07070707u;
  const unsigned low = __builtin_amdgcn_perm(second, first, places), high = __builtin_amdgcn_perm(fourth, third, places);
  return __builtin_amdgcn_perm(high, low, 0x03020100u | ((own & 0x08080808u) >> 1));
}
#else
WORD unsigned permuted(unsigned low, unsigned high, unsigned places) {
  unsigned bytes;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(low), "r"(high), "r"(places));
  return bytes;
}
WORD unsigned looked_up_four(unsigned nibbles, unsigned first, unsigned second, unsigned third, unsigned fourth) {
  const unsigned places = nibbles & 0x7777u;
  const unsigned low = permuted(first, second, places), high = permuted(third, fourth, places);
  return permuted(low, high, 0x3210u | ((nibbles & 0x8888u) >> 1));
}
WORD unsigned look_up(unsigned a, unsigned from, unsigned first, unsigned second, unsigned third, unsigned fourth) {
  const unsigned near = looked_up_four(a, first, second, third, fourth);
  const unsigned far = looked_up_four(a >> 16, first, second, third, fourth);
  return permuted(near, far, from == 0 ? 0x6420u : 0x7531u);
}
#endif`

/**
 * One instruction from Ampere on. Turing has one of [8, 16] and [16, 8], and pieces of its tiles lie as those do; HIP's lie
 * otherwise, so no kernel that multiplies tiles is for it.
 */
const matrixDot = `#ifndef __HIP__
WORD Four<int> matrix_dot(
    unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1, int c0, int c1, int c2, int c3) {
#if __CUDA_ARCH__ >= 800
  // Sums apart from what they are added to, which is often the same for many products.
  Four<int> sums;
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};"
      : "=r"(sums.x), "=r"(sums.y), "=r"(sums.z), "=r"(sums.w)
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1), "r"(c0), "r"(c1), "r"(c2), "r"(c3));
  return sums;
#else
${[
  ["c0", "c1", "a0", "b0"],
  ["c0", "c1", "a2", "b1"],
  ["c2", "c3", "a1", "b0"],
  ["c2", "c3", "a3", "b1"],
]
  .map(
    ([left, right, a, b]) =>
      `  asm volatile("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
      : "+r"(${left}), "+r"(${right}) : "r"(${a}), "r"(${b}));`,
  )
  .join("\n")}
  return {c0, c1, c2, c3};
#endif
}
#endif`

/**
 * Tiles of bytes on AMD's matrix units, which have 16 rows and 16 columns whatever the device. A thread brings some columns of row
 * `thread % 16` of one side, and the same rows of that column of the other: which ones does not matter, as long as both sides have the
 * same, so every number meets its own. Where a thread's sums belong is not taken from a manual: `tile_elements` multiplies tiles whose product says
 * it. In waves of 64 threads two teams share a product, and so make one for each of them, of which either has half.
 */
const tiles = `#if defined(__gfx908__) || defined(__gfx90a__) || defined(__gfx940__) || defined(__gfx941__) || defined(__gfx942__) || defined(__gfx950__)
#define WIDE_TILES
#endif
typedef int Two_words __attribute__((vector_size(8)));
typedef int Four_words __attribute__((vector_size(16)));
typedef int Eight_words __attribute__((vector_size(32)));
struct Sums { int of[8]; };
struct Elements { unsigned of[8]; };
#if defined(__GFX11__)
enum { PIECE_WORDS = 4, PIECE_DEPTH = 16 };
typedef Four_words Piece;
typedef Eight_words Piece_sums;
WORD unsigned slice_here() { return 0; }
WORD Piece_sums multiplied(Piece a, Piece b, Piece_sums sums) {
  return __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(true, a, true, b, sums, false);
}
#elif defined(__GFX12__)
enum { PIECE_WORDS = 2, PIECE_DEPTH = 16 };
typedef Two_words Piece;
typedef Eight_words Piece_sums;
WORD unsigned slice_here() { return lane_here() / 16 % 2; }
WORD Piece_sums multiplied(Piece a, Piece b, Piece_sums sums) {
  return __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(true, a, true, b, sums, false);
}
#elif defined(__gfx908__) || defined(__gfx90a__)
enum { PIECE_WORDS = 1, PIECE_DEPTH = 16 };
typedef int Piece __attribute__((vector_size(4)));
typedef Four_words Piece_sums;
WORD unsigned slice_here() { return lane_here() / 16 % 4; }
WORD Piece_sums multiplied(Piece a, Piece b, Piece_sums sums) {
  return __builtin_amdgcn_mfma_i32_16x16x16i8(a[0], b[0], sums, 0, 0, 0);
}
#else
enum { PIECE_WORDS = 2, PIECE_DEPTH = 32 };
typedef Two_words Piece;
typedef Four_words Piece_sums;
WORD unsigned slice_here() { return lane_here() / 16 % 4; }
WORD Piece_sums multiplied(Piece a, Piece b, Piece_sums sums) {
  return __builtin_amdgcn_mfma_i32_16x16x32_i8(bits_as<long>(a), bits_as<long>(b), sums, 0, 0, 0);
}
#endif
WORD Piece_sums product_of(const unsigned *a, unsigned a_stride, const unsigned *b, unsigned b_stride, unsigned depth) {
  const unsigned row = lane_here() % 16, first = PIECE_WORDS * slice_here();
  Piece_sums sums = {};
  for (unsigned k = 0; k < depth; k += PIECE_DEPTH) {
    Piece left = {}, right = {};
#pragma unroll
    for (unsigned w = 0; w < PIECE_WORDS; w++) {
      left[w] = (int)a[row * a_stride + k / 4 + first + w];
      right[w] = (int)b[row * b_stride + k / 4 + first + w];
    }
    sums = multiplied(left, right, sums);
  }
  return sums;
}
#ifdef WIDE_TILES
// Of the sums of both teams' tiles, own ones: half of them are here, and half where the other team's thread is.
WORD Sums own_of(Piece_sums first, Piece_sums second) {
  const bool is_second = lane_here() & 32;
  const int other = 4 * ((lane_here() ^ 32) & 63);
  Sums own;
#pragma unroll
  for (unsigned i = 0; i < 4; i++) {
    own.of[i] = is_second ? second[i] : first[i];
    own.of[4 + i] = __builtin_amdgcn_ds_bpermute(other, is_second ? first[i] : second[i]);
  }
  return own;
}
WORD Sums tile_dot(const unsigned *a, unsigned a_from, unsigned a_stride, const unsigned *b, unsigned b_from, unsigned b_stride, unsigned depth) {
  Piece_sums sums[2];
#pragma unroll
  for (int team = 0; team < 2; team++)
    sums[team] = product_of(
        a + (unsigned)__builtin_amdgcn_readlane((int)a_from, 32 * team), a_stride,
        b + (unsigned)__builtin_amdgcn_readlane((int)b_from, 32 * team), b_stride, depth);
  return own_of(sums[0], sums[1]);
}
#else
WORD Sums own_of(Piece_sums sums, Piece_sums) {
  Sums own;
#pragma unroll
  for (unsigned i = 0; i < 8; i++) own.of[i] = sums[i];
  return own;
}
WORD Sums tile_dot(const unsigned *a, unsigned a_from, unsigned a_stride, const unsigned *b, unsigned b_from, unsigned b_stride, unsigned depth) {
  const Piece_sums sums = product_of(a + a_from, a_stride, b + b_from, b_stride, depth);
  return own_of(sums, sums);
}
#endif
// Rows of (row, 1) times columns of (16, column): each sum is the number of its place.
WORD Elements tile_elements(const unsigned *tile) {
  const int row = lane_here() % 16;
  Piece left = {}, right = {};
  left[0] = slice_here() == 0 ? row | 1 << 8 : 0;
  right[0] = slice_here() == 0 ? 16 | row << 8 : 0;
  Piece_sums sums = {};
  sums = multiplied(left, right, sums);
  const Sums places = own_of(sums, sums);
  Elements own;
#pragma unroll
  for (unsigned i = 0; i < 8; i++) own.of[i] = tile[places.of[i]];
  return own;
}`

const dialect: Dialect = {
  opening: [opening],
  types: {
    f32: "float",
    i32: "int",
    u32: "unsigned",
    bool: "bool",
    f16: "half_bits",
    u16: "unsigned short",
    i8: "signed char",
    u8: "unsigned char",
  },
  // What C++ has beyond C, and what these compilers know without a header.
  reserved:
    "alignas alignof and and_eq asm bitand bitor bool catch char16_t char32_t class compl const_cast constexpr decltype delete dynamic_cast explicit export friend mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public reinterpret_cast static_assert static_cast template this thread_local throw try typeid typename using virtual wchar_t xor xor_eq atomicAdd fmaf sqrtf warpSize threadIdx blockIdx blockDim gridDim double3 double4 WORD THREADS Two Four Sums Elements Piece tile_dot tile_elements bits_as half_value half_of add_to after_earlier let_later_begin meet lane_here".split(
      " ",
    ),
  head: ({ threads, groupsAtOnce }, entry, parameters) => [
    `extern "C" __global__ void THREADS(${[threads, groupsAtOnce ?? []].flat().join(", ")}) ${entry}(`,
    ...parameters.map((each, i) => `    ${each}${i < parameters.length - 1 ? "," : ") {"}`),
  ],
  operand({ name, ...operand }) {
    if (operand.kind === "word") return { parameter: `${dialect.types[operand.type]} ${name}` }
    const constant = operand.access === "read" ? "const " : ""
    return { parameter: `${constant}${dialect.types[operand.element]} *${name}` }
  },
  shared: (type, name, length, isNear) =>
    `__shared__ ${isNear ? "__attribute__((aligned(16))) " : ""}${type} ${name}[${length}];`,
  lane: "lane_here()",
  group: (axis) => `group_${"xyz"[axis]}_here()`,
  groups: (axis) => `groups_${"xyz"[axis]}_here()`,
  barrier: "meet()",
  beside: { earlier: "after_earlier()", later: "let_later_begin()" },
  functions: {
    fma: "fused",
    sqrt: "root",
    divide: "quotient",
    abs: "size_of",
    min: "least",
    max: "most",
    mulHigh: "upper_word",
    dot4: "dot4",
    lookUp: "look_up",
  },
  helpers: [],
  bits: (to, _, value) => `bits_as<${dialect.types[to]}>(${value})`,
  loadHalf: (memory, index) => `half_value(${memory}[${index}])`,
  storeHalf: (memory, index, value) => `${memory}[${index}] = half_of(${value})`,
  halvesOf: (word) => [`half_value((half_bits)${word})`, `half_value((half_bits)(${word} >> 16))`],
  near: (type, count) => `${count === 4 ? "Four" : "Two"}<${type}>`,
  loadNear: (type, memory, index) => `((const ${type} *)${memory})[${index}]`,
  atomicAdd: (element, value) => `add_to(&${element}, ${value})`,
  matrixDot: "matrix_dot",
  tiles: {
    helper: "tile_dot",
    team: "lane_here() / 32",
    element: "u32",
    dot: (name, a, b, depth) => {
      const sides = [a, b].map(({ array, from, stride }) => `${array}, ${from}, ${stride}`)
      return `const Sums ${name} = tile_dot(${sides.join(", ")}, ${depth})`
    },
    elements: (name, array) => `const Elements ${name} = tile_elements(${array})`,
  },
}
