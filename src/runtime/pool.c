// The host's part in C: the one thread pool of the process and the memory for weights and KV. Workers spin for some tens of
// microseconds after a loop, because a step is a hundred loops in a row, and sleep between steps.
//
// Every thread owns an equal run of a loop's indices and, when it is through, takes from the others' runs: a thread that
// the system has put aside then costs one index and not half the loop. A worker that wakes up late finds the loop closed
// and is not waited for.
//
// A loop that stands back lets go of the pool between two of its indices as soon as its word is set, and takes it again when the
// word is 0: whoever sets it has all threads within the time of one index.
#define _GNU_SOURCE
#include "abi.h"
#include "system.h"

#include <stdatomic.h>

enum { MAX_THREADS = 256, SPINS = 4000, LINE_BYTES = 64 };

typedef struct {
  _Alignas(LINE_BYTES) _Atomic int64_t next;
  int64_t end;
} run;

typedef struct pool {
  sinter_host host;
  lock turn;  // one loop at a time
  // One word says which loop it is, whether it is open, and how many workers are inside: loop << 17 | open << 16 | inside.
  _Alignas(LINE_BYTES) _Atomic uint64_t gate;
  void (*body)(void *, int64_t, int32_t);
  void *context;
  const int32_t *word;  // that the loop stands back by, or none
  run runs[MAX_THREADS];
  _Alignas(LINE_BYTES) lock door;
  condition wake;
  _Atomic int32_t sleeping, closing;
  int32_t workers;
  struct worker {
    struct pool *pool;
    thread thread;
    int32_t number;
  } worker[MAX_THREADS];
} pool;

#define OPEN (1u << 16)
#define INSIDE (OPEN - 1)

static inline void pause_briefly(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static int is_set(const int32_t *word) {
  return word && atomic_load_explicit((const _Atomic int32_t *)word, memory_order_relaxed);
}

static void work(pool *p, int32_t thread) {
  for (int32_t i = 0; i < p->host.threads; i++) {
    run *r = &p->runs[(thread + i) % p->host.threads];
    while (atomic_load_explicit(&r->next, memory_order_relaxed) < r->end && !is_set(p->word)) {
      int64_t index = atomic_fetch_add_explicit(&r->next, 1, memory_order_relaxed);
      if (index >= r->end) break;
      p->body(p->context, index, thread);
    }
  }
}

static THREAD_RESULT worker_main(void *argument) {
  struct worker *me = argument;
  pool *p = me->pool;
  uint64_t seen = 0;
  int spins = 0;
  for (;;) {
    uint64_t gate = atomic_load_explicit(&p->gate, memory_order_acquire);
    if ((gate & OPEN) && gate >> 17 != seen) {
      if (!atomic_compare_exchange_weak(&p->gate, &gate, gate + 1)) continue;
      seen = gate >> 17;
      work(p, me->number);
      atomic_fetch_sub(&p->gate, 1);
      spins = 0;
      continue;
    }
    if (++spins < SPINS) {
      pause_briefly();
      continue;
    }
    lock_take(&p->door);
    atomic_fetch_add(&p->sleeping, 1);
    for (;;) {
      gate = atomic_load(&p->gate);
      if (atomic_load(&p->closing) || ((gate & OPEN) && gate >> 17 != seen)) break;
      condition_await(&p->wake, &p->door);
    }
    atomic_fetch_sub(&p->sleeping, 1);
    lock_give(&p->door);
    if (atomic_load(&p->closing)) return 0;
    spins = 0;
  }
}

// What is left of each thread's run.
typedef struct {
  int64_t next, end;
} rest;

// Does what is left, all of it or until the word is set. @returns whether anything is left then
static int go_on(pool *p, void (*body)(void *, int64_t, int32_t), void *context, rest *left,
                 const int32_t *word) {
  const int32_t threads = p->host.threads;
  lock_take(&p->turn);
  p->body = body;
  p->context = context;
  p->word = word;
  for (int32_t t = 0; t < threads; t++) {
    atomic_store_explicit(&p->runs[t].next, left[t].next, memory_order_relaxed);
    p->runs[t].end = left[t].end;
  }
  uint64_t loop = (atomic_load(&p->gate) >> 17) + 1;
  atomic_store(&p->gate, loop << 17 | OPEN);
  if (atomic_load(&p->sleeping)) {
    lock_take(&p->door);
    condition_tell_all(&p->wake);
    lock_give(&p->door);
  }
  work(p, 0);
  atomic_fetch_and(&p->gate, ~(uint64_t)OPEN);
  for (int spins = 0; atomic_load_explicit(&p->gate, memory_order_acquire) & INSIDE;)
    if (++spins < SPINS)
      pause_briefly();
    else
      let_others_run();
  int more = 0;
  for (int32_t t = 0; word && t < threads; t++) {
    left[t].next = atomic_load_explicit(&p->runs[t].next, memory_order_relaxed);
    more |= left[t].next < left[t].end;
  }
  lock_give(&p->turn);
  return more;
}

static void stand_back(sinter_host *host, int64_t count, void (*body)(void *, int64_t, int32_t),
                       void *context, const int32_t *word) {
  pool *p = (pool *)host;
  rest left[MAX_THREADS];
  for (int32_t t = 0; t < host->threads; t++)
    left[t] = (rest){count * t / host->threads, count * (t + 1) / host->threads};
  do
    while (is_set(word)) rest_briefly();
  while (go_on(p, body, context, left, word));
}

static void parallel_for(sinter_host *host, int64_t count, void (*body)(void *, int64_t, int32_t),
                         void *context) {
  pool *p = (pool *)host;
  if (count <= 1 || host->threads == 1) {
    lock_take(&p->turn);
    for (int64_t i = 0; i < count; i++) body(context, i, 0);
    lock_give(&p->turn);
    return;
  }
  rest left[MAX_THREADS];
  for (int32_t t = 0; t < host->threads; t++)
    left[t] = (rest){count * t / host->threads, count * (t + 1) / host->threads};
  go_on(p, body, context, left, NULL);
}

static void *allocate(sinter_host *host, size_t bytes) {
  (void)host;
  return pages_take(bytes);
}

static void release(sinter_host *host, void *memory, size_t bytes) {
  (void)host;
  pages_give(memory, bytes);
}

sinter_host *sinter_host_open(int32_t threads) {
  if (threads < 1) threads = 1;
  if (threads > MAX_THREADS) threads = MAX_THREADS;
  pool *p = pages_take(sizeof(pool));
  if (!p) return NULL;
  *p = (pool){.host = {SINTER_ABI, threads, parallel_for, stand_back, allocate, release}};
  lock_open(&p->turn);
  lock_open(&p->door);
  condition_open(&p->wake);
  for (int32_t t = 1; t < threads; t++) {
    struct worker *w = &p->worker[p->workers];
    *w = (struct worker){.pool = p, .number = t};
    if (!thread_start(&w->thread, worker_main, w)) break;  // fewer threads give the same bits
    p->workers++;
  }
  return &p->host;
}

void sinter_host_close(sinter_host *host) {
  pool *p = (pool *)host;
  lock_take(&p->door);
  atomic_store(&p->closing, 1);
  condition_tell_all(&p->wake);
  lock_give(&p->door);
  for (int32_t i = 0; i < p->workers; i++) thread_await(p->worker[i].thread);
  pages_give(p, sizeof *p);
}
