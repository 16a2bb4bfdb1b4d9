// How weights lie in memory. A matrix [rows, columns] of a linear layer becomes panels of 32 rows, which are 32 columns of
// the product; within a panel the K direction runs through memory, so that a product reads it from end to end.
//
//   grouped   group after group of G values of K, with 32 minimums behind the scales where a codec has them:
//             | 32 rows x 8 values of K, twice 64 bytes | ... G / 8 times | 32 scales |       (nibbles)
//             | 32 rows x 4 values of K, twice 64 bytes | ... G / 4 times | 32 scales |       (bytes)
//             a 64-byte line is 16 rows x 4 bytes; a byte's low nibble is one of k .. k + 3, its high one of k + 4 .. k + 7
//             6 bits: of 16 values of K the nibbles, then the bits above them, two i of a byte being one of k + 4 i .. k + 4 i + 3
//             a table: nibbles say which of sixteen bytes it is
//   blocks    where the scales of several groups are multiples of one number, these lie in front of the groups' codes:
//             | 32 factors, f16 | the same of minimums | group after group: 32 bytes, of minimums 32 more |
//   float     k after k: 32 rows of one k, as f32, f16 or bf16
//   e4m3      group after group, k after k: 32 rows of one k, a byte each; behind a group 32 scales
//
// The last panel is filled up with rows of zero scale, the last group with codes that meet activations of zero.
// A paired matrix (gate rows, then as many up rows) puts 16 of each into a panel, so that a product holds both in registers.
#ifndef SINTER_PANELS_H
#define SINTER_PANELS_H

#include <stddef.h>
#include <string.h>
#include "vector.h"

enum { PANEL = 32, LINE = 64 };

enum number { F32, F16, BF16, Q8 };        // as stored: floats; codes of keys and values
// Bits of a code. 3 are kept as nibbles, too; 6 are stored as bytes. Or floats of 8 bits. Or nibbles, for bytes of a table.
enum codes {
  CODES_3,
  CODES_4,
  CODES_8,
  CODES_6,
  CODES_E4M3,
  CODES_IQ2,
  CODES_IQ3_XXS,
  CODES_IQ3_S,
  CODES_IQ4,
  CODES_E2M1
};

INLINE int has_table(enum codes c) { return c >= CODES_IQ2; }
// Its bytes, as in codeTables of format.ts.
INLINE const uint8_t *table_of(enum codes c) {
#define SIGNED(zero, a, b, c, d, e, f, g, h)                                                       \
  {zero + a, zero + b, zero + c, zero + d, zero + e, zero + f, zero + g, zero + h,                 \
   zero - a, zero - b, zero - c, zero - d, zero - e, zero - f, zero - g, zero - h}
  static const uint8_t tables[][16] = {
      SIGNED(43, 8, 25, 43, 1, 7, 9, 0, 0),
      SIGNED(31, 2, 6, 10, 14, 18, 22, 26, 31),
      SIGNED(15, 1, 3, 5, 7, 9, 11, 13, 15),
      {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241},
      {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0},
  };
#undef SIGNED
  return tables[c - CODES_IQ2];
}
// Whether products take whole bytes, which lie above their values as BYTES_ABOVE_ZERO says; of all others a product of two with
// activations fits in 16 bits.
INLINE int takes_bytes(enum codes c) { return c == CODES_8 || c == CODES_IQ4; }
// What products of those others meet at most.
INLINE int largest_code(enum codes c) {
  return c == CODES_6         ? 63
         : c == CODES_IQ2     ? 86
         : c == CODES_IQ3_XXS ? 62
         : c == CODES_IQ3_S   ? 30
         : c == CODES_E2M1    ? 24
                              : 15;
}

// What is known of a parameter when the library is made.
struct panels {
  int64_t rows, columns;
  int64_t pair;        // rows of the first half of a paired matrix, or 0
  int grouped;         // codes with scales, or floats
  enum codes codes;    // grouped
  int group;           // grouped: values of K under one scale
  int zero;            // grouped: the code that means 0, or the minimum
  int minimums;        // grouped: a value is code * scale + minimum; `zero` is 0 then
  int block;           // grouped: so many groups' scales are multiples of one number; or 0
  int part;            // blocks: of such a part of it; 0 for the whole
  enum number number;  // of the scales and minimums, or of the floats
};

// What a file knows of its products before anything is inlined, whose weights are `w`: products.ts says it. A branch on a parameter
// goes, too, but not before all that it leads to has been inlined and optimised, which is half of the compiler's time. What a file
// does not say is asked for.
#ifndef PRODUCT_CODES
#define PRODUCT_CODES w.codes
#define PRODUCT_IN_BLOCKS w.block
#define PRODUCT_QUANTIZED quantized
#endif
#ifndef PRODUCT_FAR
#define PRODUCT_FAR far
#endif

