// Every kernel against plain scalar code in double precision, at awkward sizes, and against itself: a row's bits must not
// depend on its company. Built once per instruction set and run as a program of its own, so that the sanitizers see it.
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "abi.h"
#include "attention_tiles.h"
#include "elementary.h"
#include "indexer.h"
#include "rows.h"
#include "single.h"
#include "system.h"

#ifdef BRIEF  // for emulators: fewer of the random cases, all of the sizes
enum { ROUNDS = 2000, ANGLES = 20000, COMPANIES = 7 };
#else
enum { ROUNDS = 20000, ANGLES = 200000, COMPANIES = 1 };
#endif

static int failures;
static const char *part = "";
static void expect(int holds, const char *what, double a, double b) {
  if (holds) return;
  if (failures++ < 20) printf("FAIL %s: %s (%.9g, %.9g)\n", part, what, a, b);
}
static void near(double got, double want, double scale, double tolerance, const char *what) {
  expect(fabs(got - want) <= tolerance * scale, what, got, want);
}

static uint64_t state = 1;
static uint32_t random_bits(void) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(state >> 32);
}
static float uniform(void) { return (float)(random_bits() >> 8) * 0x1p-23f - 1.0f; }

// Memory that ends where the sanitizer looks: exactly as large as asked for, aligned for vectors.
static void *memory(size_t bytes) {
  void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
  memset(p, 0, (bytes + 63) / 64 * 64);
  return p;
}

// ------------------------------------------------------------------ numbers

static double half_value(uint16_t h) {
  int exponent = h >> 10 & 31, fraction = h & 1023;
  double magnitude = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
  return h & 0x8000 ? -magnitude : magnitude;
}

static double e4m3_value(uint8_t b) {
  int exponent = b >> 3 & 15, fraction = b & 7;
  double magnitude = exponent ? ldexp(8 + fraction, exponent - 10) : ldexp(fraction, -9);
  return b & 0x80 ? -magnitude : magnitude;
}

static void numbers(void) {
  part = "numbers";
  for (uint32_t first = 0; first < 65536; first += 16) {
    uint16_t in[16], out[16];
    float lanes[16];
    for (uint32_t i = 0; i < 16; i++) in[i] = (uint16_t)(first + i);
    vec_store(lanes, vec_load_f16(in));
    vec_store_f16(out, vec_load_f16(in));
    for (int i = 0; i < 16; i++) {
      if ((in[i] & 0x7c00) == 0x7c00) continue;  // infinities and NaNs
      expect(lanes[i] == half_value(in[i]), "f16 to float", lanes[i], half_value(in[i]));
      expect(out[i] == in[i], "f16 there and back", out[i], in[i]);
    }
    vec_store(lanes, vec_load_i8((int8_t *)in));
    for (int i = 0; i < 16; i++)
      expect(lanes[i] == ((int8_t *)in)[i], "byte to float", lanes[i], ((int8_t *)in)[i]);
    const uint8_t *bytes = (uint8_t *)in;
    vec_store(lanes, vec_load_e4m3(bytes));
    for (int i = 0; i < 16; i++)
      if ((bytes[i] & 0x7f) != 0x7f)
        expect(lanes[i] * E4M3_SCALE == e4m3_value(bytes[i]), "e4m3 to float", lanes[i],
               e4m3_value(bytes[i]));
    vec_store(lanes, vec_load_bf16(in));
    vec_store_bf16(out, vec_load_bf16(in));
    for (int i = 0; i < 16; i++)
      if ((in[i] & 0x7f80) != 0x7f80) expect(out[i] == in[i], "bf16 there and back", out[i], in[i]);
  }
  for (int round = 0; round < ROUNDS; round++) {
    float in[16], back[16];
    uint16_t half[16], brain[16];
    for (int i = 0; i < 16; i++) in[i] = uniform() * exp2f((float)(random_bits() % 40) - 25);
    vec_store_f16(half, vec_load(in));
    vec_store_bf16(brain, vec_load(in));
    for (int i = 0; i < 16; i++) {
      // Nearest, and of two nearest the even one: neither neighbour may be closer.
      double error = fabs(half_value(half[i]) - in[i]);
      uint16_t magnitude = half[i] & 0x7fff;
      if (magnitude >= 0x7bff) continue;
      double above = fabs(fabs(half_value(magnitude + 1)) - fabs((double)in[i]));
      double below = magnitude ? fabs(fabs(half_value(magnitude - 1)) - fabs((double)in[i])) : 1;
      expect(error < above || (error == above && !(magnitude & 1)), "f16 rounding",
             half_value(half[i]), in[i]);
      expect(error < below || (error == below && !(magnitude & 1)), "f16 rounding",
             half_value(half[i]), in[i]);
    }
    vec_store(back, vec_load_bf16(brain));
    for (int i = 0; i < 16; i++) near(back[i], in[i], fabs(in[i]), 0x1p-8, "bf16 rounding");
    // The tree of every instruction set: i with i + 8, + 4, + 2, + 1.
    float tree[16], largest = in[0];
    memcpy(tree, in, sizeof tree);
    for (int span = 8; span; span /= 2)
      for (int i = 0; i < span; i++) tree[i] += tree[i + span];
    for (int i = 1; i < 16; i++) largest = in[i] > largest ? in[i] : largest;
    expect(vec_total(vec_load(in)) == tree[0], "total", vec_total(vec_load(in)), tree[0]);
    expect(vec_largest(vec_load(in)) == largest, "largest", vec_largest(vec_load(in)), largest);
  }
}

static void functions(void) {
  part = "functions";
  for (double x = -86.9; x < 88; x += 0.00137)
    near(exp_of((float)x), exp((double)(float)x), exp(x), 4e-7, "exp");
  expect(exp_of(0) == 1, "exp(0)", exp_of(0), 1);
  expect(exp_of(-88) == 0, "exp far below", exp_of(-88), 0);
  expect(exp_of(-INFINITY) == 0, "exp(-inf)", exp_of(-INFINITY), 0);
  for (double x = -86.9; x <= 0; x += 0.00137)
    near(exp_single((float)x), exp((double)(float)x), exp(x), 2.4e-7, "exp, single");
  expect(exp_single(0) == 1, "exp(0), single", exp_single(0), 1);
  for (double x = 1e-37; x < 1e37; x *= 1.00123)
    near(log_single((float)x), log((float)x), fabs(log(x)) + 1, 3e-7, "log, single");
  for (double x = 1e-9; x < 1e9; x *= 1.0123)
    near(log_double(x), log(x), fabs(log(x)) + 1, 1e-15, "log, double");
  for (int i = 0; i < ANGLES; i++) {
    double angle =
        (double)(random_bits() % 131072) * pow(10000.0, -(double)(random_bits() % 64) / 64);
    float c, s;
    turn(angle, &c, &s);
    near(c, cos(angle), 1, 1e-7, "cosine");
    near(s, sin(angle), 1, 1e-7, "sine");
  }
}

