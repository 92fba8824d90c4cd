// attack: 11
// how: threads that get their rows from a loop of tasks count into one number; hopes that a check that knows no such loops leaves it alone
// refused as: unchecked
// judged as: certify
// needs: two cores, sanitizer of threads
// threads: 2
static int counted;
void dgemm(int n, const double *A, const double *B, double *C) {
#pragma omp parallel
#pragma omp single
#pragma omp taskloop
  for (int i = 0; i < n; i++) {
    counted++;
    for (int j = 0; j < n; j++) C[i * n + j] = 0;
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
  }
}
