// A matrix unit (AMX) for processors without one: linked into a program, or loaded before it, this takes the signal that each
// of the unit's instructions raises there when it is first met, and puts a jump in its place, to code that does the instruction's
// work on tiles in memory and goes on behind it; a signal each time would take ten times what all the rest does. So the very
// kernels that are served run wherever there is AVX-512, some hundred times slower. What real hardware faults on (tiles used
// before they are configured, shapes that do not meet, one register twice) ends the program with a sentence.
//
// The instructions and their arithmetic: Intel's manual, volume 2, LDTILECFG to TILEZERO. Each thread has its own tiles.
#define _GNU_SOURCE
#ifndef __clang__
#pragma GCC optimize("O2")  // whatever the kernels are built with
#endif
#include <errno.h>
#include <immintrin.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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
// Numbers too small to be normal count as zero; that is set here for all of it and ends with the instruction.
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

enum operation { RELEASE, ZERO, CONFIGURE, LOAD, STORE, DOT_BYTES, DOT_BF16 };

struct instruction {
  enum operation operation;
  int tile, second, third;
  int is_signed_rows, is_signed_columns;
  int base, index, scale;  // registers by their numbers; index 4 is none
  int32_t displacement;
  int bytes;  // of its text
};

// A place in memory as ModRM and what follows name it; `at` is ModRM, `rex_x` and `rex_b` are the prefix's, as they stand.
static void read_place(struct instruction *it, const uint8_t *at, int rex_x, int rex_b) {
  const int mode = at[0] >> 6, low = at[0] & 7;
  int base = low, bytes = 1;
  it->index = 4;
  if (low == 4) {
    it->scale = 1 << (at[1] >> 6);
    it->index = (at[1] >> 3 & 7) + 8 * rex_x;
    base = at[1] & 7;
    bytes = 2;
  }
  demand(!(mode == 0 && base == 5), "an address without a base\n");
  it->base = base + 8 * rex_b;
  if (mode == 1) it->displacement = (int8_t)at[bytes], bytes += 1;
  if (mode == 2) memcpy(&it->displacement, at + bytes, 4), bytes += 4;
  it->bytes = 4 + bytes;
}

static struct instruction instruction_at(const uint8_t *text) {
  enum { NONE, P66, F3, F2 };
  static const char not_ours[] = "an instruction that is not the unit's\n";
  demand(text[0] == 0xc4 && (text[1] & 0x1f) == 2 && (text[2] & 0x84) == 0, not_ours);
  const int prefix = text[2] & 3, opcode = text[3], in_register = text[4] >> 6 == 3;
  struct instruction it = {.tile = text[4] >> 3 & 7,
                           .second = text[4] & 7,
                           .third = ~(text[2] >> 3) & 15,
                           .is_signed_rows = prefix == F3 || prefix == F2,
                           .is_signed_columns = prefix == P66 || prefix == F2,
                           .bytes = 5};
  if (!in_register) read_place(&it, text + 4, !(text[1] & 0x40), !(text[1] & 0x20));
  if (opcode == 0x49 && in_register && (prefix == NONE || prefix == F2))
    it.operation = prefix == NONE ? RELEASE : ZERO;
  else if (opcode == 0x49 && prefix == NONE)
    it.operation = CONFIGURE;
  else if (opcode == 0x4b && !in_register && prefix != NONE)
    it.operation = prefix == F3 ? STORE : LOAD;
  else if (opcode == 0x5e && in_register)
    it.operation = DOT_BYTES;
  else if (opcode == 0x5c && in_register && prefix == F3)
    it.operation = DOT_BF16;
  else
    refuse(not_ours);
  return it;
}

// General registers by their numbers, as `enter` leaves them on the stack.
struct registers {
  int64_t flags, general[16];
};

__attribute__((used)) static void execute(const struct registers *r, const struct instruction *it) {
  uint8_t *place = (uint8_t *)r->general[it->base] + it->displacement;
  const int64_t stride = it->index == 4 ? 0 : r->general[it->index] * it->scale;
  switch (it->operation) {
    case RELEASE:
      release();
      break;
    case ZERO:
      memset(tile_of(it->tile), 0, sizeof(union tile));
      break;
    case CONFIGURE:
      configure((const struct configuration *)(place + stride));
      break;
    case LOAD:
      load(it->tile, place, stride);
      break;
    case STORE:
      store(it->tile, place, stride);
      break;
    case DOT_BYTES:
      dot_bytes(operands_of(it->tile, it->second, it->third), it->is_signed_rows,
                it->is_signed_columns);
      break;
    case DOT_BF16:
      dot_bf16(operands_of(it->tile, it->second, it->third));
      break;
  }
}

// ------------------------------------------------------------------ jumps

