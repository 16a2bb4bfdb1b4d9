// Attention of new tokens over the KV blocks of their sequence, which hold the new tokens' keys and values already: what is
// read is always what was rounded to the cache's type, whoever computed it.
//
// The context is walked in steps of 64 positions that begin at multiples of 64; softmax is merged step by step, in position
// order, by one routine for one row and for many. A row (one query head at one position) therefore sums in an order that
// its position alone decides.
//
// A block's memory, per KV head:   keys  [headDim][16 positions]      values [16 positions][headDim rounded up to 16]
// With codes of 8 bits, behind:    keys' scales [16 positions]        values' scales [16 positions]
#ifndef SINTER_ATTENTION_H
#define SINTER_ATTENTION_H

#include "functions.h"
#include "panels.h"
#include "turning.h"

enum { BLOCK = 16, STEP = 64, ATTENTION_ROWS = 4, ATTENTION_POSITIONS = 12 };

struct attention {
  int64_t heads, kv_heads, head_dim, layers, layer;
  int64_t latent;  // values are the first so many columns of keys; 0: they lie behind the keys
  int64_t value;   // columns of such a value; 0: as many as of a key
  int64_t window;  // positions that a query sees, itself included; 0: all before it
  int chunked;     // it sees from the last multiple of the window on
  int64_t sinks;   // first positions that it sees in any case
  int bidirectional;  // it sees those after it, too, with a window as many as before it
  int mutual;         // it sees as far as the step says
  int64_t cross;      // it sees the first so many positions alone; 0: it is no cross-attention
  enum number number;
  float scale;
  float cap;  // a score s becomes cap * tanh(s / cap); 0: it stays
  int64_t distances;  // a head's biases, which are added to scores: that of a key where its query stands in the middle; 0: none
  int64_t buckets;    // biases are numbers of so many buckets, and rows have for each head what is added of each; 0: they are added
  int sparse;         // of what it would see it sees what an indexer has chosen
};

// Of attention `a`, likewise: see PRODUCT_CODES.
#ifndef ATTENTION_SPARSE
#define ATTENTION_SPARSE a.sparse
#endif

INLINE int64_t head_width(int64_t head_dim) { return round_up(head_dim, 16); }
INLINE int64_t value_dim(struct attention a) {
  return a.latent ? a.latent : a.value ? a.value : a.head_dim;
}
INLINE int64_t value_width(struct attention a) { return head_width(value_dim(a)); }
INLINE size_t keys_bytes(struct attention a) {
  return (size_t)(a.head_dim * BLOCK) * number_size(a.number);
}
INLINE size_t values_bytes(struct attention a) {
  return a.latent ? 0 : (size_t)(value_width(a) * BLOCK) * number_size(a.number);
}
INLINE size_t codes_bytes(struct attention a) { return keys_bytes(a) + values_bytes(a); }
INLINE size_t head_bytes(struct attention a) {
  return codes_bytes(a) + (a.number == Q8 ? (a.latent ? 1 : 2) * BLOCK * sizeof(float) : 0);
}
INLINE size_t block_bytes(struct attention a) {
  return (size_t)(a.layers * a.kv_heads) * head_bytes(a);
}
INLINE uint8_t *block_head(struct attention a, uint8_t *cache, int64_t block, int64_t kv_head) {
  return cache + (size_t)block * block_bytes(a) +
         (size_t)(a.layer * a.kv_heads + kv_head) * head_bytes(a);
}

// Of a block's sixteen positions, in one vector.
INLINE vec key_scales(const struct attention a, const uint8_t *head) {
  return vec_load((const float *)(head + codes_bytes(a)));
}
INLINE vec value_scales(const struct attention a, const uint8_t *head) {
  return vec_load((const float *)(head + codes_bytes(a)) + (a.latent ? 0 : BLOCK));
}

