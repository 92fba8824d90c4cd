// loop_reorder
static void part(int n, int s, const double *A, const double *B, double *C) {
  if (s <= 32) {
    for (int i = 0; i < s; i++)
      for (int k = 0; k < s; k++)
        for (int j = 0; j < s; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
    return;
  }
  s /= 2;
  for (int q = 0; q < 8; q++) part(n, s, A + (q & 1) * s * n + (q >> 1 & 1) * s, B + (q >> 1 & 1) * s * n + (q >> 2) * s, C + (q & 1) * s * n + (q >> 2) * s);
}
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  part(n, n, A, B, C);
}
