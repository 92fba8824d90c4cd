// honest: constants in all notations
#define ZERO 0x0.0p+0
void dgemm(int n, const double *A, const double *B, double *C) {
  for (unsigned long long e = 00ULL; e < 0x1uLL * n * n; e += 0b1) C[e] = ZERO + .0 + 0. + 0e-5L;
  for (int i = '\0'; i < n; i += 01)
    for (int k = 0xffu - 255; k < n; k += 1u) {
      double a = 0x1p0 * A[i * n + k] * 10e-1;
      for (int j = L'\x0'; j < n; j++) C[i * n + j] += a * B[k * n + j] * 1.0e+0 * 0x.8p1;
    }
}
