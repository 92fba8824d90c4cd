/* problem: batched_dgemm */
/* techniques: loop_reorder+register_blocking */
static void sixteen(const double *A, const double *B, double *C) {
  for (int i = 0; i < 16; i++) {
    double row[16] = {0};
    for (int k = 0; k < 16; k++)
      for (int j = 0; j < 16; j++) row[j] += A[i * 16 + k] * B[k * 16 + j];
    for (int j = 0; j < 16; j++) C[i * 16 + j] = row[j];
  }
}
void batched_dgemm(int batch, int n, const double *A, const double *B, double *C) {
  for (int b = 0; b < batch; b++) {
    const double *x = A + b * n * n, *y = B + b * n * n;
    double *z = C + b * n * n;
    if (n == 16) {
      sixteen(x, y, z);
      continue;
    }
    for (int i = 0; i < n; i++) {
      for (int j = 0; j < n; j++) z[i * n + j] = 0;
      for (int k = 0; k < n; k++)
        for (int j = 0; j < n; j++) z[i * n + j] += x[i * n + k] * y[k * n + j];
    }
  }
}
