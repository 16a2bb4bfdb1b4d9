// How every emitted driver takes a step: the checks before it, the rows it is about, and the loops over them. The emitted
// file around this one has defined the model's constants before; behind come the functions of rows and the table of steps.
//
// No shape is read at run time, unless the library is GENERIC: generic.h says where its constants come from. What varies is how many tokens, sequences and wanted rows there are, and where they stand.
#ifndef SINTER_DRIVER_H
#define SINTER_DRIVER_H

#include "driver_experts.h"
#include "driver_indexer.h"
#include "driver_model.h"
#include "driver_products.h"
#include "elementary.h"
#include "rows.h"
#include "sampler.h"

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

// Which tokens bring a row of hidden_in; and behind it, in the place of a token, which one.
enum takes { TAKES_NONE, TAKES_ALL, TAKES_SOME };
enum { SEEN = 0x40000000 };

// Nothing that a step is given may lead outside the model's memory.
static int32_t check_sequence(sinter_model *m, const sinter_step_arrays *s, int64_t sequence) {
  int64_t first = s->starts[sequence], end = s->starts[sequence + 1];
  if (first == end)
    return refuse(m, SINTER_BAD_INDEX, "sequence %lld has no tokens", (long long)sequence);
  int64_t position = s->positions[first], last = position + end - first - 1;
  if (last >= CONTEXT)
    return refuse(m, SINTER_BAD_INDEX, "position %lld is beyond the context of %d", (long long)last,
                  CONTEXT);
  if (position < 0) return refuse(m, SINTER_BAD_INDEX, "a position is below zero");
  for (int64_t t = first; t < end; t++) {
    if (s->positions[t] != position + t - first)
      return refuse(m, SINTER_BAD_INDEX, "positions of a sequence do not follow each other");
    // In a tower a row may see others and not itself, and where images are cross-attention's, nothing of its step.
    const int64_t least = WORDS ? 0 : TAKES == TAKES_ALL ? position : s->positions[t];
    if (s->seen_to && (s->seen_to[t] < least || s->seen_to[t] > last))
      return refuse(m, SINTER_BAD_INDEX, "a token sees to where nothing is");
    if (s->seen_from && (s->seen_from[t] < 0 || s->seen_from[t] > s->positions[t] ||
                         (s->seen_to && s->seen_from[t] > s->seen_to[t])))
      return refuse(m, SINTER_BAD_INDEX, "a token sees from where it is not");
  }
  return SINTER_OK;
}

// Its blocks in one KV group.
static int32_t check_blocks(sinter_model *m, const sinter_step_arrays *s, int64_t sequence,
                            int group) {
  const int64_t list = group * s->sequences + sequence, kept = s->visible_from[list],
                position = s->positions[s->starts[sequence]],
                last = s->positions[s->starts[sequence + 1] - 1],
                blocks = s->block_starts[list + 1] - s->block_starts[list];
  if (kept < 0 || kept > position)
    return refuse(m, SINTER_BAD_INDEX, "a position is not visible to itself");
  if (block_index(last / BLOCK, kept, SINKS) >= blocks)
    return refuse(m, SINTER_BAD_INDEX, "position %lld has no block", (long long)last);
  if (!within(s->blocks + s->block_starts[list], blocks, m->blocks[group]))
    return refuse(m, SINTER_BAD_INDEX, "a block is none of the %d there are", m->blocks[group]);
  return SINTER_OK;
}

// The state that it goes on from, and the one that it leaves, which nobody else of the step has anything to do with.
static int32_t check_states(sinter_model *m, const sinter_step_arrays *s, int64_t sequence,
                            int group) {
  const int64_t first = group * s->sequences, own = s->block_starts[first + sequence];
  const int32_t *states = s->blocks + own;
  if (s->block_starts[first + sequence + 1] - own != 2)
    return refuse(m, SINTER_BAD_INDEX, "a sequence goes on from one state to another");
  if (!within(states, 2, m->blocks[group]))
    return refuse(m, SINTER_BAD_INDEX, "a state is none of the %d there are", m->blocks[group]);
  for (int64_t i = 0; i < s->sequences; i++) {
    const int32_t *others = s->blocks + s->block_starts[first + i];
    const int goes_on = s->positions[s->starts[i]] > 0;
    if ((i < sequence && others[1] == states[1]) || (goes_on && others[0] == states[1]))
      return refuse(m, SINTER_BAD_INDEX, "state %d has two uses", states[1]);
  }
  return SINTER_OK;
}

