// A host that notes when each thread does what, around the real one: every loop and every piece of it, by the clock. What it
// notes goes into memory that was there before and, when the host is closed, into the file NOTES_PATH, as lines
// of numbers: timeline.ts reads them.
//
// Noting a piece takes two readings of the clock, some 40 ns; pieces of a product take microseconds.
#include "timeline.h"
#include "abi.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#undef sinter_host_open
#undef sinter_host_close
SINTER_EXPORT sinter_host *sinter_host_open(int32_t threads);
SINTER_EXPORT void sinter_host_close(sinter_host *);

enum { MOST = 1 << 20, THREADS = 256 };

struct noted {
  int64_t step, loop, begin, end;  // nanoseconds
};
struct notes {
  _Alignas(64) struct noted *all;
  int64_t count;
};

static struct {
  sinter_host host;  // what libraries are given
  sinter_host *pool;
  struct notes pieces[THREADS], loops;
  int64_t step, loop;
  void (*body)(void *, int64_t, int32_t);
  void *context;
} timeline;

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void note(struct notes *n, int64_t begin) {
  if (n->count == MOST) return;
  n->all[n->count++] = (struct noted){timeline.step, timeline.loop, begin, now()};
}

void timeline_step(int number) { timeline.step = number; }

static void noted_body(void *context, int64_t index, int32_t thread) {
  (void)context;
  const int64_t begin = now();
  timeline.body(timeline.context, index, thread);
  note(&timeline.pieces[thread], begin);
}

static void noted_loop(sinter_host *host, int64_t count, void (*body)(void *, int64_t, int32_t),
                       void *context) {
  (void)host;
  const int64_t begin = now();
  timeline.body = body;
  timeline.context = context;
  timeline.pool->parallel_for(timeline.pool, count, noted_body, NULL);
  note(&timeline.loops, begin);
  timeline.loop++;
}

// Not noted: others' loops come between its pieces.
static void stand_back(sinter_host *host, int64_t count, void (*body)(void *, int64_t, int32_t),
                       void *context, const int32_t *word) {
  (void)host;
  timeline.pool->stand_back(timeline.pool, count, body, context, word);
}

static void *allocate(sinter_host *host, size_t bytes) {
  (void)host;
  return timeline.pool->allocate(timeline.pool, bytes);
}

static void release(sinter_host *host, void *memory, size_t bytes) {
  (void)host;
  timeline.pool->release(timeline.pool, memory, bytes);
}

// Memory that has been written once, so that no note has to wait for a page.
static void open_notes(struct notes *n) {
  n->all = malloc(MOST * sizeof *n->all);
  for (int64_t i = 0; i < MOST; i++) n->all[i].loop = -1;
}

sinter_host *sinter_host_open(int32_t threads) {
  sinter_host *pool = pool_open(threads);
  if (!pool) return NULL;
  timeline.pool = pool;
  timeline.step = -1;  // before the first step weights are loaded
  timeline.host =
      (sinter_host){SINTER_ABI, pool->threads, noted_loop, stand_back, allocate, release};
  for (int32_t t = 0; t < pool->threads; t++) open_notes(&timeline.pieces[t]);
  open_notes(&timeline.loops);
  return &timeline.host;
}

// A line for each: which thread, or -1 for a loop as whoever began it saw it; the number of the step; the loop; from when; until.
static void write_notes(FILE *file, int thread, const struct notes *n) {
  for (int64_t i = 0; i < n->count; i++)
    fprintf(file, "%d %lld %lld %lld %lld\n", thread, (long long)n->all[i].step,
            (long long)n->all[i].loop, (long long)n->all[i].begin, (long long)n->all[i].end);
}

void sinter_host_close(sinter_host *host) {
  (void)host;
  FILE *file = fopen(NOTES_PATH, "w");
  if (file) {
    for (int32_t t = 0; t < timeline.host.threads; t++) write_notes(file, t, &timeline.pieces[t]);
    write_notes(file, -1, &timeline.loops);
    fclose(file);
  }
  pool_close(timeline.pool);
}
