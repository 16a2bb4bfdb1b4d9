// llama.cpp behind a long context, without the hours that reading one would take: the keys and values of 512 tokens are computed
// once, and copied until the context is full, as engine.ts does. Prints the tokens a second of the 32 steps that follow, and the bytes in memory.
//
//   g++ -O2 -I LLAMA/include -I LLAMA/ggml/include llama_depth.cpp -L LLAMA/build/bin -lllama -lggml-base -lggml -Wl,-rpath,LLAMA/build/bin -o LLAMA/build/bin/llama-depth
//   llama-depth MODEL THREADS FLASH(0|1) DEPTH

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "llama.h"

enum { PIECE = 512, DECODED = 32 };

static void fail(const char *what) {
  fprintf(stderr, "llama-depth: %s\n", what);
  exit(1);
}

int main(int count, char **words) {
  if (count != 5) fail("expected MODEL THREADS FLASH DEPTH");
  const int threads = atoi(words[2]), depth = atoi(words[4]);
  ggml_backend_load_all();
  llama_log_set([](ggml_log_level, const char *, void *) {}, nullptr);
  llama_model *model = llama_model_load_from_file(words[1], llama_model_default_params());
  if (!model) fail("the model was not read");
  llama_context_params params = llama_context_default_params();
  params.n_ctx = depth + PIECE + 2 * DECODED;
  params.n_batch = PIECE;
  params.n_ubatch = 64;  // without flash attention, scores of more rows would take gigabytes
  params.n_threads = params.n_threads_batch = threads;
  params.n_seq_max = 2;
  params.kv_unified = true;
  params.flash_attn_type = atoi(words[3]) ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
  llama_context *context = llama_init_from_model(model, params);
  if (!context) fail("no context");
  llama_memory_t memory = llama_get_memory(context);
  const int vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model));

  std::vector<llama_token> tokens(PIECE);
  for (int i = 0; i < PIECE; i++) tokens[i] = (int)((int64_t)i * 7919 % vocabulary);
  if (llama_decode(context, llama_batch_get_one(tokens.data(), PIECE))) fail("the prompt was not read");
  std::vector<uint8_t> state(llama_state_seq_get_size(context, 0));
  llama_state_seq_get_data(context, state.data(), state.size(), 0);
  for (int past = PIECE; past < depth; past += PIECE) {
    if (!llama_state_seq_set_data(context, state.data(), state.size(), 1)) fail("no room for a copy");
    llama_memory_seq_add(memory, 1, 0, -1, past);
    llama_memory_seq_cp(memory, 1, 0, -1, -1);
    llama_memory_seq_rm(memory, 1, -1, -1);
  }
  // The first step turns all keys to where they are now, which is no part of what is measured.
  const auto step = [&] {
    if (llama_decode(context, llama_batch_get_one(tokens.data(), 1))) fail("a step failed");
    llama_synchronize(context);
  };
  step();
  step();
  const auto begun = std::chrono::steady_clock::now();
  for (int i = 0; i < DECODED; i++) step();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  long pages = 0, resident = 0;
  FILE *statm = fopen("/proc/self/statm", "r");
  if (!statm || fscanf(statm, "%ld %ld", &pages, &resident) != 2) fail("memory is not known here");
  fclose(statm);
  printf("%f %ld\n", DECODED / seconds, resident * 4096);
  llama_free(context);
  llama_model_free(model);
}