// Of those that have a row in the table, or in the place of one a row that is taken in.
static int are_tokens(const sinter_model *m, const sinter_step_arrays *s) {
  if (TAKES != TAKES_SOME) return within(s->tokens, s->total, READABLE);
  for (int64_t i = 0; i < s->total; i++) {
    const int32_t token = s->tokens[i], row = token - SEEN;
    if (row >= 0 ? row >= s->taken_rows : !within(&token, 1, READABLE)) return 0;
  }
  return 1;
}

static int32_t check_step(sinter_model *m, const sinter_step_arrays *s) {
  if (s->total < 0 || s->total > m->limits.tokens || s->sequences < 0 ||
      s->sequences > m->limits.sequences || s->rows < 0 || s->rows > m->limits.rows ||
      s->hidden_rows < 0 || s->hidden_rows > m->limits.tokens)
    return refuse(m, SINTER_BAD_INDEX, "the step is larger than the model was opened for");
  if (!ascending(s->starts, s->sequences) || s->starts[s->sequences] != s->total ||
      !ascending(s->block_starts, KV_STORAGES * s->sequences))
    return refuse(m, SINTER_BAD_INDEX, "the sequences do not lie end to end");
  if (!are_tokens(m, s))
    return refuse(m, SINTER_BAD_INDEX, "a token is not in the vocabulary");
  if (!within(s->logit_rows, s->rows, s->total) ||
      !within(s->hidden_rows_of, s->hidden_rows, s->total - JOINED + 1))
    return refuse(m, SINTER_BAD_INDEX, "a wanted row is no token of the step");
  if (TAKES != TAKES_SOME && s->taken_rows != (TAKES == TAKES_ALL ? s->total : 0))
    return refuse(m, SINTER_BAD_INDEX,
                  TAKES ? "hidden rows are missing" : "hidden rows are not taken in");
  for (int64_t i = 0; i < s->sequences; i++) {
    int32_t code = check_sequence(m, s, i);
    for (int group = 0; !code && group < KV_STORAGES; group++)
      code = kv_is_state[group] ? check_states(m, s, i, group) : check_blocks(m, s, i, group);
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
    if (s->top_logprobs[i] < NO_LOGPROBS || s->top_logprobs[i] > MAX_TOP_LOGPROBS)
      return refuse(m, SINTER_BAD_INDEX,
                    "more log-probabilities are asked for than there are places");
  }
  return SINTER_OK;
}

// Whether a token's sight ends before that of the one before it, or begins before it: what a run sees is between what its first row
// sees first and its last row last.
static int sees_back(const sinter_step_arrays *s, const int32_t token, const int32_t before) {
  return (s->seen_to && s->seen_to[token] < s->seen_to[before]) ||
         (s->seen_from && s->seen_from[token] < s->seen_from[before]);
}

// Rows of one sequence, as many at a time as make one item of any layer's attention.
static void make_runs(sinter_model *m, const sinter_step_arrays *s, struct row_set *set) {
  const int64_t most = item_positions(ATTENTION, m->tiles);
  set->run_count = 0;
  for (int64_t row = 0; row < set->count;) {
    int32_t sequence = m->sequence_of[set->token[row]];
    int64_t end = row + 1;
    while (end < set->count && end - row < most && m->sequence_of[set->token[end]] == sequence &&
           !sees_back(s, set->token[end], set->token[end - 1]))
      end++;
    set->runs[set->run_count++] =
        (struct attention_run){(int32_t)row, (int32_t)(end - row), sequence};
    row = end;
  }
}

