/* Calls every function of the C interface with right, wrong and null arguments, from 32 threads at the same time, and
 * fails if a function that the library exports is not called. Built for libkilter_runtime, and with TEST_COMPILER for
 * libkilter. usage: every_function [THREADS] */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checks.h"

#define MOST_THREADS 1024

float plan_input[100];

/* The argument of the callback for messages, which only one thread at a time calls. */
struct heard {
  int errors, infos, others;
  char last[256];
};

static void hear(kilter_log_level level, const char* text, void* user) {
  struct heard* heard = user;
  kilter_tensor_info info;
  if (level == KILTER_LOG_ERROR) ++heard->errors;
  if (level == KILTER_LOG_INFO) ++heard->infos;
  if (level == KILTER_LOG_WARNING || level == KILTER_LOG_DEBUG) ++heard->others;
  if (strchr(text, '\n') != NULL) abort();
  snprintf(heard->last, sizeof(heard->last), "%s", text);
  /* The callback may call Kilter. Failures inside it cause no messages. */
  if (kilter_program_input(NULL, 0, &info) != KILTER_ERROR_USAGE) abort();
  if (kilter_set_log(NULL, KILTER_LOG_ERROR, NULL) != KILTER_ERROR_USAGE) abort();
}

static void use_log(void) {
  struct heard heard = {0, 0, 0, ""};
  kilter_program* program = NULL;
  FAILS(WRONG(kilter_set_log)(hear, (kilter_log_level)4, NULL), KILTER_ERROR_USAGE,
        "level 4 of kilter_set_log(); legal values are 0 (KILTER_LOG_ERROR) to 3 (KILTER_LOG_DEBUG)");
  SUCCEEDS(RIGHT(kilter_set_log)(hear, KILTER_LOG_INFO, &heard));
  CHECK(kilter_program_load("no such file", &program) == KILTER_ERROR_IO);
  CHECK(heard.errors == 1 && strstr(heard.last, "no such file") != NULL);
  SUCCEEDS(kilter_program_load(file_in_folder("plan.kilter"), &program));
  CHECK(heard.infos == 1 && strncmp(heard.last, "loaded ", 7) == 0);
  SUCCEEDS(RIGHT(kilter_set_log)(hear, KILTER_LOG_ERROR, &heard));
  kilter_program_free(program);
  SUCCEEDS(kilter_program_load(file_in_folder("plan.kilter"), &program));
  SUCCEEDS(NULLS(kilter_set_log)(NULL, KILTER_LOG_ERROR, NULL));
  CHECK(kilter_program_load("no such file", NULL) == KILTER_ERROR_USAGE);
  CHECK(heard.errors == 1 && heard.infos == 1);
  kilter_program_free(program);
}

/* A run in another thread, and its cancellation. */
struct long_run {
  kilter_instance* instance;
  float *in, *out;
  int cancelled;
};

static void* run_until_cancelled(void* argument) {
  struct long_run* run = argument;
  const void* inputs[] = {run->in};
  void* outputs[] = {run->out};
  while (!__atomic_load_n(&run->cancelled, __ATOMIC_RELAXED)) {
    const kilter_status status = kilter_instance_run(run->instance, inputs, 1, outputs, 1);
    if (status == KILTER_ERROR_CANCELLED) __atomic_store_n(&run->cancelled, 1, __ATOMIC_RELAXED);
    if (status != KILTER_OK && status != KILTER_ERROR_CANCELLED) abort();
  }
  return NULL;
}

static void cancel_from_outside(void) {
  enum { kCount = 100000 };
  struct long_run run = {NULL, calloc(kCount, sizeof(float)), calloc(kCount, sizeof(float)), 0};
  const void* inputs[] = {run.in};
  void* outputs[] = {run.out};
  kilter_program* program = NULL;
  pthread_t runner;
  SUCCEEDS(kilter_program_load(file_in_folder("long.kilter"), &program));
  SUCCEEDS(kilter_instance_create(program, 2, &run.instance));
  CHECK(pthread_create(&runner, NULL, run_until_cancelled, &run) == 0);
  while (!__atomic_load_n(&run.cancelled, __ATOMIC_RELAXED)) SUCCEEDS(kilter_instance_cancel(run.instance));
  pthread_join(runner, NULL);
  SUCCEEDS(kilter_instance_run(run.instance, inputs, 1, outputs, 1));
  CHECK(run.out[kCount - 1] == (float)(kCount - 1));
  kilter_instance_free(run.instance);
  kilter_program_free(program);
  free(run.in);
  free(run.out);
}

/* An instance that two threads want to run at the same time. */
static kilter_instance* contended;
static int refused;

static void* run_contended(void* argument) {
  float y[100];
  const void* inputs[] = {plan_input};
  void* outputs[] = {y};
  int i;
  (void)argument;
  for (i = 0; i < 200; ++i) {
    const kilter_status status = kilter_instance_run(contended, inputs, 1, outputs, 1);
    if (status == KILTER_ERROR_USAGE) __atomic_fetch_add(&refused, 1, __ATOMIC_RELAXED);
    if (status == KILTER_OK && y[99] != 100.0f) abort();
  }
  return NULL;
}

static void* use_all(void* argument) {
  (void)argument;
  use_errors();
  use_programs();
  use_pools();
  use_instances();
  use_cancellation();
  use_values();
  use_strided_values();
  use_profiles();
  use_state();
#ifdef TEST_COMPILER
  use_compiler();
#endif
  run_contended(NULL);
  return NULL;
}

int main(int argc, char** argv) {
  const int threads = argc > 1 ? atoi(argv[1]) : 32;
  pthread_t ids[MOST_THREADS];
  struct heard heard = {0, 0, 0, ""};
  kilter_program* program = NULL;
  int i, functions;
  if (threads < 1 || threads > MOST_THREADS) return 2;
  the_folder = TEST_FOLDER;
  for (i = 0; i < 100; ++i) plan_input[i] = 0.25f;
  expect_functions(TEST_SYMBOLS, "kilter_");
  CHECK(*kilter_last_error() == 0); /* there was none yet */
  use_log();
  cancel_from_outside();
  SUCCEEDS(kilter_program_load(file_in_folder("plan.kilter"), &program));
  SUCCEEDS(kilter_instance_create(program, 1, &contended));
  kilter_program_free(program);
  SUCCEEDS(kilter_set_log(hear, KILTER_LOG_DEBUG, &heard));
  for (i = 0; i < threads; ++i) CHECK(pthread_create(&ids[i], NULL, use_all, NULL) == 0);
  for (i = 0; i < threads; ++i) pthread_join(ids[i], NULL);
  SUCCEEDS(kilter_set_log(NULL, KILTER_LOG_ERROR, NULL));
  CHECK(heard.errors > 50 * threads && heard.infos >= 10 * threads);
  kilter_instance_free(contended);
  functions = check_all_called();
  if (failures() > 0) {
    fprintf(stderr, "%d checks failed\n", failures());
    return 1;
  }
  printf("[==========] %d functions ran in %d threads; %d calls found an instance in use, %d errors were logged\n",
         functions, threads, refused, heard.errors);
  return 0;
}
