/* Says what compiled Fortran finds wrong with itself, in the words that a report begins with.
 *
 * A check that fails calls the run-time library, which is not linked: `kernel.f90:7: runtime error: Index '65' of
 * dimension 1 of array 'x' above upper bound of 64`. Conditions do not guard subscripts beside them in one expression, and
 * authors of C programs expect that they do. Memory that there is none of is no finding. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static _Noreturn void leave(const char *words) {
  if (write(2, words, strlen(words)) < 0) _exit(1);
  _exit(@REPORTED@);
}

static _Noreturn void report(const char *where, const char *format, va_list values) {
  char text[256], words[512], file[64] = "a call";
  const char *hint = strncmp(format, "Index", 5) ? "" : " (both sides of .and. count)";
  int line = 0;
  vsnprintf(text, sizeof text, format, values);
  if (where && sscanf(where, "At line %d of file %63s", &line, file) == 2)
    snprintf(words, sizeof words, "%s:%d: runtime error: %s%s\n", file, line, text, hint);
  else
    snprintf(words, sizeof words, "%s: runtime error: %s%s\n", file, text, hint);
  leave(words);
}

void _gfortran_runtime_error_at(const char *where, const char *format, ...) {
  va_list values;
  va_start(values, format);
  report(where, format, values);
}

void _gfortran_runtime_error(const char *format, ...) {
  va_list values;
  va_start(values, format);
  report(NULL, format, values);
}

void _gfortran_os_error(const char *words) { leave(words); }

void _gfortran_os_error_at(const char *where, const char *format, ...) {
  char text[256];
  va_list values;
  (void)where;
  va_start(values, format);
  vsnprintf(text, sizeof text, format, values);
  leave(text);
}
