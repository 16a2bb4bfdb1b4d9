// A row of logits becomes a token: src/runtime/sampling.ts in C, with the same tokens and the same bits of log-probability.
// Most tokens of a large vocabulary can be ruled out by a look at their logits as floats, a whole vector of them at a time;
// for the others every number that decides is computed by the same operations in double precision.
#ifndef SINTER_SAMPLER_H
#define SINTER_SAMPLER_H

#include "abi.h"
#include "elementary.h"
#include "functions.h"

enum { NO_LOGPROBS = -1, MOST_LOGPROBS = 20, AT_ONCE = 64 };

// Above it no noise lies.
#define MOST_NOISE 23.0

#define NEVER (-__builtin_inff())
#define LARGEST 3.4028234e38f

struct sampler {
  const float *logits;  // [vocabulary]
  int64_t vocabulary, blocks;
  int changed;      // whether scores differ from logits; they are all filled in then
  double *scores;   // [vocabulary] logits as they are changed on the way
  double *shares;   // [vocabulary] whole numbers: see keep_likeliest
  int32_t *tokens;  // [vocabulary] those still in the race come first
  float *rough;     // [blocks, AT_ONCE] scores, or a little more; NEVER for what cannot come
  float *tops;      // [blocks] the largest of each block of those
};

INLINE size_t sampler_bytes(int64_t vocabulary) {
  return (size_t)((vocabulary + AT_ONCE) * 25 + 63) / 64 * 64;
}

static struct sampler sampler_of(const float *logits, int64_t vocabulary, uint8_t *workspace) {
  struct sampler s = {.logits = logits, .vocabulary = vocabulary};
  s.blocks = (vocabulary + AT_ONCE - 1) / AT_ONCE;
  s.scores = (double *)workspace;
  s.shares = s.scores + vocabulary;
  s.rough = (float *)(s.shares + vocabulary);
  s.tops = s.rough + s.blocks * AT_ONCE;
  s.tokens = (int32_t *)(s.tops + s.blocks);
  return s;
}

// The order of everything here: by score, and by id among equals.
INLINE int comes_before(const double *scores, int32_t a, int32_t b) {
  return scores[a] > scores[b] || (scores[a] == scores[b] && a < b);
}

static int32_t likeliest(const struct sampler *s, int64_t left) {
  int32_t best = s->tokens[0];
  for (int64_t i = 1; i < left; i++)
    if (comes_before(s->scores, s->tokens[i], best)) best = s->tokens[i];
  return best;
}

// ------------------------------------------------------------------ a first look

// Copies the logits of what may come, and says whether all are finite.
static int look(const struct sampler *s, const uint32_t *mask) {
  const int64_t n = s->vocabulary, end = s->blocks * AT_ONCE;
  vec sum = vec_zero();
  int64_t t = 0;
  for (; t + 16 <= n; t += 16) {
    vec v = vec_load(s->logits + t);
    sum = vec_fma(v, vec_zero(), sum);
    vec_store(s->rough + t, mask ? vec_choose(mask[t / 32] >> t % 32, v, vec_set(NEVER)) : v);
  }
  float total = vec_total(sum);
  for (; t < n; t++) {
    total += s->logits[t] * 0.0f;
    s->rough[t] = !mask || mask[t / 32] >> t % 32 & 1 ? s->logits[t] : NEVER;
  }
  for (; t < end; t++) s->rough[t] = NEVER;
  return total == 0;
}

// A float that is no less.
INLINE float at_least(double score) {
  score += __builtin_fabs(score) * 1.2e-7 + 1e-37;
  return score > LARGEST ? LARGEST : score < -LARGEST ? -LARGEST : (float)score;
}

// Bias and penalties, which touch few tokens.
static void change(struct sampler *s, const sinter_step_arrays *a, int64_t row) {
  const int64_t biases = a->bias_starts[row], biases_end = a->bias_starts[row + 1],
                counts = a->count_starts[row], counts_end = a->count_starts[row + 1];
  const double repetition = a->repetition[row], frequency = a->frequency[row],
               presence = a->presence[row];
  double *scores = s->scores;
  s->changed = biases < biases_end || counts < counts_end;
  if (!s->changed) return;
  for (int64_t i = 0; i < s->vocabulary; i++) scores[i] = s->logits[i];
  for (int64_t i = biases; i < biases_end; i++) scores[a->bias_tokens[i]] += a->biases[i];
  for (int64_t i = counts; i < counts_end; i++) {
    double score = scores[a->count_tokens[i]];
    double repeated = score > 0 ? score / repetition : score * repetition;
    scores[a->count_tokens[i]] = repeated - a->counts[i] * frequency - presence;
  }
  for (int64_t i = biases; i < biases_end + counts_end - counts; i++) {
    int32_t token =
        i < biases_end ? a->bias_tokens[i] : a->count_tokens[counts + i - biases_end];
    if (s->rough[token] != NEVER) s->rough[token] = at_least(scores[token]);
  }
}

