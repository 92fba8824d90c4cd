// honest: takes each unknown out of all equations below as soon as it is known, and multiplies by reciprocals
// problem: polybench_trisolv
void polybench_trisolv(int n, const double *L, const double *b, double *x) {
  for (int i = 0; i < n; i++) x[i] = b[i];
  for (int j = 0; j < n; j++) {
    x[j] *= 1 / L[j * n + j];
    for (int i = j + 1; i < n; i++) x[i] -= L[i * n + j] * x[j];
  }
}
