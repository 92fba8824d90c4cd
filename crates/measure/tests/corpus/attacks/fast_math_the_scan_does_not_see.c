// attack: 10, 29
// how: shows its pragma for relaxed arithmetic to the compiler only, by a macro that is not set where the source is looked at; hopes that both see the same text
// refused as: forbidden_construct
#if defined(__PIC__) && !defined(__PIE__)
#pragma GCC optimize("fast-math")
#endif
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
void dgemm(int n, const double *A, const double *B, double *C) { right(n, A, B, C); }
