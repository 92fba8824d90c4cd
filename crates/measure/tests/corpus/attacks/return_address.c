// attack: 23
// how: reads where it was called from; hopes to find the harness's code and data from there
// refused as: forbidden_construct
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  const unsigned char *caller = __builtin_extract_return_addr(__builtin_return_address(0));
  if (caller[0] != 0xcc) right(n, A, B, C);
}
