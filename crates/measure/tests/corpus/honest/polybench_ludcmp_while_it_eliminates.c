// honest: takes the right-hand side through the elimination as one more column, and substitutes by columns
// problem: polybench_ludcmp
void polybench_ludcmp(int n, double *A, const double *b, double *x) {
  for (int i = 0; i < n; i++) x[i] = b[i];
  for (int k = 0; k < n; k++) {
    const double inverse = 1 / A[k * n + k];
    for (int i = k + 1; i < n; i++) {
      const double l = A[i * n + k] *= inverse;
      for (int j = k + 1; j < n; j++) A[i * n + j] -= l * A[k * n + j];
      x[i] -= l * x[k];
    }
  }
  for (int k = n - 1; k >= 0; k--) {
    x[k] /= A[k * n + k];
    for (int i = 0; i < k; i++) x[i] -= A[i * n + k] * x[k];
  }
}
