// A row of logits becomes a token: src/runtime/sampling.ts in C, with the same tokens and the same bits of log-probability.
// Most tokens of a large vocabulary are ruled out by the highest score of their block; only for the others are noise and
// shares computed, and only those that may matter are ever put in order.
#ifndef SINTER_SAMPLER_H
#define SINTER_SAMPLER_H

#include "abi.h"
#include "elementary.h"
#include "single.h"
#include "vector.h"

enum { NO_LOGPROBS = -1, MAX_TOP_LOGPROBS = 20, AT_ONCE = 64 };

// Above it no noise lies.
#define MAX_NOISE 23.0f

// The score of what cannot come: below every other.
#define NEVER (-__builtin_inff())

struct sampler {
  int64_t vocabulary, blocks;
  float *scores;    // [blocks, AT_ONCE] logits as they are changed on the way
  float *tops;      // [blocks] the highest of each block
  int32_t *tokens;  // [vocabulary] those that are put in order
  float most;       // the highest of all
  float inverse;    // of the temperature
  // The tokens left: those with a score above `least`, and with an equal one up to the id `last`. Where they are few, they
  // are listed too.
  float least;
  int32_t last;
  int64_t listed;
};

// Of a workspace, which layout.ts must keep for each thread.
INLINE size_t sampler_bytes(int64_t vocabulary) {
  return (size_t)((vocabulary + AT_ONCE) * 9 + 63) / 64 * 64;
}

static struct sampler sampler_of(int64_t vocabulary, uint8_t *workspace) {
  struct sampler s = {.vocabulary = vocabulary, .least = -MAX_FLOAT, .last = INT32_MAX};
  s.blocks = (vocabulary + AT_ONCE - 1) / AT_ONCE;
  s.scores = (float *)workspace;
  s.tops = s.scores + s.blocks * AT_ONCE;
  s.tokens = (int32_t *)(s.tops + s.blocks);
  return s;
}

INLINE int is_left(const struct sampler *s, int32_t token) {
  return (s->scores[token] > s->least) | ((s->scores[token] == s->least) & (token <= s->last));
}

// ------------------------------------------------------------------ scores

static float top_of(const float *values) {
  vec most = vec_load(values);
#pragma GCC unroll 3
  for (int i = 16; i < AT_ONCE; i += 16) most = vec_max(most, vec_load(values + i));
  return vec_largest(most);
}

// Sixteen finite logits, settled, NEVER where the mask forbids them.
INLINE vec look_at(const float *logits, const uint32_t *mask, int64_t t) {
  vec v = vec_load(logits + t);
  v = vec_keep(v, vec_abs(v), vec_set(__FLT_MIN__));
  return mask ? vec_choose(mask[t / 32] >> t % 32, v, vec_set(NEVER)) : v;
}

// Takes the logits of what may come and finds the tops; says whether all logits are finite.
INLINE int look_through(const struct sampler *s, const float *logits, const uint32_t *mask) {
  vec sum = vec_zero();
  int64_t b = 0;
  for (; (b + 1) * AT_ONCE <= s->vocabulary; b++) {
    vec most = vec_set(NEVER);
#pragma GCC unroll 4
    for (int64_t t = b * AT_ONCE; t < (b + 1) * AT_ONCE; t += 16) {
      sum = vec_fma(vec_load(logits + t), vec_zero(), sum);
      vec v = look_at(logits, mask, t);
      vec_store(s->scores + t, v);
      most = vec_max(most, v);
    }
    s->tops[b] = vec_largest(most);
  }
  float total = vec_total(sum);
  if (b == s->blocks) return total == 0;
  for (int64_t t = b * AT_ONCE; t < (b + 1) * AT_ONCE; t++) {
    const int there = t < s->vocabulary;
    if (there) total += logits[t] * 0.0f;
    s->scores[t] = there && (!mask || mask[t / 32] >> t % 32 & 1) ? settled(logits[t]) : NEVER;
  }
  s->tops[b] = top_of(s->scores + b * AT_ONCE);
  return total == 0;
}

