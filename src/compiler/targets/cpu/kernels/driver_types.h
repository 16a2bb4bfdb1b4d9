// What the parts of an emitted model share: the driver, and the products that are compiled beside it.
#ifndef SINTER_DRIVER_TYPES_H
#define SINTER_DRIVER_TYPES_H

#include <math.h>

#include "abi.h"
#include "attention_pieces.h"
#include "attention_tiles.h"
#include "indexer.h"
#include "product.h"

// How a parameter is kept. A vector is floats in order; a bias stands in the order of its matrix's panels.
enum kept { MATRIX, EXPANDED, VECTOR, BIAS };

struct parameter {
  enum kept kept;
  size_t at;             // in the memory of the weights
  struct panels panels;  // of a bias: those of its matrix
  struct panels stored;  // EXPANDED: as it comes in; VECTOR, BIAS: number and rows
};

// Bytes, known when a library is opened: a constant, and so many for each token and each row of logits in a step, and for
// each thread. layout.ts decides them.
struct extent {
  size_t fixed, token, row, thread;
};

// Rows that a step computes, of one of the plan's row sets.
struct row_set {
  int64_t count;
  int32_t *token;         // [count] which of the step's tokens each row is
  int32_t *wanted;        // [count] which of the wanted rows each row is; logits and hidden only
  struct attention_run {  // rows of one sequence that attend together
    int32_t row, count, sequence;
  } *runs;  // tokens and wanted only
  int64_t run_count;
};
enum rows { TOKENS, WANTED, LOGITS, HIDDEN, TAKEN, ROW_SETS };

struct row_set_places {
  struct extent token, wanted, runs;
};

INLINE int is_set(const int32_t *cancel) {
  return cancel && __atomic_load_n(cancel, __ATOMIC_RELAXED) != 0;
}

// Rows come in blocks that a core's second cache holds beside the panels, and every block meets all panels: without, 512 rows
// are fetched from memory once for each panel.
struct product_loop {
  const int32_t *cancel;
  struct product product;
  int64_t block;  // rows
  int64_t panels, grain, grains;
  // Where they are no constants:
  int64_t columns, in_stride;
  int far, zero;
};

// What is constant of a product where it is compiled for one shape.
struct product_kind {
  struct panels weights;
  int quantized, far;  // far: the weights do not lie in the cache as a whole
  int64_t in_stride;
};

// The panels of one piece of work, as many at a time as the product takes, and the rows they meet.
INLINE void product_item(const struct product_loop *loop, const struct product_kind kind,
                         int64_t index) {
  struct product part = loop->product;
  part.first = index / loop->grains * loop->block;
  if (part.count > loop->block) part.count = loop->block;
  if (part.count > loop->product.count - part.first) part.count = loop->product.count - part.first;
  int64_t panel = index % loop->grains * loop->grain,
          end = panel + loop->grain < loop->panels ? panel + loop->grain : loop->panels;
  while (panel < end && !is_set(loop->cancel))
    panel +=
        product_panel(kind.weights, kind.quantized, kind.far, kind.in_stride, &part, panel, end);
}

// Heads, each by rows of its own of one matrix.
struct head_loop {
  const int32_t *cancel;
  const uint8_t *panels;
  const float *in;
  float *out;
  int64_t count;  // rows of activations
  const struct head_kind *kind;  // where it is no constant
};
struct head_kind {
  struct panels weights;
  int64_t rows;  // of the matrix for each head
  int64_t kept;  // first columns of a head, which are not multiplied
  int64_t in_stride, out_stride;
};

// A panel against all rows. A panel that several heads share is multiplied with each of them, and each takes its own rows.
INLINE void head_item(const struct head_loop *loop, const struct head_kind kind, int64_t index) {
  if (is_set(loop->cancel)) return;
  const struct panels w = kind.weights;
  const uint8_t *panel = loop->panels + (size_t)index * panels_panel_bytes(w);
  const int64_t first = index * PANEL, end = first + PANEL < w.rows ? first + PANEL : w.rows,
                given = w.columns + kind.kept, made = kind.rows + kind.kept;
  for (int64_t head = first / kind.rows; head * kind.rows < end; head++) {
    const int64_t begins = head * kind.rows, from = begins > first ? begins : first,
                  to = begins + kind.rows < end ? begins + kind.rows : end;
    const float *in = loop->in + head * given + kind.kept;
    float *out = loop->out + head * made;
    for (int64_t row = 0; row < loop->count;) {
      const int64_t left = loop->count - row, height = left < FLOAT_ROWS ? left : FLOAT_ROWS;
      float sums[FLOAT_ROWS][PANEL];
      struct fetch behind = NO_FETCH;
      const float *rows = in + row * kind.in_stride;
      switch (height) {
#define TILE(n)                                                          \
  case n:                                                                \
    tile_unrounded(w, n, 0, &behind, panel, rows, kind.in_stride, sums); \
    break;
#if FLOAT_ROWS == 6
        TILE(6) TILE(5)
#endif
        TILE(4) TILE(3) TILE(2) TILE(1)
#undef TILE
      }
      for (int64_t i = 0; i < height; i++, row++) {
        float *own = out + row * kind.out_stride;
        memcpy(own + from - begins, sums[i] + from - first, (size_t)(to - from) * 4);
        if (from == begins)
          memcpy(own + kind.rows, in + row * kind.in_stride - kind.kept, (size_t)kind.kept * 4);
      }
    }
  }
}

