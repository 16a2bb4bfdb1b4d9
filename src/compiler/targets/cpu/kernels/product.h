// The products: rows of activations times a panel of weights. One tile is up to TILE_ROWS rows by 32 columns, and whatever
// its height an element is summed in one order: group by group (or k by k) from 0 to K, in its own lane. So a row's result
// does not depend on how many rows ride along.
//
// Everything that names a shape is a constant where these functions are inlined; what varies is the number of rows.
#ifndef SINTER_PRODUCT_H
#define SINTER_PRODUCT_H

#include "float_tiles.h"
#include "operands.h"
#include "tiles.h"

INLINE int32_t load_four(const uint8_t *p) {
  int32_t four;
  memcpy(&four, p, 4);
  return four;
}

// How weights come from memory in time. One tile alone takes two panels at a time: two streams, and twice the work that does
// not wait for what comes from memory. Then it is a matter of the processor:
//
// With a matrix unit (Intel): fetched shortly before use, where fetches go along with the hardware's own, which end at pages
// of 4 KiB; of several tiles each fetches its share of the next panel, so that memory never rests. 1 row takes 0.82 of the
// time, 4 rows 0.67, 8 rows 0.82, 16 rows 0.76, 24 to 48 rows on the matrix unit 0.72 to 0.77, 384 rows 0.93.
// Floats, too: f16, 1 row 0.86, 4 rows 0.69, 8 rows 0.81.
// Without (measured on AMD): the first tile fetches 18 KiB ahead (4.5 KiB: 0.9 of the rate at 8 rows, nothing: 0.6), and into
// the second cache: what two panels fetch is more than the first one holds. Q4_K, 1 row 0.83 of the time, Q6_K 0.68, Q8_0
// 0.84, q4f16_1 0.75.
#ifdef __AMX_INT8__
enum { AHEAD = 32 * LINE, TILES_FETCH = 1, NEARNESS = 3 };
#else
enum { AHEAD = 288 * LINE, TILES_FETCH = 0, NEARNESS = 2 };
#endif

// `tile` rows against `across` panels that lie side by side, which are themselves fetched `ahead` bytes before use; 0 leaves
// that to the hardware.
INLINE void tile_codes(const struct panels w, const int tile, const int across, const int ahead,
                       struct fetch behind, const uint8_t *panel, const uint8_t *rows,
                       vec sums[TILE_ROWS][4]) {
  const int64_t stride = quantized_bytes(w.columns, w.group), lines = panels_lines(w);
  const int64_t scales = quantized_scales(w.columns, w.group),
                starts = quantized_starts(w.columns, w.group);
  const int vectors = 2 * across;
  const int64_t group_bytes = (int64_t)panels_group_bytes(w), groups = panels_groups(w);
  // Of a vector's 16 columns: its line among those that lie `at` bytes behind the group's beginning.
#define LINE_OF(v, at) (panel + (size_t)((v) / 2) * panels_panel_bytes(w) + (at) + (v) % 2 * LINE)
  vec total[TILE_ROWS][4];
#pragma GCC unroll 6
  for (int r = 0; r < tile; r++)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) total[r][v] = vec_zero();
  const uint8_t *const begin = panel, *front = panel;
  for (int64_t g = 0; g < groups; g++) {
    // What is fetched at the end of the second panel are the next two's first lines; the first panel's end fetches those of
    // the second of these. One row takes 0.97 of the time.
    const int64_t all = (int64_t)panels_panel_bytes(w),
                  jump = across == 2 && panel - begin + ahead >= all - group_bytes ? 2 * all : 0;
    if (w.block && g % w.block == 0) {
      front = panel;
      for (int64_t at = 0; ahead && at < (int64_t)panels_front_bytes(w); at += LINE)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v += 2)
          __builtin_prefetch(LINE_OF(v, at) + ahead + (v < 2 ? jump : 0), 0, NEARNESS);
      panel += panels_front_bytes(w);
    }
    ivec sum[TILE_ROWS][4];
#pragma GCC unroll 6
    for (int r = 0; r < tile; r++)
#pragma GCC unroll 4
      for (int v = 0; v < vectors; v++)
        sum[r][v] = ivec_set(sum_start(w, load_four(rows + r * stride + starts + 4 * g)));
    ivec upper[4];  // of 6 bits
