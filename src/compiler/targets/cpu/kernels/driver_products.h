// The products of a step: rows as the matrix unit takes them, and the work in pieces that all threads share.
#ifndef SINTER_DRIVER_PRODUCTS_H
#define SINTER_DRIVER_PRODUCTS_H

#include "driver_model.h"
#include "rows.h"

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

// All but how many rows there are. Pieces of `grain` panels, or of fewer so that threads share `all` panels evenly.
static struct product_loop product_loop_of(const sinter_model *m, const struct product_step *p,
                                           const uint8_t *rows, float *out, int64_t grain,
                                           int64_t all) {
  const int64_t most = all / (8 * m->host->threads);
  if (grain > most) grain = most < 1 ? 1 : most;
  return (struct product_loop){
      .cancel = m->step->cancel,
      .product = {.panels = m->weights[p->weight],
                  .rows = rows,
                  .out = out,
                  .out_stride = p->out_stride,
                  .bias = p->bias == NO_WEIGHT ? NULL : (float *)m->weights[p->bias],
                  .epilogue = p->epilogue,
                  .limit = p->limit,
                  .tiles = m->tiles},
      .panels = p->panels,
      .grain = grain,
      .grains = (p->panels + grain - 1) / grain,
      .columns = p->columns,
      .in_stride = p->in_stride,
      .far = p->far,
      .zero = p->zero,
  };
}

// Bytes of rows in a block of a product, all of which a panel meets before the next one is read. Floats take longer than codes to
// come from the third cache, but their weights take longest: of 512 rows of f16 on a Zen 3, 8,192 columns, 0.88 of the time.
enum { BLOCK_OF_ROWS = 768 << 10, BLOCK_OF_FLOATS = 4 << 20 };

static void product_step(sinter_model *m, const struct step *s) {
  const struct product_step *p = &s->product;
  int64_t count = m->sets[s->rows].count, height = 12,
          most = p->row_bytes < 4 * p->columns ? BLOCK_OF_ROWS : BLOCK_OF_FLOATS;
  if (!count) return;
  const uint8_t *rows = m->buffers[p->input] + p->from;
#ifdef __AMX_BF16__
  if (p->halves && m->tiles) {
    rows = rows_as_planes(m, (const float *)rows, p->columns, p->in_stride, count);
    height = PAIR_ROWS, most = BLOCK_OF_ROWS;
  }
#endif
  // Blocks of one height, and that of whole tiles.
  int64_t blocks = (count * p->row_bytes + most - 1) / most,
          block = round_up((count + blocks - 1) / blocks, height);
  blocks = (count + block - 1) / block;
  // Fine grains for long work, coarse ones where handing out would cost: a panel takes a microsecond for one row.
  struct product_loop loop = product_loop_of(m, p, rows, (float *)m->buffers[p->output],
                                             count > 64 ? 1 : count > 16 ? 2 : 4, p->panels);
  loop.product.count = count;
  loop.block = block;
  m->host->parallel_for(m->host, blocks * loop.grains, s->body, &loop);
}

static void head_step(sinter_model *m, const struct step *s) {
  const struct head_step *h = &s->heads;
  struct head_loop loop = {.cancel = m->step->cancel,
                           .panels = m->weights[h->weight],
                           .in = (float *)m->buffers[h->input] + h->from,
                           .out = (float *)m->buffers[h->output],
                           .count = m->sets[s->rows].count,
                           .kind = &h->kind};
  if (loop.count) m->host->parallel_for(m->host, h->panels, s->body, &loop);
}

#endif
