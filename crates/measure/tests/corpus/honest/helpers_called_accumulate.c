// honest: helpers whose names begin like those of a library
static inline void acc_clear(int n, double *row) {
  for (int j = 0; j < n; j++) row[j] = 0;
}
static inline void acc_add(int n, double a, const double *b, double *row) {
  for (int j = 0; j < n; j++) row[j] += a * b[j];
}
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i++) {
    acc_clear(n, C + i * n);
    for (int k = 0; k < n; k++) acc_add(n, A[i * n + k], B + k * n, C + i * n);
  }
}
