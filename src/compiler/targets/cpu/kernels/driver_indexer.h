// The indexer's step (indexer.h): as many rows at a time as there is room for scores of, first their scores, which threads share by
// positions, then what each row chooses.
#ifndef SINTER_DRIVER_INDEXER_H
#define SINTER_DRIVER_INDEXER_H

#include "driver_model.h"

static void choose_item(void *context, int64_t index, int32_t thread) {
  const struct indexer_loop *loop = context;
  const int64_t row = loop->first + index, count = indexed_positions(loop, row);
  choose_positions(loop->scores + index * loop->stride, count, loop->top,
                   loop->items.out + row * loop->items.out_stride, loop->blocks);
}

static void indexer_step(sinter_model *m, const struct step *s) {
  const struct indexer_step *x = &s->indexer;
  struct indexer_loop loop = {
      .items =
          {
              .step = m->step,
              .set = &m->sets[s->rows],
              .cache = m->kv[x->group],
              .lists = x->group * m->step->sequences,
              .layer = x->layer,
              .query = (float *)m->buffers[x->query] + x->from,
              .query_stride = x->query_stride,
              .out = (float *)m->buffers[x->output],
              .out_stride = x->out_stride,
              .attention = &x->attention,
          },
      .weights = (float *)m->buffers[x->weights] + x->weights_from,
      .weights_stride = x->weights_stride,
      .sequence_of = m->sequence_of,
      .scores = m->scores,
      .top = x->top,
      .blocks = x->blocks,
  };
  const int64_t rows = loop.items.set->count, threads = m->host->threads;
  for (int64_t end; loop.first < rows && !cancelled(m); loop.first = end) {
    loop.stride = 0;
    for (end = loop.first; end < rows; end++) {
      const int64_t own = round_up(indexed_positions(&loop, end), STEP),
                    stride = own > loop.stride ? own : loop.stride;
      if (end > loop.first && (end + 1 - loop.first) * stride * 4 > threads * SCORE_BYTES) break;
      loop.stride = stride;
    }
    const int64_t count = end - loop.first;
    // Four pieces for each thread, or a step of positions each.
    loop.positions = round_up((loop.stride * count + 4 * threads - 1) / (4 * threads), STEP);
    loop.pieces = (loop.stride + loop.positions - 1) / loop.positions;
    if (loop.stride > loop.top)
      m->host->parallel_for(m->host, count * loop.pieces, s->body, &loop);
    m->host->parallel_for(m->host, count, choose_item, &loop);
  }
}

#endif
