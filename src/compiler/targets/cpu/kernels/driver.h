// How every emitted driver takes a step: the checks before it, the rows it is about, and the loops over them. The emitted
// file in front of this one has defined the model's constants; the functions at the end of it say which steps of the plan a
// step takes.
//
// No shape is read at run time. What varies is how many tokens, sequences and wanted rows there are, and where they stand.
#ifndef SINTER_DRIVER_H
#define SINTER_DRIVER_H

#include "driver_model.h"
#include "elementary.h"
#include "rows.h"
#include "sampler.h"

INLINE int cancelled(const sinter_model *m) { return is_set(m->step->cancel); }

// ------------------------------------------------------------------ a step's rows

static int ascending(const int32_t *starts, int64_t count) {
  if (starts[0] != 0) return 0;
  for (int64_t i = 0; i < count; i++)
    if (starts[i + 1] < starts[i]) return 0;
  return 1;
}

static int within(const int32_t *values, int64_t count, int64_t limit) {
  for (int64_t i = 0; i < count; i++)
    if (values[i] < 0 || values[i] >= limit) return 0;
  return 1;
}

// Nothing that a step is given may lead outside the model's memory.
static int32_t check_sequence(sinter_model *m, const sinter_step_arrays *s, int64_t sequence) {
  int64_t first = s->starts[sequence], end = s->starts[sequence + 1],
          blocks = s->block_starts[sequence + 1] - s->block_starts[sequence];
  if (first == end)
    return refuse(m, SINTER_BAD_INDEX, "sequence %lld has no tokens", (long long)sequence);
  int64_t kept = s->visible_from[sequence], position = s->positions[first],
          last = position + end - first - 1;
  if (last >= CONTEXT)
    return refuse(m, SINTER_BAD_INDEX, "position %lld is beyond the context of %d", (long long)last,
                  CONTEXT);
  if (position < 0 || kept < 0 || kept > position)
    return refuse(m, SINTER_BAD_INDEX, "a position is not visible to itself");
  for (int64_t t = first; t < end; t++)
    if (s->positions[t] != position + t - first)
      return refuse(m, SINTER_BAD_INDEX, "positions of a sequence do not follow each other");
  if (block_index(last / BLOCK, kept, SINKS) >= blocks)
    return refuse(m, SINTER_BAD_INDEX, "position %lld has no block", (long long)last);
  const int32_t *ids = s->blocks + s->block_starts[sequence];
  for (int64_t b = 0; b < blocks; b++)
    if (ids[b] < 0 || ids[b] >= m->limits.blocks)
      return refuse(m, SINTER_BAD_INDEX, "block %d is none of the %d there are", ids[b],
                    m->limits.blocks);
  return SINTER_OK;
}

static int32_t check_step(sinter_model *m, const sinter_step_arrays *s) {
  if (s->total < 0 || s->total > m->limits.tokens || s->sequences < 0 ||
      s->sequences > m->limits.sequences || s->rows < 0 || s->rows > m->limits.rows ||
      s->hidden_rows < 0 || s->hidden_rows > m->limits.tokens)
    return refuse(m, SINTER_BAD_INDEX, "the step is larger than the model was opened for");
  if (!ascending(s->starts, s->sequences) || s->starts[s->sequences] != s->total ||
      !ascending(s->block_starts, s->sequences))
    return refuse(m, SINTER_BAD_INDEX, "the sequences do not lie end to end");
  if (!within(s->tokens, s->total, VOCABULARY))
    return refuse(m, SINTER_BAD_INDEX, "a token is not in the vocabulary");
  if (!within(s->logit_rows, s->rows, s->total) ||
      !within(s->hidden_rows_of, s->hidden_rows, s->total))
    return refuse(m, SINTER_BAD_INDEX, "a wanted row is no token of the step");
  if ((s->hidden_in != NULL) != TAKES_HIDDEN)
    return refuse(m, SINTER_BAD_INDEX,
                  TAKES_HIDDEN ? "hidden rows are missing" : "hidden rows are not taken in");
  for (int64_t i = 0; i < s->sequences; i++) {
    int32_t code = check_sequence(m, s, i);
    if (code) return code;
  }
  return SINTER_OK;
}