#pragma GCC unroll 10
    for (int64_t j = 0; j < lines; j++) {
      if (w.codes == CODES_6 && j % 3 == 2) continue;
      ivec codes[4];
#pragma GCC unroll 4
      for (int v = 0; v < vectors; v++) {
        const uint8_t *line = LINE_OF(v, j * 2 * LINE);
        if (ahead) __builtin_prefetch(line + ahead + (v < 2 ? jump : 0), 0, NEARNESS);
        codes[v] = ivec_load(line);
        if (w.codes != CODES_6 || j % 3) continue;
        if (ahead) __builtin_prefetch(line + 4 * LINE + ahead + (v < 2 ? jump : 0), 0, NEARNESS);
        upper[v] = ivec_load(line + 4 * LINE);
      }
      if (w.codes == CODES_8) {
        const uint8_t *a = rows + g * w.group + 4 * j;
#pragma GCC unroll 6
        for (int r = 0; r < tile; r++) {
          ivec four = ivec_set(load_four(a + r * stride));
#pragma GCC unroll 4
          for (int v = 0; v < vectors; v++) sum[r][v] = ivec_dot_bytes(sum[r][v], codes[v], four);
        }
      } else {
        const int64_t eight = w.codes == CODES_6 ? j - j / 3 : j;
        const uint8_t *a = rows + g * w.group + 8 * eight;
#pragma GCC unroll 2
        for (int half = 0; half < 2; half++) {
          ivec nibbles[4];
#pragma GCC unroll 4
          for (int v = 0; v < vectors; v++) {
            nibbles[v] = half ? ivec_high_nibbles(codes[v]) : ivec_low_nibbles(codes[v]);
            if (w.codes == CODES_6)
              nibbles[v] = ivec_with_upper(nibbles[v], upper[v], 2 * (int)(eight % 2) + half);
          }
#pragma GCC unroll 6
          for (int r = 0; r < tile; r++) {
            ivec four = ivec_set(load_four(a + r * stride + 4 * half));
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
              sum[r][v] = ivec_dot_nibbles(sum[r][v], nibbles[v], four);
          }
        }
      }
    }
    fetch_lines(&behind);
    vec scale[4], minimum[4];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) {
      if (w.block) {
        const uint8_t *of = front + (size_t)(v / 2) * panels_panel_bytes(w);
        scale[v] = load_multiples(w, of, g % w.block, 0, v % 2);
        if (w.minimums) minimum[v] = load_multiples(w, of, g % w.block, 1, v % 2);
        continue;
      }
      const uint8_t *s =
          LINE_OF(v, lines * 2 * LINE) - v % 2 * (LINE - 16 * (int64_t)number_size(w.number));
      if (ahead && (v % 2 == 0 || w.number == F32))
        __builtin_prefetch(s + ahead + (v < 2 ? jump : 0), 0, NEARNESS);
      scale[v] = vec_load_number(w.number, s);
      if (w.minimums) minimum[v] = vec_load_number(w.number, s + PANEL * number_size(w.number));
    }
#pragma GCC unroll 6
    for (int r = 0; r < tile; r++) {
      float f;
      memcpy(&f, rows + r * stride + scales + 4 * g, 4);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; v++)
        total[r][v] = vec_fma(vec_from_ivec(sum[r][v]), vec_mul(scale[v], vec_set(f)), total[r][v]);
      if (w.minimums) {
        vec all = vec_set(f * (float)load_four(rows + r * stride + starts + 4 * g));
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++) total[r][v] = vec_fma(minimum[v], all, total[r][v]);
      }
    }
    panel += group_bytes;
  }
#undef LINE_OF
#pragma GCC unroll 6
  for (int r = 0; r < tile; r++)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) sums[r][v] = total[r][v];
}

