// The gated delta rule, and selective state spaces: a head's state goes on position by position, and each position reads it.
// Columns of a value depend on nothing of each other, so a vector holds sixteen of them and every sum runs over the key, in its
// order. What a position is to a state does not depend on the step that it comes in: neither chunks nor company show in the bits.
//
// No model's constants are known here, so one object serves the libraries of all that have states; the driver hands out the heads.
#ifndef SINTER_DELTA_H
#define SINTER_DELTA_H

#include "driver_types.h"
#include "functions.h"
#include "rows.h"
#include "single.h"

// A head at a position. `before` and `state` are [key_dim, value_dim]; they may be one.
struct delta_position {
  int64_t key_dim, value_dim;
  const float *query, *key, *value;
  float query_scale, key_scale;
  float decay, share;
  const float *decays;  // of each column of the key, in the place of one for all
  int64_t selective;
  float skip;
  const float *before;
  float *state, *out;
};

INLINE vec delta_load(const float *p, const int64_t n) {
  return n == 16 ? vec_load(p) : vec_load_some(p, n);
}
INLINE void delta_store(float *p, const int64_t n, vec v) {
  if (n == 16)
    vec_store(p, v);
  else
    vec_store_some(p, n, v);
}

// `vectors` of `n` columns each, from column j on.
INLINE void delta_columns(const struct delta_position *p, const int64_t j, const int vectors,
                          const int64_t n) {
  const vec common = vec_set(p->decay), share = vec_set(p->share);
  vec known[4], correction[4], read[4];
  for (int v = 0; v < vectors; v++) known[v] = read[v] = vec_zero();
  for (int64_t i = 0; !p->selective && i < p->key_dim; i++) {
    const vec key = vec_set(p->key[i] * p->key_scale),
              decay = p->decays ? vec_set(p->decays[i]) : common;
    const float *before = p->before + i * p->value_dim + j;
    for (int v = 0; v < vectors; v++)
      known[v] = vec_fma(key, vec_mul(delta_load(before + 16 * v, n), decay), known[v]);
  }
  for (int v = 0; v < vectors; v++)
    correction[v] = vec_mul(vec_sub(delta_load(p->value + j + 16 * v, n), known[v]), share);
  for (int64_t i = 0; i < p->key_dim; i++) {
    const vec key = vec_set(p->key[i] * p->key_scale),
              query = vec_set(p->query[i] * p->query_scale),
              decay = p->decays ? vec_set(p->decays[i]) : common;
    const int64_t at = i * p->value_dim + j;
    for (int v = 0; v < vectors; v++) {
      vec decayed = vec_mul(delta_load(p->before + at + 16 * v, n), decay);
      vec changed = vec_fma(key, correction[v], decayed);
      delta_store(p->state + at + 16 * v, n, changed);
      read[v] = vec_fma(query, changed, read[v]);
    }
  }
  for (int v = 0; v < vectors; v++) {
    if (p->selective)
      read[v] = vec_fma(vec_set(p->skip), delta_load(p->value + j + 16 * v, n), read[v]);
    delta_store(p->out + j + 16 * v, n, read[v]);
  }
}

// A head of a selective state space by number at a position. `rates` and `skip` are of its first column on.
struct scan_position {
  int64_t key_dim, value_dim;
  const float *query, *key, *value, *steps, *rates, *skip, *before;
  float *state, *out;
};

// `n` columns, from column j on.
INLINE void scan_columns(const struct scan_position *p, const int64_t j, const int64_t n) {
  const vec steps = delta_load(p->steps + j, n), value = delta_load(p->value + j, n),
            given = vec_mul(value, steps);
  vec read = vec_zero();
  for (int64_t i = 0; i < p->key_dim; i++) {
    float rates[16] = {0};  // those of a column lie side by side
    for (int64_t c = 0; c < n; c++) rates[c] = p->rates[(j + c) * p->key_dim + i];
    const vec decay = vec_exp(vec_mul(steps, vec_load(rates)));
    const int64_t at = i * p->value_dim + j;
    const vec decayed = vec_mul(delta_load(p->before + at, n), decay),
              changed = vec_fma(vec_set(p->key[i]), given, decayed);
    delta_store(p->state + at, n, changed);
    read = vec_fma(vec_set(p->query[i]), changed, read);
  }
  delta_store(p->out + j, n, vec_fma(delta_load(p->skip + j, n), value, read));
}

static void scan_position(const struct scan_position *p) {
  int64_t j = 0;
  for (; j + 16 <= p->value_dim; j += 16) scan_columns(p, j, 16);
  if (j < p->value_dim) scan_columns(p, j, p->value_dim - j);
}