static int32_t check_sampling(sinter_model *m, const sinter_step_arrays *s) {
  if (!s->rows) return SINTER_OK;
  if (!ascending(s->count_starts, s->rows) || !ascending(s->bias_starts, s->rows) ||
      !within(s->count_tokens, s->count_starts[s->rows], VOCABULARY) ||
      !within(s->bias_tokens, s->bias_starts[s->rows], VOCABULARY))
    return refuse(m, SINTER_BAD_INDEX, "a counted or biased token is not in the vocabulary");
  for (int64_t i = 0; i < s->rows; i++) {
    if (s->mask_row[i] < -1 || s->mask_row[i] >= s->masked_rows)
      return refuse(m, SINTER_BAD_INDEX, "there is no mask %d", s->mask_row[i]);
    if (s->top_logprobs[i] < NO_LOGPROBS || s->top_logprobs[i] > MOST_LOGPROBS)
      return refuse(m, SINTER_BAD_INDEX,
                    "more log-probabilities are asked for than there are places");
  }
  return SINTER_OK;
}

// Rows of one sequence, as many at a time as make one item of attention.
static void make_runs(sinter_model *m, struct row_set *set) {
  const int64_t most = item_positions(ATTENTION, m->tiles);
  set->run_count = 0;
  for (int64_t row = 0; row < set->count;) {
    int32_t sequence = m->sequence_of[set->token[row]];
    int64_t end = row + 1;
    while (end < set->count && end - row < most && m->sequence_of[set->token[end]] == sequence)
      end++;
    set->runs[set->run_count++] =
        (struct attention_run){(int32_t)row, (int32_t)(end - row), sequence};
    row = end;
  }
}

static void find_rows(sinter_model *m, const sinter_step_arrays *s) {
  struct row_set *tokens = &m->sets[TOKENS], *wanted = &m->sets[WANTED], *logits = &m->sets[LOGITS],
                 *hidden = &m->sets[HIDDEN];
  for (int64_t i = 0; i < s->sequences; i++)
    for (int64_t t = s->starts[i]; t < s->starts[i + 1]; t++) m->sequence_of[t] = (int32_t)i;
  for (int64_t t = 0; t < s->total; t++) tokens->token[t] = (int32_t)t, m->wanted_of[t] = -1;
  for (int64_t i = 0; i < s->rows; i++) m->wanted_of[s->logit_rows[i]] = 0;
  for (int64_t i = 0; i < s->hidden_rows; i++) m->wanted_of[s->hidden_rows_of[i]] = 0;
  tokens->count = s->total, wanted->count = 0, logits->count = s->rows,
  hidden->count = s->hidden_rows;
  for (int64_t t = 0; t < s->total; t++)
    if (m->wanted_of[t] == 0) {
      m->wanted_of[t] = (int32_t)wanted->count;
      wanted->token[wanted->count++] = (int32_t)t;
    }
  for (int64_t i = 0; i < s->rows; i++)
    logits->token[i] = s->logit_rows[i], logits->wanted[i] = m->wanted_of[s->logit_rows[i]];
  for (int64_t i = 0; i < s->hidden_rows; i++)
    hidden->token[i] = s->hidden_rows_of[i], hidden->wanted[i] = m->wanted_of[s->hidden_rows_of[i]];
  make_runs(m, tokens);
  make_runs(m, wanted);
}

// ------------------------------------------------------------------ loops

// Row by row: functions that look at nothing but their own row run one after the other on it.
struct row_loop {
  sinter_model *model;
  const struct row_set *set;
  const int64_t *arguments;  // what differs from layer to layer: offsets of weights, the layer
  int64_t grain;
};
// A buffer as floats, and a row of one.
#define FLOATS(buffer) ((float *)m->buffers[buffer])
#define EACH_ROW(loop, index)                 \
  for (int64_t row = (index) * (loop)->grain; \
       row < (loop)->set->count && row < ((index) + 1) * (loop)->grain; row++)

static int32_t rows_loop(sinter_model *m, enum rows set, void (*body)(void *, int64_t, int32_t),
                         const int64_t *arguments) {
  if (cancelled(m)) return SINTER_CANCELLED;
  int64_t count = m->sets[set].count, grain = count / (8 * m->host->threads);
  struct row_loop loop = {m, &m->sets[set], arguments, grain < 1 ? 1 : grain};
  m->host->parallel_for(m->host, (count + loop.grain - 1) / loop.grain, body, &loop);
  return SINTER_OK;
}

#ifdef __AMX_BF16__
struct split_loop {
  const float *in;
  uint8_t *planes;
  int64_t columns, stride, count, grain;
};

