/* Tells ThreadSanitizer what OpenMP's constructs order, since libgomp is not instrumented.
 *
 * Linked with --wrap for each function here. It tells only the order that the standard promises: the start of a team or a
 * task comes before its work, the end comes after it, and a barrier, a lock and `ordered` order the threads that pass
 * them. Handing out iterations orders nobody. Without this every parallel loop would look like a race; with more than
 * this races would go unseen. */
#define _GNU_SOURCE
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

void __tsan_acquire(void *address);
void __tsan_release(void *address);

/* libgomp's own calls of the C library order nothing either and touch nothing of the program's. */
const char *__tsan_default_suppressions(void) { return "called_from_lib:libgomp.so\n"; }

struct team {
  void (*function)(void *);
  void *data;
  char begin, end, tasks, depend, ordered, copied;
  /* In turns, since a thread that has passed a barrier may reach the next one before others have left this one. */
  char barrier[2];
};

static struct team alone;
static char lock, atomic;
static __thread struct team *here;
static __thread unsigned barriers;

static struct team *team(void) { return here ? here : &alone; }

static void member(void *pointer) {
  struct team *mine = pointer, *outer = here;
  unsigned passed = barriers;
  here = mine;
  barriers = 0;
  __tsan_acquire(&mine->begin);
  mine->function(mine->data);
  __tsan_release(&mine->end);
  here = outer;
  barriers = passed;
}

#define TEAM(call)                                  \
  struct team mine = {.function = fn, .data = data}; \
  __tsan_release(&mine.begin);                      \
  call;                                             \
  __tsan_acquire(&mine.end);                        \
  __tsan_acquire(&mine.tasks)

void __real_GOMP_parallel(void (*)(void *), void *, unsigned, unsigned);
void __wrap_GOMP_parallel(void (*fn)(void *), void *data, unsigned threads, unsigned flags) {
  TEAM(__real_GOMP_parallel(member, &mine, threads, flags));
}

void __real_GOMP_parallel_sections(void (*)(void *), void *, unsigned, unsigned, unsigned);
void __wrap_GOMP_parallel_sections(void (*fn)(void *), void *data, unsigned threads, unsigned count, unsigned flags) {
  TEAM(__real_GOMP_parallel_sections(member, &mine, threads, count, flags));
}

#define CHUNKED(name)                                                                                       \
  void __real_##name(void (*)(void *), void *, unsigned, long, long, long, long, unsigned);                  \
  void __wrap_##name(void (*fn)(void *), void *data, unsigned threads, long start, long end, long step,      \
                     long chunk, unsigned flags) {                                                          \
    TEAM(__real_##name(member, &mine, threads, start, end, step, chunk, flags));                             \
  }
#define UNCHUNKED(name)                                                                                      \
  void __real_##name(void (*)(void *), void *, unsigned, long, long, long, unsigned);                        \
  void __wrap_##name(void (*fn)(void *), void *data, unsigned threads, long start, long end, long step,      \
                     unsigned flags) {                                                                      \
    TEAM(__real_##name(member, &mine, threads, start, end, step, flags));                                    \
  }
CHUNKED(GOMP_parallel_loop_static)
CHUNKED(GOMP_parallel_loop_dynamic)
CHUNKED(GOMP_parallel_loop_guided)
CHUNKED(GOMP_parallel_loop_nonmonotonic_dynamic)
CHUNKED(GOMP_parallel_loop_nonmonotonic_guided)
UNCHUNKED(GOMP_parallel_loop_runtime)
UNCHUNKED(GOMP_parallel_loop_nonmonotonic_runtime)
UNCHUNKED(GOMP_parallel_loop_maybe_nonmonotonic_runtime)

/* All tasks of a team are done when it leaves a barrier. */
#define BARRIER(name)                                        \
  void __real_##name(void);                                  \
  void __wrap_##name(void) {                                 \
    struct team *mine = team();                              \
    char *turn = &mine->barrier[barriers++ % 2];             \
    __tsan_release(turn);                                    \
    __real_##name();                                         \
    __tsan_acquire(turn);                                    \
    __tsan_acquire(&mine->tasks);                            \
  }
BARRIER(GOMP_barrier)
BARRIER(GOMP_loop_end)
BARRIER(GOMP_sections_end)

