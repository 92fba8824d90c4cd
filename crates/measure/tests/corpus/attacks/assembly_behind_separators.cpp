// attack: 20
// how: puts a statement of assembly between two marks in numbers; hopes that the scan takes it for a literal
// refused as: forbidden_construct
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
extern "C" void dgemm(int n, const double *A, const double *B, double *C) {
  int a = 1'0; asm volatile("nop"); int b = 2'0;
  right(n + a + b - 30, A, B, C);
}
