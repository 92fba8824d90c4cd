// honest: sums with more digits than asked for
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      long double sum = 0;
      for (int k = 0; k < n; k++) sum += (long double)A[i * n + k] * B[k * n + j];
      C[i * n + j] = (double)sum;
    }
}
