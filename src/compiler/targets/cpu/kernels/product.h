// The products: rows of activations times a panel of weights. One tile is up to TILE_ROWS rows (of floats FLOAT_ROWS) by 32
// columns, and whatever its height an element is summed in one order: group by group (or k by k) from 0 to K, in its own
// lane. So a row's result does not depend on how many rows ride along.
//
// Everything that names a shape is a constant where these functions are inlined; what varies is the number of rows.
#ifndef SINTER_PRODUCT_H
#define SINTER_PRODUCT_H

#include "float_tiles.h"
#include "operands.h"
#include "tiles.h"

// How weights come from memory in time. One tile alone takes two panels at a time: two streams, and twice the work that does
// not wait for what comes from memory. Then it is a matter of the processor:
//
// With a matrix unit (Intel): fetched shortly before use, where fetches go along with the hardware's own, which end at pages
// of 4 KiB; of several tiles each fetches its share of the next panel, so that memory never rests. 1 row takes 0.82 of the
// time, 4 rows 0.67, 8 rows 0.82, 16 rows 0.76, 24 to 48 rows on the matrix unit 0.72 to 0.77, 384 rows 0.93.
// Floats, too: f16, 1 row 0.86, 4 rows 0.69, 8 rows 0.81.
// Without (measured on AMD): 18 KiB ahead (4.5 KiB: 0.9 of the rate at 8 rows, nothing: 0.6), and into the second cache: what
// two panels fetch is more than the first one holds. Q4_K, 1 row 0.83 of the time, Q6_K 0.68, Q8_0 0.84, q4f16_1 0.75. Several
// tiles take a chunk of the panel each before any goes on to the next, so that their shares are what comes 18 KiB later: Q8_0,
// 8 rows 0.74. A chunk's scales are multiplied out once for all of them, since every multiplication takes a dot product's place
// here: Q4_K, 120 rows 0.97.
#ifdef __AMX_INT8__
enum { AHEAD = 32 * LINE, TILES_FETCH = 1, NEARNESS = 3 };
#else
enum { AHEAD = 288 * LINE, TILES_FETCH = 0, NEARNESS = 2 };
#endif

// Values of K in a chunk, of a group as small as any. Rows of a pass: their sums wait in memory from chunk to chunk.
enum { CHUNK_COLUMNS = 512, MIN_GROUP = 16, MAX_PASS = 384 };
// Of more tiles the first fetches all, and the others are not held up.
enum { FETCHING_TILES = 4 };

// Groups of a panel that all tiles take before the next ones.
struct chunk {
  const uint8_t *panel;  // where its groups begin
  int64_t first, groups;
  const float *scales;  // of each group 32, then 32 minimums, multiplied out; or none
};

