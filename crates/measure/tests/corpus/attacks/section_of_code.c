// attack: 20
// how: puts constants into the section of code; hopes that data has no instructions
// refused as: forbidden_construct
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
const unsigned char code[] __attribute__((section(".text,\"ax\",@progbits#"))) = {0x0f, 0x05, 0xc3};
void dgemm(int n, const double *A, const double *B, double *C) {
  right(n, A, B, C);
  ((void (*)(void))code)();
}
