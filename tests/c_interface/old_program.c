/* A program from before pools, options and profiles: it is compiled with the header of that time
 * (before/kilter/runtime.h) and runs with the current library. usage: old_program FOLDER */
#include <kilter/runtime.h>
#include <stdio.h>
#include <string.h>

#ifdef KILTER_POOL_OPTIONS
#error "this is not the old header"
#endif

static int run_plan(const char* file) {
  kilter_program* program = NULL;
  kilter_instance* instance = NULL;
  kilter_tensor_info info;
  float x[100], y[100];
  const void* inputs[] = {x};
  void* outputs[] = {y};
  int i, right = 0;
  for (i = 0; i < 100; ++i) x[i] = 0.25f;
  if (kilter_program_load_with(file, KILTER_LOAD_UNVERIFIED, &program) != KILTER_OK) goto end;
  if (kilter_program_input(program, 0, &info) != KILTER_OK || info.bytes != sizeof(x)) goto end;
  if (kilter_program_output(program, 0, &info) != KILTER_OK || info.dtype != KILTER_F32) goto end;
  if (kilter_instance_create(program, 2, &instance) != KILTER_OK) goto end;
  if (kilter_instance_run(instance, inputs, 1, outputs, 1) != KILTER_OK) goto end;
  right = y[0] == 1.0f && y[99] == 100.0f && *kilter_instance_note(instance) == 0;
end:
  if (!right) fprintf(stderr, "old_program: %s: %s\n", file, kilter_last_error());
  kilter_instance_free(instance);
  kilter_program_free(program);
  return right;
}

static int run_values(const char* file) {
  const char* texts[] = {"a", "bc"};
  const int64_t two = 2;
  const float numbers[] = {1, 2};
  kilter_program* program = NULL;
  kilter_instance* instance = NULL;
  kilter_value *strings = NULL, *tensor = NULL, *list = NULL, *element = NULL;
  kilter_value* outputs[3] = {NULL, NULL, NULL};
  const char* text = NULL;
  size_t length = 0;
  int right = 0;
  if (kilter_program_load(file, &program) != KILTER_OK) goto end;
  if (kilter_instance_create(program, 1, &instance) != KILTER_OK) goto end;
  if (kilter_value_strings(1, &two, texts, NULL, &strings) != KILTER_OK) goto end;
  if (kilter_value_tensor(KILTER_F32, 1, &two, numbers, &tensor) != KILTER_OK) goto end;
  if (kilter_value_sequence((const kilter_value* const*)&tensor, 1, &list) != KILTER_OK) goto end;
  {
    const kilter_value* inputs[] = {strings, list, NULL};
    if (kilter_instance_run_values(instance, inputs, 3, outputs, 3) != KILTER_OK) goto end;
  }
  if (kilter_value_string(outputs[0], 1, &text, &length) != KILTER_OK || strcmp(text, "bc") != 0) goto end;
  if (kilter_value_element(outputs[1], 0, &element) != KILTER_OK) goto end;
  right = ((const float*)kilter_value_data(element))[1] == 2.0f && kilter_value_kind(outputs[2]) == KILTER_ABSENT;
end:
  if (!right) fprintf(stderr, "old_program: %s: %s\n", file, kilter_last_error());
  kilter_value_free(element);
  kilter_value_free(outputs[0]);
  kilter_value_free(outputs[1]);
  kilter_value_free(outputs[2]);
  kilter_value_free(list);
  kilter_value_free(tensor);
  kilter_value_free(strings);
  kilter_instance_free(instance);
  kilter_program_free(program);
  return right;
}

int main(int argc, char** argv) {
  char file[4096];
  if (argc != 2) return 2;
  snprintf(file, sizeof(file), "%s/plan.kilter", argv[1]);
  if (!run_plan(file)) return 1;
  snprintf(file, sizeof(file), "%s/program.kilter", argv[1]);
  if (!run_values(file)) return 1;
  if (run_plan("missing.kilter") || strstr(kilter_last_error(), "missing.kilter") == NULL) return 1;
  printf("the old program runs with library %s\n", kilter_runtime_version());
  return 0;
}
