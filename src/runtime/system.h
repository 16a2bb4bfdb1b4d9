// What C asks of the operating system, in one set of words for Windows and for whoever follows POSIX: threads and what they
// wait with, and memory by the page.
#ifndef SINTER_SYSTEM_H
#define SINTER_SYSTEM_H

#include <stddef.h>
#include <stdint.h>

// Memory from so many bytes on begins on one of Linux's huge pages, so that it can lie on them: measured, 10 to 35 % of decode.
enum { HUGE_PAGE = 2 << 20, PAGE = 4096 };

#ifdef _WIN32
#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#include <windows.h>

typedef SRWLOCK lock;
typedef CONDITION_VARIABLE condition;
typedef HANDLE thread;

#define THREAD_RESULT DWORD WINAPI

static inline void lock_open(lock *l) { InitializeSRWLock(l); }
static inline void lock_take(lock *l) { AcquireSRWLockExclusive(l); }
static inline void lock_give(lock *l) { ReleaseSRWLockExclusive(l); }
static inline void condition_open(condition *c) { InitializeConditionVariable(c); }
static inline void condition_await(condition *c, lock *l) { SleepConditionVariableSRW(c, l, INFINITE, 0); }
static inline void condition_tell_all(condition *c) { WakeAllConditionVariable(c); }
static inline void let_others_run(void) { SwitchToThread(); }
static inline void rest_briefly(void) { Sleep(1); }

// Whether there is such a thread now.
static inline int thread_start(thread *t, DWORD(WINAPI *body)(void *), void *argument) {
  *t = CreateThread(NULL, 0, body, argument, 0, NULL);
  return *t != NULL;
}

static inline void thread_await(thread t) {
  WaitForSingleObject(t, INFINITE);
  CloseHandle(t);
}

// Zeroed, from a page on; null where there is none.
static inline void *pages_take(size_t bytes) {
  return VirtualAlloc(NULL, bytes ? bytes : 1, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
}

static inline void pages_give(void *memory, size_t bytes) {
  (void)bytes;
  if (memory) VirtualFree(memory, 0, MEM_RELEASE);
}

#else
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>

typedef pthread_mutex_t lock;
typedef pthread_cond_t condition;
typedef pthread_t thread;

#define THREAD_RESULT void *

static inline void lock_open(lock *l) { pthread_mutex_init(l, NULL); }
static inline void lock_take(lock *l) { pthread_mutex_lock(l); }
static inline void lock_give(lock *l) { pthread_mutex_unlock(l); }
static inline void condition_open(condition *c) { pthread_cond_init(c, NULL); }
static inline void condition_await(condition *c, lock *l) { pthread_cond_wait(c, l); }
static inline void condition_tell_all(condition *c) { pthread_cond_broadcast(c); }
static inline void let_others_run(void) { sched_yield(); }
static inline void rest_briefly(void) { nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL); }

// Bytes of a thread's stack, asked for because systems differ in what they give: glibc 8 MiB or what `ulimit -s` says, macOS 512 KiB,
// musl 128 KiB. The largest frame, of a product with the matrix unit, has 83 KB.
enum { STACK = 1 << 20 };

// Whether there is such a thread now.
static inline int thread_start(thread *t, void *(*body)(void *), void *argument) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return 0;
  pthread_attr_setstacksize(&attributes, STACK);
  int result = pthread_create(t, &attributes, body, argument);
  pthread_attr_destroy(&attributes);
  return result == 0;
}

static inline void thread_await(thread t) { pthread_join(t, NULL); }

static inline size_t whole_pages(size_t bytes) {
  size_t unit = bytes >= HUGE_PAGE ? HUGE_PAGE : PAGE;
  return bytes ? (bytes + unit - 1) / unit * unit : unit;
}

// Zeroed, from a page on; null where there is none.
static inline void *pages_take(size_t bytes) {
  size_t size = whole_pages(bytes), slack = bytes >= HUGE_PAGE ? HUGE_PAGE : 0;
  uint8_t *at =
      mmap(NULL, size + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return NULL;
  if (!slack) return at;
  size_t before = (HUGE_PAGE - (uintptr_t)at % HUGE_PAGE) % HUGE_PAGE;
  if (before) munmap(at, before);
  if (slack - before) munmap(at + before + size, slack - before);
#ifdef MADV_HUGEPAGE
  madvise(at + before, size, MADV_HUGEPAGE);
#endif
  return at + before;
}

static inline void pages_give(void *memory, size_t bytes) {
  if (memory) munmap(memory, whole_pages(bytes));
}
#endif

#endif
