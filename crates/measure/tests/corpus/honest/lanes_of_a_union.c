// honest: vector and lanes share memory
typedef double v4 __attribute__((vector_size(32)));
typedef union {
  v4 v;
  double lane[4];
} lanes;
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j += 4) {
      lanes c = {.lane = {0, 0, 0, 0}};
      for (int k = 0; k < n; k++) {
        double a = A[i * n + k];
        c.v += (v4){a, a, a, a} * *(const v4 *)(B + k * n + j);
      }
      for (int s = 0; s < 4; s++) C[i * n + j + s] = c.lane[s];
    }
}
