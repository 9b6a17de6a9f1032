/* The C interface of libkilter_runtime: load a compiled network and run it. Needs no compiler and no LLVM. libkilter
 * has the same functions, and those of compiler.h, which compile a model: link one of the two libraries, not both.
 * doc/c_interface.md is the guide.
 *
 * Most compiled files hold one plan: all types and shapes are known before the network runs, and
 * kilter_instance_run() reads and writes memory of the caller, as in this program. Files of networks with loops,
 * branches, sequences, strings, or shapes that depend on data hold a program (doc/control_flow.md). The sizes of their
 * outputs may be known only afterwards, so kilter_instance_run_values() returns them as values; see the end of this
 * file. It runs files of both kinds.
 *
 *   #include <kilter/runtime.h>
 *   #include <stdio.h>
 *   #include <stdlib.h>
 *
 *   // kilter compile resnet18.onnx -o resnet18.kilter
 *   int main(void) {
 *     kilter_program* program = NULL;
 *     kilter_instance* instance = NULL;
 *     int failed = 1;
 *     float* image = calloc(1 * 3 * 224 * 224, sizeof(float));
 *     float* scores = calloc(1000, sizeof(float));
 *     const void* inputs[] = {image};
 *     void* outputs[] = {scores};
 *     if (kilter_program_load("resnet18.kilter", &program) != KILTER_OK) goto end;
 *     if (kilter_instance_create(program, 0, &instance) != KILTER_OK) goto end;
 *     if (*kilter_instance_note(instance)) fprintf(stderr, "%s\n", kilter_instance_note(instance));
 *     if (kilter_instance_run(instance, inputs, 1, outputs, 1) != KILTER_OK) goto end;
 *     printf("score of class 0: %g\n", scores[0]);
 *     failed = 0;
 *   end:
 *     if (failed) fprintf(stderr, "%s\n", kilter_last_error());
 *     kilter_instance_free(instance);
 *     kilter_program_free(program);
 *     free(image);
 *     free(scores);
 *     return failed;
 *   }
 *
 * A compiled file contains machine code: running a stranger's file is running a stranger's program. Loading verifies a
 * hash of the whole file before any of it runs; the hash detects damage, not malice.
 *
 * The file stays mapped as long as a program or one of its instances lives. To replace it, rename another file over it,
 * as `kilter compile` does. Truncating it in place ends the process with SIGBUS, and overwriting it in place (as `cp`
 * does) changes the code that runs.
 *
 * A program is read-only: any number of threads may use it, and any number of instances share its weights. An instance
 * has its own memory and threads and serves one caller at a time; create one for each thread that runs networks
 * concurrently. Instances may share threads as well (kilter_pool). A program may be freed while its instances live.
 * Every function that can fail returns a status; the same thread's kilter_last_error() gives the reason. Functions that
 * free an object do nothing for a null pointer.
 *
 * A child of fork() may run and free its parent's instances; each runs on the calling thread only. The caller's
 * floating-point environment (rounding mode, traps, flushing of subnormals) does not affect results and is unchanged
 * after every call. No function aborts or exits the process when memory runs out: it returns KILTER_ERROR_MEMORY.
 */
#ifndef KILTER_RUNTIME_H_
#define KILTER_RUNTIME_H_

#include <kilter/version.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define KILTER_API __attribute__((visibility("default")))
#else
#define KILTER_API
#endif

/* In C++, any int is a value of an enum of this interface, as it is in C. */
#if defined(__cplusplus) && __cplusplus >= 201103L
#define KILTER_INT : int
#else
#define KILTER_INT
#endif

typedef enum kilter_status KILTER_INT {
  KILTER_OK = 0,
  KILTER_ERROR_USAGE = 1, /* invalid argument: null pointer, index or thread count out of range, instance in use */
  KILTER_ERROR_BAD_INPUT =
      2, /* the file is damaged or does not fit, tensors were missing, or an index in one is out of range */
  KILTER_ERROR_UNSUPPORTED = 3, /* valid, but not on this machine or not with the runtime alone */
  KILTER_ERROR_IO = 4,          /* the file cannot be read */
  KILTER_ERROR_MEMORY = 5,      /* out of memory */
  KILTER_ERROR_INTERNAL = 6,    /* a bug in Kilter */
  KILTER_ERROR_CANCELLED = 7    /* kilter_instance_cancel() ended the call */
} kilter_status;

