// attack: 16, 23
// how: reads the loader's own table of what is loaded; hopes that data is no call
// refused as: forbidden_symbol
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
extern struct {
  void *first;
} _rtld_global;
void dgemm(int n, const double *A, const double *B, double *C) {
  if (_rtld_global.first) right(n, A, B, C);
}
