/* Calls the functions of runtime.h for programs, pools, instances and profiles. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checks.h"

static kilter_program* loaded(const char* name) {
  kilter_program* program = NULL;
  SUCCEEDS(RIGHT(kilter_program_load)(file_in_folder(name), &program));
  return program;
}

void use_errors(void) {
  kilter_error* error = NULL;
  FAILS(NULLS(kilter_error_copy)(NULL), KILTER_ERROR_USAGE, "argument 'error' is a null pointer");
  SUCCEEDS(RIGHT(kilter_error_copy)(&error));
  FAILS(NULLS(kilter_program_load)(NULL, NULL), KILTER_ERROR_USAGE, "argument 'path' is a null pointer");
  CHECK(RIGHT(kilter_error_status)(error) == KILTER_ERROR_USAGE);
  CHECK(strcmp(RIGHT(kilter_error_message)(error), "argument 'error' is a null pointer") == 0);
  CHECK(strcmp(RIGHT(kilter_last_error)(), "argument 'path' is a null pointer") == 0);
  RIGHT(kilter_error_free)(error);
  NULLS(kilter_error_free)(NULL);
  CHECK(NULLS(kilter_error_status)(NULL) == KILTER_OK);
  CHECK(*NULLS(kilter_error_message)(NULL) == 0);
  CHECK(strcmp(RIGHT(kilter_status_name)(KILTER_ERROR_CANCELLED), "KILTER_ERROR_CANCELLED") == 0);
  CHECK(strcmp(WRONG(kilter_status_name)((kilter_status)77), "unknown status") == 0);
  CHECK(strcmp(WRONG(kilter_status_name)((kilter_status)-1), "unknown status") == 0);
  CHECK(*RIGHT(kilter_runtime_version)() != 0);
}

static char* read_whole(const char* path, size_t* size) {
  FILE* file = fopen(path, "rb");
  char* bytes = NULL;
  *size = 0;
  if (file == NULL) return NULL;
  fseek(file, 0, SEEK_END);
  *size = (size_t)ftell(file);
  rewind(file);
  bytes = malloc(*size);
  if (fread(bytes, 1, *size, file) != *size) *size = 0;
  fclose(file);
  return bytes;
}

static void use_bytes(void) {
  kilter_program* program = NULL;
  size_t size = 0;
  char* bytes = read_whole(file_in_folder("plan.kilter"), &size);
  char name[64];
  CHECK(size > 0);
  SUCCEEDS(RIGHT(kilter_program_load_bytes)(bytes, size, 0, &program));
  snprintf(name, sizeof(name), "saved_%lx.kilter", (unsigned long)pthread_self());
  SUCCEEDS(RIGHT(kilter_program_save)(program, file_in_folder(name)));
  kilter_program_free(program);
  SUCCEEDS(kilter_program_load(file_in_folder(name), &program));
  kilter_program_free(program);
  CHECK(unlink(file_in_folder(name)) == 0);
  SUCCEEDS(kilter_program_load_bytes(bytes, size, KILTER_LOAD_BORROWED | KILTER_LOAD_UNVERIFIED, &program));
  FAILS(NULLS(kilter_program_save)(program, NULL), KILTER_ERROR_USAGE, "argument 'path' is a null pointer");
  FAILS(NULLS(kilter_program_save)(NULL, "x"), KILTER_ERROR_USAGE, "argument 'program' is a null pointer");
  MENTIONS(WRONG(kilter_program_save)(program, "/nowhere/x.kilter"), KILTER_ERROR_IO, "/nowhere/x.kilter");
  kilter_program_free(program);
  FAILS(NULLS(kilter_program_load_bytes)(NULL, 4, 0, &program), KILTER_ERROR_USAGE,
        "argument 'bytes' is a null pointer");
  FAILS(NULLS(kilter_program_load_bytes)(bytes, size, 0, NULL), KILTER_ERROR_USAGE,
        "argument 'program' is a null pointer");
  FAILS(WRONG(kilter_program_load_bytes)(bytes, size, 4, &program), KILTER_ERROR_USAGE,
        "flags 0x4 of kilter_program_load_bytes(); legal values are 0, KILTER_LOAD_UNVERIFIED (1), "
        "KILTER_LOAD_BORROWED (2) and both");
  FAILS(WRONG(kilter_program_load_bytes)("KILTER", 6, 0, &program), KILTER_ERROR_BAD_INPUT,
        "compiled file 'in memory': not a compiled Kilter file: it does not start with KILTERC1");
  bytes[size - 1] ^= 1;
  MENTIONS(WRONG(kilter_program_load_bytes)(bytes, size, 0, &program), KILTER_ERROR_BAD_INPUT, "damaged");
  CHECK(program == NULL);
  free(bytes);
}

static void use_ports(kilter_program* program) {
  kilter_tensor_info info;
  kilter_kind kind;
  int optional = 7;
  CHECK(RIGHT(kilter_program_input_count)(program) == 3 && RIGHT(kilter_program_output_count)(program) == 3);
  CHECK(NULLS(kilter_program_input_count)(NULL) == 0 && NULLS(kilter_program_output_count)(NULL) == 0);
  SUCCEEDS(RIGHT(kilter_program_input)(program, 0, &info));
  CHECK(strcmp(info.name, "texts") == 0 && info.dtype == KILTER_STRING && info.rank == 1 && info.dims[0] == -1);
  SUCCEEDS(RIGHT(kilter_program_output)(program, 1, &info));
  CHECK(strcmp(info.name, "list_out") == 0 && info.rank == KILTER_UNKNOWN_RANK);
  SUCCEEDS(RIGHT(kilter_program_input_kind)(program, 1, &kind, &optional));
  CHECK(kind == KILTER_SEQUENCE && optional == 0);
  SUCCEEDS(RIGHT(kilter_program_output_kind)(program, 2, &kind, &optional));
  CHECK(kind == KILTER_TENSOR && optional == 1);
  FAILS(WRONG(kilter_program_input)(program, 3, &info), KILTER_ERROR_USAGE,
        "input 3 was requested; the program has 3");
  FAILS(WRONG(kilter_program_output)(program, (size_t)-1, &info), KILTER_ERROR_USAGE,
        "output 18446744073709551615 was requested; the program has 3");
  FAILS(WRONG(kilter_program_input_kind)(program, 3, &kind, &optional), KILTER_ERROR_USAGE,
        "input 3 was requested; the program has 3");
  FAILS(WRONG(kilter_program_output_kind)(program, 9, &kind, &optional), KILTER_ERROR_USAGE,
        "output 9 was requested; the program has 3");
  FAILS(NULLS(kilter_program_input)(NULL, 0, &info), KILTER_ERROR_USAGE, "argument 'program' is a null pointer");
  FAILS(NULLS(kilter_program_input)(program, 0, NULL), KILTER_ERROR_USAGE, "argument 'info' is a null pointer");
  FAILS(NULLS(kilter_program_output)(NULL, 0, &info), KILTER_ERROR_USAGE, "argument 'program' is a null pointer");
  FAILS(NULLS(kilter_program_input_kind)(program, 0, NULL, &optional), KILTER_ERROR_USAGE,
        "argument 'kind' is a null pointer");
  FAILS(NULLS(kilter_program_output_kind)(program, 0, &kind, NULL), KILTER_ERROR_USAGE,
        "argument 'optional' is a null pointer");
}

/* Without libsodium, only the arguments are checked. */
static void use_signatures(void) {
  kilter_program* program = NULL;
  char plan[512], key[512];
  snprintf(plan, sizeof(plan), "%s", file_in_folder("plan.kilter"));
  snprintf(key, sizeof(key), "%s", file_in_folder("signer.public"));
  FAILS(NULLS(kilter_program_load_signed)(NULL, "x", 0, &program), KILTER_ERROR_USAGE, "argument 'path' is a null pointer");
  FAILS(NULLS(kilter_program_load_signed)("x", NULL, 0, &program), KILTER_ERROR_USAGE,
        "argument 'public_key' is a null pointer");
  FAILS(WRONG(kilter_program_load_signed)(plan, key, KILTER_LOAD_BORROWED, &program), KILTER_ERROR_USAGE,
        "flags 0x2 of kilter_program_load_signed(); legal values are 0 and KILTER_LOAD_UNVERIFIED (1)");
  const kilter_status status = RIGHT(kilter_program_load_signed)(plan, key, 0, &program);
  if (status == KILTER_ERROR_UNSUPPORTED) {
    CHECK(strstr(kilter_last_error(), "libsodium, which signatures and fleets need, is not installed") != NULL);
    return;
  }
  CHECK(status == KILTER_OK);
  kilter_program_free(program);
  MENTIONS(kilter_program_load_signed(file_in_folder("double.kilter"), key, 0, &program), KILTER_ERROR_BAD_INPUT,
           "double.kilter is not signed: there is no file");
  MENTIONS(kilter_program_load_signed(plan, plan, 0, &program), KILTER_ERROR_BAD_INPUT,
           "not a small file that starts with 'kilter public key 1'");
  CHECK(program == NULL);
}

