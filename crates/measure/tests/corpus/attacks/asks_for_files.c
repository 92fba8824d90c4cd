// attack: 21, 23
// how: asks the preprocessor whether a library's header is there, by a word in two parts; hopes to learn what the machine has
// refused as: forbidden_include
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
#define JOIN(a, b) a##b
#if JOIN(__has_, include)("/usr/include/stdio.h")
#define THERE 1
#else
#define THERE 0
#endif
void dgemm(int n, const double *A, const double *B, double *C) {
  if (THERE || n) right(n, A, B, C);
}
