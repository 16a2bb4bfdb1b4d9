// Products of many rows on the processor's matrix unit (AMX). One instruction sums a group of K, exactly and in integers,
// for 12 rows and 16 columns; the sum is then scaled and added by the operations of product.h in their order. The bits are
// those of the vector kernel, so rows of one product may be divided between the two as is fastest.
//
// What a tile holds reaches the vector registers through memory alone, and multiplications run at half their rate beside
// tile instructions (measured: only one of the two ports takes them). So a sum becomes a float by an addition: a tile starts
// from the bits of 1.5 * 2^23, a float that integers below 2^22 move by exactly themselves.
#ifndef SINTER_TILES_H
#define SINTER_TILES_H

#include "matrix_unit.h"
#include "operands.h"

// Rows behind the last that a tile which is not full reads.
enum { TILES_BEHIND = 4 };

#ifdef __AMX_INT8__
// Rows of a tile: 12 rows x 32 columns of floats fill 24 registers. Groups in a chunk: its weights as bytes, 16 KiB, stay
// in the first cache while all rows pass. Rows of a pass: their sums wait in memory from chunk to chunk.
enum { TILE_HEIGHT = 12, TILE_CHUNK = 16, MAX_TILE_ROWS = 32 * TILE_HEIGHT, TILE_GROUP = 48 };

enum { INTEGER_BITS = 0x4b400000 };  // of 1.5 * 2^23

// Registers 0 to 3 are two halves of two groups, 4 and 5 the groups' rows, 6 and 7 a half of weights each.
struct tiles {
  _Alignas(LINE) int8_t weights[2][TILE_CHUNK * TILE_GROUP * 16];  // [half][k / 4][column][4]
  _Alignas(LINE) int32_t integers[16][16];
  _Alignas(LINE) int32_t out[2][2][16][16];             // [group mod 2][half][row][column]
  // Bytes: takes the zero point off. Where there are minimums: the group's activations, added up and scaled.
  _Alignas(LINE) float start[TILE_HEIGHT][TILE_CHUNK];
  _Alignas(LINE) float sums[MAX_TILE_ROWS][PANEL];
};