void use_programs(void) {
  kilter_program* program = NULL;
  MENTIONS(WRONG(kilter_program_load)("missing.kilter", &program), KILTER_ERROR_IO, "missing.kilter");
  FAILS(NULLS(kilter_program_load)("x", NULL), KILTER_ERROR_USAGE, "argument 'program' is a null pointer");
  SUCCEEDS(RIGHT(kilter_program_load_with)(file_in_folder("plan.kilter"), KILTER_LOAD_UNVERIFIED, &program));
  RIGHT(kilter_program_free)(program);
  FAILS(WRONG(kilter_program_load_with)("x", KILTER_LOAD_BORROWED, &program), KILTER_ERROR_USAGE,
        "flags 0x2 of kilter_program_load_with(); legal values are 0 and KILTER_LOAD_UNVERIFIED (1)");
  FAILS(NULLS(kilter_program_load_with)(NULL, 0, &program), KILTER_ERROR_USAGE, "argument 'path' is a null pointer");
  CHECK(program == NULL);
  use_signatures();
  NULLS(kilter_program_free)(NULL);
  use_bytes();
  program = loaded("program.kilter");
  use_ports(program);
  kilter_program_free(program);
}

void use_pools(void) {
  kilter_pool_options options = KILTER_POOL_OPTIONS;
  struct {
    kilter_pool_options known;
    size_t newer;
  } later = {KILTER_POOL_OPTIONS, 0};
  kilter_pool* pool = NULL;
  const int cpus[] = {sched_getcpu()}, none[] = {123456};
  options.threads = 2;
  SUCCEEDS(RIGHT(kilter_pool_create)(&options, &pool));
  CHECK(RIGHT(kilter_pool_threads)(pool) == 2);
  RIGHT(kilter_pool_free)(pool);
  options.threads = 1; /* the calling thread runs everything */
  options.cpus = cpus;
  options.cpu_count = 1;
  SUCCEEDS(kilter_pool_create(&options, &pool));
  kilter_pool_free(pool);
  options.threads = 2;
  options.cpus = none;
  FAILS(WRONG(kilter_pool_create)(&options, &pool), KILTER_ERROR_USAGE,
        "cannot bind a thread to CPU 123456: Invalid argument; expected a CPU that this process may use "
        "(Cpus_allowed_list in /proc/self/status, and the cpuset of its cgroup)");
  CHECK(pool == NULL);
  options.cpus = NULL;
  FAILS(NULLS(kilter_pool_create)(&options, &pool), KILTER_ERROR_USAGE, "argument 'cpus' is a null pointer");
  options.cpu_count = 0;
  options.threads = -1;
  FAILS(WRONG(kilter_pool_create)(&options, &pool), KILTER_ERROR_USAGE,
        "a thread pool of -1 threads is not legal; expected 1 to 1024, or 0 for as many as there are CPUs");
  options.struct_bytes = 0;
  FAILS(WRONG(kilter_pool_create)(&options, &pool), KILTER_ERROR_USAGE,
        "kilter_pool_options: struct_bytes is 0; expected sizeof(kilter_pool_options), which is 32 in this version; "
        "begin with KILTER_POOL_OPTIONS");
  later.known.struct_bytes = sizeof(later);
  later.known.threads = 1;
  SUCCEEDS(kilter_pool_create(&later.known, &pool));
  kilter_pool_free(pool);
  later.newer = 5;
  MENTIONS(WRONG(kilter_pool_create)(&later.known, &pool), KILTER_ERROR_UNSUPPORTED,
           "kilter_pool_options: byte 32 is not 0, but this library knows only the first 32");
  FAILS(NULLS(kilter_pool_create)(NULL, NULL), KILTER_ERROR_USAGE, "argument 'pool' is a null pointer");
  CHECK(NULLS(kilter_pool_threads)(NULL) == 0);
  NULLS(kilter_pool_free)(NULL);
}