INLINE int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }
INLINE size_t number_size(enum number n) { return n == F32 ? 4 : n == Q8 ? 1 : 2; }
INLINE int64_t panels_groups(struct panels p) { return (p.columns + p.group - 1) / p.group; }
INLINE int64_t panels_lines(struct panels p) {
  const int bytes = p.codes == CODES_8 || p.codes == CODES_E4M3;
  return p.codes == CODES_6 ? p.group / 16 * 3 : p.group / (bytes ? 4 : 8);
}
INLINE size_t panels_group_bytes(struct panels p) {
  return (size_t)panels_lines(p) * 2 * LINE +
         (p.block ? 0 : PANEL * number_size(p.number) * (p.minimums ? 2 : 1));
}
// What lies in front of a block's groups.
INLINE size_t panels_front_bytes(struct panels p) {
  return (size_t)(p.block ? 2 + p.block : 0) * PANEL * (p.minimums ? 2 : 1);
}
// So many groups from a block's beginning on, and where the codes of one of them begin.
INLINE size_t panels_groups_bytes(struct panels p, int64_t groups) {
  return (size_t)groups * panels_group_bytes(p) +
         (p.block ? (size_t)((groups + p.block - 1) / p.block) * panels_front_bytes(p) : 0);
}
INLINE size_t panels_codes_at(struct panels p, int64_t g) {
  return panels_groups_bytes(p, g + 1) - panels_group_bytes(p);
}
// Of one row as it is stored: its scales, then its minimums.
INLINE size_t panels_scale_bytes(struct panels p) {
  return (size_t)panels_groups(p) * number_size(p.number) * (p.minimums ? 2 : 1);
}
INLINE size_t panels_panel_bytes(struct panels p) {
  return p.grouped ? panels_groups_bytes(p, panels_groups(p))
                   : (size_t)p.columns * PANEL * number_size(p.number);
}
INLINE int64_t panels_count(struct panels p) {
  return p.pair ? (p.pair + 15) / 16 : (p.rows + PANEL - 1) / PANEL;
}
// What layout.ts must keep for them.
INLINE size_t panels_bytes(struct panels p) {
  return (size_t)panels_count(p) * panels_panel_bytes(p);
}

// Where a row lives: its panel and its place among the panel's 32.
INLINE int64_t panels_home(struct panels p, int64_t row, int *lane) {
  if (!p.pair) {
    *lane = (int)(row % PANEL);
    return row / PANEL;
  }
  int64_t within = row < p.pair ? row : row - p.pair;
  *lane = (int)(within % 16) + (row < p.pair ? 0 : 16);
  return within / 16;
}

// Stored words: codes from the low bits up, 10, 8 or 4 to a word; a group begins a word.
INLINE int code_bits(enum codes c) { return c == CODES_3 ? 3 : c == CODES_4 || has_table(c) ? 4 : 8; }
INLINE int codes_per_word(enum codes c) { return 32 / code_bits(c); }
INLINE int64_t panels_words(struct panels p) {
  return panels_groups(p) * (p.group / codes_per_word(p.codes));
}

// Four nibbles of the low half of x, one to a byte.
INLINE uint32_t spread_nibbles(uint32_t x) {
  x = (x | x << 8) & 0x00ff00ff;
  return (x | x << 4) & 0x0f0f0f0f;
}

// Stored words need not be aligned: they come out of files as they lie there.
INLINE uint32_t load_word(const uint8_t *words, int64_t index) {
  uint32_t word;
  memcpy(&word, words + 4 * index, 4);
  return word;
}
INLINE uint32_t unpack_code(const struct panels p, const uint8_t *words, int64_t k) {
  int per = codes_per_word(p.codes), bits = code_bits(p.codes);
  return load_word(words, k / per) >> (k % per * bits) & ((1u << bits) - 1);
}
// What it stands for, above `zero`.
INLINE int code_number(const struct panels p, uint32_t code) {
  return has_table(p.codes) ? table_of(p.codes)[code] : (int)code;
}

