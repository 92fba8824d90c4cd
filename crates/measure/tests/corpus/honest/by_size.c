// honest: a kernel for one size, written out, and a general one for the others
static inline __attribute__((always_inline)) void any(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i++) {
    double row[512] = {0};
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) row[j] += A[i * n + k] * B[k * n + j];
    for (int j = 0; j < n; j++) C[i * n + j] = row[j];
  }
}
void dgemm(int n, const double *A, const double *B, double *C) {
  switch (n) {
    case 64: any(64, A, B, C); return;
    case 128: any(128, A, B, C); return;
    case 256: any(256, A, B, C); return;
    default: any(n, A, B, C);
  }
}
