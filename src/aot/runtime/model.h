/* The network as data. The generated tables have these types. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LINE 64 /* bytes of a cache line */

/* A buffer of a step: a byte offset in the arena, in the weights, or in an input or output. */
enum space { SPACE_ARENA, SPACE_WEIGHTS, SPACE_INPUT, SPACE_OUTPUT };
struct buffer {
  int64_t offset;
  int32_t space;
  int32_t index; /* of the input or output */
};

enum step_kind { STEP_KERNEL, STEP_HALO, STEP_COPY };
struct step {
  const char* name; /* the layer */
  int64_t at;       /* kernel: its byte offset in the code; halo: its row of `halos`; copy: bytes */
  int64_t extent;   /* parallel iterations of a kernel */
  int32_t kind;
  int32_t max_threads;  /* 0: all */
  int32_t first, count; /* its rows of `buffers` */
  int32_t indices;      /* its row of `index_operands`; -1: it reads none */
};

/* The border of an image, filled with bytes of one value. */
struct halo {
  int64_t planes, plane_bytes, rows, row_bytes;
  int64_t top, bottom; /* rows */
  int64_t left_bytes, right_bytes;
  int32_t value;
};

/* An operand that has indices, or lengths of sequences. Element i selects among sizes[i % size_count] elements. */
struct index_operand {
  const int64_t* sizes;
  int64_t elements;
  int32_t size_count;
  int32_t buffer; /* among those of the step */
  int32_t wide;   /* whether they are i64, not i32 */
  int32_t lengths;
};

struct tensor {
  const char* name;
  size_t bytes;
};

/* A feature of a processor. x86-64: bit `bit` of a register (0 to 3: EAX to EDX) of CPUID, and the register state
 * (XCR0) that the system must save. AArch64: bits of AT_HWCAP and AT_HWCAP2, and the bytes of an SVE register (0: any).
 */
struct feature {
  const char* name;
  uint32_t leaf, subleaf, reg, bit;
  uint64_t state;
  uint64_t hwcap, hwcap2;
  int32_t sve_bytes;
};

/* The arguments of a kernel, as its machine code reads them. */
struct kernel_args {
  unsigned char* const* buffers;
  const int64_t* dims;
  unsigned char* scratch; /* of worker 0; that of worker w is w * scratch_stride bytes after it */
  int64_t scratch_stride;
};
/* Runs the iterations from `begin` to `end`. 0 is success, 1 an index out of range. */
typedef int32_t (*kernel_entry)(const struct kernel_args* args, int64_t begin, int64_t end, int32_t worker);

struct model {
  const char *name, *target;
  int64_t arena_bytes, scratch_bytes; /* scratch: of each thread */
  int64_t weight_bytes;
  uint64_t weight_hash;
  const struct step* steps;
  const struct buffer* buffers;
  const struct halo* halos;
  const struct index_operand* index_operands;
  const struct tensor *inputs, *outputs;
  const struct feature* features;
  int32_t step_count, buffer_count, input_count, output_count, feature_count;
};
