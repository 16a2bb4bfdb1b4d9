// Sixteen floats or integers at a time, in four NEON registers. The names are those of every folder beside this one, and
// so are the reduction trees. Needs the dot product extension (ARMv8.2); its operands are both signed, so weight bytes
// are flipped to code - 128 on the way in and the activations are added once instead of taken off 127 times.
#ifndef SINTER_VECTOR_H
#define SINTER_VECTOR_H

#include <arm_neon.h>
#include <stdint.h>

#define INLINE static inline __attribute__((always_inline))
// Unrolled in so many words: gcc 12 keeps an array of registers in memory, and adds to it there, while a loop runs over it.
#define QUARTERS(i) _Pragma("GCC unroll 4") for (int i = 0; i < 4; i++)

typedef struct {
  float32x4_t q[4];
} vec;
typedef struct {
  int32x4_t q[4];
} ivec;

#define BINARY(name, instruction)                     \
  INLINE vec name(vec a, vec b) {                     \
    vec r;                                            \
    QUARTERS(i) r.q[i] = instruction(a.q[i], b.q[i]); \
    return r;                                         \
  }
BINARY(vec_add, vaddq_f32)
BINARY(vec_sub, vsubq_f32)
BINARY(vec_mul, vmulq_f32)
BINARY(vec_div, vdivq_f32)
#undef BINARY

INLINE vec vec_set(float x) {
  vec r;
  QUARTERS(i) r.q[i] = vdupq_n_f32(x);
  return r;
}
INLINE vec vec_zero(void) { return vec_set(0); }
INLINE vec vec_load(const float *p) {
  vec r;
  QUARTERS(i) r.q[i] = vld1q_f32(p + 4 * i);
  return r;
}
INLINE void vec_store(float *p, vec v) { QUARTERS(i) vst1q_f32(p + 4 * i, v.q[i]); }

// The second operand wins where either is NaN, as on x86.
INLINE vec vec_max(vec a, vec b) {
  vec r;
  QUARTERS(i) r.q[i] = vbslq_f32(vcgtq_f32(a.q[i], b.q[i]), a.q[i], b.q[i]);
  return r;
}
INLINE vec vec_min(vec a, vec b) {
  vec r;
  QUARTERS(i) r.q[i] = vbslq_f32(vcltq_f32(a.q[i], b.q[i]), a.q[i], b.q[i]);
  return r;
}
INLINE vec vec_abs(vec a) {
  vec r;
  QUARTERS(i) r.q[i] = vabsq_f32(a.q[i]);
  return r;
}
INLINE vec vec_fma(vec a, vec b, vec c) {
  vec r;
  QUARTERS(i) r.q[i] = vfmaq_f32(c.q[i], a.q[i], b.q[i]);
  return r;
}

INLINE vec vec_keep(vec value, vec x, vec limit) {
  vec r;
  QUARTERS(i) r.q[i] = vbslq_f32(vcgeq_f32(x.q[i], limit.q[i]), value.q[i], vdupq_n_f32(0));
  return r;
}

INLINE vec vec_choose(uint32_t bits, vec value, vec other) {
  static const uint32_t each[4] = {1, 2, 4, 8};
  vec r;
  QUARTERS(i)
  r.q[i] =
      vbslq_f32(vtstq_u32(vdupq_n_u32(bits >> (4 * i)), vld1q_u32(each)), value.q[i], other.q[i]);
  return r;
}

INLINE vec vec_scale2(vec p, vec n) {
  vec r;
  QUARTERS(i)
  r.q[i] = vreinterpretq_f32_s32(
      vaddq_s32(vreinterpretq_s32_f32(p.q[i]), vshlq_n_s32(vreinterpretq_s32_f32(n.q[i]), 23)));
  return r;
}

INLINE float vec_total(vec v) {
  float32x4_t a = vaddq_f32(vaddq_f32(v.q[0], v.q[2]), vaddq_f32(v.q[1], v.q[3]));
  float32x2_t b = vadd_f32(vget_low_f32(a), vget_high_f32(a));
  return vget_lane_f32(b, 0) + vget_lane_f32(b, 1);
}
INLINE float vec_largest(vec v) {
  return vmaxvq_f32(vmaxq_f32(vmaxq_f32(v.q[0], v.q[2]), vmaxq_f32(v.q[1], v.q[3])));
}

