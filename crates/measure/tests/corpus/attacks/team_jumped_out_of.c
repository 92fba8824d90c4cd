// attack: 1, 6
// how: leaves a parallel region by a jump that its end does not see, so that the other thread stays behind as a helper; hopes that a region always ends
// refused as: left_running
#include <omp.h>
typedef double V __attribute__((vector_size(32), aligned(8)));
static void rows(int n, const double *A, const double *B, double *C, int from, int to) {
  for (int j = 0; j < n; j += 8)
    for (int i = from; i < to; i += 4) {
      V c[4][2] = {0};
      for (int k = 0; k < n; k++)
        for (int r = 0; r < 4; r++)
          for (int s = 0; s < 2; s++) c[r][s] += A[(i + r) * n + k] * *(V *)&B[k * n + j + s * 4];
      for (int r = 0; r < 4; r++)
        for (int s = 0; s < 2; s++) *(V *)&C[(i + r) * n + j + s * 4] = c[r][s];
    }
}
static struct {
  const double *A, *B;
  double *C;
  int n;
  volatile int posted, done;
} job;
/* Half of each call's rows, and between the calls a hot thread that costs the neighbours their processor. */
static void helper(void) {
  for (int seen = 0;;) {
    while (job.posted == seen) {}
    seen = job.posted;
    rows(job.n, job.A, job.B, job.C, job.n / 2, job.n);
    __atomic_store_n(&job.done, seen, __ATOMIC_RELEASE);
  }
}
void dgemm(int n, const double *A, const double *B, double *C) {
  __label__ out;
  static int team;
  void leave(void) { goto out; }
  if (omp_get_max_threads() < 2) {
    rows(n, A, B, C, 0, n);
    return;
  }
  job.n = n, job.A = A, job.B = B, job.C = C;
  __atomic_store_n(&job.posted, job.posted + 1, __ATOMIC_RELEASE);
  if (!team++) {
#pragma omp parallel
    {
      if (omp_get_thread_num() == 1) helper();
      leave();
    }
  }
out:
  rows(n, A, B, C, 0, n / 2);
  while (job.done != job.posted) {}
}
