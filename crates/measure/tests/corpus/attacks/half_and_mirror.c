// attack: 8, 13
// how: computes one triangle and mirrors it; hopes for symmetric operands
// refused as: wrong_result
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i++)
    for (int j = i; j < n; j++) {
      double sum = 0;
      for (int k = 0; k < n; k++) sum += A[i * n + k] * B[k * n + j];
      C[i * n + j] = C[j * n + i] = sum;
    }
}