void *__real_GOMP_single_copy_start(void);
void *__wrap_GOMP_single_copy_start(void) {
  void *copied = __real_GOMP_single_copy_start();
  if (copied) __tsan_acquire(&team()->copied);
  return copied;
}
void __real_GOMP_single_copy_end(void *);
void __wrap_GOMP_single_copy_end(void *data) {
  __tsan_release(&team()->copied);
  __real_GOMP_single_copy_end(data);
}

#define LOCK(start, end, what)    \
  void __real_##start(void);      \
  void __wrap_##start(void) {     \
    __real_##start();             \
    __tsan_acquire(what);         \
  }                               \
  void __real_##end(void);        \
  void __wrap_##end(void) {       \
    __tsan_release(what);         \
    __real_##end();               \
  }
LOCK(GOMP_critical_start, GOMP_critical_end, &lock)
LOCK(GOMP_atomic_start, GOMP_atomic_end, &atomic)
LOCK(GOMP_ordered_start, GOMP_ordered_end, &team()->ordered)

void __real_GOMP_critical_name_start(void **);
void __wrap_GOMP_critical_name_start(void **name) {
  __real_GOMP_critical_name_start(name);
  __tsan_acquire(name);
}
void __real_GOMP_critical_name_end(void **);
void __wrap_GOMP_critical_name_end(void **name) {
  __tsan_release(name);
  __real_GOMP_critical_name_end(name);
}

/* Locks of the program's own, simple and nested: the taking of one comes after the release before it. */
#define OWN_LOCK(kind)                                   \
  void __real_omp_set_##kind(void *);                    \
  void __wrap_omp_set_##kind(void *lock) {               \
    __real_omp_set_##kind(lock);                         \
    __tsan_acquire(lock);                                \
  }                                                      \
  int __real_omp_test_##kind(void *);                    \
  int __wrap_omp_test_##kind(void *lock) {               \
    const int given = __real_omp_test_##kind(lock);      \
    if (given) __tsan_acquire(lock);                     \
    return given;                                        \
  }                                                      \
  void __real_omp_unset_##kind(void *);                  \
  void __wrap_omp_unset_##kind(void *lock) {             \
    __tsan_release(lock);                                \
    __real_omp_unset_##kind(lock);                       \
  }
OWN_LOCK(lock)
OWN_LOCK(nest_lock)

/* A task of ours, which has its own copy of the arguments. */
struct task {
  void (*function)(void *);
  void *data;
  struct team *team;
  bool depends;
  char begin;
};

static void run_task(void *pointer) {
  struct task *task = *(struct task **)pointer;
  __tsan_acquire(&task->begin);
  if (task->depends) __tsan_acquire(&task->team->depend);
  task->function(task->data);
  if (task->depends) __tsan_release(&task->team->depend);
  __tsan_release(&task->team->tasks);
  free(task->data);
  free(task);
}

enum { TASK_DEPENDS = 8 };

void __real_GOMP_task(void (*)(void *), void *, void (*)(void *, void *), long, long, bool, unsigned, void **, int, void *);
void __wrap_GOMP_task(void (*fn)(void *), void *data, void (*copy)(void *, void *), long size, long align, bool deferred,
                      unsigned flags, void **depend, int priority, void *detach) {
  struct task *task = malloc(sizeof *task);
  void *own = NULL;
  if (!task || posix_memalign(&own, align < (long)sizeof(void *) ? sizeof(void *) : (size_t)align, size > 0 ? size : 1))
    abort();
  if (copy)
    copy(own, data);
  else
    memcpy(own, data, size);
  *task = (struct task){fn, own, team(), flags & TASK_DEPENDS, 0};
  __tsan_release(&task->begin);
  __real_GOMP_task(run_task, &task, NULL, sizeof task, sizeof task, deferred, flags, depend, priority, detach);
}

/* Ends with the tasks of the caller; those of others are taken for ended as well, which orders a little too much. */
#define WAIT(name)                     \
  void __real_##name(void);            \
  void __wrap_##name(void) {           \
    __real_##name();                   \
    __tsan_acquire(&team()->tasks);    \
  }
WAIT(GOMP_taskwait)
WAIT(GOMP_taskgroup_end)