/* Memory that is counted. */
struct counter {
  int blocks, calls;
  size_t shift; /* added to each address */
  int fails;
  kilter_instance* cancels;
};

static void* allocate(size_t bytes, size_t alignment, void* user) {
  struct counter* counter = user;
  void* memory = NULL;
  ++counter->calls;
  if (counter->cancels != NULL) SUCCEEDS(RIGHT(kilter_instance_cancel)(counter->cancels));
  if (counter->fails || posix_memalign(&memory, alignment, bytes + alignment) != 0) return NULL;
  ++counter->blocks;
  return (char*)memory + counter->shift;
}

static void release(void* memory, size_t bytes, void* user) {
  struct counter* counter = user;
  (void)bytes;
  --counter->blocks;
  free((char*)memory - counter->shift);
}


/* Runs the plan on the caller's memory. */
static kilter_status run(kilter_instance* instance, float* y) {
  const void* inputs[] = {plan_input};
  void* outputs[] = {y};
  return RIGHT(kilter_instance_run)(instance, inputs, 1, outputs, 1);
}

static kilter_value* input_value(void) {
  const int64_t dims[] = {1, 100};
  kilter_value* value = NULL;
  SUCCEEDS(kilter_value_tensor(KILTER_F32, 2, dims, plan_input, &value));
  return value;
}

