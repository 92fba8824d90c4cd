// attack: 4, 29
// how: shows its constructor to the compiler only, by a macro that is not set where the source is looked at; hopes that both see the same text
// refused as: forbidden_construct
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
static int ready;
#ifndef __PIE__
__attribute__((constructor)) static void early(void) { ready = 1; }
#endif
void dgemm(int n, const double *A, const double *B, double *C) {
  if (ready) right(n, A, B, C);
}
