/* An instance of the network: its memory and threads, and running it. */
#include "model.h"

#define HUGE_FROM ((size_t)4 << 20)
#define HUGE_PAGE ((size_t)2 << 20)
#define PARALLEL_COPY ((int64_t)1 << 20) /* bytes from which more than one thread copies */
#define COPY_PIECE ((int64_t)256 << 10)

struct instance {
  const struct model *model;
  const unsigned char *code, *weights;
  struct pool pool;
  unsigned char *arena, *scratch, *staging;
  int64_t scratch_stride;
  unsigned char **addresses; /* one for each of the model's buffers */
  unsigned char **inputs, **outputs; /* of the current run */
  size_t mapped_bytes; /* of weights in a file; 0: they are part of the program */
  _Atomic pid_t running; /* the process that runs it; 0: none. A child of fork() does not inherit the run. */
};

static size_t rounded(size_t bytes) { return (bytes + LINE - 1) / LINE * LINE; }

static size_t staging_bytes(const struct model *m) {
  size_t total = 0;
  for (int32_t i = 0; i < m->input_count; ++i) total += rounded(m->inputs[i].bytes);
  for (int32_t i = 0; i < m->output_count; ++i) total += rounded(m->outputs[i].bytes);
  return total;
}

static unsigned char *block(size_t bytes) { return zeroed(bytes, bytes >= HUGE_FROM ? HUGE_PAGE : LINE); }

static void instance_free(struct instance *net) {
  if (net == NULL) return;
  if (net->pool.threads > 0) pool_stop(&net->pool, net->pool.threads - 1);
  if (net->mapped_bytes > 0) munmap((void *)(uintptr_t)net->weights, net->mapped_bytes);
  free(net->arena);
  free(net->scratch);
  free(net->staging);
  free(net->addresses);
  free(net->inputs);
  free(net->outputs);
  free(net);
}

/* Addresses that do not change from run to run. */
static void place_buffers(struct instance *net) {
  const struct model *m = net->model;
  for (int32_t i = 0; i < m->buffer_count; ++i) {
    const struct buffer *b = &m->buffers[i];
    if (b->space == SPACE_ARENA) net->addresses[i] = net->arena + b->offset;
    /* Kernels only read weights; their interface has one type of pointer. */
    if (b->space == SPACE_WEIGHTS) net->addresses[i] = (unsigned char *)(uintptr_t)net->weights + b->offset;
  }
}

static int allocate(struct instance *net) {
  const struct model *m = net->model;
  /* An odd number of cache lines, so that the scratch memories of threads fall into different cache sets. */
  net->scratch_stride = m->scratch_bytes == 0 ? 0 : (int64_t)((rounded((size_t)m->scratch_bytes) / LINE | 1) * LINE);
  net->arena = block((size_t)m->arena_bytes);
  net->scratch = block((size_t)(net->scratch_stride * net->pool.threads));
  net->staging = block(staging_bytes(m));
  net->addresses = calloc((size_t)m->buffer_count + 1, sizeof *net->addresses);
  net->inputs = calloc((size_t)m->input_count + 1, sizeof *net->inputs);
  net->outputs = calloc((size_t)m->output_count + 1, sizeof *net->outputs);
  if (net->arena == NULL || net->scratch == NULL || net->staging == NULL || net->addresses == NULL ||
      net->inputs == NULL || net->outputs == NULL)
    return fail("'%s': out of memory; an instance needs %" PRId64 " bytes of working memory", m->name,
                m->arena_bytes + net->scratch_stride * net->pool.threads + (int64_t)staging_bytes(m));
  return 0;
}