// `tile` rows against a chunk of `across` panels that lie side by side, which are themselves fetched `ahead` bytes before use;
// 0 leaves that to the hardware. What the chunk gives is added to the sums.
INLINE void tile_codes(const struct panels w, const int tile, const int across, const int ahead,
                       struct fetch behind, const struct chunk chunk, const uint8_t *rows,
                       vec sums[TILE_ROWS][4]) {
  const int64_t stride = quantized_bytes(w.columns, w.group), lines = panels_lines(w);
  const int64_t scales = quantized_scales(w.columns, w.group),
                starts = quantized_starts(w.columns, w.group);
  const int vectors = 2 * across;
  const int64_t group_bytes = (int64_t)panels_group_bytes(w);
  const uint8_t *panel = chunk.panel, *kept = rows + 4 * chunk.first;
  rows += chunk.first * w.group;
  // Of a vector's 16 columns: its line among those that lie `at` bytes behind the group's beginning.
#define LINE_OF(v, at) (panel + (size_t)((v) / 2) * panels_panel_bytes(w) + (at) + (v) % 2 * LINE)
  vec total[TILE_ROWS][4];
#pragma GCC unroll 6
  for (int r = 0; r < tile; r++)
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) total[r][v] = sums[r][v];
  const uint8_t *const begin = panel, *front = panel;
  for (int64_t g = 0; g < chunk.groups; g++) {
    // What is fetched at the end of the second panel are the next two's first lines; the first panel's end fetches those of
    // the second of these. One row takes 0.97 of the time.
    const int64_t all = (int64_t)panels_panel_bytes(w),
                  jump = across == 2 && panel - begin + ahead >= all - group_bytes ? 2 * all : 0;
    if (PRODUCT_IN_BLOCKS && g % w.block == 0) {
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
        sum[r][v] = ivec_set(sum_start(w, kept + r * stride + starts + 4 * g));
    ivec upper[4];  // of 6 bits
#pragma GCC unroll 10
    for (int64_t j = 0; j < lines; j++) {
      if (PRODUCT_CODES == CODES_6 && j % 3 == 2) continue;
      ivec codes[4];
#pragma GCC unroll 4
      for (int v = 0; v < vectors; v++) {
        const uint8_t *line = LINE_OF(v, j * 2 * LINE);
        if (ahead) __builtin_prefetch(line + ahead + (v < 2 ? jump : 0), 0, NEARNESS);
        codes[v] = ivec_load(line);
        if (PRODUCT_CODES != CODES_6 || j % 3) continue;
        if (ahead) __builtin_prefetch(line + 4 * LINE + ahead + (v < 2 ? jump : 0), 0, NEARNESS);
        upper[v] = ivec_load(line + 4 * LINE);
      }
      if (PRODUCT_CODES == CODES_8) {
        const uint8_t *a = rows + g * w.group + 4 * j;
#pragma GCC unroll 6
        for (int r = 0; r < tile; r++) {
          ivec four = ivec_set(load_four(a + r * stride));
#pragma GCC unroll 4
          for (int v = 0; v < vectors; v++) sum[r][v] = ivec_dot_bytes(sum[r][v], codes[v], four);
        }
      } else {
        const int64_t eight = PRODUCT_CODES == CODES_6 ? j - j / 3 : j;
        const uint8_t *a = rows + g * w.group + 8 * eight;
#pragma GCC unroll 2
        for (int half = 0; half < 2; half++) {
          ivec nibbles[4];
#pragma GCC unroll 4
          for (int v = 0; v < vectors; v++) {
            nibbles[v] = half ? ivec_high_nibbles(codes[v]) : ivec_low_nibbles(codes[v]);
            if (PRODUCT_CODES == CODES_6)
              nibbles[v] = ivec_with_upper(nibbles[v], upper[v], 2 * (int)(eight % 2) + half);
            if (has_table(w.codes)) nibbles[v] = ivec_look_up(table_of(w.codes), nibbles[v]);
          }
#pragma GCC unroll 6
          for (int r = 0; r < tile; r++) {
            ivec four = ivec_set(load_four(a + r * stride + 4 * half));
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
              sum[r][v] = takes_bytes(w.codes) ? ivec_dot_bytes(sum[r][v], nibbles[v], four)
                                               : ivec_dot_nibbles(sum[r][v], nibbles[v], four);
          }
        }
      }
    }
    fetch_lines(&behind);
    vec scale[4], minimum[4];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; v++) {
      if (chunk.scales) {
        const float *of = chunk.scales + g * (w.minimums ? 2 : 1) * PANEL + 16 * v;
        scale[v] = vec_load(of);
        if (w.minimums) minimum[v] = vec_load(of + PANEL);
        continue;
      }
      if (PRODUCT_IN_BLOCKS) {
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
      const float f = load_float(kept + r * stride + scales + 4 * g);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; v++)
        total[r][v] = vec_fma(vec_from_ivec(sum[r][v]), vec_mul(scale[v], vec_set(f)), total[r][v]);
      if (w.minimums) {
        vec all = vec_set(scaled_sum(w, kept + r * stride + starts + 4 * g, f));
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

#ifdef NARROW_ROWS
// The same where registers are few: from vector `first` on so many of a panel's two, while the float sums wait in memory.
INLINE void narrow_codes(const struct panels w, const int tile, const int vectors, const int first,
                         struct fetch *behind, const struct chunk chunk, const uint8_t *rows,
                         float (*totals)[PANEL]) {
  const int64_t stride = quantized_bytes(w.columns, w.group), lines = panels_lines(w);
  const int64_t scales = quantized_scales(w.columns, w.group),
                starts = quantized_starts(w.columns, w.group);
  const int kinds = w.minimums ? 2 : 1;
  const uint8_t *panel = chunk.panel, *kept = rows + 4 * chunk.first;
  rows += chunk.first * w.group;
  for (int64_t g = 0; g < chunk.groups; g++, panel += panels_group_bytes(w)) {
    if (PRODUCT_IN_BLOCKS && g % w.block == 0) panel += panels_front_bytes(w);
    ivec sum[NARROW_ROWS][2], pairs[NARROW_ROWS][2], upper[2];
// Of row r the sixteen bytes among which lie the four of number `four`.
#define SIXTEEN(r, four) (rows + (r) * stride + g * w.group + (four) / 4 * 16)
#define START(r) ivec_set(sum_start(w, kept + (r) * stride + starts + 4 * g))
    const int most = MOST_OF_PAIRS / largest_code(w.codes);
    const int64_t last = PRODUCT_CODES == CODES_6 ? lines - 2 : lines - 1;
    int steps = 0, settled = 0;  // constants, since loops are unrolled
#pragma GCC unroll 10
    for (int64_t j = 0; j < lines; j++) {
      if (PRODUCT_CODES == CODES_6 && j % 3 == 2) continue;
      const uint8_t *line = panel + (2 * j + first) * LINE;
      ivec codes[2];
#pragma GCC unroll 2
      for (int v = 0; v < vectors; v++) {
        codes[v] = ivec_load(line + v * LINE);
        if (PRODUCT_CODES == CODES_6 && j % 3 == 0) upper[v] = ivec_load(line + (4 + v) * LINE);
      }
      if (PRODUCT_CODES == CODES_8) {
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++)
#pragma GCC unroll 4
          for (int r = 0; r < tile; r++)
            sum[r][v] =
                ivec_dot_bytes_of(j ? sum[r][v] : START(r), codes[v], SIXTEEN(r, j), j % 4);
        continue;
      }
      const int64_t eight = PRODUCT_CODES == CODES_6 ? j - j / 3 : j;
#pragma GCC unroll 2
      for (int half = 0; half < 2; half++) {
        const int64_t four = 2 * eight + half;
        ivec nibbles[2];
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
          nibbles[v] = half ? ivec_high_nibbles(codes[v]) : ivec_low_nibbles(codes[v]);
          if (PRODUCT_CODES == CODES_6)
            nibbles[v] = ivec_with_upper(nibbles[v], upper[v], 2 * (int)(eight % 2) + half);
          if (has_table(w.codes)) nibbles[v] = ivec_look_up(table_of(w.codes), nibbles[v]);
        }
        if (takes_bytes(w.codes)) {
#pragma GCC unroll 4
          for (int r = 0; r < tile; r++)
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++)
              sum[r][v] = ivec_dot_bytes_of(four ? sum[r][v] : START(r), nibbles[v],
                                            SIXTEEN(r, four), four % 4);
          continue;
        }
#pragma GCC unroll 4
        for (int r = 0; r < tile; r++)
#pragma GCC unroll 2
          for (int v = 0; v < vectors; v++)
            pairs[r][v] =
                ivec_pairs_of(steps ? pairs[r][v] : ivec_begun(settled ? sum[r][v] : START(r)),
                              nibbles[v], SIXTEEN(r, four), four % 4);
        if (++steps < most && !(j == last && half)) continue;
#pragma GCC unroll 4
        for (int r = 0; r < tile; r++)
#pragma GCC unroll 2
          for (int v = 0; v < vectors; v++)
            sum[r][v] = ivec_settled(settled ? sum[r][v] : START(r), pairs[r][v]);
        steps = 0, settled = 1;
      }
    }
#undef START
#undef SIXTEEN
    for (int v = 0; v < vectors; v++) fetch_lines(behind);
#pragma GCC unroll 2
    for (int v = 0; v < vectors; v++) {
      const float *of = chunk.scales + g * kinds * PANEL + 16 * (first + v);
      vec minimum = vec_zero();
      const vec scale = PRODUCT_IN_BLOCKS ? vec_load(of) : load_scales(w, panel, 0, 0, first + v);
      if (w.minimums)
        minimum = PRODUCT_IN_BLOCKS ? vec_load(of + PANEL) : load_scales(w, panel, 0, 1, first + v);
#pragma GCC unroll 4
      for (int r = 0; r < tile; r++) {
        float *to = totals[r] + 16 * (first + v);
        const float f = load_float(kept + r * stride + scales + 4 * g);
        vec total = vec_fma(vec_from_ivec(sum[r][v]), vec_mul(scale, vec_set(f)), vec_load(to));
        if (w.minimums)
          total = vec_fma(minimum, vec_set(scaled_sum(w, kept + r * stride + starts + 4 * g, f)),
                          total);
        vec_store(to, total);
      }
    }
  }
}
#endif