// Up to sixteen floats of so many `columns` from column d on, zeros behind the last.
INLINE vec head_part(int64_t columns, const float *x, int64_t d) {
  if (columns - d >= 16) return vec_load(x + d);
  float lanes[16] = {0};
  memcpy(lanes, x + d, (size_t)(columns - d) * 4);
  return vec_load(lanes);
}
// What a head's codes of 8 bits are multiplied with, and `inverse`, which makes them: those of a group in quantize_row of
// rows.h, NaN included.
INLINE float head_scale(int64_t columns, const float *x, vec *inverse) {
  vec largest = vec_zero(), sound = vec_zero();
  for (int64_t d = 0; d < columns; d += 16) {
    vec v = head_part(columns, x, d);
    largest = vec_max(largest, vec_abs(v));
    sound = vec_fma(v, vec_zero(), sound);
  }
  float most = vec_largest(largest);
  *inverse = vec_set(most > 0 ? 127.0f / most : 0.0f);
  return most / 127.0f + vec_total(sound);
}

INLINE void write_codes(const struct attention a, uint8_t *head, int64_t place, const float *key,
                        const float *value) {
  float *scales = (float *)(head + codes_bytes(a));
  int8_t *values = (int8_t *)head + keys_bytes(a) + place * value_width(a);
  vec of_key, of_value;
  scales[place] = head_scale(a.head_dim, key, &of_key);
  for (int64_t d = 0; d < a.head_dim; d += 16) {
    int8_t codes[16];
    vec_store_i8(codes, vec_mul(head_part(a.head_dim, key, d), of_key));
    for (int64_t i = 0; i < 16 && d + i < a.head_dim; i++)
      head[(d + i) * BLOCK + place] = (uint8_t)codes[i];
  }
  if (a.latent) return;
  scales[BLOCK + place] = head_scale(value_dim(a), value, &of_value);
  for (int64_t d = 0; d < value_dim(a); d += 16)
    vec_store_i8(values + d, vec_mul(head_part(value_dim(a), value, d), of_value));
}

// A turned key and a value, readable up to the next 16 columns, into their place.
INLINE void write_kv(const struct attention a, uint8_t *head, int64_t place, const float *key,
                     const float *value) {
  if (a.number == Q8) {
    write_codes(a, head, place, key, value);
    return;
  }
  const size_t size = number_size(a.number);
  for (int64_t d = 0; d < a.head_dim; d += 16) {
    uint8_t rounded[64];
    vec_store_number(a.number, rounded, vec_load(key + d));
    for (int64_t i = 0; i < 16 && d + i < a.head_dim; i++)
      memcpy(head + (size_t)((d + i) * BLOCK + place) * size, rounded + (size_t)i * size, size);
  }
  if (a.latent) return;
  uint8_t *values = head + keys_bytes(a) + (size_t)(place * value_width(a)) * size;
  for (int64_t d = 0; d < value_dim(a); d += 16)
    vec_store_number(a.number, values + (size_t)d * size, vec_load(value + d));
}

// Rows of one sequence and one KV head: query heads that share it, at neighbouring positions.
struct attention_rows {
  const float *query[ATTENTION_ROWS];  // [head_dim]
  int64_t from[ATTENTION_ROWS], last[ATTENTION_ROWS];  // what each of them sees: see struct attention_item
  float *sum;            // [rows, value_width]  what softmax has weighed so far
  float *largest;        // [rows]
  float *total;          // [rows]
  const float *biases[ATTENTION_ROWS];  // of the step's positions, where there are any
  const float *chosen[ATTENTION_ROWS];  // of the step's blocks, where it is sparse: see choose_positions of indexer.h
  uint8_t *const *next;  // the following step's four blocks where these rows fetch them, or none
};

#define LOWEST (-3.4e38f)

// Bits of the block's first n positions.
INLINE uint32_t first_bits(int64_t n) {
  return n <= 0 ? 0 : n >= BLOCK ? (1u << BLOCK) - 1 : (1u << n) - 1;
}

// The last position that a query at `position` sees; `end`: its sequence's last one, or where it is mutual, as the step says.
INLINE int64_t last_seen(const struct attention a, int64_t position, int64_t end) {
  if (a.mutual) return end;
  if (a.cross && position >= a.cross) return a.cross - 1;
  if (!a.bidirectional) return position;
  return a.window && position + a.window - 1 < end ? position + a.window - 1 : end;
}

// The first position that a query at `position` sees, of those from `kept` on.
INLINE int64_t first_seen(const struct attention a, int64_t position, int64_t kept) {
  if (!a.window) return kept;
  const int64_t from = position - (a.chunked ? position % a.window : a.window - 1);
  return from > kept ? from : kept;
}

