// Adds the product that it is given, for low-rank.test.ts: a type, rows, columns, a rank and how many bytes of values there are; then
// both factors and the values. Prints what these are then.
#include "abi.h"

#include <stdio.h>
#include <stdlib.h>

int main(void) {
  int64_t head[5];  // type, rows, columns, rank, bytes of values
  if (fread(head, sizeof *head, 5, stdin) != 5) return 2;
  const size_t of_left = (size_t)(head[1] * head[3]), of_right = (size_t)(head[3] * head[2]);
  const size_t bytes = (size_t)head[4];
  // Each of its own: what is read or written beside it is seen.
  float *left = malloc(of_left * sizeof *left), *right = malloc(of_right * sizeof *right);
  uint8_t *values = malloc(bytes);
  if (fread(left, sizeof *left, of_left, stdin) != of_left) return 2;
  if (fread(right, sizeof *right, of_right, stdin) != of_right) return 2;
  if (fread(values, 1, bytes, stdin) != bytes) return 2;
  const int32_t code =
      sinter_add_product((int32_t)head[0], head[1], head[2], head[3], left, right, values);
  fwrite(values, 1, bytes, stdout);
  free(left), free(right), free(values);
  return code;
}
