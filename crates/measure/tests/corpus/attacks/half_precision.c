// attack: 10
// how: rounds the inputs to half precision; hopes that nothing overflows and nobody looks closely
// refused as: wrong_result | compile_error | forbidden_construct
// needs: x86_64
void dgemm(int n, const double *A, const double *B, double *C) {
  static float b[512 * 512], c[512];
  for (int i = 0; i < n * n; i++) b[i] = (float)(_Float16)B[i];
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < n; j++) c[j] = 0;
    for (int k = 0; k < n; k++) {
      float a = (float)(_Float16)A[i * n + k];
      for (int j = 0; j < n; j++) c[j] += a * b[k * n + j];
    }
    for (int j = 0; j < n; j++) C[i * n + j] = c[j];
  }
}
