// Attention on the processor's matrix unit (AMX), for keys and values of 16 or 8 bits: what attention.h computes, in the
// same steps of 64 positions, in another arithmetic that is its own from one row to many.
//
// The unit multiplies bf16 and adds in float. So every number becomes planes of bf16. A stored one is their sum exactly: an
// f16 has 11 significant bits and takes two, a bf16 or an 8-bit code is one by itself. A query and a weight of softmax are
// the nearest bf16 and what is left of it, 16 bits together. Products of planes add up in one sum; low times low is left out.
// A step's keys and values are split once for all rows of an item, so items are larger than attention.h's.
//
// After a tile instruction the second of two vector ports rests for some 320 cycles: up to four tiles of rows are scored,
// then weighed by softmax, then summed, and their scores become weights where they lie.
#ifndef SINTER_ATTENTION_TILES_H
#define SINTER_ATTENTION_TILES_H

#include "attention_chosen.h"
#include "matrix_unit.h"

enum { TILES_TOGETHER = 4, TILES_AN_ITEM = 8 };
enum { MAX_POSITIONS = TILES_AN_ITEM * TILE };  // of an item

// Neighbouring positions of an item: as many as fill eight tiles.
INLINE int64_t tiles_positions(int64_t group) {
  return group < TILES_AN_ITEM * TILE ? TILES_AN_ITEM * TILE / group : 1;
}
INLINE int64_t tiles_of(int64_t rows) { return (rows + TILE - 1) / TILE; }

// Where an item's tiles lie in its scratch, counted in tiles. Columns of a head come in 32s where they are multiplied and in
// 16s where they are summed; stored numbers and rows have two planes.
struct tile_places {
  int64_t rows, pairs, vectors;  // tiles of rows; of 32 and of 16 columns of a head
  int64_t query, keys, values, scores, sums, totals, largest, end;
};
INLINE struct tile_places tile_places(const struct attention a, int64_t rows) {
  struct tile_places p = {.rows = tiles_of(rows),
                          .pairs = (a.head_dim + 31) / 32,
                          .vectors = head_width(a.head_dim) / 16};
  p.keys = p.query + p.rows * p.pairs * 2;  // query   [row tile][pairs][plane]
  p.values = p.keys + p.pairs * 2 * 4;      // keys    [pairs][plane][block]
  p.scores = p.values + 2 * 2 * p.vectors;  // values  [half of the step][plane][vector]
  p.sums = p.scores + TILES_TOGETHER * 4;   // scores  [row tile mod 4][block]
  p.totals = p.sums + p.rows * p.vectors;   // sums    [row tile][vector]
  p.largest = p.totals + p.rows;            // totals  [row]: sixteen lanes
  p.end = p.largest + (p.rows * TILE * 4 + TILE_BYTES - 1) / TILE_BYTES;  // largest [row]
  return p;
}
// Floats.
INLINE int64_t tiles_scratch(const struct attention a) {
  const int64_t group = a.heads / a.kv_heads;
  return tile_places(a, tiles_positions(group) * group).end * (TILE_BYTES / 4);
}

#ifdef __AMX_BF16__

INLINE uint8_t *tile_at(float *scratch, int64_t tile) {
  return (uint8_t *)scratch + tile * TILE_BYTES;
}

// ------------------------------------------------------------------ numbers to planes

// As other floats, but what is left is cut off and not rounded: two operations fewer of a hot loop.
INLINE void split_weights(vec a, vec b, void *high, void *low) {
  vec near_a = nearest_bf16(a), near_b = nearest_bf16(b);
  store_pairs(high, near_a, near_b);
  store_pairs(low, vec_sub(a, near_a), vec_sub(b, near_b));
}

// The following step's blocks are fetched bit by bit, in proportion to the time that goes by: a core has few places for
// lines on their way, and a burst would wait for them (one row: 15.6 ms in bursts, 12.3 so).
struct fetching {
  uint8_t *const *heads;
  int64_t lines, end, due, rate;  // due and rate in 256ths of a line
};
INLINE void fetch_some(struct fetching *f, int64_t time) {
  f->due += time * f->rate;
  for (; f->lines < f->end && f->lines < f->due >> 8; f->lines++)
    __builtin_prefetch(f->heads[f->lines % 4] + f->lines / 4 * LINE, 0, 2);
}
// Shares of the time: sixteen pairs of stored vectors, a dot of four tiles, a row of softmax.
enum { SPLIT_TIME = 4, DOT_TIME = 4, ROW_TIME = 3 };

