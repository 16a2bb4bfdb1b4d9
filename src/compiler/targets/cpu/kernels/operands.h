// What products read and write beside their weights: rows of activations as 8-bit codes, and what becomes of the sums.
#ifndef SINTER_OPERANDS_H
#define SINTER_OPERANDS_H

#include "functions.h"
#include "panels.h"

// A quantised row is its codes, then a scale per group, then per group the integer a sum starts from, which takes the
// weights' zero point off: -zero * (sum of the group's codes). Where weights have minimums it is that sum itself.
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
// How often the sum of the activations is taken off: what the dot product's weight bytes lie above their values.
// BYTES_ABOVE_ZERO says it of bytes whose zero is 127.
INLINE int quantized_above(const struct panels w) {
  if (w.minimums) return -1;
  return w.codes == CODES_8 ? w.zero - 127 + BYTES_ABOVE_ZERO : w.zero;
}
// What a group's dot products are added to, of the integer that the row keeps.
INLINE int32_t sum_start(const struct panels w, int32_t kept) {
  if (!w.minimums) return kept;
  return w.codes == CODES_8 ? (127 - BYTES_ABOVE_ZERO) * kept : 0;
}

// Rows of a product that one panel after another is multiplied with.
struct product {
  const uint8_t *panels;
  const uint8_t *rows;  // quantised rows, floats, or planes of floats
  int64_t first, count;
  float *out;
  const float *bias;  // by column of the product, padded to whole panels; or none
  int tiles;          // whether the matrix unit may be used: see tiles.h
  float limit;        // of a gate and what it is multiplied with, as the graph says; 0: none
};

// Weights that tiles fetch for the tiles to come: so many lines at every group.
struct fetch {
  const uint8_t *from;
  int64_t lines;
};
// The shares of so many tiles, of what lies `from` on.
INLINE struct fetch fetch_shares(struct panels w, const uint8_t *from, int64_t tiles) {
  const int64_t front = w.block ? (int64_t)panels_front_bytes(w) / w.block : 0,
                lines = ((int64_t)panels_group_bytes(w) + front) / LINE;
  return (struct fetch){from, (lines + tiles - 1) / tiles};
}
INLINE void fetch_lines(struct fetch *f) {
  for (int64_t i = 0; i < f->lines; i++, f->from += LINE) __builtin_prefetch(f->from, 0, 2);
}

// The gated ones take a paired panel: activation(gate) * up, 16 columns out of 32. Those under a gate find it in the output, of
// which they leave activation(output) * up.
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
  UNDER_RELU2
};

INLINE int is_gated(const enum epilogue e) { return e >= GATED_SILU && e < UNDER_SILU; }
INLINE int is_under(const enum epilogue e) { return e >= UNDER_SILU; }

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
  // The one gate that any model limits, so that no other product asks.
  if (own == GATED_QUICK_GELU && limit > 0) {
    gate = at_most(gate, vec_set(limit));
    up = vec_add(within_limits(up, vec_set(limit)), vec_set(1.0f));
  }
  return vec_mul(activated(own, gate), up);
}

// A generic library learns how sums end when it is opened: ends are no part of its tiles, which would have all of them.
#ifdef GENERIC
#define ENDS static __attribute__((noinline))
#else
#define ENDS INLINE
#endif

// One row's sums of panel number `index`; `out` is where the row's columns of this panel begin.
ENDS void finish(const enum epilogue e, const struct product *p, int64_t index, vec left,
                   vec right, float *out) {
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
  if (e == ADD) {
    left = vec_add(vec_load(out), left);
    right = vec_add(vec_load(out + 16), right);
  }
  vec_store(out, left);
  vec_store(out + 16, right);
}
INLINE int64_t finished_columns(const enum epilogue e) { return is_gated(e) ? 16 : PANEL; }

#endif
