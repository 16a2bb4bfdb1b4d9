// The lightning indexer of DeepSeek Sparse Attention: which positions a row's attention is to see. Keys lie as attention's do, one head
// and no values (attention.h), and are walked in the same steps of 64 positions. A position's score is one sum in the order of heads, so
// it hangs neither on the others nor on who computes it: what is chosen is the same everywhere.
#ifndef SINTER_INDEXER_H
#define SINTER_INDEXER_H

#include "attention.h"

// Scores of the 64 positions of a step, whose blocks are `blocks`: those of a row with heads of queries and a weight for each.
INLINE void index_step(const struct attention a, uint8_t *const blocks[4], const float *query,
                       const float *weights, float *scores) {
  vec sums[4] = {vec_zero(), vec_zero(), vec_zero(), vec_zero()};
  for (int64_t head = 0; head < a.heads; head += ATTENTION_ROWS) {
    const int64_t left = a.heads - head;
    const int rows = left < ATTENTION_ROWS ? (int)left : ATTENTION_ROWS;
    struct attention_rows r = {.next = NULL};
    for (int i = 0; i < rows; i++) r.query[i] = query + (head + i) * a.head_dim;
    vec products[ATTENTION_ROWS][4];
    switch (rows) {
#define ROWS(n)                                   \
  case n:                                         \
    score_step(a, n, 1, blocks, &r, products);    \
    break;
      ROWS(4) ROWS(3) ROWS(2) ROWS(1)
#undef ROWS
    }
    for (int i = 0; i < rows; i++)
      for (int b = 0; b < 4; b++)
        sums[b] = vec_fma(vec_set(weights[head + i]), vec_max(products[i][b], vec_zero()), sums[b]);
  }
  for (int b = 0; b < 4; b++) vec_store(scores + b * BLOCK, sums[b]);
}

// Whole numbers in the order of scores; what is no number counts as the least that there is.
INLINE uint32_t score_rank(float score) {
  uint32_t bits;
  if (score != score) score = -__builtin_inff();
  memcpy(&bits, &score, 4);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}

// Bit i of block b, as a whole number in a float: whether position 16 b + i is chosen. The `top` highest of `count` scores are, of equal
// ones the earlier. The least of those chosen is found byte by byte.
INLINE void choose_positions(const float *scores, int64_t count, int64_t top, float *chosen,
                             int64_t blocks) {
  uint32_t least = 0, known = 0;
  int64_t left = top;  // of those whose known bits are the least's
  for (int shift = 24; count > top && shift >= 0; shift -= 8) {
    int64_t counts[256] = {0};
    for (int64_t i = 0; i < count; i++) {
      const uint32_t rank = score_rank(scores[i]);
      if ((rank & known) == least) counts[rank >> shift & 255]++;
    }
    uint32_t byte = 255;
    while (counts[byte] < left) left -= counts[byte--];
    least |= byte << shift;
    known |= 255u << shift;
  }
  for (int64_t b = 0; b < blocks; b++) {
    uint32_t bits = 0;
    for (int64_t i = b * BLOCK; i < (b + 1) * BLOCK && i < count; i++) {
      const uint32_t rank = count > top ? score_rank(scores[i]) : 1;
      if (rank > least || (rank == least && left-- > 0)) bits |= 1u << (i % BLOCK);
    }
    chosen[b] = (float)bits;
  }
}

#endif
