// Takes the blocks that it is given apart, for blocks.test.ts: a type, rows and columns, how many bytes of codes and of scales
// come of them, then the blocks; prints the codes and the scales.
#include "abi.h"

#include <stdio.h>
#include <stdlib.h>

int main(void) {
  int64_t head[6];  // type, rows, columns, bytes of blocks, of codes and of scales
  if (fread(head, sizeof *head, 6, stdin) != 6) return 2;
  const size_t bytes = (size_t)head[3], codes = (size_t)head[4], scales = (size_t)head[5];
  // Each of its own: what is read or written beside it is seen.
  uint8_t *from = malloc(bytes), *to = calloc(codes, 1), *numbers = calloc(scales, 1);
  if (fread(from, 1, bytes, stdin) != bytes) return 2;
  const int32_t code = sinter_unpack_blocks((int32_t)head[0], head[1], head[2], from, to, numbers);
  fwrite(to, 1, codes, stdout);
  fwrite(numbers, 1, scales, stdout);
  free(from), free(to), free(numbers);
  return code;
}