// One group's words of one row into its lane's four bytes of each line pair. Returns whether the panel can say them.
INLINE int pack_group(const struct panels p, uint8_t *group, int lane, const uint8_t *words) {
  uint8_t *line = group + 4 * lane;
  if (p.codes == CODES_E4M3) {
    for (int k = 0; k < p.group; k++) group[k * PANEL + lane] = words[k];
    return 1;
  }
  if (p.codes == CODES_6) {
    for (int64_t j = 0; j < p.group / 16; j++, line += 6 * LINE, words += 16) {
      uint32_t four[4], upper = 0;
      for (int i = 0; i < 4; i++) {
        four[i] = load_word(words, i);
        upper |= (four[i] >> 4 & 0x03030303) << 2 * i;
        four[i] &= 0x0f0f0f0f;
      }
      const uint32_t lines[] = {four[0] | four[1] << 4, four[2] | four[3] << 4, upper};
      for (int i = 0; i < 3; i++) memcpy(line + i * 2 * LINE, &lines[i], 4);
    }
    return 1;
  }
  for (int64_t j = 0; j < panels_lines(p); j++, line += 2 * LINE) {
    uint32_t four;
    if (p.codes == CODES_8) {
      four = load_word(words, j);
    } else {
      uint32_t eight = 0;
      if (code_bits(p.codes) == 4)
        eight = load_word(words, j);
      else
        for (int i = 0; i < 8; i++) eight |= unpack_code(p, words, 8 * j + i) << 4 * i;
      four = spread_nibbles(eight & 0xffff) | spread_nibbles(eight >> 16) << 4;
    }
    memcpy(line, &four, 4);
  }
  return 1;
}

// The largest number of which all are multiples, by Euclid's steps, which are exact in double precision. What is not finite
// has an infinite one; of what has none the last rest is returned.
INLINE float common_factor(const float *numbers, int64_t count) {
  double factor = 0;
  for (int64_t i = 0; i < count; i++) {
    double a = __builtin_fabsf(numbers[i]), b = factor;
    if (!(a - a == 0)) return __builtin_inff();
    while (b > 0 && a / b < 0x1p20) {
      double rest = a - (double)(int32_t)(a / b) * b;
      a = b, b = rest;
    }
    factor = a;
  }
  return (float)factor;
}

INLINE void store_half(float x, uint8_t *to) {
  const float lanes[16] = {x};
  uint16_t halves[16];
  vec_store_f16(halves, vec_load(lanes));
  memcpy(to, halves, 2);
}
INLINE int is_half(float x) {
  uint16_t halves[16] = {0};
  float lanes[16];
  store_half(x, (uint8_t *)halves);
  vec_store(lanes, vec_load_f16(halves));
  return lanes[0] == x;
}
// The largest f16 of which a number is a multiple, by 127 at most; where there is none, the number.
INLINE float half_factor(float number) {
  for (int multiple = 1; multiple <= 127; multiple++) {
    const float factor = number / (float)multiple;
    if (factor * (float)multiple == number && is_half(factor)) return factor;
  }
  return number;
}

// One row's scales of a block, or its minimums, as a factor and bytes. Zeros keep their sign: it is the factor's then.
// Returns whether they are multiples of an f16, or of a part of one, which those of GGUF's blocks always are.
INLINE int pack_multiples(const float *numbers, int64_t count, uint8_t *factor, uint8_t *bytes) {
  float one = half_factor(common_factor(numbers, count));
  if (!is_half(one)) return 0;
  for (int64_t i = 0; i < count; i++)
    if (numbers[i] == 0 ? __builtin_signbit(numbers[i]) : numbers[i] / one > 127) {
      one = -one;
      break;
    }
  const int infinite = one - one != 0;
  store_half(one, factor);
  for (int64_t i = 0; i < count; i++) {
    const float x = numbers[i];
    float multiple = infinite ? (float)((x > 0) - (x < 0)) : one == 0 ? 0 : x / one;
    if (multiple < -128 || multiple > 127) return 0;
    const int8_t byte = (int8_t)multiple;
    const float back = (float)byte * one;
    if (infinite ? x - x == 0 : memcmp(&back, &x, 4)) return 0;
    memcpy(bytes + i * PANEL, &byte, 1);
  }
  return 1;
}

// One row's scales and minimums into the fronts of its panel's blocks. Those that are stored so are f32.
INLINE int pack_fronts(const struct panels p, uint8_t *panel, int lane, const uint8_t *scales) {
  enum { MAX_BLOCK = 16 };
  const int kinds = p.minimums ? 2 : 1;
  for (int64_t first = 0; first < panels_groups(p); first += p.block) {
    const int64_t left = panels_groups(p) - first, count = left < p.block ? left : p.block;
    for (int kind = 0; kind < kinds; kind++) {
      float numbers[MAX_BLOCK];
      memcpy(numbers, scales + 4 * (kind * panels_groups(p) + first), 4 * (size_t)count);
      for (int i = 0; i < count; i++) numbers[i] *= (float)(p.part ? p.part : 1);
      uint8_t *front = panel + panels_groups_bytes(p, first);
      if (!pack_multiples(numbers, count, front + 2 * (kind * PANEL + lane),
                          front + PANEL * (2 * kinds + kind * p.block) + lane))
        return 0;
    }
  }
  return 1;
}

