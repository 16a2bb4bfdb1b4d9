// Products of float weights of 16 bits on the processor's matrix unit (AMX), from one row to many: a row has the same bits
// in any company, but not those of product.h's vectors. Weights are split into planes on their way in, exactly; rows were
// split before, once for all panels. 32 rows and a panel's 32 columns are four tiles of sums.
//
// Weights of 32 bits keep all their bits and go the way of the vectors.
#ifndef SINTER_FLOAT_TILES_H
#define SINTER_FLOAT_TILES_H

#include "matrix_unit.h"
#include "operands.h"

// A row as the unit takes it: 32 columns of the first plane, the same of the second, and so on. A line more keeps rows from
// sharing the few places that a cache has for addresses a multiple of 2 KiB apart.
INLINE int64_t planes_bytes(int64_t columns) {
  const int64_t bytes = round_up(columns, 2 * TILE) * 4;
  return bytes % 2048 ? bytes : bytes + LINE;
}
// Rows behind the last that a tile which is not full reads.
enum { PLANES_BEHIND = TILE };

#ifdef __AMX_BF16__

// Rows of two tiles; planes of weights that are kept, of which half stay in the first cache while all rows pass; such pairs of
// tiles in a pass, whose sums wait in memory from chunk to chunk.
enum { PAIR_ROWS = 2 * TILE, KEPT_BYTES = 32 << 10, MAX_PAIRS = 12 };
enum { AHEAD_OF_USE = 32 * LINE };  // why: see product.h

struct float_tiles {
  _Alignas(LINE) uint8_t weights[KEPT_BYTES];            // [32s of K][plane][half of the panel]
  _Alignas(LINE) float sums[MAX_PAIRS][4][TILE][TILE];  // [pair of tiles][rows, half of the panel]
};

INLINE void split_row(const float *x, const int64_t columns, uint8_t *planes) {
  for (int64_t k = 0; k < columns; k += 2 * TILE, planes += 2 * LINE)
    split_floats(_mm512_maskz_loadu_ps(first_lanes(columns - k), x + k),
                 _mm512_maskz_loadu_ps(first_lanes(columns - k - TILE), x + k + TILE), planes,
                 planes + LINE);
}

// Bytes of 32s of K: of a panel's lines, and of their planes.
INLINE int64_t panel_step(const struct panels w) {
  return 2 * TILE * PANEL * (int64_t)number_size(w.number);
}
INLINE int64_t planes_step(const struct panels w) {
  return (w.number == F16 ? 2 : 1) * 2 * TILE_BYTES;
}

// Weights: as exact as split_stored, but the first plane is the upper half and not the nearest, and what low times low leaves
// out is twice as much. Few rows, which wait for this, take 0.96 of the time.
INLINE void split_halves(enum number n, vec a, vec b, void *high, void *low) {
  store_pairs(high, a, b);
  if (n == F16)
    store_pairs(low, vec_sub(a, upper_half(bits_of_vec(a))),
                vec_sub(b, upper_half(bits_of_vec(b))));
}

// 32 lines of the panel, or the `left` last ones, to planes; lines are fetched `ahead` bytes before.
INLINE void split_lines(const struct panels w, const uint8_t *lines, const int64_t left,
                        const int ahead, uint8_t *planes) {
  const int64_t line = PANEL * (int64_t)number_size(w.number);
#pragma GCC unroll 4
  for (int64_t i = 0; i < TILE; i++, lines += line, planes += LINE) {
    if (ahead) {
      __builtin_prefetch(lines + ahead, 0, 3);
      __builtin_prefetch(lines + TILE * line + ahead, 0, 3);
    }
#pragma GCC unroll 2
    for (int64_t half = 0; half < 2; half++) {
      const uint8_t *at = lines + half * line / 2;
      split_halves(w.number, i < left ? vec_load_number(w.number, at) : vec_zero(),
                   i + TILE < left ? vec_load_number(w.number, at + TILE * line) : vec_zero(),
                   planes + half * TILE_BYTES, planes + (2 + half) * TILE_BYTES);
    }
  }
}

