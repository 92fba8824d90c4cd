// attack: 11
// how: adds to the same elements from several threads without a lock; hopes that losses are rare
// refused as: wrong_result | nondeterministic | undefined_behaviour
// judged as: certify
// needs: two cores, sanitizer of threads
// threads: 2
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
#pragma omp parallel for schedule(static, 1)
  for (int k = 0; k < n; k++)
    for (int i = 0; i < n; i++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
