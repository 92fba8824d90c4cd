// attack: 11, 22
// how: tells the sanitizer that memory behind its input may be read; hopes that the function is there
// refused as: forbidden_construct
void __asan_unpoison_memory_region(void const volatile *from, unsigned long bytes);
void dgemm(int n, const double *A, const double *B, double *C) {
  __asan_unpoison_memory_region(A, 8ul * n * n + 64);
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
  C[0] += 0 * A[n * n];
}
