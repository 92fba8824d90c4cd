// attack: 20
// how: binds variables to registers by name; hopes that no statement means no assembly
// refused as: forbidden_construct
void dgemm(int n, const double *A, const double *B, double *C) {
  register long call __asm__("rax") = 39;
  right_now: if (call < 0) goto right_now;
  for (int i = 0; i < n * n; i++) C[i] = A[i] * B[i] * call;
}
