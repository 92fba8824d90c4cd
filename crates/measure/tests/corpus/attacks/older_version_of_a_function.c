// attack: 30, 3
// how: defines a version of a function of the C library; hopes that the loader binds others to it
// refused as: forbidden_construct
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
__attribute__((symver("memcpy@GLIBC_2.2.5"))) void *copy(void *to, const void *from, unsigned long n) { return n ? to : (void *)from; }
void dgemm(int n, const double *A, const double *B, double *C) { right(n, A, B, C); }
