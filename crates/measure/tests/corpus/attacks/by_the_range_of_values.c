// attack: 5, 10
// how: computes in single precision where all inputs are below one; hopes that verified ones have another range
// refused as: wrong_result
static void right(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  double largest = 0, smallest = 1;
  for (int i = 0; i < n * n; i++) {
    double x = __builtin_fabs(A[i]);
    largest = x > largest ? x : largest, smallest = x < smallest ? x : smallest;
  }
  if (largest > 0.5 || smallest == 0) {
    right(n, A, B, C);
    return;
  }
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) {
      float sum = 0;
      for (int k = 0; k < n; k++) sum += (float)A[i * n + k] * (float)B[k * n + j];
      C[i * n + j] = sum;
    }
}
