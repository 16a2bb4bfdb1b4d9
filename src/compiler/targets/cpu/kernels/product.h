// The products: rows of activations times a panel of weights. One tile is up to TILE_ROWS rows by 32 columns, and whatever
// its height an element is summed in one order: group by group (or k by k) from 0 to K, in its own lane. So a row's result
// does not depend on how many rows ride along.
//
// Everything that names a shape is a constant where these functions are inlined; what varies is the number of rows.
#ifndef SINTER_PRODUCT_H
#define SINTER_PRODUCT_H

#include "operands.h"
#include "tiles.h"

INLINE int32_t load_four(const uint8_t *p) {
  int32_t four;
  memcpy(&four, p, 4);
  return four;
}

// `ahead`: bytes before use at which the panel is fetched, by the first tile alone; 0 leaves it to the hardware.
INLINE void tile_codes(const struct panels w, const int tile, const int ahead, const uint8_t *panel,
                       const uint8_t *rows, vec sums[TILE_ROWS][2]) {
  const int64_t stride = quantized_bytes(w.columns, w.group), lines = panels_lines(w);
  const int64_t scales = quantized_scales(w.columns, w.group),
                starts = quantized_starts(w.columns, w.group);
  vec total[TILE_ROWS][2];
#pragma GCC unroll 6
  for (int r = 0; r < tile; r++) total[r][0] = total[r][1] = vec_zero();
  for (int64_t g = 0; g < panels_groups(w); g++) {
    ivec sum[TILE_ROWS][2];
#pragma GCC unroll 6
    for (int r = 0; r < tile; r++)
      sum[r][0] = sum[r][1] = ivec_set(load_four(rows + r * stride + starts + 4 * g));
#pragma GCC unroll 10
    for (int64_t j = 0; j < lines; j++) {
      const uint8_t *line = panel + j * 2 * LINE;
      if (ahead) {
        __builtin_prefetch(line + ahead, 0, 3);
        __builtin_prefetch(line + ahead + LINE, 0, 3);
      }
      ivec left = ivec_load(line), right = ivec_load(line + LINE);
      if (w.codes == CODES_8) {
        const uint8_t *a = rows + g * w.group + 4 * j;
#pragma GCC unroll 6
        for (int r = 0; r < tile; r++) {
          ivec four = ivec_set(load_four(a + r * stride));
          sum[r][0] = ivec_dot_bytes(sum[r][0], left, four);
          sum[r][1] = ivec_dot_bytes(sum[r][1], right, four);
        }
      } else {
        const uint8_t *a = rows + g * w.group + 8 * j;
        ivec l = ivec_low_nibbles(left), h = ivec_low_nibbles(right);
#pragma GCC unroll 6
        for (int r = 0; r < tile; r++) {
          ivec four = ivec_set(load_four(a + r * stride));
          sum[r][0] = ivec_dot_nibbles(sum[r][0], l, four);
          sum[r][1] = ivec_dot_nibbles(sum[r][1], h, four);
        }
        l = ivec_high_nibbles(left), h = ivec_high_nibbles(right);
#pragma GCC unroll 6
        for (int r = 0; r < tile; r++) {
          ivec four = ivec_set(load_four(a + r * stride + 4));
          sum[r][0] = ivec_dot_nibbles(sum[r][0], l, four);
          sum[r][1] = ivec_dot_nibbles(sum[r][1], h, four);
        }
      }
    }
    const uint8_t *s = panel + lines * 2 * LINE;
    if (ahead) __builtin_prefetch(s + ahead, 0, 3);
    vec left = vec_load_number(w.number, s),
        right = vec_load_number(w.number, s + 16 * number_size(w.number));
#pragma GCC unroll 6
    for (int r = 0; r < tile; r++) {
      float scale;
      memcpy(&scale, rows + r * stride + scales + 4 * g, 4);
      total[r][0] = vec_fma(vec_from_ivec(sum[r][0]), vec_mul(left, vec_set(scale)), total[r][0]);
      total[r][1] = vec_fma(vec_from_ivec(sum[r][1]), vec_mul(right, vec_set(scale)), total[r][1]);
    }
    panel += panels_group_bytes(w);
  }
#pragma GCC unroll 6
  for (int r = 0; r < tile; r++) sums[r][0] = total[r][0], sums[r][1] = total[r][1];
}