/* Element types. f16 and bf16 are passed as their 16 bits, bool as one byte of 0 or 1. From KILTER_F8E4M3FN on, an
 * element has a byte of its own, whose lowest bits are those that ONNX gives it and whose other bits are 0. */
typedef enum kilter_dtype KILTER_INT {
  KILTER_F32 = 0,
  KILTER_F64 = 1,
  KILTER_F16 = 2,
  KILTER_BF16 = 3,
  KILTER_I8 = 4,
  KILTER_I16 = 5,
  KILTER_I32 = 6,
  KILTER_I64 = 7,
  KILTER_U8 = 8,
  KILTER_U16 = 9,
  KILTER_U32 = 10,
  KILTER_U64 = 11,
  KILTER_BOOL = 12,
  KILTER_STRING = 13, /* only in programs; elements have no size in bytes */
  KILTER_F8E4M3FN = 14,
  KILTER_F8E4M3FNUZ = 15,
  KILTER_F8E5M2 = 16,
  KILTER_F8E5M2FNUZ = 17,
  KILTER_F8E8M0 = 18,
  KILTER_F4E2M1 = 19,
  KILTER_I4 = 20,
  KILTER_U4 = 21,
  KILTER_I2 = 22,
  KILTER_U2 = 23
} kilter_dtype;

typedef struct kilter_program kilter_program;
typedef struct kilter_instance kilter_instance;
/* A value; see below. */
typedef struct kilter_value kilter_value;

/* Stands for the rank of an input or output of a program if it is known only when the network runs. */
#define KILTER_UNKNOWN_RANK ((size_t)-1)

/* An input or output of a program, or a value: dense, row-major. Strings and dims live as long as the program or the
 * value. For a sequence, dtype, rank and dims are those of its elements. */
typedef struct kilter_tensor_info {
  const char* name; /* "" for a value */
  kilter_dtype dtype;
  size_t rank;         /* or KILTER_UNKNOWN_RANK */
  const int64_t* dims; /* `rank` dimensions, -1 for those that are known only when the network runs; never null */
  size_t bytes;        /* of the whole tensor; 0 if a dimension is not known, for strings and for sequences */
} kilter_tensor_info;

/* The text of this thread's last error; "" if there was none. Valid until the thread's next call. */
KILTER_API const char* kilter_last_error(void);

/* A copy of an error. Later calls do not change it, and it may be passed to another thread. */
typedef struct kilter_error kilter_error;
/* Copies this thread's last error; *error is NULL if there was none. Free it with kilter_error_free(). */
KILTER_API kilter_status kilter_error_copy(kilter_error** error);
/* What the failed function returned; KILTER_OK for a null pointer. */
KILTER_API kilter_status kilter_error_status(const kilter_error* error);
/* What failed, where, what was expected, what was found and what to do; "" for a null pointer. Lives as long as the
 * error. */
KILTER_API const char* kilter_error_message(const kilter_error* error);
KILTER_API void kilter_error_free(kilter_error* error);
/* "KILTER_ERROR_USAGE", for example; "unknown status" for a number that is not a status. */
KILTER_API const char* kilter_status_name(kilter_status status);

/* Messages. The libraries print nothing; without a callback, messages are dropped. */
typedef enum kilter_log_level KILTER_INT {
  KILTER_LOG_ERROR = 0,   /* the text of each failure, as kilter_last_error() returns it */
  KILTER_LOG_WARNING = 1, /* possible causes of low speed, and options without effect */
  KILTER_LOG_INFO = 2,    /* what was loaded, compiled and created */
  KILTER_LOG_DEBUG = 3    /* stages of compilations */
} kilter_log_level;
/* `text` is one line without a line end, and valid during the call. */
typedef void (*kilter_log_callback)(kilter_log_level level, const char* text, void* user);
/* Sets the callback of the whole process, for messages up to `most`; NULL: none. The threads that call Kilter
 * call it, one at a time. Once this function has returned, the previous callback is no longer called. A callback may
 * call Kilter, but messages of such a call are dropped, and this function returns KILTER_ERROR_USAGE there. */
