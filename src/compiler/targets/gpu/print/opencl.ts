// Kernels as OpenCL C of version 1.2. A buffer is handed over as a memory object and the byte at which it begins there, since
// several lie in one object. The text is to be built with nothing relaxed, and with division and roots that are rounded
// correctly where it says so itself: where they are not, it counts them out in whole numbers.

import type { Need } from "../../../../runtime/gpu/tape.ts"
import type { Kernel } from "../ir/ir.ts"
import { type Dialect, lookUpByBits, lookUpNames, type PrintedProgram, printProgram } from "./c.ts"

/** What a device may have that this dialect has other words for, the best first. */
export const openclProfiles: readonly (readonly Need[])[] = [["division", "dot4"], ["division"], []]

/** @param needs one of the profiles above: what the text relies on */
export function printOpencl(kernels: readonly Kernel[], needs: readonly Need[]): PrintedProgram {
  return printProgram(kernels, dialectFor(needs))
}

const divisionInWhole = `// A positive number is fraction * 2^power: 24 bits of it, the upper one set.
int power_of(uint bits) { return bits >> 23 ? (int)(bits >> 23) - 150 : -141 - (int)clz(bits); }
uint fraction_of(uint bits) {
  return bits >> 23 ? (bits & 0x7fffffu) | 0x800000u : bits << (clz(bits) - 8u);
}

// The bits of the float next to fraction * 2^power. The lowest bit of a fraction of more than 25 stands for all below it.
uint nearest(ulong fraction, int power) {
  const int over = max(40 - (int)clz(fraction), -149 - power);
  if (power + over > 104) return 0x7f800000u;
  if (over > 62) return 0u;
  const ulong kept = fraction >> over, rest = fraction - (kept << over), half_way = 1ul << (over - 1);
  const uint up = rest > half_way || (rest == half_way && (kept & 1ul));
  return ((uint)(power + over + 149) << 23) + (uint)kept + up;
}

float divide(float a, float b) {
  const uint x = as_uint(a) & 0x7fffffffu, y = as_uint(b) & 0x7fffffffu, infinite = 0x7f800000u;
  const uint sign = (as_uint(a) ^ as_uint(b)) & 0x80000000u;
  if (x > infinite || y > infinite || (x == y && (x == 0u || x == infinite))) return NAN;
  if (x == 0u || y == infinite) return as_float(sign);
  if (x == infinite || y == 0u) return as_float(sign | infinite);
  const ulong above = (ulong)fraction_of(x) << 39, below = fraction_of(y);
  const ulong quotient = above / below;
  const ulong rest = quotient * below != above;
  return as_float(sign | nearest(quotient | rest, power_of(x) - power_of(y) - 39));
}

float root(float a) {
  const uint x = as_uint(a);
  if ((x & 0x7fffffffu) == 0u || x == 0x7f800000u) return a;
  if (x > 0x7f800000u) return NAN;
  const int power = power_of(x), odd = power & 1;
  const ulong square = (ulong)fraction_of(x) << (36 + odd);
  ulong found = 0ul;
  for (ulong bit = 1ul << 30; bit > 0ul; bit >>= 1)
    if ((found | bit) * (found | bit) <= square) found |= bit;
  const ulong rest = found * found != square;
  return as_float(nearest((found << 1) | rest, (power - odd) / 2 - 19));
}`

// The bytes of a char4 take 1.4 times as long on PoCL in products of eight rows and more, those of an int4 twice.
const dot4InBytes = `int dot4(uint a, uint b, int c) {
  const int sum = (char)a * (char)b + (char)(a >> 8) * (char)(b >> 8) +
      (char)(a >> 16) * (char)(b >> 16) + (char)(a >> 24) * (char)(b >> 24);
  return (int)((uint)sum + (uint)c);
}`

// A compiler declares the function where it defines this, which Intel's does for OpenCL C 3.0 alone, whatever the device names.
const dot4 = `#if defined(__opencl_c_integer_dot_product_input_4x8bit_packed)
int dot4(uint a, uint b, int c) {
  return (int)((uint)dot_4x8packed_ss_int(a, b) + (uint)c);
}
#else
${dot4InBytes}
#endif`

function dialectFor(needs: readonly Need[]): Dialect {
  const [hasDivision, hasDot4] = [needs.includes("division"), needs.includes("dot4")]
  const extension = "#pragma OPENCL EXTENSION cl_khr_integer_dot_product : enable"
  return {
    ...words,
    opening: [...words.opening, ...(hasDot4 ? [extension] : [])],
    functions: { ...words.functions, ...(hasDivision ? {} : { divide: "divide", sqrt: "root" }) },
    helpers: [
      { names: ["divide", "root"], text: divisionInWhole },
      { names: ["dot4"], text: hasDot4 ? dot4 : dot4InBytes },
      { names: lookUpNames, text: lookUpByBits("uint") },
    ],
  }
}

const words: Dialect = {
  opening: ["#pragma OPENCL FP_CONTRACT OFF"],
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
  reserved:
    "barrier constant global image1d_t image2d_t image3d_t kernel local NAN INFINITY MAXFLOAT HUGE_VAL private size_t ptrdiff_t intptr_t uintptr_t uniform pipe generic read_only write_only read_write sampler_t event_t ulong vec_step vload_half vstore_half_rte atomic_add".split(
      " ",
    ),
  head: ({ threads }, entry, parameters) => [
    `__kernel __attribute__((reqd_work_group_size(${threads}, 1, 1)))`,
    `void ${entry}(`,
    ...parameters.map((each, i) => `    ${each}${i < parameters.length - 1 ? "," : ") {"}`),
  ],
  operand(operand, give) {
    const { name } = operand
    if (operand.kind === "word") return { parameter: `${words.types[operand.type]} ${name}` }
    const space = operand.access === "read" ? "__global const" : "__global"
    const [base, at] = [give(`${name}_base`), give(`${name}_at`)]
    const pointer = `${space} ${words.types[operand.element]} *`
    return {
      parameter: `${space} uchar *${base}, ulong ${at}`,
      line: `${pointer}${name} = (${pointer})(${base} + ${at});`,
    }
  },
  shared: (type, name, length) => `__local ${type} ${name}[${length}];`,
  lane: "get_local_id(0)",
  group: (axis) => `get_group_id(${axis})`,
  groups: (axis) => `get_num_groups(${axis})`,
  barrier: "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)",
  functions: {
    fma: "fma",
    sqrt: "sqrt",
    abs: "fabs",
    min: "min",
    max: "max",
    mulHigh: "mul_hi",
    dot4: "dot4",
    lookUp: "look_up",
  },
  helpers: [],
  bits: (to, _, value) => `as_${words.types[to]}(${value})`,
  loadHalf: (memory, index) => `vload_half(${index}, ${memory})`,
  storeHalf: (memory, index, value) => `vstore_half_rte(${value}, ${index}, ${memory})`,
  near: (type, count) => `${type}${count}`,
  loadNear: (type, memory, index) => `((__global const ${type} *)${memory})[${index}]`,
  atomicAdd: (element, value) => `atomic_add(&${element}, ${value})`,
}