static void delta_position(const struct delta_position *p) {
  int64_t j = 0;
  for (; j + 64 <= p->value_dim; j += 64) delta_columns(p, j, 4, 16);
  for (; j + 16 <= p->value_dim; j += 16) delta_columns(p, j, 1, 16);
  if (j < p->value_dim) delta_columns(p, j, 1, p->value_dim - j);
}

// What brings x to unit length, over the root of `width`.
static float unit_scale(const float *x, const int64_t columns, const float width) {
  return 1.0f / __builtin_sqrtf((mean_of(1, x, columns) * (float)columns + 1e-6f) * width);
}

static float softplus(const float x) { return softplus_of(x, exp_of(x)); }

// What all of a state is multiplied with.
static float decay_of(const float decay, const float input, const float bias) {
  const float x = input + bias;
  return exp_of(-(exp_of(decay) * softplus(x))) + x * 0;
}

// One head of one sequence.
INLINE void delta_item(const struct delta_loop *loop, int64_t index) {
  const sinter_step_arrays *s = loop->arrays;
  const struct delta_step *d = loop->step;
  const int64_t sequence = index / d->value_heads, head = index % d->value_heads;
  const int64_t size = d->key_dim * d->value_dim;
  const int32_t *states = s->blocks + s->block_starts[d->group * s->sequences + sequence];
  uint8_t *layer = loop->states + (size_t)(d->layer * d->value_heads + head) * size * 4;
  float *state = (float *)(layer + (size_t)states[1] * loop->bytes);
  const float *before = (const float *)(layer + (size_t)states[0] * loop->bytes);
  const int64_t first = s->starts[sequence];
  if (s->positions[first] == 0) {
    memset(state, 0, (size_t)size * 4);
    before = state;
  }
  const int64_t keys = d->key_heads * d->key_dim, values = d->value_heads * d->value_dim,
                key_head = d->tiled ? head % d->key_heads
                                    : head / (d->value_heads / d->key_heads),
                key = key_head * d->key_dim;
  // Columns are queries, keys and values, or the other way round; by number, keys and queries are rows of their own.
  const int64_t before_keys = d->selective && !d->by_number ? values : 0,
                query_at = (d->selective ? before_keys + keys : 0) + key,
                key_at = (d->selective ? before_keys : keys) + key,
                value_at = (d->selective ? 0 : 2 * keys) + head * d->value_dim;
  const float *rates = (const float *)loop->weights[d->decay],
              *skips = (const float *)loop->weights[d->skip];
  const int64_t is_common = !d->given && !d->by_number;
  const float decay = is_common ? rates[head] : 0,
              bias = is_common ? ((float *)loop->weights[d->bias])[head] : 0,
              skip = d->selective && !d->by_number ? skips[head] : 0;
  for (int64_t t = first; t < s->starts[sequence + 1]; t++, before = state) {
    if (is_set(s->cancel)) return;
    const float *row = (float *)loop->buffers[d->input] + d->from + t * d->in_stride;
    const float *keyed = (float *)loop->buffers[d->keys] + d->keys_from + t * d->keys_stride;
    const float *decays = (float *)loop->buffers[d->decays] + d->decays_from + t * d->decays_stride;
    const float *shares = (float *)loop->buffers[d->shares] + d->shares_from + t * d->shares_stride;
    float *out = (float *)loop->buffers[d->output] + t * d->out_stride + head * d->value_dim;
    if (d->by_number) {
      const struct scan_position position = {
          .key_dim = d->key_dim,
          .value_dim = d->value_dim,
          .query = keyed + query_at,
          .key = keyed + key_at,
          .value = row + value_at,
          .steps = decays + head * d->value_dim,
          .rates = rates + head * size,
          .skip = skips + head * d->value_dim,
          .before = before,
          .state = state,
          .out = out,
      };
      scan_position(&position);
      continue;
    }
    const struct delta_position position = {
        .key_dim = d->key_dim,
        .value_dim = d->value_dim,
        .query = keyed + query_at,
        .key = keyed + key_at,
        .value = row + value_at,
        .query_scale = d->selective ? 1 : unit_scale(keyed + query_at, d->key_dim, (float)d->key_dim),
        .key_scale = d->selective ? 1 : unit_scale(keyed + key_at, d->key_dim, 1),
        .decay = d->given ? 0 : decay_of(decay, decays[head], bias),
        .decays = d->given ? decays + head * d->key_dim : 0,
        .share = d->selective ? softplus(decays[head] + bias) : shares[head],
        .selective = d->selective,
        .skip = skip,
        .before = before,
        .state = state,
        .out = out,
    };
    delta_position(&position);
  }
}

#endif
