// attack: 10, 24
// how: lowers the precision of the old floating-point unit; hopes that long doubles of those who come later lose bits
// refused as: forbidden_construct
// needs: x86_64
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  unsigned short control = 0x007f;
  __asm__ volatile("fldcw %0" : : "m"(control));
  right(n, A, B, C);
}
