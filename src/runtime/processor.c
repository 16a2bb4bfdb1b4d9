// What an x86 processor says of itself and what the system lets a process use of it, for systems that show no list: a library
// of its own, in the package beside the generic kernels (runtime/features.ts reads it).
#include "abi.h"

#include <cpuid.h>

// words: ecx of leaf 1; ebx and ecx of leaf 7; eax of leaf 7, 1; the registers that the system saves. Zeros for what is not said.
SINTER_EXPORT void sinter_processor(uint32_t *words) {
  uint32_t a, b, c, d;
  for (int i = 0; i < 5; i++) words[i] = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return;
  words[0] = c;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
    words[1] = b;
    words[2] = c;
    uint32_t leaves = a;
    if (leaves >= 1 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) words[3] = a;
  }
  const uint32_t asks_what_is_saved = 1u << 27;
  if (words[0] & asks_what_is_saved)
    __asm__ volatile("xgetbv" : "=a"(words[4]), "=d"(d) : "c"(0));
}