// Pair i of 32 columns is column i and column i + 16.
INLINE void split_keys(const struct attention a, uint8_t *const heads[4], uint8_t *planes,
                       struct fetching *f) {
  const size_t size = number_size(a.number);
  for (int64_t d = 0; d < a.head_dim; d += 32, planes += 8 * TILE_BYTES)
    for (int b = 0; b < 4; b++)
      for (int64_t i = 0; i < 16; i++) {
        if (i % 4 == 0) fetch_some(f, SPLIT_TIME / 4);
        const uint8_t *at = heads[b] + (size_t)((d + i) * BLOCK) * size;
        vec low = d + i < a.head_dim ? vec_load_number(a.number, at) : vec_zero();
        vec high = d + i + 16 < a.head_dim ? vec_load_number(a.number, at + 16 * BLOCK * size)
                                           : vec_zero();
        split_stored(a.number, low, high, planes + b * TILE_BYTES + i * LINE,
                     planes + (4 + b) * TILE_BYTES + i * LINE);
      }
}

// Pair i of half a step is position i and position i + 16. A position that no row of the item sees is zero: it may hold
// another sequence's leavings, and zero times NaN would be NaN.
INLINE void split_values(const struct attention a, uint8_t *const heads[4], uint64_t seen,
                         uint8_t *planes, struct fetching *f) {
  const size_t size = number_size(a.number);
  const int64_t stride = head_width(a.head_dim), vectors = stride / 16;
  for (int half = 0; half < 2; half++, planes += 2 * vectors * TILE_BYTES)
    for (int i = 0; i < 16; i++) {
      const size_t place = keys_bytes(a) + (size_t)(i * stride) * size;
      const uint8_t *low = heads[2 * half] + place, *high = heads[2 * half + 1] + place;
      const __mmask16 of_low = (seen >> (32 * half + i) & 1) ? 0xffff : 0,
                      of_high = (seen >> (32 * half + 16 + i) & 1) ? 0xffff : 0;
      if (i % 2 == 0) fetch_some(f, vectors * SPLIT_TIME / 8);
#pragma GCC unroll 4
      for (int64_t v = 0; v < vectors; v++) {
        const size_t at = (size_t)(16 * v) * size;
        split_stored(a.number, _mm512_maskz_mov_ps(of_low, vec_load_number(a.number, low + at)),
                     _mm512_maskz_mov_ps(of_high, vec_load_number(a.number, high + at)),
                     planes + v * TILE_BYTES + i * LINE,
                     planes + (vectors + v) * TILE_BYTES + i * LINE);
      }
    }
}

// ------------------------------------------------------------------ products of planes

// Two tiles of columns keep their registers from part to part, four do not.
INLINE int reload(const struct attention a, int part, int tall) {
  return tall == 1 || new_columns(a.number, part);
}

