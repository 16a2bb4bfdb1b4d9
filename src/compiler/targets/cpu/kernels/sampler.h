// A row of logits becomes a token: src/runtime/sampling.ts in C, with the same tokens and the same bits of log-probability.
// What may be left out is left out (tokens that no noise could help), what has no order is done several at a time; every
// number that decides is computed by the same operations.
#ifndef SINTER_SAMPLER_H
#define SINTER_SAMPLER_H

#include "abi.h"
#include "elementary.h"
#include "vector.h"

enum { MOST_LOGPROBS = 20, AT_ONCE = 64 };

// Above it no noise lies.
#define MOST_NOISE 23.0

struct sampler {
  int64_t vocabulary;
  double *scores;   // [vocabulary] logits as they are changed on the way
  double *shares;   // [vocabulary] whole numbers: see keep_likeliest
  int32_t *tokens;  // [vocabulary] those still in the race come first
};

INLINE size_t sampler_bytes(int64_t vocabulary) {
  return (size_t)((vocabulary + AT_ONCE) * 20 + 63) / 64 * 64;
}

// The order of everything here: by score, and by id among equals.
INLINE int comes_before(const double *scores, int32_t a, int32_t b) {
  return scores[a] > scores[b] || (scores[a] == scores[b] && a < b);
}

// The highest score first, eight at a time, then whose it is.
static int32_t likeliest_of_all(const double *scores, int64_t n) {
  double highest[8];
  for (int i = 0; i < 8; i++) highest[i] = scores[0];
  int64_t t = 0;
  for (; t + 8 <= n; t += 8)
    for (int i = 0; i < 8; i++)
      highest[i] = scores[t + i] > highest[i] ? scores[t + i] : highest[i];
  double best = highest[0];
  for (int i = 1; i < 8; i++) best = highest[i] > best ? highest[i] : best;
  for (; t < n; t++) best = scores[t] > best ? scores[t] : best;
  for (t = 0; scores[t] != best;) t++;
  return (int32_t)t;
}

static int32_t likeliest(const struct sampler *s, int64_t left) {
  if (left == s->vocabulary) return likeliest_of_all(s->scores, left);
  int32_t best = s->tokens[0];
  for (int64_t i = 1; i < left; i++)
    if (comes_before(s->scores, s->tokens[i], best)) best = s->tokens[i];
  return best;
}

static int all_finite(const float *logits, int64_t n) {
  vec sum = vec_zero();
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) sum = vec_fma(vec_load(logits + i), vec_zero(), sum);
  float total = vec_total(sum);
  for (; i < n; i++) total += logits[i] * 0.0f;
  return total == 0;
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

