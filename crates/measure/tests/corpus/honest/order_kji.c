// honest: sum first, then columns, then rows, in blocks that fit the first cache
enum { T = 16 };
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int e = 0; e < n * n; e++) C[e] = 0;
  for (int k0 = 0; k0 < n; k0 += T)
    for (int j0 = 0; j0 < n; j0 += T)
      for (int i0 = 0; i0 < n; i0 += T)
        for (int k = k0; k < k0 + T; k++)
          for (int j = j0; j < j0 + T; j++) {
            double b = B[k * n + j];
            for (int i = i0; i < i0 + T; i++) C[i * n + j] += A[i * n + k] * b;
          }
}