INLINE vec vec_load_number(enum number n, const void *p) {
  return n == F32   ? vec_load((const float *)p)
         : n == F16 ? vec_load_f16((const uint16_t *)p)
         : n == Q8  ? vec_load_i8((const int8_t *)p)
                    : vec_load_bf16((const uint16_t *)p);
}

// What vec_load_e4m3 leaves out: e4m3 in the upper bits of an f16 are so much less, since their exponents count from 7, not 15.
#define E4M3_SCALE 256.0f

// A group's scales of sixteen of a panel's rows, or its minimums (kind 1), where they lie in front of blocks.
INLINE vec load_multiples(const struct panels p, const uint8_t *front, int64_t group, int kind,
                          int half) {
  const uint8_t *bytes = front + PANEL * (2 * (p.minimums ? 2 : 1) + kind * p.block + group);
  const vec numbers = vec_mul(vec_load_i8((const int8_t *)bytes + 16 * half),
                              vec_load_f16((const uint16_t *)front + kind * PANEL + 16 * half));
  return p.part ? vec_mul(numbers, vec_set(1.0f / (float)p.part)) : numbers;
}
// Wherever they lie: of group `g` of a panel, or of what begins with one of its blocks.
INLINE vec load_scales(const struct panels p, const uint8_t *panel, int64_t g, int kind, int half) {
  if (p.block)
    return load_multiples(p, panel + panels_groups_bytes(p, g / p.block * p.block), g % p.block,
                          kind, half);
  return vec_load_number(p.number, panel + (size_t)g * panels_group_bytes(p) +
                                       panels_lines(p) * 2 * LINE +
                                       (size_t)(kind * PANEL + half * 16) * number_size(p.number));
}

// Rows `row` .. `row + count - 1`, which lie side by side in one panel, from their stored words and scales. Returns whether
// the panel can say them.
INLINE int pack_codes(const struct panels p, uint8_t *arena, int64_t row, int64_t count,
                      const uint8_t *words, const uint8_t *scales) {
  int lane;
  uint8_t *panel = arena + (size_t)panels_home(p, row, &lane) * panels_panel_bytes(p);
  const size_t size = number_size(p.number),
               group_words = 4 * (size_t)(p.group / codes_per_word(p.codes));
  const size_t row_words = group_words * (size_t)panels_groups(p);
  for (int64_t g = 0; g < panels_groups(p); g++) {
    uint8_t *group = panel + panels_codes_at(p, g);
    for (int64_t i = 0; i < count; i++) {
      if (!pack_group(p, group, lane + (int)i,
                      words + (size_t)i * row_words + (size_t)g * group_words))
        return 0;
      if (p.block) continue;
      uint8_t *to = group + panels_lines(p) * 2 * LINE + (size_t)(lane + i) * size;
      const uint8_t *from = scales + (size_t)i * panels_scale_bytes(p) + (size_t)g * size;
      memcpy(to, from, size);
      if (p.minimums) memcpy(to + PANEL * size, from + (size_t)panels_groups(p) * size, size);
    }
  }
  for (int64_t i = 0; i < (p.block ? count : 0); i++)
    if (!pack_fronts(p, panel, lane + (int)i, scales + (size_t)i * panels_scale_bytes(p))) return 0;
  return 1;
}

// The same for stored floats.
INLINE void pack_floats(const struct panels p, uint8_t *arena, int64_t row, int64_t count,
                        const uint8_t *values) {
  int lane;
  const size_t size = number_size(p.number);
  uint8_t *at =
      arena + (size_t)panels_home(p, row, &lane) * panels_panel_bytes(p) + (size_t)lane * size;
  for (int64_t k = 0; k < p.columns; k++, at += PANEL * size)
    for (int64_t i = 0; i < count; i++)
      memcpy(at + (size_t)i * size, values + (size_t)(i * p.columns + k) * size, size);
}

INLINE void vec_store_number(enum number n, void *p, vec v) {
  if (n == F32)
    vec_store((float *)p, v);
  else if (n == F16)
    vec_store_f16((uint16_t *)p, v);
  else
    vec_store_bf16((uint16_t *)p, v);
}

