// What products read and write beside their weights: rows of activations as 8-bit codes, and what becomes of the sums.
#ifndef SINTER_OPERANDS_H
#define SINTER_OPERANDS_H

#include "functions.h"
#include "panels.h"

// A quantised row is its codes, then a scale per group, then per group the integer a sum starts from, which takes the
// weights' zero point off: -zero * (sum of the group's codes). Where weights have minimums it is what these are multiplied
// with, a float: that sum times the scale. Where sums start from something, too, it is the sum.
INLINE int64_t quantized_codes(int64_t columns, int group) { return round_up(columns, group); }
INLINE int64_t quantized_scales(int64_t columns, int group) {
  return round_up(quantized_codes(columns, group), 4);
}
INLINE int64_t quantized_starts(int64_t columns, int group) {
  return quantized_scales(columns, group) + 4 * (quantized_codes(columns, group) / group);
}
INLINE int64_t quantized_bytes(int64_t columns, int group) {
  return round_up(quantized_starts(columns, group) + 4 * (quantized_codes(columns, group) / group),
                  LINE);
}
// What a row keeps of its groups: how often the sum of the activations is taken off, which is what the dot product's weight bytes
// lie above their values (BYTES_ABOVE_ZERO says it of bytes whose zero is 127), and whether as a float, times the scale.
struct kept_sums {
  int above, scaled;
};
INLINE struct kept_sums quantized_sums(const struct panels w) {
  if (w.minimums) return (struct kept_sums){-1, !takes_bytes(w.codes) || BYTES_ABOVE_ZERO == 127};
  return (struct kept_sums){takes_bytes(w.codes) ? w.zero - 127 + BYTES_ABOVE_ZERO : w.zero, 0};
}
INLINE float load_float(const uint8_t *p) {
  float x;
  memcpy(&x, p, 4);
  return x;
}
INLINE int32_t load_four(const uint8_t *p) {
  int32_t four;
  memcpy(&four, p, 4);
  return four;
}
// What a group's dot products are added to, and what its minimums are multiplied with, of what the row keeps.
INLINE int32_t sum_start(const struct panels w, const uint8_t *kept) {
  if (!w.minimums) return load_four(kept);
  return quantized_sums(w).scaled ? 0 : (127 - BYTES_ABOVE_ZERO) * load_four(kept);
}
INLINE float scaled_sum(const struct panels w, const uint8_t *kept, float scale) {
  return quantized_sums(w).scaled ? load_float(kept) : scale * (float)load_four(kept);
}

// The gated ones take a paired panel: activation(gate) * up, 16 columns out of 32. Those under a gate find it in the output, of
// which they leave activation(output) * up. Activated ones have no gate: they leave activation(up).
enum epilogue {
  STORE,
  ADD,
  GATED_SILU,
  GATED_GELU,
  GATED_GELU_TANH,
  GATED_QUICK_GELU,
  GATED_RELU2,
  UNDER_SILU,
  UNDER_GELU,
  UNDER_GELU_TANH,
  UNDER_QUICK_GELU,
  UNDER_RELU2,
  ACTIVATED_SILU,
  ACTIVATED_GELU,
  ACTIVATED_GELU_TANH,
  ACTIVATED_QUICK_GELU,
  ACTIVATED_RELU2
};

// Rows of a product that one panel after another is multiplied with.
struct product {
  const uint8_t *panels;
  const uint8_t *rows;  // quantised rows, floats, or planes of floats
  int64_t first, count;
  float *out;         // [first + count, out_stride]
  int64_t out_stride;
  const float *bias;  // by column of the product, padded to whole panels; or none
  enum epilogue epilogue;
  float limit;        // of a gate and what it is multiplied with, as the graph says; 0: none
  int tiles;          // whether the matrix unit may be used: see tiles.h
};

