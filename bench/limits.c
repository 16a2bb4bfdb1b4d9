// What this machine can do at most, right now: how fast all threads together read memory, and how many 8-bit operations
// they do a second, with vectors and where there is one with the matrix unit. Prints a line of JSON. Every figure of a benchmark run is put beside these.
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "abi.h"
#include "tiles.h"
#include "vector.h"

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

enum { PIECE = 1 << 20, PIECES = 512 };
static uint8_t *memory;
static volatile float kept[64];

// All lanes, or a compiler leaves out those that nobody asks for.
static void keep(vec sums, int32_t thread) {
  float lanes[16], total = 0;
  vec_store(lanes, sums);
  for (int i = 0; i < 16; i++) total += lanes[i];
  kept[thread % 64] = total;
}

static void read_piece(void *context, int64_t index, int32_t thread) {
  (void)context;
  ivec sum[4] = {ivec_set(0), ivec_set(0), ivec_set(0), ivec_set(0)};
  const ivec one = ivec_set(0x01010101);
  for (const uint8_t *p = memory + index * PIECE, *end = p + PIECE; p < end; p += 256) {
    // Fetched a little ahead, or some processors read but four fifths of what they can.
    for (int line = 0; line < 4; line++) __builtin_prefetch(p + 1024 + 64 * line);
    sum[0] = ivec_dot_nibbles(sum[0], ivec_load(p), one);
    sum[1] = ivec_dot_nibbles(sum[1], ivec_load(p + 64), one);
    sum[2] = ivec_dot_nibbles(sum[2], ivec_load(p + 128), one);
    sum[3] = ivec_dot_nibbles(sum[3], ivec_load(p + 192), one);
  }
  keep(vec_add(vec_add(vec_from_ivec(sum[0]), vec_from_ivec(sum[1])),
               vec_add(vec_from_ivec(sum[2]), vec_from_ivec(sum[3]))),
       thread);
}

// As many sums as registers hold, and products are added up as the kernels do. Weights come from the first cache every time:
// where multiplying is an instruction by itself, what stays the same would be multiplied once.
#ifdef NARROW_ROWS
enum { CHAINS = NARROW_ROWS, STEPS = 8 };
#define BEGUN(sum) ivec_set(0)
#define ADDED(part, w, a) ivec_pairs(part, w, a)
#define ENDED(sum, part) ivec_settled(sum, part)
#else
enum { CHAINS = 12, STEPS = 1 };
#define BEGUN(sum) sum
#define ADDED(part, w, a) ivec_dot_nibbles(part, w, a)
#define ENDED(sum, part) part
#endif
enum { TURNS = 200000 };
static _Alignas(64) uint8_t weights[CHAINS * 64];  // a load across two lines takes twice as long
static void multiply(void *context, int64_t index, int32_t thread) {
  (void)context;
  const ivec a = ivec_set(0x04030201 + thread);
  ivec sum[CHAINS], part[CHAINS];
#pragma GCC unroll 12
  for (int c = 0; c < CHAINS; c++) sum[c] = ivec_set((int32_t)index + c);
  for (int turn = 0; turn < TURNS / STEPS; turn++) {
#pragma GCC unroll 12
    for (int c = 0; c < CHAINS; c++) part[c] = BEGUN(sum[c]);
#pragma GCC unroll 8
    for (int step = 0; step < STEPS; step++) {
      __asm__ volatile("" ::"r"(weights) : "memory");
#pragma GCC unroll 12
      for (int c = 0; c < CHAINS; c++) part[c] = ADDED(part[c], ivec_load(weights + 64 * c), a);
    }
#pragma GCC unroll 12
    for (int c = 0; c < CHAINS; c++) sum[c] = ENDED(sum[c], part[c]);
  }
  vec total = vec_zero();
#pragma GCC unroll 12
  for (int c = 0; c < CHAINS; c++) total = vec_add(total, vec_from_ivec(sum[c]));
  keep(total, thread);
}

// The matrix unit's own peak: full tiles, four sums that do not wait for each other, nothing leaving a tile.
enum { TILE_OPERATIONS = 16 * 16 * 64 * 2 };
static void multiply_tiles(void *context, int64_t index, int32_t thread) {
  (void)context, (void)index, (void)thread;
#ifdef __AMX_INT8__
  struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  } shape = {.palette = 1};
  for (int i = 0; i < 8; i++) shape.rows[i] = 16, shape.row_bytes[i] = 64;
  __asm__ volatile("ldtilecfg %0" ::"m"(shape));
  __asm__ volatile("tilezero %%tmm4; tilezero %%tmm5" ::);
  for (int turn = 0; turn < TURNS / 8; turn++)
    __asm__ volatile(
        "tdpbssd %%tmm5, %%tmm4, %%tmm0; tdpbssd %%tmm5, %%tmm4, %%tmm1;"
        "tdpbssd %%tmm5, %%tmm4, %%tmm2; tdpbssd %%tmm5, %%tmm4, %%tmm3" ::);
  __asm__ volatile("tilerelease" ::);
#endif
}

static double quickest(sinter_host *host, int64_t count, void (*body)(void *, int64_t, int32_t)) {
  double best = 1e9;
  for (int round = 0; round < 5; round++) {
    double start = now();
    host->parallel_for(host, count, body, NULL);
    double took = now() - start;
    if (took < best) best = took;
  }
  return best;
}

int main(int count, char **values) {
  int32_t threads = count > 1 ? atoi(values[1]) : 2;
  sinter_host *host = sinter_host_open(threads);
  memory = host->allocate(host, (size_t)PIECE * PIECES);
  for (size_t i = 0; i < (size_t)PIECE * PIECES; i += 64) memory[i] = (uint8_t)i;
  double read = quickest(host, PIECES, read_piece),
         dot = quickest(host, 8 * threads, multiply),
         tiles = tiles_permitted() ? quickest(host, 8 * threads, multiply_tiles) : 0;
  printf("{\"read_gbs\": %.2f, \"int8_gops\": %.1f, \"matrix_gops\": %.1f}\n",
         (double)PIECE * PIECES / read * 1e-9, 8.0 * threads * TURNS * CHAINS * 128 / dot * 1e-9,
         tiles ? 8.0 * threads * (TURNS / 8) * 4 * TILE_OPERATIONS / tiles * 1e-9 : 0);
  return 0;
}