struct attention_loop {
  const sinter_step_arrays *step;
  const struct row_set *set;
  uint8_t *cache;
  int64_t lists;  // where the block lists of the layer's KV group begin: one for each sequence
  int64_t layer;  // of the group's
  const float *query;
  float *out, *scratch;
  int64_t query_stride, out_stride, scratch_stride;
  int tiles;  // whether the matrix unit may be used
  const float *sink_logits, *biases;
  const float *by_query, *by_key;  // of rows and of tokens, where biases are of buckets
  int64_t by_query_stride, by_key_stride;
  const float *chosen;  // of rows, where it is sparse
  int64_t chosen_stride;
  int64_t shares;  // into which an item's query heads fall where keys hold values; of others one
  const struct attention *attention;  // where it is no constant
};

// What `last_seen` is told.
INLINE int64_t step_end(const sinter_step_arrays *step, const struct attention a, int32_t sequence,
                        int32_t token) {
  if (!a.mutual) return step->positions[step->starts[sequence + 1] - 1];
  return step->seen_to ? step->seen_to[token] : step->positions[token];
}

// The first position that a token sees, of those from `kept` on.
INLINE int64_t step_begin(const sinter_step_arrays *step, const struct attention a, int32_t token,
                          int64_t kept) {
  const int64_t from = first_seen(a, step->positions[token], kept);
  return a.mutual && step->seen_from && step->seen_from[token] > from ? step->seen_from[token] : from;
}

// One run of rows and one KV head. Late positions, which have most to read, come first. `firsts`, `lasts`, `positions`: room for the run's.
INLINE struct attention_item attention_item_of(const struct attention_loop *loop,
                                               const struct attention a, int64_t index,
                                               int32_t *firsts, int32_t *lasts,
                                               int32_t *positions) {
  const sinter_step_arrays *step = loop->step;
  const struct attention_run *run = &loop->set->runs[loop->set->run_count - 1 - index / a.kv_heads];
  const int64_t list = loop->lists + run->sequence, kept = step->visible_from[list];
  for (int32_t i = 0; i < run->count; i++) {
    const int32_t token = loop->set->token[run->row + i];
    positions[i] = step->positions[token];
    firsts[i] = (int32_t)step_begin(step, a, token, kept);
    lasts[i] = (int32_t)last_seen(a, step->positions[token], step_end(step, a, run->sequence, token));
  }
  return (struct attention_item){
      .cache = loop->cache + (size_t)(loop->layer * a.kv_heads) * head_bytes(a),
      .blocks = step->blocks + step->block_starts[list],
      .firsts = firsts,
      .lasts = lasts,
      .positions = positions,
      .tokens = run->count,
      .kept = kept,
      .query = loop->query + run->row * loop->query_stride,
      .query_stride = loop->query_stride,
      .out = loop->out + run->row * loop->out_stride,
      .out_stride = loop->out_stride,
      .sink_logits = loop->sink_logits,
      .biases = loop->biases,
      .by_query = a.buckets ? loop->by_query + run->row * loop->by_query_stride : NULL,
      .by_key = a.buckets ? loop->by_key + step->starts[run->sequence] * loop->by_key_stride : NULL,
      .by_query_stride = loop->by_query_stride,
      .by_key_stride = loop->by_key_stride,
      .chosen = loop->chosen ? loop->chosen + run->row * loop->chosen_stride : NULL,
      .chosen_stride = loop->chosen_stride,
  };
}
// One of the shares of an item's query heads. What a head comes to hangs on no other head, so shares change no bit.
INLINE struct attention own_heads(struct attention a, struct attention_item *item, int64_t share,
                                 int64_t shares) {
  const int64_t from = a.heads * share / shares;
  item->query += from * a.head_dim, item->out += from * value_dim(a);
  if (item->sink_logits) item->sink_logits += from;
  a.heads = a.heads * (share + 1) / shares - from;
  return a;
}
INLINE void attention_item(const struct attention_loop *loop, const struct attention a,
                           int64_t index, int64_t thread) {
  if (is_set(loop->step->cancel)) return;
  int32_t firsts[MAX_POSITIONS], lasts[MAX_POSITIONS], positions[MAX_POSITIONS];
  const int64_t number = index / loop->shares;
  struct attention_item item = attention_item_of(loop, a, number, firsts, lasts, positions);
  // Elsewhere the number of heads stays a constant.
  const struct attention own =
      a.latent ? own_heads(a, &item, index % loop->shares, loop->shares) : a;
  attend_item(own, loop->tiles, &item, number % a.kv_heads,
              loop->scratch + thread * loop->scratch_stride);
}

