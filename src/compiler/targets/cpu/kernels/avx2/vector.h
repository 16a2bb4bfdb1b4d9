// Sixteen floats or integers at a time, in two AVX2 registers. The names are those of every folder beside this one, and
// so are the reduction trees. With AVX-VNNI a dot product is one instruction; without, bytes are multiplied as 16-bit
// pairs, which is as exact. Needs FMA and F16C beside AVX2.
#ifndef SINTER_VECTOR_H
#define SINTER_VECTOR_H

// The whole of gcc's immintrin.h declares AVX-512 as well, which takes it a third of a second of each file. Its parts refuse to be
// included by anyone else, so we pass for it; with versions of gcc that nobody has looked at, we do not.
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 11 && __GNUC__ <= 15
#define _IMMINTRIN_H_INCLUDED
#include <smmintrin.h>
#include <avxintrin.h>
#include <avx2intrin.h>
#include <f16cintrin.h>
#include <fmaintrin.h>
#ifdef __AVXVNNI__
#include <avxvnniintrin.h>
#endif
#else
#include <immintrin.h>
#endif
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

typedef struct {
  __m256 lo, hi;
} vec;
typedef struct {
  __m256i lo, hi;
} ivec;

INLINE vec vec_set(float x) { return (vec){_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
INLINE vec vec_zero(void) { return vec_set(0); }
INLINE vec vec_load(const float *p) { return (vec){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
INLINE void vec_store(float *p, vec v) {
  _mm256_storeu_ps(p, v.lo);
  _mm256_storeu_ps(p + 8, v.hi);
}
INLINE vec vec_add(vec a, vec b) {
  return (vec){_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
INLINE vec vec_sub(vec a, vec b) {
  return (vec){_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
INLINE vec vec_mul(vec a, vec b) {
  return (vec){_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
INLINE vec vec_div(vec a, vec b) {
  return (vec){_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
INLINE vec vec_max(vec a, vec b) {
  return (vec){_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
INLINE vec vec_min(vec a, vec b) {
  return (vec){_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}
INLINE vec vec_abs(vec a) {
  __m256 sign = _mm256_set1_ps(-0.0f);
  return (vec){_mm256_andnot_ps(sign, a.lo), _mm256_andnot_ps(sign, a.hi)};
}
INLINE vec vec_fma(vec a, vec b, vec c) {
  return (vec){_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}

INLINE vec vec_keep(vec value, vec x, vec limit) {
  return (vec){_mm256_and_ps(value.lo, _mm256_cmp_ps(x.lo, limit.lo, _CMP_GE_OQ)),
               _mm256_and_ps(value.hi, _mm256_cmp_ps(x.hi, limit.hi, _CMP_GE_OQ))};
}

INLINE vec vec_choose(uint32_t bits, vec value, vec other) {
  __m256i each = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  __m256i lo = _mm256_and_si256(_mm256_set1_epi32((int32_t)bits), each);
  __m256i hi = _mm256_and_si256(_mm256_set1_epi32((int32_t)(bits >> 8)), each);
  return (vec){
      _mm256_blendv_ps(other.lo, value.lo, _mm256_castsi256_ps(_mm256_cmpeq_epi32(lo, each))),
      _mm256_blendv_ps(other.hi, value.hi, _mm256_castsi256_ps(_mm256_cmpeq_epi32(hi, each)))};
}

INLINE __m256 scale2_half(__m256 p, __m256 n) {
  return _mm256_castsi256_ps(
      _mm256_add_epi32(_mm256_castps_si256(p), _mm256_slli_epi32(_mm256_castps_si256(n), 23)));
}
INLINE vec vec_scale2(vec p, vec n) {
  return (vec){scale2_half(p.lo, n.lo), scale2_half(p.hi, n.hi)};
}

INLINE float vec_total(vec v) {
  __m256 a = _mm256_add_ps(v.lo, v.hi);
  __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  b = _mm_add_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}
INLINE float vec_largest(vec v) {
  __m256 a = _mm256_max_ps(v.lo, v.hi);
  __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  b = _mm_max_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}

INLINE vec vec_load_f16(const uint16_t *p) {
  return (vec){_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)),
               _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(p + 8)))};
}
// Floats of 8 bits (e4m3) as 2^-8 of what they are: moved up, with their sign in the bits 15 and 14, where it goes once.
INLINE vec vec_load_e4m3(const uint8_t *p) {
  __m256i bytes = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)p));
  __m256i halves = _mm256_and_si256(_mm256_slli_epi16(bytes, 7), _mm256_set1_epi16((short)0xbfff));
  return (vec){_mm256_cvtph_ps(_mm256_castsi256_si128(halves)),
               _mm256_cvtph_ps(_mm256_extracti128_si256(halves, 1))};
}
INLINE void vec_store_f16(uint16_t *p, vec v) {
  _mm_storeu_si128((__m128i *)p, _mm256_cvtps_ph(v.lo, _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128((__m128i *)(p + 8), _mm256_cvtps_ph(v.hi, _MM_FROUND_TO_NEAREST_INT));
}
INLINE __m256 load_bf16_half(const uint16_t *p) {
  return _mm256_castsi256_ps(
      _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), 16));
}
INLINE vec vec_load_bf16(const uint16_t *p) {
  return (vec){load_bf16_half(p), load_bf16_half(p + 8)};
}
INLINE __m256i to_bf16_half(__m256 v) {
  __m256i x = _mm256_castps_si256(v);
  __m256i odd = _mm256_and_si256(_mm256_srli_epi32(x, 16), _mm256_set1_epi32(1));
  __m256i rounded = _mm256_add_epi32(x, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  return _mm256_srli_epi32(_mm256_blendv_epi8(rounded, _mm256_set1_epi32(0x7fc00000), nan), 16);
}
INLINE void vec_store_bf16(uint16_t *p, vec v) {
  __m256i packed = _mm256_packus_epi32(to_bf16_half(v.lo), to_bf16_half(v.hi));
  _mm256_storeu_si256((__m256i *)p, _mm256_permute4x64_epi64(packed, 0xd8));
}

// Sixteen signed bytes as floats.
INLINE __m256 load_i8_half(const int8_t *p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}
INLINE vec vec_load_i8(const int8_t *p) { return (vec){load_i8_half(p), load_i8_half(p + 8)}; }
INLINE void vec_store_i8(int8_t *p, vec v) {
  __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(v.lo), _mm256_cvtps_epi32(v.hi));
  words = _mm256_permute4x64_epi64(words, 0xd8);
  _mm_storeu_si128((__m128i *)p, _mm_packs_epi16(_mm256_castsi256_si128(words),
                                                 _mm256_extracti128_si256(words, 1)));
}

INLINE ivec ivec_set(int32_t x) { return (ivec){_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
INLINE ivec ivec_load(const void *p) {
  return (ivec){_mm256_loadu_si256((const __m256i *)p), _mm256_loadu_si256((const __m256i *)p + 1)};
}
INLINE vec vec_from_ivec(ivec v) {
  return (vec){_mm256_cvtepi32_ps(v.lo), _mm256_cvtepi32_ps(v.hi)};
}
INLINE ivec ivec_low_nibbles(ivec v) {
  __m256i low = _mm256_set1_epi8(15);
  return (ivec){_mm256_and_si256(v.lo, low), _mm256_and_si256(v.hi, low)};
}
INLINE ivec ivec_high_nibbles(ivec v) {
  __m256i low = _mm256_set1_epi8(15);
  return (ivec){_mm256_and_si256(_mm256_srli_epi32(v.lo, 4), low),
                _mm256_and_si256(_mm256_srli_epi32(v.hi, 4), low)};
}
INLINE __m256i with_upper_half(__m256i nibbles, __m256i upper, const int i) {
  __m256i there = i < 2 ? _mm256_slli_epi32(upper, 4 - 2 * i) : _mm256_srli_epi32(upper, 2 * i - 4);
  return _mm256_or_si256(nibbles, _mm256_and_si256(there, _mm256_set1_epi8(0x30)));
}
INLINE ivec ivec_with_upper(ivec nibbles, ivec upper, const int i) {
  return (ivec){with_upper_half(nibbles.lo, upper.lo, i), with_upper_half(nibbles.hi, upper.hi, i)};
}
INLINE ivec ivec_look_up(const uint8_t *table, ivec nibbles) {
  __m256i all = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)table));
  return (ivec){_mm256_shuffle_epi8(all, nibbles.lo), _mm256_shuffle_epi8(all, nibbles.hi)};
}

#ifdef __AVXVNNI__
INLINE __m256i pairs_half(__m256i pairs, __m256i w, __m256i a) {
  return _mm256_dpbusd_avx_epi32(pairs, w, a);
}
INLINE __m256i settled_half(__m256i sum, __m256i pairs) { return _mm256_add_epi32(sum, pairs); }
INLINE __m256i dot_bytes_half(__m256i sum, __m256i w, __m256i a) {
  return _mm256_dpbusd_avx_epi32(sum, w, a);
}
#define BYTES_ABOVE_ZERO 127
#else
// One after the other: a compiler that adds them up in another order (gcc) runs out of registers for those that wait.
INLINE __m256i in_order(__m256i sums) {
  __asm__("" : "+x"(sums));
  return sums;
}
// Products of two bytes are added in 16 bits, where as many fit as MOST_OF_PAIRS says.
INLINE __m256i pairs_half(__m256i pairs, __m256i w, __m256i a) {
  return in_order(_mm256_add_epi16(pairs, _mm256_maddubs_epi16(w, a)));
}
INLINE __m256i settled_half(__m256i sum, __m256i pairs) {
  return in_order(_mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))));
}
// Two whole bytes would not fit. Those less 128 do, when their sign is the activation's.
INLINE __m256i dot_bytes_half(__m256i sum, __m256i w, __m256i a) {
  __m256i code = _mm256_xor_si256(w, _mm256_set1_epi8(-128));
  return settled_half(sum, _mm256_maddubs_epi16(_mm256_abs_epi8(code), _mm256_sign_epi8(a, code)));
}
#define BYTES_ABOVE_ZERO (-1)
#endif
// Sums in the making, which a step of four values of K is added to, and which are added to those of a group. What the largest
// codes of their steps may add up to: each may meet 127 twice, and all of that has to stay below 2^15.
enum { MOST_OF_PAIRS = 32767 / (2 * 127) };
// What a sum in the making begins with: here it is added to `sum` when it is settled.
INLINE ivec ivec_begun(ivec sum) { return ivec_set(0); }
INLINE ivec ivec_pairs(ivec pairs, ivec w, ivec a) {
  return (ivec){pairs_half(pairs.lo, w.lo, a.lo), pairs_half(pairs.hi, w.hi, a.hi)};
}
INLINE ivec ivec_settled(ivec sum, ivec pairs) {
  return (ivec){settled_half(sum.lo, pairs.lo), settled_half(sum.hi, pairs.hi)};
}
INLINE ivec ivec_dot_nibbles(ivec sum, ivec w, ivec a) {
  return ivec_settled(sum, ivec_pairs(ivec_set(0), w, a));
}
INLINE ivec ivec_dot_bytes(ivec sum, ivec w, ivec a) {
  return (ivec){dot_bytes_half(sum.lo, w.lo, a.lo), dot_bytes_half(sum.hi, w.hi, a.hi)};
}
// By the i-th four of sixteen bytes.
INLINE ivec four_of(const uint8_t *sixteen, const int64_t i) {
  int32_t four;
  memcpy(&four, sixteen + 4 * i, 4);
  return ivec_set(four);
}
INLINE ivec ivec_pairs_of(ivec pairs, ivec w, const uint8_t *sixteen, const int64_t i) {
  return ivec_pairs(pairs, w, four_of(sixteen, i));
}
INLINE ivec ivec_dot_bytes_of(ivec sum, ivec w, const uint8_t *sixteen, const int64_t i) {
  return ivec_dot_bytes(sum, w, four_of(sixteen, i));
}

#define TILE_ROWS 1
// Of codes, tiles of more than ROWS_OF_BOTH rows are half as wide, and so many rows' sums in the making fill eight. From
// LEAST_CHUNKED rows on they take chunks.
#define NARROW_ROWS 4
enum { ROWS_OF_BOTH = 2, LEAST_CHUNKED = 1 };

// Vectors of float sums that attention, and products of floats, keep in registers at a time.
#define SUMS_TOGETHER 4

#endif