INLINE vec vec_load_f16(const uint16_t *p) {
  vec r;
  QUARTERS(i) r.q[i] = vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 4 * i)));
  return r;
}
// Floats of 8 bits (e4m3) as 2^-8 of what they are: moved up, with their sign in the bits 15 and 14, where it goes once.
INLINE vec vec_load_e4m3(const uint8_t *p) {
  int8x16_t bytes = vreinterpretq_s8_u8(vld1q_u8(p));
  int16x8_t moved[] = {vshll_n_s8(vget_low_s8(bytes), 7), vshll_n_s8(vget_high_s8(bytes), 7)};
  vec r;
  QUARTERS(i) {
    int16x4_t four = i & 1 ? vget_high_s16(moved[i / 2]) : vget_low_s16(moved[i / 2]);
    r.q[i] = vcvt_f32_f16(vreinterpret_f16_s16(vand_s16(four, vdup_n_s16((short)0xbfff))));
  }
  return r;
}
INLINE void vec_store_f16(uint16_t *p, vec v) {
  QUARTERS(i) vst1_u16(p + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32(v.q[i])));
}
INLINE vec vec_load_bf16(const uint16_t *p) {
  vec r;
  QUARTERS(i) r.q[i] = vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p + 4 * i), 16));
  return r;
}
INLINE void vec_store_bf16(uint16_t *p, vec v) {
  QUARTERS(i) {
    uint32x4_t x = vreinterpretq_u32_f32(v.q[i]);
    uint32x4_t odd = vandq_u32(vshrq_n_u32(x, 16), vdupq_n_u32(1));
    uint32x4_t rounded = vaddq_u32(x, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
    uint32x4_t number = vceqq_f32(v.q[i], v.q[i]);
    rounded = vbslq_u32(number, rounded, vdupq_n_u32(0x7fc00000));
    vst1_u16(p + 4 * i, vshrn_n_u32(rounded, 16));
  }
}

// Sixteen signed bytes as floats.
INLINE vec vec_load_i8(const int8_t *p) {
  int8x16_t bytes = vld1q_s8(p);
  int16x8_t lo = vmovl_s8(vget_low_s8(bytes)), hi = vmovl_s8(vget_high_s8(bytes));
  return (vec){
      {vcvtq_f32_s32(vmovl_s16(vget_low_s16(lo))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(lo))),
       vcvtq_f32_s32(vmovl_s16(vget_low_s16(hi))), vcvtq_f32_s32(vmovl_s16(vget_high_s16(hi)))}};
}
INLINE void vec_store_i8(int8_t *p, vec v) {
  int16x8_t lo =
      vcombine_s16(vqmovn_s32(vcvtnq_s32_f32(v.q[0])), vqmovn_s32(vcvtnq_s32_f32(v.q[1])));
  int16x8_t hi =
      vcombine_s16(vqmovn_s32(vcvtnq_s32_f32(v.q[2])), vqmovn_s32(vcvtnq_s32_f32(v.q[3])));
  vst1q_s8(p, vcombine_s8(vqmovn_s16(lo), vqmovn_s16(hi)));
}

