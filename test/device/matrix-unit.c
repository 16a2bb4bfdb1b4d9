// A matrix unit (AMX) for processors without one: linked into a program, or loaded before it, this takes the signal that each
// of the unit's instructions raises there, does the instruction's work on tiles in memory, and goes on behind it. So the very
// kernels that are served run wherever there is AVX-512, some thousand times slower. What real hardware faults on (tiles used
// before they are configured, shapes that do not meet, one register twice) ends the program with a sentence.
//
// The instructions and their arithmetic: Intel's manual, volume 2, LDTILECFG to TILEZERO. Each thread has its own tiles.
#define _GNU_SOURCE
#ifndef __clang__
#pragma GCC optimize("O2")  // whatever the kernels are built with
#endif
#include <errno.h>
#include <immintrin.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { TILES = 8, ROWS = 16, ROW_BYTES = 64 };

struct configuration {
  uint8_t palette, start_row, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};

union tile {
  int8_t bytes[ROWS][ROW_BYTES];
  int32_t integers[ROWS][ROW_BYTES / 4];
  float floats[ROWS][ROW_BYTES / 4];
  uint16_t halves[ROWS][ROW_BYTES / 2];
};

static __thread struct configuration shape;
static __thread union tile tiles[TILES];

static _Noreturn void refuse(const char *why) {
  static const char before[] = "matrix unit: ";
  if (write(2, before, sizeof before - 1) < 0 || write(2, why, strlen(why)) < 0) _exit(3);
  abort();
}
static void demand(int is_so, const char *why) {
  if (!is_so) refuse(why);
}

static void configure(const struct configuration *wanted) {
  demand(wanted->palette == 1 && wanted->start_row == 0, "a configuration of another palette\n");
  for (int i = 0; i < 14; i++) demand(wanted->reserved[i] == 0, "reserved bytes that are set\n");
  for (int i = 0; i < 16; i++) {
    const int is_used = wanted->rows[i] > 0;
    demand(wanted->rows[i] <= ROWS && wanted->row_bytes[i] <= ROW_BYTES &&
               is_used == (wanted->row_bytes[i] > 0) && (i < TILES || !is_used),
           "a tile of a shape that there is not\n");
  }
  shape = *wanted;
  memset(tiles, 0, sizeof tiles);
}

static void release(void) {
  memset(&shape, 0, sizeof shape);
  memset(tiles, 0, sizeof tiles);
}

static union tile *tile_of(int index) {
  demand(index < TILES && shape.palette == 1 && shape.rows[index] > 0,
         "a tile that is not configured\n");
  return &tiles[index];
}

// Rows beyond a tile's own, and bytes beyond a row's, become zero.
static void load(int index, const uint8_t *from, int64_t stride) {
  union tile *to = tile_of(index);
  memset(to, 0, sizeof *to);
  for (int r = 0; r < shape.rows[index]; r++)
    memcpy(to->bytes[r], from + r * stride, shape.row_bytes[index]);
}

static void store(int index, uint8_t *to, int64_t stride) {
  const union tile *from = tile_of(index);
  for (int r = 0; r < shape.rows[index]; r++)
    memcpy(to + r * stride, from->bytes[r], shape.row_bytes[index]);
}

struct operands {
  union tile *sum;
  const union tile *rows, *columns;
  int height, width, depth;  // of the sum in numbers; of K in four bytes
};

static struct operands operands_of(int sum, int rows, int columns) {
  struct operands o = {tile_of(sum),
                       tile_of(rows),
                       tile_of(columns),
                       shape.rows[sum],
                       shape.row_bytes[sum] / 4,
                       shape.row_bytes[rows] / 4};
  demand(sum != rows && sum != columns && rows != columns, "one tile in two places\n");
  demand(shape.row_bytes[sum] % 4 == 0 && shape.row_bytes[rows] % 4 == 0 &&
             shape.rows[rows] == o.height && shape.rows[columns] == o.depth &&
             shape.row_bytes[columns] == shape.row_bytes[sum],
         "tiles whose shapes do not meet\n");
  return o;
}