KILTER_API kilter_status kilter_set_log(kilter_log_callback callback, kilter_log_level most, void* user);

/* The version of the library, for example "0.1.0". KILTER_VERSION_STRING (version.h) is that of the headers. */
KILTER_API const char* kilter_runtime_version(void);

/* Maps a compiled file and checks it. On success, free *program with kilter_program_free(). On failure *program is
 * NULL. KILTER_ERROR_BAD_INPUT means that the file is damaged or that another version of Kilter wrote it. */
KILTER_API kilter_status kilter_program_load(const char* path, kilter_program** program);

/* Skips the hash of the whole file, which requires reading all of it (about 10 ms for 100 MB in memory). Useful if the
 * file was verified by other means, or if only a part of it runs. The header's fields are checked all the same. */
#define KILTER_LOAD_UNVERIFIED 1u
/* Like kilter_program_load(), with flags: 0 or KILTER_LOAD_UNVERIFIED. Other flags give KILTER_ERROR_USAGE. */
KILTER_API kilter_status kilter_program_load_with(const char* path, uint32_t flags, kilter_program** program);
/* Like kilter_program_load_with(), for a file that `kilter sign` has signed: `public_key` is the file of the signer's
 * public key. Refuses a file without that signature with KILTER_ERROR_BAD_INPUT or KILTER_ERROR_IO before anything in
 * it runs. KILTER_ERROR_UNSUPPORTED: libsodium, which is loaded for this, is not installed. */
KILTER_API kilter_status kilter_program_load_signed(const char* path, const char* public_key, uint32_t flags,
                                                    kilter_program** program);
/* Loads the bytes of a compiled file, which are copied. With KILTER_LOAD_BORROWED they are not, and must stay unchanged
 * until the program and all its instances have been freed: for bytes in the executable, for example. Borrowed bytes
 * should start at a multiple of 64; otherwise weights are copied all the same. */
#define KILTER_LOAD_BORROWED 2u
KILTER_API kilter_status kilter_program_load_bytes(const void* bytes, size_t size, uint32_t flags,
                                                   kilter_program** program);
/* Writes the compiled file of a program, whether it was loaded or compiled (compiler.h). Readers see either the old
 * file or the whole new one. */
KILTER_API kilter_status kilter_program_save(const kilter_program* program, const char* path);
KILTER_API void kilter_program_free(kilter_program* program);

/* The number of inputs or outputs; 0 for a null program. */
KILTER_API size_t kilter_program_input_count(const kilter_program* program);
KILTER_API size_t kilter_program_output_count(const kilter_program* program);
/* Return KILTER_ERROR_USAGE if `index` is not below the count. */
KILTER_API kilter_status kilter_program_input(const kilter_program* program, size_t index, kilter_tensor_info* info);
KILTER_API kilter_status kilter_program_output(const kilter_program* program, size_t index, kilter_tensor_info* info);

/* `threads`: 1 to 1024 including the caller, or 0 for the number of CPUs that this process may use, which
 * KILTER_NUM_THREADS overrides. On success, free *instance with kilter_instance_free(). On failure *instance is NULL.
 */
KILTER_API kilter_status kilter_instance_create(const kilter_program* program, int threads, kilter_instance** instance);
KILTER_API void kilter_instance_free(kilter_instance* instance);

/* Threads that instances share, so that several instances do not have more threads than there are CPUs. Calls that need
 * the threads at the same time take turns kernel by kernel. A pool may be freed while its instances live. */
typedef struct kilter_pool kilter_pool;
/* Start from KILTER_POOL_OPTIONS, which has the defaults. */
typedef struct kilter_pool_options {
  size_t struct_bytes; /* sizeof(kilter_pool_options): says which fields the caller knows */
  /* As for kilter_instance_create(); 0: as many as there are `cpus`, if they are given. The caller is one of them: a
   * pool of 1 thread starts none, and all work is done by the thread that calls. */
  int threads;
  /* CPUs for the pool's own threads: thread i runs only on cpus[i % cpu_count]. The caller is thread 0, and is not
   * moved. NULL: threads run wherever the system puts them. */
  const int* cpus;
  size_t cpu_count;
} kilter_pool_options;
#define KILTER_POOL_OPTIONS {sizeof(kilter_pool_options), 0, NULL, 0}
/* `options` may be NULL. KILTER_ERROR_USAGE for a CPU that this process may not use. */
KILTER_API kilter_status kilter_pool_create(const kilter_pool_options* options, kilter_pool** pool);
/* The number of threads, with the caller; 0 for a null pool. */
KILTER_API int kilter_pool_threads(const kilter_pool* pool);
KILTER_API void kilter_pool_free(kilter_pool* pool);

