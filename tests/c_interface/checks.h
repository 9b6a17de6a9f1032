/* What the C programs of this folder share: checks, and a record of how each function was called. */
#ifndef KILTER_TEST_CHECKS_H_
#define KILTER_TEST_CHECKS_H_

#include <kilter/runtime.h>

/* How a function is called: with legal arguments, with illegal ones, and with null pointers. */
enum { CALLED_RIGHT = 1, CALLED_WRONG = 2, CALLED_NULL = 4 };
#define RIGHT(function) (mark(#function, CALLED_RIGHT), function)
#define WRONG(function) (mark(#function, CALLED_WRONG), function)
#define NULLS(function) (mark(#function, CALLED_NULL), function)

void mark(const char* function, int how);
/* Reports a failed check. */
void check(int holds, const char* what, const char* file, int line);
#define CHECK(holds) check(holds, #holds, __FILE__, __LINE__)
/* Checks that a call fails with a status and that the whole text of the error is `text`. */
void check_fails(kilter_status got, kilter_status expected, const char* text, const char* file, int line);
#define FAILS(call, expected, text) check_fails(call, expected, text, __FILE__, __LINE__)
/* Like FAILS, if only a part of the text is known. */
void check_mentions(kilter_status got, kilter_status expected, const char* part, const char* file, int line);
#define MENTIONS(call, expected, part) check_mentions(call, expected, part, __FILE__, __LINE__)
#define SUCCEEDS(call) check_fails(call, KILTER_OK, NULL, __FILE__, __LINE__)
int failures(void);

/* Reads the names of functions that must be called. Only those that start with `prefix` count. */
void expect_functions(const char* file, const char* prefix);
/* Fails for each function that was not called in all possible ways. Returns the number of functions. */
int check_all_called(void);

/* Returns FOLDER/NAME in a thread-local buffer. */
const char* file_in_folder(const char* name);
extern const char* the_folder;
/* The input of plan.kilter: 0.25 everywhere. */
extern float plan_input[100];

/* Each calls the functions of one part of the interface. Any number of threads may call them at the same time. */
void use_errors(void);
void use_programs(void);
void use_pools(void);
void use_instances(void);
void use_cancellation(void);
void use_values(void);
void use_strided_values(void);
void use_profiles(void);
void use_state(void);
void use_compiler(void); /* compiler_functions.c */

#endif