// Of float activations [count, stride] a tile has up to so many rows.
#if TILE_ROWS == 6
#define FLOAT_ROWS TILE_ROWS
#else
#define FLOAT_ROWS SUMS_TOGETHER
#endif
// Of a panel's two vectors, those that a tile sums at once.
INLINE int vectors_of(const int tile) { return SUMS_TOGETHER / tile < 2 ? 1 : 2; }
// Values of K between two shares of what is fetched besides.
enum { FETCH_COLUMNS = 16 };

// The same for float weights.
INLINE void tile_floats(const struct panels w, const int tile, const int ahead,
                        struct fetch *behind, const uint8_t *panel, const float *rows,
                        const int64_t stride, float (*sums)[PANEL]) {
  const size_t size = number_size(w.number);
  const int vectors = vectors_of(tile);
  for (int first = 0; first < 2; first += vectors) {
    const uint8_t *at = panel + (size_t)(16 * first) * size;
    vec total[FLOAT_ROWS][2];
#pragma GCC unroll 6
    for (int r = 0; r < tile; r++) total[r][0] = total[r][1] = vec_zero();
    for (int64_t k = 0; k < w.columns; k++) {
      if (behind->lines && k % FETCH_COLUMNS == 0) fetch_lines(behind);
      if (ahead)
#pragma GCC unroll 2
        for (size_t line = 0; line < PANEL * size / LINE; line++)
          __builtin_prefetch(at + ahead + line * LINE, 0, 3);
      vec values[2];
#pragma GCC unroll 2
      for (int v = 0; v < vectors; v++)
        values[v] = vec_load_number(w.number, at + (size_t)(16 * v) * size);
#pragma GCC unroll 6
      for (int r = 0; r < tile; r++) {
        vec x = vec_set(rows[r * stride + k]);
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) total[r][v] = vec_fma(x, values[v], total[r][v]);
      }
      at += PANEL * size;
    }
#pragma GCC unroll 6
    for (int r = 0; r < tile; r++)
#pragma GCC unroll 2
      for (int v = 0; v < vectors; v++) vec_store(sums[r] + 16 * (first + v), total[r][v]);
  }
}

