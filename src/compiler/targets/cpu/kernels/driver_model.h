// The opened model of an emitted driver: its memory, its parameters on their way in, and the copy of them for the shelf.
// The emitted file in front of this one has defined the model's constants and said where everything lies.
#ifndef SINTER_DRIVER_MODEL_H
#define SINTER_DRIVER_MODEL_H

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "driver_types.h"
#include "loading.h"

// What experts work on: [tokens * active] slots, and tables of them.
struct expert_memory {
  uint8_t *rows, *rounded;
  float *hidden, *made;
  int32_t *starts, *used, *row_of, *of_row;
};

struct sinter_model {
  sinter_host *host;
  sinter_limits limits;
  // What layout.ts decides: memories, and where in `arena` and `work` everything lies.
  uint8_t *arena, *work;
  uint8_t **kv, **weights, **buffers;
  int32_t *blocks;    // of each KV group; a plan may have none
  float *scratch;     // [threads, SCRATCH_BYTES]
  float *scores;      // [threads, SCORE_BYTES] of all threads together
  uint8_t *samplers;  // [threads, SAMPLER_BYTES]
  uint8_t *planes;    // [tokens + PLANES_BEHIND] rows of the product at hand
  struct expert_memory experts;
  struct row_set sets[ROW_SETS];
  int32_t *sequence_of;  // [tokens]
  int32_t *wanted_of;    // [tokens] which wanted row a token is, or -1
  const sinter_step_arrays *step;
  struct behind {
    sinter_host host;  // whose loops stand back
    sinter_host *own;
    const int32_t *word;
  } behind;
  int tiles;  // whether the system lets this process use the matrix unit
  char message[256];
#ifdef GENERIC
  struct generic_plan plan;
#endif
};

static int32_t refuse(sinter_model *m, int32_t code, const char *format, ...) {
  va_list values;
  va_start(values, format);
  vsnprintf(m->message, sizeof m->message, format, values);
  va_end(values);
  return code;
}

// ------------------------------------------------------------------ opening and closing

static size_t bytes_of(const sinter_model *m, struct extent e) {
  return e.fixed + e.token * (size_t)m->limits.tokens + e.row * (size_t)m->limits.rows +
         e.thread * (size_t)m->host->threads;
}
static size_t kv_bytes(const sinter_model *m, int storage) {
  return kv_block_bytes[storage] * (size_t)m->blocks[storage];
}

static void place(sinter_model *m) {
  for (int i = 0; i < PARAMETERS; i++) m->weights[i] = m->arena + parameters[i].at;
#define PLACE(pointer, extent) pointer = (void *)(m->work + bytes_of(m, extent))
  for (int i = 0; i < BUFFERS; i++) PLACE(m->buffers[i], buffer_at[i]);
  PLACE(m->scratch, scratch_at);
  PLACE(m->scores, scores_at);
  PLACE(m->samplers, samplers_at);
  PLACE(m->planes, planes_at);
  PLACE(m->experts.rows, experts_rows_at);
  PLACE(m->experts.hidden, experts_hidden_at);
  PLACE(m->experts.rounded, experts_rounded_at);
  PLACE(m->experts.made, experts_made_at);
  PLACE(m->experts.starts, experts_starts_at);
  PLACE(m->experts.used, experts_used_at);
  PLACE(m->experts.row_of, experts_row_of_at);
  PLACE(m->experts.of_row, experts_of_row_at);
  PLACE(m->sequence_of, sequence_of_at);
  PLACE(m->wanted_of, wanted_of_at);
  for (int set = 0; set < ROW_SETS; set++) {
    PLACE(m->sets[set].token, row_sets_at[set].token);
    PLACE(m->sets[set].wanted, row_sets_at[set].wanted);
    PLACE(m->sets[set].runs, row_sets_at[set].runs);
  }
#undef PLACE
}

static void free_model(sinter_model *m) {
#ifdef GENERIC
  free_plan(&m->plan);
#endif
  free(m->kv);
  free(m->blocks);
  free(m);
}

// The model before its memories, and its tables of them; null where there is no memory.
static sinter_model *new_model(const double *tape) {
  sinter_model *m = calloc(1, sizeof *m);
#ifdef GENERIC
  if (m && !read_plan(&m->plan, tape)) {
    free(m);
    return NULL;
  }
#endif
  if (!m) return NULL;
  m->kv = calloc(KV_STORAGES + PARAMETERS + BUFFERS + 1, sizeof *m->kv);
  m->blocks = calloc(KV_STORAGES + 1, sizeof *m->blocks);
  if (!m->kv || !m->blocks) {
    free_model(m);
    return NULL;
  }
  m->weights = m->kv + KV_STORAGES;
  m->buffers = m->weights + PARAMETERS;
  return m;
}

int32_t sinter_open(sinter_host *host, const sinter_limits *limits, const int32_t *blocks,
                    const double *tape, sinter_model **out) {
  *out = NULL;
  sinter_model *m = new_model(tape);
  if (!m) return SINTER_NO_MEMORY;
  m->host = host;
  m->limits = *limits;
  m->tiles = tiles_permitted();
  m->arena = host->allocate(host, bytes_of(m, weights_end));
  m->work = host->allocate(host, bytes_of(m, work_end));
  int allocated = m->arena && m->work;
  for (int i = 0; i < KV_STORAGES; i++) {
    m->blocks[i] = blocks[i];
    allocated &= (m->kv[i] = host->allocate(host, kv_bytes(m, i))) != NULL;
  }
  if (!allocated) {
    sinter_close(m);
    return SINTER_NO_MEMORY;
  }
  place(m);
  *out = m;
  return SINTER_OK;
}

