/* The text of the calling thread's last error. */
#include "model.h"

static _Thread_local char last_error[512];

/* Keeps a text and returns 1. */
__attribute__((format(printf, 1, 2))) static int fail(const char *format, ...) {
  va_list values;
  va_start(values, format);
  vsnprintf(last_error, sizeof last_error, format, values);
  va_end(values);
  return 1;
}