/* `weights`: null if they are in a file that open_weights() has still to map. */
static struct instance *instance_create(const struct model *m, const unsigned char *code, const unsigned char *weights,
                                        int threads) {
  if (threads < 0 || threads > MOST_THREADS) {
    fail("%d threads are not legal; expected 1 to %d, or 0 for as many as there are CPUs", threads, MOST_THREADS);
    return NULL;
  }
  if (check_processor(m)) return NULL;
  struct instance *net = zeroed(sizeof *net, LINE);
  if (net == NULL) {
    fail("'%s': out of memory", m->name);
    return NULL;
  }
  net->model = m;
  net->code = code;
  net->weights = weights;
  if (pool_start(&net->pool, threads)) {
    free(net);
    return NULL;
  }
  if (allocate(net)) {
    instance_free(net);
    return NULL;
  }
  if (weights != NULL) place_buffers(net);
  return net;
}

static void copy_pieces(const unsigned char *from, unsigned char *to, int64_t bytes, int64_t begin, int64_t end) {
  const int64_t first = begin * COPY_PIECE, last = end * COPY_PIECE < bytes ? end * COPY_PIECE : bytes;
  memcpy(to + first, from + first, (size_t)(last - first));
}

struct copy {
  const unsigned char *from;
  unsigned char *to;
  int64_t bytes;
};

static int32_t run_copy(const void *context, int64_t begin, int64_t end, int32_t worker) {
  const struct copy *c = context;
  (void)worker;
  copy_pieces(c->from, c->to, c->bytes, begin, end);
  return 0;
}

static void copy(struct instance *net, const unsigned char *from, unsigned char *to, int64_t bytes) {
  const struct copy c = {from, to, bytes};
  if (from == to || bytes == 0) return;
  if (bytes >= PARALLEL_COPY && (from + bytes <= to || to + bytes <= from))
    pool_run(&net->pool, (bytes + COPY_PIECE - 1) / COPY_PIECE, 0, run_copy, &c);
  else
    memmove(to, from, (size_t)bytes);
}

struct halo_call {
  const struct halo *halo;
  unsigned char *base;
};

static void fill(unsigned char *at, int64_t bytes, int32_t value) {
  if (bytes > 0) memset(at, value, (size_t)bytes);
}

static int32_t run_halo(const void *context, int64_t begin, int64_t end, int32_t worker) {
  const struct halo_call *call = context;
  const struct halo *h = call->halo;
  (void)worker;
  for (int64_t p = begin; p < end; ++p) {
    unsigned char *plane = call->base + p * h->plane_bytes;
    fill(plane, h->top * h->row_bytes, h->value);
    for (int64_t r = h->top; r < h->rows - h->bottom; ++r) {
      fill(plane + r * h->row_bytes, h->left_bytes, h->value);
      fill(plane + (r + 1) * h->row_bytes - h->right_bytes, h->right_bytes, h->value);
    }
    fill(plane + (h->rows - h->bottom) * h->row_bytes, h->bottom * h->row_bytes, h->value);
  }
  return 0;
}

static void fill_halo(struct instance *net, const struct halo *h, unsigned char *base) {
  const struct halo_call call = {h, base};
  if (h->rows == 0 || h->row_bytes == 0) return;
  const int large = h->plane_bytes * h->planes >= 4 * PARALLEL_COPY;
  pool_run(&net->pool, h->planes, large ? 0 : 1, run_halo, &call);
}

struct kernel_call {
  kernel_entry entry;
  struct kernel_args args;
};

static int32_t run_kernel(const void *context, int64_t begin, int64_t end, int32_t worker) {
  const struct kernel_call *call = context;
  return call->entry(&call->args, begin, end, worker);
}

/* Fails with the first index of a step that is out of range. */
static int refuse_index(const struct instance *net, const struct step *s, const unsigned char *data) {
  const struct index_operand *op = &net->model->index_operands[s->indices];
  for (int64_t i = 0; i < op->elements; ++i) {
    const int64_t value = op->wide ? ((const int64_t *)(const void *)data)[i] : ((const int32_t *)(const void *)data)[i];
    const int64_t size = op->sizes[i % op->size_count], least = op->lengths ? 0 : -size;
    if (value >= least && value < size) continue;
    return fail("'%s': element %" PRId64 " of the %s is %" PRId64 "; legal values are %" PRId64 " to %" PRId64, s->name,
                i, op->lengths ? "sequence lengths" : "indices", value, least, size - 1);
  }
  return fail("'%s': an index was out of range; inputs must not change during a run", s->name);
}

