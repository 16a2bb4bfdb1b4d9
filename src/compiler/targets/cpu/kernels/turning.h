// Columns into rows, as keys that hold their values need them before these are weighed. Squares with as many numbers a side as 16 bytes
// hold are turned in registers. What is left of the columns, and all of them where the compiler has no word for it (gcc before 12),
// is turned number by number.
#ifndef SINTER_TURNING_H
#define SINTER_TURNING_H

#include <stdint.h>
#include <string.h>
#include "vector.h"

#ifdef __has_builtin
#if __has_builtin(__builtin_shufflevector)
#define TURNS_SQUARES
#endif
#endif

#ifdef TURNS_SQUARES

#define LOW_4 0, 4, 1, 5
#define HIGH_4 2, 6, 3, 7
#define LOW_8 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH_8 4, 12, 5, 13, 6, 14, 7, 15
#define LOW_16 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH_16 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31

// Rows of the first half are laced with those of the second. That takes the first bit of a number's place, row before column, to the
// end, and when it has been done for all bits of a row, these are the column's.
#define TURN_SQUARE(type, side, bits)                                                            \
  typedef type side_of_##side __attribute__((vector_size(16)));                                  \
  INLINE void turn_square_##side(const uint8_t *from, size_t from_stride, uint8_t *to,           \
                                 size_t to_stride) {                                             \
    side_of_##side x[side], laced[side];                                                         \
    _Pragma("GCC unroll 16") for (size_t i = 0; i < side; i++)                                   \
        memcpy(&x[i], from + i * from_stride, 16);                                               \
    _Pragma("GCC unroll 4") for (int bit = 0; bit < bits; bit++) {                               \
      _Pragma("GCC unroll 8") for (int i = 0; i < side / 2; i++) {                               \
        laced[2 * i] = __builtin_shufflevector(x[i], x[i + side / 2], LOW_##side);               \
        laced[2 * i + 1] = __builtin_shufflevector(x[i], x[i + side / 2], HIGH_##side);          \
      }                                                                                          \
      _Pragma("GCC unroll 16") for (int i = 0; i < side; i++) x[i] = laced[i];                   \
    }                                                                                            \
    _Pragma("GCC unroll 16") for (size_t i = 0; i < side; i++)                                   \
        memcpy(to + i * to_stride, &x[i], 16);                                                   \
  }
TURN_SQUARE(uint32_t, 4, 2)
TURN_SQUARE(uint16_t, 8, 3)
TURN_SQUARE(uint8_t, 16, 4)
#undef TURN_SQUARE

INLINE void turn_square(const size_t size, const uint8_t *from, size_t from_stride, uint8_t *to,
                        size_t to_stride) {
  switch (size) {
    case 1:
      turn_square_16(from, from_stride, to, to_stride);
      break;
    case 2:
      turn_square_8(from, from_stride, to, to_stride);
      break;
    default:
      turn_square_4(from, from_stride, to, to_stride);
  }
}

#endif

// [columns][positions] of numbers of so many bytes, positions being a multiple of 16, into [positions][columns], whose rows are `stride`
// bytes apart.
INLINE void turn_columns(const uint8_t *from, int64_t columns, const int64_t positions,
                         const size_t size, uint8_t *to, size_t stride) {
  int64_t d = 0;
#ifdef TURNS_SQUARES
  const int64_t side = 16 / (int64_t)size;
  for (; d + side <= columns; d += side)
    for (int64_t i = 0; i < positions; i += side)
      turn_square(size, from + (size_t)(d * positions + i) * size, (size_t)positions * size,
                  to + (size_t)i * stride + (size_t)d * size, stride);
#endif
  for (; d < columns; d++)
    for (int64_t i = 0; i < positions; i++)
      memcpy(to + (size_t)i * stride + (size_t)d * size,
             from + (size_t)(d * positions + i) * size, size);
}

#endif
