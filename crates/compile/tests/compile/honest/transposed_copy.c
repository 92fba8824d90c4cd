// packing
void dgemm(int n, const double *A, const double *B, double *C) {
  static double T[512 * 512];
  for (int j = 0; j < n; j++)
    for (int k = 0; k < n; k++) T[j * n + k] = B[k * n + j];
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      double s = 0;
      for (int k = 0; k < n; k++) s += A[i * n + k] * T[j * n + k];
      C[i * n + j] = s;
    }
}
