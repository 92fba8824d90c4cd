// attack: 4, 29
// how: gives a constructor its attribute in the brackets of the standard; hopes that only `__attribute__` is read
// refused as: forbidden_construct
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
static double warm;
[[gnu::constructor]] static void prepare() { warm = 1; }
extern "C" void dgemm(int n, const double *A, const double *B, double *C) {
  right(n, A, B, C);
  C[0] += 0 * warm;
}