static int look(const struct sampler *s, const float *logits, const uint32_t *mask) {
  return mask ? look_through(s, logits, mask) : look_through(s, logits, NULL);
}

// Bias and penalties, which touch few tokens.
static void change(const struct sampler *s, const sinter_step_arrays *a, int64_t row) {
  const float repetition = settled(a->repetition[row]), inverse = settled(1 / repetition),
              frequency = settled(a->frequency[row]), presence = settled(a->presence[row]);
  const int64_t biases = a->bias_starts[row], biases_end = a->bias_starts[row + 1],
                counts = a->count_starts[row], counts_end = a->count_starts[row + 1];
  for (int64_t i = biases; i < biases_end; i++) {
    float *score = s->scores + a->bias_tokens[i];
    if (*score != NEVER) *score = settled(*score + settled(a->biases[i]));
  }
  for (int64_t i = counts; i < counts_end; i++) {
    float *score = s->scores + a->count_tokens[i];
    if (*score == NEVER) continue;
    float repeated = settled(*score * (*score > 0 ? inverse : repetition));
    *score = settled(settled(repeated - settled((float)a->counts[i] * frequency)) - presence);
  }
  for (int64_t i = biases; i < biases_end + counts_end - counts; i++) {
    int32_t token = i < biases_end ? a->bias_tokens[i] : a->count_tokens[counts + i - biases_end];
    s->tops[token / AT_ONCE] = top_of(s->scores + token / AT_ONCE * AT_ONCE);
  }
}

// NEVER when nothing may come.
static float highest_top(const struct sampler *s) {
  float most = NEVER;
  for (int64_t b = 0; b < s->blocks; b++) most = s->tops[b] > most ? s->tops[b] : most;
  return most;
}

// The lowest id among equals.
static int32_t likeliest(const struct sampler *s) {
  int64_t b = 0;
  while (s->tops[b] != s->most) b++;
  int64_t token = b * AT_ONCE;
  while (s->scores[token] != s->most) token++;
  return (int32_t)token;
}

// How far a score lies behind the highest, in units of the temperature.
INLINE float distance(float score, float most, float inverse) {
  return settled(settled(score - most) * inverse);
}

// e^behind in units of 2^-40: the upper 21 bits and the lower 20.
INLINE uint32_t upper_share(float power) { return (uint32_t)(int32_t)(power * 1048576.0f); }
INLINE uint32_t lower_share(float power, uint32_t upper) {
  return (uint32_t)(int32_t)((power * 1048576.0f - (float)(int32_t)upper) * 1048576.0f);
}
INLINE uint64_t share_of(float behind) {
  return (uint64_t)(exp_single(behind) * 1099511627776.0f);
}

// ------------------------------------------------------------------ what is kept

// What is counted until enough is kept.
enum weights { ONE_EACH, SHARES };

INLINE float unit_of(const struct sampler *s, enum weights by) {
  return by == SHARES ? s->inverse : 1;
}

INLINE uint64_t weight_of(const struct sampler *s, enum weights by, int32_t token) {
  return by == SHARES ? share_of(distance(s->scores[token], s->most, s->inverse)) : 1;
}

// The order of everything here: by score, and by id among equals.
INLINE int comes_before(const float *scores, int32_t a, int32_t b) {
  return scores[a] > scores[b] || (scores[a] == scores[b] && a < b);
}

// Keeps the fewest likeliest of the listed tokens whose weights sum to `target` at least, and moves them to the front.
// Weights are whole numbers, so the order of adding does not matter: quickselect will do.
static void keep_likeliest(struct sampler *s, uint64_t target, enum weights by) {
  int32_t *tokens = s->tokens;
  int64_t low = 0, high = s->listed;
  uint64_t sum = 0;  // of the weights before `low`
  while (low < high) {
    int32_t pivot = tokens[(low + high) / 2];
    tokens[(low + high) / 2] = tokens[high - 1];
    tokens[high - 1] = pivot;
    int64_t middle = low;
    uint64_t likelier = 0;
    for (int64_t i = low; i < high - 1; i++) {
      int32_t token = tokens[i];
      if (!comes_before(s->scores, token, pivot)) continue;
      likelier += weight_of(s, by, token);
      tokens[i] = tokens[middle];
      tokens[middle++] = token;
    }
    tokens[high - 1] = tokens[middle];
    tokens[middle] = pivot;
    if (sum + likelier >= target) {
      high = middle;
      continue;
    }
    sum += likelier + weight_of(s, by, pivot);
    s->last = pivot;
    low = middle + 1;
    if (sum >= target) break;
  }
  s->least = s->scores[s->last];
  s->listed = low;
}