// The same of runs of one token, whose items are so many pieces each: scores first, then columns of values.
struct pieces_loop {
  struct attention_loop items;
  int weighs;
  int64_t pieces;     // of an item
  int64_t positions;  // of a piece of scores
  float *scores;      // [items, query heads of a KV head, stride]
  int64_t stride;
};

INLINE void attention_piece_item(const struct pieces_loop *loop, const struct attention a,
                                 int64_t number, int64_t thread) {
  const struct attention_loop *items = &loop->items;
  if (is_set(items->step->cancel)) return;
  const int64_t index = number / loop->pieces, piece = number % loop->pieces,
                kv_head = index % a.kv_heads, vectors = value_width(a) / 16;
  int32_t from, last, position;
  const struct attention_item item = attention_item_of(items, a, index, &from, &last, &position);
  struct attention_piece p = {.scores = loop->scores + index * (a.heads / a.kv_heads) * loop->stride,
                              .stride = loop->stride};
  if (loop->weighs) {
    p.from = vectors * piece / loop->pieces, p.to = vectors * (piece + 1) / loop->pieces;
    weigh_piece(a, &item, kv_head, p, items->scratch + thread * items->scratch_stride);
  } else {
    p.from = piece * loop->positions, p.to = p.from + loop->positions;
    score_piece(a, &item, kv_head, p);
  }
}

// An indexer's rows from `first` on, each in so many pieces of positions.
struct indexer_loop {
  struct attention_loop items;
  const float *weights;  // of rows
  int64_t weights_stride;
  const int32_t *sequence_of;  // of tokens
  int64_t first;
  int64_t pieces;     // of a row
  int64_t positions;  // of a piece
  float *scores;      // [rows, stride] of positions
  int64_t stride;
  int64_t top, blocks;  // how many positions are chosen, and of how many blocks it is said
};

// How many positions a row may choose from: those up to its own.
INLINE int64_t indexed_positions(const struct indexer_loop *loop, int64_t row) {
  return loop->items.step->positions[loop->items.set->token[row]] + 1;
}

INLINE void indexer_item(const struct indexer_loop *loop, const struct attention a, int64_t number) {
  const struct attention_loop *items = &loop->items;
  if (is_set(items->step->cancel)) return;
  const int64_t row = loop->first + number / loop->pieces,
                from = number % loop->pieces * loop->positions,
                count = indexed_positions(loop, row);
  if (count <= loop->top) return;  // all of them are chosen, whatever their scores
  const int64_t list = items->lists + loop->sequence_of[items->set->token[row]];
  const int32_t last = (int32_t)count - 1;
  const struct attention_item item = {
      .cache = items->cache + (size_t)items->layer * head_bytes(a),
      .blocks = items->step->blocks + items->step->block_starts[list],
      .lasts = &last,
      .tokens = 1,
      .kept = items->step->visible_from[list],
  };
  float *scores = loop->scores + (row - loop->first) * loop->stride;
  for (int64_t first = from; first < from + loop->positions && first < count; first += STEP) {
    uint8_t *blocks[4];
    step_heads(a, &item, 0, first, blocks);
    index_step(a, blocks, items->query + row * items->query_stride,
               loop->weights + row * loop->weights_stride, scores + first);
    // What is not held any more, or never was, is chosen last.
    for (int64_t i = first; i < first + STEP && i < item.kept; i++) scores[i] = NAN;
  }
}

