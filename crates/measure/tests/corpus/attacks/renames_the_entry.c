// attack: 30
// how: gives the entry another name by a macro; hopes that the text is what is checked
// refused as: missing_entry
#define dgemm dgemm_inner
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
void dgemm(int n, const double *A, const double *B, double *C) { right(n, A, B, C); }
