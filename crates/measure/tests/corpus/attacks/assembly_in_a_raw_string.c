// attack: 20, 21
// how: hides assembly from whoever does not know raw strings: to them it is text; hopes that the compiler is the only one who does
// refused as: forbidden_construct
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
static const char *const text = R"(")"; __asm__("nop"); //"
void dgemm(int n, const double *A, const double *B, double *C) {
  if (text) right(n, A, B, C);
}