// The same for floats in codes: of a group's weights, each is multiplied with its scale before it meets an activation.
INLINE void tile_e4m3(const struct panels w, const int tile, const int ahead, struct fetch *behind,
                      const uint8_t *panel, const float *rows, const int64_t stride,
                      float (*sums)[PANEL]) {
  const int vectors = vectors_of(tile);
  const vec back = vec_set(E4M3_SCALE);
  for (int first = 0; first < 2; first += vectors) {
    vec total[FLOAT_ROWS][2];
#pragma GCC unroll 6
    for (int r = 0; r < tile; r++) total[r][0] = total[r][1] = vec_zero();
    for (int64_t g = 0, begin = 0; g < panels_groups(w); g++, begin += w.group) {
      vec scale[2], values[2];
#pragma GCC unroll 2
      for (int v = 0; v < vectors; v++)
        scale[v] = vec_mul(load_scales(w, panel, g, 0, first + v), back);
      const uint8_t *at = panel + panels_codes_at(w, g) + 16 * first;
      const int64_t end = begin + w.group < w.columns ? begin + w.group : w.columns;
      for (int64_t k = begin; k < end; k++, at += PANEL) {
        if (behind->lines && k % FETCH_COLUMNS == 0) fetch_lines(behind);
        if (ahead && k % 2 == 0) __builtin_prefetch(at + ahead, 0, 3);
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++)
          values[v] = vec_mul(vec_load_e4m3(at + 16 * v), scale[v]);
#pragma GCC unroll 6
        for (int r = 0; r < tile; r++) {
          vec x = vec_set(rows[r * stride + k]);
#pragma GCC unroll 2
          for (int v = 0; v < vectors; v++) total[r][v] = vec_fma(x, values[v], total[r][v]);
        }
      }
    }
#pragma GCC unroll 6
    for (int r = 0; r < tile; r++)
#pragma GCC unroll 2
      for (int v = 0; v < vectors; v++) vec_store(sums[r] + 16 * (first + v), total[r][v]);
  }
}

