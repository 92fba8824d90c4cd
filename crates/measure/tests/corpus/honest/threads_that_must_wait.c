// honest: a named critical section and a single one, around things that matter little
#include <omp.h>
void dgemm(int n, const double *A, const double *B, double *C) {
  int rows = 0, done = 0;
#pragma omp parallel
  {
#pragma omp single
    rows = n;
    int mine = 0;
#pragma omp for
    for (int i = 0; i < rows; i++) {
      for (int j = 0; j < n; j++) C[i * n + j] = 0;
      for (int k = 0; k < n; k++)
        for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
      mine++;
    }
#pragma omp critical(count)
    done += mine;
  }
  if (done != n || omp_in_parallel()) C[0] = -1;
}
