// attack: 11, 30
// how: defines the function by which a sanitizer asks a program for its options; hopes to turn it off
// refused as: forbidden_construct
const char *__asan_default_options(void) { return "detect_stack_use_after_return=0:halt_on_error=0:exitcode=0"; }
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
  C[0] += 0 * A[n * n];
}
