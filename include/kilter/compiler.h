/* The C interface to the compiler, in libkilter: compile a model to a program, which runtime.h runs.
 *
 *   #include <kilter/compiler.h>
 *   #include <stdio.h>
 *
 *   int main(void) {
 *     kilter_options* options = NULL;
 *     kilter_program* program = NULL;
 *     int failed = 1;
 *     if (kilter_options_create(&options) != KILTER_OK) goto end;
 *     if (kilter_options_set(options, "shapes", "input=1x3x224x224") != KILTER_OK) goto end;
 *     if (kilter_options_set(options, "precision", "bf16") != KILTER_OK) goto end;
 *     if (kilter_compile("resnet18.onnx", options, &program) != KILTER_OK) goto end;
 *     if (kilter_program_save(program, "resnet18.kilter") != KILTER_OK) goto end;
 *     failed = 0;
 *   end:
 *     if (failed) fprintf(stderr, "%s\n", kilter_last_error());
 *     kilter_options_free(options);
 *     kilter_program_free(program);
 *     return failed;
 *   }
 *
 * libkilter also has the functions of runtime.h: link it alone, not together with libkilter_runtime. doc/c_interface.md
 * is the guide. Rules for errors, threads and null pointers are those of runtime.h, with one exception: LLVM, which
 * generates the code, ends the process if one of its allocations fails. */
#ifndef KILTER_COMPILER_H_
#define KILTER_COMPILER_H_

#include <kilter/runtime.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Options of a compilation: strings by name, as in `kilter compile --NAME VALUE`. A thread may change them only while
 * no other thread uses them. */
typedef struct kilter_options kilter_options;

/* On success, free *options with kilter_options_free(). On failure *options is NULL. */
KILTER_API kilter_status kilter_options_create(kilter_options** options);
KILTER_API void kilter_options_free(kilter_options* options);
/* Sets an option. Returns KILTER_ERROR_USAGE if there is no option of this name (the error text suggests the nearest
 * name) or if the value is illegal (the text lists the legal values); the option is then unchanged. */
KILTER_API kilter_status kilter_options_set(kilter_options* options, const char* name, const char* value);
/* Returns the value of an option, which is its default if it has not been set. *value is valid until the option is set
 * again or the options are freed. Returns KILTER_ERROR_USAGE if there is no option of this name. */
KILTER_API kilter_status kilter_options_get(const kilter_options* options, const char* name, const char** value);
/* The number of options that exist, and their names. NULL if `index` is not below the count. */
KILTER_API size_t kilter_option_count(void);
KILTER_API const char* kilter_option_name(size_t index);
/* What option `index` does, and its legal values. NULL if `index` is not below the count. */
KILTER_API const char* kilter_option_help(size_t index);

/* Compiles a model for this machine: the path of an .onnx file, or "zoo:NAME" for a built-in network. `options` may be
 * NULL. On success, free *program with kilter_program_free(). On failure *program is NULL. Returns
 * KILTER_ERROR_UNSUPPORTED if the option `target` is a CPU whose code this machine cannot run; kilter_compile_to_file()
 * can compile for such a CPU. */
KILTER_API kilter_status kilter_compile(const char* model, const kilter_options* options, kilter_program** program);
/* Compiles the bytes of an ONNX model, which may change afterwards. `folder`: where the model's external data are; NULL
 * or "": a model with external data is refused. */
KILTER_API kilter_status kilter_compile_bytes(const void* bytes, size_t size, const char* folder,
                                              const kilter_options* options, kilter_program** program);
/* Compiles a model and writes the compiled file, as `kilter compile` does. Readers of the file see either the old one
 * or the whole new one. */
KILTER_API kilter_status kilter_compile_to_file(const char* model, const kilter_options* options, const char* path);

#ifdef __cplusplus
}
#endif

#endif /* KILTER_COMPILER_H_ */