static void find_rows(sinter_model *m, const sinter_step_arrays *s) {
  struct row_set *tokens = &m->sets[TOKENS], *wanted = &m->sets[WANTED], *logits = &m->sets[LOGITS],
                 *hidden = &m->sets[HIDDEN], *taken = &m->sets[TAKEN];
  for (int64_t i = 0; i < s->sequences; i++)
    for (int64_t t = s->starts[i]; t < s->starts[i + 1]; t++) m->sequence_of[t] = (int32_t)i;
  for (int64_t t = 0; t < s->total; t++) tokens->token[t] = (int32_t)t, m->wanted_of[t] = -1;
  for (int64_t i = 0; i < s->rows; i++) m->wanted_of[s->logit_rows[i]] = 0;
  for (int64_t i = 0; i < s->hidden_rows; i++) m->wanted_of[s->hidden_rows_of[i]] = 0;
  // What rows that are taken in become behind their keys and values nobody reads: see Manifest.words.
  taken->count = 0;
  if (WORDS)
    for (int64_t t = 0; t < s->total; t++) {
      if (s->tokens[t] < SEEN) m->wanted_of[t] = 0;
      else taken->token[taken->count++] = (int32_t)t;
    }
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
  make_runs(m, s, tokens);
  make_runs(m, s, wanted);
}

// ------------------------------------------------------------------ loops

// Row by row: functions that look at nothing but their own row run one after the other on it.
struct row_loop {
  sinter_model *model;
  const struct row_set *set;
  const struct step *step;
  int64_t grain;
};
#define WEIGHT(number) ((void *)m->weights[loop->step->weights[number]])
#define EACH_ROW(loop, index)                 \
  for (int64_t row = (index) * (loop)->grain; \
       row < (loop)->set->count && row < ((index) + 1) * (loop)->grain; row++)

static void rows_step(sinter_model *m, const struct step *s) {
  const struct row_set *set = &m->sets[s->rows];
  int64_t grain = set->count / (8 * m->host->threads);
  if (grain < 1) grain = 1;
  struct row_loop loop = {.model = m, .set = set, .step = s, .grain = grain};
  m->host->parallel_for(m->host, (set->count + grain - 1) / grain, s->body, &loop);
}

// Whether a fifth of the threads' time or more is left without work. With less, parts of items bring less than they cost.
static int leave_threads_idle(int64_t items, int64_t threads) {
  const int64_t rounds = (items + threads - 1) / threads;
  return 4 * rounds * threads >= 5 * items;
}

// Into how many shares the query heads of so many items fall: as few as give every thread the same.
static int64_t shares_of_items(int64_t items, int64_t most, int64_t threads) {
  int64_t shares = 1;
  if (leave_threads_idle(items, threads))
    while (shares < most && items * shares % threads) shares++;
  return shares;
}

// Positions from which on pieces are worth a second loop.
enum { LONG_CONTEXT = 512 };

// How many positions the longest of the runs sees where items leave threads without work and may be taken in pieces; else 0.
static int64_t positions_in_pieces(const sinter_model *m, const struct attention_step *a,
                                   const struct row_set *set) {
  const int64_t items = set->run_count * a->kv_heads, threads = m->host->threads;
  if (!a->pieces || m->tiles || !items || !leave_threads_idle(items, threads)) return 0;
  int64_t most = 0;
  for (int64_t i = 0; i < set->run_count; i++) {
    if (set->runs[i].count > 1) return 0;
    const int32_t token = set->token[set->runs[i].row];
    const int64_t position = m->step->positions[token];
    const int64_t to = m->step->seen_to ? m->step->seen_to[token] : position;
    if (position >= most) most = position + 1;
    if (to >= most) most = to + 1;
  }
  most = round_up(most, STEP);
  return most < LONG_CONTEXT || items * a->heads_of_kv * most * 4 > threads * SCORE_BYTES ? 0 : most;
}

// Its scores, then its values. An item's pieces of values are as many as give every thread the same share of all columns.
static void attention_in_pieces(sinter_model *m, const struct attention_step *a,
                                const struct attention_loop items, int64_t positions) {
  const int64_t count = items.set->run_count * a->kv_heads, threads = m->host->threads;
  struct pieces_loop loop = {.items = items, .scores = m->scores, .stride = positions};
  loop.positions = round_up((positions * count + 4 * threads - 1) / (4 * threads), STEP);
  loop.pieces = (positions + loop.positions - 1) / loop.positions;
  m->host->parallel_for(m->host, count * loop.pieces, a->pieces, &loop);
  loop.weighs = 1;
  loop.pieces = 1;
  while (loop.pieces < a->vectors && count * loop.pieces % threads) loop.pieces++;
  m->host->parallel_for(m->host, count * loop.pieces, a->pieces, &loop);
}

