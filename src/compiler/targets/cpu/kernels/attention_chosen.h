// Attention of tokens that see few of many positions, which an indexer has chosen. Each token packs the keys of what it sees side by side,
// as many whole steps as fill four blocks, and scores those alone. Then every step has its own scores back in their places and is weighed
// as in attention.h, so the bits are the same: a score hangs on nothing but its key, and what is not seen was never weighed.
#ifndef SINTER_ATTENTION_CHOSEN_H
#define SINTER_ATTENTION_CHOSEN_H

#include "attention_token.h"

// Steps whose positions lie packed, each of which has some.
struct packed_steps {
  int count, positions;
  int64_t first[STEP];
  uint32_t seen[STEP][4];
};

// Floats of scratch for packed keys and all heads' scores of them, behind those of attention.h.
INLINE int64_t packed_floats(const struct attention a) {
  return a.sparse ? STEP * (a.head_dim + 1 + a.heads / a.kv_heads) : 0;
}

// What the item's first token sees of the step from `first` on, and of how many positions.
INLINE int seen_of_step(const struct attention a, const struct attention_item *item, int64_t first,
                        uint32_t seen[4]) {
  int count = 0;
  for (int b = 0; b < 4; b++) {
    seen[b] = visible(a, first + b * BLOCK, item->firsts[0], item->lasts[0]) &
              (uint32_t)item->chosen[first / BLOCK + b];
    count += __builtin_popcount(seen[b]);
  }
  return count;
}

// Whether tokens see so many of their positions that packing them would cost more than it saves: of two, one.
INLINE int sees_most(const struct attention a, const struct attention_item *item) {
  int64_t seen = 0, all = 0;
  for (int64_t token = 0; token < item->tokens; token++) {
    const float *chosen = item->chosen + token * item->chosen_stride;
    for (int64_t b = 0; b <= item->lasts[token] / BLOCK; b++)
      seen += __builtin_popcount((uint32_t)chosen[b]);
    all += item->lasts[token] + 1;
  }
  return 2 * seen > all;
}

// The key at a place of a block, into a lane of the packed ones.
INLINE void pack_key(const struct attention a, const uint8_t *head, int place, uint8_t *keys,
                     int lane) {
  const size_t size = number_size(a.number);
  uint8_t *packed = keys + (size_t)(lane / BLOCK) * head_bytes(a);
  for (int64_t d = 0; d < a.head_dim; d++)
    memcpy(packed + (size_t)(d * BLOCK + lane % BLOCK) * size,
           head + (size_t)(d * BLOCK + place) * size, size);
  if (a.number == Q8)
    ((float *)(packed + codes_bytes(a)))[lane % BLOCK] = ((const float *)(head + codes_bytes(a)))[place];
}

// Packs steps from `first` on while there is room, and gives the one behind them.
INLINE int64_t pack_steps(const struct attention a, const struct attention_item *item,
                          int64_t kv_head, int64_t first, uint8_t *keys, struct packed_steps *p) {
  p->count = p->positions = 0;
  for (; first <= item->lasts[0]; first += STEP) {
    uint32_t *seen = p->seen[p->count];
    const int count = seen_of_step(a, item, first, seen);
    if (!count) continue;
    if (p->positions + count > STEP) break;
    uint8_t *heads[4];
    step_heads(a, item, kv_head, first, heads);
    for (int b = 0; b < 4; b++)
      for (uint32_t left = seen[b]; left; left &= left - 1)
        pack_key(a, heads[b], __builtin_ctz(left), keys, p->positions++);
    p->first[p->count++] = first;
    if (p->positions == STEP) return first + STEP;
  }
  return first;
}

// Values that keys hold, from their lanes to where they stand in their step.
INLINE void turn_packed(const struct attention a, const uint8_t *keys, int lane,
                        const uint32_t seen[4], uint8_t *turned) {
  const size_t size = number_size(a.number), row = (size_t)value_width(a) * size;
  for (int b = 0; b < 4; b++)
    for (uint32_t left = seen[b]; left; left &= left - 1, lane++) {
      const uint8_t *packed = keys + (size_t)(lane / BLOCK) * head_bytes(a);
      uint8_t *value = turned + (size_t)(b * BLOCK + __builtin_ctz(left)) * row;
      for (int64_t d = 0; d < a.latent; d++)
        memcpy(value + (size_t)d * size, packed + (size_t)(d * BLOCK + lane % BLOCK) * size, size);
    }
}

