// Samples the rows of a step that it reads from its input, and prints the results. Input: the vocabulary and the number of
// rows, then the logits [rows, vocabulary], then the arrays of sinter_step_arrays from `temperature` to `top_logprobs`, each
// behind its length in bytes; lengths are 64-bit words. Output: the arrays from `out_tokens` to `out_finite`.
#include <stdio.h>
#include <stdlib.h>

#include "sampler.h"

static void *read_bytes(size_t bytes) {
  void *p = malloc(bytes ? bytes : 1);
  if (!p || fread(p, 1, bytes, stdin) != bytes) exit(1);
  return p;
}

static int64_t read_length(void) {
  int64_t *p = read_bytes(sizeof *p), length = *p;
  free(p);
  return length;
}

int main(void) {
  const int64_t vocabulary = read_length(), rows = read_length();
  const float *logits = read_bytes((size_t)read_length());
  sinter_step_arrays a = {0};
  for (const void **field = (const void **)&a.temperature; field <= (const void **)&a.top_logprobs;
       field++)
    *field = read_bytes((size_t)read_length());
  a.out_tokens = calloc((size_t)rows, 4);
  a.out_logprobs = calloc((size_t)rows, 4);
  a.out_top_tokens = calloc((size_t)rows * MAX_TOP_LOGPROBS, 4);
  a.out_top_logprobs = calloc((size_t)rows * MAX_TOP_LOGPROBS, 4);
  a.out_finite = calloc((size_t)rows, 1);
  uint8_t *workspace = aligned_alloc(64, sampler_bytes(vocabulary));
  memset(workspace, 255, sampler_bytes(vocabulary));
  for (int64_t row = 0; row < rows; row++)
    sample(&a, logits + row * vocabulary, vocabulary, row, workspace);
  fwrite(a.out_tokens, 4, (size_t)rows, stdout);
  fwrite(a.out_logprobs, 4, (size_t)rows, stdout);
  fwrite(a.out_top_tokens, 4, (size_t)rows * MAX_TOP_LOGPROBS, stdout);
  fwrite(a.out_top_logprobs, 4, (size_t)rows * MAX_TOP_LOGPROBS, stdout);
  fwrite(a.out_finite, 1, (size_t)rows, stdout);
  fflush(stdout);
  _Exit(0);  // nothing is freed, and the sanitizers would say so
}
