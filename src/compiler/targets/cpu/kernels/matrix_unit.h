// The processor's matrix unit (AMX): whether it may be used, its instructions, and numbers as it takes them.
//
// It has eight tiles of 16 lines, 64 bytes each. It multiplies bf16 and adds in float, so numbers become planes of bf16: a
// stored one is their sum exactly (an f16 has 11 significant bits and takes two planes, a bf16 or an 8-bit code is one by
// itself), a float is the nearest bf16 and what is left of it, 16 bits together. Products of planes add up in one sum; low
// times low is left out. Pair i of 32 columns is column i and column i + 16.
#ifndef SINTER_MATRIX_UNIT_H
#define SINTER_MATRIX_UNIT_H

#include "panels.h"

// A tile: 16 rows of 16 pairs of bf16, or of 16 floats.
enum { TILE = 16, TILE_BYTES = 1024 };

// Whether numbers stored so are multiplied there, as planes, where the unit may be used: floats keep all their bits.
INLINE int takes_planes(enum number n, int tiles) {
#ifdef __AMX_BF16__
  return tiles && n != F32;
#else
  return 0;
#endif
}

#ifdef __AMX_BF16__
#include <sys/syscall.h>
#include <unistd.h>

// Linux lends a process the 8 KiB of tiles that every thread has, on request; it may refuse.
INLINE int tiles_permitted(void) {
  enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18 };
  return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
}

#define TILE_ZERO(tile) __asm__ volatile("tilezero %%tmm" #tile::)
#define TILE_LOAD(tile, from, stride)                             \
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile             \
                   :                                              \
                   : "r"(from), "r"((int64_t)(stride)) : "memory")
#define TILE_STORE(tile, to) \
  __asm__ volatile("tilestored %%tmm" #tile ", (%0,%1,1)" ::"r"(to), "r"(64L) : "memory")
#define TILE_DOT_BF16(sum, rows, columns) \
  __asm__ volatile("tdpbf16ps %%tmm" #columns ", %%tmm" #rows ", %%tmm" #sum::)

// Registers 0 to 3 are sums of so many `rows`, 4 and 5 the rows, `bytes` of K each, 6 and 7 columns: four bytes of K a line.
INLINE void tiles_configure(int64_t rows, int64_t bytes) {
  struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  } shape = {.palette = 1};
  for (int i = 0; i < 8; i++) {
    shape.rows[i] = (uint8_t)(i < 6 ? rows : bytes / 4);
    shape.row_bytes[i] = (uint16_t)(i == 4 || i == 5 ? bytes : LINE);
  }
  __asm__ volatile("ldtilecfg %0" ::"m"(shape));
}

INLINE void tiles_release(void) { __asm__ volatile("tilerelease" ::); }

// ------------------------------------------------------------------ numbers to planes

INLINE __mmask16 first_lanes(int64_t n) {
  return (__mmask16)(n >= 16 ? 0xffff : n > 0 ? (1u << n) - 1 : 0);
}
#define UPPER_HALF _mm512_set1_epi32((int)0xffff0000)
INLINE ivec bits_of_vec(vec v) { return _mm512_castps_si512(v); }
INLINE vec upper_half(ivec v) { return _mm512_castsi512_ps(_mm512_and_si512(v, UPPER_HALF)); }
// The nearest bf16, halves away from zero, as a float.
INLINE vec nearest_bf16(vec v) {
  return upper_half(_mm512_add_epi32(bits_of_vec(v), _mm512_set1_epi32(0x8000)));
}
// Pairs of the upper halves of two vectors: a's below b's.
INLINE void store_pairs(void *to, vec a, vec b) {
  enum { EITHER = 0xf8 };  // a >> 16 | (b & UPPER_HALF)
  _mm512_store_si512(to, _mm512_ternarylogic_epi32(_mm512_srli_epi32(bits_of_vec(a), 16),
                                                   bits_of_vec(b), UPPER_HALF, EITHER));
}

// Stored numbers: the second plane is exact, and absent where the first is all.
INLINE void split_stored(enum number n, vec a, vec b, void *high, void *low) {
  if (n != F16) {
    store_pairs(high, a, b);
    return;
  }
  vec near_a = nearest_bf16(a), near_b = nearest_bf16(b);
  store_pairs(high, near_a, near_b);
  store_pairs(low, vec_sub(a, near_a), vec_sub(b, near_b));
}
// What is left of a float beside its first plane. A NaN stays one here: of one with all bits set rounding makes a zero.
INLINE vec left_of(vec v, vec near) {
  return _mm512_mask_mov_ps(nearest_bf16(vec_sub(v, near)), _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q),
                            v);
}
// Floats: 16 bits of each.
INLINE void split_floats(vec a, vec b, void *high, void *low) {
  vec near_a = nearest_bf16(a), near_b = nearest_bf16(b);
  store_pairs(high, near_a, near_b);
  store_pairs(low, left_of(a, near_a), left_of(b, near_b));
}

// Which planes of rows and columns meet, in this order: high with low (which only an f16 has), high with high, low
// with high.
INLINE int first_part(enum number n) { return n == F16 ? 0 : 1; }
INLINE int row_plane(int part) { return part == 2; }
INLINE int column_plane(int part) { return part == 0; }
// What the part before has loaded stays.
INLINE int new_rows(enum number n, int part) {
  return part == first_part(n) || row_plane(part) != row_plane(part - 1);
}
INLINE int new_columns(enum number n, int part) {
  return part == first_part(n) || column_plane(part) != column_plane(part - 1);
}

#else
INLINE int tiles_permitted(void) { return 0; }
#endif
#endif