/* Memory from the caller: an instance's working memory, its copies of tensors that are not aligned, and the outputs of
 * kilter_instance_run_values(). (Small results of operators that a program runs one by one come from the heap, as do
 * the objects of this interface. Weights and code belong to the program.) Each instance has an allocator of its own, so
 * that memory always goes back to where it came from. Functions and `user` must work until the instance and its outputs
 * have been freed. Any thread may call them. */
typedef struct kilter_allocator {
  /* Returns `bytes` bytes at a multiple of `alignment`, or NULL, which fails the call with KILTER_ERROR_MEMORY. */
  void* (*allocate)(size_t bytes, size_t alignment, void* user);
  void (*release)(void* memory, size_t bytes, void* user);
  void* user;
} kilter_allocator;

/* Start from KILTER_INSTANCE_OPTIONS, which has the defaults. */
typedef struct kilter_instance_options {
  size_t struct_bytes;               /* sizeof(kilter_instance_options), as in kilter_pool_options */
  int threads;                       /* of its own, as for kilter_instance_create(); 0 with a pool */
  kilter_pool* pool;                 /* NULL: the instance has threads of its own */
  const kilter_allocator* allocator; /* copied; NULL: the system's memory */
} kilter_instance_options;
#define KILTER_INSTANCE_OPTIONS {sizeof(kilter_instance_options), 0, NULL, NULL}
/* As kilter_instance_create(); `options` may be NULL. */
KILTER_API kilter_status kilter_instance_create_with(const kilter_program* program,
                                                     const kilter_instance_options* options,
                                                     kilter_instance** instance);
/* Ends the call that runs the instance in another thread: it returns KILTER_ERROR_CANCELLED before its next step or
 * loop iteration, with its outputs undefined. Later runs are not affected. Does nothing if no call runs the instance.
 * Returns at once. */
KILTER_API kilter_status kilter_instance_cancel(kilter_instance* instance);

/* A one-line remark for whoever runs the network; "" if there is none, and for a null instance. Lives as long as the
 * instance. For a program compiled with schedules that were tuned for another number of threads, for example:
 * "compiled for 1 thread, run on 2; expected loss about 4 % (an estimate)". */
KILTER_API const char* kilter_instance_note(const kilter_instance* instance);

/* Runs the network once and waits for the result. For a program with inputs or outputs other than tensors of numbers
 * with known dimensions, returns KILTER_ERROR_UNSUPPORTED: use kilter_instance_run_values(). inputs[i] and outputs[i]
 * point to kilter_tensor_info.bytes bytes each, at any alignment (64 bytes avoids a copy). No output may overlap an
 * input or another output. The counts guard against arrays meant for another network. */
KILTER_API kilter_status kilter_instance_run(kilter_instance* instance, const void* const* inputs, size_t input_count,
                                             void* const* outputs, size_t output_count);

/* Values: inputs and outputs of any type and size.
 *
 *   int64_t dims[] = {count, 4};
 *   kilter_value* boxes = NULL;
 *   kilter_value* kept = NULL;
 *   kilter_tensor_info info;
 *   if (kilter_value_tensor(KILTER_F32, 2, dims, data, &boxes) != KILTER_OK) goto end;
 *   if (kilter_instance_run_values(instance, (const kilter_value* const*)&boxes, 1, &kept, 1) != KILTER_OK) goto end;
 *   if (kilter_value_info(kept, &info) != KILTER_OK) goto end;
 *   printf("%lld boxes are left\n", (long long)info.dims[0]);
 *   memcpy(result, kilter_value_data(kept), info.bytes);
 *   end:
 *   kilter_value_free(boxes);
 *   kilter_value_free(kept);
 *
 * A value does not change. Any number of threads may read it, and it may outlive the instance and the program. */
