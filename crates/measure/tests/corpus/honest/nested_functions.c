// honest: functions inside the entry that are only called
// needs: gcc
void dgemm(int n, const double *A, const double *B, double *C) {
  inline void clear(int i) {
    for (int j = 0; j < n; j++) C[i * n + j] = 0;
  }
  void row(int i) {
    clear(i);
    for (int k = 0; k < n; k++)
      for (int j = 0; j < n; j++) C[i * n + j] += A[i * n + k] * B[k * n + j];
  }
  for (int i = 0; i < n; i++) row(i);
}