// Top-p. A token whose share is none adds nothing, so it is set aside before anything is put in order.
static int64_t keep_share(const struct sampler *s, int64_t left, double most, double top_p) {
  double sum = 0;
  int64_t counted = 0;
  for (int64_t from = 0; from < left; from += AT_ONCE) {
    int64_t n = left - from < AT_ONCE ? left - from : AT_ONCE;
    double share[AT_ONCE];
    for (int64_t i = 0; i < AT_ONCE; i++)
      share[i] = i < n ? s->scores[s->tokens[from + i]] - most : -708;
    for (int64_t i = 0; i < AT_ONCE; i++) share[i] = floor_of(exp_double(share[i]) * 4294967296.0);
    for (int64_t i = 0; i < n; i++) {
      int32_t token = s->tokens[from + i];
      sum += share[i];
      s->shares[token] = share[i];
      s->tokens[counted] = token;
      counted += share[i] > 0;
    }
  }
  return keep_likeliest(s, counted, top_p * sum, 1);
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

// The best of what is left, after min-p, by log p + noise. The noise -log(-log u) exceeds x only where 1 - u is below e^-x,
// roughly: that is looked at first, generously, and few logarithms are left to take.
static int32_t race(const struct sampler *s, int64_t left, double most, double min_p,
                    struct noise_key key) {
  int32_t best = -1;
  double best_score = -__builtin_inf();
  for (int64_t from = 0; from < left; from += AT_ONCE) {
    int64_t n = left - from < AT_ONCE ? left - from : AT_ONCE;
    double behind[AT_ONCE], chance[AT_ONCE], nearest = -__builtin_inf();
    uint32_t token[AT_ONCE], r[AT_ONCE];
    for (int64_t i = 0; i < AT_ONCE; i++) {
      token[i] = (uint32_t)s->tokens[from + (i < n ? i : 0)];
      behind[i] = s->scores[token[i]] - most;
      nearest = behind[i] > nearest ? behind[i] : nearest;
    }
    if (nearest + MOST_NOISE < best_score) continue;
    for (int64_t i = 0; i < AT_ONCE; i++) r[i] = threefry(key, token[i], 0).low;
    for (int64_t i = 0; i < AT_ONCE; i++) {
      double lead = behind[i] - best_score;
      chance[i] = exp_double(lead < 0 ? lead : 0) * (1.01 * 4294967296.0) + 2;
    }
    uint64_t possible = 0;
    for (int64_t i = 0; i < n; i++)
      possible |= (uint64_t)(4294967296.0 - (double)r[i] <= chance[i]) << i;
    for (; possible; possible &= possible - 1) {
      int i = __builtin_ctzll(possible);
      if (min_p > 0 && exp_double(behind[i]) < min_p) continue;
      double score = behind[i] + gumbel_of(r[i]);
      if (score > best_score || (score == best_score && (int32_t)token[i] < best))
        best = (int32_t)token[i], best_score = score;
    }
  }
  return best;
}

// ------------------------------------------------------------------ a row

// Lists the tokens that the row's mask allows, and counts them.
static int64_t allowed(const struct sampler *s, const uint32_t *mask) {
  int64_t left = 0;
  if (!mask) {
    for (int64_t token = 0; token < s->vocabulary; token++) s->tokens[token] = (int32_t)token;
    return s->vocabulary;
  }
  for (int64_t token = 0; token < s->vocabulary; token++) {
    s->tokens[left] = (int32_t)token;
    left += mask[token / 32] >> (token % 32) & 1;
  }
  return left;
}

// -1 when a logit is not finite, or nothing may come.
static int32_t draw(const sinter_step_arrays *a, const float *logits, int64_t row,
                    const struct sampler *s) {
  if (!all_finite(logits, s->vocabulary)) return -1;
  double *scores = s->scores;
  for (int64_t i = 0; i < s->vocabulary; i++) scores[i] = logits[i];
  for (int64_t i = a->bias_starts[row]; i < a->bias_starts[row + 1]; i++)
    scores[a->bias_tokens[i]] += a->biases[i];
  const double repetition = a->repetition[row], frequency = a->frequency[row],
               presence = a->presence[row];
  for (int64_t i = a->count_starts[row]; i < a->count_starts[row + 1]; i++) {
    double score = scores[a->count_tokens[i]];
    double repeated = score > 0 ? score / repetition : score * repetition;
    scores[a->count_tokens[i]] = repeated - a->counts[i] * frequency - presence;
  }
  const uint32_t *mask =
      a->mask_row[row] < 0 ? NULL : a->masks + a->mask_row[row] * ((s->vocabulary + 31) / 32);
  int64_t left = allowed(s, mask);
  if (left == 0) return -1;
  const double temperature = a->temperature[row], top_p = a->top_p[row];
  if (temperature == 0 || top_p == 0) return likeliest(s, left);

  for (int64_t i = 0; i < s->vocabulary; i++) scores[i] /= temperature;
  const double most = scores[likeliest(s, left)];
  if (a->top_k[row] > 0 && a->top_k[row] < left) left = keep_likeliest(s, left, a->top_k[row], 0);
  if (top_p < 1) left = keep_share(s, left, most, top_p);
  struct noise_key key = {(uint32_t)a->seed[row], (uint32_t)(a->seed[row] >> 32)};
  key = threefry(key, (uint32_t)a->choice[row], (uint32_t)a->position[row]);
  return race(s, left, most, a->min_p[row], key);
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
  for (; t + 16 <= n; t += 16)
    for (int i = 0; i < 16; i++) lanes[i] += exp_double(logits[t + i] - most);
  for (; t < n; t++) lanes[t % 16] += exp_double(logits[t] - most);
  for (int width = 8; width; width /= 2)
    for (int i = 0; i < width; i++) lanes[i] += lanes[i + width];
  return log_double(lanes[0]);
}

// The tokens of the largest logits, best first, the lower id among equals.
static void list_likeliest(const float *logits, int64_t n, int32_t *list, int64_t wanted) {
  int64_t listed = 0;
  for (int64_t token = 0; token < n && wanted > 0; token++) {
    float logit = logits[token];
    if (listed == wanted && logit <= logits[list[listed - 1]]) continue;
    int64_t at = listed < wanted ? listed++ : listed - 1;
    for (; at > 0 && logit > logits[list[at - 1]]; at--) list[at] = list[at - 1];
    list[at] = (int32_t)token;
  }
}

// Draws row `row` from its raw logits [vocabulary] and writes all of the row's results. `workspace`: sampler_bytes.
static void sample(const sinter_step_arrays *a, const float *logits, int64_t vocabulary,
                   int64_t row, uint8_t *workspace) {
  struct sampler s = {vocabulary, (double *)workspace, (double *)workspace + vocabulary,
                      (int32_t *)((double *)workspace + 2 * vocabulary)};
  int32_t drawn = draw(a, logits, row, &s);
  a->out_finite[row] = drawn >= 0;
  a->out_tokens[row] = drawn >= 0 ? drawn : 0;
  if (drawn < 0) return;
  const float most = highest(logits, vocabulary);
  const double sum = log_sum(logits, vocabulary, most);
  a->out_logprobs[row] = (float)(logits[drawn] - (double)most - sum);
  int32_t *list = a->out_top_tokens + row * MOST_LOGPROBS;
  list_likeliest(logits, vocabulary, list, a->top_logprobs[row]);
  for (int64_t i = 0; i < a->top_logprobs[row]; i++)
    a->out_top_logprobs[row * MOST_LOGPROBS + i] = (float)(logits[list[i]] - (double)most - sum);
}

#endif
