// The contract between the host and a model library: one narrow C interface. The host opens a library with a table of what
// must exist once in a process, feeds it parameters window by window, and lets it take steps; every call returns a code,
// and sinter_message has the sentence. A library never logs, never exits, never calls back but through the table.
//
// StepInput and StepOutput of program.ts are mirrored field for field (step-words.ts, which every build is held to); arrays that are not needed may be null when their
// count is zero. Raise SINTER_ABI, and ABI in manifest.ts, whenever either side changes its meaning.
#ifndef SINTER_ABI_H
#define SINTER_ABI_H

#include <stddef.h>
#include <stdint.h>

#define SINTER_ABI 14

enum sinter_code {
  SINTER_OK = 0,
  SINTER_CANCELLED = 1,  // the cancel word was set; the step's KV positions hold garbage
  SINTER_BAD_INDEX = 2,  // a token, block, row or position out of range: nothing was computed
  SINTER_NO_MEMORY = 3,
  SINTER_BAD_PARAMETER = 4,
};

// What the host brings. Calls of parallel_for from several threads take turns.
typedef struct sinter_host sinter_host;
struct sinter_host {
  int32_t abi;
  int32_t threads;
  // body(context, 0 .. count - 1, thread) in any order; `thread` is below `threads` and never in two bodies at once.
  void (*parallel_for)(sinter_host *, int64_t count,
                       void (*body)(void *context, int64_t index, int32_t thread), void *context);
  // The same, a loop that stands back while the word is not 0: those of others come first, between two of its indices.
  void (*stand_back)(sinter_host *, int64_t count,
                     void (*body)(void *context, int64_t index, int32_t thread), void *context,
                     const int32_t *word);
  // Zeroed, aligned to 64 bytes, on huge pages where it is large; null when there is none.
  void *(*allocate)(sinter_host *, size_t bytes);
  void (*release)(sinter_host *, void *memory, size_t bytes);
};

typedef struct {
  int32_t tokens;     // tokens in one step
  int32_t sequences;  // sequences in one step
  int32_t rows;       // logits rows in one step
} sinter_limits;

// One step. Eight counts, then pointers in the order of StepInput, SamplingRows and StepOutput. JavaScript writes this as
// an array of 64-bit words, so every field is one.
typedef struct {
  int64_t total, sequences, rows, hidden_rows, masked_rows, want_logits, taken_rows, reserved;
  const int32_t *cancel;          // [1]
  const int32_t *behind;          // [1] or null: while it is not 0 the step stands back behind others'
  const int32_t *tokens;          // [total] or SEEN and a row of hidden_in
  const int32_t *starts;          // [sequences + 1]
  const int32_t *positions;       // [total]
  const int32_t *blocks;          // [block_starts[groups * sequences]]
  const int32_t *block_starts;    // [groups * sequences + 1]
  const int32_t *visible_from;    // [groups * sequences]
  const int32_t *logit_rows;      // [rows]
  const int32_t *hidden_rows_of;  // [hidden_rows]
  const int32_t *seen_from;       // [total] or null
  const int32_t *seen_to;         // [total] or null
  const int32_t *coordinates;     // [3, total] or null
  const int32_t *adapters;        // [total] or null: none
  const float *hidden_in;         // [taken_rows, taken] or null
  const float *temperature;       // [rows]
  const int32_t *top_k;           // [rows]
  const float *top_p;             // [rows]
  const float *min_p;             // [rows]
  const float *presence;          // [rows]
  const float *frequency;         // [rows]
  const float *repetition;        // [rows]
  const int32_t *count_starts;    // [rows + 1]
  const int32_t *count_tokens;    // [count_starts[rows]]
  const int32_t *counts;          // [count_starts[rows]]
  const int32_t *bias_starts;     // [rows + 1]
  const int32_t *bias_tokens;     // [bias_starts[rows]]
  const float *biases;            // [bias_starts[rows]]
  const uint32_t *masks;          // [masked_rows, ceil(vocabulary / 32)]
  const int32_t *mask_row;        // [rows]
  const uint64_t *seed;           // [rows]
  const int32_t *choice;          // [rows]
  const int32_t *position;        // [rows]
  const int32_t *top_logprobs;    // [rows] or -1: no log-probabilities
  int32_t *out_tokens;            // [rows]
  float *out_logprobs;            // [rows]
  int32_t *out_top_tokens;        // [rows, 20]
  float *out_top_logprobs;        // [rows, 20]
  uint8_t *out_finite;            // [rows]
  float *out_hidden;              // [hidden_rows, given]
  float *out_logits;              // [rows, vocabulary] or null
} sinter_step_arrays;

typedef struct sinter_model sinter_model;

#if defined(_WIN32)
#define SINTER_EXPORT __declspec(dllexport)
#else
#define SINTER_EXPORT __attribute__((visibility("default")))
#endif

// The host itself is compiled into every library; a process uses the one of the library it opened first.
SINTER_EXPORT sinter_host *sinter_host_open(int32_t threads);
SINTER_EXPORT void sinter_host_close(sinter_host *);

// Allocates everything the model will ever use, for these limits and no more.
// `blocks`: KV blocks of each group. `tape`: the plan, for a generic library; others have theirs compiled in and look at none.
SINTER_EXPORT int32_t sinter_open(sinter_host *, const sinter_limits *, const int32_t *blocks,
                                  const double *tape, sinter_model **out);

// Rows `row` .. `row + rows - 1` of the manifest's parameter number `parameter`, as stored: floats, or words of codes with
// their scales. They are laid out for the kernels on the way in.
SINTER_EXPORT int32_t sinter_load(sinter_model *, int32_t parameter, int64_t row, int64_t rows,
                                  const void *values, const void *scales);

// Rows of GGUF's blocks, of the type with that number there, as rows of codes and of scales, with minimums behind those of a
// row (blocks.c). `patterns`: uint32_t, the words of codes that codes of IQ1 to IQ3 point to; of other types it is not read.
// Columns are whole blocks. No model is asked.
SINTER_EXPORT int32_t sinter_unpack_blocks(int32_t type, int64_t rows, int64_t columns,
                                           const void *blocks, const void *patterns, void *codes,
                                           void *scales);

// Adds left [rows, rank] times right [rank, columns], floats both, to rows of floats (type 0), f16 (1) or bf16 (2), which are rounded
// to that again (low_rank.c). No model is asked.
SINTER_EXPORT int32_t sinter_add_product(int32_t type, int64_t rows, int64_t columns, int64_t rank,
                                         const void *left, const void *right, void *values);

// Where the weights lie as the kernels read them, all in one piece, and how many bytes they are. What was loaded once can be
// copied from there and put back by the same library at its next start; between the parameters lie zeros.
SINTER_EXPORT void *sinter_weights(sinter_model *, int64_t *bytes);
// A checksum of those bytes as they are now, taken by all threads: finds damage, not malice.
SINTER_EXPORT uint64_t sinter_weights_checksum(sinter_model *);

SINTER_EXPORT int32_t sinter_step(sinter_model *, const sinter_step_arrays *);
SINTER_EXPORT int32_t sinter_copy_blocks(sinter_model *, int32_t group, const int32_t *from,
                                         const int32_t *to, int64_t count);
SINTER_EXPORT const char *sinter_message(const sinter_model *);
SINTER_EXPORT void sinter_close(sinter_model *);

#endif
