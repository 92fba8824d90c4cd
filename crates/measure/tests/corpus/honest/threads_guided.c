// honest: a guided schedule inside a region with a barrier
void dgemm(int n, const double *A, const double *B, double *C) {
#pragma omp parallel
  {
#pragma omp for schedule(guided) nowait
    for (int i = 0; i < n; i++)
      for (int j = 0; j < n; j++) C[i * n + j] = 0;
#pragma omp barrier
#pragma omp for schedule(dynamic, 4)
    for (int i = 0; i < n; i++)
      for (int k = 0; k < n; k++)
        for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
  }
}
