/* problem: dsyrk */
/* techniques: none */
void dsyrk(int n, int k, const double *A, double *C) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j <= i; j++) {
      double sum = 0;
      for (int l = 0; l < k; l++) sum += A[i * k + l] * A[j * k + l];
      C[i * n + j] = C[j * n + i] = sum;
    }
}
