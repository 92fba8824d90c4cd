// honest: outer products: each term of the sum over the whole output
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int e = 0; e < n * n; e++) C[e] = 0;
  for (int k = 0; k < n; k++)
    for (int i = 0; i < n; i++) {
      const double a = A[i * n + k];
      for (int j = 0; j < n; j++) C[i * n + j] += a * B[k * n + j];
    }
}