static float top_of(const float *values) {
  vec most = vec_load(values);
#pragma GCC unroll 3
  for (int i = 16; i < AT_ONCE; i += 16) most = vec_max(most, vec_load(values + i));
  return vec_largest(most);
}

// The largest of all; NEVER when nothing may come.
static float find_tops(const struct sampler *s) {
  float most = NEVER;
  for (int64_t b = 0; b < s->blocks; b++) {
    s->tops[b] = top_of(s->rough + b * AT_ONCE);
    most = s->tops[b] > most ? s->tops[b] : most;
  }
  return most;
}

// What lies `distance` below the largest score, and less by what floats cannot tell.
static float below(float most, double distance) {
  double less = most - distance - (__builtin_fabs((double)most) + distance) * 1e-5 - 1e-37;
  return less < -LARGEST ? -LARGEST : (float)less;
}

// Lists the tokens whose scores may reach `least`, fills their scores in and counts them.
static int64_t gather(const struct sampler *s, float least) {
  int64_t left = 0;
  for (int64_t b = 0; b < s->blocks; b++) {
    if (s->tops[b] < least) continue;
    for (int64_t t = b * AT_ONCE; t < (b + 1) * AT_ONCE; t++) {
      s->tokens[left] = (int32_t)t;
      left += s->rough[t] >= least;
    }
  }
  if (!s->changed)
    for (int64_t i = 0; i < left; i++) s->scores[s->tokens[i]] = s->logits[s->tokens[i]];
  return left;
}

// A score that `count` tokens reach at least: one of as many blocks each. -LARGEST where there are too few blocks.
static float reached_by(const struct sampler *s, int64_t count) {
  if (count > s->blocks) return -LARGEST;
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
    if (count <= more)
      high = more;
    else if (count <= same)
      return below(pivot, 0);
    else
      low = same;
  }
  return below(tops[low], 0);
}

// ------------------------------------------------------------------ what is kept

INLINE double weight_of(const struct sampler *s, int by_share, int32_t token) {
  return by_share ? s->shares[token] : 1;
}

// Keeps the fewest likeliest of the first `left` tokens whose weights sum to `target` at least, moves them to the front and
// counts them. Weights are whole numbers and their sums stay below 2^53, so the order of adding does not matter.
static int64_t keep_likeliest(const struct sampler *s, int64_t left, double target, int by_share) {
  int32_t *tokens = s->tokens;
  int64_t low = 0, high = left;
  double sum = 0;  // of the weights before `low`
  while (low < high) {
    int32_t pivot = tokens[(low + high) / 2];
    tokens[(low + high) / 2] = tokens[high - 1];
    tokens[high - 1] = pivot;
    int64_t middle = low;
    double likelier = 0;
    for (int64_t i = low; i < high - 1; i++) {
      int32_t token = tokens[i];
      if (!comes_before(s->scores, token, pivot)) continue;
      likelier += weight_of(s, by_share, token);
      tokens[i] = tokens[middle];
      tokens[middle++] = token;
    }
    tokens[high - 1] = tokens[middle];
    tokens[middle] = pivot;
    if (sum + likelier >= target) {
      high = middle;
      continue;
    }
    sum += likelier + weight_of(s, by_share, pivot);
    low = middle + 1;
    if (sum >= target) break;
  }
  return low;
}

// Further behind a share is none: 2^32 e^-22.2 < 1.
#define LEAST_SHARED 22.2

enum { STEPS = 1024 };

// Which of the steps down from the likeliest a token's score lies on: never a lower one for a less likely token.
INLINE int32_t step_of(double behind) {
  return (int32_t)((behind < -LEAST_SHARED ? LEAST_SHARED : -behind) * (STEPS / LEAST_SHARED));
}

