/* Calls the functions of compiler.h. */
#include <kilter/compiler.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "checks.h"

/* y = Relu(x) on f32[4], as an ONNX file. */
static const unsigned char kRelu[] = {
    0x08, 8,                                       /* ModelProto.ir_version */
    0x3a, 51,                                      /* ModelProto.graph */
    0x0a, 12, 0x0a, 1, 'x', 0x12, 1, 'y',          /* GraphProto.node: input, output, */
    0x22, 4, 'R', 'e', 'l', 'u',                   /*   op_type */
    0x12, 1, 'g',                                  /* GraphProto.name */
    0x5a, 15, 0x0a, 1, 'x', 0x12, 10, 0x0a, 8,     /* GraphProto.input: name, type.tensor_type: */
    0x08, 1, 0x12, 4, 0x0a, 2, 0x08, 4,            /*   elem_type, shape.dim.dim_value */
    0x62, 15, 0x0a, 1, 'y', 0x12, 10, 0x0a, 8,     /* GraphProto.output */
    0x08, 1, 0x12, 4, 0x0a, 2, 0x08, 4,            /* */
    0x42, 2, 0x10, 17                              /* ModelProto.opset_import.version */
};

static void use_options(kilter_options* options) {
  const char* value = NULL;
  size_t i;
  CHECK(RIGHT(kilter_option_count)() == 13);
  for (i = 0; i < kilter_option_count(); ++i) {
    SUCCEEDS(RIGHT(kilter_options_get)(options, RIGHT(kilter_option_name)(i), &value));
    SUCCEEDS(RIGHT(kilter_options_set)(options, kilter_option_name(i), value));
    CHECK(*RIGHT(kilter_option_help)(i) != 0);
  }
  CHECK(WRONG(kilter_option_name)(13) == NULL && WRONG(kilter_option_help)((size_t)-1) == NULL);
  SUCCEEDS(kilter_options_set(options, "precision", "bf16"));
  FAILS(WRONG(kilter_options_set)(options, "precision", "f16"), KILTER_ERROR_USAGE,
        "precision 'f16': expected declared, bf16 or fp16");
  SUCCEEDS(kilter_options_get(options, "precision", &value));
  CHECK(strcmp(value, "bf16") == 0);
  SUCCEEDS(kilter_options_set(options, "precision", "declared"));
  FAILS(WRONG(kilter_options_set)(options, "size", "tiny"), KILTER_ERROR_USAGE, "size 'tiny': expected fast or small");
  FAILS(WRONG(kilter_options_set)(options, "acuracy", "strict"), KILTER_ERROR_USAGE,
        "there is no option 'acuracy'; did you mean 'accuracy'? legal options are target, size, "
        "shapes, max-shapes, precision, keep-float, accuracy, memory, records, choose, layer-plan, run-threads, threads");
  FAILS(WRONG(kilter_options_get)(options, "schnell", &value), KILTER_ERROR_USAGE,
        "there is no option 'schnell'; legal options are target, size, shapes, max-shapes, precision, "
        "keep-float, accuracy, memory, records, choose, layer-plan, run-threads, threads");
  CHECK(value == NULL);
  FAILS(WRONG(kilter_options_set)(options, "accuracy", ""), KILTER_ERROR_USAGE,
        "accuracy '': expected default or strict");
  FAILS(WRONG(kilter_options_set)(options, "memory", "much"), KILTER_ERROR_USAGE,
        "memory much: expected a size of at least 1 byte in B, kB, MB, GB, KiB, MiB or GiB, such as 1.5GiB");
  FAILS(WRONG(kilter_options_set)(options, "threads", "many"), KILTER_ERROR_USAGE,
        "threads: expected a whole number from 0 to 1024, got 'many'");
  FAILS(WRONG(kilter_options_set)(options, "max-shapes", "0"), KILTER_ERROR_USAGE,
        "max-shapes: expected a whole number from 1 to 1073741824, got '0'");
  FAILS(WRONG(kilter_options_set)(options, "target", "znver4,,znver3"), KILTER_ERROR_USAGE,
        "target 'znver4,,znver3': there is no name before or after a comma");
  FAILS(WRONG(kilter_options_set)(options, "choose", "best"), KILTER_ERROR_USAGE,
        "choose best: expected 'accepted', 'history-best' or 'graph-best'");
  FAILS(WRONG(kilter_options_set)(options, "run-threads", "-1"), KILTER_ERROR_USAGE,
        "run-threads: expected a whole number from 0 to 1024, got '-1'");
  MENTIONS(WRONG(kilter_options_set)(options, "target", "pdp11"), KILTER_ERROR_USAGE,
           "target 'pdp11': unknown; legal values are native, ");
  MENTIONS(WRONG(kilter_options_set)(options, "shapes", "x=1xq"), KILTER_ERROR_USAGE, "'q' is not a size");
  FAILS(NULLS(kilter_options_set)(NULL, "threads", "1"), KILTER_ERROR_USAGE, "argument 'options' is a null pointer");
  FAILS(NULLS(kilter_options_set)(options, NULL, "1"), KILTER_ERROR_USAGE, "argument 'name' is a null pointer");
  FAILS(NULLS(kilter_options_set)(options, "threads", NULL), KILTER_ERROR_USAGE,
        "argument 'value' is a null pointer");
  FAILS(NULLS(kilter_options_get)(NULL, "threads", &value), KILTER_ERROR_USAGE,
        "argument 'options' is a null pointer");
  FAILS(NULLS(kilter_options_get)(options, NULL, &value), KILTER_ERROR_USAGE, "argument 'name' is a null pointer");
  FAILS(NULLS(kilter_options_get)(options, "threads", NULL), KILTER_ERROR_USAGE,
        "argument 'value' is a null pointer");
}