// Tiles of 32 columns of rows against 32 of keys: four sums at a time, of 32 rows and two blocks or of 16 rows and all four.
INLINE void score_tiles(const struct attention a, const struct tile_places p, const int tall,
                        int64_t tile, float *scratch, struct fetching *f) {
  const uint8_t *query = tile_at(scratch, p.query + tile * p.pairs * 2),
                *below = query + p.pairs * 2 * TILE_BYTES;
  uint8_t *scores = tile_at(scratch, p.scores + tile % TILES_TOGETHER * 4);
  for (int block = 0; block < 4; block += tall == 2 ? 2 : 4, scores += 2 * TILE_BYTES) {
    TILE_ZERO(0);
    TILE_ZERO(1);
    TILE_ZERO(2);
    TILE_ZERO(3);
    for (int64_t pair = 0; pair < p.pairs; pair++)
#pragma GCC unroll 3
      for (int part = first_part(a.number); part < 3; part++) {
        const int64_t at = (pair * 2 + row_plane(part)) * TILE_BYTES;
        const uint8_t *keys =
            tile_at(scratch, p.keys + (pair * 2 + column_plane(part)) * 4 + block);
        fetch_some(f, DOT_TIME);
        if (new_rows(a.number, part)) TILE_LOAD(4, query + at, LINE);
        if (reload(a, part, tall)) TILE_LOAD(6, keys, LINE);
        TILE_DOT_BF16(0, 4, 6);
        if (reload(a, part, tall)) TILE_LOAD(7, keys + TILE_BYTES, LINE);
        TILE_DOT_BF16(1, 4, 7);
        if (tall == 2) {
          if (new_rows(a.number, part)) TILE_LOAD(5, below + at, LINE);
          TILE_DOT_BF16(2, 5, 6);
          TILE_DOT_BF16(3, 5, 7);
        } else {
          TILE_LOAD(6, keys + 2 * TILE_BYTES, LINE);
          TILE_DOT_BF16(2, 4, 6);
          TILE_LOAD(7, keys + 3 * TILE_BYTES, LINE);
          TILE_DOT_BF16(3, 4, 7);
        }
      }
    TILE_STORE(0, scores);
    TILE_STORE(1, scores + TILE_BYTES);
    TILE_STORE(2, scores + (tall == 2 ? 4 : 2) * TILE_BYTES);
    TILE_STORE(3, scores + (tall == 2 ? 5 : 3) * TILE_BYTES);
  }
}

// sums += weights x values, for `width` vectors of the head from `vector` on: of 32 rows and up to two, or of 16 and up to
// four.
INLINE void weigh_vectors(const struct attention a, const struct tile_places p, const int tall,
                          const int width, int64_t vector, int64_t tile, float *scratch,
                          struct fetching *f) {
  const uint8_t *weights = tile_at(scratch, p.scores + tile % TILES_TOGETHER * 4);
  uint8_t *sums = tile_at(scratch, p.sums + tile * p.vectors + vector),
          *below = sums + p.vectors * TILE_BYTES;
#define EACH_SUM(what)                                          \
  do {                                                          \
    what(0, sums);                                              \
    if (width > 1) what(1, sums + TILE_BYTES);                  \
    if (tall == 2) what(2, below);                              \
    if (tall == 2 && width > 1) what(3, below + TILE_BYTES);    \
    if (tall == 1 && width > 2) what(2, sums + 2 * TILE_BYTES); \
    if (tall == 1 && width > 3) what(3, sums + 3 * TILE_BYTES); \
  } while (0)
#define LOAD_SUM(register, at) TILE_LOAD(register, at, LINE)
  EACH_SUM(LOAD_SUM);
  for (int half = 0; half < 2; half++)
#pragma GCC unroll 3
    for (int part = first_part(a.number); part < 3; part++) {
      const uint8_t *rows = weights + (half * 2 + row_plane(part)) * TILE_BYTES,
                    *values = tile_at(
                        scratch, p.values + (half * 2 + column_plane(part)) * p.vectors + vector);
      fetch_some(f, DOT_TIME);
      if (new_rows(a.number, part)) TILE_LOAD(4, rows, LINE);
      if (reload(a, part, tall)) TILE_LOAD(6, values, LINE);
      TILE_DOT_BF16(0, 4, 6);
      if (width > 1) {
        if (reload(a, part, tall)) TILE_LOAD(7, values + TILE_BYTES, LINE);
        TILE_DOT_BF16(1, 4, 7);
      }
      if (tall == 2) {
        if (new_rows(a.number, part)) TILE_LOAD(5, rows + 4 * TILE_BYTES, LINE);
        TILE_DOT_BF16(2, 5, 6);
        if (width > 1) TILE_DOT_BF16(3, 5, 7);
      }
      if (tall == 1 && width > 2) {
        TILE_LOAD(6, values + 2 * TILE_BYTES, LINE);
        TILE_DOT_BF16(2, 4, 6);
      }
      if (tall == 1 && width > 3) {
        TILE_LOAD(7, values + 3 * TILE_BYTES, LINE);
        TILE_DOT_BF16(3, 4, 7);
      }
    }
  EACH_SUM(TILE_STORE);
#undef EACH_SUM
#undef LOAD_SUM
}

