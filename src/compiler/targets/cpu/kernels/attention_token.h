// Attention of one token by itself, all query heads of a KV head: what is set up before its steps, and made of them. Sums stand in the
// scratch: (value_width + 2) floats for each head.
#ifndef SINTER_ATTENTION_TOKEN_H
#define SINTER_ATTENTION_TOKEN_H

#include "attention.h"

// Rows `row` and behind of the item's in the step from `first` on, with room for what softmax has weighed of all.
INLINE struct attention_rows token_rows(const struct attention a, const struct attention_item *item,
                                        int64_t kv_head, int64_t row, const int count,
                                        int64_t first, uint8_t *const *next, float *scratch) {
  const int64_t group = a.heads / a.kv_heads, width = value_width(a);
  struct attention_rows r = {.next = next};
  if (scratch) {
    r.sum = scratch + row * width;
    r.largest = scratch + group * width + row;
    r.total = r.largest + group;
  }
  for (int i = 0; i < count; i++) {
    r.query[i] = item->query + (kv_head * group + row + i) * a.head_dim;
    r.from[i] = item->firsts[0], r.last[i] = item->lasts[0];
    r.biases[i] = biases_of(a, item, 0, kv_head * group + row + i, first, NULL);  // of no buckets
  }
  return r;
}

// As many rows at once as attention.h takes, and the rest.
#define EACH_ROWS(TAKE)                                  \
  do {                                                   \
    int64_t row = 0;                                     \
    for (; row + ATTENTION_ROWS <= group; row += 4) TAKE(4) \
    switch (group % ATTENTION_ROWS) {                    \
      case 3:                                            \
        TAKE(3) break;                                   \
      case 2:                                            \
        TAKE(2) break;                                   \
      case 1:                                            \
        TAKE(1) break;                                   \
    }                                                    \
  } while (0)

// Nothing has been weighed yet, in the vectors `from` to `to` of the values' columns.
INLINE void begin_token(const struct attention a, const struct attention_item *item,
                        int64_t kv_head, int64_t from, int64_t to, float *scratch) {
  const int64_t group = a.heads / a.kv_heads, width = value_width(a);
  float *largest = scratch + group * width, *total = largest + group;
  for (int64_t i = 0; i < group; i++) {
    for (int64_t d = 16 * from; d < 16 * to; d++) scratch[i * width + d] = 0;
    largest[i] = first_largest(item, kv_head * group + i);
    total[i] = first_total(item, kv_head * group + i);
  }
}

// Softmax of those columns into the item's output.
INLINE void end_token(const struct attention a, const struct attention_item *item, int64_t kv_head,
                      int64_t from, int64_t to, const float *scratch) {
  const int64_t group = a.heads / a.kv_heads, width = value_width(a);
  const float *total = scratch + group * (width + 1);
  for (int64_t i = 0; i < group; i++) {
    const int64_t dim = value_dim(a);
    float *out = item->out + (kv_head * group + i) * dim;
    vec inverse = vec_set(1.0f / total[i]);
    float lanes[16];
    for (int64_t d = 16 * from; d < dim && d < 16 * to; d += 16) {
      vec_store(lanes, vec_mul(vec_load(scratch + i * width + d), inverse));
      memcpy(out + d, lanes, (size_t)(dim - d < 16 ? dim - d : 16) * 4);
    }
  }
}

#endif
