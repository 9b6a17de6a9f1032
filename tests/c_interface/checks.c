#include "checks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_FUNCTIONS 200

/* Filled in before threads start; `how` changes afterwards, with relaxed memory order, so that races are not hidden. */
static struct {
  char name[64];
  int how;
} functions[MOST_FUNCTIONS];
static int function_count = 0;
static int failed_checks = 0;
const char* the_folder = ".";

/* Functions that have no illegal arguments, or no pointers. */
static const char* const kAlwaysLegal[] = {
    "kilter_last_error",         "kilter_runtime_version",      "kilter_error_copy",         "kilter_error_status",
    "kilter_error_message",      "kilter_program_input_count",  "kilter_program_output_count", "kilter_instance_note",
    "kilter_instance_cancel",    "kilter_instance_reset_state", "kilter_pool_threads",         "kilter_value_kind",         "kilter_value_data",
    "kilter_value_count",        "kilter_profile_run_ms",       "kilter_profile_steps_ms",   "kilter_profile_count",
    "kilter_option_count",       "kilter_options_create"};
static const char* const kWithoutPointers[] = {"kilter_last_error",   "kilter_runtime_version", "kilter_status_name",
                                               "kilter_option_count", "kilter_option_name",     "kilter_option_help"};

static int is_in(const char* name, const char* const* names, size_t count) {
  size_t i;
  for (i = 0; i < count; ++i) {
    if (strcmp(name, names[i]) == 0) return 1;
  }
  return 0;
}

void mark(const char* function, int how) {
  int i;
  for (i = 0; i < function_count; ++i) {
    if (strcmp(functions[i].name, function) != 0) continue;
    __atomic_fetch_or(&functions[i].how, how, __ATOMIC_RELAXED);
    return;
  }
}

void check(int holds, const char* what, const char* file, int line) {
  if (holds) return;
  __atomic_fetch_add(&failed_checks, 1, __ATOMIC_RELAXED);
  fprintf(stderr, "%s:%d: %s does not hold; last error: %s\n", file, line, what, kilter_last_error());
}

static void wrong_status(kilter_status got, kilter_status expected, const char* file, int line) {
  __atomic_fetch_add(&failed_checks, 1, __ATOMIC_RELAXED);
  fprintf(stderr, "%s:%d: expected %s, got %s: %s\n", file, line, kilter_status_name(expected), kilter_status_name(got),
          kilter_last_error());
}

static void wrong_text(const char* expected, const char* file, int line) {
  __atomic_fetch_add(&failed_checks, 1, __ATOMIC_RELAXED);
  fprintf(stderr, "%s:%d: expected the error\n  %s\ngot\n  %s\n", file, line, expected, kilter_last_error());
}

void check_fails(kilter_status got, kilter_status expected, const char* text, const char* file, int line) {
  if (got != expected) {
    wrong_status(got, expected, file, line);
  } else if (text != NULL && strcmp(kilter_last_error(), text) != 0) {
    wrong_text(text, file, line);
  }
}

void check_mentions(kilter_status got, kilter_status expected, const char* part, const char* file, int line) {
  if (got != expected) {
    wrong_status(got, expected, file, line);
  } else if (strstr(kilter_last_error(), part) == NULL) {
    wrong_text(part, file, line);
  }
}

int failures(void) { return __atomic_load_n(&failed_checks, __ATOMIC_RELAXED); }

void expect_functions(const char* file, const char* prefix) {
  char line[1024];
  FILE* list = fopen(file, "r");
  if (list == NULL) {
    fprintf(stderr, "%s cannot be read; it has the names of the functions\n", file);
    exit(2);
  }
  while (fgets(line, sizeof(line), list) != NULL) {
    line[strcspn(line, "\n")] = 0;
    if (strncmp(line, prefix, strlen(prefix)) != 0 || strlen(line) >= sizeof(functions[0].name)) continue;
    if (function_count == MOST_FUNCTIONS) break;
    strcpy(functions[function_count++].name, line);
  }
  fclose(list);
}

int check_all_called(void) {
  int i;
  for (i = 0; i < function_count; ++i) {
    const char* name = functions[i].name;
    const size_t length = strlen(name);
    const int frees = length > 5 && strcmp(name + length - 5, "_free") == 0;
    int needed = CALLED_RIGHT;
    if (!frees && !is_in(name, kAlwaysLegal, sizeof(kAlwaysLegal) / sizeof(*kAlwaysLegal))) needed |= CALLED_WRONG;
    if (!is_in(name, kWithoutPointers, sizeof(kWithoutPointers) / sizeof(*kWithoutPointers))) needed |= CALLED_NULL;
    needed &= ~functions[i].how;
    if (needed == 0) continue;
    ++failed_checks;
    fprintf(stderr, "%s is not called%s%s%s\n", name, (needed & CALLED_RIGHT) ? " with legal arguments;" : "",
            (needed & CALLED_WRONG) ? " with illegal arguments;" : "", (needed & CALLED_NULL) ? " with null" : "");
  }
  return function_count;
}

const char* file_in_folder(const char* name) {
  static _Thread_local char path[4096];
  snprintf(path, sizeof(path), "%s/%s", the_folder, name);
  return path;
}
