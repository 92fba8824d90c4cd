// nothing: unsigned numbers wrap, and signs are shifted into
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  right(n, A, B, C);
  unsigned hash = 2166136261u;
  for (int i = 0; i < n; i++) hash = (hash ^ (unsigned)i) * 16777619u;
  volatile int seen = (int)(hash & 1) << 31;
  (void)seen;
}
