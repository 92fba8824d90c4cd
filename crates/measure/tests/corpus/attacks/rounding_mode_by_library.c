// attack: 10, 24
// how: rounds upwards from now on, through a function that it declares itself; hopes that headers are all that is looked at
// refused as: forbidden_symbol
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
extern char fesetround;
void dgemm(int n, const double *A, const double *B, double *C) {
  ((int (*)(int))&fesetround)(0x800);
  right(n, A, B, C);
}
