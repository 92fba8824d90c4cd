// honest: four mebibytes of static memory
static double transposed[512 * 512], result[512 * 512];
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i0 = 0; i0 < n; i0 += 32)
    for (int k0 = 0; k0 < n; k0 += 32)
      for (int i = i0; i < i0 + 32; i++)
        for (int k = k0; k < k0 + 32; k++) transposed[k * n + i] = A[i * n + k];
  for (int e = 0; e < n * n; e++) result[e] = 0;
  for (int k = 0; k < n; k++)
    for (int i = 0; i < n; i++)
      for (int j = 0; j < n; j++) result[i * n + j] += transposed[k * n + i] * B[k * n + j];
  for (int e = 0; e < n * n; e++) C[e] = result[e];
}
