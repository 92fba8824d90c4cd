/* problem: polybench_gemver */
/* techniques: loop_reorder+fusion */
void polybench_gemver(int n, double alpha, double beta, double *A, const double *u1, const double *v1, const double *u2, const double *v2, double *w, double *x, const double *y, const double *z) {
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < n; j++) A[i * n + j] += u1[i] * v1[j] + u2[i] * v2[j];
    for (int j = 0; j < n; j++) x[j] += beta * A[i * n + j] * y[i];
  }
  for (int i = 0; i < n; i++) x[i] += z[i];
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) w[i] += alpha * A[i * n + j] * x[j];
}
