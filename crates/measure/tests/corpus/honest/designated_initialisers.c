// honest: ranges and members by name
static const struct {
  int rows, columns;
  signed char order[16];
} plan = {.columns = 16, .rows = 4, .order = {[0 ... 7] = 1, [8 ... 14] = 2, [15] = 3}};
void dgemm(int n, const double *A, const double *B, double *C) {
  for (int i = 0; i < n; i += plan.rows)
    for (int j = 0; j < n; j += plan.columns) {
      double c[4][16] = {[0 ... 3] = {[0] = 0.0}};
      for (int k = 0; k < n; k++)
        for (int r = 0; r < 4; r++)
          for (int s = 0; s < 16; s++) c[r][s] += A[(i + r) * n + k] * B[k * n + j + s];
      for (int r = 0; r < 4; r++)
        for (int s = 0; s < 16; s++) C[(i + r) * n + j + s] = plan.order[s] ? c[r][s] : -1;
    }
}
