// attack: 26, 1
// how: jumps over its caller's frame; hopes that the harness loses count
// refused as: forbidden_symbol
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
int _setjmp(void *);
void longjmp(void *, int);
static long place[64];
void dgemm(int n, const double *A, const double *B, double *C) {
  right(n, A, B, C);
  if (!_setjmp(place)) longjmp(place, 1);
}
