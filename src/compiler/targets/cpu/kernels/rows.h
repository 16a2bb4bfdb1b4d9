// What is done to a row of floats by itself. A row's stride is a multiple of 32 and what lies between its last column and
// the stride is zero, so that whole vectors may be read; every function here keeps it so.
#ifndef SINTER_ROWS_H
#define SINTER_ROWS_H

#include "functions.h"
#include "product.h"

// The first n (< 16) floats, zeros behind them.
INLINE vec vec_load_some(const float *p, int64_t n) {
  float lanes[16] = {0};
  memcpy(lanes, p, (size_t)n * 4);
  return vec_load(lanes);
}
INLINE void vec_store_some(float *p, int64_t n, vec v) {
  float lanes[16];
  vec_store(lanes, v);
  memcpy(p, lanes, (size_t)n * 4);
}

// The sum of x, or of its squares, divided by its length. Four partial sums, so that additions overlap.
INLINE vec with_next(const int squared, vec v, vec sum) {
  return squared ? vec_fma(v, v, sum) : vec_add(sum, v);
}
INLINE float mean_of(const int squared, const float *x, const int64_t columns) {
  vec part[4] = {vec_zero(), vec_zero(), vec_zero(), vec_zero()};
  int64_t i = 0;
  for (; i + 64 <= columns; i += 64)
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) part[j] = with_next(squared, vec_load(x + i + 16 * j), part[j]);
  for (; i + 16 <= columns; i += 16) part[0] = with_next(squared, vec_load(x + i), part[0]);
  if (i < columns) part[0] = with_next(squared, vec_load_some(x + i, columns - i), part[0]);
  return vec_total(vec_add(vec_add(part[0], part[1]), vec_add(part[2], part[3]))) / (float)columns;
}

// out = x / sqrt(mean(x^2) + eps) * weight; x and out may be one.
INLINE void norm_row(const float *x, const float *weight, const float eps, const int64_t columns,
                     float *out) {
  vec scale = vec_set(1.0f / __builtin_sqrtf(mean_of(1, x, columns) + eps));
  int64_t i;
  for (i = 0; i + 16 <= columns; i += 16)
    vec_store(out + i, vec_mul(vec_mul(vec_load(x + i), scale), vec_load(weight + i)));
  if (i < columns)
    vec_store_some(out + i, columns - i,
                   vec_mul(vec_mul(vec_load_some(x + i, columns - i), scale),
                           vec_load_some(weight + i, columns - i)));
}

// The same of x less its mean, plus a bias if there is one.
INLINE void layer_norm_row(const float *x, const float *weight, const float *bias, const float eps,
                           const int64_t columns, float *out) {
  vec mean = vec_set(mean_of(0, x, columns));
  for (int64_t i = 0; i < columns; i += 16) {
    int64_t n = columns - i < 16 ? columns - i : 16;
    vec_store_some(out + i, n, vec_sub(vec_load_some(x + i, n), mean));
  }
  vec scale = vec_set(1.0f / __builtin_sqrtf(mean_of(1, out, columns) + eps));
  for (int64_t i = 0; i < columns; i += 16) {
    int64_t n = columns - i < 16 ? columns - i : 16;
    vec v = vec_mul(vec_load_some(out + i, n), scale), w = vec_load_some(weight + i, n);
    vec_store_some(out + i, n,
                   bias ? vec_fma(v, w, vec_load_some(bias + i, n)) : vec_mul(v, w));
  }
}

// Added and taken off again it rounds what is below 2^22 to the nearest integer, halves to even.
#define ROUNDING 12582912.0f

// Rounds a row to int8 in groups: scale = largest / 127, code = x / scale to the nearest, halves to even. The layout is
// product.h's. A NaN or an infinity anywhere in a group makes its scale NaN: it must not come out as a number. Rows come from
// the cache behind the second one, which the hardware fetches too late.
INLINE void quantize_row(const float *x, const int64_t columns, const int group,
                         const struct kept_sums sums, uint8_t *out) {
  const int64_t scales = quantized_scales(columns, group),
                starts = quantized_starts(columns, group);
  for (int64_t g = 0; g * group < columns; g++) {
    const float *values = x + g * group;
    float filled[48];
    __builtin_prefetch(values + 512);
    __builtin_prefetch(values + 528);
    int64_t width = columns - g * group < group ? columns - g * group : group;
    if (group % 16 || width < group) {
      memset(filled, 0, sizeof filled);
      memcpy(filled, values, (size_t)width * 4);
      values = filled;
    }
    vec largest = vec_zero(), sound = vec_zero(), sum = vec_zero();
#pragma GCC unroll 3
    for (int i = 0; i < group; i += 16) {
      vec v = vec_load(values + i);
      largest = vec_max(largest, vec_abs(v));
      sound = vec_fma(v, vec_zero(), sound);
    }
    float most = vec_largest(largest);
    vec inverse = vec_set(most > 0 ? 127.0f / most : 0.0f);
    int8_t codes[48];
#pragma GCC unroll 3
    for (int i = 0; i < group; i += 16) {
      vec v = vec_mul(vec_load(values + i), inverse);
      vec whole = vec_sub(vec_add(v, vec_set(ROUNDING)), vec_set(ROUNDING));
      sum = vec_add(sum, whole);
      vec_store_i8(codes + i, whole);
    }
    float scale = most / 127.0f + vec_total(sound), total = vec_total(sum);
    int32_t start = total * 0 == 0 ? -sums.above * (int32_t)total : 0;  // a sum of NaN has no integer
    memcpy(out + g * group, codes, (size_t)group);
    memcpy(out + scales + 4 * g, &scale, 4);
    const float scaled = scale * (float)start;
    memcpy(out + starts + 4 * g, sums.scaled ? (const void *)&scaled : &start, 4);
  }
}
#undef ROUNDING

// One head turned by its position: element i is paired with element i + half. x and out may be one.
INLINE void rotate_head(const float *x, const float *cosine, const float *sine, const int64_t half,
                        float *out) {
  for (int64_t i = 0; i < half; i++) {
    float a = x[i], b = x[i + half];
    out[i] = a * cosine[i] - b * sine[i];
    out[i + half] = b * cosine[i] + a * sine[i];
  }
}

#endif