INLINE void weigh_tiles(const struct attention a, const struct tile_places p, const int tall,
                        int64_t tile, float *scratch, struct fetching *f) {
  const int wide = tall == 2 ? 2 : 4, rest = (int)(p.vectors % wide);
  int64_t vector = 0;
  for (; vector + wide <= p.vectors; vector += wide)
    weigh_vectors(a, p, tall, wide, vector, tile, scratch, f);
  if (rest == 1) weigh_vectors(a, p, tall, 1, vector, tile, scratch, f);
  if (rest == 2) weigh_vectors(a, p, tall, 2, vector, tile, scratch, f);
  if (rest == 3) weigh_vectors(a, p, tall, 3, vector, tile, scratch, f);
}

// ------------------------------------------------------------------ softmax

// vec_exp for x that are at most 0, give or take a rounding. A NaN stays one: a key that was infinite must show.
INLINE vec exp_below(vec x) {
  vec bounded = vec_max(vec_set(-87.0f), x);
  vec n = vec_fma(bounded, vec_set(1.44269504f), vec_set(MAGIC));
  vec p = exp_near(bounded, vec_sub(n, vec_set(MAGIC)));
  __mmask16 kept = _mm512_cmp_ps_mask(x, vec_set(-87.0f), _CMP_NLT_UQ);
  return _mm512_castsi512_ps(
      _mm512_maskz_add_epi32(kept, bits_of_vec(p), _mm512_slli_epi32(bits_of_vec(n), 23)));
}

// Scaled by `tile_scale` later, unless there is a cap, which wants it scaled before.
INLINE vec tile_score(const struct attention a, const uint8_t *head, const float *sums) {
  vec score = a.number == Q8 ? vec_mul(vec_load(sums), key_scales(a, head)) : vec_load(sums);
  return a.cap > 0 ? scaled_score(a, score) : score;
}
INLINE float tile_scale(const struct attention a) { return a.cap > 0 ? 1.0f : a.scale; }

// A tile's scores of a step become its weights, in their place: a row's four vectors of floats are as large as the two
// planes of its two halves. `bits`: which positions each row sees; none where it is all of them.
INLINE void weigh_scores(const struct attention a, const struct tile_places p, int64_t tile,
                         int64_t rows, uint8_t *const heads[4], const uint32_t (*bits)[4],
                         float *scratch, struct fetching *f) {
  float *scores = (float *)tile_at(scratch, p.scores + tile % TILES_TOGETHER * 4);
  float *largest = (float *)tile_at(scratch, p.largest) + tile * TILE;
  enum { NEXT = TILE_BYTES / 4 };  // floats from one block's scores to the next's
  float most[TILE], factor[TILE];
  for (int i = 0; i < TILE; i++) most[i] = LOWEST;
  for (int64_t i = 0; i < rows; i++) {
    vec x[4];
#pragma GCC unroll 4
    for (int b = 0; b < 4; b++) {
      x[b] = tile_score(a, heads[b], scores + b * NEXT + i * 16);
      if (bits) x[b] = vec_choose(bits[i][b], x[b], vec_set(LOWEST));
    }
    most[i] = vec_largest(vec_max(vec_max(x[0], x[1]), vec_max(x[2], x[3])));
  }
  vec before = vec_load(largest);
  vec now = vec_max(before, vec_mul(vec_load(most), vec_set(tile_scale(a))));
  vec correction = vec_exp(vec_sub(before, now));
  vec_store(largest, now);
  vec_store(most, now);
  vec_store(factor, correction);
  uint32_t changed = first_bits(rows) & _mm512_cmp_ps_mask(correction, vec_set(1), _CMP_NEQ_UQ);
  for (int64_t i = 0; i < rows; i++) {
    fetch_some(f, ROW_TIME);
    float *row = scores + i * 16, *total = (float *)tile_at(scratch, p.totals + tile) + i * 16;
    vec w[4], before = vec_load(total);
#pragma GCC unroll 4
    for (int b = 0; b < 4; b++) {
      vec score = tile_score(a, heads[b], row + b * NEXT);
      vec x = vec_fma(score, vec_set(tile_scale(a)), vec_set(-most[i]));
      if (bits) x = vec_choose(bits[i][b], x, vec_set(LOWEST));
      w[b] = exp_below(x);
      // As in attention.h. Other infinite keys are NaNs by now: an f16's second plane, the scale of codes.
      if (a.number == BF16) before = vec_fma(x, vec_zero(), before);
    }
    vec sum = vec_add(vec_add(w[0], w[1]), vec_add(w[2], w[3]));
    vec_store(total, vec_fma(before, vec_set(factor[i]), sum));
    if (a.number == Q8)
#pragma GCC unroll 4
      for (int b = 0; b < 4; b++) {
        w[b] = vec_mul(w[b], value_scales(a, heads[b]));
        if (bits) w[b] = vec_choose(bits[i][b], w[b], vec_zero());
      }
    split_weights(w[0], w[1], row, row + NEXT);
    split_weights(w[2], w[3], row + 2 * NEXT, row + 3 * NEXT);
  }
  // What a multiplication by 1 would leave as it is is left.
  float *sums = (float *)tile_at(scratch, p.sums + tile * p.vectors);
  for (; changed; changed &= changed - 1) {
    const int i = __builtin_ctz(changed);
    for (int64_t v = 0; v < p.vectors; v++) {
      float *sum = sums + v * NEXT + i * 16;
      vec_store(sum, vec_mul(vec_load(sum), vec_set(factor[i])));
    }
  }
}

