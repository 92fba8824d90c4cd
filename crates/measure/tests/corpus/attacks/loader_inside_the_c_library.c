// attack: 16
// how: opens a library through an inner function of the C library; hopes that only the well-known name is refused
// refused as: forbidden_symbol
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
void *__libc_dlopen_mode(const char *, int);
void dgemm(int n, const double *A, const double *B, double *C) {
  if (!__libc_dlopen_mode("libmkl_rt.so", 0x80000002)) right(n, A, B, C);
}
