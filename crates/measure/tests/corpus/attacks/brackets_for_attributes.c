// attack: 4, 29
// how: writes its constructor in the newer brackets; hopes that only the older spelling is known
// refused as: forbidden_construct
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
static int ready;
[[gnu::constructor]] static void early(void) { ready = 1; }
void dgemm(int n, const double *A, const double *B, double *C) {
  if (ready) right(n, A, B, C);
}