static float first(vec v) {
  float lanes[16];
  vec_store(lanes, v);
  return lanes[0];
}

static void elementwise(void) {
  part = "elementwise";
  for (double at = -40; at < 40; at += 0.00731) {
    float given = (float)at;
    double x = given, size = fabs(x) + 1;
    vec v = vec_set(given);
    near(first(vec_silu(v)), x / (1 + exp(-x)), size, 4e-7, "silu");
    near(first(vec_gelu(v)), x * (1 + erf(x / sqrt(2))) / 2, size, 4e-7, "gelu");
    double inner = sqrt(2 / M_PI) * (x + 0.044715 * x * x * x);
    near(first(vec_gelu_tanh(v)), x * (1 + tanh(inner)) / 2, size, 4e-7, "gelu_tanh");
    near(first(vec_quick_gelu(v)), x / (1 + exp(-1.702 * x)), size, 4e-7, "quick_gelu");
    near(first(vec_relu2(v)), x > 0 ? x * x : 0, size, 1e-6 * size, "relu2");
    near(first(vec_above(v, 5.5f)), x > 5.5 ? x - 5.5 : 0, size, 4e-7, "above");
    near(first(vec_clip(v, 5.5f)), fmax(-5.5, fmin(x, 5.5)), size, 0, "clip");
    near(first(vec_exp_gap(v)), x < 0 ? expm1(x) - x : 0, size, 4e-7, "exp_gap");
    near(first(vec_softplus(v)), log1p(exp(x)), size, 4e-7, "softplus");
    near(first(vec_exponential(v)), exp(x), exp(x), 4e-7, "exp");
    near(first(vec_sigmoid(v)), 1 / (1 + exp(-x)), 1, 4e-7, "sigmoid");
    near(first(vec_cap(v, 5.5f)), 5.5 * tanh(x / 5.5), 5.5, 4e-7, "cap");
    if (x > 0) near(first(vec_inverse_root(v, 5.5f)), 1 / sqrt(x + 5.5), 1, 4e-7, "inverse_root");
  }
  // What is no number shows, whichever way it went through.
  const float bad[] = {NAN, INFINITY, -INFINITY};
  for (int i = 0; i < 3; i++) {
    vec v = vec_set(bad[i]);
    const float results[] = {first(vec_silu(v)),      first(vec_gelu(v)),
                             first(vec_gelu_tanh(v)), first(vec_relu2(v)),
                             first(vec_sigmoid(v)),   first(vec_cap(v, 5.5f)),
                             first(vec_quick_gelu(v)), first(vec_exp_gap(v)),
                             first(vec_softplus(v)),   first(vec_above(v, 5.5f)),
                             first(vec_clip(v, 5.5f)), first(vec_exponential(v)),
                             first(vec_inverse_root(v, 5.5f))};
    for (int f = 0; f < 13; f++) expect(!isfinite(results[f]), "not finite", results[f], NAN);
  }
}

// ------------------------------------------------------------------ rows

static void rows(void) {
  part = "rows";
  static const int widths[] = {1, 12, 16, 40, 63, 64, 72, 200, 384, 2048};
  for (size_t w = 0; w < sizeof widths / sizeof *widths; w++) {
    int n = widths[w];
    int64_t stride = round_up(n, 32);
    float *x = memory(stride * 4), *y = memory(stride * 4), *weight = memory(stride * 4);
    for (int i = 0; i < n; i++) x[i] = uniform() * 3, weight[i] = uniform();
    double squares = 0;
    for (int i = 0; i < n; i++) squares += (double)x[i] * x[i];
    norm_row(x, weight, 1e-5f, n, y);
    for (int i = 0; i < n; i++)
      near(y[i], x[i] / sqrt(squares / n + 1e-5f) * weight[i], 3, 1e-6, "norm");
    for (int64_t i = n; i < stride; i++) expect(y[i] == 0, "norm's padding", y[i], 0);

    for (int group = 32; group <= 40; group += 8) {
      uint8_t *q = memory(quantized_bytes(n, group)), *scaled = memory(quantized_bytes(n, group));
      quantize_row(x, n, group, (struct kept_sums){7, 0}, q);
      for (int g = 0; g * group < n; g++) {
        float largest = 0, scale;
        int32_t start, sum = 0;
        for (int i = g * group; i < n && i < (g + 1) * group; i++)
          largest = fmaxf(largest, fabsf(x[i]));
        memcpy(&scale, q + quantized_scales(n, group) + 4 * g, 4);
        memcpy(&start, q + quantized_starts(n, group) + 4 * g, 4);
        near(scale, largest / 127, 1, 1e-7, "scale");
        for (int i = g * group; i < (g + 1) * group; i++) {
          int8_t code = (int8_t)q[i];
          sum += code;
          if (i < n)
            near(code * scale, x[i], scale, 0.501, "code");
          else
            expect(code == 0, "tail code", code, 0);
        }
        expect(start == -7 * sum, "start", start, -7 * sum);
        quantize_row(x, n, group, (struct kept_sums){-1, 1}, scaled);
        const float times = load_float(scaled + quantized_starts(n, group) + 4 * g);
        expect(times == scale * (float)sum, "scaled sum", times, scale * (float)sum);
      }
      x[n - 1] = NAN;
      quantize_row(x, n, group, (struct kept_sums){7, 0}, q);
      float scale;
      memcpy(&scale, q + quantized_scales(n, group) + 4 * ((n - 1) / group), 4);
      expect(isnan(scale), "NaN must show", scale, 0);
      x[n - 1] = 1;
      free(q), free(scaled);
    }
    free(x), free(y), free(weight);
  }
}

// ------------------------------------------------------------------ products

static double stored_number(enum number n, const uint8_t *p) {
  if (n == F32) {
    float x;
    memcpy(&x, p, 4);
    return x;
  }
  uint16_t h;
  memcpy(&h, p, 2);
  if (n == F16) return half_value(h);
  uint32_t bits = (uint32_t)h << 16;
  float x;
  memcpy(&x, &bits, 4);
  return x;
}
static void store_number(enum number n, uint8_t *p, float x) {
  float sixteen[16] = {x};
  uint8_t out[64];
  vec_store_number(n, out, vec_load(sixteen));
  memcpy(p, out, number_size(n));
}

static int tiles;  // whether the matrix unit may be used