typedef enum kilter_kind KILTER_INT {
  KILTER_TENSOR = 0,
  KILTER_SEQUENCE = 1, /* of values */
  KILTER_ABSENT = 2,   /* an optional value that is absent; also the kind of a null pointer */
  KILTER_MAP = 3       /* keys, each with one element */
} kilter_kind;

/* What an input or output of a program is, KILTER_TENSOR, KILTER_SEQUENCE or KILTER_MAP, and whether it may be absent
 * (1) or not (0). KILTER_ERROR_USAGE if `index` is not below the count. */
KILTER_API kilter_status kilter_program_input_kind(const kilter_program* program, size_t index, kilter_kind* kind,
                                                   int* optional);
KILTER_API kilter_status kilter_program_output_kind(const kilter_program* program, size_t index, kilter_kind* kind,
                                                    int* optional);

/* The type of the keys of an input or output that is a map or a sequence of maps, KILTER_I64 or KILTER_STRING. Its
 * kilter_tensor_info has the type of the elements. KILTER_ERROR_USAGE for others, and if `index` is not below the
 * count. */
KILTER_API kilter_status kilter_program_input_key(const kilter_program* program, size_t index, kilter_dtype* key);
KILTER_API kilter_status kilter_program_output_key(const kilter_program* program, size_t index, kilter_dtype* key);

/* Creates a tensor of numbers over the caller's memory, which must stay unchanged until the value and all sequences
 * that contain it have been freed. Data that are not aligned to the size of an element are copied. `dims` may be null
 * for rank 0, and `data` for 0 elements. On success, free *value with kilter_value_free(). On failure *value is NULL.
 */
KILTER_API kilter_status kilter_value_tensor(kilter_dtype dtype, size_t rank, const int64_t* dims, const void* data,
                                             kilter_value** value);
/* As kilter_value_tensor(), for elements that are not next to each other: element (i, j, ...) is `strides[0] * i +
 * strides[1] * j + ...` elements after `data`. Strides may be 0 or negative. Elements that are not dense and row-major
 * are copied; the memory may then change as soon as the function has returned. `strides` NULL: dense. */
KILTER_API kilter_status kilter_value_tensor_strided(kilter_dtype dtype, size_t rank, const int64_t* dims,
                                                     const int64_t* strides, const void* data, kilter_value** value);
/* Creates a tensor of strings, which are copied. `texts`: one for each element, with `lengths[i]` bytes; `lengths` may
 * be null if all end with a zero byte. */
KILTER_API kilter_status kilter_value_strings(size_t rank, const int64_t* dims, const char* const* texts,
                                              const size_t* lengths, kilter_value** value);
/* Creates a map of two tensors with one dimension of the same size: `keys`, of i64 or strings and all different, and
 * the element of each. Both may be freed afterwards. */
KILTER_API kilter_status kilter_value_map(const kilter_value* keys, const kilter_value* elements, kilter_value** value);
/* Creates a sequence. The elements may be freed afterwards. None may be absent. */
KILTER_API kilter_status kilter_value_sequence(const kilter_value* const* elements, size_t count, kilter_value** value);
KILTER_API void kilter_value_free(kilter_value* value);

KILTER_API kilter_kind kilter_value_kind(const kilter_value* value);
/* Describes a tensor. KILTER_ERROR_USAGE for values of other kinds. */
KILTER_API kilter_status kilter_value_info(const kilter_value* value, kilter_tensor_info* info);
/* The elements of a tensor of numbers; valid as long as the value. NULL for other values. */
KILTER_API const void* kilter_value_data(const kilter_value* value);
/* Writes the elements of a tensor of numbers to memory of the caller with these strides, as above. `rank` must be that
 * of the tensor. `strides` NULL: dense. */
KILTER_API kilter_status kilter_value_copy(const kilter_value* value, size_t rank, const int64_t* strides, void* data);
/* Element `index`, in row-major order, of a tensor of strings: *text has *length bytes, followed by a zero byte.
 * `length` may be null. KILTER_ERROR_USAGE for other values, and if `index` is out of range. */
KILTER_API kilter_status kilter_value_string(const kilter_value* value, size_t index, const char** text,
                                             size_t* length);
