// attack: 10
// how: multiplies in single precision and adds in double; hopes that sums are what is looked at
// refused as: wrong_result
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n * n; i++) C[i] = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++) {
      float a = (float)A[i * n + k];
      for (int j = 0; j < n; j++) C[i * n + j] += (double)(a * (float)B[k * n + j]);
    }
}
