// Sixteen floats or integers at a time in plain C, for processors without a folder of their own and as the judge of the
// others in tests. There is no fused multiply-add to rely on, so vec_fma rounds twice: this folder is bit-stable within
// itself, like every other, and close to the others.
#ifndef SINTER_VECTOR_H
#define SINTER_VECTOR_H

#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define LANES(i) for (int i = 0; i < 16; i++)

// The compiler's own vectors: as structs of sixteen scalars these functions took gcc minutes instead of seconds.
typedef float vec __attribute__((vector_size(64)));
typedef int32_t ivec __attribute__((vector_size(64)));
typedef uint32_t uvec __attribute__((vector_size(64)));

#define SIXTEEN(x) {x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}

INLINE vec vec_set(float x) { return (vec)SIXTEEN(x); }
INLINE vec vec_zero(void) { return vec_set(0); }
INLINE vec vec_load(const float *p) {
  vec r;
  memcpy(&r, p, sizeof r);
  return r;
}
INLINE void vec_store(float *p, vec v) { memcpy(p, &v, sizeof v); }

/** Lanes of `a` where `mask` has all bits, of `b` where it has none. */
INLINE vec vec_pick(ivec mask, vec a, vec b) {
  return (vec)((mask & (ivec)a) | (~mask & (ivec)b));
}
INLINE vec vec_add(vec a, vec b) { return a + b; }
INLINE vec vec_sub(vec a, vec b) { return a - b; }
INLINE vec vec_mul(vec a, vec b) { return a * b; }
INLINE vec vec_div(vec a, vec b) { return a / b; }
INLINE vec vec_max(vec a, vec b) { return vec_pick(a > b, a, b); }
INLINE vec vec_min(vec a, vec b) { return vec_pick(a < b, a, b); }
INLINE vec vec_abs(vec a) { return (vec)((ivec)a & 0x7fffffff); }
INLINE vec vec_fma(vec a, vec b, vec c) { return a * b + c; }
INLINE vec vec_keep(vec value, vec x, vec limit) { return (vec)((ivec)value & (x >= limit)); }
INLINE vec vec_choose(uint32_t bits, vec value, vec other) {
  const uvec lane = {1,      1 << 1, 1 << 2,  1 << 3,  1 << 4,  1 << 5,  1 << 6,  1 << 7,
                     1 << 8, 1 << 9, 1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14, 1 << 15};
  const uvec all = SIXTEEN(bits);
  return vec_pick((all & lane) != 0, value, other);
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
  return (vec)((uvec)p + ((uvec)n << 23));
}

INLINE float vec_total(vec v) {
  for (int half = 8; half; half /= 2)
    for (int i = 0; i < half; i++) v[i] += v[i + half];
  return v[0];
}
INLINE float vec_largest(vec v) {
  float largest = v[0];
  LANES(i) largest = v[i] > largest ? v[i] : largest;
  return largest;
}

// Sixteen signed bytes as floats.
INLINE vec vec_load_i8(const int8_t *p) {
  float r[16];
  LANES(i) r[i] = (float)p[i];
  return vec_load(r);
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
  float r[16];
  LANES(i) r[i] = f16_to_float(p[i]);
  return vec_load(r);
}
// Floats of 8 bits (e4m3) as 2^-8 of what they are.
INLINE vec vec_load_e4m3(const uint8_t *p) {
  float r[16];
  LANES(i) r[i] = f16_to_float((uint16_t)((p[i] & 0x80) << 8 | (p[i] & 0x7f) << 7));
  return vec_load(r);
}
INLINE void vec_store_f16(uint16_t *p, vec v) {
  float x[16];
  vec_store(x, v);
  LANES(i) p[i] = float_to_f16(x[i]);
}
INLINE vec vec_load_bf16(const uint16_t *p) {
  float r[16];
  LANES(i) r[i] = bits_float((uint32_t)p[i] << 16);
  return vec_load(r);
}
INLINE void vec_store_bf16(uint16_t *p, vec v) {
  float f[16];
  vec_store(f, v);
  LANES(i) {
    uint32_t x = float_bits(f[i]);
    p[i] = f[i] != f[i] ? 0x7fc0 : (uint16_t)((x + 0x7fff + (x >> 16 & 1)) >> 16);
  }
}
// Adding 1.5 * 2^23 rounds to an integer, halves to even, and leaves it in the low bits.
INLINE void vec_store_i8(int8_t *p, vec v) {
  ivec rounded = (ivec)(v + 12582912.0f);
  LANES(i) p[i] = (int8_t)rounded[i];
}

INLINE ivec ivec_set(int32_t x) { return (ivec)SIXTEEN(x); }
INLINE ivec ivec_load(const void *p) {
  ivec r;
  memcpy(&r, p, sizeof r);
  return r;
}
INLINE vec vec_from_ivec(ivec v) { return __builtin_convertvector(v, vec); }
INLINE ivec ivec_low_nibbles(ivec v) { return v & 0x0f0f0f0f; }
INLINE ivec ivec_high_nibbles(ivec v) { return (ivec)((uvec)v >> 4) & 0x0f0f0f0f; }
INLINE ivec ivec_with_upper(ivec nibbles, ivec upper, const int i) {
  uvec there = i < 2 ? (uvec)upper << (4 - 2 * i) : (uvec)upper >> (2 * i - 4);
  return nibbles | ((ivec)there & 0x30303030);
}
INLINE ivec ivec_look_up(const uint8_t *table, ivec nibbles) {
  uint8_t bytes[sizeof nibbles];
  memcpy(bytes, &nibbles, sizeof bytes);
  for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = table[bytes[i]];
  memcpy(&nibbles, bytes, sizeof bytes);
  return nibbles;
}
INLINE ivec ivec_dot_bytes(ivec sum, ivec w, ivec a) {
  for (int byte = 0; byte < 32; byte += 8)
    sum += (ivec)((uvec)w >> byte & 255) * ((ivec)((uvec)a << (24 - byte)) >> 24);
  return sum;
}
INLINE ivec ivec_dot_nibbles(ivec sum, ivec w, ivec a) { return ivec_dot_bytes(sum, w, a); }
#define BYTES_ABOVE_ZERO 127

#define TILE_ROWS 1

// Vectors of float sums that attention, and products of floats, keep in registers at a time.
#define SUMS_TOGETHER 4

#endif
