// Sixteen floats or integers at a time, in one AVX-512 register. Every folder beside this one defines the same names over
// other registers, and every reduction is the same tree everywhere: lane i with i + 8, then + 4, + 2, + 1.
// Compiled with -ffp-contract=off: a fused multiply-add happens where vec_fma is written and nowhere else.
#ifndef SINTER_VECTOR_H
#define SINTER_VECTOR_H

// As for AVX2 (../avx2/vector.h), we pass for the whole of gcc's immintrin.h, which takes it a tenth of a second of each
// file: most of it is vectors of 128 and 256 bits with masks, whose header alone names the masks of 32.
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 11 && __GNUC__ <= 12
#define _IMMINTRIN_H_INCLUDED
typedef unsigned int __mmask32;
#include <smmintrin.h>
#include <avxintrin.h>
#include <avx2intrin.h>
#include <avx512fintrin.h>
#include <avx512bwintrin.h>
#include <avx512dqintrin.h>
#include <avx512vnniintrin.h>
#include <f16cintrin.h>
#include <fmaintrin.h>
#ifdef __AMX_TILE__
#include <amxtileintrin.h>
#include <amxint8intrin.h>
#include <amxbf16intrin.h>
#endif
#else
#include <immintrin.h>
#endif
#include <stdint.h>

#define INLINE static inline __attribute__((always_inline))

typedef __m512 vec;
typedef __m512i ivec;

INLINE vec vec_zero(void) { return _mm512_setzero_ps(); }
INLINE vec vec_set(float x) { return _mm512_set1_ps(x); }
INLINE vec vec_load(const float *p) { return _mm512_loadu_ps(p); }
INLINE void vec_store(float *p, vec v) { _mm512_storeu_ps(p, v); }
INLINE vec vec_add(vec a, vec b) { return _mm512_add_ps(a, b); }
INLINE vec vec_sub(vec a, vec b) { return _mm512_sub_ps(a, b); }
INLINE vec vec_mul(vec a, vec b) { return _mm512_mul_ps(a, b); }
INLINE vec vec_div(vec a, vec b) { return _mm512_div_ps(a, b); }
INLINE vec vec_max(vec a, vec b) { return _mm512_max_ps(a, b); }
INLINE vec vec_min(vec a, vec b) { return _mm512_min_ps(a, b); }
INLINE vec vec_abs(vec a) { return _mm512_abs_ps(a); }

// a * b + c, rounded once.
INLINE vec vec_fma(vec a, vec b, vec c) { return _mm512_fmadd_ps(a, b, c); }

// Where x >= limit the value, elsewhere +0.
INLINE vec vec_keep(vec value, vec x, vec limit) {
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, limit, _CMP_GE_OQ), value);
}

// Lanes whose bit is set keep the value, the others take `other`.
INLINE vec vec_choose(uint32_t bits, vec value, vec other) {
  return _mm512_mask_mov_ps(other, (__mmask16)bits, value);
}

// p * 2^n for n that was made an integer by adding 1.5 * 2^23: its low bits are n, and they are added to the exponent.
INLINE vec vec_scale2(vec p, vec n) {
  return _mm512_castsi512_ps(
      _mm512_add_epi32(_mm512_castps_si512(p), _mm512_slli_epi32(_mm512_castps_si512(n), 23)));
}

INLINE float vec_total(vec v) {
  __m256 a = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  b = _mm_add_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}

INLINE float vec_largest(vec v) {
  __m256 a = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  b = _mm_max_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}

INLINE vec vec_load_f16(const uint16_t *p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
// Floats of 8 bits (e4m3) as 2^-8 of what they are: moved up, with their sign in the bits 15 and 14, where it goes once.
INLINE vec vec_load_e4m3(const uint8_t *p) {
  __m256i bytes = _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)p));
  return _mm512_cvtph_ps(
      _mm256_and_si256(_mm256_slli_epi16(bytes, 7), _mm256_set1_epi16((short)0xbfff)));
}
INLINE void vec_store_f16(uint16_t *p, vec v) {
  _mm256_storeu_si256((__m256i *)p,
                      _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
INLINE vec vec_load_bf16(const uint16_t *p) {
  return _mm512_castsi512_ps(
      _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16));
}
// Halves to even; a NaN whose payload sat in the low half keeps its quiet bit.
INLINE void vec_store_bf16(uint16_t *p, vec v) {
  __m512i x = _mm512_castps_si512(v);
  __m512i odd = _mm512_and_si512(_mm512_srli_epi32(x, 16), _mm512_set1_epi32(1));
  __m512i rounded = _mm512_add_epi32(x, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  __mmask16 nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  rounded = _mm512_mask_mov_epi32(rounded, nan, _mm512_set1_epi32(0x7fc00000));
  _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
}

// Sixteen signed bytes as floats.
INLINE vec vec_load_i8(const int8_t *p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)p)));
}
// Sixteen bytes out: each lane rounded to the nearest integer, halves to even. Lanes must lie within a byte.
INLINE void vec_store_i8(int8_t *p, vec v) {
  _mm_storeu_si128((__m128i *)p, _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(v)));
}

INLINE ivec ivec_set(int32_t x) { return _mm512_set1_epi32(x); }
INLINE ivec ivec_load(const void *p) { return _mm512_loadu_si512(p); }
INLINE vec vec_from_ivec(ivec v) { return _mm512_cvtepi32_ps(v); }
INLINE ivec ivec_low_nibbles(ivec v) { return _mm512_and_si512(v, _mm512_set1_epi8(15)); }
INLINE ivec ivec_high_nibbles(ivec v) {
  return _mm512_and_si512(_mm512_srli_epi32(v, 4), _mm512_set1_epi8(15));
}
// Nibbles with two bits more above them, which are the i-th two of the other's bytes.
INLINE ivec ivec_with_upper(ivec nibbles, ivec upper, const int i) {
  enum { EITHER = 0xf8 };  // nibbles | (there & 0x30)
  ivec there = i < 2 ? _mm512_slli_epi32(upper, 4 - 2 * i) : _mm512_srli_epi32(upper, 2 * i - 4);
  return _mm512_ternarylogic_epi32(nibbles, there, _mm512_set1_epi8(0x30), EITHER);
}
// The bytes of a table of sixteen that nibbles name.
INLINE ivec ivec_look_up(const uint8_t *table, ivec nibbles) {
  __m512i all = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)table));
  return _mm512_shuffle_epi8(all, nibbles);
}

// What products are made of: each lane gains four unsigned bytes of w times four signed bytes of a. Exact.
INLINE ivec ivec_dot_nibbles(ivec sum, ivec w, ivec a) { return _mm512_dpbusd_epi32(sum, w, a); }
INLINE ivec ivec_dot_bytes(ivec sum, ivec w, ivec a) { return _mm512_dpbusd_epi32(sum, w, a); }
// Bytes are weights plus 127; this many times the sum of the activations is taken off beforehand.
#define BYTES_ABOVE_ZERO 127

// Rows of activations that one pass over a panel serves: 6 x 2 integer and 6 x 2 float sums fill 24 of 32 registers.
#define TILE_ROWS 6

// Vectors of float sums that attention, and products of floats, keep in registers at a time.
#define SUMS_TOGETHER 16

#endif
