// A parameter's rows on their way into panels. No model's constants are known here, so one object serves the libraries of all of
// them; the driver hands out the pieces.
#ifndef SINTER_LOADING_H
#define SINTER_LOADING_H

#include <stdatomic.h>
#include <stdlib.h>

#include "driver_types.h"

struct loading {
  const struct parameter *parameter;
  uint8_t *weights;
  int64_t row, rows;  // of the window
  const uint8_t *values, *scales;
  _Atomic int refused;  // whether any of them cannot be kept as its codec is
};

INLINE void load_vector(const struct loading *l, int64_t row, int64_t count) {
  const struct parameter *p = l->parameter;
  const size_t size = number_size(p->stored.number);
  float *out = (float *)l->weights;
  for (int64_t i = row; i < row + count; i++) {
    int lane;
    int64_t home = p->kept == BIAS ? panels_home(p->panels, i, &lane) * PANEL + lane : i;
    out[home] = load_number(p->stored.number, l->values + (size_t)(i - l->row) * size);
  }
}

// The part of the window that lies in one panel's half.
INLINE void load_rows(struct loading *l, int64_t index) {
  const struct parameter *p = l->parameter;
  int64_t row = (l->row / 16 + index) * 16, end = row + 16;
  if (row < l->row) row = l->row;
  if (end > l->row + l->rows) end = l->row + l->rows;
  // A paired matrix may change halves within sixteen rows.
  int64_t middle = p->panels.pair > row && p->panels.pair < end ? p->panels.pair : end;
  while (row < end) {
    int lane;
    if (p->panels.pair)
      panels_home(p->panels, row, &lane);
    else
      lane = (int)(row % PANEL);
    int64_t count = middle - row, room = 16 - lane % 16;
    if (count > room) count = room;
    if (p->kept == VECTOR || p->kept == BIAS) {
      load_vector(l, row, count);
    } else if (p->kept == EXPANDED) {
      uint8_t *expanded = malloc((size_t)p->panels.columns * 4);
      for (int64_t i = row; expanded && i < row + count; i++) {
        size_t at = (size_t)(i - l->row);
        expand_row(p->stored, l->values + at * (size_t)panels_words(p->stored) * 4,
                   l->scales + at * panels_scale_bytes(p->stored), p->panels.number, expanded);
        pack_floats(p->panels, l->weights, i, 1, expanded);
      }
      free(expanded);
    } else {
      size_t at = (size_t)(row - l->row);
      if (p->panels.grouped) {
        if (!pack_codes(p->panels, l->weights, row, count,
                        l->values + at * (size_t)panels_words(p->panels) * 4,
                        l->scales + at * panels_scale_bytes(p->panels)))
          l->refused = 1;
      } else
        pack_floats(p->panels, l->weights, row, count,
                    l->values + at * (size_t)p->panels.columns * number_size(p->panels.number));
    }
    row += count;
    if (row == middle) middle = end;
  }
}

#endif