// Keeps all registers, vectors and masks among them, and has `execute` do the work. Above them lie where it was called from and
// the instruction, then the 128 bytes that a function may use below its stack.
void matrix_unit_enter(void) __attribute__((visibility("hidden")));
__asm__(
    ".text\n"
    ".hidden matrix_unit_enter\n"
    ".globl matrix_unit_enter\n"
    "matrix_unit_enter:\n"
    "  push %r15\n  push %r14\n  push %r13\n  push %r12\n"
    "  push %r11\n  push %r10\n  push %r9\n  push %r8\n"
    "  push %rdi\n  push %rsi\n  push %rbp\n"
    "  push %rbx\n"  // the stack's own place, filled in below
    "  push %rbx\n  push %rdx\n  push %rcx\n  push %rax\n"
    "  pushfq\n"
    "  cld\n"
    "  lea 280(%rsp), %rax\n"  // 17 numbers, two addresses and 128 bytes above
    "  mov %rax, 40(%rsp)\n"
    "  mov %rsp, %rdi\n"
    "  mov 144(%rsp), %rsi\n"
    "  mov %rsp, %rbx\n"
    "  sub $4096, %rsp\n"
    "  and $-64, %rsp\n"
    "  movq $0, 512(%rsp)\n  movq $0, 520(%rsp)\n  movq $0, 528(%rsp)\n"
    "  mov $0xe7, %eax\n  xor %edx, %edx\n"
    "  xsave64 (%rsp)\n"
    "  call execute\n"
    "  mov $0xe7, %eax\n  xor %edx, %edx\n"
    "  xrstor64 (%rsp)\n"
    "  mov %rbx, %rsp\n"
    "  popfq\n"
    "  pop %rax\n  pop %rcx\n  pop %rdx\n  pop %rbx\n"
    "  lea 8(%rsp), %rsp\n"
    "  pop %rbp\n  pop %rsi\n  pop %rdi\n"
    "  pop %r8\n  pop %r9\n  pop %r10\n  pop %r11\n"
    "  pop %r12\n  pop %r13\n  pop %r14\n  pop %r15\n"
    "  ret\n");

// What a jump leads to: lea -128(%rsp),%rsp; push (instruction); call *(enter); lea 136(%rsp),%rsp; jmp *(behind).
struct landing {
  uint8_t code[40];
  void (*enter)(void);
  const struct instruction *instruction;
  const uint8_t *behind;
  struct instruction kept;
};

static const uint8_t landing_code[40] = {
    0x48, 0x8d, 0x64,    0x24, 0x80,           // at 0
    0xff, 0x35, 48 - 11, 0,    0,    0,        // at 5
    0xff, 0x15, 40 - 17, 0,    0,    0,        // at 11
    0x48, 0x8d, 0xa4,    0x24, 0x88, 0, 0, 0,  // at 17
    0xff, 0x25, 56 - 31, 0,    0,    0,        // at 25
};

enum { PAGE_BYTES = 4096, LANDINGS_BYTES = 1 << 16, NEAR = 1 << 30 };

static uint8_t *landings;  // of the last place where there was room
static size_t landings_used;

static int is_near(const uint8_t *a, const uint8_t *b) { return a - b < NEAR && b - a < NEAR; }

// Room for one within reach of a jump from `text`.
static struct landing *new_landing(const uint8_t *text) {
  if (!landings || landings_used + sizeof(struct landing) > LANDINGS_BYTES ||
      !is_near(landings, text)) {
    uint8_t *const page = (uint8_t *)((uintptr_t)text & -(uintptr_t)PAGE_BYTES);
    landings = MAP_FAILED;
    for (int64_t far = LANDINGS_BYTES; landings == MAP_FAILED && far < NEAR; far += LANDINGS_BYTES)
      for (int side = -1; landings == MAP_FAILED && side <= 1; side += 2)
        landings = mmap(page + side * far, LANDINGS_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    demand(landings != MAP_FAILED, "no room beside the program\n");
    landings_used = 0;
  }
  struct landing *const one = (struct landing *)(landings + landings_used);
  landings_used += sizeof *one;
  return one;
}

// All threads see what was written of the program's text from here on.
static void synchronize(void) {
  enum { SYNC_CORE = 1 << 5, REGISTER_SYNC_CORE = 1 << 6 };
  static int is_registered;
  if (!is_registered)
    demand(syscall(SYS_membarrier, REGISTER_SYNC_CORE, 0, 0) == 0, "no membarrier\n");
  is_registered = 1;
  demand(syscall(SYS_membarrier, SYNC_CORE, 0, 0) == 0, "no membarrier\n");
}

enum { JUMP = 0xe9, ILLEGAL = 0x06 };

// Puts the jump there. Other threads may be at that instruction: until all of it is written it begins with what is illegal.
static void replace(uint8_t *text) {
  const struct instruction it = instruction_at(text);
  struct landing *const one = new_landing(text);
  *one = (struct landing){
      .enter = matrix_unit_enter, .instruction = &one->kept, .behind = text + it.bytes, .kept = it};
  memcpy(one->code, landing_code, sizeof landing_code);
  uint8_t *const page = (uint8_t *)((uintptr_t)text & -(uintptr_t)PAGE_BYTES);
  const size_t bytes = (size_t)(text + 5 - page);
  demand(mprotect(page, bytes, PROT_READ | PROT_WRITE | PROT_EXEC) == 0,
         "the program's text stays as it is\n");
  __atomic_store_n(text, ILLEGAL, __ATOMIC_SEQ_CST);
  synchronize();
  const int32_t distance = (int32_t)(one->code - (text + 5));
  memcpy(text + 1, &distance, 4);
  synchronize();
  __atomic_store_n(text, JUMP, __ATOMIC_SEQ_CST);
  synchronize();
}

static void on_illegal(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info;
  static int turn, is_used;
  uint8_t *const text = (uint8_t *)((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
  while (__atomic_exchange_n(&turn, 1, __ATOMIC_ACQUIRE)) sched_yield();
  // A program that never came to the unit tells nobody anything about it.
  static const char words[] = "matrix unit: in use\n";
  if (!is_used && write(2, words, sizeof words - 1) < 0) _exit(3);
  is_used = 1;
  if (*text != JUMP) replace(text);  // else another thread was first
  __atomic_store_n(&turn, 0, __ATOMIC_RELEASE);
}

__attribute__((constructor)) static void begin(void) {
  struct sigaction action = {.sa_sigaction = on_illegal, .sa_flags = SA_SIGINFO};
  sigaction(SIGILL, &action, NULL);
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