// Weights that tiles fetch for the tiles to come: so many lines at a time, until the end.
struct fetch {
  const uint8_t *from;
  int64_t lines;
  const uint8_t *end;
};
static const struct fetch NO_FETCH = {NULL, 0, NULL};
// So many bytes `from` on, in so many shares.
INLINE struct fetch fetch_shares(const uint8_t *from, size_t bytes, int64_t shares) {
  const int64_t lines = ((int64_t)bytes + LINE - 1) / LINE;
  return (struct fetch){from, (lines + shares - 1) / shares, from + lines * LINE};
}
INLINE void fetch_lines(struct fetch *f) {
  for (int64_t i = 0; i < f->lines && f->from < f->end; i++, f->from += LINE)
    __builtin_prefetch(f->from, 0, 2);
}
// What somebody else has fetched, so many shares.
INLINE void skip_lines(struct fetch *f, int64_t shares) { f->from += f->lines * shares * LINE; }

INLINE int is_gated(const enum epilogue e) { return e >= GATED_SILU && e < UNDER_SILU; }
INLINE int is_under(const enum epilogue e) { return e >= UNDER_SILU && e < ACTIVATED_SILU; }
INLINE int is_activated(const enum epilogue e) { return e >= ACTIVATED_SILU; }

// What is no number shows, on whichever side it was cut off.
INLINE vec at_most(vec x, vec limit) { return vec_fma(x, vec_zero(), vec_min(x, limit)); }
INLINE vec within_limits(vec x, vec limit) {
  return vec_fma(x, vec_zero(), vec_max(vec_min(x, limit), vec_sub(vec_zero(), limit)));
}

INLINE vec activated(const enum epilogue gated, vec gate) {
  return gated == GATED_GELU         ? vec_gelu(gate)
         : gated == GATED_GELU_TANH  ? vec_gelu_tanh(gate)
         : gated == GATED_QUICK_GELU ? vec_quick_gelu(gate)
         : gated == GATED_RELU2      ? vec_relu2(gate)
                                     : vec_silu(gate);
}

INLINE vec gated(const enum epilogue e, float limit, vec gate, vec up) {
  const enum epilogue own = is_under(e) ? e - UNDER_SILU + GATED_SILU : e;
  if (limit > 0 && own == GATED_SILU)
    return vec_mul(at_most(vec_silu(gate), vec_set(limit)), within_limits(up, vec_set(limit)));
  if (limit > 0 && own == GATED_QUICK_GELU) {
    gate = at_most(gate, vec_set(limit));
    up = vec_add(within_limits(up, vec_set(limit)), vec_set(1.0f));
  }
  return vec_mul(activated(own, gate), up);
}

INLINE int64_t finished_columns(const enum epilogue e) { return is_gated(e) ? 16 : PANEL; }
INLINE float *finished_row(const struct product *p, int64_t index, int64_t row) {
  return p->out + row * p->out_stride + index * finished_columns(p->epilogue);
}

// A row's sums of panel number `index`. This is no part of the tiles: each of them would have every end.
static __attribute__((noinline)) void finish(const struct product *p, int64_t index, int64_t row,
                                             vec left, vec right) {
  const enum epilogue e = p->epilogue;
  float *out = finished_row(p, index, row);
  if (p->bias) {
    left = vec_add(left, vec_load(p->bias + index * PANEL));
    right = vec_add(right, vec_load(p->bias + index * PANEL + 16));
  }
  if (is_gated(e)) {
    vec_store(out, gated(e, p->limit, left, right));
    return;
  }
  if (is_under(e)) {
    left = gated(e, p->limit, vec_load(out), left);
    right = gated(e, p->limit, vec_load(out + 16), right);
  }
  if (is_activated(e)) {
    left = activated(e - ACTIVATED_SILU + GATED_SILU, left);
    right = activated(e - ACTIVATED_SILU + GATED_SILU, right);
  }
  if (e == ADD) {
    left = vec_add(vec_load(out), left);
    right = vec_add(vec_load(out + 16), right);
  }
  vec_store(out, left);
  vec_store(out + 16, right);
}

#endif