static void attention_step(sinter_model *m, const struct step *s) {
  const struct attention_step *a = &s->attention;
  const struct row_set *set = &m->sets[s->rows];
  const int64_t items = set->run_count * a->kv_heads;
  struct attention_loop loop = {
      .step = m->step,
      .set = set,
      .cache = m->kv[a->group],
      .lists = a->group * m->step->sequences,
      .layer = a->layer,
      .query = (float *)m->buffers[a->query] + a->from,
      .query_stride = a->query_stride,
      .out = (float *)m->buffers[a->output],
      .out_stride = a->out_stride,
      .scratch = m->scratch,
      .scratch_stride = SCRATCH_BYTES / 4,
      .tiles = m->tiles,
      .sink_logits = a->sink_logits == NO_WEIGHT ? NULL : (float *)m->weights[a->sink_logits],
      .biases = a->biases == NO_WEIGHT ? NULL : (float *)m->weights[a->biases],
      .by_query = a->by_query_stride ? (float *)m->buffers[a->by_query] + a->by_query_from : NULL,
      .by_key = a->by_key_stride ? (float *)m->buffers[a->by_key] + a->by_key_from : NULL,
      .by_query_stride = a->by_query_stride,
      .by_key_stride = a->by_key_stride,
      .chosen = a->chosen_stride ? (float *)m->buffers[a->chosen] : NULL,
      .chosen_stride = a->chosen_stride,
      .shares = shares_of_items(items, a->most_shares, m->host->threads),
      .attention = &a->attention,
  };
  const int64_t positions = positions_in_pieces(m, a, set);
  if (positions)
    attention_in_pieces(m, a, loop, positions);
  else
    m->host->parallel_for(m->host, items * loop.shares, s->body, &loop);
}

// In a file of its own, which the libraries of several models have in common.
void delta_heads(void *context, int64_t index, int32_t thread);

static void delta_step(sinter_model *m, const struct step *s) {
  const struct delta_step *d = &s->delta;
  struct delta_loop loop = {.arrays = m->step,
                            .step = d,
                            .states = m->kv[d->group],
                            .bytes = kv_block_bytes[d->group],
                            .weights = m->weights,
                            .buffers = m->buffers};
  m->host->parallel_for(m->host, m->step->sequences * d->value_heads, delta_heads, &loop);
}

// ------------------------------------------------------------------ single rows, as the emitted loops call them

// What names a row of a table: the token, its position, its time, its height, its width or its adapter; `instead`: of a token that a
// row is taken in for.
enum { BY_ADAPTER = 5 };
INLINE int64_t embedded(const sinter_step_arrays *s, const int64_t token, const int by,
                        const int64_t instead) {
  if (by == BY_ADAPTER) return s->adapters ? s->adapters[token] : 0;
  if (by > 1 && s->coordinates) return s->coordinates[(by - 2) * s->total + token];
  if (by > 0) return s->positions[token];
  return instead >= 0 && s->tokens[token] >= SEEN ? instead : s->tokens[token];
}

struct embed {
  int64_t index;
  const uint8_t *table;
  struct panels panels;
  enum number rounded;
  float *output;
};
INLINE void embed_row(const struct embed e) {
  unpack_row(e.panels, e.table, e.index, e.rounded, e.output);
}

struct seen {
  int64_t index;
  const float *taken;
  int64_t taken_columns, columns;
  const uint8_t *table;
  struct panels panels;
  enum number rounded;
  float *output;
};
// A row of the table, or the row that was taken in for the token.
INLINE void seen_row(const struct seen e) {
  if (e.index >= SEEN)
    memcpy(e.output, e.taken + (e.index - SEEN) * e.taken_columns, (size_t)e.columns * 4);
  else
    unpack_row(e.panels, e.table, e.index, e.rounded, e.output);
}

struct seen_part {
  int64_t index;
  const float *taken;
  int64_t taken_columns, from, columns;
  float *output;
};
// Some columns of the row that was taken in for the token, or zeros.
INLINE void seen_part_row(const struct seen_part e) {
  if (e.index >= SEEN)
    memcpy(e.output, e.taken + (e.index - SEEN) * e.taken_columns + e.from, (size_t)e.columns * 4);
  else
    memset(e.output, 0, (size_t)e.columns * 4);
}

