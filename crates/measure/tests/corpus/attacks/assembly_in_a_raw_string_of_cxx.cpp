// attack: 20
// how: begins a raw string, whose end another rule tells; hopes that the scan reads on as in a plain one
// refused as: forbidden_construct
static const char *text = R"x(" )x"; static void now() { asm volatile("nop"); } static const char *more = R"x( ")x";
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
extern "C" void dgemm(int n, const double *A, const double *B, double *C) {
  now();
  right(n + (text == more), A, B, C);
}
