// honest: vectors of sixty-four bytes, whatever the machine has
typedef double vec __attribute__((vector_size(64), may_alias));
enum { ROWS = 8, LANES = sizeof(vec) / sizeof(double) };
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int j = 0; j < n; j += LANES)
    for (int i = 0; i < n; i += ROWS) {
      vec c[ROWS] = {};
      for (int k = 0; k < n; k++) {
        vec b = *(const vec *)&B[k * n + j];
        for (int r = 0; r < ROWS; r++) c[r] += A[(i + r) * n + k] * b;
      }
      for (int r = 0; r < ROWS; r++) *(vec *)&C[(i + r) * n + j] = c[r];
    }
}