// Bits of the 16 positions from `first` on that a query sees which sees those of the sinks and `from` to `last`.
INLINE uint32_t visible(const struct attention a, int64_t first, int64_t from, int64_t last) {
  return first_bits(last + 1 - first) &
         (~first_bits(from - first) | first_bits(a.sinks - first));
}

INLINE vec scaled_score(const struct attention a, vec score) {
  vec scaled = vec_mul(score, vec_set(a.scale));
  return a.cap > 0 ? vec_cap(scaled, a.cap) : scaled;
}

// How many vectors of each row are summed at once: as many as the registers hold sums of.
INLINE int sums_a_row(const int rows) {
  return SUMS_TOGETHER / rows < 4 ? SUMS_TOGETHER / rows : 4;
}

// Scores of `rows` rows against `count` of the step's four blocks, from number `from` on.
INLINE void score_blocks(const struct attention a, const int rows, const int from, const int count,
                         const int keys_alone, uint8_t *const heads[4],
                         const struct attention_rows *r, vec scores[ATTENTION_ROWS][4]) {
  const size_t size = number_size(a.number);
  vec sum[ATTENTION_ROWS][4];
#pragma GCC unroll 4
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
    for (int b = 0; b < count; b++) sum[i][b] = vec_zero();
  for (int64_t d = 0; d < a.head_dim; d++) {
    // Blocks lie anywhere, so the processor does not foresee the next one: without, a single row takes 1.1 to 1.2 times as
    // long. Every column fetches its share of the block, size / 2 lines of 64 bytes.
    if (r->next && (a.number != Q8 || d % 2 == 0) && (!keys_alone || 2 * d < a.head_dim))
#pragma GCC unroll 4
      for (int b = 0; b < count; b++)
#pragma GCC unroll 2
        for (size_t line = 0; line < (size + 1) / 2; line++)
          __builtin_prefetch(r->next[from + b] + ((size_t)d * size / 2 + line) * LINE, 0, 2);
    vec keys[4];
#pragma GCC unroll 4
    for (int b = 0; b < count; b++)
      keys[b] = vec_load_number(a.number, heads[from + b] + (size_t)(d * BLOCK) * size);
#pragma GCC unroll 4
    for (int i = 0; i < rows; i++) {
      vec q = vec_set(r->query[i][d]);
#pragma GCC unroll 4
      for (int b = 0; b < count; b++) sum[i][b] = vec_fma(q, keys[b], sum[i][b]);
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
    for (int b = 0; b < count; b++) {
      vec score = a.number == Q8 ? vec_mul(sum[i][b], key_scales(a, heads[from + b])) : sum[i][b];
      score = scaled_score(a, score);
      scores[i][from + b] =
          a.distances ? vec_add(score, vec_load(r->biases[i] + (from + b) * BLOCK)) : score;
    }
}

// Scores of `rows` rows against the step's four blocks; a missing block's are never looked at. `keys_alone`: the values of the
// following step are not wanted.
INLINE void score_step(const struct attention a, const int rows, const int keys_alone,
                       uint8_t *const heads[4], const struct attention_rows *r,
                       vec scores[ATTENTION_ROWS][4]) {
  const int together = sums_a_row(rows);
  for (int b = 0; b < 4; b += together)
    score_blocks(a, rows, b, together, keys_alone, heads, r, scores);
}

// sum = sum * correction + weights x values, over `width` vectors of the head from `d` on. `next`: where the following step's
// values lie, if they are to be fetched here.
INLINE void weigh_step(const struct attention a, const int rows, const int width, int64_t d,
                       const uint8_t *const values_of[4], const uint32_t seen[4],
                       float weights[ATTENTION_ROWS][STEP], const float correction[ATTENTION_ROWS],
                       const uint8_t *const *next, float *sums) {
  const size_t size = number_size(a.number);
  const int64_t stride = value_width(a);
  vec sum[ATTENTION_ROWS][4];
#pragma GCC unroll 4
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
    for (int v = 0; v < width; v++)
      sum[i][v] = vec_mul(vec_load(sums + i * stride + d + 16 * v), vec_set(correction[i]));
  for (int b = 0; b < 4; b++) {
    const uint8_t *at = values_of[b] + (size_t)d * size;
    for (int t = 0; t < BLOCK; t++, at += (size_t)stride * size) {
      if (next)
        for (size_t line = 0; line < (size_t)(16 * width) * size; line += LINE)
          __builtin_prefetch(next[b] + (size_t)(t * stride + d) * size + line, 0, 2);
      // A position that no row sees may hold another sequence's leavings; zero times NaN would be NaN.
      if (!(seen[b] >> t & 1)) continue;
      vec values[4];
#pragma GCC unroll 4
      for (int v = 0; v < width; v++)
        values[v] = vec_load_number(a.number, at + (size_t)(16 * v) * size);
#pragma GCC unroll 4
      for (int i = 0; i < rows; i++) {
        vec w = vec_set(weights[i][b * BLOCK + t]);
#pragma GCC unroll 4
        for (int v = 0; v < width; v++) sum[i][v] = vec_fma(w, values[v], sum[i][v]);
      }
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
    for (int v = 0; v < width; v++) vec_store(sums + i * stride + d + 16 * v, sum[i][v]);
}

// Merges a step's scores into what softmax has weighed, in the vectors of the values' columns `from` to `to`. Of the step's
// positions each row sees its `bits`, and some row those that are `seen`.
INLINE void weigh_rows(const struct attention a, const int rows, const int from, const int to,
                       uint8_t *const heads[4], const uint8_t *const values[4],
                       const uint8_t *const *next, uint32_t bits[ATTENTION_ROWS][4],
                       const uint32_t seen[4], vec scores[ATTENTION_ROWS][4],
                       const struct attention_rows *r) {
  float weights[ATTENTION_ROWS][STEP], correction[ATTENTION_ROWS];
#pragma GCC unroll 4
  for (int i = 0; i < rows; i++) {
#pragma GCC unroll 4
    for (int b = 0; b < 4; b++)
      scores[i][b] = vec_choose(bits[i][b], scores[i][b], vec_set(LOWEST));
    float here = vec_largest(
        vec_max(vec_max(scores[i][0], scores[i][1]), vec_max(scores[i][2], scores[i][3])));
    float largest = here > r->largest[i] ? here : r->largest[i];
    correction[i] = here > r->largest[i] ? exp_of(r->largest[i] - largest) : 1.0f;
    // Zero times a score is zero; of a NaN or an infinity, whose weight would be none, it is NaN, and the row shows it.
    vec total = vec_zero();
#pragma GCC unroll 4
    for (int b = 0; b < 4; b++) total = vec_fma(scores[i][b], vec_zero(), total);
#pragma GCC unroll 4
    for (int b = 0; b < 4; b++) {
      vec p = vec_choose(bits[i][b], vec_exp(vec_sub(scores[i][b], vec_set(largest))), vec_zero());
      total = vec_add(total, p);
      if (a.number == Q8)
        p = vec_choose(bits[i][b], vec_mul(p, value_scales(a, heads[b])), vec_zero());
      vec_store(weights[i] + BLOCK * b, p);
    }
    r->total[i] = r->total[i] * correction[i] + vec_total(total);
    r->largest[i] = largest;
  }
  const int together = sums_a_row(rows);
  for (int v = from; v + together <= to; v += together)
    weigh_step(a, rows, together, 16 * v, values, seen, weights, correction, next, r->sum);
  // How many is said in numbers, since a generic library knows no head's width: sums stay in registers.
  switch ((to - from) % together) {
#define REST(n)                                                                                  \
  case n:                                                                                        \
    weigh_step(a, rows, n, 16 * (to - n), values, seen, weights, correction, next, r->sum);      \
    break;
    REST(1) REST(2) REST(3)
#undef REST
  }
}

INLINE void attend_rows(const struct attention a, const int rows, int64_t first,
                        uint8_t *const heads[4], const uint8_t *const values[4],
                        const struct attention_rows *r) {
  vec scores[ATTENTION_ROWS][4];
  uint32_t seen[4] = {0};
  uint32_t bits[ATTENTION_ROWS][4];
#pragma GCC unroll 4
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
    for (int b = 0; b < 4; b++)
      seen[b] |= bits[i][b] = visible(a, first + b * BLOCK, r->from[i], r->last[i]) &
                              (a.sparse ? (uint32_t)r->chosen[i][b] : ~0u);
  if (!(seen[0] | seen[1] | seen[2] | seen[3])) return;
  score_step(a, rows, 0, heads, r, scores);
  weigh_rows(a, rows, 0, (int)(value_width(a) / 16), heads, values, NULL, bits, seen, scores, r);
}

// Where block number `number` of a sequence stands in its list: the list holds the blocks of the sinks and those from
// `kept` on, and no gap in between. (blockIndex of src/runtime/program.ts.)
INLINE int64_t block_index(int64_t number, int64_t kept, int64_t sinks) {
  int64_t of_sinks = (sinks + BLOCK - 1) / BLOCK, first = kept / BLOCK;
  return number < of_sinks || first <= of_sinks ? number : number - first + of_sinks;
}

// One work item: neighbouring tokens of one sequence, for the query heads of one KV head; up to ATTENTION_POSITIONS here.
struct attention_item {
  uint8_t *cache;
  const int32_t *blocks;     // the sequence's, in position order: see block_index
  const int32_t *firsts;     // the first position that each of its tokens sees behind the sinks, none before the one in front of it
  const int32_t *lasts;      // and the last one, likewise
  const int32_t *positions;  // where each of them stands
  int64_t tokens, kept;      // kept: first position still held besides the sinks
  const float *query;        // [tokens, query_stride]: head h at h * head_dim
  int64_t query_stride;
  float *out;  // [tokens, out_stride]: head h at h * value_dim
  int64_t out_stride;
  const float *sink_logits;  // [heads] scores that take their share and give nothing; or none
  const float *biases;       // [heads, distances], where there are any; of buckets [distances]
  const float *by_query;     // [tokens, by_query_stride]: head h at h * buckets
  const float *by_key;       // the same of the sequence's positions
  int64_t by_query_stride, by_key_stride;
  const float *chosen;       // [tokens, chosen_stride] where it is sparse
  int64_t chosen_stride;
};

// Whether some of its tokens see anything of the step from `first` on.
INLINE int sees_chosen(const struct attention_item *item, int64_t first) {
  for (int64_t token = 0; token < item->tokens; token++)
    for (int b = 0; b < STEP / BLOCK; b++)
      if (item->chosen[token * item->chosen_stride + first / BLOCK + b] != 0) return 1;
  return 0;
}

// What is added to a query's scores of the positions from `first` on. `room`: for those of a step, where rows have them by bucket.
INLINE const float *biases_of(const struct attention a, const struct attention_item *item,
                              int64_t token, int64_t head, int64_t first, float *room) {
  if (!a.distances) return NULL;
  const int64_t middle = a.distances / 2 + first - item->positions[token];
  if (!a.buckets) return item->biases + head * a.distances + middle;
  const float *numbers = item->biases + middle;
  const float *own = item->by_query + token * item->by_query_stride + head * a.buckets;
  const float *others = item->by_key + first * item->by_key_stride + head * a.buckets;
  const int64_t last = item->lasts[token];  // behind it there is no row
  for (int64_t i = 0; i < STEP; i++, others += item->by_key_stride) {
    room[i] = 0;
    if (first + i > last) continue;
    const uint64_t number = (uint64_t)numbers[i];  // of a file, which may hold anything
    const int64_t bucket = number < (uint64_t)a.buckets ? (int64_t)number : a.buckets - 1;
    room[i] = own[bucket] + others[bucket];
  }
  return room;
}

// The largest score of a row of queries before the first step, and the sum of weights that goes with it: those of its sink.
// What is no number shows.
INLINE float first_largest(const struct attention_item *item, int64_t head) {
  return item->sink_logits ? item->sink_logits[head] : LOWEST;
}
INLINE float first_total(const struct attention_item *item, int64_t head) {
  return item->sink_logits ? 1.0f + item->sink_logits[head] * 0 : 0;
}

// The last position that any of its tokens sees.
INLINE int64_t item_end(const struct attention_item *item) { return item->lasts[item->tokens - 1]; }

// Where the four blocks of the step from `first` on lie.
INLINE void step_heads(const struct attention a, const struct attention_item *item, int64_t kv_head,
                       int64_t first, uint8_t *heads[4]) {
  const int64_t last = item_end(item);
  for (int b = 0; b < 4; b++) {
    int64_t begins = first + b * BLOCK;
    // Where nothing is held any more, or nothing yet, the last block stands in: its scores are masked.
    int held = begins <= last && (begins < round_up(a.sinks, BLOCK) || begins + BLOCK > item->kept);
    heads[b] = block_head(
        a, item->cache,
        item->blocks[block_index((held ? begins : last) / BLOCK, item->kept, a.sinks)], kv_head);
  }
}

// Floats of scratch that one item needs: (value_width + 2) for each of its rows, and a step's values where keys hold them.
INLINE int64_t attention_scratch(struct attention a) {
  return ATTENTION_POSITIONS * (a.heads / a.kv_heads) * (value_width(a) + 2) +
         (a.latent ? STEP * value_width(a) : 0);
}

// Keys lie column by column and values position by position: those that are both are turned around for all rows of an item,
// one block of the step after the other.
INLINE void turn_keys(const struct attention a, uint8_t *const heads[4], uint8_t *turned,
                      const uint8_t *values[4]) {
  const size_t size = number_size(a.number), row = (size_t)value_width(a) * size;
  for (int b = 0; b < 4; b++, turned += BLOCK * row) {
    values[b] = turned;
    turn_columns(heads[b], a.latent, BLOCK, size, turned, row);
  }
}

// `scratch`: attention_scratch floats.
INLINE void attend(const struct attention a, const struct attention_item *item, int64_t kv_head,
                   float *scratch) {
  const int64_t group = a.heads / a.kv_heads, width = value_width(a), rows = item->tokens * group;
  float *sums = scratch, *largest = sums + rows * width, *total = largest + rows;
  for (int64_t i = 0; i < rows * width; i++) sums[i] = 0;
  for (int64_t i = 0; i < rows; i++) {
    const int64_t head = kv_head * group + i % group;
    largest[i] = first_largest(item, head), total[i] = first_total(item, head);
  }

  const int64_t last = item_end(item), begin = item->firsts[0];
  for (int64_t first = 0; first <= last; first += STEP) {
    if (first >= a.sinks && first + STEP <= begin) continue;
    if (a.sparse && !sees_chosen(item, first)) continue;
    uint8_t *heads[4], *next[4];
    step_heads(a, item, kv_head, first, heads);
    step_heads(a, item, kv_head, first + STEP, next);
    const uint8_t *values[4];
    if (a.latent)
      turn_keys(a, heads, (uint8_t *)(total + rows), values);
    else
      for (int b = 0; b < 4; b++) values[b] = heads[b] + keys_bytes(a);
    for (int64_t row = 0; row < rows; row += ATTENTION_ROWS) {
      struct attention_rows r = {.sum = sums + row * width,
                                 .largest = largest + row,
                                 .total = total + row,
                                 .next = row == 0 && first + STEP <= last ? next : NULL};
      float added[ATTENTION_ROWS][STEP];
      int64_t count = rows - row < ATTENTION_ROWS ? rows - row : ATTENTION_ROWS;
      for (int64_t i = 0; i < count; i++) {
        int64_t token = (row + i) / group, head = kv_head * group + (row + i) % group;
        r.query[i] = item->query + token * item->query_stride + head * a.head_dim;
        r.from[i] = item->firsts[token], r.last[i] = item->lasts[token];
        r.biases[i] = biases_of(a, item, token, head, first, added[i]);
        r.chosen[i] = a.sparse ? item->chosen + token * item->chosen_stride + first / BLOCK : NULL;
      }
      switch (count) {
        case 4:
          attend_rows(a, 4, first, heads, values, &r);
          break;
        case 3:
          attend_rows(a, 3, first, heads, values, &r);
          break;
        case 2:
          attend_rows(a, 2, first, heads, values, &r);
          break;
        default:
          attend_rows(a, 1, first, heads, values, &r);
      }
    }
  }
  for (int64_t row = 0; row < rows; row++) {
    int64_t token = row / group, head = kv_head * group + row % group;
    const int64_t dim = value_dim(a);
    float *out = item->out + token * item->out_stride + head * dim;
    vec inverse = vec_set(1.0f / total[row]);
    float lanes[16];
    for (int64_t d = 0; d < dim; d += 16) {
      vec_store(lanes, vec_mul(vec_load(sums + row * width + d), inverse));
      memcpy(out + d, lanes, (size_t)(dim - d < 16 ? dim - d : 16) * 4);
    }
  }
}

#endif