// Top-p. Shares are summed by steps of likelihood, so that only tokens of the step in which the sum is reached have to be put
// in order. A token whose share is none adds nothing and is set aside before.
static int64_t keep_share(const struct sampler *s, int64_t left, double most, double top_p) {
  double sum = 0, of_step[STEPS + 1] = {0};
  int64_t counted = 0;
  for (int64_t from = 0; from < left; from += AT_ONCE) {
    int64_t n = left - from < AT_ONCE ? left - from : AT_ONCE;
    double behind[AT_ONCE], share[AT_ONCE];
    int32_t step[AT_ONCE];
    for (int64_t i = 0; i < AT_ONCE; i++)
      behind[i] = i < n ? s->scores[s->tokens[from + i]] - most : -708;
    for (int64_t i = 0; i < AT_ONCE; i++) {
      share[i] = floor_of(exp_double(behind[i]) * 4294967296.0);
      step[i] = step_of(behind[i]);
    }
    for (int64_t i = 0; i < n; i++) {
      int32_t token = s->tokens[from + i];
      sum += share[i];
      of_step[step[i]] += share[i];
      s->shares[token] = share[i];
      s->tokens[counted] = token;
      counted += share[i] > 0;
    }
  }
  const double target = top_p * sum;
  double before = 0;
  int32_t last = 0;
  while (before + of_step[last] < target) before += of_step[last++];
  struct sampler on_last = *s;
  int32_t *same = (int32_t *)s->rough;  // which nobody needs any more
  int64_t likelier = 0, equal = 0;
  for (int64_t i = 0; i < counted; i++) {
    int32_t token = s->tokens[i], step = step_of(s->scores[token] - most);
    s->tokens[likelier] = same[equal] = token;
    likelier += step < last;
    equal += step == last;
  }
  on_last.tokens += likelier;
  memcpy(on_last.tokens, same, (size_t)equal * 4);
  return likelier + keep_likeliest(&on_last, equal, target - before, 1);
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

INLINE double gumbel_of(uint32_t r) {
  return -log_double(-log_double(((double)r + 0.5) / 4294967296.0));
}

struct race {
  struct noise_key key;
  double temperature, most, min_p;
  int32_t best;
  double best_score;
};

// By log p + noise, after min-p. `score`: of the token, divided by the temperature.
INLINE void enter(struct race *r, int32_t token, double score, uint32_t noise) {
  double behind = score - r->most;
  if (r->min_p > 0 && exp_double(behind) < r->min_p) return;
  score = behind + gumbel_of(noise);
  if (score > r->best_score || (score == r->best_score && token < r->best))
    r->best = token, r->best_score = score;
}

enum { LISTED = 1024 };

static void race_listed(const struct sampler *s, int64_t left, struct race *r) {
  for (int64_t i = 0; i < left; i++) {
    int32_t token = s->tokens[i];
    if (s->scores[token] - r->most + MOST_NOISE < r->best_score) continue;
    enter(r, token, s->scores[token], threefry(r->key, (uint32_t)token, 0).low);
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
    double lead = s->tops[b] / r->temperature - r->most - r->best_score;
    leads[i] = lead > 0 ? 0 : lead < -MOST_NOISE ? -60 : (float)lead;
  }
  vec_store(chances, vec_exp(vec_load(leads)));
  for (int i = 0; i < 16; i++) {
    double least = 4294967296.0 - (chances[i] * (1.01 * 4294967296.0) + 2);
    limits[i] = leads[i] == -60 ? HOPELESS : least < 0 ? 0 : (uint32_t)least;
  }
}

// The same among all that may come; whose noise is too small is not looked at, and that of hopeless blocks not made.
static void race_all(const struct sampler *s, struct race *r) {
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
      int64_t token = b * AT_ONCE + i;
      if (noise[i] < limits[b % 16] || s->rough[token] == NEVER) continue;
      double score = s->changed ? s->scores[token] : s->logits[token];
      enter(r, (int32_t)token, score / r->temperature, noise[i]);
    }
  }
}

// Makes the listed tokens those that may come, their scores in place of the logits.
static void put_back(struct sampler *s, int64_t left) {
  for (int64_t i = 0; i < s->blocks * AT_ONCE; i += 16) vec_store(s->rough + i, vec_set(NEVER));
  for (int64_t i = 0; i < left; i++) s->rough[s->tokens[i]] = at_least(s->scores[s->tokens[i]]);
  s->changed = 1;
  find_tops(s);
}

// ------------------------------------------------------------------ a row

