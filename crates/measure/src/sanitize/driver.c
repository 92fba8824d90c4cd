/* Calls a program as the harness does, in buffers that end where its arrays end: the memory behind the last element is
 * the sanitizer's red zone.
 *
 * All that is promised to the program is in a file of the supervisor's: sizes, scalars, inputs, and what outputs hold before a call. It
 * says what it has come to on standard output, which nobody believes for more than the difference between a sanitizer
 * that did not start and a program that did. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

@PROTOTYPE@

/* The environment is no way to set these: the runtimes read it from /proc, which the jail does not have. */
const char *__asan_default_options(void) { return "@ADDRESS@"; }
const char *__ubsan_default_options(void) { return "@UNDEFINED@"; }
const char *__tsan_default_options(void) { return "@THREAD@"; }

/* Nothing of the program's has run yet, or its buffers cannot be made. */
enum { FS_BROKEN = 3 };

static int fs_file;

static void fs_say(const char *words) {
  if (write(1, words, strlen(words)) < 0) _exit(FS_BROKEN);
}

static void fs_take(void *to, size_t bytes) {
  for (char *at = to; bytes > 0;) {
    ssize_t got = read(fs_file, at, bytes);
    if (got <= 0) _exit(FS_BROKEN);
    at += got;
    bytes -= got;
  }
}

static int64_t fs_number(void) {
  int64_t number;
  fs_take(&number, sizeof number);
  return number;
}

static double fs_real(void) {
  double real;
  fs_take(&real, sizeof real);
  return real;
}

static void *fs_array(size_t align) {
  void *array = NULL;
  size_t bytes = fs_number();
  if (posix_memalign(&array, align, bytes)) _exit(FS_BROKEN);
  fs_take(array, bytes);
  return array;
}

static void fs_again(void *array) { fs_take(array, fs_number()); }

/* Twice: what a program keeps of a call it meets in the next one. */
static void fs_case(void) {
  off_t start = lseek(fs_file, 0, SEEK_CUR);
@CASE@
}

static void *fs_cases(void *unused) {
  for (int64_t left = fs_number(); left > 0; left--) {
    fs_say("case\n");
    fs_case();
  }
  fs_say("done\n");
  return unused;
}

/* The cases run in a thread: where the main one's stack lies, the runtimes read from /proc as well. */
int main(void) {
  pthread_t thread;
  pthread_attr_t attributes;
  fs_file = open("/cases", O_RDONLY);
  if (fs_file < 0 || pthread_attr_init(&attributes) || pthread_attr_setstacksize(&attributes, @STACK@) ||
      pthread_create(&thread, &attributes, fs_cases, NULL) || pthread_join(thread, NULL))
    return FS_BROKEN;
  _exit(0);
}
