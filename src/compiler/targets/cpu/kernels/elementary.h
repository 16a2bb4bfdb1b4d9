// exp, log, cosine and sine in double precision: src/runtime/elementary.ts operation for operation. Only + - * / and work on the
// bits, in the order written; branches are choices between two values, so that compilers may take several numbers at once.
#ifndef SINTER_ELEMENTARY_H
#define SINTER_ELEMENTARY_H

#include <stdint.h>
#include <string.h>

#define ELEMENTARY static inline __attribute__((always_inline))

#define LN2_HIGH 0.6931471803691238
#define LN2_LOW 1.9082149292705877e-10

ELEMENTARY double double_of(uint64_t bits) {
  double x;
  memcpy(&x, &bits, 8);
  return x;
}
ELEMENTARY uint64_t bits_of(double x) {
  uint64_t bits;
  memcpy(&bits, &x, 8);
  return bits;
}

// floor(x) for |x| < 2^51: rounded to an integer by a large addend, then corrected; no call, no special instruction.
ELEMENTARY double floor_of(double x) {
  double n = x + 6755399441055744.0 - 6755399441055744.0;
  return n - (n > x ? 1.0 : 0.0);
}

ELEMENTARY double exp_double(double x) {
  if (x < -708) return 0;
  if (x > 709) return __builtin_inf();
  if (x != x) return x;  // has no integer
  double n = floor_of(x * 1.4426950408889634 + 0.5);
  double r = x - n * LN2_HIGH - n * LN2_LOW;
  double p = 1.0 / 39916800;
  p = p * r + 1.0 / 3628800;
  p = p * r + 1.0 / 362880;
  p = p * r + 1.0 / 40320;
  p = p * r + 1.0 / 5040;
  p = p * r + 1.0 / 720;
  p = p * r + 1.0 / 120;
  p = p * r + 1.0 / 24;
  p = p * r + 1.0 / 6;
  p = p * r + 0.5;
  p = p * r + 1;
  p = p * r + 1;
  return p * double_of((uint64_t)((int64_t)n + 1023) << 52);
}

ELEMENTARY double log_double(double x) {
  uint64_t bits = bits_of(x);
  double m = double_of((bits & 0x000fffffffffffff) | 0x3ff0000000000000);
  // The exponent field as a number: put below 2^52 and 2^52 taken off again.
  double exponent = double_of((bits >> 52) | 0x4330000000000000) - 4503599627370496.0 - 1023;
  int large = m > 1.4142135623730951;
  m = large ? m * 0.5 : m;
  exponent = large ? exponent + 1 : exponent;
  double s = (m - 1) / (m + 1);
  double z = s * s;
  double p = 1.0 / 19;
  p = p * z + 1.0 / 17;
  p = p * z + 1.0 / 15;
  p = p * z + 1.0 / 13;
  p = p * z + 1.0 / 11;
  p = p * z + 1.0 / 9;
  p = p * z + 1.0 / 7;
  p = p * z + 1.0 / 5;
  p = p * z + 1.0 / 3;
  p = p * z + 1;
  return exponent * LN2_HIGH + (2 * s * p + exponent * LN2_LOW);
}

// Cosine and sine of an angle from 0 to 2^20 radians, rounded to float at the end.
ELEMENTARY void turn(double angle, float *cosine, float *sine) {
  double n = floor_of(angle * 0.6366197723675814 + 0.5);
  double r =
      angle - n * 1.5707963267341256 - n * 6.077100506303966e-11 - n * 2.0222662487959506e-21;
  double z = r * r;
  double p = -1.0 / 1307674368000;
  p = p * z + 1.0 / 6227020800;
  p = p * z - 1.0 / 39916800;
  p = p * z + 1.0 / 362880;
  p = p * z - 1.0 / 5040;
  p = p * z + 1.0 / 120;
  p = p * z - 1.0 / 6;
  double s = r + r * z * p;
  p = 1.0 / 20922789888000;
  p = p * z - 1.0 / 87178291200;
  p = p * z + 1.0 / 479001600;
  p = p * z - 1.0 / 3628800;
  p = p * z + 1.0 / 40320;
  p = p * z - 1.0 / 720;
  p = p * z + 1.0 / 24;
  p = p * z - 0.5;
  double c = p * z + 1;
  int64_t quarter = (int64_t)n;
  double of_sine = quarter & 1 ? c : s, of_cosine = quarter & 1 ? s : c;
  *sine = (float)(quarter & 2 ? -of_sine : of_sine);
  *cosine = (float)((quarter + 1) & 2 ? -of_cosine : of_cosine);
}

#endif
