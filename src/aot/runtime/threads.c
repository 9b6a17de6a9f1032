/* A pool of threads that run the iterations of one kernel at a time. Each thread has a part of them, takes it from the
 * front in shrinking pieces, and then takes pieces from the back of other parts. Threads spin for a bounded time before
 * they sleep. */
#include "model.h"

#define MOST_THREADS 1024
#define SPIN_NS 50000
#define MOST_VICTIMS 8

typedef int32_t (*pool_body)(const void *context, int64_t begin, int64_t end, int32_t worker);

/* The iterations of one part that are left: its begin in the upper half, its end in the lower. */
struct part {
  _Alignas(LINE) _Atomic uint64_t left;
  uint32_t begin; /* where it began */
};

/* A word on which one thread waits. The low bits have the state of a worker's part, the others count jobs. */
enum { PART_NONE = 0, PART_OFFERED = 1, PART_TAKEN = 2, PART_MASK = 3 };
struct gate {
  _Alignas(LINE) _Atomic uint32_t word;
  _Atomic uint32_t parked;
};

struct worker {
  struct gate gate;
  struct pool *pool;
  int32_t index; /* 1 for the first: the caller is 0 */
  pthread_t thread;
};

struct pool {
  int32_t threads; /* including the caller */
  pid_t process;   /* the threads do not exist in its children */
  int64_t spin_ns;
  pool_body body;
  const void *context;
  int32_t parts;
  int stopping;
  _Atomic int32_t result; /* a non-zero result of the current job */
  struct gate pending;    /* parts of the current job that workers have not finished */
  struct worker *workers; /* threads - 1 */
  struct part *ranges;    /* one for each thread */
};