// Rows as the matrix unit takes them.
static uint8_t *rows_as_planes(const float *x, int64_t columns, int64_t stride, int64_t count) {
  uint8_t *planes = memory((size_t)((count + PLANES_BEHIND) * planes_bytes(columns)));
#ifdef __AMX_BF16__
  for (int64_t r = 0; r < count; r++)
    split_row(x + r * stride, columns, planes + r * planes_bytes(columns));
#endif
  return planes;
}

// Shapes are no constants here; one copy of the kernel serves them all.
static __attribute__((noinline)) void multiply(struct panels w, int64_t in_stride,
                                               const struct product *p) {
  const int64_t end = panels_count(w);
  for (int64_t i = 0; i < end;)
    i += product_panel(w, w.grouped, w.columns >= 72, in_stride, p, i, end);
}

static float rounded_half(float x) {
  uint8_t half[2];
  store_number(F16, half, x);
  return (float)stored_number(F16, half);
}

static void product_case(struct panels w, enum epilogue e) {
  size_t size = number_size(w.number);
  int64_t rows = w.rows, columns = w.columns, out_columns = is_gated(e) ? w.pair : rows;
  uint8_t *arena = memory(panels_bytes(w));
  double *values = memory((size_t)(rows * columns) * 8);
  for (int64_t r = 0; r < rows; r++) {
    if (w.grouped) {
      int64_t words_count = panels_words(w), groups = panels_groups(w);
      uint32_t *words = calloc((size_t)words_count, 4);
      uint8_t *scales = calloc(panels_scale_bytes(w), 1);
      int per = codes_per_word(w.codes), bits = code_bits(w.codes);
      const uint8_t *minimums = scales + (size_t)groups * size;
      float factor[2] = {0.001f * uniform(), 0.001f * uniform()};
      for (int64_t g = 0; g < groups * (w.minimums ? 2 : 1); g++) {
        if (w.block && g % groups % w.block == 0) factor[g >= groups] *= 1.1f;
        // As a half, or a part of one, times any byte, which a float can say.
        float multiple = rounded_half(factor[g >= groups]) * (float)(int8_t)random_bits() /
                         (float)(w.part ? w.part : 1);
        store_number(w.number, scales + (size_t)g * size,
                     w.block ? multiple : 0.01f + 0.01f * uniform());
      }
      const uint32_t codes = has_table(w.codes)   ? 16
                             : w.codes == CODES_6 ? 64
                             : w.zero             ? (uint32_t)(2 * w.zero - (w.zero % 8 == 0) + 1)
                                                  : 16;
      uint32_t largest = 0;
      for (uint32_t code = 1; code < codes; code++)
        if (code_number(w, code) > code_number(w, largest)) largest = code;
      for (int64_t k = 0; k < columns; k++) {
        const uint32_t code = r ? random_bits() % codes : largest;
        words[k / w.group * (w.group / per) + k % w.group / per] |= code
                                                                    << k % w.group % per * bits;
        values[r * columns + k] = (code_number(w, code) - w.zero) *
                                  stored_number(w.number, scales + (size_t)(k / w.group) * size);
        if (w.minimums)
          values[r * columns + k] +=
              stored_number(w.number, minimums + (size_t)(k / w.group) * size);
      }
      expect(pack_codes(w, arena, r, 1, (uint8_t *)words, scales), "packed", (double)r, 0);
      free(words), free(scales);
    } else {
      uint8_t *stored = calloc((size_t)columns, size);
      for (int64_t k = 0; k < columns; k++) {
        store_number(w.number, stored + (size_t)k * size, uniform() * 0.1f);
        values[r * columns + k] = stored_number(w.number, stored + (size_t)k * size);
      }
      pack_floats(w, arena, r, 1, stored);
      free(stored);
    }
    float *back = memory((size_t)round_up(columns, 16) * 4);
    unpack_row(w, arena, r, F32, back);
    for (int64_t k = 0; k < columns; k++)
      near(back[k], values[r * columns + k], fabs(values[r * columns + k]) + (w.minimums ? 1 : 0),
           1e-7, "unpack");
    free(back);
  }

  enum { MAX_ROWS = 37 };
  int64_t in_stride = round_up(columns, 32),
          out_stride = round_up(out_columns, 32) + (is_gated(e) ? 0 : 32);
  int64_t row_bytes = w.grouped ? quantized_bytes(columns, w.group) : in_stride * 4;
  float *x = memory((size_t)(MAX_ROWS * in_stride) * 4),
        *bias = memory((size_t)panels_count(w) * PANEL * 4);
  // A tile of rows may read, and leave, some that lie behind the last.
  uint8_t *quantized = memory((size_t)((MAX_ROWS + TILES_BEHIND) * row_bytes));
  for (int64_t r = 0; r < MAX_ROWS; r++) {
    // The largest codes of both sides meet in the first row and column.
    for (int64_t k = 0; k < columns; k++) x[r * in_stride + k] = r ? uniform() : 1;
    if (w.grouped)
      quantize_row(x + r * in_stride, columns, w.group, quantized_sums(w),
                   quantized + r * row_bytes);
  }
  for (int64_t i = 0; i < (is_gated(e) ? 0 : rows); i++) bias[i] = uniform();
  float *first = memory((size_t)(MAX_ROWS * out_stride) * 4),
        *again = memory((size_t)(MAX_ROWS * out_stride) * 4);
  const int planes = !w.grouped && takes_planes(w.number, tiles);
  const uint8_t *in = w.grouped ? quantized
                      : planes  ? rows_as_planes(x, columns, in_stride, MAX_ROWS)
                                : (uint8_t *)x;
  struct product all = {.panels = arena,
                        .rows = in,
                        .count = MAX_ROWS,
                        .out = first,
                        .out_stride = out_stride,
                        .bias = bias,
                        .epilogue = e,
                        .tiles = tiles};
  for (int64_t i = 0; i < MAX_ROWS * out_stride; i++) first[i] = again[i] = 0.5f;
  multiply(w, in_stride, &all);

  for (int64_t r = 0; r < MAX_ROWS; r++)
    for (int64_t c = 0; c < out_columns; c++) {
      double sum[2] = {0, 0}, size_of = 0;
      for (int half = 0; half < (is_gated(e) ? 2 : 1); half++)
        for (int64_t k = 0; k < columns; k++) {
          double a = x[r * in_stride + k];
          if (w.grouped) {
            float scale;
            memcpy(
                &scale,
                quantized + r * row_bytes + quantized_scales(columns, w.group) + 4 * (k / w.group),
                4);
            a = (int8_t)quantized[r * row_bytes + k] * (double)scale;
          }
          double product = a * values[(c + half * w.pair) * columns + k];
          sum[half] += product, size_of += fabs(product);
        }
      double whole = sum[0] + bias[c];
      double want = is_gated(e)   ? sum[0] / (1 + exp(-sum[0])) * sum[1]
                    : is_under(e) ? 0.5 / (1 + exp(-0.5)) * whole
                    : is_activated(e) ? (whole > 0 ? whole * whole : 0)
                                  : whole + (e == ADD ? 0.5 : 0);
      near(first[r * out_stride + c], want, size_of + 1, planes ? 0x1p-17 : 2e-6, "product");
    }
  for (int64_t count = 1; count <= MAX_ROWS; count += COMPANIES) {
    for (int64_t from = 0; from + count <= MAX_ROWS; from += count) {
      struct product some = all;
      some.first = from, some.count = count, some.out = again,
      some.tiles = tiles && (planes || count % 2);
      for (int64_t i = 0; i < count * out_stride; i++) again[from * out_stride + i] = 0.5f;
      multiply(w, in_stride, &some);
      expect(!memcmp(again + from * out_stride, first + from * out_stride,
                     (size_t)(count * out_stride) * 4),
             "bits by company", (double)count, (double)from);
    }
  }
  // Any NaN shows in all of its row, and nowhere else.
  const int64_t broken = MAX_ROWS / 2;
  const uint32_t all_ones = 0x7fffffff;
  memcpy(x + broken * in_stride + columns / 2, &all_ones, 4);
  if (w.grouped)
    quantize_row(x + broken * in_stride, columns, w.group, quantized_sums(w),
                 quantized + broken * row_bytes);
  uint8_t *split = planes ? rows_as_planes(x, columns, in_stride, MAX_ROWS) : NULL;
  struct product with = all;
  with.rows = planes ? split : in, with.out = again;
  for (int64_t i = 0; i < MAX_ROWS * out_stride; i++) again[i] = 0.5f;
  multiply(w, in_stride, &with);
  for (int64_t r = 0; r < MAX_ROWS; r++)
    for (int64_t c = 0; c < out_columns; c++)
      expect(r == broken ? isnan(again[r * out_stride + c])
                         : again[r * out_stride + c] == first[r * out_stride + c],
             "a NaN shows", (double)r, again[r * out_stride + c]);
  free(split);
  if (planes) free((void *)in);
  free(arena), free(values), free(x), free(bias), free(quantized), free(first), free(again);
}

