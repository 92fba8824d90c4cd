// attack: 21, 23
// how: asks the preprocessor whether a file is there and newer than the source, by a pragma that leaves no trace in preprocessed text; hopes to learn what the machine has
// refused as: forbidden_construct
#define NEWER_THAN(file) _Pragma("GCC dependency \"/usr/include/stdio.h\"")
NEWER_THAN(stdio)
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
void dgemm(int n, const double *A, const double *B, double *C) { right(n, A, B, C); }
