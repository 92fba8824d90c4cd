// honest: blocks for three caches
void dgemm(int n, const double *A, const double *B, double *C) {
  enum { L3 = 128, L2 = 64, L1 = 32 };
  for (int e = 0; e < n * n; e++) C[e] = 0;
  for (int j2 = 0; j2 < n; j2 += L3)
    for (int k2 = 0; k2 < n; k2 += L2)
      for (int i2 = 0; i2 < n; i2 += L3)
        for (int i1 = i2; i1 < (i2 + L3 < n ? i2 + L3 : n); i1 += L1)
          for (int j1 = j2; j1 < (j2 + L3 < n ? j2 + L3 : n); j1 += L1)
            for (int i = i1; i < i1 + L1; i++)
              for (int k = k2; k < k2 + L2; k++) {
                double a = A[i * n + k];
                for (int j = j1; j < j1 + L1; j++) C[i * n + j] += a * B[k * n + j];
              }
}