static __m512i wide_halves(__m256i bytes, int is_signed) {
  return is_signed ? _mm512_cvtepi8_epi16(bytes) : _mm512_cvtepu8_epi16(bytes);
}

// Products of bytes, four at a time, of eight columns in a vector: two of each, whose sum fits, side by side. Sums wrap.
static void dot_bytes(struct operands o, int is_signed_rows, int is_signed_columns) {
  for (int m = 0; m < o.height; m++) {
    __m512i sums[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
    for (int k = 0; k < o.depth; k++) {
      int16_t four[4];
      for (int i = 0; i < 4; i++) {
        const int8_t a = o.rows->bytes[m][4 * k + i];
        four[i] = is_signed_rows ? a : (uint8_t)a;
      }
      int64_t all;
      memcpy(&all, four, sizeof all);
      const __m512i row = _mm512_set1_epi64(all);
      for (int half = 0; half < 2; half++) {
        const void *from = o.columns->bytes[k] + 32 * half;
        const __m512i columns = wide_halves(_mm256_loadu_si256(from), is_signed_columns);
        sums[half] = _mm512_add_epi32(sums[half], _mm512_madd_epi16(columns, row));
      }
    }
    uint32_t pairs[32];
    memcpy(pairs, sums, sizeof pairs);
    for (int n = 0; n < o.width; n++)
      o.sum->integers[m][n] =
          (int32_t)((uint32_t)o.sum->integers[m][n] + pairs[2 * n] + pairs[2 * n + 1]);
  }
}

static float widened(uint16_t bf16) {
  const uint32_t bits = (uint32_t)bf16 << 16;
  float f;
  memcpy(&f, &bits, 4);
  return f;
}

// Even and odd numbers of a row add up apart, fused, then with each other, then with what was there: sixteen columns in a vector.
// Numbers too small to be normal count as zero; that is set here for all of it and ends with the signal.
static void dot_bf16(struct operands o) {
  enum { NEAREST_FLUSHED = 0x9fc0 };
  _mm_setcsr(NEAREST_FLUSHED);
  for (int m = 0; m < o.height; m++) {
    __m512 apart[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
    for (int k = 0; k < o.depth; k++) {
      const __m512i both = _mm512_loadu_si512(o.columns->halves[k]);
      const __m512i columns[2] = {_mm512_slli_epi32(both, 16),
                                  _mm512_and_si512(both, _mm512_set1_epi32((int)0xffff0000))};
      for (int i = 0; i < 2; i++) {
        const __m512 row = _mm512_set1_ps(widened(o.rows->halves[m][2 * k + i]));
        apart[i] = _mm512_fmadd_ps(row, _mm512_castsi512_ps(columns[i]), apart[i]);
      }
    }
    const __mmask16 own = (__mmask16)((1u << o.width) - 1);
    const __m512 sum = _mm512_add_ps(apart[0], apart[1]),
                 before = _mm512_loadu_ps(o.sum->floats[m]);
    _mm512_mask_storeu_ps(o.sum->floats[m], own, _mm512_add_ps(before, sum));
  }
}

// ------------------------------------------------------------------ instructions

// The general register that an instruction numbers so.
static int64_t general(const ucontext_t *context, int number) {
  static const int named[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                REG_R12, REG_R13, REG_R14, REG_R15};
  return context->uc_mcontext.gregs[named[number]];
}

struct place {
  int64_t base, index;
  int scale, bytes;  // of the instruction's text
};

// A place in memory as ModRM and what follows name it; `at` is ModRM, `rex_x` and `rex_b` are the prefix's, as they stand.
static struct place place_of(const ucontext_t *context, const uint8_t *at, int rex_x, int rex_b) {
  const int mode = at[0] >> 6, low = at[0] & 7;
  struct place p = {.bytes = 1};
  int base = low, index = 4;
  if (low == 4) {
    p.scale = 1 << (at[1] >> 6);
    index = (at[1] >> 3 & 7) + 8 * rex_x;
    base = at[1] & 7;
    p.bytes = 2;
  }
  demand(!(mode == 0 && base == 5), "an address without a base\n");
  p.base = general(context, base + 8 * rex_b);
  if (index != 4) p.index = general(context, index);
  if (mode == 1) p.base += (int8_t)at[p.bytes], p.bytes += 1;
  if (mode == 2) {
    int32_t displacement;
    memcpy(&displacement, at + p.bytes, 4);
    p.base += displacement, p.bytes += 4;
  }
  return p;
}

// Does the work of the instruction at `text`; its length, or 0 where it is none of the unit's.
static int execute(const ucontext_t *context, const uint8_t *text) {
  enum { NONE, P66, F3, F2 };
  if (text[0] != 0xc4 || (text[1] & 0x1f) != 2 || (text[2] & 0x84) != 0) return 0;
  const int prefix = text[2] & 3, third = ~(text[2] >> 3) & 15, opcode = text[3];
  const int rex_x = !(text[1] & 0x40), rex_b = !(text[1] & 0x20);
  const int in_register = text[4] >> 6 == 3, reg = text[4] >> 3 & 7, rm = text[4] & 7;
  if (opcode == 0x49 && in_register) {
    if (prefix == NONE)
      release();
    else if (prefix == F2)
      memset(tile_of(reg), 0, sizeof(union tile));
    else
      return 0;
    return 5;
  }
  if (opcode == 0x49 && prefix == NONE) {
    const struct place p = place_of(context, text + 4, rex_x, rex_b);
    configure((const struct configuration *)(p.base + p.index * p.scale));
    return 4 + p.bytes;
  }
  if (opcode == 0x4b && !in_register) {
    const struct place p = place_of(context, text + 4, rex_x, rex_b);
    if (prefix == F3)
      store(reg, (uint8_t *)p.base, p.index * p.scale);
    else if (prefix != NONE)
      load(reg, (const uint8_t *)p.base, p.index * p.scale);
    else
      return 0;
    return 4 + p.bytes;
  }
  if (!in_register) return 0;
  if (opcode == 0x5e)
    dot_bytes(operands_of(reg, rm, third), prefix == F3 || prefix == F2,
              prefix == P66 || prefix == F2);
  else if (opcode == 0x5c && prefix == F3)
    dot_bf16(operands_of(reg, rm, third));
  else
    return 0;
  return 5;
}

static int64_t signals;

static void on_illegal(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info;
  __atomic_fetch_add(&signals, 1, __ATOMIC_RELAXED);
  greg_t *next = &((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
  int length = execute(context, (const uint8_t *)*next);
  demand(length > 0, "an instruction that is not the unit's\n");
  // Those right behind it spare a signal each.
  for (; length > 0; length = execute(context, (const uint8_t *)*next)) *next += length;
}

__attribute__((constructor)) static void begin(void) {
  struct sigaction action = {.sa_sigaction = on_illegal, .sa_flags = SA_SIGINFO};
  sigaction(SIGILL, &action, NULL);
}

// A program that never came to the unit tells nobody anything about it.
__attribute__((destructor)) static void end(void) {
  if (signals > 0) fprintf(stderr, "matrix unit: %" PRId64 " signals\n", signals);
}

// The C library's own, but that a process which asks for tiles has them.
__attribute__((visibility("default"))) long syscall(long number, ...) {
  enum { REQUEST_PERMISSION = 0x1023 };
  long a[6];
  va_list list;
  va_start(list, number);
  for (int i = 0; i < 6; i++) a[i] = va_arg(list, long);
  va_end(list);
  if (number == SYS_arch_prctl && a[0] == REQUEST_PERMISSION) return 0;
  long result;
  register long d __asm__("r10") = a[3];
  register long e __asm__("r8") = a[4];
  register long f __asm__("r9") = a[5];
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(d), "r"(e), "r"(f)
                   : "rcx", "r11", "memory");
  if (result >= 0 || result < -4095) return result;
  errno = (int)-result;
  return -1;
}
