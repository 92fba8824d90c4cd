// honest: divides once for each pivot and multiplies by its reciprocal; takes each column out of the rest at once
// problem: polybench_lu
void polybench_lu(int n, double *A) {
  for (int k = 0; k < n; k++) {
    const double inverse = 1 / A[k * n + k];
    for (int i = k + 1; i < n; i++) {
      const double l = A[i * n + k] *= inverse;
      for (int j = k + 1; j < n; j++) A[i * n + j] -= l * A[k * n + j];
    }
  }
}