static void pause_cpu(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  __asm__ volatile("yield");
#endif
}

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void gate_wake(struct gate *g) {
  if (atomic_load(&g->parked) != 0 && atomic_exchange(&g->parked, 0) != 0)
    syscall(SYS_futex, (uint32_t *)(void *)&g->word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* Whether a waiter has what it waits for: an offer (a worker), or no pending parts (the caller). */
static int gate_open(uint32_t word, int worker) { return worker ? (word & PART_MASK) == PART_OFFERED : word == 0; }

static void gate_wait(struct gate *g, int64_t spin_ns, int worker) {
  uint32_t word = atomic_load_explicit(&g->word, memory_order_acquire);
  if (gate_open(word, worker)) return;
  for (const int64_t end = spin_ns > 0 ? now_ns() + spin_ns : 0; spin_ns > 0;) {
    for (int i = 0; i < 16; ++i) {
      pause_cpu();
      if (gate_open(atomic_load_explicit(&g->word, memory_order_acquire), worker)) return;
    }
    if (now_ns() >= end) break;
  }
  /* The word and `parked` are accessed in sequentially consistent order: either this thread sees the new word, or the
   * thread that changes it sees `parked`. */
  for (;;) {
    atomic_store(&g->parked, 1);
    if (gate_open(word = atomic_load(&g->word), worker)) break;
    /* A wake between the last two lines may have been for an offer that was taken back. Sleeping now would leave
     * `parked` at 0, and no thread would wake this one. */
    if (atomic_load(&g->parked) == 0) continue;
    syscall(SYS_futex, (uint32_t *)(void *)&g->word, FUTEX_WAIT_PRIVATE, word, NULL, NULL, 0);
  }
  atomic_store_explicit(&g->parked, 0, memory_order_relaxed);
}

/* Takes a piece of a part: half of it the first time, then a quarter of the rest, and for other threads half of the
 * rest from the back. Returns 0 if nothing is left. */
static int take_piece(struct part *p, int own, int64_t *begin, int64_t *end) {
  uint64_t seen = atomic_load_explicit(&p->left, memory_order_relaxed);
  for (;;) {
    const uint32_t first = (uint32_t)(seen >> 32), last = (uint32_t)seen;
    if (first >= last) return 0;
    const uint64_t count = (uint64_t)last - first;
    const uint32_t share = (uint32_t)(!own || first == p->begin ? (count + 1) / 2 : (count + 3) / 4);
    const uint64_t rest = own ? (uint64_t)(first + share) << 32 | last : (uint64_t)first << 32 | (last - share);
    if (!atomic_compare_exchange_weak_explicit(&p->left, &seen, rest, memory_order_relaxed, memory_order_relaxed)) continue;
    *begin = own ? first : last - share;
    *end = own ? first + share : last;
    return 1;
  }
}

static void run_piece(struct pool *pool, int64_t begin, int64_t end, int32_t thread) {
  const int32_t result = pool->body(pool->context, begin, end, thread);
  if (result != 0) atomic_store_explicit(&pool->result, result, memory_order_relaxed);
}

static void run_part(struct pool *pool, int32_t part, int32_t thread) {
  int64_t begin, end;
  while (take_piece(&pool->ranges[part], 1, &begin, &end)) run_piece(pool, begin, end, thread);
  for (int32_t i = 1; i < pool->parts && i <= MOST_VICTIMS; ++i) {
    struct part *other = &pool->ranges[(part + i) % pool->parts];
    while (take_piece(other, 0, &begin, &end)) run_piece(pool, begin, end, thread);
  }
}

/* Claims an offered part, for the worker (PART_TAKEN) or for the caller (PART_NONE). Exactly one of them succeeds. */
static int claim(struct gate *g, uint32_t state) {
  uint32_t word = atomic_load_explicit(&g->word, memory_order_relaxed);
  return (word & PART_MASK) == PART_OFFERED &&
         atomic_compare_exchange_strong_explicit(&g->word, &word, (word & ~(uint32_t)PART_MASK) | state,
                                                 memory_order_acq_rel, memory_order_relaxed);
}

static void offer(struct gate *g) {
  const uint32_t job = (atomic_load_explicit(&g->word, memory_order_relaxed) | PART_MASK) + 1;
  atomic_store(&g->word, job | PART_OFFERED);
  gate_wake(g);
}

static void *work(void *argument) {
  struct worker *self = argument;
  struct pool *pool = self->pool;
  set_float_environment();
  for (;;) {
    gate_wait(&self->gate, pool->spin_ns, 1);
    if (!claim(&self->gate, PART_TAKEN)) continue;
    if (pool->stopping) return NULL;
    run_part(pool, self->index, self->index);
    if (atomic_fetch_sub(&pool->pending.word, 1) == 1) gate_wake(&pool->pending);
  }
}

/* Runs the parts that no worker has claimed, so that the caller does not wait for a thread that has no CPU. */
static void take_over(struct pool *pool) {
  for (int32_t i = 1; i < pool->parts; ++i) {
    int64_t begin, end;
    if (!claim(&pool->workers[i - 1].gate, PART_NONE)) continue;
    while (take_piece(&pool->ranges[i], 0, &begin, &end)) run_piece(pool, begin, end, 0);
    atomic_fetch_sub(&pool->pending.word, 1);
  }
}

/* Runs `body` over [0, extent) and waits for it. Returns 0, or a result that was not 0. */
static int32_t pool_run(struct pool *pool, int64_t extent, int32_t max_threads, pool_body body, const void *context) {
  if (extent <= 0) return 0;
  int64_t parts = max_threads > 0 && max_threads < pool->threads ? max_threads : pool->threads;
  if (parts > extent) parts = extent;
  if (parts == 1 || extent > (int64_t)UINT32_MAX || pool->process != getpid()) return body(context, 0, extent, 0);
  pool->body = body;
  pool->context = context;
  pool->parts = (int32_t)parts;
  atomic_store_explicit(&pool->result, 0, memory_order_relaxed);
  for (int64_t i = 0; i < parts; ++i) {
    const int64_t rest = extent % parts;
    const uint64_t begin = (uint64_t)(extent / parts * i + (i < rest ? i : rest));
    const uint64_t end = begin + (uint64_t)(extent / parts + (i < rest));
    pool->ranges[i].begin = (uint32_t)begin;
    atomic_store_explicit(&pool->ranges[i].left, begin << 32 | end, memory_order_relaxed);
  }
  atomic_store_explicit(&pool->pending.word, (uint32_t)(parts - 1), memory_order_relaxed);
  for (int64_t i = 1; i < parts; ++i) offer(&pool->workers[i - 1].gate);
  run_part(pool, 0, 0);
  take_over(pool);
  gate_wait(&pool->pending, pool->spin_ns, 0);
  return atomic_load_explicit(&pool->result, memory_order_relaxed);
}

static void pool_stop(struct pool *pool, int32_t started) {
  if (pool->process == getpid()) {
    pool->stopping = 1;
    for (int32_t i = 0; i < started; ++i) offer(&pool->workers[i].gate);
    for (int32_t i = 0; i < started; ++i) pthread_join(pool->workers[i].thread, NULL);
  }
  free(pool->workers);
  free(pool->ranges);
}

/* Zeroed memory at a multiple of `alignment`; NULL if memory ran out. */
static void *zeroed(size_t bytes, size_t alignment) {
  void *memory = NULL;
  if (posix_memalign(&memory, alignment, bytes == 0 ? 1 : bytes) != 0) return NULL;
#ifdef MADV_HUGEPAGE
  if (alignment > 4096) madvise(memory, bytes, MADV_HUGEPAGE); /* a hint */
#endif
  memset(memory, 0, bytes);
  return memory;
}

/* `threads`: 0 for as many as there are CPUs. */
static int pool_start(struct pool *pool, int32_t threads) {
  const int32_t cpus = threads == 1 ? 1 : usable_cpus();
  if (threads == 0) threads = cpus;
  const int32_t others = threads - 1;
  memset(pool, 0, sizeof *pool);
  pool->threads = threads;
  pool->process = getpid();
  pool->spin_ns = threads > cpus ? 0 : SPIN_NS;
  pool->workers = zeroed((size_t)others * sizeof(struct worker), LINE);
  pool->ranges = zeroed((size_t)threads * sizeof(struct part), LINE);
  if (pool->workers == NULL || pool->ranges == NULL) {
    pool_stop(pool, 0);
    return fail("out of memory for %" PRId32 " threads", threads);
  }
  /* Signals of the program go to its own threads. */
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = 0;
  int32_t started = 0;
  for (; started < others && error == 0; ++started) {
    struct worker *w = &pool->workers[started];
    w->pool = pool;
    w->index = started + 1;
    error = pthread_create(&w->thread, NULL, work, w);
    if (error != 0) break;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  if (error == 0) return 0;
  pool_stop(pool, started);
  return fail("cannot start thread %" PRId32 " of %" PRId32 ": %s; ask for fewer threads", started + 2, threads,
              strerror(error));
}