// A block's scales come back with their bits, or are refused.
static void multiples(void) {
  part = "multiples";
  const struct panels w = {.rows = 1,
                           .columns = 256,
                           .grouped = 1,
                           .codes = CODES_4,
                           .group = 32,
                           .number = F32,
                           .block = 8};
  static const float kept[][8] = {
      {0x1.554p-4f},
      {0x1.554p-4f * 63},
      {0x1.554p-4f * -127, 0x1.554p-4f * 127},
      {0x1p-24f * 33, 0x1p-24f * 66},
      {-128, 127, 3, -5, 0, 1, 64, 2},
      {128, -127, -3, 5, -0.0f, -1, -64, -2},
      {128, 64, 32},
      {0x1.554p-14f * 63, 0x1.554p-14f * 62, 0x1.554p-14f * 12},
      {-0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f, -0.0f},
      {INFINITY, -INFINITY, NAN, INFINITY, NAN, NAN, NAN, NAN},
  };
  static const float refused[][8] = {{0.1f},          {0x1p-25f},    {1, 129}, {1, 1.1f},
                                     {1e30f, 1e-30f}, {INFINITY, 1}, {-0.0f}};
  const uint32_t words[32] = {0};
  uint8_t *arena = memory(panels_bytes(w));
  for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
    expect(pack_codes(w, arena, 0, 1, (uint8_t *)words, (uint8_t *)kept[i]), "kept", (double)i, 0);
    for (int g = 0; g < 8; g++) {
      const float got = first(load_scales(w, arena, g, 0, 0));
      expect(isnan(got) ? isnan(kept[i][g]) : !memcmp(&got, &kept[i][g], 4), "multiple", got,
             kept[i][g]);
    }
  }
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
    expect(!pack_codes(w, arena, 0, 1, (uint8_t *)words, (uint8_t *)refused[i]), "refused",
           (double)i, 0);
  free(arena);
}

// More rows than the matrix unit takes in one pass, and a few that are left: bits as of the first and last rows alone.
static void long_product(struct panels w, int64_t count) {
  const int64_t stride = round_up(w.columns, 32), out_stride = round_up(w.rows, 32) + 32,
                row_bytes = w.grouped ? quantized_bytes(w.columns, w.group) : stride * 4,
                chosen[] = {0, 383, 384, count - 1};
  uint8_t *arena = memory(panels_bytes(w)),
          *in = memory((size_t)((count + TILES_BEHIND) * row_bytes));
  for (size_t i = 0; i + 1 < panels_bytes(w); i += 2)
    arena[i] = (uint8_t)random_bits(), arena[i + 1] = 0x2c;
  float *x = memory((size_t)(count * stride) * 4), *out = memory((size_t)(count * out_stride) * 4),
        *alone = memory((size_t)out_stride * 4);
  for (int64_t i = 0; i < count * stride; i++) x[i] = i % stride < w.columns ? uniform() : 0;
  for (int64_t r = 0; r < count; r++)
    if (w.grouped)
      quantize_row(x + r * stride, w.columns, w.group, quantized_sums(w), in + r * row_bytes);
    else
      memcpy(in + r * row_bytes, x + r * stride, (size_t)row_bytes);
  const int planes = !w.grouped && takes_planes(w.number, tiles);
  uint8_t *split = planes ? rows_as_planes(x, w.columns, stride, count) : NULL;
  struct product all = {.panels = arena,
                        .rows = planes ? split : in,
                        .count = count,
                        .out = out,
                        .out_stride = out_stride,
                        .tiles = tiles};
  multiply(w, stride, &all);
  for (int i = 0; i < 4; i++) {
    struct product one = all;
    uint8_t *own = planes ? rows_as_planes(x + chosen[i] * stride, w.columns, stride, 1) : NULL;
    one.rows = planes ? own : in + chosen[i] * row_bytes, one.count = 1, one.out = alone;
    multiply(w, stride, &one);
    expect(!memcmp(alone, out + chosen[i] * out_stride, (size_t)w.rows * 4), "bits of many rows",
           (double)count, (double)chosen[i]);
    free(own);
  }
  free(arena), free(in), free(x), free(out), free(alone), free(split);
}