static void use_runs(kilter_instance* instance) {
  float y[100];
  const void* inputs[] = {plan_input, NULL};
  void* outputs[] = {y, NULL};
  kilter_value* value = input_value();
  kilter_value* result = NULL;
  const kilter_value* given[] = {value, NULL};
  SUCCEEDS(run(instance, y));
  CHECK(y[0] == 1.0f && y[99] == 100.0f);
  MENTIONS(WRONG(kilter_instance_run)(instance, inputs, 2, outputs, 1), KILTER_ERROR_BAD_INPUT,
           "was given 2 inputs and 1 outputs; expected 1 and 1");
  MENTIONS(NULLS(kilter_instance_run)(instance, inputs + 1, 1, outputs, 1), KILTER_ERROR_BAD_INPUT,
           "input 'x' is a null pointer; expected 400 bytes");
  FAILS(NULLS(kilter_instance_run)(instance, NULL, 1, outputs, 1), KILTER_ERROR_USAGE,
        "argument 'inputs' is a null pointer");
  FAILS(NULLS(kilter_instance_run)(NULL, inputs, 1, outputs, 1), KILTER_ERROR_USAGE,
        "argument 'instance' is a null pointer");
  SUCCEEDS(RIGHT(kilter_instance_run_values)(instance, given, 1, &result, 1));
  CHECK(((const float*)kilter_value_data(result))[99] == 100.0f);
  kilter_value_free(result);
  FAILS(WRONG(kilter_instance_run_values)(instance, given, 2, &result, 1), KILTER_ERROR_BAD_INPUT,
        "2 inputs are given; expected 1");
  FAILS(WRONG(kilter_instance_run_values)(instance, given, 1, &result, 0), KILTER_ERROR_BAD_INPUT,
        "0 outputs are given; expected 1");
  MENTIONS(NULLS(kilter_instance_run_values)(instance, given + 1, 1, &result, 1), KILTER_ERROR_BAD_INPUT,
           "input 'x' must be f32[1x100], got absent");
  FAILS(NULLS(kilter_instance_run_values)(instance, given, 1, NULL, 1), KILTER_ERROR_USAGE,
        "argument 'outputs' is a null pointer");
  FAILS(NULLS(kilter_instance_run_values)(NULL, given, 1, &result, 1), KILTER_ERROR_USAGE,
        "argument 'instance' is a null pointer");
  kilter_value_free(value);
}