// Further behind a share is none: 2^40 e^-28 < 1.
#define MIN_SHARED 28.0f

enum { STEPS = 1024 };

// Which of the steps down from the likeliest a token lies on: never a lower one for a less likely token.
INLINE int32_t step_of(float behind) {
  return (int32_t)((behind < -MIN_SHARED ? MIN_SHARED : -behind) * (STEPS / MIN_SHARED));
}

// Sums the weights of what is left by steps of likelihood, block by block.
INLINE uint64_t weigh(const struct sampler *s, enum weights by, uint64_t of_step[STEPS + 1]) {
  const float unit = unit_of(s, by);
  uint64_t sum = 0;
  for (int64_t b = 0; b < s->blocks; b++) {
    if (s->tops[b] < s->least) continue;
    if (by == SHARES && distance(s->tops[b], s->most, unit) < -MIN_SHARED) continue;
    float behind[AT_ONCE], power[AT_ONCE];
    uint32_t left[AT_ONCE], upper[AT_ONCE], lower[AT_ONCE];
    int32_t step[AT_ONCE];
    for (int i = 0; i < AT_ONCE; i++) left[i] = is_left(s, (int32_t)(b * AT_ONCE) + i);
    for (int i = 0; i < AT_ONCE; i++)
      behind[i] = distance(s->scores[b * AT_ONCE + i], s->most, unit);
    for (int i = 0; i < AT_ONCE; i++) step[i] = step_of(behind[i]);
    if (by == ONE_EACH) {
      for (int i = 0; i < AT_ONCE; i++) of_step[step[i]] += left[i], sum += left[i];
      continue;
    }
    for (int i = 0; i < AT_ONCE; i++) power[i] = exp_single(behind[i]);
    for (int i = 0; i < AT_ONCE; i++) upper[i] = upper_share(power[i]);
    for (int i = 0; i < AT_ONCE; i++) lower[i] = lower_share(power[i], upper[i]);
    for (int i = 0; i < AT_ONCE; i++) {
      uint64_t share = (((uint64_t)upper[i] << 20) + lower[i]) * left[i];
      of_step[step[i]] += share, sum += share;
    }
  }
  return sum;
}

// Lists what is left on one step and counts it.
static int64_t list_step(const struct sampler *s, float unit, int32_t wanted) {
  int64_t listed = 0;
  for (int64_t b = 0; b < s->blocks; b++) {
    if (s->tops[b] < s->least || step_of(distance(s->tops[b], s->most, unit)) > wanted) continue;
    int32_t there[AT_ONCE];
    for (int32_t i = 0; i < AT_ONCE; i++) {
      int32_t token = (int32_t)(b * AT_ONCE) + i;
      int32_t step = step_of(distance(s->scores[token], s->most, unit));
      there[i] = is_left(s, token) & (step == wanted);
    }
    for (int32_t i = 0; i < AT_ONCE; i++) {
      s->tokens[listed] = (int32_t)(b * AT_ONCE) + i;
      listed += there[i];
    }
  }
  return listed;
}

// Only tokens of the step in which the sum is reached have to be put in order.
static void cut(struct sampler *s, const uint64_t of_step[STEPS + 1], uint64_t target,
                enum weights by) {
  uint64_t before = 0;
  int32_t step = 0;
  while (before + of_step[step] < target) before += of_step[step++];
  s->listed = list_step(s, unit_of(s, by), step);
  keep_likeliest(s, target - before, by);
  s->listed = 0;
}