static void split_rows(void *context, int64_t index, int32_t thread) {
  const struct split_loop *l = context;
  for (int64_t row = index * l->grain; row < l->count && row < (index + 1) * l->grain; row++)
    split_row(l->in + row * l->stride, l->columns, l->planes + row * planes_bytes(l->columns));
}

// A product's rows as the matrix unit takes them.
static const uint8_t *rows_as_planes(sinter_model *m, const float *in, int64_t columns,
                                     int64_t stride, int64_t count) {
  // So many numbers cost less than to hand them out.
  const int64_t grain = round_up(16384, columns) / columns;
  struct split_loop loop = {in, m->planes, columns, stride, count, grain};
  m->host->parallel_for(m->host, (count + grain - 1) / grain, split_rows, &loop);
  return m->planes;
}
#endif

// Bytes of rows in a block of a product.
enum { BLOCK_OF_ROWS = 768 << 10 };

// `halves`: the weights are floats of 16 bits.
static int32_t product_loop(sinter_model *m, enum rows set, void (*body)(void *, int64_t, int32_t),
                            int64_t panels, int weight, int bias, int halves, int in, int64_t from,
                            int64_t row_bytes, int out, int64_t columns, int64_t in_stride,
                            int64_t out_stride) {
  if (cancelled(m)) return SINTER_CANCELLED;
  int64_t count = m->sets[set].count, height = 12;
  if (!count) return SINTER_OK;
  const uint8_t *rows = m->buffers[in] + from;
#ifdef __AMX_BF16__
  if (halves && m->tiles) {
    rows = rows_as_planes(m, (const float *)rows, columns, in_stride, count);
    height = PAIR_ROWS;
  }
#endif
  // Blocks of one height, and that of whole tiles.
  int64_t blocks = (count * row_bytes + BLOCK_OF_ROWS - 1) / BLOCK_OF_ROWS,
          block = round_up((count + blocks - 1) / blocks, height);
  blocks = (count + block - 1) / block;
  // Fine grains for long work, coarse ones where handing out would cost: a panel takes a microsecond for one row.
  int64_t grain = count > 64 ? 1 : count > 16 ? 2 : 4, most = panels / (8 * m->host->threads);
  if (grain > most) grain = most < 1 ? 1 : most;
  int64_t grains = (panels + grain - 1) / grain;
  const struct product product = {.panels = m->weights[weight],
                                  .rows = rows,
                                  .count = count,
                                  .out = (float *)m->buffers[out],
                                  .bias = bias < 0 ? NULL : (float *)m->weights[bias],
                                  .tiles = m->tiles};
  struct product_loop loop = {m->step->cancel, product, block,     panels,    grain,
                              grains,          columns, in_stride, out_stride};
  m->host->parallel_for(m->host, blocks * grains, body, &loop);
  return SINTER_OK;
}

static int32_t attention_loop(sinter_model *m, enum rows set,
                              void (*body)(void *, int64_t, int32_t), int64_t kv_heads,
                              int64_t layer, int in, int64_t from, int64_t in_stride, int out,
                              int64_t out_stride) {
  if (cancelled(m)) return SINTER_CANCELLED;
  struct attention_loop loop = {m->step,
                                &m->sets[set],
                                m->kv[0],
                                layer,
                                (float *)m->buffers[in] + from,
                                (float *)m->buffers[out],
                                m->scratch,
                                in_stride,
                                out_stride,
                                SCRATCH_BYTES / 4,
                                m->tiles};
  m->host->parallel_for(m->host, m->sets[set].run_count * kv_heads, body, &loop);
  return SINTER_OK;
}

// ------------------------------------------------------------------ single rows, as the emitted loops call them

INLINE void embed_row(const struct panels p, const uint8_t *table,
                      enum number rounded, const int32_t *index, float *out) {
  unpack_row(p, table, *index, rounded, out);
}

INLINE void hidden_in_row(const sinter_model *m, int64_t columns, int64_t token, float *out) {
  memcpy(out, m->step->hidden_in + token * columns, (size_t)columns * 4);
}

// Cosines and sines times `factor`, and times what grows with the position where there is an `original`.
INLINE void angles_row(const sinter_model *m, const double *frequencies, int64_t half,
                       const double factor, const double beta, const double original,
                       int64_t token, float *out) {
  const double position = m->step->positions[token];
  double grown = original > 0 ? 1 + beta * log_double(1 + floor_of(position / original)) : 1;
  const float size = (float)(factor * grown);
  for (int64_t i = 0; i < half; i++) {
    turn(position * frequencies[i], out + i, out + half + i);
    out[i] *= size, out[half + i] *= size;
  }
}