static void products(void) {
  part = "long products";
  for (int64_t count = 390; count <= 410; count += 20) {
    long_product((struct panels){.rows = 40, .columns = 72, .number = F16}, count);
    long_product((struct panels){.rows = 40, .columns = 72, .number = BF16}, count);
    long_product((struct panels){.rows = 40,
                                 .columns = 72,
                                 .grouped = 1,
                                 .codes = CODES_4,
                                 .group = 32,
                                 .zero = 7,
                                 .number = F16},
                 count);
  }
  multiples();
  part = "products";
  static const int64_t heights[] = {1, 33, 96, 131}, widths[] = {12, 40, 72, 128, 648};
  for (int h = 0; h < 4; h++)
    for (int k = COMPANIES > 1 ? h % 2 : 0; k < 5; k += COMPANIES > 1 ? 2 : 1) {
      struct panels w = {.rows = heights[h], .columns = widths[k]};
      for (w.number = F32; w.number <= BF16; w.number++)
        product_case(w, w.number == F32 ? ADD : STORE);
      w.grouped = 1;
      for (w.codes = CODES_3; w.codes <= CODES_8; w.codes++) {
        w.group = w.codes == CODES_3 ? 40 : 32;
        w.zero = w.codes == CODES_3 ? 3 : w.codes == CODES_4 ? 7 : 127;
        w.number = F16;
        product_case(w, ADD);
        w.number = F32;
        product_case(w, STORE);
      }
      // What GGUF files hold beside those: other zeros, minimums, groups of 16.
      for (w.codes = CODES_4; w.codes <= CODES_8; w.codes++)
        for (w.group = 16; w.group <= 32; w.group += 16)
          for (w.minimums = 0; w.minimums < 2; w.minimums++) {
            w.zero = w.minimums ? 0 : w.codes == CODES_4 ? 8 : 128;
            w.number = w.group == 16 ? F32 : F16;
            product_case(w, w.group == 16 ? ADD : STORE);
          }
      // And codes of 6 bits, and scales that are multiples in blocks; whole blocks and the part of one.
      if (h != 1 || k == 0) continue;
      for (int i = 0; i < 8; i++) {
        w.codes = i & 1 ? CODES_6 : CODES_4;
        w.minimums = i >> 1 & 1;
        w.group = i & 4 ? 16 : 32;
        w.zero = w.minimums ? 0 : i & 1 ? 32 : 8;
        w.block = 256 / w.group, w.number = F32;
        product_case(w, STORE);
      }
      w = (struct panels){.rows = 33,
                          .columns = widths[k],
                          .grouped = 1,
                          .codes = CODES_6,
                          .group = 32,
                          .zero = 16,
                          .number = F16};
      product_case(w, ADD);
      // Bytes of a table.
      w.codes = CODES_IQ4, w.zero = 128;
      product_case(w, ADD);
      w.number = F32, w.block = 8;
      product_case(w, STORE);
      w.codes = CODES_E2M1, w.zero = 12, w.block = 0;
      product_case(w, STORE);
      w.codes = CODES_IQ3_S, w.zero = 15, w.block = 8;
      product_case(w, STORE);
      w.codes = CODES_IQ3_XXS, w.zero = 31, w.part = 2;
      product_case(w, ADD);
      w.codes = CODES_IQ2, w.zero = 43, w.part = 8, w.group = 16, w.block = 16;
      product_case(w, STORE);
    }
  for (int64_t half = 8; half <= 72; half += 32) {
    part = "paired products";
    product_case((struct panels){.rows = 2 * half, .pair = half, .columns = 72, .number = BF16},
                 GATED_SILU);
    product_case((struct panels){.rows = 2 * half,
                                 .pair = half,
                                 .columns = 72,
                                 .grouped = 1,
                                 .codes = CODES_4,
                                 .group = 32,
                                 .zero = 7,
                                 .number = F16},
                 GATED_SILU);
    part = "products under a gate";
    product_case((struct panels){.rows = half, .columns = 72, .number = F16}, UNDER_SILU);
    product_case((struct panels){.rows = half,
                                 .columns = 72,
                                 .grouped = 1,
                                 .codes = CODES_6,
                                 .group = 16,
                                 .zero = 32,
                                 .number = F32},
                 UNDER_SILU);
    part = "activated products";
    product_case((struct panels){.rows = half, .columns = 72, .number = F16}, ACTIVATED_RELU2);
  }
}

// ------------------------------------------------------------------ attention

// Column d of what was written for x as a key, or as a value, at a place of a block.
static double kept(struct attention a, const uint8_t *head, int64_t place, int values, int64_t d,
                   float x) {
  const int64_t at = values ? place * head_width(a.head_dim) + d : d * BLOCK + place;
  const uint8_t *number = head + (values ? keys_bytes(a) : 0) + (size_t)at * number_size(a.number);
  if (a.number != Q8) {
    uint8_t stored[64];
    store_number(a.number, stored, x);
    expect(!memcmp(stored, number, number_size(a.number)), "as written", x, 0);
    return stored_number(a.number, number);
  }
  float scale;
  memcpy(&scale, head + codes_bytes(a) + 4 * (values * BLOCK + place), 4);
  near((int8_t)*number * (double)scale, x, scale, 0.501, "code of a key or value");
  return (int8_t)*number * (double)scale;
}

// One copy of each kernel serves all shapes.
static __attribute__((noinline)) void attend_one(struct attention a, int with_tiles,
                                                 const struct attention_item *item, int64_t kv_head,
                                                 float *scratch) {
  attend_item(a, with_tiles, item, kv_head, scratch);
}
static __attribute__((noinline)) void write_one(struct attention a, uint8_t *head, int64_t place,
                                                const float *key, const float *value) {
  write_kv(a, head, place, key, value);
}

// Positions of an image, which see each other.
enum { IMAGE = 20, IMAGE_END = 47 };

