// Adds the product of two factors to rows of a matrix, for adapters (src/model/adapters/adapted.ts, which judges this, and serves
// where no compiler and no package brings it: the bits are the same). Sums are in double precision, in the order of ranks; products of
// two floats are exact there, so that it does not matter whether a compiler fuses them into sums.
#include "abi.h"

#include <string.h>

#define TILE 64  // columns whose sums are kept at once

static inline float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static inline float from_f16(uint16_t half) {
  const uint32_t magnitude = (uint32_t)(half & 0x7fff) << 13, sign = (uint32_t)(half & 0x8000) << 16;
  if ((half & 0x7c00) == 0x7c00) return float_of(sign | magnitude | 0x7f800000);
  // The exponent's bias is made up for by a product with 2^112, which is exact for subnormal halves, too.
  return float_of(sign | bits_of(float_of(magnitude) * float_of(0x77800000)));
}

static inline uint16_t to_f16(float value) {
  const uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000;
  uint32_t size = bits & 0x7fffffff;
  if (size > 0x7f800000) return (uint16_t)(sign | 0x7e00);
  if (size >= 0x477ff000) return (uint16_t)(sign | 0x7c00);  // from 65520 on
  // Below 2^-14 halves are 2^-24 apart, as floats from 0.5 on are.
  if (size < 0x38800000) return (uint16_t)(sign | (bits_of(float_of(size) + 0.5f) - 0x3f000000));
  size += 0xfff + (size >> 13 & 1);
  return (uint16_t)(sign | (size - 0x38000000) >> 13);
}

static inline float from_bf16(uint16_t brain) { return float_of((uint32_t)brain << 16); }

static inline uint16_t to_bf16(float value) {
  const uint32_t bits = bits_of(value), size = bits & 0x7fffffff;
  if (size > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40);
  if (size >= 0x7f7f0000) return (uint16_t)(bits >> 16);  // nothing becomes infinite
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// Columns `from` to `from + count - 1` of a row's product.
static inline void sums_of(double *sums, int64_t rank, int64_t columns, const float *left,
                           const float *right, int64_t count) {
  memset(sums, 0, TILE * sizeof *sums);
  if (count == TILE) {
    for (int64_t k = 0; k < rank; k++, right += columns) {
      const double number = left[k];
      for (int i = 0; i < TILE; i++) sums[i] += number * right[i];
    }
    return;
  }
  for (int64_t k = 0; k < rank; k++, right += columns) {
    const double number = left[k];
    for (int64_t i = 0; i < count; i++) sums[i] += number * right[i];
  }
}

int32_t sinter_add_product(int32_t type, int64_t rows, int64_t columns, int64_t rank,
                           const void *left, const void *right, void *values) {
  double sums[TILE];
  for (int64_t from = 0; from < columns; from += TILE) {
    const int64_t count = columns - from < TILE ? columns - from : TILE;
    for (int64_t row = 0; row < rows; row++) {
      sums_of(sums, rank, columns, (const float *)left + row * rank, (const float *)right + from, count);
      const int64_t at = row * columns + from;
      float *floats = (float *)values + at;
      uint16_t *halves = (uint16_t *)values + at;
      switch (type) {
        case 0:
          for (int64_t i = 0; i < count; i++) floats[i] += (float)sums[i];
          break;
        case 1:
          for (int64_t i = 0; i < count; i++) halves[i] = to_f16(from_f16(halves[i]) + (float)sums[i]);
          break;
        case 2:
          for (int64_t i = 0; i < count; i++) halves[i] = to_bf16(from_bf16(halves[i]) + (float)sums[i]);
          break;
        default:
          return SINTER_BAD_PARAMETER;
      }
    }
  }
  return SINTER_OK;
}