// -1 when a logit is not finite, or nothing may come.
static int32_t draw(const sinter_step_arrays *a, int64_t row, struct sampler *s) {
  const uint32_t *mask =
      a->mask_row[row] < 0 ? NULL : a->masks + a->mask_row[row] * ((s->vocabulary + 31) / 32);
  if (!look(s, mask)) return -1;
  change(s, a, row);
  const float top = find_tops(s);
  if (top == NEVER) return -1;
  const double temperature = a->temperature[row], top_p = a->top_p[row];
  const int64_t top_k = a->top_k[row];
  int64_t left = gather(s, below(top, 0));
  const int32_t first = likeliest(s, left);
  if (temperature == 0 || top_p == 0) return first;

  struct noise_key key = {(uint32_t)a->seed[row], (uint32_t)(a->seed[row] >> 32)};
  struct race race = {.key = threefry(key, (uint32_t)a->choice[row], (uint32_t)a->position[row]),
                      .temperature = temperature,
                      .most = s->scores[first] / temperature,
                      .min_p = a->min_p[row],
                      .best = -1,
                      .best_score = -__builtin_inf()};
  if (top_k <= 0 && top_p >= 1) {
    enter(&race, first, race.most, threefry(race.key, (uint32_t)first, 0).low);
    race_all(s, &race);
    return race.best;
  }
  left = gather(s, top_k > 0 ? reached_by(s, top_k) : below(top, LEAST_SHARED * temperature));
  for (int64_t i = 0; i < left; i++) s->scores[s->tokens[i]] /= temperature;
  if (top_k > 0 && top_k < left) left = keep_likeliest(s, left, top_k, 0);
  if (top_p < 1) left = keep_share(s, left, race.most, top_p);
  if (left > LISTED) {
    put_back(s, left);
    race.temperature = 1;  // scores are divided already
    race_all(s, &race);
  } else {
    race_listed(s, left, &race);
  }
  return race.best;
}

static float highest(const float *logits, int64_t n) {
  vec most = vec_set(logits[0]);
  int64_t t = 0;
  for (; t + 16 <= n; t += 16) most = vec_max(most, vec_load(logits + t));
  float best = vec_largest(most);
  for (; t < n; t++) best = logits[t] > best ? logits[t] : best;
  return best;
}

// log(sum(e^(logit - most))): 16 lanes, token t in lane t mod 16, then lane i takes lane i + 8, i + 4, i + 2, i + 1.
static double log_sum(const float *logits, int64_t n, double most) {
  double lanes[16] = {0};
  int64_t t = 0;
  for (; t + AT_ONCE <= n; t += AT_ONCE) {
    double terms[AT_ONCE];
    for (int i = 0; i < AT_ONCE; i++) terms[i] = exp_double(logits[t + i] - most);
    for (int from = 0; from < AT_ONCE; from += 16)
      for (int i = 0; i < 16; i++) lanes[i] += terms[from + i];
  }
  for (; t < n; t++) lanes[t % 16] += exp_double(logits[t] - most);
  for (int width = 8; width; width /= 2)
    for (int i = 0; i < width; i++) lanes[i] += lanes[i + width];
  return log_double(lanes[0]);
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
    float logit = logits[token];
    if (full && logit <= logits[list[listed - 1]]) continue;
    int64_t at = full ? listed - 1 : listed++;
    for (; at > 0 && logit > logits[list[at - 1]]; at--) list[at] = list[at - 1];
    list[at] = (int32_t)token;
  }
}

// Draws row `row` from its raw logits [vocabulary] and writes all of the row's results. `workspace`: sampler_bytes.
static void sample(const sinter_step_arrays *a, const float *logits, int64_t vocabulary,
                   int64_t row, uint8_t *workspace) {
  struct sampler s = sampler_of(logits, vocabulary, workspace);
  const int32_t drawn = draw(a, row, &s);
  const int64_t wanted = a->top_logprobs[row];
  a->out_finite[row] = drawn >= 0;
  a->out_tokens[row] = drawn >= 0 ? drawn : 0;
  a->out_logprobs[row] = 0;
  if (drawn < 0 || wanted == NO_LOGPROBS) return;
  const float most = highest(logits, vocabulary);
  const double sum = log_sum(logits, vocabulary, most);
  a->out_logprobs[row] = (float)(logits[drawn] - (double)most - sum);
  int32_t *list = a->out_top_tokens + row * MOST_LOGPROBS;
  list_likeliest(logits, vocabulary, list, wanted);
  for (int64_t i = 0; i < wanted; i++)
    a->out_top_logprobs[row * MOST_LOGPROBS + i] = (float)(logits[list[i]] - (double)most - sum);
}

#endif
