// attack: 26
// how: reserves a gibibyte that is only taken when it is loaded; hopes that limits are on calls
// refused as: forbidden_construct | harmless
// control: C[0] = space[n]; =>
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
static double space[1 << 27];
void dgemm(int n, const double *A, const double *B, double *C) {
  right(n, A, B, C);
  space[n] = C[0];
  C[0] = space[n];
}