void sinter_close(sinter_model *m) {
  m->host->release(m->host, m->arena, bytes_of(m, weights_end));
  m->host->release(m->host, m->work, bytes_of(m, work_end));
  for (int i = 0; i < KV_STORAGES; i++) m->host->release(m->host, m->kv[i], kv_bytes(m, i));
  free_model(m);
}

const char *sinter_message(const sinter_model *m) { return m->message; }

// ------------------------------------------------------------------ parameters

// In a file of its own, which the libraries of several models have in common.
void load_panel(void *context, int64_t index, int32_t thread);

int32_t sinter_load(sinter_model *m, int32_t parameter, int64_t row, int64_t rows,
                    const void *values, const void *scales) {
  if (parameter < 0 || parameter >= PARAMETERS)
    return refuse(m, SINTER_BAD_PARAMETER, "there is no parameter %d", parameter);
  const struct parameter *p = &parameters[parameter];
  if (row < 0 || rows < 0 || rows > p->stored.rows || row > p->stored.rows - rows)
    return refuse(m, SINTER_BAD_PARAMETER, "parameter %d has %lld rows", parameter,
                  (long long)p->stored.rows);
  if (p->stored.grouped && !scales)
    return refuse(m, SINTER_BAD_PARAMETER, "parameter %d needs scales", parameter);
  const int grouped = p->stored.grouped;
  const size_t row_bytes = grouped ? (size_t)panels_words(p->stored) * 4
                                   : (size_t)p->stored.columns * number_size(p->stored.number),
               scale_bytes = grouped ? panels_scale_bytes(p->stored) : 0;
  // A window may go over several of the matrices that lie one behind the other.
  for (int64_t at = row; at < row + rows;) {
    const int64_t matrix = at / p->panels.rows, first = at % p->panels.rows;
    int64_t count = p->panels.rows - first;
    if (count > row + rows - at) count = row + rows - at;
    const size_t before = (size_t)(at - row);
    const size_t each = p->kept == BIAS ? (size_t)panels_count(p->panels) * PANEL * sizeof(float)
                                        : panels_bytes(p->panels);
    struct loading l = {p,
                        m->weights[parameter] + (size_t)matrix * each,
                        first,
                        count,
                        (const uint8_t *)values + before * row_bytes,
                        (const uint8_t *)scales + before * scale_bytes,
                        0};
    m->host->parallel_for(m->host, (first + count - 1) / 16 - first / 16 + 1, load_panel, &l);
    if (l.refused)
      return refuse(m, SINTER_BAD_PARAMETER,
                    "a block of parameter %d has scales of no one factor", parameter);
    at += count;
  }
  return SINTER_OK;
}

// ------------------------------------------------------------------ a copy of the weights

void *sinter_weights(sinter_model *m, int64_t *bytes) {
  *bytes = (int64_t)bytes_of(m, weights_end);
  return m->arena;
}

enum { CHECKED_PIECE = 1 << 20 };

struct checking {
  const uint8_t *from;
  size_t bytes;
  _Atomic uint64_t sum;  // of the pieces' own, so that it does not matter who is through first
};

INLINE uint64_t mix(uint64_t sum, uint64_t word) {
  uint64_t mixed = (sum ^ word) * 0x9e3779b97f4a7c15u;
  return mixed ^ mixed >> 32;
}

// Four chains, since a multiplication waits for the one before it: as fast as memory is read. A piece's number keeps two
// pieces from changing places. The arena is whole lines long.
static void check_piece(void *context, int64_t index, int32_t thread) {
  struct checking *c = context;
  size_t begin = (size_t)index * CHECKED_PIECE, end = begin + CHECKED_PIECE;
  if (end > c->bytes) end = c->bytes;
  uint64_t chain[4] = {1, 2, 3, (uint64_t)index + 4};
  for (size_t at = begin; at < end; at += sizeof chain) {
    uint64_t words[4];
    memcpy(words, c->from + at, sizeof words);
    for (int i = 0; i < 4; i++) chain[i] = mix(chain[i], words[i]);
  }
  atomic_fetch_add(&c->sum, mix(mix(mix(chain[0], chain[1]), chain[2]), chain[3]));
}

uint64_t sinter_weights_checksum(sinter_model *m) {
  struct checking c = {m->arena, bytes_of(m, weights_end), 0};
  int64_t pieces = (int64_t)((c.bytes + CHECKED_PIECE - 1) / CHECKED_PIECE);
  m->host->parallel_for(m->host, pieces, check_piece, &c);
  return c.sum;
}

int32_t sinter_copy_blocks(sinter_model *m, int32_t group, const int32_t *from, const int32_t *to,
                           int64_t count) {
  if (group < 0 || group >= KV_STORAGES)
    return refuse(m, SINTER_BAD_INDEX, "there is no KV group %d", group);
  const int32_t blocks = m->blocks[group];
  for (int64_t i = 0; i < count; i++)
    if (from[i] < 0 || from[i] >= blocks || to[i] < 0 || to[i] >= blocks)
      return refuse(m, SINTER_BAD_INDEX, "a block to copy is none of the %d there are", blocks);
  const size_t bytes = kv_block_bytes[group];
  uint8_t *kv = m->kv[group];
  for (int64_t i = 0; i < count; i++)
    if (from[i] != to[i])
      memcpy(kv + (size_t)to[i] * bytes, kv + (size_t)from[i] * bytes, bytes);
  return SINTER_OK;
}

INLINE int cancelled(const sinter_model *m) { return is_set(m->step->cancel); }

#endif