// Every head has a score of what is not there, and biases, or none has.
static void attention_case(struct attention a, int with_tiles, int64_t length, int is_sunk) {
  // The matrix unit keeps 16 bits of queries and weights.
  const double tolerance = takes_planes(a.number, with_tiles) ? 0x1p-15 : 1e-5;
  int64_t width = head_width(a.head_dim), group = a.heads / a.kv_heads,
          blocks = (length + BLOCK - 1) / BLOCK;
  int64_t kv_stride = a.kv_heads * width, q_stride = a.heads * a.head_dim,
          out_stride = round_up(a.heads * a.head_dim, 32);
  // Blocks lie in no order, among others full of NaNs: what no query sees must not matter.
  uint8_t *cache = memory((size_t)(2 * blocks + 1) * block_bytes(a));
  memset(cache, 0xff, (size_t)(2 * blocks + 1) * block_bytes(a));
  int32_t *ids = memory((size_t)blocks * 4), *list = memory((size_t)(blocks + 1) * 4),
          *firsts = memory((size_t)length * 4), *lasts = memory((size_t)length * 4),
          *places = memory((size_t)length * 4);
  for (int64_t b = 0; b < blocks; b++) ids[b] = (int32_t)(2 * blocks - 2 * b);
  float *q = memory((size_t)(length * q_stride) * 4), *k = memory((size_t)(length * kv_stride) * 4);
  float *v = memory((size_t)(length * kv_stride) * 4);
  for (int64_t t = 0; t < length; t++) {
    places[t] = (int32_t)t;
    lasts[t] = t >= IMAGE && t < IMAGE_END && IMAGE_END <= length ? IMAGE_END - 1 : (int32_t)t;
    for (int64_t h = 0; h < a.heads; h++)
      for (int64_t d = 0; d < a.head_dim; d++) q[t * q_stride + h * a.head_dim + d] = uniform() * 2;
    for (int64_t h = 0; h < a.kv_heads; h++) {
      for (int64_t d = 0; d < a.head_dim; d++) {
        k[t * kv_stride + h * width + d] = uniform() * 2;
        v[t * kv_stride + h * width + d] = uniform();
      }
      write_one(a, block_head(a, cache, ids[t / BLOCK], h), t % BLOCK,
                k + t * kv_stride + h * width, v + t * kv_stride + h * width);
    }
  }
  double *keys = memory((size_t)(length * kv_stride) * 8),
         *values = memory((size_t)(length * kv_stride) * 8);
  for (int64_t t = 0; t < length; t++)
    for (int64_t h = 0; h < a.kv_heads; h++)
      for (int64_t d = 0; d < a.head_dim; d++) {
        const uint8_t *head = block_head(a, cache, ids[t / BLOCK], h);
        const int64_t at = t * kv_stride + h * width + d;
        keys[at] = kept(a, head, t % BLOCK, 0, d, k[at]);
        values[at] = kept(a, head, t % BLOCK, 1, d, v[at]);
      }
  float *sunk = is_sunk ? memory((size_t)a.heads * 4) : NULL;
  for (int64_t h = 0; is_sunk && h < a.heads; h++) sunk[h] = uniform() * 4;
  float *biases = memory((size_t)(a.heads * a.distances) * 4);
  for (int64_t i = 0; i < a.heads * a.distances; i++) biases[i] = uniform() * 4;
  float *whole = memory((size_t)(length * out_stride) * 4),
        *again = memory((size_t)(length * out_stride) * 4);
  float *scratch = memory((size_t)item_scratch(a) * 4);
  const int64_t most = item_positions(a, with_tiles), chunks[] = {1, 6, most};
  for (int i = 0; i < 3 && chunks[i] <= most; i++) {
    const int64_t chunk = chunks[i];
    float *out = chunk == 1 ? whole : again;
    for (int64_t t = 0; t < length; t += chunk) {
      int64_t tokens = length - t < chunk ? length - t : chunk;
      int64_t kept = a.window && t - a.window + 1 > 0 ? t - a.window + 1 : 0;
      // The list as the engine hands it over: the sinks' blocks, then those from `kept` on.
      int64_t sinks = (a.sinks + BLOCK - 1) / BLOCK,
              from = kept / BLOCK < sinks ? sinks : kept / BLOCK;
      memcpy(list, ids, (size_t)(sinks < blocks ? sinks : blocks) * 4);
      for (int64_t b = from; b < blocks; b++) list[sinks + b - from] = ids[b];
      for (int64_t i = t; i < t + tokens; i++) firsts[i] = (int32_t)first_seen(a, i, kept);
      struct attention_item item = {.cache = cache,
                                    .blocks = list,
                                    .firsts = firsts + t,
                                    .lasts = lasts + t,
                                    .positions = places + t,
                                    .tokens = tokens,
                                    .kept = kept,
                                    .query = q + t * q_stride,
                                    .query_stride = q_stride,
                                    .out = out + t * out_stride,
                                    .out_stride = out_stride,
                                    .sink_logits = sunk,
                                    .biases = biases};
      for (int64_t h = 0; h < a.kv_heads; h++) attend_one(a, with_tiles, &item, h, scratch);
    }
    if (out == again)
      expect(!memcmp(whole, again, (size_t)(length * out_stride) * 4), "bits by chunk",
             (double)chunk, 0);
  }
  double *weights = memory((size_t)length * 8);
  for (int64_t t = 0; t < length; t += t < 70 ? 1 : 13)
    for (int64_t h = 0; h < a.heads; h++) {
      double largest = sunk ? sunk[h] : -1e300;
      const float *query = q + t * q_stride + h * a.head_dim;
      for (int64_t s = 0; s <= lasts[t]; s++) {
        double dot = 0;
        for (int64_t d = 0; d < a.head_dim; d++)
          dot += query[d] * keys[s * kv_stride + h / group * width + d];
        int seen = !a.window || s > t - a.window || s < a.sinks;
        double bias = a.distances ? biases[h * a.distances + a.distances / 2 + s - t] : 0;
        weights[s] = seen ? dot * a.scale + bias : -INFINITY;
        if (weights[s] > largest) largest = weights[s];
      }
      double total = sunk ? exp(sunk[h] - largest) : 0;
      for (int64_t s = 0; s <= lasts[t]; s++) total += weights[s] = exp(weights[s] - largest);
      for (int64_t d = 0; d < a.head_dim; d++) {
        double sum = 0;
        for (int64_t s = 0; s <= lasts[t]; s++)
          if (weights[s]) sum += weights[s] / total * values[s * kv_stride + h / group * width + d];
        near(whole[t * out_stride + h * a.head_dim + d], sum, 1, tolerance, "attention");
      }
    }
  free(cache), free(ids), free(list), free(firsts), free(lasts), free(places), free(biases), free(q), free(k), free(v), free(keys),
      free(values), free(whole), free(again), free(scratch), free(weights), free(sunk);
}

