// Mixtures of experts: which of them a row goes to, and what they make of it. Rows are gathered expert by expert into slots, so
// that all rows of an expert are one product, by the same kernels as any product; a row then adds what its slots hold, in the
// order of experts. So its result does not depend on who else goes where. Only the weights of experts with rows are read.
#ifndef SINTER_DRIVER_EXPERTS_H
#define SINTER_DRIVER_EXPERTS_H

#include "driver_products.h"

enum { MAX_EXPERTS = 1024 };

// ------------------------------------------------------------------ which experts

struct routing {
  int64_t count, active;
  int sigmoid, normalized;
  float factor;
  int64_t groups, open;  // of the groups; one group: all experts are open
  int two_largest;       // add up to a group's rank
  int biased_logits;     // and not scores
  float sparse;          // twice the jitter of SparseMixer's scores; 0: they are others
};

struct routed {
  struct routing routing;
  const float *input, *bias;
  float *output;
};

// The largest of those that may be chosen and are not yet; of equal ones the first.
INLINE int64_t highest_open(const float *values, const int64_t count, const uint8_t *closed) {
  int64_t best = -1;
  for (int64_t i = 0; i < count; i++)
    if (!closed[i] && (best < 0 || values[i] > values[best])) best = i;
  return best;
}

// e^(x - largest) over their sum: what is no number shows in all of them.
INLINE void softmax_of(const float *x, const int64_t count, float *out) {
  float most = -3.4e38f, sum = 0;
  for (int64_t i = 0; i < count; i++) most = x[i] > most ? x[i] : most;
  for (int64_t i = 0; i < count; i += 16)
    vec_store(out + i, vec_exp(vec_sub(vec_load(x + i), vec_set(most))));
  for (int64_t i = 0; i < count; i++) sum += x[i] * 0;
  for (int64_t i = 0; i < count; i++) sum += out[i];
  for (int64_t i = 0; i < count; i++) out[i] /= sum;
}

// SparseMixer's scores: see Routing. What is no number shows in all of them.
INLINE void sparse_mixer_of(const float *x, const int64_t count, const float most, float *out) {
  float powers[MAX_EXPERTS + 16], none = 0;
  for (int64_t i = 0; i < count; i++) none += x[i] * 0;
  for (int64_t i = 0; i < count; i++) {
    for (int64_t j = 0; j < count; j += 16)
      vec_store(powers + j, vec_exp(vec_sub(vec_load(x + j), vec_set(x[i]))));
    float sum = none;
    for (int64_t j = 0; j < count; j++) {
      const float away = x[j] < 0 ? -x[j] : x[j];
      const float size = away > x[i] ? away : x[i];
      const int is_ahead = x[j] > x[i] || (x[j] == x[i] && j < i);
      const int is_far = x[i] - x[j] > most * size;
      if (!is_ahead && !is_far) sum += powers[j];
    }
    out[i] = 1 / sum;
  }
}

// Closes the groups that are not among the highest.
INLINE void close_groups(const struct routing r, const float *compared, uint8_t *closed) {
  float ranks[MAX_EXPERTS];
  uint8_t open[MAX_EXPERTS] = {0};
  const int64_t size = r.count / r.groups;
  for (int64_t g = 0; g < r.groups; g++) {
    const float *members = compared + g * size;
    uint8_t taken[MAX_EXPERTS] = {0};
    int64_t first = highest_open(members, size, taken);
    taken[first] = 1;
    int64_t second = size > 1 && r.two_largest ? highest_open(members, size, taken) : -1;
    ranks[g] = second < 0 ? members[first] : members[first] + members[second];
  }
  for (int64_t i = 0; i < r.open; i++) open[highest_open(ranks, r.groups, open)] = 1;
  for (int64_t i = 0; i < r.count; i++) closed[i] = !open[i / size];
}