struct rope_table {
  int32_t position;
  const double *frequencies;
  int64_t count;
  double factor, beta, original, ahead;
  float *output;  // [2, count]
};
// Cosines and sines times `factor`, and times what grows with the position where there is an `original`.
INLINE void rope_table_row(const struct rope_table a) {
  const double position = a.position;
  const double grown =
      a.original > 0 ? 1 + a.beta * log_double(1 + floor_of((position + a.ahead) / a.original)) : 1;
  const float size = (float)(a.factor * grown);
  for (int64_t i = 0; i < a.count; i++) {
    turn(position * a.frequencies[i], a.output + i, a.output + a.count + i);
    a.output[i] *= size, a.output[a.count + i] *= size;
  }
}

struct rope_axes {
  const sinter_step_arrays *step;
  int64_t token;
  const double *frequencies, *axes;  // [count]
  int64_t count;
  double factor;
  float *output;  // [2, count]
};
// The same where each pair is turned by one of the token's three coordinates, or by its position.
INLINE void rope_axes_row(const struct rope_axes a) {
  const float size = (float)a.factor;
  for (int64_t i = 0; i < a.count; i++) {
    const int64_t at = (int64_t)a.axes[i] * a.step->total + a.token;
    const int is_placed = a.step->coordinates && a.axes[i] < 3;
    const double turned = is_placed ? a.step->coordinates[at] : a.step->positions[a.token];
    turn(turned * a.frequencies[i], a.output + i, a.output + a.count + i);
    a.output[i] *= size, a.output[a.count + i] *= size;
  }
}

struct norm {
  const float *input;
  int64_t columns, width;
  const float *weight, *bias;
  int each;  // every head has weights of its own
  float epsilon;
  float *output;
};
INLINE void norm_heads(const struct norm n) {
  for (int64_t i = 0; i < n.columns; i += n.width)
    norm_row(n.input + i, n.weight + (n.each ? i : 0), n.epsilon, n.width, n.output + i);
}
INLINE void layer_norm_heads(const struct norm n) {
  for (int64_t i = 0; i < n.columns; i += n.width)
    layer_norm_row(n.input + i, n.weight + (n.each ? i : 0),
                   n.bias ? n.bias + (n.each ? i : 0) : NULL, n.epsilon, n.width, n.output + i);
}

struct quantized {
  const float *input;
  struct panels weights;  // that the row will meet
  uint8_t *output;
};
INLINE void quantize(const struct quantized q) {
  quantize_row(q.input, q.weights.columns, q.weights.group, quantized_sums(q.weights), q.output);
}

struct rope {
  float *row;
  int64_t columns, head_dim;
  const float *rope_table;
  int64_t turned;  // columns of a head
};
INLINE void rope_row(const struct rope r) {
  for (int64_t i = 0; i < r.columns; i += r.head_dim)
    rotate_head(r.row + i, r.rope_table, r.rope_table + r.turned / 2, r.turned / 2, r.row + i);
}

struct stored_kv {
  struct attention attention;
  int64_t group, layer;
  const float *key, *value;
  int64_t token;
};
INLINE void store_kv_row(const sinter_model *m, const struct stored_kv r) {
  const struct attention a = r.attention;
  int64_t position = m->step->positions[r.token],
          list = r.group * m->step->sequences + m->sequence_of[r.token];
  const int32_t *blocks = m->step->blocks + m->step->block_starts[list];
  int32_t block = blocks[block_index(position / BLOCK, m->step->visible_from[list], SINKS)];
  uint8_t *cache = m->kv[r.group] + (size_t)(r.layer * a.kv_heads) * head_bytes(a);
  for (int64_t h = 0; h < a.kv_heads; h++)
    write_kv(a, block_head(a, cache, block, h), position % BLOCK, r.key + h * a.head_dim,
             r.value + h * value_dim(a));
}

