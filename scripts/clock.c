/* Shifts the wall clock of one process by the number of seconds in a file; scripts/faults.py preloads it (LD_PRELOAD). Only the time of day
 * changes: monotonic clocks and processor time stay right. FAULTS_CLOCK names the file, which holds one 64-bit integer in the machine's byte
 * order. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *wrong;
static int (*whole)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void)
{
    whole = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    const char *path = getenv("FAULTS_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *seen = mmap(NULL, sizeof *wrong, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (seen != MAP_FAILED)
        wrong = seen;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    if (!whole)
        begin();
    int failed = whole(clock, now);
    if (!failed && wrong && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += *wrong;
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    (void)zone;
    struct timespec exact;
    int failed = clock_gettime(CLOCK_REALTIME, &exact);
    if (!failed) {
        now->tv_sec = exact.tv_sec;
        now->tv_usec = exact.tv_nsec / 1000;
    }
    return failed;
}

time_t time(time_t *stored)
{
    struct timespec exact;
    if (clock_gettime(CLOCK_REALTIME, &exact))
        return (time_t)-1;
    if (stored)
        *stored = exact.tv_sec;
    return exact.tv_sec;
}
