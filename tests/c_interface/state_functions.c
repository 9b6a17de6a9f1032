/* Calls the functions of runtime.h for state between runs. */
#include <stdio.h>
#include <string.h>

#include "checks.h"

static float first_of_state(kilter_instance* instance) {
  kilter_value* value = NULL;
  float first;
  SUCCEEDS(RIGHT(kilter_instance_state)(instance, "x", &value));
  first = ((const float*)kilter_value_data(value))[0];
  kilter_value_free(value);
  return first;
}

/* The network doubles its state in each run. */
static void run_with_state(kilter_instance* instance) {
  const kilter_value* none[] = {NULL};
  kilter_value* output = NULL;
  kilter_profile* profile = NULL;
  int i;
  for (i = 0; i < 3; ++i) {
    SUCCEEDS(kilter_instance_run_values(instance, none, 1, &output, 1));
    CHECK(output == NULL);
  }
  CHECK(first_of_state(instance) == 24.0f);
  SUCCEEDS(kilter_instance_profile(instance, none, 1, 5, &profile));
  CHECK(kilter_profile_count(profile) == 1);
  kilter_profile_free(profile);
  CHECK(first_of_state(instance) == 24.0f);
  SUCCEEDS(RIGHT(kilter_instance_reset_state)(instance));
  CHECK(first_of_state(instance) == 3.0f);
}

void use_state(void) {
  const int64_t four = 4, three = 3;
  float data[4] = {3, 3, 3, 3}, y[4];
  const void* inputs[] = {data};
  void* outputs[] = {y};
  kilter_program* program = NULL;
  kilter_instance* instance = NULL;
  kilter_value *initial = NULL, *shorter = NULL, *value = NULL;
  const kilter_value* given[1];
  SUCCEEDS(kilter_program_load(file_in_folder("double.kilter"), &program));
  SUCCEEDS(kilter_instance_create(program, 1, &instance));
  SUCCEEDS(kilter_value_tensor(KILTER_F32, 1, &four, data, &initial));
  SUCCEEDS(kilter_value_tensor(KILTER_F32, 1, &three, data, &shorter));
  FAILS(WRONG(kilter_instance_state)(instance, "x", &value), KILTER_ERROR_USAGE,
        "input 'x' is not bound; call kilter_instance_bind_state() first");
  FAILS(WRONG(kilter_instance_bind_state)(instance, "cache", "y", NULL), KILTER_ERROR_USAGE,
        "no input 'cache'; legal values are x");
  FAILS(WRONG(kilter_instance_bind_state)(instance, "x", "y", shorter), KILTER_ERROR_BAD_INPUT,
        "the initial value of input 'x' must be f32[4], got f32[3]");
  SUCCEEDS(kilter_instance_reset_state(instance)); /* there is none */
  SUCCEEDS(RIGHT(kilter_instance_bind_state)(instance, "x", "y", initial));
  memset(data, 0, sizeof(data)); /* it was copied */
  FAILS(WRONG(kilter_instance_bind_state)(instance, "x", "y", NULL), KILTER_ERROR_USAGE,
        "input 'x' is bound to output 'y'; each can be bound once");
  run_with_state(instance);
  given[0] = initial;
  FAILS(kilter_instance_run_values(instance, given, 1, &value, 1), KILTER_ERROR_USAGE,
        "a value is given for input 0, which is bound to the state; give NULL");
  FAILS(kilter_instance_run(instance, inputs, 1, outputs, 1), KILTER_ERROR_USAGE,
        "the instance keeps state between runs; use kilter_instance_run_values()");
  FAILS(NULLS(kilter_instance_bind_state)(NULL, "x", "y", NULL), KILTER_ERROR_USAGE,
        "argument 'instance' is a null pointer");
  FAILS(NULLS(kilter_instance_bind_state)(instance, "x", NULL, NULL), KILTER_ERROR_USAGE,
        "argument 'output' is a null pointer");
  FAILS(NULLS(kilter_instance_reset_state)(NULL), KILTER_ERROR_USAGE, "argument 'instance' is a null pointer");
  FAILS(NULLS(kilter_instance_state)(instance, NULL, &value), KILTER_ERROR_USAGE, "argument 'input' is a null pointer");
  FAILS(NULLS(kilter_instance_state)(instance, "x", NULL), KILTER_ERROR_USAGE, "argument 'value' is a null pointer");
  kilter_instance_free(instance);
  kilter_program_free(program);
  SUCCEEDS(kilter_program_load(file_in_folder("program.kilter"), &program));
  SUCCEEDS(kilter_instance_create(program, 1, &instance));
  FAILS(kilter_instance_bind_state(instance, "texts", "list_out", NULL), KILTER_ERROR_USAGE,
        "output 'list_out' is not a tensor of numbers and input 'texts' is not a tensor of numbers; the value of the output "
        "must be one that the input can have");
  kilter_instance_free(instance);
  kilter_program_free(program);
  kilter_value_free(initial);
  kilter_value_free(shorter);
}