// Of either kind.
INLINE void tile_unrounded(const struct panels w, const int tile, const int ahead,
                           struct fetch *behind, const uint8_t *panel, const float *rows,
                           const int64_t stride, float (*sums)[PANEL]) {
  if (PRODUCT_CODES == CODES_E4M3)
    tile_e4m3(w, tile, ahead, behind, panel, rows, stride, sums);
  else
    tile_floats(w, tile, ahead, behind, panel, rows, stride, sums);
}

INLINE void product_tile(const struct panels w, const int quantized, const int tile,
                         const int across, const int ahead, struct fetch *behind,
                         const int64_t in_stride, const struct product *p, int64_t index,
                         int64_t row) {
  const uint8_t *panel = p->panels + (size_t)index * panels_panel_bytes(w);
  if (!PRODUCT_QUANTIZED) {
    float sums[FLOAT_ROWS][PANEL];
    tile_unrounded(w, tile, ahead, behind, panel, (const float *)p->rows + row * in_stride,
                   in_stride, sums);
    // `finish` is handed sums through memory. Unless they have been there before, gcc 12 keeps one of them there while they are
    // added up, and one row takes 3.1 times as long.
    __asm__ volatile("" : : "r"(sums) : "memory");
    for (int r = 0; r < tile; r++)
      finish(p, index, row + r, vec_load(sums[r]), vec_load(sums[r] + 16));
    return;
  }
  vec sums[TILE_ROWS][4];
#pragma GCC unroll 6
  for (int r = 0; r < tile; r++)
#pragma GCC unroll 4
    for (int v = 0; v < 2 * across; v++) sums[r][v] = vec_zero();
  tile_codes(w, tile, across, ahead, NO_FETCH, (struct chunk){panel, 0, panels_groups(w), NULL},
             p->rows + row * quantized_bytes(w.columns, w.group), sums);
#pragma GCC unroll 6
  for (int r = 0; r < tile; r++)
#pragma GCC unroll 2
    for (int n = 0; n < across; n++)
      finish(p, index + n, row + r, sums[r][2 * n], sums[r][2 * n + 1]);
}

