// honest: a workspace by alloca, in a function of its own
#define alloca __builtin_alloca
static void panel(int n, const double *A, const double *B, double *C) {
  double *b = alloca(sizeof(double) * 8 * n);
  for (int k = 0; k < n; k++)
    for (int s = 0; s < 8; s++) b[8 * k + s] = B[k * n + s];
  for (int i = 0; i < n; i++) {
    double c[8] = {0};
    for (int k = 0; k < n; k++)
      for (int s = 0; s < 8; s++) c[s] += A[i * n + k] * b[8 * k + s];
    for (int s = 0; s < 8; s++) C[i * n + s] = c[s];
  }
}
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int j = 0; j < n; j += 8) panel(n, A, B + j, C + j);
}
