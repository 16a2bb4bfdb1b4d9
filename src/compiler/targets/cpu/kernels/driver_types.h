// What the parts of an emitted model share: the driver, and the products that are compiled beside it.
#ifndef SINTER_DRIVER_TYPES_H
#define SINTER_DRIVER_TYPES_H

#include "abi.h"
#include "attention.h"
#include "product.h"

// How a parameter is kept. A vector is floats in order; a bias stands in the order of its matrix's panels.
enum kept { MATRIX, EXPANDED, VECTOR, BIAS };

struct parameter {
  enum kept kept;
  struct panels panels;  // of a bias: those of its matrix
  struct panels stored;  // EXPANDED: as it comes in; VECTOR, BIAS: number and rows
};

// Rows that a step computes, of one of the plan's row sets.
struct row_set {
  int64_t count;
  int32_t *token;        // [count] which of the step's tokens each row is
  int32_t *wanted;       // [count] which of the wanted rows each row is; logits and hidden only
  struct attention_run { // rows of one sequence that attend together
    int32_t row, count, sequence;
  } *runs;               // tokens and wanted only
  int64_t run_count;
};
enum rows { TOKENS, WANTED, LOGITS, HIDDEN, ROW_SETS };

INLINE int is_set(const int32_t *cancel) { return cancel && __atomic_load_n(cancel, __ATOMIC_RELAXED) != 0; }

struct product_loop {
  const int32_t *cancel;
  struct product product;
  int64_t panels, grain;
};
#define EACH_PANEL(loop, index)                                                                  \
  for (int64_t panel = (index) * (loop)->grain;                                                  \
       panel < (loop)->panels && panel < ((index) + 1) * (loop)->grain && !is_set((loop)->cancel); panel++)

// quantized_bytes of product.h where C wants a constant.
#define QUANTIZED_BYTES(columns, group) \
  (((((columns) + (group) - 1) / (group) * (group) + 3) / 4 * 4 + ((columns) + (group) - 1) / (group) * 8 + 63) / 64 * 64)

#endif