// A score that `count` tokens reach at least: one of as many blocks each. -MAX_FLOAT where there are too few blocks.
static float reached_by(const struct sampler *s, int64_t count) {
  if (count > s->blocks) return -MAX_FLOAT;
  float *tops = (float *)s->tokens;  // not listed yet
  memcpy(tops, s->tops, (size_t)s->blocks * 4);
  int64_t low = 0, high = s->blocks;
  while (high - low > 1) {
    float pivot = tops[(low + high) / 2];
    int64_t more = low, same = low;  // before: larger, from there: equal, behind: smaller
    for (int64_t i = low; i < high; i++) {
      float top = tops[i];
      if (top < pivot) continue;
      tops[i] = tops[same];
      tops[same] = top;
      if (top > pivot) {
        tops[same] = tops[more];
        tops[more++] = top;
      }
      same++;
    }
    if (count > same) {
      low = same;
    } else if (count > more) {
      low = more;
      break;
    } else {
      high = more;
    }
  }
  return tops[low] < -MAX_FLOAT ? -MAX_FLOAT : tops[low];
}

// Lists what is left and counts it.
static int64_t list_left(const struct sampler *s) {
  int64_t listed = 0;
  for (int64_t b = 0; b < s->blocks; b++) {
    if (s->tops[b] < s->least) continue;
    for (int32_t i = 0; i < AT_ONCE; i++) {
      s->tokens[listed] = (int32_t)(b * AT_ONCE) + i;
      listed += is_left(s, (int32_t)(b * AT_ONCE) + i);
    }
  }
  return listed;
}

static void keep_count(struct sampler *s, int64_t count) {
  s->least = reached_by(s, count);
  if (s->least > -MAX_FLOAT) {
    s->listed = list_left(s);
    keep_likeliest(s, (uint64_t)count, ONE_EACH);
    return;
  }
  uint64_t of_step[STEPS + 1] = {0};
  if (weigh(s, ONE_EACH, of_step) > (uint64_t)count) cut(s, of_step, (uint64_t)count, ONE_EACH);
}

// The part `p` of a sum, up to a whole number; of p the part that 24 bits hold, up to the next.
static uint64_t part_of(uint64_t sum, float p) {
  const uint64_t below_one = (1 << 24) - 1;
  float scaled = p * 16777216.0f;
  uint64_t factor = (uint64_t)scaled;
  factor += (float)factor < scaled;
  return (sum >> 24) * factor + (((sum & below_one) * factor + below_one) >> 24);
}

static void keep_share(struct sampler *s, float top_p) {
  if (s->listed) {
    uint64_t sum = 0;
    for (int64_t i = 0; i < s->listed; i++) sum += weight_of(s, SHARES, s->tokens[i]);
    keep_likeliest(s, part_of(sum, top_p), SHARES);
    return;
  }
  uint64_t of_step[STEPS + 1] = {0};
  uint64_t sum = weigh(s, SHARES, of_step);
  cut(s, of_step, part_of(sum, top_p), SHARES);
}

// ------------------------------------------------------------------ noise

struct noise_key {
  uint32_t low, high;
};

// Threefry-2x32 with 20 rounds, as in src/runtime/noise.ts.
INLINE struct noise_key threefry(struct noise_key key, uint32_t a, uint32_t b) {
  uint32_t keys[3] = {key.low, key.high, key.low ^ key.high ^ 0x1bd11bda};
  a += keys[0];
  b += keys[1];
#define ROUND(turns) a += b, b = (b << turns | b >> (32 - turns)) ^ a
#define INJECT(n) a += keys[n % 3], b += keys[(n + 1) % 3] + n
  ROUND(13), ROUND(15), ROUND(26), ROUND(6), INJECT(1);
  ROUND(17), ROUND(29), ROUND(16), ROUND(24), INJECT(2);
  ROUND(13), ROUND(15), ROUND(26), ROUND(6), INJECT(3);
  ROUND(17), ROUND(29), ROUND(16), ROUND(24), INJECT(4);
  ROUND(13), ROUND(15), ROUND(26), ROUND(6), INJECT(5);
#undef ROUND
#undef INJECT
  return (struct noise_key){a, b};
}