// Four tiles of sums at most: of two tiles of rows, `below` bytes apart, and a panel; of one and a panel; or, where rows are
// few, of one and two panels that lie side by side.
enum shape { TWO_TILES, ONE_TILE, TWO_PANELS };

// Sums gain 32 columns of K.
INLINE void multiply_planes(const struct panels w, const enum shape shape, const uint8_t *rows,
                            const int64_t stride, const int64_t below, const uint8_t *columns) {
#pragma GCC unroll 3
  for (int part = first_part(w.number); part < 3; part++) {
    const uint8_t *row = rows + row_plane(part) * LINE,
                  *column = columns + column_plane(part) * 2 * TILE_BYTES,
                  *beside = column + planes_step(w);
    const int load = shape == TWO_PANELS || new_columns(w.number, part);
    if (new_rows(w.number, part)) TILE_LOAD(4, row, stride);
    if (load) TILE_LOAD(6, column, LINE);
    TILE_DOT_BF16(0, 4, 6);
    if (load) TILE_LOAD(7, column + TILE_BYTES, LINE);
    TILE_DOT_BF16(1, 4, 7);
    if (shape == TWO_TILES) {
      if (new_rows(w.number, part)) TILE_LOAD(5, row + below, stride);
      TILE_DOT_BF16(2, 5, 6);
      TILE_DOT_BF16(3, 5, 7);
    }
    if (shape == TWO_PANELS) {
      TILE_LOAD(6, beside, LINE);
      TILE_DOT_BF16(2, 4, 6);
      TILE_LOAD(7, beside + TILE_BYTES, LINE);
      TILE_DOT_BF16(3, 4, 7);
    }
  }
}

// A chunk of K, `steps` 32s of it, added to the sums. `splits`: these are the first rows that meet the chunk, and split its
// weights, two steps before they multiply them.
INLINE void multiply_chunk(const struct panels w, const enum shape shape, const int splits,
                           const int ahead, const uint8_t *lines, int64_t left, const uint8_t *rows,
                           const int64_t stride, const int64_t below, int64_t steps, int from_zero,
                           struct fetch behind, float (*sums)[TILE][TILE], uint8_t *kept) {
  const int panels = shape == TWO_PANELS ? 2 : 1, tiles = shape == ONE_TILE ? 2 : 4;
#define KEPT(step) (kept + (step) * panels * planes_step(w) % KEPT_BYTES)
#define SPLIT(step)                                                                       \
  for (int panel = 0; panel < (splits && (step) < steps ? panels : 0); panel++)           \
  split_lines(w, lines + (step) * panel_step(w) + panel * (int64_t)panels_panel_bytes(w), \
              w.columns % (2 * TILE) ? left - (step) * 2 * TILE : 2 * TILE, ahead,        \
              KEPT(step) + panel * planes_step(w))
  if (from_zero) {
    TILE_ZERO(0);
    TILE_ZERO(1);
    if (tiles > 2) TILE_ZERO(2);
    if (tiles > 2) TILE_ZERO(3);
  } else {
    TILE_LOAD(0, sums[0], LINE);
    TILE_LOAD(1, sums[1], LINE);
    if (tiles > 2) TILE_LOAD(2, sums[2], LINE);
    if (tiles > 2) TILE_LOAD(3, sums[3], LINE);
  }
  SPLIT(0);
  SPLIT(1);
  for (int64_t step = 0; step < steps; step++, rows += 2 * LINE) {
    SPLIT(step + 2);
    fetch_lines(&behind);
    multiply_planes(w, shape, rows, stride, below, KEPT(step));
  }
  TILE_STORE(0, sums[0]);
  TILE_STORE(1, sums[1]);
  if (tiles > 2) TILE_STORE(2, sums[2]);
  if (tiles > 2) TILE_STORE(3, sums[3]);
#undef KEPT
#undef SPLIT
}