// Rows' scores of a step, out of packed ones from `lane` on; others are whatever they are.
INLINE void unpack_scores(const int rows, const float *packed, int lane, const uint32_t seen[4],
                          vec scores[ATTENTION_ROWS][4]) {
  for (int i = 0; i < rows; i++) {
    const float *next = packed + i * STEP + lane;
    for (int b = 0; b < 4; b++) {
      float lanes[BLOCK] = {0};
      for (uint32_t left = seen[b]; left; left &= left - 1) lanes[__builtin_ctz(left)] = *next++;
      scores[i][b] = vec_load(lanes);
    }
  }
}

// Of an item of one token.
INLINE void attend_chosen(const struct attention a, const struct attention_item *item,
                          int64_t kv_head, float *scratch) {
  const int64_t group = a.heads / a.kv_heads, width = value_width(a);
  float *packed_scores = scratch + group * (width + 2);
  uint8_t *turned = (uint8_t *)(packed_scores + group * STEP),
          *keys = turned + (a.latent ? STEP * width * 4 : 0), *blocks[4];
  for (int b = 0; b < 4; b++) blocks[b] = keys + (size_t)b * head_bytes(a);
  begin_token(a, item, kv_head, 0, width / 16, scratch);
  struct packed_steps p;
  for (int64_t next = 0; next <= item->lasts[0];) {
    next = pack_steps(a, item, kv_head, next, keys, &p);
    if (!p.count) break;
#define SCORE(n)                                                                         \
  {                                                                                      \
    vec scores[ATTENTION_ROWS][4];                                                       \
    struct attention_rows r = token_rows(a, item, kv_head, row, n, 0, NULL, scratch);    \
    score_step(a, n, 1, blocks, &r, scores);                                             \
    for (int i = 0; i < n; i++)                                                          \
      for (int b = 0; b < 4; b++)                                                        \
        vec_store(packed_scores + (row + i) * STEP + b * BLOCK, scores[i][b]);           \
  }
    EACH_ROWS(SCORE);
#undef SCORE
    for (int s = 0, lane = 0; s < p.count; s++) {
      uint8_t *heads[4];
      const uint8_t *values[4];
      step_heads(a, item, kv_head, p.first[s], heads);
      for (int b = 0; b < 4; b++)
        values[b] = a.latent ? turned + (size_t)(b * BLOCK * width) * number_size(a.number)
                             : heads[b] + keys_bytes(a);
      if (a.latent) turn_packed(a, keys, lane, p.seen[s], turned);
      uint32_t bits[ATTENTION_ROWS][4];
      for (int i = 0; i < ATTENTION_ROWS; i++) memcpy(bits[i], p.seen[s], sizeof(bits[i]));
#define WEIGH(n)                                                                         \
  {                                                                                      \
    vec scores[ATTENTION_ROWS][4];                                                       \
    struct attention_rows r = token_rows(a, item, kv_head, row, n, 0, NULL, scratch);    \
    unpack_scores(n, packed_scores + row * STEP, lane, p.seen[s], scores);               \
    weigh_rows(a, n, 0, (int)(width / 16), heads, values, NULL, bits, p.seen[s], scores, &r); \
  }
      EACH_ROWS(WEIGH);
#undef WEIGH
      for (int b = 0; b < 4; b++) lane += __builtin_popcount(p.seen[s][b]);
    }
  }
  end_token(a, item, kv_head, 0, width / 16, scratch);
}

// As attend, where a token sees few of its positions.
INLINE void attend_few(const struct attention a, const struct attention_item *item,
                       int64_t kv_head, float *scratch) {
  for (int64_t token = 0; token < item->tokens; token++) {
    struct attention_item own = *item;
    own.tokens = 1;
    own.firsts += token, own.lasts += token, own.positions += token;
    own.query += token * item->query_stride, own.out += token * item->out_stride;
    own.chosen += token * item->chosen_stride;
    attend_chosen(a, &own, kv_head, scratch);
  }
}

#endif