// One stored number as a float: through the vector conversions, so that there is one of each.
INLINE float load_number(enum number n, const void *p) {
  if (n == F32) {
    float x;
    memcpy(&x, p, 4);
    return x;
  }
  uint16_t sixteen[16] = {0};
  float lanes[16];
  memcpy(sixteen, p, 2);
  vec_store(lanes, vec_load_number(n, sixteen));
  return lanes[0];
}

INLINE void round_numbers(enum number n, float *values, int64_t count) {
  if (n == F32) return;
  for (int64_t i = 0; i < count; i += 16) {
    uint16_t halves[16];
    vec_store_number(n, halves, vec_load(values + i));
    vec_store(values + i, vec_load_number(n, halves));
  }
}

// Code k of a group of the row whose bytes begin at `line`.
INLINE int kept_code(const struct panels p, const uint8_t *line, int k) {
  if (p.codes == CODES_8) return line[k / 4 * 2 * LINE + k % 4];
  if (p.codes == CODES_6) line += k / 16 * 6 * LINE;
  const int within = p.codes == CODES_6 ? k % 16 : k;
  const int nibble = line[within / 8 * 2 * LINE + k % 4] >> (k & 4) & 15;
  if (has_table(p.codes)) return table_of(p.codes)[nibble];
  return p.codes == CODES_6 ? nibble | (line[4 * LINE + k % 4] >> within / 4 * 2 & 3) << 4 : nibble;
}

// The same as a number, less `zero`, of a group whose codes begin at `codes`.
INLINE float kept_number(const struct panels p, const uint8_t *codes, int lane, int k) {
  if (p.codes != CODES_E4M3) return (float)(kept_code(p, codes + 4 * lane, k) - p.zero);
  float lanes[16];
  vec_store(lanes, vec_load_e4m3(codes + k * PANEL + lane / 16 * 16));
  return lanes[lane % 16] * E4M3_SCALE;
}

// A row back out of its panel, as an embedding reads it: (code - zero) * scale, plus the minimum, rounded to `rounded`.
INLINE void unpack_row(struct panels p, const uint8_t *arena, int64_t row, enum number rounded,
                       float *out) {
  int lane;
  const uint8_t *at = arena + (size_t)panels_home(p, row, &lane) * panels_panel_bytes(p);
  size_t size = number_size(p.number);
  if (!p.grouped) {
    uint16_t halves[16];
    at += (size_t)lane * size;
    for (int64_t k = 0; k < p.columns; k++, at += PANEL * size) {
      if (p.number == F32) {
        memcpy(out + k, at, 4);
        continue;
      }
      memcpy(halves + k % 16, at, 2);
      if (k % 16 == 15 || k == p.columns - 1) {
        float lanes[16];
        vec_store(lanes, vec_load_number(p.number, halves));
        memcpy(out + k / 16 * 16, lanes, (size_t)(k % 16 + 1) * 4);
      }
    }
    return;
  }
  for (int64_t g = 0; g < panels_groups(p); g++) {
    float lanes[16], values[48] = {0};
    vec_store(lanes, load_scales(p, at, g, 0, lane / 16));
    const float scale = lanes[lane % 16];
    if (p.minimums) vec_store(lanes, load_scales(p, at, g, 1, lane / 16));
    const float minimum = lanes[lane % 16];
    const uint8_t *codes = at + panels_codes_at(p, g);
    for (int k = 0; k < p.group; k++) values[k] = kept_number(p, codes, lane, k) * scale;
    if (p.minimums)
      for (int i = 0; i < p.group; i++) values[i] += minimum;
    round_numbers(rounded, values, 48);
    int64_t left = p.columns - g * p.group;
    memcpy(out + g * p.group, values, (size_t)(left < p.group ? left : p.group) * 4);
  }
}

// A stored row of codes as floats of the type `to`, as products with unrounded activations read it.
INLINE void expand_row(const struct panels p, const uint8_t *words, const uint8_t *scales,
                       enum number to, uint8_t *out) {
  const size_t size = number_size(p.number), all = (size_t)panels_groups(p) * size;
  for (int64_t k = 0; k < p.columns; k++) {
    const uint8_t *scale = scales + (size_t)(k / p.group) * size;
    const int number = code_number(p, unpack_code(p, words, k)) - p.zero;
    float value = (float)number * load_number(p.number, scale);
    if (p.minimums) value += load_number(p.number, scale + all);
    float sixteen[16] = {value};
    uint8_t stored[64];
    vec_store_number(to, stored, vec_load(sixteen));
    memcpy(out + (size_t)k * number_size(to), stored, number_size(to));
  }
}

#endif