// What an indexer has chosen, of keys that hold their values: packed, token by token, it has the bits that it has in its place, and what
// is not chosen may be no number.
static void chosen_case(enum number number, int64_t heads, int64_t dim, int64_t latent) {
  enum { LENGTH = 333, TOKENS = 5, BLOCKS = (LENGTH + BLOCK - 1) / BLOCK, STRIDE = BLOCKS + 3 };
  const struct attention a = {.heads = heads,
                              .kv_heads = 1,
                              .head_dim = dim,
                              .layers = 2,
                              .layer = 1,
                              .latent = latent,
                              .number = number,
                              .scale = 0.3f,
                              .sparse = 1};
  const int64_t stride = heads * dim, out_stride = heads * latent;
  uint8_t *cache = memory(BLOCKS * block_bytes(a));
  float *key = memory((size_t)head_width(dim) * 4), *q = memory((size_t)(TOKENS * stride) * 4),
        *chosen = memory(TOKENS * STRIDE * 4), *out = memory((size_t)(TOKENS * out_stride) * 4),
        *own = memory((size_t)(TOKENS * out_stride) * 4),
        *scratch = memory((size_t)item_scratch(a) * 4);
  int32_t ids[BLOCKS + 1] = {0}, firsts[TOKENS] = {0}, lasts[TOKENS];
  for (int32_t b = 0; b < BLOCKS; b++) ids[b] = BLOCKS - 1 - b;
  for (int64_t i = 0; i < TOKENS * stride; i++) q[i] = uniform() * 2;
  // Of the second 64 positions none, of the third all, of others every fifth or so.
  for (int64_t t = 0; t < TOKENS; t++) {
    lasts[t] = (int32_t)(LENGTH - TOKENS + t);
    for (int64_t i = 0; i <= lasts[t]; i++)
      if (i / STEP == 2 || (i / STEP != 1 && (i * 7 + t * 3 + i / 9) % 5 == 0))
        chosen[t * STRIDE + i / BLOCK] += (float)(1 << i % BLOCK);
  }
  for (int64_t i = 0; i < LENGTH; i++) {
    int seen = 0;
    for (int64_t t = 0; t < TOKENS; t++)
      seen |= (uint32_t)chosen[t * STRIDE + i / BLOCK] >> i % BLOCK & 1;
    for (int64_t d = 0; d < dim; d++) key[d] = seen ? uniform() * 2 : NAN;
    write_one(a, block_head(a, cache, ids[i / BLOCK], 0), i % BLOCK, key, key);
  }
  struct attention_item item = {.cache = cache,
                                .blocks = ids,
                                .firsts = firsts,
                                .lasts = lasts,
                                .positions = lasts,
                                .tokens = TOKENS,
                                .query = q,
                                .query_stride = stride,
                                .out = out,
                                .out_stride = out_stride,
                                .chosen = chosen,
                                .chosen_stride = STRIDE};
  expect(!sees_most(a, &item), "chosen positions are few", 0, 0);
  attend(a, &item, 0, scratch);
  item.out = own;
  attend_few(a, &item, 0, scratch);
  expect(!memcmp(out, own, (size_t)(TOKENS * out_stride) * 4), "bits of what is packed", number, 0);
  for (int64_t i = 0; i < TOKENS * out_stride; i++) expect(own[i] == own[i], "a number", own[i], 0);
  free(cache), free(key), free(q), free(chosen), free(out), free(own), free(scratch);
}

static void attentions(void) {
  part = "attention";
  for (enum number n = F32; n <= Q8; n++) chosen_case(n, n == F32 ? 7 : 5, 44, 34);
  static const int64_t dims[] = {12, 16, 64, 80, 128}, kv[] = {1, 2, 2, 1, 1},
                       groups[] = {6, 1, 4, 5, 2};
  for (int i = 0; i < 5; i++)
    for (enum number n = F32; n <= Q8; n++) {
      struct attention a = {.heads = kv[i] * groups[i],
                            .kv_heads = kv[i],
                            .head_dim = dims[i],
                            .layers = 2,
                            .layer = 1,
                            .number = n,
                            .scale = 0.3f};
      for (int with = 0; with <= takes_planes(a.number, tiles); with++) {
        if (COMPANIES > 1 && !with && (int)n != (i == 3 ? Q8 : i % 3)) continue;
        a.window = a.sinks = a.distances = 0;
        attention_case(a, with, i == 2 ? 300 : 70, 0);
        // As many as a context of that length has.
        a.distances = 2 * (i == 2 ? 320 : 128) - 1;
        attention_case(a, with, i == 2 ? 300 : 70, 1);
        a.distances = 0;
        a.window = 24;
        attention_case(a, with, 150, 1);
        a.sinks = 4;
        attention_case(a, with, 200, 0);
      }
    }
}

// All positions, in items as large as they may be.
static void attend_all(struct attention a, int with_tiles, struct attention_item all,
                       float *scratch) {
  const int64_t most = item_positions(a, with_tiles);
  for (int64_t t = 0; t < all.tokens; t += most) {
    struct attention_item item = all;
    item.tokens = all.tokens - t < most ? all.tokens - t : most;
    item.firsts += t, item.lasts += t, item.query += t * all.query_stride, item.out += t * all.out_stride;
    for (int64_t h = 0; h < a.kv_heads; h++) attend_one(a, with_tiles, &item, h, scratch);
  }
}

// One column of one key is no number. Who sees that position must get none, wherever it lies in a step and whatever the sign
// of its score; who does not must get the bits that it gets without.
static void broken_key_case(struct attention a, int with_tiles) {
  enum { LENGTH = 150, BLOCKS = (LENGTH + BLOCK - 1) / BLOCK };
  static const int64_t places[] = {0, 17, 47, 63, 64, 100, 149};
  static const float broken[] = {NAN, INFINITY, -INFINITY};
  const int64_t width = head_width(a.head_dim), stride = a.heads * a.head_dim;
  uint8_t *cache = memory(BLOCKS * block_bytes(a));
  int32_t ids[BLOCKS + 1] = {0}, firsts[LENGTH], positions[LENGTH];
  for (int32_t b = 0; b < BLOCKS; b++) ids[b] = b;
  float *k = memory((size_t)(LENGTH * width) * 4), *v = memory((size_t)(LENGTH * width) * 4),
        *q = memory((size_t)(LENGTH * stride) * 4), *sound = memory((size_t)(LENGTH * stride) * 4),
        *out = memory((size_t)(LENGTH * stride) * 4),
        *scratch = memory((size_t)item_scratch(a) * 4);
  for (int64_t i = 0; i < LENGTH * stride; i++) q[i] = uniform();
  for (int64_t i = 0; i < LENGTH * width; i++)
    if (i % width < a.head_dim) k[i] = uniform(), v[i] = uniform();
  for (int32_t t = 0; t < LENGTH; t++)
    positions[t] = t, firsts[t] = (int32_t)first_seen(a, t, 0);
  struct attention_item all = {.cache = cache,
                               .blocks = ids,
                               .firsts = firsts,
                               .lasts = positions,
                               .tokens = LENGTH,
                               .query = q,
                               .query_stride = stride,
                               .out = sound,
                               .out_stride = stride};
  for (int64_t t = 0; t < LENGTH; t++)
    write_one(a, block_head(a, cache, t / BLOCK, 0), t % BLOCK, k + t * width, v + t * width);
  attend_all(a, with_tiles, all, scratch);
  all.out = out;
  for (int i = 0; i < 7 * 3; i++) {
    const int64_t place = places[i / 3];
    float *column = k + place * width + 5 * (i % 3), was = *column;
    uint8_t *head = block_head(a, cache, place / BLOCK, 0);
    *column = broken[i % 3];
    write_one(a, head, place % BLOCK, k + place * width, v + place * width);
    attend_all(a, with_tiles, all, scratch);
    *column = was;
    write_one(a, head, place % BLOCK, k + place * width, v + place * width);
    for (int64_t t = 0; t < LENGTH; t++) {
      const int sees = t >= place && (!a.window || t - place < a.window || place < a.sinks);
      int numbers = 0, same = 1;
      for (int64_t j = t * stride; j < (t + 1) * stride; j++)
        numbers += out[j] == out[j], same &= out[j] == sound[j];
      if (sees)
        expect(numbers == 0, "a key that is no number must show", (double)t, broken[i % 3]);
      else
        expect(same, "a key that is no number and is not seen", (double)t, broken[i % 3]);
    }
  }
  free(cache), free(k), free(v), free(q), free(sound), free(out), free(scratch);
}

