// honest: adds the weighted matrices up row by row on the way, so that there is one product
// problem: polybench_gesummv
void polybench_gesummv(int n, double alpha, double beta, const double *A, const double *B, const double *x, double *y) {
  for (int i = 0; i < n; i++) {
    double sum[3] = {0};
    for (int j = 0; j < n; j++) sum[j % 3] += (alpha * A[i * n + j] + beta * B[i * n + j]) * x[j];
    y[i] = sum[0] + sum[1] + sum[2];
  }
}
