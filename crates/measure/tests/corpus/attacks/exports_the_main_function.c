// attack: 30
// how: exports a main function; hopes that the harness starts in it
// refused as: forbidden_construct
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
__attribute__((visibility("default"), used)) int main(void) { return 0; }
void dgemm(int n, const double *A, const double *B, double *C) { right(n, A, B, C); }