// Up to sixteen rows against as many panels as are left up to two; returns how many.
INLINE int few_rows(const struct panels w, const struct product *p, int64_t index, int64_t end,
                    struct float_tiles *t) {
  const int64_t stride = planes_bytes(w.columns), steps = (w.columns + 2 * TILE - 1) / (2 * TILE);
  const uint8_t *lines = p->panels + (size_t)index * panels_panel_bytes(w),
                *rows = p->rows + p->first * stride;
  const int panels = index + 1 < end ? 2 : 1;
  tiles_configure(p->count, LINE);
#define CHUNK(shape)                                                                     \
  multiply_chunk(w, shape, 1, AHEAD_OF_USE, lines, w.columns, rows, stride, 0, steps, 1, \
                 NO_FETCH, t->sums[0], t->weights)
  if (panels == 2)
    CHUNK(TWO_PANELS);
  else
    CHUNK(ONE_TILE);
#undef CHUNK
  for (int64_t i = 0; i < p->count; i++)
    for (int n = 0; n < panels; n++)
      finish(p, index + n, p->first + i, vec_load(t->sums[0][2 * n][i]),
             vec_load(t->sums[0][2 * n + 1][i]));
  return panels;
}

// More rows than one tile has, and at most MAX_PAIRS pairs of tiles, against a panel.
INLINE void many_rows(const struct panels w, const struct product *p, int64_t index,
                      struct float_tiles *t) {
  const int64_t stride = planes_bytes(w.columns), all = (w.columns + 2 * TILE - 1) / (2 * TILE),
                pairs = (p->count + PAIR_ROWS - 1) / PAIR_ROWS,
                height = pairs > 1 ? TILE : (p->count + 1) / 2,
                chunk = pairs > 1 ? KEPT_BYTES / 2 / planes_step(w) : all,
                share = (panel_step(w) / LINE + pairs - 1) / pairs;
  const uint8_t *lines = p->panels + (size_t)index * panels_panel_bytes(w);
  tiles_configure(height, LINE);
  for (int64_t first = 0; first < all; first += chunk) {
    const int64_t steps = all - first < chunk ? all - first : chunk,
                  left = w.columns - first * 2 * TILE;
    const int last = first + steps == all;
    const uint8_t *next = lines + steps * panel_step(w);
    for (int64_t pair = 0; pair < pairs; pair++) {
      const int64_t at = p->first + pair * PAIR_ROWS, rest = p->count - pair * PAIR_ROWS,
                    real = rest < PAIR_ROWS ? rest : PAIR_ROWS;
      const uint8_t *rows = p->rows + at * stride + first * 2 * LINE;
      const uint8_t *from = next + pair * share * steps * LINE;
      struct fetch behind = {from, pairs > 1 ? share : 0, from + share * steps * LINE};
#define CHUNK(shape, splits, ahead)                                                         \
  multiply_chunk(w, shape, splits, ahead, lines, left, rows, stride, height *stride, steps, \
                 first == 0, behind, t->sums[pair], t->weights)
      if (pairs == 1)
        CHUNK(TWO_TILES, 1, AHEAD_OF_USE);
      else if (pair == 0)
        CHUNK(TWO_TILES, 1, 0);
      else if (real > height)
        CHUNK(TWO_TILES, 0, 0);
      else
        CHUNK(ONE_TILE, 0, 0);
#undef CHUNK
      for (int64_t i = 0; i < (last ? real : 0); i++) {
        float (*sums)[TILE][TILE] = t->sums[pair] + i / height * 2;
        finish(p, index, at + i, vec_load(sums[0][i % height]), vec_load(sums[1][i % height]));
      }
    }
    lines = next;
  }
}

// The rows of a product against the panels from `index` on, of which `end` is none any more. Returns how many were taken.
INLINE int float_tiles_panels(const struct panels w, const struct product *p, int64_t index,
                              int64_t end) {
  enum { MAX_ROWS = MAX_PAIRS * PAIR_ROWS };
  struct float_tiles t;
  if (p->count <= TILE) {
    const int taken = few_rows(w, p, index, end, &t);
    tiles_release();
    return taken;
  }
  struct product part = *p;
  for (int64_t left = p->count; left > 0; left -= MAX_ROWS, part.first += MAX_ROWS) {
    part.count = left < MAX_ROWS ? left : MAX_ROWS;
    if (part.count > TILE)
      many_rows(w, &part, index, &t);
    else
      few_rows(w, &part, index, index + 1, &t);
  }
  tiles_release();
  return 1;
}

#endif
#endif