struct convolved {
  struct attention attention;  // how rows are kept, as keys
  int64_t group, layer;
  const float *taps;  // [columns, count]
  int64_t count, ahead, token;
  const float *bias;  // or NULL
  float *output;
};
// Sixteen columns of a row that is kept as keys, from d on.
INLINE vec kept_columns(const struct attention a, const uint8_t *head, int64_t place, int64_t d) {
  const size_t size = number_size(a.number);
  uint8_t column[64] = {0};
  for (int64_t i = 0; i < 16 && d + i < a.head_dim; i++)
    memcpy(column + (size_t)i * size, head + (size_t)((d + i) * BLOCK + place) * size, size);
  const vec x = vec_load_number(a.number, column);
  if (a.number != Q8) return x;
  return vec_mul(x, vec_set(((const float *)(head + codes_bytes(a)))[place]));
}
INLINE void convolve_row(const sinter_model *m, const struct convolved r) {
  const struct attention a = r.attention;
  const int64_t position = m->step->positions[r.token],
                list = r.group * m->step->sequences + m->sequence_of[r.token];
  const int32_t *blocks = m->step->blocks + m->step->block_starts[list];
  uint8_t *cache = m->kv[r.group] + (size_t)(r.layer * a.kv_heads) * head_bytes(a);
  const int64_t from = position + r.ahead - (r.count - 1), first = from < 0 ? -from : 0;
  const int64_t last = m->step->positions[m->step->starts[m->sequence_of[r.token] + 1] - 1];
  const int64_t end = last - from + 1 < r.count ? last - from + 1 : r.count;
  for (int64_t h = 0; h < a.kv_heads; h++)
    for (int64_t d = 0; d < a.head_dim; d += 16) {
      const int64_t n = a.head_dim - d < 16 ? a.head_dim - d : 16;
      const int64_t column = h * a.head_dim + d;
      vec sum = r.bias ? vec_load_some(r.bias + column, n) : vec_zero();
      for (int64_t tap = first; tap < end; tap++) {
        const int64_t p = from + tap;
        const int32_t block = blocks[block_index(p / BLOCK, m->step->visible_from[list], SINKS)];
        const uint8_t *head = block_head(a, cache, block, h);
        float taps[16] = {0};
        for (int64_t i = 0; i < n; i++) taps[i] = r.taps[(column + i) * r.count + tap];
        sum = vec_fma(vec_load(taps), kept_columns(a, head, p % BLOCK, d), sum);
      }
      vec_store_some(r.output + column, n, sum);
    }
}

// What is done to each element by itself, or to two that stand in the same place.
struct elements {
  const float *input, *other;
  int64_t columns;
  float *output;
};
// `result`: what becomes of the vector x. Behind it a struct elements, whose initialiser has commas.
#define APPLY_ROW(result, ...)                                                 \
  do {                                                                         \
    const struct elements e = __VA_ARGS__;                                     \
    for (int64_t i = 0; i < e.columns; i += 16) {                              \
      const int64_t n = e.columns - i;                                         \
      vec x = n >= 16 ? vec_load(e.input + i) : vec_load_some(e.input + i, n); \
      if (n >= 16)                                                             \
        vec_store(e.output + i, result);                                       \
      else                                                                     \
        vec_store_some(e.output + i, n, result);                               \
    }                                                                          \
  } while (0)
INLINE void add_row(const struct elements e) {
  for (int64_t i = 0; i < e.columns; i++) e.output[i] = e.input[i] + e.other[i];
}
INLINE void multiply_row(const struct elements e) {
  for (int64_t i = 0; i < e.columns; i++) e.output[i] = e.input[i] * e.other[i];
}
// By one number.
INLINE void scale_row(const struct elements e) {
  for (int64_t i = 0; i < e.columns; i++) e.output[i] = e.input[i] * e.other[0];
}
// Runs of so many columns, each by a number of its own.
struct scaled {
  const float *input, *other;
  int64_t columns;
  float *output;
  int64_t width;
};
INLINE void scale_runs(const struct scaled s) {
  for (int64_t run = 0; run < s.columns / s.width; run++)
    scale_row((struct elements){s.input + run * s.width, s.other + run, s.width, s.output + run * s.width});
}
// `other`: the least and the most. What is no number shows.
INLINE void bound_row(const struct elements e) {
  const float least = e.other[0], most = e.other[1];
  for (int64_t i = 0; i < e.columns; i++) {
    const float x = e.input[i], below = x < most ? x : most;
    e.output[i] = (below > least ? below : least) + x * 0.0f;
  }
}
// `other`: which of the columns comes where, or below 0 that none does (NOWHERE of graph.ts).
#define NOWHERE -1e9f
INLINE void reorder_row(const struct elements e) {
  for (int64_t i = 0; i < e.columns; i++)
    e.output[i] = e.other[i] < 0 ? NOWHERE : e.input[(int64_t)e.other[i]];
}
INLINE void copy_row(const struct elements e) {
  memmove(e.output, e.input, (size_t)e.columns * 4);
}

