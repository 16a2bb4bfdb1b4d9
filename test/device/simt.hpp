// Runs the text of CUDA and HIP on a processor: a group of threads is a ring of fibres, each of which goes on to its next
// barrier. Fibres run in one order or another, so a barrier that is missing shows; shared memory begins as nonsense; a barrier
// that not all threads reach ends the run. It stands in for the compiler's builtins of HIP, which g++ has not.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <setjmp.h>
#include <ucontext.h>
#include <utility>
#include <vector>

namespace simt {

// Variables are static, and none is a template's: g++ gives inline ones a single address in the whole process, whatever library they
// come from, and several libraries run at once.

enum Order { forward, backward, shuffled };

/** Of a group's threads one: it goes from one group to the next, and from barrier to barrier. */
struct Fibre {
  jmp_buf place; // where it goes on
  std::unique_ptr<char[]> stack;
  enum { fresh, running, waiting, ended } state;
};

static std::vector<Fibre> fibres;
static jmp_buf scheduler;
static unsigned lane, threads, group[3], groups[3];
static void (*body)(void **);
static void **operands;

constexpr size_t stack_bytes = 1 << 18; // of kernels that keep a hundred numbers, each in several places

// Contexts are for a fibre's first step alone: changing them asks the system, half of what such a test took.

inline void leave(unsigned own, decltype(Fibre::state) state) {
  fibres[own].state = state;
  if (!_setjmp(fibres[own].place)) _longjmp(scheduler, 1);
  lane = own;
}

inline void enter() {
  for (const unsigned own = lane;; leave(own, Fibre::ended)) body(operands);
}

inline void meet() { leave(lane, Fibre::waiting); }

inline void go_on(Fibre &fibre) {
  const bool is_fresh = fibre.state == Fibre::fresh;
  fibre.state = Fibre::running;
  if (_setjmp(scheduler)) return;
  if (!is_fresh) _longjmp(fibre.place, 1);
  ucontext_t context;
  getcontext(&context);
  context.uc_stack = {.ss_sp = fibre.stack.get(), .ss_flags = 0, .ss_size = stack_bytes};
  context.uc_link = nullptr;
  makecontext(&context, enter, 0);
  setcontext(&context);
}

extern "C" char __start_simt_shared[], __stop_simt_shared[];

/** Whether every thread came to its end, and all of them by the same barriers. */
inline bool run_group(Order order) {
  memset(__start_simt_shared, 0xcd, __stop_simt_shared - __start_simt_shared);
  while (fibres.size() < threads) fibres.push_back({{}, std::make_unique<char[]>(stack_bytes), Fibre::fresh});
  for (Fibre &fibre : fibres)
    if (fibre.state != Fibre::ended) fibre.state = Fibre::fresh; // a run that ended early left it at a barrier
  for (unsigned round = 1;; round++) {
    unsigned waiting = 0, ended = 0;
    for (unsigned i = 0; i < threads; i++) {
      // 97 shares no divisor with a number of threads that is a power of two.
      lane = order == forward ? i : order == backward ? threads - 1 - i : (i * 97 + round * 31) % threads;
      go_on(fibres[lane]);
    }
    for (unsigned i = 0; i < threads; i++) {
      waiting += fibres[i].state == Fibre::waiting;
      ended += fibres[i].state == Fibre::ended;
    }
    if (ended == threads) return true;
    if (waiting != threads) return false;
  }
}

template <class... Parameters, size_t... at>
void call_at(void (*kernel)(Parameters...), void **values, std::index_sequence<at...>) {
  kernel(*(Parameters *)values[at]...);
}

/** With each operand from where it lies. */
template <class... Parameters> void call(void (*kernel)(Parameters...), void **values) {
  call_at(kernel, values, std::index_sequence_for<Parameters...>());
}

inline int launch(void (*kernel)(void **), unsigned count, void **values, const unsigned *of, int order) {
  body = kernel;
  operands = values;
  threads = count;
  memcpy(groups, of, sizeof groups);
  for (group[2] = 0; group[2] < groups[2]; group[2]++)
    for (group[1] = 0; group[1] < groups[1]; group[1]++)
      for (group[0] = 0; group[0] < groups[0]; group[0]++)
        if (!run_group((Order)order)) return 0;
  return 1;
}

inline int dot4(int a, int b, int c) {
  for (int shift = 0; shift < 32; shift += 8) c += (int8_t)(a >> shift) * (int8_t)(b >> shift);
  return c;
}

/** Of eight bytes four, each by its place among them. */
inline unsigned permuted(unsigned high, unsigned low, unsigned places) {
  const uint64_t bytes = (uint64_t)high << 32 | low;
  unsigned taken = 0;
  for (int shift = 0; shift < 32; shift += 8) taken |= (unsigned)(bytes >> 8 * (places >> shift & 7) & 0xff) << shift;
  return taken;
}

/** Pieces of tiles as each thread brings them to a product: four words, two, and four sums. */
static std::vector<std::array<int, 10>> pieces;

struct Sums {
  int of[4];
  template <class Four> operator Four() const { return {of[0], of[1], of[2], of[3]}; }
};

/** Threads 32 by 32, as PTX's `mma.m16n8k32` has it. Every thread of a group must come. */
inline Sums multiply_tiles(const std::array<int, 10> &own) {
  if (pieces.size() < threads) pieces.resize(threads);
  pieces[lane] = own;
  meet();
  const unsigned first = lane & ~31u, quad = (lane & 31) >> 2, place = lane & 3;
  Sums sums = {{own[6], own[7], own[8], own[9]}};
  for (unsigned i = 0; i < 4; i++)
    for (unsigned at = 0; at < 4; at++)
      for (unsigned further = 0; further < 2; further++) {
        const unsigned column = 2 * place + (i & 1);
        const int row = pieces[first + 4 * quad + at][(i >> 1) + 2 * further];
        sums.of[i] = dot4(row, pieces[first + 4 * column + at][4 + further], sums.of[i]);
      }
  meet();
  return sums;
}

// AMD's matrix units, for a text that is compiled as for one of their architectures (`-D__gfx90a__`). Threads of a group come to
// all of these, and hand each other what they bring.

struct Brought {
  int words[8];
};
static std::vector<Brought> brought;

template <class Value> void bring(const Value &own) {
  static_assert(sizeof own <= sizeof(Brought));
  if (brought.size() < threads) brought.resize(threads);
  memcpy(brought[lane].words, &own, sizeof own);
  meet();
}

/** Threads of a wave that have other columns of the same row are 16 apart; so are those of the same rows' sums. */
template <class Piece, class Sums> Sums multiply(unsigned wave, Piece a, Piece b, Sums sums, unsigned (*row_of)(unsigned slice, unsigned i)) {
  const struct { Piece a, b; } own = {a, b};
  bring(own);
  constexpr unsigned words = sizeof(Piece) / 4, count = sizeof(Sums) / 4;
  const unsigned first = lane / wave * wave, slice = lane % wave / 16, column = lane % 16;
  // Sixteen bytes of a row are its first thread's alone, and those of the second slice the same again.
  const unsigned slices = words == 4 ? 1 : wave / 16;
  for (unsigned i = 0; i < count; i++)
    for (unsigned s = 0; s < slices; s++)
      for (unsigned w = 0; w < words; w++) {
        const int left = brought[first + row_of(slice, i) + 16 * s].words[w];
        sums[i] = dot4(left, brought[first + column + 16 * s].words[words + w], sums[i]);
      }
  meet();
  return sums;
}
inline unsigned row_of_gfx11(unsigned slice, unsigned i) { return 2 * i + slice; }
inline unsigned row_of_gfx12(unsigned slice, unsigned i) { return i + 8 * slice; }
inline unsigned row_of_gfx9(unsigned slice, unsigned i) { return 4 * slice + i; }

inline int read_lane(int own, unsigned which) {
  bring(own);
  const int read = brought[lane / 64 * 64 + which].words[0];
  meet();
  return read;
}

} // namespace simt

