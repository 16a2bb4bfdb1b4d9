// exp, log, sine and cosine of our own, because libm's differ between versions and our bits must not. Only additions,
// multiplications, divisions and integer work on the bits: the same input gives the same output everywhere.
#ifndef SINTER_FUNCTIONS_H
#define SINTER_FUNCTIONS_H

#include "vector.h"

#define MAGIC 12582912.0f  // 1.5 * 2^23: adding it rounds to an integer, halves to even

// e^x within 2 units of the last place for x <= 88; exactly 0 below -87. x = n ln 2 + r, and e^r is a Taylor polynomial
// on |r| <= ln 2 / 2, whose first left-out term is r^7 / 5040 < 1.2e-7.
INLINE vec vec_exp(vec x) {
  vec bounded = vec_max(vec_min(x, vec_set(88.0f)), vec_set(-87.0f));
  vec n = vec_fma(bounded, vec_set(1.44269504f), vec_set(MAGIC));
  vec whole = vec_sub(n, vec_set(MAGIC));
  vec r = vec_fma(whole, vec_set(-0.693359375f), bounded);  // ln 2 in two parts: the first has few bits
  r = vec_fma(whole, vec_set(2.12194440e-4f), r);
  vec p = vec_fma(r, vec_set(1.0f / 720), vec_set(1.0f / 120));
  p = vec_fma(p, r, vec_set(1.0f / 24));
  p = vec_fma(p, r, vec_set(1.0f / 6));
  p = vec_fma(p, r, vec_set(0.5f));
  p = vec_fma(p, r, vec_set(1.0f));
  p = vec_fma(p, r, vec_set(1.0f));
  return vec_keep(vec_scale2(p, n), x, vec_set(-87.0f));
}

INLINE float exp_of(float x) {
  float lanes[16];
  vec_store(lanes, vec_exp(vec_set(x)));
  return lanes[0];
}

// x * sigmoid(x)
INLINE vec vec_silu(vec x) {
  return vec_div(x, vec_add(vec_set(1.0f), vec_exp(vec_sub(vec_zero(), x))));
}

// Cosine and sine of an angle in radians, |angle| < 2^30: reduced by multiples of a quarter turn held in three parts, then
// Taylor polynomials on |r| <= pi / 4 in double; rounded to float at the end.
INLINE void turn(double angle, float *cosine, float *sine) {
  double n = angle * 0.63661977236758134308 + 6755399441055744.0;  // 1.5 * 2^52 rounds, as MAGIC does
  union {
    double number;
    uint64_t bits;
  } quarter = {n};
  n -= 6755399441055744.0;
  double r = angle - n * 1.57079632673412561417;  // 33 bits of pi / 2: exact products
  r -= n * 6.07710050630396597660e-11;
  r -= n * 2.02226624879595063154e-21;
  double s = r * r;
  double sin_r =
      r + r * s *
              (-1.0 / 6 +
               s * (1.0 / 120 +
                    s * (-1.0 / 5040 + s * (1.0 / 362880 + s * (-1.0 / 39916800 + s / 6227020800.0)))));
  double cos_r =
      1.0 + s * (-0.5 + s * (1.0 / 24 +
                             s * (-1.0 / 720 +
                                  s * (1.0 / 40320 + s * (-1.0 / 3628800 + s / 479001600.0)))));
  switch (quarter.bits & 3) {
    case 0: *cosine = (float)cos_r, *sine = (float)sin_r; break;
    case 1: *cosine = (float)-sin_r, *sine = (float)cos_r; break;
    case 2: *cosine = (float)-cos_r, *sine = (float)-sin_r; break;
    default: *cosine = (float)sin_r, *sine = (float)-cos_r;
  }
}

#endif
