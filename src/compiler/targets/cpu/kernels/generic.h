// The plan of a generic library, which is compiled for no model: what an emitted driver has as constants and tables comes as a
// tape of numbers when a model is opened. generic.ts emits the file around this one, with the functions that read a struct from
// words and the names under which the driver looks for what is read here; tape.ts writes the tape.
//
// The bits are those of a compiled library: kernels sum in an order that no constant decides.
#ifndef SINTER_GENERIC_H
#define SINTER_GENERIC_H

#include <stdlib.h>

#include "driver_types.h"

struct generic_plan {
  double *tape;
  const double *constants, *attention, *lists;
  struct extent *extents;
  size_t *kv_block_bytes;
  const double *kv_is_state;
  struct parameter *parameters;
  struct step *steps;
  struct experts_step *experts;  // a place for each step
};

static void free_plan(struct generic_plan *p) {
  free(p->tape);
  free(p->extents);
  free(p->kv_block_bytes);
  free(p->parameters);
  free(p->steps);
  free(p->experts);
}

// An entry of the tape: its words, its kind, its rows, and what its kind has to say.
static struct step read_step(const double *w, struct experts_step *experts) {
  struct step s = {.kind = (enum step_kind)w[1], .rows = (enum rows)w[2]};
  const double *fields = w + 3;
  switch (s.kind) {
    case ROW_BY_ROW:
      s.body = generic_rows;
      s.calls = fields;
      break;
    case PRODUCT:
      s.body = product_bodies[(int)fields[0]];
      s.product = read_product_step(fields + 1);
      break;
    case HEAD_PRODUCT:
      s.heads = read_head_step(fields);
      s.body = head_bodies[s.heads.kind.weights.number];
      break;
    case EXPERTS:
      *experts = read_experts_step(fields);
      s.experts = experts;
      break;
    case ATTEND:
      s.attention = read_attention_step(fields);
      s.body = attention_bodies[s.attention.attention.number];
      break;
    case DELTA:
      s.delta = read_delta_step(fields);
      break;
    case INDEX:
      s.indexer = read_indexer_step(fields);
      s.body = indexer_bodies[s.indexer.attention.number];
      break;
  }
  return s;
}

// 0: there is no memory.
static int read_plan(struct generic_plan *p, const double *tape) {
  const size_t words = (size_t)tape[0];
  p->tape = malloc(words * sizeof *tape);
  if (!p->tape) return 0;
  memcpy(p->tape, tape, words * sizeof *tape);
  const double *w = p->tape + 1;
  p->constants = w;
  w += CONSTANTS;
  p->attention = w;
  w += ATTENTION_WORDS;
#define COUNT(name) ((size_t)p->constants[CONSTANT_##name])
  const size_t extents = NAMED_EXTENTS + COUNT(BUFFERS), storages = COUNT(KV_STORAGES),
               parameters = COUNT(PARAMETERS), steps = COUNT(PLAN_STEPS);
#undef COUNT
  p->extents = malloc(extents * sizeof *p->extents);
  p->kv_block_bytes = malloc((storages + 1) * sizeof *p->kv_block_bytes);
  p->parameters = malloc((parameters + 1) * sizeof *p->parameters);
  p->steps = malloc((steps + 1) * sizeof *p->steps);
  p->experts = malloc((steps + 1) * sizeof *p->experts);
  if (!p->extents || !p->kv_block_bytes || !p->parameters || !p->steps || !p->experts) {
    free_plan(p);
    return 0;
  }
  for (size_t i = 0; i < extents; i++, w += EXTENT_WORDS) p->extents[i] = read_extent(w);
  for (size_t i = 0; i < storages; i++) p->kv_block_bytes[i] = (size_t)*w++;
  p->kv_is_state = w;
  w += storages;
  for (size_t i = 0; i < parameters; i++, w += PARAMETER_WORDS)
    p->parameters[i] = read_parameter(w);
  for (size_t i = 0; i < steps; i++, w += (size_t)w[0])
    p->steps[i] = read_step(w, &p->experts[i]);
  p->lists = w;
  return 1;
}

#endif