// -log(-log(u)), u = (r + 1/2) / 2^32; near 1 the inner logarithm is taken of the distance from 1.
INLINE float gumbel_of(uint32_t r) {
  float u = ((float)r + 0.5f) * 0x1p-32f, missing = ((float)~r + 0.5f) * 0x1p-32f;
  return -log_single(-(r < 0xb504f333 ? log_single(u) : log_near_one(-missing)));
}

struct race {
  struct noise_key key;
  float min_p;
  int32_t best;
  float best_score;
};

// By log p + noise, after min-p.
INLINE void enter(struct race *r, int32_t token, float behind, uint32_t noise) {
  if (r->min_p > 0 && exp_single(behind) < r->min_p) return;
  float score = behind + gumbel_of(noise);
  if (score > r->best_score || (score == r->best_score && token < r->best))
    r->best = token, r->best_score = score;
}

static void run_listed(const struct sampler *s, struct race *r) {
  for (int64_t i = 0; i < s->listed; i++) {
    int32_t token = s->tokens[i];
    float behind = distance(s->scores[token], s->most, s->inverse);
    if (behind + MAX_NOISE < r->best_score) continue;
    enter(r, token, behind, threefry(r->key, (uint32_t)token, 0).low);
  }
}

// Where no noise is large enough.
#define HOPELESS UINT32_MAX

// How large noise must be for the likeliest of a block to win: -log(-log u) exceeds x only where 1 - u is below e^-x,
// roughly. Looked at generously, and for 16 blocks at once.
static void find_limits(const struct sampler *s, int64_t first, const struct race *r,
                        uint32_t limits[16]) {
  float leads[16], chances[16];
  for (int i = 0; i < 16; i++) {
    int64_t b = first + i < s->blocks ? first + i : s->blocks - 1;
    float lead = distance(s->tops[b], s->most, s->inverse) - r->best_score;
    leads[i] = s->tops[b] < s->least ? -MAX_FLOAT : lead > 0 ? 0 : lead;
  }
  for (int i = 0; i < 16; i++) chances[i] = exp_single(leads[i]);
  for (int i = 0; i < 16; i++) {
    double least = 4294967296.0 - (chances[i] * (1.01 * 4294967296.0) + 2);
    limits[i] = leads[i] < -MAX_NOISE ? HOPELESS : least < 0 ? 0 : (uint32_t)least;
  }
}

// Among all that are left. Whose noise is too small is not looked at, and that of hopeless blocks not made.
static void run_all(const struct sampler *s, struct race *r) {
  uint32_t limits[16];
  for (int64_t b = 0; b < s->blocks; b++) {
    if (b % 16 == 0) find_limits(s, b, r, limits);
    if (limits[b % 16] == HOPELESS) continue;
    uint32_t noise[AT_ONCE], most = 0;
    for (uint32_t i = 0; i < AT_ONCE; i++)
      noise[i] = threefry(r->key, (uint32_t)(b * AT_ONCE) + i, 0).low;
    for (int i = 0; i < AT_ONCE; i++) most = noise[i] > most ? noise[i] : most;
    if (most < limits[b % 16]) continue;
    for (int i = 0; i < AT_ONCE; i++) {
      int32_t token = (int32_t)(b * AT_ONCE) + i;
      if (noise[i] < limits[b % 16] || !is_left(s, token)) continue;
      enter(r, token, distance(s->scores[token], s->most, s->inverse), noise[i]);
    }
  }
}

// ------------------------------------------------------------------ a row

