// attack: 26
// how: asks for 64 MiB of data for each thread; hopes that they count when they are touched only
// refused as: memory_limit
static _Thread_local double scratch[8 << 20];
void dgemm(int n, const double *A, const double *B, double *C) {
  scratch[n] = A[0];
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
  C[0] += scratch[n] * 0;
}