INLINE ivec ivec_set(int32_t x) {
  ivec r;
  QUARTERS(i) r.q[i] = vdupq_n_s32(x);
  return r;
}
INLINE ivec ivec_load(const void *p) {
  ivec r;
  QUARTERS(i) r.q[i] = vreinterpretq_s32_u8(vld1q_u8((const uint8_t *)p + 16 * i));
  return r;
}
INLINE vec vec_from_ivec(ivec v) {
  vec r;
  QUARTERS(i) r.q[i] = vcvtq_f32_s32(v.q[i]);
  return r;
}
INLINE ivec ivec_low_nibbles(ivec v) {
  ivec r;
  QUARTERS(i) r.q[i] = vandq_s32(v.q[i], vdupq_n_s32(0x0f0f0f0f));
  return r;
}
INLINE ivec ivec_high_nibbles(ivec v) {
  ivec r;
  QUARTERS(i) r.q[i] = vreinterpretq_s32_u8(vshrq_n_u8(vreinterpretq_u8_s32(v.q[i]), 4));
  return r;
}
INLINE ivec ivec_with_upper(ivec nibbles, ivec upper, const int i) {
  const int8x16_t by = vdupq_n_s8((int8_t)(4 - 2 * i));
  ivec r;
  QUARTERS(k) {
    uint8x16_t there = vshlq_u8(vreinterpretq_u8_s32(upper.q[k]), by);
    r.q[k] = vorrq_s32(nibbles.q[k], vreinterpretq_s32_u8(vandq_u8(there, vdupq_n_u8(0x30))));
  }
  return r;
}
INLINE ivec ivec_look_up(const uint8_t *table, ivec nibbles) {
  const uint8x16_t all = vld1q_u8(table);
  ivec r;
  QUARTERS(i)
  r.q[i] = vreinterpretq_s32_u8(vqtbl1q_u8(all, vreinterpretq_u8_s32(nibbles.q[i])));
  return r;
}
INLINE ivec ivec_dot_nibbles(ivec sum, ivec w, ivec a) {
  ivec r;
  QUARTERS(i)
  r.q[i] = vdotq_s32(sum.q[i], vreinterpretq_s8_s32(w.q[i]), vreinterpretq_s8_s32(a.q[i]));
  return r;
}
INLINE ivec ivec_dot_bytes(ivec sum, ivec w, ivec a) {
  ivec r;
  QUARTERS(i) {
    int8x16_t code = vreinterpretq_s8_u8(veorq_u8(vreinterpretq_u8_s32(w.q[i]), vdupq_n_u8(128)));
    r.q[i] = vdotq_s32(sum.q[i], code, vreinterpretq_s8_s32(a.q[i]));
  }
  return r;
}
#define BYTES_ABOVE_ZERO (-1)
// By the i-th four of sixteen bytes. One register holds them all, and i is part of the instruction.
#define BY_LANE(sum, w, bytes, i)                                                  \
  (i == 0   ? vdotq_laneq_s32(sum, w, bytes, 0)                                    \
   : i == 1 ? vdotq_laneq_s32(sum, w, bytes, 1)                                    \
   : i == 2 ? vdotq_laneq_s32(sum, w, bytes, 2)                                    \
            : vdotq_laneq_s32(sum, w, bytes, 3))
INLINE ivec ivec_pairs_of(ivec pairs, ivec w, const uint8_t *sixteen, const int64_t i) {
  const int8x16_t bytes = vld1q_s8((const int8_t *)sixteen);
  ivec r;
  QUARTERS(k) r.q[k] = BY_LANE(pairs.q[k], vreinterpretq_s8_s32(w.q[k]), bytes, i);
  return r;
}
INLINE ivec ivec_dot_bytes_of(ivec sum, ivec w, const uint8_t *sixteen, const int64_t i) {
  ivec code;
  QUARTERS(k)
  code.q[k] = vreinterpretq_s32_u8(veorq_u8(vreinterpretq_u8_s32(w.q[k]), vdupq_n_u8(128)));
  return ivec_pairs_of(sum, code, sixteen, i);
}
// Sums in the making are the sums themselves: a dot product is exact in one instruction.
enum { MOST_OF_PAIRS = 1 << 15 };
INLINE ivec ivec_begun(ivec sum) { return sum; }
INLINE ivec ivec_settled(ivec sum, ivec pairs) { return pairs; }

// One row's integer and float sums fill half of the 32 registers.
#define TILE_ROWS 1
// Of codes, tiles of more than ROWS_OF_BOTH rows are half as wide, and so many rows' integer sums fill half of the registers.
// From LEAST_CHUNKED rows on they take chunks.
#define NARROW_ROWS 4
enum { ROWS_OF_BOTH = 1, LEAST_CHUNKED = 2 };

// Vectors of float sums that attention, and products of floats, keep in registers at a time.
#define SUMS_TOGETHER 4

#endif