INLINE void route_row(const struct routed a) {
  const struct routing r = a.routing;
  float scores[MAX_EXPERTS + 16], biased[MAX_EXPERTS];
  uint8_t closed[MAX_EXPERTS] = {0}, chosen[MAX_EXPERTS] = {0};
  if (r.sigmoid)
    for (int64_t i = 0; i < r.count; i += 16)
      vec_store(scores + i, vec_sigmoid(vec_load(a.input + i)));
  else if (r.sparse > 0)
    sparse_mixer_of(a.input, r.count, r.sparse, scores);
  else
    softmax_of(a.input, r.count, scores);
  const float *compared = a.input;
  if (a.bias) {
    const float *raised = r.biased_logits ? a.input : scores;
    for (int64_t i = 0; i < r.count; i++) biased[i] = raised[i] + a.bias[i];
    compared = biased;
  }
  if (r.groups > 1) close_groups(r, compared, closed);
  for (int64_t i = 0; i < r.active; i++) {
    int64_t expert = highest_open(compared, r.count, closed);
    closed[expert] = chosen[expert] = 1;
  }
  float sum = 0;
  for (int64_t i = 0; i < r.count; i++)
    if (chosen[i]) sum += scores[i];
  const float whole = r.normalized ? sum + 1e-20f : 1;
  for (int64_t i = 0; i < r.count; i++)
    a.output[i] = chosen[i] ? scores[i] / whole * r.factor : 0;
}

// ------------------------------------------------------------------ what they make of a row

// Where the slots of a step lie: as many for each row as it has experts at most.
struct slots {
  int32_t *starts;  // [experts + 1] the first of each expert
  int32_t *used;    // [experts] those with slots
  int32_t *row_of;  // [slots]
  int32_t *of_row;  // [rows, active] in the order of experts, -1 behind the last
  int64_t used_count;
};

// Counted, summed up, handed out.
static int64_t place_slots(const struct experts_step *e, const float *weights, int64_t rows,
                           struct slots *s) {
  memset(s->starts, 0, (size_t)(e->count + 1) * sizeof *s->starts);
  for (int64_t row = 0; row < rows; row++) {
    const float *own = weights + row * e->weights_stride;
    int64_t taken = 0;
    for (int64_t i = 0; i < e->count && taken < e->active; i++)
      if (own[i] != 0) s->starts[i + 1]++, taken++;
  }
  s->used_count = 0;
  for (int32_t i = 0; i < e->count; i++) {
    if (s->starts[i + 1]) s->used[s->used_count++] = i;
    s->starts[i + 1] += s->starts[i];
  }
  int32_t next[MAX_EXPERTS];
  memcpy(next, s->starts, (size_t)e->count * sizeof *next);
  for (int64_t row = 0; row < rows; row++) {
    const float *own = weights + row * e->weights_stride;
    int32_t *slots = s->of_row + row * e->active;
    int64_t taken = 0;
    for (int64_t i = 0; i < e->count && taken < e->active; i++)
      if (own[i] != 0) {
        s->row_of[next[i]] = (int32_t)row;
        slots[taken++] = next[i]++;
      }
    for (; taken < e->active; taken++) slots[taken] = -1;
  }
  return s->starts[e->count];
}

struct experts_loop {
  sinter_model *model;
  const struct experts_step *step;
  const struct product_step *reader;  // of the rows that are gathered
  struct slots slots;
  const float *weights;  // [rows, weights_stride]
  int64_t grain;
};

static void gather_rows(void *context, int64_t index, int32_t thread) {
  const struct experts_loop *l = context;
  const struct product_step *p = l->reader;
  const sinter_model *m = l->model;
  const int64_t all = l->slots.starts[l->step->count];
  for (int64_t slot = index * l->grain; slot < all && slot < (index + 1) * l->grain; slot++)
    memcpy(m->experts.rows + slot * p->row_bytes,
           m->buffers[p->input] + p->from + l->slots.row_of[slot] * p->row_bytes,
           (size_t)(p->row_bytes - p->from));  // to the row's end
}

static void round_slots(void *context, int64_t index, int32_t thread) {
  const struct experts_loop *l = context;
  const sinter_model *m = l->model;
  const int64_t all = l->slots.starts[l->step->count];
  for (int64_t slot = index * l->grain; slot < all && slot < (index + 1) * l->grain; slot++)
    l->step->round(l->step, m->experts.hidden + slot * l->step->up.out_stride,
                   m->experts.rounded + slot * l->step->down.row_bytes);
}