// ------------------------------------------------------------------ an item

INLINE void tile_query(const struct attention a, const struct tile_places p,
                       const struct attention_item *item, int64_t kv_head, int64_t rows,
                       float *scratch) {
  const int64_t group = a.heads / a.kv_heads;
  for (int64_t row = 0; row < rows; row++) {
    const float *query = item->query + row / group * item->query_stride +
                         (kv_head * group + row % group) * a.head_dim;
    uint8_t *at = tile_at(scratch, p.query + row / TILE * p.pairs * 2) + row % TILE * LINE;
    for (int64_t d = 0; d < a.head_dim; d += 32, at += 2 * TILE_BYTES)
      split_floats(_mm512_maskz_loadu_ps(first_lanes(a.head_dim - d), query + d),
                   _mm512_maskz_loadu_ps(first_lanes(a.head_dim - d - 16), query + d + 16), at,
                   at + TILE_BYTES);
  }
}

// The positions from `first` on that some row of the item sees, a bit each, and whether those who see all between `from` and
// `last` see them all.
INLINE uint64_t seen_by_any(const struct attention a, int64_t first, int64_t begin, int64_t last) {
  uint64_t seen = 0;
  for (int b = 0; b < 4; b++) {
    const int64_t at = first + b * BLOCK;
    const uint64_t block =
        first_bits(last + 1 - at) & (~first_bits(begin - at) | first_bits(a.sinks - at));
    seen |= block << b * BLOCK;
  }
  return seen;
}
INLINE int seen_by_all(const struct attention a, int64_t first, int64_t from, int64_t last) {
  return first + STEP - 1 <= last && (first >= from || first + STEP <= a.sinks);
}

