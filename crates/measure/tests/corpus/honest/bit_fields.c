// honest: loop state in bit fields
struct state {
  unsigned row : 10, column : 10, last : 1, : 0;
  signed step : 6;
};
void dgemm(int n, const double *A, const double *B, double *C) {
  struct state s = {.step = 1};
  for (s.row = 0; s.row < (unsigned)n; s.row += s.step) {
    double *c = C + s.row * n;
    for (s.column = 0; s.column < (unsigned)n; s.column++) c[s.column] = 0;
    s.last = s.row + 1u == (unsigned)n;
    for (int k = 0; k < n; k++) {
      double a = A[s.row * n + k];
      for (int j = 0; j < n; j++) c[j] += a * B[k * n + j];
    }
    if (s.last) break;
  }
}
