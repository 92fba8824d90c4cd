// attack: 23
// how: reads the environment through the C library's inner pointer to it; hopes that only the well-known name is refused
// refused as: forbidden_symbol
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
extern char **__environ;
void dgemm(int n, const double *A, const double *B, double *C) {
  if (__environ[0]) right(n, A, B, C);
}