// `each`: every head has weights of its own.
INLINE void norm_heads(const float *x, const float *weight, const int each, const float epsilon,
                       int64_t width, int64_t columns, float *out) {
  for (int64_t i = 0; i < columns; i += width)
    norm_row(x + i, weight + (each ? i : 0), epsilon, width, out + i);
}
INLINE void layer_norm_heads(const float *x, const float *weight, const float *bias, const int each,
                             const float epsilon, int64_t width, int64_t columns, float *out) {
  for (int64_t i = 0; i < columns; i += width)
    layer_norm_row(x + i, weight + (each ? i : 0), bias ? bias + (each ? i : 0) : NULL, epsilon,
                   width, out + i);
}

INLINE void rope_row(float *x, const float *angles, int64_t turned, int64_t head_dim,
                     int64_t columns) {
  for (int64_t i = 0; i < columns; i += head_dim)
    rotate_head(x + i, angles, angles + turned / 2, turned / 2, x + i);
}

INLINE void remember_row(const sinter_model *m, const struct attention a, int64_t layer,
                         const float *key, const float *value, int64_t token) {
  int64_t position = m->step->positions[token], sequence = m->sequence_of[token];
  const int32_t *blocks = m->step->blocks + m->step->block_starts[sequence];
  int32_t block = blocks[block_index(position / BLOCK, m->step->visible_from[sequence], SINKS)];
  uint8_t *cache = m->kv[0] + (size_t)(layer * a.kv_heads) * head_bytes(a);
  for (int64_t h = 0; h < a.kv_heads; h++)
    write_kv(a, block_head(a, cache, block, h), position % BLOCK, key + h * a.head_dim,
             value + h * a.head_dim);
}

// `result`: what becomes of the vector x.
#define APPLY_ROW(result, input, columns, output)          \
  do {                                                     \
    const float *from = input;                             \
    float *to = output;                                    \
    for (int64_t i = 0; i < columns; i += 16) {            \
      const int64_t n = columns - i;                       \
      vec x = n >= 16 ? vec_load(from + i) : vec_load_some(from + i, n); \
      if (n >= 16)                                         \
        vec_store(to + i, result);                         \
      else                                                 \
        vec_store_some(to + i, n, result);                 \
    }                                                      \
  } while (0)
INLINE void add_row(const float *a, const float *b, int64_t columns, float *out) {
  for (int64_t i = 0; i < columns; i++) out[i] = a[i] + b[i];
}
INLINE void multiply_row(const float *a, const float *b, int64_t columns, float *out) {
  for (int64_t i = 0; i < columns; i++) out[i] = a[i] * b[i];
}
INLINE void copy_row(const float *x, int64_t columns, float *out) {
  memmove(out, x, (size_t)columns * 4);
}

// ------------------------------------------------------------------ a step

// The emitted steps of the plan, in order.
static int32_t run_plan(sinter_model *m);

static void sample_row(void *context, int64_t row, int32_t thread) {
  sinter_model *m = context;
  sample(m->step, (float *)m->buffers[LOGITS_BUFFER] + row * LOGITS_STRIDE, VOCABULARY, row,
         m->samplers + (size_t)thread * SAMPLER_BYTES);
}

int32_t sinter_step(sinter_model *m, const sinter_step_arrays *s) {
  m->step = s;
  int32_t code = check_step(m, s);
  if (!code) code = check_sampling(m, s);
  if (code) return code;
  find_rows(m, s);
  code = run_plan(m);
  if (code || cancelled(m)) return SINTER_CANCELLED;
  for (int64_t i = 0; i < s->hidden_rows; i++)
    memcpy(s->out_hidden + i * HIDDEN_COLUMNS,
           (float *)m->buffers[HIDDEN_BUFFER] + i * HIDDEN_STRIDE, HIDDEN_COLUMNS * 4);
  for (int64_t i = 0; s->out_logits && i < s->rows; i++)
    memcpy(s->out_logits + i * VOCABULARY, (float *)m->buffers[LOGITS_BUFFER] + i * LOGITS_STRIDE,
           VOCABULARY * 4);
  m->host->parallel_for(m->host, s->rows, sample_row, m);
  return SINTER_OK;
}

#endif