static void add_slots(void *context, int64_t row, int32_t thread) {
  const struct experts_loop *l = context;
  const struct experts_step *e = l->step;
  const sinter_model *m = l->model;
  const float *weights = l->weights + row * e->weights_stride;
  const int32_t *slots = l->slots.of_row + row * e->active;
  float *out = (float *)m->buffers[e->down.output] + row * e->down.out_stride;
  memset(out, 0, (size_t)e->out_columns * 4);
  int64_t expert = 0;
  for (int64_t i = 0; i < e->active && slots[i] >= 0; i++) {
    while (slots[i] >= l->slots.starts[expert + 1]) expert++;
    const float *made = m->experts.made + slots[i] * e->down.out_stride;
    vec weight = vec_set(weights[expert]);
    for (int64_t n = 0; n < e->out_columns; n += 16) {
      const int64_t left = e->out_columns - n;
      vec sum = vec_fma(weight, vec_load(made + n), vec_load(out + n));
      if (left >= 16)
        vec_store(out + n, sum);
      else
        vec_store_some(out + n, left, sum);
    }
  }
}

// Products of every expert with its slots.
struct slot_products {
  struct product_loop loop;  // of an expert: all but where its rows lie
  void (*body)(void *context, int64_t index, int32_t thread);
  const struct slots *slots;
  size_t matrix_bytes;
  int64_t row_bytes;
};

static void slot_product_item(void *context, int64_t index, int32_t thread) {
  const struct slot_products *p = context;
  const int32_t expert = p->slots->used[index / p->loop.grains],
                first = p->slots->starts[expert];
  struct product_loop loop = p->loop;
  loop.product.panels += (size_t)expert * p->matrix_bytes;
  if (loop.product.bias) loop.product.bias += expert * loop.panels * PANEL;
  loop.product.rows += first * p->row_bytes;
  loop.product.out += first * loop.product.out_stride;
  loop.product.count = loop.block = p->slots->starts[expert + 1] - first;
  p->body(&loop, index % loop.grains, thread);
}

static void multiply_slots(sinter_model *m, const struct product_step *p,
                           void (*body)(void *context, int64_t index, int32_t thread),
                           size_t matrix_bytes, const struct slots *slots, int64_t count,
                           const uint8_t *rows, float *out) {
  int64_t row_bytes = p->row_bytes;
#ifdef __AMX_BF16__
  if (p->halves && m->tiles) {
    rows = rows_as_planes(m, (const float *)rows, p->columns, p->in_stride, count);
    row_bytes = planes_bytes(p->columns);
  }
#endif
  struct slot_products products = {
      .loop = product_loop_of(m, p, rows, out, 4, slots->used_count * p->panels),
      .body = body,
      .slots = slots,
      .matrix_bytes = matrix_bytes,
      .row_bytes = row_bytes,
  };
  m->host->parallel_for(m->host, slots->used_count * products.loop.grains, slot_product_item,
                        &products);
}

static void experts_step(sinter_model *m, const struct step *s) {
  const struct experts_step *e = s->experts;
  const int64_t rows = m->sets[s->rows].count;
  struct experts_loop loop = {
      .model = m,
      .step = e,
      .reader = e->apart ? &e->gate : &e->up,
      .slots = {.starts = m->experts.starts,
                .used = m->experts.used,
                .row_of = m->experts.row_of,
                .of_row = m->experts.of_row},
      .weights = (float *)m->buffers[e->weights] + e->weights_from,
  };
  const int64_t count = place_slots(e, loop.weights, rows, &loop.slots);
  // So many bytes cost less than to hand them out.
  loop.grain = 1 + 65536 / loop.reader->row_bytes;
  const int64_t grains = (count + loop.grain - 1) / loop.grain;
  m->host->parallel_for(m->host, grains, gather_rows, &loop);
  if (e->apart) {
    multiply_slots(m, &e->gate, e->gate_body, e->gate_bytes, &loop.slots, count, m->experts.rows,
                   m->experts.hidden);
    if (e->up.input != e->gate.input) {
      loop.reader = &e->up;
      m->host->parallel_for(m->host, grains, gather_rows, &loop);
    }
  }
  multiply_slots(m, &e->up, e->up_body, e->up_bytes, &loop.slots, count, m->experts.rows,
                 m->experts.hidden);
  if (e->round) m->host->parallel_for(m->host, grains, round_slots, &loop);
  const uint8_t *hidden = e->round ? m->experts.rounded : (uint8_t *)m->experts.hidden;
  multiply_slots(m, &e->down, e->down_body, e->down_bytes, &loop.slots, count, hidden,
                 m->experts.made);
  m->host->parallel_for(m->host, rows, add_slots, &loop);
}

#endif
