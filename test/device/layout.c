// What an emitted driver makes of its tables, and what the kernels need, as lines "name number": layout.test.ts compares.
// Arguments: blocks (one more for each KV group behind the first) tokens sequences rows threads, then "row COLUMNS GROUP",
// "planes COLUMNS", "block LAYERS HEADS COLUMNS LATENT".

#include "driver.c"

static size_t allocated[2 + KV_STORAGES];
static uint8_t *memories[2 + KV_STORAGES];
static int allocations;

static void *allocate(sinter_host *host, size_t bytes) {
  allocated[allocations] = bytes;
  return memories[allocations++] = calloc(bytes + 1, 1);
}
static void release(sinter_host *host, void *memory, size_t bytes) { free(memory); }

static void say(const char *name, int64_t number) { printf("%s %lld\n", name, (long long)number); }
static void say_at(const char *name, const void *pointer) {
  say(name, (const uint8_t *)pointer - memories[1]);
}
static void say_one(const char *kind, int number, int64_t value) {
  char name[32];
  snprintf(name, sizeof name, "%s%d", kind, number);
  say(name, value);
}

static size_t needed(const struct parameter *p) {
  if (p->kept == VECTOR) return (size_t)p->stored.rows * sizeof(float);
  if (p->kept == BIAS) return (size_t)panels_count(p->panels) * PANEL * sizeof(float);
  return panels_bytes(p->panels);
}

int main(int count, char **values) {
  sinter_limits limits = {atoi(values[2]), atoi(values[3]), atoi(values[4])};
  int32_t blocks[KV_STORAGES + 1];
  for (int i = 0; i < KV_STORAGES; i++) blocks[i] = atoi(values[1]) + i;
  sinter_host host = {.threads = atoi(values[5]), .allocate = allocate, .release = release};
  sinter_model *m;
  if (sinter_open(&host, &limits, blocks, NULL, &m)) return 1;
  say("weights", allocated[0]), say("work", allocated[1]);
  for (int i = 0; i < KV_STORAGES; i++) {
    if (m->kv[i] != memories[2 + i]) return 1;
    say_one("kv", i, allocated[2 + i]);
  }
  int64_t bytes;
  if (sinter_weights(m, &bytes) != memories[0] || bytes != (int64_t)allocated[0]) return 1;
  for (int i = 0; i < PARAMETERS; i++) {
    say_one("at.p", i, m->weights[i] - memories[0]);
    say_one("needs.p", i, needed(&parameters[i]));
  }
  for (int i = 0; i < BUFFERS; i++) say_one("at.b", i, m->buffers[i] - memories[1]);
  say_at("at.scratch", m->scratch), say_at("at.samplers", m->samplers);
  say_at("at.planes", m->planes), say_at("at.scores", m->scores);
  say_at("at.sequence_of", m->sequence_of), say_at("at.wanted_of", m->wanted_of);
#define SAY(name) say_at("at.experts." #name, m->experts.name)
  SAY(rows), SAY(hidden), SAY(rounded), SAY(made);
  SAY(starts), SAY(used), SAY(row_of), SAY(of_row);
#undef SAY
  const char *sets[ROW_SETS] = {"tokens", "wanted", "logits", "hidden", "taken"};
  for (int set = 0; set < ROW_SETS; set++) {
    char name[32];
    const void *tables[] = {m->sets[set].token, m->sets[set].wanted, m->sets[set].runs};
    const char *names[] = {"token", "wanted", "runs"};
    for (int i = 0; i < 3; i++) {
      snprintf(name, sizeof name, "at.%s.%s", sets[set], names[i]);
      say_at(name, tables[i]);
    }
  }
  say("needs.scratch", item_scratch(ATTENTION) * (int64_t)sizeof(float));
  say("needs.samplers", sampler_bytes(VOCABULARY));
  for (int i = 6, group = 0; i < count; i++) {
    const char kind = values[i][0];
    const int columns = atoi(values[++i]);
    if (kind == 'r') {
      char name[32];
      const int codes = atoi(values[++i]);
      snprintf(name, sizeof name, "needs.row.%d.%d", columns, codes);
      say(name, quantized_bytes(columns, codes));
    } else if (kind == 'p') {
      say("needs.planes", planes_bytes(columns));
    } else {
      struct attention a = {.layers = columns, .number = ATTENTION.number};
      a.kv_heads = atoi(values[++i]), a.head_dim = atoi(values[++i]);
      a.latent = atoi(values[++i]);
      say_one("needs.block", group++, block_bytes(a));
    }
  }
  sinter_close(m);
  return 0;
}
