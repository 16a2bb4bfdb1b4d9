// The numbers that sampling is made of: src/runtime/single.ts operation for operation. Branches are choices between two
// values, so that compilers may take several numbers at once.
#ifndef SINTER_SINGLE_H
#define SINTER_SINGLE_H

#include <stdint.h>
#include <string.h>

#define SINGLE static inline __attribute__((always_inline))

#define MAX_FLOAT __FLT_MAX__

SINGLE float single_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, 4);
  return x;
}
SINGLE uint32_t bits_of_single(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  return bits;
}

// 0 for what is smaller than a normal float, the largest float for what lies beyond it.
SINGLE float settled(float x) {
  x = x > MAX_FLOAT ? MAX_FLOAT : x;
  x = x < -MAX_FLOAT ? -MAX_FLOAT : x;
  return __builtin_fabsf(x) < __FLT_MIN__ ? 0.0f : x;
}

#define TO_INTEGER 12582912.0f
#define LN2_HIGH_SINGLE 0.693359375f
#define LN2_LOW_SINGLE -2.1219444005469057e-4f

// e^x for x <= 0; 0 below -87.
SINGLE float exp_single(float x) {
  float inside = x < -87.0f ? 0.0f : x;
  float shifted = inside * 1.4426950408889634f + TO_INTEGER;
  float n = shifted - TO_INTEGER;
  float r = inside - n * LN2_HIGH_SINGLE - n * LN2_LOW_SINGLE;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1;
  p = p * r + 1;
  p = single_of(bits_of_single(p) + (bits_of_single(shifted) << 23));
  return x < -87.0f ? 0.0f : p;
}

// log(1 + f) for f from sqrt(1/2) - 1 to sqrt(2) - 1.
SINGLE float log_near_one(float f) {
  float square = f * f;
  float p = -0.0790274367f;
  p = p * f + 0.126223192f;
  p = p * f + -0.129981831f;
  p = p * f + 0.142144963f;
  p = p * f + -0.166412815f;
  p = p * f + 0.200010449f;
  p = p * f + -0.25000307f;
  p = p * f + 0.333333313f;
  return f + (f * square * p - 0.5f * square);
}

// The natural logarithm of a positive normal float.
SINGLE float log_single(float x) {
  int32_t n = (int32_t)(bits_of_single(x) - 0x3f3504f3) >> 23;  // x = 2^n m, m from sqrt(1/2)
  float m = single_of(bits_of_single(x) - ((uint32_t)n << 23)), exponent = (float)n;
  return exponent * LN2_HIGH_SINGLE + (log_near_one(m - 1) + exponent * LN2_LOW_SINGLE);
}

#endif