static void use_allocator(kilter_program* program, kilter_pool* pool) {
  struct counter counter = {0, 0, 0, 0, NULL};
  kilter_allocator allocator = {allocate, release, &counter};
  kilter_instance_options options = KILTER_INSTANCE_OPTIONS;
  kilter_instance* instance = NULL;
  kilter_value *value = input_value(), *result = NULL;
  options.pool = pool;
  options.allocator = &allocator;
  SUCCEEDS(RIGHT(kilter_instance_create_with)(program, &options, &instance));
  CHECK(counter.blocks >= 2);
  use_runs(instance);
  SUCCEEDS(kilter_instance_run_values(instance, (const kilter_value* const*)&value, 1, &result, 1));
  kilter_instance_free(instance);
  CHECK(counter.blocks == 1); /* the output */
  kilter_value_free(result);
  CHECK(counter.blocks == 0);
  counter.fails = 1;
  MENTIONS(kilter_instance_create_with(program, &options, &instance), KILTER_ERROR_MEMORY,
           "the allocator of the caller returned a null pointer for ");
  counter.fails = 0;
  counter.shift = 8;
  MENTIONS(WRONG(kilter_instance_create_with)(program, &options, &instance), KILTER_ERROR_USAGE,
           "expected a multiple of 64, the alignment that it was given");
  CHECK(counter.blocks == 0 && instance == NULL);
  allocator.release = NULL;
  FAILS(NULLS(kilter_instance_create_with)(program, &options, &instance), KILTER_ERROR_USAGE,
        "argument 'allocator->release' is a null pointer");
  kilter_value_free(value);
}

void use_instances(void) {
  kilter_program* program = loaded("plan.kilter");
  kilter_instance_options options = KILTER_INSTANCE_OPTIONS;
  kilter_pool_options of_pool = KILTER_POOL_OPTIONS;
  kilter_instance *one = NULL, *two = NULL, *none = NULL;
  kilter_pool* pool = NULL;
  float y[100];
  int i;
  of_pool.threads = 2;
  SUCCEEDS(kilter_pool_create(&of_pool, &pool));
  SUCCEEDS(RIGHT(kilter_instance_create)(program, 1, &one));
  options.pool = pool;
  options.threads = 3;
  FAILS(WRONG(kilter_instance_create_with)(program, &options, &none), KILTER_ERROR_USAGE,
        "kilter_instance_options: threads 3 and a pool of 2; a pool has its own number of threads, so `threads` must "
        "be 0");
  options.threads = 0;
  SUCCEEDS(RIGHT(kilter_instance_create_with)(program, &options, &two));
  use_allocator(program, pool);
  kilter_pool_free(pool); /* `two` still uses it */
  use_runs(one);
  for (i = 0; i < 3; ++i) SUCCEEDS(run(two, y));
  CHECK(y[7] == 8.0f);
  CHECK(*RIGHT(kilter_instance_note)(one) == 0 && *NULLS(kilter_instance_note)(NULL) == 0);
  FAILS(WRONG(kilter_instance_create)(program, 5000, &none), KILTER_ERROR_USAGE,
        "a thread pool of 5000 threads is not legal; expected 1 to 1024, or 0 for as many as there are CPUs");
  RIGHT(kilter_instance_free)(one);
  SUCCEEDS(kilter_instance_create_with(program, NULL, &one));
  FAILS(NULLS(kilter_instance_create)(NULL, 1, &none), KILTER_ERROR_USAGE, "argument 'program' is a null pointer");
  FAILS(NULLS(kilter_instance_create)(program, 1, NULL), KILTER_ERROR_USAGE, "argument 'instance' is a null pointer");
  FAILS(NULLS(kilter_instance_create_with)(NULL, NULL, &none), KILTER_ERROR_USAGE,
        "argument 'program' is a null pointer");
  CHECK(none == NULL);
  FAILS(NULLS(kilter_instance_cancel)(NULL), KILTER_ERROR_USAGE, "argument 'instance' is a null pointer");
  NULLS(kilter_instance_free)(NULL);
  kilter_instance_free(one);
  kilter_instance_free(two);
  kilter_program_free(program);
}