// ------------------------------------------------------------------ a step

#ifdef GENERIC
enum { HAS_EXPERTS = 1, HAS_HEAD_PRODUCTS = 1, HAS_DELTAS = 1, HAS_INDEXERS = 1 };
#else
// The plan, at the end of the emitted file.
static const struct step plan_steps[PLAN_STEPS];
#endif

// For whoever looks at where a step's time goes (bench/timeline): nothing in a library that is run.
#ifndef AT_STEP
#define AT_STEP(m, number)
#endif

static int32_t run_plan(sinter_model *m) {
  for (const struct step *s = plan_steps; s < plan_steps + PLAN_STEPS; s++) {
    if (cancelled(m)) return SINTER_CANCELLED;
    AT_STEP(m, (int)(s - plan_steps));
    switch (s->kind) {
      case ROW_BY_ROW:
        rows_step(m, s);
        break;
      case PRODUCT:
        product_step(m, s);
        break;
      case EXPERTS:
        if (HAS_EXPERTS) experts_step(m, s);
        break;
      case HEAD_PRODUCT:
        if (HAS_HEAD_PRODUCTS) head_step(m, s);
        break;
      case ATTEND:
        attention_step(m, s);
        break;
      case DELTA:
        if (HAS_DELTAS) delta_step(m, s);
        break;
      case INDEX:
        if (HAS_INDEXERS) indexer_step(m, s);
        break;
    }
  }
  return cancelled(m) ? SINTER_CANCELLED : SINTER_OK;
}

// In a file of its own, which the libraries of several models have in common.
void sample_from(const sinter_step_arrays *a, const float *logits, int64_t vocabulary, int64_t row,
                 uint8_t *workspace);

static void sample_row(void *context, int64_t row, int32_t thread) {
  sinter_model *m = context;
  sample_from(m->step, (float *)m->buffers[LOGITS_BUFFER] + row * LOGITS_STRIDE, VOCABULARY, row,
              m->samplers + (size_t)thread * SAMPLER_BYTES);
}

static void loop_behind(sinter_host *host, int64_t count, void (*body)(void *, int64_t, int32_t),
                        void *context) {
  const struct behind *b = (struct behind *)host;
  b->own->stand_back(b->own, count, body, context, b->word);
}

static int32_t take_step(sinter_model *m, const sinter_step_arrays *s) {
  m->step = s;
  int32_t code = check_step(m, s);
  if (!code) code = check_sampling(m, s);
  if (code) return code;
  find_rows(m, s);
  code = run_plan(m);
  if (code) return code;
  for (int64_t i = 0; i < s->hidden_rows; i++)
    memcpy(s->out_hidden + i * HIDDEN_COLUMNS,
           (float *)m->buffers[HIDDEN_BUFFER] + i * HIDDEN_STRIDE, HIDDEN_COLUMNS * 4);
  for (int64_t i = 0; s->out_logits && i < s->rows; i++)
    memcpy(s->out_logits + i * VOCABULARY, (float *)m->buffers[LOGITS_BUFFER] + i * LOGITS_STRIDE,
           VOCABULARY * 4);
  AT_STEP(m, PLAN_STEPS);
  m->host->parallel_for(m->host, s->rows, sample_row, m);
  return SINTER_OK;
}

int32_t sinter_step(sinter_model *m, const sinter_step_arrays *s) {
  sinter_host *own = m->host;
  m->behind = (struct behind){.host = *own, .own = own, .word = s->behind};
  m->behind.host.parallel_for = loop_behind;
  if (s->behind) m->host = &m->behind.host;
  const int32_t code = take_step(m, s);
  m->host = own;
  return code;
}

#endif
