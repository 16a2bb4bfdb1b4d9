// Sixteen floats or integers at a time in plain C, for processors without a folder of their own and as the judge of the
// others in tests. There is no fused multiply-add to rely on, so vec_fma rounds twice: this folder is bit-stable within
// itself, like every other, and close to the others.
#ifndef SINTER_VECTOR_H
#define SINTER_VECTOR_H

#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define LANES(i) for (int i = 0; i < 16; i++)

typedef struct {
  float f[16];
} vec;
typedef struct {
  int32_t i[16];
} ivec;

INLINE vec vec_set(float x) {
  vec r;
  LANES(i) r.f[i] = x;
  return r;
}
INLINE vec vec_zero(void) { return vec_set(0); }
INLINE vec vec_load(const float *p) {
  vec r;
  memcpy(r.f, p, sizeof r.f);
  return r;
}
INLINE void vec_store(float *p, vec v) { memcpy(p, v.f, sizeof v.f); }

#define BINARY(name, expression)    \
  INLINE vec name(vec a, vec b) {   \
    vec r;                          \
    LANES(i) {                      \
      float x = a.f[i], y = b.f[i]; \
      r.f[i] = (expression);        \
    }                               \
    return r;                       \
  }
BINARY(vec_add, x + y)
BINARY(vec_sub, x - y)
BINARY(vec_mul, x *y)
BINARY(vec_div, x / y)
BINARY(vec_max, x > y ? x : y)
BINARY(vec_min, x < y ? x : y)
#undef BINARY

INLINE vec vec_abs(vec a) {
  LANES(i) a.f[i] = __builtin_fabsf(a.f[i]);
  return a;
}
INLINE vec vec_fma(vec a, vec b, vec c) {
  LANES(i) c.f[i] = a.f[i] * b.f[i] + c.f[i];
  return c;
}
INLINE vec vec_keep(vec value, vec x, vec limit) {
  LANES(i) value.f[i] = x.f[i] >= limit.f[i] ? value.f[i] : 0.0f;
  return value;
}
INLINE vec vec_choose(uint32_t bits, vec value, vec other) {
  LANES(i) value.f[i] = bits >> i & 1 ? value.f[i] : other.f[i];
  return value;
}

INLINE uint32_t float_bits(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  return bits;
}
INLINE float bits_float(uint32_t bits) {
  float x;
  memcpy(&x, &bits, 4);
  return x;
}
INLINE vec vec_scale2(vec p, vec n) {
  LANES(i) p.f[i] = bits_float(float_bits(p.f[i]) + (float_bits(n.f[i]) << 23));
  return p;
}

INLINE float vec_total(vec v) {
  for (int half = 8; half; half /= 2)
    for (int i = 0; i < half; i++) v.f[i] += v.f[i + half];
  return v.f[0];
}
INLINE float vec_largest(vec v) {
  float largest = v.f[0];
  LANES(i) largest = v.f[i] > largest ? v.f[i] : largest;
  return largest;
}

INLINE float f16_to_float(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, magnitude = h & 0x7fff;
  if (magnitude >= 0x7c00) return bits_float(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
  // Below the smallest normal number the bits are a count of 2^-24.
  if (magnitude < 0x400) return bits_float(sign | float_bits((float)magnitude * 0x1p-24f));
  return bits_float(sign | ((magnitude << 13) + 0x38000000));
}
INLINE uint16_t float_to_f16(float x) {
  uint32_t bits = float_bits(x), sign = bits >> 16 & 0x8000;
  bits &= 0x7fffffff;
  if (bits > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (bits >> 13 & 0x3ff));
  if (bits >= 0x477ff000) return (uint16_t)(sign | 0x7c00);
  if (bits < 0x38800000)  // Adding 0.5 leaves the count of 2^-24, rounded to even, in the low bits.
    return (uint16_t)(sign | (float_bits(bits_float(bits) + 0.5f) - 0x3f000000));
  return (uint16_t)(sign | ((bits + 0xfff + (bits >> 13 & 1) - 0x38000000) >> 13));
}
INLINE vec vec_load_f16(const uint16_t *p) {
  vec r;
  LANES(i) r.f[i] = f16_to_float(p[i]);
  return r;
}
INLINE void vec_store_f16(uint16_t *p, vec v) { LANES(i) p[i] = float_to_f16(v.f[i]); }
INLINE vec vec_load_bf16(const uint16_t *p) {
  vec r;
  LANES(i) r.f[i] = bits_float((uint32_t)p[i] << 16);
  return r;
}
INLINE void vec_store_bf16(uint16_t *p, vec v) {
  LANES(i) {
    uint32_t x = float_bits(v.f[i]);
    p[i] = v.f[i] != v.f[i] ? 0x7fc0 : (uint16_t)((x + 0x7fff + (x >> 16 & 1)) >> 16);
  }
}
// Adding 1.5 * 2^23 rounds to an integer, halves to even, and leaves it in the low bits.
INLINE void vec_store_i8(int8_t *p, vec v) {
  LANES(i) p[i] = (int8_t)float_bits(v.f[i] + 12582912.0f);
}

INLINE ivec ivec_set(int32_t x) {
  ivec r;
  LANES(i) r.i[i] = x;
  return r;
}
INLINE ivec ivec_load(const void *p) {
  ivec r;
  memcpy(r.i, p, sizeof r.i);
  return r;
}
INLINE vec vec_from_ivec(ivec v) {
  vec r;
  LANES(i) r.f[i] = (float)v.i[i];
  return r;
}
INLINE ivec ivec_low_nibbles(ivec v) {
  LANES(i) v.i[i] = v.i[i] & 0x0f0f0f0f;
  return v;
}
INLINE ivec ivec_high_nibbles(ivec v) {
  LANES(i) v.i[i] = (int32_t)((uint32_t)v.i[i] >> 4 & 0x0f0f0f0f);
  return v;
}
INLINE ivec ivec_dot_bytes(ivec sum, ivec w, ivec a) {
  for (int byte = 0; byte < 32; byte += 8)
    LANES(i)
    sum.i[i] += (int32_t)((uint32_t)w.i[i] >> byte & 255) * (int8_t)((uint32_t)a.i[i] >> byte);
  return sum;
}
INLINE ivec ivec_dot_nibbles(ivec sum, ivec w, ivec a) { return ivec_dot_bytes(sum, w, a); }
#define BYTES_ABOVE_ZERO 127

#define TILE_ROWS 1

#endif