static int launch(struct instance *net, const struct step *s, unsigned char **buffers) {
  const struct kernel_call call = {(kernel_entry)(uintptr_t)(net->code + s->at),
                                   {buffers, NULL, net->scratch, net->scratch_stride}};
  const int32_t result = pool_run(&net->pool, s->extent, s->max_threads, run_kernel, &call);
  if (result == 0) return 0;
  if (result == 1 && s->indices >= 0)
    return refuse_index(net, s, buffers[net->model->index_operands[s->indices].buffer]);
  return fail("'%s': its kernel returned %" PRId32 "; expected 0", s->name, result);
}

static int run_steps(struct instance *net) {
  const struct model *m = net->model;
  for (int32_t i = 0; i < m->step_count; ++i) {
    const struct step *s = &m->steps[i];
    unsigned char **buffers = net->addresses + s->first;
    if (s->kind == STEP_HALO) {
      fill_halo(net, &m->halos[s->at], buffers[0]);
    } else if (s->kind == STEP_COPY) {
      copy(net, buffers[0], buffers[1], s->at);
    } else if (launch(net, s, buffers)) {
      return 1;
    }
  }
  return 0;
}

/* Gives the caller's tensors addresses that kernels can use: their own, or those of aligned copies. */
static int take_tensors(struct instance *net, const void *const *inputs, void *const *outputs) {
  const struct model *m = net->model;
  unsigned char *staging = net->staging;
  for (int32_t i = 0; i < m->input_count; ++i) {
    const size_t bytes = m->inputs[i].bytes;
    if (inputs[i] == NULL && bytes > 0)
      return fail("'%s': input '%s' is a null pointer; expected %zu bytes", m->name, m->inputs[i].name, bytes);
    const int aligned = (uintptr_t)inputs[i] % LINE == 0;
    net->inputs[i] = aligned ? (unsigned char *)(uintptr_t)inputs[i] : staging;
    if (!aligned) copy(net, inputs[i], staging, (int64_t)bytes);
    staging += rounded(bytes);
  }
  for (int32_t i = 0; i < m->output_count; ++i) {
    if (outputs[i] == NULL && m->outputs[i].bytes > 0)
      return fail("'%s': output '%s' is a null pointer; expected %zu bytes", m->name, m->outputs[i].name,
                  m->outputs[i].bytes);
    net->outputs[i] = (uintptr_t)outputs[i] % LINE == 0 ? outputs[i] : staging;
    staging += rounded(m->outputs[i].bytes);
  }
  for (int32_t i = 0; i < m->buffer_count; ++i) {
    const struct buffer *b = &m->buffers[i];
    unsigned char **tensors = b->space == SPACE_INPUT ? net->inputs : b->space == SPACE_OUTPUT ? net->outputs : NULL;
    if (tensors != NULL) net->addresses[i] = tensors[b->index] == NULL ? NULL : tensors[b->index] + b->offset;
  }
  return 0;
}

static int run_taken(struct instance *net, const void *const *inputs, void *const *outputs) {
  if (take_tensors(net, inputs, outputs) || run_steps(net)) return 1;
  for (int32_t i = 0; i < net->model->output_count; ++i)
    if (net->outputs[i] != outputs[i]) copy(net, net->outputs[i], outputs[i], (int64_t)net->model->outputs[i].bytes);
  return 0;
}

static int instance_run(struct instance *net, const void *const *inputs, void *const *outputs) {
  if (net == NULL) return fail("the network is a null pointer; create one first");
  const pid_t process = getpid();
  if (atomic_exchange_explicit(&net->running, process, memory_order_acquire) == process)
    return fail("'%s': this instance is already running in another thread; create one for each thread", net->model->name);
  const struct float_environment saved = set_float_environment();
  const int failed = run_taken(net, inputs, outputs);
  restore_float_environment(saved);
  atomic_store_explicit(&net->running, 0, memory_order_release);
  return failed;
}