static void broken_keys(void) {
  part = "broken keys";
  for (enum number n = F32; n <= Q8; n++) {
    struct attention a = {
        .heads = 3, .kv_heads = 1, .head_dim = 40, .layers = 1, .number = n, .scale = 0.3f};
    for (int with = 0; with <= takes_planes(a.number, tiles); with++) {
      a.window = a.sinks = 0;
      broken_key_case(a, with);
      a.window = 24, a.sinks = 4;
      broken_key_case(a, with);
    }
  }
}

// ------------------------------------------------------------------ the pool

// ------------------------------------------------------------------ what an indexer chooses

static int comes_before(float a, float b) {
  if (a != a) a = -INFINITY;
  if (b != b) b = -INFINITY;
  return a > b;
}

// Scores of all kinds, and such of which most are equal; of as many as are chosen, of more, and of fewer.
static void choices(void) {
  part = "choices";
  enum { MOST = 300, TOP = 21, BLOCKS_OF_MOST = 20 };
  const int64_t counts[] = {1, TOP, TOP + 1, 100, MOST};
  for (int kind = 0; kind < 3; kind++)
    for (int c = 0; c < 5; c++) {
      const int64_t count = counts[c];
      float scores[MOST], chosen[BLOCKS_OF_MOST];
      for (int64_t i = 0; i < count; i++) {
        scores[i] = kind == 1 ? (float)(random_bits() % 3) - 1 : uniform() * 100;
        if (kind == 2 && i % 7 == 3) scores[i] = i % 2 ? NAN : i % 4 ? INFINITY : -INFINITY;
      }
      choose_positions(scores, count, TOP, chosen, BLOCKS_OF_MOST);
      for (int64_t i = 0; i < BLOCKS_OF_MOST * BLOCK; i++) {
        int64_t ahead = 0;
        for (int64_t j = 0; i < count && j < count; j++)
          ahead += comes_before(scores[j], scores[i]) ||
                   (j < i && !comes_before(scores[i], scores[j]));
        const int wanted = i < count && ahead < TOP;
        const int got = (int)chosen[i / BLOCK] >> (i % BLOCK) & 1;
        expect(got == wanted, "a position is chosen", got, wanted);
      }
    }
}

static int32_t visits[1000];
static void visit(void *context, int64_t index, int32_t thread) {
  (void)context, (void)thread;
  visits[index]++;
}

// Every seventh index asks the loop to stand back, and another loop has the pool meanwhile.
static int32_t word, ended;
static lock door;
static condition wake;
static sinter_host *both;
static void say(int32_t *what) {
  lock_take(&door);
  __atomic_store_n(what, 1, __ATOMIC_SEQ_CST);
  condition_tell_all(&wake);
  lock_give(&door);
}
static void interrupt(void *context, int64_t index, int32_t thread) {
  visit(context, index, thread);
  if (index % 7 == 0) say(&word);
}
// Asleep until it is asked: a thread that looks all the time takes more of the processor than all kernels.
static int is_asked(void) {
  lock_take(&door);
  while (!word && !ended) condition_await(&wake, &door);
  const int asked = !ended;
  lock_give(&door);
  return asked;
}
static void *go_first(void *unused) {
  while (is_asked()) {
    both->parallel_for(both, 100, visit, 0);
    __atomic_store_n(&word, 0, __ATOMIC_SEQ_CST);
  }
  return unused;
}

static void standing_back(int threads) {
  both = sinter_host_open(threads);
  memset(visits, 0, sizeof visits);
  ended = 0;
  lock_open(&door);
  condition_open(&wake);
  thread other;
  thread_start(&other, go_first, NULL);
  for (int round = 0; round < 20; round++) {
    both->stand_back(both, 900, interrupt, 0, &word);
    while (__atomic_load_n(&word, __ATOMIC_SEQ_CST)) let_others_run();
  }
  say(&ended);
  thread_await(other);
  for (int i = 100; i < 1000; i++) expect(visits[i] == (i < 900 ? 20 : 0), "once each", visits[i], i);
  expect(visits[0] >= 20 + 20 * 10, "others come between", visits[0], threads);
  sinter_host_close(both);
}

// Half of the stack that a thread asks for, from its near end on, so that what lies behind a shorter one is not reached.
static void go_deep(void *context, int64_t index, int32_t thread) {
  volatile uint8_t room[STACK / 2];
  for (int at = STACK / 2; at > 0; at -= PAGE) room[at - 1] = 1;
  if (room[PAGE - 1]) visit(context, index, thread);
}

static void pool(void) {
  part = "pool";
  for (int threads = 1; threads <= 4; threads++) {
    sinter_host *host = sinter_host_open(threads);
    memset(visits, 0, sizeof visits);
    for (int round = 0; round < 2000; round++) host->parallel_for(host, round % 1000, visit, 0);
    for (int i = 0; i < 1000; i++)
      expect(visits[i] == 2 * (999 - i), "visits", visits[i], 2 * (999 - i));
    memset(visits, 0, sizeof visits);
    for (int round = 0; round < 5; round++) host->parallel_for(host, 1000, go_deep, 0);
    for (int i = 0; i < 1000; i++) expect(visits[i] == 5, "deep visits", visits[i], i);
    uint8_t *large = host->allocate(host, (5 << 20) + 1);
    expect(large && (uintptr_t)large % (2 << 20) == 0, "huge pages", 0, 0);
    large[5 << 20] = 1;
    host->release(host, large, (5 << 20) + 1);
    sinter_host_close(host);
    standing_back(threads);
  }
}

int main(void) {
  tiles = tiles_permitted();
  numbers();
  functions();
  elementwise();
  rows();
  products();
  attentions();
  broken_keys();
  choices();
#ifndef KERNELS_ALONE  // the pool is the same for every instruction set
  pool();
#endif
  printf("%d failures\n", failures);
  return failures != 0;
}