/* The number of elements of a sequence or a map; 0 for other values. */
KILTER_API size_t kilter_value_count(const kilter_value* value);
/* Element `index` of a sequence, to be freed with kilter_value_free(). It shares memory with the sequence, which may be
 * freed first. */
KILTER_API kilter_status kilter_value_element(const kilter_value* value, size_t index, kilter_value** element);
/* The keys of a map in ascending order, and its elements in the same order, as tensors to be freed with
 * kilter_value_free(). They share memory with the map, which may be freed first. KILTER_ERROR_USAGE for other values.
 */
KILTER_API kilter_status kilter_value_map_keys(const kilter_value* value, kilter_value** keys);
KILTER_API kilter_status kilter_value_map_elements(const kilter_value* value, kilter_value** elements);

/* Runs the network once. inputs[i] is NULL for an optional value that is absent. On success, each outputs[i] is a value
 * to be freed with kilter_value_free(). On failure all are NULL. A later run uses the memory of an output again once it
 * has been freed. KILTER_ERROR_BAD_INPUT for an input that does not fit. KILTER_ERROR_UNSUPPORTED for shapes inside the
 * network that the file has no code for, if the reference kernels in the file would take longer than about half a
 * second; the text says which shapes those are and which have code. */
KILTER_API kilter_status kilter_instance_run_values(kilter_instance* instance, const kilter_value* const* inputs,
                                                    size_t input_count, kilter_value** outputs, size_t output_count);

/* State between runs, such as the cache of a decoder: the value of an output becomes that of an input in the next run.
 * Binds one pair; later runs take NULL for the input, return NULL for the output, and must use
 * kilter_instance_run_values(). `initial`: the first value, which is copied; NULL: zeros. A run that fails leaves the
 * state as it was. KILTER_ERROR_USAGE if there is no such input or output, if one is already bound, if they do not fit
 * each other, or if the size of the first value cannot be determined. */
KILTER_API kilter_status kilter_instance_bind_state(kilter_instance* instance, const char* input, const char* output,
                                                    const kilter_value* initial);
/* Returns to the initial values. */
KILTER_API kilter_status kilter_instance_reset_state(kilter_instance* instance);
/* The current value of a bound input, to be freed with kilter_value_free(); later runs do not change it. */
KILTER_API kilter_status kilter_instance_state(kilter_instance* instance, const char* input, kilter_value** value);

/* Where the time of runs goes. */
typedef struct kilter_profile kilter_profile;
/* A step: a kernel, a copy or an operator. Names live as long as the profile. */
typedef struct kilter_profile_row {
  const char* name; /* of the network's layer */
  const char* ops;  /* the operators that it computes, such as "Conv+Relu" */
  size_t calls;     /* in one run; several in a loop */
  double ms;        /* median over the runs, of all calls in a run together */
  double share;     /* of the time of a run, 0 to 1 */
} kilter_profile_row;
/* Runs the network `runs` times (1 to 100000) after one run that does not count, and measures the time of each step,
 * which makes the runs about 0.1 us longer for each step. kilter_instance_cancel() ends all of them. Inputs are as for
 * kilter_instance_run_values(). The outputs are dropped, and the state is restored afterwards. On success, free
 * *profile with kilter_profile_free(). On failure *profile is NULL. */
KILTER_API kilter_status kilter_instance_profile(kilter_instance* instance, const kilter_value* const* inputs,
                                                 size_t input_count, int runs, kilter_profile** profile);
/* The median time of a run in milliseconds; 0 for a null pointer. */
KILTER_API double kilter_profile_run_ms(const kilter_profile* profile);
/* The sum of the rows. The rest of a run checks and copies inputs and outputs. 0 for a null pointer. */
KILTER_API double kilter_profile_steps_ms(const kilter_profile* profile);
/* The number of rows, which are in the order in which they first ran; 0 for a null pointer. */
KILTER_API size_t kilter_profile_count(const kilter_profile* profile);
/* KILTER_ERROR_USAGE if `index` is not below the count. */
KILTER_API kilter_status kilter_profile_step(const kilter_profile* profile, size_t index, kilter_profile_row* row);
KILTER_API void kilter_profile_free(kilter_profile* profile);

#ifdef __cplusplus
}
#endif

#endif /* KILTER_RUNTIME_H_ */
