// GGUF's blocks taken apart off the event loop, 3 to 17 times as fast as by src/model/gguf/blocks.ts, which says what each type
// holds, judges this, and serves where no compiler and no package brings it: the bits are the same. Compiled into every library,
// and alone for programs that are none (blocks.ts).
#include "abi.h"

#include <string.h>

// One block: its bytes, and where its codes, its scales and its minimums go. Numbers are f16 as they are stored, or floats.
// `patterns`: words of codes that the block's own point to.
typedef struct {
  const uint8_t *bytes;
  uint8_t *codes;
  void *scales, *minimums;
  const uint32_t *patterns;
} block;

static inline float half_at(const uint8_t *at) {
  uint16_t half;
  memcpy(&half, at, sizeof half);
  // The exponent's bias is made up for by a product, which is exact for subnormal halves, too.
  uint32_t magnitude = (uint32_t)(half & 0x7fff) << 13;
  const uint32_t factor = 0x77800000;  // 2^112
  float value, scale;
  memcpy(&value, &magnitude, sizeof value);
  memcpy(&scale, &factor, sizeof scale);
  value *= scale;
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  if ((half & 0x7c00) == 0x7c00) bits = magnitude | 0x7f800000;
  bits |= (uint32_t)(half & 0x8000) << 16;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline uint32_t four_at(const uint8_t *at) {
  return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static inline void copy_scale(block b) { memcpy(b.scales, b.bytes, 2); }
static inline void copy_minimum(block b) { memcpy(b.minimums, b.bytes + 2, 2); }

// The low halves of eight bytes, side by side.
static inline uint32_t joined(uint64_t bytes) {
  bytes &= 0x0f0f0f0f0f0f0f0f;
  bytes = (bytes | bytes >> 4) & 0x00ff00ff00ff00ff;
  bytes = (bytes | bytes >> 8) & 0x0000ffff0000ffff;
  return (uint32_t)(bytes | bytes >> 16);
}

// Of `count` bytes the low halves, then the high halves, as nibbles; eight bytes at once.
static inline void nibbles(const uint8_t *from, int count, uint8_t *to) {
  for (int i = 0; i < count / 8; i++) {
    uint64_t bytes;
    memcpy(&bytes, from + 8 * i, sizeof bytes);
    const uint32_t low = joined(bytes), high = joined(bytes >> 4);
    memcpy(to + 4 * i, &low, sizeof low);
    memcpy(to + count / 2 + 4 * i, &high, sizeof high);
  }
}

// Of 16 bytes the low halves, then the high halves, with a fifth bit each.
static inline void five_bits(const uint8_t *from, uint32_t fifth, uint8_t *to) {
  for (int i = 0; i < 16; i++) {
    to[i] = (uint8_t)((from[i] & 15) | (fifth >> i & 1) << 4);
    to[16 + i] = (uint8_t)(from[i] >> 4 | (fifth >> (16 + i) & 1) << 4);
  }
}

// 64 bytes: two runs of 32, four planes of 2 bits each; as nibbles.
static inline void two_bits(const uint8_t *from, uint8_t *to) {
  for (int run = 0; run < 2; run++)
    for (int plane = 0; plane < 4; plane++)
      for (int i = 0; i < 16; i++) {
        const uint8_t *pair = from + 32 * run + 2 * i;
        to[64 * run + 16 * plane + i] =
            (uint8_t)((pair[0] >> (2 * plane) & 3) | (pair[1] >> (2 * plane) & 3) << 4);
      }
}

// A third bit of each nibble: 32 bytes, eight planes.
static inline void third_bit(const uint8_t *from, uint8_t *to) {
  for (int plane = 0; plane < 8; plane++)
    for (int i = 0; i < 16; i++)
      to[16 * plane + i] |=
          (uint8_t)((from[2 * i] >> plane & 1) << 2 | (from[2 * i + 1] >> plane & 1) << 6);
}

// Eight scales and minimums of 6 bits in the 12 bytes behind the two that they are multiplied with.
static inline void six_bit_scales(block b) {
  const float scale = half_at(b.bytes), low = -half_at(b.bytes + 2);
  const uint8_t *first = b.bytes + 4, *second = first + 4, *both = second + 4;
  float *scales = b.scales, *minimums = b.minimums;
  for (int g = 0; g < 4; g++) {
    scales[g] = scale * (float)(first[g] & 63);
    minimums[g] = low * (float)(second[g] & 63);
    scales[4 + g] = scale * (float)((both[g] & 15) | (first[g] >> 2 & 48));
    minimums[4 + g] = low * (float)(both[g] >> 4 | (second[g] >> 2 & 48));
  }
}

static inline void take_q4_0(block b) {
  copy_scale(b);
  nibbles(b.bytes + 2, 16, b.codes);
}

static inline void take_q4_1(block b) {
  copy_scale(b);
  copy_minimum(b);
  nibbles(b.bytes + 4, 16, b.codes);
}

static inline void take_q5_0(block b) {
  copy_scale(b);
  five_bits(b.bytes + 6, four_at(b.bytes + 2), b.codes);
}

static inline void take_q5_1(block b) {
  copy_scale(b);
  copy_minimum(b);
  five_bits(b.bytes + 8, four_at(b.bytes + 4), b.codes);
}

static inline void take_q8_0(block b) {
  copy_scale(b);
  for (int i = 0; i < 32; i++) b.codes[i] = b.bytes[2 + i] ^ 0x80;  // signed, plus 128
}

static inline void take_q2_k(block b) {
  const float scale = half_at(b.bytes + 80), low = -half_at(b.bytes + 82);
  float *scales = b.scales, *minimums = b.minimums;
  for (int g = 0; g < 16; g++) {
    scales[g] = scale * (float)(b.bytes[g] & 15);
    minimums[g] = low * (float)(b.bytes[g] >> 4);
  }
  two_bits(b.bytes + 16, b.codes);
}

static inline void take_q3_k(block b) {
  const float scale = half_at(b.bytes + 108);
  float *scales = b.scales;
  for (int g = 0; g < 16; g++) {
    const int low = b.bytes[96 + (g & 7)] >> (g & 8 ? 4 : 0) & 15;
    const int high = b.bytes[104 + (g & 3)] >> (2 * (g >> 2)) & 3;
    scales[g] = scale * (float)((low | high << 4) - 32);
  }
  two_bits(b.bytes + 32, b.codes);
  third_bit(b.bytes, b.codes);
}

static inline void take_q4_k(block b) {
  six_bit_scales(b);
  for (int run = 0; run < 4; run++) nibbles(b.bytes + 16 + 32 * run, 32, b.codes + 32 * run);
}

static inline void take_q5_k(block b) {
  six_bit_scales(b);
  for (int run = 0; run < 4; run++)
    for (int i = 0; i < 32; i++) {
      const uint8_t byte = b.bytes[48 + 32 * run + i], upper = b.bytes[16 + i] >> (2 * run) & 3;
      b.codes[64 * run + i] = (uint8_t)((byte & 15) | (upper & 1) << 4);
      b.codes[64 * run + 32 + i] = (uint8_t)(byte >> 4 | (upper & 2) << 3);
    }
}

static inline void take_q6_k(block b) {
  const float scale = half_at(b.bytes + 208);
  float *scales = b.scales;
  for (int g = 0; g < 16; g++) scales[g] = scale * (float)(int8_t)b.bytes[192 + g];
  for (int run = 0; run < 2; run++)
    for (int i = 0; i < 32; i++) {
      const uint8_t first = b.bytes[64 * run + i], second = b.bytes[64 * run + 32 + i],
                    upper = b.bytes[128 + 32 * run + i];
      uint8_t *to = b.codes + 128 * run + i;
      to[0] = (uint8_t)((first & 15) | (upper & 3) << 4);
      to[32] = (uint8_t)((second & 15) | (upper & 12) << 2);
      to[64] = (uint8_t)(first >> 4 | (upper & 0x30));
      to[96] = (uint8_t)(second >> 4 | (upper >> 2 & 0x30));
    }
}

static inline void take_iq4_nl(block b) {
  copy_scale(b);
  nibbles(b.bytes + 2, 16, b.codes);
}

static inline void take_iq4_xs(block b) {
  const float scale = half_at(b.bytes);
  float *scales = b.scales;
  for (int g = 0; g < 8; g++) {
    const int low = b.bytes[4 + (g >> 1)] >> (4 * (g & 1)) & 15;
    const int high = b.bytes[2 + (g >> 2)] >> (2 * (g & 3)) & 3;
    scales[g] = scale * (float)((low | high << 4) - 32);
    nibbles(b.bytes + 8 + 16 * g, 16, b.codes + 16 * g);
  }
}

// Seven signs, and an eighth that makes their number even.
static inline uint32_t even(uint32_t bits) {
  const uint32_t folded = bits ^ bits >> 4;
  return bits | (0x6996u >> (folded & 15) & 1) << 7;
}
// Eight signs as the uppermost bits of eight codes.
static inline uint32_t signs(uint32_t bits) {
  bits = (bits | bits << 12) & 0x000f000f;
  bits = (bits | bits << 6) & 0x03030303;
  return ((bits | bits << 3) & 0x11111111) << 3;
}
static inline uint32_t two_at(const uint8_t *at) { return at[0] | (uint32_t)at[1] << 8; }
static inline void put_word(block b, int i, uint32_t word) { memcpy(b.codes + 4 * i, &word, 4); }

// Sixteen scales of four bits: odd multiples of an eighth of the block's number.
static inline void scales_of_sixteen(block b, const uint8_t *from) {
  const float eighth = half_at(b.bytes) / 8;
  float *scales = b.scales;
  for (int g = 0; g < 16; g++)
    scales[g] = eighth * (float)(2 * (from[g / 2] >> (4 * (g & 1)) & 15) + 1);
}

static inline void take_iq2_xxs(block b) {
  const float eighth = half_at(b.bytes) / 8;
  float *scales = b.scales;
  for (int g = 0; g < 8; g++) {
    const uint8_t *codes = b.bytes + 2 + 8 * g;
    const uint32_t rest = four_at(codes + 4);
    scales[2 * g] = scales[2 * g + 1] = eighth * (float)(2 * (rest >> 28) + 1);
    for (int i = 0; i < 4; i++)
      put_word(b, 4 * g + i, b.patterns[codes[i]] | signs(even(rest >> (7 * i) & 127)));
  }
}

static inline void take_iq2_xs(block b) {
  scales_of_sixteen(b, b.bytes + 66);
  for (int i = 0; i < 32; i++) {
    const uint32_t code = two_at(b.bytes + 2 + 2 * i);
    put_word(b, i, b.patterns[code & 511] | signs(even(code >> 9)));
  }
}

static inline void take_iq2_s(block b) {
  scales_of_sixteen(b, b.bytes + 74);
  for (int i = 0; i < 32; i++) {
    const uint32_t upper = b.bytes[66 + i / 4] >> (2 * (i & 3)) & 3;
    put_word(b, i, b.patterns[b.bytes[2 + i] | upper << 8] | signs(b.bytes[34 + i]));
  }
}

static inline void take_iq3_xxs(block b) {
  const float halved = half_at(b.bytes) / 2;  // so are the levels
  float *scales = b.scales;
  for (int g = 0; g < 8; g++) {
    const uint32_t rest = four_at(b.bytes + 66 + 4 * g);
    scales[g] = halved * (float)(2 * (rest >> 28) + 1);
    for (int i = 0; i < 4; i++) {
      const uint8_t *codes = b.bytes + 2 + 8 * g + 2 * i;
      put_word(b, 4 * g + i, b.patterns[codes[0]] | b.patterns[codes[1]] << 16 |
                                 signs(even(rest >> (7 * i) & 127)));
    }
  }
}

static inline void take_iq3_s(block b) {
  const float one = half_at(b.bytes);
  float *scales = b.scales;
  for (int g = 0; g < 8; g++) {
    scales[g] = one * (float)(2 * (b.bytes[106 + g / 2] >> (4 * (g & 1)) & 15) + 1);
    const uint32_t ninth = b.bytes[66 + g];
    for (int i = 0; i < 4; i++) {
      const uint8_t *codes = b.bytes + 2 + 8 * g + 2 * i;
      put_word(b, 4 * g + i,
               b.patterns[codes[0] | (ninth >> (2 * i) & 1) << 8] |
                   b.patterns[codes[1] | (ninth >> (2 * i + 1) & 1) << 8] << 16 |
                   signs(b.bytes[74 + 4 * g + i]));
    }
  }
}

static inline void take_iq1_s(block b) {
  const float eighth = half_at(b.bytes) / 8;
  float *scales = b.scales;
  for (int g = 0; g < 8; g++) {
    const uint32_t rest = two_at(b.bytes + 34 + 2 * g);
    scales[2 * g] = scales[2 * g + 1] = eighth * (float)(2 * (rest >> 12 & 7) + 1);
    for (int i = 0; i < 4; i++)
      put_word(b, 4 * g + i,
               b.patterns[b.bytes[2 + 4 * g + i] | (rest >> (3 * i) & 7) << 8 | rest >> 15 << 11]);
  }
}

static inline void take_iq1_m(block b) {
  const uint8_t *rests = b.bytes + 48;
  uint8_t number[2] = {(uint8_t)(rests[1] >> 4 | (rests[3] & 0xf0)),
                       (uint8_t)(rests[5] >> 4 | (rests[7] & 0xf0))};
  const float eighth = half_at(number) / 8;
  float *scales = b.scales;
  for (int g = 0; g < 16; g++)
    scales[g] = eighth * (float)(2 * (two_at(rests + g / 4 * 2) >> (3 * (g & 3)) & 7) + 1);
  for (int i = 0; i < 32; i++) {
    const uint32_t upper = b.bytes[32 + i / 2] >> (4 * (i & 1)) & 15;
    put_word(b, i, b.patterns[b.bytes[i] | upper << 8]);
  }
}

// The f16 as the scale of all the groups.
static inline void same_scales(block b, const uint8_t *half, int groups) {
  for (int g = 0; g < groups; g++) memcpy((uint8_t *)b.scales + 2 * g, half, 2);
}

// Eight codes that stand for one less than they are, as those above a zero of 8.
#define LESS_ONE 0x77777777u

static inline void take_q1_0(block b) {
  same_scales(b, b.bytes, 4);
  for (int i = 0; i < 16; i++) put_word(b, i, (signs(b.bytes[2 + i]) >> 2) + LESS_ONE);
}

static inline void take_q2_0(block b) {
  same_scales(b, b.bytes, 2);
  for (int i = 0; i < 8; i++) {
    uint32_t codes = two_at(b.bytes + 2 + 2 * i);
    codes = (codes | codes << 8) & 0x00ff00ff;
    codes = (codes | codes << 4) & 0x0f0f0f0f;
    put_word(b, i, ((codes | codes << 2) & 0x33333333) + LESS_ONE);
  }
}

// Five digits of base 3 in a byte, or four: of a run the first ones, then the second ones. As -1, 0 and 1 above a zero of 8.
static inline int threes(const uint8_t *from, int count, int digits, uint8_t *to) {
  int value = 0;
  for (int digit = 0, power = 1; digit < digits; digit++, power *= 3)
    for (int i = 0; i < count; i++, value++) {
      const uint32_t rest = (uint32_t)(from[i] * power) & 255, code = (rest * 3 >> 8) + 7;
      to[value / 2] = (uint8_t)(value & 1 ? to[value / 2] | code << 4 : code);
    }
  return value;
}

static inline void take_tq1_0(block b) {
  same_scales(b, b.bytes + 52, 8);
  threes(b.bytes, 32, 5, b.codes);
  threes(b.bytes + 32, 16, 5, b.codes + 80);
  threes(b.bytes + 48, 4, 4, b.codes + 120);
}

static inline void take_tq2_0(block b) {
  same_scales(b, b.bytes + 64, 8);
  two_bits(b.bytes, b.codes);
  for (int i = 0; i < 128; i++) b.codes[i] = (uint8_t)(b.codes[i] + (LESS_ONE & 255));
}

// Half of a float of 8 bits (e4m3) without a sign; what is no number is 0.
static inline float half_of_e4m3(uint32_t byte) {
  const uint32_t exponent = byte >> 3 & 15, fraction = byte & 7;
  if (exponent == 0) return (float)fraction * 0x1p-10f;
  if (exponent == 15 && fraction == 7) return 0;
  return (float)(8 + fraction) * (float)(1u << exponent) * 0x1p-11f;
}

static inline void take_nvfp4(block b) {
  float *scales = b.scales;
  for (int g = 0; g < 4; g++) {
    scales[g] = half_of_e4m3(b.bytes[g]);
    nibbles(b.bytes + 4 + 8 * g, 8, b.codes + 8 * g);
  }
}

static inline void take_mxfp4(block b) {
  // 2^(e - 128), as a bf16: half of the block's, as what codes stand for is doubled (format.ts). The two least are subnormal.
  const uint32_t exponent = b.bytes[0];
  const uint32_t bits = exponent >= 2 ? (exponent - 1) << 7 : exponent ? 1u << 6 : 1u << 5;
  const uint16_t bf16 = (uint16_t)bits;
  memcpy(b.scales, &bf16, sizeof bf16);
  nibbles(b.bytes + 1, 16, b.codes);
}

// Name, GGUF's number, values and bytes of a block, bytes of its codes, its groups, bytes of a number, whether it has minimums.
#define KINDS(KIND)                         \
  KIND(q4_0, 2, 32, 18, 16, 1, 2, 0)        \
  KIND(q4_1, 3, 32, 20, 16, 1, 2, 1)        \
  KIND(q5_0, 6, 32, 22, 32, 1, 2, 0)        \
  KIND(q5_1, 7, 32, 24, 32, 1, 2, 1)        \
  KIND(q8_0, 8, 32, 34, 32, 1, 2, 0)        \
  KIND(q2_k, 10, 256, 84, 128, 16, 4, 1)    \
  KIND(q3_k, 11, 256, 110, 128, 16, 4, 0)   \
  KIND(q4_k, 12, 256, 144, 128, 8, 4, 1)    \
  KIND(q5_k, 13, 256, 176, 256, 8, 4, 1)    \
  KIND(q6_k, 14, 256, 210, 256, 16, 4, 0)   \
  KIND(iq2_xxs, 16, 256, 66, 128, 16, 4, 0) \
  KIND(iq2_xs, 17, 256, 74, 128, 16, 4, 0)  \
  KIND(iq3_xxs, 18, 256, 98, 128, 8, 4, 0)  \
  KIND(iq1_s, 19, 256, 50, 128, 16, 4, 0)   \
  KIND(iq4_nl, 20, 32, 18, 16, 1, 2, 0)     \
  KIND(iq3_s, 21, 256, 110, 128, 8, 4, 0)   \
  KIND(iq2_s, 22, 256, 82, 128, 16, 4, 0)   \
  KIND(iq4_xs, 23, 256, 136, 128, 8, 4, 0)  \
  KIND(iq1_m, 29, 256, 56, 128, 16, 4, 0)   \
  KIND(tq1_0, 34, 256, 54, 128, 8, 2, 0)    \
  KIND(tq2_0, 35, 256, 66, 128, 8, 2, 0)    \
  KIND(mxfp4, 39, 32, 17, 16, 1, 2, 0)      \
  KIND(nvfp4, 40, 64, 36, 32, 4, 4, 0)      \
  KIND(q1_0, 41, 128, 18, 64, 4, 2, 0)      \
  KIND(q2_0, 42, 64, 18, 32, 2, 2, 0)

// The blocks of a row, the first of which is `b`; its scales lie side by side, and so do its minimums.
#define TAKE_ROW(name, type, values, size, code_bytes, groups, number, minimum) \
  static void row_of_##name(block b, int64_t count) {                           \
    for (int64_t i = 0; i < count; i++) {                                       \
      take_##name(b);                                                           \
      b.bytes += size;                                                          \
      b.codes += code_bytes;                                                    \
      b.scales = (uint8_t *)b.scales + groups * number;                         \
      b.minimums = (uint8_t *)b.minimums + groups * number;                     \
    }                                                                           \
  }
KINDS(TAKE_ROW)

typedef struct {
  int32_t type, values, bytes, code_bytes, scale_bytes, has_minimums;  // bytes are a block's
  void (*take_row)(block, int64_t count);
} kind;

#define ENTRY(name, type, values, size, code_bytes, groups, number, minimum) \
  {type, values, size, code_bytes, groups * number, minimum, row_of_##name},
static const kind kinds[] = {KINDS(ENTRY)};

static const kind *kind_of(int32_t type) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (kinds[i].type == type) return &kinds[i];
  return NULL;
}

int32_t sinter_unpack_blocks(int32_t type, int64_t rows, int64_t columns, const void *blocks,
                             const void *patterns, void *codes, void *scales) {
  const kind *k = kind_of(type);
  if (!k || columns % k->values != 0) return SINTER_BAD_PARAMETER;
  const int64_t count = columns / k->values;
  const size_t row_scales = (size_t)(count * k->scale_bytes);
  block b = {blocks, codes, scales, (uint8_t *)scales + row_scales, patterns};
  for (int64_t row = 0; row < rows; row++) {
    k->take_row(b, count);
    b.bytes += count * k->bytes;
    b.codes += count * k->code_bytes;
    b.scales = (uint8_t *)b.scales + (row_scales << k->has_minimums);
    b.minimums = (uint8_t *)b.scales + row_scales;
  }
  return SINTER_OK;
}