/* A call is cancelled from inside: the allocator that provides memory for its output calls
 * kilter_instance_cancel(). */
void use_cancellation(void) {
  struct counter counter = {0, 0, 0, 0, NULL};
  kilter_allocator allocator = {allocate, release, &counter};
  kilter_instance_options options = KILTER_INSTANCE_OPTIONS;
  kilter_program* program = loaded("plan.kilter");
  kilter_instance* instance = NULL;
  kilter_value *value = input_value(), *result = NULL;
  const kilter_value* given[] = {value};
  float y[100];
  options.threads = 1;
  options.allocator = &allocator;
  SUCCEEDS(kilter_instance_create_with(program, &options, &instance));
  SUCCEEDS(kilter_instance_cancel(instance)); /* nothing runs, so nothing is cancelled */
  SUCCEEDS(run(instance, y));
  counter.cancels = instance;
  FAILS(kilter_instance_run_values(instance, given, 1, &result, 1), KILTER_ERROR_CANCELLED,
        "the run was ended by kilter_instance_cancel()");
  CHECK(result == NULL);
  counter.cancels = NULL;
  SUCCEEDS(kilter_instance_run_values(instance, given, 1, &result, 1));
  CHECK(((const float*)kilter_value_data(result))[3] == 4.0f);
  kilter_value_free(result);
  kilter_value_free(value);
  kilter_instance_free(instance);
  kilter_program_free(program);
  CHECK(counter.blocks == 0);
}

void use_profiles(void) {
  kilter_program* program = loaded("plan.kilter");
  kilter_instance* instance = NULL;
  kilter_value* value = input_value();
  const kilter_value* given[] = {value};
  kilter_profile* profile = NULL;
  kilter_profile_row row;
  SUCCEEDS(kilter_instance_create(program, 1, &instance));
  SUCCEEDS(RIGHT(kilter_instance_profile)(instance, given, 1, 3, &profile));
  CHECK(RIGHT(kilter_profile_count)(profile) == 4);
  CHECK(RIGHT(kilter_profile_run_ms)(profile) > 0 && RIGHT(kilter_profile_steps_ms)(profile) > 0);
  SUCCEEDS(RIGHT(kilter_profile_step)(profile, 1, &row));
  CHECK(strcmp(row.name, "copy") == 0 && row.calls == 1 && row.share >= 0 && row.ms >= 0);
  FAILS(WRONG(kilter_profile_step)(profile, 4, &row), KILTER_ERROR_USAGE,
        "row 4 was requested; the profile has 4");
  FAILS(NULLS(kilter_profile_step)(profile, 0, NULL), KILTER_ERROR_USAGE, "argument 'row' is a null pointer");
  FAILS(NULLS(kilter_profile_step)(NULL, 0, &row), KILTER_ERROR_USAGE, "argument 'profile' is a null pointer");
  CHECK(NULLS(kilter_profile_count)(NULL) == 0 && NULLS(kilter_profile_run_ms)(NULL) == 0);
  CHECK(NULLS(kilter_profile_steps_ms)(NULL) == 0);
  RIGHT(kilter_profile_free)(profile);
  NULLS(kilter_profile_free)(NULL);
  FAILS(WRONG(kilter_instance_profile)(instance, given, 1, 0, &profile), KILTER_ERROR_USAGE,
        "0 runs of kilter_instance_profile(); legal values are 1 to 100000");
  FAILS(WRONG(kilter_instance_profile)(instance, given, 0, 1, &profile), KILTER_ERROR_BAD_INPUT,
        "0 inputs are given; expected 1");
  CHECK(profile == NULL);
  FAILS(NULLS(kilter_instance_profile)(NULL, given, 1, 1, &profile), KILTER_ERROR_USAGE,
        "argument 'instance' is a null pointer");
  FAILS(NULLS(kilter_instance_profile)(instance, given, 1, 1, NULL), KILTER_ERROR_USAGE,
        "argument 'profile' is a null pointer");
  kilter_value_free(value);
  kilter_instance_free(instance);
  kilter_program_free(program);
}
