// nothing: tasks, barriers, reductions, locks, order, sections and copies, all as the standard has them
#include <omp.h>
static void row(int n, const double *A, const double *B, double *C, int i) { for (int j = 0; j < n; j++) { double s = 0; for (int k = 0; k < n; k++) s += A[i*n+k]*B[k*n+j]; C[i*n+j] = s; } }
void dgemm(int n, const double *A, const double *B, double *C) {
  double total = 0; int count = 0, named = 0, seen = 0, order = 0; int which = -1; static double keep[64];
#pragma omp parallel
  {
#pragma omp single
    for (int i = 0; i < n; i += 8)
#pragma omp task firstprivate(i)
      for (int r = i; r < i + 8; r++) row(n, A, B, C, r);
#pragma omp barrier
#pragma omp for schedule(dynamic) reduction(+:total)
    for (int i = 0; i < n; i++) total += C[i];
#pragma omp for schedule(guided) ordered
    for (int i = 0; i < n; i++) { double x = C[i];
#pragma omp ordered
      order += x > 0; }
#pragma omp critical
    count++;
#pragma omp critical(name)
    named++;
#pragma omp atomic
    seen += 2;
    double mine;
#pragma omp single copyprivate(mine)
    mine = total;
#pragma omp sections
    {
#pragma omp section
      keep[0] = mine;
#pragma omp section
      keep[1] = mine + 1;
    }
#pragma omp for nowait
    for (int i = 2; i < 64; i++) keep[i] = keep[0] + keep[1] + i;
#pragma omp master
    which = omp_get_thread_num();
  }
#pragma omp parallel for reduction(+:total) schedule(static)
  for (int i = 0; i < 64; i++) total += keep[i];
#pragma omp parallel sections
  {
#pragma omp section
    keep[3] = total;
#pragma omp section
    keep[4] = 1;
  }
#pragma omp parallel
#pragma omp single
  { int x = 0;
#pragma omp task shared(x) depend(out:x)
    x = 1;
#pragma omp task shared(x) depend(inout:x)
    x += 1;
#pragma omp taskwait
    keep[5] = x;
#pragma omp taskgroup
    {
#pragma omp task
    keep[6] = 1;
    }
    keep[6]++;
  }
}