// The same for float weights and float activations [count, stride].
INLINE void tile_floats(const struct panels w, const int tile, const uint8_t *panel,
                        const float *rows, const int64_t stride, vec sums[TILE_ROWS][2]) {
  const size_t size = number_size(w.number);
  vec total[TILE_ROWS][2];
#pragma GCC unroll 6
  for (int r = 0; r < tile; r++) total[r][0] = total[r][1] = vec_zero();
  for (int64_t k = 0; k < w.columns; k++) {
    vec left = vec_load_number(w.number, panel),
        right = vec_load_number(w.number, panel + 16 * size);
#pragma GCC unroll 6
    for (int r = 0; r < tile; r++) {
      vec x = vec_set(rows[r * stride + k]);
      total[r][0] = vec_fma(x, left, total[r][0]);
      total[r][1] = vec_fma(x, right, total[r][1]);
    }
    panel += PANEL * size;
  }
#pragma GCC unroll 6
  for (int r = 0; r < tile; r++) sums[r][0] = total[r][0], sums[r][1] = total[r][1];
}

INLINE void product_tile(const struct panels w, const int quantized, const int tile,
                         const int ahead, const int64_t in_stride, const int64_t out_stride,
                         const enum epilogue e, const struct product *p, int64_t index,
                         int64_t row) {
  vec sums[TILE_ROWS][2];
  const uint8_t *panel = p->panels + (size_t)index * panels_panel_bytes(w);
  if (quantized)
    tile_codes(w, tile, ahead, panel, p->rows + row * quantized_bytes(w.columns, w.group), sums);
  else
    tile_floats(w, tile, panel, (const float *)p->rows + row * in_stride, in_stride, sums);
  float *out = p->out + row * out_stride + index * finished_columns(e);
#pragma GCC unroll 6
  for (int r = 0; r < tile; r++) finish(e, p, index, sums[r][0], sums[r][1], out + r * out_stride);
}

// The first tile fetches 18 KiB ahead, which keeps products of few rows at memory speed (without: 0.6 of it at 8 rows, 4.5
// KiB ahead: 0.9). One row alone streams as fast without.
enum { AHEAD = 288 * LINE };

// One panel against all rows, in tiles of nearly equal height: 8 rows are 4 + 4, not 6 + 2. Weights that are not `far` lie in
// the cache as a whole, and no tile fetches them.
INLINE void product_panel(const struct panels w, const int quantized, const int far,
                          const int64_t in_stride, const int64_t out_stride, const enum epilogue e,
                          const struct product *p, int64_t index) {
#define TILE(n, ahead)                                                             \
  case n:                                                                          \
    product_tile(w, quantized, n, ahead, in_stride, out_stride, e, p, index, row); \
    break;
  int64_t row = p->first, count = p->count;
#ifdef __AMX_INT8__
  if (quantized && p->tiles && tiles_count(count)) {
    tiles_panel(w, out_stride, e, p, index, tiles_count(count));
    row += tiles_count(count), count -= tiles_count(count);
  }
#endif
  int64_t tiles = (count + TILE_ROWS - 1) / TILE_ROWS;
  for (int64_t t = 0; t < tiles; t++) {
    int64_t height = count / tiles + (t < count % tiles);
#if TILE_ROWS == 6
    if (t == 0 && quantized && far && height > 1) switch (height) {
        TILE(6, AHEAD) TILE(5, AHEAD) TILE(4, AHEAD) TILE(3, AHEAD) TILE(2, AHEAD)
      }
    else
      switch (height) { TILE(6, 0) TILE(5, 0) TILE(4, 0) TILE(3, 0) TILE(2, 0) TILE(1, 0) }
#else
    switch (height) { TILE(1, 0) }
#endif
    row += height;
  }
#undef TILE
}

#endif
