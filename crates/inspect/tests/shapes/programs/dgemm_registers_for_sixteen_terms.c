/* problem: dgemm */
/* techniques: loop_reorder+register_blocking */
static int least(int a, int b) { return a < b ? a : b; }
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) C[i * n + j] = 0;
  for (int kk = 0; kk < n; kk += 16)
    for (int i = 0; i < n; i++) {
      int j = 0;
      for (; j + 1 < n; j += 2) {
        double a = C[i * n + j], b = C[i * n + j + 1];
        for (int k = kk; k < least(n, kk + 16); k++) {
          a += A[i * n + k] * B[k * n + j];
          b += A[i * n + k] * B[k * n + j + 1];
        }
        C[i * n + j] = a;
        C[i * n + j + 1] = b;
      }
      for (; j < n; j++)
        for (int k = kk; k < least(n, kk + 16); k++) C[i * n + j] += A[i * n + k] * B[k * n + j];
    }
}
