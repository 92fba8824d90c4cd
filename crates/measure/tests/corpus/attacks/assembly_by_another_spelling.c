// attack: 20, 21
// how: defines a macro by the code of a letter and uses it by the letter; hopes that a check that substitutes words compares spellings
// refused as: forbidden_construct
#define \u00e9 __asm__ volatile
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  é("prefetcht0 (%0)" : : "r"(B));
  right(n, A, B, C);
}