// A step of the plan, as the emitted table has it: the function that computes it, and what of it others that share the
// function have otherwise. Buffers and weights are the plan's numbers; strides and what views begin `from` are floats.
enum step_kind { ROW_BY_ROW, PRODUCT, HEAD_PRODUCT, EXPERTS, ATTEND, DELTA, INDEX };
enum { NO_WEIGHT = -1 };

struct product_step {
  int input;          // codes, or floats
  int64_t from;       // bytes
  int64_t row_bytes;  // of the input
  int64_t in_stride;  // of floats
  int weight, bias;  // the latter or NO_WEIGHT
  float limit;       // see struct product
  int64_t panels, columns;  // of the weights
  int halves;               // the weights are floats of 16 bits
  int output;
  int64_t out_stride;
  enum epilogue epilogue;
  // A generic library's: whether weights lie beyond the cache, and the code that means 0.
  int far, zero;
};

// Two products of every expert that rows go to, or three: see driver_experts.h.
struct experts_step {
  int64_t count, active;  // at most so many of a row
  int weights;            // what each counts, a column for each
  int64_t weights_from, weights_stride;
  int apart;              // gates have a product of their own, and `up` is under them
  // Of one expert; only `gate` and `up` read a buffer, only `down` writes one.
  struct product_step gate, up, down;
  void (*gate_body)(void *context, int64_t index, int32_t thread);
  void (*up_body)(void *context, int64_t index, int32_t thread);
  void (*down_body)(void *context, int64_t index, int32_t thread);
  size_t gate_bytes, up_bytes, down_bytes;            // from one expert's matrix to the next
  // What `down` reads; or none: floats.
  void (*round)(const struct experts_step *, const float *input, uint8_t *output);
  struct panels rounded_for;  // a generic library's: whom it reads them for
  int64_t out_columns;
};

struct head_step {
  int input;
  int64_t from;
  int weight;
  int64_t panels;  // of the weight
  int output;
  struct head_kind kind;  // a generic library's
};

struct attention_step {
  int query;
  int64_t from, query_stride;
  int64_t kv_heads, group, layer;
  int64_t most_shares;  // see attention_loop
  // Of those that may be taken in pieces, see attention_pieces.h: query heads of a KV head, vectors of a value, and the function; or none.
  int64_t heads_of_kv, vectors;
  void (*pieces)(void *context, int64_t index, int32_t thread);
  int sink_logits, biases;  // or NO_WEIGHT
  int by_query, by_key;     // buffers, where biases are of buckets
  int64_t by_query_from, by_query_stride, by_key_from, by_key_stride;
  int chosen;               // a buffer, where it is sparse
  int64_t chosen_stride;
  int output;
  int64_t out_stride;
  struct attention attention;  // a generic library's
};

// See driver_indexer.h.
struct indexer_step {
  int query;
  int64_t from, query_stride;
  int weights;  // what each head counts, a column for each
  int64_t weights_from, weights_stride;
  int64_t group, layer, top;
  int output;
  int64_t out_stride, blocks;
  struct attention attention;  // a generic library's: how keys lie, and how many heads meet them
};

// See delta.h.
struct delta_step {
  int input;
  int64_t from, in_stride;
  int decays;
  int64_t decays_from, decays_stride;
  int shares;
  int64_t shares_from, shares_stride;
  int keys;  // and queries: what `input` is, but by number
  int64_t keys_from, keys_stride;
  int decay, bias, skip;  // weights
  int64_t selective;      // without shares, and with `skip`
  int64_t by_number;      // of a selective one: steps and `skip` of each column of a value, rates of each number of a state
  int64_t given;          // decays, of each column of a key, without `decay` and `bias`
  int64_t key_heads, value_heads, tiled, key_dim, value_dim;
  int64_t group, layer;
  int output;
  int64_t out_stride;
};

struct delta_loop {
  const sinter_step_arrays *arrays;
  const struct delta_step *step;
  uint8_t *states;  // of the group
  size_t bytes;     // from one state to the next
  uint8_t *const *weights, *const *buffers;
};

struct step {
  enum step_kind kind;
  enum rows rows;
  void (*body)(void *context, int64_t index, int32_t thread);
  union {
    struct {
      const int *weights;  // in the order in which the function uses them
      int64_t layer;
      const double *calls;  // a generic library's: the steps themselves, as words of its tape
    };
    struct product_step product;
    const struct experts_step *experts;
    struct head_step heads;
    struct attention_step attention;
    struct delta_step delta;
    struct indexer_step indexer;
  };
};

// What the host writes as word number `word` of a step.
#define STEP_FIELD(name, word) \
  _Static_assert(offsetof(sinter_step_arrays, name) == 8 * (word), "the place of " #name)

#endif