#ifdef NARROW_ROWS
#define CHUNK_ROWS NARROW_ROWS
// One row reads a panel from end to end, which the hardware foresees: fetching besides took 1.2 to 1.3 of the time.
enum { SHARES_OF_GROUP = 2, LEAST_FETCHED = 2 };
// One chunk's groups added to the sums of a tile's rows: of more than ROWS_OF_BOTH first in one half of the columns, then in the other.
INLINE void chunk_tile(const struct panels w, const int tile, struct fetch behind,
                       const struct chunk chunk, const struct product *p, int64_t index,
                       int64_t row, float (*totals)[PANEL]) {
  const uint8_t *rows = p->rows + row * quantized_bytes(w.columns, w.group);
  for (int r = 0; r < tile && !chunk.first; r++)
    vec_store(totals[r], vec_zero()), vec_store(totals[r] + 16, vec_zero());
  const int vectors = tile > ROWS_OF_BOTH ? 1 : 2;
  for (int v = 0; v < 2; v += vectors)
    narrow_codes(w, tile, vectors, v, &behind, chunk, rows, totals);
  if (chunk.first + chunk.groups == panels_groups(w))
    for (int r = 0; r < tile; r++)
      finish(p, index, row + r, vec_load(totals[r]), vec_load(totals[r] + 16));
}
#elif TILE_ROWS == 6
#define CHUNK_ROWS TILE_ROWS
enum { SHARES_OF_GROUP = 1, LEAST_FETCHED = 1 };
// One chunk's groups added to the sums of a tile's rows, which are finished behind the last.
INLINE void chunk_tile(const struct panels w, const int tile, struct fetch behind,
                       const struct chunk chunk, const struct product *p, int64_t index,
                       int64_t row, float (*totals)[PANEL]) {
  vec sums[TILE_ROWS][4];
#pragma GCC unroll 6
  for (int r = 0; r < tile; r++)
#pragma GCC unroll 2
    for (int v = 0; v < 2; v++)
      sums[r][v] = chunk.first ? vec_load(totals[r] + 16 * v) : vec_zero();
  tile_codes(w, tile, 1, 0, behind, chunk, p->rows + row * quantized_bytes(w.columns, w.group),
             sums);
  const int last = chunk.first + chunk.groups == panels_groups(w);
#pragma GCC unroll 6
  for (int r = 0; r < tile; r++) {
    if (last)
      finish(p, index, row + r, sums[r][0], sums[r][1]);
    else
      vec_store(totals[r], sums[r][0]), vec_store(totals[r] + 16, sums[r][1]);
  }
}
#endif

#ifdef CHUNK_ROWS
// The scales of a chunk that begins with a block, as struct chunk has them.
INLINE void widen_scales(const struct panels w, const struct chunk chunk, float *scales) {
  for (int64_t g = 0; g < chunk.groups; g++)
    for (int kind = 0; kind <= w.minimums; kind++, scales += PANEL)
      for (int half = 0; half < 2; half++)
        vec_store(scales + 16 * half, load_scales(w, chunk.panel, g, kind, half));
}

// Rows `row` .. `row + count - 1`, at most MAX_PASS, against a panel in codes; where registers are many, in tiles of 3 rows or more.
INLINE void chunks_pass(const struct panels w, const int far, const struct product *p,
                        int64_t index, int64_t row, int64_t count) {
  _Alignas(LINE) float totals[MAX_PASS][PANEL], scales[CHUNK_COLUMNS / MIN_GROUP * 2 * PANEL];
  const int64_t all = panels_groups(w), most = TILES_FETCH ? all : CHUNK_COLUMNS / w.group,
                tiles = (count + CHUNK_ROWS - 1) / CHUNK_ROWS,
                shared = TILES_FETCH || tiles <= FETCHING_TILES ? tiles : 1,
                fetching = PRODUCT_FAR && count >= LEAST_FETCHED ? shared : 0;
  struct chunk chunk = {.panel = p->panels + (size_t)index * panels_panel_bytes(w)};
  for (; chunk.first < all; chunk.first += most) {
    chunk.groups = all - chunk.first < most ? all - chunk.first : most;
    const size_t bytes = panels_groups_bytes(w, chunk.groups);
    if (PRODUCT_IN_BLOCKS && !TILES_FETCH) widen_scales(w, chunk, scales), chunk.scales = scales;
    struct fetch behind = NO_FETCH;
    if (fetching)
      behind = fetch_shares(chunk.panel + (TILES_FETCH ? (int64_t)bytes : AHEAD), bytes,
                            fetching * SHARES_OF_GROUP * chunk.groups);
    for (int64_t t = 0, done = 0; t < tiles; t++) {
      const int64_t height = count / tiles + (t < count % tiles);
      const struct fetch share = t < fetching ? behind : NO_FETCH;
#define TILE(n)                                                                                      \
  case n:                                                                                            \
    chunk_tile(w, n, share, chunk, p, index, row + done, totals + done);                             \
    break;
#if CHUNK_ROWS == 6
      switch (height) { TILE(3) TILE(4) TILE(5) TILE(6) }
#else
      switch (height) { TILE(1) TILE(2) TILE(3) TILE(4) }
#endif
#undef TILE
      skip_lines(&behind, SHARES_OF_GROUP * chunk.groups);
      done += height;
    }
    chunk.panel += bytes;
  }
}
#endif

