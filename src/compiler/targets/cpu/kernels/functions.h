// e^x of sixteen floats and what is made of it: our own, because libm's differ between versions and our bits must not.
#ifndef SINTER_FUNCTIONS_H
#define SINTER_FUNCTIONS_H

#include "single.h"
#include "vector.h"

#define MAGIC 12582912.0f  // 1.5 * 2^23: adding it rounds to an integer, halves to even

// e^(x - n ln 2) for the n nearest to x / ln 2: a Taylor polynomial on |r| <= ln 2 / 2, whose first left-out term is
// r^7 / 5040 < 1.2e-7.
INLINE vec exp_near(vec x, vec n) {
  vec r = vec_fma(n, vec_set(-0.693359375f), x);  // ln 2 in two parts: the first has few bits
  r = vec_fma(n, vec_set(2.12194440e-4f), r);
  vec p = vec_fma(r, vec_set(1.0f / 720), vec_set(1.0f / 120));
  p = vec_fma(p, r, vec_set(1.0f / 24));
  p = vec_fma(p, r, vec_set(1.0f / 6));
  p = vec_fma(p, r, vec_set(0.5f));
  p = vec_fma(p, r, vec_set(1.0f));
  return vec_fma(p, r, vec_set(1.0f));
}

// e^x within 2 units of the last place for x <= 88; exactly 0 below -87.
INLINE vec vec_exp(vec x) {
  vec bounded = vec_max(vec_min(x, vec_set(88.0f)), vec_set(-87.0f));
  vec n = vec_fma(bounded, vec_set(1.44269504f), vec_set(MAGIC));
  vec p = exp_near(bounded, vec_sub(n, vec_set(MAGIC)));
  return vec_keep(vec_scale2(p, n), x, vec_set(-87.0f));
}

INLINE float exp_of(float x) {
  float lanes[16];
  vec_store(lanes, vec_exp(vec_set(x)));
  return lanes[0];
}

// x / (1 + e^-z)
INLINE vec vec_swish(vec x, vec z) {
  return vec_div(x, vec_add(vec_set(1.0f), vec_exp(vec_sub(vec_zero(), z))));
}

// What follows is src/compiler/targets/reference/arithmetic.ts, operation for operation; formulas and sources stand there.
INLINE vec vec_silu(vec x) { return vec_swish(x, x); }

INLINE vec vec_gelu(vec x) {
  vec size = vec_abs(x);
  vec t =
      vec_div(vec_set(1.0f), vec_fma(size, vec_set((float)(0.3275911 * 0.7071067811865476)), vec_set(1.0f)));
  vec p = vec_fma(vec_set((float)(1.061405429 / 2)), t, vec_set((float)(-1.453152027 / 2)));
  p = vec_fma(p, t, vec_set((float)(1.421413741 / 2)));
  p = vec_fma(p, t, vec_set((float)(-0.284496736 / 2)));
  p = vec_fma(p, t, vec_set((float)(0.254829592 / 2)));
  vec tail = vec_mul(vec_mul(p, t), vec_exp(vec_mul(vec_mul(x, x), vec_set(-0.5f))));
  return vec_sub(vec_max(x, vec_zero()), vec_mul(size, tail));
}

INLINE vec vec_gelu_tanh(vec x) {
  const double root = 0.7978845608028654;  // sqrt(2 / pi)
  vec inner =
      vec_fma(vec_mul(x, x), vec_set((float)(2 * root * 0.044715)), vec_set((float)(2 * root)));
  return vec_swish(x, vec_mul(x, inner));
}

INLINE vec vec_quick_gelu(vec x) { return vec_swish(x, vec_mul(x, vec_set(1.702f))); }

INLINE vec vec_relu2(vec x) {
  vec y = vec_max(x, vec_zero());
  return vec_fma(y, y, vec_mul(x, vec_zero()));
}

INLINE vec vec_above(vec x, const float by) {
  vec more = vec_max(vec_sub(x, vec_set(by)), vec_zero());
  return vec_add(more, vec_mul(x, vec_zero()));
}

INLINE vec vec_clip(vec x, const float by) {
  vec within = vec_max(vec_min(x, vec_set(by)), vec_set(-by));
  return vec_add(within, vec_mul(x, vec_zero()));
}

INLINE vec vec_exponential(vec x) {
  return vec_add(vec_exp(x), vec_mul(x, vec_zero()));
}

INLINE vec vec_exp_gap(vec x) {
  vec below = vec_sub(x, vec_max(x, vec_zero()));
  return vec_sub(vec_sub(vec_exp(below), vec_set(1.0f)), below);
}

INLINE vec vec_sigmoid(vec x) {
  return vec_add(vec_swish(vec_set(1.0f), x), vec_mul(x, vec_zero()));
}

INLINE vec vec_cap(vec x, const float by) {
  vec e = vec_exp(vec_mul(x, vec_set(2.0f / by)));
  vec tanh = vec_sub(vec_set(1.0f), vec_div(vec_set(2.0f), vec_add(e, vec_set(1.0f))));
  return vec_fma(tanh, vec_set(by), vec_mul(x, vec_zero()));
}

INLINE vec vec_inverse_root(vec x, const float by) {
  float lanes[16];
  vec_store(lanes, vec_add(x, vec_set(by)));
  for (int i = 0; i < 16; i++) lanes[i] = 1.0f / __builtin_sqrtf(lanes[i]);
  return vec_add(vec_load(lanes), vec_mul(x, vec_zero()));
}

// log(1 + e^x), of which `power` is e^x.
INLINE float softplus_of(const float x, const float power) {
  if (x > 20) return x;
  return power < 0.4f ? log_near_one(power) : log_single(1 + power);
}

INLINE vec vec_softplus(vec x) {
  float lanes[16], powers[16];
  vec_store(lanes, x);
  vec_store(powers, vec_exp(x));
  for (int i = 0; i < 16; i++) lanes[i] = softplus_of(lanes[i], powers[i]) + lanes[i] * 0;
  return vec_load(lanes);
}

#endif
