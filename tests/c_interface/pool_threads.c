/* Prints how many threads a pool has by default, and on how many CPUs each thread of the process may run after the pool
 * has been used. usage: pool_threads FILE [CPU...]: with CPUs, the pool has a thread for each and is bound to them */
#include <kilter/runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char** argv) {
  enum { kCount = 100000, kMostCpus = 64 };
  int cpus[kMostCpus];
  kilter_pool_options of_pool = KILTER_POOL_OPTIONS;
  kilter_instance_options of_instance = KILTER_INSTANCE_OPTIONS;
  kilter_program* program = NULL;
  kilter_instance* instance = NULL;
  kilter_pool* pool = NULL;
  float *in = calloc(kCount, sizeof(float)), *out = calloc(kCount, sizeof(float));
  const void* inputs[] = {in};
  void* outputs[] = {out};
  char command[128];
  int i, failed = 1;
  if (argc < 2 || argc - 2 > kMostCpus) return 2;
  for (i = 2; i < argc; ++i) cpus[i - 2] = atoi(argv[i]);
  if (argc > 2) of_pool.cpus = cpus;
  of_pool.cpu_count = (size_t)argc - 2;
  if (kilter_pool_create(&of_pool, &pool) != KILTER_OK) goto end;
  of_instance.pool = pool;
  if (kilter_program_load(argv[1], &program) != KILTER_OK) goto end;
  if (kilter_instance_create_with(program, &of_instance, &instance) != KILTER_OK) goto end;
  for (i = 0; i < 20; ++i) {
    if (kilter_instance_run(instance, inputs, 1, outputs, 1) != KILTER_OK) goto end;
  }
  printf("threads %d\n", kilter_pool_threads(pool));
  fflush(stdout);
  snprintf(command, sizeof(command), "grep -h Cpus_allowed_list /proc/%d/task/*/status", (int)getpid());
  failed = system(command) != 0;
end:
  if (failed) fprintf(stderr, "pool_threads: %s\n", kilter_last_error());
  kilter_instance_free(instance);
  kilter_program_free(program);
  kilter_pool_free(pool);
  free(in);
  free(out);
  return failed;
}
