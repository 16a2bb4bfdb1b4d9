// Attention of one token to a long context, taken by several threads where there are fewer KV heads than they could share: first
// the scores, some positions to each piece, and when all are there the values, some of their columns to each.
//
// Every score is the dot product that attention.h computes, and every column's sum goes through the positions in its order, so
// pieces change no bit, whatever their number. Softmax is worked out again for every piece of columns: little beside the products.
#ifndef SINTER_ATTENTION_PIECES_H
#define SINTER_ATTENTION_PIECES_H

#include "attention_token.h"

// A part of an item of one token.
struct attention_piece {
  float *scores;   // [query heads of the KV head, stride]
  int64_t stride;  // positions
  int64_t from, to;  // positions, of scores, whole steps; or vectors of the values' columns
};

INLINE void score_piece(const struct attention a, const struct attention_item *item,
                        int64_t kv_head, const struct attention_piece p) {
  const int64_t group = a.heads / a.kv_heads, last = item_end(item);
  for (int64_t first = p.from; first < p.to && first <= last; first += STEP) {
    uint8_t *heads[4], *next[4];
    step_heads(a, item, kv_head, first, heads);
    step_heads(a, item, kv_head, first + STEP, next);
    const int fetches = first + STEP < p.to && first + STEP <= last;
#define SCORE(n)                                                                                  \
  {                                                                                               \
    vec scores[ATTENTION_ROWS][4];                                                                \
    struct attention_rows r =                                                                     \
        token_rows(a, item, kv_head, row, n, first, row == 0 && fetches ? next : NULL, NULL);     \
    score_step(a, n, 1, heads, &r, scores);                                                       \
    for (int i = 0; i < n; i++)                                                                   \
      for (int b = 0; b < 4; b++)                                                                 \
        vec_store(p.scores + (row + i) * p.stride + first + b * BLOCK, scores[i][b]);             \
  }
    EACH_ROWS(SCORE);
#undef SCORE
  }
}

// `scratch`: attention_scratch floats.
INLINE void weigh_piece(const struct attention a, const struct attention_item *item,
                        int64_t kv_head, const struct attention_piece p, float *scratch) {
  const int64_t group = a.heads / a.kv_heads, last = item_end(item);
  begin_token(a, item, kv_head, p.from, p.to, scratch);
  for (int64_t first = 0; first <= last; first += STEP) {
    uint8_t *heads[4], *ahead[4];
    const uint8_t *values[4], *next[4];
    step_heads(a, item, kv_head, first, heads);
    step_heads(a, item, kv_head, first + STEP, ahead);
    for (int b = 0; b < 4; b++)
      values[b] = heads[b] + keys_bytes(a), next[b] = ahead[b] + keys_bytes(a);
    uint32_t seen[4], bits[ATTENTION_ROWS][4];
    for (int b = 0; b < 4; b++) {
      seen[b] = visible(a, first + b * BLOCK, item->firsts[0], item->lasts[0]);
      for (int i = 0; i < ATTENTION_ROWS; i++) bits[i][b] = seen[b];
    }
    if (!(seen[0] | seen[1] | seen[2] | seen[3])) continue;
#define WEIGH(n)                                                                                  \
  {                                                                                               \
    vec scores[ATTENTION_ROWS][4];                                                                \
    for (int i = 0; i < n; i++)                                                                   \
      for (int b = 0; b < 4; b++)                                                                 \
        scores[i][b] = vec_load(p.scores + (row + i) * p.stride + first + b * BLOCK);             \
    struct attention_rows r = token_rows(a, item, kv_head, row, n, first, NULL, scratch);         \
    weigh_rows(a, n, (int)p.from, (int)p.to, heads, values,                                       \
               row == 0 && first + STEP <= last ? next : NULL, bits, seen, scores, &r);           \
  }
    EACH_ROWS(WEIGH);
#undef WEIGH
  }
  end_token(a, item, kv_head, p.from, p.to, scratch);
}

#endif