// -1 when a logit is not finite, or nothing may come.
static int32_t draw(const sinter_step_arrays *a, const float *logits, int64_t row,
                    struct sampler *s) {
  const uint32_t *mask =
      a->mask_row[row] < 0 ? NULL : a->masks + a->mask_row[row] * ((s->vocabulary + 31) / 32);
  if (!look(s, logits, mask)) return -1;
  change(s, a, row);
  s->most = highest_top(s);
  if (s->most == NEVER) return -1;
  const int32_t first = likeliest(s);
  const float temperature = settled(a->temperature[row]), top_p = settled(a->top_p[row]);
  const int64_t top_k = a->top_k[row];
  if (temperature == 0 || top_p == 0) return first;

  s->inverse = settled(1 / temperature);
  struct noise_key key = {(uint32_t)a->seed[row], (uint32_t)(a->seed[row] >> 32)};
  struct race race = {.key = threefry(key, (uint32_t)a->choice[row], (uint32_t)a->position[row]),
                      .min_p = settled(a->min_p[row]),
                      .best = -1,
                      .best_score = NEVER};
  if (top_k > 0) keep_count(s, top_k);
  if (top_p < 1) keep_share(s, top_p);
  enter(&race, first, 0, threefry(race.key, (uint32_t)first, 0).low);
  if (s->listed)
    run_listed(s, &race);
  else
    run_all(s, &race);
  return race.best;
}

static float highest(const float *logits, int64_t n) {
  vec most = vec_set(logits[0]);
  int64_t t = 0;
  for (; t + 16 <= n; t += 16) most = vec_max(most, vec_load(logits + t));
  float best = vec_largest(most);
  for (; t < n; t++) best = logits[t] > best ? logits[t] : best;
  return settled(best);
}

// log(sum(e^(logit - most))): of all shares.
static double log_sum(const float *logits, int64_t n, float most) {
  uint64_t sum = 0;
  int64_t t = 0;
  for (; t + AT_ONCE <= n; t += AT_ONCE) {
    uint32_t uppers = 0, lowers = 0;
    for (int i = 0; i < AT_ONCE; i++) {
      float power = exp_single(distance(settled(logits[t + i]), most, 1));
      uint32_t upper = upper_share(power);
      uppers += upper;
      lowers += lower_share(power, upper);
    }
    sum += ((uint64_t)uppers << 20) + lowers;
  }
  for (; t < n; t++) sum += share_of(distance(settled(logits[t]), most, 1));
  return log_double((double)sum / 1099511627776.0);
}

// The tokens of the largest logits, best first, the lower id among equals.
static void list_likeliest(const float *logits, int64_t n, int32_t *list, int64_t wanted) {
  int64_t listed = 0;
  for (int64_t token = 0; token < n && wanted > 0; token++) {
    const int full = listed == wanted;
    if (full && token % AT_ONCE == 0 && token + AT_ONCE <= n &&
        top_of(logits + token) <= logits[list[listed - 1]]) {
      token += AT_ONCE - 1;
      continue;
    }
    float logit = settled(logits[token]);
    if (full && logit <= settled(logits[list[listed - 1]])) continue;
    int64_t at = full ? listed - 1 : listed++;
    for (; at > 0 && logit > settled(logits[list[at - 1]]); at--) list[at] = list[at - 1];
    list[at] = (int32_t)token;
  }
}

// Draws row `row` from its raw logits [vocabulary] and writes all of the row's results. `workspace`: sampler_bytes.
static void sample(const sinter_step_arrays *a, const float *logits, int64_t vocabulary,
                   int64_t row, uint8_t *workspace) {
  struct sampler s = sampler_of(vocabulary, workspace);
  const int32_t drawn = draw(a, logits, row, &s);
  const int64_t wanted = a->top_logprobs[row];
  a->out_finite[row] = drawn >= 0;
  a->out_tokens[row] = drawn >= 0 ? drawn : 0;
  a->out_logprobs[row] = 0;
  if (drawn < 0 || wanted == NO_LOGPROBS) return;
  const double most = highest(logits, vocabulary);
  const double sum = log_sum(logits, vocabulary, (float)most);
  a->out_logprobs[row] = (float)(settled(logits[drawn]) - most - sum);
  int32_t *list = a->out_top_tokens + row * MAX_TOP_LOGPROBS;
  list_likeliest(logits, vocabulary, list, wanted);
  for (int64_t i = 0; i < wanted; i++)
    a->out_top_logprobs[row * MAX_TOP_LOGPROBS + i] = (float)(settled(logits[list[i]]) - most - sum);
}

#endif