// The same for float weights and float activations [count, stride].
INLINE void tile_floats(const struct panels w, const int tile, const int ahead,
                        const uint8_t *panel, const float *rows, const int64_t stride,
                        vec sums[TILE_ROWS][4]) {
  const size_t size = number_size(w.number);
  vec total[TILE_ROWS][2];
#pragma GCC unroll 6
  for (int r = 0; r < tile; r++) total[r][0] = total[r][1] = vec_zero();
  for (int64_t k = 0; k < w.columns; k++) {
    if (ahead)
#pragma GCC unroll 2
      for (size_t line = 0; line < PANEL * size / LINE; line++)
        __builtin_prefetch(panel + ahead + line * LINE, 0, 3);
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

// The same for floats in codes: of a group's weights, each is multiplied with its scale before it meets an activation.
INLINE void tile_e4m3(const struct panels w, const int tile, const int ahead, const uint8_t *panel,
                      const float *rows, const int64_t stride, vec sums[TILE_ROWS][4]) {
  vec total[TILE_ROWS][2];
#pragma GCC unroll 6
  for (int r = 0; r < tile; r++) total[r][0] = total[r][1] = vec_zero();
  for (int64_t g = 0, first = 0; g < panels_groups(w); g++, first += w.group) {
    const vec back = vec_set(E4M3_SCALE), left_scale = vec_mul(load_scales(w, panel, g, 0, 0), back),
              right_scale = vec_mul(load_scales(w, panel, g, 0, 1), back);
    const uint8_t *at = panel + panels_codes_at(w, g);
    const int64_t end = first + w.group < w.columns ? first + w.group : w.columns;
    for (int64_t k = first; k < end; k++, at += PANEL) {
      if (ahead && k % 2 == 0) __builtin_prefetch(at + ahead, 0, 3);
      vec left = vec_mul(vec_load_e4m3(at), left_scale),
          right = vec_mul(vec_load_e4m3(at + 16), right_scale);
#pragma GCC unroll 6
      for (int r = 0; r < tile; r++) {
        vec x = vec_set(rows[r * stride + k]);
        total[r][0] = vec_fma(x, left, total[r][0]);
        total[r][1] = vec_fma(x, right, total[r][1]);
      }
    }
  }
#pragma GCC unroll 6
  for (int r = 0; r < tile; r++) sums[r][0] = total[r][0], sums[r][1] = total[r][1];
}

INLINE void product_tile(const struct panels w, const int quantized, const int tile,
                         const int across, const int ahead, struct fetch behind,
                         const int64_t in_stride, const int64_t out_stride, const enum epilogue e,
                         const struct product *p, int64_t index, int64_t row) {
  vec sums[TILE_ROWS][4];
  const uint8_t *panel = p->panels + (size_t)index * panels_panel_bytes(w);
  if (quantized)
    tile_codes(w, tile, across, ahead, behind, panel,
               p->rows + row * quantized_bytes(w.columns, w.group), sums);
  else if (w.codes == CODES_E4M3)
    tile_e4m3(w, tile, ahead, panel, (const float *)p->rows + row * in_stride, in_stride, sums);
  else
    tile_floats(w, tile, ahead, panel, (const float *)p->rows + row * in_stride, in_stride, sums);
#pragma GCC unroll 6
  for (int r = 0; r < tile; r++)
#pragma GCC unroll 2
    for (int n = 0; n < across; n++)
      finish(e, p, index + n, sums[r][2 * n], sums[r][2 * n + 1],
             p->out + (row + r) * out_stride + (index + n) * finished_columns(e));
}

// A panel against all rows, in tiles of nearly equal height: 8 rows are 4 + 4, not 6 + 2. Weights that are not `far` lie in the
// cache as a whole, and no tile fetches them. Returns how many of the panels from `index` to `end` were taken: 1 or 2.
INLINE int product_panel(const struct panels w, const int quantized, const int far,
                         const int64_t in_stride, const int64_t out_stride, const enum epilogue e,
                         const struct product *p, int64_t index, int64_t end) {
#define TILE(n, across, ahead)                                                                     \
  case n:                                                                                          \
    product_tile(w, quantized, n, across, ahead, behind, in_stride, out_stride, e, p, index, row); \
    break;
#define EVERY_TILE(across, ahead) \
  TILE(6, across, ahead)          \
  TILE(5, across, ahead)          \
  TILE(4, across, ahead) TILE(3, across, ahead) TILE(2, across, ahead) TILE(1, across, ahead)
#ifdef __AMX_BF16__
  if (!quantized && takes_planes(w.number, p->tiles))
    return float_tiles_panels(w, out_stride, e, p, index, end);
#endif
  int64_t row = p->first, count = p->count;
  struct fetch behind = {NULL, 0};
#if TILE_ROWS == 6
  if (quantized && far && count <= TILE_ROWS && index + 1 < end) {
    switch (count) { EVERY_TILE(2, AHEAD) }
    return 2;
  }
#endif
#ifdef __AMX_INT8__
  if (quantized && p->tiles && tiles_count(count)) {
    tiles_panel(w, out_stride, e, p, index, tiles_count(count));
    row += tiles_count(count), count -= tiles_count(count);
  }
#endif
  int64_t tiles = (count + TILE_ROWS - 1) / TILE_ROWS;
#if TILE_ROWS == 6
  if (quantized && far && TILES_FETCH && tiles > 1)
    behind = fetch_shares(w, p->panels + (size_t)(index + 1) * panels_panel_bytes(w), tiles);
#endif
  for (int64_t t = 0; t < tiles; t++) {
    int64_t height = count / tiles + (t < count % tiles);
#if TILE_ROWS == 6
    if (far && t == 0 && quantized != TILES_FETCH) switch (height) {
        EVERY_TILE(1, AHEAD)
      }
    else
      switch (height) { EVERY_TILE(1, 0) }
#else
    switch (height) { TILE(1, 1, 0) }
#endif
    row += height;
    if (behind.lines) behind.from += behind.lines * panels_groups(w) * LINE;
  }
#undef EVERY_TILE
#undef TILE
  return 1;
}

#endif