// Activations are signed; weights are, too, or unsigned bytes.
#define TILE_DOT(sum, rows, weights)                                               \
  do {                                                                             \
    if (w.codes == CODES_8)                                                        \
      __asm__ volatile("tdpbsud %%tmm" #weights ", %%tmm" #rows ", %%tmm" #sum::); \
    else                                                                           \
      __asm__ volatile("tdpbssd %%tmm" #weights ", %%tmm" #rows ", %%tmm" #sum::); \
  } while (0)

// Nibbles of a chunk as signed bytes, in the order that the matrix unit reads: the panel's own.
INLINE void tiles_expand(const struct panels w, const uint8_t *panel, int64_t groups,
                         struct tiles *t) {
  const ivec zero = ivec_set((int)((unsigned)w.zero * 0x01010101u));
#define SIGNED_BYTES(to, nibbles) _mm512_store_si512(to, _mm512_sub_epi8(nibbles, zero))
  int8_t *left = t->weights[0], *right = t->weights[1];
  for (int64_t g = 0; g < groups; g++) {
    const uint8_t *codes = panel + panels_codes_at(w, g);
#pragma GCC unroll 6
    for (int64_t j = 0; j < panels_lines(w); j++) {
      if (w.codes == CODES_6 && j % 3 == 2) continue;
      const uint8_t *line = codes + j * 2 * LINE, *upper = codes + (j / 3 * 3 + 2) * 2 * LINE;
      ivec l = ivec_load(line), r = ivec_load(line + LINE);
      ivec nibbles[4] = {ivec_low_nibbles(l), ivec_low_nibbles(r), ivec_high_nibbles(l),
                         ivec_high_nibbles(r)};
      if (w.codes == CODES_6)
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
          nibbles[i] = ivec_with_upper(nibbles[i], ivec_load(upper + i % 2 * LINE),
                                       2 * (int)(j % 3) + i / 2);
      if (has_table(w.codes))
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) nibbles[i] = ivec_look_up(table_of(w.codes), nibbles[i]);
#pragma GCC unroll 2
      for (int half = 0; half < 2; half++, left += LINE, right += LINE) {
        SIGNED_BYTES(left, nibbles[2 * half]);
        SIGNED_BYTES(right, nibbles[2 * half + 1]);
      }
    }
  }
#undef SIGNED_BYTES
}

// One chunk's groups added to the sums of a tile's rows.
INLINE void tiles_rows(const struct panels w, const uint8_t *panel, const uint8_t *rows,
                       int64_t first, int64_t groups, struct fetch behind, float (*sums)[PANEL],
                       struct tiles *t) {
  const int64_t stride = quantized_bytes(w.columns, w.group);
  const uint8_t *codes = rows + first * w.group,
                *scales = rows + quantized_scales(w.columns, w.group) + 4 * first,
                *starts = rows + quantized_starts(w.columns, w.group) + 4 * first;
  const vec back = vec_set(-12582912.0f);
  vec total[TILE_HEIGHT][2];
#pragma GCC unroll 12
  for (int r = 0; r < TILE_HEIGHT; r++)
    total[r][0] = vec_load(sums[r]), total[r][1] = vec_load(sums[r] + 16);
  if (w.codes == CODES_8 || w.minimums)
    for (int r = 0; r < TILE_HEIGHT; r++) {
      const uint8_t *kept = starts + r * stride;
      vec_store(t->start[r], w.minimums ? vec_load((const float *)kept)
                                        : vec_add(vec_from_ivec(ivec_load(kept)), back));
    }

// A group's four tiles, its way to memory, and what becomes of it there.
#define MULTIPLY(left, right, a, g)                                                              \
  do {                                                                                           \
    const void *w0 =                                                                             \
        w.codes == CODES_8 ? panel + panels_codes_at(w, g)                                       \
                           : (uint8_t *)t->weights[0] + (g) * w.group * 16;                      \
    const void *w1 = w.codes == CODES_8 ? panel + panels_codes_at(w, g) + LINE                   \
                                        : (uint8_t *)t->weights[1] + (g) * w.group * 16;         \
    const int between = w.codes == CODES_8 ? 2 * LINE : LINE;                                    \
    TILE_LOAD(left, t->integers, LINE);                                                          \
    TILE_LOAD(right, t->integers, LINE);                                                         \
    TILE_LOAD(a, codes + (g) * w.group, stride);                                                 \
    TILE_LOAD(6, w0, between);                                                                   \
    TILE_DOT(left, a, 6);                                                                        \
    TILE_LOAD(7, w1, between);                                                                   \
    TILE_DOT(right, a, 7);                                                                       \
  } while (0)
#define STORE_TILES(left, right, g)        \
  do {                                     \
    TILE_STORE(left, t->out[(g) & 1][0]);  \
    TILE_STORE(right, t->out[(g) & 1][1]); \
  } while (0)
#define ACCUMULATE(g)                                                                    \
  do {                                                                                   \
    fetch_lines(&behind);                                                                \
    vec left = load_scales(w, panel, g, 0, 0), right = load_scales(w, panel, g, 0, 1);   \
    _Pragma("GCC unroll 12") for (int r = 0; r < TILE_HEIGHT; r++) {                     \
      float f;                                                                           \
      memcpy(&f, scales + r * stride + 4 * (g), 4);                                      \
      vec scale = vec_set(f),                                                            \
          off = w.codes == CODES_8 && !w.minimums ? vec_set(t->start[r][g]) : back;      \
      vec l = vec_add(vec_load((float *)t->out[(g) & 1][0][r]), off),                    \
          h = vec_add(vec_load((float *)t->out[(g) & 1][1][r]), off);                    \
      total[r][0] = vec_fma(l, vec_mul(left, scale), total[r][0]);                       \
      total[r][1] = vec_fma(h, vec_mul(right, scale), total[r][1]);                      \
      if (w.minimums) {                                                                  \
        vec all = vec_set(t->start[r][g]);                                               \
        total[r][0] = vec_fma(load_scales(w, panel, g, 1, 0), all, total[r][0]);         \
        total[r][1] = vec_fma(load_scales(w, panel, g, 1, 1), all, total[r][1]);         \
      }                                                                                  \
    }                                                                                    \
  } while (0)
  // Two groups ahead in the matrix unit, one on its way through memory.
  MULTIPLY(0, 1, 4, 0);
  if (groups > 1) MULTIPLY(2, 3, 5, 1);
  STORE_TILES(0, 1, 0);
  for (int64_t g = 0;; g += 2) {
    if (g + 2 < groups) MULTIPLY(0, 1, 4, g + 2);
    if (g + 1 < groups) STORE_TILES(2, 3, g + 1);
    ACCUMULATE(g);
    if (g + 1 == groups) break;
    if (g + 3 < groups) MULTIPLY(2, 3, 5, g + 3);
    if (g + 2 < groups) STORE_TILES(0, 1, g + 2);
    ACCUMULATE(g + 1);
    if (g + 2 == groups) break;
  }
#undef MULTIPLY
#undef STORE_TILES
#undef ACCUMULATE
#pragma GCC unroll 12
  for (int r = 0; r < TILE_HEIGHT; r++)
    vec_store(sums[r], total[r][0]), vec_store(sums[r] + 16, total[r][1]);
}

// How many of so many rows the matrix unit takes: whole tiles, and a rest that costs the vector kernel more than a whole
// tile costs here. One that is not full reads the rows behind and leaves what they give. Below two tiles the panel's way to
// bytes is not paid back: 16 rows 0.86 of the vector kernel's rate, 20 rows 1.09, 24 rows 1.24, 36 rows 1.37.
INLINE int64_t tiles_count(int64_t count) {
  int64_t rest = count % TILE_HEIGHT;
  if (count < 2 * TILE_HEIGHT - TILES_BEHIND) return 0;
  return rest >= TILE_HEIGHT - TILES_BEHIND ? count : count - rest;
}

// Rows `row` .. `row + count - 1`, at most MAX_TILE_ROWS, against a panel.
INLINE void tiles_pass(const struct panels w, const struct product *p, int64_t index, int64_t row,
                       int64_t count, struct tiles *t) {
  const int64_t stride = quantized_bytes(w.columns, w.group), all = panels_groups(w);
  const uint8_t *panel = p->panels + (size_t)index * panels_panel_bytes(w);
  for (int64_t r = 0; r < count; r++)
    vec_store(t->sums[r], vec_zero()), vec_store(t->sums[r] + 16, vec_zero());
  for (int64_t first = 0; first < all; first += TILE_CHUNK) {
    const int64_t groups = all - first < TILE_CHUNK ? all - first : TILE_CHUNK;
    const int last = first + groups == all;
    if (w.codes != CODES_8) tiles_expand(w, panel, groups, t);
    const uint8_t *next = panel + panels_groups_bytes(w, groups);
    struct fetch behind = fetch_shares(next, panels_groups_bytes(w, groups),
                                       (count + TILE_HEIGHT - 1) / TILE_HEIGHT * groups);
    for (int64_t r = 0; r < count; r += TILE_HEIGHT) {
      int64_t height = count - r < TILE_HEIGHT ? count - r : TILE_HEIGHT;
      // Lines of the results are fetched while what goes there is computed.
      for (int64_t i = 0; i < (last ? height : 0); i++) {
        const float *out = finished_row(p, index, row + r + i);
        __builtin_prefetch(out, 1, 3);
        if (!is_gated(p->epilogue)) __builtin_prefetch(out + 16, 1, 3);
      }
      tiles_rows(w, panel, p->rows + (row + r) * stride, first, groups, behind, t->sums + r, t);
      skip_lines(&behind, groups);
      for (int64_t i = 0; i < (last ? height : 0); i++)
        finish(p, index, row + r + i, vec_load(t->sums[r + i]), vec_load(t->sums[r + i] + 16));
    }
    panel = next;
  }
}

INLINE void tiles_panel(const struct panels w, const struct product *p, int64_t index,
                        int64_t count) {
  struct tiles t;
  for (int i = 0; i < 16; i++) _mm512_store_si512(t.integers[i], ivec_set(INTEGER_BITS));
  tiles_configure(TILE_HEIGHT, w.group);
  for (int64_t done = 0; done < count; done += MAX_TILE_ROWS)
    tiles_pass(w, p, index, p->first + done,
               count - done < MAX_TILE_ROWS ? count - done : MAX_TILE_ROWS, &t);
  tiles_release();
}

#endif
#endif