static void run_relu(kilter_program* program) {
  const float x[] = {-1, 2, -3, 4};
  float y[4] = {9, 9, 9, 9};
  const void* inputs[] = {x};
  void* outputs[] = {y};
  kilter_instance* instance = NULL;
  SUCCEEDS(kilter_instance_create(program, 1, &instance));
  SUCCEEDS(kilter_instance_run(instance, inputs, 1, outputs, 1));
  CHECK(y[0] == 0.0f && y[1] == 2.0f && y[2] == 0.0f && y[3] == 4.0f);
  kilter_instance_free(instance);
}

static void use_compilations(kilter_options* options) {
  kilter_program* program = NULL;
  char model[64], file[64];
  char path[4096];
  FILE* out = NULL;
  snprintf(model, sizeof(model), "relu_%lx.onnx", (unsigned long)pthread_self());
  snprintf(file, sizeof(file), "relu_%lx.kilter", (unsigned long)pthread_self());
  snprintf(path, sizeof(path), "%s", file_in_folder(model));
  out = fopen(path, "wb");
  CHECK(out != NULL && fwrite(kRelu, 1, sizeof(kRelu), out) == sizeof(kRelu));
  fclose(out);
  SUCCEEDS(RIGHT(kilter_compile)(path, options, &program));
  run_relu(program);
  kilter_program_free(program);
  SUCCEEDS(RIGHT(kilter_compile_to_file)(path, options, file_in_folder(file)));
  SUCCEEDS(kilter_program_load(file_in_folder(file), &program));
  run_relu(program);
  kilter_program_free(program);
  MENTIONS(WRONG(kilter_compile)(file_in_folder(file), options, &program), KILTER_ERROR_USAGE,
           "is already a compiled file; load it with kilter_program_load()");
  CHECK(unlink(file_in_folder(file)) == 0);
  MENTIONS(WRONG(kilter_compile_to_file)(path, options, "/nowhere/x.kilter"), KILTER_ERROR_IO, "/nowhere/x.kilter");
  CHECK(unlink(path) == 0);
  SUCCEEDS(RIGHT(kilter_compile_bytes)(kRelu, sizeof(kRelu), NULL, NULL, &program));
  run_relu(program);
  kilter_program_free(program);
  MENTIONS(WRONG(kilter_compile_bytes)(kRelu, 9, NULL, options, &program), KILTER_ERROR_BAD_INPUT,
           "the model in memory");
  SUCCEEDS(kilter_options_set(options, "target", "native,neoverse-n2,a64fx"));
  SUCCEEDS(kilter_compile_bytes(kRelu, sizeof(kRelu), NULL, options, &program));
  run_relu(program);
  kilter_program_free(program);
  SUCCEEDS(kilter_options_set(options, "target", "native"));
  SUCCEEDS(kilter_options_set(options, "records", "missing.db"));
  MENTIONS(WRONG(kilter_compile)(path, options, &program), KILTER_ERROR_IO, "records missing.db: no such file; ");
  SUCCEEDS(kilter_options_set(options, "records", ""));
  SUCCEEDS(kilter_options_set(options, "layer-plan", "missing.plan"));
  MENTIONS(WRONG(kilter_compile)(path, options, &program), KILTER_ERROR_IO, "missing.plan");
  SUCCEEDS(kilter_options_set(options, "layer-plan", ""));
  MENTIONS(WRONG(kilter_compile)("missing.onnx", options, &program), KILTER_ERROR_IO, "missing.onnx");
  MENTIONS(WRONG(kilter_compile)("zoo:resnet", options, &program), KILTER_ERROR_USAGE, "resnet");
  SUCCEEDS(kilter_options_set(options, "target", "a64fx"));
  MENTIONS(kilter_compile_bytes(kRelu, sizeof(kRelu), "", options, &program), KILTER_ERROR_UNSUPPORTED,
           "the option 'target' is a64fx: use a target that this machine can run, or kilter_compile_to_file() to "
           "compile for another");
  CHECK(program == NULL);
}

void use_compiler(void) {
  kilter_options* options = NULL;
  kilter_program* program = NULL;
  SUCCEEDS(RIGHT(kilter_options_create)(&options));
  FAILS(NULLS(kilter_options_create)(NULL), KILTER_ERROR_USAGE, "argument 'options' is a null pointer");
  use_options(options);
  SUCCEEDS(kilter_options_set(options, "threads", "1"));
  use_compilations(options);
  FAILS(NULLS(kilter_compile)(NULL, options, &program), KILTER_ERROR_USAGE, "argument 'model' is a null pointer");
  FAILS(NULLS(kilter_compile)("x", options, NULL), KILTER_ERROR_USAGE, "argument 'program' is a null pointer");
  FAILS(NULLS(kilter_compile_bytes)(NULL, 0, NULL, options, &program), KILTER_ERROR_USAGE,
        "argument 'bytes' is a null pointer");
  FAILS(NULLS(kilter_compile_bytes)(kRelu, sizeof(kRelu), NULL, options, NULL), KILTER_ERROR_USAGE,
        "argument 'program' is a null pointer");
  FAILS(NULLS(kilter_compile_to_file)(NULL, options, "x"), KILTER_ERROR_USAGE, "argument 'model' is a null pointer");
  FAILS(NULLS(kilter_compile_to_file)("x", options, NULL), KILTER_ERROR_USAGE, "argument 'path' is a null pointer");
  RIGHT(kilter_options_free)(options);
  NULLS(kilter_options_free)(NULL);
}