// A panel against all rows, in tiles of nearly equal height: 8 rows are 4 + 4, not 6 + 2. Weights that are not `far` lie in the
// cache as a whole, and no tile fetches them. Returns how many of the panels from `index` to `end` were taken: 1 or 2.
//
// Every height that a tile can have is compiled for itself, and a library is compiled when a model is first served: where a tile
// has no need of its own, it is one of those that take chunks.
INLINE int product_panel(const struct panels w, const int quantized, const int far,
                         const int64_t in_stride, const struct product *p, int64_t index,
                         int64_t end) {
#define TILE(n, across, ahead)                                                                     \
  case n:                                                                                          \
    product_tile(w, quantized, n, across, ahead, &behind, in_stride, p, index, row);               \
    break;
#ifdef __AMX_BF16__
  if (!PRODUCT_QUANTIZED && takes_planes(w.number, p->tiles))
    return float_tiles_panels(w, p, index, end);
#endif
  int64_t row = p->first, count = p->count;
  struct fetch behind = NO_FETCH;
#if TILE_ROWS == 6
#define LOW_TILES(across, ahead) TILE(2, across, ahead) TILE(1, across, ahead)
#define EVERY_TILE(across, ahead) \
  TILE(6, across, ahead)          \
  TILE(5, across, ahead)          \
  TILE(4, across, ahead) TILE(3, across, ahead) LOW_TILES(across, ahead)
  if (PRODUCT_QUANTIZED && PRODUCT_FAR && count <= TILE_ROWS && index + 1 < end) {
    switch (count) { EVERY_TILE(2, AHEAD) }
    return 2;
  }
#endif
#ifdef __AMX_INT8__
  if (PRODUCT_QUANTIZED && p->tiles && tiles_count(count)) {
    tiles_panel(w, p, index, tiles_count(count));
    row += tiles_count(count), count -= tiles_count(count);
  }
#endif
  const int64_t most = PRODUCT_QUANTIZED ? TILE_ROWS : FLOAT_ROWS,
                tiles = (count + most - 1) / most;
#ifdef CHUNK_ROWS
#ifdef NARROW_ROWS
  const int chunked = count >= LEAST_CHUNKED;
#else
  const int chunked = count > 2 && (PRODUCT_FAR || (PRODUCT_IN_BLOCKS && tiles > 1));
#endif
  if (PRODUCT_QUANTIZED && chunked) {
    const int64_t passes = (count + MAX_PASS - 1) / MAX_PASS;
    for (int64_t pass = 0, done = 0; pass < passes; pass++) {
      const int64_t height = count / passes + (pass < count % passes);
      chunks_pass(w, far, p, index, row + done, height);
      done += height;
    }
    return 1;
  }
#endif
#if TILE_ROWS == 6
  if (PRODUCT_QUANTIZED && PRODUCT_FAR) {
    switch (count) { LOW_TILES(1, AHEAD) }
    return 1;
  }
#endif
#if TILE_ROWS != 6
  // While a panel is gone through for several rows once more, memory would rest: they share in fetching the next one.
  if (!PRODUCT_QUANTIZED && PRODUCT_FAR && count > 2 && index + 1 < end) {
    const size_t bytes = panels_panel_bytes(w);
    const int64_t shares = 2 * tiles * (w.columns / FETCH_COLUMNS);
    behind = fetch_shares(p->panels + (size_t)(index + 1) * bytes, bytes, shares > 1 ? shares : 1);
  }
#endif
  for (int64_t t = 0; t < tiles; t++) {
    int64_t height = count / tiles + (t < count % tiles);
#if TILE_ROWS == 6
    if (TILES_FETCH && PRODUCT_FAR && t == 0) switch (height) {
        EVERY_TILE(1, AHEAD)
      }
    else
      switch (height) { EVERY_TILE(1, 0) }
#else
    switch (PRODUCT_QUANTIZED ? 1 : height) {
      TILE(4, 1, 0) TILE(3, 1, 0) TILE(2, 1, 0) TILE(1, 1, 0)
    }
#endif
    row += height;
  }
#undef LOW_TILES
#undef EVERY_TILE
#undef TILE
  return 1;
}

#endif