#define __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32(a_signed, a, b_signed, b, sums, clamp) \
  simt::multiply(32, a, b, sums, simt::row_of_gfx11)
#define __builtin_amdgcn_wmma_i32_16x16x16_iu8_w32_gfx12(a_signed, a, b_signed, b, sums, clamp) \
  simt::multiply(32, a, b, sums, simt::row_of_gfx12)
#define __builtin_amdgcn_mfma_i32_16x16x16i8(a, b, sums, ...) simt::multiply(64, a, b, sums, simt::row_of_gfx9)
#define __builtin_amdgcn_mfma_i32_16x16x32_i8(a, b, sums, ...) simt::multiply(64, a, b, sums, simt::row_of_gfx9)
#define __builtin_amdgcn_readlane(value, which) simt::read_lane(value, which)
#define __builtin_amdgcn_ds_bpermute(at, value) simt::read_lane(value, (at) / 4)
#define __builtin_amdgcn_sudot4(a_signed, a, b_signed, b, c, clamp) simt::dot4(a, b, c)
#define __HIP__
#define __global__
#define __device__
#define __shared__ static __attribute__((section("simt_shared")))
#define __launch_bounds__(...)
#define __builtin_amdgcn_workitem_id_x() simt::lane
#define __builtin_amdgcn_workgroup_id_x() simt::group[0]
#define __builtin_amdgcn_workgroup_id_y() simt::group[1]
#define __builtin_amdgcn_workgroup_id_z() simt::group[2]
#define __builtin_amdgcn_grid_size_x() (simt::groups[0] * simt::threads)
#define __builtin_amdgcn_grid_size_y() simt::groups[1]
#define __builtin_amdgcn_grid_size_z() simt::groups[2]
#define __builtin_amdgcn_workgroup_size_x() simt::threads
#define __builtin_amdgcn_workgroup_size_y() 1
#define __builtin_amdgcn_workgroup_size_z() 1
#define __builtin_amdgcn_fence(...)
#define __builtin_amdgcn_s_barrier() simt::meet()
#define matrix_dot(a0, a1, a2, a3, b0, b1, c0, c1, c2, c3) \
  simt::multiply_tiles({(int)(a0), (int)(a1), (int)(a2), (int)(a3), (int)(b0), (int)(b1), c0, c1, c2, c3})
#define __builtin_amdgcn_perm(high, low, places) simt::permuted(high, low, places)
#define __builtin_amdgcn_sdot4(a, b, c, clamp) simt::dot4(a, b, c)

// A program without shared arrays has the section all the same.
__attribute__((used)) __shared__ char nothing_shared[8];
