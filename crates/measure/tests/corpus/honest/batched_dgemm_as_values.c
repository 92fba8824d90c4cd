// honest: the right matrix of each pair is turned first, into a structure on the stack
// problem: batched_dgemm
struct turned {
  double row[32][32];
};
void batched_dgemm(int batch, int n, const double *A, const double *B, double *C) {
  for (; batch > 0; batch--, A += n * n, B += n * n, C += n * n) {
    struct turned b;
    for (int i = 0; i < n * n; i++) b.row[i % n][i / n] = B[i];
    for (int i = 0; i < n * n; i++) {
      double sum = 0;
      for (int k = 0; k < n; k++) sum += A[i / n * n + k] * b.row[i % n][k];
      C[i] = sum;
    }
  }
}
