// Takes the blocks that it is given apart, for blocks.test.ts: a type, rows and columns, how many bytes of blocks there are, and of
// codes and scales that come of them, and of patterns; then the blocks and the patterns. Prints the codes and the scales.
#include "abi.h"

#include <stdio.h>
#include <stdlib.h>

int main(void) {
  int64_t head[7];  // type, rows, columns, bytes of blocks, of codes, of scales and of patterns
  if (fread(head, sizeof *head, 7, stdin) != 7) return 2;
  const size_t bytes = (size_t)head[3], codes = (size_t)head[4], scales = (size_t)head[5], listed = (size_t)head[6];
  // Each of its own: what is read or written beside it is seen.
  uint8_t *from = malloc(bytes), *to = calloc(codes, 1), *numbers = calloc(scales, 1);
  uint8_t *patterns = malloc(listed);
  if (fread(from, 1, bytes, stdin) != bytes || fread(patterns, 1, listed, stdin) != listed) return 2;
  const int32_t code =
      sinter_unpack_blocks((int32_t)head[0], head[1], head[2], from, patterns, to, numbers);
  fwrite(to, 1, codes, stdout);
  fwrite(numbers, 1, scales, stdout);
  free(from), free(patterns), free(to), free(numbers);
  return code;
}
