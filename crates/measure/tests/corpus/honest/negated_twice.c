// honest: subtracts the negated operand
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int e = 0; e < n * n; e++) C[e] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++) {
      double minus = -A[i * n + k];
      for (int j = 0; j < n; j++) C[i * n + j] -= minus * B[k * n + j];
    }
}