// As attend; `scratch`: tiles_scratch floats that begin a line.
INLINE void attend_tiles(const struct attention a, const struct attention_item *item,
                         int64_t kv_head, float *scratch) {
  const int64_t group = a.heads / a.kv_heads, rows = item->tokens * group;
  const struct tile_places p = tile_places(a, rows);
  tile_query(a, p, item, kv_head, rows, scratch);
  memset(tile_at(scratch, p.sums), 0, (size_t)(p.rows * (p.vectors + 1) * TILE_BYTES));
  for (int64_t row = 0; row < p.rows * TILE; row++) {
    const int64_t head = kv_head * group + row % group;
    ((float *)tile_at(scratch, p.largest))[row] = first_largest(item, head);
    ((float *)tile_at(scratch, p.totals))[row * 16] = first_total(item, head);
  }
  tiles_configure(rows < TILE ? rows : TILE, LINE);

  const int64_t last = item_end(item), begin = item->firsts[0];
  const int64_t lines = 4 * (int64_t)(head_bytes(a) / LINE), dots = 2 * (3 - first_part(a.number)),
                time = (8 * p.pairs + 4 * p.vectors) * SPLIT_TIME / 2 + rows * ROW_TIME +
                       p.rows * dots * DOT_TIME * (2 * p.pairs + (p.vectors + 3) / 4 * 2) / 2;
  for (int64_t first = 0; first <= last; first += STEP) {
    if (first >= a.sinks && first + STEP <= begin) continue;
    uint8_t *heads[4], *next[4];
    step_heads(a, item, kv_head, first, heads);
    step_heads(a, item, kv_head, first + STEP, next);
    struct fetching f = {.heads = next,
                         .end = first + STEP <= last ? lines : 0,
                         .rate = (lines * 256 + time - 1) / time};
    split_keys(a, heads, tile_at(scratch, p.keys), &f);
    split_values(a, heads, seen_by_any(a, first, begin, last), tile_at(scratch, p.values), &f);
    for (int64_t from = 0; from < p.rows; from += TILES_TOGETHER) {
      const int64_t end = p.rows < from + TILES_TOGETHER ? p.rows : from + TILES_TOGETHER;
      for (int64_t tile = from; tile < end; tile += 2) {
        if (tile + 1 < end)
          score_tiles(a, p, 2, tile, scratch, &f);
        else
          score_tiles(a, p, 1, tile, scratch, &f);
      }
      for (int64_t tile = from; tile < end; tile++) {
        const int64_t row = tile * TILE, count = rows - row < TILE ? rows - row : TILE;
        if (seen_by_all(a, first, item->firsts[(row + count - 1) / group],
                        item->lasts[row / group])) {
          weigh_scores(a, p, tile, count, heads, NULL, scratch, &f);
        } else {
          uint32_t bits[TILE][4];
          for (int64_t i = 0; i < count; i++)
            for (int b = 0; b < 4; b++)
              bits[i][b] = visible(a, first + b * BLOCK, item->firsts[(row + i) / group],
                                   item->lasts[(row + i) / group]);
          weigh_scores(a, p, tile, count, heads, bits, scratch, &f);
        }
      }
      for (int64_t tile = from; tile < end; tile += 2) {
        if (tile + 1 < end)
          weigh_tiles(a, p, 2, tile, scratch, &f);
        else
          weigh_tiles(a, p, 1, tile, scratch, &f);
      }
    }
  }
  tiles_release();

  for (int64_t row = 0; row < rows; row++) {
    const int64_t tile = row / TILE, i = row % TILE;
    float *out =
        item->out + row / group * item->out_stride + (kv_head * group + row % group) * a.head_dim;
    const float *sums = (float *)tile_at(scratch, p.sums + tile * p.vectors) + i * 16,
                *total = (float *)tile_at(scratch, p.totals + tile) + i * 16;
    vec inverse = vec_set(1.0f / vec_total(vec_load(total)));
    for (int64_t d = 0; d < a.head_dim; d += 16)
      _mm512_mask_storeu_ps(out + d, first_lanes(a.head_dim - d),
                            vec_mul(vec_load(sums + d / 16 * (TILE_BYTES / 4)), inverse));
  }
}

#endif

// ------------------------------------------------------------------ either way

// Keys that hold their values, or are wider, are read by vectors alone, and so are those whose scores have biases or that are chosen.
INLINE int takes_tiles(const struct attention a, int tiles) {
  return !a.latent && !a.value && !a.distances && !a.sparse && takes_planes(a.number, tiles);
}
// Neighbouring positions of an item at most, and the floats of scratch that layout.ts must keep for it: enough for either way,
// whole lines.
INLINE int64_t item_positions(const struct attention a, int tiles) {
  return takes_tiles(a, tiles) ? tiles_positions(a.heads / a.kv_heads) : ATTENTION_POSITIONS;
}
INLINE int64_t item_scratch(const struct attention a) {
  int64_t floats = round_up(attention_scratch(a) + packed_floats(a), LINE / 4), tiles = tiles_scratch(a);
  return a.number != F32 && !a.latent && !a.value && tiles > floats ? tiles : floats;
}
INLINE void attend_item(const struct attention a, int tiles, const struct attention_item *item,
                        int64_t kv_head, float *scratch) {
#ifdef __AMX_BF16__
  if (takes_tiles(a, tiles)) {
    attend_tiles(a, item, kv_head, scratch);
    return;
  }
#endif
  if (ATTENTION_SPARSE && !sees_most(a, item))
    attend_few(a, item, kv_head, scratch);
  else
    attend(a, item, kv_head, scratch);
}

#endif
