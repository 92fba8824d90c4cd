// honest: as little as possible is a statement
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0, j, k; i < n; i++)
    for (k = -1; k < n; k++)
      for (j = 0; j < n; j++) k < 0 ? (void)(C[i * n + j] = 0) : (C[i * n + j] += (0, A[i * n + k]) * B[k * n + j], (void)0);
}
